"""Appendix D.4, the function with a hole: the methods and their parameters."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from slgh.minimize import minimize
from slgh.paper.errata.erratum import Measurement, erratum, listed, run_variant, ticked
from slgh.paper.experiment import Tick, require_complete
from slgh.paper.experiments.benchmark_functions import HOLE
from slgh.paper.experiments.paper_table import judge
from slgh.problems import hole
from slgh.smoothing import Quadrature

LABELS = tuple(row.label for row in HOLE.rows)
"""ZOSLGH_r 0.995, ZOSLGH_r 0.999 and ZOSLGH_d 0.999."""

DEEP = -56.0
"""Value of f below which x is in the hole."""

PRINTED_Y = 8.33e-3
"""|y| of ZOSLGH_d in Table 6."""


@erratum("the slope in t, run")
def slope(tick: Tick, *, seeds: int = 200) -> Measurement:
    """Share of seeds in the hole when t steps along tr Hess F, and along dF/dt, with one sample and with ten."""
    found: dict[str, list[float]] = {"trace": [], "exact": []}
    for M, kind in ticked(list(product((1, 10), found)), tick):
        result = run_variant(HOLE, LABELS[2], seeds=seeds, samples=M, slope=kind)
        found[kind].append(float(np.mean(result.fun < DEEP)))
    trace, exact = (listed(shares, ".1%") for shares in found.values())
    return Measurement(found, f"in the hole {trace} with M = 1 / 10", f"{exact} along dF/dt")


@erratum("the hole's methods")
def order(tick: Tick) -> Measurement:
    """Largest |y| of first-order runs, by quadrature, and median |y| of zeroth-order ones, for each row."""
    problem, found = hole(), {"first": list[float](), "zeroth": list[float](), "x": list[float]()}
    F = Quadrature(problem.fun, nodes=32)
    for label in ticked(LABELS, tick):
        row = HOLE.row(label)
        method = row.method.removeprefix("zo")
        first = minimize(F, problem.x0, method=method, step=0.01, max_iter=1000, history=0, **row.params)
        x, y = require_complete(first).x
        zeroth = run_variant(HOLE, label, seeds=50)
        found["first"].append(abs(float(y)))
        found["x"].append(float(x))
        found["zeroth"].append(float(np.median(np.abs(zeroth.x[:, 1]))))
    points = ", ".join(f"({x:.3f}, 0)" for x in found["x"])
    largest = 10.0 ** np.ceil(np.log10(max(found["first"])))
    return Measurement(found, f"{points}, |y| below {largest:.0e}", f"median |y| {listed(found['zeroth'], '.1g')}")


@erratum("the hole's minibatch")
def minibatch(tick: Tick, *, samples: Sequence[int] = (1, 10, 100)) -> Measurement:
    """Rows of Table 6 within the interval over seeds, and the share of seeds in the hole, for several minibatches."""
    inside: dict[int, list[bool]] = {M: [] for M in samples}
    shares: dict[int, list[float]] = {M: [] for M in samples}
    for M, label in ticked(list(product(samples, LABELS)), tick):
        result = run_variant(HOLE, label, seeds=200 if M < 100 else 50, samples=M)
        inside[M].append(judge(HOLE, HOLE.row(label), result.x, result.fun) == "within interval")
        shares[M].append(float(np.mean(result.fun < DEEP)))
    said = {
        M: f"M = {M}: {sum(inside[M])} of 3 rows within the interval, in the hole {listed(shares[M], '.1%')}"
        for M in samples
    }
    found = {"inside": list(inside.values()), "found": list(shares.values()), "samples": list(samples)}
    ours = said.pop(10)
    return Measurement(found, "; ".join(said.values()), ours)


@erratum("the hole's floor")
def floor(tick: Tick, *, floors: Sequence[float] = (1e-3, 0.01, 0.02, 0.05, 0.2), seeds: int = 200) -> Measurement:
    """Share of seeds that end with |y| as large as printed, and with f as printed, for several floors."""
    found: dict[str, list[float]] = {"floor": list(floors), "y": [], "f": []}
    said = {}
    for one in ticked(floors, tick):
        result = run_variant(HOLE, LABELS[2], seeds=seeds, floor=one)
        y = float(np.mean(np.abs(result.x[:, 1]) >= PRINTED_Y))
        f = float(np.mean(np.abs(result.fun + 56.670) < 1e-3))
        found["y"].append(y)
        found["f"].append(f)
        said[one] = f"{one:g}: |y| {y:.0%}, f {f:.0%}"
    ours = said.pop(0.02)
    return Measurement(found, "; ".join(said.values()), ours)


@erratum("SLGH_d and SLGH_d")
def better(tick: Tick, *, seeds: int = 50) -> Measurement:
    """Median f of the three rows."""
    found = {label: float(np.median(run_variant(HOLE, label, seeds=seeds).fun)) for label in ticked(LABELS, tick)}
    medians = "; ".join(f"{label}: {value:.4g}" for label, value in found.items())
    return Measurement(found, "a method is not better than itself", medians)


ERRATA = (slope, order, minibatch, floor, better)
