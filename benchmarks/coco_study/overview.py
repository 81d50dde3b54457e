"""Draw the benchmark picture of the README: mean ranks of all methods on two groups of functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from coco_study.cells import Column
from coco_study.statistics import rank
from coco_study.suites import is_multimodal
from slgh.plotting.style import ink, method_color, new_figure, style

NAMES = {
    "slgh": "slgh (auto)",
    "cobyqa": "COBYQA (SciPy)",
    "cma": "CMA-ES",
    "cma-bipop": "BIPOP-CMA-ES",
    "cma-diagonal": "diagonal CMA-ES",
    "de": "differential evolution",
    "dual-annealing": "dual annealing",
    "lbfgsb": "L-BFGS-B",
    "nevergrad": "NGOpt4 (nevergrad)",
    "open-es": "OpenES",
    "paper": "ZOSLGH_r (paper)",
    "random-search": "random search",
}
"""Names of the methods in the picture."""

PANELS = {"Many local minima": True, "Other functions": False}
"""Titles of the panels, and whether they are about COCO's multimodal functions."""


def draw(columns: Sequence[Column], folder: Path) -> list[Path]:
    """Write coco_overview.png and its dark variant, and return them. Noisy functions are left out."""
    shown = [column for column in columns if column.suite != "bbob-noisy"]
    if not shown:
        return []
    files = []
    for dark in (False, True):
        with style(dark=dark):
            figure = paint(shown)
            files.append(folder / f"coco_overview{'_dark' * dark}.png")
            figure.savefig(files[-1], dpi=150, metadata={"Software": None})
    return files


def mean_ranks(columns: Sequence[Column], *, multimodal: bool) -> dict[str, tuple[float, float, float]]:
    """Return the mean of each method's mean ranks over the columns where it ran, with the least and the largest."""
    found: dict[str, list[float]] = {}
    for column in columns:
        functions = tuple(f for f in column.functions if is_multimodal(f) is multimodal)
        part = replace(column, functions=functions)
        ranks = rank(part.runs, part.methods, part.places, part.budget).ranks
        for name in column.methods:
            found.setdefault(name, []).append(ranks[name])
    return {name: (float(np.mean(ranks)), min(ranks), max(ranks)) for name, ranks in found.items()}


def paint(columns: Sequence[Column]) -> Any:
    """Draw one dot per method and panel, with a line from its best to its worst mean rank."""
    figure = new_figure(3.7, 8.0)
    axes = figure.subplots(1, len(PANELS), sharey=True)
    ranks = [mean_ranks(columns, multimodal=kind) for kind in PANELS.values()]
    order = sorted(ranks[0], key=lambda name: -np.mean([of[name][0] for of in ranks]))
    for ax, (title, kind), of in zip(axes, PANELS.items(), ranks, strict=True):
        best = min(of, key=lambda name: of[name][0])
        for y, name in enumerate(order):
            mean, low, high = of[name]
            color = method_color(name) or ink()
            ax.plot([low, high], [y, y], color=color, linewidth=3, alpha=0.35, solid_capstyle="round")
            ax.plot(mean, y, "o", color=color, markersize=9)
            weight = "bold" if name == best else "normal"
            ax.annotate(f"{mean:.1f}", (high, y), (8, 0), textcoords="offset points", va="center", weight=weight)
        functions = sum(is_multimodal(f) is kind for f in columns[0].functions)
        groups = "f15 to f24" if kind else "f1 to f14"
        ax.set_title(f"{title}\n{functions} test functions of {groups}")
        ax.set(xlim=(0.6, len(order) + 1.4), xticks=range(1, len(order) + 1))
        ax.set_xlabel("mean rank (1 is best)\n\u2190 better")
        ax.grid(axis="x", alpha=0.25)
    axes[0].set_yticks(range(len(order)), [NAMES.get(name, name) for name in order])
    for label in axes[0].get_yticklabels():
        label.set_weight("bold" if label.get_text().startswith("slgh") else "normal")
    variables = sorted({column.d for column in columns})
    times = sorted({column.times for column in columns})
    figure.suptitle(
        f"COCO benchmark, {variables[0]} to {variables[-1]} variables, "
        f"{times[0]} to {times[-1]:,} evaluations per variable",
        weight="bold",
    )
    fewer = {name: n for name in order if (n := sum(name in column.methods for column in columns)) < len(columns)}
    listed = ", ".join(f"{NAMES.get(name, name)} {n}" for name, n in fewer.items())
    but = f"\n({listed})" if fewer else ""
    note = (
        f"Lines: best to worst setting. Dots: mean over {len(columns)} settings, or those in which a method ran{but}."
    )
    figure.supxlabel(note, fontsize=8)
    return figure
