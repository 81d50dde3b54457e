"""Tables 3 to 5 of the paper: parameters that are misprinted or missing, and digits."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from slgh.paper.errata.erratum import Measurement, erratum, listed, run_variant, ticked
from slgh.paper.experiment import Tick
from slgh.paper.experiments.benchmark_functions import ACKLEY, BENCHMARK_TABLES, HIMMELBLAU, ROSENBROCK
from slgh.paper.experiments.paper_table import INTERVAL, PaperTable, TableRow, unit

SEEDS = {1: 50, 10: 50, 100: 20, 1000: 5}
"""Number of seeds for each number of samples: enough to tell the variants apart, in seconds."""

INTERVAL_SEEDS = {1: 50, 10: 50, 100: 50, 1000: 20}
"""Number of seeds where an interval is computed."""


@erratum("Ackley's step")
def ackley_step(tick: Tick, *, samples: Sequence[int] = (10, 100, 1000)) -> Measurement:
    """Median f of two rows of Table 3 with both steps, and the curvature of the ripple where ZOSGD ends."""
    rows, steps = ("ZOSGD", "ZOSLGH_r 0.995"), {"printed": 0.1, "ours": 0.01}
    found: dict[str, Any] = {reading: {row: [] for row in rows} for reading in steps}
    for (reading, step), row, M in ticked(list(product(steps.items(), rows, samples)), tick):
        result = run_variant(ACKLEY, row, seeds=SEEDS[M], step=step, samples=M)
        found[reading][row].append(float(np.median(result.fun)))
    f, x, h = ACKLEY.problem().fun, np.full(2, 4.986), np.array([1e-4, 0.0])
    curvature = float((f(x + h) + f(x - h) - 2 * f(x)) / h[0] ** 2)
    printed, ours = (
        f"M = {listed(samples, 'd')}: "
        + "; ".join(f"{row}: {listed(values)}" for row, values in found[reading].items())
        for reading in steps
    )
    limit = f"the ripple's curvature {curvature:.0f} allows steps below {2 / curvature:.3f}"
    return Measurement(found | {"samples": list(samples), "curvature": curvature}, f"{printed}; {limit}", ours)


@erratum("Ackley's minibatch")
def ackley_minibatch(tick: Tick, *, samples: Sequence[int] = (1, 10, 100, 1000)) -> Measurement:
    """f of two rows of Table 3 for several minibatches: the median and the interval over seeds."""
    rows = ("ZOGradOpt 0.5", "ZOSLGH_r 0.999")
    found: dict[str, list[Any]] = {"samples": list(samples)} | {row: [] for row in rows}
    for row, M in ticked(list(product(rows, samples)), tick):
        result = run_variant(ACKLEY, row, seeds=INTERVAL_SEEDS[M], samples=M)
        low, middle, high = np.quantile(result.fun, (INTERVAL[0], 0.5, INTERVAL[1])).tolist()
        found[row].append({"median": middle, "low": low, "high": high})

    def say(which: slice) -> str:
        texts = {
            row: " / ".join(f"{f['median']:.2g} [{f['low']:.2g}, {f['high']:.2g}]" for f in found[row][which])
            for row in rows
        }
        return f"M = {listed(samples[which], 'd')}: " + "; ".join(f"{row}: {text}" for row, text in texts.items())

    return Measurement(found, say(slice(None, -1)), say(slice(-1, None)))


@erratum("Ackley's value")
def ackley_value(tick: Tick) -> Measurement:
    """f over all points that round to that of ZOGradOpt 0.8, and the rows of Tables 3 to 6 consistent with f."""
    rows = [(table, row) for table in BENCHMARK_TABLES for row in table.rows]
    wrong = [f"{table.name} {row.label}" for table, row in rows if not consistent(table, row)]
    low, high = values_near(ACKLEY, ACKLEY.row("ZOGradOpt 0.8"))
    agree = f"{len(rows) - len(wrong)} of the {len(rows)} rows of Tables 3 to 6 agree with themselves"
    return Measurement(
        {"low": low, "high": high, "rows": len(rows), "wrong": wrong},
        "8.1e-2",
        f"{low:.3g} to {high:.3g} at points that print so; {agree}",
    )


def values_near(table: PaperTable, row: TableRow) -> tuple[float, float]:
    """Return the least and the largest f over the points within one unit of the last digits of the printed one."""
    axes = [float(p) + unit(p) * np.linspace(-1, 1, 41) for p in row.x]
    values = table.problem().fun(np.stack(np.meshgrid(*axes), axis=-1))
    return float(values.min()), float(values.max())


def consistent(table: PaperTable, row: TableRow) -> bool:
    """True if f at some point that prints as the row's x has the printed value."""
    (low, high), u = values_near(table, row), unit(row.fun)
    return low - u <= float(row.fun) <= high + u


@erratum("digits")
def digits(tick: Tick, *, slow: bool = True) -> Measurement:
    """Count the numbers of Table 5, and of a row of Table 4 (`slow`), equal to those of slgh, rounded or truncated."""
    rows = [(HIMMELBLAU, row) for row in HIMMELBLAU.rows]
    rows += [(ROSENBROCK, ROSENBROCK.row("SLGH_r 0.995"))] if slow else []
    counts, n = np.zeros(3, int), 0
    for table, row in ticked(rows, tick):
        result = run_variant(table, row.label)
        for ours, printed in zip([*result.x[0], result.fun[0]], row.printed, strict=True):
            units = (ours - float(printed)) / unit(printed) * np.sign(ours)
            counts += [abs(units) <= 0.5, 0 <= units < 1, abs(units) < 1]
            n += 1
    rounded, truncated, within = counts.tolist()
    return Measurement(
        {"figures": n, "rounded": rounded, "truncated": truncated, "within": within},
        f"{rounded} of {n} figures agree rounded, {truncated} truncated",
        f"{within} of {n}",
    )


RULES: dict[str, dict[str, Any]] = {
    "F, 50, 1e-3": {},
    "f, 50, 1e-3": {"rule": "f"},
    "printed, 50, 1e-3": {"rule": "minibatch"},
    "printed, 100, 1e-3": {"rule": "minibatch", "n0": 100},
    "printed, 100, 5e-3": {"rule": "minibatch", "n0": 100, "eps0": 5e-3},
}
"""Stopping rules of the inner loop: what is compared, how many times it must agree, how closely. Ours is the first."""


@erratum("GradOpt's stopping rule")
def gradopt_rule(tick: Tick, *, slow: bool = True) -> Measurement:
    """f of GradOpt's row on Himmelblau under each rule; of two more rows (`slow`: Rosenbrock's) under the first two."""
    runs = [(HIMMELBLAU, "GradOpt 0.5", rule) for rule in RULES]
    more = [(HIMMELBLAU, "GradOpt 0.8"), *([(ROSENBROCK, "GradOpt 0.8")] if slow else [])]
    runs += [(table, row, rule) for table, row in more for rule in list(RULES)[:2]]
    found: dict[str, dict[str, float]] = {rule: {} for rule in RULES}
    for table, row, rule in ticked(runs, tick):
        found[rule][f"{table.name} {row}"] = float(run_variant(table, row, **RULES[rule]).fun[0])
    ours, *others = (f"{listed(values.values())} ({rule})" for rule, values in found.items())
    return Measurement(found, "; ".join(others), ours)


ERRATA = (ackley_step, ackley_minibatch, ackley_value, digits, gradopt_rule)
