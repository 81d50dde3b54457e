"""Measure a large batch in one process and in shards on several.

    python benchmarks/shards.py                          10^6 problems in 10 variables, about 6 minutes and 8 GB
    python benchmarks/shards.py --problems 100000        a tenth of both

Each run is a process of its own, so that its memory is that of the run. The results are compared bit for bit. On a
machine that others use, the seconds of the processors say more than those of the clock: with idle cores, a run in
shards takes the time of this process plus an equal part of that of the workers. The page is written to
benchmarks/shards.md.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import slgh
from slgh.engine import shards

PAGE = Path(__file__).resolve().with_suffix(".md")
D, ITERATIONS, SAMPLES = 10, 40, 5
WORKERS = 2


def ripples(x: Any) -> Any:
    """A bowl with ripples, of points (..., d). It is elementwise before one sum, so its bits do not depend on B."""
    return (x**2 - 0.3 * np.cos(5 * x)).sum(-1)


def measure(problems: int, workers: int) -> dict[str, Any]:
    """Run the batch. Return seconds, memory in GB, the number of shards, and digests of the result."""
    x0 = np.random.default_rng(0).uniform(-2, 2, (problems, D)).astype(np.float32)  # half the memory of one process
    begun, before = time.perf_counter(), os.times()
    found = slgh.minimize(
        ripples,
        x0,
        batched=True,
        vectorized=True,
        method="zoslgh_r",
        t1=0.5,
        step=0.02,
        samples=SAMPLES,
        max_iter=ITERATIONS,
        seed=0,
        workers=workers,
    )
    seconds, used = time.perf_counter() - begun, os.times()
    cpu = used.user + used.system - before.user - before.system
    own, child = (resource.getrusage(who).ru_maxrss / 2**20 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    entries = [found[name] for name in ("x", "fun", "x_best", "fun_best", "xhat", "t", "nit", "nfev", "status")]
    entries += [found.history[name] for name in sorted(found.history)]
    digests = [hashlib.sha256(np.ascontiguousarray(a).tobytes()).hexdigest() for a in entries]
    return {
        "seconds": seconds,
        "cpu": cpu,
        "worker_cpu": used.children_user + used.children_system,
        "parent": own,
        "worker": child,
        "message": found.message,
        "digests": digests,
    }


def measured(problems: int, workers: int) -> dict[str, Any]:
    """Measure in a fresh process."""
    command = [sys.executable, __file__, "--problems", str(problems), "--measure", str(workers)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    print(f"{workers} workers: {found['seconds']:.1f} s", flush=True)
    return found


def write_page(problems: int, runs: dict[int, dict[str, Any]]) -> str:
    """Return the page."""
    rows, alone = [], runs[1]
    for workers, run in runs.items():
        worker = run["worker"] if workers > 1 else 0.0
        idle = run["cpu"] + run["worker_cpu"] / workers
        cells = [
            f"{workers}",
            f"{run['seconds']:.0f}",
            f"{alone['seconds'] / run['seconds']:.2f}",
            f"{run['cpu']:.0f}",
            f"{run['worker_cpu']:.0f}",
            f"{alone['cpu'] / idle:.2f}",
            f"{run['parent']:.1f}",
            f"{worker:.1f}",
            f"{run['parent'] + workers * worker:.1f}",
        ]
        rows.append(f"| {' | '.join(cells)} |")
    count = -(-problems // shards.MAX_SHARD_SIZE)
    return f"""# Batches in shards

`python benchmarks/shards.py` wrote this page, on a machine with {os.cpu_count()} cores.
Versions: numpy {version("numpy")}, Python {sys.version.split()[0]}.

{problems:,} problems in {D} variables, {ITERATIONS} iterations of zoslgh_r with {SAMPLES} samples. The function is
vectorized, and runs in NumPy, in float32. With workers there are at least {count} shards. The results of all runs,
histories included, are equal bit for bit: the script asserts it.

| processes | seconds | speedup | CPU s here | in workers | speedup with idle cores | GB here | per worker | in all |
|---|---|---|---|---|---|---|---|---|
{chr(10).join(rows)}

"Here" is the process that calls `minimize`. With workers it makes the shards and joins their results, and the workers
divide the rest. The speedup with idle cores is computed from the CPU seconds, not measured. One process takes more per
problem, probably because the arrays of all problems do not fit into the caches.

Memory is the peak of the resident set. That of a worker includes the pages that it shares with the first process. One
process holds the noise and the state of all problems. A worker holds those of one shard, so its memory does not grow
with the batch.
"""


def main() -> None:
    """Measure, compare and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=10**6)
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure is not None:
        print(json.dumps(measure(given.problems, given.measure)))
        return
    runs = {workers: measured(given.problems, workers) for workers in (1, WORKERS)}
    for name in ("digests", "message"):
        assert runs[1][name] == runs[WORKERS][name], f"the {name} differ"
    page = write_page(given.problems, runs)
    print(page)
    if given.problems == parser.get_default("problems"):
        PAGE.write_text(page)


if __name__ == "__main__":
    main()
