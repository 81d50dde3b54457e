r"""An independent implementation of every method, written from the formulas, that checks a recorded run step by step.

It handles one problem and imports nothing from slgh. The noise follows from the seed as documented: normals
u, v and samples xi from SFC64 generators with SeedSequence(seed, spawn_key=(problem, purpose)). Each query is
predicted, compared with the points that the user's function evaluated, and answered with the recorded values.
Rounding therefore does not grow from one iteration to the next, and the comparison can be tight.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.functions import Event
from fuzz.parts import Parts, cosine
from fuzz.target import Violation

U, V, XI, PICK, FINAL = 0, 1, 2, 3, 4
"""Purposes of the streams of noise."""

PATIENCE = 10
"""Number of consecutive iterations without a usable value after which a problem ends."""

TIE = 1e-6
"""Relative difference of gradient norms below which either iterate may be the one with the smallest norm."""

CHUNK = 1 << 17
"""Array elements of the directions in one query."""

AT_ZERO = {"F": "fun", "F.grad": "grad"}
"""At t = 0, a request to a closed form cannot be distinguished from one to f."""

COMPLETED, TARGET, MAX_EVALS, CALLBACK, NONFINITE = 0, 1, 2, 4, 6


def generator(key: tuple[int, int], purpose: int) -> np.random.Generator:
    """Return the generator of (seed, problem) for one purpose."""
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(key[0], spawn_key=(key[1], purpose))))


def pick_index(key: tuple[int, int], n: int) -> int:
    """Return the index drawn uniformly from 0..n-1."""
    word = np.random.SeedSequence(key[0], spawn_key=(key[1], PICK)).generate_state(1, np.uint64)[0]
    return int(word) * n >> 64


@dataclass
class Box:
    """Bounds (d,), infinite where there is none."""

    low: NDArray[Any]
    high: NDArray[Any]

    def reflect(self, x: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Reflect points (n, d) into the box. Also return the derivative of that map, variable by variable."""
        out, sign = np.array(x), np.ones_like(x)
        for index in np.ndindex(*x.shape):
            low, high, value = float(self.low[index[-1]]), float(self.high[index[-1]]), float(x[index])
            if low == high:
                out[index], sign[index] = low, 0.0
            elif not low <= value <= high and math.isfinite(value):
                flips = 0
                if math.isfinite(low) and math.isfinite(high):
                    period = 2 * (high - low)
                    phase = (value - low) % period
                    flips = int(phase > high - low)
                    value = low + (period - phase if flips else phase)
                else:
                    value, flips = (2 * low - value if value < low else 2 * high - value), 1
                out[index], sign[index] = min(max(value, low), high), -1.0 if flips else 1.0
        return out, sign


@dataclass
class Seen:
    """Observation of an oracle."""

    g: NDArray[Any]
    ok: bool
    rejected: int = 0
    cosine: float = 1.0
    f: Any = None
    F: Any = None
    F_next: Any = None
    trace: Any = None
    slope: Any = None
    grad_f: Any = None
    widths: Any = None


@dataclass
class Predicted:
    """Result of one problem."""

    x: Any
    fun: float
    fun_se: float
    x_best: Any
    fun_best: float
    xhat: Any
    t: float
    nit: int
    nfev: int
    njev: int
    nrejected: int
    status: int
    success: bool
    rows: list[dict[str, Any]] = field(default_factory=list)
    ties: list[Any] = field(default_factory=list)
    """Iterates that may be xhat, if several have the same gradient norm up to rounding."""


@dataclass
class Setting:
    """Complete description of one problem of a run."""

    parts: Parts
    x0: NDArray[Any]
    key: tuple[int, int]
    box: Box | None = None
    stochastic: Any = None
    """None, the number of terms, or a function (rng, n) -> n samples."""
    closed: bool = False
    max_iter: int | None = None
    max_evals: int | None = None
    target: float | None = None
    on_nonfinite: str = "reject"
    stop_after: int | None = None
    """Iteration after which the callback stops the run."""


