"""Evaluate points on other machines: ask for points, send them to a pool of workers, and tell their values.

Any executor with the interface of `concurrent.futures` works: processes, Dask's client.get_executor(), an MPI pool.
Threads are enough if a worker only waits, for example for a cluster queue or a program, as the simulation here does.
"""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import slgh

WORKERS, SECONDS = 8, 0.005


def simulation(p):
    """Slow function with many local minima. NaN means that the simulation did not converge."""
    time.sleep(SECONDS)
    if np.abs(p).max() > 7:
        return np.nan
    return float(np.sum(p**2 - 10 * np.cos(2 * np.pi * p) + 10))


def run(evaluate):
    """Run the ask/tell loop. `evaluate` gets all points of an iteration and returns their values in order."""
    opt = slgh.Optimizer(np.full(5, 4.2), t1=2.0, max_evals=1500, parallel=WORKERS, seed=0)
    while not opt.stop():
        points = opt.ask()
        opt.tell(points, evaluate(points))
    return opt.result


if __name__ == "__main__":
    begin = time.perf_counter()
    with ThreadPoolExecutor(WORKERS) as pool:
        result = run(lambda points: [job.result() for job in [pool.submit(simulation, p) for p in points]])
    took = time.perf_counter() - begin
    print(
        f"{result.nfev} evaluations of {SECONDS:g} s by {WORKERS} workers in {took:.1f} s, {result.nrejected} were NaN"
    )
    print(f"from f = {simulation(np.full(5, 4.2)):.1f} to f = {result.fun:.3g} at x = {np.round(result.x, 3)}")

    SECONDS = 0.0
    alone = run(lambda points: [simulation(p) for p in points])
    print(f"the same with one worker, bit for bit: {np.array_equal(alone.x, result.x)}")
