"""Ours beside its peers on COCO: bbob, bbob-largescale and bbob-noisy, the same starts, budgets and instances for all.

    python benchmarks/coco.py run --estimate                 CPU hours by method and cell, and nothing else
    python benchmarks/coco.py run --workers 2                everything that has no record yet; Ctrl-C and go on at will
    python benchmarks/coco.py table                          docs/coco.md and its figures, from the records alone

What is run stands in `benchmarks/coco_study/settings.toml`, with the reasons; records are JSON lines in
`benchmarks/coco_records`. Narrower:

    python benchmarks/coco.py run --methods slgh,cma --suites bbob --d 20,40 --functions test --seconds 500
    python benchmarks/coco.py run --methods slgh,few --variant 'few = {like = "slgh", samples = 2}' --label 2b5f

From a source tree that is not installed, with PYTHONPATH=src; a library is only needed by the methods that use it, and
`--records` takes another folder. `--label` names the version of our method, so that the records of two versions stand
side by side (`slgh@2b5f`). `--variant` adds a method for this call.

While choosing constants, on the training functions and instances 1 to 5 only:

    python benchmarks/coco.py run --functions training --instances 1-5 --records out/trials --methods slgh,cma --d 20
    python benchmarks/coco.py ranks --functions training --instances 1-5 --records out/trials --methods slgh,cma
    python benchmarks/coco.py tune-paper                     the paper's t1, step and samples, into settings.toml

COCO's own pages: `run --observe` writes its data into `out/coco` (for the largest budget of each dimension, where
they are not there yet), and `postprocess` has cocopp draw them.

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

from coco_study import estimate, figure, observed, records, table, tuning
from coco_study.cells import choose, columns_of
from coco_study.jobs import Job, jobs_of, longest_first, run_jobs
from coco_study.running import obey, progress, run_and_keep
from coco_study.settings import Cell, Method, labeled, pick, read_cells, read_methods, store
from coco_study.suites import INSTANCES, SUITES, is_training

PAGE = Path(__file__).resolve().parents[1] / "docs" / "coco.md"
OBSERVED = Path("out") / "coco"
PAGES = Path("out") / "coco_pages"


def run(args: argparse.Namespace) -> int:
    """Run what has no record yet, and keep what it shows."""
    methods, cells = methods_of(args), cells_of(args)
    jobs = [job for job in jobs_of(cells, methods, args.instances) if args.functions(job.place.f)]
    if args.observe:
        largest = {(cell.suite, cell.d): max(cell.budgets) * cell.d for cell in cells}
        jobs = [observing(job, args.observe, largest) for job in jobs]
    records.mend(args.records)
    shown = records.shown(records.read(args.records))

    def is_new(job: Job) -> bool:
        return any((job.method.name, job.method.digest, job.place, budget) not in shown for budget in job.budgets)

    left = longest_first(job for job in jobs if is_new(job) or (job.keep is not None and not job.keep.exists()))
    if args.estimate:
        print("\n".join(estimate.lines(estimate.hours(left), [method.name for method in methods])))
        return 0
    sound = run_and_keep(
        left, args.records, is_new, workers=args.workers, seconds=args.seconds, there=len(jobs) - len(left)
    )
    return 0 if sound else 1


def observing(job: Job, root: Path, largest: dict[tuple[str, int], int]) -> Job:
    """The job with a folder for COCO's observer, if it is one for the largest budget."""
    if job.budgets[-1] != largest[job.place.suite, job.place.d]:
        return job
    folder = observed.folder_of(root, job.method.name, job.place)
    folder.parent.mkdir(parents=True, exist_ok=True)
    return replace(job, keep=folder)


def draw(args: argparse.Namespace) -> int:
    """Write the page and its figures from the records."""
    cells = read_cells()
    chosen, odd = choose(records.read(args.records), methods_of(args))
    test = [column for column in columns_of(cells, chosen, training=False) if column.methods]
    figures = figure.draw(test, args.markdown.parent) if args.figures else {}
    old = args.markdown.read_text() if args.markdown.exists() else ""
    args.markdown.write_text(table.page(cells, chosen, odd, figures, old))
    print("\n".join([str(args.markdown), *(str(args.markdown.parent / name) for name in figures), *odd]))
    return 0


