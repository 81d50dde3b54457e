"""What one GPU gives: graph replay against eager, an iteration against its memory traffic, many problems against NumPy.

Run `python benchmarks/gpu.py` on a machine with a CUDA device; every figure is measured in that run. `--profile` lists
the kernels of one iteration instead.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import slgh

OURS: dict[str, Any] = {"method": "zoslgh_r", "t1": 1.0, "gamma": 0.999, "step": 1e-5, "samples": 10, "seed": 0}


def length(x: Any) -> Any:
    """A cheap objective: one pass over the points, for torch without a temporary array."""
    return torch.linalg.vector_norm(x, dim=-1) if isinstance(x, torch.Tensor) else np.sqrt(np.vecdot(x, x))


class Row(NamedTuple):
    """A line of the table."""

    measure: str
    ours: str
    reference: str
    ratio: float
    target: str


def seconds_an_iteration(x0: Any, low: int, high: int, repeats: int = 5, **options: Any) -> float:
    """Median time of an iteration, by the difference between runs of two lengths, so that starting costs drop out."""

    def run(n: int) -> float:
        started = time.perf_counter()
        slgh.minimize(length, x0, vectorized=True, batched=True, max_iter=n, **OURS, **options)
        torch.cuda.synchronize()
        return time.perf_counter() - started

    run(low)
    return statistics.median((run(high) - run(low)) / (high - low) for _ in range(repeats))


def bandwidth() -> float:
    """Bytes a second of a large copy on the device, read and written."""
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


def graph_against_eager(B: int, d: int, history: int | None) -> tuple[Row, float]:
    """Seconds an iteration in the two loops."""
    x0 = torch.ones(B, d, device="cuda")
    graph = seconds_an_iteration(x0, 200, 4200, history=history)
    eager = seconds_an_iteration(x0, 20, 220, history=history, compiled=False)
    name = f"graph replay against eager, B = {B:,}, d = {d:,}, M = 10, history {'on' if history else 'off'}"
    return Row(name, f"{graph * 1e6:.0f} µs", f"{eager * 1e6:.0f} µs", eager / graph, "5 times faster"), graph


def against_traffic(B: int, d: int, seconds: float, rate: float) -> Row:
    """An iteration against what must move: directions and points written and read once, at the rate of a copy."""
    traffic = 4 * 10 * B * d * 4 / rate
    name = f"an iteration against its traffic at {rate / 1e12:.1f} TB/s, B = {B:,}, d = {d:,}, M = 10"
    return Row(name, f"{seconds * 1e6:.0f} µs", f"{traffic * 1e6:.0f} µs", seconds / traffic, "within 2 times")


def many_problems(B: int, d: int) -> Row:
    """B homotopies at once on the GPU and on NumPy, in float64 both."""
    x0 = np.ones((B, d))
    gpu = seconds_an_iteration(torch.asarray(x0, device="cuda"), 200, 2200)
    host = seconds_an_iteration(x0, 2, 12, repeats=3)
    name = f"{B:,} homotopies in {d} variables, M = 10, against NumPy"
    return Row(name, f"{gpu * 1e6:.0f} µs", f"{host * 1e6:.0f} µs", host / gpu, "50 times faster")


def profile(B: int, d: int) -> None:
    """Print the kernels of iterations in a graph, with their times."""
    x0 = torch.ones(B, d, device="cuda")
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as found:
        slgh.minimize(length, x0, vectorized=True, batched=True, max_iter=100, **OURS, history=None)
    print(found.key_averages().table(sort_by="cuda_time_total", row_limit=60, max_name_column_width=90))


def table(rows: list[Row]) -> str:
    """The rows as Markdown."""
    lines = ["| measure | ours | reference | ratio | target |", "| --- | --- | --- | --- | --- |"]
    lines += [f"| {r.measure} | {r.ours} | {r.reference} | {r.ratio:.1f} | {r.target} |" for r in rows]
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
    rows: list[Row] = []
    measure: Callable[[int, int, int | None], tuple[Row, float]] = graph_against_eager
    for B, history in ((100, 1000), (100, None), (1000, None)):
        row, graph = measure(B, 3072, history)
        rows += [row, against_traffic(B, 3072, graph, rate)]
    rows.append(many_problems(10_000, 10))
    text = (
        f"`python benchmarks/gpu.py` on one {torch.cuda.get_device_name()}, PyTorch {torch.__version__}, "
        f"slgh {slgh.__version__}; float32 unless said.\n\n{table(rows)}\n"
    )
    print(text)
    if given.markdown:
        given.markdown.write_text(text)


if __name__ == "__main__":
    main()
