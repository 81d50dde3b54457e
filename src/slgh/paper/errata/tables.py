"""Tables 3 to 5 of the paper: parameters that are misprinted or missing, and digits."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from slgh.paper.errata.erratum import Erratum, listed, row_of, run_variant, ticked
from slgh.paper.experiment import Record, Tick
from slgh.paper.experiments.ackley import EXPERIMENT as ACKLEY
from slgh.paper.experiments.himmelblau import EXPERIMENT as HIMMELBLAU
from slgh.paper.experiments.hole import EXPERIMENT as HOLE
from slgh.paper.experiments.rosenbrock import EXPERIMENT as ROSENBROCK
from slgh.paper.table import INTERVAL, PaperTable, Row, unit
from slgh.problems import ackley as ackley_problem

SEEDS = {1: 50, 10: 50, 100: 20, 1000: 5}
"""Over how many seeds a run with so many samples is repeated: enough to tell the variants apart, in seconds."""

MANY = {1: 50, 10: 50, 100: 50, 1000: 20}
"""The same where an interval is read off."""


def ackley_step(tick: Tick, *, samples: Sequence[int] = (10, 100, 1000)) -> Record:
    """The median f of two rows of Table 3 with both steps, and the curvature of the ripple where ZOSGD ends."""
    rows, steps = ("ZOSGD", "ZOSLGH_r 0.995"), {"printed": 0.1, "ours": 0.01}
    found: dict[str, Any] = {reading: {row: [] for row in rows} for reading in steps}
    for (reading, step), row, M in ticked(list(product(steps.items(), rows, samples)), tick):
        result = run_variant(ACKLEY, row, seeds=SEEDS[M], step=step, samples=M)
        found[reading][row].append(float(np.median(result.fun)))
    f, x, h = ackley_problem().fun, np.full(2, 4.986), np.array([1e-4, 0.0])
    return found | {"samples": list(samples), "curvature": float((f(x + h) + f(x - h) - 2 * f(x)) / h[0] ** 2)}


def tell_ackley_step(found: Record) -> tuple[str, str]:
    printed, ours = (
        "; ".join(f"{row}: {listed(values)}" for row, values in found[reading].items())
        for reading in ("printed", "ours")
    )
    size = f"M = {listed(found['samples'], 'd')}"
    limit = f"the ripple's curvature {found['curvature']:.0f} allows steps below {2 / found['curvature']:.3f}"
    return f"{size}: {printed}; {limit}", f"{size}: {ours}"


LARGE = ("ZOGradOpt 0.5", "ZOSLGH_r 0.999")
"""Rows of Table 3 whose f tells the size of the minibatch."""


def ackley_minibatch(tick: Tick, *, samples: Sequence[int] = (1, 10, 100, 1000)) -> Record:
    """f of two rows of Table 3 for several minibatches: the median and the interval over seeds."""
    found: dict[str, Any] = {"samples": list(samples)}
    for row, M in ticked(list(product(LARGE, samples)), tick):
        result = run_variant(ACKLEY, row, seeds=MANY[M], samples=M)
        low, middle, high = np.quantile(result.fun, (INTERVAL[0], 0.5, INTERVAL[1])).tolist()
        found.setdefault(row, []).append({"median": middle, "low": low, "high": high})
    return found


def tell_ackley_minibatch(found: Record) -> tuple[str, str]:
    def say(which: slice) -> str:
        size = listed(found["samples"][which], "d")
        rows = (
            f"{row}: " + " / ".join(f"{f['median']:.2g} [{f['low']:.2g}, {f['high']:.2g}]" for f in found[row][which])
            for row in LARGE
        )
        return f"M = {size}: " + "; ".join(rows)

    return say(slice(None, -1)), say(slice(-1, None))


def ackley_value(tick: Tick) -> Record:
    """f over all points that print as that of ZOGradOpt 0.8, and which rows of Tables 3 to 6 agree with themselves."""
    tables = (ROSENBROCK, HIMMELBLAU, ACKLEY, HOLE)
    rows = [(table, row) for table in tables for row in table.rows]
    wrong = [f"{table.name} {row.label}" for table, row in rows if not consistent(table, row)]
    low, high = cell(ACKLEY, row_of(ACKLEY, "ZOGradOpt 0.8"))
    return {"low": low, "high": high, "rows": len(rows), "wrong": wrong}


def cell(table: PaperTable, row: Row) -> tuple[float, float]:
    """The least and the largest f over the points within one unit of the last digits of the printed one."""
    axes = [float(p) + unit(p) * np.linspace(-1, 1, 41) for p in row.x]
    values = table.problem().fun(np.stack(np.meshgrid(*axes), axis=-1))
    return float(values.min()), float(values.max())


def consistent(table: PaperTable, row: Row) -> bool:
    """Whether f at some point that prints as the row's is what the row prints."""
    (low, high), u = cell(table, row), unit(row.fun)
    return low - u <= float(row.fun) <= high + u


