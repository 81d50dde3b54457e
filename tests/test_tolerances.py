"""ftol and xtol end a run once f or x hardly changes. Both loops and "auto" follow one rule, and so do resumed runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import slgh
from auto_cases import Counted, assert_same_run, bowl, slope, valley
from cases import assert_same
from slgh.engine.termination import SETTLED_ITERATIONS, Tolerances, has_settled

AUTO: dict[str, Any] = {"max_evals": 5000, "seed": 0}
PLAIN: dict[str, Any] = {"method": "zoslgh_r", "t1": 1.0, "step": 0.01, "gamma": 0.98, "samples": 5, "seed": 0}


@pytest.mark.parametrize(
    ("tolerances", "fall", "move", "expected"),
    [
        (Tolerances(ftol=1e-3), 1.01e-3, 0.0, False),
        (Tolerances(ftol=1e-3), 0.99e-3, 9.0, True),
        (Tolerances(xtol=1e-3), 9.0, 0.99e-3, True),
        (Tolerances(xtol=1e-3), 0.0, 1.01e-3, False),
        (Tolerances(ftol=0.0), 0.0, 9.0, True),
        (Tolerances(ftol=1e-3, xtol=1e-3), 9.0, 0.0, True),
        (Tolerances(ftol=1e-3, xtol=1e-3), 9.0, 9.0, False),
    ],
)
@pytest.mark.parametrize("size", [0.5, 100.0])
def test_a_tolerance_is_absolute_below_one_and_relative_above(
    tolerances: Tolerances, fall: float, move: float, size: float, *, expected: bool
) -> None:
    scale = max(1.0, size)
    now = np.array([-size]), np.array([[size, 0.0]])
    before = now[0] + fall * scale, now[1] + [[move * scale, 0.0]]
    assert has_settled(tolerances, before, now).tolist() == [expected]


def test_problems_without_a_value_have_not_converged() -> None:
    infinite, x = np.array([np.inf]), np.zeros((1, 2))
    with np.errstate(invalid="ignore"):
        assert not has_settled(Tolerances(ftol=1.0), (infinite, x), (infinite, x)).any()
        assert not has_settled(Tolerances(ftol=1.0), (infinite, x), (np.zeros(1), x)).any()


@pytest.mark.parametrize("tolerance", ["ftol", "xtol"])
@pytest.mark.parametrize("options", [{}, {"parallel": 4}, {"grad": slope}, {"max_evals": 300}])
def test_auto_ends_when_phases_find_nothing_better(tolerance: str, options: dict[str, Any]) -> None:
    x0 = np.full(3, 2.0)
    run = slgh.minimize(bowl, x0, **AUTO | options | {tolerance: 1e-6})
    assert (run.status, run.success) == (slgh.Status.CONVERGED, True)
    assert run.fun == pytest.approx(1.0, abs=1e-5)
    assert "Converged" in run.message
    whole = slgh.minimize(bowl, x0, **AUTO | options)
    assert run.nfev + run.njev < 0.9 * (whole.nfev + whole.njev)


def test_a_run_that_still_falls_goes_on() -> None:
    run = slgh.minimize(valley, np.full(20, -1.0), max_evals=1500, seed=0, ftol=1e-10)
    assert run.status == slgh.Status.COMPLETED


def test_a_local_search_of_auto_stops_at_ftol() -> None:
    given: dict[str, Any] = {"phases": ("local_search",), "max_evals": 5000, "seed": 0}
    exact, rough = (slgh.minimize(bowl, np.full(12, 2.0), **given, ftol=ftol) for ftol in (0.0, 1e-3))
    assert rough.nfev < 0.8 * exact.nfev
    assert exact.fun < rough.fun < 1.01


@pytest.mark.parametrize("fails_at", [40, 300, 600])
def test_an_interrupted_run_converges_at_the_same_point(tmp_path: Path, fails_at: int) -> None:
    file, given = tmp_path / "run.npz", {**AUTO, "x0": np.full(3, 2.0), "ftol": 1e-6}
    whole = slgh.minimize(bowl, **given)
    with pytest.raises(ZeroDivisionError):
        slgh.minimize(Counted(bowl, fails_at), **given, checkpoint=file)
    assert_same_run(slgh.minimize(bowl, **given, checkpoint=file), whole)
    silent = Counted(bowl)
    assert_same_run(slgh.minimize(silent, **given, checkpoint=file), whole)
    assert silent.values == []
    with pytest.raises(ValueError, match="tolerances"):
        slgh.minimize(bowl, **given | {"ftol": 1e-3}, checkpoint=file)


@pytest.mark.parametrize("tolerance", ["ftol", "xtol"])
def test_a_plain_method_ends_when_its_window_shows_no_progress(tolerance: str) -> None:
    run = slgh.minimize(bowl, np.ones(3), **PLAIN | {"max_iter": 5000, "history": "x", tolerance: 1e-4})
    assert run.status == slgh.Status.CONVERGED
    assert run.nit % SETTLED_ITERATIONS == 0
    assert run.nit < 5000
    assert run.t <= 0.1
    iterates, lowest = np.vstack([run.history["x"], run.x]), np.append(run.history["fun_best"], run.fun_best)
    moves = np.abs(np.diff(iterates[::SETTLED_ITERATIONS], axis=0)).max(axis=1)
    falls = -np.diff(lowest[SETTLED_ITERATIONS - 1 :: SETTLED_ITERATIONS])
    small = moves <= 1e-4 if tolerance == "xtol" else falls <= 1e-4
    late = run.history["t"][SETTLED_ITERATIONS::SETTLED_ITERATIONS] <= 0.1
    assert small[-1]
    assert not (small[: late.size] & late)[:-1].any()


def test_a_homotopy_does_not_converge_at_a_large_t() -> None:
    run = slgh.minimize(lambda x: 1.0, np.ones(3), **PLAIN | {"gamma": 0.999}, max_iter=1000, ftol=1.0, xtol=9.0)
    assert run.status == slgh.Status.COMPLETED


def test_a_method_whose_t_does_not_fall_converges() -> None:
    run = slgh.minimize(bowl, np.ones(3), method="gd", grad=slope, step=0.01, max_iter=5000, seed=0, xtol=1e-6)
    assert run.status == slgh.Status.CONVERGED
    assert run.fun == pytest.approx(1.0)


@pytest.mark.parametrize("method", ["auto", "scale_free", "zoslgh_r"])
def test_each_problem_of_a_batch_converges_alone(method: str) -> None:
    def far(x: Any) -> Any:  # the second problem falls without end
        return np.where(x[..., 0] < 50, bowl(x), -x[..., 0])

    starts = np.array([[1.0, 1.0], [100.0, 0.0]])
    ftol = 1e-4 if method == "scale_free" else 1e-9
    given: dict[str, Any] = {"method": method, "max_evals": 8000, "seed": 0, "ftol": ftol, "t1": 1.0}
    if method == "zoslgh_r":
        given |= PLAIN | {"max_evals": 30_000}
    run = slgh.minimize(far, starts, batched=True, vectorized=True, **given)
    assert run.status[0] == slgh.Status.CONVERGED
    assert run.nit[0] < run.nit[1]
    if method != "auto":
        alone = slgh.minimize(far, starts[0], vectorized=True, **given)
        np.testing.assert_array_equal(run.x[0], alone.x)
        assert run.nit[0] == alone.nit


def test_a_batch_resumes_in_the_middle_of_a_window(tmp_path: Path) -> None:
    given: dict[str, Any] = {"batched": True, "max_evals": 8000, "seed": 0, "ftol": 1e-9, "x0": np.ones((2, 3))}
    whole = slgh.minimize(bowl, **given)
    assert (whole.status == slgh.Status.CONVERGED).all()
    for fails_at in (3000, 9000, 13_000):
        file = tmp_path / f"{fails_at}.npz"
        with pytest.raises(ZeroDivisionError):
            slgh.minimize(Counted(bowl, fails_at), **given, checkpoint=file)
        assert_same(slgh.minimize(bowl, **given, checkpoint=file), whole)


def test_an_optimizer_converges_as_minimize_does() -> None:
    opt = slgh.Optimizer(np.full(3, 2.0), **AUTO, xtol=1e-6)
    while not opt.stop():
        points = opt.ask()
        opt.tell(points, [bowl(x) for x in points])
    assert_same(opt.result, slgh.minimize(bowl, np.full(3, 2.0), **AUTO, xtol=1e-6))


def test_noise_at_all_points_leaves_nothing_to_compare() -> None:
    rng = np.random.default_rng(0)
    run = slgh.minimize(lambda x: bowl(x) + rng.normal(), np.ones(3), max_evals=3000, seed=0, ftol=10.0)
    assert run.status == slgh.Status.COMPLETED


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"ftol": -1}, "`ftol` must be a finite number >= 0, got ftol=-1"),
        ({"xtol": "small"}, "`xtol` must be a real number, got xtol='small'"),
        ({"ftol": 1e-3, "sample_xi": 5}, "`ftol` needs a fun without sample_xi.* Pass `xtol`"),
        ({"ftol": 1e-3, "method": "gd", "step": 0.1, "grad": slope}, "`ftol` needs values of fun.* Pass `xtol`"),
        ({"fatol": 1e-3}, "Unknown argument `fatol`. Did you mean `ftol`"),
        ({"tol": 1e-3}, "`tol` is not taken: pass `ftol` for changes of f"),
    ],
)
def test_wrong_tolerances(options: dict[str, Any], match: str) -> None:
    with pytest.raises((ValueError, TypeError), match=match):
        slgh.minimize(bowl, np.ones(2), **options)
