"""The same methods and the same numbers on NumPy, PyTorch and JAX, each in its native loop."""

from __future__ import annotations

import dataclasses
import os
import signal
import threading
import time
from typing import Any, ClassVar

import numpy as np
import pytest
from array_api_compat import array_namespace, device

import slgh
from cases import CASES, Case, every_method, fun, grad, starts
from libraries import assert_close, engine, every_library, other_libraries, replay_noise, to_library, to_numpy

SOME = [
    CASES[name]
    for name in (
        "zoslgh_d+v",
        "slgh_d",
        "scale_free",
        "zosvrg",
        "zogradopt",
        "openai_es",
        "power_gs",
        "scale_free stochastic",
    )
]
some_methods = pytest.mark.parametrize("case", SOME, ids=lambda case: case.method + " stochastic" * case.stochastic)


FLOOR = 0.05
"""Far above rounding: at the default floor, a difference of f has only eight digits, which differ between libraries."""


def compare(monkeypatch: Any, case: Case, library: str, x0: Any, **options: Any) -> slgh.Result:
    """Compare a run of a library with one of NumPy with the same noise."""
    results = []
    for one in ("numpy", library):
        with monkeypatch.context() as patch:
            replay_noise(patch, one)
            floor = {} if "noise" in case.params else {"floor": FLOOR}
            results.append(case.run(to_library(x0, one), **{"batched": True, "history": "x", **floor, **options}))
    assert results[1].engine == engine(library), results[1].message
    assert_close(results[1], results[0])
    return results[1]


@other_libraries
@every_method
def test_every_method_gives_the_numbers_of_numpy_in_its_native_loop(case: Case, library: str, monkeypatch: Any) -> None:
    compare(monkeypatch, case, library, starts(3))


@other_libraries
@some_methods
@pytest.mark.parametrize(
    "options",
    [
        {"bounds": [(-1.9, 1.9)] * 3 + [(None, 2.0)]},
        {"max_evals": 101},
        {"history": 4, "max_iter": 41},
        {"on_nonfinite": "penalize"},
    ],
    ids=lambda options: next(iter(options)),
)
def test_options_act_as_on_numpy(case: Case, library: str, options: dict[str, Any], monkeypatch: Any) -> None:
    compare(monkeypatch, case, library, starts(3), **options)


@other_libraries
def test_a_snapshot_in_every_iteration_acts_as_on_numpy(library: str, monkeypatch: Any) -> None:
    compare(monkeypatch, CASES["zosvrg"], library, starts(3), period=1)


@other_libraries
@some_methods
def test_problems_end_at_the_target_as_on_numpy(case: Case, library: str, monkeypatch: Any) -> None:
    result = compare(monkeypatch, case, library, starts(6), target=1.0 if case.stochastic else 0.5)
    ended = result.status == slgh.Status.TARGET
    assert ended.any()
    assert len(set(result.nit[ended])) > 1, "the test is meaningful only if problems end at different iterations"


def cliff(x: Any, *extra: Any) -> Any:
    """NaN far out, and in a strip."""
    xp = array_namespace(x)
    bad = xp.any(x > 50, axis=-1) | ((x[..., 0] > 0.3) & (x[..., 0] < 0.5))
    return xp.where(bad, xp.nan, fun(x, *extra))


@other_libraries
@some_methods
def test_bad_values_act_as_on_numpy(case: Case, library: str, monkeypatch: Any) -> None:
    x0 = starts(4)
    x0[1] += 100.0
    options = {"grad": grad} if case.first_order else {}
    result = compare(monkeypatch, case, library, x0, fun=cliff, max_evals=400, **options)
    assert result.status[1] == slgh.Status.NONFINITE
    assert result.nrejected.sum() > 0


@other_libraries
def test_the_callback_sees_and_stops_as_on_numpy(library: str, monkeypatch: Any) -> None:
    rows: list[list[Any]] = []

    def callback(result: slgh.Result) -> bool:
        rows.append([result.nit, result.nfev, *map(to_numpy, (result.x, result.fun, result.t, result.fun_best))])
        return bool(result.nit == 17)

    result = compare(monkeypatch, CASES["zoslgh_d"], library, starts(2), callback=callback)
    assert (result.status == slgh.Status.CALLBACK).all()
    assert len(rows) == 34
    for one, other in zip(rows[17:], rows[:17], strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)


