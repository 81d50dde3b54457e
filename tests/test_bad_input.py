"""Bad input is refused at the start by an error that names the argument, the rule and the value. One test per row."""

from __future__ import annotations

from typing import Any, cast

import array_api_strict
import numpy as np
import pytest

import slgh
from cases import fun

GOOD: dict[str, Any] = {"method": "zoslgh_r", "t1": 1.0, "step": 0.1, "max_iter": 3, "seed": 0}


@pytest.mark.parametrize(
    ("x0", "options", "match"),
    [
        (
            np.ones((2, 3)),
            {},
            r"`x0` must have shape \(d,\), got \(2, 3\). For several starts at once pass batched=True",
        ),
        (np.ones(3), {"batched": True}, r"`x0` must have shape \(B, d\) with batched=True, got \(3,\)"),
        ([], {}, "at least one variable"),
        (np.ones((0, 3)), {"batched": True}, "at least one variable and one problem"),
        ([1.0, float("nan")], {}, "`x0` must be finite, got nan"),
        ([1.0, float("inf")], {}, "`x0` must be finite, got inf"),
        ([1.0 + 2j], {}, "`x0` must be real, of dtype float32 or float64; got dtype complex128"),
        (np.ones(2, np.float16), {}, "float32 or float64; got dtype float16"),
        (["a", "b"], {}, "`x0` must be real"),
        ([[1.0], [2.0, 3.0]], {}, "`x0` must be an array of numbers"),
        (None, {}, "`x0` must be given if there are no bounds. Pass an array"),
        (None, {"bounds": [(0, None)] * 2}, "`x0` must be given unless all bounds are finite. Pass"),
        (None, {"bounds": [(None, None)] * 2}, "`x0` must be given unless all bounds are finite. Pass"),
        (None, {"bounds": 5}, "`bounds` must be a scipy.optimize.Bounds or one pair"),
        (None, {"bounds": [(0, 1)], "batched": True}, "`x0` must be given with batched=True. Pass"),
        (slgh.Result(fun=1.0), {}, "`x0` is a result without `x`. Pass"),
    ],
)
def test_wrong_x0(x0: Any, options: dict[str, Any], match: str) -> None:
    with pytest.raises((ValueError, TypeError), match=match):
        slgh.minimize(fun, x0, **GOOD | options)


