"""The command `reproduce`."""

from __future__ import annotations

import dataclasses
import os
import time
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

from slgh import checks
from slgh.cli.declaration import Role, flags, values_of
from slgh.cli.errors import INTERRUPTED, Unwritten, fail
from slgh.cli.options import ReproduceOptions
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
"""Seconds between two updates of the bar within a job."""


def reproduce(options: ReproduceOptions) -> int | None:
    """Run the paper's experiments, and print and write what they find."""
    names, seeds = list(options.names), options.seeds
    for flag, value in {"--seeds": seeds, "--workers": options.workers}.items():
        if value is not None and value < 1:
            fail(f"{flag} must be an integer >= 1, got {value}.")
    requested = {name: value for name, value in values_of(options, Role.ARGUMENT).items() if value is not None}
    experiments = _configure_attacks(_choose(names or list(DEFAULT), seeds), seeds, requested)
    attacks = [experiment for experiment in experiments if isinstance(experiment, AttackTable)]
    refuse_unwritable(options.json)
    needed = ("matplotlib", "plotly", "jinja2") if options.figures else ()
    if missing := [name for name in needed if find_spec(name) is None]:
        fail(f'The figures need {missing[0]}. Install: pip install "slgh[plot]", or pass --no-figures.')
    out = options.out or Path("-".join(["reproduced", *names]))
    make_out_folder(out)  # last, so that a refused command leaves no folder behind
    terminal = Console(stderr=True, highlight=False) if options.json == STDOUT else console
    for note in _notes(names, attacks, requested):
        terminal.print(note, style="yellow", markup=False, soft_wrap=True)
    store = Store(out / UNFINISHED, f"seeds={seeds}{''.join(f' {attack.identity()}' for attack in attacks)}")
    on_gpu = any(attack.device != "cpu" for attack in attacks)  # which runs one row at a time
    workers = 1 if on_gpu else options.workers or os.cpu_count() or 1
    found: dict[str, Any] = {}
    sections: list[Section] = []
    try:
        interrupted = False
        try:
            with (
                Bar(sum(len(experiment.jobs()) for experiment in experiments), terminal, quiet=options.quiet) as bar,
                # Closed, so that the processes end at once after any exception.
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
            terminal.print("Stopped. Finished jobs are kept: repeat the command to continue.")
            interrupted = True
        if not (interrupted and (out / DATA).exists()):  # keep the complete file of an earlier run
            write_data(out / DATA, found)
            if sections:
                write_sections(out / PAGE, sections)
    except OSError as error:
        where = f"{error.filename} cannot be written: {error.strerror}" if error.filename else str(error)
        raise Unwritten(f"{where}. Finished jobs are kept: repeat the command to continue.") from error
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
    """Return the named experiments, with the requested number of seeds."""
    known = (*EXPERIMENTS, "all")
    for name in names:
        if name not in known:
            fail(f"There is no experiment {name!r}. Choose from {', '.join(known)}.{checks.did_you_mean(name, known)}")
    able = find_spec("torch") is not None
    wanted = {name for name in EXPERIMENTS if able or name not in ATTACK_TABLES} if "all" in names else set()
    chosen = {name: experiment for name, experiment in EXPERIMENTS.items() if name in {*names, *wanted}}
    if seeds is None:
        return list(chosen.values())
    stochastic = {n: dataclasses.replace(t, seeds=seeds) for n, t in PAPER_TABLES.items() if not t.closed_form}
    random = (*stochastic, *ATTACK_TABLES)
    if not chosen.keys() & set(random):
        fail(f"--seeds is for {', '.join(random)}; nothing is random in {', '.join(chosen)}. Remove it.")
    return [stochastic.get(name, experiment) for name, experiment in chosen.items()]


def _configure_attacks(experiments: list[Experiment], seeds: int | None, requested: dict[str, Any]) -> list[Experiment]:
    """Return the experiments, and pass the options of attacks to the attacks."""
    attacks = [experiment.name for experiment in experiments if isinstance(experiment, AttackTable)]
    if requested and not attacks:
        fail(f"--{next(iter(requested))} is for {', '.join(ATTACK_TABLES)}, but none is named. Add one.")
    if "weights" in requested and len(attacks) > 1:
        fail(f"--weights holds one network, but there are two experiments. Name one of {', '.join(attacks)}.")
    if "folder" in requested and "weights" not in requested:
        fail("--folder is for --weights. Remove it; the network of slgh comes with its images.")
    try:
        if "rows" in requested:
            make_folder(requested["rows"])
        return [e.asked(seeds=seeds, **requested) if isinstance(e, AttackTable) else e for e in experiments]
    except (ValueError, OSError) as error:
        fail(in_options(str(error), flags(ReproduceOptions)))


def _notes(names: list[str], attacks: list[AttackTable], requested: dict[str, Any]) -> list[str]:
    """Return notes on what this run leaves out."""
    notes = []
    if "all" in names and len(attacks) < len(ATTACK_TABLES):
        notes.append(f'{", ".join(ATTACK_TABLES)} need PyTorch and are left out. Install: pip install "slgh[attack]".')
    for attack in attacks:
        if attack.reduced and not requested.keys() & {"images", "iterations"} and (lacking := attack.lacking()):
            notes.append(f"{lacking}. This run is reduced. On a GPU (--device cuda), it is complete.")
    return notes


def _show(bar: Bar, experiment: Experiment, findings: Findings, *, quiet: bool) -> None:
    """Print the tables, or only the verdicts if `quiet`."""
    for table in findings.tables:
        if not quiet:
            bar.print(table.rich(bar.console.width))
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
        """Show the label of the current job."""
        self.update(self.task, description=label)

    def tick(self, share: float) -> None:
        """Show the finished share of the current job."""
        if time.monotonic() - self.drawn > REFRESH_SECONDS:
            self.drawn = time.monotonic()
            self.update(self.task, completed=self.done + share)

    def end(self) -> None:
        """Count a finished job."""
        self.done += 1
        self.update(self.task, completed=self.done)

    def warn(self, text: str) -> None:
        """Print a warning."""
        self.print(text, style="yellow")