def shifted(x: Any, a: Any, xi: Any, scale: Any) -> Any:
    """Function with data, xi and an argument."""
    return scale * ((x - a) ** 2).sum(axis=-1) + 0.125 * xi


@other_libraries
@pytest.mark.parametrize("vectorized", [True, False])
def test_data_xi_and_args_arrive_as_on_numpy(library: str, vectorized: bool, monkeypatch: Any) -> None:
    a = np.arange(12.0).reshape(3, 4) / 10
    options = {"sample_xi": 5, "vectorized": vectorized, "target": -10.0}
    for scale in (1.0, np.array(2.0)):
        results = []
        for one in ("numpy", library):
            with monkeypatch.context() as patch:
                replay_noise(patch, one)
                args = (scale if isinstance(scale, float) else to_library(scale, one),)
                x0, data = to_library(starts(3), one), to_library(a, one)
                results.append(CASES["zoslgh_r"].run(x0, shifted, batched=True, data=data, args=args, **options))
        assert_close(results[1], results[0])
        assert results[1].engine == engine(library), results[1].message


@every_library
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dtype_and_device_are_kept(library: str, dtype: str) -> None:
    for batched in (True, False):
        x0 = to_library(starts(2, dtype) if batched else starts(1, dtype)[0], library)
        result = CASES["zoslgh_d"].run(x0, batched=batched)
        assert result.engine == engine(library)
        for name in ("x", "x_best", "xhat") + (("fun", "t", "fun_best") if batched else ()):
            assert type(result[name]) is type(x0), name
            assert result[name].dtype == x0.dtype, name
            assert device(result[name]) == device(x0), name
        assert batched or type(result.fun) is float


@other_libraries
def test_problems_in_a_batch_equal_single_runs(library: str) -> None:
    seeds = [3, 1, 4]
    for name in ("zoslgh_d", "zoslgh_r stochastic"):
        case = CASES[name]
        together = case.run(to_library(starts(3), library), batched=True, floor=FLOOR, seed=seeds)
        for b, seed in enumerate(seeds):
            alone = case.run(to_library(starts(3)[b], library), floor=FLOOR, seed=seed)
            np.testing.assert_allclose(to_numpy(together.x[b]), to_numpy(alone.x), rtol=1e-12, atol=1e-14)


@other_libraries
def test_the_same_seed_gives_the_same_run_and_another_one_does_not(library: str) -> None:
    x0, case = to_library(starts(2), library), CASES["zoslgh_d"]
    one, same, other = (to_numpy(case.run(x0, batched=True, seed=seed).x) for seed in (7, 7, 8))
    np.testing.assert_array_equal(one, same)
    assert not np.allclose(one, other)
    assert not np.allclose(one[0], one[1])


@other_libraries
@pytest.mark.parametrize("name", ["zoslgh_d", "zoslgh_r stochastic", "zosvrg"])
def test_a_resumed_run_equals_the_uninterrupted_one(library: str, name: str, tmp_path: Any) -> None:
    case, x0 = CASES[name], to_library(starts(4), library)
    target = float(np.median(to_numpy(case.run(x0, max_iter=13, batched=True).fun_best)))
    options: dict[str, Any] = {"batched": True, "target": target, "history": "x"}
    whole = case.run(x0, max_iter=41, **options)
    file = tmp_path / "run.npz"
    part = case.run(x0, max_iter=13, checkpoint=file, **options)
    assert 0 < (part.status == slgh.Status.TARGET).sum() < 4
    resumed = case.run(x0, max_iter=41, checkpoint=file, **options)
    assert resumed.engine == engine(library)
    for key in ("x", "fun", "x_best", "fun_best", "t", "nit", "nfev", "status"):
        np.testing.assert_array_equal(to_numpy(resumed[key]), to_numpy(whole[key]), err_msg=key)
    for key, column in whole.history.items():
        np.testing.assert_array_equal(resumed.history[key], column, err_msg=key)


