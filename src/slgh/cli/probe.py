"""The command `probe`."""

from __future__ import annotations

import dataclasses
import math
import os
import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table

import slgh
from slgh.cli.common import (
    STDOUT,
    Debug,
    JsonFile,
    Quiet,
    Unwritten,
    console,
    fail,
    printable,
    refuse_unwritable,
    shorten,
    write_json,
)
from slgh.cli.drawing import SUFFIXES, needs
from slgh.cli.errors import in_options
from slgh.cli.objective import Source, read_objective
from slgh.cli.options import OUTPUT, X0, BoundsText, D, Formula, Fun, Seed, VectorizedFun, count
from slgh.cli.start import read_bounds, read_numbers
from slgh.files import atomic_write

EXPLANATION = (
    "* t1. 5.2(1) is 5.2 +- 0.1. SNR: |grad F|^2 against the variance of one pair's estimate, 1/(d + 1) for a linear "
    "f; reached: the lowest f that a rehearsal from t found; score: the drop of f that a run from t promises."
)


def probe(
    formula: Formula = None,
    x0: X0 = None,
    d: D = None,
    fun: Fun = None,
    vectorized: VectorizedFun = False,
    bounds: BoundsText = None,
    radii: Annotated[
        str | None, typer.Option(metavar="NUMBERS", help="The radii to try, ascending, commas between.")
    ] = None,
    samples: Annotated[int, count("--samples", "M", "Pairs of points at each radius.")] = 12,
    steps: Annotated[int, count("--steps", "N", "Steps of the rehearsal from each radius.")] = 24,
    seed: Seed = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw it: .png, .svg or .pdf.", rich_help_panel=OUTPUT)
    ] = None,
    json_file: JsonFile = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Look beforehand, for some thousand evaluations: does homotopy help, and from which t1?

    slgh probe 'sum(x\\[i]**2 - 10*cos(6*x\\[i]) for i in range(d))' --x0 3.3 --d 9

    With --quiet one line is printed: the t1 to start from (nan where no radius
    helped), and true or false, whether homotopy promises more than descent.
    """
    refuse_unwritable(json_file)
    if plot is not None:
        if plot.suffix.lower() not in SUFFIXES[:-1]:
            fail(f"--plot must end in .png, .svg or .pdf, got {str(plot)!r}.")
        refuse_unwritable(plot, "--plot")
        needs("matplotlib")
    source = Source(formula=formula, fun=fun, vectorized=vectorized, x0=x0, d=d, bounds=bounds, folder=os.getcwd())
    quietly = redirect_stdout(sys.stderr) if quiet or json_file == STDOUT else nullcontext()
    with quietly:
        objective = read_objective(source)
    function: Any = objective.values or objective.closed
    with quietly, objective.unwarned():
        found = slgh.probe(
            function,
            objective.x0,
            t=None if radii is None else read_numbers(radii, "--radii"),
            samples=samples,
            steps=steps,
            bounds=read_bounds(bounds, objective.x0, objective.variables),
            vectorized=objective.vectorized,
            seed=seed,
        )
    if quiet and json_file != STDOUT:
        print(repr(found.t1), str(found.helps).lower())
    elif json_file != STDOUT:
        console.print(printable(f"{shorten(objective.title, 300)}  ({objective.about})"), markup=False)
        console.print(table(found))
        console.print(in_options(found.message), markup=False)
        console.print(EXPLANATION, style="dim")
        console.print(f"{found.nfev:,} evaluations, seed {found.seed}.", style="dim")
    write_json(
        json_file, {"slgh": slgh.__version__, "command": "probe", "objective": objective.title, **_entries(found)}
    )
    if plot is not None:
        draw(found, plot)
        if not (quiet or json_file == STDOUT):
            console.print(f"Drawn: {plot}", markup=False, soft_wrap=True)


def _entries(found: slgh.Probe) -> dict[str, Any]:
    return {field.name: getattr(found, field.name) for field in dataclasses.fields(found)}


def table(found: slgh.Probe) -> Table:
    """What was found at each radius, the recommended one with a star; never wider than 80 columns."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for heading in ("t", "F(x0, t)", "|grad F|", "SNR", "curvature", "reached", "score"):
        table.add_column(heading, no_wrap=True)
    for i, t in enumerate(found.t):
        value, norm, snr = (f"{column[i]:.3g}" for column in (found.value, found.gradient_norm, found.snr))
        bend = with_error(found.curvature[i], found.curvature_se[i])
        star = " *" if t == found.t1 else ""
        table.add_row(f"{t:.3g}{star}", value, norm, snr, bend, f"{found.reached[i]:.3g}", f"{found.score[i]:.3g}")
    return table


def with_error(value: float, error: float) -> str:
    """A number with the error of its last digit in parentheses; without one that is far smaller, or not known.

    >>> with_error(10.714, 0.023), with_error(-2.17e-5, 1.2e-5), with_error(0.1234, 3.0), with_error(1 / 3, 1e-9)
    ('10.71(2)', '-2(1)e-05', '0(3)', '0.3333')
    """
    if not (math.isfinite(value) and math.isfinite(error) and error > 0):
        return f"{value:.4g}"
    place = math.floor(math.log10(float(f"{error:.0e}")))
    size = max(place, math.floor(math.log10(abs(value)))) if value else place
    power = size if size < -3 or size > 3 or place > 0 else 0
    digits = power - place
    if digits > 3:
        return f"{value:.4g}"
    return f"{value / 10.0**power:.{digits}f}({round(error / 10.0**place)})" + (f"e{power:+03d}" if power else "")


def draw(found: slgh.Probe, file: Path) -> None:
    """Draw the table."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure: Any = found.plot().figure
    plt.close(figure)
    try:
        with atomic_write(file) as stream:
            figure.savefig(stream, format=file.suffix[1:].lower(), dpi=200)
    except OSError as error:
        raise Unwritten(f"--plot: {file} cannot be written: {error.strerror}.") from error
