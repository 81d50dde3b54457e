"""Runs of "auto" on PyTorch tensors and JAX arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch

import slgh
from auto_cases import Point, minimize, valley, waves
from cases import assert_same

pytestmark = pytest.mark.slow


def test_functions_of_tensors_are_differentiated_where_that_is_wanted() -> None:
    run = minimize(valley, torch.full((4,), -1.3, dtype=torch.float64), grad=True, max_evals=600)
    assert run.njev > 100
    assert run.nfev + run.njev <= 600
    assert run.fun < 1e-10


@pytest.mark.parametrize("fun", [valley, waves])
def test_torch_tensors(fun: Point) -> None:
    seen = []

    def typed(x: Any) -> Any:
        seen.append(isinstance(x, torch.Tensor) and x.dtype == torch.float64)
        return fun(x)

    run = minimize(typed, torch.full((4,), -1.3, dtype=torch.float64), max_evals=1500)
    plain = minimize(fun, np.full(4, -1.3), max_evals=1500)
    assert all(seen)
    assert isinstance(run.x, torch.Tensor)
    assert run.message.split("Chosen")[0][:40] == plain.message.split("Chosen")[0][:40]
    assert run.fun == pytest.approx(plain.fun, abs=1e-6)


@pytest.mark.parametrize(("fun", "compiled"), [(waves, True), (waves, False), (valley, False)])
def test_jax_arrays(fun: Point, compiled: bool) -> None:
    run = minimize(fun, jnp.full(4, -1.3), max_evals=1500, compiled=compiled, history="x")
    assert run.engine == ("jax while_loop" if compiled else "jax python loop")
    assert "local search" in run.message
    assert run.success
    assert run.nfev <= 1500
    assert isinstance(run.x, jnp.ndarray)
    assert run.fun == pytest.approx(float(fun(run.x)), rel=1e-12, abs=1e-12)
    assert run.fun < (1e-8 if fun is valley else 4.0)
    assert len(run.history["fun"]) == run.nit


def test_a_compiled_run_is_continued(tmp_path: Path) -> None:
    x0, options = jnp.full(4, -1.3), {"max_evals": 1500, "history": "x"}
    whole = minimize(waves, x0, **options)
    for seen_k in (10, 90, whole.nit - 3):
        file = tmp_path / f"{seen_k}.npz"
        cut = minimize(waves, x0, checkpoint=file, callback=lambda r, k=seen_k: r.nit == k, **options)
        assert cut.status == slgh.Status.CALLBACK
        assert_same(minimize(waves, x0, checkpoint=file, **options), whole)
