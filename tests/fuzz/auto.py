"""The method "auto" on single problems: contracts, units, phases, faults, and accuracy on easy functions."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from fuzz.asktell import ask_and_tell, run, script_of
from fuzz.functions import draw_function
from fuzz.invariants import expect, expect_equal, expect_same_events, host, same
from fuzz.runs import Experiment, draw_bounds, simpler_cases
from fuzz.scripts import standalone
from fuzz.target import Case

LOW = 1e-5
"""On a bowl with a generous budget, f(x) - f* is at most this share of f(x0) - f*."""


class Auto:
    """The target "auto"."""

    name = "auto"
    weight = 3.0
    timeout = 90.0

    def generate(self, rng: random.Random) -> Case:
        d = rng.choice([1, 2, 2, 3, 5, 8, 11])
        x0 = [[round(rng.uniform(-3, 3), 3) for _ in range(d)]]
        params: dict[str, Any] = {}
        if rng.random() < 0.4:
            params["t1"] = rng.choice([0.1, 1.0, 3.0])
        if rng.random() < 0.3:
            params["phases"] = rng.choice(
                [
                    ["homotopy"],
                    ["local_search"],
                    ["homotopy", "local_search"],
                    ["landscape", "homotopy", "local_search"],
                    ["local_search", "restarts"],
                ]
            )
        if rng.random() < 0.2:
            params["samples"] = rng.choice([1, 3])
        check = rng.choice(["plain", "plain", "twice", "units", "homotopy", "asktell", "map", "low", "low"])
        case: Case = {
            "method": "auto",
            "params": params,
            "gradient": rng.random() < 0.25,
            "closed": rng.random() < 0.1,
            "xi": None,
            "fun": draw_function(rng, faults=rng.random() < 0.5),
            "x0": x0,
            "batched": False,
            "dtype": "float32" if rng.random() < 0.15 else "float64",
            "seed": rng.randrange(1000),
            "bounds": draw_bounds(rng, x0) if rng.random() < 0.4 else None,
            "max_iter": None,
            "max_evals": rng.choice([None, 1, 2, 3, 7, 30, 60, 100, 150, 300, 700]),
            "target": rng.choice([0.5, 3.0]) if rng.random() < 0.2 else None,
            "history": rng.choice([0, 5, 1000, "full", "x"]),
            "on_nonfinite": rng.choice(["reject", "reject", "penalize"]),
            "calling": rng.choice(["vectorized", "pointwise"]),
            "returns": rng.choice(["float", "numpy", "array", "one"]),
            "hostile": rng.random() < 0.2,
            "callback": rng.choice([None, None, "landscape", "spoil", "stop"]),
            "stop_after": rng.choice([1, 3, 20]),
            "batch_size": None,
            "strict": rng.random() < 0.5,
            "twice": False,
            "check": check,
        }
        if case["closed"]:
            case |= {"gradient": False, "calling": "vectorized"}
            case["fun"]["kind"] = "quartic"
        if check != "plain":
            case |= {"callback": None, "target": None}
        if check == "homotopy":
            case |= {"params": {n: v for n, v in params.items() if n != "phases"}, "closed": False, "gradient": False}
            case["fun"]["faults"] = []
        if check == "units":
            case["fun"] |= {"offset": 0.0, "scale": 1.0}
        if check == "low":
            case |= {"max_evals": 600 + 120 * d, "params": {}, "dtype": "float64", "on_nonfinite": "reject"}
            case["fun"] = {**case["fun"], "kind": rng.choice(["bowl", "bowl", "quartic"]), "scale": 1.0, "offset": 0.0}
            if case["closed"] or case["fun"]["kind"] == "quartic":
                case["fun"]["faults"] = []
            case["fun"]["faults"] = [f for f in case["fun"]["faults"] if f["where"] == "region" and f["high"] < 9][:1]
            if rng.random() < 0.5:
                case["params"], case["fun"]["faults"] = {"phases": ["local_search"]}, []
        return case

    def check(self, case: Case) -> dict[str, int]:
        experiment = Experiment(case)
        result = experiment.run()
        if result is None:
            return {"configurations": 1}
        budget = case["max_evals"] if case["max_evals"] is not None else 1000 + 200 * len(case["x0"][0])
        noisy = "noisy" in result.message
        check_auto(experiment, result, budget, noisy=noisy)
        way = case["check"]
        if way == "twice":
            other = Experiment(case)
            expect_equal(result, other.run(), "The same seed twice")
            expect_same_events(experiment.recorder, other.recorder, "The same seed twice")
        elif way in ("asktell", "map") and not case["closed"]:
            other = Experiment(case | ({"calling": "map"} if way == "map" else {}))
            found = other.run() if way == "map" else ask_and_tell(other)
            expect_equal(result, found, f"minimize and {way}")
            expect_same_events(experiment.recorder, other.recorder, f"minimize and {way}")
        elif way == "units":
            self.check_units(case, result)
        elif way == "homotopy":
            self.check_homotopy(case)
        elif way == "low":
            self.check_low(experiment, result)
        return {"configurations": 1}

    def check_units(self, case: Case, result: Any) -> None:
        """f in units of a power of two gives the same points."""
        if any(f["value"] in ("huge", "-huge") for f in case["fun"]["faults"]):
            return
        unit = 2.0**20
        other = Experiment(case | {"fun": case["fun"] | {"scale": unit}})
        found = other.run()
        for name, by in (("x", 1.0), ("t", 1.0), ("fun", unit), ("fun_best", unit), ("nfev", 1), ("nit", 1)):
            expect(
                same(host(found[name]), host(result[name]) * by),
                f"f in other units: {name} is {host(found[name]).tolist()}, not {host(result[name]).tolist()} * {by}.",
            )

    def check_homotopy(self, case: Case) -> None:
        """With phases="homotopy", it equals "scale_free"."""
        evals = case["max_evals"] or 500
        one, two = (Experiment(case | {"max_evals": evals}) for _ in range(2))
        alone = run(one, one.arguments() | {"phases": "homotopy"})
        free = run(two, two.arguments() | {"method": "scale_free"})
        if alone.nit == 0:
            return
        for name in ("x", "fun", "x_best", "fun_best", "nit", "nfev", "t"):
            expect(
                same(host(alone[name]), host(free[name])),
                f"auto with phases='homotopy' and scale_free: {name} differs, {alone[name]} and {free[name]}.",
            )

    def check_low(self, experiment: Experiment, result: Any) -> None:
        """On a bowl it finds the minimum, also with bounds."""
        function, case = experiment.recorder.function, experiment.case
        d = len(case["x0"][0])
        bottom = np.array([case["fun"]["center"][i % 3] for i in range(d)])
        if experiment.low is not None:
            bottom = np.clip(bottom, experiment.low, experiment.high)
        least, first = float(function.value(bottom)), float(function.value(experiment.x0))
        if case["fun"]["faults"]:
            fault = case["fun"]["faults"][0]
            low, high = fault["low"], fault["high"]
            if low - 0.5 < bottom[0] < high + 0.5 or low - 0.5 < experiment.x0[0] < high + 0.5:
                return
            if (bottom[0] < low) != (experiment.x0[0] < low):
                return
        expect(
            result.fun - least <= LOW * (first - least) + 1e-9,
            f"auto ended at f = {result.fun} on a bowl with the least value {least}: {result.message}",
        )

    def simpler(self, case: Case) -> Iterator[Case]:
        if case["check"] != "plain":
            yield case | {"check": "plain"}
        yield from simpler_cases(case)

    def script(self, case: Case) -> str:
        plain = case["check"] == "plain" and not case["closed"] and case.get("memory", "own") == "own"
        return standalone(case) if plain else script_of(self.name, case)


def check_auto(experiment: Experiment, result: Any, budget: int, *, noisy: bool) -> None:
    """Check the contracts of "auto"."""
    from fuzz.invariants import check_result

    case = experiment.case
    check_result(
        result,
        experiment.recorder,
        x0=experiment.x0,
        batched=False,
        low=experiment.low,
        high=experiment.high,
        max_evals=budget,
        target=experiment.target,
        reports_best=not noisy,
    )
    seen = [e for e in experiment.recorder.events[0] if e.what == "fun" and np.isfinite(e.value)]
    start = [e for e in experiment.recorder.events[0][:1] if e.what == "fun" and np.isfinite(e.value)]
    if start and not noisy:
        expect(result.fun <= float(start[0].value), f"fun={result.fun} is worse than f(x0)={float(start[0].value)}.")
    expect(noisy or seen == [] or np.isfinite(result.fun), f"fun is {result.fun} although finite values were seen.")
    by_calls = any(f["where"] == "calls" for f in case["fun"]["faults"])
    expect(not noisy or by_calls, f"f answers the same each time, but: {result.message}")
    if case["fun"]["kind"] in ("bowl", "quartic", "linear") and not case["fun"]["faults"]:
        expect("rugged" not in result.message, f"f is a {case['fun']['kind']}, but: {result.message}")
    if case["callback"]:
        expect(len(experiment.shown) == result.nit, f"{len(experiment.shown)} callbacks in {result.nit} iterations.")
    rows = result.history["t"]
    expect((rows >= 0).all(), "history['t'] is negative.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if case["history"] == "x" and len(rows):
            for x, fun, t in zip(result.history["x"], result.history["fun"], rows, strict=True):
                if t == 0 and np.isfinite(fun):
                    hit = any(same(e.x, x) and float(e.value) == float(fun) for e in seen)
                    expect(hit, f"history has f({x.tolist()}) = {fun}, which was not evaluated.")


TARGET = Auto()
