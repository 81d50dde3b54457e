"""Draw two figures from the records: ECDFs of targets, and mean ranks with critical differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from coco_study.cells import Column
from coco_study.statistics import ecdf, rank
from coco_study.suites import is_multimodal
from slgh.plotting.style import looks

FIGURES = {
    "coco_ecdf.png": "Share of COCO's targets reached on the test functions, by number of evaluations.",
    "coco_ranks.png": "Mean ranks on the test functions (dots: all, rings: multimodal). Gray: CD from the best method.",
}
"""File names and captions."""


def draw(columns: Sequence[Column], folder: Path) -> dict[str, str]:
    """Write both figures, and return their captions."""
    if not columns:
        return {}
    try:
        import matplotlib
    except ImportError:
        raise ImportError('Figures need matplotlib. Run pip install "slgh[plot]", or pass --no-figures.') from None
    matplotlib.use("Agg")
    style = styles(list(columns[0].chosen))
    for name, paint in zip(FIGURES, (paint_ecdf, paint_ranks), strict=True):
        figure, axes = panels(len(columns), height=2.6 if paint is paint_ecdf else 2.9)
        for column, axis in zip(columns, axes, strict=False):
            paint(axis, column, style)
        for axis in axes[len(columns) :]:
            axis.set_visible(False)
        if paint is paint_ecdf:
            lines = {line.get_label(): line for axis in axes[: len(columns)] for line in axis.lines}
            handles = [lines[name] for name in style if name in lines]
            figure.legend(handles=handles, loc="outside lower center", ncols=6, frameon=False)
        figure.savefig(folder / name, dpi=120, metadata={"Software": None})
    return FIGURES


def styles(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the line style of each method: its color in all figures, with a thick line for slgh."""
    found = {}
    for name, (color, _) in zip(names, looks(names), strict=True):
        own = name.startswith("slgh")
        found[name] = {"color": color, "linewidth": 2.8 if own else 1.3, "zorder": 3 if own else 2}
    return found


def panels(number: int, *, height: float) -> tuple[Any, list[Any]]:
    """Create axes in rows of three."""
    from matplotlib.figure import Figure

    rows = math.ceil(number / 3)
    figure = Figure(figsize=(11, height * rows + 0.6), layout="constrained")
    return figure, list(figure.subplots(rows, 3, squeeze=False).flat)


def paint_ecdf(axis: Any, column: Column, style: dict[str, dict[str, Any]]) -> None:
    """Plot the share of targets reached on the test functions against evaluations."""
    evaluations = np.geomspace(1, column.budget, 200)
    for name in column.methods:
        axis.plot(
            evaluations / column.d, ecdf(column.runs, name, column.places, evaluations), label=name, **style[name]
        )
    axis.set(xscale="log", xlim=(1 / column.d, column.times), ylim=(0, None), title=column.title)
    axis.set_xlabel("evaluations / d")
    axis.set_ylabel("targets reached")
    axis.grid(alpha=0.25)


def paint_ranks(axis: Any, column: Column, style: dict[str, dict[str, Any]]) -> None:
    """Plot mean ranks over all test functions (dots) and the multimodal ones (rings), and a bar of CD from the best."""
    found = rank(column.runs, column.methods, column.places, column.budget)
    rugged = [place for place in column.places if is_multimodal(place.f)]
    on_rugged = rank(column.runs, column.methods, rugged, column.budget)
    names = sorted(column.methods, key=lambda name: -found.ranks[name])
    for y, name in enumerate(names):
        axis.plot(found.ranks[name], y, "o", color=style[name]["color"])
        axis.plot(on_rugged.ranks[name], y, "o", color=style[name]["color"], markerfacecolor="none")
    axis.axvspan(found.best, found.best + found.critical_difference, color="0.9", zorder=0)
    axis.set_yticks(range(len(names)), names)
    axis.set(xlim=(0.5, len(names) + 0.5), title=column.title, xlabel="mean rank")
