"""The options of every command. The docstring of a command's options is its help.

An option that mirrors a hyperparameter, an argument or a limit of the library is one field here, and no more code.
This module is imported for `slgh --help`, so it imports nothing that takes long.
"""

# ruff: noqa: RUF009 (`option` and `switch` make a field, as `dataclasses.field` does)
from __future__ import annotations

from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any

from slgh.cli.declaration import (
    ATTACK_TABLES,
    ATTACKED,
    FUNCTION,
    LIMITS,
    METHOD,
    OUTPUT,
    SEED,
    Role,
    option,
    switch,
)
from slgh.cli.parse import read_value, read_workers

# The names in these lists are repeated from `slgh.paper`, which takes long to import. A test compares them.
ATTACK_METHODS = ("auto", "zosgd", "zoadamm", "zogradopt", "zoslgh_r", "zoslgh_d")
"""Methods for attacks: those that need only values, and have parameters for images."""

DEFAULT_EXPERIMENTS = ("rosenbrock", "himmelblau", "ackley", "hole", "error_tolerance")
ALL_EXPERIMENTS = (
    *("rosenbrock", "himmelblau", "ackley", "hole", "mnist", "cifar10"),
    *("error_tolerance", "errata", "complexity"),
)


def complete_methods(incomplete: str) -> list[tuple[str, str]]:
    """Return names of methods, and what they are, for completion in the shell."""
    from slgh.method import METHODS

    return [(name, recipe.about) for name, recipe in METHODS.items() if name.startswith(incomplete)]


def complete_problems(incomplete: str) -> list[str]:
    """Return names of test problems for completion in the shell."""
    from slgh.problems import PROBLEMS

    return [name for name in PROBLEMS if name.startswith(incomplete)]


def seed_option() -> Any:
    """Declare --seed."""
    return option("N", "Seed of all random numbers. If none is given, one is generated and printed.", SEED, read=int)


@dataclass(frozen=True, kw_only=True)
class CommonOptions:
    """Options of every command."""

    json: Path | None = option("FILE", "Write the results to this file as JSON; - is standard output.")
    quiet: bool = switch("Print only the essentials, for scripts.")
    debug: bool = switch("Show the traceback of an error.")  # read by slgh.cli.group


@dataclass(frozen=True, kw_only=True)
class PlotOptions(CommonOptions):
    """Options of the commands that can draw a picture."""

    plot: Path | None = option("[FILE]", "Draw a picture.", OUTPUT)
    overwrite: bool = switch("Replace the file of --plot if it exists.", OUTPUT)


@dataclass(frozen=True, kw_only=True)
class ProblemOptions(CommonOptions):
    """The problem to minimize, and its start."""

    formula: str | None = option(
        "FORMULA",
        "A formula in Python notation, such as 'x**4 - 3*x**2 + x' or 'sum(x\\[i]**2 for i in range(d))'. It is parsed "
        "and never executed. Or the name of a test problem (see slgh problems).",
        role=Role.PROBLEM,
        flag="FORMULA",
        choices=complete_problems,
    )
    x0: str | None = option(
        "NUMBERS",
        "Start, separated by commas: -3,2. With --d, one number is used for all variables. Test problems have a "
        "default start. Otherwise, the middle of finite --bounds is the default.",
        FUNCTION,
    )
    d: int | None = option("N", "Number of variables.", FUNCTION)
    fun: str | None = option(
        "NAME",
        "A Python function of one point, an array (d,), instead of a formula: module:function or file.py:function.",
        FUNCTION,
        Role.CODE,
    )
    vectorized: bool = switch("The function maps points (n, d) to values (n,).", FUNCTION)
    bounds: str | None = option(
        "LOW:HIGH",
        "Bounds of all variables, -5:5, or of each, separated by commas: -5:5,0:. Points outside are reflected.",
        FUNCTION,
    )


@dataclass(frozen=True, kw_only=True)
class RunOptions(PlotOptions):
    """Options that minimize and attack share: the method, limits and output."""

    method: str = option(
        "NAME",
        "Method (see slgh methods). auto needs no tuning.",
        METHOD,
        Role.ARGUMENT,
        default="auto",
        choices=complete_methods,
    )
    t1: float | None = option("T", "Initial smoothing radius.", METHOD)
    gamma: float | str | None = option("RATIO", "Factor of t per iteration; or tuned.", METHOD, read=read_value)
    eta: float | None = option("STEP", "Step size of t (slgh_d, zoslgh_d).", METHOD)
    step: float | str | None = option(
        "STEP", "Step size of x; or theory, with --set L1=..., the smoothness of f.", METHOD, read=read_value
    )
    samples: int | None = option("M", "Random directions per iteration.", METHOD)
    floor: float | None = option("T", "Smallest smoothing radius.", METHOD)
    settings: tuple[str, ...] = option(
        "NAME=VALUE",
        "Set another hyperparameter, or replace a part: --set update=adam. Can be repeated.",
        METHOD,
        Role.PROBLEM,
        default=(),
        flag="--set",
    )
    max_iter: int | None = option("N", "Maximum number of iterations.", LIMITS)
    max_seconds: float | None = option("SECONDS", "Maximum number of seconds.", LIMITS)
    seed: int | None = seed_option()
    history: bool = switch("Add the iterations to the JSON file: f and t, and with --plot x.", OUTPUT)


