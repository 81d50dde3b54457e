"""The page benchmarks/successors.md, written from the records."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from scipy.stats import rankdata

from successors_study import records
from successors_study.methods import TRIALS, UNTUNED, trials
from successors_study.problems import COMPARISONS, REPORTED, TUNING, TUNING_SPREAD, Comparison

PAGE = Path(__file__).parents[1] / "successors.md"

LEAST = 1e-12
"""Differences of f below this count as zero."""

HEAD = f"""# Successors of the paper

`python benchmarks/successors.py run` runs what has no record in `benchmarks/successors_records`, and
`python benchmarks/successors.py table` writes this page from the records.

The paper's methods, methods of later papers on Gaussian smoothing, and `auto`, on the problems of those papers.

- **Values** are medians over runs of the lowest f that a run evaluated, above the minimum. Those below {LEAST:g} count
  as equal.
- **Ranks**, in parentheses, are means over runs, from 1 (best). **Bold** is the best mean rank.
- **Settings** were tuned alike, except for {", ".join(f"`{m}`" for m in UNTUNED)}, which have none:
  {TRIALS} settings per method, drawn from ranges in units of the problem (`successors_study/methods.py`), on other
  seeds: other starts from the published distribution, other data, or where the start is fixed, starts with a standard
  deviation of {TUNING_SPREAD} per variable around it. The setting with the lowest mean of log10 f ran on the reported
  instances. The records have all settings.
- `auto` gets the start and the budget. `cma` is pycma's CMA-ES with sigma 1, diagonal in 500 variables. `cpl` is
  continuation path learning with its authors' settings.
"""

XU = """## Xu (ICML 2025): Ackley, Rosenbrock, Griewank

The paper's methods are `zoslgh_r`, `zoslgh_d` and `zogradopt`. The successors are `power_gs` (Xu, 2025),
`zopower_hp` (after Xu, 2026, from values), `dgs` (Zhang et al., 2021) and `adadgs` (Tran and Zhang, 2020).

**Published settings.** The author's repository (chen-research/GS-PowerTransform) has the comparisons in 2
variables: Ackley from N((5, 5), 0.01^2) with 200 iterations of 10 samples, and Rosenbrock from N((-3, 2), 0.1^2)
with 1,000 iterations of 100 samples, 100 runs each. These starts and budgets are used here, with 20 runs. The
repository has no programs for 500 variables, and the text of the paper was not at hand. So the starts there (5 per
variable for Ackley, (-3, 2, -3, 2, ...) for Rosenbrock, 10 for Griewank) and the budget of 1,000 iterations of 100
samples are ours.

**Published figures.** The paper's table was not at hand. A public list of results credits the paper with a mean
squared error of 5.98 (Ackley), 0.37 (Rosenbrock) and 3.32 (Griewank) in 500 variables, without the method, the
start and the budget. In the repository, the solution of a run is its iterate that is closest to the minimizer, and
the settings are those with the lowest such error on the reported runs. A user can do neither, so these figures do
not compare with the tables below.

**Budgets.** In 500 variables `dgs` and `adadgs` take 2,000 evaluations per iteration and more, so they do 50
iterations or fewer. The authors of AdaDGS allow 50 iterations for Ackley and Rosenbrock in 1,000 variables.
"""

CPL = """## Continuation path learning (ICML 2023): Ackley, Himmelblau, Rosenbrock

The three functions are those of the paper. Starts and budgets are those of the authors' program (Xi-L/CPL): 2,000
values for Ackley, 2,000 and 20,000 gradients of F for Himmelblau and Rosenbrock. `slgh_r`, `slgh_d`, `cpl` and
`auto` use the closed form of F where there is one, and `power_hp` gradients of f. `slgh_r`, `slgh_d` and `power_hp`
may evaluate a value with each gradient. The values and gradients of `auto` count together. The other methods have
as many values as the others have gradients. `cpl` is our own program after the paper's description. It fits its
network to the start first, which takes no evaluations. The authors' repository states no figures.
"""

PHASE = """## Phase retrieval near the information limit (Xu, 2026)

