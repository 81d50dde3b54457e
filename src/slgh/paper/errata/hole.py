"""Appendix D.4, the function with a hole: which methods were run, and with what."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product

import numpy as np

from slgh.minimize import minimize
from slgh.paper.errata.erratum import Erratum, listed, row_of, run_variant, ticked, whole
from slgh.paper.experiment import Record, Tick
from slgh.paper.experiments.hole import EXPERIMENT as HOLE
from slgh.paper.table import judge
from slgh.problems import hole
from slgh.smoothing import Quadrature

LABELS = tuple(row.label for row in HOLE.rows)
"""ZOSLGH_r 0.995, ZOSLGH_r 0.999 and ZOSLGH_d 0.999."""

DEEP = -56.0
"""Below it, x is in the hole."""

PRINTED_Y = 8.33e-3
"""|y| of ZOSLGH_d in Table 6."""


def order(tick: Tick) -> Record:
    """The largest |y| of first-order runs, by quadrature, and the median |y| of zeroth-order ones, row by row."""
    problem, found = hole(), {"first": list[float](), "zeroth": list[float](), "x": list[float]()}
    for label in ticked(LABELS, tick):
        row = row_of(HOLE, label)
        first = whole(
            minimize(
                Quadrature(problem.fun, nodes=32),
                problem.x0,
                method=row.method.removeprefix("zo"),
                step=0.01,
                max_iter=1000,
                history=0,
                **row.params,
            )
        )
        zeroth = run_variant(HOLE, label, seeds=50)
        found["first"].append(abs(float(first.x[1])))
        found["x"].append(float(first.x[0]))
        found["zeroth"].append(float(np.median(np.abs(zeroth.x[:, 1]))))
    return found


def tell_order(found: Record) -> tuple[str, str]:
    points = ", ".join(f"({x:.3f}, 0)" for x in found["x"])
    largest = max(found["first"])
    return (
        f"{points}, |y| below {10.0 ** np.ceil(np.log10(largest)):.0e}",
        f"median |y| {listed(found['zeroth'], '.1g')}",
    )


def minibatch(tick: Tick, *, samples: Sequence[int] = (1, 10, 100)) -> Record:
    """Which rows of Table 6 lie within the interval over seeds, for several minibatches; and who finds the hole."""
    found: dict[str, list[list[float]]] = {"inside": [], "found": []}
    runs = list(product(samples, LABELS))
    for M, label in ticked(runs, tick):
        result = run_variant(HOLE, label, seeds=200 if M < 100 else 50, samples=M)
        if label == LABELS[0]:
            found["inside"].append([])
            found["found"].append([])
        inside = judge(HOLE, row_of(HOLE, label), result.x, result.fun) == "within interval"
        found["inside"][-1].append(inside)
        found["found"][-1].append(float(np.mean(result.fun < DEEP)))
    return found | {"samples": list(samples)}


def tell_minibatch(found: Record) -> tuple[str, str]:
    def say(k: int) -> str:
        inside, shares = sum(found["inside"][k]), listed(found["found"][k], ".1%")
        return f"M = {found['samples'][k]}: {inside} of 3 rows within the interval, in the hole {shares}"

    ours = found["samples"].index(10)
    return "; ".join(say(k) for k in range(len(found["samples"])) if k != ours), say(ours)


def floor(tick: Tick, *, floors: Sequence[float] = (1e-3, 0.01, 0.02, 0.05, 0.2), seeds: int = 200) -> Record:
    """For several floors the share of seeds that end with a |y| as large as printed and with f as printed."""
    found: dict[str, list[float]] = {"floor": list(floors), "y": [], "f": []}
    for one in ticked(floors, tick):
        result = run_variant(HOLE, LABELS[2], seeds=seeds, floor=one)
        found["y"].append(float(np.mean(np.abs(result.x[:, 1]) >= PRINTED_Y)))
        found["f"].append(float(np.mean(np.abs(result.fun + 56.670) < 1e-3)))
    return found


def tell_floor(found: Record) -> tuple[str, str]:
    def say(k: int) -> str:
        return f"{found['floor'][k]:g}: |y| {found['y'][k]:.0%}, f {found['f'][k]:.0%}"

    ours = found["floor"].index(0.02)
    return "; ".join(say(k) for k in range(len(found["floor"])) if k != ours), say(ours)


def better(tick: Tick, *, seeds: int = 50) -> Record:
    """The median f of the three rows."""
    return {label: float(np.median(run_variant(HOLE, label, seeds=seeds).fun)) for label in ticked(LABELS, tick)}


def tell_better(found: Record) -> tuple[str, str]:
    return "a method is not better than itself", "; ".join(f"{label}: {value:.4g}" for label, value in found.items())


def slope(tick: Tick, *, seeds: int = 200) -> Record:
    """The share of seeds in the hole when t steps along tr Hess F, and along dF/dt, with one sample and with ten."""
    found: dict[str, list[float]] = {"trace": [], "exact": []}
    for M, kind in ticked(list(product((1, 10), found)), tick):
        result = run_variant(HOLE, LABELS[2], seeds=seeds, samples=M, slope=kind)
        found[kind].append(float(np.mean(result.fun < DEEP)))
    return found


def tell_slope(found: Record) -> tuple[str, str]:
    trace, exact = (listed(found[kind], ".1%") for kind in ("trace", "exact"))
    return f"in the hole {trace} with M = 1 / 10", f"{exact} along dF/dt"


ERRATA = (
    Erratum(
        name="the slope in t, run",
        where="Algorithms 2 and 3",
        says="t steps along what is called dF/dt and is tr Hess F",
        takes='the same by default, slope="trace"; slope="exact" is dF/dt',
        prints="in the hole",
        measure=slope,
        tell=tell_slope,
        random=True,
    ),
    Erratum(
        name="the hole's methods",
        where="D.4, Table 6",
        says="SLGH_r and SLGH_d, which are first-order (Section 5: ZOSLGH)",
        takes="the zeroth-order ones",
        prints="(-0.248, 2.38e-2), (-2.959, -2.18e-3), (9.319, 8.33e-3)",
        measure=order,
        tell=tell_order,
        random=True,
    ),
    Erratum(
        name="the hole's minibatch",
        where="D.4",
        says="none",
        takes="M = 10, that of the attack",
        measure=minibatch,
        tell=tell_minibatch,
        random=True,
    ),
    Erratum(
        name="the hole's floor",
        where="D.4, Algorithms 2 and 3",
        says="eps', sufficiently small; the algorithms' inputs call it eps",
        takes="eps' = 0.02",
        prints="|y| = 8.33e-3, f = -56.670",
        measure=floor,
        tell=tell_floor,
        random=True,
    ),
    Erratum(
        name="SLGH_d and SLGH_d",
        where="D.4",
        says="SLGH_d outperforms SLGH_d",
        takes="SLGH_d outperforms SLGH_r",
        prints="-5.52e-3 / 0.175 / -56.670",
        measure=partial(better, seeds=50),
        tell=tell_better,
        random=True,
    ),
)
