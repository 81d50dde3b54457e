"""The command `reproduce`."""

# ruff: noqa: RUF009 (`option` makes a field, as `dataclasses.field` does)
from __future__ import annotations

import dataclasses
import os
import time
from contextlib import closing
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

from slgh import checks
from slgh.cli.declaration import ATTACK_TABLES as TABLE_PANEL
from slgh.cli.declaration import Role, flags, option, switch, values_of
from slgh.cli.errors import INTERRUPTED, Unwritten, fail
from slgh.cli.options import CommonOptions
from slgh.cli.output import STDOUT, console, make_out_folder, refuse_unwritable, write_json
from slgh.cli.wording import in_options
from slgh.paper import DEFAULT, EXPERIMENTS, PAPER_TABLES
from slgh.paper.attack import ATTACK_TABLES, AttackTable
from slgh.paper.attack.row_cache import make_folder
from slgh.paper.experiment import Experiment, Findings
from slgh.paper.job_pool import run_jobs
from slgh.paper.output import (
    DATA,
    FIGURES,
    PAGE,
    TABLES,
    UNFINISHED,
    draw_section,
    write_data,
    write_sections,
    write_tables,
)
from slgh.paper.store import Store
from slgh.plotting.page import Section

REFRESH_SECONDS = 0.1
"""Seconds between two drawings of the bar within a job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReproduceOptions(CommonOptions):
    """Options of `slgh reproduce`. Those with the role ARGUMENT are for the attack tables alone."""

    names: tuple[str, ...] = option(
        "[NAME]...",
        f"Of {', '.join(EXPERIMENTS)}; or all. Without any: {', '.join(DEFAULT)}.",
        default=(),
        flag="NAME",
        choices=(*EXPERIMENTS, "all"),
    )
    out: Path | None = option(
        "FOLDER", "Where the tables, figures, JSON file and page go: by default reproduced, or reproduced-NAME."
    )
    seeds: int | None = option("N", "Runs of each row of a stochastic table, instead of its own number.")
    workers: int | None = option("N", "Number of jobs at a time, each in a process; by default one per core.")
    figures: bool = switch("Draw the figures and write the page.", default=True)
    rows: Path | None = option(
        "FOLDER",
        "Where rows are kept for good, one JSON file per row and seed: those that are there are not run again.",
        TABLE_PANEL,
    )
    images: int | None = option(
        "N", "Attack the first N images; the paper's 100 on a GPU, a few on a CPU.", TABLE_PANEL
    )
    iterations: int | None = option(
        "T", "Iterations of each attack; the paper's on a GPU, fewer on a CPU.", TABLE_PANEL
    )
    device: str | None = option("NAME", "cpu, cuda, cuda:1, ...; by default a GPU if any.", TABLE_PANEL)
    weights: Path | None = option(
        "FILE",
        "Attack a network with these weights instead: safetensors, or .npz in Keras' layout.",
        TABLE_PANEL,
    )
    folder: Path | None = option(
        "FOLDER",
        "Where the whole test set lies, of which --weights takes its own images; else it is downloaded.",
        TABLE_PANEL,
    )


def reproduce(options: ReproduceOptions) -> int | None:
    """Run the paper's experiments: our figures beside the printed ones, in tables, pictures, a JSON file and a page.

    Ctrl-C leaves what is finished, and the same command goes on from there.
    """
    names, seeds = list(options.names), options.seeds
    for flag, value in {"--seeds": seeds, "--workers": options.workers}.items():
        if value is not None and value < 1:
            fail(f"{flag} must be an integer >= 1, got {value}.")
    wishes = {name: wish for name, wish in values_of(options, Role.ARGUMENT).items() if wish is not None}
    experiments = _attack_as_wished(_choose(names or list(DEFAULT), seeds), seeds, wishes)
    attacks = [experiment for experiment in experiments if isinstance(experiment, AttackTable)]
    refuse_unwritable(options.json)
    needed = ("matplotlib", "plotly", "jinja2") if options.figures else ()
    if missing := [name for name in needed if find_spec(name) is None]:
        fail(f'The figures need {missing[0]}: pip install "slgh[plot]", or pass --no-figures.')
    out = options.out or Path("-".join(["reproduced", *names]))
    make_out_folder(out)  # last, so that a refused command leaves no folder behind
    terminal = Console(stderr=True, highlight=False) if options.json == STDOUT else console
    for note in _notes(names, attacks, wishes):
        terminal.print(note, style="yellow", markup=False, soft_wrap=True)
    store = Store(out / UNFINISHED, f"seeds={seeds}{''.join(f' {attack.identity()}' for attack in attacks)}")
    on_gpu = any(attack.device != "cpu" for attack in attacks)  # which is busy with one row
    workers = 1 if on_gpu else options.workers or os.cpu_count() or 1
    found: dict[str, Any] = {}
    sections: list[Section] = []
    try:
        interrupted = False
        try:
            with (
                Bar(sum(len(experiment.jobs()) for experiment in experiments), terminal, quiet=options.quiet) as bar,
                # Closed, so that the processes end at once whatever happens here.
                closing(run_jobs(experiments, store, bar, workers=workers)) as finished,
            ):
                for experiment, records in finished:
                    findings = experiment.conclude(records)
                    found[experiment.name] = findings.data
                    _show(bar, experiment, findings, quiet=options.quiet)
                    write_tables(experiment, findings, out / TABLES)
                    if options.figures:
                        bar.begin(f"{experiment.name}: figures")
                        sections.append(draw_section(experiment, findings, out / FIGURES))
        except KeyboardInterrupt:
            terminal.print("Stopped. What is finished is kept: the same command goes on from there.")
            interrupted = True
        if not (interrupted and (out / DATA).exists()):  # a complete one of an earlier run is worth more
            write_data(out / DATA, found)
            if sections:
                write_sections(out / PAGE, sections)
    except OSError as error:
        where = f"{error.filename} cannot be written: {error.strerror}" if error.filename else str(error)
        raise Unwritten(f"{where}. Finished jobs are kept: the same command goes on from there.") from error
    if interrupted:
        return INTERRUPTED
    for experiment in experiments:
        store.drop(experiment.name, (job.label for job in experiment.jobs()))
    if not options.quiet:
        drawn = f"{out / PAGE} (open it in a browser), {out / FIGURES}, " if options.figures else ""
        terminal.print(f"Written: {drawn}{out / TABLES}, {out / DATA}", soft_wrap=True)
    write_json(options.json, found)
    return None


def _choose(names: list[str], seeds: int | None) -> list[Experiment]:
    """Return the experiments of these names, with as many seeds as were asked for."""
    known = (*EXPERIMENTS, "all")
    for name in names:
        if name not in known:
            fail(f"There is no experiment {name!r}; choose from {', '.join(known)}.{checks.did_you_mean(name, known)}")
    able = find_spec("torch") is not None
    wanted = {name for name in EXPERIMENTS if able or name not in ATTACK_TABLES} if "all" in names else set()
    chosen = {name: experiment for name, experiment in EXPERIMENTS.items() if name in {*names, *wanted}}
    if seeds is None:
        return list(chosen.values())
    stochastic = {n: dataclasses.replace(t, seeds=seeds) for n, t in PAPER_TABLES.items() if not t.closed_form}
    random = (*stochastic, *ATTACK_TABLES)
    if not chosen.keys() & set(random):
        fail(f"--seeds is for {', '.join(random)}; nothing is random in {', '.join(chosen)}.")
    return [stochastic.get(name, experiment) for name, experiment in chosen.items()]


def _attack_as_wished(experiments: list[Experiment], seeds: int | None, wishes: dict[str, Any]) -> list[Experiment]:
    """Return the experiments, the attacks among them with the options that are theirs."""
    attacks = [experiment.name for experiment in experiments if isinstance(experiment, AttackTable)]
    if wishes and not attacks:
        fail(f"--{next(iter(wishes))} is for {', '.join(ATTACK_TABLES)}, of which none was named.")
    if "weights" in wishes and len(attacks) > 1:
        fail(f"--weights holds one network, but there are two experiments: name one of {', '.join(attacks)}.")
    if "folder" in wishes and "weights" not in wishes:
        fail("--folder is for --weights: the images for the network that comes with slgh come with it too.")
    try:
        if "rows" in wishes:
            make_folder(wishes["rows"])
        return [e.asked(seeds=seeds, **wishes) if isinstance(e, AttackTable) else e for e in experiments]
    except (ValueError, OSError) as error:
        fail(in_options(str(error), flags(ReproduceOptions)))


def _notes(names: list[str], attacks: list[AttackTable], wishes: dict[str, Any]) -> list[str]:
    """Return what a user may not expect of this run."""
    notes = []
    if "all" in names and len(attacks) < len(ATTACK_TABLES):
        notes.append(f'{", ".join(ATTACK_TABLES)} are left out, since they need PyTorch: pip install "slgh[attack]".')
    for attack in attacks:
        if attack.reduced and not wishes.keys() & {"images", "iterations"} and (lacking := attack.lacking()):
            notes.append(f"{lacking}. This run is a reduced one; --device cuda, or a GPU that is found, runs the rest.")
    return notes


def _show(bar: Bar, experiment: Experiment, findings: Findings, *, quiet: bool) -> None:
    """Print the tables, or with --quiet only the verdicts."""
    for table in findings.tables:
        if not quiet:
            bar.print(table.rich())
            if table.note:
                bar.print(table.note, style="dim")
        elif "verdict" in table.headings:
            at = table.headings.index("verdict")
            for row in table.rows:
                bar.print(f"{experiment.name}: {row[0]}: {row[at]}", markup=False)


class Bar(Progress):
    """A progress bar over the jobs. `print` writes above it."""

    def __init__(self, jobs: int, terminal: Console, *, quiet: bool) -> None:
        text = TextColumn("{task.description}")
        columns = (SpinnerColumn(), text, BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
        super().__init__(*columns, console=terminal, transient=True, disable=quiet)
        self.task = self.add_task("", total=jobs)
        self.done = 0
        self.drawn = 0.0

    def begin(self, label: str) -> None:
        """Show what is being done."""
        self.update(self.task, description=label)

    def tick(self, share: float) -> None:
        """Show the share of the job that is done."""
        if time.monotonic() - self.drawn > REFRESH_SECONDS:
            self.drawn = time.monotonic()
            self.update(self.task, completed=self.done + share)

    def end(self) -> None:
        """Count a job that has ended."""
        self.done += 1
        self.update(self.task, completed=self.done)

    def warn(self, text: str) -> None:
        """Print a warning."""
        self.print(text, style="yellow")
