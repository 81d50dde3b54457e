"""Random compositions, functions, limits and faults. Each run is compared with the reference point by point."""

from __future__ import annotations

import copy
import json
import random
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from fuzz.functions import ClosedForm, Function, Recorder, draw_function, draw_memory, on_host
from fuzz.invariants import check_result, expect, expect_same_events, host, untouched
from fuzz.parts import METHODS, PROVIDES, SCHEDULES, UPDATES, bind, schedule_needs
from fuzz.reference import Box, Predicted, Replay, Setting
from fuzz.scripts import standalone
from fuzz.target import Case, Violation

FIRST_ORDER = ("gd", "sgd", "slgh_r", "slgh_d", "gradopt")
ZEROTH = ("forward", "antithetic", "diagonal_scaling", "rademacher", "sphere", "exponential")
TOLERANCE = {"float64": 1e-9, "float32": 3e-4}
"""Maximum distance of a point from the predicted one, relative to the largest coordinate of the run so far."""


def draw_parameters(rng: random.Random, oracle: str, schedule: str, update: str) -> dict[str, Any]:
    """Draw hyperparameters for the parts, some left at their defaults."""
    params: dict[str, Any] = {}

    def maybe(name: str, *choices: Any) -> None:
        if rng.random() < 0.6:
            params[name] = rng.choice(choices)

    if oracle == "exponential":
        params |= {"sharpness": rng.choice([0.1, 1.0]), "samples": rng.choice([2, 3, 10])}
    else:
        maybe("samples", 1, 2, 3, 4, 7)
    if oracle == "forward":
        maybe("slope_from", "u", "v")
    if oracle in ("forward", "antithetic", "diagonal_scaling", "rademacher"):
        maybe("xi", "pairs", "shared")
    if oracle in ("antithetic", "diagonal_scaling", "rademacher") and rng.random() < 0.3:
        params["values"] = rng.choice(["raw", "ranks"])
    if oracle == "diagonal_scaling":
        maybe("rate", 0.0, 0.03, 0.3)
    if oracle == "variance_reduced":
        maybe("period", 1, 2, 3, 10)
    if schedule != "budget" or rng.random() < 0.5:
        params["t1"] = rng.choice([0.01, 0.3, 1.0, 2.5])
    if schedule in ("ratio", "derivative", "double_loop"):
        maybe("gamma", 0.1, 0.5, 0.9, 0.99)
    if schedule == "derivative":
        params["eta"] = rng.choice([1e-4, 0.01, 0.1])
        maybe("slope", "trace", "exact")
    if schedule == "double_loop":
        maybe("eps0", 0.0, 0.1, 10.0, 1e6)
        maybe("n0", 1, 2, 3, 5)
    if schedule == "budget":
        maybe("shape", 1.0, 1.5, 0.5)
        if "t1" in params and rng.random() < 0.5:
            params["t_end"] = params["t1"] * rng.choice([1.0, 0.1, 1e-3])
        elif rng.random() < 0.3:
            params["fall"] = rng.choice([1.0, 0.1, 1e-4])
    if schedule == "power_law":
        maybe("t_power", 0.101, 0.5, 1.0)
    if update == "scale_free":
        maybe("alpha", 0.1, 0.5, 1.0)
    elif update == "noise_aware":
        params |= {"L1": rng.choice([0.5, 4.0]), "nu": rng.choice([1e-3, 0.1])}
        maybe("cap", 0.001, 0.1)
    else:
        params["step"] = rng.choice([1e-4, 0.003, 0.02, 0.1])
    if update == "momentum":
        maybe("momentum", 0.5, 0.9)
    if update in ("adam", "adamm"):
        maybe("beta1", 0.5, 0.9)
        maybe("beta2", 0.3, 0.99)
    if update == "adam":
        maybe("delta", 1e-8, 0.1)
    if update == "adamm":
        maybe("v0", 1e-5, 1.0)
    if update == "normalized":
        maybe("halving", 3.0, 100.0)
    if update == "spsa_gain":
        maybe("step_power", 0.602, 1.0)
        maybe("offset", 0.0, 5.0)
    return params


