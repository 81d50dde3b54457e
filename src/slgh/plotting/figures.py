"""Parts of figures: f and t over the iterations, contours of a function of two variables."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slgh.plotting.explorer import Box, Function
from slgh.plotting.style import COLORS, DASHES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BAND = (0.025, 0.975)
"""Quantiles over seeds between which the band is drawn."""


def at_each_point(fun: Callable[[NDArray[Any]], Any]) -> Function:
    """Vectorize a function of one point (d,) by a loop over the points (..., d)."""
    return lambda x: np.apply_along_axis(lambda point: float(np.squeeze(fun(point))), -1, x)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunCurves:
    """f and t over the iterations of a method: (k,), and (k, S) for S seeds."""

    label: str
    iteration: NDArray[Any]
    fun: NDArray[Any]
    t: NDArray[Any]


def draw_runs(left: Axes, right: Axes, runs: Sequence[RunCurves]) -> None:
    """Draw f on the left axes and t on the right ones: of several seeds the median and a band between quantiles."""
    for run, color, dash in zip(runs, COLORS, DASHES, strict=False):
        for ax, values in ((left, run.fun), (right, run.t)):
            low, middle, high = np.quantile(values, (BAND[0], 0.5, BAND[1]), axis=-1)
            ax.plot(run.iteration, middle, color=color, linestyle=dash, label=typeset(run.label))
            if values.shape[-1] > 1:
                ax.fill_between(run.iteration, low, high, color=color, alpha=0.15, linewidth=0)
    left.set(xlabel="iteration $k$", ylabel="$f(x_k)$")
    right.set(xlabel="iteration $k$", ylabel="$t_k$")


def grid(box: Box, points: int) -> list[NDArray[Any]]:
    """Return the coordinates of a grid over a box of two variables, as from `numpy.meshgrid`."""
    return list(np.meshgrid(*(np.linspace(low, high, points) for low, high in box)))


def contours(ax: Axes, fun: Function, box: Box, *, points: int = 200, levels: int = 16) -> None:
    """Draw gray contours at quantiles of the function, so that flat valleys show as well as steep walls."""
    x, y = grid(box, points)
    with np.errstate(all="ignore"):
        z = np.asarray(fun(np.stack([x, y], axis=-1)), float)
    finite = z[np.isfinite(z)]
    if not finite.size or finite.min() == finite.max():
        return
    at = np.unique(np.quantile(finite, np.linspace(0, 1, levels + 2)[1:-1] ** 1.5))
    ax.contour(x, y, np.where(np.isfinite(z), z, np.nan), at, colors="0.72", linewidths=0.6)


def typeset(label: str) -> str:
    """Typeset the subscripts of method names.

    >>> typeset("ZOSLGH_r 0.999")
    'ZOSLGH$_r$ 0.999'
    """
    return re.sub(r"SLGH_([rd])", r"SLGH$_\1$", label)
