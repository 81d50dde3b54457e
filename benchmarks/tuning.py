"""Hyperparameters of scikit-learn's models with 50 and 200 evaluations: slgh and six methods of other libraries.

    python benchmarks/tuning.py run                       run everything without a record
    python benchmarks/tuning.py run --methods slgh TPE    only some methods
    python benchmarks/tuning.py run --seconds 600         start no more runs after this time
    python benchmarks/tuning.py run --problems training   the problems on which constants of slgh were chosen
    python benchmarks/tuning.py ranks --problems training print mean ranks
    python benchmarks/tuning.py page                      write benchmarks/tuning.md from the records

Records are JSON lines in `benchmarks/tuning_records`. An interrupted run continues where it stopped. `--folder` takes
another folder, for instance to compare versions of slgh.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from pathlib import Path

from tuning_study import page, records
from tuning_study.methods import METHODS, run
from tuning_study.problems import TEST, TRAINING, Problem

SETS = {"test": TEST, "training": TRAINING}


def run_all(
    methods: Sequence[str],
    problems: Sequence[Problem],
    budgets: Sequence[int],
    seeds: int,
    *,
    seconds: float,
    folder: Path,
) -> None:
    """Run what has no record, one seed after the other."""
    begin = time.monotonic()
    for seed in range(seeds):
        for budget in budgets:
            for method in methods:
                known = records.read(method, folder)
                for problem in problems:
                    if (problem.name, seed, budget) in known:
                        continue
                    if time.monotonic() - begin > seconds:
                        return
                    watched, own = run(method, problem, seed, budget)
                    records.append(method, seed, watched, own, folder)
                    print(f"{method:15} {problem.name:26} {seed} {budget} {watched.best:.5g}", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("run", "ranks", "page"))
    parser.add_argument("--problems", choices=SETS, default="test")
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--budgets", nargs="*", type=int, default=list(page.BUDGETS))
    parser.add_argument("--seeds", type=int, default=page.SEEDS)
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--folder", type=Path, default=records.FOLDER)
    given = parser.parse_args(arguments)
    problems = SETS[given.problems]
    if given.command == "run":
        limits = {"seconds": given.seconds, "folder": given.folder}
        run_all(given.methods, problems, given.budgets, given.seeds, **limits)
    elif given.command == "ranks":
        print(page.ranks_table(problems, given.methods, given.budgets, given.seeds, given.folder))
    else:
        page.write(given.folder)


if __name__ == "__main__":
    main()
