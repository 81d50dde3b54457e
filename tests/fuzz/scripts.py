"""Short scripts that run a case of `minimize` without the harness."""

from __future__ import annotations

from typing import Any

from fuzz.functions import BAD
from fuzz.target import Case

FORMULAS = {
    "bowl": "(w * z * z).sum(axis=-1)",
    "ripple": "(w * z * z / 8 + 4 * (z - np.rint(z)) ** 2).sum(axis=-1)",
    "corner": "(w * np.abs(z)).sum(axis=-1)",
    "steps": "(np.floor(2 * z) ** 2).sum(axis=-1)",
    "constant": "0 * z.sum(axis=-1) + 1.5",
    "linear": "(w * z).sum(axis=-1)",
    "valley": "((z[..., 1:] - z[..., :-1] ** 2) ** 2).sum(axis=-1) + (1 - z[..., 0]) ** 2",
    "quartic": "(w * z**2 + z**4 / 64).sum(axis=-1)",
    "input": "x[..., 0]",
}

SLOPES = {
    "ripple": "w * z / 4 + 8 * (z - np.rint(z))",
    "corner": "w * np.sign(z)",
    "constant": "0 * z",
    "linear": "w + 0 * z",
    "quartic": "2 * w * z + z**3 / 16",
    "input": "x",
}


def standalone(case: Case) -> str:
    """Return a script that makes the call of a case and prints the lowest value seen beside the Result."""
    spec, d = case["fun"], len(case["x0"][0])
    center = [spec["center"][i % 3] for i in range(d)]
    weights = [1 + (i % 4) / 4 for i in range(d)]
    extra = (["tag"] if case["batched"] else []) + (["xi"] if case["xi"] is not None else [])
    shifts = {"tag": "0.25 * np.asarray(tag)[..., None]", "xi": "0.0625 * np.asarray(xi)[..., None]"}
    moved = "".join(f" - {shifts[name]}" for name in extra)
    signature = ", ".join(["x", *extra])
    lines = [
        "import numpy as np",
        "import slgh",
        "",
        "asked = []",
        f"c, w = np.array({center}), np.array({weights})",
        "",
        f"def fun({signature}):",
        f"    z = x - c{moved}",
        f"    value = {spec['scale']} * ({FORMULAS[spec['kind']]}) + {spec['offset']}",
    ]
    for fault in spec["faults"]:
        lines.append(f"    value = np.where({_where(fault)}, {_number(BAD[fault['value']])}, value)")
    lines.append("    asked.append(np.min(value, where=np.isfinite(value), initial=np.inf))")
    if case["hostile"]:
        lines += ["    x[...] = 77.0  # a careless user"]
    lines += [f"    return {'value' if case['calling'] == 'vectorized' else 'float(value)'}", ""]
    if case["gradient"]:
        slope = SLOPES.get(spec["kind"], "2 * w * z")
        lines += [f"def grad({signature}):", f"    z = x - c{moved}", f"    return {spec['scale']} * ({slope})", ""]
    if case["callback"]:
        lines += ["def callback(result):", *_callback(case), ""]
    lines += ["result = slgh.minimize(", "    fun,", f"    np.array({_start(case)}, {case['dtype']!r}),"]
    lines += [f"    {name}={value}," for name, value in _arguments(case).items()]
    lines += [")", "print(result)", 'print("least value seen:", min(asked))']
    return "\n".join(lines) + "\n"


def _start(case: Case) -> Any:
    return case["x0"] if case["batched"] else case["x0"][0]


def _number(value: float) -> str:
    return f"float('{value}')"


def _where(fault: dict[str, Any]) -> str:
    if fault["where"] == "region":
        return f"(x[..., 0] > {fault['low']}) & (x[..., 0] < {fault['high']})"
    if fault["where"] == "coordinate":
        return f"x[..., -1] > {fault['low']}"
    if fault["where"] == "hash":
        return f"np.floor(np.abs(x.sum(axis=-1)) * 997) % {fault['modulus']} == 0"
    return f"len(asked) >= {fault['from']} and (len(asked) - {fault['from']}) % {fault['every']} == 0"


def _callback(case: Case) -> list[str]:
    if case["callback"] == "spoil":
        return ["    for value in result.values():", "        if np.ndim(value):", "            value[...] = 55"]
    if case["callback"] == "stop":
        return [f"    return result.nit >= {case['stop_after']}"]
    return ["    print(result.x, result.fun)"]


def _arguments(case: Case) -> dict[str, str]:
    names = ("method", "batched", "seed", "max_iter", "max_evals", "history", "on_nonfinite", "bounds", "batch_size")
    given = {name: repr(case[name]) for name in names if case[name] is not None and case[name] is not False}
    given |= {name: repr(value) for name, value in case["params"].items()}
    if case["calling"] == "vectorized":
        given["vectorized"] = "True"
    if case["batched"]:
        given["data"] = f"np.arange({len(case['x0'])})"
    if case["xi"] is not None:
        given["sample_xi"] = "lambda rng, n: rng.standard_normal(n)" if case["xi"] == "normal" else repr(case["xi"])
    if case["gradient"]:
        given["grad"] = "grad"
    if case["calling"] == "map":
        given["workers"] = "map"
    if case["callback"]:
        given["callback"] = "callback"
    return given
