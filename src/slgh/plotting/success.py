"""Figure of the success of an attack: over the queries, and over the distance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slgh.attack.robustness import SuccessCurves
from slgh.plotting.images import NORM_SYMBOLS
from slgh.plotting.style import COLORS, new_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


MAX_TICKS = 6
"""Maximum number of ticks of the axis of queries."""


@style()
def success_figure(curves: SuccessCurves, *, title: str | None = None) -> Figure:
    """Draw the share of images that are fooled over the queries, and over the distance of the final images.

    With `eps`, the left curve counts images within that distance, and a line in the right one marks it.
    """
    figure = new_figure(2.8)
    left, right = figure.subplots(1, 2)
    queries = np.concatenate([[1], curves.queries])
    _steps(left, queries, np.concatenate([[0.0], curves.success_by_queries()]))
    left.set(xlabel="queries per image", ylabel="success in %", xscale="log")
    first, last = max(1, int(curves.queries[0]) // 2), max(2, int(curves.queries[-1]))
    ticks = round_numbers(first, last)
    left.set_xticks(ticks, labels=[f"{n:,}" for n in ticks])
    left.minorticks_off()
    left.set_xlim(first, last)
    distances, shares = curves.success_by_distance()
    end = 1.05 * max([*distances, curves.eps or 0.0]) or 1.0
    final = shares[-1] if shares.size else 0.0
    _steps(right, np.concatenate([[0.0], distances, [end]]), np.concatenate([[0.0], shares, [final]]))
    right.set(xlabel=f"{NORM_SYMBOLS[curves.norm]} distance, pixels in a range of width 1", xlim=(0, end))
    if curves.eps is not None:
        right.axvline(curves.eps, color=COLORS[1], linestyle="--", linewidth=1)
        place: dict[str, Any] = {
            "textcoords": "offset points",
            "rotation": 90,
            "ha": "right",
            "va": "top",
            "fontsize": 7,
        }
        right.annotate("eps", (curves.eps, 100), xytext=(-2, 0), color=COLORS[1], **place)
    if title is not None:
        figure.suptitle(title)
    return figure


def round_numbers(first: int, last: int) -> list[int]:
    """Return numbers for the ticks of a logarithmic axis: 1, 2, 5, 10, ..., or powers of ten if these are too many.

    >>> round_numbers(8, 150), round_numbers(8, 20_000)
    ([10, 20, 50, 100], [10, 100, 1000, 10000])
    """
    decades = [10**k for k in range(len(str(last)))]
    fine = [n for decade in decades for n in (decade, 2 * decade, 5 * decade) if first <= n <= last]
    return fine if len(fine) <= MAX_TICKS else [n for n in decades if first <= n <= last]


def _steps(ax: Axes, x: NDArray[Any], shares: NDArray[Any]) -> None:
    ax.step(x, 100 * shares, where="post", color=COLORS[0])
    ax.set_ylim(0, 103)
