"""Compare slgh with other optimizers on COCO: bbob, bbob-largescale and bbob-noisy.

    python benchmarks/coco.py run --estimate                 print CPU hours by method and cell, run nothing
    python benchmarks/coco.py run --workers 2                run everything without a record; safe to interrupt
    python benchmarks/coco.py table                          write docs/coco.md and its figures from the records

All methods get the same starts, budgets and instances. `benchmarks/coco_study/settings.toml` lists the methods with
their settings and the reasons for them. Records are JSON lines in `benchmarks/coco_records`. To run only a part:

    python benchmarks/coco.py run --methods slgh,cma --suites bbob --d 20,40 --functions test --seconds 500
    python benchmarks/coco.py run --methods slgh,few --variant 'few = {like = "slgh", samples = 2}' --label 2b5f

Without an installation, set PYTHONPATH=src. A library is needed only by the methods that use it. `--records` selects
another folder. `--label` names the version of slgh, so that records of two versions can be compared (`slgh@2b5f`).
`--variant` adds a method for this call.

To choose constants, use only the training functions and instances 1 to 5:

    python benchmarks/coco.py run --functions training --instances 1-5 --records out/trials --methods slgh,cma --d 20
    python benchmarks/coco.py ranks --functions training --instances 1-5 --records out/trials --methods slgh,cma
    python benchmarks/coco.py tune-paper                     tune the paper's method, write settings.toml

For COCO's own pages, `run --observe` writes missing data into `out/coco`, for the largest budget of each dimension,
and `postprocess` calls cocopp:

    python benchmarks/coco.py run --observe --methods slgh,cma --d 20
    python benchmarks/coco.py postprocess --methods slgh,cma
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from coco_study import estimate, figure, observed, overview, records, table, tuning
from coco_study.cells import choose, columns_of
from coco_study.jobs import Job, jobs_of, longest_first, run_jobs
from coco_study.running import progress, run_and_keep, run_command_line
from coco_study.settings import Cell, Method, labeled, pick, read_cells, read_methods, store
from coco_study.suites import INSTANCES, SUITES, is_training

PAGE = Path(__file__).resolve().parents[1] / "docs" / "coco.md"
OBSERVED = Path("out") / "coco"
PAGES = Path("out") / "coco_pages"


def run(args: argparse.Namespace) -> int:
    """Run every job without a record, and store its record."""
    methods, cells = methods_of(args), cells_of(args)
    jobs = [job for job in jobs_of(cells, methods, args.instances) if args.functions(job.place.f)]
    if args.observe:
        largest = {(cell.suite, cell.d): max(cell.budgets) * cell.d for cell in cells}
        jobs = [observing(job, args.observe, largest) for job in jobs]
    records.drop_incomplete_lines(args.records)
    shown = records.recorded_budgets(records.read(args.records))

    def is_new(job: Job) -> bool:
        return any((job.method.name, job.method.digest, job.place, budget) not in shown for budget in job.budgets)

    left = longest_first(job for job in jobs if is_new(job) or (job.keep is not None and not job.keep.exists()))
    if args.estimate:
        print("\n".join(estimate.lines(estimate.hours(left), [method.name for method in methods])))
        return 0
    sound = run_and_keep(
        left, args.records, is_new, workers=args.workers, seconds=args.seconds, already_recorded=len(jobs) - len(left)
    )
    return 0 if sound else 1


def observing(job: Job, root: Path, largest: dict[tuple[str, int], int]) -> Job:
    """Return the job with a folder for COCO's observer if it has the largest budget."""
    if job.budgets[-1] != largest[job.place.suite, job.place.d]:
        return job
    folder = observed.folder_of(root, job.method.name, job.place)
    folder.parent.mkdir(parents=True, exist_ok=True)
    return replace(job, keep=folder)


def draw(args: argparse.Namespace) -> int:
    """Write the page and its figures from the records."""
    cells = read_cells()
    chosen, notes = choose(records.read(args.records), methods_of(args))
    test = [column for column in columns_of(cells, chosen, training=False) if column.methods]
    figures = figure.draw(test, args.markdown.parent) if args.figures else {}
    pictures = overview.draw(test, args.markdown.parent) if args.figures else []
    old = args.markdown.read_text() if args.markdown.exists() else ""
    args.markdown.write_text(table.page(cells, chosen, notes, figures, old))
    written = [args.markdown, *(args.markdown.parent / name for name in figures), *pictures]
    print("\n".join([*map(str, written), *notes]))
    return 0


def ranks(args: argparse.Namespace) -> int:
    """Print mean ranks over the selected functions and instances."""
    chosen, notes = choose(records.read(args.records), methods_of(args))
    columns = [
        replace(column, functions=tuple(f for f in column.functions if args.functions(f)))
        for column in columns_of(cells_of(args), chosen, training=None, instances=args.instances)
    ]
    columns = [column for column in columns if column.methods]
    lines = table.table(["", *(column.title for column in columns)], table.rank_rows(columns, lambda f: True))
    print("\n".join([*lines, *notes]))
    return 0


