"""The command `minimize`."""

from __future__ import annotations

import dataclasses
import os
import secrets
from pathlib import Path
from typing import Annotated

import typer

from slgh import checks
from slgh.cli import folder
from slgh.cli.command import TYPED
from slgh.cli.common import Debug, JsonFile, Quiet, complete_methods
from slgh.cli.job import Job, choose_history, read_params, read_value, run
from slgh.cli.objective import Source, read_objective
from slgh.cli.options import (
    FUNCTION,
    LIMITS,
    METHOD,
    OUTPUT,
    X0,
    BoundsText,
    D,
    Floor,
    Formula,
    Fun,
    MaxIter,
    MaxSeconds,
    NoPlot,
    PlotFile,
    Samples,
    Seed,
    Settings,
    VectorizedFun,
    WithHistory,
    count,
    number,
)
from slgh.cli.output import read_output, tell
from slgh.method import METHODS


def minimize(
    ctx: typer.Context,
    formula: Formula = None,
    x0: X0 = None,
    d: D = None,
    fun: Fun = None,
    grad: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The gradient of --fun, named likewise.", rich_help_panel=FUNCTION),
    ] = None,
    vectorized: VectorizedFun = False,
    terms: Annotated[
        int | None,
        count(
            "--terms",
            "N",
            "--fun is the mean of N terms, each called as fun(x, i): a stochastic method takes some of them.",
            FUNCTION,
        ),
    ] = None,
    fallback: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="How a formula without a closed form is smoothed, for methods that need gradients: quadrature (terms "
            "of up to 4 variables) or sampling.",
            autocompletion=lambda: ["quadrature", "sampling"],
            rich_help_panel=FUNCTION,
        ),
    ] = None,
    bounds: BoundsText = None,
    method: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="One of slgh methods; auto needs no tuning.",
            autocompletion=complete_methods,
            rich_help_panel=METHOD,
        ),
    ] = "auto",
    t1: Annotated[float | None, number("--t1", "T", "The first smoothing radius.", METHOD)] = None,
    gamma: Annotated[
        str | None,
        typer.Option(metavar="RATIO", help="The ratio by which t falls; or tuned.", rich_help_panel=METHOD),
    ] = None,
    eta: Annotated[float | None, number("--eta", "STEP", "The step size of t (slgh_d).", METHOD)] = None,
    step: Annotated[
        str | None,
        typer.Option(
            metavar="STEP",
            help="The step size of x; or theory, with --set L1=..., f's smoothness.",
            rich_help_panel=METHOD,
        ),
    ] = None,
    samples: Samples = None,
    floor: Floor = None,
    noise: Annotated[
        float | None, number("--noise", "NU", "Values of f have an error of up to NU (Algorithm 4).", METHOD)
    ] = None,
    settings: Settings = None,
    max_evals: Annotated[
        int | None, count("--max-evals", "N", "At most so many values and gradients; auto plans by it.", LIMITS)
    ] = None,
    max_iter: MaxIter = None,
    max_seconds: MaxSeconds = None,
    target: Annotated[float | None, number("--target", "F", "Stop at a value of at most this.", LIMITS)] = None,
    seed: Seed = None,
    workers: Annotated[
        int | None, count("--workers", "N", "Evaluate --fun in so many processes; -1: all cores.", FUNCTION)
    ] = None,
    on_nonfinite: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="About values that are not finite: reject, penalize or raise.",
            autocompletion=lambda: ["reject", "penalize", "raise"],
            rich_help_panel=LIMITS,
        ),
    ] = "reject",
    run_folder: Annotated[
        Path | None,
        typer.Option(
            "--run",
            metavar="FOLDER",
            help="Keep the run there, so that slgh resume FOLDER goes on with it after an interruption.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    save_every: Annotated[float, number("--save-every", "SECONDS", "How often --run saves.", OUTPUT)] = 10.0,
    plot: PlotFile = None,
    no_plot: NoPlot = False,
    json_file: JsonFile = None,
    history: WithHistory = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Minimize a formula, a test problem or a Python function; draw the path.

    slgh minimize 'x**4 - 3*x**2 + x' --x0 2

    slgh minimize rosenbrock --method slgh_r --t1 1.5 --gamma 0.999 --step 1e-4 --max-iter 20000

    slgh minimize --fun model.py:loss --x0 0 --d 10 --max-evals 5000 --run first --workers 4

    With --quiet one line is printed: f and x, in full precision.
    """
    output = read_output(json_file, history, plot, no_plot, quiet)
    checks.choice("method", method, list(METHODS))
    params = read_params(
        settings or [],
        t1=t1,
        gamma=None if gamma is None else read_value(gamma),
        eta=eta,
        step=None if step is None else read_value(step),
        samples=samples,
        floor=floor,
        noise=noise,
    )
    checks.at_least("save_every", save_every, 0)
    source = Source(
        formula=formula,
        fun=fun,
        grad=grad,
        vectorized=vectorized,
        terms=terms,
        fallback=fallback,
        x0=x0,
        d=d,
        bounds=bounds,
        folder=os.getcwd(),
    )
    with output.reserved():
        objective = read_objective(source)
    job = Job(
        source=source,
        method=method,
        params=params,
        max_evals=max_evals,
        max_iter=max_iter,
        max_seconds=max_seconds,
        target=target,
        seed=secrets.randbits(32) if seed is None else seed,
        workers=workers,
        on_nonfinite=on_nonfinite,
        save_every=save_every,
        no_plot=no_plot,
        typed=tuple(ctx.meta[TYPED]),
    )
    history_kept = choose_history(objective.d, job.given_limits, planned=job.planned, path=output.plot is not None)
    job = dataclasses.replace(job, history=history_kept)
    with output.reserved():
        if run_folder is None:
            outcome = run(job, objective, progress=output.shows_progress)
        else:
            outcome = folder.begin(run_folder, job, objective, progress=output.shows_progress)
    raise typer.Exit(tell(outcome, output, run=run_folder))
