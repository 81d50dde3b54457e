r"""Appendix C of the paper, measured: the effect of the floor sqrt(nu) of Algorithm 4.

f is smooth, but only f' with :math:`|f' - f| \le \nu` can be evaluated, where the error is continuous or not. Theorem
C.1 bounds the mean of :math:`|\nabla f(x_k)|^2` if t stays above :math:`\sqrt\nu`. Below it there is no bound, and the
methods fail: the step of Algorithm 4 vanishes as :math:`t^2` and x freezes; the constant step of Algorithm 3 amplifies
differences of size nu / t.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from slgh import checks
from slgh.paper.experiment import Drawing, Findings, Job, Record, Study, Tick
from slgh.paper.experiments.iterations import jagged, run_seeds
from slgh.plotting.style import COLORS, looks, new_figure, style
from slgh.plotting.table import Table
from slgh.smoothing import Quadrature
from slgh.theory import THEOREMS, Plan, plan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RIPPLE = 0.1
"""Height of the ripples of f."""

WAVES = 4.0
"""Frequency of the ripples of f."""

NU = 1e-5
"""Size of the error."""

D = 2
"""Number of variables."""

X0 = np.full(D, 1.5)
"""Start of the runs."""

ZERO = 1e-100
"""A floor that acts as 0, since x + t u rounds to x long before, but can be divided by."""

ERRORS: dict[str, Callable[[Any], Any]] = {
    "continuous": lambda x: np.sin(1e8 * x).mean(axis=-1),
    "discontinuous": jagged(1.0),
}
"""Errors between -1 and 1, scaled by nu."""

TITLE = "Algorithm 4 on a function with error, and the same without its floor"
HEADINGS = ("error", "method", "mean |grad f|^2", "Theorem C.1 bound", "bound as printed")

NOTE = (
    "The bound is for Algorithm 4: its means stay below it, with continuous and with discontinuous error. With floor 0 "
    "they do not: the step of Algorithm 4 vanishes with t^2 and x freezes, that of Algorithm 3 is thrown about by nu/t."
)


def rippled(x: Any) -> Any:
    r""":math:`f(x) = \sum_i \sqrt{1 + x_i^2} + 0.1 \cos 4 x_i`: many minima, and a slope that does not end far away."""
    return (np.sqrt(1 + x * x) + RIPPLE * np.cos(WAVES * x)).sum(axis=-1)


def with_error(error: Callable[[Any], Any], x: Any) -> Any:
    """f', the function that can be evaluated."""
    return rippled(x) + NU * error(x)


