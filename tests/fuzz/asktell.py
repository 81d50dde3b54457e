"""Run one problem in many ways. All must give the same bits.

Point by point, many points at once, through a map, with ask and tell and overwritten buffers, each problem of a batch
alone, in another order, and a few at a time.
"""

from __future__ import annotations

import json
import random
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from fuzz.functions import ClosedForm
from fuzz.invariants import COMPARED, expect, expect_equal, expect_same_events, host, same
from fuzz.runs import Experiment, Runs, simpler_cases, spoil
from fuzz.target import Case


def draw_case(rng: random.Random, *, auto: float = 0.0) -> Case:
    """Draw a case of `minimize`, with "auto" with the given probability."""
    case = Runs().generate(rng)
    while len(case["x0"][0]) > 1000:
        case = Runs().generate(rng)
    if rng.random() < auto:
        case |= {"method": "auto", "params": {}, "batched": False, "x0": case["x0"][:1], "closed": False, "xi": None}
        case |= {"gradient": rng.random() < 0.3, "max_iter": None, "batch_size": None, "calling": "vectorized"}
        case["max_evals"] = rng.choice([1, 2, 3, 20, 60, 200, 500, 1000])
        if isinstance(case["seed"], list):
            case["seed"] = case["seed"][0]
    return case | {"callback": None, "hostile": False, "twice": False, "stop_after": 1}


class AskTell:
    """The target "asktell"."""

    name = "asktell"
    weight = 2.0
    timeout = 60.0

    def generate(self, rng: random.Random) -> Case:
        case = draw_case(rng, auto=0.15)
        case["on_nonfinite"] = rng.choice(["reject", "penalize"])
        case["hostile"] = rng.random() < 0.2
        ways = ["twice"]
        if not case["closed"]:
            ways += ["asktell", "asktell", "pointwise", "map", "vectorized"]
        if case["batched"]:
            ways += ["all at once", "shuffled", "alone"]
            if "shuffled" in ways and not isinstance(case["seed"], list):
                case["seed"] = [rng.randrange(100) for _ in case["x0"]]
        return case | {"way": rng.choice(ways), "order": rng.sample(range(len(case["x0"])), len(case["x0"]))}

    def check(self, case: Case) -> dict[str, int]:
        base = Experiment(case)
        result = base.run()
        way = case["way"]
        counts = {"configurations": 1, "ask/tell runs": int(way == "asktell")}
        if way in ("pointwise", "map", "vectorized"):
            other = Experiment(case | {"calling": way})
            expect_equal(result, other.run(), f"{case['calling']} and {way}")
            expect_same_events(base.recorder, other.recorder, f"{case['calling']} and {way}")
        elif way == "twice":
            other = Experiment(case)
            expect_equal(result, other.run(), "The same seed twice")
        elif way == "asktell":
            other = Experiment(case | {"batch_size": None})
            told = ask_and_tell(other)
            expect_equal(result, told, "minimize and Optimizer", history=case["batch_size"] is None)
            expect_same_events(base.recorder, other.recorder, "minimize and Optimizer")
        elif way == "all at once":
            other = Experiment(case | {"batch_size": None})
            expect_equal(result, other.run(), "batch_size and all at once", history=False)
            expect_same_events(base.recorder, other.recorder, "batch_size and all at once")
        elif way == "shuffled":
            self.check_shuffled(case, result)
        else:
            self.check_alone(case, base, result)
        return counts

    def check_shuffled(self, case: Case, result: Any) -> None:
        """Compare with the problems of a batch in another order. (Their tags move with them.)"""
        order = case["order"]
        other = Experiment(
            case | {"x0": [case["x0"][b] for b in order], "seed": [case["seed"][b] for b in order], "batch_size": None}
        )
        arguments = other.arguments() | {"data": np.array(order), "target": Experiment(case).target}
        found = run(other, arguments)
        for name in COMPARED:
            expect(
                same(host(result[name])[order], host(found[name])), f"The problems in another order: {name} differs."
            )

    def check_alone(self, case: Case, base: Experiment, result: Any) -> None:
        """Compare each problem of a batch with a list of seeds with a run of it alone."""
        for b, x0 in enumerate(case["x0"]):
            single = Experiment(case | {"x0": [x0], "seed": [case["seed"][b]], "batch_size": None})
            single.recorder.events = [[] for _ in case["x0"]]
            found = run(single, single.arguments() | {"data": np.array([b]), "target": base.target})
            for name in COMPARED:
                expect(
                    same(host(result[name])[b], host(found[name])[0]),
                    f"Problem {b} alone: {name} differs, {host(result[name])[b]} and {host(found[name])[0]}.",
                )

    def simpler(self, case: Case) -> Iterator[Case]:
        for one in simpler_cases(case):
            if len(one["x0"]) == len(case["x0"]):
                yield one

    def script(self, case: Case) -> str:
        return script_of(self.name, case)


def script_of(name: str, case: Case) -> str:
    """Return a script that runs a case of a target."""
    return (
        "import json, sys\n"
        'sys.path.insert(0, "tests")\n'
        f"from fuzz.{name} import TARGET\n"
        f"TARGET.check(json.loads(r'''{json.dumps(case)}'''))\n"
    )


def run(experiment: Experiment, arguments: dict[str, Any]) -> Any:
    """Call `minimize` with changed arguments."""
    import slgh

    arguments = {name: value for name, value in arguments.items() if value is not None}
    fun = ClosedForm(experiment.recorder) if experiment.case["closed"] else experiment.recorder.fun
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return slgh.minimize(fun, experiment.x0, **arguments)


def ask_and_tell(experiment: Experiment) -> Any:
    """Run an experiment through an Optimizer with reused buffers, and return the Result."""
    import slgh

    arguments = experiment.arguments()
    for name in ("data", "vectorized", "workers", "batch_size"):
        arguments.pop(name, None)
    gradients = arguments.pop("grad", None) is not None
    recorder, rng = experiment.recorder, random.Random(len(experiment.case["x0"]))
    x0 = experiment.x0.copy()
    opt = slgh.Optimizer(x0, gradients=gradients, **arguments)
    x0[...] = 33.0
    recorder.pointwise = False
    while not opt.stop():
        points = opt.ask()
        expect(same(points, opt.ask()), "Asking twice gives other points.")
        extra = [np.array(opt.active)[:, None]] if experiment.batched else []
        if recorder.stochastic:
            xi = np.array(opt.xi)
            extra.append(xi)
        # The told values may be a view of the points, or a buffer that the next answer overwrites.
        given = points if recorder.memory == "argument" else points.copy()
        told = np.asarray(recorder._answer(opt.asks, given, None, tuple(extra)))
        opt.tell(points, told)
        told[...] = 44.0
        points[...] = 44.0
        if rng.random() < 0.3:
            now = opt.result
            seen = {float(e.value) for e in recorder.events[0] if e.what == "fun"}
            if not (recorder.stochastic or experiment.batched) and np.isfinite(now.fun):
                expect(float(now.fun) in seen, f"Optimizer.result.fun is {now.fun}, which was not told.")
            if experiment.case["hostile"] and not opt.stop():
                spoil(now)
    return opt.result


TARGET = AskTell()
