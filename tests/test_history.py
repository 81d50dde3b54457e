"""History, callback and progress of a run."""

from __future__ import annotations

import dataclasses
import itertools
import tracemalloc
import warnings
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import slgh
from cases import CASES, Stopper, fails_after, fun, starts
from slgh.engine import history as histories
from slgh.engine.history import History, HistoryRow

CASE = CASES["zoslgh_r"]


def test_a_full_history_has_every_iteration() -> None:
    result = CASE.run(starts(1)[0], history="x", max_iter=25)
    history = result.history
    np.testing.assert_array_equal(history["iteration"], np.arange(25))
    np.testing.assert_array_equal(history["nfev"], 4 * np.arange(1, 26))
    np.testing.assert_allclose(history["t"], 0.5 * 0.9 ** np.arange(25), rtol=1e-12)
    np.testing.assert_array_equal(history["fun"], fun(history["x"]))
    np.testing.assert_array_equal(history["x"][0], starts(1)[0])
    assert (np.diff(history["fun_best"]) <= 0).all()
    assert (history["fun_best"] <= history["fun"]).all()


@pytest.mark.parametrize("rows", [2, 7, 64])
def test_a_thinned_history_keeps_to_its_size_and_is_evenly_spaced(rows: int) -> None:
    full = CASE.run(starts(1)[0], history="full", max_iter=300).history
    thin = CASE.run(starts(1)[0], history=rows, max_iter=300).history
    kept = thin["iteration"]
    assert rows / 2 - 1 <= len(kept) <= rows
    assert len(set(np.diff(kept))) <= 1
    np.testing.assert_array_equal(thin["fun"], full["fun"][kept])


@pytest.mark.parametrize("off", [0, None, False])
def test_history_can_be_off(off: object) -> None:
    assert len(CASE.run(starts(1)[0], history=off).history["fun"]) == 0


@pytest.mark.parametrize("options", [{}, {"batched": True}, {"batched": True, "batch_size": 2}])
def test_a_history_without_iterations_has_the_shapes_of_its_columns(options: dict[str, Any]) -> None:
    x0 = starts(3) if options else starts(1)[0]
    empty, filled = (CASE.run(x0, max_seconds=n, history="x", **options).history for n in (0.0, 100.0))
    assert {name: column.shape[1:] for name, column in empty.items()} == {
        name: column.shape[1:] for name, column in filled.items()
    }
    assert {len(column) for column in empty.values()} == {0}


def test_problems_that_have_ended_repeat_their_last_row() -> None:
    free = CASE.run(starts(4), batched=True)
    target = float(np.median(free.fun_best)) + 1e-9
    result = CASE.run(starts(4), batched=True, target=target, history="x")
    early = int(np.argmin(result.nit))
    rows = result.history["x"][:, early]
    last = result.nit[early] - 1
    assert result.nit[early] < result.nit.max()
    np.testing.assert_array_equal(rows[last:], np.tile(rows[last], (len(rows) - last, 1)))


def test_the_callback_sees_each_iteration() -> None:
    seen: list[slgh.Result] = []
    result = CASE.run(starts(1)[0], callback=seen.append, history="x", max_iter=6)
    assert [s.nit for s in seen] == [1, 2, 3, 4, 5, 6]
    np.testing.assert_array_equal([s.x for s in seen], result.history["x"])
    np.testing.assert_array_equal([s.fun for s in seen], result.history["fun"])
    assert all(s.fun == fun(s.x) for s in seen)
    assert all(s.status == slgh.Status.RUNNING for s in seen)


def test_scipys_callback_signature_works() -> None:
    seen = []

    def callback(*, intermediate_result: slgh.Result) -> Any:
        seen.append(intermediate_result.fun)

    CASE.run(starts(1)[0], callback=callback, max_iter=3)
    assert len(seen) == 3


def test_true_or_stop_iteration_stops_and_nothing_else() -> None:
    def stops(result: slgh.Result) -> Any:
        if result.nit == 4:
            raise StopIteration

    for callback in (lambda r: r.nit == 4, lambda r: np.bool_(r.nit == 4), stops):
        result = CASE.run(starts(1)[0], callback=callback)
        assert (result.nit, result.status, result.success) == (4, slgh.Status.CALLBACK, False)
        assert result.fun == fun(result.x)
    assert CASE.run(starts(1)[0], callback=lambda r: 1, max_iter=5).nit == 5


