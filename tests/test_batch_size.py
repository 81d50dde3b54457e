"""With `batch_size`, waiting problems take the slots of finished ones. The results are those of one full batch."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import slgh
from cases import (
    CASES,
    WATCHED_STARTS,
    Case,
    Entered,
    Stopper,
    assert_same,
    fails_after,
    fun,
    starts,
    watched_bowl,
)
from libraries import parametrize_libraries, to_library, to_numpy
from slgh.engine.history import History, HistoryRow

ALIKE = [name for name, case in CASES.items() if case.method != "zosvrg"]
every_case = pytest.mark.parametrize("case", [CASES[name] for name in ALIKE], ids=ALIKE)
eager_libraries = parametrize_libraries("numpy", "torch", "cuda")


def compare(found: slgh.Result, expected: slgh.Result) -> None:
    """Assert bit-equality.

    On a GPU, the last digits of sums differ, and division by t amplifies them to eps / t of g.
    """
    assert found.engine == expected.engine
    if found.engine == "numpy":
        assert_same(found, expected)
        return
    for name in ("nit", "nfev", "njev", "status", "nrejected"):
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)
    by_differences = not np.any(expected.njev)
    slack = np.finfo(np.float64).eps / to_numpy(expected.t).min() if by_differences else 0.0
    close: dict[str, Any] = {"rtol": max(1e-9, slack), "atol": max(1e-12, slack)}
    for name in ("x", "fun", "fun_best", "t", "xhat"):
        np.testing.assert_allclose(to_numpy(found[name]), to_numpy(expected[name]), **close, err_msg=name)
    for name, column in found.history.items():
        np.testing.assert_allclose(column, expected.history[name], **close, err_msg=f"history {name}")


@eager_libraries
@every_case
@pytest.mark.parametrize("batch_size", [1, 3, 6])
def test_the_results_are_the_same(case: Case, library: str, batch_size: int) -> None:
    x0 = to_library(starts(7), library)
    options: dict[str, Any] = {"batched": True, "history": "x", "max_iter": 12}
    compare(case.run(x0, batch_size=batch_size, **options), case.run(x0, **options))


@eager_libraries
@pytest.mark.parametrize("history", ["full", 1000, 9, 0])
@pytest.mark.parametrize("name", ["zoslgh_r", "scale_free"])
def test_problems_that_end_early_leave_their_places(library: str, history: Any, name: str) -> None:
    case, x0 = CASES[name], to_library(starts(11), library)
    free = case.run(x0, batched=True, max_iter=50)
    options = {"batched": True, "max_iter": 50, "history": history, "target": float(np.median(to_numpy(free.fun_best)))}
    whole = case.run(x0, **options)
    assert len(set(whole.nit)) > 3
    found = case.run(x0, batch_size=4, **options)
    if history == 9:  # the stride is that of the longest run, not of this one
        n = min(len(found.history["iteration"]), len(whole.history["iteration"]))
        found["history"] = {n_: c[:n] for n_, c in found.history.items()}
        whole["history"] = {n_: c[:n] for n_, c in whole.history.items()}
    compare(found, whole)


@eager_libraries
@pytest.mark.parametrize("limit", [{"max_evals": 40}, {"max_evals": 40, "max_iter": 5}])
@pytest.mark.parametrize("name", ["zoslgh_r", "scale_free"])
def test_the_budget_is_each_problems_own(library: str, limit: dict[str, Any], name: str) -> None:
    x0 = to_library(starts(5), library)
    found = CASES[name].run(x0, batched=True, batch_size=2, **limit)
    compare(found, CASES[name].run(x0, batched=True, **limit))
    assert (found.nfev <= limit["max_evals"]).all()


@eager_libraries
def test_data_and_a_watch_go_with_their_problem(library: str) -> None:
    x0 = np.concatenate([WATCHED_STARTS, WATCHED_STARTS + 0.3, WATCHED_STARTS - 0.2])
    shift = np.linspace(0, 1, 9)

    def moved(x: Any, a: Any) -> Any:
        f, r = watched_bowl(x - a[..., None])
        return f, r

    options = {
        "method": "zoslgh_r", "t1": 0.3, "gamma": 0.97, "step": 0.05, "samples": 6, "max_iter": 60, "seed": 3,
        "vectorized": True, "batched": True, "data": to_library(shift, library),
        "watch": Entered(radius=1.5, ends=True), "history": "full",
    }  # fmt: skip
    whole = slgh.minimize(moved, to_library(x0, library), **options)
    found = slgh.minimize(moved, to_library(x0, library), batch_size=2, **options)
    compare(found, whole)
    for name in whole.watched:
        np.testing.assert_allclose(to_numpy(found.watched[name]), to_numpy(whole.watched[name]), rtol=1e-9, atol=1e-12)


@eager_libraries
def test_no_more_are_asked_about_than_may_be(library: str) -> None:
    seen = []

    def watched(x: Any, *extra: Any) -> Any:
        seen.append(x.shape[0])
        return fun(x, *extra)

    CASES["scale_free"].run(to_library(starts(10), library), fun=watched, batched=True, batch_size=4, max_iter=6)
    assert max(seen) == 4


@pytest.mark.parametrize("at", [1, 3, 8, 20, 26])
@pytest.mark.parametrize("name", ["zoslgh_r", "scale_free", "sgd"])
def test_a_run_that_was_broken_off_is_continued_bit_for_bit(name: str, at: int, tmp_path: Path) -> None:
    case, file = CASES[name], tmp_path / "run.npz"
    options: dict[str, Any] = {"batched": True, "history": "full", "batch_size": 3, "max_iter": 9}
    whole = case.run(starts(8), **options)
    with pytest.raises(Stopper):
        case.run(starts(8), fun=fails_after(at), checkpoint=file, **options)
    assert_same(case.run(starts(8), checkpoint=file, **options), whole)
    with pytest.raises(ValueError, match="batch_size"):
        case.run(starts(8), checkpoint=file, **options | {"batch_size": 5})


@pytest.mark.cuda
def test_a_run_on_cuda_is_continued(tmp_path: Path) -> None:
    case, file, x0 = CASES["zoslgh_r"], tmp_path / "run.npz", to_library(starts(8), "cuda")
    options: dict[str, Any] = {"batched": True, "history": "full", "batch_size": 3, "max_iter": 90}
    whole = case.run(x0, **options)
    case.run(x0, checkpoint=slgh.Checkpoint(path=file, every_iterations=7), max_seconds=0.02, **options)
    compare(case.run(x0, checkpoint=file, **options), whole)


@pytest.mark.parametrize("name", ["zoslgh_r", "scale_free"])
def test_a_run_whose_time_was_up_between_two_lots_is_continued(name: str, tmp_path: Path) -> None:
    case, file, calls = CASES[name], tmp_path / "run.npz", []
    options: dict[str, Any] = {"batched": True, "history": "full", "batch_size": 2, "max_iter": 8}

    def slow(x: Any) -> Any:
        calls.append(1)
        if len(calls) == 8 + 2 * (name == "scale_free"):  # the last of the first two problems
            time.sleep(0.3)
        return fun(x)

    cut = case.run(starts(4), fun=slow, checkpoint=file, max_seconds=0.25, **options)
    assert (cut.nit == [8, 8, 0, 0]).all()
    assert_same(case.run(starts(4), checkpoint=file, **options), case.run(starts(4), **options))


def test_a_run_cannot_be_made_longer_unnoticed(tmp_path: Path) -> None:
    file = tmp_path / "run.npz"
    options: dict[str, Any] = {"batched": True, "batch_size": 2, "checkpoint": file}
    CASES["zoslgh_r"].run(starts(4), max_iter=5, **options)
    with pytest.raises(ValueError, match="batch_size"):
        CASES["zoslgh_r"].run(starts(4), max_iter=9, **options)


def test_a_mere_start_can_be_gone_on_from_with_fewer(tmp_path: Path) -> None:
    file = tmp_path / "run.npz"
    options: dict[str, Any] = {"batched": True, "max_iter": 8}
    for name in ("zoslgh_r", "scale_free"):
        file.unlink(missing_ok=True)
        with pytest.raises(Stopper):
            CASES[name].run(starts(4), fun=fails_after(1 if name == "zoslgh_r" else 2), checkpoint=file, **options)
        found = CASES[name].run(starts(4), checkpoint=file, batch_size=2, **options)
        assert_same(found, CASES[name].run(starts(4), batch_size=2, **options))


@eager_libraries
def test_points_outside_the_box_are_not_recorded(library: str) -> None:
    options: dict[str, Any] = {
        "batched": True,
        "max_iter": 12,
        "history": "x",
        "bounds": [(-2.0, 2.0)] * 4,
        "target": 3.0,
    }
    x0 = to_library(np.clip(starts(7), -2, 2), library)
    found = CASES["zoslgh_r"].run(x0, batch_size=2, **options)
    compare(found, CASES["zoslgh_r"].run(x0, **options))
    assert (np.abs(found.history["x"]) <= 2).all()


def test_time_that_is_up_leaves_the_others_as_they_were() -> None:
    x0 = starts(6)
    found = CASES["zoslgh_r"].run(x0, batched=True, batch_size=2, max_iter=10**6, max_seconds=0.05)
    assert (found.status == slgh.Status.MAX_SECONDS).all()
    assert (found.nit[:2] > 0).all()
    assert (found.nit[2:] == 0).all()
    assert (found.nfev[2:] == 0).all()
    assert np.isnan(found.fun[2:]).all()
    assert np.array_equal(found.x[2:], x0[2:])
    assert not found.success.any()


def test_rows_are_put_where_they_belong() -> None:
    history = History(4, 3, iterations=8)
    assert history.stride == 4
    for k, active in [(0, [0, 1]), (4, [0, 1]), (8, [2, 1]), (12, [2])]:
        figures = {name: np.array([100 * b + k for b in active], float) for name in history.columns}
        history.record(HistoryRow(k, 5 * (k + 1), np.array(active), figures))
    found = history.per_problem(np.array([0, 0, 8]), np.array([8, 8, 8]), 5, 0)
    assert found["iteration"].tolist() == [0, 4]
    assert found["nfev"].tolist() == [5, 25]
    assert found["fun"].tolist() == [[0, 100, 208], [4, 104, 212]]


def test_refusals() -> None:
    run, x0 = CASES["zoslgh_r"].run, starts(4)
    with pytest.raises(ValueError, match="`batch_size` must be an integer >= 1"):
        run(x0, batched=True, batch_size=0)
    with pytest.raises(ValueError, match="exclude each other"):
        run(x0, batched=True, batch_size=2, callback=print)
    with pytest.raises(ValueError, match="needs max_iter or max_evals, enough for one iteration"):
        run(x0, batched=True, batch_size=2, max_iter=None, max_seconds=1.0)
    with pytest.raises(ValueError, match="enough for one iteration"):
        run(x0, batched=True, batch_size=2, max_evals=3)
    with pytest.raises(ValueError, match="iterations of equal cost"):
        CASES["zosvrg"].run(x0, batched=True, batch_size=2)
    assert run(x0, batched=True, batch_size=4).success.all()
    assert run(x0[0], batch_size=4).success


@pytest.mark.slow
def test_jax_arrays_are_refused() -> None:
    with pytest.raises(ValueError, match="for NumPy and PyTorch arrays"):
        CASES["zoslgh_r"].run(to_library(starts(4), "jax"), batched=True, batch_size=2)


@pytest.mark.slow
def test_a_stream_on_torch_is_that_of_numpy() -> None:
    options: dict[str, Any] = {"batched": True, "batch_size": 2, "max_iter": 9}
    found = CASES["zoslgh_r"].run(to_library(starts(5), "torch"), **options)
    assert np.allclose(found.x.numpy(), CASES["zoslgh_r"].run(starts(5), **options).x, rtol=1e-12)
