"""Plot a run on the user's own function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slgh import checks
from slgh.attack.result import AttackResult
from slgh.plotting.explorer import Function, box_around, explore, smoothed_at
from slgh.plotting.figures import (
    BAND,
    PHASE_NAMES,
    SHADE,
    RunCurves,
    at_each_point,
    contours,
    draw_phases,
    draw_runs,
    scale_values,
    shade_phases,
)
from slgh.plotting.images import attack_curves
from slgh.plotting.path import Path, path_of
from slgh.plotting.probe_plot import plot_probe
from slgh.plotting.search_space import draw_parameters, panel_rows, space_of
from slgh.plotting.style import (
    METHOD_COLORS,
    PHASE_COLORS,
    background,
    faint,
    ink,
    is_dark,
    looks,
    matplotlib,
    new_figure,
    readable,
    style,
)
from slgh.probe import Probe
from slgh.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure

MAX_DOTS = 200
"""Maximum number of dots of a path along the curve of a function of one variable."""

END = ("end", "best point")
"""Label of the end of a path, and of one with phases."""

MAX_PATHS = 30
"""Maximum number of problems of a batch drawn as paths."""


def plot(
    result: Result | AttackResult | Probe, fun: Any = None, *, vectorized: bool = False, title: str | None = None
) -> Figure:
    """Draw a run: the values of f, the radius t, and in one or two variables the path.

    A run of "auto" is drawn by phases: its homotopy, its local searches and its restarts have one color each. The bold
    line is the best value so far, over the number of evaluations. The path is in view from the start through the
    homotopy to the best point. Restarts, which may begin far away, are not.

    Parameters
    ----------
    result
        The result of `slgh.minimize`, with its history. With history="x" and `fun`, a run in one or two variables is
        also drawn as a path. For a batch, the median is drawn, with the central 95 % as a band, and up to 30 paths. Or
        the result of `slgh.attack.attack`: then the distortion and the margin of each image are drawn over its queries.
        Or that of `slgh.probe`: then score, signal-to-noise ratio and curvature are drawn against t.
    fun
        The function that was minimized, or its closed form. It is evaluated with NumPy arrays, on a grid of some
        thousand points (in one variable up to some ten thousand, for its smoothed forms). For a run in a search space
        with history="x", pass the space here: the figure then has the parameters over the evaluations, in each step
        (dots) and at the lowest f so far (line).
    vectorized
        As for `slgh.minimize`: fun maps points (..., d) to values (...).
    title
        Title of the figure.

    Returns
    -------
    matplotlib.figure.Figure
        A notebook shows it, and its `savefig` writes it. pyplot does not manage it, so that it is not shown twice.

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
    if isinstance(result, AttackResult):
        return attack_curves(result, title=title)
    if isinstance(result, Probe):
        figure = new_figure(4.8, 6.4)
        plot_probe(result, figure.add_subplot())
        if title is not None:
            figure.suptitle(title)
        return figure
    _refuse_empty(result)
    record = result.history
    space = space_of(result, fun)
    paths = _paths(result) if "x" in record and fun is not None and space is None else []
    d = paths[0].x.shape[1] if paths else 0
    with style():
        figure = new_figure(4.6 if d in (1, 2) else 2.9)
        if space is not None:
            rows = panel_rows(space)
            figure.set_figheight(2.7 + 1.5 * rows)
            grid = figure.add_gridspec(2, 2, height_ratios=(2.4, 1.5 * rows))
            draw_parameters(figure, grid[1, :], result, space)
            left, right = (figure.add_subplot(grid[0, k]) for k in range(2))
        elif d in (1, 2):
            grid = figure.add_gridspec(2, 2, width_ratios=(1.5, 1))
            ax, left, right = (figure.add_subplot(cell) for cell in (grid[:, 0], grid[0, 1], grid[1, 1]))
            values = _values(fun, vectorized=vectorized)
            if d == 1:
                _draw_line(ax, fun, values, paths)
            else:
                _draw_plane(ax, values, paths)
        else:
            left, right = figure.subplots(1, 2)
        _draw_curves(left, right, result)
        _draw_legend(figure, result)
        if title is not None:
            figure.suptitle(title)
    return figure


