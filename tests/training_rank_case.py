"""Script of one rank of torch.distributed: several processes train one network, each on its part of the data."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from slgh.integrations.torch import SLGH, ZOSLGH
from training_cases import BASES, closure_of, network, weights


def gathered(x: torch.Tensor) -> list[torch.Tensor]:
    """Return the tensor of each rank."""
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, x)
    return parts


def train_in_part(base: str, **options: Any) -> tuple[torch.Tensor, ZOSLGH]:
    """Train by forward passes on this rank's half of the data."""
    rank = dist.get_rank()
    model = network()
    optimizer = ZOSLGH(BASES[base](model.parameters()), t1=0.2, samples=2, **options)
    closure = closure_of(model, optimizer, slice(8 * rank, 8 * rank + 8))
    for _ in range(5):
        optimizer.step(closure)
    return weights(model), optimizer


def check_forward_passes() -> None:
    """Two halves of the data give what one process gives on all of it, and equal weights on all ranks."""
    for base in ("SGD", "Adam"):
        cases: list[dict[str, Any]] = [{"gamma": 0.9}, {"eta": 1e-4, "t_end": 0.01}]
        for options in cases:
            found, optimizer = train_in_part(base, **options)
            first, second = gathered(found)
            assert torch.equal(first, second)
            model = network()
            alone = ZOSLGH(
                BASES[base](model.parameters()), t1=0.2, samples=2, seed=optimizer.seed, process_group=None, **options
            )
            for _ in range(5):
                alone.step(closure_of(model, alone))
            torch.testing.assert_close(found, weights(model), rtol=1e-3, atol=1e-4)
            assert optimizer.t == pytest.approx(alone.t, rel=1e-3)


def check_gradients() -> None:
    """Directions differ between the ranks, and weights do not."""
    model = network()
    parallel = DistributedDataParallel(model)
    optimizer = SLGH(BASES["Adam"](parallel.parameters()), t1=0.2, eta=1e-4, seed=0)
    seen = []
    closure = closure_of(parallel, optimizer)

    def watch() -> torch.Tensor:
        seen.append(weights(model))
        return closure()

    for _ in range(3):
        optimizer.step(watch)
    one, two = gathered(seen[0])
    assert not torch.equal(one, two)
    one, two = gathered(weights(model))
    assert torch.equal(one, two)
    assert optimizer._reduce([optimizer.t], "minimum") == [optimizer.t]
    with pytest.raises(ValueError, match="must be 'exact' in several processes"):
        SLGH(optimizer.base, t1=0.2, gamma=0.9, restore="arithmetic")
    # A loss that is bad on one rank alone is bad for all.
    loss = optimizer.step(lambda: closure() * (float("nan") if dist.get_rank() else 1.0))
    assert loss != loss
    assert optimizer.steps == 3


def check_the_slope() -> None:
    """The slope of F in t is that of one process: f is |x|^2 / 2 in 10,000 variables, and its trace 10,000."""
    model = torch.nn.Linear(10_000, 1, bias=False)
    parallel = DistributedDataParallel(model)
    eta = 1e-6
    optimizer = SLGH(torch.optim.SGD(parallel.parameters(), lr=0.0), t1=1.0, eta=eta, units="absolute", seed=0)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss: torch.Tensor = parallel(model.weight).sum() * 0 + model.weight.square().sum() / 2
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    optimizer.step(closure)
    assert (1 - optimizer.t) / eta == pytest.approx(10_000, rel=0.1)


def check_different_parameters() -> None:
    model = network()
    with torch.no_grad():
        model[0].weight.add_(dist.get_rank())
    optimizer = ZOSLGH(BASES["SGD"](model.parameters()), t1=0.2, gamma=0.9)
    with pytest.raises(ValueError, match="parameters differ between the processes"):
        optimizer.step(lambda: 0.0)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    check_forward_passes()
    check_gradients()
    check_the_slope()
    check_different_parameters()
    dist.barrier()
    print(f"rank {dist.get_rank()} is done", flush=True)
    gc.collect()
    dist.destroy_process_group()
    gc.collect()
