"""Kill a run in the middle, without warning, and continue it: the result is that of the undisturbed run, bit for bit.

The file starts itself as another process, kills that after a while, and goes on from the checkpoint it left.
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
    """Ten variables, nothing to tune; saved after every ten iterations."""
    saved = None if checkpoint is None else slgh.Checkpoint(path=checkpoint, every_iterations=10)
    return slgh.minimize(fun, np.full(10, 3.3), max_evals=EVALS, seed=7, checkpoint=saved)


def expensive(x):
    time.sleep(0.002)
    return rugged(x)


def start_and_kill():
    """Another process begins the run; it is killed a second after its first checkpoint."""
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
    print(f"killed; the other process ended with code {start_and_kill()}")

    asked = []
    continued = run(lambda x: asked.append(1) or rugged(x), FILE)
    undisturbed = run(rugged)
    print(f"continued: {len(asked)} of {continued.nfev} evaluations were left to do, f = {continued.fun:.6g}")
    print(f"equal to the undisturbed run, bit for bit: {np.array_equal(continued.x, undisturbed.x)}")
