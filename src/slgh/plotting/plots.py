"""Plot a run on the user's own function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slgh import checks
from slgh.attack.result import AttackResult
from slgh.oracles import Antithetic
from slgh.plotting.explorer import Function, box_around, explore, smoothed_at
from slgh.plotting.figures import RunCurves, at_each_point, contours, draw_runs
from slgh.plotting.images import attack_curves
from slgh.plotting.path import Path, path_of
from slgh.plotting.probe_plot import plot_probe
from slgh.plotting.style import COLORS, WIDTH, matplotlib, style
from slgh.probe import Probe
from slgh.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_DOTS = 200
"""Maximum number of dots of a path along the curve of a function of one variable."""

MAX_PATHS = 30
"""Maximum number of problems of a batch drawn as paths."""


def plot(
    result: Result | AttackResult | Probe, fun: Any = None, *, vectorized: bool = False, title: str | None = None
) -> Figure:
    """Draw a run: f and t over the iterations and, in one or two variables, the path through the smoothed function.

    Parameters
    ----------
    result
        The result of `slgh.minimize`, with its history. With history="x" and `fun`, a run in one or two variables is
        also drawn as a path. For a batch, the median is drawn, with the central 95 % as a band, and up to 30 paths. Or
        the result of `slgh.attack.attack`: then the distortion and the margin of each image are drawn over its queries.
        Or that of `slgh.probe`: then score, signal-to-noise ratio and curvature are drawn against t.
    fun
        The function that was minimized, or its closed form. It is evaluated with NumPy arrays, on a grid of some
        thousand points (in one variable up to some ten thousand, for its smoothed forms).
    vectorized
        As for `slgh.minimize`: fun maps points (..., d) to values (...).
    title
        Title of the figure.

    Returns
    -------
    matplotlib.figure.Figure
        A pyplot figure: `matplotlib.pyplot.show()` shows it, its `savefig` writes it.

    Examples
    --------
    >>> import slgh
    >>> problem = slgh.problems.himmelblau()
    >>> run = slgh.minimize(problem.smooth, problem.x0, method="slgh_r", history="x", step=1e-4, t1=2.0, max_iter=500)
    >>> figure = slgh.plot(run, problem.smooth)
    >>> len(figure.axes) >= 3
    True
    """
    matplotlib()
    import matplotlib.pyplot as plt

    if isinstance(result, AttackResult):
        return attack_curves(result, title=title, figure=plt.figure(figsize=(WIDTH, 2.8), layout="constrained"))
    if isinstance(result, Probe):
        figure = plt.figure(layout="constrained")
        plot_probe(result, figure.add_subplot())
        if title is not None:
            figure.suptitle(title)
        return figure
    record = getattr(result, "history", None)
    if not isinstance(result, Result) or not record or not len(record["iteration"]):
        raise ValueError(
            "`result` must be a Result of slgh.minimize with its history, which history=0 turns off; got "
            f"{checks.show(result)}."
        )
    paths = _paths(result) if "x" in record and fun is not None else []
    d = paths[0].x.shape[1] if paths else 0
    with style():
        figure = plt.figure(figsize=(WIDTH, 4.6 if d in (1, 2) else 2.6), layout="constrained")
        if d in (1, 2):
            grid = figure.add_gridspec(2, 2, width_ratios=(1.6, 1))
            ax, left, right = (figure.add_subplot(cell) for cell in (grid[:, 0], grid[0, 1], grid[1, 1]))
            values = _values(fun, vectorized=vectorized)
            if d == 1:
                _draw_line(ax, fun, values, paths)
            else:
                _draw_plane(ax, values, paths)
        else:
            left, right = figure.subplots(1, 2)
        runs = RunCurves(label="", iteration=record["iteration"], fun=_columns(record["fun"]), t=_columns(record["t"]))
        draw_runs(left, right, [runs])
        if isinstance(result.method.oracle, Antithetic):  # which does not evaluate f(x)
            left.set_ylabel("mean of $f$ around $x_k$")
        left.set_yscale("log" if np.all(record["fun"] > 0) and np.ptp(np.log10(record["fun"])) > 2 else "linear")
        if title is not None:
            figure.suptitle(title)
    return figure


def _columns(values: NDArray[Any]) -> NDArray[Any]:
    """Return (k, S), with S = 1 for a single run."""
    return values.reshape(len(values), -1)


def _paths(result: Result) -> list[Path]:
    """Return the paths of the first problems."""
    problems = result.history["x"].shape[1] if result.history["x"].ndim == 3 else 1
    return [path_of(result, problem=b) for b in range(min(problems, MAX_PATHS))]


def _values(fun: Any, *, vectorized: bool) -> Function:
    """Return f on NumPy points (..., d)."""
    if hasattr(fun, "value"):
        return smoothed_at(fun, 0.0)
    if vectorized:
        return fun  # type: ignore[no-any-return]
    return at_each_point(fun)


def _draw_line(ax: Axes, fun: Any, values: Function, paths: list[Path]) -> None:
    """Draw f, its smoothed forms for some t of the path, and (x_k, F(x_k, t_k))."""
    from scipy.interpolate import RegularGridInterpolator

    box = box_around(paths)
    largest = max(float(path.t.max()) for path in paths)
    F = fun if hasattr(fun, "value") else values
    it = explore(F, name="", title="", box=box, t1=largest or 1.0)
    at = RegularGridInterpolator((it.t[::-1], it.axes[0]), it.F[::-1], bounds_error=False)
    x = it.axes[0]
    for share, gray in ((1.0, "0.8"), (0.5, "0.65"), (0.25, "0.5")):
        if largest > 0:
            t = share * largest
            ax.plot(x, at((np.full(x.shape, t), x)), color=gray, linewidth=1, label=f"F(., {t:.3g})")
    ax.plot(x, it.F[-1], color="black", label="f")
    for i, way in enumerate(paths):
        path = way.thin(MAX_DOTS)
        heights = at((path.t, path.x[:, 0]))
        label = "$(x_k, F(x_k, t_k))$" if i == 0 else None
        ax.plot(path.x[:, 0], heights, ".-", color=COLORS[0], markersize=3, label=label)
        ax.plot(path.x[-1, 0], heights[-1], "o", color=COLORS[1])
    ax.set(xlabel="x", xlim=box[0])
    ax.legend(frameon=False)


def _draw_plane(ax: Axes, values: Function, paths: list[Path]) -> None:
    """Draw contours of f, and the paths, whose color is t."""
    from matplotlib.collections import LineCollection

    box = box_around(paths)
    contours(ax, values, box, points=80)
    largest = max(float(path.t.max()) for path in paths)
    for i, path in enumerate(paths):
        segments = np.stack([path.x[:-1], path.x[1:]], axis=1)
        line = LineCollection(list(segments), cmap="viridis_r", linewidths=1.8)
        line.set_array(path.t[:-1])
        line.set_clim(0, largest or 1.0)
        ax.add_collection(line)
        start, end = ("start", "end") if i == 0 else (None, None)
        ax.plot(*path.x[0], "o", color="black", markerfacecolor="white", markersize=5, label=start)
        ax.plot(*path.x[-1], "o", color=COLORS[1], markersize=6, label=end)
    ax.legend(frameon=False)
    if largest > 0:
        ax.figure.colorbar(line, ax=ax, label="t", location="bottom", shrink=0.6, aspect=30)
    ax.set(xlabel="x[0]", ylabel="x[1]", xlim=box[0], ylim=box[1])