def test_the_callback_of_a_batch_sees_all_problems() -> None:
    free = CASE.run(starts(4), batched=True)
    target = float(np.median(free.fun_best)) + 1e-9
    seen: list[slgh.Result] = []
    result = CASE.run(starts(4), batched=True, target=target, history="x", callback=seen.append)
    assert len(set(result.nit)) > 1, "the problems end at different times"
    np.testing.assert_array_equal([s.x for s in seen], result.history["x"])
    np.testing.assert_array_equal([s.fun for s in seen], result.history["fun"])


def test_a_problem_that_reaches_its_target_as_the_callback_stops_has_reached_it() -> None:
    alone = CASE.run(starts(1)[0], target=0.5, max_iter=2000)
    stopped = CASE.run(starts(1)[0], target=0.5, max_iter=2000, callback=lambda r: r.nit == alone.nit)
    assert (stopped.status, stopped.fun) == (slgh.Status.TARGET, alone.fun)


def test_builtins_are_callbacks() -> None:
    seen: deque[slgh.Result] = deque()
    CASE.run(starts(1)[0], callback=seen.append, max_iter=3)
    assert len(seen) == 3


def test_an_exception_in_the_callback_arrives() -> None:
    with pytest.raises(KeyError, match="mine"):
        CASE.run(starts(1)[0], callback=lambda r: dict[str, int]()["mine"])


def test_warnings_in_the_callback_are_the_users_own() -> None:
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        CASE.run(starts(1)[0], callback=lambda r: np.ones(1) / np.zeros(1) is None, max_iter=1)


