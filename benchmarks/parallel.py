"""Measure what `minimize(..., parallel=W)` gains in rounds of W evaluations, and what it costs in quality.

    python benchmarks/parallel.py run                   run everything without a record; safe to interrupt
    python benchmarks/parallel.py ranks                 print speed-ups and mean ranks
    python benchmarks/parallel.py page                  write benchmarks/parallel.md from the records

A call with m points takes ceil(m / W) rounds. Records are JSON lines in `benchmarks/parallel_records`
(`parallel_study/records.py`). The page says how cells, rounds and ranks are defined. To run only a part:

    python benchmarks/parallel.py run --methods slgh --d 5,10 --budgets 20,50 --W 8 --seconds 300

To compare versions of slgh, give each a label. `ranks` reads the peers from the repository's records, and compares the
problems that all versions have run:

    PYTHONPATH=src python benchmarks/parallel.py run --methods slgh --label a --records out/trials --instances 1
    PYTHONPATH=src python benchmarks/parallel.py ranks --label a,b --records out/trials --d 5,10
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from coco import names, numbers, some_functions
from coco_study.records import drop_incomplete_lines
from coco_study.running import run_and_keep, run_command_line
from parallel_study import page, records
from parallel_study.methods import METHODS, pick
from parallel_study.problems import BUDGETS, SUITES, WORKERS, Cell, Somewhere, cells
from parallel_study.records import Job

PAGE = Path(__file__).resolve().with_suffix(".md")


def run(args: argparse.Namespace) -> int:
    """Run every job without a record, and store its record."""
    drop_incomplete_lines(args.records)
    known = records.read(args.records)
    jobs = jobs_of(args)
    left = [job for job in jobs if any(key not in known for key in job.keys)]
    sound = run_and_keep(
        left, args.records, workers=args.processes, seconds=args.seconds, already_recorded=len(jobs) - len(left)
    )
    return 0 if sound else 1


def jobs_of(args: argparse.Namespace) -> list[Job]:
    """Return the selected runs, those in few variables first. One run covers all budgets of an anytime method."""
    budgets: dict[tuple[int, Somewhere], list[int]] = {}
    for workers in args.W or (1, *WORKERS):
        for cell in selected_cells(args, workers):
            for place in filter(selects(args), cell.places):
                budgets.setdefault((workers, place), []).append(cell.budget)
    jobs = []
    for (workers, place), wanted in sorted(budgets.items(), key=lambda item: (item[0][1].d, item[0][0])):
        for method in pick(args.methods, args.label):
            if place.d > method.max_d or (workers == 1 and not method.is_slgh):
                continue
            runs = tuple(budget for budget in sorted(wanted) if budget <= method.max_budget)
            groups = [(budget,) for budget in runs] if method.planned else [runs] if runs else []
            jobs += [Job(method=method, workers=workers, place=place, budgets=group) for group in groups]
    return jobs


def ranks(args: argparse.Namespace) -> int:
    """Print speed-ups and mean ranks of the selected methods in the selected cells."""
    found = records.read(records.FOLDER, args.records)
    recorded = dict.fromkeys(key[0] for key in found if key[0].partition("@")[0] == "slgh")
    versions = ["slgh" if x == "slgh" else f"slgh@{x}" for x in names(args.label)] or list(recorded)
    for workers in args.W or WORKERS:
        chosen = selected_cells(args, workers)
        print("\n".join(page.tables(found, chosen, versions, args.methods or list(METHODS), selects(args))))
    return 0


def write_page(args: argparse.Namespace) -> int:
    """Write the page from the records."""
    args.markdown.write_text(page.page(records.read(args.records)))
    return 0


def selected_cells(args: argparse.Namespace, workers: int) -> list[Cell]:
    """Return the cells with the selected budgets."""
    return [cell for cell in cells(workers) if not args.budgets or cell.budget in args.budgets]


def selects(args: argparse.Namespace) -> Callable[[Somewhere], bool]:
    """Return the predicate of the selected problems."""

    def selected(place: Somewhere) -> bool:
        return (
            (not args.d or place.d in args.d)
            and (not args.suites or place.suite in args.suites)
            and (not args.instances or place.i in args.instances)
            and (place.suite == "clusters" or args.functions(place.f))
        )

    return selected


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--records", type=Path, default=records.FOLDER, help="Folder of the records.")

    narrow = argparse.ArgumentParser(add_help=False)
    narrow.add_argument("--methods", type=names, default=[], help=f"Comma-separated, from {', '.join(METHODS)}.")
    narrow.add_argument("--label", default="", help="Name of this version of slgh. For ranks, several.")
    narrow.add_argument("--suites", type=names, default=[], help=f"Comma-separated, from {', '.join(SUITES)}.")
    narrow.add_argument("--d", type=numbers, default=(), help="Dimensions: 5, 10 and 40, clusters 15 and 21.")
    narrow.add_argument("--budgets", type=numbers, default=(), help=f"Multiples of d, from {BUDGETS}.")
    narrow.add_argument(
        "--functions", type=some_functions, default="all", help="Numbers. Clusters are always selected."
    )
    narrow.add_argument("--instances", type=numbers, default=(), help="Instances, or starts of the clusters: 1-3.")
    narrow.add_argument("--W", type=numbers, default=(), help="Simulated workers, from 1, 8 and 64.")

    top = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = top.add_subparsers(required=True, metavar="command")
    for name, action, parents in (
        ("run", run, [shared, narrow]),
        ("ranks", ranks, [shared, narrow]),
        ("page", write_page, [shared]),
    ):
        added = commands.add_parser(name, help=action.__doc__, description=action.__doc__, parents=parents)
        added.set_defaults(action=action)
        if name == "run":
            added.add_argument("--seconds", type=float, default=math.inf, help="Start no more runs after this time.")
            added.add_argument("--processes", type=int, default=1, help="Number of processes, with one thread each.")
        if name == "page":
            added.add_argument("--markdown", type=Path, default=PAGE, help="Page to write.")
    return top


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line."""
    return run_command_line(parser(), words)


if __name__ == "__main__":
    sys.exit(main())
