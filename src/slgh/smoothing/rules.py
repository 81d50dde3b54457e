"""What a smoothed body is evaluated by: a closed form, a mean over nodes, or a product of such."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any, Protocol, TypeAlias

import sympy as sp
from array_api_compat import array_namespace
from numpy.typing import NDArray

from slgh.smoothing.code import LONG, Code
from slgh.smoothing.nodes import Kept, at_least
from slgh.smoothing.normal import normal_cdf, normal_pdf
from slgh.smoothing.parse import DIMENSION
from slgh.smoothing.time_limit import check_time, run_clock, running_clock

T = sp.Symbol("t", positive=True)

CHUNK = 1 << 22
"""The most numbers that are evaluated at once for a mean over nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The arrays that a body is evaluated on: placeholders (..., n), t (..., 1), the index (n,), and d."""

    xp: Any
    z: list[Any]
    slices: tuple[slice, ...]
    t: Any
    index: Any
    d: float

    @property
    def arguments(self) -> tuple[Any, ...]:
        return *self.z, self.t, self.index, self.d


Weigh: TypeAlias = Callable[[list[Any], Any], list[Any]]
"""What a mean is taken of: values (..., J) and directions (J, m) to values (..., J)."""


class Rule(Protocol):
    """A smoothed body: its value and derivatives for each index, (..., n) each."""

    @property
    def indexed(self) -> bool:
        """Whether the index occurs other than in subscripts."""

    @property
    def singular(self) -> bool:
        """Whether it divides by t, as the density of a half-line does."""

    def value(self, at: Place) -> Any: ...
    def grad(self, at: Place) -> list[Any]:
        """One array a placeholder; None where the derivative is 0 everywhere."""

    def dt(self, at: Place) -> Any: ...
    def trace(self, at: Place) -> Any: ...


class Closed:
    """A body in closed form; `meaning` says what names in F stand for, in terms of z and t."""

    def __init__(self, F: Any, z: Sequence[sp.Symbol], meaning: Mapping[Any, Any], index: sp.Symbol) -> None:
        self.F, self.z, self.meaning, self.index = F, tuple(z), meaning, index
        self.indexed = resolve(F, meaning).has(index)
        self.singular = F.has(normal_cdf, normal_pdf)
        self._clock = running_clock()

    def _code(self, *expressions: Any) -> Code:
        return Code((*self.z, T, self.index, DIMENSION), expressions, self.meaning)

    def _diff(self, F: Any, s: sp.Symbol) -> Any:
        """The derivative by the chain rule through the names."""
        free = F.free_symbols
        names = [n for n in self.meaning if n in free]
        through = (derivative(F, n) * sp.diff(self.meaning[n], s) for n in names)
        return sp.Add(derivative(F, s), *through)

    @cached_property
    def _value(self) -> Code:
        with run_clock(self._clock):
            return self._code(self.F)

    @cached_property
    def _grad(self) -> tuple[list[bool], Code]:
        with run_clock(self._clock):
            derivatives = [self._diff(self.F, s) for s in self.z]
            return [g != 0 for g in derivatives], self._code(*(g for g in derivatives if g != 0))

    @cached_property
    def _dt(self) -> Code:
        with run_clock(self._clock):
            return self._code(self._diff(self.F, T))

    @cached_property
    def _trace(self) -> Code:
        with run_clock(self._clock):
            return self._code(sp.Add(*(self._diff(self._diff(self.F, s), s) for s in self.z)))

    def value(self, at: Place) -> Any:
        return self._value(at.xp, *at.arguments)[0]

    def grad(self, at: Place) -> list[Any]:
        present, code = self._grad
        found = iter(code(at.xp, *at.arguments))
        return [next(found) if there else None for there in present]

    def dt(self, at: Place) -> Any:
        return self._dt(at.xp, *at.arguments)[0]

    def trace(self, at: Place) -> Any:
        return self._trace(at.xp, *at.arguments)[0]


class Averaged:
    r"""A body without a closed form, as a weighted mean over fixed directions u_j.

    .. math:: F \approx \sum_j w_j f(z + t u_j), \quad \nabla F \approx \sum_j w_j \nabla f(z + t u_j), \quad
        t \operatorname{tr} \operatorname{Hess} F = \frac{\partial F}{\partial t}
        \approx \sum_j w_j u_j^\top \nabla f(z + t u_j)

    The directions (J, m) and weights (J,) are those of Gauss and Hermite, or samples; they lie in a space of `rank`
    dimensions. With `stein` the derivatives are taken by Stein's identities instead, for an f that jumps, whose
    gradient misses the jump, or that bends, whose gradient jumps, which Gauss-Hermite nodes resolve badly:

    .. math:: \nabla F \approx \frac1t \sum_j w_j (f(z + t u_j) - f(z))\, u_j, \quad
        \frac{\partial F}{\partial t} \approx \frac1t \sum_j w_j (f(z + t u_j) - f(z)) (|u_j|^2 - \text{rank})
    """

    singular = False

    def __init__(
        self,
        f: Any,
        z: Sequence[sp.Symbol],
        u: NDArray[Any],
        w: NDArray[Any],
        *,
        index: sp.Symbol,
        rank: int,
        stein: bool,
    ) -> None:
        self.f, self.z, self.rank, self.stein = f, tuple(z), rank, stein
        self.indexed = f.has(index)
        arguments = (*self.z, T, index, DIMENSION)
        self._value = Code(arguments, [f])
        self._grad = Code(arguments, [sp.diff(f, s) for s in self.z])
        self._nodes = Kept(u, w)

    def _mean(self, at: Place, t: Any, code: Code, weigh: Weigh) -> list[Any]:
        """The means over the nodes of what `weigh` makes of the code's values and of u, in chunks of nodes."""
        u, w = self._nodes.like(at.t)
        step = max(1, CHUNK // max(1, math.prod(at.z[0].shape)))
        index = at.index[:, None] if self.indexed else None
        totals: list[Any] = []
        for start in range(0, u.shape[0], step):
            part, weight = u[start : start + step, :], w[start : start + step]
            points = [z[..., None] + t[..., None] * part[:, k] for k, z in enumerate(at.z)]
            found = [spread(f, points[0]) for f in code(at.xp, *points, t[..., None], index, at.d)]
            sums = [at.xp.sum(each * weight, axis=-1) for each in weigh(found, part)]
            totals = [a + b for a, b in zip(totals, sums, strict=True)] if totals else sums
        return totals

    def value(self, at: Place) -> Any:
        return self._mean(at, at.t, self._value, lambda f, u: f)[0]

    def grad(self, at: Place) -> list[Any]:
        if not self.stein:
            return self._mean(at, at.t, self._grad, lambda g, u: g)
        t = at_least(at.t, 1 / 3, at.xp)
        rise = self._rise(at)
        found = self._mean(at, t, self._value, lambda f, u: [rise(f) * u[:, k] for k in range(len(self.z))])
        return [g / t for g in found]

    def _slope(self, at: Place, t: Any) -> Any:
        if not self.stein:
            return self._mean(at, t, self._grad, lambda g, u: [sum(s * u[:, k] for k, s in enumerate(g))])[0]
        rise = self._rise(at)
        return self._mean(at, t, self._value, lambda f, u: [rise(f) * (at.xp.sum(u * u, axis=-1) - self.rank)])[0] / t

    def _rise(self, at: Place) -> Callable[[list[Any]], Any]:
        center = spread(self._value(at.xp, *at.arguments)[0], at.z[0])[..., None]
        return lambda f: f[0] - center

    def dt(self, at: Place) -> Any:
        return self._slope(at, at_least(at.t, 1 / 4, at.xp) if self.stein else at.t)

    def trace(self, at: Place) -> Any:
        t = at_least(at.t, 1 / 4 if self.stein else 1 / 3, at.xp)
        return self._slope(at, t) / t


class Factors:
    """A product of bodies that share no variable, each by its own rule; `owners` are the placeholders of each."""

    def __init__(self, rules: Sequence[Rule], owners: Sequence[Sequence[int]]) -> None:
        self.rules, self.owners = list(rules), [list(own) for own in owners]
        self.indexed = any(rule.indexed for rule in self.rules)
        self.singular = any(rule.singular for rule in self.rules)

    def _each(self, at: Place, what: str) -> list[Any]:
        found = []
        for rule, own in zip(self.rules, self.owners, strict=True):
            found.append(getattr(rule, what)(replace(at, z=[at.z[k] for k in own])))
        return found

    def _others(self, at: Place) -> list[Any]:
        """For each factor the product of the others."""
        values = self._each(at, "value")
        return [reduce(lambda a, b: a * b, values[:g] + values[g + 1 :]) for g in range(len(values))]

    def value(self, at: Place) -> Any:
        return reduce(lambda a, b: a * b, self._each(at, "value"))

    def grad(self, at: Place) -> list[Any]:
        found: list[Any] = [None] * len(at.z)
        for own, slopes, others in zip(self.owners, self._each(at, "grad"), self._others(at), strict=True):
            for k, slope in zip(own, slopes, strict=True):
                found[k] = None if slope is None else slope * others
        return found

    def dt(self, at: Place) -> Any:
        return sum(a * b for a, b in zip(self._each(at, "dt"), self._others(at), strict=True))

    def trace(self, at: Place) -> Any:
        return sum(a * b for a, b in zip(self._each(at, "trace"), self._others(at), strict=True))


def derivative(F: Any, s: sp.Symbol) -> Any:
    """The derivative of a sum term by term, with a look at the clock after each."""
    found = []
    for term in sp.Add.make_args(F):
        check_time()
        fixed, moving = sp.S.One, term
        if len(term.args) > LONG:  # SymPy's rule takes quadratic time in the number of factors
            fixed, moving = term.as_independent(s, as_Add=False)
        found.append(fixed * sp.diff(moving, s))
    return sp.Add(*found)


def resolve(F: Any, meaning: Mapping[Any, Any]) -> Any:
    """F without names."""
    return F.xreplace(dict(meaning))


def spread(value: Any, like: Any) -> Any:
    """A number or a smaller array as an array of this shape."""
    if getattr(value, "shape", ()) == like.shape:
        return value
    return value + array_namespace(like).zeros_like(like)
