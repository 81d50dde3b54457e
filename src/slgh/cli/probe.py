"""The command `probe`."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

import slgh
from slgh.cli.declaration import Role, values_of
from slgh.cli.errors import printable, shorten
from slgh.cli.options import MinimizeOptions, ProbeOptions, ProblemOptions
from slgh.cli.output import console, read_output, read_plot, write_json, writing
from slgh.cli.parse import read_numbers
from slgh.cli.problem import read_problem
from slgh.cli.wording import in_options
from slgh.files import atomic_write
from slgh.plotting.probe_plot import plot_probe

EXPLANATION = (
    "*: recommended t1. 5.2(1) means 5.2 ± 0.1. SNR: |grad F|² over the variance of one pair's estimate, 1/(d + 1) "
    "for a linear f. reached: lowest f of a trial run from t. score: expected decrease of f in a run from t."
)


def probe(options: ProbeOptions) -> None:
    """Probe the problem, and print, write and draw the result."""
    output = read_output(options)
    plot = read_plot(options)
    given = {field.name: getattr(options, field.name) for field in dataclasses.fields(ProblemOptions)}
    with output.reserved():
        problem = read_problem(MinimizeOptions(**given))
    function: Any = problem.values or problem.closed
    with output.reserved(), problem.unwarned():
        found = slgh.probe(
            function,
            problem.x0,
            t=None if options.radii is None else read_numbers(options.radii, "--radii"),
            bounds=problem.bounds,
            vectorized=problem.vectorized,
            **values_of(options, Role.ARGUMENT),
        )
    if output.prints_line:
        print(repr(found.t1), str(found.helps).lower())
    elif output.prints:
        console.print(printable(f"{shorten(problem.title, 300)}  ({problem.about})"), markup=False)
        console.print(table(found))
        console.print(in_options(found.message), markup=False)
        console.print(EXPLANATION, style="dim")
        console.print(f"{found.nfev:,} evaluations, seed {found.seed}.", style="dim")
    write_json(
        output.json,
        {"slgh": slgh.__version__, "command": "probe", "objective": problem.title, **dataclasses.asdict(found)},
    )
    if plot is not None:
        draw(found, plot)
        if output.prints:
            console.print(f"Drawn: {plot}", markup=False, soft_wrap=True)


def table(found: slgh.Probe) -> Table:
    """Return a table with one row per radius and a star at t1, at most 80 columns wide."""
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
    """Return a number with the error of its last digit in parentheses, unless the error is tiny or unknown.

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
    """Draw the results of the table."""
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained")  # without pyplot, which may need a display
    plot_probe(found, figure.subplots())
    with writing("--plot", file), atomic_write(file) as stream:
        figure.savefig(stream, format=file.suffix[1:].lower(), dpi=200)