@dataclass(frozen=True, kw_only=True)
class MinimizeOptions(RunOptions, ProblemOptions):
    """Minimize a formula, a test problem or a Python function.

    slgh minimize 'x**4 - 3*x**2 + x' --x0 2

    slgh minimize rosenbrock --method slgh_r --t1 1.5 --gamma 0.999 --step 1e-4 --max-iter 20000

    slgh minimize --fun model.py:loss --x0 0 --d 10 --max-evals 5000 --run first --workers 4

    With --quiet, one line is printed: f and x in full precision.

    With --run FOLDER, repeating the command resumes a run that was killed,
    interrupted or cut short. The result is the same, bit for bit. Limits,
    --workers and output may change. The methods auto and scale_free plan by
    --max-evals and --max-iter, so these two must not change.
    """

    grad: str | None = option("NAME", "Gradient of --fun, named in the same way.", FUNCTION, Role.CODE)
    terms: int | None = option(
        "N",
        "--fun is the mean of N terms, each called as fun(x, i). A stochastic method samples them.",
        FUNCTION,
        argument="sample_xi",
    )
    fallback: str | None = option(
        "NAME",
        "Smoothing of a formula without a closed form, for methods that need gradients: quadrature (terms of up to "
        "4 variables) or sampling.",
        FUNCTION,
        choices=("quadrature", "sampling"),
    )
    workers: int | str | None = option(
        "N",
        "Evaluate --fun in N processes; -1: one per core. Or on a cluster: dask:ADDRESS, ray, ray:ADDRESS, or mpi, "
        "under mpirun.",
        FUNCTION,
        Role.EXECUTION,
        read=read_workers,
    )
    parallel: int | None = option(
        "N",
        "Number of evaluations at the same time that auto plans for. By default the number of workers.",
        FUNCTION,
        Role.ARGUMENT,
    )
    cache: bool = switch("Do not evaluate --fun again at the same point.", FUNCTION, Role.EXECUTION)
    noise: float | None = option("NU", "Maximum error of the values of f (Algorithm 4).", METHOD)
    max_evals: int | None = option("N", "Maximum number of values and gradients. auto plans by it.", LIMITS)
    target: float | None = option("F", "Stop when f is at most F.", LIMITS)
    ftol: float | None = option(
        "TOL", "Stop when f no longer falls by more than TOL max(1, |f|).", LIMITS, Role.ARGUMENT
    )
    xtol: float | None = option(
        "TOL", "Stop when x no longer moves by more than TOL max(1, |x|).", LIMITS, Role.ARGUMENT
    )
    max_seconds_per_eval: float | None = option(
        "SECONDS",
        "Kill an evaluation of --fun that takes longer, and count it as NaN. Needs --workers N.",
        LIMITS,
        Role.ARGUMENT,
    )
    on_nonfinite: str = option(
        "NAME",
        "Handling of values that are not finite: reject, penalize or raise.",
        LIMITS,
        Role.ARGUMENT,
        default="reject",
        choices=("reject", "penalize", "raise"),
    )
    run: Path | None = option(
        "FOLDER",
        "Keep the run in this folder. Repeat the command to resume it, with larger limits if you like.",
        OUTPUT,
        argument="checkpoint",
    )
    save_every: float = option("SECONDS", "Seconds between two saves of --run.", OUTPUT, default=10.0)
    plot: Path | None = option(
        "[FILE]",
        "Draw the path: .png, .svg, .pdf, or .html for an interactive page. Without FILE: slgh-path.png.",
        OUTPUT,
        bare="slgh-path.png",
    )


