"""The command `attack`."""

from __future__ import annotations

import secrets
import time
from typing import Any

from slgh import checks
from slgh.attack import attack as run_attack
from slgh.attack.api import DEFAULT_QUERIES
from slgh.cli.attack_input import blamed, paper_parameters, read_input
from slgh.cli.attack_output import FinishedAttack, read_attack_output, report
from slgh.cli.declaration import PASSED, values_of
from slgh.cli.options import ATTACK_METHODS, AttackOptions
from slgh.cli.parameters import read_parameters
from slgh.cli.workers import SERVED, open_named
from slgh.engine.shards import stored_files


def attack(options: AttackOptions) -> int:
    """Attack the images, and print, write and draw the result."""
    with open_named(options.workers) as workers:
        return 0 if workers is SERVED else _attack(options, workers)


def _attack(options: AttackOptions, workers: Any) -> int:
    """Attack the images with these workers."""
    output = read_attack_output(options)
    checks.choice("method", options.method, list(ATTACK_METHODS))
    given = read_parameters(options, run_attack)
    arguments = {name: value for name, value in values_of(options, *PASSED).items() if value is not None}
    arguments.pop("workers", None)  # opened already
    resumed = options.run is not None and bool(stored_files(options.run))  # then the files hold the seed
    if options.seed is None and not resumed:
        arguments["seed"] = secrets.randbits(32)
    notes = []
    if options.max_queries is None and options.max_iter is None:
        arguments["max_queries"] = DEFAULT_QUERIES
        notes.append(f"--max-queries {DEFAULT_QUERIES} is the default.")
    with output.reserved():  # the user's code may print
        attacked = read_input(options)
        params = paper_parameters(options.method, attacked.d, given)
        begun = time.monotonic()
        with blamed(attacked):
            found = run_attack(
                attacked.model,
                attacked.images,
                attacked.labels,
                targets=None if attacked.wanted is None else [attacked.wanted] * len(attacked.labels),
                pixels=attacked.pixels,
                outputs=attacked.outputs,
                checkpoint=options.run,
                workers=workers,
                progress=output.shows_progress,
                **arguments,
                **params,
            )
    finished = FinishedAttack(
        options=options,
        attacked=attacked,
        found=found,
        params=params,
        seed=arguments.get("seed", 0 if found.run is None else found.run.seed),
        seconds=time.monotonic() - begun,
        notes=tuple(notes),
        max_queries=arguments.get("max_queries"),
    )
    return report(finished, output)
