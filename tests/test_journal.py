"""What a campaign's journal holds comes out of a checkpoint as it went in."""

from __future__ import annotations

import numpy as np
import pytest

from slgh.auto.replay_log import Journal, Outcome

ENDED = [Outcome("look", np.array([1.0, 2.0]), np.inf, 1, 90), Outcome("homotopy", np.array([0.5, 0.25]), 3.0, -1, 40)]
ANSWERS = [np.array([4.0, np.nan, 5.0]), np.array([[6.0, 7.0]]), np.array([8.0])]


def written() -> Journal:
    """Two stages have ended, and a third was given three answers, a gradient among them."""
    journal = Journal()
    for outcome in ENDED:
        journal.heard(np.zeros(3))
        journal.end(outcome)
    for answer in ANSWERS:
        journal.heard(answer)
    return journal


def loaded(journal: Journal) -> Journal:
    """Another one that goes on from it."""
    again = Journal()
    again.load(journal.saved())
    return again


@pytest.mark.parametrize("read", [0, 1, 2, 4, 5])
def test_stages_are_skipped_and_answers_repeated(read: int) -> None:
    """Also where it is saved again after so many of them."""
    journal = loaded(written())
    found = []
    while journal.skips or journal.repeats:
        if len(found) == read:
            journal = loaded(journal)
            found, read = [], -1
        found.append(journal.skip() if journal.skips else journal.repeat())
    assert len(found) == len(ENDED) + len(ANSWERS)
    for outcome, expected in zip(found, ENDED, strict=False):
        assert outcome._replace(x=None) == expected._replace(x=None)
        np.testing.assert_array_equal(outcome.x, expected.x)
    for answer, expected in zip(found[len(ENDED) :], ANSWERS, strict=True):
        np.testing.assert_array_equal(answer, expected)
        assert answer.shape == expected.shape
    assert [o.stage for o in journal.outcomes] == ["look", "homotopy"]


def test_an_empty_journal_is_saved_too() -> None:
    again = loaded(Journal())
    assert not again.skips
    assert not again.repeats
    assert again.outcomes == []
