"""The options of the commands that call the library.

An option that mirrors a hyperparameter, an argument or a limit of the library is one field here, and no more code.
"""

# ruff: noqa: RUF009 (`option` and `switch` make a field, as `dataclasses.field` does)
from __future__ import annotations

from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any

from slgh.cli.declaration import ATTACKED, FUNCTION, LIMITS, METHOD, OUTPUT, SEED, Role, option, switch
from slgh.cli.parse import read_value
from slgh.engine.bad_values import POLICIES
from slgh.method import METHODS
from slgh.paper.attack.settings import METHODS as PAPER_METHODS
from slgh.problems import PROBLEMS

ATTACK_METHODS = ("auto", *PAPER_METHODS)
"""Methods for attacks: those that need nothing but answers, and have parameters for images."""


def complete_methods(incomplete: str) -> list[tuple[str, str]]:
    """Return names of methods for the shell."""
    return [(name, recipe.about) for name, recipe in METHODS.items() if name.startswith(incomplete)]


def seed_option() -> Any:
    """Declare --seed."""
    return option("N", "The seed of all randomness. If none is given, one is generated and printed.", SEED, read=int)


@dataclass(frozen=True, kw_only=True)
class CommonOptions:
    """Options of every command."""

    json: Path | None = option("FILE", "Write the results to this file, for programs; - is standard output.")
    quiet: bool = switch("Print only the essentials, for scripts.")
    debug: bool = switch("Show the traceback of an error.")  # read by slgh.cli.group


@dataclass(frozen=True, kw_only=True)
class ProblemOptions(CommonOptions):
    """The problem to minimize, and its start."""

    formula: str | None = option(
        "FORMULA",
        "A formula in Python's notation, such as 'x**4 - 3*x**2 + x' or 'sum(x\\[i]**2 for i in range(d))', "
        "read safely; or the name of a test problem (slgh problems).",
        role=Role.PROBLEM,
        flag="FORMULA",
        choices=tuple(PROBLEMS),
    )
    x0: str | None = option(
        "NUMBERS",
        "The start, commas between: -3,2. With --d one number stands for all variables. A test problem has its own.",
        FUNCTION,
    )
    d: int | None = option("N", "The number of variables.", FUNCTION)
    fun: str | None = option(
        "NAME",
        "Instead of a formula, a Python function of one point, an array (d,): module:function or file.py:function.",
        FUNCTION,
        Role.CODE,
    )
    vectorized: bool = switch("The function maps points (n, d) to values (n,), all at once.", FUNCTION)
    bounds: str | None = option(
        "LOW:HIGH",
        "Bounds of all variables, -5:5, or of each, commas between: -5:5,0:. Points outside are mirrored in.",
        FUNCTION,
    )


@dataclass(frozen=True, kw_only=True)
class RunOptions(CommonOptions):
    """Options that minimize and attack share: the method, limits, and what is drawn and written."""

    method: str = option(
        "NAME",
        "One of slgh methods; auto needs no tuning.",
        METHOD,
        Role.ARGUMENT,
        default="auto",
        choices=complete_methods,
    )
    t1: float | None = option("T", "The first smoothing radius.", METHOD)
    gamma: float | str | None = option("RATIO", "The ratio by which t falls; or tuned.", METHOD, read=read_value)
    eta: float | None = option("STEP", "The step size of t (slgh_d, zoslgh_d).", METHOD)
    step: float | str | None = option(
        "STEP", "The step size of x; or theory, with --set L1=..., f's smoothness.", METHOD, read=read_value
    )
    samples: int | None = option("M", "Random directions per iteration.", METHOD)
    floor: float | None = option("T", "The least smoothing radius.", METHOD)
    settings: tuple[str, ...] = option(
        "NAME=VALUE",
        "Any other hyperparameter, or a part to swap: --set update=adam. May be repeated.",
        METHOD,
        Role.PROBLEM,
        default=(),
        flag="--set",
    )
    max_iter: int | None = option("N", "Maximum number of iterations.", LIMITS)
    max_seconds: float | None = option("SECONDS", "Maximum number of seconds.", LIMITS)
    seed: int | None = seed_option()
    no_plot: bool = switch("Draw nothing, as --quiet and --json - do.", OUTPUT, Role.PICTURE)
    history: bool = switch("Write the iterations to the JSON file too.", OUTPUT)


@dataclass(frozen=True, kw_only=True)
class MinimizeOptions(RunOptions, ProblemOptions):
    """Options of `slgh minimize`."""

    grad: str | None = option("NAME", "The gradient of --fun, named likewise.", FUNCTION, Role.CODE)
    terms: int | None = option(
        "N",
        "--fun is the mean of N terms, each called as fun(x, i): a stochastic method takes some of them.",
        FUNCTION,
        argument="sample_xi",
    )
    fallback: str | None = option(
        "NAME",
        "How a formula without a closed form is smoothed, for methods that need gradients: quadrature (terms of up to "
        "4 variables) or sampling.",
        FUNCTION,
        choices=("quadrature", "sampling"),
    )
    workers: int | None = option("N", "Evaluate --fun in this many processes; -1: all cores.", FUNCTION, Role.EXECUTION)
    noise: float | None = option("NU", "Values of f have an error of up to NU (Algorithm 4).", METHOD)
    max_evals: int | None = option("N", "Maximum number of values and gradients; auto plans by it.", LIMITS)
    target: float | None = option("F", "Stop at a value of at most this.", LIMITS)
    on_nonfinite: str = option(
        "NAME",
        f"About values that are not finite: {', '.join(POLICIES[:-1])} or {POLICIES[-1]}.",
        LIMITS,
        Role.ARGUMENT,
        default="reject",
        choices=POLICIES,
    )
    run: Path | None = option(
        "FOLDER",
        "Keep the run there: the same command goes on with it after an interruption, also with other limits.",
        OUTPUT,
        argument="checkpoint",
    )
    save_every: float = option("SECONDS", "How often --run saves.", OUTPUT, default=10.0)
    plot: Path | None = option(
        "FILE",
        "Draw the path: .png, .svg, .pdf, or .html for a page to explore. By default slgh-path.png.",
        OUTPUT,
        Role.PICTURE,
    )


