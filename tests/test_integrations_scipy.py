"""slgh as a method of `scipy.optimize.minimize`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import optimize

import slgh
from slgh.integrations.scipy import method

X0 = np.array([3.0, -2.0])
OPTIONS: dict[str, Any] = {"maxfev": 300, "seed": 0}


def bowl(x: Any, center: float = 0.5) -> float:
    return float(np.sum((x - center) ** 2))


def minimize(fun: Any = bowl, x0: Any = X0, **more: Any) -> Any:
    run: Any = optimize.minimize
    return run(fun, x0, method=method, **({"options": OPTIONS} | more))


def test_it_is_the_run_of_slgh() -> None:
    found, expected = minimize(), slgh.minimize(bowl, X0, max_evals=300, seed=0)
    assert isinstance(found, optimize.OptimizeResult)
    np.testing.assert_array_equal(found.x, expected.x)
    assert (found.fun, found.nfev, found.nit) == (expected.fun, expected.nfev, expected.nit)
    assert found.success
    assert found.nfev <= 300


@pytest.mark.parametrize("bounds", [[(1, 4), (-3, 0)], optimize.Bounds([1, -3], [4, 0])])
def test_bounds_are_kept(bounds: Any) -> None:
    seen = []

    def fun(x: Any) -> float:
        seen.append(x)
        return bowl(x)

    found = minimize(fun, bounds=bounds)
    assert (np.array(seen) >= [1, -3]).all()
    assert (np.array(seen) <= [4, 0]).all()
    np.testing.assert_allclose(found.x, [1, 0], atol=1e-3)


def test_args_are_passed_on() -> None:
    np.testing.assert_allclose(minimize(args=(-1.0,)).x, [-1, -1], atol=1e-3)
    np.testing.assert_allclose(minimize(args=-1.0).x, [-1, -1], atol=1e-3)


@pytest.mark.parametrize("together", [False, True])
def test_gradients_are_used(together: bool) -> None:
    def gradient(x: Any) -> Any:
        return 2 * (x - 0.5)

    if together:
        found = minimize(lambda x: (bowl(x), gradient(x)), jac=True)
    else:
        found = minimize(jac=gradient)
    assert found.njev > 0
    assert found.nfev + found.njev <= 300
    np.testing.assert_allclose(found.x, [0.5, 0.5], atol=1e-6)


def test_maxiter_is_max_iter() -> None:
    options = {"maxiter": 7, "method": "zoslgh_r", "t1": 1.0, "step": 0.1, "seed": 0}
    assert minimize(options=options).nit == 7


def test_a_scalar_start_is_one_variable() -> None:
    assert minimize(x0=3.0).x.shape == (1,)


def test_callbacks_have_either_signature_and_stop_the_run() -> None:
    seen: list[Any] = []

    def with_x(xk: Any) -> None:
        seen.append(xk)
        if len(seen) == 3:
            raise StopIteration

    found = minimize(callback=with_x)
    assert [x.shape for x in seen] == [(2,)] * 3
    assert found.status == slgh.Status.CALLBACK

    def with_result(intermediate_result: Any) -> bool:
        seen.append(intermediate_result.fun)
        return True

    assert minimize(callback=with_result).nit == 1
    assert isinstance(seen[-1], float)


def test_disp_prints_the_result(capsys: pytest.CaptureFixture[str]) -> None:
    minimize(options=OPTIONS | {"disp": True})
    assert capsys.readouterr().out.startswith("Result:")
    minimize()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("jac", [None, True])
def test_constraints_are_those_of_slgh(jac: Any) -> None:
    def fun(x: Any) -> Any:
        return bowl(x) if jac is None else (bowl(x), 2 * (x - 0.5))

    line = optimize.LinearConstraint([[1, 1]], 3, np.inf)
    found = minimize(fun, jac=jac, constraints=line)
    np.testing.assert_allclose(found.x, [1.5, 1.5], atol=1e-3)
    assert found.maxcv <= 1e-7
    np.testing.assert_allclose(minimize(constraints=[]).x, [0.5, 0.5], atol=1e-3)
    with pytest.warns(RuntimeWarning, match="tol with constraints"):
        minimize(constraints={"type": "ineq", "fun": lambda x: x[0] - 1}, tol=1e-3)


def test_a_tolerance_is_ftol() -> None:
    ended = minimize(tol=1e-3, options={"maxfev": 5000, "seed": 0})
    assert ended.status == slgh.Status.CONVERGED
    expected = slgh.minimize(bowl, X0, max_evals=5000, seed=0, ftol=1e-3)
    assert (ended.fun, ended.nfev) == (expected.fun, expected.nfev)
    given = minimize(tol=1e-3, options={"maxfev": 5000, "seed": 0, "ftol": 0.1})
    assert given.nfev == slgh.minimize(bowl, X0, max_evals=5000, seed=0, ftol=0.1).nfev


def test_it_is_a_local_minimizer_of_basinhopping() -> None:
    def rippled(x: Any) -> float:
        return float(np.sum(x**2 + 3 * np.sin(5 * x) ** 2))

    kwargs: Any = {"method": method, "options": {"maxfev": 100, "seed": 0}}
    found = optimize.basinhopping(rippled, X0, niter=5, minimizer_kwargs=kwargs, rng=0)
    assert found.fun < 1e-3
    assert found.nfev <= 600
