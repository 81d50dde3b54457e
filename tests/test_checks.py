"""Errors about arguments."""

from __future__ import annotations

import pickle

import pytest

from slgh import checks
from slgh.checks import ArgumentError, ArgumentTypeError, ArgumentValueError, BrokenRule


def test_an_error_carries_the_argument_and_the_rule_it_breaks() -> None:
    with pytest.raises(ArgumentValueError, match="`t1` must be a finite number above 0, got t1=0") as caught:
        checks.real("t1", 0, above=0)
    assert caught.value.broken == BrokenRule("t1", "be a finite number above 0,", 0)


def test_an_error_can_be_copied_to_another_process() -> None:
    error = ArgumentTypeError.of("d", "be an integer,", 1.5, " Round it.")
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error) == "`d` must be an integer, got d=1.5. Round it."
    assert copy.broken == error.broken


@pytest.mark.parametrize("kind", ArgumentError.__subclasses__(), ids=lambda kind: kind.__name__)
def test_errors_about_arguments_are_built_in_ones_too(kind: type[ArgumentError]) -> None:
    assert issubclass(kind, ValueError | TypeError | OSError | ImportError)