@dataclass(frozen=True, kw_only=True)
class ProbeOptions(ProblemOptions):
    """Options of `slgh probe`."""

    radii: str | None = option(
        "NUMBERS", "The radii to try, ascending, commas between.", role=Role.PROBLEM, argument="t"
    )
    samples: int = option("M", "Pairs of points at each radius.", role=Role.ARGUMENT, default=12)
    steps: int = option("N", "Steps of the rehearsal from each radius.", role=Role.ARGUMENT, default=24)
    seed: int | None = seed_option()
    plot: Path | None = option("FILE", "Draw it: .png, .svg or .pdf.", OUTPUT, Role.PICTURE)


@dataclass(frozen=True, kw_only=True)
class DataOptions(CommonOptions):
    """The images of a public set."""

    data: str | None = option(
        "NAME",
        "mnist or cifar10: a hundred test images of each come with the package, and a network.",
        ATTACKED,
        choices=("mnist", "cifar10"),
    )
    folder: Path | None = option("FOLDER", "Where the official files of the whole set lie.", ATTACKED)


@dataclass(frozen=True, kw_only=True)
class AttackOptions(RunOptions, DataOptions):
    """Options of `slgh attack`."""

    images: int | None = option("N", "The first N images; by default 4, or all of --inputs.", ATTACKED)
    ids: str | None = option(
        "NUMBERS", "These images instead, commas between: their places in the test set, from 0.", ATTACKED
    )
    download: bool = switch("The whole test set, downloaded once and compared with its checksum.", ATTACKED)
    weights: Path | None = option("FILE", "Another training of our network, as slgh attack train writes it.", ATTACKED)
    model: str | None = option(
        "NAME",
        "Instead of our network, a function of images (N, ...) or a PyTorch module: file.py:name or module:name.",
        ATTACKED,
        Role.CODE,
    )
    inputs: Path | None = option("FILE", "Images for --model: an .npz with images (N, ...) and labels (N,).", ATTACKED)
    pixels: str | None = option("LOW,HIGH", "The range of the pixels that --model reads; by default 0,1.", ATTACKED)
    outputs: str | None = option(
        "NAME",
        "What --model returns: logits (the default) or probabilities, (N, classes).",
        ATTACKED,
        choices=("logits", "probabilities"),
    )
    model_batch_size: int | None = option("N", "How many images the model gets in one call.", ATTACKED, Role.ARGUMENT)
    batch_size: int | None = option("N", "How many images are attacked at the same time.", ATTACKED, Role.ARGUMENT)
    device: str | None = option("NAME", "Where the network runs: cpu, the default, or cuda.", ATTACKED)
    method: str = option(
        "NAME",
        f"One of {', '.join(ATTACK_METHODS)}; auto needs no tuning, the others have the paper's parameters.",
        METHOD,
        Role.ARGUMENT,
        default="auto",
        choices=ATTACK_METHODS,
    )
    gamma: float | None = option("RATIO", "The ratio by which t falls.", METHOD)
    step: float | None = option("STEP", "The step size of x.", METHOD)
    weight: float | None = option(
        "NUMBER", "How much the loss counts beside the distortion; by default 10.", METHOD, Role.ARGUMENT
    )
    kappa: float | None = option(
        "NUMBER", "How far the loss may fall below 0; by default 1e-10.", METHOD, Role.ARGUMENT
    )
    max_queries: int | None = option("N", "Maximum number of queries per image, all included.", LIMITS)
    stop: str = option(
        "WHEN",
        "end makes an image that is adversarial less distorted to the end; first-success leaves it alone.",
        LIMITS,
        Role.ARGUMENT,
        default="end",
        choices=("first-success", "end"),
    )
    target: str | None = option(
        "CLASS",
        "The class to be seen, by number or name; without, any wrong one.",
        LIMITS,
        Role.PROBLEM,
        argument="targets",
    )
    run: Path | None = option(
        "FILE",
        "Keep the run in this file (a long one in a second beside it); the same command then goes on from it.",
        OUTPUT,
        argument="checkpoint",
    )
    out: Path | None = option("FOLDER", "Write the images, figures and pictures there.", OUTPUT)
    plot: Path | None = option(
        "FILE",
        "Draw the images: .png, .svg or .pdf. By default slgh-attack.png, or in the folder of --out.",
        OUTPUT,
        Role.PICTURE,
    )


@dataclass(frozen=True, kw_only=True)
class TrainOptions(DataOptions):
    """Options of `slgh attack train`."""

    out: Path = option("FILE", "Where the weights go, a safetensors file.", default=MISSING)
    epochs: int = option("N", "Passes over the training images.", role=Role.ARGUMENT, default=50)
    held_out: int = option("N", "The first N images are not trained on.", role=Role.ARGUMENT, default=5000)
    seed: int = option("N", "Chooses the weights, the order of the images, and dropout.", role=Role.ARGUMENT, default=0)
    device: str | None = option("NAME", "cpu or cuda; by default cuda where there is one.", role=Role.ARGUMENT)
    half: bool = switch("Write float16, half the size, instead of float32.")
