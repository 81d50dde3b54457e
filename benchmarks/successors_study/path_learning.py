"""Continuation path learning (Lin et al., ICML 2023): a network x(t) for all t, trained by gradients of F(x, t).

The network has two hidden layers of 256 rectified units. It is first fitted to the start, then every step of Adam takes
the radii of four random levels, and the last steps take t = 0 alone. These figures and step sizes are the paper's.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from successors_study.problems import Instance

WIDTH, LEVELS = 256, 4
FIT_STEPS, FIT_RATE = 1000, 1e-4
RATE = 5e-3
LEAST_T = 1e-4
"""Radius in units of t1 that stands for 0 if gradients are differences of values."""


class Plan(NamedTuple):
    """Numbers of steps on all levels, and on t = 0 alone, and the largest radius."""

    steps: int
    local: int
    t1: float


PLANS = {
    "cpl-ackley": Plan(225, 100, 1.0),
    "cpl-himmelblau": Plan(450, 200, 2.0),
    "cpl-rosenbrock": Plan(4500, 2000, 1.5),
}


class Found(NamedTuple):
    x: NDArray[np.float64]
    evaluations: int


def learn_path(instance: Instance, plan: Plan, seed: int) -> Found:
    """Train the network, and return x(0) and the number of evaluations: gradients, or values in pairs."""
    torch.manual_seed(seed)
    rng, used = np.random.default_rng(seed), 0
    path = torch.nn.Sequential(
        *(torch.nn.Linear(1, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU()),
        torch.nn.Linear(WIDTH, len(instance.x0)),
    )
    start, end = torch.tensor(instance.x0, dtype=torch.float32), torch.ones(1, 1)
    fit = torch.optim.Adam(path.parameters(), lr=FIT_RATE)
    for _ in range(FIT_STEPS):
        fit.zero_grad()
        (path(end) - start).abs().sum().backward()  # type: ignore[no-untyped-call]
        fit.step()
    train = torch.optim.Adam(path.parameters(), lr=RATE)

    def step(levels: Any) -> None:
        nonlocal used
        x = path(levels)
        g, count = _gradient(instance, x.detach().double().numpy(), plan.t1 * (1 - levels[:, 0].double().numpy()), rng)
        used += count
        train.zero_grad()
        x.backward(torch.tensor(g, dtype=x.dtype))
        train.step()

    for _ in range(plan.steps):
        levels = torch.rand(LEVELS, 1)
        levels[0] = 1
        step(levels)
    for _ in range(plan.local):
        step(end)
    with torch.no_grad():
        return Found(path(end)[0].double().numpy(), used)


def _gradient(
    instance: Instance, x: NDArray[np.float64], t: NDArray[np.float64], rng: np.random.Generator
) -> tuple[Any, int]:
    """Return the gradients of F at n points and radii, (n, d), and the evaluations that they took."""
    if instance.smooth is not None:
        return instance.smooth.grad(x, t), len(x)
    t = t + LEAST_T
    u = rng.standard_normal(x.shape)
    rise = instance.fun(x + t[:, None] * u) - instance.fun(x)
    return (rise / t)[:, None] * u, 2 * len(x)
