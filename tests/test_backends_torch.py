"""Runs on PyTorch tensors: modules, autograd, dtypes, and CUDA graphs."""

from __future__ import annotations

import functools
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import numpy as np
import pytest
import torch

import slgh
from cases import CASES, fun, noting, starts

pytestmark = pytest.mark.slow


def test_a_module_in_training_mode_is_refused() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(4, 1), torch.nn.Dropout())
    x0 = torch.zeros(4)
    for user in (net, lambda x: net(x).sum(), net.forward):
        with pytest.raises(ValueError, match=r"Sequential in training mode.*\.eval\(\)"):
            CASES["zoslgh_d"].run(x0, user, vectorized=False)
    net.eval()
    result = CASES["zoslgh_d"].run(x0, lambda x: net(x).sum(), vectorized=False)
    assert result.success
    assert not result.x.requires_grad


def test_values_are_computed_without_gradients_and_parameters_get_none() -> None:
    net = torch.nn.Linear(4, 1).eval()
    modes = []

    def user(x: Any) -> Any:
        modes.append(torch.is_grad_enabled())
        return (net(x) ** 2).sum()

    x0 = torch.zeros(4, requires_grad=True)
    CASES["zoslgh_d"].run(x0, user, vectorized=False)
    assert not any(modes)
    CASES["slgh_d"].run(x0, user, vectorized=False)
    assert any(modes)
    assert net.weight.grad is None
    assert x0.grad is None
    assert torch.is_grad_enabled()


def test_a_function_that_writes_into_its_argument_is_refused() -> None:
    with pytest.raises(ValueError, match="must not write into its argument"):
        CASES["zoslgh_d"].run(torch.zeros(4), lambda x: x.mul_(2).sum(-1))


def test_a_function_that_autograd_cannot_follow_is_named() -> None:
    with pytest.raises(TypeError, match="must be differentiable by autograd"):
        CASES["slgh_d"].run(torch.zeros(4), lambda x: torch.asarray(x.detach().numpy() ** 2).sum(-1))


@pytest.mark.parametrize("dtype", [torch.float16, torch.complex64])
def test_other_dtypes_are_refused(dtype: Any) -> None:
    with pytest.raises(TypeError, match="of dtype float32 or float64; got dtype torch"):
        CASES["zoslgh_d"].run(torch.zeros(4, dtype=dtype))


def test_integers_become_the_default_dtype() -> None:
    assert CASES["zoslgh_d"].run(torch.tensor([1, 2, 3, 4])).x.dtype == torch.float32


DROPPING = torch.nn.Dropout()


def uses_a_global_module(x: Any) -> Any:
    return DROPPING(x).sum(-1)


def test_modules_are_found_wherever_a_function_holds_them() -> None:
    class Model:
        def __init__(self) -> None:
            self.net = torch.nn.Linear(4, 1)

        def loss(self, x: Any) -> Any:
            return self.net(x).sum(-1)

    nested = lambda x: uses_a_global_module(x)  # noqa: E731
    for user in (
        uses_a_global_module,
        nested,
        Model().loss,
        functools.partial(cast(Any, torch.nn.functional.linear), DROPPING),
    ):
        with pytest.raises(ValueError, match=r"in training mode.*\.eval\(\)"):
            CASES["zoslgh_d"].run(torch.zeros(4), user)


def test_a_module_that_does_not_get_x_is_named() -> None:
    net = torch.nn.Linear(4, 1).eval()
    with pytest.raises(TypeError, match="functional_call"):
        CASES["slgh_d"].run(torch.zeros(4), lambda x: net(torch.ones(4)), vectorized=False)


def test_workers_call_without_gradients_too() -> None:
    modes = []
    user = noting(lambda x: modes.append(torch.is_grad_enabled()), fun)
    with ThreadPoolExecutor(2) as pool:
        CASES["zoslgh_d"].run(torch.ones(4), user, vectorized=False, workers=pool, max_iter=3)
    assert modes
    assert not any(modes)


def test_inference_mode_is_no_hindrance() -> None:
    with torch.inference_mode():
        assert CASES["zoslgh_d"].run(torch.ones(4)).success


def test_data_of_numpy_take_the_dtype_of_the_run() -> None:
    seen = []
    user = noting(lambda x, a: seen.append(a.dtype), lambda x, a: x @ a)
    CASES["zoslgh_d"].run(torch.ones(4), user, data=np.ones(4), vectorized=False, max_iter=2)
    assert set(seen) == {torch.float32}


def test_parameters_have_to_be_flattened() -> None:
    with pytest.raises(TypeError, match="Flatten parameters into a vector"):
        slgh.minimize(fun, torch.nn.Linear(2, 1))


@pytest.mark.cuda
class TestCuda:
    def test_what_cannot_be_captured_runs_eagerly_and_says_why(self) -> None:
        x0 = torch.asarray(starts(2), device="cuda")
        result = CASES["zoslgh_d"].run(x0, lambda x: fun(x) * float(x.sum() > -1e9), batched=True)
        assert result.engine == "torch eager"
        assert "In a Python loop: fun cannot be captured in a CUDA graph" in result.message
        assert result.success.all()
        assert CASES["zoslgh_d"].run(x0, batched=True).engine == "torch cuda graph"

    def test_a_function_of_one_point_that_vmap_cannot_map_runs_eagerly(self) -> None:
        x0 = torch.asarray(starts(1)[0], device="cuda")
        result = CASES["zoslgh_d"].run(x0, lambda x: fun(x) if x[0] > 0 else fun(x) + 1, vectorized=False)
        assert result.engine == "torch eager"
        assert "vmap cannot map fun" in result.message

    def test_an_error_in_fun_is_the_users_own(self) -> None:
        def broken(x: Any) -> Any:
            raise ZeroDivisionError("mine")

        with pytest.raises(ZeroDivisionError, match="mine"):
            CASES["zoslgh_d"].run(torch.asarray(starts(1)[0], device="cuda"), broken)

    def test_differences_of_f_are_not_taken_in_tf32_unless_asked_for(self) -> None:
        A = torch.randn(64, 64, device="cuda")
        x0 = torch.randn(1, 64, device="cuda")
        switch, precisions = torch.backends.cuda.matmul, []

        def user(x: Any) -> Any:
            precisions.append(switch.fp32_precision)
            return ((x @ A) ** 2).sum(-1)

        before, switch.fp32_precision = switch.fp32_precision, "tf32"
        try:
            options = {"batched": True, "max_iter": 3}
            for case, given in (("zoslgh_r", {}), ("zoslgh_r", {"tf32": True}), ("slgh_r", {})):
                precisions.append(case)
                CASES[case].run(x0, user, **options, **given)
                assert switch.fp32_precision == "tf32"
        finally:
            switch.fp32_precision = before
        kinds = "".join({"zoslgh_r": "|", "slgh_r": "|", "ieee": "i", "tf32": "t"}[p] for p in precisions)
        assert [set(part) for part in kinds.split("|")[1:]] == [{"i"}, {"t"}, {"t"}]

    def test_callables_that_draw_xi_on_the_host_run_eagerly(self) -> None:
        x0 = torch.asarray(starts(2), device="cuda")
        result = CASES["zoslgh_r stochastic"].run(x0, batched=True, sample_xi=lambda rng, n: rng.integers(7, size=n))
        assert result.engine == "torch eager"
        assert "sample_xi draws on the host" in result.message
