"""Tables, and the page benchmarks/parallel.md, written from the records."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from coco_study.table import table

from parallel_study.methods import METHODS, PEERS
from parallel_study.problems import ATOMS, BUDGETS, LEAST_ROUNDS, SPEED_UP, WORKERS, Cell, cells
from parallel_study.ranking import (
    EVALUATIONS,
    ROUNDS,
    Contest,
    Entrant,
    Found,
    Keep,
    contests,
    loss,
    overall,
    ranks,
    speed_up,
)

PINNED = Path(__file__).parents[2] / "constraints.txt"
LIBRARIES = ("numpy", "cma", "nevergrad", "optuna", "cmaes", "coco-experiment")

HEAD = f"""# Parallel evaluations

`python benchmarks/parallel.py run` runs what has no record in `benchmarks/parallel_records`, and
`python benchmarks/parallel.py page` writes this page from the records.

What `minimize(..., parallel=W)` gains in rounds of W evaluations, and what it costs in quality. Nothing is timed: a
call with m points takes ceil(m / W) rounds, as if W workers evaluated one point each and a method waited for all.

- **Problems.** COCO's training functions (the constants of `auto` were chosen on them) in 5, 10 and 40 variables, and
  Lennard-Jones clusters of {" and ".join(map(str, ATOMS))} atoms in the box of their starts, without gradients. Three
  instances or starts, two in 40 variables, and one fewer with {BUDGETS[-1]} d evaluations.
- **Budgets.** n = {", ".join(map(str, BUDGETS))} d evaluations.
- **Speed-up.** Evaluations per round. The target is at least {SPEED_UP} min(W, n/{LEAST_ROUNDS}), since a method that
  adapts to what it sees needs some rounds, however many workers there are.
- **Rank by evaluations.** All methods are compared by the lowest f - fopt after n evaluations.
- **Rank by rounds.** All methods have R = ceil(n / ({SPEED_UP} min(W, n/{LEAST_ROUNDS}))) rounds. In these slgh, told
  max_evals=n, must finish to reach its target. The peers may fill each round with W points, up to
  R min(W, n/{LEAST_ROUNDS}) evaluations in total, which is 1.43 to 1.45 n. slgh stops after n, also if rounds are
  left, so this comparison favors the peers. If it takes more rounds, its value after R rounds counts.
- **Ranks** are means over instances, then over functions. Values below 1e-8 tie. So do clusters within 1e-4 of the
  optimum. Only methods that have run on all problems of a cell are ranked in it. The last row is the mean over cells
  of the ranks among the methods that have run in all of them.
- **Peers.** `cma` is pycma with its default population, and `cma-W` with a population of W, both with sigma0 and bounds
  as in `benchmarks/coco.py` and restarts. `ng-cma`, `ng-de` and `ng-tbpsa` are nevergrad's CMA, DE and TBPSA with
  num_workers=W. Its NGOpt raises a TypeError with NumPy 2.4. `optuna-cma` is Optuna's CmaEsSampler with popsize=W, and
  `optuna-tpe` its TPESampler with constant_liar=True. All are asked for W points, then told W values, except `cma`,
  whose generation takes ceil(population / W) rounds. Optuna's samplers are slow, so CMA-ES runs up to
  {METHODS["optuna-cma"].max_d} variables and {METHODS["optuna-cma"].max_budget} d evaluations, and TPE up to
  {METHODS["optuna-tpe"].max_d} variables and {METHODS["optuna-tpe"].max_budget} d.
