"""Compare the compiled JAX loop on the CPU with slgh on NumPy, and with evosax's OpenES, jitted, at equal population.

Run `python benchmarks/jax_loop.py`. Every figure is measured in that run, and the two sides alternate.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import typer
from rich.console import Console
from rich.table import Table

import slgh

try:
    import evosax.algorithms
except ImportError as missing:
    raise SystemExit(f'{missing.name} is missing. Run pip install -c constraints.txt -e ".[bench]"') from None

jax.config.update("jax_enable_x64", True)

REPEATS = 9


class Row(NamedTuple):
    """A line of the table: microseconds per iteration of slgh on JAX and of the other side."""

    measure: str
    slgh_on_jax: float
    other: float
    target: str

    @property
    def ratio(self) -> float:
        """Speedup of slgh on JAX."""
        return self.other / self.slgh_on_jax


def sphere(x: Any) -> Any:
    """Return half of the squared norm, a very cheap objective."""
    return 0.5 * (x * x).sum(axis=-1)


def slope(run: Callable[[int], object], low: int, high: int) -> float:
    """Return the microseconds per iteration from runs of two lengths, so that start-up does not count."""
    times = []
    for n in (low, high):
        started = time.perf_counter()
        run(n)
        times.append(time.perf_counter() - started)
    return 1e6 * (times[1] - times[0]) / (high - low)


def compare(
    measure: str, slgh_on_jax: Callable[[int], object], other: Callable[[int], object], lengths: Any, target: str
) -> Row:
    """Return the medians over alternating repeats."""
    for run, (low, high) in zip((slgh_on_jax, other), lengths, strict=True):
        run(low)
        run(high)
    pairs = [(slope(slgh_on_jax, *lengths[0]), slope(other, *lengths[1])) for _ in range(REPEATS)]
    return Row(measure, *(statistics.median(column) for column in zip(*pairs, strict=True)), target)


def minimize(x0: Any, n: int, **options: Any) -> Any:
    """Run n iterations of slgh, and wait for them."""
    given = {"method": "zoslgh_r", "t1": 1.0, "gamma": 0.999, "step": 1e-5, "samples": 10, "seed": 0, **options}
    return slgh.minimize(sphere, x0, vectorized=True, max_iter=n, **given).x


def open_es(d: int, population: int, dtype: Any) -> Callable[[int], object]:
    """Return a function that runs n generations of OpenES in one jitted loop, as in its documentation."""
    start = jnp.ones(d, dtype)
    strategy = evosax.algorithms.Open_ES(population_size=population, solution=start)
    params = strategy.default_params

    @partial(jax.jit, static_argnames="n")
    def generations(key: Any, n: int) -> Any:
        def generation(state: Any, key: Any) -> tuple[Any, None]:
            ask, tell = jax.random.split(key)
            points, state = strategy.ask(ask, state, params)
            state, _ = strategy.tell(tell, points, sphere(points), state, params)
            return state, None

        state = strategy.init(key, start, params)
        return jax.lax.scan(generation, state, jax.random.split(key, n))[0].mean

    return lambda n: generations(jax.random.key(0), n).block_until_ready()


def measure() -> list[Row]:
    """Measure all rows."""
    rows = []
    for dtype in (np.float64, np.float32):
        x = np.ones(10, dtype)
        rows.append(
            compare(
                f"NumPy, d = 10, B = 1, 11 points, {dtype.__name__}",
                partial(minimize, jnp.asarray(x)),
                partial(minimize, x),
                [(2000, 42000), (200, 4200)],
                "10 times faster",
            )
        )
    for d, lengths in ((10, (2000, 42000)), (1000, (500, 5500))):
        slgh_on_jax = partial(minimize, jnp.ones(d, jnp.float32), oracle="antithetic", samples=5)
        other = open_es(d, 10, jnp.float32)
        with jax.enable_x64(False):
            rows.append(compare(f"OpenES, d = {d:,}, 10 points, float32", slgh_on_jax, other, [lengths] * 2, "ahead"))
    return rows


def main(markdown: Annotated[Path | None, typer.Option(help="Write the table to this file.")] = None) -> None:
    """Measure, and print the table."""
    rows = measure()
    table = Table("compared with", "slgh, µs", "other, µs", "speedup")
    for row in rows:
        table.add_row(row.measure, f"{row.slgh_on_jax:.1f}", f"{row.other:.1f}", f"{row.ratio:.1f}")
    Console().print(table)
    if markdown:
        versions = ", ".join(f"{name} {version(name)}" for name in ("slgh", "jax", "numpy", "evosax"))
        lines = [
            f"Command: `python benchmarks/jax_loop.py`. Microseconds per iteration on two cores; {versions}.",
            "",
            "| compared with | slgh on JAX, µs | other, µs | speedup | target |",
            "| --- | --- | --- | --- | --- |",
            *(f"| {r.measure} | {r.slgh_on_jax:.1f} | {r.other:.1f} | {r.ratio:.1f} | {r.target} |" for r in rows),
        ]
        markdown.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    typer.run(main)
