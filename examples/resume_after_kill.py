"""Kill a run without warning, and resume it: the result equals that of an uninterrupted run, bit for bit.

This file starts itself in another process, kills that process, and resumes from the checkpoint that it left.
"""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import slgh

FILE = Path("interrupted.npz")
EVALS = 4000


def rugged(x):
    return float(np.sum(x**2 - 10 * np.cos(2 * np.pi * x) + 10))


def run(fun, checkpoint=None):
    """Minimize in ten variables with the defaults, and save after every ten iterations."""
    saved = None if checkpoint is None else slgh.Checkpoint(path=checkpoint, every_iterations=10)
    return slgh.minimize(fun, np.full(10, 3.3), max_evals=EVALS, seed=7, checkpoint=saved)


def expensive(x):
    time.sleep(0.002)
    return rugged(x)


def start_and_kill():
    """Start the run in another process, and kill it a second after its first checkpoint."""
    other = subprocess.Popen([sys.executable, __file__, "begin"])
    while not FILE.exists() and other.poll() is None:
        time.sleep(0.05)
    time.sleep(1)
    other.kill()
    return other.wait()


if __name__ == "__main__":
    if sys.argv[1:] == ["begin"]:
        run(expensive, FILE)
        sys.exit()
    print(f"killed: the other process ended with code {start_and_kill()}")

    calls = []
    continued = run(lambda x: calls.append(1) or rugged(x), FILE)
    uninterrupted = run(rugged)
    print(f"resumed: {len(calls)} of {continued.nfev} evaluations were left, f = {continued.fun:.6g}")
    print(f"equal to the uninterrupted run, bit for bit: {np.array_equal(continued.x, uninterrupted.x)}")
