"""Mean ranks from the records, and the page `benchmarks/tuning.md`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata, studentized_range, t

from tuning_study import records
from tuning_study.methods import METHODS
from tuning_study.problems import TEST, TRAINING, Problem

BUDGETS = (50, 200)
"""Evaluations per run."""

SEEDS = 20
"""Seeds per problem."""

LEAST_SEEDS = 4
"""Minimum number of seeds for an interval."""

SLOW = "scikit-optimize"
"""A method that takes up to a second per evaluation. It may have fewer seeds, and then has a table of its own."""

PAGE = Path(__file__).parent.parent / "tuning.md"

Floats = NDArray[np.float64]

HEAD = """# Hyperparameter tuning

Three models of scikit-learn on its bundled data, in spaces of 7 or 8 parameters: reals, integers, categories and
booleans. The loss is cross-validated on fixed folds, so it is deterministic. `python benchmarks/tuning.py` has the
commands.

{spaces}

The losses are 1 minus the area under the ROC curve (SVC), the squared error relative to the variance (trees), and the
share of wrong classes (linear classifier).

- All methods have their defaults and get the space in the types of their library. slgh and nevergrad know the budget.
  slgh begins in the middle of the space.
- A **rank** compares the best values of the methods, per problem and seed. Equal values share the mean of their ranks.
  1 is best.
- **minus slgh** is the mean difference of the ranks from those of slgh, with its 95 % interval. Seeds are the samples.
- `TPE` is Optuna's default, which is multivariate since Optuna 5. `TPE-univariate` has `multivariate=False`. Optuna's
  CMA-ES draws categories and booleans at random.
- 20 seeds per problem are planned. `run` adds those that are missing.
- scikit-optimize is `gp_minimize`. It takes much longer than the others, so it has fewer seeds and a table of its own.
- The constants of slgh were chosen on the training problems below: other models and data, and three formulas. slgh was
  run on the three reported problems once, after that.

"""

TRAINING_HEAD = """## Training problems

The constants of slgh were chosen on these. Their ranks are not held-out results.

"""


def best_values(
    problems: Sequence[Problem], methods: Sequence[str], budget: int, seeds: int, folder: Path
) -> tuple[Floats, list[int]]:
    """Return the best values (problem, seed, method) of the seeds that all methods have run, and these seeds."""
    found = {method: records.read(method, folder) for method in methods}
    complete = [
        seed for seed in range(seeds) if all((p.name, seed, budget) in found[m] for p in problems for m in methods)
    ]
    values = [[[found[m][p.name, s, budget]["best"] for m in methods] for s in complete] for p in problems]
    return np.array(values).reshape(len(problems), len(complete), len(methods)), complete


def ranks_of(values: Floats) -> Floats:
    """Return ranks along the last axis, averaged where values are equal up to rounding."""
    return np.asarray(rankdata(np.array([float(f"{v:.9g}") for v in values.flat]).reshape(values.shape), axis=-1))


def critical_difference(methods: int, samples: int) -> float:
    """Return Nemenyi's critical difference of mean ranks at 5 %."""
    q = float(studentized_range.ppf(0.95, methods, np.inf))
    return q / np.sqrt(2) * float(np.sqrt(methods * (methods + 1) / (6 * samples)))


def interval(differences: Floats) -> float:
    """Return the half width of the 95 % interval of the mean of paired differences (seeds,)."""
    n = len(differences)
    return float(t.ppf(0.975, n - 1) * differences.std(ddof=1) / np.sqrt(n))


def ranks_table(
    problems: Sequence[Problem], methods: Sequence[str], budgets: Sequence[int], seeds: int, folder: Path
) -> str:
    """Return mean ranks as lines of text."""
    lines = []
    for budget in budgets:
        values, complete = best_values(problems, methods, budget, seeds, folder)
        if not complete:
            continue
        ranks = ranks_of(values)
        lines += [f"{budget} evaluations, {len(complete)} seeds"]
        lines += [f"{'':28}" + " ".join(f"{m:>15}" for m in methods)]
        rows = [*zip([p.name for p in problems], ranks.mean(axis=1), strict=True), ("mean", ranks.mean(axis=(0, 1)))]
        lines += [f"{name:28}" + " ".join(f"{r:15.2f}" for r in row) for name, row in rows]
    return "\n".join(lines)