def tune(args: argparse.Namespace) -> int:
    """Tune t1, step and samples of the paper's method on the training functions, and store them in the settings."""
    grid = tuning.grid(read_methods()["paper"])
    jobs = tuning.jobs(grid)
    found = []
    with progress(len(jobs)) as tell:
        for _, future in run_jobs(jobs, workers=args.workers):
            found.append(future.result())
            tell("paper")
    lines, best = tuning.conclude(grid, found)
    print("\n".join(lines))
    store("paper", best)
    return 0


def post_process(args: argparse.Namespace) -> int:
    """Call cocopp to write its pages."""
    pages = observed.post_process(args.observed, [method.name for method in methods_of(args)], args.out)
    print("\n".join(map(str, pages)) or f"No data in {args.observed}. Run with --observe first.")
    return 0 if pages else 1


def methods_of(args: argparse.Namespace) -> list[Method]:
    """Return the selected methods (by default all). The label is added to the name of slgh."""
    known = read_methods(args.variant)
    return [labeled(method, args.label) for method in pick(known, args.methods or known)]


def cells_of(args: argparse.Namespace) -> list[Cell]:
    """Return the selected cells."""
    cells = []
    for cell in read_cells():
        budgets = tuple(budget for budget in cell.budgets if not args.budgets or budget in args.budgets)
        if budgets and (not args.suites or cell.suite in args.suites) and (not args.d or cell.d in args.d):
            cells.append(replace(cell, budgets=budgets))
    return cells


def names(text: str) -> list[str]:
    """Split a comma-separated list."""
    return [name for name in text.split(",") if name]


def numbers(text: str) -> tuple[int, ...]:
    """Parse numbers and ranges: 1,3,6-8."""
    found: list[int] = []
    for part in names(text):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return tuple(found)


def some_functions(text: str) -> Callable[[int], bool]:
    """Return the predicate for "all", "test", "training", or a list of numbers."""
    groups = {"all": lambda f: True, "test": lambda f: not is_training(f), "training": is_training}
    return groups[text] if text in groups else set(numbers(text)).__contains__


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument(
        "--methods", type=names, default=[], help="Comma-separated names. Default: all of settings.toml."
    )
    shared.add_argument(
        "--variant", action="append", default=[], help='An additional method: few = {like = "slgh", ...}.'
    )
    shared.add_argument("--label", default="", help="Name of this version of slgh.")
    shared.add_argument("--records", type=Path, default=records.FOLDER, help="Folder of the records.")

    narrow = argparse.ArgumentParser(add_help=False)
    narrow.add_argument("--suites", type=names, default=[], help=f"Comma-separated, from {', '.join(SUITES)}.")
    narrow.add_argument("--d", type=numbers, default=(), help="Dimensions.")
    narrow.add_argument("--budgets", type=numbers, default=(), help="Budgets in multiples of d.")
    narrow.add_argument("--functions", type=some_functions, default="all", help="all, test, training, or numbers.")
    narrow.add_argument("--instances", type=numbers, default=INSTANCES, help="Instances. Default: 6-8.")

    cores = argparse.ArgumentParser(add_help=False)
    cores.add_argument(
        "--workers", type=int, default=os.cpu_count() or 1, help="Number of processes, with one thread each."
    )

    top = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = top.add_subparsers(required=True, metavar="command")

    def command(name: str, action: Callable[..., int], parents: Iterable[Any]) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=action.__doc__, description=action.__doc__, parents=list(parents))
        added.set_defaults(action=action)
        return added

    running = command("run", run, [shared, narrow, cores])
    running.add_argument("--seconds", type=float, default=math.inf, help="Start no more runs after this many seconds.")
    running.add_argument("--estimate", action="store_true", help="Print the CPU hours of the remaining runs and exit.")
    running.add_argument(
        "--observe", type=Path, nargs="?", const=OBSERVED, help=f"Store COCO's data (default folder: {OBSERVED})."
    )
    drawing = command("table", draw, [shared])
    drawing.add_argument("--markdown", type=Path, default=PAGE, help="Page to write. Figures are written beside it.")
    drawing.add_argument("--no-figures", dest="figures", action="store_false", help="Write only the page.")
    command("ranks", ranks, [shared, narrow])
    command("tune-paper", tune, [cores])
    pages = command("postprocess", post_process, [shared])
    pages.add_argument("--observed", type=Path, default=OBSERVED, help="Folder that run --observe wrote.")
    pages.add_argument("--out", type=Path, default=PAGES, help="Folder of the pages.")
    return top


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line."""
    return run_command_line(parser(), words)


if __name__ == "__main__":
    sys.exit(main())
