r"""Table 1 of the paper, measured: the number of iterations until each theorem's criterion holds, over eps and d.

A theorem bounds the least T with

.. math:: \frac{1}{T - k_0} \sum_{k=k_0+1}^T E|\nabla f(x_k)|^2 \le \epsilon^2

(Theorem 3.4: with :math:`\min_k |\nabla f(x_k)| \le \epsilon`). Here that T is found by running the methods with the
theorems' steps, burn-in and floor on functions with known constants, and its exponents in 1/eps and d are fitted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from slgh.paper.data_files import read_toml
from slgh.paper.experiment import Drawing, Findings, Job, Record, Study, Tick
from slgh.paper.experiments.iterations import Setting, method_of
from slgh.plotting.style import new_figure, style
from slgh.plotting.table import Table
from slgh.problems import Problem, wells
from slgh.problems.chain import chain
from slgh.problems.slide import slide
from slgh.theory import THEOREMS, Plan, Theorem, largest_nu, plan

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GAMMA = 0.99
"""The constant gamma."""

SIGMA = 1.0
"""The noise of the stochastic settings."""

ONES: dict[str, Any] = {"L0": 1.0, "L1": 1.0, "t1": 1.0}
"""Constants of a function that are all 1."""

NOTE = (
    "A bound says that T stays below it; over a finite range, far below it, the exponents of T may exceed those of the "
    "bound. T counts the burn-in.\n"
    "The explicit bounds at a constant gamma have the exponents of Table 1's tuned gamma: under the paper's assumption "
    "1/(1 - gamma) = O(1) its two rows coincide as eps -> 0, and d^3/2, d^2, d^3 are not to be found. The tuned gamma, "
    "taken as an equation, tends to 1 and breaks that assumption: it is to be read as an upper bound.\n"
    "The grids were chosen after trial runs. Slide is in the cells of 3.4 and 4.1 only: where f is stochastic T was "
    "no power of eps, and in C.1 p came out as 3.1. The chain in C.1 and C.2 has come to rest at the eps shown, where "
    "the mean alone makes p 2; over 0.32 to 0.5, on the plateau of its start, p came out as 9.7 and 7.8."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A cell of Table 1: a theorem, its bound for constant and tuned gamma, and the grid on which T is measured."""

    theorem: str
    printed: Sequence[str]
    eps: Mapping[str, Sequence[float]]
    """The functions, with the eps for each; for the tuned gamma the first and the last of them."""
    d: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Numbers of variables for a function, if not 2, 4, 8."""
    max_length: Mapping[str, int] = field(default_factory=dict)
    """Largest T - k0 to try for a function, if not 2048."""
    seeds: int = 4


TABLE = tuple(Cell(theorem=name, **cell) for name, cell in read_toml("slgh.paper.experiments", "table_1.toml").items())
"""Table 1."""

FUNCTIONS: dict[str, Callable[[int], Problem]] = {
    "slide": slide,
    "chain": lambda d: chain(d, links=2),
    "wells": wells,
}
"""Functions whose constants do not depend on d. The chain has two links: with more it is another function."""

T1 = {"slide": 1.0, "chain": 0.1, "wells": 0.5}
"""Initial radius for each function."""

BOUND = "the bound"
"""Name, in place of a function, of the fit to the theorem's own T as eps falls to 0 and d grows."""

WORST_CASE = "chain of (0.2/eps)^2"
"""Chains that grow as eps falls: the worst case of first-order methods."""

LINKS = (16, 32, 64, 128)
"""Lengths of these chains."""

