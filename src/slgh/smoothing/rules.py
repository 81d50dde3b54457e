"""Rules that evaluate a smoothed body: its closed form, a mean over nodes, or a product of these."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Literal, Protocol, TypeAlias

import sympy as sp
from array_api_compat import array_namespace

from slgh.smoothing.codegen import MAX_OPERANDS, CompiledExpressions
from slgh.smoothing.gaussian import T, normal_cdf, normal_pdf
from slgh.smoothing.nodes import CachedNodes, Nodes, raise_radius
from slgh.smoothing.parse import DIMENSION
from slgh.smoothing.time_limit import check_time, run_clock, running_clock

MAX_CHUNK_ELEMENTS = 1 << 22
"""Maximum number of array elements evaluated at once for a mean over nodes."""

Kind: TypeAlias = Literal["value", "grad", "dt", "trace"]
"""F, its gradient, its derivative by t, and the trace of its Hessian."""

Integrand: TypeAlias = Callable[[list[Any], Any], list[Any]]
"""Map values (..., J) and directions (J, m) to the values (..., J) to average."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyInputs:
    """Arrays on which a body is evaluated: placeholders (..., n), t (..., 1), the index (n,) or None, and d."""

    xp: Any
    z: list[Any]
    t: Any
    index: Any
    d: float

    @property
    def arguments(self) -> tuple[Any, ...]:
        return *self.z, self.t, self.index, self.d


class Rule(Protocol):
    """A smoothed body."""

    @property
    def indexed(self) -> bool:
        """True if the index occurs other than in subscripts."""

    @property
    def singular(self) -> bool:
        """True if the rule divides by t, as the density of a half-line does."""

    def evaluate(self, kind: Kind, at: BodyInputs) -> list[Any]:
        """Return arrays (..., n), one number per index.

        There is one array, or for "grad" one per placeholder, which is None if that derivative is 0 everywhere.
        """


class ClosedFormRule:
    """A body in closed form. `definitions` maps names in F to expressions in z and t."""

    def __init__(self, F: Any, z: Sequence[sp.Symbol], definitions: Mapping[Any, Any], index: sp.Symbol) -> None:
        self.F, self.z, self.definitions, self.index = F, tuple(z), definitions, index
        self.indexed = F.xreplace(dict(definitions)).has(index)
        self.singular = F.has(normal_cdf, normal_pdf)
        self._compiled: dict[Kind, CompiledExpressions] = {}
        self._clock = running_clock()

    def evaluate(self, kind: Kind, at: BodyInputs) -> list[Any]:
        if kind not in self._compiled:
            with run_clock(self._clock):
                arguments = (*self.z, T, self.index, DIMENSION)
                self._compiled[kind] = CompiledExpressions(arguments, self._expressions(kind), self.definitions)
        found = self._compiled[kind](at.xp, *at.arguments)
        # The compiled form of the expression 0 is the integer 0.
        return [None if kind == "grad" and isinstance(g, int) and g == 0 else g for g in found]

    def _expressions(self, kind: Kind) -> list[Any]:
        if kind == "value":
            return [self.F]
        if kind == "dt":
            return [self._diff(self.F, T)]
        slopes = [self._diff(self.F, s) for s in self.z]
        if kind == "grad":
            return slopes
        return [sp.Add(*(self._diff(slope, s) for slope, s in zip(slopes, self.z, strict=True)))]

    def _diff(self, F: Any, s: sp.Symbol) -> Any:
        """Return the derivative of F, with the chain rule through the names."""
        free = F.free_symbols
        names = [n for n in self.definitions if n in free]
        through = (derivative(F, n) * sp.diff(self.definitions[n], s) for n in names)
        return sp.Add(derivative(F, s), *through)