def tell_ackley_value(found: Record) -> tuple[str, str]:
    agree = f"{found['rows'] - len(found['wrong'])} of the {found['rows']} rows of Tables 3 to 6 agree with themselves"
    return "8.1e-2", f"{found['low']:.3g} to {found['high']:.3g} at points that print so; {agree}"


def digits(tick: Tick, *, slow: bool = True) -> Record:
    """How many figures of Table 5, and of a row of Table 4 (`slow`), are ours rounded, truncated, within one unit."""
    rows = [(HIMMELBLAU, row) for row in HIMMELBLAU.rows]
    rows += [(ROSENBROCK, row_of(ROSENBROCK, "SLGH_r 0.995"))] if slow else []
    counts = np.zeros(3, int)
    figures = 0
    for table, row in ticked(rows, tick):
        result = run_variant(table, row.label)
        for ours, printed in zip([*result.x[0], result.fun[0]], [*row.x, row.fun], strict=True):
            units = (ours - float(printed)) / unit(printed) * np.sign(ours)
            counts += [abs(units) <= 0.5, 0 <= units < 1, abs(units) < 1]
            figures += 1
    return {"figures": figures} | dict(zip(("rounded", "truncated", "within"), counts.tolist(), strict=True))


def tell_digits(found: Record) -> tuple[str, str]:
    n = found["figures"]
    return (
        f"{found['rounded']} of {n} figures agree rounded, {found['truncated']} truncated",
        f"{found['within']} of {n}",
    )


RULES: dict[str, dict[str, Any]] = {
    "F, 50, 1e-3": {},
    "f, 50, 1e-3": {"rule": "f"},
    "printed, 50, 1e-3": {"rule": "minibatch"},
    "printed, 100, 1e-3": {"rule": "minibatch", "n0": 100},
    "printed, 100, 5e-3": {"rule": "minibatch", "n0": 100, "eps0": 5e-3},
}
"""Stopping rules of the inner loop: what is compared, how often it must agree, how closely. Ours is the first."""


def gradopt_rule(tick: Tick, *, slow: bool = True) -> Record:
    """f of GradOpt's row on Himmelblau under each rule; of two more rows (`slow`: Rosenbrock's) under the first two."""
    runs = [(HIMMELBLAU, "GradOpt 0.5", rule) for rule in RULES]
    more = [(HIMMELBLAU, "GradOpt 0.8"), *([(ROSENBROCK, "GradOpt 0.8")] if slow else [])]
    runs += [(table, row, rule) for table, row in more for rule in list(RULES)[:2]]
    found: dict[str, dict[str, float]] = {rule: {} for rule in RULES}
    for table, row, rule in ticked(runs, tick):
        found[rule][f"{table.name} {row}"] = float(run_variant(table, row, **RULES[rule]).fun[0])
    return found


def tell_gradopt_rule(found: Record) -> tuple[str, str]:
    ours, *others = ((rule, listed(values.values())) for rule, values in found.items())
    return "; ".join(f"{values} ({rule})" for rule, values in others), f"{ours[1]} ({ours[0]})"


ERRATA = (
    Erratum(
        name="Ackley's step",
        where="D.1",
        says="stepsize beta = 0.1",
        takes="beta = 0.01",
        prints="ZOSGD: 12.63; ZOSLGH_r 0.995: 6.56",
        measure=ackley_step,
        tell=tell_ackley_step,
        random=True,
    ),
    Erratum(
        name="Ackley's minibatch",
        where="D.1",
        says="none; one direction in Algorithm 3",
        takes="M = 1000",
        prints="ZOGradOpt 0.5: 1.4e-2; ZOSLGH_r 0.999: 1.7e-2",
        measure=ackley_minibatch,
        tell=tell_ackley_minibatch,
        random=True,
    ),
    Erratum(
        name="Ackley's value",
        where="Table 3, ZOGradOpt 0.8",
        says="f(-2.2e-3, 6.7e-3) = 8.1e-2",
        takes="2.1e-2",
        prints="8.1e-2",
        measure=ackley_value,
        tell=tell_ackley_value,
    ),
    Erratum(
        name="digits",
        where="Tables 4 and 5",
        says="figures such as 0.670 and 2.998",
        takes="rounded or truncated: within one unit of the last digit",
        measure=digits,
        tell=tell_digits,
    ),
    Erratum(
        name="GradOpt's stopping rule",
        where="D.2, D.3",
        says="none; Table 7 has one for the attack, with N0 = 100 and eps0 = 1e-3 or 5e-3",
        takes="F(x, t) at the same t changed by at most 1e-3, 50 times",
        prints="Himmelblau 0.5 / 0.8: 14.14 / 80.51; Rosenbrock 0.8: 3.70e-2",
        measure=gradopt_rule,
        tell=tell_gradopt_rule,
    ),
)