def _table(rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table, right-aligned except for the first column."""
    head, *rest = rows
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rest]) + "\n"


def _ranks(problems: Sequence[Problem], methods: Sequence[str], budget: int, seeds: int, folder: Path) -> str:
    """Return the table of mean ranks at a budget, and the differences that count. Empty without runs."""
    values, complete = best_values(problems, methods, budget, seeds, folder)
    if not complete:
        return ""
    ranks = ranks_of(values)
    rows = [["", *methods]]
    means = ranks.mean(axis=(0, 1))
    rows.append(["**mean rank**", *(f"**{r:.2f}**" if r == means.min() else f"{r:.2f}" for r in means)])
    if "slgh" in methods:
        behind = (ranks - ranks[:, :, [list(methods).index("slgh")]]).mean(axis=0)  # (seed, method)
        wide = len(complete) < LEAST_SEEDS
        paired = [f"{d.mean():+.2f}" + ("" if wide else f" ± {interval(d):.2f}") for d in behind.T]
        rows.append(["minus slgh", *("" if m == "slgh" else text for m, text in zip(methods, paired, strict=True))])
    rows += [[p.name, *(f"{r:.2f}" for r in row)] for p, row in zip(problems, ranks.mean(axis=1), strict=True)]
    few, many = (critical_difference(len(methods), n) for n in (len(problems), len(problems) * len(complete)))
    return (
        f"{len(complete)} seed{'s' if len(complete) > 1 else ''}, {len(methods)} methods:\n\n{_table(rows)}\n"
        f"Critical difference: {few:.2f} with problems as samples, {many:.2f} with runs as samples.\n\n"
    )


def _medians(problems: Sequence[Problem], methods: Sequence[str], budget: int, seeds: int, folder: Path) -> str:
    """Return the table of median losses at a budget."""
    values, complete = best_values(problems, methods, budget, seeds, folder)
    if not complete:
        return ""
    rows = [["", *methods]]
    rows += [[p.name, *(f"{v:.5f}" for v in row)] for p, row in zip(problems, np.median(values, axis=1), strict=True)]
    return f"Median of the best loss:\n\n{_table(rows)}\n"


def _times(methods: Sequence[str], folder: Path) -> str:
    """Return the table of the CPU time that the methods take themselves."""
    rows = [["CPU ms per evaluation", *methods]]
    for budget in BUDGETS:
        cells = []
        for method in methods:
            lines = [
                line
                for (name, _, n), line in records.read(method, folder).items()
                if n == budget and name in {p.name for p in TEST}
            ]
            cells.append(f"{np.mean([line['own_ms'] for line in lines]):.2f}" if lines else "")
        rows.append([f"{budget} evaluations", *cells])
    return _table(rows)


def render(folder: Path) -> str:
    """Return the page."""
    fast, every = [m for m in METHODS if m != SLOW], list(METHODS)
    page = HEAD.format(spaces="\n".join(_described(problem) for problem in TEST))
    for budget in BUDGETS:
        page += f"## {budget} evaluations\n\n"
        if best_values(TEST, every, budget, SEEDS, folder)[1] != best_values(TEST, fast, budget, SEEDS, folder)[1]:
            page += _ranks(TEST, fast, budget, SEEDS, folder)
        page += _ranks(TEST, every, budget, SEEDS, folder)
        page += _medians(TEST, fast, budget, SEEDS, folder)
    page += f"## Time\n\nWhat the methods take themselves, without the loss:\n\n{_times(every, folder)}\n"
    page += TRAINING_HEAD
    for budget in BUDGETS:
        page += f"### {budget} evaluations\n\n"
        trained = [m for m in fast if records.read(m, folder).keys() & {(p.name, 0, budget) for p in TRAINING}]
        page += _ranks(TRAINING, trained, budget, SEEDS, folder)
        page += _ranks(TRAINING, [*trained, SLOW], budget, SEEDS, folder)
    return page.rstrip() + "\n"


def _described(problem: Problem) -> str:
    """Return a line of the page about a problem."""
    return f"- **{problem.name}**: " + ", ".join(f"`{name}`" for name in problem.space)


def write(folder: Path) -> None:
    """Write the page."""
    PAGE.write_text(render(folder))
