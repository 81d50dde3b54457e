"""Small networks and losses for the tests of the optimizers that train networks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from slgh.integrations.torch import SLGH, ZOSLGH
from slgh.integrations.torch.homotopy import Homotopy

Optimizers: Any = {"SLGH": SLGH, "ZOSLGH": ZOSLGH}

BASES: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "SGD": lambda params: torch.optim.SGD(params, lr=0.02),
    "SGD, weight decay": lambda params: torch.optim.SGD(params, lr=0.02, weight_decay=0.1),
    "SGD, maximize": lambda params: torch.optim.SGD(params, lr=1e-4, maximize=True),
    "SGD, momentum": lambda params: torch.optim.SGD(params, lr=0.02, momentum=0.9),
    "Adam": lambda params: torch.optim.Adam(params, lr=0.01),
    "AdamW": lambda params: torch.optim.AdamW(params, lr=0.01),
    "RMSprop": lambda params: torch.optim.RMSprop(params, lr=0.01),
}

SCHEDULES: dict[str, dict[str, Any]] = {
    "ratio": {"t1": 0.2, "gamma": 0.9},
    "derivative": {"t1": 0.2, "eta": 1e-4, "gamma": 0.99, "t_end": 0.01},
    "budget": {"t1": 0.2, "total_steps": 20},
    "lr": {"t1": 0.2, "schedule": "lr"},
    "function": {"schedule": lambda step: 0.2 / (1 + step)},
}


def network(dtype: torch.dtype = torch.float32) -> Any:
    """Return a small network, always the same."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).to(dtype)


def data(dtype: torch.dtype = torch.float32, n: int = 16) -> tuple[Tensor, Tensor]:
    """Return inputs and targets, always the same."""
    generator = torch.Generator().manual_seed(1)
    return torch.randn(n, 4, generator=generator).to(dtype), torch.randn(n, 3, generator=generator).to(dtype)


def closure_of(model: nn.Module, optimizer: Homotopy, part: slice = slice(None)) -> Callable[[], Tensor]:
    """Return the closure that a step needs, on a part of the data."""
    first = next(model.parameters())
    inputs, targets = (array[part].to(first.device) for array in data(first.dtype))

    def closure() -> Tensor:
        loss: Tensor = (model(inputs) - targets).square().mean()
        if isinstance(optimizer, SLGH):
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
        return loss

    return closure


def weights(model: nn.Module) -> Tensor:
    """Return all parameters as one vector."""
    return torch.cat([p.detach().cpu().flatten() for p in model.parameters()]).clone()


def quadratic(x: nn.Parameter, curvatures: Tensor) -> Tensor:
    """Return x' diag(curvatures) x / 2 + sum(x). Its trace of the Hessian is sum(curvatures)."""
    return (curvatures * x * x).sum() / 2 + x.sum()