def ranks(args: argparse.Namespace) -> int:
    """Print mean ranks over the functions and instances asked for."""
    chosen, odd = choose(records.read(args.records), methods_of(args))
    columns = [
        replace(column, functions=tuple(f for f in column.functions if args.functions(f)))
        for column in columns_of(cells_of(args), chosen, training=None, instances=args.instances)
    ]
    columns = [column for column in columns if column.methods]
    lines = table.table(["", *(column.title for column in columns)], table.rank_rows(columns, lambda f: True))
    print("\n".join([*lines, *odd]))
    return 0


def tune(args: argparse.Namespace) -> int:
    """Choose the paper's t1, step and samples on the training functions, and write them into the settings."""
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
    """Have cocopp draw its pages."""
    pages = observed.post_process(args.observed, [method.name for method in methods_of(args)], args.out)
    print("\n".join(map(str, pages)) or f"There is nothing in {args.observed}: run with --observe first.")
    return 0 if pages else 1


def methods_of(args: argparse.Namespace) -> list[Method]:
    """The methods asked for, all if none is named, ours under the label."""
    known = read_methods(args.variant)
    return [labeled(method, args.label) for method in pick(known, args.methods or known)]


def cells_of(args: argparse.Namespace) -> list[Cell]:
    """The cells asked for."""
    cells = []
    for cell in read_cells():
        budgets = tuple(budget for budget in cell.budgets if not args.budgets or budget in args.budgets)
        if budgets and (not args.suites or cell.suite in args.suites) and (not args.d or cell.d in args.d):
            cells.append(replace(cell, budgets=budgets))
    return cells


def names(text: str) -> list[str]:
    """Words with commas between."""
    return [name for name in text.split(",") if name]


def numbers(text: str) -> tuple[int, ...]:
    """Numbers and ranges: 1,3,6-8."""
    found: list[int] = []
    for part in names(text):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return tuple(found)


def some_functions(text: str) -> Callable[[int], bool]:
    """all, test, training, or numbers."""
    groups = {"all": lambda f: True, "test": lambda f: not is_training(f), "training": is_training}
    return groups[text] if text in groups else set(numbers(text)).__contains__


def parser() -> argparse.ArgumentParser:
    """The command line."""
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--methods", type=names, default=[], help="Names, with commas; all of settings.toml if none.")
    shared.add_argument("--variant", action="append", default=[], help='A further method: few = {like = "slgh", ...}.')
    shared.add_argument("--label", default="", help="Names the version of our method.")
    shared.add_argument("--records", type=Path, default=records.FOLDER, help="The folder of the records.")

    narrow = argparse.ArgumentParser(add_help=False)
    narrow.add_argument("--suites", type=names, default=[], help=f"Of {', '.join(SUITES)}.")
    narrow.add_argument("--d", type=numbers, default=(), help="Dimensions.")
    narrow.add_argument("--budgets", type=numbers, default=(), help="Budgets in multiples of d.")
    narrow.add_argument("--functions", type=some_functions, default="all", help="all, test, training, or numbers.")
    narrow.add_argument("--instances", type=numbers, default=INSTANCES, help="Instances, 6-8 if none are given.")

    cores = argparse.ArgumentParser(add_help=False)
    cores.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="Processes, one thread each.")

    top = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = top.add_subparsers(required=True, metavar="command")

    def command(name: str, action: Callable[..., int], parents: Iterable[Any]) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=action.__doc__, description=action.__doc__, parents=list(parents))
        added.set_defaults(action=action)
        return added

    running = command("run", run, [shared, narrow, cores])
    running.add_argument("--seconds", type=float, default=math.inf, help="Begin no more runs after so long.")
    running.add_argument("--estimate", action="store_true", help="Print the CPU hours of what is left, and end.")
    running.add_argument("--observe", type=Path, nargs="?", const=OBSERVED, help=f"Keep COCO's data, in {OBSERVED}.")
    drawing = command("table", draw, [shared])
    drawing.add_argument("--markdown", type=Path, default=PAGE, help="The page; figures go beside it.")
    drawing.add_argument("--no-figures", dest="figures", action="store_false", help="Only the page.")
    command("ranks", ranks, [shared, narrow])
    command("tune-paper", tune, [cores])
    pages = command("postprocess", post_process, [shared])
    pages.add_argument("--observed", type=Path, default=OBSERVED, help="What run --observe wrote.")
    pages.add_argument("--out", type=Path, default=PAGES, help="Where the pages go.")
    return top


def main(words: Sequence[str] | None = None) -> int:
    """Do what the command line says."""
    return obey(parser(), words)


if __name__ == "__main__":
    sys.exit(main())
