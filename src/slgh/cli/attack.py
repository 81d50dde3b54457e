"""The command `attack`."""

from __future__ import annotations

import inspect
import secrets
import sys
import time
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core

from slgh import checks
from slgh.attack import attack as run_attack
from slgh.attack.api import STOPS
from slgh.cli import attack_settings as usual
from slgh.cli.attack_input import Source, blamed, read_attacked
from slgh.cli.attack_output import Ended, read_attack_output, tell_attack
from slgh.cli.command import TYPED, untyped_flags
from slgh.cli.common import Debug, JsonFile, Quiet, fail
from slgh.cli.errors import OPTIONS
from slgh.cli.job import read_params
from slgh.cli.options import (
    ATTACKED,
    LIMITS,
    METHOD,
    OUTPUT,
    DataFolder,
    DataName,
    Floor,
    ImagesFile,
    MaxIter,
    MaxSeconds,
    NoPlot,
    Samples,
    Seed,
    Settings,
    WithHistory,
    count,
    number,
)

TRAIN = "train"


class AttackGroup(typer.core.TyperGroup):
    """The command `attack`, which is also the group of `attack train`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Keep what was typed, for the line that repeats it."""
        ctx.meta[TYPED] = list(args)
        return super().parse_args(ctx, args)

    def get_params(self, ctx: Any) -> Any:
        """The parameters, with nothing shown for the values of flags."""
        return untyped_flags(super().get_params(ctx))


