"""Compare the ranking of first radii t1 by `slgh.probe` with that of runs, on 14 functions.

For each function and each radius of the probe, the score is compared with the median final value over 20 seeds of a
plain homotopy from that t1 (HOMOTOPY below), with the budget of "auto". The paper's four functions are also
compared with the paper's own methods, SLGH_r (Rosenbrock and Himmelblau, closed form) and ZOSLGH_r (Ackley and the
hole, 10 seeds), with its steps, minibatches and numbers of iterations.

Run `python benchmarks/probe.py`: two to three minutes. `--markdown FILE` writes the tables, `--picture FILE` the
figure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy.stats import spearmanr

import slgh
from slgh.probe import RADII, Probe, probe

SEEDS, PROBES = 20, 10
LONG = 100
"""Steps of longer rehearsals, for comparison."""

GAMMAS = (0.999, 0.995)
REACHED = 1e-6
"""Runs whose remaining share of f(x0) - min f is below this have reached the minimum. They tie."""

READING = "## How to read it"
"""The text from this heading on is written by hand. `--markdown` keeps it."""

DECOYS = np.random.default_rng(7).uniform(-4, 4, (20, 5))


def rastrigin(x: Any) -> Any:
    """Bowl with ripples of period 1."""
    return np.sum(x**2 - 10 * np.cos(2 * np.pi * x) + 10, axis=-1)


def ellipsoid(x: Any) -> Any:
    """Bowl with curvatures that differ by a factor of 10,000."""
    d = x.shape[-1]
    return np.sum(1e4 ** (np.arange(d) / (d - 1)) * x**2, axis=-1)


def griewank(x: Any) -> Any:
    """Wide bowl with a product of cosines."""
    return np.sum(x**2, axis=-1) / 4000 - np.prod(np.cos(x / np.sqrt(np.arange(1, x.shape[-1] + 1))), axis=-1) + 1


def levy(x: Any) -> Any:
    """Bowl with ripples that grow with the distance."""
    w = 1 + (x - 1) / 4
    first, middle, last = w[..., 0], w[..., :-1], w[..., -1]
    ripples = np.sum((middle - 1) ** 2 * (1 + 10 * np.sin(np.pi * middle + 1) ** 2), axis=-1)
    return np.sin(np.pi * first) ** 2 + ripples + (last - 1) ** 2 * (1 + np.sin(2 * np.pi * last) ** 2)


def decoys(x: Any) -> Any:
    """Bowl with twenty narrow wells. The start lies in one of them."""
    z = x[..., None, :] - DECOYS
    return np.sum(x**2, axis=-1) - 8 * np.sum(np.exp(-np.sum(z * z, axis=-1) / 0.32), axis=-1)


def styblinski(x: Any) -> Any:
    """Styblinski-Tang: two minima per variable. The start is at the worse one."""
    return np.sum(x**4 - 16 * x**2 + 5 * x, axis=-1) / 2


def salomon(x: Any) -> Any:
    """Rings of ripples around a cone."""
    r = np.sqrt(np.sum(x**2, axis=-1))
    return 1 - np.cos(2 * np.pi * r) + 0.1 * r


def schwefel(x: Any) -> Any:
    """Schwefel's function in a box of +-500. The minimum is close to a corner, and there is no bowl."""
    return 418.9828872724338 * x.shape[-1] - np.sum(x * np.sin(np.sqrt(np.abs(x))), axis=-1)


def weierstrass(x: Any) -> Any:
    """Ripples on ripples, twelve octaves of base 3."""
    a, b = 0.5 ** np.arange(12), 3.0 ** np.arange(12)
    waves = np.sum(a * np.cos(2 * np.pi * b * (x[..., None] + 0.5)), axis=(-1, -2))
    return waves - x.shape[-1] * np.sum(a * np.cos(np.pi * b))