class Replay:
    """Predict the run of one problem, and compare it with its recorded events."""

    def __init__(self, setting: Setting, events: list[Event], *, tolerance: float) -> None:
        self.s, self.events, self.tolerance = setting, events, tolerance
        self.p = setting.parts
        self.dtype = setting.x0.dtype
        self.at = 0
        self.k = self.nfev = self.njev = 0
        self.normals = {U: generator(setting.key, U), V: generator(setting.key, V)}
        self.samples = generator(setting.key, XI)
        self.scale = float(np.max(np.abs(setting.x0), initial=1e-300))
        self.x_best, self.f_best = setting.x0.copy(), self.dtype.type(np.inf)
        self.worst = -np.inf
        self.is_stochastic = setting.stochastic is not None

    # Access to the recorded events

    def normal(self, m: int, stream: int = U) -> NDArray[Any]:
        d = self.s.x0.size
        return self.normals[stream].standard_normal(m * d, dtype=self.dtype).reshape(m, d)

    def xi(self, m: int, source: np.random.Generator | None = None) -> NDArray[Any]:
        source = self.samples if source is None else source
        if isinstance(self.s.stochastic, int):
            return source.integers(self.s.stochastic, size=m)
        return np.asarray(self.s.stochastic(source, m))

    def raw(self, what: str, points: NDArray[Any], t: float = 0.0, xi: Any = None) -> NDArray[Any]:
        """Compare the predicted query with the recorded one, and return the recorded answers."""
        sign = None
        if self.s.box is not None and what in ("fun", "grad"):
            points, sign = self.s.box.reflect(points)
        n = len(points)
        got = self.events[self.at : self.at + n]
        where = f"iteration {self.k}, evaluation {self.at}"
        if len(got) < n:
            raise Violation(f"{where}: {n} evaluations of {what} were expected, the run made {len(got)} more.")
        finite = np.abs(points[np.isfinite(points)])
        self.scale = max(self.scale, float(np.max(finite, initial=0.0)))
        for i, event in enumerate(got):
            if event.what != what and not (t == 0 and event.what == AT_ZERO.get(what)):
                raise Violation(f"{where}: {what} was expected, {event.what} was evaluated.")
            if event.x.dtype != self.dtype:
                raise Violation(f"{where}: fun got dtype {event.x.dtype}, x0 has {self.dtype}.")
            gap = float(np.max(np.abs(event.x.astype(float) - points[i].astype(float))))
            if not gap <= self.tolerance * self.scale:
                raise Violation(
                    f"{where}, point {i} of {n}: {what} was expected at {points[i].tolist()}, the run evaluated "
                    f"{event.x.tolist()}."
                )
            if abs(event.t - t) > 1e3 * self.tolerance * max(abs(t), 1e-300):
                raise Violation(f"{where}: F was expected at t={t}, the run evaluated t={event.t}.")
            if (event.xi is None) != (xi is None) or (xi is not None and event.xi != float(np.asarray(xi)[i])):
                raise Violation(f"{where}, point {i} of {n}: xi={event.xi}, expected {None if xi is None else xi[i]}.")
        self.at += n
        if what in ("fun", "F"):
            self.nfev += n
        else:
            self.njev += n
        values = np.array([event.value for event in got], self.dtype)
        if what == "fun" and not self.is_stochastic:
            for event, value in zip(got, values, strict=True):
                if np.isfinite(value) and value < self.f_best:
                    self.x_best, self.f_best = event.x, value
        return values if sign is None or what == "fun" else values * sign

    def ask(self, what: str, points: Any, t: float = 0.0, xi: Any = None) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the answers with bad ones set to 0 or penalized, and a mask of the good ones."""
        values = self.raw(what, np.asarray(points), t, xi)
        good = np.isfinite(values)
        if values.ndim == 2:
            good = good.all(axis=1)
            return np.where(good[:, None], values, self.dtype.type(0)), good
        if what == "fun" and self.s.on_nonfinite == "penalize":
            self.worst = max(self.worst, float(np.max(values[good], initial=-np.inf)))
            if np.isfinite(self.worst):
                return np.where(good, values, self.dtype.type(self.worst)), np.ones_like(good)
        return np.where(good, values, self.dtype.type(0)), good

    # The run

    def run(self) -> Predicted:
        """Predict the whole run. Raise Violation where the recorded one differs."""
        p, s = self.p, self.s
        x, t = s.x0.copy(), p.t1
        self.memory = p.first_memory(s.x0, s.box)
        bad = rejected = 0
        least, xhat = np.inf, x
        norms: list[tuple[float, NDArray[Any]]] = []
        exact = p.exact and not self.is_stochastic
        T = p.iterations
        pick = -1 if exact or not T else p.burn_in + pick_index(s.key, T - p.burn_in)
        start = int(0.9 * T) if p.reports == "best" and self.is_stochastic and T is not None else None
        tail = np.zeros_like(x)
        rows: list[dict[str, Any]] = []
        if p.looks:
            self.raw("fun", x[None])
            self.nfev = 1
        status = None
        while status is None:
            status = self.limit()
            if status is not None:
                break
            first = self.k % p.period == 0
            seen = getattr(self, f"_{p.oracle}")(x, t, first)
            new_x, update = p.move(x, seen, t, self.memory["update"])
            if s.box is not None and s.closed:
                new_x = np.minimum(np.maximum(new_x, s.box.low), s.box.high)
            if "F_next" in p.needs:
                seen.F_next = self.raw("F", new_x[None], t)[0]
            new_t, schedule = p.lower(t, seen, self.memory["schedule"])
            ok = seen.ok and bool(np.isfinite(new_x).all()) and bool(np.isfinite(new_t))
            rejected += seen.rejected
            if exact:
                g = seen.g if seen.grad_f is None else seen.grad_f
                norm = float(np.sqrt(np.sum(g.astype(float) ** 2)))
                if ok:
                    norms.append((norm, x))
                if ok and norm < least * (1 - 1e-12):
                    least, xhat = norm, x
            elif self.k == pick:
                xhat = x
            known = seen.F if seen.f is None else seen.f
            known = float("nan") if known is None or not ok else known
            stood = x
            if ok:
                x, t, bad = new_x, new_t, 0
                self.memory |= {"update": update, "schedule": schedule, "oracle": self.memory["next"]}
            else:
                bad += 1
            if start is not None and self.k >= start:
                tail = tail + x
            self.scale = max(self.scale, float(np.max(np.abs(x))))
            self.k += 1
            best = float("nan") if self.is_stochastic else float(self.f_best)
            t_row = p.t_of_row
            rows.append({"fun": float(known), "t": t_row, "fun_best": best, "x": self.inside(stood), "nfev": self.nfev})
            found = known if self.is_stochastic else self.f_best
            if s.target is not None and found <= s.target:
                status = TARGET
                x = stood if self.is_stochastic else x
            elif bad >= PATIENCE:
                status = NONFINITE
            elif s.stop_after is not None and self.k >= s.stop_after:
                status = CALLBACK
        n = self.k - start if start is not None else 0
        solution = tail / self.dtype.type(n) if n > 0 and status != TARGET else x
        if exact or (0 <= pick < self.k):
            picked = xhat
        else:
            picked = x
        predicted = self.finish(self.inside(solution), self.inside(picked), t, status, rejected, rows)
        # Gradient norms that differ only by rounding: any of these iterates may be xhat.
        predicted.ties = [self.inside(x) for norm, x in norms if norm <= least * (1 + TIE)]
        return predicted

    def inside(self, x: NDArray[Any]) -> NDArray[Any]:
        return x if self.s.box is None else self.s.box.reflect(x[None])[0][0]

    def limit(self) -> int | None:
        """Return the status if the run ends before its next iteration, otherwise None."""
        s, p = self.s, self.p
        if s.max_iter is not None and self.k >= s.max_iter:
            return COMPLETED
        if s.max_evals is not None:
            needed = p.cost(self.k % p.period == 0) + p.reserve
            if self.nfev + self.njev + needed > s.max_evals:
                return COMPLETED if p.planned and self.k > 0 else MAX_EVALS
        return None

    def finish(
        self, x: NDArray[Any], xhat: Any, t: Any, status: int, rejected: int, rows: list[dict[str, Any]]
    ) -> Predicted:
        """Request the final value, and write the Result."""
        s, p = self.s, self.p
        before = self.x_best, self.f_best
        fun, fun_se, nfev = float("nan"), 0.0, self.nfev
        if self.is_stochastic or status != TARGET:
            n = p.fields["samples"] if self.is_stochastic else 1
            if s.max_evals is not None:
                n = max(0, min(n, s.max_evals - self.nfev - self.njev))
            if n:
                xi = self.xi(n, generator(s.key, FINAL)) if self.is_stochastic else None
                values = self.raw("fun", np.broadcast_to(x, (n, x.size)), xi=xi)
                fun = float(np.mean(values))
                if self.is_stochastic:
                    fun_se = float(np.std(values, ddof=1)) / n**0.5 if n > 1 else float("nan")
                nfev += n
        if self.at != len(self.events):
            raise Violation(f"{len(self.events) - self.at} evaluations more than expected, after {self.at}.")
        if not self.is_stochastic:
            lower = np.isfinite(fun) and fun < before[1]
            if (status == TARGET or p.reports == "best") and np.isfinite(before[1]) and not lower:
                x, fun = before[0], float(before[1])
            x_best, fun_best = before[0], float(before[1])
            if np.isfinite(fun) and fun < fun_best:
                x_best, fun_best = x, fun
            fun_best = fun_best if np.isfinite(fun_best) else float("nan")
        else:
            x_best, fun_best = x, fun
        if s.target is not None and np.isfinite(fun) and fun <= s.target:
            status = TARGET
        if not np.isfinite(fun) and status in (COMPLETED, TARGET):
            status = NONFINITE
        success = bool(np.isfinite(fun)) and status in (COMPLETED, TARGET)
        return Predicted(
            x, fun, fun_se, x_best, fun_best, xhat, float(t), self.k, nfev, self.njev, rejected, status, success, rows
        )

    # The oracles, each from the formula in its docstring

    def chunks(self, m: int) -> list[int]:
        d = self.s.x0.size
        if m * d <= CHUNK:
            return [m]
        size = max(1, CHUNK // d)
        return [size] * (m // size) + ([m % size] if m % size else [])

    def _forward(self, x: NDArray[Any], t: Any, first: bool) -> Seen:
        return self._differences(x, t, sphere=False)

    def _sphere(self, x: NDArray[Any], t: Any, first: bool) -> Seen:
        return self._differences(x, t, sphere=True)

    def _differences(self, x: NDArray[Any], t: Any, *, sphere: bool) -> Seen:
        p, d = self.p, x.size
        M = p.fields["samples"]
        paired = self.is_stochastic and (sphere or p.fields["xi"] == "pairs")
        separate = not sphere and p.fields["slope_from"] == "v" and bool(p.needs & {"trace", "slope"})
        shared = self.xi(1) if self.is_stochastic and not paired else None
        center = None
        g, good, f_sum, F_sum = np.zeros(d), 0, 0.0, 0.0
        trace, traced = 0.0, 0
        for m in self.chunks(M):
            u = self.normal(m)
            if sphere:
                u = u / np.sqrt(np.sum(u * u, axis=1))[:, None]
            v = self.normal(m, V) if separate else u
            centers = m if paired else int(center is None)
            directions = [u, v] if separate else [u]
            points = np.concatenate([np.broadcast_to(x, (centers, d)), *(t * w + x for w in directions)])
            n = len(points)
            xi = None
            if paired:
                xi = np.concatenate([self.xi(m)] * (n // m))
            elif shared is not None:
                xi = np.broadcast_to(shared, n)
            values, ok = self.ask("fun", points, xi=xi)
            if centers:
                center = values[:centers], ok[:centers]
            assert center is not None
            c, c_ok = (np.broadcast_to(a, m) for a in center)
            for i in range(m):
                if ok[centers + i] and c_ok[i]:
                    g += (values[centers + i] - c[i]).astype(float) * u[i]
                    good += 1
                    f_sum += float(c[i])
                    F_sum += float(values[centers + i])
                j = centers + m + i if separate else centers + i
                if ok[j] and c_ok[i]:
                    trace += float(values[j] - c[i]) * (float(v[i].astype(float) @ v[i]) - d)
                    traced += 1
        assert center is not None
        n = max(good, 1)
        g = g / (n * float(t)) * (d if sphere else 1)
        rejected = M - good + (M - traced if separate else 0)
        trace = trace / max(traced, 1) / float(t) ** 2
        return Seen(
            g=g,
            ok=good > 0,
            rejected=rejected,
            cosine=cosine(M, d),
            f=f_sum / n if paired else center[0][0],
            F=F_sum / n,
            trace=trace,
            slope=trace * float(t),
        )

    def _antithetic(self, x: NDArray[Any], t: Any, first: bool) -> Seen:
        return self._pairs(x, t)

    def _rademacher(self, x: NDArray[Any], t: Any, first: bool) -> Seen:
        return self._pairs(x, t, signs=True)

    def _diagonal_scaling(self, x: NDArray[Any], t: Any, first: bool) -> Seen:
        return self._pairs(x, t, widths=np.exp(self.memory["oracle"]).astype(self.dtype))

    def _pairs(self, x: NDArray[Any], t: Any, *, signs: bool = False, widths: Any = None) -> Seen:
        p, d = self.p, x.size
        M, ranked = p.fields["samples"], p.fields["values"] == "ranks"
        centered = bool(p.needs & {"f", "trace", "slope"})
        paired = self.is_stochastic and p.fields["xi"] == "pairs"
        shared = self.xi(1) if self.is_stochastic and not paired else None
        center, f_sum, chunks = None, 0.0, []
        for m in self.chunks(M):
            u = self.normal(m)
            if signs:
                u = np.where(np.signbit(u), -1.0, 1.0).astype(self.dtype)
            move = t * u if widths is None else t * (u * widths)
            centers = 0 if not centered else m if paired else int(center is None)
            points = np.concatenate([np.broadcast_to(x, (centers, d)), x + move, x - move])
            xi = None
            if paired:
                xi = np.concatenate([self.xi(m)] * (len(points) // m))
            elif shared is not None:
                xi = np.broadcast_to(shared, len(points))
            values, ok = self.ask("fun", points, xi=xi)
            plus, minus = values[centers : centers + m], values[centers + m :]
            good = ok[centers : centers + m] & ok[centers + m :]
            if centers:
                center = values[:centers], ok[:centers]
            c = np.zeros(m, self.dtype)
            if center is not None:
                c, c_ok = (np.broadcast_to(a, m) for a in center)
                good = good & c_ok
                f_sum += float(np.sum(c[good]))
            chunks.append((u, plus, minus, good, c))
        total = sum(int(good.sum()) for *_, good, _ in chunks)
        n = max(total, 1)
        g, F, trace, lesson, taught = np.zeros(d), 0.0, 0.0, np.zeros(d), False
        everything = np.concatenate([side for _, plus, minus, _, _ in chunks for side in (plus, minus)])
        usable = np.concatenate([good for *_, good, _ in chunks for _ in range(2)])
        at = 0
        for u, plus, minus, good, c in chunks:
            m = len(u)
            even = (plus + minus) / 2
            odd, level = (plus - minus).astype(float), even
            if ranked:
                places = _places(everything, usable)
                others = max(int(usable.sum()) - 1, 1)
                low, high = places[at : at + m], places[at + m : at + 2 * m]
                odd, level = (low - high) / (2 * others), low + high
            at += 2 * m
            for i in range(m):
                if good[i]:
                    g += odd[i] * u[i]
                    F += float(even[i])
                    trace += float(even[i] - c[i]) * (float(u[i].astype(float) @ u[i]) - d)
            if m > 1:
                taught = True
                rank = _places(level, good) / (2 * max(int(good.sum()) - 1, 1))
                for i in range(m):
                    if good[i]:
                        lesson += rank[i] * (u[i].astype(float) ** 2 - 1)
        g = g / (n * 2 * float(t))
        if widths is not None:
            g = g / widths
            log_widths = self.memory["oracle"]
            if taught:
                log_widths = log_widths - 2 * p.fields["rate"] * lesson / n
                log_widths = log_widths - np.mean(log_widths)
            self.memory["next"] = log_widths
        trace = trace / n / float(t) ** 2
        f = None
        if center is not None:
            f = f_sum / n if paired else center[0][0]
        return Seen(
            g=g,
            ok=total > 0,
            rejected=M - total,
            cosine=cosine(M, d),
            f=f,
            F=F / n,
            trace=trace,
            slope=trace * float(t),
            widths=widths,
        )

    def _exponential(self, x: NDArray[Any], t: Any, first: bool) -> Seen:
        p, d = self.p, x.size
        M = p.fields["samples"]
        xi = self.xi(1) if self.is_stochastic else None
        all_u, all_values, all_ok, center = [], [], [], None
        for m in self.chunks(M):
            u = self.normal(m)
            centers = int("f" in p.needs and center is None)
            points = np.concatenate([np.broadcast_to(x, (centers, d)), t * u + x])
            values, ok = self.ask("fun", points, xi=None if xi is None else np.broadcast_to(xi, len(points)))
            if centers:
                center = values[0], bool(ok[0])
            all_u.append(u)
            all_values.append(values[centers:])
            all_ok.append(ok[centers:])
        u, values, ok = np.concatenate(all_u), np.concatenate(all_values), np.concatenate(all_ok)
        good = int(ok.sum())
        least = float(np.min(values[ok])) if good else 0.0
        g = np.zeros(d)
        for i in np.flatnonzero(ok):
            g -= math.exp(-p.fields["sharpness"] * (float(values[i]) - least)) * u[i]
        usable = center is None or center[1]
        return Seen(
            g=g / (max(good, 1) * float(t)),
            ok=good > 0 and usable,
            rejected=M - good + int(not usable),
            cosine=cosine(M / math.e, d),
            f=None if center is None else center[0],
            F=float(np.sum(values[ok].astype(float))) / max(good, 1),
        )

    def _gradient(self, x: NDArray[Any], t: Any, first: bool) -> Seen:
        return self._gradients(x, t, sampled=False)

    def _sampled_gradient(self, x: NDArray[Any], t: Any, first: bool) -> Seen:
        return self._gradients(x, t, sampled=True)

    def _gradients(self, x: NDArray[Any], t: Any, *, sampled: bool) -> Seen:
        p, d = self.p, x.size
        M = p.fields["samples"] if sampled or self.is_stochastic else 1
        value, g, good, slope = None, np.zeros(d), 0, 0.0
        for m in self.chunks(M):
            u = self.normal(m) if sampled else np.zeros((m, d), self.dtype)
            xi = self.xi(m) if self.is_stochastic else None
            if value is None:
                value = self.ask("fun", x[None], xi=None if xi is None else xi[:1])
            slopes, ok = self.ask("grad", t * u + x if sampled else np.broadcast_to(x, (m, d)), xi=xi)
            for i in np.flatnonzero(ok):
                g += slopes[i]
                good += 1
                slope += float(slopes[i].astype(float) @ u[i])
        assert value is not None
        slope = slope / max(good, 1)
        return Seen(
            g=g / max(good, 1),
            ok=good > 0 and bool(value[1][0]),
            rejected=M - good + int(not value[1][0]),
            f=value[0][0],
            trace=slope / float(t) if t else None,
            slope=slope,
        )

    def _closed_form(self, x: NDArray[Any], t: Any, first: bool) -> Seen:
        p, d = self.p, x.size
        M = p.fields["samples"] if self.is_stochastic else 1
        xi = self.xi(M) if self.is_stochastic else None
        value = self.ask("fun", x[None], xi=None if xi is None else xi[:1])
        points = np.broadcast_to(x, (M, d))
        slopes, ok = self.ask("F.grad", points, float(t), xi)
        found: dict[str, Any] = {}
        for name, what in (("F", "F"), ("trace", "F.trace"), ("slope", "F.dt")):
            if name in p.needs:
                values, usable = self.ask(what, points, float(t), xi)
                found[name] = float(np.sum(values[usable].astype(float))) / max(int(usable.sum()), 1)
        if "grad_f" in p.needs:
            at_x, usable = self.ask("grad", x[None])
            found["grad_f"] = at_x[0] if usable[0] else np.full(d, np.inf)
        good = int(ok.sum())
        return Seen(
            g=np.sum(slopes[ok].astype(float), axis=0) / max(good, 1),
            ok=good > 0 and bool(value[1][0]),
            rejected=M - good + int(not value[1][0]),
            f=value[0][0],
            **found,
        )

    def _variance_reduced(self, x: NDArray[Any], t: Any, first: bool) -> Seen:
        p, d = self.p, x.size
        M, N = p.fields["samples"], int(self.s.stochastic)
        snapshot, full, known = self.memory["oracle"]
        lost = 0

        def quotients(center: NDArray[Any], u: NDArray[Any], xi: Any) -> tuple[Any, Any, Any]:
            m = len(u)
            points = np.concatenate([np.broadcast_to(center, (m, d)), t * u + center])
            values, ok = self.ask("fun", points, xi=np.concatenate([xi, xi]))
            return values[m:] - values[:m], ok[m:] & ok[:m], values[:m]

        if first:
            snapshot, start, total, good = x, 0, np.zeros(d), 0
            for m in self.chunks(N):
                u = self.normal(m)
                rise, ok, _ = quotients(x, u, np.arange(start, start + m))
                start += m
                for i in np.flatnonzero(ok):
                    total += float(rise[i]) * u[i]
                    good += 1
            full, known, lost = total / (max(good, 1) * float(t)), good > 0, N - good
        g, good, f = np.zeros(d), 0, 0.0
        for m in self.chunks(M):
            u, xi = self.normal(m), self.xi(m)
            new, ok_new, here = quotients(x, u, xi)
            old, ok_old, _ = quotients(snapshot, u, xi)
            for i in np.flatnonzero(ok_new & ok_old):
                g += float(new[i] - old[i]) * u[i]
                good += 1
                f += float(here[i])
        n = max(good, 1)
        self.memory["next"] = (snapshot, full, known)
        return Seen(
            g=g / (n * float(t)) + full,
            ok=good > 0 and known,
            rejected=M - good + lost,
            cosine=cosine(M, d),
            f=f / n,
        )


def _places(values: NDArray[Any], ok: NDArray[Any]) -> NDArray[Any]:
    """Return for each good value the number of good ones below it minus the number above, and 0 for bad ones."""
    usable = values[ok]
    order = np.sort(usable)
    below = np.searchsorted(order, values, side="left")
    above = len(order) - np.searchsorted(order, values, side="right")
    return np.where(ok, (below - above).astype(float), 0.0)