def attack(
    ctx: typer.Context,
    data: DataName = None,
    images: Annotated[
        int | None,
        count("--images", "N", f"The first N images; by default {usual.IMAGES}, or all of --inputs.", ATTACKED),
    ] = None,
    ids: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBERS",
            help="These images instead, commas between: their places in the test set, from 0.",
            rich_help_panel=ATTACKED,
        ),
    ] = None,
    folder: DataFolder = None,
    download: Annotated[
        bool,
        typer.Option(
            "--download",
            help="The whole test set, downloaded once and compared with its checksum.",
            rich_help_panel=ATTACKED,
        ),
    ] = False,
    weights: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Another training of our network, as slgh attack train writes it.",
            rich_help_panel=ATTACKED,
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Instead of our network, a function of images (N, ...) or a PyTorch module: file.py:name or "
            "module:name.",
            rich_help_panel=ATTACKED,
        ),
    ] = None,
    inputs: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="What --model is asked about: an .npz with images (N, ...) and labels (N,).",
            rich_help_panel=ATTACKED,
        ),
    ] = None,
    pixels: Annotated[
        str | None,
        typer.Option(
            metavar="LOW,HIGH",
            help="The range of the pixels that --model reads; by default 0,1.",
            rich_help_panel=ATTACKED,
        ),
    ] = None,
    outputs: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What --model returns: logits (the default) or probabilities, (N, classes).",
            autocompletion=lambda: ["logits", "probabilities"],
            rich_help_panel=ATTACKED,
        ),
    ] = None,
    model_batch_size: Annotated[
        int | None, count("--model-batch-size", "N", "How many images the model gets in one call.", ATTACKED)
    ] = None,
    batch_size: Annotated[
        int | None, count("--batch-size", "N", "How many images are attacked at the same time.", ATTACKED)
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Where the network runs: cpu, the default, or cuda.", rich_help_panel=ATTACKED
        ),
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help=f"One of {', '.join(usual.NAMES)}; auto needs no tuning, the others have the paper's parameters.",
            autocompletion=lambda: list(usual.NAMES),
            rich_help_panel=METHOD,
        ),
    ] = usual.METHOD,
    t1: Annotated[float | None, number("--t1", "T", "The first smoothing radius.", METHOD)] = None,
    gamma: Annotated[float | None, number("--gamma", "RATIO", "The ratio by which t falls.", METHOD)] = None,
    eta: Annotated[float | None, number("--eta", "STEP", "The step size of t (zoslgh_d).", METHOD)] = None,
    step: Annotated[float | None, number("--step", "STEP", "The step size of x.", METHOD)] = None,
    samples: Samples = None,
    floor: Floor = None,
    weight: Annotated[
        float | None,
        number("--weight", "NUMBER", "How much the loss counts beside the distortion; by default 10.", METHOD),
    ] = None,
    kappa: Annotated[
        float | None, number("--kappa", "NUMBER", "How far the loss may fall below 0; by default 1e-10.", METHOD)
    ] = None,
    settings: Settings = None,
    max_queries: Annotated[
        int | None, count("--max-queries", "N", "At most so many queries an image, all included.", LIMITS)
    ] = None,
    max_iter: MaxIter = None,
    max_seconds: MaxSeconds = None,
    stop: Annotated[
        str,
        typer.Option(
            metavar="WHEN",
            help="end makes an image that is adversarial less distorted to the end; first-success leaves it alone.",
            autocompletion=lambda: ["first-success", "end"],
            rich_help_panel=LIMITS,
        ),
    ] = usual.STOP,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="CLASS",
            help="The class to be seen, by number or name; without, any wrong one.",
            rich_help_panel=LIMITS,
        ),
    ] = None,
    seed: Seed = None,
    run: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Keep the run in this file (a long one in a second beside it); the same command then goes on from it.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Write the images, figures and pictures there.", rich_help_panel=OUTPUT),
    ] = None,
    plot: ImagesFile = None,
    no_plot: NoPlot = False,
    json_file: JsonFile = None,
    history: WithHistory = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Fool a classifier of images by asking it alone, and draw what fooled it.

    slgh attack --data mnist --images 4

    slgh attack --model mine.py:network --inputs mine.npz --pixels 0,255 --max-queries 5000 --out found

    With --quiet one line is printed: how many images were fooled and how many
    attacked, the median of the queries to the first success, and the mean L2 norm
    of what was changed.
    """
    if ctx.invoked_subcommand is not None:
        _refuse_options_before(ctx)
        return
    output = read_attack_output(json=json_file, history=history, out=out, plot=plot, no_plot=no_plot, quiet=quiet)
    checks.choice("method", method, usual.NAMES)
    if (when := stop.replace("-", " ")) not in STOPS:
        fail(f"--stop must be first-success or end, got {stop!r}.")
    given = read_params(settings or [], t1=t1, gamma=gamma, eta=eta, step=step, samples=samples, floor=floor)
    if wrong := [name for name in given if name in inspect.signature(run_attack).parameters]:
        fail(f"--set {wrong[0]}: {wrong[0]} is no hyperparameter; {_instead(wrong[0])}.")
    source = Source(
        data=data,
        images=images,
        ids=ids,
        folder=folder,
        download=download,
        weights=weights,
        model=model,
        inputs=inputs,
        pixels=pixels,
        outputs=outputs,
        device=device,
    )
    if seed is None and not (run is not None and run.exists()):
        seed = secrets.randbits(32)
    limits: dict[str, Any] = {"max_queries": max_queries, "max_iter": max_iter, "max_seconds": max_seconds}
    more: dict[str, Any] = {
        "weight": weight,
        "kappa": kappa,
        "model_batch_size": model_batch_size,
        "batch_size": batch_size,
    }
    with redirect_stdout(sys.stderr) if output.silent else nullcontext():  # the user's code may print
        it, wanted = read_attacked(source, target)
        params = usual.usual_parameters(method, it.d, given)
        notes = []
        if max_queries is None and max_iter is None:
            limits["max_queries"] = usual.MAX_QUERIES
            notes.append(f"--max-queries {usual.MAX_QUERIES} was taken, the default.")
        begun = time.monotonic()
        with blamed(it):
            found = run_attack(
                it.model,
                it.images,
                it.labels,
                targets=None if wanted is None else [wanted] * len(it.labels),
                pixels=it.pixels,
                outputs=it.outputs,
                method=method,
                stop=when,
                seed=seed,
                checkpoint=run,
                progress=output.shows_progress,
                **limits,
                **{name: value for name, value in more.items() if value is not None},
                **params,
            )
    ended = Ended(
        attacked=it,
        found=found,
        method=method,
        params=params,
        wanted=wanted,
        seed=seed if seed is not None else found.runs[0].seed if found.runs else 0,
        seconds=time.monotonic() - begun,
        typed=tuple(ctx.meta[TYPED]),
        notes=tuple(notes),
    )
    raise typer.Exit(tell_attack(ended, output))


def _instead(name: str) -> str:
    return f"pass {OPTIONS[name]}" if name in OPTIONS else "the command line does not take it"


def _refuse_options_before(ctx: typer.Context) -> None:
    """Options that stand before `train` would be lost without a word."""
    sources = {param.opts[0]: ctx.get_parameter_source(str(param.name)) for param in ctx.command.params}
    given = [option for option, source in sources.items() if source is not None and source.name == "COMMANDLINE"]
    if given:
        fail(f"{given[0]} belongs behind {ctx.invoked_subcommand}: slgh attack {ctx.invoked_subcommand} {given[0]} ...")
