"""The replay log of a portfolio survives a checkpoint unchanged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slgh.auto.replay_log import PhaseOutcome, ReplayLog

ENDED = [
    PhaseOutcome("landscape", np.array([1.0, 2.0]), np.inf, 1, 90),
    PhaseOutcome("homotopy", np.array([0.5, 0.25]), 3.0, -1, 40),
]
ANSWERS = [np.array([4.0, np.nan, 5.0]), np.array([[6.0, 7.0]]), np.array([8.0])]


def written() -> ReplayLog:
    """Return a log with two finished phases, and a third with three answers, one of them a gradient."""
    replay_log = ReplayLog()
    for outcome in ENDED:
        replay_log.append(np.zeros(3))
        replay_log.end(outcome)
    for answer in ANSWERS:
        replay_log.append(answer)
    return replay_log


def loaded(replay_log: ReplayLog) -> ReplayLog:
    """Return a new log that continues from this one."""
    again = ReplayLog()
    again.load(replay_log.save())
    return again


@pytest.mark.parametrize("read", [0, 1, 2, 4, 5])
def test_phases_are_skipped_and_answers_repeated(read: int) -> None:
    """Also if the log is saved again after some of them."""
    replay_log = loaded(written())
    found: list[Any] = []
    while True:
        if len(found) == read:
            replay_log = loaded(replay_log)
            found, read = [], -1
        entry: Any = replay_log.skipped()
        entry = replay_log.repeated() if entry is None else entry
        if entry is None:
            break
        found.append(entry)
    assert len(found) == len(ENDED) + len(ANSWERS)
    for outcome, expected in zip(found, ENDED, strict=False):
        assert outcome._replace(x=expected.x) == expected
        np.testing.assert_array_equal(outcome.x, expected.x)
    for answer, given in zip(found[len(ENDED) :], ANSWERS, strict=True):
        np.testing.assert_array_equal(answer, given)
        assert answer.shape == given.shape
    assert [o.phase for o in replay_log.outcomes] == ["landscape", "homotopy"]


def test_an_empty_replay_log_is_saved_too() -> None:
    again = loaded(ReplayLog())
    assert again.skipped() is None
    assert again.repeated() is None
    assert again.outcomes == []
