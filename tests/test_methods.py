"""Claims that hold for every method: the common table."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import slgh
from cases import CASES, SAMPLES, Case, assert_same, every_method, fun, grad, starts


def test_every_method_of_the_registry_has_a_case() -> None:
    assert {case.method for case in CASES.values()} == set(slgh.METHODS) - {"auto"}, (
        "auto has its own tests, test_auto_*.py"
    )


@every_method
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtype_is_kept(case: Case, dtype: type) -> None:
    result = case.run(starts(2, dtype), batched=True, history="x")
    for name in ("x", "fun", "x_best", "fun_best", "xhat", "t"):
        assert result[name].dtype == dtype, name
    assert all(result.history[name].dtype == dtype for name in ("fun", "t", "x"))


@every_method
def test_the_method_descends(case: Case) -> None:
    x0 = starts(20)
    result = case.run(x0, batched=True, max_iter=200)
    assert result.success.all()
    before = fun(x0).mean()
    assert result.fun.mean() < before - 0.5 * (before - -0.2 * 4)


@every_method
def test_problems_in_a_batch_equal_single_runs(case: Case) -> None:
    x0 = starts(5)
    seeds = [3, 1, 4, 1, 5]
    together = case.run(x0, batched=True, seed=seeds)
    for b, seed in enumerate(seeds):
        alone = case.run(x0[b], seed=seed)
        np.testing.assert_array_equal(together.x[b], alone.x)
        np.testing.assert_array_equal(together.xhat[b], alone.xhat)
        assert (together.fun[b], together.t[b], together.fun_best[b]) == (alone.fun, alone.t, alone.fun_best)
        assert (together.nfev[b], together.njev[b]) == (alone.nfev, alone.njev)


@every_method
def test_a_problem_does_not_depend_on_which_others_have_ended(case: Case) -> None:
    x0 = starts(6)
    seeds = list(range(6))
    free = case.run(x0, batched=True, seed=seeds)
    target = float(np.median(free.fun_best)) + 1e-9
    if case.stochastic:  # evaluations for a target must also happen without one
        free = case.run(x0, batched=True, seed=seeds, target=-1e9)
    stopped = case.run(x0, batched=True, seed=seeds, target=target)
    ended = stopped.status == slgh.Status.TARGET
    assert ended.any()
    np.testing.assert_array_equal(stopped.x[~ended], free.x[~ended])
    np.testing.assert_array_equal(stopped.nit[~ended], free.nit[~ended])
    assert case.stochastic or (stopped.fun[ended] <= target).all()


@every_method
def test_the_count_of_evaluations_is_exact(case: Case) -> None:
    calls = {"fun": 0, "grad": 0}

    def counted_fun(x: Any, *extra: Any) -> Any:
        calls["fun"] += int(np.prod(x.shape[:-1]))
        return fun(x, *extra)

    def counted_grad(x: Any, *extra: Any) -> Any:
        calls["grad"] += int(np.prod(x.shape[:-1]))
        return grad(x, *extra)

    options = {"grad": counted_grad} if case.first_order else {}
    T = 12
    result = case.run(starts(1)[0], fun=counted_fun, max_iter=T, **options)
    final = SAMPLES if case.stochastic else 2 if case.method == "scale_free" else 1
    assert (result.nfev, result.njev) == (calls["fun"], calls["grad"])
    assert result.nfev + result.njev == sum(case.cost(k) for k in range(T)) + final
    assert result.nit == T


@every_method
def test_the_same_seed_gives_the_same_run_and_another_one_does_not(case: Case) -> None:
    x0 = starts(3)
    assert_same(case.run(x0, batched=True, seed=9), case.run(x0, batched=True, seed=9))
    if case.method != "gd":
        assert not np.array_equal(case.run(x0, batched=True, seed=8).x, case.run(x0, batched=True, seed=9).x)


def test_the_same_seed_gives_the_same_run_in_another_process() -> None:
    code = (
        "import numpy as np, cases\n"
        "for name, case in cases.CASES.items():\n"
        "    print(name, case.run(cases.starts(2), batched=True, seed=3).x.tobytes().hex())\n"
    )
    command = [sys.executable, "-c", code]
    printed = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True).stdout
    expected = [f"{name} {case.run(starts(2), batched=True, seed=3).x.tobytes().hex()}" for name, case in CASES.items()]
    assert printed.splitlines() == expected


@every_method
def test_values_that_are_always_nan_end_in_a_status(case: Case) -> None:
    result = case.run(starts(1)[0], fun=lambda x, *extra: np.full(x.shape[:-1], np.nan))
    assert result.status == slgh.Status.NONFINITE
    assert not result.success
    assert result.nit == 10
    np.testing.assert_array_equal(result.x, starts(1)[0])


@every_method
def test_a_problem_with_bad_values_does_not_harm_the_others(case: Case) -> None:
    x0 = starts(3)
    x0[1] += 100.0

    def with_a_cliff(x: Any, *extra: Any) -> Any:
        return np.where((x > 50).any(axis=-1), np.nan, fun(x, *extra))

    seeds = [1, 2, 3]
    mixed = case.run(x0, fun=with_a_cliff, batched=True, seed=seeds)
    alone = case.run(x0[::2], batched=True, seed=seeds[::2])
    assert mixed.status[1] == slgh.Status.NONFINITE
    np.testing.assert_array_equal(mixed.x[1], x0[1])
    np.testing.assert_array_equal(mixed.x[::2], alone.x)


@every_method
def test_the_global_random_state_is_not_touched(case: Case) -> None:
    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state(legacy=False)["state"]["key"].copy()  # noqa: NPY002
    case.run(starts(1)[0], seed=None)
    np.testing.assert_array_equal(np.random.get_state(legacy=False)["state"]["key"], before)  # noqa: NPY002


def test_an_unseeded_run_tells_its_seed() -> None:
    case = CASES["zoslgh_r"]
    first = case.run(starts(1)[0], seed=None)
    assert_same(first, case.run(starts(1)[0], seed=first.seed))


@pytest.mark.parametrize(("floor", "advised"), [(0.0, True), (0.6, False)])
def test_more_iterations_are_advised_where_they_would_lower_t(floor: float, advised: bool) -> None:
    parameters: dict[str, Any] = {
        "method": "zoslgh_r",
        "t1": 1.0,
        "gamma": 0.95,
        "step": 0.1,
        "max_iter": 20,
        "seed": 0,
    }
    result = slgh.minimize(lambda x: x @ x, [1.0, 1.0], floor=floor, **parameters)
    assert ("more iterations, or a smaller gamma, lower it" in result.message) is advised


def test_no_gamma_is_advised_where_there_is_none() -> None:
    result = slgh.minimize(lambda x: x @ x, [1.0, 1.0], method="spsa", t1=1.0, step=0.1, max_iter=20, seed=0)
    assert result.t < 1.0
    assert "gamma" not in result.message