TITLE = "Table 1, measured: iterations T until the criterion of each theorem holds"
HEADINGS = ("theorem", "function", "gamma", "Table 1", "p: T ~ eps^-p", "q: T ~ d^q", "T / bound", "T known")
OPTIONAL = ("T known", "T / bound", "Table 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The measured T, or None if it is longer or shorter than the runs tried; and the theorem's own T."""

    theorem: str
    function: str
    gamma: str
    d: int
    eps: float
    T: float | None
    bound: int


class Exponents(NamedTuple):
    """T ~ eps^(-p) d^q, with standard errors; NaN where the grid does not determine them."""

    p: float = math.nan
    p_se: float = math.nan
    q: float = math.nan
    q_se: float = math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """The exponents of T over a grid, beside Table 1."""

    theorem: str
    function: str
    gamma: str
    printed: str
    T: Exponents
    largest: float
    """The largest T, as a share of the theorem's."""
    known: int
    """Number of T that were found. The others are in no fit."""
    tried: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Complexity:
    """Table 1, measured."""

    measured: tuple[Measured, ...]
    fits: tuple[Fit, ...]

    def rows(self) -> list[tuple[str, ...]]:
        """Return table rows with the columns HEADINGS."""
        return [
            (
                fit.theorem,
                fit.function,
                fit.gamma,
                fit.printed,
                _with_error(fit.T.p, fit.T.p_se),
                _with_error(fit.T.q, fit.T.q_se),
                "" if fit.function == BOUND or math.isnan(fit.largest) else f"<= {fit.largest:.1g}",
                "" if fit.function == BOUND else f"{fit.known}/{fit.tried}",
            )
            for fit in self.fits
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return the data for JSON, which has no NaN."""
        return {
            "measured": [asdict(m) for m in self.measured],
            "fits": [
                asdict(fit) | {"T": {n: None if math.isnan(v) else v for n, v in fit.T._asdict().items()}}
                for fit in self.fits
            ],
            "note": NOTE,
        }


def _with_error(value: float, error: float) -> str:
    return "-" if math.isnan(value) else f"{value:.2f}" + (f" ± {error:.2f}" if error >= 0.005 else "")


def jobs(cells: Sequence[Cell] = TABLE) -> list[Job]:
    """The runs of all cells, about five minutes in total."""
    measurements: dict[str, Callable[[], list[Measured]]] = {}
    if any(cell.theorem == "3.4" for cell in cells):
        measurements |= {f"Theorem 3.4: chain of {n}": partial(measure_worst_case, n) for n in LINKS}
    measurements |= {
        f"Theorem {cell.theorem}: {function}, d = {d}": partial(measure, cell, function, d)
        for cell in cells
        for function in cell.eps
        for d in cell.d.get(function, (2, 4, 8))
    }
    return [Job(label=label, run=partial(_record, measured)) for label, measured in measurements.items()]


def _record(measured: Callable[[], list[Measured]], tick: Tick) -> Record:
    return {"measured": [asdict(m) for m in measured()]}


def conclude(records: Sequence[Record], cells: Sequence[Cell] = TABLE) -> Findings:
    """Return the table, and the figure of T over eps."""
    found = complexity([Measured(**m) for record in records for m in record["measured"]], cells)
    return Findings(
        tables=(Table(title=TITLE, headings=HEADINGS, rows=tuple(found.rows()), note=NOTE, optional=OPTIONAL),),
        data=found.as_dict(),
        drawings=(
            Drawing(
                name="table_1_complexity",
                caption="Table 1, measured: iterations T until the criterion of each theorem holds, over eps.",
                draw=partial(draw, found),
            ),
        ),
    )


def complexity(measured: Sequence[Measured], cells: Sequence[Cell] = TABLE) -> Complexity:
    """Fit the exponents of each cell, and of the theorems' bounds."""
    groups: dict[tuple[str, str, str], list[Measured]] = {}
    for m in measured:
        groups.setdefault((m.theorem, m.function, m.gamma), []).append(m)
    for cell in cells:
        for gamma in ("constant", "tuned"):
            groups[cell.theorem, BOUND, gamma] = asymptotic(cell.theorem, gamma)
    fits = [
        Fit(
            theorem=theorem,
            function=function,
            gamma=gamma,
            printed=cell.printed[gamma == "tuned"],
            T=exponents(group),
            largest=max((m.T / m.bound for m in group if m.T is not None), default=math.nan),
            known=sum(m.T is not None for m in group),
            tried=len(group),
        )
        for cell in cells
        for (theorem, function, gamma), group in groups.items()
        if theorem == cell.theorem
    ]
    return Complexity(measured=tuple(measured), fits=tuple(fits))


def asymptotic(theorem: str, gamma: str) -> list[Measured]:
    """Return the T of a theorem for small eps and large d."""
    found = []
    # The tuned gamma is 1 in floating point for smaller eps.
    for eps in (1e-4, 1e-5) if gamma == "constant" else (2e-2, 1e-2):
        for d in (256, 1024):
            T = plan_of_ones(theorem, d, eps, GAMMA if gamma == "constant" else THEOREMS[theorem].tuned(d, eps)).T
            found.append(Measured(theorem=theorem, function=BOUND, gamma=gamma, d=d, eps=eps, T=T, bound=T))
    return found


def plan_of_ones(name: str, d: int, eps: float, gamma: float) -> Plan:
    """Return the plan of a theorem for a function whose constants are all 1."""
    theorem = THEOREMS[name]
    noise = largest_noise(theorem, L1=1.0, d=d, eps=eps)
    floor = None if noise["nu"] else 0.0
    return plan(method_of(theorem), **ONES, **noise, d=d, span=1.0, eps=eps, gamma=gamma, floor=floor)


def largest_noise(theorem: Theorem, *, L1: float, d: int, eps: float) -> dict[str, Any]:
    """Return the noise sigma of f, and half of the largest error nu, with which a theorem reaches eps."""
    return {
        "sigma": SIGMA if theorem.stochastic else 0.0,
        "nu": largest_nu(theorem, L1=L1, d=d, eps=eps) / 2 if theorem.factor > 1 else 0.0,
    }


def measure(cell: Cell, function: str, d: int) -> list[Measured]:
    """Measure all T of a cell for one function and d."""
    theorem, problem, eps = THEOREMS[cell.theorem], FUNCTIONS[function](d), cell.eps[function]
    F: Any = problem.smooth
    noise = largest_noise(theorem, L1=F.L1, d=d, eps=min(eps))
    setting = Setting(theorem=theorem, problem=problem, t1=T1[function], seeds=cell.seeds, **noise)
    length = cell.max_length.get(function, 2048)
    found = measure_setting(setting, function, "constant", GAMMA, eps, length)
    for e in (eps[0], eps[-1]):
        found += measure_setting(setting, function, "tuned", theorem.tuned(d, e), [e], length)
    return found


def measure_worst_case(n: int) -> list[Measured]:
    """Measure T of Theorem 3.4 on a chain of n links, all of which must be closed for eps = 0.2 / sqrt(n)."""
    problem = chain(n)
    setting = Setting(theorem=THEOREMS["3.4"], problem=problem, t1=problem.parameters["t1"])
    return measure_setting(setting, WORST_CASE, "constant", GAMMA, [0.2 * n**-0.5], 100 * n)


def measure_setting(
    setting: Setting, function: str, kind: str, gamma: float, eps: Sequence[float], max_length: int
) -> list[Measured]:
    """Measure T for each eps, with a gamma of this kind, "constant" or "tuned"."""
    about: dict[str, Any] = {"theorem": setting.theorem.name, "function": function, "gamma": kind}
    return [
        Measured(**about, d=setting.problem.d, eps=e, T=T, bound=setting.plan(eps=e, gamma=gamma).T)
        for e, T in setting.least(gamma, eps, max_length).items()
    ]


def exponents(measured: Sequence[Measured]) -> Exponents:
    """Fit log T = a + p log(1/eps) + q log d by least squares; without q if d is a function of eps."""
    known = [m for m in measured if m.T is not None]
    A = np.array([[1.0, -math.log(m.eps), math.log(m.d)] for m in known]).reshape(-1, 3)
    if np.linalg.matrix_rank(A, tol=1e-6) < 3:
        A = A[:, :2]
    if len(A) <= A.shape[1]:
        return Exponents()
    y = np.array([math.log(m.T or math.nan) for m in known])
    found, *_ = np.linalg.lstsq(A, y, rcond=None)
    variance = float(((y - A @ found) ** 2).sum()) / (len(A) - A.shape[1])
    errors = np.sqrt(variance * np.diag(np.linalg.inv(A.T @ A)))
    # p with its error, then q with its error if it was fitted.
    return Exponents(*np.column_stack([found, errors])[1:].ravel().tolist())


@style()
def draw(found: Complexity) -> Figure:
    """Draw T over eps for each theorem, function and d, with the slope of Table 1."""
    theorems = list(dict.fromkeys(m.theorem for m in found.measured))
    columns = min(3, len(theorems))
    lines = -(-len(theorems) // columns)
    figure = new_figure(3.0 * lines + 0.6, 3.2 * columns)
    axes = figure.subplots(lines, columns, squeeze=False)
    for ax, theorem in zip(axes.flat, theorems, strict=False):
        _panel(ax, theorem, [m for m in found.measured if m.theorem == theorem and m.T is not None])
    for ax in axes[:, 0]:
        ax.set_ylabel("iterations T")
    for ax in list(axes.flat)[len(theorems) :]:
        ax.set_axis_off()
    _legend(figure, list(dict.fromkeys(m.function for m in found.measured)))
    return figure


FUNCTION_COLORS = {"slide": "#0072B2", "chain": "#009E73", "wells": "#D55E00", WORST_CASE: "black"}


def _panel(ax: Axes, theorem: str, measured: Sequence[Measured]) -> None:
    """Draw the lines of one theorem, darker for larger d. A tuned gamma has two eps and is drawn as rings."""
    groups: dict[tuple[str, str, int], list[tuple[float, Any]]] = {}
    for m in measured:  # the worst case has another d at every eps
        groups.setdefault((m.function, m.gamma, 0 if m.function == WORST_CASE else m.d), []).append((1 / m.eps, m.T))
    dims = sorted({d for _, _, d in groups if d})
    for (function, gamma, d), points in sorted(groups.items(), key=lambda group: (group[0][0] == WORST_CASE, group[0])):
        look: dict[str, Any] = {"marker": "s", "markersize": 4}
        if function != WORST_CASE:
            look = {"marker": "."} if gamma == "constant" else {"marker": "o", "markerfacecolor": "none", "ls": "none"}
            look["alpha"] = 0.35 + 0.65 * (dims.index(d) + 1) / len(dims)
        ax.plot(*zip(*sorted(points), strict=True), color=FUNCTION_COLORS[function], linewidth=1, **look)
    ax.set(xscale="log", yscale="log", xlabel="eps")
    ax.set_title(f"Theorem {theorem}: {THEOREMS[theorem].about}", fontsize=8)
    if measured:
        _slope(ax, measured, theorem)
        ticks = np.geomspace(max(m.eps for m in measured), min(m.eps for m in measured), 4)
        ax.set_xticks(1 / ticks, [f"{eps:.2g}" for eps in ticks])
        ax.minorticks_off()


def _slope(ax: Axes, measured: Sequence[Measured], theorem: str) -> None:
    """Draw a line with the exponent of 1/eps in Table 1."""
    p = 4 if THEOREMS[theorem].stochastic else 2
    x = np.geomspace(min(1 / m.eps for m in measured), max(1 / m.eps for m in measured), 2)
    y = 1.6 * max(m.T for m in measured if m.T is not None) * (x / x[-1]) ** p
    ax.plot(x, y, color="gray", linestyle="--", linewidth=1)
    where: dict[str, Any] = {"xytext": (-16, -4), "textcoords": "offset points", "ha": "right", "va": "bottom"}
    ax.annotate(rf"$\epsilon^{{-{p}}}$", (x[1], y[1]), color="gray", **where)


def _legend(figure: Figure, functions: Sequence[str]) -> None:
    from matplotlib.lines import Line2D

    lines = [Line2D([], [], color=FUNCTION_COLORS[name], label=name) for name in functions]
    lines += [
        Line2D([], [], color="gray", marker=".", label=f"gamma = {GAMMA}, darker for larger d"),
        Line2D([], [], color="gray", marker="o", markerfacecolor="none", linestyle="none", label="tuned gamma"),
        Line2D([], [], color="gray", linestyle="--", label="slope of Table 1"),
    ]
    figure.legend(handles=lines, loc="outside upper center", ncols=4, frameon=False)


EXPERIMENT = Study(name="complexity", title="Table 1, measured", jobs=jobs, conclude=conclude)
