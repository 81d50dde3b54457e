"""Optimizers that several tests use."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

import slgh
from cases import TERMS, Case, starts


def options_of(case: Case) -> dict[str, Any]:
    given = {"max_iter": 30, "seed": 5, **case.params}
    if case.stochastic:
        given["sample_xi"] = TERMS
    return given


def make(**options: Any) -> slgh.Optimizer:
    return slgh.Optimizer(
        starts(1)[0], method="zoslgh_r", t1=0.5, step=0.1, samples=3, seed=0, **{"max_iter": 5} | options
    )


def waves(x: Any) -> Any:
    return (x**2 - np.cos(5 * x)).sum(-1)


def pickled(opt: slgh.Optimizer) -> slgh.Optimizer:
    return pickle.loads(pickle.dumps(opt))  # type: ignore[no-any-return]
