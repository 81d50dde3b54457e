"""Script of one rank of torch.distributed: a batch over all ranks has the result of one process on each of them."""

from __future__ import annotations

import gc
import os
import sys
from typing import Any

import pytest
import torch
import torch.distributed as dist

import slgh
from cases import assert_same, fun, starts

OPTIONS: dict[str, Any] = {"batched": True, "vectorized": True, "max_evals": 300}


def fail_on_rank_1(x: torch.Tensor) -> torch.Tensor:
    """Raise in the second process."""
    if dist.get_rank() == 1:
        raise ZeroDivisionError("in a rank")
    values: torch.Tensor = fun(x)
    return values


def main(folder: str) -> None:
    """Check results, errors and checkpoints."""
    dist.init_process_group("gloo")
    rank, x0 = dist.get_rank(), torch.tensor(starts(9))
    alone = slgh.minimize(fun, x0, seed=1, **OPTIONS)
    for workers in (dist, dist.group.WORLD):
        found = slgh.minimize(fun, x0, seed=1, workers=workers, **OPTIONS)
        assert_same(found, alone)
        assert found.message == alone.message
    file = os.path.join(folder, "run.npz")
    drawn = slgh.minimize(fun, x0, workers=dist, checkpoint=file, **OPTIONS)
    assert_same(drawn, slgh.minimize(fun, x0, seed=drawn.seed, **OPTIONS))
    assert_same(slgh.minimize(fun, x0, workers=dist, checkpoint=file, **OPTIONS), drawn)
    with pytest.raises(ZeroDivisionError) as caught:
        slgh.minimize(fail_on_rank_1, x0, seed=1, workers=dist, **OPTIONS)
    assert "on rank 1" in str(caught.value.__notes__)
    with pytest.raises(ValueError, match=f"the x0 of rank {1 - rank} is not that of rank {rank}"):
        slgh.minimize(fun, x0 + rank, seed=1, workers=dist, **OPTIONS)
    assert len(os.listdir(f"{file}.shards")) == dist.get_world_size()
    dist.barrier()
    print(f"rank {rank} is done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
    # The threads of gloo abort the process if the group ends with the interpreter, and tracebacks keep it alive.
    gc.collect()
    dist.destroy_process_group()
    gc.collect()
