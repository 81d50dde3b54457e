"""The command `attack train`."""

from __future__ import annotations

import dataclasses
import shlex
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from slgh import __version__
from slgh.cli import attack_settings as usual
from slgh.cli.attack_input import read_data
from slgh.cli.common import STDOUT, Debug, JsonFile, Quiet, Unwritten, console, fail, refuse_unwritable, write_json
from slgh.cli.options import DataFolder, DataName, count
from slgh.cli.output import show
from slgh.engine.checkpoint import OtherRun
from slgh.paper.networks.datasets import DATASETS, load_images

INTERRUPTED = 130
"""The exit code of a command that Ctrl-C has ended."""


def train(
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where the weights go, a safetensors file.")],
    data: DataName = None,
    folder: DataFolder = None,
    epochs: Annotated[int, count("--epochs", "N", "Passes over the training images.")] = 50,
    held_out: Annotated[int, count("--held-out", "N", "The first so many images are not trained on.")] = 5000,
    seed: Annotated[int, count("--seed", "N", "Chooses the weights, the order of the images, and dropout.")] = 0,
    device: Annotated[
        str | None, typer.Option(metavar="NAME", help="cpu or cuda; by default cuda where there is one.")
    ] = None,
    half: Annotated[bool, typer.Option("--half", help="Write float16, half the size, instead of float32.")] = False,
    json_file: JsonFile = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Train one of the paper's networks anew; slgh attack --weights FILE then attacks it.

    slgh attack train --data mnist --folder DATA --out weights.safetensors

    Without --folder the set is downloaded, once. Ctrl-C keeps the epochs that are finished, and the same command goes
    on from there. With --quiet one line is printed: the accuracy on the held-out and on the test images.
    """
    name = read_data(data or usual.DATA)
    refuse_unwritable(json_file)
    refuse_unwritable(out, "--out")
    silent = quiet or json_file == STDOUT
    from slgh.paper.networks.networks import save_weights
    from slgh.paper.networks.training import accuracy
    from slgh.paper.networks.training import train as run_training

    training, test = (load_images(name, split, folder) for split in ("train", "test"))
    unfinished = out.with_name(f"{out.name}.unfinished.npz")
    begun = time.monotonic()

    def tell(line: Any) -> None:
        """One line an epoch."""
        if not silent:
            spent = time.monotonic() - begun
            console.print(f"epoch {line.epoch} of {epochs}: loss {line.loss:.4f}{_held_out(line)}, {spent:.0f} s")

    try:
        done = run_training(
            name,
            training.images,
            training.labels,
            epochs=epochs,
            held_out=held_out,
            seed=seed,
            device=device,
            progress=tell,
            checkpoint=unfinished,
        )
        save_weights(done.network, out, dtype="float16" if half else "float32")
    except OtherRun:
        fail(f"{unfinished} holds an unfinished training with other options: remove it, or pass another --out.")
    except KeyboardInterrupt:
        kept = f" The finished epochs are kept: the same command goes on ({unfinished})." if unfinished.exists() else ""
        print(f"slgh: interrupted.{kept}", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
    except OSError as error:
        raise Unwritten(f"--out: {error.filename or out} cannot be written: {error.strerror}.") from error
    right = accuracy(done.network, test.images, test.labels)
    last = done.log[-1]
    if not silent:
        show("trained", f"the network of {DATASETS[name].title}, {epochs} epoch{'s' * (epochs != 1)}, seed {seed}")
        show("accuracy", f"{100 * right:.2f} % of the {len(test):,} test images{_held_out(last)}")
        show("written", str(out), whole=True)
        show("attack", shlex.join(["slgh", "attack", "--data", name, "--weights", str(out)]), whole=True)
    elif json_file != STDOUT:
        print("nan" if last.held_out_accuracy is None else last.held_out_accuracy, right)
    write_json(
        json_file,
        {
            "slgh": __version__,
            "command": "attack train",
            "data": name,
            "weights": str(out),
            "dtype": "float16" if half else "float32",
            "seed": seed,
            "held_out": held_out,
            "held_out_accuracy": last.held_out_accuracy,
            "test_accuracy": right,
            "log": [dataclasses.asdict(line) for line in done.log],
            "seconds": time.monotonic() - begun,
        },
    )
    unfinished.unlink(missing_ok=True)


def _held_out(line: Any) -> str:
    """The accuracy on the held-out images, where there are any."""
    return "" if line.held_out_accuracy is None else f", {100 * line.held_out_accuracy:.2f} % of the held-out ones"