def test_the_progress_bar_is_drawn_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    quiet = CASE.run(starts(1)[0], max_iter=20)
    assert capsys.readouterr() == ("", "")
    shown = CASE.run(starts(1)[0], max_iter=20, progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "20/20" in err
    assert "best" in err
    np.testing.assert_array_equal(shown.x, quiet.x)
    CASE.run(starts(2), batched=True, progress=True, target=1e9)


def test_the_progress_in_a_notebook_is_a_line_of_text(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr("slgh.engine.recorder.REDRAW_SECONDS", 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CASE.run(starts(1)[0], max_iter=20, progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith("\n")
    lines = err[:-1].split("\r")[1:]
    assert len(lines) == 21
    assert all(line.startswith("slgh ") for line in lines)
    assert lines[-1].startswith("slgh 20/20 best ")
    assert all(len(old.rstrip()) <= len(new) for old, new in itertools.pairwise(lines)), "a line erases the one before"


def test_xhat_is_an_iterate_drawn_beforehand() -> None:
    rows = [CASE.run(starts(1)[0], seed=s, history="x", max_iter=10) for s in range(200)]
    picks = [int(np.flatnonzero((r.history["x"] == r.xhat).all(axis=-1))[0]) for r in rows]
    counts = np.bincount(picks, minlength=10)
    assert ((counts - 20) ** 2 / 20).sum() < 30, "uniform: chi-square with 9 degrees of freedom"


def test_xhat_of_an_exact_gradient_has_the_least_norm() -> None:
    from cases import grad

    result = CASES["gd"].run(starts(1)[0], history="x", step=0.3)
    norms = np.linalg.norm(grad(result.history["x"]), axis=-1)
    np.testing.assert_array_equal(result.xhat, result.history["x"][norms.argmin()])


def test_history_of_auto_has_values() -> None:
    history = CASES["scale_free"].run(starts(1)[0]).history
    assert np.isfinite(history["fun"]).all()
    assert history["fun_best"][0] <= fun(starts(1)[0])


def test_a_stochastic_target_returns_the_iterate_that_reached_it() -> None:
    for name in ("zoslgh_r stochastic", "scale_free stochastic"):
        result = CASES[name].run(starts(1)[0], target=0.5, history="x", max_iter=500)
        assert result.status == slgh.Status.TARGET
        np.testing.assert_array_equal(result.x, result.history["x"][-1])
        assert result.history["fun"][-1] <= 0.5


def test_auto_of_a_stochastic_function_reports_the_mean_of_the_last_tenth() -> None:
    result = CASES["scale_free stochastic"].run(starts(1)[0], history="x", max_iter=40)
    iterates = np.concatenate([result.history["x"][1:], [[np.nan] * 4]])
    np.testing.assert_allclose((result.x * 4 - np.nansum(iterates[36:], axis=0)), _last_iterate(40), rtol=1e-9)
    assert result.fun_se > 0


def _last_iterate(T: int) -> np.ndarray:
    """Return the iterate after T iterations, as the callback of a longer run with the same t receives it."""
    seen: list[np.ndarray] = []
    case = CASES["scale_free stochastic"]
    t = case.run(starts(1)[0], history="full", max_iter=T).history["t"]
    params = {name: case.params[name] for name in ("t1", "samples", "alpha")}
    ratio = dataclasses.replace(case, params=params | {"schedule": "ratio", "gamma": float(t[1] / t[0])})
    ratio.run(starts(1)[0], max_iter=T + 1, callback=lambda r: seen.append(r.x))
    return seen[-1]


def recorded(history: History, rows: int, ends: tuple[int, ...] = ()) -> dict[str, np.ndarray]:
    """Return the columns after this many iterations. The last active problem ends after each of `ends`."""
    active = np.arange(history.B)
    for k in range(rows):
        row = HistoryRow(k, 3 * k, active, {name: 1000.0 * active + k + i for i, name in enumerate(history.columns)})
        if history.wants(k):
            history.record(row)
        if k in ends:
            which = active == active[-1]
            history.close(active[which], {name: row.figures[name][which] for name in history.columns})
            active = active[~which]
    if history.iterations is None:
        return history.arrays()
    return history.per_problem(np.zeros(history.B, int), np.full(history.B, rows), 3, 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("B", "ends", "one_by_one"), [(1, (), False), (8, (3_000, 9_000, 19_000), False), (8, (3_000, 9_000), True)]
)
def test_a_full_history_peaks_at_three_times_its_size(B: int, ends: tuple[int, ...], one_by_one: bool) -> None:
    rows = 100_000 if B == 1 else 20_000
    tracemalloc.start()
    try:
        columns = recorded(History("full", B, iterations=rows if one_by_one else None), rows, ends)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(columns["iteration"]) == rows
    assert peak < 3 * sum(column.nbytes for column in columns.values())


@pytest.mark.parametrize("keep", ["full", 5, 64])
def test_the_rows_do_not_depend_on_when_they_are_packed(
    keep: int | str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"batched": True, "history": keep, "max_iter": 150}
    options["target"] = float(np.median(CASE.run(starts(6), **options).fun_best)) + 1e-9
    late = CASE.run(starts(6), **options)
    assert len(set(late.nit)) > 1, "the problems end at different times"
    monkeypatch.setattr(histories, "MAX_UNPACKED_ROWS", 7)
    with pytest.raises(Stopper):
        CASE.run(starts(6), fun=fails_after(40), checkpoint=tmp_path / "run", **options)
    for early in (CASE.run(starts(6), **options), CASE.run(starts(6), checkpoint=tmp_path / "run", **options)):
        for name, column in late.history.items():
            np.testing.assert_array_equal(early.history[name], column, err_msg=name)
            assert early.history[name].dtype == column.dtype


def test_a_run_saved_without_history_is_resumed_with_one(tmp_path: Path) -> None:
    target = float(np.median(CASE.run(starts(6), batched=True).fun_best)) + 1e-9
    options: dict[str, Any] = {"batched": True, "target": target, "checkpoint": tmp_path / "run"}
    with pytest.raises(Stopper):
        CASE.run(starts(6), fun=fails_after(29), history=0, **options)
    result = CASE.run(starts(6), history="full", **options)
    whole = CASE.run(starts(6), history="full", batched=True, target=target).history
    rows = result.history["iteration"]
    assert rows[0] > result.nit.min(), "a problem had ended before"
    going_on = result.nit > rows[0]
    np.testing.assert_array_equal(result.history["fun"][:, going_on], whole["fun"][rows][:, going_on])
    assert np.isnan(result.history["fun"][:, ~going_on]).all()
