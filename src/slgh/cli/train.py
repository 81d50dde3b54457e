"""The command `attack train`."""

from __future__ import annotations

import dataclasses
import shlex
import time
from typing import Any

from slgh import __version__
from slgh.cli.attack_input import read_data
from slgh.cli.declaration import Role, values_of
from slgh.cli.errors import INTERRUPTED, Unwritten, fail, print_message
from slgh.cli.options import TrainOptions
from slgh.cli.output import console, read_output, refuse_unwritable, show, write_json
from slgh.engine.checkpoint import OtherRun
from slgh.paper.networks.datasets import DATASETS
from slgh.paper.networks.image_files import load_images


def train(options: TrainOptions) -> int | None:
    """Train the network, and write its weights."""
    name, out, epochs = read_data(options.data), options.out, options.epochs
    output = read_output(options)
    refuse_unwritable(out, "--out")
    from slgh.paper.networks.networks import save_weights
    from slgh.paper.networks.training import accuracy
    from slgh.paper.networks.training import train as run_training

    training, test = (load_images(name, split, options.folder) for split in ("train", "test"))
    unfinished = out.with_name(f"{out.name}.unfinished.npz")
    dtype = "float16" if options.half else "float32"
    begun = time.monotonic()

    def print_epoch(line: Any) -> None:
        if output.prints:
            spent = time.monotonic() - begun
            console.print(f"epoch {line.epoch} of {epochs}: loss {line.loss:.4f}{_held_out(line)}, {spent:.0f} s")

    try:
        done = run_training(
            name,
            training.images,
            training.labels,
            progress=print_epoch,
            checkpoint=unfinished,
            **values_of(options, Role.ARGUMENT),
        )
        save_weights(done.network, out, dtype=dtype)
    except OtherRun:
        fail(f"{unfinished} holds an unfinished training with other options. Remove it, or choose another --out.")
    except KeyboardInterrupt:
        kept = (
            f" Finished epochs are kept in {unfinished}: repeat the command to continue." if unfinished.exists() else ""
        )
        print_message("note", f"interrupted.{kept}")
        return INTERRUPTED
    except OSError as error:
        raise Unwritten(f"--out: {error.filename or out} cannot be written: {error.strerror}.") from error
    right = accuracy(done.network, test.images, test.labels)
    last = done.log[-1]
    if output.prints:
        show(
            "trained",
            f"the network of {DATASETS[name].title}, {epochs} epoch{'s' * (epochs != 1)}, seed {options.seed}",
        )
        show("accuracy", f"{100 * right:.2f} % on the {len(test):,} test images{_held_out(last)}")
        show("written", str(out), unbroken=True)
        show("attack", shlex.join(["slgh", "attack", "--data", name, "--weights", str(out)]), unbroken=True)
    elif output.prints_line:
        print("nan" if last.held_out_accuracy is None else last.held_out_accuracy, right)
    write_json(
        output.json,
        {
            "slgh": __version__,
            "command": "attack train",
            "data": name,
            "weights": str(out),
            "dtype": dtype,
            "seed": options.seed,
            "held_out": options.held_out,
            "held_out_accuracy": last.held_out_accuracy,
            "test_accuracy": right,
            "log": [dataclasses.asdict(line) for line in done.log],
            "seconds": time.monotonic() - begun,
        },
    )
    unfinished.unlink(missing_ok=True)
    return None


def _held_out(line: Any) -> str:
    """Return the accuracy on the held-out images, if any."""
    return "" if line.held_out_accuracy is None else f", {100 * line.held_out_accuracy:.2f} % on the held-out images"
