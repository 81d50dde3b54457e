"""What slgh costs on top of the function: time an iteration and an evaluation, batches, memory.

Run `python benchmarks/overhead.py`, with `--quick` for a rough look. Every figure is measured in that run.
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
    raise SystemExit(f'{missing.name} is missing: pip install -c constraints.txt -e ".[bench]"') from None

M = 10
POINTS = M + 1
"""Points an iteration, of ours and of every peer."""
OURS: dict[str, Any] = {"method": "zoslgh_r", "t1": 1.0, "gamma": 0.999, "step": 1e-5, "samples": M}
SCALE_FREE: dict[str, Any] = {"method": "scale_free", "t1": 1.0, "fall": 1e-3, "samples": M}
"""What "auto" runs on a rugged function: pairs, and widths that are learned."""
VERSIONS = {
    "Python": platform.python_version(),
    **{name: version(name) for name in ("slgh", "numpy", "scipy", "cma", "nevergrad")},
}

Array = NDArray[Any]
Advance = Callable[["Timed", int], object]
"""Takes an optimizer a number of iterations further on a function."""


class Row(NamedTuple):
    """A line of the table. The target speaks of the ratio, or of ours where there is no peer."""

    section: str
    measure: str
    ours: float
    peer: float | None
    unit: str
    ratio: float | None
    target: str
    met: bool
    note: str = ""


def rastrigin(x: Array) -> Any:
    """A typical test function, of points (..., d)."""
    return 10 * x.shape[-1] + np.sum(x * x - 10 * np.cos(2 * np.pi * x), axis=-1)


def sphere(x: Array) -> Any:
    """The cheapest function that looks at its points, and needs no memory."""
    return np.vecdot(x, x)


def start(d: int) -> Array:
    """A start in Rastrigin's usual box."""
    return np.random.default_rng(1).uniform(-5, 5, d)


def seconds(call: Callable[[], object]) -> float:
    """The time of one call."""
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


# 1. An iteration against its noise and its function


def run_ours(
    fun: Callable[..., Any], d: int, n: int, *, vectorized: bool = True, options: dict[str, Any] = OURS
) -> None:
    """n iterations of ours, and its set-up."""
    slgh.minimize(fun, start(d), vectorized=vectorized, seed=0, max_iter=n, **options)


