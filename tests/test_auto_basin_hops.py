"""Basin hops of "auto", which need gradients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import slgh
from auto_cases import START, Counted, assert_same_run, waves
from cases import Stopper
from slgh.auto import basin_hops
from slgh.auto.basin_hops import Kind
from slgh.auto.contest import MIN_SHARE, Contest, after_turn

ATOMS, RHO, OPTIMUM = 8, 6.0, -19.327420
"""A Morse cluster. The energy of its global minimum is from the Cambridge Cluster Database."""


def slopes(x: Any) -> Any:
    """Return the gradient of the waves."""
    return 2 * x + 20 * np.pi * np.sin(2 * np.pi * x)


def _pairs(x: Any) -> tuple[Any, Any, Any]:
    points = x.reshape(ATOMS, 3)
    between = points[:, None] - points[None]
    r = np.sqrt(np.sum(between**2, axis=-1)) + np.eye(ATOMS)
    return between, r, np.exp(RHO * (1 - r))


def morse(x: Any) -> float:
    _, _, a = _pairs(x)
    return float(np.sum(np.triu(a * (a - 2), 1)))


def morse_gradient(x: Any) -> Any:
    between, r, a = _pairs(x)
    return np.sum((-2 * RHO * a * (a - 1) / r)[..., None] * between, axis=1).ravel()


def hopping(fun: Any, grad: Any, x0: Any = START, **options: Any) -> slgh.Result:
    return slgh.minimize(fun, x0, grad=grad, **{"max_evals": 1200, "seed": 4, "history": "x", **options})


def test_hops_find_the_minimum_of_a_cluster_that_one_local_search_misses() -> None:
    x0 = np.random.default_rng(1).uniform(-2.4, 2.4, 3 * ATOMS)
    once = hopping(morse, morse_gradient, x0, max_evals=4000, phases=("local_search",))
    assert once.fun > OPTIMUM + 0.1
    hops = hopping(morse, morse_gradient, x0, max_evals=6000)
    assert "basin hops" in hops.message
    assert hops.fun == pytest.approx(OPTIMUM, abs=1e-5)


@pytest.mark.parametrize("at", [200, 450, 451, 460, 475, 500, 540])
def test_a_run_broken_off_in_a_hop_is_continued_bit_for_bit(at: int, tmp_path: Path) -> None:
    whole = hopping(waves, slopes)
    assert "basin hops" in whole.message
    for fun, grad in (
        (Counted(waves, at, Stopper), slopes),
        (waves, _failing(at)),
    ):
        file = tmp_path / f"{fun is waves}.npz"
        with pytest.raises(Stopper):
            hopping(fun, grad, checkpoint=file)
        assert_same_run(hopping(waves, slopes, checkpoint=file), whole)


def _failing(at: int) -> Any:
    calls = [0]

    def grad(x: Any) -> Any:
        calls[0] += 1
        if calls[0] == at:
            raise Stopper
        return slopes(x)

    return grad


@pytest.mark.parametrize("max_evals", [1, 2, 3, 10, 41, 400, 1201])
@pytest.mark.parametrize("phases", [("local_search", "basin_hops"), None])
def test_the_budget_is_kept(max_evals: int, phases: Any) -> None:
    calls = [0]

    def counting(f: Any) -> Any:
        def counted(x: Any) -> Any:
            calls[0] += 1
            return f(x)

        return counted

    options: dict[str, Any] = {} if phases is None else {"phases": phases}
    run = hopping(counting(waves), counting(slopes), max_evals=max_evals, **options)
    assert run.nfev + run.njev == calls[0] <= max_evals
    if max_evals > 400:
        assert calls[0] >= max_evals - 1, "nothing is wasted"


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("policy", ["reject", "penalize"])
def test_regions_without_finite_values(bad: float, policy: Any) -> None:
    holes = lambda x: bad if np.sin(9 * x).sum() > 1.5 else waves(x)  # noqa: E731
    gradient = lambda x: slopes(x) * (bad if x[0] > 2 else 1.0)  # noqa: E731
    run = hopping(holes, gradient, np.full(6, 1.2), on_nonfinite=policy)
    assert run.nfev + run.njev <= 1200
    assert np.isfinite(run.fun)
    assert run.fun < waves(np.full(6, 1.2))


def test_nowhere_finite_ends() -> None:
    run = hopping(lambda x: np.nan, lambda x: np.full(x.size, np.nan))
    assert not run.success
    assert run.nfev + run.njev <= 1200


def test_values_that_overflow_do_not_hide_the_minimum() -> None:
    """Relative to a first value of 1e250, all minima are equal."""
    walls = lambda x: float(waves(x)) + float(np.sum(np.maximum(np.abs(x) - 2, 0)) ** 2) * 1e250  # noqa: E731
    outward = lambda x: slopes(x) + 2e250 * np.sum(np.maximum(np.abs(x) - 2, 0)) * np.sign(x) * (np.abs(x) > 2)  # noqa: E731
    run = hopping(walls, outward, np.full(2, 2.5), max_evals=3000)
    assert run.fun < 2.5


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bounds_are_kept(dtype: Any) -> None:
    low, high = dtype(0.2), dtype(2.3)

    def checked(x: Any) -> Any:
        assert x.dtype == dtype
        assert (x >= low).all()
        assert (x <= high).all()
        return waves(x)

    run = hopping(checked, lambda x: slopes(x).astype(dtype), np.full(4, 2.0, dtype), bounds=[(low, high)] * 4)
    assert "basin hops" in run.message
    assert run.fun <= checked(np.ones(4, dtype)) + 1e-4


def test_hops_are_listed_with_the_restarts() -> None:
    run = hopping(waves, slopes)
    names = [phase.name for phase in run.phases]
    assert set(names) <= {"homotopy", "local_search", "restarts"}
    assert run.phases[-1].name == "restarts"
    assert run.phases[-1].stop == run.nit


def test_without_gradients_there_are_no_hops() -> None:
    run = slgh.minimize(waves, START, max_evals=1500, seed=0)
    assert "hop" not in run.message


def test_a_singular_f_has_hops_and_no_homotopy() -> None:
    x0 = np.random.default_rng(2).uniform(-3, 3, 3 * ATOMS)
    run = hopping(morse, morse_gradient, x0, max_evals=2000)
    assert "f looked singular: 1 local search" in run.message
    assert "basin hop" in run.message
    assert "homotop" not in run.message


def test_a_move_that_pays_is_chosen_more_often_and_one_that_returns_grows() -> None:
    hops, rng = basin_hops.first_hops(np.zeros(6), 10.0), np.random.default_rng(0)
    lengths: dict[Kind, list[float]] = {kind: [] for kind in Kind}
    for _ in range(200):
        hop = basin_hops.propose(hops, np.ones(6), rng.normal(size=6), rng)
        lengths[hop.move.kind].append(hops.records[hop.move].length)
        pays = hop.move.kind is Kind.GROUP
        fun = hops.best.fun - 1 if pays else hops.current.fun
        hops = basin_hops.after(hops, hop, hop.x, fun, cost=20, converged=True)
    assert len(lengths[Kind.GROUP]) > 100
    assert lengths[Kind.ALL][-1] > lengths[Kind.ALL][0]


def test_the_contest_gives_each_its_share_and_the_faster_one_the_rest() -> None:
    contest = Contest()
    for _ in range(100):
        if contest.hops_are_next:
            contest = Contest(hops=after_turn(contest.hops, 10, 0.0), homotopy=contest.homotopy)
        else:
            contest = Contest(hops=contest.hops, homotopy=after_turn(contest.homotopy, 10, 1.0))
    assert MIN_SHARE * 1000 <= contest.hops.spent <= 2 * MIN_SHARE * 1000