@dataclass(frozen=True, kw_only=True)
class ProbeOptions(ProblemOptions, PlotOptions):
    """Find out whether homotopy helps, and which t1 to start from.

    slgh probe 'sum(x\\[i]**2 - 10*cos(6*x\\[i]) for i in range(d))' --x0 3.3 --d 9

    This takes about a thousand evaluations. With --quiet, one line is printed:
    t1 (nan if no radius helps), and true or false for whether homotopy promises
    more than descent.
    """

    radii: str | None = option(
        "NUMBERS", "Radii to try, increasing, separated by commas.", role=Role.PROBLEM, argument="t"
    )
    samples: int = option("M", "Pairs of points per radius.", role=Role.ARGUMENT, default=12)
    steps: int = option("N", "Steps of the trial run from each radius.", role=Role.ARGUMENT, default=24)
    seed: int | None = seed_option()
    plot: Path | None = option(
        "[FILE]", "Draw the table: .png, .svg or .pdf. Without FILE: slgh-probe.png.", OUTPUT, bare="slgh-probe.png"
    )


@dataclass(frozen=True, kw_only=True)
class MethodsOptions(CommonOptions):
    """List the methods, or explain one: its parts, their equations and parameters.

    With --quiet, only names are printed.
    """

    name: str | None = option("NAME", "Method to explain.", choices=complete_methods, flag="NAME")


@dataclass(frozen=True, kw_only=True)
class ProblemsOptions(CommonOptions):
    """List the test problems: their variables, start, minimum and parameters.

    With --quiet, only names are printed.
    """


@dataclass(frozen=True, kw_only=True)
class ReproduceOptions(CommonOptions):
    """Reproduce the paper's experiments, and compare every figure with the printed one.

    Writes tables, pictures, a JSON file and a page. After Ctrl-C, repeat the
    command to continue.
    """

    names: tuple[str, ...] = option(
        "[NAME]...",
        f"Experiments: {', '.join(ALL_EXPERIMENTS)}, or all. By default {', '.join(DEFAULT_EXPERIMENTS)}.",
        default=(),
        flag="NAME",
        choices=(*ALL_EXPERIMENTS, "all"),
    )
    out: Path | None = option(
        "FOLDER", "Folder for the tables, figures, JSON file and page. By default reproduced, or reproduced-NAME."
    )
    seeds: int | None = option("N", "Runs per row of a stochastic table. By default the paper's number.")
    workers: int | None = option("N", "Number of processes. By default one per core.")
    figures: bool = switch("Draw the figures and write the page.", default=True)
    rows: Path | None = option(
        "FOLDER",
        "Cache of finished rows, one JSON file per row and seed. Rows in it are not run again.",
        ATTACK_TABLES,
    )
    images: int | None = option(
        "N", "Number of images. By default the paper's 100 on a GPU, and a few on a CPU.", ATTACK_TABLES
    )
    iterations: int | None = option(
        "T", "Iterations per attack. By default the paper's on a GPU, and fewer on a CPU.", ATTACK_TABLES
    )
    device: str | None = option("NAME", "cpu, cuda, cuda:1, ... By default a GPU if available.", ATTACK_TABLES)
    weights: Path | None = option(
        "FILE",
        "Attack a network with these weights: safetensors, or .npz in the layout of Keras.",
        ATTACK_TABLES,
    )
    folder: Path | None = option(
        "FOLDER",
        "Folder of the full test set, which --weights needs. By default it is downloaded.",
        ATTACK_TABLES,
    )


@dataclass(frozen=True, kw_only=True)
class DataOptions(CommonOptions):
    """The images of a public data set."""

    data: str | None = option(
        "NAME",
        "mnist or cifar10. A hundred test images and a network of each come with the package.",
        ATTACKED,
        choices=("mnist", "cifar10"),
    )
    folder: Path | None = option("FOLDER", "Folder with the official files of the full data set.", ATTACKED)


