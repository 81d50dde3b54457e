"""Shared arrays, unusual numbers and floating-point errors do not change a run."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import Bounds

import slgh
from cases import CASES, Case, fun, grad, noting, starts
from libraries import is_array, parametrize_libraries, to_library, to_numpy
from slgh.backends import backend_of
from slgh.engine.bounds import Box, read_bounds

ZEROTH: dict[str, Any] = {"method": "zoslgh_r", "t1": 0.5, "gamma": 0.9, "step": 0.1, "seed": 1, "max_iter": 20}
FIRST: dict[str, Any] = {**ZEROTH, "method": "slgh_r"}
HUGE = 10**20
WRITES = r"read-only|must not write"

eager_libraries = parametrize_libraries("numpy", "torch")
libraries_on_cpu = parametrize_libraries("numpy", "torch", "jax")
with_and_without_batch = pytest.mark.parametrize("batched", [False, True], ids=["one", "batch"])


def square(x: Any, *extra: Any) -> Any:
    """The sum of squares."""
    return (x**2).sum(-1)


def start(library: str, *, batched: bool) -> Any:
    """Return one start, or two."""
    return to_library(starts(2) if batched else starts(1)[0], library)


def same(result: Any, clean: Any) -> None:
    """Assert that two results are equal bit for bit."""
    for name in ("x", "x_best", "xhat", "fun", "fun_best"):
        np.testing.assert_array_equal(to_numpy(result[name]), to_numpy(clean[name]), err_msg=name)
    for name, column in clean.history.items():
        np.testing.assert_array_equal(result.history[name], column, err_msg=f"history {name}")


class Careless:
    """Closed form that writes into its point."""

    def value(self, x: Any, t: Any) -> Any:
        x -= 1
        return square(x)

    def grad(self, x: Any, t: Any) -> Any:
        x -= 1
        return 2 * x

    def dt(self, x: Any, t: Any) -> Any:
        return 2 * t

    def trace(self, x: Any, t: Any) -> Any:
        return 2.0 + 0 * t


class TestPoints:
    @with_and_without_batch
    @eager_libraries
    def test_a_vectorized_function_that_writes_into_its_points_is_refused(self, library: str, batched: bool) -> None:
        def careless(x: Any) -> Any:
            x -= 1
            return square(x)

        with pytest.raises(ValueError, match=WRITES):
            slgh.minimize(careless, start(library, batched=batched), vectorized=True, batched=batched, **ZEROTH)

    def test_auto_does_not_report_a_point_that_was_written_to(self) -> None:
        """With such a small budget, every value comes from writable views of the points, if there are any."""

        def careless(x: Any) -> Any:
            x -= 1
            return square(x)

        with pytest.raises(ValueError, match="read-only"):
            slgh.minimize(careless, [3.0, 4.0], vectorized=True, seed=0, max_evals=200)

    @with_and_without_batch
    @eager_libraries
    def test_a_vectorized_gradient_that_writes_is_refused(self, library: str, batched: bool) -> None:
        def careless(x: Any) -> Any:
            x *= 2
            return x

        with pytest.raises(ValueError, match=WRITES):
            slgh.minimize(
                square, start(library, batched=batched), grad=careless, vectorized=True, batched=batched, **FIRST
            )

    @with_and_without_batch
    @eager_libraries
    def test_a_closed_form_that_writes_is_refused(self, library: str, batched: bool) -> None:
        with pytest.raises(ValueError, match=WRITES):
            slgh.minimize(Careless(), start(library, batched=batched), batched=batched, **FIRST)

    @pytest.mark.slow
    @pytest.mark.parametrize("method", ["zeroth", "first"])
    @with_and_without_batch
    def test_writing_through_numpy_into_a_tensor_changes_nothing(self, method: str, batched: bool) -> None:
        settings = {"zeroth": ZEROTH, "first": FIRST}[method] | {"history": "x"}

        def sly(wanted: Callable[[Any], Any]) -> Callable[[Any], Any]:
            def call(x: Any) -> Any:
                found = wanted(x).clone()
                x.numpy()[...] = 99
                return found

            return call

        def run(wrap: Callable[[Any], Any]) -> Any:
            gradient = {"grad": wrap(lambda x: 2 * x)} if method == "first" else {}
            x0 = start("torch", batched=batched)
            return slgh.minimize(wrap(square), x0, vectorized=True, batched=batched, **gradient, **settings)

        same(run(sly), run(lambda function: function))

    @pytest.mark.slow
    @pytest.mark.parametrize("vectorized", [False, True], ids=["points", "vectorized"])
    @with_and_without_batch
    def test_tensors_that_are_kept_and_written_to_later_change_nothing(self, vectorized: bool, batched: bool) -> None:
        def run(*, careless: bool) -> Any:
            kept: list[Any] = []

            def gradient(x: Any) -> Any:
                for old in kept:
                    old.mul_(0)
                if careless:
                    kept.append(x)
                return 2 * x

            return slgh.minimize(
                square,
                start("torch", batched=batched),
                grad=gradient,
                vectorized=vectorized,
                batched=batched,
                history="x",
                method="gd",
                step=0.1,
                max_iter=20,
            )

        same(run(careless=True), run(careless=False))

    @pytest.mark.parametrize("vectorized", [False, True], ids=["points", "vectorized"])
    @eager_libraries
    def test_a_function_cannot_write_into_its_data(self, library: str, vectorized: bool) -> None:
        def careless(x: Any, a: Any) -> Any:
            a += 1
            return square(x - a)

        data = to_library(np.ones((2, 4)), library)
        with pytest.raises(ValueError, match=WRITES):
            slgh.minimize(
                careless, start(library, batched=True), data=data, vectorized=vectorized, batched=True, **ZEROTH
            )
        np.testing.assert_array_equal(to_numpy(data), np.ones((2, 4)))

    @eager_libraries
    def test_data_that_change_during_a_run_change_nothing(self, library: str) -> None:
        """The first problem ends at once, and the rows of the other one are then selected again."""

        def run(spoil: Callable[[Any], None]) -> Any:
            data = to_library([[0.0] * 4, [1.0] * 4], library)
            x0 = to_library([[0.0] * 4, [2.0] * 4], library)
            return slgh.minimize(
                lambda x, a: square(x - a),
                x0,
                data=data,
                vectorized=True,
                batched=True,
                target=0.0,
                callback=lambda _: spoil(data),
                **ZEROTH,
            )

        def spoil(data: Any) -> None:
            data[...] = 50

        result = run(spoil)
        assert result.nit[0] < result.nit[1]
        same(result, run(lambda data: None))

    @eager_libraries
    def test_a_vectorized_function_cannot_write_into_its_samples(self, library: str) -> None:
        def careless(x: Any, xi: Any) -> Any:
            xi += 1
            return square(x) + 0 * xi

        with pytest.raises(ValueError, match=WRITES):
            slgh.minimize(
                careless, start(library, batched=False), sample_xi=5, vectorized=True, samples=3, oracle="forward",
                **ZEROTH,
            )  # fmt: skip

    @eager_libraries
    def test_a_point_function_may_write_into_its_samples(self, library: str) -> None:
        def run(shift: float) -> Any:
            def noisy(x: Any, xi: Any) -> Any:
                value = square(x - xi)
                xi += shift
                return value

            return slgh.minimize(
                noisy,
                start(library, batched=False),
                sample_xi=lambda rng, n: rng.standard_normal((n, 4)),
                samples=3,
                **ZEROTH,
            )

        same(run(7.0), run(0.0))

    def test_bounds_that_change_during_a_run_change_nothing(self) -> None:
        def run(spoil: float) -> Any:
            low, high = np.full(4, -3.0), np.full(4, 3.0)

            def moved(x: Any) -> Any:
                low[:] -= spoil
                high[:] += spoil
                return square(x - 5)

            return slgh.minimize(moved, starts(1)[0], bounds=Bounds(low, high), **ZEROTH | {"step": 1.0})

        same(run(1.0), run(0.0))


class TestResults:
    @pytest.mark.parametrize("method", ["zoslgh_r", "slgh_r", "scale_free", "auto"])
    @with_and_without_batch
    @eager_libraries
    def test_a_callback_that_writes_changes_nothing(self, library: str, batched: bool, method: str) -> None:
        settings: dict[str, Any] = {"max_evals": 200, "seed": 1, "history": "x"}
        if method in ("zoslgh_r", "slgh_r"):
            settings |= {"t1": 0.5, "step": 0.1}

        def spoil(result: Any) -> None:
            for value in result.values():
                if is_array(value):
                    value[...] = 7

        def run(callback: Callable[[Any], None]) -> Any:
            return slgh.minimize(
                fun,
                start(library, batched=batched),
                method=method,
                grad=grad,
                vectorized=True,
                batched=batched,
                bounds=[(-4, 4)] * 4,
                callback=callback,
                **settings,
            )

        same(run(spoil), run(lambda result: None))

    @pytest.mark.parametrize("stochastic", [False, True], ids=["exact", "stochastic"])
    @with_and_without_batch
    @eager_libraries
    def test_writing_into_what_an_optimizer_gives_changes_nothing(
        self, library: str, batched: bool, stochastic: bool
    ) -> None:
        def run(*, careless: bool) -> Any:
            noise: dict[str, Any] = {"sample_xi": lambda rng, n: rng.standard_normal((n, 4))} if stochastic else {}
            opt = slgh.Optimizer(start(library, batched=batched), batched=batched, history="x", **noise, **ZEROTH)
            while not opt.stop():
                points, xi = opt.ask(), opt.xi
                values = square(points if xi is None else points - xi)
                opt_points = opt.ask()
                if careless:
                    for mine in (points, xi, opt.active, opt.result.x, opt.result.fun, opt.result.t):
                        if is_array(mine):
                            mine[...] = 7
                opt.tell(opt_points, values)
            return opt.result

        same(run(careless=True), run(careless=False))

    @pytest.mark.parametrize("method", ["zoslgh_r", "auto"])
    @with_and_without_batch
    @eager_libraries
    def test_the_arrays_of_a_result_share_no_memory(self, library: str, batched: bool, method: str) -> None:
        settings: dict[str, Any] = {"t1": 0.5, "step": 0.1} if method == "zoslgh_r" else {}
        noises: list[dict[str, Any]] = [{}, {"sample_xi": 5}]
        for noise in noises:
            result = slgh.minimize(
                square,
                start(library, batched=batched),
                method=method,
                vectorized=True,
                batched=batched,
                history="x",
                max_evals=200,
                seed=0,
                **noise,
                **settings,
            )
            arrays = {name: a for name, a in result.items() if is_array(a)}
            arrays |= {f"history {name}": a for name, a in result.history.items()}
            for (one, a), (other, b) in itertools.combinations(arrays.items(), 2):
                assert not np.shares_memory(to_numpy(a), to_numpy(b)), (one, other)


def large(x: Any, *extra: Any) -> Any:
    """Double-precision numbers that single precision cannot represent, for a float32 run."""
    return 1e39 * fun(x, *extra).astype(np.float64)


def large_grad(x: Any, *extra: Any) -> Any:
    return 1e39 * grad(x, *extra).astype(np.float64)


class TestFloatingPointErrors:
    @pytest.mark.parametrize("size", [1e-300, 1e-30, 1.0, 1e30], ids=["tiny", "small", "one", "large"])
    @pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
    def test_no_method_raises_one_of_its_own(self, case: Case, size: float) -> None:
        def scaled(x: Any, *extra: Any) -> Any:
            with np.errstate(all="ignore"):
                return size * fun(x, *extra).astype(np.float64)

        def slope(x: Any, *extra: Any) -> Any:
            with np.errstate(all="ignore"):
                return size * grad(x, *extra).astype(np.float64)

        options: dict[str, Any] = {"grad": slope} if case.first_order else {}
        for vectorized in (False, True):
            with np.errstate(all="raise"):
                case.run(starts(1)[0].astype(np.float32), fun=scaled, vectorized=vectorized, max_iter=15, **options)

    @pytest.mark.parametrize("vectorized", [False, True], ids=["points", "vectorized"])
    @pytest.mark.parametrize("mode", ["raise", "warn"])
    @pytest.mark.parametrize("method", ["zoslgh_r", "slgh_r", "scale_free", "auto"])
    def test_values_too_large_for_the_dtype_are_infinite(self, method: str, mode: Any, vectorized: bool) -> None:
        settings: dict[str, Any] = {"t1": 0.5, "step": 0.1} if method in ("zoslgh_r", "slgh_r") else {}
        with np.errstate(all=mode), warnings.catch_warnings():
            warnings.simplefilter("error")
            result = slgh.minimize(
                large,
                np.ones(4, np.float32),
                method=method,
                grad=large_grad,
                vectorized=vectorized,
                max_evals=100,
                seed=0,
                **settings,
            )
        assert result.status == slgh.Status.NONFINITE

    def test_told_values_too_large_for_the_dtype_are_infinite(self) -> None:
        with np.errstate(all="raise"):
            opt = slgh.Optimizer(np.ones(2, np.float32), bounds=[(-1e300, 1e300)] * 2, max_evals=40, seed=0)
            while not opt.stop():
                opt.tell(opt.ask(), [1e300] * len(opt.ask()))
                assert opt.result.x.dtype == np.float32
        assert not opt.result.success

    @pytest.mark.slow
    @pytest.mark.parametrize("x64", [False, True], ids=["x32", "x64"])
    def test_numbers_outside_the_range_of_the_dtype_on_jax(self, x64: bool) -> None:
        jax = pytest.importorskip("jax")
        before = jax.config.jax_enable_x64
        jax.config.update("jax_enable_x64", x64)
        try:
            with np.errstate(all="raise"):
                result = slgh.minimize(
                    square,
                    to_library(np.ones(3, np.float32), "jax"),
                    vectorized=True,
                    target=-1e300,
                    **ZEROTH | {"step": 1e-300},
                )
        finally:
            jax.config.update("jax_enable_x64", before)
        np.testing.assert_array_equal(result.x, np.ones(3))

    def test_the_users_code_runs_under_the_users_settings(self) -> None:
        seen = []

        def note(*args: Any) -> None:
            seen.append(np.geterr())

        def sample(rng: Any, n: int) -> Any:
            note()
            return rng.standard_normal(n)

        mine: Any = {"divide": "raise", "over": "warn", "under": "warn", "invalid": "raise"}
        with np.errstate(**mine):
            slgh.minimize(
                noting(note, square), np.ones(3), sample_xi=sample, callback=note, **ZEROTH
            )  # fmt: skip
            assert np.geterr() == mine
        assert all(settings == mine for settings in seen)

    def test_an_optimizers_callback_runs_under_the_users_settings(self) -> None:
        seen = []
        with np.errstate(all="raise"):
            opt = slgh.Optimizer(np.ones(3), callback=lambda result: seen.append(np.geterr()), **ZEROTH)
            while not opt.stop():
                points = opt.ask()
                opt.tell(points, square(points))
        assert seen
        assert all(set(settings.values()) == {"raise"} for settings in seen)


class TestNumbers:
    @pytest.mark.parametrize("limit", [{"max_evals": HUGE}, {"max_iter": 2**70}, {"max_evals": 10**400}], ids=str)
    @pytest.mark.parametrize(
        "method", ["auto", "scale_free", "zoslgh_r", "zoslgh_r by theory", "scale_free stochastic"]
    )
    @eager_libraries
    def test_a_huge_limit_is_never_reached(self, library: str, method: str, limit: Any) -> None:
        params: dict[str, Any] = CASES[method].params if method in CASES else {}
        noise: dict[str, Any] = {"sample_xi": 7} if "stochastic" in method else {}
        calls = itertools.count(1)
        result = slgh.minimize(
            fun,
            start(library, batched=False),
            method=method.split()[0],
            vectorized=True,
            callback=lambda _: next(calls) >= 4,
            seed=10**30,
            history=10**30,
            **noise,
            **params,
            **limit,
        )
        assert result.status == slgh.Status.CALLBACK
        assert result.nit == 4

    @pytest.mark.slow
    @pytest.mark.parametrize("method", ["scale_free stochastic", "zoslgh_r by theory"])
    def test_a_huge_limit_in_a_compiled_loop(self, method: str) -> None:
        case = CASES[method]
        result = case.run(to_library(np.ones(4), "jax"), max_iter=None, max_evals=HUGE, max_seconds=0.2)
        assert result.engine == "jax while_loop"
        assert result.status == slgh.Status.MAX_SECONDS

    def test_a_run_with_a_huge_limit_continues_from_its_checkpoint(self, tmp_path: Any) -> None:
        def run(calls: int) -> Any:
            count = itertools.count(1)
            return slgh.minimize(
                fun,
                np.ones(4),
                max_evals=HUGE,
                seed=10**30,
                callback=lambda _: next(count) >= calls,
                checkpoint=slgh.Checkpoint(path=tmp_path / "run.npz", every_iterations=10**25),
            )

        assert (run(2).nit, run(3).nit) == (2, 5)

    def test_too_many_samples_are_an_error_that_says_so(self) -> None:
        with pytest.raises(ValueError, match=r"`samples` must be an integer <= "):
            slgh.minimize(fun, np.ones(4), **ZEROTH, samples=HUGE)
        with pytest.raises(ValueError, match=r"`sample_xi` must be an integer <= "):
            slgh.minimize(fun, np.ones(4), **ZEROTH, sample_xi=HUGE)

    @pytest.mark.parametrize("name", ["max_seconds", "target"])
    def test_integers_too_large_for_a_float_are_not_finite(self, name: str) -> None:
        with pytest.raises(ValueError, match=f"`{name}` must be a finite number"):
            slgh.minimize(fun, np.ones(4), **cast(dict[str, Any], {name: 10**400}))

    @pytest.mark.parametrize("offset", [HUGE, Fraction(HUGE), Decimal(HUGE)], ids=lambda number: type(number).__name__)
    @libraries_on_cpu
    def test_a_function_may_return_any_real_number(self, library: str, offset: Any) -> None:
        def exact(x: Any) -> Any:
            return offset + int(1e18 * float(square(x)))

        def rounded(x: Any) -> float:
            return float(exact(x))

        x0 = to_library(np.ones(3), library)
        same(*(slgh.minimize(f, x0, compiled=False, **ZEROTH) for f in (exact, rounded)))

    def test_a_vectorized_function_may_return_large_integers(self) -> None:
        def exact(x: Any) -> Any:
            return [HUGE + int(1e18 * one) for one in square(x)]

        def rounded(x: Any) -> Any:
            return np.array([float(one) for one in exact(x)])

        same(*(slgh.minimize(f, np.ones(3), vectorized=True, **ZEROTH) for f in (exact, rounded)))

    def test_an_integer_too_large_for_a_float_is_infinite(self) -> None:
        result = slgh.minimize(lambda x: 10**400 if x[0] > 1 else -(10**400), np.ones(3), **ZEROTH)
        assert result.status == slgh.Status.NONFINITE

    def test_large_integers_can_be_told(self) -> None:
        opt = slgh.Optimizer(np.ones(2), **ZEROTH)
        points = opt.ask()
        opt.tell(points, [HUGE, *range(1, len(points))])
        assert opt.result.fun == 1.0

    @pytest.mark.parametrize("returned", [None, "1.0", 1j, [1.0, None], object()], ids=lambda one: type(one).__name__)
    def test_what_is_no_number_is_still_refused(self, returned: Any) -> None:
        with pytest.raises((TypeError, ValueError), match="`fun` must return"):
            slgh.minimize(lambda x: returned, np.ones(2), **ZEROTH)

    @pytest.mark.parametrize("vectorized", [False, True], ids=["points", "vectorized"])
    @libraries_on_cpu
    def test_a_masked_value_is_a_missing_one(self, library: str, vectorized: bool) -> None:
        def run(*, masked: bool) -> Any:
            def known(x: Any) -> Any:
                x = to_numpy(x)
                values, missing = 1 + square(x), x[..., 0] > 1
                if masked:
                    found = np.ma.array(values, mask=missing)
                    return found if vectorized else found[()]
                return np.where(missing, np.nan, values)

            return slgh.minimize(
                known, to_library(np.ones(3), library), vectorized=vectorized, compiled=False, **ZEROTH
            )

        result = run(masked=True)
        assert result.nrejected > 0
        same(result, run(masked=False))

    def test_masked_values_and_gradients_are_missing_in_lists_too(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            opt = slgh.Optimizer(np.ones(2), **ZEROTH)
            points = opt.ask()
            opt.tell(points, [np.ma.masked, *range(1, len(points))])
        assert opt.result.fun == 1.0

    def test_masked_and_infinite_starts_are_refused(self) -> None:
        for x0 in (np.ma.array([1.0, 2.0], mask=[False, True]), [1.0, 10**400]):
            with pytest.raises(ValueError, match="`x0` must be finite"):
                slgh.minimize(fun, x0, **ZEROTH)
        assert slgh.minimize(square, [HUGE, 1], **ZEROTH).x.dtype == np.float64


WILD = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, 5e-324, -5e-324, 1.0, np.nextafter(1.0, 2.0), 1.7e308, -1.7e308, 1.797e308, 3e38, -3e38]),
)
SIDES = st.tuples(st.one_of(WILD, st.none()), st.one_of(WILD, st.none())).map(
    lambda pair: tuple(sorted(pair)) if None not in pair else pair
)
ANYWHERE = st.one_of(WILD, st.sampled_from([float("inf"), float("-inf"), float("nan")]))


class TestBounds:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
    @libraries_on_cpu
    @given(pairs=st.lists(SIDES, min_size=3, max_size=3), x=ANYWHERE)
    def test_reflection_is_finite_and_inside(self, library: str, dtype: Any, pairs: Any, x: float) -> None:
        box = read_bounds(pairs, len(pairs), dtype)
        assume(box is not None and not np.isinf(np.maximum(box.low, -box.high)).any())
        assert box is not None
        native = Box(*(None if side is None else to_library(side, library) for side in box))
        with np.errstate(all="ignore"):
            start = to_library(np.full((1, len(pairs)), x, dtype), library)
            found, sign = native.reflect(start, backend_of(start).xp)
        point = np.asarray(found)[0]
        assert np.isfinite(point).all()
        slack = np.finfo(dtype).tiny if library == "jax" else 0  # XLA flushes subnormal numbers to 0
        assert ((point >= box.low - slack) & (point <= box.high + slack)).all()
        assert np.isin(np.asarray(sign), [-1, 0, 1]).all()

    @given(low=st.floats(-1, -0.5), high=st.floats(0.5, 1), x=st.floats(-1.99, 1.99))
    def test_a_wide_box_reflects_as_a_small_one(self, low: float, high: float, x: float) -> None:
        unit = 2.0**1023
        small, wide = (read_bounds([(low * scale, high * scale)], 1, np.float64) for scale in (1.0, unit))
        assert small is not None
        assert wide is not None
        assert (small.scale, wide.scale) == (None, [0.25])
        with np.errstate(all="ignore"):
            expected, found = small.reflect(np.array([[x]]), np), wide.reflect(np.array([[x * unit]]), np)
        np.testing.assert_array_equal(found[0], expected[0] * unit)
        np.testing.assert_array_equal(found[1], expected[1])

    @pytest.mark.parametrize("mode", ["raise", "warn"])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
    @pytest.mark.parametrize(
        "pair",
        [(-1.7e308, 1.7e308), (-3.3e38, 3.3e38), (0.0, 5e-324), (0.0, 1e-45), (1.0, 1 + 2.3e-16), (1.0, 1 + 1.2e-7)],
        ids=str,
    )
    @pytest.mark.parametrize("method", ["auto", "scale_free", "zoslgh_r", "slgh_r", "gd"])
    def test_points_of_any_box_are_finite_and_inside(self, method: str, pair: Any, dtype: Any, mode: Any) -> None:
        low, high = (np.float64(side) for side in pair)
        with np.errstate(all="ignore"):
            low, high = low.astype(dtype), high.astype(dtype)
        settings: dict[str, Any] = {} if method in ("auto", "scale_free") else {"step": 0.1}
        if method in ("zoslgh_r", "slgh_r"):
            settings["t1"] = 0.5

        def checked(x: Any) -> Any:
            assert np.isfinite(x).all()
            assert ((x >= low) & (x <= high)).all()
            return np.tanh(x).sum(-1)

        def slope(x: Any) -> Any:
            checked(x)
            with np.errstate(all="ignore"):
                return 1 - np.tanh(x) ** 2

        x0 = np.full(3, low if np.isfinite(low) else 0.0, dtype)
        gradient: dict[str, Any] = {"grad": slope} if method in ("slgh_r", "gd") else {}
        with np.errstate(all=mode), warnings.catch_warnings():
            warnings.simplefilter("error")
            result = slgh.minimize(
                checked, x0, method=method, bounds=[pair] * 3, max_evals=300, vectorized=True, seed=0, **gradient,
                **settings,
            )  # fmt: skip
        for name in ("x", "x_best", "xhat"):
            assert np.isfinite(result[name]).all()
            assert ((result[name] >= low) & (result[name] <= high)).all()

    @pytest.mark.slow
    def test_the_values_of_wide_bounds_are_used_by_every_library(self) -> None:
        results = [
            slgh.minimize(
                lambda x: -(x / 1e308).sum(-1),
                to_library(np.zeros(2), library),
                method="zoslgh_r",
                t1=1e308,
                step=1e305,
                samples=5,
                bounds=[(-1.7e308, 1.7e308)] * 2,
                vectorized=True,
                compiled=False,
                max_iter=20,
                seed=0,
            )
            for library in ("numpy", "torch")
        ]
        assert results[0].fun_best < -2
        np.testing.assert_allclose(to_numpy(results[1].x_best), results[0].x_best, rtol=1e-12)
