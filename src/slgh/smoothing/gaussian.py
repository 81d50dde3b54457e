r"""The rule behind every closed form: a polynomial times an exponential, a wave or a half-line, under a Gaussian.

Let Z = z + t u, u ~ N(0, I), and let

.. math:: f(z) = p(z)\, \exp\left(-\tfrac12 (z - c)^\top A (z - c) + b^\top z\right) \times
    \begin{cases} 1 \\ \cos(k^\top z + \theta) \\ H(a^\top z + h) \end{cases}, \qquad A b = 0,

with p a polynomial and H the indicator of a half-line (or, softened by a variance :math:`\tau^2`, the normal
distribution function). Completing the square makes E f(Z) an expectation over another Gaussian, :math:`N(m, t^2 S)`:

.. math::
    S &= (I + t^2 A)^{-1}, \qquad m = c + S (z - c) + t^2 b \\
    E f(Z) &= \sqrt{\det S}\, \exp\left(-\tfrac12 (z - c)^\top A S (z - c) + b^\top z + \tfrac12 t^2 |b|^2\right)
    E_{W \sim N(m,\, t^2 S)}\left[p(W) \times \ldots\right].

- Alone, :math:`E p(W) = P(m)` with P the heat flow :math:`\exp(\tfrac12 \sum_{ij} t^2 S_{ij} \partial_i \partial_j) p`.
- A wave shifts the mean into the complex plane: :math:`E\, p(W) e^{i k^\top W} = e^{i k^\top m - t^2 k^\top S k / 2}
  P(m + i t^2 S k)`.
- A half-line is conditioned on :math:`l = a^\top W + h + \tau w \sim N(\mu, v)`. Given l, W is Gaussian again, and the
  moments of l on the half-line remain. They consist of

.. math:: \Phi(\mu, v) = P(\mu + \sqrt v\, w \ge 0), \qquad
    \varphi(\mu, v) = \frac{1}{\sqrt{2 \pi v}} \exp\left(-\frac{\mu^2}{2 v}\right).

The quadratic form keeps its center c and is not expanded, so that no digits are lost if c is large.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mpmath
import sympy as sp

from slgh.smoothing.time_limit import check_time

T = sp.Symbol("t", positive=True)
"""Smoothing radius."""

MAX_SYMBOLIC_SIZE = 3
"""Maximum number of variables for which a matrix is inverted by formula; beyond, numerically, by its eigenvectors."""


class normal_cdf(sp.Function):  # type: ignore[misc]
    """Phi(mu, v): the probability that a normal variable with mean mu and variance v is positive.

    The derivatives of `normal_cdf` and `normal_pdf` stay within the pair, so that no 1/v is left where it cancels: v
    may be 0.
    """

    nargs = 2

    def fdiff(self, argindex: int = 1) -> Any:
        mu, v = self.args
        return normal_pdf(mu, v) if argindex == 1 else -mu / (2 * v) * normal_pdf(mu, v)


class normal_pdf(sp.Function):  # type: ignore[misc]
    """phi(mu, v): the density of the same variable at 0."""

    nargs = 2

    def fdiff(self, argindex: int = 1) -> Any:
        mu, v = self.args
        return -mu / v * self if argindex == 1 else (mu**2 / (2 * v**2) - 1 / (2 * v)) * self


def as_erf(expression: Any) -> Any:
    """Return the expression with both functions replaced by functions that SymPy knows."""
    return expression.replace(normal_cdf, lambda mu, v: (1 + sp.erf(mu / sp.sqrt(2 * v))) / 2).replace(
        normal_pdf, lambda mu, v: sp.exp(-(mu**2) / (2 * v)) / sp.sqrt(2 * sp.pi * v)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfLine:
    """Indicator of `form` >= 0, or with `softness` tau^2 > 0 the normal distribution function of form / tau."""

    form: sp.Expr
    softness: sp.Expr = sp.S.Zero


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """Canonical term: polynomial * exp(exponent) * cos(phase) * half-line. It has no phase or no half-line."""

    variables: tuple[sp.Symbol, ...]
    polynomial: sp.Expr
    exponent: sp.Expr
    """Polynomial of degree at most 2."""
    phase: sp.Expr | None = None
    """Linear form, or None."""
    halfline: HalfLine | None = None


def heat(p: Any, z: tuple[sp.Symbol, ...], covariance: Any) -> Any:
    r"""Return E p(z + w), w ~ N(0, C), for a polynomial p.

    .. math:: \sum_k \frac{1}{k!} \left(\frac12 \sum_{ij} C_{ij} \partial_i \partial_j\right)^k p

    The first term is p as it was written, so that nothing is lost at covariance 0.
    """
    found, term, k = [p], p, 0
    pairs = [(i, j) for i in range(len(z)) for j in range(len(z)) if covariance[i, j] != 0]
    while True:
        k += 1
        derivative = []
        for i, j in pairs:
            check_time()
            derivative.append(covariance[i, j] * sp.diff(sp.diff(term, z[i]), z[j]))
        term = sp.expand(sp.Add(*derivative) / (2 * k))
        if term == 0:
            return sp.Add(*found)
        found.append(term)


class SubexpressionNames:
    """Names for subexpressions of z and t, so that expanding and differentiating do not copy them over and over."""

    def __init__(self) -> None:
        self.definitions: dict[Any, Any] = {}
        self._known: dict[Any, Any] = {}

    def __call__(self, expression: Any) -> Any:
        """Return a name for a sum. Anything simpler is returned unchanged."""
        if not expression.has(sp.Add):
            return expression
        if expression not in self._known:
            symbol = self._known[expression] = sp.Dummy("n", real=True)
            self.definitions[symbol] = expression
        return self._known[expression]


def smooth_term(term: Term, name: SubexpressionNames) -> Any:
    """Return the expectation of the term at z + t u."""
    z = term.variables
    quadratic = Quadratic.of(term.exponent, z)
    S, AS, det = quadratic.shrinkage()
    mean = quadratic.mean(S).applyfunc(name)
    weight = quadratic.weight(AS, det)
    if term.halfline is not None:
        return weight * smooth_halfline(term.polynomial, term.halfline, z, mean, S, name)
    P = heat(term.polynomial, z, (T**2 * S).applyfunc(name))
    if term.phase is None:
        return weight * at_point(P, z, mean)
    k = sp.Matrix([sp.diff(term.phase, s) for s in z])
    damping = sp.exp(-(T**2) * (k.T * S * k)[0] / 2)
    phase = at_point(term.phase, z, mean)
    real, imaginary = complex_parts(P, z, (T**2 * S * k).applyfunc(name))
    return weight * damping * (at_point(real, z, mean) * sp.cos(phase) - at_point(imaginary, z, mean) * sp.sin(phase))


def at_point(p: Any, z: tuple[sp.Symbol, ...], point: Any) -> Any:
    """Return p with `point` in place of z."""
    return p.xreplace(dict(zip(z, point, strict=True)))


def complex_parts(p: Any, z: tuple[sp.Symbol, ...], shift: Any) -> tuple[Any, Any]:
    """Return the real and imaginary part of a polynomial at z + i shift, by Taylor's series in the shift."""
    totals, term, k = [p, sp.S.Zero], p, 0
    while True:
        k += 1
        check_time()
        term = sp.expand(sp.Add(*(s * sp.diff(term, v) for v, s in zip(z, shift, strict=True) if s != 0)) / k)
        if term == 0:
            return totals[0], totals[1]
        totals[k % 2] += term if k % 4 < 2 else -term


