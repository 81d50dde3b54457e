"""Invalid return values and unusual arguments give a clear error, or a run like any other."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from fuzz.asktell import script_of
from fuzz.invariants import expect, same, untouched
from fuzz.target import Case, Violation

METHODS: dict[str, dict[str, Any]] = {
    "auto": {"max_evals": 40},
    "scale_free": {"max_evals": 40},
    "zoslgh_r": {"t1": 0.5, "step": 0.01, "samples": 2, "max_iter": 5},
}


def bowl(x: Any) -> Any:
    """Return the sum of squares over the last axis."""
    return (x * x).sum(axis=-1)


WRONG: dict[str, Callable[[Any], Any]] = {
    "None": lambda x: None,
    "a string": lambda x: "1.0",
    "two numbers": lambda x: np.array([1.0, 2.0]),
    "a complex number": lambda x: 1.0 + 2.0j,
    "a dictionary": lambda x: {"fun": 1.0},
    "an object": lambda x: object(),
    "a list of strings": lambda x: ["a"],
    "an empty array": lambda x: np.zeros(0),
}
"""Invalid return values of a function of one point. Each raises an error that names `fun`."""

WRONG_MANY: dict[str, Callable[[Any], Any]] = {
    "one number": lambda x: 1.0,
    "a column": lambda x: bowl(x)[:, None],
    "one value too many": lambda x: np.append(bowl(x), 0.0),
    "one value too few": lambda x: bowl(x)[1:] if len(x) > 1 else np.zeros((0, 2)),
    "complex numbers": lambda x: bowl(x) + 1j,
    "None": lambda x: None,
    "strings": lambda x: ["1"] * len(x),
}
"""Invalid return values of a function of many points."""

EQUAL: dict[str, Callable[[Any], Any]] = {
    "a Python float": lambda x: float(bowl(x)),
    "an array without dimensions": lambda x: np.asarray(bowl(x)),
    "an array of one": lambda x: np.array([bowl(x)]),
    "a list of one": lambda x: [float(bowl(x))],
    "a longer float": lambda x: np.longdouble(bowl(x)),
}
"""Return values that count as the same number."""

INTEGERS: dict[str, Callable[[Any], Any]] = {
    "an integer": lambda x: int(np.floor(bowl(x))),
    "an integer of NumPy": lambda x: np.int64(np.floor(bowl(x))),
    "a large integer": lambda x: int(np.floor(bowl(x))) + 10**20,
    "a boolean": lambda x: bool(bowl(x) > 1),
}

LIMITS: dict[str, dict[str, Any]] = {
    "max_evals=10**20": {"max_evals": 10**20, "max_iter": 3},
    "max_iter=2**70": {"max_iter": 2**70, "max_evals": 30},
    "max_seconds=0": {"max_seconds": 0},
    "max_iter=0": {"max_iter": 0},
    "NumPy's integers": {"max_iter": np.int64(3), "max_evals": np.int32(30)},
}

MAPS: dict[str, Callable[..., Any]] = {
    "one value too few": lambda call, items: [call(i) for i in items][1:],
    "one value too many": lambda call, items: [*(call(i) for i in items), 0.0],
    "a dictionary": lambda call, items: {i: call(item) for i, item in enumerate(items)},
    "None": lambda call, items: None,
}
"""Invalid map functions."""


class Arguments:
    """The target "arguments"."""

    name = "arguments"
    weight = 0.5
    timeout = 30.0

    def generate(self, rng: random.Random) -> Case:
        tables: dict[str, Mapping[str, Any]] = {
            "wrong": WRONG,
            "wrong many": WRONG_MANY,
            "equal": EQUAL,
            "integer": INTEGERS,
            "limits": LIMITS,
            "map": MAPS,
            "masked": {"a masked value": None},
        }
        kind = rng.choice(list(tables))
        return {
            "kind": kind,
            "which": rng.choice(list(tables[kind])),
            "method": rng.choice(list(METHODS)),
            "x0": [round(rng.uniform(-2, 2), 2) for _ in range(rng.choice([2, 3]))],
            "from": rng.choice([0, 0, 3]),
        }

    def check(self, case: Case) -> dict[str, int]:
        with untouched(), warnings.catch_warnings():
            warnings.simplefilter("error")
            getattr(self, "_" + case["kind"].replace(" ", "_"))(case)
        return {"configurations": 1}

    def _run(self, case: Case, fun: Callable[..., Any], **more: Any) -> Any:
        import slgh

        given = {**METHODS[case["method"]], "seed": 1, **more}
        return slgh.minimize(fun, np.array(case["x0"]), method=case["method"], **given)

    def _refused(self, case: Case, name: str, fun: Callable[..., Any], **more: Any) -> None:
        """Expect a TypeError or ValueError that names the argument."""
        try:
            result = self._run(case, fun, **more)
        except (TypeError, ValueError) as error:
            expect(f"`{name}`" in str(error), f"{case['which']}: the error does not name `{name}`: {error!r}.")
        else:
            raise Violation(f"{case['which']} for `{name}` was accepted: fun={result.fun}.")

    def _wrong(self, case: Case) -> None:
        bad, calls = WRONG[case["which"]], iter(range(10**9))
        self._refused(case, "fun", lambda x: bad(x) if next(calls) >= case["from"] else float(bowl(x)))

    def _wrong_many(self, case: Case) -> None:
        self._refused(case, "fun", WRONG_MANY[case["which"]], vectorized=True)

    def _map(self, case: Case) -> None:
        self._refused(case, "workers", lambda x: float(bowl(x)), workers=MAPS[case["which"]])

    def _masked(self, case: Case) -> None:
        """A masked value is not a number: it is refused, or counts as bad."""
        good: list[float] = []

        def fun(x: Any) -> Any:
            value = float(bowl(x)) + 1.0
            if value > 2.0 + case["from"] / 10:
                return np.ma.masked
            good.append(value)
            return value

        try:
            result = self._run(case, fun)
        except (TypeError, ValueError) as error:
            expect("`fun`" in str(error), f"The error does not name `fun`: {error!r}.")
            return
        best = min(good, default=np.nan)
        expect(same(float(result.fun_best), best), f"A masked value passes for {result.fun_best}.")

    def _equal(self, case: Case) -> None:
        self._same(self._run(case, EQUAL[case["which"]]), self._run(case, lambda x: float(bowl(x))), case)

    def _integer(self, case: Case) -> None:
        fun = INTEGERS[case["which"]]
        self._same(self._run(case, fun), self._run(case, lambda x: float(fun(x))), case)

    def _same(self, one: Any, two: Any, case: Case) -> None:
        for name in ("x", "fun", "nfev", "fun_best"):
            expect(same(one[name], two[name]), f"{case['which']} and a float: {name} differs.")

    def _limits(self, case: Case) -> None:
        result = self._run(case, lambda x: float(bowl(x)), **LIMITS[case["which"]])
        expect(np.isfinite(result.fun), f"{case['which']}: fun is {result.fun}.")

    def simpler(self, case: Case) -> Iterator[Case]:
        if case["from"]:
            yield case | {"from": 0}
        if case["method"] != "zoslgh_r":
            yield case | {"method": "zoslgh_r"}

    def script(self, case: Case) -> str:
        return script_of(self.name, case)


TARGET = Arguments()
