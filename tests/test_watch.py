"""A watch receives every iterate, stores what it selects, and ends problems that are done."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import slgh
from cases import WATCHED_STARTS, Entered, watched_bowl
from libraries import engine, every_library, to_library, to_numpy

METHODS: dict[str, dict[str, Any]] = {
    "zoslgh_r": {"t1": 0.3, "gamma": 0.97, "step": 0.05, "samples": 6},
    "zoadamm": {"t1": 0.05, "step": 0.2, "samples": 6},
    "slgh_r": {"t1": 0.3, "gamma": 0.97, "step": 0.05, "samples": 3},
    "scale_free": {"samples": 4},
}


@dataclasses.dataclass(frozen=True)
class Lowest:
    """Watch that stores the best point so far and its value."""

    names = ("where", "lowest")
    columns = ("lowest",)
    ends = False

    def init(self, x: Any, xp: Any) -> Any:
        return xp.zeros_like(x), xp.zeros_like(x[:, 0])

    def see(self, state: Any, sight: Any, xp: Any) -> Any:
        return sight.x_best, sight.f_best

    def done(self, state: Any, xp: Any) -> Any:
        return state[1] < -1


def value(x: Any) -> Any:
    return watched_bowl(x)[0]


def watched(library: str = "numpy", method: str = "zoslgh_r", x0: Any = WATCHED_STARTS, **options: Any) -> Any:
    given: dict[str, Any] = {"history": "x", "max_iter": 60, "seed": 3, "vectorized": True}
    given |= METHODS[method] | options
    if method == "slgh_r" and library == "numpy":
        given["grad"] = lambda x: 2 * (x - 0.5)
    watch = given.pop("watch", Entered(radius=1.5))
    return slgh.minimize(watched_bowl, to_library(x0, library), method=method, batched=True, watch=watch, **given)


@every_library
@pytest.mark.parametrize("method", METHODS)
def test_it_is_shown_every_iterate(library: str, method: str) -> None:
    run = watched(library, method)
    assert run.engine == engine(library)
    x, now = run.history["x"], run.history["now"]
    assert np.allclose(now, (x**2).sum(axis=-1), rtol=1e-10)
    for b in range(len(WATCHED_STARTS)):
        inside = np.flatnonzero((x[:, b] ** 2).sum(axis=-1) <= 1.5)
        assert to_numpy(run.watched["first"])[b] == (inside[0] if inside.size else -1)
        if inside.size:
            assert np.array_equal(to_numpy(run.watched["where"])[b], x[inside[0], b])
    assert (to_numpy(run.watched["first"]) > 0).sum() >= 2


@every_library
def test_it_changes_nothing_else(library: str) -> None:
    run = watched(library)
    plain = slgh.minimize(
        value, to_library(WATCHED_STARTS, library), method="zoslgh_r", batched=True, history="x", max_iter=60, seed=3,
        vectorized=True, **METHODS["zoslgh_r"],
    )  # fmt: skip
    assert np.array_equal(to_numpy(run.x), to_numpy(plain.x))
    assert np.array_equal(run.nfev, plain.nfev)
    assert not hasattr(plain, "watched")


@every_library
@pytest.mark.parametrize("method", METHODS)
def test_it_is_shown_the_best_point_so_far(library: str, method: str) -> None:
    run = watched(library, method, watch=Lowest())
    lowest = run.history["lowest"]
    assert (np.diff(lowest, axis=0) <= 0).all()
    assert (lowest <= run.history["fun"]).all()
    assert (lowest[-1] < lowest[0]).all()
    assert np.array_equal(to_numpy(run.watched["lowest"]), to_numpy(run.fun_best))
    assert np.array_equal(to_numpy(run.watched["where"]), to_numpy(run.x_best))
    assert np.allclose(to_numpy(value(run.watched["where"])), to_numpy(run.watched["lowest"]), rtol=1e-12)


@every_library
def test_it_is_shown_the_final_point(library: str) -> None:
    run = watched(library, max_iter=5, watch=Entered(radius=0.0))
    assert np.allclose(to_numpy(run.watched["now"]), (to_numpy(run.x) ** 2).sum(axis=1), rtol=1e-12)


@every_library
@pytest.mark.parametrize("method", ["zoslgh_r", "zoadamm", "slgh_r"])
def test_a_problem_ends_where_it_has_what_it_wants(library: str, method: str) -> None:
    free = watched(library, method)
    run = watched(library, method, watch=Entered(radius=1.5, ends=True))
    first = to_numpy(free.watched["first"]).astype(int)
    ended = first >= 0
    assert ended.sum() >= 2
    assert np.array_equal(run.status[ended], [slgh.Status.WATCHED] * ended.sum())
    assert run.success.all()
    assert np.array_equal(run.nit[ended], first[ended] + 1)
    assert np.array_equal(to_numpy(run.x)[ended], to_numpy(free.watched["where"])[ended])
    assert np.allclose(to_numpy(run.fun), to_numpy(value(run.x)))
    each = (free.nfev + free.njev - 1) // free.nit
    assert np.array_equal(run.nfev + run.njev, run.nit * each + 1)
    assert "Stopped by `watch`." in run.message


@every_library
def test_a_run_is_continued_bit_for_bit(library: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"watch": Entered(radius=1.5, ends=True)}
    whole = watched(library, **options)
    file = tmp_path / "run.npz"
    watched(library, max_iter=11, checkpoint=file, **options)
    resumed = watched(library, checkpoint=file, **options)
    for name in whole.watched:
        assert np.array_equal(to_numpy(resumed.watched[name]), to_numpy(whole.watched[name]))
    assert np.array_equal(to_numpy(resumed.x), to_numpy(whole.x))
    for name, column in whole.history.items():
        assert np.array_equal(resumed.history[name], column)
    with pytest.raises(ValueError, match="watch"):
        watched(library, checkpoint=file, watch=Entered(radius=9.0))


def test_one_problem_loses_the_axis() -> None:
    run = slgh.minimize(
        watched_bowl, WATCHED_STARTS[1], method="zoslgh_r", vectorized=True, watch=Entered(radius=1.5), max_iter=60,
        seed=0, **METHODS["zoslgh_r"],
    )  # fmt: skip
    assert isinstance(run.watched["first"], float)
    assert run.watched["where"].shape == (3,)
    assert run.history["now"].shape == (60,)


def test_a_nan_is_no_success() -> None:
    def rough(x: Any) -> Any:
        f, r = watched_bowl(x)
        return np.where(r < 1.5, np.nan, f), np.where(r < 1.5, np.nan, r)

    run = slgh.minimize(
        rough, WATCHED_STARTS, method="zoslgh_r", batched=True, vectorized=True, watch=Entered(radius=1.5, ends=True),
        max_iter=60, seed=3, **METHODS["zoslgh_r"],
    )  # fmt: skip
    assert (run.watched["first"] == -1).all()
    assert not (run.status == slgh.Status.WATCHED).any()


def test_refusals() -> None:
    with pytest.raises(TypeError, match="must return a tuple"):
        slgh.minimize(value, WATCHED_STARTS[0], vectorized=True, watch=Entered(radius=1.0), max_evals=50)
    with pytest.raises(ValueError, match="needs vectorized=True"):
        slgh.minimize(watched_bowl, WATCHED_STARTS[0], watch=Entered(radius=1.0), max_evals=50)
    with pytest.raises(TypeError, match=r"`watch` must be a slgh\.protocols\.Watch"):
        slgh.minimize(watched_bowl, WATCHED_STARTS[0], vectorized=True, watch="all", max_evals=50)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="without sample_xi"):
        slgh.minimize(
            watched_bowl, WATCHED_STARTS[0], vectorized=True, watch=Entered(radius=1.0), sample_xi=3, max_evals=50
        )
    with pytest.raises(ValueError, match="must return one value per point"):
        slgh.minimize(
            lambda x: (value(x), 1.0), WATCHED_STARTS[0], vectorized=True, watch=Entered(radius=1.0), max_evals=50
        )
