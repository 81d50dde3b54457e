"""Ablation of oracle x schedule x update, on BBOB in 40 variables and on the MNIST attack.

    python benchmarks/ablation.py all --estimate                    print CPU hours and GPU minutes, run nothing
    python benchmarks/ablation.py all --workers 16 --device cuda    run everything without a record, write the page

The steps can also run one by one, or at the same time:

    python benchmarks/ablation.py bbob --workers 15      tune, then run the compositions and the variants of "auto"
    python benchmarks/ablation.py auto --workers 2       run the variants of "auto" alone
    python benchmarks/ablation.py attack --device cuda   tune, then attack with each composition
    python benchmarks/ablation.py table                  write benchmarks/ablation.md and .png from the records

An interrupted command continues when it is started again. Records are in `benchmarks/ablation_records` (`--records`):
JSON lines in one file per composition, and `attack/mnist.jsonl`. `chosen_bbob.json` and `chosen_attack.json` hold the
tuned values, so that nothing is tuned twice. `tuning/` holds the tuning runs on BBOB, which are not needed afterwards.

For a quick trial, run only a part:

    ... bbob --oracles forward,diagonal_scaling --schedules ratio --updates descent,scale_free --functions 4,16
    ... attack --images 4 --queries 300 --device cpu --oracles antithetic --schedules budget

Compositions
------------
Oracles: forward, antithetic, ranks (antithetic with ranks), diagonal_scaling (antithetic, learns widths), rademacher,
sphere, exponential (power-transformed smoothing). Schedules: constant, power_law (SPSA's), ratio, budget (shape 1.5),
derivative. Updates: descent, momentum, spsa_gain, adam, adamm, normalized, scale_free. These are left out:

- derivative with oracles that do not return the trace (all but forward and antithetic), and with ranks, which use only
  the order of the values;
- ranks and exponential with a decaying t (ratio, budget) and an update that multiplies g by its step (descent,
  momentum, spsa_gain): their g is a mean of weights divided by t, so steps would grow as t decays, for any f;
- exponential with ranks: the rank oracle already weights ranks instead of values;
- double_loop, whose rule compares f between iterations with an eps0 in units of f: half of the oracles do not evaluate
  f(x), and no eps0 means the same for two functions; harmonic, which belongs to it; noise_aware, which needs L1 and the
  error of f;
- oracles that need more than values: gradient, sampled_gradient, closed_form; and variance_reduced, for finite sums.

Equal conditions
----------------
An iteration has 26 evaluations (attack: 21) for all compositions, with as many samples as these allow. The open values
of a composition are tuned on the same small grid for all (`ablation_study/bbob.py`, `ablation_study/images.py`): t_1
if the schedule does not decay by a given factor, the decay of t if it does, the step, N of the exponential, eta of the
derivative. The defaults of the parts stay. scale_free has no step: its alpha follows from the decay of t by the rule
of "auto", so its tuning takes a fifth of the runs.

The units are chosen such that one grid serves all (`ablation_study/building.py`): lengths are in widths of the box,
steps are given by the length of the first one, and values in units of f (the step of descent, momentum and spsa_gain,
N, eta) are multiples of the standard deviation of f at the start, over 26 points at t_1. Every composition pays for
these points. A plain step thus knows the scale of each function, which is an advantage over one number for all
functions. In the attack, this standard deviation is the median over the images used for tuning.

On BBOB, values are tuned by mean rank over 6 training functions, instances 1 and 2, with the budget of the comparison,
100 d. They are then fixed for the test functions (f4, f6, f7, f9, f11, f13, f14, f16, f18, f19, f21, f23, f24),
instances 6 to 8. The score is the mean over test functions of the mean log10(f - fopt), at least -8. It is shown
relative to the median over compositions. In the attack, t_1 is that of "auto" for images, values are tuned by the mean
total loss over ten images, and the score is the final mean total loss over the other images. The page also gives
the success rate.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ablation_study import bbob, images, page, picture, scores
from ablation_study.axes import AXES, Composition, compositions
from ablation_study.building import build
from ablation_study.runs import missing, run_missing
from coco import names, numbers
from coco_study import estimate, records
from coco_study.jobs import Job
from coco_study.running import run_command_line
from coco_study.suites import INSTANCES

from slgh.files import write_text

FOLDER = Path(__file__).parent / "ablation_records"
PAGE = Path(__file__).with_suffix(".md")


def run_bbob(args: argparse.Namespace) -> int:
    """Tune compositions that are not tuned yet, then run them and the variants of "auto" on the test functions."""
    until = time.monotonic() + args.seconds
    cells, chosen = cells_of(args), bbob.chosen(args.records)
    untuned = [c for c in cells if c.name not in chosen.read()]
    if args.estimate:
        return print_hours(args, cells, untuned)
    if untuned:
        tuning = args.records / "tuning"
        print(f"Tuning {len(untuned)} compositions:")
        run_missing(bbob.tuning_jobs(untuned), tuning, workers=args.workers, until=until)
        found: dict[str, list[records.Record]] = {}
        for record in records.read(tuning):
            found.setdefault(record.method, []).append(record)
        for c in untuned:
            if (values := bbob.best_values(c, found.get(c.name, []))) is not None:
                chosen.add(c, values, len(bbob.tuning_jobs([c])))
    tuned = chosen.read()
    methods = [bbob.method_of(c, tuned[c.name]["values"]) for c in cells if c.name in tuned]
    print(f"Running {len(methods)} of {len(cells)} compositions and {len(bbob.VARIANTS)} variants of auto:")
    jobs = bbob.comparison_jobs(methods, fs=args.functions, instances=args.instances)
    jobs += bbob.auto_jobs(fs=args.functions, instances=args.instances) if args.auto else []
    complete = run_missing(jobs, args.records, workers=args.workers, until=until)
    return 0 if complete and len(methods) == len(cells) else 1


def run_auto(args: argparse.Namespace) -> int:
    """Run the variants of "auto" on the test functions."""
    jobs = bbob.auto_jobs(fs=args.functions, instances=args.instances)
    if args.estimate:
        left = missing(jobs, args.records)
        print(f"{len(left):,} runs  {sum(estimate.hours(left).values()):.2f} CPU hours")
        return 0
    until = time.monotonic() + args.seconds
    return 0 if run_missing(jobs, args.records, workers=args.workers, until=until) else 1


def print_hours(args: argparse.Namespace, cells: list[Composition], untuned: list[Composition]) -> int:
    """Print the CPU hours of the remaining runs. Values that are not tuned yet are assumed to cost the same."""
    tuned = bbob.chosen(args.records).read()
    some = [
        bbob.method_of(c, tuned[c.name]["values"] if c.name in tuned else bbob.GRID.candidates(c)[0]) for c in cells
    ]
    comparison = bbob.comparison_jobs(some, fs=args.functions, instances=args.instances)
    auto = bbob.auto_jobs(fs=args.functions, instances=args.instances) if args.auto else []
    groups: dict[str, list[Job]] = {
        "tuning": missing(bbob.tuning_jobs(untuned), args.records / "tuning"),
        "compositions": missing(comparison, args.records),
        "auto": missing(auto, args.records),
    }
    total = 0.0
    for name, jobs in groups.items():
        hours = sum(estimate.hours(jobs).values())
        total += hours
        print(f"{name:13}{len(jobs):7,} runs  {hours:6.2f} CPU hours")
    minutes = 60 * total / args.workers
    print(f"{'total':13}{'':7}       {total:6.2f} CPU hours, {minutes:.0f} minutes on {args.workers} cores")
    return 0


def run_attack(args: argparse.Namespace) -> int:
    """Tune each composition that is not tuned yet, and attack with it."""
    until = time.monotonic() + args.seconds
    cells, chosen = cells_of(args), images.chosen(args.records, args.queries)
    scene, tuned_on = images.scenes(args.device, args.images, args.queries)
    spread = images.spread_of(tuned_on)
    done = {(record.name, record.key) for record in images.read(args.records)}
    tuned = chosen.read()
    key = partial(images.key_of, queries=scene.queries, ids=scene.ids)

    def is_left(c: Composition) -> bool:
        return c.name not in tuned or (c.name, key(tuned[c.name]["values"])) not in done

    left = [c for c in cells if is_left(c)]
    if args.estimate:
        return print_seconds(scene, tuned_on, [c for c in left if c.name not in tuned], len(left) + 1)
    if ("auto", key(None)) not in done:
        images.append(args.records, images.measure("auto", scene, None, method="auto"))
    for k, c in enumerate(left):
        if time.monotonic() > until:
            print(f"{len(left) - k} of {len(cells)} compositions remain.")
            return 1
        if c.name not in tuned:
            values, runs = images.tune(c, tuned_on, spread)
            chosen.add(c, values, runs)
        else:
            values = tuned[c.name]["values"]
        method = build(c, values, scene.field(values, spread))
        record = images.measure(c.name, scene, values, method=method)
        images.append(args.records, record)
        fooled, loss = sum(record.success), sum(record.total) / len(record.total)
        print(
            f"{k + 1} of {len(left)}: {c.name} fooled {fooled} of {len(scene.ids)}, total loss {loss:.2f}", flush=True
        )
    return 0


def print_seconds(scene: images.Scene, tuned_on: images.Scene, untuned: list[Composition], attacks: int) -> int:
    """Estimate and print the time of the attacks from a short attack on the same number of images."""

    def seconds(of: images.Scene) -> float:
        few = replace(of, queries=min(of.queries, 10 * images.QUERIES_PER_ITERATION))
        for _ in range(2):  # the first run compiles kernels
            begin = time.perf_counter()
            images.run_attack(few, 0, method="auto")
        return (time.perf_counter() - begin) * of.queries / few.queries

    steps = len(images.GRID.step)
    runs = sum(map(images.runs_to_tune, untuned))
    tuning, attack = runs * seconds(tuned_on.repeated(steps)), attacks * seconds(scene)
    print(f"tuning  {runs:5} runs of {steps * len(tuned_on.ids)} images each  {tuning / 60:6.1f} minutes")
    print(f"attacks {attacks:5} runs of {len(scene.ids)} images each  {attack / 60:6.1f} minutes")
    return 0


def draw(args: argparse.Namespace) -> int:
    """Write the page and the heat map from the records."""
    on_bbob = scores.bbob_scores(args.records, fs=args.functions, instances=args.instances)
    attack = scores.attack_scores(args.records)
    queries = attack[1][0].queries if attack[1] else 0
    titles = (
        f"BBOB, {bbob.D}-D, {bbob.TIMES} d evaluations: log10(f - fopt), relative to the median",
        f"Attack on MNIST, {len(attack[0].units)} images, {queries:,} queries: success, mean total loss",
    )
    heat_map = args.markdown.with_suffix(".png")
    picture.draw(on_bbob, attack[0], heat_map, titles=titles)
    folder = args.records.resolve()
    shown = folder.relative_to(root) if folder.is_relative_to(root := FOLDER.parents[1].resolve()) else folder
    text = page.page(args.records, str(shown), heat_map.name, on_bbob, attack, args.instances)
    write_text(args.markdown, text)
    print(f"{args.markdown}\n{heat_map}")
    return 0


def run_all(args: argparse.Namespace) -> int:
    """Run BBOB and the attack, and write the page."""
    images.refuse_device(args.device)  # report a missing device now, not after BBOB
    if args.estimate:
        return max(run_bbob(args), run_attack(args))
    until = time.monotonic() + args.seconds
    failed = run_bbob(args)
    args.seconds = until - time.monotonic()
    failed = run_attack(args) or failed
    return draw(args) or failed


def cells_of(args: argparse.Namespace) -> list[Composition]:
    """Return the selected compositions."""
    return compositions(args.oracles, args.schedules, args.updates)


def parse_levels(axis: str) -> Callable[[str], list[str]]:
    """Return a parser for the levels of an axis."""

    def read(text: str) -> list[str]:
        for name in names(text):
            if name not in AXES[axis]:
                raise argparse.ArgumentTypeError(f"there is no {axis} {name!r}; choose from {', '.join(AXES[axis])}")
        return names(text)

    return read


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--records", type=Path, default=FOLDER, help="Folder of the records.")

    running = argparse.ArgumentParser(add_help=False)
    running.add_argument("--seconds", type=float, default=math.inf, help="Start no more runs after this many seconds.")
    running.add_argument(
        "--estimate", action="store_true", help="Print the time that the remaining runs need and exit."
    )
    for axis, levels in AXES.items():
        running.add_argument(
            f"--{axis}s", type=parse_levels(axis), default=levels, help=f"Comma-separated, from {', '.join(levels)}."
        )

    test = argparse.ArgumentParser(add_help=False)
    test.add_argument("--functions", type=numbers, default=bbob.TEST, help="Numbers. Default: the test functions.")
    test.add_argument("--instances", type=numbers, default=INSTANCES, help="Instances. Default: 6-8.")

    cores = argparse.ArgumentParser(add_help=False)
    cores.add_argument(
        "--workers", type=int, default=os.cpu_count() or 1, help="Number of processes, with one thread each."
    )
    cores.add_argument("--no-auto", dest="auto", action="store_false", help='Omit the variants of "auto".')

    targets = argparse.ArgumentParser(add_help=False)
    targets.add_argument("--device", default="cuda", help="cuda or cpu.")
    targets.add_argument("--images", type=int, default=90, help="Number of images to attack, at most 90.")
    targets.add_argument("--queries", type=int, default=2000, help="Maximum number of queries per image.")

    pages = argparse.ArgumentParser(add_help=False)
    pages.add_argument("--markdown", type=Path, default=PAGE, help="Page to write. The heat map is written beside it.")

    top = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = top.add_subparsers(required=True, metavar="command")

    def command(name: str, action: Callable[..., int], parents: list[Any]) -> None:
        added = commands.add_parser(name, help=action.__doc__, description=action.__doc__, parents=parents)
        added.set_defaults(action=action)

    command("all", run_all, [shared, running, test, cores, targets, pages])
    command("bbob", run_bbob, [shared, running, test, cores])
    command("auto", run_auto, [shared, running, test, cores])
    command("attack", run_attack, [shared, running, targets])
    command("table", draw, [shared, test, pages])
    return top


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line."""
    return run_command_line(parser(), words)


if __name__ == "__main__":
    sys.exit(main())
