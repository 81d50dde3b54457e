"""Heat map: a row for each oracle and schedule, a column for each update, a panel for each field."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ablation_study.axes import UPDATES, Composition, compositions
from ablation_study.scores import Scores

ROWS = list(dict.fromkeys((c.oracle, c.schedule) for c in compositions()))
SENSIBLE = set(compositions())


def draw(bbob: Scores, attack: Scores, file: Path, *, titles: tuple[str, str]) -> None:
    """Draw the fields that have records."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError('The heat map needs matplotlib. Run pip install "slgh[plot]".') from None

    figure = Figure(figsize=(15, 11), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    gaps = {c: bbob.beyond_median(c) for c in bbob.of}
    paint(left, gaps, lambda c: f"{gaps[c]:+.2f}", title=titles[0])
    losses = {c: attack.mean(c) for c in attack.of}
    middle = np.log(attack.median) if losses else 0.0
    paint(
        right,
        {c: float(np.log(max(loss, 1e-9)) - middle) for c, loss in losses.items()},
        lambda c: f"{100 * attack.success[c]:.0f}% {losses[c]:.3g}",
        title=titles[1],
    )
    label_rows(left)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=110, metadata={"Software": None})


def paint(axis: Any, of: dict[Composition, float], text: Callable[[Composition], str], *, title: str) -> None:
    """Draw one panel. Blue is below 0 (better than the median), red above.

    Gray marks a composition that makes no sense, white without a number one that was not run. The best is bold. The
    color scale ends such that only the twentieth farthest from the median exceeds it.
    """
    from matplotlib import colormaps
    from matplotlib.colors import Normalize

    reach = max(float(np.quantile(np.abs(list(of.values())), 0.95)), 1e-3) if of else 1.0
    colors, norm = colormaps["RdBu_r"], Normalize(-reach, reach, clip=True)

    def found(o: str, s: str, u: str) -> float:
        return of.get(Composition(oracle=o, schedule=s, update=u), np.nan)

    table = np.array([[found(o, s, u) for u in UPDATES] for o, s in ROWS])
    axis.imshow(np.ma.masked_invalid(table), cmap=colors, norm=norm, aspect="auto")
    best = min(of, key=of.__getitem__) if of else None
    for y, (o, s) in enumerate(ROWS):
        for x, u in enumerate(UPDATES):
            c = Composition(oracle=o, schedule=s, update=u)
            if c in of:
                red, green, blue, _ = colors(norm(of[c]))
                dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
                shown = {"color": "white" if dark else "black", "weight": "bold" if c == best else "normal"}
                axis.text(x, y, text(c), ha="center", va="center", fontsize=8, **shown)
            elif c not in SENSIBLE:
                axis.fill_between([x - 0.5, x + 0.5], y - 0.5, y + 0.5, color="0.85", linewidth=0)
    oracles = [o for o, _ in ROWS]
    for y in range(1, len(ROWS)):
        if oracles[y] != oracles[y - 1]:
            axis.axhline(y - 0.5, color="black", linewidth=1.2)
    axis.set_xticks(range(len(UPDATES)), UPDATES)
    axis.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False, length=0)
    axis.set_title(title, fontsize=11, pad=10)


def label_rows(axis: Any) -> None:
    """Label the rows with schedules, and the groups of rows with oracles."""
    axis.set_yticks(range(len(ROWS)), [s for _, s in ROWS])
    oracles = [o for o, _ in ROWS]
    for oracle in dict.fromkeys(oracles):
        ys = [y for y, o in enumerate(oracles) if o == oracle]
        axis.text(
            -0.16, np.mean(ys), oracle, transform=axis.get_yaxis_transform(), rotation=90, va="center", ha="right"
        )
