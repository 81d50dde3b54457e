"""The fuzzing harness: a short run of each target, and proof that its checks can fail."""

from __future__ import annotations

import dataclasses
import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import slgh
import slgh.engine.python_loop
import slgh.engine.step
import slgh.engine.termination
import slgh.oracles
import slgh.schedules
import slgh.updates
from fuzz.runner import Campaign, Worker, report
from fuzz.runs import Experiment
from fuzz.target import Case, Violation
from fuzz.targets import available, load
from fuzz.worker import case_of, run_case, signature

pytestmark = pytest.mark.slow

SECONDS = 5.0
"""Seconds per target."""


@pytest.mark.parametrize("name", available())
def test_a_slice_of_each_target_finds_nothing(name: str) -> None:
    target, until, index = load(name), time.monotonic() + SECONDS, 0
    while time.monotonic() < until:
        case = case_of(target, 2026, index)
        outcome = run_case(target, case)
        assert "finding" not in outcome, f"{outcome['trace']}\n{target.script(case)}"
        index += 1
    assert index


@pytest.mark.parametrize("name", available())
def test_a_case_depends_on_its_seed_alone(name: str) -> None:
    target = load(name)
    assert case_of(target, 5, 3) == case_of(target, 5, 3)
    assert any(case_of(target, 5, i) != case_of(target, 6, i) for i in range(5))


PLAIN: Case = {
    "method": "zoslgh_r",
    "params": {"t1": 0.5, "step": 0.02, "samples": 3, "gamma": 0.9},
    "gradient": False,
    "closed": False,
    "xi": None,
    "fun": {"kind": "ripple", "scale": 1.0, "offset": 0.0, "center": [0.3, -1.0, 0.7], "faults": []},
    "x0": [[1.5, -0.5, 2.0]],
    "batched": False,
    "dtype": "float64",
    "seed": 3,
    "bounds": None,
    "max_iter": 20,
    "max_evals": None,
    "target": None,
    "history": "x",
    "on_nonfinite": "reject",
    "calling": "vectorized",
    "returns": "float",
    "hostile": False,
    "callback": None,
    "stop_after": 1,
    "batch_size": None,
    "strict": False,
    "twice": False,
    "memory": "own",
}


def checked(case: Case) -> None:
    """Run a case and compare it with the reference."""
    experiment = Experiment(case)
    experiment.check(experiment.run())


def test_the_plain_case_passes() -> None:
    checked(PLAIN)


def scaled(field: str, factor: float) -> Callable[[Any], Any]:
    """Return a change of one number of an oracle's observation."""

    def change(observe: Any) -> Any:
        def faulty(self: Any, *args: Any) -> Any:
            seen, state = yield from observe(self, *args)
            return seen._replace(**{field: getattr(seen, field) * factor}), state

        return faulty

    return change


FAULTS: dict[str, tuple[Any, str, Callable[[Any], Any], Case]] = {
    "the estimate is 1 % too long": (slgh.oracles.Forward, "observe", scaled("g", 1.01), {}),
    "t falls too fast": (
        slgh.schedules.Ratio,
        "next",
        lambda old: lambda self, t, *rest: (old(self, t, *rest)[0] * 0.999999, ()),
        {},
    ),
    "momentum is forgotten": (
        slgh.updates.Momentum,
        "apply",
        lambda old: lambda self, x, seen, t, state, xp: (old(self, x, seen, t, state, xp)[0], state),
        {"params": PLAIN["params"] | {"update": "momentum"}},
    ),
    "one iteration too many": (
        slgh.engine.termination,
        "affordable_iterations",
        lambda old: lambda *args: old(*args) + 1,
        {"method": "scale_free", "params": {"t1": 0.5, "samples": 2}, "max_iter": None, "max_evals": 100},
    ),
    "points leave the bounds": (
        slgh.engine.bounds.Box,
        "clip",
        lambda old: lambda self, x, xp: x + 1e-3,
        {"bounds": [[1.4, 1.6], [-0.6, -0.4], [1.9, 2.1]]},
    ),
    "a bad value passes for a low one": (
        slgh.engine.step,
        "_better",
        lambda old: lambda best, points, values, finite, ops: old(best, points, np.nan_to_num(values), None, ops),
        {"fun": PLAIN["fun"] | {"offset": 5.0, "faults": [{"where": "hash", "value": "nan", "modulus": 2}]}},
    ),
    "the target must be undercut": (
        slgh.engine.python_loop,
        "status_after",
        lambda old: lambda limits, **seen: old(limits, **seen | {"value": None}),
        {"target": 0.5},
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_reference_sees_a_planted_fault(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, change, case = FAULTS[fault]
    checked(PLAIN | case)
    monkeypatch.setattr(owner, name, change(getattr(owner, name)))
    with pytest.raises(Violation):
        checked(PLAIN | case)


@dataclasses.dataclass
class Broken:
    """Target that always fails, hangs or dies. Simpler cases have a smaller n."""

    name: str = "broken"
    weight: float = 1.0
    timeout: float = 1.0

    def generate(self, rng: random.Random) -> Case:
        return {"n": rng.randrange(10, 20)}

    def check(self, case: Case) -> dict[str, int]:
        raise Violation(f"n is {case['n']}")

    def simpler(self, case: Case) -> Any:
        if case["n"] > 3:
            yield {"n": case["n"] - 1}

    def script(self, case: Case) -> str:
        return f"print({case['n']})"


class InProcess(Worker):
    """Worker without a process."""

    def ask(self, request: dict[str, Any], timeout: float) -> dict[str, Any]:
        return run_case(Broken(), request["case"])


def test_findings_are_counted_once_and_shrunk() -> None:
    campaign = Campaign(0, {"broken": Broken()}, time.monotonic() + 60)
    for index in range(3):
        outcome = run_case(Broken(), case_of(Broken(), 0, index))
        campaign.book(InProcess(), "broken", index, outcome, 0.1)
    (finding,) = campaign.findings.values()
    assert (finding.times, finding.case) == (3, {"n": 3})
    assert "print(3)" in report(campaign)


def test_signatures_leave_out_numbers() -> None:
    one, two = ({"finding": "Violation", "message": f"x is [{i}, 2.5], nan at {i}e-3."} for i in (1, 20))
    assert signature("runs", one) == signature("runs", two)


def test_a_worker_that_hangs_or_dies_is_a_finding() -> None:
    worker = Worker()
    try:
        passed = worker.ask({"target": "runs", "case": PLAIN}, 60)
        assert passed == {"counts": {"configurations": 1}}
        assert worker.ask({"target": "runs", "seed": 0, "index": 0}, 0.0)["finding"] == "Hung"
        assert worker.ask({"target": "no such target", "case": {}}, 60)["finding"] == "Crashed"
        assert worker.ask({"target": "runs", "case": PLAIN}, 60) == passed
    finally:
        worker.stop()