@pytest.mark.slow
def test_a_checkpoint_of_another_library_is_refused(tmp_path: Any) -> None:
    CASES["zoslgh_r"].run(starts(1)[0], checkpoint=tmp_path / "run.npz")
    with pytest.raises(ValueError, match="its arrays is 'numpy float64', here it is 'jax float64'"):
        CASES["zoslgh_r"].run(to_library(starts(1)[0], "jax"), checkpoint=tmp_path / "run.npz")


@other_libraries
@pytest.mark.parametrize("stochastic", [False, True])
@pytest.mark.parametrize("method", ["slgh_r", "slgh_d", "gradopt", "gd"])
def test_gradients_come_from_autograd(library: str, method: str, stochastic: bool, monkeypatch: Any) -> None:
    params = {"step": 0.02, "samples": 3}
    params |= {} if method == "gd" else {"t1": 0.5}
    params |= {"eta": 0.01} if method == "slgh_d" else {}
    case = Case(params, lambda k: 0, method, stochastic, first_order=True)
    for vectorized in (True, False):
        result = compare(monkeypatch, case, library, starts(2), vectorized=vectorized)
        assert (result.njev > 0).all()


@other_libraries
def test_ask_and_tell_hand_out_arrays_of_the_library(library: str) -> None:
    x0 = to_library(starts(1)[0], library)
    opt = slgh.Optimizer(x0, method="zoslgh_r", t1=0.5, step=0.02, samples=3, max_iter=20, seed=5)
    while not opt.stop():
        points = opt.ask()
        assert type(points) is type(x0)
        opt.tell(points, [fun(p) for p in points])
    direct = CASES["zoslgh_r"].run(x0, max_iter=20, gamma=0.999, vectorized=False, compiled=False)
    np.testing.assert_array_equal(to_numpy(opt.result.x), to_numpy(direct.x))
    assert opt.result.engine == direct.engine


@every_library
def test_the_python_loop_is_there_for_the_asking(library: str) -> None:
    loops = {"numpy": "numpy", "torch": "torch eager", "jax": "jax python loop", "cuda": "torch eager"}
    x0 = to_library(starts(2), library)
    python = CASES["zoslgh_d"].run(x0, batched=True, floor=FLOOR, compiled=False)
    native = CASES["zoslgh_d"].run(x0, batched=True, floor=FLOOR)
    assert python.engine == loops[library]
    np.testing.assert_allclose(to_numpy(python.x), to_numpy(native.x), rtol=1e-12)


def test_a_compiled_loop_that_cannot_be_is_an_error_if_demanded() -> None:
    with pytest.raises(ValueError, match="not possible here: numpy arrays have no compiled loop"):
        CASES["zoslgh_d"].run(starts(1)[0], compiled=True)


@every_library
def test_ctrl_c_ends_a_run_in_good_order(library: str, tmp_path: Any) -> None:
    case, x0 = CASES["zoslgh_d"], to_library(starts(3), library)
    options: dict[str, Any] = {"batched": True, "history": 0}
    case.run(x0, max_iter=5, **options)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    result = case.run(x0, max_iter=10**7, checkpoint=tmp_path / "run", **options)
    timer.join()
    assert (result.status == slgh.Status.INTERRUPTED).all()
    assert np.isfinite(to_numpy(result.fun)).all()
    n = int(result.nit[0]) + 50
    again = case.run(x0, max_iter=n, checkpoint=tmp_path / "run", **options)
    straight = case.run(x0, max_iter=n, **options)
    assert again.engine == straight.engine == engine(library)
    for name in ("x", "fun", "t", "nit", "nfev", "x_best"):
        np.testing.assert_array_equal(to_numpy(again[name]), to_numpy(straight[name]), err_msg=name)


@every_library
def test_max_seconds_is_kept(library: str) -> None:
    x0 = to_library(starts(1)[0], library)
    CASES["zoslgh_d"].run(x0, max_iter=5)
    result = CASES["zoslgh_d"].run(x0, max_iter=10**7, max_seconds=0.3, progress=True)
    assert result.status == slgh.Status.MAX_SECONDS
    started = time.monotonic()
    CASES["zoslgh_d"].run(x0, max_iter=10**7, max_seconds=0.3)
    assert time.monotonic() - started < 3


