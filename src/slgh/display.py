"""Short text and HTML forms of the results: one row per entry, large arrays abbreviated."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from html import escape
from statistics import median
from typing import Any

WIDTH = 80
"""Columns of the text form. A long entry continues on the next line."""

EDGE = 3
"""Numbers shown at each end of an abbreviated array."""


def as_text(title: str, rows: Mapping[str, str]) -> str:
    """Return a line with the title, and one for each row."""
    indent = max(map(len, rows), default=0) + 4
    lines = [f"{title}:" if rows else f"{title}()"]
    for name, value in rows.items():
        # A label may be as wide as the page: leave some columns for its value in any case.
        wrapped = textwrap.wrap(value, max(WIDTH - indent, 20), break_on_hyphens=False) or [""]
        lines += [f"{name:>{indent - 2}}: {wrapped[0]}", *(" " * indent + line for line in wrapped[1:])]
    return "\n".join(lines)


def as_html(title: str, rows: Mapping[str, str]) -> str:
    """Return a table with one row per entry, in the colors of the notebook."""
    cells = "".join(
        f'<tr><th style="text-align: right">{escape(name)}</th><td style="text-align: left">{escape(value)}</td></tr>'
        for name, value in rows.items()
    )
    return f"<table><caption><b>{escape(title)}</b></caption>{cells}</table>"


def grid_html(columns: Mapping[str, Sequence[str]], bold: int | None) -> str:
    """Return a table with the given columns, and one row in bold."""
    heading = "".join(f"<th>{escape(name)}</th>" for name in columns)
    lines = [f"<tr>{heading}</tr>"]
    for i, row in enumerate(zip(*columns.values(), strict=True)):
        style = ' style="font-weight: bold"' if i == bold else ""
        lines.append(f"<tr{style}>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>")
    return f"<table>{''.join(lines)}</table>"


def scalar(value: Any) -> str:
    """Format a number to six digits, an Enum by its name, and anything else as it prints."""
    if isinstance(value, Enum):
        return value.name
    number = value.item() if getattr(value, "ndim", None) == 0 else value
    return f"{number:.6g}" if isinstance(number, float) else str(number)


def vector(values: Any) -> str:
    """Format an array (d,) of any library. Only the shown numbers leave its device."""
    d = values.shape[0]
    if d <= 2 * EDGE:
        return f"[{', '.join(_short(values))}]"
    return f"[{', '.join([*_short(values[:EDGE]), '...', *_short(values[d - EDGE :])])}] ({d:,} numbers)"


def tree(values: Any) -> str:
    """Format a tree of values in one line, floats with six digits."""
    if isinstance(values, Mapping):
        return f"{{{', '.join(f'{key}: {tree(value)}' for key, value in values.items())}}}"
    if isinstance(values, list | tuple):
        return f"[{', '.join(map(tree, values))}]"
    if getattr(values, "ndim", 0) == 1:
        return vector(values)
    if getattr(values, "ndim", 0) > 1:
        return f"array of shape {tuple(values.shape)}"
    return scalar(values)


def spread(values: Any) -> str:
    """Summarize an array (B,) of any library by its range and its median. NaN is counted apart."""
    known = sorted(value for value in values.tolist() if not math.isnan(value))
    parts = [f"{len(values) - len(known)} NaN"] if len(known) < len(values) else []
    if known:
        low, high = scalar(known[0]), scalar(known[-1])
        if low != high:
            parts = [f"{low} to {high}", f"median {scalar(median(known))}", *parts]
        else:
            parts = [f"{low} each" if len(known) > 1 else low, *parts]
    return ", ".join(parts)


def counts(names: Iterable[str]) -> str:
    """Return how often each name occurs, as "4 COMPLETED, 2 MAX_EVALS"."""
    return ", ".join(f"{n} {name}" for name, n in Counter(names).items())


def _short(values: Any) -> list[str]:
    """Return four digits of each number."""
    return [f"{value:.4g}" for value in values.tolist()]