def stairs(x: Any) -> Any:
    """Bowl of steps, flat nearly everywhere."""
    return np.sum(np.floor(x + 0.5) ** 2, axis=-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A function with its start and minimum. `fresh` functions were evaluated only after the score was designed."""

    name: str
    fun: Callable[[Any], Any]
    x0: NDArray[np.float64]
    minimum: float = 0.0
    bounds: Any = None
    fresh: bool = False
    problem: slgh.problems.Problem | None = None


def _paper(name: str) -> Case:
    problem = slgh.problems.PROBLEMS[name]()
    return Case(name=name, fun=problem.fun, x0=problem.x0, minimum=problem.minimum, problem=problem)


CASES = (
    *(_paper(name) for name in ("rosenbrock", "himmelblau", "ackley", "hole")),
    Case(name="rastrigin", fun=rastrigin, x0=np.full(10, 3.4)),
    Case(name="ellipsoid", fun=ellipsoid, x0=np.full(10, 3.0)),
    Case(name="griewank", fun=griewank, x0=np.full(10, 60.0)),
    Case(name="levy", fun=levy, x0=np.full(20, -5.0)),
    Case(name="decoys", fun=decoys, x0=DECOYS[0] + 0.1),
    Case(name="styblinski-tang", fun=styblinski, x0=np.full(10, 3.0), minimum=-391.66165703771, fresh=True),
    Case(name="salomon", fun=salomon, x0=np.full(5, 10.0), fresh=True),
    Case(name="schwefel", fun=schwefel, x0=np.full(5, -100.0), bounds=[(-500, 500)] * 5, fresh=True),
    Case(name="weierstrass", fun=weierstrass, x0=np.full(10, 0.3), fresh=True),
    Case(name="stairs", fun=stairs, x0=np.full(10, 7.3), fresh=True),
)


class Outcome(NamedTuple):
    """Results for a case: probes from several seeds, and the final value of the runs at each radius."""

    case: Case
    probes: list[Probe]
    longer: list[Probe]
    reached: NDArray[np.float64]
    paper: list[NDArray[np.float64]]


HOMOTOPY = {"method": "scale_free", "oracle": "antithetic", "shape": 1.0, "alpha": 0.5, "fall": 6e-6}
"""The homotopy of "auto" in its simplest form, which the probe predicts."""


def finals(case: Case, t1: float, B: int, **options: Any) -> float:
    """Return the median final value over B seeds. A diverged run counts as infinite."""
    x0 = np.tile(case.x0, (B, 1))
    common = {"batched": True, "vectorized": True, "seed": 0, "history": None, "bounds": case.bounds}
    options = options if "method" in options else HOMOTOPY | options
    with np.errstate(all="ignore"):
        found = slgh.minimize(options.pop("fun", case.fun), x0, t1=float(t1), **common, **options).fun
    return float(np.median(np.where(np.isfinite(found), found, np.inf)))


def paper_run(case: Case, t1: float, gamma: float) -> float:
    """Run the paper's method with the parameters of its table for this function."""
    problem = case.problem
    assert problem is not None
    own = {name: problem.parameters[name] for name in ("step", "max_iter")} | {"gamma": gamma}
    if problem.smooth is not None:
        return finals(case, t1, 1, fun=problem.smooth, method="slgh_r", **own)
    return finals(case, t1, 10, method="zoslgh_r", samples=problem.parameters["samples"], floor=0.0, **own)


def measure(case: Case) -> Outcome:
    """Probe, and run from every probed radius."""

    def probes(**options: Any) -> list[Probe]:
        common = {"bounds": case.bounds, "vectorized": True, **options}
        return [probe(case.fun, case.x0, seed=seed, **common) for seed in range(PROBES)]

    found = probes()
    t = found[0].t
    paper = [np.array([paper_run(case, one, gamma) for one in t]) for gamma in GAMMAS if case.problem is not None]
    return Outcome(case, found, probes(steps=LONG), np.array([finals(case, one, SEEDS) for one in t]), paper)


def gaps(case: Case, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the remaining shares of f(x0) - min f, rounded to two digits, so that random differences tie."""
    left = np.maximum((values - case.minimum) / (case.fun(case.x0) - case.minimum), REACHED)
    return np.array([float(f"{one:.1e}") for one in left])


def correlation(score: NDArray[np.float64], gap: NDArray[np.float64]) -> float:
    """Return Spearman's correlation of a score with small gaps, or NaN if all gaps tie."""
    return float(spearmanr(score, -gap)[0]) if np.ptp(gap) > 0 else float("nan")


class Line(NamedTuple):
    """A row of the table, with the correlations as numbers."""

    name: str
    d: int
    homotopy: tuple[float, ...]
    highest: float
    t: float
    longer: float
    paper: tuple[float, ...]
    advised: str
    best: str
    regret: float
    default: float
    helps: float

    def cells(self) -> tuple[str, ...]:
        """Return the row as text."""
        return (
            self.name,
            str(self.d),
            f"{np.mean(self.homotopy):.2f} ({min(self.homotopy):.2f} to {max(self.homotopy):.2f})",
            *(f"{number:.2f}" for number in (self.highest, self.t, self.longer, *self.paper)),
            *("" for _ in GAMMAS[len(self.paper) :]),
            self.advised,
            self.best,
            *(f"{share:.1%}" for share in (self.regret, self.default)),
            f"{self.helps:.0%}",
        )


def compare(outcome: Outcome) -> Line:
    """Compare the probes with the runs."""
    case, probes, longer, reached, paper = outcome
    gap, t, best = gaps(case, reached), probes[0].t, int(np.argmin(reached))
    at = [int(np.argmax(t == found.t1)) for found in probes]
    regrets = (reached - reached[best]) / (case.fun(case.x0) - reached[best])
    return Line(
        name=case.name,
        d=len(case.x0),
        homotopy=tuple(correlation(found.score, gap) for found in probes),
        highest=correlation(-np.argsort(np.argsort(gap, kind="stable")), gap),
        t=correlation(t, gap),
        longer=float(np.mean([correlation(found.score, gap) for found in longer])),
        paper=tuple(float(np.mean([correlation(p.score, gaps(case, values)) for p in probes])) for values in paper),
        advised=f"{t[at[0]]:.3g} ({reached[at[0]]:.3g})",
        best=f"{t[best]:.3g} ({reached[best]:.3g})",
        regret=float(np.mean(regrets[at])),
        default=float(regrets[np.argmax(RADII == 1)]),
        helps=float(np.mean([found.helps for found in probes])),
    )


HEAD = (
    *("function", "d", "ρ with homotopies", "highest possible", "ρ of t itself", f"ρ, {LONG} steps"),
    *(f"ρ, paper's method, γ {gamma}" for gamma in GAMMAS),
    *("recommended t1 (f)", "best t1 (f)", "regret", "regret of auto's t1", "helps"),
)
TERMINAL_COLUMNS = ("function", "d", "ρ with homotopies", "regret", "helps")
"""Columns that fit 80 characters. The page has all."""


def mean(lines: list[Line]) -> tuple[str, ...]:
    """Return a row with the means of the correlations with homotopies."""
    columns = (np.mean(line.homotopy) for line in lines), (line.highest for line in lines), (line.t for line in lines)
    numbers = [f"{np.mean(list(column)):.2f}" for column in (*columns, (line.longer for line in lines))]
    shares = [f"{np.mean(list(c)):.1%}" for c in ((line.regret for line in lines), (line.default for line in lines))]
    return "mean", "", *numbers, *("" for _ in GAMMAS), "", "", *shares, ""


def draw(outcomes: list[Outcome], file: Path) -> None:
    """Plot score and final values against t1. Up is better for both."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(3, 3, figsize=(11, 8), layout="constrained")
    for ax, (case, probes, _, reached, _) in zip(axes.flat, outcomes, strict=True):
        t, gap = probes[0].t, gaps(case, reached)
        for found in probes:
            ax.plot(t, found.score / found.score.max(), color="C0", alpha=0.25, lw=1)
        scores = np.median([found.score / found.score.max() for found in probes], axis=0)
        (score,) = ax.plot(t, scores, "o-", color="C0", label="score of the probe (thin: each of 10 seeds)")
        advised = ax.axvline(probes[0].t1, color="black", ls=":", label="recommended t1 (seed 0)")
        ax.set(xscale="log", ylim=(-0.05, 1.1), title=f"{case.name}, d = {len(case.x0)}")
        right = ax.twinx()
        (runs,) = right.plot(t, gap, "s--", color="C1", label="remaining after the runs (axis reversed: up is better)")
        right.set(yscale="log", ylim=(3, 3e-7))
        ax.tick_params(axis="y", labelcolor="C0")
        right.tick_params(axis="y", labelcolor="C1")
        if ax in axes[:, -1]:
            right.set_ylabel("share of f(x0) - min f", color="C1")
    for ax in axes[:, 0]:
        ax.set_ylabel("score, relative", color="C0")
    for ax in axes[-1]:
        ax.set_xlabel("first radius t1")
    figure.legend(handles=[score, runs, advised], loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(file, dpi=110)


def main(
    markdown: Annotated[Path | None, typer.Option(help="Write the tables to this file.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Draw the first nine functions into this file.")] = None,
) -> None:
    """Measure, and print the tables."""
    outcomes = [measure(case) for case in track(CASES, transient=True)]
    command = "python benchmarks/probe.py --markdown benchmarks/probe.md --picture docs/images/probe.png"
    parts = [f"Command: `{command}`. slgh {slgh.__version__}, numpy {np.__version__}.\n"]
    for fresh, title in {
        False: "Functions used to design the score",
        True: "Functions evaluated afterwards",
    }.items():
        lines = [compare(outcome) for outcome in outcomes if outcome.case.fresh == fresh]
        rows = [*(one.cells() for one in lines), mean(lines)]
        shown = [HEAD.index(name) for name in TERMINAL_COLUMNS]
        table = Table(*TERMINAL_COLUMNS, title=title)
        for row in rows:
            table.add_row(*(row[i] for i in shown))
        Console().print(table)
        text = [f"| {' | '.join(row)} |" for row in (HEAD, *rows)]
        text.insert(1, "| --- " * len(HEAD) + "|")
        parts.append(f"## {title}\n\n" + "\n".join(text) + "\n")
    if markdown:
        words = markdown.read_text().partition(READING) if markdown.exists() else ("", "", "")
        markdown.write_text("\n".join([*parts, "".join(words[1:])]))
    if picture:
        draw(outcomes[:9], picture)


if __name__ == "__main__":
    typer.run(main)
