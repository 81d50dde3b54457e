"""`slgh.probe` and `slgh.theory.estimate_smoothness`: recompute their results from the recorded values."""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from fuzz.asktell import script_of
from fuzz.functions import Function, Recorder, draw_function
from fuzz.invariants import expect, untouched
from fuzz.runs import close, draw_bounds
from fuzz.target import Case

STEEPEST = 1.75
"""Largest weight of a variable in a bowl."""


class Probe:
    """The target "probe"."""

    name = "probe"
    weight = 0.5
    timeout = 60.0

    def generate(self, rng: random.Random) -> Case:
        d = rng.choice([1, 2, 3, 5])
        x0 = [[round(rng.uniform(-2, 2), 3) for _ in range(d)]]
        return {
            "check": rng.choice(["probe", "probe", "smoothness"]),
            "fun": draw_function(rng, faults=rng.random() < 0.3)
            | {"scale": rng.choice([1.0, 4.0]), "kind": rng.choice(["bowl", "ripple", "corner", "quartic", "steps"])},
            "x0": x0,
            "bounds": draw_bounds(rng, x0) if rng.random() < 0.3 else None,
            "t": rng.choice([None, [0.1, 1.0], [0.01, 0.3, 2.0]]),
            "samples": rng.choice([3, 5, 12]),
            "steps": rng.choice([2, 5, 10]),
            "seed": rng.randrange(1000),
            "vectorized": rng.random() < 0.5,
        }

    def check(self, case: Case) -> dict[str, int]:
        recorder = Recorder(Function(case["fun"], len(case["x0"][0])), pointwise=not case["vectorized"])
        with untouched(), warnings.catch_warnings():
            warnings.simplefilter("error")
            if case["check"] == "smoothness":
                check_smoothness(case, recorder)
            else:
                check_probe(case, recorder)
        return {"configurations": 1}

    def simpler(self, case: Case) -> Iterator[Case]:
        if case["fun"]["faults"]:
            yield case | {"fun": case["fun"] | {"faults": []}}
        if case["bounds"] is not None:
            yield case | {"bounds": None}
        if len(case["x0"][0]) > 1:
            yield case | {"x0": [case["x0"][0][:1]], "bounds": None}

    def script(self, case: Case) -> str:
        return script_of(self.name, case)


def check_probe(case: Case, recorder: Recorder) -> None:
    """Recompute the figures of `slgh.probe`."""
    import slgh

    x0, M, steps = np.array(case["x0"][0]), case["samples"], case["steps"]
    try:
        found = slgh.probe(
            recorder.fun,
            x0,
            t=case["t"],
            samples=M,
            steps=steps,
            bounds=case["bounds"],
            vectorized=case["vectorized"],
            seed=case["seed"],
        )
    except ValueError as error:
        expect("finite" in str(error), f"probe raised {error!r}.")
        expect(not any(np.isfinite(e.value) for e in recorder.events[0]), f"probe raised {error!r}.")
        return
    events = recorder.events[0]
    expect(found.nfev == len(events), f"nfev is {found.nfev}, fun was evaluated {len(events)} times.")
    values = np.array([float(e.value) for e in events])
    k, d = len(found.t), x0.size
    if case["t"] is not None:
        expect(found.t.tolist() == case["t"], f"t is {found.t.tolist()}.")
    u = np.random.default_rng(case["seed"]).standard_normal((M, d))
    begin = next(
        (
            i
            for i, e in enumerate(events)
            if i and np.allclose(e.x, _mirrored(case, x0 + found.t[0] * u[0]), rtol=1e-12, atol=1e-14)
        ),
        -1,
    )
    expect(begin > 0, "The pairs around x0 were not evaluated.")
    around = values[begin : begin + 2 * k * M].reshape(k, 2, M)
    square = (u**2).sum(axis=1)
    with np.errstate(all="ignore"):
        for j, t in enumerate(found.t):
            plus, minus = around[j]
            ok = np.isfinite(plus) & np.isfinite(minus)
            n = int(ok.sum())
            if n < 3:
                continue
            odd, even = (plus - minus)[ok] / (2 * t), (plus + minus)[ok] / 2
            g = odd[:, None] * u[ok]
            dots = g @ g.T
            signal = (dots.sum() - np.trace(dots)) / (n * (n - 1))
            spread = ((g - g.mean(axis=0)) ** 2).sum() / (n - 1)
            off = square[ok] - square[ok].mean()
            curvature = 2 / t**2 * float(off @ even) / float(off @ off)
            size = float(np.abs(even).max()) + 1e-30
            close(found.value[j], even.mean(), 1e-9, f"value at t={t}", size)
            close(found.gradient_norm[j] ** 2, max(signal, 0.0), 1e-6, f"gradient_norm at t={t}", spread + abs(signal))
            close(found.curvature[j], curvature, 1e-6, f"curvature at t={t}", size / t**2)
            if spread > 1e-12 * size:
                close(found.snr[j], signal / spread, 1e-6, f"snr at t={t}", 1.0)
    reached = np.array(found.reached)
    best = values[np.isfinite(values)].min() if np.isfinite(values).any() else np.nan
    expect(not np.isfinite(reached).any() or float(np.nanmin(reached)) >= best, f"reached is {reached.tolist()}.")
    f0 = float(values[begin - 1])
    if np.isfinite(f0):
        score = f0 - np.where(np.isfinite(reached), reached, f0)
        for j in range(1, k):
            lost = math.log(found.t[j] / found.t[j - 1]) / (-math.log(np.finfo(float).eps) / 3)
            score[j] = max(score[j], (1 - lost) * score[j - 1])
        close(found.score, score, 1e-9, "score", abs(f0) + 1e-30)
        if score.max() > 0:
            expect(found.t1 == found.t[int(np.argmax(score))], f"t1 is {found.t1}.")
        else:
            expect(math.isnan(found.t1), f"t1 is {found.t1}, although nothing lower was found.")
            expect(not found.helps, "helps is True, although nothing lower was found.")


def _mirrored(case: Case, x: Any) -> Any:
    from fuzz.reference import Box

    if case["bounds"] is None:
        return x
    low = np.array([-np.inf if a is None else a for a, _ in case["bounds"]])
    high = np.array([np.inf if b is None else b for _, b in case["bounds"]])
    return Box(low, high).reflect(x[None])[0][0]


def check_smoothness(case: Case, recorder: Recorder) -> None:
    """The constants of a bowl are known: no quotient exceeds them, and the largest come close."""
    from slgh.theory import estimate_smoothness

    spec = case["fun"] | {"kind": "bowl", "faults": [], "offset": 0.0}
    x0 = np.array(case["x0"][0])
    recorder.function = Function(spec, x0.size)
    found = estimate_smoothness(recorder.fun, x0, samples=100, vectorized=case["vectorized"], seed=case["seed"])
    expect(found.evaluations == len(recorder.events[0]), f"evaluations is {found.evaluations}.")
    weights = [1 + (i % 4) / 4 for i in range(x0.size)]
    true = 2 * spec["scale"] * max(weights)
    expect(
        found.curvature.seen <= true * (1 + 1e-3), f"The curvature of a bowl is {true}, seen {found.curvature.seen}."
    )
    expect(found.curvature.seen >= 0.3 * true, f"The curvature of a bowl is {true}, seen only {found.curvature.seen}.")
    far = max(float(np.linalg.norm(e.x - x0)) for e in recorder.events[0])
    expect(far <= 1.0 + 1e-6 or far <= 2.0, f"A point at distance {far} was evaluated, outside of the ball.")


TARGET = Probe()