def rippled_grad(x: Any) -> Any:
    """Gradient of `rippled`."""
    return x / np.sqrt(1 + x * x) - RIPPLE * WAVES * np.sin(WAVES * x)


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Mean of |grad f(x_k)|^2 over k0+1..T and over seeds, for several T."""

    error: str
    method: str
    mean: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """Runs with and without the floor, and the bound of Theorem C.1 for those with it."""

    nu: float
    T: tuple[int, ...]
    curves: tuple[Curve, ...]
    bound: tuple[float, ...]
    """The right-hand side for each T, with 2 nu where t changes."""
    printed: tuple[float, ...]
    """The right-hand side for each T, with 2 nu in every iteration."""

    def rows(self) -> list[tuple[str, ...]]:
        """Return table rows with the columns HEADINGS, at the largest T."""
        bounds = f"{self.bound[-1]:.3g}", f"{self.printed[-1]:.3g}"
        return [(c.error, c.method, f"{c.mean[-1]:.3g}", *bounds) for c in self.curves]

    def as_dict(self) -> dict[str, Any]:
        """Return the data for JSON."""
        return {
            "nu": self.nu,
            "T": self.T,
            "curves": {f"{c.error}, {c.method}": c.mean for c in self.curves},
            "bound": self.bound,
            "printed": self.printed,
            "note": NOTE,
        }


def the_plan(T: int) -> Plan:
    """Return the plan of Theorem C.1 for f with an error of NU over T iterations."""
    checks.count("T", T, 100)
    line = np.linspace(-2, 2, 100_001)[:, None]
    gap = float(rippled(X0) - D * rippled(line).min())
    L0, L1 = D**0.5 * (1 + RIPPLE * WAVES), 1 + RIPPLE * WAVES**2
    return plan("zoslgh_r", L0=L0, L1=L1, d=D, t1=0.1, gamma=0.9, nu=NU, gap=gap, T=T)


def jobs(*, T: int = 20_000, seeds: int = 8) -> list[Job]:
    """Runs of Algorithm 4, and of Algorithms 4 and 3 without a floor, on f with errors."""
    it = the_plan(T)
    return [
        Job(label=f"{method}, {error} error", run=partial(run, partial(with_error, e), seeds, T, parameters))
        for error, e in ERRORS.items()
        for method, parameters in methods(it).items()
    ]


def error_tolerance(records: Sequence[Record], *, T: int = 20_000) -> Tolerance:
    """Return the means of the runs of `jobs`, and the bounds."""
    it = the_plan(T)
    lengths = np.unique(np.geomspace(it.k0 + 1, T, 60).astype(int))
    names = [(error, method) for error in ERRORS for method in methods(it)]
    curves = []
    for (error, method), record in zip(names, records, strict=True):
        means = np.cumsum(record["squares"][it.k0 :]) / np.arange(1, T - it.k0 + 1)
        curves.append(Curve(error=error, method=method, mean=tuple(means[lengths - it.k0 - 1].tolist())))
    radii = records[0]["t"]
    return Tolerance(
        nu=NU,
        T=tuple(lengths.tolist()),
        curves=tuple(curves),
        bound=tuple(it.bound(radii[: n + 1]) for n in lengths),
        printed=tuple(it.bound(radii[: n + 1], printed=True) for n in lengths),
    )


def conclude(records: Sequence[Record]) -> Findings:
    """Return the table, Figure 2, and the figure of the means over T."""
    found = error_tolerance(records)
    return Findings(
        tables=(Table(title=TITLE, headings=HEADINGS, rows=tuple(found.rows()), note=NOTE, optional=HEADINGS[-1:]),),
        data=found.as_dict(),
        drawings=(
            Drawing(
                name="figure_02_function_with_error",
                caption="Figure 2: a smooth objective f, and f' with an error, which has many local minima; its "
                "smoothed form F' with t = sqrt(nu) has none of them.",
                draw=draw_error,
            ),
            Drawing(
                name="theorem_C1_error_tolerance",
                caption="Mean squared gradient norm over T: Algorithm 4 stays below the bound of Theorem C.1, "
                "without its floor it does not.",
                draw=partial(draw_means, found),
            ),
        ),
    )


def methods(it: Plan) -> dict[str, dict[str, Any]]:
    """Parameters of Algorithm 4, of the same with floor 0, and of Algorithm 3, whose floor is 0."""
    step = THEOREMS["4.1"].step(it.constants, it.T, it.constants.t1)
    plain = {name: it.parameters[name] for name in ("method", "t1", "gamma", "max_iter")}
    return {
        "Algorithm 4": it.parameters,
        "Algorithm 4, floor 0": it.parameters | {"floor": ZERO},
        "Algorithm 3, floor 0": plain | {"floor": ZERO, "step": step},
    }


def run(fun: Callable[[Any], Any], seeds: int, T: int, parameters: Mapping[str, Any], tick: Tick) -> Record:
    """Return |grad f(x_k)|^2, the mean over seeds, for k = 1..T, and t_1..t_(T+1)."""
    squares, t = np.empty(T), np.empty(T + 1)

    def follow(now: Any) -> None:
        squares[now.nit - 1] = (rippled_grad(now.x) ** 2).sum() / seeds
        t[now.nit - 1] = now.t[0]
        tick(now.nit / T)

    result = run_seeds(fun, X0, seeds, follow, **parameters)
    t[T] = result.t[0]
    return {"squares": squares, "t": t}


SHOWN_NU = 0.15
"""Size of the error in Figure 2, large enough to be seen."""


@style()
def draw_error() -> Figure:
    """Draw Figure 2: f, and f' with its smoothed form."""
    x = np.linspace(-4, 4, 2001)
    f = rippled(x[:, None])
    error = SHOWN_NU * np.sin(40 * x)
    # Smoothing a sine scales it by exp(-(frequency * t)^2 / 2).
    smoothed = Quadrature(rippled).value(x[:, None], np.full(x.shape, SHOWN_NU**0.5))
    faded = error * np.exp(-(40**2) * SHOWN_NU / 2)
    figure = new_figure(2.4)
    left, right = figure.subplots(1, 2, sharey=True)
    left.plot(x, f, color=COLORS[0], label="f")
    right.plot(x, f + error, color=COLORS[1], linewidth=0.7, label=f"f', nu = {SHOWN_NU:g}")
    right.plot(x, smoothed + faded, color="black", linestyle="--", label="F'(., t = sqrt(nu))")
    left.set(xlabel="x", ylabel="value", title="smooth objective")
    right.set(xlabel="x", title="what can be evaluated")
    for ax in (left, right):
        ax.legend(frameon=False, loc="upper center")
    return figure


@style()
def draw_means(found: Tolerance) -> Figure:
    """Draw the means over T and the bounds, one panel per error."""
    figure = new_figure(3.2)
    axes = figure.subplots(1, len(ERRORS), sharey=True)
    for ax, error in zip(axes, ERRORS, strict=True):
        own = [curve for curve in found.curves if curve.error == error]
        for curve, (color, dash) in zip(own, looks([curve.method for curve in own]), strict=True):
            ax.plot(found.T, curve.mean, label=curve.method, color=color, linestyle=dash)
        ax.plot(found.T, found.bound, color="black", label="bound of Theorem C.1")
        ax.plot(found.T, found.printed, color="gray", linestyle=":", label="as printed, 2 nu in every iteration")
        ax.set(xscale="log", yscale="log", xlabel="T", title=f"{error} error, nu = {found.nu:g}")
    axes[0].set_ylabel("mean |grad f(x_k)|^2")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False)
    return figure


EXPERIMENT = Study(name="error_tolerance", title="Appendix C: a function with error", jobs=jobs, conclude=conclude)
