"""Random test functions, and a recorder of every point that slgh evaluates.

A function is a JSON object: its `kind`, a `scale`, an `offset`, a `center` and a list of `faults`. Its arithmetic gives
the same bits for one point and for many (no transcendental functions, sums in a fixed order), so that values
do not depend on how the function is called.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Spec = dict[str, Any]

MEMORIES = ("own", "own", "buffer", "argument")
"""Memory that a function returns: new arrays, the same array at every call, or its argument."""

KINDS = ("bowl", "ripple", "corner", "steps", "constant", "linear", "valley", "quartic")

BAD = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf, "huge": 1e300, "-huge": -1e300}


def draw_function(rng: random.Random, *, faults: bool = False) -> Spec:
    """Draw a function. With `faults`, it has bad values in some places."""
    spec: Spec = {
        "kind": rng.choice(KINDS),
        "scale": rng.choice([1.0, 1.0, 1.0, 4.0, 2.0**-10, -1.0]),
        "offset": rng.choice([0.0, 0.0, -3.5, 1000.0]),
        "center": [round(rng.uniform(-2, 2), 3) for _ in range(3)],
        "faults": [],
    }
    if spec["scale"] < 0 and spec["kind"] not in ("linear", "corner"):
        spec["scale"] = 1.0
    if faults:
        spec["faults"] = [draw_fault(rng) for _ in range(rng.choice([1, 1, 2]))]
    return spec


def draw_memory(rng: random.Random, spec: Spec) -> str:
    """Draw the memory that a function returns. A function that returns its argument gets a suitable kind."""
    memory = rng.choice(MEMORIES)
    if memory == "argument":
        spec |= {"kind": "input", "scale": 1.0, "offset": 0.0, "faults": []}
    return memory


def draw_fault(rng: random.Random) -> Spec:
    """Draw a place where a function fails, and its value there."""
    value = rng.choice(["nan", "nan", "inf", "-inf"])
    where = rng.choice(["region", "region", "hash", "hash", "hash", "calls", "coordinate"])
    if where == "region":
        low = round(rng.uniform(-3, 3), 2)
        return {"where": where, "value": value, "low": low, "high": low + rng.choice([0.1, 0.5, 2.0, 20.0])}
    if where == "hash":
        return {"where": where, "value": value, "modulus": rng.choice([2, 2, 3, 7, 50])}
    if where == "coordinate":
        return {"where": where, "value": value, "low": round(rng.uniform(-2, 2), 2)}
    return {"where": where, "value": value, "every": rng.choice([1, 2, 5, 37]), "from": rng.choice([0, 1, 5, 20])}


def _total(terms: Any) -> Any:
    """Sum over the last axis from left to right."""
    total = terms[..., 0]
    for i in range(1, terms.shape[-1]):
        total = total + terms[..., i]
    return total


@dataclass(frozen=True)
class Function:
    """Function of a spec in d variables, on NumPy arrays.

    Points are (..., d). `tag` (...) is the number of the problem, `xi` (...) a sample. Both shift the function.
    """

    spec: Spec
    d: int

    def _moved(self, x: Any, tag: Any, xi: Any) -> tuple[Any, Any]:
        center = np.array([self.spec["center"][i % 3] for i in range(self.d)], x.dtype)
        weights = np.array([1 + (i % 4) / 4 for i in range(self.d)], x.dtype)
        z = x - center
        for shift, unit in ((tag, 0.25), (xi, 0.0625)):
            if shift is not None:
                z = z - (np.asarray(shift, x.dtype) * x.dtype.type(unit))[..., None]
        return z, weights

    def value(self, x: Any, tag: Any = None, xi: Any = None) -> Any:
        """Return f at points (..., d), without faults."""
        z, w = self._moved(x, tag, xi)
        kind, one = self.spec["kind"], x.dtype.type
        if kind == "input":
            return x[..., 0]
        if kind == "bowl":
            found = _total(w * z * z)
        elif kind == "ripple":
            r = z - np.rint(z)
            found = _total(w * z * z * one(0.125) + r * r * one(4.0))
        elif kind == "corner":
            found = _total(w * np.abs(z))
        elif kind == "steps":
            found = _total(np.floor(z * one(2.0)) ** 2)
        elif kind == "constant":
            found = _total(z * one(0.0)) + one(1.5)
        elif kind == "linear":
            found = _total(w * z)
        elif kind == "valley":
            head = z[..., 1:] - z[..., :-1] * z[..., :-1] if self.d > 1 else z
            slope = one(1.0) - z[..., 0]  # not squared with **, which rounds differently for one number and for many
            found = _total(head * head) + slope * slope
        else:
            found = self.smoothed(x, np.zeros(x.shape[:-1], x.dtype), tag, xi)
        if xi is not None:
            found = found * (one(1.0) + one(0.03125) * np.asarray(xi, x.dtype))
        return found * one(self.spec["scale"]) + one(self.spec["offset"])

    def gradient(self, x: Any, tag: Any = None, xi: Any = None) -> Any:
        """Return a slope of f at points (..., d): its gradient, or for steps and input that of a bowl."""
        z, w = self._moved(x, tag, xi)
        kind, one = self.spec["kind"], x.dtype.type
        if kind == "input":
            return x
        if kind == "ripple":
            found = w * z * one(0.25) + (z - np.rint(z)) * one(8.0)
        elif kind == "corner":
            found = w * np.sign(z)
        elif kind == "constant":
            found = z * one(0.0)
        elif kind == "linear":
            found = w + z * one(0.0)
        elif kind == "quartic":
            found = self.smoothed_gradient(x, np.zeros(x.shape[:-1], x.dtype), tag, xi)
        else:
            found = one(2.0) * w * z
        return found * one(self.spec["scale"])

    def smoothed(self, x: Any, t: Any, tag: Any = None, xi: Any = None) -> Any:
        """Return F(x, t) of the quartic: sum w (z^2 + t^2) + (z^4 + 6 z^2 t^2 + 3 t^4) / 64."""
        z, w = self._moved(x, tag, xi)
        t2, one = (t * t)[..., None], x.dtype.type
        z2 = z * z
        return _total(w * (z2 + t2) + (z2 * z2 + one(6.0) * z2 * t2 + one(3.0) * t2 * t2) * one(1 / 64))

    def smoothed_gradient(self, x: Any, t: Any, tag: Any = None, xi: Any = None) -> Any:
        """Return grad_x F(x, t) of the quartic."""
        z, w = self._moved(x, tag, xi)
        t2, one = (t * t)[..., None], x.dtype.type
        return one(2.0) * w * z + (one(4.0) * z * z * z + one(12.0) * z * t2) * one(1 / 64)

    def smoothed_trace(self, x: Any, t: Any, tag: Any = None, xi: Any = None) -> Any:
        """Return tr Hess_x F(x, t) of the quartic."""
        z, w = self._moved(x, tag, xi)
        one = x.dtype.type
        return _total(one(2.0) * w + (one(12.0) * z * z + one(12.0) * (t * t)[..., None]) * one(1 / 64))


def on_host(x: Any) -> NDArray[Any]:
    """Return a copy of a NumPy or PyTorch array as a NumPy array."""
    return np.array(x.detach().numpy() if hasattr(x, "detach") else x)


class Event(NamedTuple):
    """One evaluation: its kind ("fun", "grad", "F", "F.grad", "F.dt", "F.trace"), the point, and the answer."""

    what: str
    x: NDArray[Any]
    t: float
    xi: float | None
    value: Any


@dataclass
class Recorder:
    """A user's function that records every evaluation, problem by problem.

    Parameters
    ----------
    function
        Function to compute.
    problems
        Number of problems. With `tagged`, the first of the data is the number of the problem.
    pointwise
        True for functions of one point (d,), False for functions of many (..., d).
    stochastic
        True if a sample xi is among the arguments.
    hostile
        Try to write into the points.
    library
        "numpy" or "torch".
    memory
        Memory that it returns: "own" for a new array each time; "buffer" for one array, which the next call
        overwrites; or for a function of kind "input" its "argument", which the next call overwrites if possible.
    """

    function: Function
    problems: int = 1
    tagged: bool = False
    pointwise: bool = False
    stochastic: bool = False
    hostile: bool = False
    library: str = "numpy"
    returns: str = "float"
    memory: str = "own"
    raises_at: int | None = None
    """Call that raises an exception."""
    raises: type[BaseException] | None = None
    events: list[list[Event]] = field(init=False)
    mutated: int = 0
    wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.events = [[] for _ in range(self.problems)]
        self.calls = 0
        self.buffers: dict[Any, Any] = {}
        self.returned: list[Any] = []

    def fun(self, x: Any, *extra: Any) -> Any:
        return self._answer("fun", x, None, extra)

    def grad(self, x: Any, *extra: Any) -> Any:
        return self._answer("grad", x, None, extra)

    def counts(self, b: int) -> tuple[int, int]:
        """Return the numbers of evaluations of values and of derivatives of problem b."""
        values = sum(e.what in ("fun", "F") for e in self.events[b])
        return values, len(self.events[b]) - values

    def _answer(self, what: str, x: Any, t: Any, extra: tuple[Any, ...]) -> Any:
        self.calls += 1
        if self.raises_at is not None and self.calls == self.raises_at:
            raise (self.raises or Planned)(f"call {self.calls}")
        self._overwrite()
        host = on_host(x)
        if host.ndim != 1 and self.pointwise:
            self.wrong.append(f"a function of one point got shape {host.shape}")
        rest = [on_host(e) for e in extra]
        tag = rest.pop(0) if self.tagged else None
        xi = rest.pop(0) if self.stochastic else None
        if rest:
            self.wrong.append(f"fun got {len(rest)} arguments too many")
        times = None if t is None else np.array(t)
        found = self._values(what, host, times, tag, xi)
        shape, by_calls = host.shape[:-1], any(f["where"] == "calls" for f in self.function.spec["faults"])
        points = host.reshape(-1, host.shape[-1])
        flat = found.reshape(len(points), -1) if what in ("grad", "F.grad") else found.reshape(-1)
        owners = [0] * len(points) if tag is None else np.broadcast_to(tag, shape).ravel().tolist()
        radii = [0.0] * len(points) if times is None else np.broadcast_to(times, shape).ravel().tolist()
        samples = [None] * len(points) if xi is None else np.broadcast_to(xi, shape).ravel().tolist()
        for i, (b, t_i, xi_i) in enumerate(zip(owners, radii, samples, strict=True)):
            if what == "fun" and by_calls:
                flat[i] = self._by_calls(b, flat[i], flat.dtype)
            self.events[b].append(Event(what, points[i], t_i, None if xi_i is None else float(xi_i), flat[i].copy()))
        found = flat.reshape(found.shape)
        if self.memory == "argument" and self.function.spec["kind"] == "input" and what in ("fun", "grad"):
            self.returned = [x]
            return x[..., 0] if what == "fun" else x
        if self.hostile:
            self._spoil(x)
        if self.memory == "buffer":
            return self._in_buffer(found, x)
        return self._returned(found, x)

    def _overwrite(self) -> None:
        """Overwrite the arrays that earlier calls returned."""
        for array in self.returned:
            if self.library == "torch" or array.flags.writeable:
                array[...] = 66.0

    def _in_buffer(self, found: Any, x: Any) -> Any:
        """Return the buffer of this shape, filled with the values."""
        key = found.shape, str(x.dtype)
        if key not in self.buffers:
            self.buffers[key] = np.empty_like(x, shape=found.shape) if self.library == "numpy" else x.new_empty(key[0])
            self.returned.append(self.buffers[key])
        buffer = self.buffers[key]
        buffer[...] = found if self.library == "numpy" else x.new_tensor(found)
        return buffer

    def _values(self, what: str, x: Any, t: Any, tag: Any, xi: Any) -> Any:
        with np.errstate(all="ignore"):
            f = self.function
            if what == "fun":
                found = f.value(x, tag, xi)
            elif what == "grad":
                found = f.gradient(x, tag, xi)
            elif what == "F":
                found = f.smoothed(x, t, tag, xi)
            elif what == "F.grad":
                found = f.smoothed_gradient(x, t, tag, xi)
            else:
                found = f.smoothed_trace(x, t, tag, xi)
                found = found * t if what == "F.dt" else found
            found = np.array(found)
            for fault in f.spec["faults"]:
                bad = self._bad(fault, x)
                if what in ("grad", "F.grad"):
                    i = 0 if fault["where"] == "region" else -1  # one bad component makes a gradient bad
                    found[..., i] = np.where(bad, BAD[fault["value"]], found[..., i])
                else:
                    found = np.where(bad, BAD[fault["value"]], found).astype(x.dtype)
        return found

    def _bad(self, fault: Spec, x: Any) -> Any:
        first = x[..., 0].astype(float)
        if fault["where"] == "region":
            return (first > fault["low"]) & (first < fault["high"])
        if fault["where"] == "coordinate":
            return x[..., -1].astype(float) > fault["low"]
        if fault["where"] == "hash":
            return np.floor(np.abs(_total(x).astype(float)) * 997) % fault["modulus"] == 0
        return np.zeros(first.shape, bool)

    def _by_calls(self, b: int, value: Any, dtype: Any) -> Any:
        for fault in self.function.spec["faults"]:
            if fault["where"] == "calls":
                number = len(self.events[b])
                if number >= fault["from"] and (number - fault["from"]) % fault["every"] == 0:
                    return dtype.type(BAD[fault["value"]])
        return value

    def _spoil(self, x: Any) -> None:
        if self.library == "torch":
            x.fill_(77.0)
            self.mutated += 1
            return
        try:
            x[...] = 77.0
            self.mutated += 1
        except ValueError:
            pass

    def _returned(self, found: Any, x: Any) -> Any:
        if self.library == "torch":
            import torch

            return torch.as_tensor(found).to(x.dtype)
        if found.ndim:
            return found
        if self.returns == "array":
            return np.array(found)
        if self.returns == "one":
            return np.array([found])
        if self.returns == "int" and np.isfinite(found) and found == np.rint(found) and abs(found) < 1e15:
            return int(found)
        return found[()] if self.returns == "numpy" else float(found)


class Planned(Exception):
    """Exception that a test function raises on purpose."""


class ClosedForm:
    """A recorder as a closed form: value, grad, dt, trace."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    def value(self, x: Any, t: Any, *extra: Any) -> Any:
        return self.recorder._answer("fun" if not np.any(np.array(t)) else "F", x, t, extra)

    def grad(self, x: Any, t: Any, *extra: Any) -> Any:
        return self.recorder._answer("grad" if not np.any(np.array(t)) else "F.grad", x, t, extra)

    def dt(self, x: Any, t: Any, *extra: Any) -> Any:
        return self.recorder._answer("F.dt", x, t, extra)

    def trace(self, x: Any, t: Any, *extra: Any) -> Any:
        return self.recorder._answer("F.trace", x, t, extra)