def draw_bounds(rng: random.Random, x0: list[list[float]]) -> list[list[float | None]]:
    """Draw bounds around the starts."""
    style = rng.choice(["box", "box", "tight", "mixed", "mixed"])
    bounds: list[list[float | None]] = []
    for column in zip(*x0, strict=True):
        reach = rng.choice([0.05, 0.3]) if style == "tight" else rng.choice([0.5, 2.0, 6.0])
        low: float | None = min(column) - rng.choice([0.0, reach])
        high: float | None = max(column) + rng.choice([0.0, reach, reach])
        if style == "mixed":
            side = rng.choice(["low", "high", "none", "both", "fixed"])
            low = None if side in ("high", "none") else low
            high = None if side in ("low", "none") else high
            if side == "fixed" and min(column) == max(column):
                low = high = column[0]
        bounds.append([low, high])
    return bounds


class Runs:
    """The target "runs"."""

    name = "runs"
    weight = 4.0
    timeout = 60.0

    def generate(self, rng: random.Random) -> Case:
        method = rng.choice([m for m in METHODS if m != "auto"])
        oracle, schedule, update, defaults = METHODS[method]
        stochastic: Any = None
        if method in ("sgd", "zosvrg") or rng.random() < 0.2:
            stochastic = rng.choice([1, 3, 7, "normal"])
        if method == "zosvrg":
            stochastic = rng.choice([1, 3, 7])
        closed = method in ("slgh_r", "slgh_d", "gradopt") and rng.random() < 0.4
        closed = closed or (method == "scale_free" and rng.random() < 0.1)
        gradient = not closed and (method in FIRST_ORDER or (method == "scale_free" and rng.random() < 0.15))
        params: dict[str, Any] = {}
        if method == "scale_free" and (gradient or closed):
            oracle = "sampled_gradient"
        if closed:
            oracle = "closed_form"
        theory = method in ("slgh_r", "slgh_d", "zoslgh_r", "zoslgh_d") and rng.random() < 0.35
        if rng.random() < 0.4:
            slot = rng.choice(["oracle", "schedule", "update"])
            if slot == "oracle" and oracle in ZEROTH:
                params["oracle"] = oracle = rng.choice(ZEROTH)
            elif slot == "schedule" and not theory:
                params["schedule"] = schedule = rng.choice(list(SCHEDULES))
            elif slot == "update" and not theory:
                params["update"] = update = rng.choice([u for u in UPDATES if u != "noise_aware"])
        if theory and oracle in ("rademacher", "exponential", "sphere"):
            params.pop("oracle")
            oracle = METHODS[method][0]
        params |= draw_parameters(rng, oracle, schedule, update)
        if oracle == "closed_form" and schedule == "double_loop" and stochastic is None:
            params["rule"] = rng.choice(["f", "F"])
        elif schedule == "double_loop" and "F" in PROVIDES[oracle]:
            params["rule"] = rng.choice(["f", "minibatch"])
        known = SCHEDULES[schedule] | {n: v for n, v in defaults.items() if "schedule" not in params} | params
        if not schedule_needs(schedule, known) <= PROVIDES[oracle]:
            params |= {"schedule": "ratio"}
            for name in ("eta", "slope", "eps0", "n0", "rule", "shape", "t_end", "fall", "t_power"):
                params.pop(name, None)
            schedule = "ratio"
            params.setdefault("t1", 0.5)
        if theory:
            params |= {"step": "theory", "L1": rng.choice([0.5, 4.0, 50.0]), "t1": rng.choice([0.3, 1.0])}
            if params.get("values") == "ranks":
                del params["values"]
            if rng.random() < 0.4:
                params["eps"] = rng.choice([0.1, 0.5])
                if rng.random() < 0.5:
                    params["gamma"] = "tuned"
            if rng.random() < 0.3:
                params["burn_in"] = rng.choice([0, 3, 100])
            if oracle in ZEROTH and rng.random() < 0.5:
                params["noise"] = rng.choice([1e-4, 0.01])
        elif rng.random() < 0.25:
            params[rng.choice(["floor", "noise"])] = rng.choice([1e-3, 0.04, 0.2])
        d = rng.choice([1, 1, 2, 2, 3, 5, 8, 13, 30])
        B = rng.choice([0, 0, 0, 1, 2, 3, 5])
        x0 = [[round(rng.uniform(-3, 3), 3) for _ in range(d)] for _ in range(max(B, 1))]
        big = rng.random() < 0.04 and (oracle in ZEROTH or oracle == "sampled_gradient")
        if big:  # more than one query per iteration
            d, B, params["samples"], x0 = 4000, 0, rng.choice([40, 70]), [[0.5] * 4000]
        limits = rng.choice(["max_iter", "max_evals", "both"])
        case: Case = {
            "method": method,
            "params": params,
            "gradient": gradient,
            "closed": closed,
            "xi": stochastic,
            "fun": draw_function(rng, faults=rng.random() < 0.5),
            "x0": x0,
            "batched": B > 0,
            "dtype": "float32" if rng.random() < 0.12 else "float64",
            "seed": rng.choice([0, 1, 7, 2**40, rng.randrange(10**6)]),
            "bounds": draw_bounds(rng, x0) if rng.random() < 0.4 and not big else None,
            "max_iter": rng.choice([0, 1, 2, 10, 25, 25, 40]) if limits != "max_evals" else None,
            "max_evals": rng.choice([1, 2, 5, 17, 60, 100, 200, 500]) if limits != "max_iter" else None,
            "target": rng.choice([0.0, 0.5, 3.0, 20.0]) if rng.random() < 0.3 else None,
            "history": rng.choice([0, 1, 2, 3, 7, 1000, "full", "x", "x"]),
            "on_nonfinite": rng.choice(["reject", "reject", "penalize", "raise"]),
            "calling": rng.choice(["vectorized", "pointwise", "map"]) if not closed else "vectorized",
            "returns": rng.choice(["float", "numpy", "array", "one", "int"]),
            "hostile": rng.random() < 0.2,
            "callback": rng.choice([None, None, "look", "spoil", "stop"]),
            "stop_after": rng.choice([1, 2, 5, 20]),
            "batch_size": rng.randrange(1, B) if B > 1 and rng.random() < 0.3 else None,
            "strict": rng.random() < 0.5,
            "twice": rng.random() < 0.2,
            "memory": rng.choice(["own", "buffer"]),
        }
        if method.endswith("_d") or schedule == "derivative":
            case["dtype"] = "float64"  # the slope in t divides rounding errors by t^2
        if B > 0 and rng.random() < 0.3:
            case["seed"] = [rng.randrange(1000) for _ in range(B)]
        if method == "scale_free" and d <= 3 and rng.random() < 0.2:
            case |= {"max_iter": None, "max_evals": 1500, "calling": "vectorized"}
        if (schedule == "budget" or update == "spsa_gain") and d <= 3 and rng.random() < 0.1:
            case |= {"max_iter": None, "max_evals": None, "calling": "vectorized"}  # the default budget
        if big:
            case |= {"max_iter": 2, "max_evals": None, "calling": "vectorized", "callback": None, "history": 5}
        if closed:
            # F has no scale: with one, F(x, 0) and f would differ.
            case["fun"] |= {"kind": "quartic", "scale": 1.0, "offset": 0.0}
        else:
            case["memory"] = draw_memory(rng, case["fun"])
        if case["batch_size"] is not None:
            case["callback"] = None
            if oracle == "variance_reduced":
                case["batch_size"] = None
        return case

    def check(self, case: Case) -> dict[str, int]:
        experiment = Experiment(case)
        result = experiment.run()
        if case["twice"]:
            again = Experiment(case)
            again.run()
            expect_same_events(experiment.recorder, again.recorder, "The same seed twice")
        if result is not None:
            experiment.check(result)
        return {"configurations": 1}

    def simpler(self, case: Case) -> Iterator[Case]:
        yield from simpler_cases(case)

    def script(self, case: Case) -> str:
        return script_of(case)


