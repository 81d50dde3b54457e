"""Measure the overhead of slgh: time per iteration and per evaluation, batches, memory and import.

Run `python benchmarks/overhead.py`, or with `--quick` for rough figures. Every figure is measured in that run.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib.metadata import version
from itertools import cycle, islice, product
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import scipy.optimize
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import slgh

try:
    import cma
    import nevergrad
except ImportError as missing:
    raise SystemExit(f'{missing.name} is missing. Run pip install -c constraints.txt -e ".[bench]"') from None

M = 10
POINTS = M + 1
"""Points per iteration, of slgh and of every peer."""
ZOSLGH_R: dict[str, Any] = {"method": "zoslgh_r", "t1": 1.0, "gamma": 0.999, "step": 1e-5, "samples": M}
SCALE_FREE: dict[str, Any] = {"method": "scale_free", "t1": 1.0, "fall": 1e-3, "samples": M}
"""Settings of "auto" on a rugged function: antithetic pairs and learned widths."""
VERSIONS = {
    "Python": platform.python_version(),
    **{name: version(name) for name in ("slgh", "numpy", "scipy", "cma", "nevergrad")},
}

Array = NDArray[Any]
Advance = Callable[["Timed", int], object]
"""Run an optimizer for a number of iterations on a function."""


class Row(NamedTuple):
    """A line of the table. The target is for the ratio, or for the figure of slgh if there is no peer."""

    section: str
    measure: str
    slgh: float
    peer: float | None
    unit: str
    ratio: float | None
    target: str
    met: bool
    note: str = ""


def rastrigin(x: Array) -> Any:
    """Rastrigin's function of points (..., d), a typical test function."""
    return 10 * x.shape[-1] + np.sum(x * x - 10 * np.cos(2 * np.pi * x), axis=-1)


def sphere(x: Array) -> Any:
    """Cheapest function that reads its points. It needs no memory."""
    return np.vecdot(x, x)


def start(d: int) -> Array:
    """Return a start in Rastrigin's usual box."""
    return np.random.default_rng(1).uniform(-5, 5, d)


def seconds(call: Callable[[], object]) -> float:
    """Return the time of one call."""
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


# 1. An iteration compared with its noise and its function


def run_slgh(
    fun: Callable[..., Any], d: int, n: int, *, vectorized: bool = True, options: dict[str, Any] = ZOSLGH_R
) -> None:
    """Run n iterations of slgh, with its set-up."""
    slgh.minimize(fun, start(d), vectorized=vectorized, seed=0, max_iter=n, **options)