def test_other_libraries_arrays_are_named() -> None:
    with pytest.raises(TypeError, match=r"`x0` must be a NumPy, PyTorch or JAX array .*, got Array; convert it"):
        slgh.minimize(fun, array_api_strict.asarray([1.0]), **GOOD)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"gamma": 1.5}, r"`gamma` must lie in \(0, 1\), got gamma=1.5"),
        ({"gamma": 0}, r"`gamma` must lie in \(0, 1\), got gamma=0"),
        ({"gamma": "fast"}, "`gamma` must be a real number, got gamma='fast'"),
        ({"t1": 0.0}, "`t1` must be a finite number above 0, got t1=0.0"),
        ({"t1": float("nan")}, "`t1` must be a finite number above 0, got t1=nan"),
        ({"step": -1}, "`step` must be a finite number above 0"),
        ({"step": True}, "`step` must be a real number, got step=True"),
        ({"samples": 0}, "`samples` must be an integer >= 1, got samples=0"),
        ({"samples": 2.0}, "`samples` must be an integer, got samples=2.0"),
        ({"floor": -1}, "`floor` must be a finite number >= 0"),
        ({"noise": -1}, "`noise` must be a finite number >= 0"),
        ({"noise": 0.1, "floor": 0.1}, "pass one of `noise` and `floor`"),
        ({"seed": -1}, "`seed` must be an integer >= 0, got seed=-1"),
        ({"seed": "x"}, "`seed` must be an integer, got seed='x'"),
        ({"seed": [1, 2]}, r"`seed` must be an integer, or one integer per problem \(expected 1\); got 2"),
        ({"history": -5}, "`history` must be an integer >= 0"),
        ({"history": "some"}, "`history` must be one of 'full', 'x'; got history='some'"),
        ({"on_nonfinite": "ignore"}, "`on_nonfinite` must be one of 'reject', 'penalize', 'raise'"),
        ({"callback": 5}, "`callback` must be callable, got 5"),
        ({"grad": 5}, "`grad` must be callable, got 5"),
        ({"workers": 0}, "`workers` must be an integer >= 1"),
        ({"workers": "many"}, "`workers` must be an integer, an executor, a Dask Client"),
        ({"workers": 2, "retries": -1}, "`retries` must be an integer >= 0"),
        ({"sample_xi": 0}, "`sample_xi` must be an integer >= 1"),
        ({"sample_xi": "x"}, "`sample_xi` must be an integer"),
        ({"method": "zoslgh"}, "`method` must be one of 'auto', 'scale_free', 'gd', .* got method='zoslgh'"),
        ({"oracle": "sideways"}, "`oracle` must be one of 'forward', 'antithetic'"),
        ({"update": 5}, "`update` must be one of 'descent'.* or a part of your own; 5 has no apply, init, name"),
        (
            {"learning_rate": 0.1},
            "`learning_rate` is not a parameter of 'zoslgh_r', which takes samples, .* t1, gamma, step",
        ),
        ({"eta": 0.1}, "`eta` is not a parameter of 'zoslgh_r'"),
        ({"jac": fun}, "Unknown argument `jac`. Did you mean `grad`"),
        ({"maxiter": 5}, "Unknown argument `maxiter`. Did you mean `max_iter`"),
        ({"options": {}}, "`options` is not taken: options are keyword arguments"),
        ({"rng": 1}, "Unknown argument `rng`. Did you mean `seed`"),
        ({"tol": 1e-3}, "pass `ftol` for changes of f"),
        ({"constraint": ()}, "Unknown argument `constraint`. Did you mean `constraints`"),
        ({"max_eval": 100}, "Did you mean max_evals"),
        ({"method": "SLGH_r"}, "Did you mean slgh_r"),
        ({"t_1": 1.0}, "Did you mean t1"),
    ],
)
def test_wrong_options(options: dict[str, Any], match: str) -> None:
    with pytest.raises((ValueError, TypeError), match=match):
        slgh.minimize(fun, [1.0, 2.0], **GOOD | options)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"method": "zoslgh_r"}, '`zoslgh_r` needs `t1` and `step`.* or `method="auto"`'),
        ({"method": "zoslgh_d", "t1": 1, "step": 1}, "`zoslgh_d` needs `eta`"),
        ({"method": "slgh_r", "t1": 1, "step": 1}, "`slgh_r` needs gradients: pass `grad`"),
        ({"method": "gd", "step": 1}, "`gd` needs gradients"),
        ({"method": "sgd", "step": 1, "grad": fun}, "'sgd' is for stochastic functions: pass `sample_xi`"),
        ({"method": "zosvrg", "step": 1, "t1": 1}, "'zosvrg' is for stochastic functions"),
        ({"method": "zosvrg", "step": 1, "t1": 1, "sample_xi": lambda rng, n: rng.random(n)}, "is for finite sums"),
        (
            {"method": "gradopt_hazan", "schedule": "derivative", "t1": 1, "eta": 1, "step": 1},
            "needs trace, which the oracle 'sphere'",
        ),
        ({"oracle": "closed_form"}, "needs a closed form as `fun`"),
        ({"method": "zogradopt", "t1": 1, "step": 1, "rule": "F"}, "needs F_next, which the oracle 'forward'"),
        ({"method": "zosgd", "t1": 0, "step": 1}, "`t1` must be above 0 for 'zosgd', whose oracle divides by t"),
        ({"method": "zoslgh_d", "t1": 1, "step": 1, "eta": 1, "floor": 0}, "`floor` must be above 0 for 'zoslgh_d'"),
        ({"update": "adam"}, "`auto` needs `step`, without a default .* Pass `step=...`[.]$"),
    ],
)
def test_what_does_not_go_together(options: dict[str, Any], match: str) -> None:
    with pytest.raises((ValueError, TypeError), match=match):
        slgh.minimize(fun, [1.0, 2.0], **options)


