"""Write `benchmarks/constrained.md` from the records."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy.stats import rankdata, studentized_range

from constrained_study import records
from constrained_study.methods import BUDGETS, METHODS
from constrained_study.problems import PROBLEMS, TRAINING
from constrained_study.watched import FEASIBLE, GAP

PAGE = Path(__file__).parent.parent / "constrained.md"

REPORTED = [name for name in PROBLEMS if name not in TRAINING]

INFEASIBLE = 1e100
"""Score of a run without a feasible point, plus its lowest violation. All feasible runs are below."""

HEAD = """# Constrained problems

Problems g01 to g24 of the CEC 2006 competition, at equal evaluations. One evaluation is f and all constraints at a
point, and another call at a known point is free. `python benchmarks/constrained.py` has the commands.

- Constants of slgh were chosen on {training}. These are not reported. Nor are g20, of
  which no feasible point is known, and g22, with 19 equations in 22 variables.
- All methods get the same uniform random start, the same bounds, and the constraints as one black box. COBYQA and
  differential evolution (DE) are SciPy's with their defaults. They are restarted from uniform points when they stop.
- A point is feasible if it violates no constraint by more than {feasible:g}, equalities included. Gaps
  f - minimum up to {gap:g}, relative to max(1, |minimum|), are equal. Minima are those on exact equalities.
- A run without a feasible point ranks behind all runs with one, by its lowest violation.
- slgh had its constants before it first ran on the reported problems. One line was added after that run: a local
  search stays away from a bound at which f or a constraint is NaN, as f of g14 is at 0.
- {runs} starts per problem{note}.

"""


def score(line: records.Line, budget: int) -> float:
    """Return a number to rank a run by: its relative gap, or more if it has found no feasible point."""
    gap, violation = line["at"][BUDGETS.index(budget)]
    return INFEASIBLE * (1 + min(violation, 1e100) / 1e10) if gap is None else max(gap, GAP)


def text(value: float) -> str:
    """Format a score."""
    return "infeasible" if value >= INFEASIBLE else "0" if value <= GAP else f"{value:.1e}"


def critical_difference(methods: int, samples: int) -> float:
    """Return Nemenyi's critical difference of mean ranks at 5 %."""
    q = float(studentized_range.ppf(0.95, methods, np.inf))
    return q / np.sqrt(2) * float(np.sqrt(methods * (methods + 1) / (6 * samples)))


def render() -> str:
    """Return the page."""
    runs = {method: records.read(method) for method in METHODS}
    every = set.intersection(*(set(lines) for lines in runs.values()))
    seeds = [seed for seed in range(1000) if all((name, seed) in every for name in REPORTED)]
    note = "" if len(seeds) == 10 else ", those for which all methods have run"
    page = HEAD.format(training=", ".join(TRAINING), feasible=FEASIBLE, gap=GAP, runs=len(seeds), note=note)
    for budget in BUDGETS:
        page += f"## {budget:,} evaluations\n\n"
        scores = np.array([[[score(runs[m][n, s], budget) for m in METHODS] for s in seeds] for n in REPORTED])
        ranks = rankdata(scores, axis=2).mean(axis=1)
        solved, feasible = (scores <= GAP).mean(axis=1), (scores < INFEASIBLE).mean(axis=(0, 1))
        page += "| | " + " | ".join(METHODS) + " |\n|---|" + "---:|" * len(METHODS) + "\n"
        page += "| **mean rank** | " + " | ".join(f"{r:.2f}" for r in ranks.mean(axis=0)) + " |\n"
        page += "| runs at the minimum | " + " | ".join(f"{r:.0%}" for r in solved.mean(axis=0)) + " |\n"
        page += "| runs with a feasible point | " + " | ".join(f"{r:.0%}" for r in feasible) + " |\n"
        difference = critical_difference(len(METHODS), len(REPORTED))
        page += f"\nCritical difference of the mean ranks, with problems as samples: {difference:.2f}.\n\n"
        page += "Median gap (the upper one of two), and the share of runs at the minimum:\n\n"
        page += "| problem | d | g, h | " + " | ".join(METHODS) + " |\n|---|---:|---|" + "---:|" * len(METHODS) + "\n"
        for row, name in enumerate(REPORTED):
            cells = [
                f"{text(np.quantile(scores[row, :, m], 0.5, method='higher'))} ({solved[row, m]:.0%})"
                for m in range(len(METHODS))
            ]
            g, h = PROBLEMS[name].sizes
            page += f"| {name} | {PROBLEMS[name].d} | {g}, {h} | " + " | ".join(cells) + " |\n"
        page += "\n"
    own = [runs["slgh"][n, s] for n in REPORTED for s in seeds]
    claimed, wrong = sum(line["success"] for line in own), sum(line["wrong"] for line in own)
    page += "## Claims of feasibility\n\n"
    page += f"slgh calls {claimed} of its {len(own)} results feasible, and {wrong} of those are not. "
    for method in ("COBYQA", "DE"):
        lines = [runs[method][n, s] for n in REPORTED for s in seeds]
        claims, false = sum(line["claims"] for line in lines), sum(line["wrong"] for line in lines)
        page += (
            f"{method} reports success in {claims} of the runs that it ended by itself, {false} of them infeasible. "
        )
    page = page.rstrip() + "\n\n## Time\n\nCPU seconds per evaluation, without the function: "
    costs = []
    for method in METHODS:
        lines = [runs[method][n, s] for n in REPORTED for s in seeds]
        per = 1e3 * sum(line["seconds"] for line in lines) / sum(line["evaluations"] for line in lines)
        costs.append(f"{method} {per:.2f} ms")
    return (
        page.replace("CPU seconds per evaluation, without the function: ", "CPU time per evaluation: ")
        + ", ".join(costs)
        + ".\n"
    )


def write() -> None:
    """Write the page."""
    PAGE.write_text(render())