def _refuse_empty(result: Any) -> None:
    """Raise if there is no Result, or one without a recorded iteration."""
    record = getattr(result, "history", None)
    if isinstance(result, Result) and record and not np.any(result.get("nit", 1)):
        raise checks.ArgumentValueError(
            f"`result` has no iterations to draw: its run ended before the first one, with the message "
            f"{result.message!r}. Raise the limit that ended it."
        )
    if not isinstance(result, Result) or not record or not len(record["iteration"]):
        got = "one without" if isinstance(result, Result) else checks.show(result)
        raise checks.ArgumentValueError(
            f"`result` must be a Result of slgh.minimize with its history, which history=0 turns off; got {got}."
        )


def _paths(result: Result) -> list[Path]:
    """Return the paths of the first problems."""
    problems = result.history["x"].shape[1] if result.history["x"].ndim == 3 else 1
    return [path_of(result, result.method.name, problem=b) for b in range(min(problems, MAX_PATHS))]


def _values(fun: Any, *, vectorized: bool) -> Function:
    """Return f on NumPy points (..., d)."""
    if hasattr(fun, "value"):
        return smoothed_at(fun, 0.0)
    if vectorized:
        return fun  # type: ignore[no-any-return]
    return at_each_point(fun)


def _draw_curves(left: Axes, right: Axes, result: Result) -> None:
    """Draw values on the left axes and t on the right ones."""
    record, color = result.history, readable(METHOD_COLORS["auto"])
    iteration, fun, t, best = (record[name] for name in ("iteration", "fun", "t", "fun_best"))
    if result.method.reports != "best" or np.isnan(best).all():
        runs = RunCurves(label=result.method.name, iteration=iteration, fun=_columns(fun), t=_columns(t))
        draw_runs(left, right, [runs])
        scale_values(left, fun)
        return
    # Evaluations are what "auto" spends. If some are gradients, the history does not count them.
    by_evaluations = bool(result.phases) and not result.njev
    at = record["nfev"] if by_evaluations else iteration
    seen = np.ones(len(at), bool)
    spans = []
    for name, start, stop in result.phases or [("", 0, iteration[-1] + 1)]:
        rows = np.flatnonzero((start <= iteration) & (iteration < stop))
        if not rows.size:
            continue
        seen[rows] = name != "restarts"
        left.plot(at[rows], np.median(_columns(fun[rows]), axis=1), color=color, linewidth=0.8, alpha=faint(0.45))
        right.plot(at[rows], np.median(_columns(t[rows]), axis=1), color=color)
        if name:
            spans.append((name, at[max(rows[0] - 1, 0)], at[rows[-1]]))
    for ax in (left, right):
        shade_phases(ax, spans)
        ax.set(xlabel="evaluations of f" if by_evaluations else "iteration $k$", xlim=(0, at[-1]))
    left.lines[0].set_label("f in each step")
    left.set_ylabel("f")
    right.set_ylabel("smoothing radius t")
    with np.errstate(invalid="ignore"):  # best is infinite until a point is feasible
        low, middle, high = np.quantile(_columns(best), (BAND[0], 0.5, BAND[1]), axis=1)
    bold: dict[str, Any] = {"linewidth": 2.6, "zorder": 3, "drawstyle": "steps-post"}
    left.plot(at, middle, color=color, label="best value so far", **bold)
    if fun.ndim > 1 and fun.shape[1] > 1:
        left.fill_between(at, low, high, color=color, alpha=0.15, linewidth=0)
    scale_values(left, np.concatenate([_columns(best).ravel(), _columns(fun[seen]).ravel()]))


def _columns(values: NDArray[Any]) -> NDArray[Any]:
    """Return (k, S), with S = 1 for a single run."""
    return values.reshape(len(values), -1)