def simpler_cases(case: Case) -> Iterator[Case]:
    """Yield simpler variants of a case of `minimize`."""
    plain = {
        "hostile": False,
        "memory": "own",
        "callback": None,
        "twice": False,
        "strict": False,
        "batch_size": None,
        "target": None,
        "bounds": None,
        "dtype": "float64",
        "on_nonfinite": "reject",
        "history": 0,
        "returns": "float",
        "calling": "vectorized",
        "xi": None,
    }
    for name, value in plain.items():
        if name in case and case[name] != value:
            yield case | {name: value}
    if case["fun"]["faults"]:
        yield case | {"fun": case["fun"] | {"faults": []}}
        yield case | {"fun": case["fun"] | {"faults": case["fun"]["faults"][:-1]}}
    if case["fun"]["kind"] != "bowl" and not case.get("closed"):
        yield case | {"fun": case["fun"] | {"kind": "bowl"}}
    for name, value in (("scale", 1.0), ("offset", 0.0)):
        if case["fun"][name] != value:
            yield case | {"fun": case["fun"] | {name: value}}
    if len(case["x0"]) > 1:
        fewer = case | {"x0": case["x0"][:1]}
        yield fewer | {"batched": False, "batch_size": None, "seed": 0}
        yield fewer | {"batch_size": None, "seed": 0}
    if len(case["x0"][0]) > 1:
        less = case | {"x0": [x[:1] for x in case["x0"]]}
        yield less if case.get("bounds") is None else less | {"bounds": case["bounds"][:1]}
    for name in ("max_iter", "max_evals"):
        if case.get(name) and case[name] > 1 and case.get("max_iter") is not None:
            yield case | {name: case[name] // 2}
    for name in case["params"]:
        if name not in ("t1", "step", "eta", "sharpness", "L1", "nu"):
            fewer_params = copy.deepcopy(case["params"])
            del fewer_params[name]
            yield case | {"params": fewer_params}


def script_of(case: Case) -> str:
    """Return a script that makes the call of a case. For a closed form or a buffer, it uses the harness."""
    if not case["closed"] and case.get("memory", "own") == "own":
        return standalone(case)
    return (
        "import json, sys\n"
        'sys.path.insert(0, "tests")\n'
        "from fuzz.runs import TARGET\n"
        f"TARGET.check(json.loads(r'''{json.dumps(case)}'''))\n"
    )


def normal_samples(source: np.random.Generator, n: int) -> Any:
    """Return n samples xi."""
    return source.standard_normal(n)


class Experiment:
    """A case of `minimize`: its arguments, its recorder, and the comparison with the reference."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.dtype = np.dtype(case["dtype"])
        x0 = np.array(case["x0"], self.dtype)
        self.batched = case["batched"]
        self.x0 = x0 if self.batched else x0[0]
        self.starts = x0
        self.low = self.high = None
        if case["bounds"] is not None:
            inf = np.inf
            pairs = [(-inf if a is None else a, inf if b is None else b) for a, b in case["bounds"]]
            self.low, self.high = (np.array(side, self.dtype) for side in zip(*pairs, strict=True))
            if not (np.isfinite(self.low).any() or np.isfinite(self.high).any()):
                self.low = self.high = None
        self.xi = normal_samples if case["xi"] == "normal" else case["xi"]
        self.recorder = Recorder(
            Function(case["fun"], x0.shape[1]),
            problems=len(x0),
            tagged=self.batched,
            pointwise=case["calling"] != "vectorized",
            stochastic=self.xi is not None,
            hostile=case["hostile"],
            returns=case["returns"],
            memory=case.get("memory", "own"),
        )
        self.target = None
        if case["target"] is not None:
            f0 = self.recorder.function.value(x0[0], *([0] if self.batched else [None]))
            self.target = float(np.floor(float(f0)) - case["target"])
        self.shown: list[dict[str, Any]] = []

    def arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of `minimize`."""
        case, recorder = self.case, self.recorder
        given: dict[str, Any] = {
            "method": case["method"],
            "batched": self.batched,
            "vectorized": case["calling"] == "vectorized",
            "seed": case["seed"],
            "max_iter": case["max_iter"],
            "max_evals": case["max_evals"],
            "target": self.target,
            "history": case["history"],
            "on_nonfinite": case["on_nonfinite"],
            "bounds": case["bounds"],
            "batch_size": case["batch_size"] if self.planned_iterations() else None,
            **case["params"],
        }
        if self.batched:
            given["data"] = np.arange(len(self.starts))
        if self.xi is not None:
            given["sample_xi"] = self.xi
        if case["gradient"]:
            given["grad"] = recorder.grad
        if case["calling"] == "map":
            given["workers"] = map
        if case["callback"]:
            given["callback"] = self.callback
        return {name: value for name, value in given.items() if value is not None}

    def callback(self, result: Any) -> bool:
        copied = {name: on_host(result[name]) for name in ("x", "fun", "t", "x_best", "fun_best", "nit", "nfev")}
        self.shown.append(copied)
        if self.case["callback"] == "spoil":
            spoil(result)
        return bool(self.case["callback"] == "stop" and result.nit >= self.case["stop_after"])

    def run(self) -> Any:
        """Return the Result, or None if the run raised the expected exception."""
        import slgh

        case = self.case
        fun = ClosedForm(self.recorder) if case["closed"] else self.recorder.fun
        raises = None
        with untouched(), warnings.catch_warnings(), np.errstate(all="raise" if case["strict"] else "warn"):
            warnings.simplefilter("error")
            try:
                result = slgh.minimize(fun, self.x0, **self.arguments())
            except FloatingPointError as error:
                if "on_nonfinite" not in str(error):
                    raise
                raises = error
        bad = [e for events in self.recorder.events for e in events if not np.isfinite(e.value).all()]
        if case["on_nonfinite"] == "raise":
            expect((raises is None) == (not bad), f"on_nonfinite='raise': {len(bad)} bad values, raised {raises!r}.")
        else:
            expect(raises is None, f"on_nonfinite={case['on_nonfinite']!r} raised {raises!r}.")
        return None if raises else result

    def check(self, result: Any) -> None:
        """Compare the Result with the record and with the reference."""
        if result is None:
            return
        case = self.case
        check_result(
            result,
            self.recorder,
            x0=self.x0,
            batched=self.batched,
            low=self.low,
            high=self.high,
            max_evals=case["max_evals"],
            max_iter=case["max_iter"],
            target=self.target,
            reports_best=case["method"] == "scale_free",
            known_best=not (case["closed"] and case["params"].get("rule") == "F"),
        )
        predicted = [self.predict(b) for b in range(len(self.starts))]
        if any(p is None for p in predicted):
            return
        for b, p in enumerate(predicted):
            assert p is not None
            self.compare(result, b, p)
        self.compare_history(result, predicted)

    def predict(self, b: int) -> Predicted | None:
        """Replay problem b with the reference. Return None if its numbers were too large to compare."""
        case = self.case
        box = None if self.low is None or self.high is None else Box(self.low, self.high)
        parts, max_iter, max_evals = bind(
            case["method"],
            case["params"],
            x0=self.starts[b],
            box=box,
            gradient=case["gradient"],
            closed=case["closed"],
            stochastic=self.xi,
            max_iter=case["max_iter"],
            max_evals=case["max_evals"],
            target=self.target,
        )
        seed = case["seed"]
        setting = Setting(
            parts=parts,
            x0=self.starts[b],
            key=(seed[b], 0) if isinstance(seed, list) else (seed, b),
            box=box,
            stochastic=self.xi,
            closed=case["closed"],
            max_iter=max_iter,
            max_evals=max_evals,
            target=self.target,
            on_nonfinite=case["on_nonfinite"],
            stop_after=case["stop_after"] if case["callback"] == "stop" else None,
        )
        events = self.recorder.events[b]
        finite = [e.value[np.isfinite(e.value)] for e in events] + [e.x for e in events]
        largest = max((float(np.max(np.abs(v))) for v in finite if v.size), default=0.0)
        replay = Replay(setting, events, tolerance=TOLERANCE[case["dtype"]])
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return replay.run()
            except (Violation, OverflowError, ZeroDivisionError):
                if largest > (1e60 if self.dtype == np.float64 else 1e12):
                    return None
                raise

    def compare(self, result: Any, b: int, p: Predicted) -> None:
        """Compare the Result of problem b with the predicted one."""

        def of(name: str) -> Any:
            value = host(result[name])
            return value[b] if self.batched else value

        for name in ("nit", "nfev", "njev", "nrejected", "status", "success"):
            expect(of(name) == getattr(p, name), f"{name} of problem {b} is {of(name)}, expected {getattr(p, name)}.")
        tolerance = TOLERANCE[self.case["dtype"]]
        xhat = min(p.ties or [p.xhat], key=lambda x: float(np.max(np.abs(x - of("xhat")))))
        for name, wanted in (("x", p.x), ("x_best", p.x_best), ("xhat", xhat)):
            close(of(name), wanted, tolerance, f"{name} of problem {b}", self.starts[b])
        for name in ("fun", "fun_best", "fun_se", "t"):
            close(of(name), getattr(p, name), tolerance, f"{name} of problem {b}")

    def compare_history(self, result: Any, predicted: list[Any]) -> None:
        """Compare the history and the states that the callback received with the predicted rows."""
        case = self.case
        nit = max(p.nit for p in predicted)
        keep, stride = case["history"], 1
        recorded = list(range(nit))
        if not isinstance(keep, str):
            limit = max(2, keep) if keep else 0
            recorded = []
            if case["batch_size"] is not None and limit and (T := self.planned_iterations()):
                while -(-T // stride) >= limit:
                    stride *= 2
                recorded = list(range(0, nit, stride))
            elif limit:
                for k in range(nit):
                    if k % stride == 0:
                        recorded.append(k)
                        if len(recorded) >= limit:
                            stride *= 2
                            recorded = recorded[::2]
        history = result.history
        expect(history["iteration"].tolist() == recorded, f"history has rows {history['iteration']}, not {recorded}.")
        expect(("x" in history) == (keep == "x"), f"history={keep!r} has the columns {list(history)}.")
        tolerance = 10 * TOLERANCE[case["dtype"]]
        for b, p in enumerate(predicted):
            for i, k in enumerate(recorded):
                if not p.rows:
                    continue
                row = p.rows[min(k, p.nit - 1)]
                for name in ("fun", "t", "fun_best", *(("x",) if keep == "x" else ())):
                    column = history[name][i]
                    got = column[b] if self.batched else column
                    size = self.starts[b] if name == "x" else None
                    close(got, row[name], tolerance, f"history[{name!r}] of problem {b} in iteration {k}", size)
                if k < p.nit:
                    expect(history["nfev"][i] == row["nfev"], f"history['nfev'] in row {i} is {history['nfev'][i]}.")
        if self.case["callback"]:
            expect(len(self.shown) == nit, f"The callback was called {len(self.shown)} times in {nit} iterations.")
            for k, shown in enumerate(self.shown):
                for b, p in enumerate(predicted):
                    row = p.rows[min(k, p.nit - 1)] if p.rows else None
                    if row is None:
                        continue
                    for name in ("fun", "t", "x"):
                        got = shown[name][b] if self.batched else shown[name]
                        size = self.starts[b] if name == "x" else None
                        close(got, row[name], tolerance, f"callback's {name} in iteration {k}", size)
                    if not self.recorder.stochastic:
                        got = shown["fun_best"][b] if self.batched else shown["fun_best"]
                        close(got, row["fun_best"], tolerance, f"callback's fun_best in iteration {k}")
                expect(shown["nit"] == k + 1, f"callback's nit is {shown['nit']} in iteration {k}.")

    def planned_iterations(self) -> int:
        """Return the number of iterations that the limits allow."""
        replay = self.case
        parts, max_iter, max_evals = bind(
            replay["method"],
            replay["params"],
            x0=self.starts[0],
            box=None if self.low is None or self.high is None else Box(self.low, self.high),
            gradient=replay["gradient"],
            closed=replay["closed"],
            stochastic=self.xi,
            max_iter=replay["max_iter"],
            max_evals=replay["max_evals"],
            target=self.target,
        )
        T = parts.count_iterations(max_iter, max_evals)
        assert T is not None
        return T


def close(got: Any, wanted: Any, tolerance: float, what: str, size: Any = None) -> None:
    """Raise Violation unless two numbers or arrays agree to a relative tolerance."""
    got, wanted = np.asarray(got, float), np.asarray(wanted, float)
    scale = np.maximum(np.max(np.abs(np.where(np.isfinite(wanted), wanted, 0.0)), initial=0.0), 1e-300)
    if size is not None:
        scale = max(scale, float(np.max(np.abs(size))))
    with np.errstate(invalid="ignore"):
        alike = (np.abs(got - wanted) <= tolerance * scale) | (got == wanted) | (np.isnan(got) & np.isnan(wanted))
    if got.shape != wanted.shape or not np.all(alike):
        raise Violation(f"{what} is {got.tolist()}, expected {wanted.tolist()}.")


def spoil(result: Any) -> None:
    """Overwrite every writable array of a Result."""
    for value in result.values():
        if isinstance(value, np.ndarray) and value.ndim:
            try:
                value[...] = 55
            except ValueError:
                continue


TARGET = Runs()
