"""Time the construction of a formula's closed form, and its evaluation compared with hand-written NumPy.

    python benchmarks/smoothing.py [--markdown FILE]

Each figure is the median over rounds in which both alternate, so that noise of the machine affects both equally.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import slgh

RASTRIGIN = "sum(x[i]**2 - 10*cos(2*pi*x[i]) + 10 for i in range(d))"
ROSENBROCK = "sum(100*(x[i+1] - x[i]**2)**2 + (1 - x[i])**2 for i in range(d-1))"


class HandRastrigin:
    """F = sum x^2 + t^2 + 10 - 10 exp(-2 pi^2 t^2) cos(2 pi x)."""

    def value(self, x: Any, t: Any) -> Any:
        d = x.shape[-1]
        ripple = 10 * np.exp(-2 * np.pi**2 * t**2)
        return np.sum(x**2, axis=-1) + d * (t**2 + 10) - ripple * np.sum(np.cos(2 * np.pi * x), axis=-1)

    def grad(self, x: Any, t: Any) -> Any:
        ripple = 20 * np.pi * np.exp(-2 * np.pi**2 * t**2)
        return 2 * x + ripple[..., None] * np.sin(2 * np.pi * x)


HAND: dict[str, tuple[str, Any]] = {
    "Rastrigin": (RASTRIGIN, HandRastrigin()),
    "Rosenbrock": (ROSENBROCK, slgh.problems.rosenbrock(3).smooth),
}


def seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def ratio(closed_form: Callable[[], Any], hand_written: Callable[[], Any], rounds: int = 200) -> float:
    """Return the median of the ratios over alternating rounds."""
    np.testing.assert_allclose(closed_form(), hand_written(), rtol=1e-10)
    return statistics.median(seconds(closed_form) / seconds(hand_written) for _ in range(rounds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    slgh.smooth("x**2").value([1.0], 0.0)  # loads SymPy
    lines = [
        "| formula | d | points | build and first F, grad (s) | F / hand-written | gradient / hand-written |",
        "|---|---|---|---|---|---|",
    ]
    rng = np.random.default_rng(0)
    for name, (formula, hand) in HAND.items():
        for points in (1, 100):
            x, t = rng.normal(size=(points, 1000)), rng.uniform(0.1, 1, points)
            start = time.perf_counter()
            F = slgh.smooth(formula, d=1000)
            F.value(x, t), F.grad(x, t)
            built = time.perf_counter() - start
            value = ratio(lambda: F.value(x, t), lambda: hand.value(x, t))  # noqa: B023
            grad = ratio(lambda: F.grad(x, t), lambda: hand.grad(x, t))  # noqa: B023
            lines.append(f"| {name} | 1000 | {points} | {built:.2f} | {value:.2f} | {grad:.2f} |")
            print(lines[-1])
    if options.markdown:
        note = "Targets: built in under 2 s, at most twice the time of hand-written NumPy."
        command = f"python benchmarks/smoothing.py --markdown {options.markdown}"
        options.markdown.write_text("\n".join([f"{note} Command: `{command}`.", "", *lines, ""]))


if __name__ == "__main__":
    main()