Find x in R^20, up to its sign, from m values (a_i . x)^2 with normal a_i, by least squares from a random start.
Generic real signals are determined from m = 2 d - 1 on. With m = 1.5 d another x may have f = 0. The cells count
the runs that end **within 1e-3 of the signal**. Of the paper (arXiv:2601.15915) only the abstract was at hand, so
d, the ratios m / d, the starts and the budget of 20,000 are ours. `gd`, `slgh_r`, `slgh_d` and `power_hp` have
20,000 gradients, and values besides. The values and gradients of `auto` count together. The others use values only.
"""


def decades(line: records.Line) -> float:
    """Return log10 of f above the minimum, at least -12, and infinity for a run that failed."""
    return math.log10(max(line["f"], LEAST)) if math.isfinite(line["f"]) else math.inf


def reported(comparison: Comparison) -> dict[str, list[records.Line]]:
    """Return the reported runs of each method, with the settings that do best on the instances for tuning."""
    found = {}
    for method in comparison.methods:
        lines = records.read(comparison.name, method)

        def score(settings: dict[str, float], lines: list[records.Line] = lines) -> float:
            runs = [x for x in lines if x["role"] == TUNING and x["settings"] == settings]
            return sum(map(decades, runs)) / len(runs) if len(runs) == comparison.tuning else math.inf

        tried = trials(method, comparison)
        best = tried[0] if len(tried) == 1 else min(tried, key=score)
        runs = [x for x in lines if x["role"] == REPORTED and x["settings"] == best]
        if len(runs) == comparison.seeds:
            found[method] = sorted(runs, key=lambda x: int(x["seed"]))
    return found


def mean_ranks(runs: dict[str, list[records.Line]]) -> dict[str, float]:
    """Return the mean rank of each method over the runs."""
    values = np.array([[decades(x) for x in lines] for lines in runs.values()])
    return dict(zip(runs, rankdata(values, axis=0).mean(axis=1).tolist(), strict=True))


def table(comparisons: Iterable[Comparison]) -> str:
    """Return a table with a row per method and a column per comparison."""
    columns = [(c, reported(c)) for c in comparisons]
    ranks = [mean_ranks(runs) if runs else {} for _, runs in columns]
    methods = list(dict.fromkeys(m for c, _ in columns for m in c.methods))
    lines = ["| | " + " | ".join(c.title for c, _ in columns) + " |", "| --- |" + " ---: |" * len(columns)]
    for method in methods:
        cells = [_cell(c, runs, rank, method) for (c, runs), rank in zip(columns, ranks, strict=True)]
        lines.append(f"| `{method}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(comparison: Comparison, runs: dict[str, list[records.Line]], ranks: dict[str, float], method: str) -> str:
    if method not in runs:
        return ""
    lines = runs[method]
    value = float(np.median([x["f"] for x in lines]))
    text = f"{value:.2g}" if value > LEAST else "0"
    if comparison.solved is not None:
        text = f"{sum(x['error'] < comparison.solved for x in lines)}/{len(lines)}, f {text}"
    text += f" ({ranks[method]:.1f})"
    return f"**{text}**" if ranks[method] <= min(ranks.values()) + 1e-9 else text


def errors(comparisons: Iterable[Comparison]) -> str:
    """Return a table of the median mean squared errors of x."""
    columns = [(c, reported(c)) for c in comparisons]
    lines = ["| | " + " | ".join(c.title for c, _ in columns) + " |", "| --- |" + " ---: |" * len(columns)]
    for method in dict.fromkeys(m for c, _ in columns for m in c.methods):
        cells = [f"{np.median([x['error'] for x in r[method]]):.2g}" if method in r else "" for _, r in columns]
        lines.append(f"| `{method}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def verdict() -> str:
    """Say in which comparisons auto is first, and in which it is not."""
    first, behind = [], []
    for comparison in COMPARISONS.values():
        runs = reported(comparison)
        if "auto" not in runs:
            continue
        ranks = mean_ranks(runs)
        ahead = [f"`{m}`" for m, r in ranks.items() if r < ranks["auto"] - 1e-9]
        (behind if ahead else first).append(f"{comparison.name} ({', '.join(ahead)})" if ahead else comparison.name)
    text = f"`auto` has the best mean rank, alone or shared, in {len(first)} of {len(first) + len(behind)} comparisons"
    return f"{text}." if not behind else f"{text}. It is behind others in: {'; '.join(behind)}."


def costs() -> str:
    """Return a sentence on the time and the versions of the records."""
    lines = [x for c in COMPARISONS.values() for m in c.methods for x in records.read(c.name, m)]
    versions = sorted({", ".join(f"{k} {v}" for k, v in x["versions"].items()) for x in lines})
    codes = sorted({x["code"] for x in lines})
    minutes = sum(x["seconds"] for x in lines) / 60
    return (
        f"{len(lines):,} runs in {minutes:.0f} minutes of CPU time, with {'; '.join(versions)} and the slgh source "
        f"{', '.join(codes)} (digest)."
    )


def write() -> None:
    """Write the page."""
    of = {name: [c for c in COMPARISONS.values() if c.name.startswith(name)] for name in ("cpl", "phase")}
    xu = [c for c in COMPARISONS.values() if c.source.startswith("Xu, ICML")]
    parts = [
        *(HEAD, f"{verdict()} {costs()}\n", XU, table(xu)),
        "\nMedian of the mean squared error of x at that point:\n",
        *(errors(xu), "", CPL, table(of["cpl"]), "", PHASE, table(of["phase"])),
    ]
    PAGE.write_text("\n".join(parts) + "\n")