@dataclass(frozen=True, kw_only=True)
class AttackOptions(RunOptions, DataOptions):
    """Find small changes to images that fool a classifier, from its outputs alone.

    slgh attack --data mnist --images 4

    slgh attack --model mine.py:network --inputs photos --max-queries 5000 --out found

    slgh attack --model mine.py:network --inputs mine.npz --norm linf --eps 0.03

    With --out FOLDER, a report is written: a page with the success by queries
    and by distance, pictures, the images, and JSON.

    With --quiet, one line is printed: images fooled, images attacked, median
    queries to the first success, and mean norm of the changes.
    """

    images: int | None = option("N", "Attack the first N images. By default 4, or all of --inputs.", ATTACKED)
    ids: str | None = option(
        "NUMBERS", "Attack these images: their indices in the test set, separated by commas.", ATTACKED
    )
    download: bool = switch("Use the full test set. It is downloaded once, and its checksum verified.", ATTACKED)
    weights: Path | None = option("FILE", "Other weights of the network, written by slgh attack train.", ATTACKED)
    model: str | None = option(
        "NAME",
        "Your own model: a function of images (N, ...) or a PyTorch module, as file.py:name or module:name.",
        ATTACKED,
        Role.CODE,
    )
    inputs: Path | None = option(
        "PATH",
        "Images for --model: an .npz with images (N, ...) and labels (N,), or a folder of PNG and JPEG files, with a "
        "subfolder per class or a labels.csv with the columns file,label.",
        ATTACKED,
    )
    channels: str | None = option(
        "WHERE",
        "Axis of the channels that --model takes from image files: first (the default), (N, C, H, W), or last.",
        ATTACKED,
        choices=("first", "last"),
    )
    pixels: str | None = option("LOW,HIGH", "Range of the pixels that --model takes. By default 0,1.", ATTACKED)
    outputs: str | None = option(
        "NAME",
        "What --model returns: logits (the default) or probabilities, of shape (N, classes), or labels, the predicted "
        "classes (N,).",
        ATTACKED,
        choices=("logits", "probabilities", "labels"),
    )
    model_batch_size: int | None = option("N", "Images per call of the model.", ATTACKED, Role.ARGUMENT)
    batch_size: int | None = option("N", "Images attacked at the same time.", ATTACKED, Role.ARGUMENT)
    device: str | None = option("NAME", "Device of the network: cpu (the default) or cuda.", ATTACKED)
    workers: int | str | None = option(
        "N",
        "Divide the images among N processes; -1: one per core. Or on a cluster: dask:ADDRESS, ray, ray:ADDRESS, or "
        "mpi, under mpirun.",
        ATTACKED,
        Role.EXECUTION,
        read=read_workers,
    )
    method: str = option(
        "NAME",
        f"One of {', '.join(ATTACK_METHODS)}. auto needs no tuning, the others have the paper's parameters.",
        METHOD,
        Role.ARGUMENT,
        default="auto",
        choices=ATTACK_METHODS,
    )
    norm: str = option(
        "NAME",
        "Distance that auto minimizes: l2 (the default), or linf, the largest change of a pixel.",
        METHOD,
        Role.ARGUMENT,
        default="l2",
        choices=("l2", "linf"),
    )
    eps: float | None = option(
        "NUMBER",
        "Largest distance of a success, in units of the pixels. By default there is no limit.",
        METHOD,
        Role.ARGUMENT,
    )
    gamma: float | None = option("RATIO", "Factor of t per iteration.", METHOD)
    step: float | None = option("STEP", "Step size of x.", METHOD)
    weight: float | None = option(
        "NUMBER", "Weight of the loss relative to the distortion. By default 10.", METHOD, Role.ARGUMENT
    )
    kappa: float | None = option("NUMBER", "The loss may fall to -kappa. By default 1e-10.", METHOD, Role.ARGUMENT)
    max_queries: int | None = option("N", "Maximum number of queries per image.", LIMITS)
    stop: str = option(
        "WHEN",
        "end (the default) goes on after a success and reduces the distortion; first-success stops there.",
        LIMITS,
        Role.ARGUMENT,
        default="end",
        choices=("first-success", "end"),
    )
    target: str | None = option(
        "CLASS",
        "Class that the model should predict, by number or name. By default any wrong one.",
        LIMITS,
        Role.PROBLEM,
        argument="targets",
    )
    run: Path | None = option(
        "FILE",
        "Keep the run in this file. Repeat the command to resume it.",
        OUTPUT,
        argument="checkpoint",
    )
    out: Path | None = option(
        "FOLDER",
        "Write a report to this folder: a page, pictures, images and JSON. Files of an earlier attack are replaced.",
        OUTPUT,
    )
    plot: Path | None = option(
        "[FILE]",
        "Draw the images: .png, .svg or .pdf. Without FILE: slgh-attack.png.",
        OUTPUT,
        bare="slgh-attack.png",
    )


@dataclass(frozen=True, kw_only=True)
class TrainOptions(DataOptions):
    """Train one of the paper's networks again, for slgh attack --weights FILE.

    slgh attack train --data mnist --folder DATA --out weights.safetensors

    Without --folder, the data set is downloaded once. After Ctrl-C, repeat the
    command to continue with the next epoch. With --quiet, one line is printed:
    the accuracy on the held-out and on the test images.
    """

    out: Path = option("FILE", "File for the weights, in safetensors format.", default=MISSING)
    epochs: int = option("N", "Passes over the training images.", role=Role.ARGUMENT, default=50)
    held_out: int = option("N", "Exclude the first N images from training.", role=Role.ARGUMENT, default=5000)
    seed: int = option("N", "Seed of the weights, the order of images, and dropout.", role=Role.ARGUMENT, default=0)
    device: str | None = option("NAME", "cpu or cuda. By default cuda if available.", role=Role.ARGUMENT)
    half: bool = switch("Write float16 instead of float32, which halves the file.")
