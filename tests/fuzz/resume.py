"""Runs that stop at random moments and continue from a checkpoint, to the same bits as a run that never stopped."""

from __future__ import annotations

import random
import tempfile
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.asktell import draw_case, run, script_of
from fuzz.functions import Planned
from fuzz.invariants import COMPARED, expect, expect_equal, host, same
from fuzz.runs import Experiment, simpler_cases
from fuzz.target import Case, Violation


def _raise_at(at: int, result: Any) -> None:
    if result.nit >= at:
        raise Planned


class Resume:
    """The target "resume"."""

    name = "resume"
    weight = 2.0
    timeout = 60.0

    def generate(self, rng: random.Random) -> Case:
        case = draw_case(rng, auto=0.3)
        case["on_nonfinite"] = rng.choice(["reject", "penalize"])
        case["fun"]["faults"] = [f for f in case["fun"]["faults"] if f["where"] != "calls"]
        if rng.random() < 0.15:  # no value is usable, and the run ends after some iterations
            everywhere = {"where": "region", "value": "nan", "low": -1e9, "high": 1e9}
            case["fun"]["faults"] = [everywhere]
            case["max_iter"], case["max_evals"] = (None if case["method"] == "auto" else 25), 300
            case["params"].pop("samples", None)
        how = ["exception", "exception", "Ctrl-C", "callback", "callback raises", "max_iter", "finished", "refused"]
        stops = [
            {"how": rng.choice(how), "at": rng.choice([1, 2, 3, 5, 9, 20, 50, 120])}
            for _ in range(rng.choice([1, 1, 2, 3]))
        ]
        return case | {"stops": stops, "every": rng.choice([None, 1, 1, 3, 10])}

    def check(self, case: Case) -> dict[str, int]:
        base = Experiment(case)
        result = base.run()
        used = sum(len(events) for events in base.recorder.events)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "run.npz"
            for stop in case["stops"]:
                self.sit(case, stop, path, used)
            last = Experiment(case)
            found = run(last, last.arguments() | {"checkpoint": self.checkpoint(case, path)})
            # The iteration of xhat is drawn from those that were planned at first.
            shorter = any(stop["how"] == "max_iter" for stop in case["stops"])
            expect_equal(result, found, "Resumed", tuple(n for n in COMPARED if n != "xhat" or not shorter))
            expect(
                result.message == found.message, f"Resumed: the message is {found.message!r}, not {result.message!r}."
            )
        return {"configurations": 1, "resumes": len(case["stops"])}

    def checkpoint(self, case: Case, path: Path) -> Any:
        import slgh

        return str(path) if case["every"] is None else slgh.Checkpoint(path=path, every_iterations=case["every"])

    def sit(self, case: Case, stop: dict[str, Any], path: Path, used: int) -> None:
        """Run until the stop."""
        experiment = Experiment(case)
        recorder = experiment.recorder
        arguments = experiment.arguments() | {"checkpoint": self.checkpoint(case, path)}
        how, at = stop["how"], stop["at"]
        if how == "exception":
            recorder.raises_at = at
        elif how == "Ctrl-C":
            recorder.raises_at, recorder.raises = at, KeyboardInterrupt
        elif how == "callback" and case["batch_size"] is None:
            arguments["callback"] = lambda result: result.nit >= at
        elif how == "callback raises" and case["batch_size"] is None:
            arguments["callback"] = partial(_raise_at, at)
        elif how == "max_iter" and case["max_iter"] is not None and extendable(case):
            arguments["max_iter"] = min(case["max_iter"], at)
        elif how == "refused":
            self.refuse(case, experiment, arguments, path)
            return
        try:
            found = run(experiment, arguments)
        except Planned:
            return
        if how == "Ctrl-C" and found.status is not None and np.any(host(found.status) == 5):
            for b in range(len(case["x0"])):
                nfev = int(host(found.nfev)[b] if case["batched"] else found.nfev)
                expect(nfev <= used, f"After Ctrl-C nfev is {nfev}, the whole run has {used} evaluations.")
                best = float(host(found.fun_best)[b] if case["batched"] else found.fun_best)
                if np.isfinite(best) and not recorder.stochastic:
                    x = host(found.x_best)[b] if case["batched"] else host(found.x_best)
                    value = recorder.function.value(x, b if case["batched"] else None)
                    expect(float(value) == best, f"After Ctrl-C fun_best is {best}, f(x_best) is {value}.")

    def refuse(self, case: Case, experiment: Experiment, arguments: dict[str, Any], path: Path) -> None:
        """A checkpoint of another run is refused, and stays unchanged."""
        if not path.exists():
            return
        before = path.read_bytes()
        other = Experiment(case)
        seed = case["seed"]
        changes: list[dict[str, Any]] = [{"seed": [s + 1 for s in seed] if isinstance(seed, list) else seed + 1}]
        changes.append({"on_nonfinite": "penalize" if case["on_nonfinite"] == "reject" else "reject"})
        if case["bounds"] is None:
            changes.append({"bounds": [(-9.0, 9.0)] * len(case["x0"][0])})
        for change in changes:
            try:
                with warnings.catch_warnings():
                    run(other, arguments | change)
            except ValueError as error:
                expect("another run" in str(error), f"A checkpoint of another run raised {error!r}.")
            else:
                raise Violation(f"A checkpoint was continued with other arguments: {change}.")
            expect(same(path.read_bytes(), before), "A checkpoint that was refused has changed.")
        moved = Experiment(case | {"x0": [[x - 0.0 if i else x * 0.5 for i, x in enumerate(r)] for r in case["x0"]]})
        if case["bounds"] is None and not np.array_equal(moved.starts, experiment.starts):
            try:
                run(moved, arguments)
            except ValueError as error:
                expect("another run" in str(error), f"A checkpoint of another start raised {error!r}.")
            else:
                raise Violation("A checkpoint was continued from another start.")

    def simpler(self, case: Case) -> Iterator[Case]:
        if len(case["stops"]) > 1:
            for i in range(len(case["stops"])):
                yield case | {"stops": case["stops"][:i] + case["stops"][i + 1 :]}
        for one in simpler_cases(case):
            if len(one["x0"]) == len(case["x0"]):
                yield one

    def script(self, case: Case) -> str:
        return script_of(self.name, case)


def extendable(case: Case) -> bool:
    """Return True if the number of iterations is not part of the run's identity."""
    from fuzz.parts import METHODS

    params = case["params"]
    _, schedule, update, _ = METHODS[case["method"]]
    planned = params.get("schedule", schedule) == "budget" or params.get("update", update) == "spsa_gain"
    theory = params.get("step") == "theory" or "L1" in params
    return not planned and not theory and case["batch_size"] is None


TARGET = Resume()