def run_bare(fun: Callable[..., Any], d: int, n: int, *, points: int = POINTS) -> None:
    """Do only what n iterations need: noise (M, d), and fun at (points, d)."""
    rng = np.random.default_rng(0)
    noise = np.empty((M, d))
    # New points each time: on a few repeated points, the processor would learn the branches in cos.
    sets = [start(d) + rng.standard_normal((points, d)) for _ in range(max(1, 8_000 // d))]
    for chosen in islice(cycle(sets), n):
        rng.standard_normal(out=noise)
        fun(chosen)


def iteration_rows(*, quick: bool) -> Iterator[Row]:
    """Compare the time of an iteration with its unavoidable part, in interleaved runs."""
    repeats = 5 if quick else 21
    methods = (ZOSLGH_R, POINTS), (SCALE_FREE, 2 * M)
    sizes = (1_000, 500, 1.5), (100_000, 40, 1.25)
    for (options, points), fun, (d, n, limit) in product(methods, (rastrigin, sphere), sizes):
        runs = partial(run_bare, fun, d, n, points=points), partial(run_slgh, fun, d, n, options=options)
        pairs = [tuple(seconds(run) for run in runs) for _ in range(repeats)]
        bare, own = (min(side) / n * 1e6 for side in zip(*pairs, strict=True))
        ratio, of_minima = statistics.median(b / a for a, b in pairs), own / bare
        section = f"1. iteration of {options['method']} / noise ({M}, d) and fun at ({points}, d)"
        measure = f"{fun.__name__}, d = {d:,}"
        met = max(ratio, of_minima) <= limit
        note = f"median of {repeats} pairs; ratio of the minima {of_minima:.3g}"
        yield Row(section, measure, own, bare, "µs", ratio, f"<= {limit}", met, note)


# 2. An evaluation compared with peers


class Timed:
    """Rastrigin's function. It counts its points and its time."""

    def __init__(self) -> None:
        self.points = 0
        self.seconds = 0.0

    def __call__(self, x: Any) -> Any:
        begin = time.perf_counter()
        values = rastrigin(np.asarray(x))
        self.points += values.size
        self.seconds += time.perf_counter() - begin
        return values


def pycma(d: int, *, vectorized: bool, diagonal: bool = False) -> Advance:
    """pycma with ask and tell."""
    options = {"popsize": POINTS, "CMA_diagonal": diagonal, "verbose": -9, "seed": 1}
    strategy = cma.CMAEvolutionStrategy(start(d), 1.0, options)

    def advance(f: Timed, n: int) -> None:
        for _ in range(n):
            points = strategy.ask()
            strategy.tell(points, f(points) if vectorized else [f(x) for x in points])

    return advance


def nevergrad_family(family: Any, d: int, *, vectorized: bool) -> Advance:
    """An optimizer of nevergrad with ask and tell, POINTS at a time."""
    space = nevergrad.p.Array(init=start(d))
    optimizer = family(space, budget=10**9, num_workers=POINTS)

    def advance(f: Timed, n: int) -> None:
        for _ in range(n):
            asked = [optimizer.ask() for _ in range(POINTS)]
            points = [candidate.value for candidate in asked]
            values = f(points) if vectorized else [f(x) for x in points]
            for candidate, value in zip(asked, values, strict=True):
                optimizer.tell(candidate, float(value))

    return advance


def scipy_de(d: int, *, vectorized: bool) -> Advance:
    """SciPy's differential evolution with a population of POINTS."""
    population = np.random.default_rng(2).uniform(-5, 5, (POINTS, d))
    settings: dict[str, Any] = {"init": population, "updating": "deferred", "polish": False, "tol": 0}

    def advance(f: Timed, n: int) -> None:
        fun = (lambda x: f(x.T)) if vectorized else f
        box = scipy.optimize.Bounds(np.full(d, -5.0), np.full(d, 5.0))
        scipy.optimize.differential_evolution(fun, box, maxiter=n, vectorized=vectorized, rng=0, **settings)

    return advance


def scipy_lbfgsb(d: int) -> Advance:
    """SciPy's L-BFGS-B with finite differences, d + 1 points per gradient, restarted when it has converged."""
    rng = np.random.default_rng(3)

    def advance(f: Timed, n: int) -> None:
        while f.points < n * POINTS:
            scipy.optimize.minimize(f, rng.uniform(-5, 5, d), method="L-BFGS-B")

    return advance


def contest(d: int, *, vectorized: bool) -> dict[str, Advance]:
    """Return slgh and the peers that support POINTS points per iteration in d variables."""
    one_plus_one = nevergrad.families.ParametrizedOnePlusOne()
    de = nevergrad.families.DifferentialEvolution(popsize=POINTS)
    found: dict[str, Advance] = {
        "slgh": lambda f, n: run_slgh(f, d, n, vectorized=vectorized),
        "pycma": pycma(d, vectorized=vectorized),
        "nevergrad OnePlusOne": nevergrad_family(one_plus_one, d, vectorized=vectorized),
        "nevergrad DE": nevergrad_family(de, d, vectorized=vectorized),
        "SciPy DE": scipy_de(d, vectorized=vectorized),
    }
    if d > 100:
        found["pycma, diagonal"] = pycma(d, vectorized=vectorized, diagonal=True)
    if d + 1 == POINTS and not vectorized:
        found["SciPy L-BFGS-B"] = scipy_lbfgsb(d)
    return found


def per_evaluation(advance: Advance, n: int) -> tuple[float, float]:
    """Return the microseconds per evaluation in n iterations: of the optimizer alone, and with the function."""
    f = Timed()
    total = seconds(lambda: advance(f, n))
    return (total - f.seconds) / f.points * 1e6, total / f.points * 1e6


def iterations_for(advance: Advance, at_least: float) -> int:
    """Return a number of iterations that takes `at_least` seconds."""
    n = 4
    while seconds(partial(advance, Timed(), n)) < at_least and n < 1 << 16:
        n *= 2
    return n


def evaluation_rows(*, quick: bool) -> Iterator[Row]:
    """Compare the time per evaluation with peers on Rastrigin: interleaved runs, the median of each."""
    repeats, at_least = (1, 0.1) if quick else (5, 0.5)
    for d, vectorized in product((10, 1_000), (True, False)):
        contestants = contest(d, vectorized=vectorized)
        sizes = {name: iterations_for(advance, at_least) for name, advance in contestants.items()}
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in contestants}
        for _, name in product(range(repeats), contestants):
            times[name].append(per_evaluation(contestants[name], sizes[name]))
        medians = {name: tuple(map(statistics.median, zip(*t, strict=True))) for name, t in times.items()}
        own = medians.pop("slgh")
        section = f"2. evaluation, d = {d:,}, {'vectorized' if vectorized else 'one point at a time'}"
        for (name, peer), (i, what) in product(medians.items(), enumerate(("own", "total"))):
            ratio = own[i] / peer[i]
            yield Row(section, f"{what} time: {name}", own[i], peer[i], "µs", ratio, "< 1", ratio < 1)


# 3. A batch compared with single runs


def batch_rows(*, quick: bool) -> Iterator[Row]:
    """Compare 1,000 problems in one batch with single runs: 200 iterations each, the same noise."""
    B, d, n = 1_000, 10, 200
    singles = 50 if quick else B
    x0 = np.random.default_rng(4).uniform(-5, 5, (B, d))
    run = partial(slgh.minimize, vectorized=True, max_iter=n, **ZOSLGH_R)
    for fun in (rastrigin, sphere):
        batch = partial(run, fun, x0, batched=True, seed=list(range(B)))
        together = statistics.median(seconds(batch) for _ in range(3))
        alone = sum(seconds(partial(run, fun, x0[b], seed=b)) for b in range(singles)) * B / singles
        section = f"3. {B:,} problems, d = {d}, {n} iterations: single runs / one batch"
        note = f"{singles} single runs, scaled by {B // singles}" if singles < B else ""
        ratio = alone / together
        yield Row(section, fun.__name__, together, alone, "s", ratio, ">= 50", ratio >= 50, note)


# 4. Memory


def peak_memory() -> float:
    """Return the peak memory of this process in GiB. (ru_maxrss would include the peak of the parent.)"""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 2**20


def probe_memory(d: int, samples: int, rows: int) -> tuple[float, float, int]:
    """Return the peaks with x0 and fun at `rows` points, and after two iterations, and the largest number of points."""
    x0 = np.ones(d, np.float32)
    most = 0

    def fun(x: Array) -> Any:
        nonlocal most
        most = max(most, len(x))
        return sphere(x)

    sphere(np.broadcast_to(x0, (rows, d)))
    before = peak_memory()
    slgh.minimize(fun, x0, vectorized=True, seed=0, max_iter=2, **{**ZOSLGH_R, "samples": samples})
    return before, peak_memory(), most


def memory_rows(*, quick: bool) -> Iterator[Row]:
    """Measure the peak memory of a run beyond x0 and the function. Points passed to the function count for slgh."""
    if quick or not Path("/proc/self/status").exists():
        print("Peak memory is measured on Linux only, and not with --quick.")
        return
    d, samples = 10**7, 20
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as fresh:
        _, _, rows = fresh.submit(probe_memory, d, samples, 1).result()
        before, after, _ = fresh.submit(probe_memory, d, samples, rows).result()
    section, measure = "4. peak memory beyond x0, float32", f"sphere, d = {d:,}, M = {samples}"
    note = f"{before:.2f} before, {after:.2f} after; fun at most at ({rows}, d)"
    yield Row(section, measure, after - before, None, "GiB", None, "< 1 GiB", after - before < 1, note)


# 5. Import


def import_time(module: str) -> float:
    """Return the seconds that a new interpreter takes to import a module, including its own start."""
    return seconds(lambda: subprocess.run([sys.executable, "-c", f"import {module}"], check=True))


def import_rows(*, quick: bool) -> Iterator[Row]:
    """Compare `import slgh` with `import scipy.optimize`, without the start of the interpreter."""
    repeats = 3 if quick else 11
    times = [[import_time(module) for module in ("sys", "slgh", "scipy.optimize")] for _ in range(repeats)]
    ratio = statistics.median((own - bare) / (peer - bare) for bare, own, peer in times)
    bare, own, peer = (statistics.median(column) for column in zip(*times, strict=True))
    note = f"median of {repeats}"
    yield Row("5. import", "scipy.optimize", own - bare, peer - bare, "s", ratio, "< 2", ratio < 2, note)


def caption(took: float) -> str:
    """Return the versions, the number of cores, and the duration."""
    ran = ", ".join(f"{name} {number}" for name, number in VERSIONS.items())
    return f"{ran}; {os.cpu_count()} cores; {took:.0f} s"


def markdown(rows: list[Row], took: float) -> str:
    """Format the rows as a page."""
    command = "python benchmarks/overhead.py --markdown benchmarks/overhead.md"
    lines = [f"# Overhead\n\nCommand: `{command}`. Compare the ratios: absolute\ntimes depend on the machine."]
    lines += [f"{caption(took)}.\n"]
    lines += ["| measure | slgh | peer | ratio | target | | note |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        peer, ratio = ("" if value is None else f"{value:.3g}" for value in (row.peer, row.ratio))
        figures = f"{row.slgh:.3g} {row.unit} | {peer} | {ratio} | {row.target} | {'met' if row.met else '**missed**'}"
        lines.append(f"| {row.section}: {row.measure} | {figures} | {row.note} |")
    return "\n".join(lines) + "\n"


def tables(rows: list[Row]) -> list[Table]:
    """Format the rows as tables of at most 80 columns, one per section."""
    found: dict[str, Table] = {}
    for row in rows:
        if row.section not in found:
            found[row.section] = Table(title=row.section)
            for name in ("measure", "slgh", "peer", "ratio", "target", ""):
                found[row.section].add_column(name, justify="left" if name in ("measure", "") else "right")
        peer, ratio = ("-" if value is None else f"{value:.3g}" for value in (row.peer, row.ratio))
        verdict = "[green]met[/green]" if row.met else "[red]missed[/red]"
        found[row.section].add_row(row.measure, f"{row.slgh:.3g} {row.unit}", peer, ratio, row.target, verdict)
    return list(found.values())


def main(
    quick: Annotated[bool, typer.Option("--quick", help="Fewer repeats and single runs, no memory.")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.")] = None,
    page: Annotated[Path | None, typer.Option("--markdown", help="Write the page to this file.")] = None,
) -> None:
    """Measure, and print the tables with the targets."""
    console, rows, begin = Console(), [], time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for part in (iteration_rows, evaluation_rows, batch_rows, memory_rows, import_rows):
            with console.status(part.__doc__ or ""):
                rows += list(part(quick=quick))
    took = time.perf_counter() - begin
    console.print(*tables(rows), caption(took), sep="\n")
    if page is not None:
        page.write_text(markdown(rows, took))
    if json_file is not None:
        figures = {"versions": VERSIONS, "rows": [row._asdict() for row in rows]}
        json_file.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    typer.run(main)
