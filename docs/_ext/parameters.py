"""Add types and defaults to the parameters of docstrings, from the signature, so that they cannot disagree."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

from sphinx.application import Sphinx


def annotate(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Extend the line `a, b` of a section Parameters to `a, b : type, default value`. Napoleon reads it afterwards."""
    if what not in ("class", "function", "method") or "Parameters" not in lines:
        return
    try:
        parameters = inspect.signature(obj).parameters
    except (TypeError, ValueError):
        return
    start = lines.index("Parameters") + 2
    for k, line in enumerate(lines[start:], start):
        if line.startswith("---"):  # the next section
            break
        names = [part.strip() for part in line.split(",")]
        if all(part in parameters for part in names) and (words := described(parameters[part] for part in names)):
            lines[k] = f"{line} : {words}"


def described(parameters: Iterable[inspect.Parameter]) -> str:
    """Return types and defaults in words. `Any` is left out: the text says more."""
    together = list(parameters)
    types = dict.fromkeys(str(each.annotation) for each in together)
    defaults = dict.fromkeys(repr(each.default) for each in together if each.default is not each.empty)
    words = [kind for kind in types if kind not in ("Any", str(inspect.Parameter.empty))]
    return ", ".join([*words, *([f"default {' and '.join(defaults)}"] if defaults else [])])


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("autodoc-process-docstring", annotate, priority=300)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