def _draw_legend(figure: Figure, result: Result) -> None:
    """Explain the curves, and the colors of the phases, which the path and the curves share."""
    from matplotlib.colors import to_rgba
    from matplotlib.patches import Patch

    names = [phase.name for phase in result.phases]
    handles: list[Any] = [line for line in figure.axes[-2].lines if not str(line.get_label()).startswith("_")]
    # In the shade of the curves, with a border in the color of the path.
    handles += [
        Patch(facecolor=to_rgba(PHASE_COLORS[name], faint(SHADE)), edgecolor=readable(PHASE_COLORS[name]), label=text)
        for name, text in PHASE_NAMES.items()
        if name in names
    ]
    if result.phases:
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)


def _draw_line(ax: Axes, fun: Any, values: Function, paths: list[Path]) -> None:
    """Draw f, its smoothed forms for some t of the path, and (x_k, F(x_k, t_k))."""
    from scipy.interpolate import RegularGridInterpolator

    box = box_around(paths)
    largest = max(float(path.t.max()) for path in paths)
    F = fun if hasattr(fun, "value") else values
    it = explore(F, name="", title="", box=box, t1=largest or 1.0)
    at = RegularGridInterpolator((it.t[::-1], it.axes[0]), it.F[::-1], bounds_error=False)
    x = it.axes[0]
    for share, alpha in ((1.0, 0.25), (0.5, 0.4), (0.25, 0.55)):
        if largest > 0:
            t = share * largest
            ax.plot(
                x, at((np.full(x.shape, t), x)), color=ink(), alpha=alpha, linewidth=1, label=f"f smoothed, t = {t:.3g}"
            )
    ax.plot(x, it.F[-1], color=ink(), label="f")
    for i, way in enumerate(paths):
        for name, piece in way.pieces():
            path = piece.thin(MAX_DOTS)
            heights = at((path.t, path.x[:, 0]))
            color = readable(PHASE_COLORS[name]) if name else looks([way.label])[0][0]
            label = "path $(x_k, F(x_k, t_k))$" if i == 0 and name in ("", "homotopy") else None
            line = "." if name == "restarts" else ".-"
            ax.plot(path.x[:, 0], heights, line, color=color, markersize=3, label=label)
        start, end = ("start", END[bool(way.phases)]) if i == 0 else (None, None)
        _mark_ends(ax, way, at((way.t, way.x[:, 0])), start, end)
    ax.set(xlabel="x", xlim=box[0])
    ax.legend(frameon=False)


def _mark_ends(ax: Axes, path: Path, heights: NDArray[Any], start: str | None, end: str | None) -> None:
    """Draw a ring at the start and a dot at the end."""
    ax.plot(
        path.x[0, 0], heights[0], "o", color=ink(), markerfacecolor=background(), markersize=6, label=start, zorder=5
    )
    ax.plot(path.x[-1, 0], heights[-1], "*", color=ink(), markersize=11, label=end, zorder=5)


def _draw_plane(ax: Axes, values: Function, paths: list[Path]) -> None:
    """Draw contours of f, and the paths: in the colors of their phases, or with t as the color."""
    box = box_around(paths)
    contours(ax, values, box, points=160)
    largest = max(float(path.t.max()) for path in paths)
    for i, path in enumerate(paths):
        if path.phases:
            draw_phases(ax, path)
        else:
            line = _draw_by_radius(ax, path, largest)
        start, end = ("start", END[bool(path.phases)]) if i == 0 else (None, None)
        _mark_ends(ax, path, path.x[:, 1], start, end)
    ax.legend(frameon=True, framealpha=0.85, edgecolor="none")
    if largest > 0 and not paths[0].phases:
        ax.figure.colorbar(line, ax=ax, label="t", location="bottom", shrink=0.6, aspect=30)
    ax.set(xlabel="x[0]", ylabel="x[1]", xlim=box[0], ylim=box[1])


def _draw_by_radius(ax: Axes, path: Path, largest: float) -> LineCollection:
    """Draw a path whose color is t."""
    from matplotlib.collections import LineCollection

    segments = np.stack([path.x[:-1], path.x[1:]], axis=1)
    # Large t contrasts with the background.
    line = LineCollection(list(segments), cmap="viridis" if is_dark() else "viridis_r", linewidths=1.8)
    line.set_array(path.t[:-1])
    line.set_clim(0, largest or 1.0)
    ax.add_collection(line)
    return line