class AveragedRule:
    r"""A body without a closed form, as a weighted mean over fixed directions u_j.

    .. math:: F \approx \sum_j w_j f(z + t u_j), \quad \nabla F \approx \sum_j w_j \nabla f(z + t u_j), \quad
        t \operatorname{tr} \operatorname{Hess} F = \frac{\partial F}{\partial t}
        \approx \sum_j w_j u_j^\top \nabla f(z + t u_j)

    The directions (J, m) and weights (J,) are Gauss-Hermite nodes or samples, in a space of `rank` dimensions. If f
    jumps, its gradient misses the jump; if f has a kink, its gradient jumps, which Gauss-Hermite nodes resolve badly.
    With `stein` the derivatives are therefore taken by Stein's identities:

    .. math:: \nabla F \approx \frac1t \sum_j w_j (f(z + t u_j) - f(z))\, u_j, \quad
        \frac{\partial F}{\partial t} \approx \frac1t \sum_j w_j (f(z + t u_j) - f(z)) (|u_j|^2 - \text{rank})
    """

    singular = False

    def __init__(
        self, f: Any, z: Sequence[sp.Symbol], nodes: Nodes, *, index: sp.Symbol, rank: int, stein: bool
    ) -> None:
        self.rank, self.stein = rank, stein
        self.indexed = f.has(index)
        arguments = (*z, T, index, DIMENSION)
        self._value = CompiledExpressions(arguments, [f])
        self._grad = CompiledExpressions(arguments, [sp.diff(f, s) for s in z])
        self._nodes = CachedNodes(nodes)

    def evaluate(self, kind: Kind, at: BodyInputs) -> list[Any]:
        if kind == "value":
            return self._mean(at, at.t, self._value, lambda f, u: f)
        if kind == "grad":
            return self._grad_by_stein(at) if self.stein else self._mean(at, at.t, self._grad, lambda g, u: g)
        t = at.t
        if self.stein or kind == "trace":
            t = raise_radius(t, 1 / 4 if self.stein else 1 / 3, at.xp)
        slope = self._slope(at, t)
        return [slope if kind == "dt" else slope / t]

    def _grad_by_stein(self, at: BodyInputs) -> list[Any]:
        t, center = raise_radius(at.t, 1 / 3, at.xp), self._center(at)
        found = self._mean(at, t, self._value, lambda f, u: [(f[0] - center) * u[:, k] for k in range(len(at.z))])
        return [g / t for g in found]

    def _slope(self, at: BodyInputs, t: Any) -> Any:
        """Return dF/dt."""
        if not self.stein:
            return self._mean(at, t, self._grad, lambda g, u: [sum(s * u[:, k] for k, s in enumerate(g))])[0]
        xp, center = at.xp, self._center(at)
        found = self._mean(at, t, self._value, lambda f, u: [(f[0] - center) * (xp.sum(u * u, axis=-1) - self.rank)])
        return found[0] / t

    def _center(self, at: BodyInputs) -> Any:
        """Return f(z), (..., n, 1)."""
        return broadcast_like(self._value(at.xp, *at.arguments)[0], at.z[0])[..., None]

    def _mean(self, at: BodyInputs, t: Any, compiled: CompiledExpressions, integrand: Integrand) -> list[Any]:
        """Return the means over the nodes of integrand(compiled values, u), summed in chunks of nodes."""
        u, w = self._nodes.like(at.t)
        step = max(1, MAX_CHUNK_ELEMENTS // max(1, math.prod(at.z[0].shape)))
        index = at.index[:, None] if self.indexed else None
        totals: list[Any] = []
        for start in range(0, u.shape[0], step):
            part, weight = u[start : start + step, :], w[start : start + step]
            points = [z[..., None] + t[..., None] * part[:, k] for k, z in enumerate(at.z)]
            found = [broadcast_like(f, points[0]) for f in compiled(at.xp, *points, t[..., None], index, at.d)]
            sums = [at.xp.sum(each * weight, axis=-1) for each in integrand(found, part)]
            totals = [a + b for a, b in zip(totals, sums, strict=True)] if totals else sums
        return totals


class ProductRule:
    """A product of bodies that share no variable: a rule for each, and the numbers of its placeholders."""

    def __init__(self, factors: Sequence[tuple[Rule, Sequence[int]]]) -> None:
        self.factors = factors
        self.indexed = any(rule.indexed for rule, _ in factors)
        self.singular = any(rule.singular for rule, _ in factors)

    def evaluate(self, kind: Kind, at: BodyInputs) -> list[Any]:
        factors = [(rule, replace(at, z=[at.z[k] for k in own])) for rule, own in self.factors]
        values = [rule.evaluate("value", own)[0] for rule, own in factors]
        if kind == "value":
            return [reduce(operator.mul, values)]
        others = [reduce(operator.mul, values[:g] + values[g + 1 :]) for g in range(len(values))]
        slopes = [rule.evaluate(kind, own) for rule, own in factors]
        if kind != "grad":
            return [sum(slope[0] * rest for slope, rest in zip(slopes, others, strict=True))]
        found: list[Any] = [None] * len(at.z)
        for (_, numbers), own_slopes, rest in zip(self.factors, slopes, others, strict=True):
            for k, slope in zip(numbers, own_slopes, strict=True):
                found[k] = None if slope is None else slope * rest
        return found


def derivative(F: Any, s: sp.Symbol) -> Any:
    """Return the derivative of a sum, term by term, and check the time after each."""
    found = []
    for term in sp.Add.make_args(F):
        check_time()
        fixed, moving = sp.S.One, term
        if len(term.args) > MAX_OPERANDS:  # SymPy's rule takes quadratic time in the number of factors
            fixed, moving = term.as_independent(s, as_Add=False)
        found.append(fixed * sp.diff(moving, s))
    return sp.Add(*found)


def broadcast_like(value: Any, like: Any) -> Any:
    """Return a number or a smaller array as an array of this shape."""
    if getattr(value, "shape", ()) == like.shape:
        return value
    return value + array_namespace(like).zeros_like(like)
