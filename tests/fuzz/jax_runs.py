"""Compare the compiled loop on JAX with the Python loop."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from fuzz.asktell import draw_case, script_of
from fuzz.invariants import expect, host
from fuzz.runs import close, simpler_cases
from fuzz.target import Case


class JaxRuns:
    """The target "jax_runs"."""

    name = "jax_runs"
    weight = 1.0
    timeout = 120.0

    def generate(self, rng: random.Random) -> Case:
        # Few shapes and methods, because each is compiled.
        case = draw_case(rng)
        method = rng.choice(
            ["zoslgh_r", "zoslgh_d", "slgh_r", "zoadamm", "spsa", "scale_free", "openai_es", "zogradopt"]
        )
        params: dict[str, Any] = {"samples": 2, "t1": 0.5}
        if method != "scale_free":
            params["step"] = rng.choice([0.01, 0.03])
        if method == "zoslgh_d":
            params["eta"] = 0.01
        B = rng.choice([0, 3])
        case |= {
            "method": method,
            "params": params,
            "x0": [[round(rng.uniform(-2, 2), 3) for _ in range(2)] for _ in range(max(B, 1))],
            "batched": B > 0,
            "seed": rng.randrange(1000),
            "bounds": rng.choice([None, [[-3.0, 3.0], [-3.0, None]]]),
            "max_iter": rng.choice([0, 1, 7, 30]),
            "max_evals": rng.choice([None, None, 50]),
            "gradient": method == "slgh_r",
            "closed": False,
            "xi": None,
            "batch_size": None,
            "on_nonfinite": rng.choice(["reject", "penalize"]),
            "dtype": "float32",
            "target": rng.choice([None, None, 0.5]),
        }
        case["fun"] |= {"kind": rng.choice(["bowl", "linear"]), "scale": 1.0, "offset": 0.0}
        case["fun"]["faults"] = [f for f in case["fun"]["faults"] if f["where"] == "region"]
        return case

    def check(self, case: Case) -> dict[str, int]:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            check_jax(case)
        return {"configurations": 1, "jax runs": 1}

    def simpler(self, case: Case) -> Iterator[Case]:
        for one in simpler_cases(case):
            if len(one["x0"][0]) == len(case["x0"][0]):
                yield one

    def script(self, case: Case) -> str:
        return script_of(self.name, case)


def jax_function(case: Case) -> tuple[Any, Any]:
    """Return f of JAX arrays (d,) and its value on the host."""
    import jax.numpy as jnp

    spec = case["fun"]
    d = len(case["x0"][0])
    center = jnp.array([spec["center"][i % 3] for i in range(d)], jnp.float32)
    weights = jnp.array([1 + (i % 4) / 4 for i in range(d)], jnp.float32)

    def fun(x: Any, *data: Any) -> Any:
        z = x - center - (0.25 * data[0] if data else 0.0)
        value = jnp.sum(weights * z * z) if spec["kind"] == "bowl" else jnp.sum(weights * z)
        for fault in spec["faults"]:
            bad = (x[0] > fault["low"]) & (x[0] < fault["high"])
            value = jnp.where(bad, float(fault["value"]), value)
        return value

    return fun, jnp.array(case["x0"], jnp.float32)


def check_jax(case: Case) -> None:
    """Check that the compiled loop and the Python loop agree and fulfill the contracts."""
    import jax.numpy as jnp

    import slgh

    fun, starts = jax_function(case)
    given: dict[str, Any] = {
        "method": case["method"],
        "batched": case["batched"],
        "seed": case["seed"],
        "max_iter": case["max_iter"],
        "max_evals": case["max_evals"],
        "bounds": case["bounds"],
        "on_nonfinite": case["on_nonfinite"],
        "target": case["target"],
        "history": "x",
        **case["params"],
    }
    if case["batched"]:
        given["data"] = jnp.arange(len(case["x0"]), dtype=jnp.float32)
    x0 = starts if case["batched"] else starts[0]
    given = {name: value for name, value in given.items() if value is not None}
    compiled = slgh.minimize(fun, x0, **given)
    again = slgh.minimize(fun, x0, **given)
    python = slgh.minimize(fun, x0, compiled=False, **given)
    for name in ("x", "fun", "x_best", "fun_best", "t", "nit", "nfev", "njev", "status"):
        one, two = host(compiled[name]), host(again[name])
        expect(np.array_equal(one, two, equal_nan=True), f"Compiled twice: {name} differs, {one} and {two}.")
    _check_jax_result(compiled, case, fun, starts)
    _check_jax_result(python, case, fun, starts)
    alike = host(compiled.nit) == host(python.nit)
    if np.all(alike) and not case["fun"]["faults"]:
        for name in ("nfev", "njev", "status", "nrejected"):
            expect(
                np.array_equal(host(compiled[name]), host(python[name])),
                f"Compiled and Python loops: {name} is {compiled[name]} and {python[name]}.",
            )
        if case["method"] in ("zoslgh_r", "slgh_r", "spsa"):
            for name in ("x", "xhat", "t", "fun"):
                close(host(compiled[name]), host(python[name]), 3e-2, f"Compiled and Python loops: {name}", starts)
            for name in ("t", "fun_best"):
                close(
                    compiled.history[name], python.history[name], 3e-2, f"Compiled and Python loops: history {name}", 1
                )


def _check_jax_result(result: Any, case: Case, fun: Any, starts: Any) -> None:
    """Check the contracts that do not depend on the noise."""
    for b in range(len(case["x0"])):

        def of(name: str, b: int = b) -> Any:
            value = host(result[name])
            return value[b] if case["batched"] else value

        data = (np.float32(b),) if case["batched"] else ()
        if case["max_evals"] is not None:
            expect(of("nfev") + of("njev") <= case["max_evals"], f"{of('nfev')} + {of('njev')} exceed max_evals.")
        expect(of("nit") <= case["max_iter"], f"nit={of('nit')} exceeds max_iter.")
        if case["bounds"]:
            low = np.array([-np.inf if a is None else a for a, _ in case["bounds"]])
            high = np.array([np.inf if c is None else c for _, c in case["bounds"]])
            for name in ("x", "x_best", "xhat"):
                inside = (of(name) >= low - 1e-6).all() and (of(name) <= high + 1e-6).all()
                expect(inside, f"{name}={of(name)} is outside of the bounds.")
        for point, value in (("x", "fun"), ("x_best", "fun_best")):
            if np.isfinite(of(value)):
                close(of(value), float(fun(of(point), *data)), 1e-3, f"{value} of problem {b}", 10.0)
        if np.isfinite(of("fun")) and np.isfinite(of("fun_best")):
            expect(
                of("fun_best") <= of("fun") + 1e-5 * (1 + abs(of("fun"))),
                f"fun_best={of('fun_best')}, fun={of('fun')}.",
            )
        planned = int(of("status")) in (0, 1, 7)
        expect(bool(of("success")) == (planned and bool(np.isfinite(of("fun")))), f"success={of('success')}.")
        rows = result.history["fun_best"]
        best = rows[:, b] if case["batched"] else rows
        known = best[np.isfinite(best)]
        expect((np.diff(known) <= 0).all(), "history['fun_best'] rises.")


TARGET = JaxRuns()
