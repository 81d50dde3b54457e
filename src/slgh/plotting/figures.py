"""Parts of figures: f and t over the iterations, contours of a function of two variables."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slgh.plotting.explorer import Box, Function
from slgh.plotting.path import Path
from slgh.plotting.style import PHASE_COLORS, faint, ink, looks, readable

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
    for run, (color, dash) in zip(runs, looks([run.label for run in runs]), strict=True):
        for ax, values in ((left, run.fun), (right, run.t)):
            low, middle, high = np.quantile(values, (BAND[0], 0.5, BAND[1]), axis=-1)
            ax.plot(run.iteration, middle, color=color, linestyle=dash, label=typeset(run.label))
            if values.shape[-1] > 1:
                ax.fill_between(run.iteration, low, high, color=color, alpha=0.15, linewidth=0)
    left.set(xlabel="iteration $k$", ylabel="$f(x_k)$")
    right.set(xlabel="iteration $k$", ylabel="$t_k$")


PHASE_NAMES = {
    "homotopy": "homotopy",
    "local_search": "local search",
    "covariance": "covariance homotopy",
    "restarts": "restarts",
}
"""Names of the phases of "auto" in legends."""

CIRCLES = 8
"""Approximate number of circles along a homotopy."""

MAX_DECADES = 12
"""Maximum number of decades of a logarithmic axis. Values below are as good as zero."""


def draw_phases(ax: Axes, path: Path) -> None:
    """Draw each phase of "auto" as a line of its own in two variables, with the radius t as circles."""
    from matplotlib.collections import EllipseCollection

    for name, piece in path.pieces():
        color = readable(PHASE_COLORS[name])
        look: dict[str, Any] = {"linewidth": 1.8, "markersize": 5, "zorder": 4}
        if name == "restarts":
            look = {"linewidth": 0.7, "markersize": 1.5, "alpha": 0.5}
        ax.plot(*piece.x.T, ".-", color=color, label=f"_{name}", **look)
        if name == "homotopy":
            some = piece.thin(CIRCLES)
            circles = EllipseCollection(
                2 * some.t, 2 * some.t, np.zeros(len(some.t)), units="xy", offsets=some.x, transOffset=ax.transData
            )
            circles.set(facecolor="none", edgecolor=color, alpha=faint(0.5), linewidth=0.8)
            ax.add_collection(circles, autolim=False)
            ax.plot([], [], "o", color=color, markerfacecolor="none", alpha=faint(0.5), markersize=9, label="radius t")


SHADE = 0.16
"""Opacity of the shade of a phase."""


def shade_phases(ax: Axes, spans: Sequence[tuple[str, float, float]]) -> None:
    """Shade phases (name, start, stop) along the horizontal axis. Restarts are one phase, whatever their number."""
    merged: list[list[Any]] = []
    for name, start, stop in spans:
        if merged and merged[-1][0] == name:
            merged[-1][2] = stop
        else:
            merged.append([name, start, stop])
    for name, start, stop in merged:
        ax.axvspan(start, stop, color=PHASE_COLORS[name], alpha=faint(SHADE), linewidth=0, zorder=0, label=f"_{name}")


def scale_values(ax: Axes, values: NDArray[Any]) -> None:
    """Frame these values: with a logarithmic axis if they are nonnegative and span more than two decades.

    Lines below a logarithmic axis, as zero is, are moved to its bottom, so that they do not seem to end.
    """
    shown = values[np.isfinite(values)]
    positive = shown[shown > 0]
    if not shown.size:
        return
    high = shown.max()
    if positive.size and shown.min() >= 0 and high > 100 * positive.min():
        ax.set_yscale("log")
        bottom = max(positive.min(), high / 10.0**MAX_DECADES) / 2
        ax.set_ylim(bottom, 2 * high)
        for line in ax.lines:
            line.set_ydata(np.maximum(np.asarray(line.get_ydata()), bottom))
    elif shown.min() < high:
        margin = 0.06 * (high - shown.min())
        ax.set_ylim(shown.min() - margin, high + margin)


def grid(box: Box, points: int) -> list[NDArray[Any]]:
    """Return the coordinates of a grid over a box of two variables, as from `numpy.meshgrid`."""
    return list(np.meshgrid(*(np.linspace(low, high, points) for low, high in box)))


def contours(ax: Axes, fun: Function, box: Box, *, points: int = 200, levels: int = 16) -> None:
    """Draw gray contours at quantiles of the function, so that flat valleys show as well as steep walls.

    Valleys are light and hills are dark.
    """
    from matplotlib.colors import to_rgba

    x, y = grid(box, points)
    with np.errstate(all="ignore"):
        z = np.asarray(fun(np.stack([x, y], axis=-1)), float)
    finite = z[np.isfinite(z)]
    if not finite.size or finite.min() == finite.max():
        return
    at = np.unique(np.quantile(finite, np.linspace(0, 1, levels + 2)[1:-1] ** 1.5))
    z = np.where(np.isfinite(z), z, np.nan)
    tints = [to_rgba(ink(), 0.02 + 0.2 * k / len(at)) for k in range(len(at) + 1)]
    ax.contourf(x, y, z, [-np.inf, *at, np.inf], colors=tints, zorder=0)
    ax.contour(x, y, z, at, colors=ink(), alpha=0.12, linewidths=0.5, linestyles="solid", zorder=0)


def typeset(label: str) -> str:
    """Typeset the subscripts of method names.

    >>> typeset("ZOSLGH_r 0.999")
    'ZOSLGH$_r$ 0.999'
    """
    return re.sub(r"SLGH_([rd])", r"SLGH$_\1$", label)
