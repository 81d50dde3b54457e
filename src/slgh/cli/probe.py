"""The command `probe`."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table

import slgh
from slgh.cli.common import STDOUT, Debug, JsonFile, Quiet, console, fail, refuse_unwritable, shorten, write_json
from slgh.cli.drawing import SUFFIXES, needs
from slgh.cli.objective import Source, read_objective
from slgh.cli.options import OUTPUT, X0, BoundsText, D, Formula, Fun, Seed, VectorizedFun
from slgh.cli.start import read_bounds, read_numbers


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
    samples: Annotated[int, typer.Option(metavar="M", help="Pairs of points at each radius.")] = 12,
    steps: Annotated[int, typer.Option(metavar="N", help="Steps of the rehearsal from each radius.")] = 24,
    seed: Seed = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw it: .png, .svg or .pdf.", rich_help_panel=OUTPUT)
    ] = None,
    json_file: JsonFile = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Look beforehand, for some thousand evaluations: does homotopy help, and from which t1?

    slgh probe 'sum(x[i]**2 - 10*cos(2*pi*x[i]) for i in range(d))' --x0 3.3 --d 10

    With --quiet one line is printed: the t1 to start from (nan where no radius helped), and true or false, whether
    homotopy promises more than descent.
    """
    refuse_unwritable(json_file)
    if plot is not None:
        if plot.suffix.lower() not in SUFFIXES[:-1]:
            fail(f"--plot must end in .png, .svg or .pdf, got {str(plot)!r}.")
        refuse_unwritable(plot, "--plot")
        needs("matplotlib")
    source = Source(formula=formula, fun=fun, vectorized=vectorized, x0=x0, d=d, bounds=bounds, folder=os.getcwd())
    objective = read_objective(source)
    function: Any = objective.values or objective.closed
    with objective.unwarned():
        found = slgh.probe(
            function,
            objective.x0,
            t=None if radii is None else read_numbers(radii, "--radii"),
            samples=samples,
            steps=steps,
            bounds=read_bounds(bounds, objective.d),
            vectorized=objective.vectorized,
            seed=seed,
        )
    if quiet and json_file != STDOUT:
        print(repr(found.t1), str(found.helps).lower())
    elif json_file != STDOUT:
        console.print(f"{shorten(objective.title, 300)}  ({objective.about})", markup=False)
        console.print(table(found))
        console.print(found.message, markup=False)
        console.print(f"* t1.  {found.nfev:,} evaluations, seed {found.seed}.", style="dim")
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
    """What was found at each radius, the recommended one with a star."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("t", "", "F(x0, t)", "|grad F|", "SNR", "curvature", "reached", "score"):
        table.add_column(heading, no_wrap=True)
    columns = (found.value, found.gradient_norm, found.snr, found.curvature, found.reached, found.score)
    for i, t in enumerate(found.t):
        value, norm, snr, curvature, reached, score = (f"{column[i]:.3g}" for column in columns)
        bend = f"{curvature} +-{found.curvature_se[i]:.1g}"
        table.add_row(f"{t:.3g}", "*" if t == found.t1 else "", value, norm, snr, bend, reached, score)
    return table


def draw(found: slgh.Probe, file: Path) -> None:
    """Draw the table."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure: Any = found.plot().figure
    figure.savefig(file, dpi=200)
    plt.close(figure)
