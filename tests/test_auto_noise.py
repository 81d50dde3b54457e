"""Functions with noise: outliers, noise at all points, and the average that a run reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import slgh
from auto_cases import START, Counted, answered, assert_same_run, bowl, resumable, waves
from cases import Stopper
from slgh.auto.agreement import MAX_VALUES, agreed_values, search_agreed
from slgh.auto.evaluation import Evaluating, Evaluation
from slgh.auto.landscape import POINTS, Landscape, check_landscape
from slgh.auto.local_search import LocalMinimum
from slgh.auto.plans import noisy
from slgh.auto.quadratic_fit import MAX_NUMBERS, choose_samples, fit_quadratic
from slgh.auto.repeated_values import ROUND, SIGNAL_VALUES, average, average_at, has_outliers, race, signal_share

EPS = 2.0**-52


def replayed(talk: Any, *answers: Any) -> tuple[Any, list[NDArray[Any]]]:
    """Give these answers to a generator. Return its result and the points that it has asked for."""
    asked, left = [next(talk).points], list(answers)
    while True:
        try:
            asked.append(talk.send(np.array(left.pop(0), float)).points)
        except StopIteration as end:
            assert not left
            return end.value, asked


# Outliers.


def test_a_point_is_evaluated_until_two_of_its_values_agree() -> None:
    points = np.arange(4.0)[:, None]
    found, asked = replayed(
        agreed_values(Evaluation(points), EPS), [1, 2, 3, 4], [1, 9, 3 * (1 + 2 * EPS), -7], [2, 8], [8]
    )
    np.testing.assert_allclose(found.values, [1, 2, 3, 8], rtol=1e-14)
    assert [part[:, 0].tolist() for part in asked] == [[0, 1, 2, 3], [0, 1, 2, 3], [1, 3], [3]]
    assert found.used == 11


def test_a_point_whose_values_never_agree_is_unknown() -> None:
    rng = np.random.default_rng(0)
    found, n = answered(agreed_values(Evaluation(np.zeros((3, 2))), EPS), lambda x: rng.normal())
    assert np.isnan(found.values).all()
    assert n == found.used == 3 * MAX_VALUES


def test_values_that_are_not_finite_agree() -> None:
    found, _ = replayed(agreed_values(Evaluation(np.zeros((3, 2))), EPS), [np.nan, np.inf, 1], [np.inf, np.nan, 1])
    assert not np.isfinite(found.values[:2]).any()
    assert found.values[2] == 1


@pytest.mark.parametrize("budget", range(2, 12))
def test_the_budget_of_agreeing_values_is_hard(budget: int) -> None:
    rng = np.random.default_rng(0)
    found, n = answered(agreed_values(Evaluation(np.zeros((2, 2))), EPS, budget), lambda x: rng.normal())
    assert found.used == n <= budget


def test_a_search_on_values_that_agree_is_the_search_without_noise() -> None:
    def search() -> Evaluating[LocalMinimum]:
        values = yield Evaluation(np.arange(6.0).reshape(3, 2))
        more = yield Evaluation(np.ones((2, 2)))
        return LocalMinimum(more, float(values.sum()), converged=True)

    rng = np.random.default_rng(1)
    exact, _ = answered(search(), lambda x: x.sum())
    found, n = answered(
        search_agreed(search(), 100, EPS), lambda x: x.sum() + 1e6 * rng.normal() * (rng.random() < 0.2)
    )
    assert found.fun == exact.fun
    np.testing.assert_array_equal(found.x, exact.x)
    assert 10 <= n < 20
    cut, n = answered(search_agreed(search(), 9, EPS), lambda x: x.sum())
    assert (cut.fun, cut.converged, n) == (1.0, False, 6)


@pytest.mark.parametrize(("fun", "beneath"), [(bowl, "SMOOTH"), (waves, "RUGGED")])
@pytest.mark.parametrize("share", [0.02, 0.2])
def test_the_landscape_beneath_outliers_is_seen(fun: Any, beneath: str, share: float) -> None:
    right = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        ends = rng.uniform(-5, 5, (6, 10))

        def with_outliers(x: Any, rng: np.random.Generator = rng) -> Any:
            return fun(x) + 1e4 * rng.normal() * (rng.random() < share)

        found, n = answered(check_landscape(np.full(10, 3.3), ends, EPS), with_outliers)
        right += found in (Landscape[f"{beneath}_WITH_OUTLIERS"], Landscape[beneath])  # outliers may be missed
        assert n <= 6 * (1 + POINTS * MAX_VALUES)
    assert right >= 9


def test_counts_that_agree_by_chance_are_no_outliers() -> None:
    rng = np.random.default_rng(0)
    ends = rng.uniform(-5, 5, (6, 10))
    found, _ = answered(check_landscape(np.full(10, 3.3), ends, EPS), lambda x: rng.binomial(2, 0.2))
    assert found is Landscape.NOISY


def spiky(x: Any, fun: Any = bowl, share: float = 0.15) -> float:
    """Function with outliers that depend on the bits of x and on the number of earlier calls at x."""
    times = CALLS[x.tobytes()] = CALLS.get(x.tobytes(), 0) + 1
    rng = np.random.default_rng([*x.view(np.uint64).tolist(), times])
    return float(fun(x)) + 1e5 * rng.standard_cauchy() * (rng.random() < share)


CALLS: dict[bytes, int] = {}


@pytest.fixture(autouse=True)
def no_calls() -> None:
    CALLS.clear()


@pytest.mark.parametrize(("d", "max_evals"), [(3, 4000), (11, 6000)])
def test_a_function_with_outliers_is_minimized_like_one_without(d: int, max_evals: int) -> None:
    fun = Counted(spiky)
    run = slgh.minimize(fun, np.full(d, 1.25), max_evals=max_evals, seed=3)
    assert "smooth with outliers" in run.message
    assert run.nfev == len(fun.values) <= max_evals
    assert run.fun == bowl(run.x) < 1 + 1e-6, "the value is exact"
    assert run.fun_se == 0
    assert run.fun_best == min(fun.values) < 0, "the lowest value is an outlier"
    assert run.success


# Noise at all points.


def test_the_share_of_signal_is_one_minus_the_share_of_noise() -> None:
    n, rng = SIGNAL_VALUES, np.random.default_rng(0)
    around = np.ones((n, 2))
    spread = np.linspace(-1, 1, n)
    assert replayed(signal_share(np.zeros(2), around), spread, 2 * spread)[0] == pytest.approx(0.75)
    assert replayed(signal_share(np.zeros(2), around), spread, spread)[0] == 0
    assert replayed(signal_share(np.zeros(2), around), 0 * spread, spread)[0] == 1
    assert replayed(signal_share(np.zeros(2), around), spread + np.nan, spread + np.nan)[0] == 0
    outlier = np.where(np.arange(n) == 3, 1e9, spread)
    assert replayed(signal_share(np.zeros(2), around), outlier, 10 * spread)[0] > 0.9
    shares = [
        replayed(signal_share(np.zeros(2), around), rng.normal(size=n), 2 * rng.normal(size=n))[0] for _ in range(200)
    ]
    assert np.median(shares) == pytest.approx(0.75, abs=0.05)


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("unit", [1.0, 2.0**80, 2.0**-80])
def test_a_fit_finds_the_minimum_of_a_quadratic(full: bool, unit: float) -> None:
    rng, d = np.random.default_rng(0), 5
    minimum = rng.normal(size=d) / 2
    root = np.eye(d) + 0.3 * rng.normal(size=(d, d)) if full else np.diag(np.arange(1.0, d + 1))
    z = rng.normal(size=(400, d))
    values = np.sum(((z - minimum) @ root) ** 2, axis=1)
    np.testing.assert_allclose(fit_quadratic(z, unit * (7 + values), full=full), minimum, rtol=1e-6)
    values[::20] += 100
    values[5] = np.nan
    assert np.linalg.norm(fit_quadratic(z, unit * values, full=full) - minimum) < 0.2, "outliers count little"
    noisy_values = np.sum(((z - minimum) @ root) ** 2, axis=1) + rng.normal(size=400)
    one, two = (fit_quadratic(z, scale * noisy_values, full=full) for scale in (1.0, unit))
    np.testing.assert_array_equal(one, two, err_msg="the unit of f does not matter")


def test_a_fit_stays_near_and_knows_when_it_cannot_say() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(100, 3))
    for values in (z[:, 0], -np.sum(z**2, axis=1) + z[:, 1], np.zeros(100), 1e-9 * z[:, 2] ** 2 + z[:, 0]):
        assert np.linalg.norm(fit_quadratic(z, values, full=True)) <= np.sqrt(3) * (1 + 1e-9)
    assert np.isnan(fit_quadratic(z, np.full(100, np.nan), full=True)).all()
    assert np.isnan(fit_quadratic(z * [1, 1, 0], z[:, 0], full=True)).all(), "a fixed variable"


def test_values_that_overflow_end_no_fit() -> None:
    z = np.random.default_rng(0).normal(size=(100, 3))
    for largest in (np.finfo(float).max, 1e300):
        values = np.sum((z - 0.5) ** 2, axis=1)
        values[::30] = largest
        with np.errstate(all="ignore"):  # as in a run
            found = fit_quadratic(z, values, full=True)
        assert np.isnan(found).all() or np.linalg.norm(found) <= np.sqrt(3) * (1 + 1e-9)


def test_a_run_with_outliers_that_is_stopped_early_has_a_value_of_f() -> None:
    rng = np.random.default_rng(5)

    def spiky(x: Any) -> float:
        return float(np.sum(x**2)) + (100 * rng.standard_cauchy() if rng.random() < 0.1 else 0.0)

    run = slgh.minimize(
        spiky,
        np.full(60, 1.3),
        max_evals=1500,
        seed=0,
        callback=lambda intermediate_result: intermediate_result.nfev > 1200,
    )
    assert run.status is slgh.Status.CALLBACK
    assert not 0 <= run.fun <= 1 < np.sum(run.x**2), "the share of signal is no value of f"


def test_a_fit_has_enough_values() -> None:
    assert choose_samples(5, 30) is None or not choose_samples(5, 30).full  # type: ignore[union-attr]
    assert choose_samples(5, 10) is None
    many = choose_samples(20, 10**9)
    assert many is not None
    assert many.full
    assert many.n * 231 <= MAX_NUMBERS
    wide = choose_samples(100, 1000)
    assert wide is not None
    assert not wide.full


def test_the_average_and_its_error_are_those_of_the_values() -> None:
    values = np.random.default_rng(0).normal(3, 2, 400)
    found = average(values)
    assert found.value == pytest.approx(values.mean())
    assert found.error == pytest.approx(values.std(ddof=1) / 20)
    assert average(np.append(values, np.nan)) == found
    assert average(np.array([5.0])) == (5.0, np.inf)
    assert average(np.array([np.nan])) == (np.inf, np.inf)


def test_the_average_with_outliers_is_a_trimmed_mean() -> None:
    values = np.concatenate([np.arange(10.0), [1e9]])
    assert has_outliers(values)
    found = average(values)
    assert found.value == 5.0, "two values at each end are left out"
    winsorized = np.clip(values, 2, 8)
    assert found.error == pytest.approx(winsorized.std(ddof=1) / (7 / 11 * np.sqrt(11)))
    assert not has_outliers(np.random.default_rng(0).normal(size=10_000))


@pytest.mark.parametrize("noise", ["normal", "standard_cauchy"])
def test_the_error_of_the_average_is_honest(noise: str) -> None:
    rng, hits = np.random.default_rng(0), 0
    for _ in range(400):
        found = average(getattr(rng, noise)(size=50))
        hits += abs(found.value) < 2 * found.error
    assert 0.92 < hits / 400 < 0.99


def test_a_race_ends_when_the_difference_is_significant() -> None:
    low, high = np.zeros(2), np.ones(2)

    def shifted(gap: float, seed: int) -> Any:
        rng = np.random.default_rng(seed)
        return lambda x: gap * x[0] + rng.normal()

    assert answered(race(low, high, 60), shifted(100, 0)) == (False, 2 * ROUND)
    assert answered(race(high, low, 60), shifted(100, 0)) == (True, 2 * ROUND)
    early = [answered(race(low, high, 60), shifted(0, seed))[1] < 60 for seed in range(300)]
    assert np.mean(early) < 0.1
    right = [answered(race(high, low, 60), shifted(1.0, seed))[0] for seed in range(100)]
    assert np.mean(right) > 0.95


def test_a_race_is_not_won_by_bad_values_or_without_a_budget() -> None:
    assert replayed(race(np.zeros(1), np.ones(1), 10), [*range(5), *[np.nan] * 5])[0] is False
    assert replayed(race(np.zeros(1), np.ones(1), 10), [*[np.nan] * 5, *range(5)])[0] is True
    assert replayed(race(np.zeros(1), np.ones(1), 4), [np.nan] * 4)[0] is False
    with pytest.raises(StopIteration) as end:
        next(race(np.zeros(1), np.ones(1), 1))
    assert end.value.value is False


def test_an_average_spends_its_budget() -> None:
    found, asked = replayed(average_at(np.array([2.0, 3.0]), 3), [1, 2, 6])
    assert found.value == 3
    np.testing.assert_array_equal(asked[0], [[2, 3]] * 3)


NU = 0.5


def shaky(x: Any) -> float:
    """Bowl with normal noise that depends on the bits of x and on the number of earlier calls at x."""
    times = CALLS[x.tobytes()] = CALLS.get(x.tobytes(), 0) + 1
    noise = np.random.default_rng([*x.view(np.uint64).tolist(), times]).normal()
    return float(np.sum((x - 0.3) ** 2) + NU * noise)


def clear(x: Any) -> float:
    """Bowl with little noise, through which the homotopy sees the slope to the end."""
    true = float(np.sum((x - 0.3) ** 2))
    return true + 1e-4 * (shaky(x) - true)


def test_the_value_of_a_noisy_function_is_the_average_of_new_ones() -> None:
    fun = Counted(shaky)
    run = slgh.minimize(fun, START, max_evals=3000, seed=1)
    assert "f looked noisy" in run.message
    assert run.nfev == len(fun.values) == 3000, "the budget is spent to the last evaluation"
    n = CALLS[run.x.tobytes()]
    last = np.array(fun.values[-int(noisy.AVERAGE_SHARE * 3000) :])
    assert n >= last.size - 1
    assert run.fun == pytest.approx(np.mean(last), abs=3 * NU / last.size)
    assert run.fun_se == pytest.approx(NU / np.sqrt(last.size), rel=0.3)
    assert abs(run.fun - np.sum((run.x - 0.3) ** 2)) < 3 * run.fun_se
    assert run.fun > run.fun_best
    assert np.sum((run.x - 0.3) ** 2) < NU / 5, "far below the noise"


def test_errors_cover_the_true_value() -> None:
    hits = 0
    for seed in range(30):
        CALLS.clear()
        rng = np.random.default_rng(seed)
        run = slgh.minimize(
            lambda x, rng=rng: np.sum(x**2) * (1 + 0.5 * rng.normal()) + rng.normal(),
            np.ones(2),
            max_evals=600,
            seed=seed,
        )
        hits += abs(run.fun - np.sum(run.x**2)) < 2 * run.fun_se
    assert hits >= 25


@pytest.mark.parametrize("max_evals", [*range(300, 310), 700, 1100, 1500, 2222])
@pytest.mark.parametrize("fun_", [shaky, spiky, clear])
def test_the_budget_is_hard(max_evals: int, fun_: Any) -> None:
    for d in (2, 5, 11):
        fun = Counted(fun_)
        run = slgh.minimize(fun, np.full(d, 1.25), max_evals=max_evals, seed=2)
        assert run.nfev == len(fun.values) <= max_evals
        if "looked noisy" in run.message:
            assert run.nfev >= max_evals - 1
            assert np.isfinite([run.fun, run.fun_se]).all()
            assert run.success


def test_noise_that_is_sometimes_nan() -> None:
    rng = np.random.default_rng(0)
    fun = Counted(lambda x: np.nan if rng.random() < 0.2 else np.sum(x**2) + 0.1 * rng.normal())
    run = slgh.minimize(fun, START, max_evals=2500, seed=1)
    assert "f looked noisy" in run.message
    assert run.success
    assert run.fun_se < 0.03
    assert np.sum(run.x**2) < 0.2
    assert run.nrejected > 0


def test_every_kind_of_arrays_and_bounds() -> None:
    rng = np.random.default_rng(0)
    box = [(0.5, 2.0), (-1.0, 1.0), (0.0, 0.0)]
    run = slgh.minimize(
        lambda x: np.sum(x**2) + 0.1 * rng.normal(), [1.0, 0.5, 0.0], bounds=box, max_evals=2000, seed=0
    )
    assert "f looked noisy" in run.message
    assert (run.x >= [0.5, -1, 0]).all()
    assert run.x[2] == 0
    assert np.sum(run.x**2) < 0.35
    single = slgh.minimize(lambda x: np.sum(x**2) + 0.1 * rng.normal(), np.ones(3, np.float32), max_evals=2000, seed=0)
    assert single.x.dtype == np.float32


@pytest.mark.parametrize("fun", [shaky, spiky, clear])
def test_a_noisy_run_is_continued_bit_for_bit_through_every_phase(
    fun: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget = 1500
    whole = resumable(fun, max_evals=budget)
    assert "noisy" in whole.message or "outliers" in whole.message
    for at in (*range(3, budget, 61), *range(budget - 250, budget - 1, 23), budget - 1):
        if at > whole.nfev:
            break
        file = tmp_path / f"{at}.npz"
        CALLS.clear()
        with pytest.raises(Stopper):
            resumable(Counted(fun, at, Stopper), max_evals=budget, checkpoint=file)
        rest = Counted(fun)
        assert_same_run(resumable(rest, max_evals=budget, checkpoint=file), whole)
        assert len(rest.values) < whole.nfev - at + 100
    finished, again = tmp_path / "finished.npz", Counted(fun)
    CALLS.clear()
    resumable(fun, max_evals=budget, checkpoint=finished)
    assert_same_run(resumable(again, max_evals=budget, checkpoint=finished), whole)
    assert not again.values, "the average and its error are in the checkpoint"


def test_a_target_and_ctrl_c_keep_the_best_point() -> None:
    hit = slgh.minimize(shaky, START, max_evals=3000, seed=1, target=1.0)
    assert hit.status == slgh.Status.TARGET
    assert hit.fun == hit.fun_best <= 1.0
    CALLS.clear()
    broken = slgh.minimize(Counted(shaky, 2950, KeyboardInterrupt), START, max_evals=3000, seed=1)
    assert broken.status == slgh.Status.INTERRUPTED
    assert broken.fun == broken.fun_best
