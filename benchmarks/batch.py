"""Compare many starts at once with the same starts one by one: f that is reached, and time.

Run `python benchmarks/batch.py`, or with `--device cuda` for the batch on a GPU. The runs one by one stay on NumPy,
which is faster for them, and `--singles` says how many there are. Times are per start. Every figure is measured in that
run, in one process. No function is a test function of COCO.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

import slgh

WIDTH = 5.0
"""The box is (-5, 5) in each variable. Starts are uniform in it."""

QUANTILES = (0.1, 0.5, 0.9)


def sphere(x: Any) -> Any:
    return ((x - 1.3) ** 2).sum(-1)


def rosenbrock(x: Any) -> Any:
    return (100 * (x[..., 1:] - x[..., :-1] ** 2) ** 2 + (1 - x[..., :-1]) ** 2).sum(-1)


def rastrigin(x: Any) -> Any:
    xp = array_namespace(x)
    return ((x - 0.7) ** 2 - 10 * xp.cos(2 * xp.pi * (x - 0.7)) + 10).sum(-1)


def ackley(x: Any) -> Any:
    xp = array_namespace(x)
    z = x - 0.7
    far, ripple = xp.sqrt(xp.mean(z**2, axis=-1)), xp.mean(xp.cos(2 * xp.pi * z), axis=-1)
    return 20 - 20 * xp.exp(-0.2 * far) + xp.e - xp.exp(ripple)


def chain(x: Any) -> Any:
    """Quadratic with coupled variables: the condition number is about d^2 / 2 times 100."""
    return 100 * ((x[..., 1:] - x[..., :-1]) ** 2).sum(-1) + ((x - 1.3) ** 2).sum(-1)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "sphere": sphere,
    "chain": chain,
    "Rosenbrock": rosenbrock,
    "Rastrigin": rastrigin,
    "Ackley": ackley,
}


class Runs(NamedTuple):
    """Values of f that some runs have reached, and the seconds per start."""

    fun: NDArray[np.float64]
    seconds: float

    def row(self) -> str:
        low, median, high = np.quantile(self.fun, QUANTILES)
        return f"{low:.2e} | {median:.2e} | {high:.2e} | {1e3 * self.seconds:.2f} ms"


def at_once(fun: Callable[[Any], Any], x0: NDArray[Any], device: str, method: str, **options: Any) -> Runs:
    """Run all starts in one batch."""
    starts: Any = x0
    if device != "numpy":
        import torch

        starts = torch.asarray(x0, device=device)
    call = partial(slgh.minimize, fun, starts, batched=True, vectorized=True, method=method, history=0, **options)
    if device == "cuda":
        call()  # kernels are compiled once per function
    begin = time.perf_counter()
    result: Any = call()
    seconds = (time.perf_counter() - begin) / len(x0)
    return Runs(np.asarray(result.fun if device == "numpy" else result.fun.cpu().numpy()), seconds)


def one_by_one(fun: Callable[[Any], Any], x0: NDArray[Any], **options: Any) -> Runs:
    """Run the starts one after the other with the whole portfolio of `auto`."""
    begin = time.perf_counter()
    found = [slgh.minimize(fun, x, vectorized=True, history=0, **options).fun for x in x0]
    return Runs(np.array(found), (time.perf_counter() - begin) / len(x0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=["numpy", "cpu", "cuda"], default="numpy", help="cpu and cuda: PyTorch")
    parser.add_argument("--starts", type=int, default=1000)
    parser.add_argument("--singles", type=int, default=40, help="starts that also run one by one")
    parser.add_argument("--variables", type=int, default=10)
    parser.add_argument("--evals", type=int, default=200, help="evaluations per variable and start")
    given = parser.parse_args()
    d = given.variables
    x0 = np.random.default_rng(0).uniform(-WIDTH, WIDTH, (given.starts, d))
    options = {"bounds": [(-WIDTH, WIDTH)] * d, "max_evals": given.evals * d, "seed": 0}
    print(f"{given.starts} starts, {d} variables, {given.evals} d evaluations, {given.device}\n")
    print(
        "| function | runs | f: 10 % | median | 90 % | time per start | times faster |\n|---|---|---|---|---|---|---|"
    )
    for name, fun in FUNCTIONS.items():
        single = one_by_one(fun, x0[: given.singles], **options)
        print(f"| {name} | one by one | {single.row()} | |", flush=True)
        for label, method in (("at once", "auto"), ("at once, homotopy alone", "scale_free")):
            batch = at_once(fun, x0, given.device, method, **options)
            print(f"| | {label} | {batch.row()} | {single.seconds / batch.seconds:.0f} |", flush=True)


if __name__ == "__main__":
    main()
