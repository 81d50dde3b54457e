"""Training loops of slgh and its peers, at an equal number of gradients or of forward passes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from slgh.integrations.torch import SLGH, ZOSLGH
from slgh.schedules import Constant
from training_study.tasks import Problem, Task


def train(task: Task, method: str, rate: float, radius: float | None, seed: int) -> Problem:
    """Return the problem of a seed, trained by a method with one setting."""
    problem = task.make(seed)
    (GRADIENT_METHODS if task.gradients else FORWARD_METHODS)[method](problem, task, rate, radius, seed)
    return problem


# With gradients: every method is Adam, with the same cosine decay of the learning rate.


def _adam(problem: Problem, rate: float) -> torch.optim.Adam:
    return torch.optim.Adam(problem.model.parameters(), lr=rate)


def _cosine(optimizer: Any, steps: int) -> torch.optim.lr_scheduler.LambdaLR:
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda k: 0.5 * (1 + math.cos(math.pi * k / steps)))


def _gradient(optimizer: torch.optim.Optimizer, loss: Tensor) -> Tensor:
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    return loss


def adam(problem: Problem, task: Task, rate: float, radius: None, seed: int) -> None:
    optimizer, g = _adam(problem, rate), torch.Generator().manual_seed(seed)
    decay = _cosine(optimizer, task.budget)
    for _ in range(task.budget):
        _gradient(optimizer, problem.loss(g))
        optimizer.step()
        decay.step()


def sam(problem: Problem, task: Task, rate: float, radius: float, seed: int) -> None:
    """Sharpness-aware minimization: the gradient at the worst point of a ball. Each step takes two gradients."""
    optimizer, g = _adam(problem, rate), torch.Generator().manual_seed(seed)
    steps = task.budget // 2
    decay = _cosine(optimizer, steps)
    parameters = list(problem.model.parameters())
    for _ in range(steps):
        state = g.get_state()
        _gradient(optimizer, problem.loss(g))
        grads = [p.grad.clone() for p in parameters if p.grad is not None]
        norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(each) for each in grads]))
        moves = [radius / (norm + 1e-12) * each for each in grads]
        with torch.no_grad():
            for p, move in zip(parameters, moves, strict=True):
                p += move
        g.set_state(state)  # the same batch
        _gradient(optimizer, problem.loss(g))
        with torch.no_grad():
            for p, move in zip(parameters, moves, strict=True):
                p -= move
        optimizer.step()
        decay.step()


def _units(task: Task) -> dict[str, str]:
    return {} if task.units is None else {"units": task.units}


def _slgh(problem: Problem, task: Task, rate: float, seed: int, **radius: Any) -> None:
    g = torch.Generator().manual_seed(seed)
    optimizer = SLGH(_adam(problem, rate), seed=seed, **_units(task), **radius)
    decay = _cosine(optimizer, task.budget)
    for _ in range(task.budget):
        with optimizer.perturbed():
            optimizer.base.zero_grad()
            problem.loss(g).backward()
        optimizer.step()
        decay.step()


def noise(problem: Problem, task: Task, rate: float, radius: float, seed: int) -> None:
    """Adam with weight noise: the gradient at a perturbed point, with a constant radius."""
    _slgh(problem, task, rate, seed, schedule=Constant(t1=radius))


def slgh(problem: Problem, task: Task, rate: float, radius: float, seed: int) -> None:
    _slgh(problem, task, rate, seed, t1=radius, total_steps=task.budget)


# With forward passes alone: every method is plain descent along pairs of passes.


def _directions(parameters: list[Tensor], generator: torch.Generator, signs: bool) -> Iterator[Tensor]:
    for p in parameters:
        u = torch.empty_like(p).normal_(generator=generator)
        yield u.sign_() if signs else u


def _pairs(
    problem: Problem,
    task: Task,
    seed: int,
    rate_at: Callable[[int], float],
    radius_at: Callable[[int], float],
    signs: bool = False,
) -> None:
    """Descend along regenerated directions, in place, as MeZO does."""
    g = torch.Generator().manual_seed(seed)
    parameters = list(problem.model.parameters())
    noise = torch.Generator(parameters[0].device)

    def move(k: int, factor: float) -> None:
        noise.manual_seed(1_000_003 * seed + k)
        for p, u in zip(parameters, _directions(parameters, noise, signs), strict=True):
            p.add_(u, alpha=factor)

    with torch.no_grad():
        for k in range(task.budget // 2):
            radius, state = radius_at(k), g.get_state()
            move(k, radius)
            plus = problem.loss(g)
            move(k, -2 * radius)
            g.set_state(state)
            minus = problem.loss(g)
            move(k, radius)
            move(k, -rate_at(k) * float(plus - minus) / (2 * radius))


def mezo(problem: Problem, task: Task, rate: float, radius: float, seed: int) -> None:
    """MeZO: normal directions, a constant learning rate and a constant radius."""
    _pairs(problem, task, seed, lambda k: rate, lambda k: radius)


def spsa(problem: Problem, task: Task, rate: float, radius: float, seed: int) -> None:
    """SPSA with Spall's gains: random signs, the rate falls as k^-0.602 and the radius as k^-0.101."""
    late = 0.1 * task.budget / 2
    _pairs(
        problem,
        task,
        seed,
        lambda k: rate / (1 + k / late) ** 0.602,
        lambda k: radius / (1 + k) ** 0.101,
        signs=True,
    )


def zoslgh(problem: Problem, task: Task, rate: float, radius: float, seed: int) -> None:
    g = torch.Generator().manual_seed(seed)
    base = torch.optim.SGD(problem.model.parameters(), lr=rate)
    steps = task.budget // 2
    optimizer = ZOSLGH(base, t1=radius, total_steps=steps, seed=seed, **_units(task))
    for _ in range(steps):
        state = g.get_state()

        def closure(state: Tensor = state) -> Tensor:
            g.set_state(state)
            return problem.loss(g)

        optimizer.step(closure)


GRADIENT_METHODS: dict[str, Any] = {"Adam": adam, "SAM": sam, "Adam + weight noise": noise, "SLGH": slgh}
FORWARD_METHODS: dict[str, Any] = {"MeZO": mezo, "SPSA": spsa, "ZOSLGH": zoslgh}


def settings(task: Task, method: str) -> list[tuple[float, float | None]]:
    """Return the settings to tune over: as many for each method. Adam has no radius, and a finer grid of rates."""
    if method != "Adam":
        own = method not in ("SAM", "MeZO", "SPSA")
        return [(rate, radius) for rate in task.rates for radius in (task.own_radii if own else task.radii)]
    n = len(task.rates) * len(task.radii)
    low, high = math.log(task.rates[0] / 3), math.log(task.rates[-1] * 3)
    return [(float(f"{math.exp(low + (high - low) * i / (n - 1)):.3g}"), None) for i in range(n)]