def test_fun_must_be_callable() -> None:
    with pytest.raises(TypeError, match="`fun` must be callable or a closed form, got 5"):
        slgh.minimize(5, [1.0])


@pytest.mark.parametrize(
    ("value", "match"),
    [
        (None, r"`fun` must return real numbers, got NoneType None. Does it lack a return statement\?"),
        ([1.0, 2.0], r"`fun` must return one number per point, got list \[1.0, 2.0\]"),
        (np.ones(3), "`fun` must return one number per point, got ndarray"),
        (1 + 2j, r"`fun` must return real numbers, got complex \(1\+2j\)"),
        (np.complex128(1), "`fun` must return real numbers"),
        ("low", "`fun` must return real numbers, got str 'low'"),
        ({"loss": 1.0}, "`fun` must return real numbers, got dict"),
        ([[1.0], [1.0, 2.0]], "`fun` must return real numbers, got list"),
    ],
)
def test_wrong_returns_of_a_point_function(value: Any, match: str) -> None:
    with pytest.raises((ValueError, TypeError), match=match):
        slgh.minimize(lambda x: value, [1.0, 2.0], **GOOD)


@pytest.mark.parametrize("value", [np.float32(1), np.array(1.0), np.array([1.0]), np.array([[1]]), 1, True, [1.0]])
def test_returns_of_size_one_are_numbers(value: Any) -> None:
    assert slgh.minimize(lambda x: value, [1.0, 2.0], **GOOD).fun == 1.0


@pytest.mark.parametrize(
    ("value", "match"),
    [
        (lambda x: None, "`fun` must return real numbers, got NoneType"),
        (lambda x: 1.0, r"`fun` must return one value per point, shape \(2,\) for points of shape \(2, 2\); got \(\)"),
        (lambda x: np.ones(7), r"shape \(2,\) for points of shape \(2, 2\); got \(7,\)"),
        (lambda x: x, r"shape \(2,\) for points of shape \(2, 2\); got \(2, 2\)"),
        (lambda x: np.ones(len(x)) * 1j, "`fun` must return real numbers"),
    ],
)
def test_wrong_returns_of_a_vectorised_function(value: Any, match: str) -> None:
    with pytest.raises((ValueError, TypeError), match=match):
        slgh.minimize(value, [1.0, 2.0], vectorized=True, **GOOD)


def test_wrong_gradients() -> None:
    options: dict[str, Any] = {"method": "gd", "step": 0.1, "max_iter": 2}
    with pytest.raises(ValueError, match=r"`grad` must return an array of shape \(2,\), got shape \(3,\)"):
        slgh.minimize(fun, [1.0, 2.0], grad=lambda x: np.ones(3), **options)
    with pytest.raises(ValueError, match=r"`grad` must return one gradient per point, shape \(1, 2\)"):
        slgh.minimize(fun, [1.0, 2.0], grad=lambda x: np.ones(2), vectorized=True, **options)


def test_wrong_samples_of_xi() -> None:
    with pytest.raises(ValueError, match=r"`sample_xi\(rng, n\)` must return n samples along its first axis"):
        slgh.minimize(fun, [1.0, 2.0], sample_xi=lambda rng, n: 1.0, **GOOD)


def test_wrong_data() -> None:
    with pytest.raises(ValueError, match=r"`data` must have one row per problem, shape \(2, ...\); got \(3,\)"):
        slgh.minimize(fun, np.ones((2, 2)), batched=True, data=np.ones(3), **GOOD)


def test_a_vectorized_function_cannot_write_into_the_points() -> None:
    def careless(x: Any) -> Any:
        x *= 0
        return x.sum(axis=-1)

    with pytest.raises(ValueError, match="read-only"):
        slgh.minimize(careless, [1.0, 2.0], vectorized=True, **GOOD)