def spoilt_below_one(x: Any) -> Any:
    """NaN in a region that runs reach after a few iterations."""
    xp = array_namespace(x)
    return xp.where(fun(x) < 1.0, xp.nan, fun(x))


@every_library
def test_a_run_that_meets_bad_values_in_mid_block_is_resumed_bit_for_bit(library: str, tmp_path: Any) -> None:
    case, x0 = CASES["zoslgh_r"], to_library(starts(4), library)
    options: dict[str, Any] = {"batched": True, "history": "x"}
    whole = case.run(x0, spoilt_below_one, max_iter=90, **options)
    assert whole.nrejected.min() > 0
    for n in (3, 20, 40):
        file = tmp_path / f"run{n}"
        case.run(x0, spoilt_below_one, max_iter=n, checkpoint=file, **options)
        resumed = case.run(x0, spoilt_below_one, max_iter=90, checkpoint=file, **options)
        for name in ("x", "fun", "x_best", "t", "nit", "nfev", "status", "nrejected"):
            np.testing.assert_array_equal(to_numpy(resumed[name]), to_numpy(whole[name]), err_msg=name)
        np.testing.assert_array_equal(resumed.history["x"], whole.history["x"])


@other_libraries
def test_a_stochastic_result_does_not_depend_on_the_rest_of_the_batch(library: str) -> None:
    case, seeds = CASES["zoslgh_r stochastic"], [3, 1, 4]
    x0, target = to_library(starts(3), library), 2.0
    together = case.run(x0, batched=True, floor=FLOOR, seed=seeds, target=target)
    assert len(set(together.nit)) > 1
    for b, seed in enumerate(seeds):
        alone = case.run(x0[b], floor=FLOOR, seed=seed, target=target)
        np.testing.assert_allclose(
            [together.fun[b].item(), together.fun_se[b].item()], [alone.fun, alone.fun_se], 1e-10
        )


@other_libraries
def test_data_follows_its_problem_when_others_have_ended(library: str, monkeypatch: Any) -> None:
    a = np.arange(12.0).reshape(3, 4) / 10
    bowl = lambda x, a: ((x - a) ** 2).sum(axis=-1)  # noqa: E731
    for compiled in (None, False):
        results = []
        for one in ("numpy", library):
            with monkeypatch.context() as patch:
                replay_noise(patch, one)
                given = {
                    "data": to_library(a, one),
                    "target": 3.0,
                    "batched": True,
                    "floor": FLOOR,
                    "compiled": compiled,
                }
                results.append(CASES["zoslgh_r"].run(to_library(starts(3), one), bowl, **given))
        assert len(set(results[0].nit)) > 1
        assert_close(results[1], results[0])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Straight:
    """User's own schedule that reads the planned number of iterations: t decreases linearly over them."""

    name: ClassVar[str] = "straight"
    planned: ClassVar[bool] = True
    needs: ClassVar[frozenset[str]] = frozenset()
    t1: float
    iterations: int | None = None

    def init(self, t: Any, floor: Any, xp: Any) -> Any:
        return ()

    def next(self, t: Any, seen: Any, state: Any, floor: Any, xp: Any) -> Any:
        assert self.iterations is not None
        return xp.maximum(0.01, t - self.t1 / self.iterations), state


@other_libraries
def test_a_planned_schedule_of_ones_own_runs(library: str, monkeypatch: Any) -> None:
    case = Case({"t1": 1, "step": 0.02, "samples": 3, "schedule": Straight}, lambda k: 4, "zoslgh_r")
    compare(monkeypatch, case, library, starts(2))


@other_libraries
def test_what_fun_returns_is_copied(library: str) -> None:
    buffer: dict[int, Any] = {}

    def reusing(x: Any, xi: Any) -> Any:
        values = to_numpy(fun(x, xi))
        kept = buffer.setdefault(values.size, np.zeros(values.shape))
        kept[...] = values
        return kept

    case, x0 = CASES["zosvrg"], to_library(starts(2), library)
    one = case.run(x0, reusing, batched=True, compiled=False)
    other = case.run(x0, lambda x, xi: reusing(x, xi).copy(), batched=True, compiled=False)
    np.testing.assert_array_equal(to_numpy(one.x), to_numpy(other.x))
