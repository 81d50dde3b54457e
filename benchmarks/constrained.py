"""slgh, COBYQA and differential evolution on constrained problems of the CEC 2006 competition, at equal evaluations.

    python benchmarks/constrained.py run                   run everything without a record
    python benchmarks/constrained.py run --methods slgh    only some methods
    python benchmarks/constrained.py table                 write benchmarks/constrained.md from the records

Records are JSON lines in `benchmarks/constrained_records`. An interrupted run continues where it stopped. COBYQA takes
about 10 ms per evaluation, most of the time of the benchmark.
"""

from __future__ import annotations

import argparse
import time

from constrained_study import page, records
from constrained_study.methods import METHODS, run
from constrained_study.problems import PROBLEMS, TRAINING

SEEDS = 10
"""Starts per problem."""


def run_all(methods: list[str], problems: list[str], seeds: int) -> None:
    """Run what has no record, one seed after the other."""
    for seed in range(seeds):
        for method in methods:
            known = records.read(method)
            for name in problems:
                if (name, seed) in known:
                    continue
                begin = time.process_time()
                watched, claims = run(method, PROBLEMS[name], seed)
                seconds = time.process_time() - begin
                records.append(method, name, seed, watched, claims, seconds)
                print(f"{method:8} {name} {seed} {watched.outcome()} {watched.count} {seconds:.1f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("run", "table"))
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--problems", nargs="*", default=[name for name in PROBLEMS if name not in TRAINING])
    given = parser.parse_args()
    if given.command == "run":
        run_all(given.methods, given.problems, given.seeds)
    else:
        page.write()


if __name__ == "__main__":
    main()