def run_bare(fun: Callable[..., Any], d: int, n: int, *, points: int = POINTS) -> None:
    """What n iterations cannot do without: noise (M, d) and fun at so many points, (points, d)."""
    rng = np.random.default_rng(0)
    noise = np.empty((M, d))
    # Few points met again and again would be cheaper than a run's: the processor learns the branches in cos.
    sets = [start(d) + rng.standard_normal((points, d)) for _ in range(max(1, 8_000 // d))]
    for chosen in islice(cycle(sets), n):
        rng.standard_normal(out=noise)
        fun(chosen)


def iteration_rows(*, quick: bool) -> Iterator[Row]:
    """Time of an iteration over its unavoidable part, in interleaved runs."""
    repeats = 5 if quick else 21
    methods = (OURS, POINTS), (SCALE_FREE, 2 * M)
    sizes = (1_000, 500, 1.5), (100_000, 40, 1.25)
    for (options, points), fun, (d, n, limit) in product(methods, (rastrigin, sphere), sizes):
        runs = partial(run_bare, fun, d, n, points=points), partial(run_ours, fun, d, n, options=options)
        pairs = [tuple(seconds(run) for run in runs) for _ in range(repeats)]
        bare, ours = (min(side) / n * 1e6 for side in zip(*pairs, strict=True))
        ratio, of_minima = statistics.median(b / a for a, b in pairs), ours / bare
        section = f"1. an iteration of {options['method']} / noise ({M}, d) and fun at ({points}, d)"
        measure = f"{fun.__name__}, d = {d:,}"
        met = max(ratio, of_minima) <= limit
        note = f"median of {repeats} pairs; of minima {of_minima:.3g}"
        yield Row(section, measure, ours, bare, "µs", ratio, f"<= {limit}", met, note)


# 2. An evaluation beside peers


class Timed:
    """Rastrigin, counting its points and its time."""

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
    """pycma by ask and tell."""
    options = {"popsize": POINTS, "CMA_diagonal": diagonal, "verbose": -9, "seed": 1}
    strategy = cma.CMAEvolutionStrategy(start(d), 1.0, options)

    def advance(f: Timed, n: int) -> None:
        for _ in range(n):
            points = strategy.ask()
            strategy.tell(points, f(points) if vectorized else [f(x) for x in points])

    return advance


def nevergrad_family(family: Any, d: int, *, vectorized: bool) -> Advance:
    """An optimizer of nevergrad by ask and tell, POINTS at a time."""
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
    settings: dict[str, Any] = {"init": population, "updating": "deferred", "local_search": False, "tol": 0}

    def advance(f: Timed, n: int) -> None:
        fun = (lambda x: f(x.T)) if vectorized else f
        box = scipy.optimize.Bounds(np.full(d, -5.0), np.full(d, 5.0))
        scipy.optimize.differential_evolution(fun, box, maxiter=n, vectorized=vectorized, rng=0, **settings)

    return advance


def scipy_lbfgsb(d: int) -> Advance:
    """SciPy's L-BFGS-B by finite differences, d + 1 points a gradient, started again once converged."""
    rng = np.random.default_rng(3)

    def advance(f: Timed, n: int) -> None:
        while f.points < n * POINTS:
            scipy.optimize.minimize(f, rng.uniform(-5, 5, d), method="L-BFGS-B")

    return advance


def contest(d: int, *, vectorized: bool) -> dict[str, Advance]:
    """Ours, and the peers that can be asked for POINTS an iteration in d variables."""
    one_plus_one = nevergrad.families.ParametrizedOnePlusOne()
    de = nevergrad.families.DifferentialEvolution(popsize=POINTS)
    found: dict[str, Advance] = {
        "ours": lambda f, n: run_ours(f, d, n, vectorized=vectorized),
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
    """Microseconds an evaluation in n iterations: the optimizer's own, and with the function."""
    f = Timed()
    total = seconds(lambda: advance(f, n))
    return (total - f.seconds) / f.points * 1e6, total / f.points * 1e6


def enough(advance: Advance, at_least: float) -> int:
    """A number of iterations that takes `at_least` seconds."""
    n = 4
    while seconds(partial(advance, Timed(), n)) < at_least and n < 1 << 16:
        n *= 2
    return n


def evaluation_rows(*, quick: bool) -> Iterator[Row]:
    """Time of an evaluation beside peers on Rastrigin: interleaved runs, the median of each."""
    repeats, at_least = (1, 0.1) if quick else (5, 0.5)
    for d, vectorized in product((10, 1_000), (True, False)):
        contestants = contest(d, vectorized=vectorized)
        sizes = {name: enough(advance, at_least) for name, advance in contestants.items()}
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in contestants}
        for _, name in product(range(repeats), contestants):
            times[name].append(per_evaluation(contestants[name], sizes[name]))
        medians = {name: tuple(map(statistics.median, zip(*t, strict=True))) for name, t in times.items()}
        mine = medians.pop("ours")
        section = f"2. an evaluation, d = {d:,}, {'vectorized' if vectorized else 'point by point'}"
        for (name, theirs), (i, what) in product(medians.items(), enumerate(("own", "total"))):
            ratio = mine[i] / theirs[i]
            yield Row(section, f"{what} time: {name}", mine[i], theirs[i], "µs", ratio, "< 1", ratio < 1)


# 3. A batch against single runs


def batch_rows(*, quick: bool) -> Iterator[Row]:
    """1,000 problems at once against one after the other: 200 iterations each, the same noise."""
    B, d, n = 1_000, 10, 200
    singles = 50 if quick else B
    x0 = np.random.default_rng(4).uniform(-5, 5, (B, d))
    run = partial(slgh.minimize, vectorized=True, max_iter=n, **OURS)
    for fun in (rastrigin, sphere):
        batch = partial(run, fun, x0, batched=True, seed=list(range(B)))
        together = statistics.median(seconds(batch) for _ in range(3))
        alone = sum(seconds(partial(run, fun, x0[b], seed=b)) for b in range(singles)) * B / singles
        section = f"3. {B:,} problems, d = {d}, {n} iterations: single runs / one batch"
        note = f"{singles} single runs, times {B // singles}" if singles < B else ""
        ratio = alone / together
        yield Row(section, fun.__name__, together, alone, "s", ratio, ">= 50", ratio >= 50, note)


# 4. Memory


def peak_memory() -> float:
    """The most memory this process has held, in GiB. (Its ru_maxrss would include the parent's peak.)"""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 2**20


def probe_memory(d: int, samples: int, rows: int) -> tuple[float, float, int]:
    """Peaks with x0 and fun at `rows` points, and after two iterations; the most points fun was given."""
    x0 = np.ones(d, np.float32)
    most = 0

    def fun(x: Array) -> Any:
        nonlocal most
        most = max(most, len(x))
        return sphere(x)

    sphere(np.broadcast_to(x0, (rows, d)))
    before = peak_memory()
    slgh.minimize(fun, x0, vectorized=True, seed=0, max_iter=2, **{**OURS, "samples": samples})
    return before, peak_memory(), most


def memory_rows(*, quick: bool) -> Iterator[Row]:
    """Peak memory of a run above x0 and the function's own; the points handed to the function are ours."""
    if quick or not Path("/proc/self/status").exists():
        print("Peak memory is measured on Linux, and not with --quick.")
        return
    d, samples = 10**7, 20
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as fresh:
        _, _, rows = fresh.submit(probe_memory, d, samples, 1).result()
        before, after, _ = fresh.submit(probe_memory, d, samples, rows).result()
    section, measure = "4. peak memory above x0, float32", f"sphere, d = {d:,}, M = {samples}"
    note = f"{before:.2f} before, {after:.2f} after; fun at ({rows}, d) at most"
    yield Row(section, measure, after - before, None, "GiB", None, "< 1 GiB", after - before < 1, note)


# 5. Import


def import_time(module: str) -> float:
    """Seconds that a fresh interpreter takes to import a module, its own start included."""
    return seconds(lambda: subprocess.run([sys.executable, "-c", f"import {module}"], check=True))


def import_rows(*, quick: bool) -> Iterator[Row]:
    """What `import slgh` costs beside `import scipy.optimize`, the interpreter's own start taken off."""
    repeats = 3 if quick else 11
    times = [[import_time(module) for module in ("sys", "slgh", "scipy.optimize")] for _ in range(repeats)]
    ratio = statistics.median((ours - bare) / (peer - bare) for bare, ours, peer in times)
    bare, ours, peer = (statistics.median(column) for column in zip(*times, strict=True))
    note = f"median of {repeats}"
    yield Row("5. import", "scipy.optimize", ours - bare, peer - bare, "s", ratio, "< 2", ratio < 2, note)


def caption(took: float) -> str:
    """What ran, where, and how long it took."""
    ran = ", ".join(f"{name} {number}" for name, number in VERSIONS.items())
    return f"{ran}; {os.cpu_count()} cores; {took:.0f} s"


def markdown(rows: list[Row], took: float) -> str:
    """The rows as a page."""
    command = "python benchmarks/overhead.py --markdown benchmarks/overhead.md"
    lines = [f"# Overhead\n\nWritten by `{command}`. The ratios count: absolute\ntimes depend on the machine."]
    lines += [f"{caption(took)}.\n"]
    lines += ["| measure | ours | peer | ratio | target | | note |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        peer, ratio = ("" if value is None else f"{value:.3g}" for value in (row.peer, row.ratio))
        figures = f"{row.ours:.3g} {row.unit} | {peer} | {ratio} | {row.target} | {'met' if row.met else '**missed**'}"
        lines.append(f"| {row.section}: {row.measure} | {figures} | {row.note} |")
    return "\n".join(lines) + "\n"


def table(rows: list[Row], took: float) -> Table:
    """The rows as printed."""
    shown = Table(title="slgh beside its peers", caption=caption(took))
    for name in ("measure", "ours", "peer", "ratio", "target", "", "note"):
        shown.add_column(name, justify="right" if name in ("ours", "peer", "ratio", "target") else "left")
    section = ""
    for row in rows:
        if row.section != section:
            section = row.section
            shown.add_section()
            shown.add_row(f"[bold]{section}[/bold]")
        peer, ratio = ("-" if value is None else f"{value:.3g}" for value in (row.peer, row.ratio))
        verdict = "[green]met[/green]" if row.met else "[red]missed[/red]"
        ours = f"{row.ours:.3g} {row.unit}"
        shown.add_row(row.measure, ours, peer, ratio, row.target, verdict, row.note)
    return shown


def main(
    quick: Annotated[bool, typer.Option("--quick", help="Fewer repeats and single runs; no memory.")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here too.")] = None,
    page: Annotated[Path | None, typer.Option("--markdown", help="Write the table here too.")] = None,
) -> None:
    """Measure, print the table, and say which targets were met."""
    console, rows, begin = Console(), [], time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for part in (iteration_rows, evaluation_rows, batch_rows, memory_rows, import_rows):
            with console.status(part.__doc__ or ""):
                rows += list(part(quick=quick))
    took = time.perf_counter() - begin
    console.print(table(rows, took))
    if page is not None:
        page.write_text(markdown(rows, took))
    if json_file is not None:
        figures = {"versions": VERSIONS, "rows": [row._asdict() for row in rows]}
        json_file.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    typer.run(main)
