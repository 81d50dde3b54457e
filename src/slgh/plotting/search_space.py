"""The parameters of a search space over the evaluations of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slgh import checks
from slgh.plotting.style import METHOD_COLORS, faint, ink, readable
from slgh.result import Result
from slgh.space import Array, Boolean, Categorical, Float, Integer, Ordinal, Parameter, Space
from slgh.space.tree import Slot, is_tree_of_parameters

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.gridspec import SubplotSpec

MAX_PANELS = 12
"""Maximum number of parameters that are drawn: the first ones. More would not be legible."""

COLUMNS = 3
"""Number of panels side by side."""

MARGIN = 0.06
"""Margin of a panel, as a share of the range of its parameter."""

MAX_TICKS = 8
"""Maximum number of choices that have a label."""

LABEL = 14
"""Maximum number of characters of the label of a choice."""


def space_of(result: Result, fun: Any) -> Space | None:
    """Return the search space that `slgh.plot` was given as `fun`, or None. Raise if it does not fit the result."""
    given = isinstance(fun, Space) or is_tree_of_parameters(fun)
    if not given:
        if "z" in result and fun is not None:
            raise checks.ArgumentTypeError(
                "`fun` of a search space cannot be drawn: it takes trees of values. Pass the space in its place, "
                "slgh.plot(result, space), for a picture of the parameters, or omit `fun`."
            )
        return None
    space = fun if isinstance(fun, Space) else Space(fun)
    if "z" not in result or len(result.z) != space.d:
        got = f"one with {len(result.z)}" if "z" in result else "one without a search space"
        raise checks.ArgumentValueError(
            f"`result` must be a run in the space that is drawn, whose number of relaxed variables is {space.d}; got "
            f"{got}. Pass the space of the run."
        )
    if "x" not in result.history:
        raise checks.ArgumentValueError(
            '`result` must have the iterates for a picture of its parameters. Pass history="x" to slgh.minimize.'
        )
    return space


def draw_parameters(figure: Figure, rows: SubplotSpec, result: Result, space: Space) -> None:
    """Draw each parameter in a panel: its value in each step, and at the lowest f so far."""
    slots = space.slots[:MAX_PANELS]
    grid = rows.subgridspec(panel_rows(space), COLUMNS)
    record, color = result.history, readable(METHOD_COLORS["auto"])
    lowest = np.fmin.accumulate(np.where(np.isfinite(record["fun"]), record["fun"], np.inf))
    falls = np.append(True, lowest[1:] < lowest[:-1])
    best = np.maximum.accumulate(np.where(falls, np.arange(len(lowest)), 0))
    for i, slot in enumerate(slots):
        ax = figure.add_subplot(grid[divmod(i, COLUMNS)])
        for column in _values(slot, record["x"]).T:
            ax.plot(record["nfev"], column, ".", color=ink(), alpha=faint(0.3), markersize=3)
            ax.plot(record["nfev"], column[best], color=color, linewidth=2.0, drawstyle="steps-post")
        ax.set(title=slot.name, xlim=(0, record["nfev"][-1]))
        if i >= len(slots) - COLUMNS:
            ax.set_xlabel("evaluations of f")
        _scale(ax, slot.parameter)


def panel_rows(space: Space) -> int:
    """Return the number of rows of panels."""
    return -(-min(len(space.slots), MAX_PANELS) // COLUMNS)


def _values(slot: Slot, z: NDArray[Any]) -> NDArray[np.float64]:
    """Return the numbers (k, n) to draw for relaxed points z (k, d): values, or positions of choices."""
    decoded = [slot.parameter.decode(slot.of(row)) for row in z]
    if isinstance(slot.parameter, Categorical | Ordinal):
        decoded = [slot.parameter.index(value, slot.name) for value in decoded]
    return np.array(decoded, float).reshape(len(z), -1)


def _scale(ax: Axes, parameter: Parameter) -> None:
    """Show the range of a parameter, and label choices."""
    from matplotlib.ticker import MaxNLocator

    if isinstance(parameter, Categorical | Ordinal | Boolean):
        choices = (False, True) if isinstance(parameter, Boolean) else parameter.choices
        shown = range(0, len(choices), -(-len(choices) // MAX_TICKS))
        ax.set_yticks(list(shown), [str(choices[i])[:LABEL] for i in shown])
        ax.set_ylim(-0.5, len(choices) - 0.5)
    elif isinstance(parameter, Float | Integer | Array):
        low, high = float(np.min(parameter.low)), float(np.max(parameter.high))
        if parameter.log:
            ax.set_yscale("log")
            ax.set_ylim(low / (high / low) ** MARGIN, high * (high / low) ** MARGIN)
        elif low < high:
            ax.set_ylim(low - MARGIN * (high - low), high + MARGIN * (high - low))
            if isinstance(parameter, Integer):
                ax.yaxis.set_major_locator(MaxNLocator("auto", integer=True))