def test_a_point_function_may_do_with_its_point_what_it_likes() -> None:
    def careless(x: Any) -> Any:
        value = fun(x)
        x[:] = -99
        return value

    clean = slgh.minimize(fun, [1.0, 2.0], **GOOD)
    np.testing.assert_array_equal(slgh.minimize(careless, [1.0, 2.0], **GOOD).x_best, clean.x_best)


def test_x0_is_not_written_to() -> None:
    x0 = np.ones(3)
    slgh.minimize(fun, x0, **GOOD)
    np.testing.assert_array_equal(x0, np.ones(3))


def test_lists_integers_and_scalars_become_float64() -> None:
    for x0, d in (([1, 2], 2), ((1.0, 2.0), 2), (3, 1), (np.array([1, 2], np.int32), 2)):
        result = slgh.minimize(fun, x0, **GOOD)
        assert (result.x.dtype, result.x.shape) == (np.float64, (d,))


def test_args_are_passed_as_in_scipy() -> None:
    seen: list[tuple[int, ...]] = []

    def note(x: Any, *args: int) -> float:
        seen.append(args)
        return 0.0

    slgh.minimize(note, [1.0], args=(1, 2), **GOOD)
    slgh.minimize(note, [1.0], args=cast(Any, 7), **GOOD)
    assert set(seen) == {(1, 2), (7,)}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numpy_scalars_are_numbers(dtype: type) -> None:
    plain: dict[str, Any] = {
        "t1": 1.0,
        "step": 0.1,
        "gamma": 0.9,
        "samples": 3,
        "max_iter": 7,
        "max_evals": 40,
        "seed": 3,
    }
    scalars: dict[str, Any] = {n: np.float64(v) if isinstance(v, float) else np.int64(v) for n, v in plain.items()}
    x0: np.ndarray = np.array([1.0, 2.0], dtype)
    expected = slgh.minimize(fun, x0, method="zoslgh_r", **plain)
    found = slgh.minimize(fun, x0, method="zoslgh_r", **scalars, workers=np.int64(1))
    assert found.x.dtype == dtype
    np.testing.assert_array_equal(found.x, expected.x)
    np.testing.assert_array_equal(slgh.minimize(fun, x0, method="zoslgh_r", **plain | {"seed": np.array(3)}).x, found.x)


def test_a_function_may_reuse_the_array_it_returns() -> None:
    buffer = np.empty(4)

    def frugal(x: Any) -> Any:
        if len(x) != 4:
            return fun(x)
        buffer[:] = fun(x)
        return buffer

    options: dict[str, Any] = {
        "t1": 1.0,
        "step": 0.05,
        "samples": 3,
        "max_iter": 40,
        "seed": 0,
        "vectorized": True,
        "n0": 3,
        "eps0": 0.1,
    }
    found = slgh.minimize(frugal, [1.0, 2.0], method="zogradopt", **options)
    expected = slgh.minimize(fun, [1.0, 2.0], method="zogradopt", **options)
    np.testing.assert_array_equal(found.x, expected.x)
    np.testing.assert_array_equal(found.history["fun"], expected.history["fun"])


@pytest.mark.parametrize("vectorized", [True, False])
def test_a_stop_iteration_in_the_function_is_an_exception_like_any_other(vectorized: bool) -> None:
    def broken(x: Any) -> Any:
        raise StopIteration("the user's own")

    with pytest.raises((StopIteration, RuntimeError)) as caught:
        slgh.minimize(broken, [1.0, 2.0], vectorized=vectorized, **GOOD)
    assert "the user's own" in repr(caught.value) + repr(caught.value.__cause__)


def test_a_start_of_any_size_has_a_radius() -> None:
    result = slgh.minimize(
        lambda x: float(np.sum(np.abs(x) / 1e20)), np.array([1e20, 1], np.float32), max_evals=50, seed=0
    )
    assert np.isfinite(result.fun)
