"""The paper's methods, their successors and "auto" on the problems of the successors' papers.

    python benchmarks/successors.py run                  run everything without a record, about 13 minutes on one core
    python benchmarks/successors.py run ackley-500       only some comparisons, by the beginning of their name
    python benchmarks/successors.py table                write benchmarks/successors.md from the records

Records are JSON lines in `benchmarks/successors_records`. An interrupted run continues where it stopped. A method with
settings is tuned first: 12 settings, drawn alike for all methods (`successors_study/methods.py`), on starts or data
that are not reported. The one with the lowest mean of log10(f - minimum) is run on the reported instances.
"""

from __future__ import annotations

import argparse
import time

from successors_study import page, records
from successors_study.methods import Settings, run, trials
from successors_study.problems import COMPARISONS, REPORTED, TUNING, Comparison


def lines_of(comparison: Comparison, method: str, settings: Settings, role: int, seeds: range) -> list[records.Line]:
    """Return the records of these runs. Those without a record are run."""
    known = records.read(comparison.name, method)
    found = {seed: records.find(known, role, seed, settings, comparison.budget) for seed in seeds}
    missing = [seed for seed, line in found.items() if line is None]
    if missing:
        for seed, outcome in zip(missing, run(method, settings, comparison, role, missing), strict=True):
            found[seed] = records.append(comparison.name, method, role, seed, settings, comparison.budget, outcome)
    return [line for line in found.values() if line is not None]


def tuned(comparison: Comparison, method: str) -> Settings:
    """Return the settings that do best on the instances for tuning."""
    tried = trials(method, comparison)
    if len(tried) == 1:
        return tried[0]

    def score(settings: Settings) -> float:
        lines = lines_of(comparison, method, settings, TUNING, range(comparison.tuning))
        return sum(page.decades(line) for line in lines) / len(lines)

    return min(tried, key=score)


def run_all(names: list[str]) -> None:
    """Run what has no record."""
    for comparison in COMPARISONS.values():
        if names and not comparison.name.startswith(tuple(names)):
            continue
        for method in comparison.methods:
            start = time.monotonic()
            settings = tuned(comparison, method)
            runs = lines_of(comparison, method, settings, REPORTED, range(comparison.seeds))
            median = sorted(x["f"] for x in runs)[len(runs) // 2]
            took = time.monotonic() - start
            print(f"{comparison.name:16} {method:12} f {median:9.3g}  {took:6.1f} s  {settings}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("run", "table"))
    parser.add_argument("names", nargs="*", help="beginnings of the names of comparisons")
    given = parser.parse_args()
    if given.command == "run":
        run_all(given.names)
    else:
        page.write()


if __name__ == "__main__":
    main()
