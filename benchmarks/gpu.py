"""Time iterations on one GPU: graphs and eager PyTorch, the limit set by memory traffic, and many problems on NumPy.

Run `python benchmarks/gpu.py` on a machine with a CUDA device. Every figure is measured in that run. `--profile` lists
the kernels of one iteration instead.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
import jax.numpy as jnp
import numpy as np
import torch

import slgh

jax.config.update("jax_enable_x64", True)

SLGH: dict[str, Any] = {"method": "zoslgh_r", "t1": 1.0, "gamma": 0.999, "step": 1e-5, "samples": 10, "seed": 0}


def length(x: Any) -> Any:
    """Cheap objective: one pass over the points, for torch without a temporary array."""
    if isinstance(x, torch.Tensor):
        return torch.linalg.vector_norm(x, dim=-1)
    xp = np if isinstance(x, np.ndarray) else jnp
    return xp.sqrt(xp.vecdot(x, x))


class Row(NamedTuple):
    """A line of the table."""

    measure: str
    slgh_time: str
    reference: str
    ratio: float
    target: str


def seconds_per_iteration(x0: Any, low: int, high: int, repeats: int = 5, **options: Any) -> float:
    """Return the median time per iteration. Runs of two lengths are subtracted, so that start-up does not count."""

    def run(n: int) -> float:
        started = time.perf_counter()
        slgh.minimize(length, x0, vectorized=True, batched=True, max_iter=n, **SLGH, **options)
        torch.cuda.synchronize()
        return time.perf_counter() - started

    run(low)
    return statistics.median((run(high) - run(low)) / (high - low) for _ in range(repeats))


def bandwidth() -> float:
    """Return the bytes per second, read and written, of a large copy on the device."""
    source = torch.randn(1 << 29, device="cuda")
    target = torch.empty_like(source)
    best = 0.0
    for _ in range(5):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        target.copy_(source)
        end.record()
        end.synchronize()
        best = max(best, 2 * source.nbytes / (start.elapsed_time(end) * 1e-3))
    return best


def large_problems(B: int, d: int, history: int | None, rate: float) -> Iterator[Row]:
    """Compare graph replay with eager, and an iteration of PyTorch and of JAX with its memory traffic.

    The traffic is directions and points, each written and read once, at the rate of a copy.
    """
    x0 = torch.ones(B, d, device="cuda")
    graph = seconds_per_iteration(x0, 200, 4200, history=history)
    eager = seconds_per_iteration(x0, 20, 220, history=history, compiled=False)
    traffic = 4 * 10 * x0.nbytes / rate
    size = f"B = {B:,}, d = {d:,}, M = 10, history {'on' if history else 'off'}"
    yield row(f"graph replay against eager, {size}", graph, eager, eager / graph, "5 times faster")
    yield row(f"graph replay against traffic, {size}", graph, traffic, graph / traffic, "within 2 times")
    loop = seconds_per_iteration(jnp.ones((B, d), jnp.float32), 200, 4200, history=history)
    yield row(f"JAX while_loop against traffic, {size}", loop, traffic, loop / traffic, "within 2 times")


def many_problems(B: int, d: int) -> Iterator[Row]:
    """Compare B homotopies at once on the GPU with NumPy, all in float64."""
    x0 = np.ones((B, d))
    host = seconds_per_iteration(x0, 2, 12, repeats=3)
    for name, array in (("graph replay", torch.asarray(x0, device="cuda")), ("JAX while_loop", jnp.asarray(x0))):
        gpu = seconds_per_iteration(array, 200, 4200)
        size = f"{B:,} homotopies in {d} variables, M = 10, float64"
        yield row(f"{name} against NumPy, {size}", gpu, host, host / gpu, "50 times faster")


def row(measure: str, slgh_time: float, reference: float, ratio: float, target: str) -> Row:
    """Return a line of the table from seconds."""
    return Row(measure, f"{slgh_time * 1e6:.0f} µs", f"{reference * 1e6:.0f} µs", ratio, target)


def profile(B: int, d: int) -> None:
    """Print the kernels of iterations in a graph, with their times."""
    x0 = torch.ones(B, d, device="cuda")
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as found:
        slgh.minimize(length, x0, vectorized=True, batched=True, max_iter=100, **SLGH, history=None)
    print(found.key_averages().table(sort_by="cuda_time_total", row_limit=60, max_name_column_width=90))


def table(rows: list[Row]) -> str:
    """Format the rows as Markdown."""
    lines = ["| measure | slgh | reference | ratio | target |", "| --- | --- | --- | --- | --- |"]
    lines += [f"| {r.measure} | {r.slgh_time} | {r.reference} | {r.ratio:.1f} | {r.target} |" for r in rows]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--markdown", type=Path, help="write the table to this file")
    parser.add_argument("--profile", action="store_true", help="list the kernels of an iteration")
    given = parser.parse_args()
    if given.profile:
        profile(100, 3072)
        return
    rate = bandwidth()
    rows = [
        *(
            line
            for B, history in ((100, 1000), (100, None), (1000, None))
            for line in large_problems(B, 3072, history, rate)
        ),
        *many_problems(10_000, 10),
    ]
    text = (
        f"Command: `python benchmarks/gpu.py`. Time per iteration on one {torch.cuda.get_device_name()}; PyTorch "
        f"{torch.__version__}, JAX {jax.__version__}, slgh {slgh.__version__}; a copy moves {rate / 1e12:.1f} TB/s; "
        f"float32 unless stated.\n\n{table(rows)}\n"
    )
    print(text)
    if given.markdown:
        given.markdown.write_text(text)


if __name__ == "__main__":
    main()
