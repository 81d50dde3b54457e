"""The contracts of docs/architecture.md that hold for every run and method."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from fuzz.functions import Recorder
from fuzz.target import Violation

STATUS = {
    0: "COMPLETED",
    1: "TARGET",
    2: "MAX_EVALS",
    3: "MAX_SECONDS",
    4: "CALLBACK",
    5: "INTERRUPTED",
    6: "NONFINITE",
    7: "WATCHED",
    9: "INFEASIBLE",
}


def expect(holds: Any, message: str) -> None:
    """Raise Violation unless `holds`."""
    if not holds:
        raise Violation(message)


def same(a: Any, b: Any) -> bool:
    """Return True if two arrays or numbers are equal bit for bit. NaN equals NaN."""
    a, b = np.asarray(a), np.asarray(b)
    return a.shape == b.shape and bool(np.array_equal(a, b, equal_nan=a.dtype.kind in "fc"))


COMPARED = ("x", "fun", "x_best", "fun_best", "xhat", "t", "nit", "nfev", "njev", "nrejected", "status", "success")


def host(value: Any) -> Any:
    """Return an array of any library as a NumPy array."""
    return np.asarray(value.detach().numpy() if hasattr(value, "detach") else value)


def expect_equal(one: Any, two: Any, what: str, names: tuple[str, ...] = COMPARED, *, history: bool = True) -> None:
    """Raise Violation unless two Results are equal bit for bit."""
    for name in names:
        expect(
            same(host(one[name]), host(two[name])),
            f"{what}: {name} differs, {host(one[name]).tolist()} and {host(two[name]).tolist()}.",
        )
    if history:
        expect(one.history.keys() == two.history.keys(), f"{what}: the histories have other columns.")
        for name in one.history:
            expect(same(one.history[name], two.history[name]), f"{what}: history[{name!r}] differs.")


def expect_same_events(one: Recorder, two: Recorder, what: str) -> None:
    """Raise Violation unless two functions evaluated the same points in the same order."""
    for b, (left, right) in enumerate(zip(one.events, two.events, strict=True)):
        expect(len(left) == len(right), f"{what}: {len(left)} and {len(right)} evaluations of problem {b}.")
        for i, (e, f) in enumerate(zip(left, right, strict=True)):
            # F(x, 0) is f(x). A closed form cannot distinguish the two requests.
            at_zero = e.t == f.t == 0 and {e.what, f.what} in ({"fun", "F"}, {"grad", "F.grad"})
            alike = (e.what == f.what or at_zero) and same(e.x, f.x) and e.xi == f.xi and e.t == f.t
            expect(alike, f"{what}: evaluation {i} of problem {b} differs, {e.x.tolist()} and {f.x.tolist()}.")


@contextmanager
def untouched() -> Iterator[None]:
    """Raise Violation if the body changes global random state or NumPy's handling of errors."""
    before = random.getstate(), np.random.get_state(legacy=False), np.geterr()  # noqa: NPY002
    yield
    after = random.getstate(), np.random.get_state(legacy=False), np.geterr()  # noqa: NPY002
    expect(before[0] == after[0], "The state of the module random was changed.")
    expect(str(before[1]) == str(after[1]), "The global random state of NumPy was changed.")
    expect(before[2] == after[2], "NumPy's handling of floating-point errors was changed.")