"""


def page(found: Found) -> str:
    """Return the page."""
    versions = ["slgh"] if any(key[0] == "slgh" for key in found) else []
    minutes = sum(record.seconds for record in set(found.values())) / 60
    pinned = dict(line.split("==") for line in PINNED.read_text().splitlines() if "==" in line)
    libraries = ", ".join(f"{name} {pinned[name]}" for name in LIBRARIES)
    lines = [HEAD, f"The runs took {minutes:.0f} minutes of CPU time. Versions: {libraries}.", ""]
    for workers in WORKERS:
        lines += tables(found, cells(workers), versions, PEERS, lambda place: True)
    if not versions:
        lines += ["slgh has no records yet."]
    return "\n".join(lines).rstrip("\n") + "\n"


def tables(
    found: Found, chosen: Sequence[Cell], versions: Sequence[str], names: Sequence[str], keep: Keep
) -> list[str]:
    """Return the lines of all tables for cells with the same number of workers."""
    workers = chosen[0].workers
    entrants = [(version, workers) for version in versions]
    shown = contests(found, chosen, entrants, names, keep)
    if not shown:
        return [f"W = {workers}: no records.", ""]
    lines = [*speed_up_table(found, shown, versions)] if versions else []
    if ranked := [contest for contest in shown if contest.peers]:
        lines += rank_table(found, ranked, entrants, ROUNDS, f"Mean rank by rounds, W = {workers}")
        lines += rank_table(found, ranked, entrants, EVALUATIONS, f"Mean rank by evaluations, W = {workers}")
    for version in versions:
        both = contests(found, chosen, [(version, workers), (version, 1)], names, keep)
        if ranked := [contest for contest in both if contest.peers]:
            lines += loss_table(found, ranked, version)
    return lines


def title_of(contest: Contest) -> str:
    """Return the first entry of a cell's row."""
    return f"{contest.cell.group}, {contest.cell.budget} d"


def speed_up_table(found: Found, shown: Sequence[Contest], versions: Sequence[str]) -> list[str]:
    """Return a table of speed-ups: the mean in each cell, in bold if it reaches the target, and the lowest."""
    rows = []
    for contest in shown:
        speeds = [speed_up(found, contest, version) for version in versions]
        target = speeds[0].target
        entries = [
            f"**{s.mean:.1f}** ({s.lowest:.1f})" if s.mean >= target else f"{s.mean:.1f} ({s.lowest:.1f})"
            for s in speeds
        ]
        rows.append([title_of(contest), f"{target:.1f}", *entries])
    workers = shown[0].cell.workers
    words = "Mean over runs, in bold if it reaches the target, and the lowest of a run."
    return [f"## Speed-up, W = {workers}", "", words, "", *table(["", "target", *versions], rows), ""]


def rank_table(found: Found, shown: Sequence[Contest], entrants: Sequence[Entrant], axis: str, title: str) -> list[str]:
    """Return a table of mean ranks, one row per cell. The best is in bold."""
    known = {name for contest in shown for name in contest.peers}
    names = [*(name for name, _ in entrants), *(name for name in PEERS if name in known)]
    rows = []
    for contest in shown:
        found_ranks = ranks(found, contest, entrants, contest.peers, axis)
        rows.append([title_of(contest), *_marked(found_ranks, names), str(len(contest.places))])
    rows.append(["all", *_marked(overall(found, shown, entrants, axis), names), ""])
    return [f"## {title}", "", *table(["", *names, "problems"], rows), ""]


def _marked(found: dict[str, float], names: Sequence[str]) -> list[str]:
    best = min(found.values(), default=0.0)
    return [
        "" if name not in found else f"**{found[name]:.2f}**" if found[name] == best else f"{found[name]:.2f}"
        for name in names
    ]


def loss_table(found: Found, shown: Sequence[Contest], version: str) -> list[str]:
    """Return a table of the ranks that a version loses to itself with one worker."""
    losses = [loss(found, contest, version) for contest in shown]
    rows = [[title_of(contest), f"{lost:+.2f}"] for contest, lost in zip(shown, losses, strict=True)]
    rows.append(["all", f"{float(np.mean(losses)):+.2f}"])
    workers = shown[0].cell.workers
    words = f"Rank by evaluations with W = {workers}, minus that with W = 1, each among the peers with W = {workers}."
    return [f"## Ranks that {version} loses to W = 1, W = {workers}", "", words, "", *table(["", "ranks"], rows), ""]