def smooth_halfline(
    p: Any, line: HalfLine, z: tuple[sp.Symbol, ...], mean: Any, S: Any, name: SubexpressionNames
) -> Any:
    r"""Return E p(W) H(l), W ~ N(mean, t^2 S), l = form(W) + tau w.

    With :math:`\delta = l - \mu` and :math:`K = \operatorname{cov}(W, l) / v`, W given l has mean :math:`m + K \delta`
    and covariance :math:`t^2 S - v K K^\top`. The moments on the half-line follow

    .. math:: h_0 = \Phi, \quad h_1 = v \varphi, \quad h_j = (-\mu)^{j-1} v \varphi + (j - 1) v\, h_{j-2}.
    """
    a = sp.Matrix([sp.diff(line.form, s) for s in z])
    mu = at_point(line.form, z, mean)
    spread = (a.T * S * a)[0]
    v = sp.expand(T**2 * spread) + line.softness
    K = S * a / spread if line.softness == 0 else T**2 * S * a / v
    rest = (T**2 * S - v * K * K.T).applyfunc(sp.cancel).applyfunc(name)
    K = K.applyfunc(name)
    delta = sp.Dummy("delta")
    along = {s: s + K[i] * delta for i, s in enumerate(z)}
    coefficients = sp.Poly(sp.expand(heat(p, z, rest).xreplace(along)), delta).all_coeffs()[::-1]
    cdf, pdf = normal_cdf(mu, v), normal_pdf(mu, v)
    moments = [cdf, v * pdf]
    for j in range(2, len(coefficients)):
        moments.append((-mu) ** (j - 1) * v * pdf + (j - 1) * v * moments[j - 2])
    return sp.Add(*(at_point(c, z, mean) * h for c, h in zip(coefficients, moments, strict=False)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Quadratic:
    """The exponent -(z - c)' A (z - c) / 2 + b'z + constant, with A b = 0."""

    z: tuple[sp.Symbol, ...]
    A: Any
    c: Any
    b: Any
    constant: Any

    @classmethod
    def of(cls, exponent: Any, z: tuple[sp.Symbol, ...]) -> Quadratic:
        """Complete the square."""
        if exponent == 0:
            n = len(z)
            return cls(z=z, A=sp.zeros(n), c=sp.zeros(n, 1), b=sp.zeros(n, 1), constant=sp.S.Zero)
        if len(z) == 1:
            return cls._of_one(exponent, z)
        origin = dict.fromkeys(z, sp.Integer(0))
        A = -sp.hessian(exponent, z).applyfunc(sp.expand)
        linear = sp.Matrix([sp.diff(exponent, s) for s in z]).xreplace(origin)
        c = (A.pinv() * linear).applyfunc(sp.cancel) if any(A) else sp.zeros(len(z), 1)
        b = (linear - A * c).applyfunc(sp.cancel)
        constant = exponent.xreplace(origin) + sp.cancel((c.T * A * c)[0]) / 2
        return cls(z=z, A=A, c=c, b=b, constant=constant)

    @classmethod
    def _of_one(cls, exponent: Any, z: tuple[sp.Symbol, ...]) -> Quadratic:
        """Complete the square in one variable, without matrices, which are slow."""
        two, one, constant = (sp.expand(exponent).coeff(z[0], power) for power in (2, 1, 0))
        A = -2 * two
        c = sp.cancel(one / A) if A != 0 else sp.S.Zero
        b = one if A == 0 else sp.S.Zero
        constant += sp.expand(c * one) / 2 if A != 0 else 0
        return cls(z=z, A=sp.Matrix([A]), c=sp.Matrix([c]), b=sp.Matrix([b]), constant=constant)

    def shrinkage(self) -> tuple[Any, Any, Any]:
        """Return S = (I + t^2 A)^-1, A S, and det S."""
        one = sp.eye(len(self.z))
        if not any(self.A):
            return one, self.A, sp.Integer(1)
        if len(self.z) == 1:
            s = 1 / (1 + T**2 * self.A[0])
            return sp.Matrix([s]), sp.Matrix([self.A[0] * s]), s
        if len(self.z) <= MAX_SYMBOLIC_SIZE or self.A.free_symbols:
            S = (one + T**2 * self.A).inv(method="ADJ").applyfunc(sp.cancel)
            return S, (self.A * S).applyfunc(sp.cancel), 1 / sp.expand((one + T**2 * self.A).det())
        with mpmath.workdps(30):
            values, vectors = mpmath.eigsy(mpmath.matrix(self.A.evalf(30).tolist()))
            V = sp.Matrix(vectors.tolist())
        eigenvalues = [sp.Float(v, 30) for v in values]
        shrunk = [1 / (1 + T**2 * v) for v in eigenvalues]
        AS = V * sp.diag(*(v * s for v, s in zip(eigenvalues, shrunk, strict=True))) * V.T
        return V * sp.diag(*shrunk) * V.T, AS, sp.Mul(*shrunk)

    def mean(self, S: Any) -> Any:
        """Return m = c + S (z - c) + t^2 b."""
        return self.c + S * (sp.Matrix(self.z) - self.c) + T**2 * self.b

    def weight(self, AS: Any, det: Any) -> Any:
        """Return sqrt(det S) exp(...), the factor that completing the square leaves in front."""
        z = sp.Matrix(self.z)
        offset = z - self.c
        exponent = self.constant + (self.b.T * z)[0] + T**2 * sp.expand((self.b.T * self.b)[0]) / 2
        return sp.sqrt(det) * sp.exp(exponent - (offset.T * AS * offset)[0] / 2)