def check_result(
    result: Any,
    recorder: Recorder,
    *,
    x0: Any,
    batched: bool,
    low: Any = None,
    high: Any = None,
    max_evals: int | None = None,
    max_iter: int | None = None,
    target: float | None = None,
    reports_best: bool = False,
    known_best: bool = True,
) -> None:
    """Raise Violation unless a Result agrees with the recorded evaluations."""
    for message in recorder.wrong:
        raise Violation(message)
    for b, events in enumerate(recorder.events):

        def of(name: str, b: int = b) -> Any:
            value = host(result[name])
            return value[b] if batched else value

        start = x0[b] if batched else x0
        values, slopes = recorder.counts(b)
        expect(of("nfev") == values, f"nfev is {of('nfev')}, fun was evaluated {values} times (problem {b}).")
        expect(of("njev") == slopes, f"njev is {of('njev')}, grad was evaluated {slopes} times (problem {b}).")
        if max_evals is not None:
            expect(values + slopes <= max_evals, f"{values + slopes} evaluations exceed max_evals={max_evals}.")
        if max_iter is not None:
            expect(of("nit") <= max_iter, f"nit={of('nit')} exceeds max_iter={max_iter}.")
        for event in events:
            expect(event.x.dtype == start.dtype, f"fun got dtype {event.x.dtype}, x0 has {start.dtype}.")
            expect(event.x.shape == start.shape, f"fun got a point of shape {event.x.shape}.")
            expect(np.isfinite(event.x).all(), f"fun got a point that is not finite: {event.x}.")
            if low is not None and event.what in ("fun", "grad"):
                inside = (event.x >= low).all() and (event.x <= high).all()
                expect(inside, f"fun got a point outside of the bounds: {event.x.tolist()}.")
        x, status = of("x"), int(of("status"))
        expect(x.shape == start.shape, f"x has shape {x.shape}.")
        expect(x.dtype == start.dtype, f"x has dtype {x.dtype}, x0 has {start.dtype}.")
        expect(status in STATUS, f"status is {status}.")
        planned = status in (0, 1, 7)
        finite = bool(np.isfinite(of("fun")))
        expect(bool(of("success")) == (planned and finite), f"success={of('success')}, status={STATUS[status]}.")
        if recorder.stochastic or not known_best:
            continue
        seen = [e for e in events if e.what == "fun"]
        good = [float(e.value) for e in seen if np.isfinite(e.value)]
        best = min(good, default=np.nan)
        expect(same(float(of("fun_best")), best), f"fun_best is {of('fun_best')}, the lowest value seen is {best}.")
        if good:
            at = [e.x for e in seen if float(e.value) == best]
            expect(any(same(p, of("x_best")) for p in at), "x_best is not a point where fun_best was seen.")
        fun = float(of("fun"))
        if not np.isnan(fun):
            at = [e.x for e in seen if same(float(e.value), fun)]
            expect(any(same(p, x) for p in at), f"fun={fun} was not seen at x={x.tolist()}.")
        if reports_best and good:
            expect(fun == best, f"fun={fun}, but {best} was seen.")
        if target is not None:
            reached = finite and fun <= target
            expect((status == 1) == reached, f"status is {STATUS[status]}, fun={fun}, target={target}.")
            if good and best <= target:
                expect(status == 1, f"fun_best={best} is at most target={target}, but status is {STATUS[status]}.")
    check_history(result, batched=batched, stochastic=recorder.stochastic)


def check_history(result: Any, *, batched: bool, stochastic: bool) -> None:
    """Raise Violation unless the columns of the history agree with each other and with the Result."""
    history = result.history
    k, nfev = history["iteration"], history["nfev"]
    nit = int(np.max(host(result.nit)))
    expect((np.diff(k) > 0).all(), "history['iteration'] does not increase.")
    expect(k.size == 0 or (k[0] == 0 and k[-1] < nit), f"history['iteration'] is {k.tolist()}, nit is {nit}.")
    expect((np.diff(nfev) >= 0).all(), "history['nfev'] falls.")
    expect(nfev.size == 0 or nfev[-1] <= int(np.max(host(result.nfev))), "history['nfev'] exceeds nfev.")
    for name in ("fun", "t", "fun_best"):
        shape = (k.size, len(host(result.nit))) if batched else (k.size,)
        expect(history[name].shape == shape, f"history[{name!r}] has shape {history[name].shape}, not {shape}.")
    if k.size and not stochastic:
        best = np.where(np.isnan(history["fun_best"]), np.inf, history["fun_best"])
        expect((best[1:] <= best[:-1]).all(), "history['fun_best'] rises.")
        final = host(result.fun_best)
        expect((np.where(np.isnan(final), np.inf, final) <= best[-1]).all(), "fun_best is above that of the history.")
