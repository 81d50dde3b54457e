r"""Quadrature along orthogonal directions: directional Gaussian smoothing, and a line search along its gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from slgh import checks
from slgh.oracles.estimators import SampleSums, SamplingOracle, both_good, repeat_xi, select, zero_bad
from slgh.protocols import Answer, Array, Context, Conversation, Estimate, Leaves, Noise, Query, device_of
from slgh.updates.normalized import unit

MAX_NODES = 64
"""Largest number of nodes. The outer weights of more nodes are below the rounding error of a double."""

LINE_SEARCH_SHARE = 0.05
"""Default share of the evaluations of the gradient that the line search adds, as in AdaDGS."""

MIN_TRIALS = 50
"""Least default number of points of the line search. With it the shortest step is 0.9**49 of the longest, 0.6 %."""


class Node(NamedTuple):
    """A pair of quadrature nodes, z and -z, each with this weight."""

    z: float
    weight: float


def pairs_of_nodes(nodes: int) -> list[Node]:
    """Return the pairs of the Gauss-Hermite rule for z ~ N(0, 1), without the node 0."""
    z, weights = np.polynomial.hermite_e.hermegauss(nodes)
    weights = weights / weights.sum()
    return [Node(float(z[j]), float(weights[j])) for j in range(nodes - nodes // 2, nodes)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Directional(SamplingOracle):
    r"""Estimate the gradient of f smoothed along M orthogonal directions, each by Gauss-Hermite quadrature.

    .. math::
        g = \frac{d}{M} \sum_{i=1}^M D_i\, \xi_i, \qquad
        D_i = \frac{1}{t} \sum_{j=1}^m p_j z_j\, f(x + t z_j \xi_i)
        \approx \left. \frac{d}{ds} E_{z \sim N(0, 1)} f(x + (s + t z)\, \xi_i) \right|_{s=0}

    M = `samples`, m = `nodes`; :math:`z_j, p_j` are the nodes and weights of the Gauss-Hermite rule for N(0, 1), and
    the directions :math:`\xi_i` are orthonormal. f is smoothed along one direction at a time, so that :math:`D_i` is
    not a derivative of F. If f is a polynomial of degree at most 2m - 2 along each line, :math:`D_i` is exact. The
    nodes are symmetric, and 0 does not count, so an iteration takes 2 floor(m / 2) M evaluations, and one more if f(x)
    is needed. For a stochastic f, the points along a direction share one xi.

    Parameters
    ----------
    samples
        M, the number of directions per iteration. If it is left open and the oracle is given by name, it is d, the
        paper's choice. Fewer directions make cheaper iterations with a noisier gradient. More than d come from several
        bases.
    nodes
        m, the number of quadrature nodes per direction, from 2 to 64.
    basis
        "random": the directions are a random rotation of the axes, drawn in each iteration, or part of one. "axes":
        they are the axes, or M of them at random. An iteration with "random" takes of the order of d M^2 operations,
        and memory for M directions, so take fewer directions from some thousand variables on.

    References
    ----------
    Zhang, Tran, Lu, Zhang. Enabling long-range exploration in minimization of multimodal functions. UAI 2021
    (arXiv:2002.03001). There t is :math:`\sigma` (their nodes are for the weight exp(-v^2), z = sqrt(2) v).
    """

    name: ClassVar[str] = "directional"
    rounding: ClassVar[float | None] = 1 / 3

    nodes: int = 5
    basis: str = "random"

    def __post_init__(self) -> None:
        SamplingOracle.__post_init__(self)
        checks.count("nodes", self.nodes, 2, MAX_NODES)
        checks.choice("basis", self.basis, ("random", "axes"))

    def cost(self, first: bool, ctx: Context) -> int:
        centers = 0 if "f" not in ctx.needs else self.samples if ctx.stochastic else 1
        return centers + self._points

    @property
    def _points(self) -> int:
        """Number of quadrature points per iteration."""
        return 2 * (self.nodes // 2) * self.samples

    def _directions(self, x: Array, noise: Noise, xp: Any) -> Array:
        """Return the directions of an iteration, (B, M, d): orthonormal, in groups of at most d."""
        M, d = self.samples, x.shape[-1]
        sizes = [d] * (M // d) + ([M % d] if M % d else [])
        if self.basis == "axes":
            groups = [random_axes(x, noise, size, xp) for size in sizes]
        else:
            normals, ends = noise.normal(M), np.cumsum(sizes).tolist()
            groups = [orthonormal(normals[:, b - n : b, :], xp) for n, b in zip(sizes, ends, strict=True)]
        return groups[0] if len(groups) == 1 else xp.concat(groups, axis=1)

    def observe(self, x: Array, t: Array, state: Leaves, first: bool, noise: Noise, ctx: Context) -> Conversation:
        xp, d = ctx.xp, x.shape[-1]
        rule, centered = pairs_of_nodes(self.nodes), "f" in ctx.needs
        sums, center = SampleSums(self.samples, xp), None
        directions, at = self._directions(x, noise, xp), 0
        for m in ctx.chunks(self.samples, d * len(rule)):
            u, at = directions[:, at : at + m, :], at + m
            xi = noise.xi(m) if ctx.stochastic else None
            centers = 0 if not centered else m if ctx.stochastic else int(center is None)
            moves = [sign * node.z * u for node in rule for sign in (1.0, -1.0)]
            points = ctx.sample_points(x, t, moves, centers)
            answer = yield Query("fun", points, xi=repeat_xi(xi, points, xp), centers=centers)
            center = select(answer, 0, centers) if centers else center
            odd, even, ok = _along_lines(answer, rule, centers, m)
            if center is not None and center.ok is not None:
                ok = both_good(ok, xp.broadcast_to(center.ok, odd.shape))
            sums.count(ok, m)
            sums.add("g", ctx.weighted_sum(zero_bad(odd, ok), u))
            sums.add_values("F", even, ok)
            if centered and ctx.stochastic:
                assert center is not None
                sums.add_values("f", center.values, ok)
        ok, rejected = sums.ok_and_rejected()
        return Estimate(
            g=sums.slope("g", t / d),
            ok=ok,
            rejected=rejected,
            cosine=min(1.0, self.samples / d) ** 0.5,
            f=sums.mean("f") if center is None or ctx.stochastic else center.values[:, 0],
            F=sums.mean("F"),
        ), ()


def _along_lines(answer: Answer, rule: list[Node], centers: int, m: int) -> tuple[Array, Array, Array | None]:
    """Return the sums of weight * z * value and the weighted means of values along m lines, and the mask of good lines.

    All are (B, m). A line is good if all its values are.
    """
    odd, even, ok = 0.0, 0.0, None
    share = 1 / sum(2 * node.weight for node in rule)
    for j, node in enumerate(rule):
        start = centers + 2 * j * m
        plus, minus = select(answer, start, start + m), select(answer, start + m, start + 2 * m)
        odd = odd + (node.weight * node.z) * (plus.values - minus.values)
        even = even + (share * node.weight) * (plus.values + minus.values)
        ok = both_good(ok, both_good(plus.ok, minus.ok))
    return odd, even, ok


def orthonormal(normals: Array, xp: Any) -> Array:
    """Return an orthonormal basis of the span of m vectors (B, m, d), m <= d: uniformly random if they are normal."""
    q, _ = xp.linalg.qr(xp.matrix_transpose(normals))
    return xp.matrix_transpose(q)


def random_axes(x: Array, noise: Noise, m: int, xp: Any) -> Array:
    """Return m different axes at random, or all in order if m = d, as unit vectors (B, m, d)."""
    B, d = x.shape
    numbers = xp.arange(d, device=device_of(x))
    if m == d:
        chosen = xp.broadcast_to(numbers[None, :], (B, d))
    else:
        chosen = xp.argsort(noise.normal(1)[:, 0, :], axis=-1)[:, :m]
    return xp.astype(chosen[:, :, None] == numbers, x.dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectionalSearch(Directional):
    r"""Search along the gradient of directional smoothing, and return the step to the best point instead of g.

    .. math::
        g_k = a\, \frac{\hat g}{|\hat g|}, \qquad
        a \in \{0, A, A \rho, \dots, A \rho^{S-1}\} \text{ with the least } f(x - g_k)

    The estimate of `directional` gives the direction, A = `longest`, :math:`\rho` = `contraction` and S = `trials`. So
    a descent with `step=1` moves x to the best of these points, and not at all if none is below f(x). The schedule
    `follow_step` uses the length of the step, a. An iteration takes the evaluations of `directional`, one for f(x), and
    S for the line search. For a stochastic f, these 1 + S points share one xi.

    Parameters
    ----------
    samples
        M, the number of directions per iteration. If it is left open and the oracle is given by name, it is d.
    nodes
        Number of quadrature nodes per direction, from 2 to 64.
    basis
        "random": a random rotation of the axes in each iteration, or part of one. "axes": the axes, or M of them.
    longest
        A, the longest step. The paper takes the diagonal of the domain.
    contraction
        :math:`\rho`, the ratio of one length to the one before.
    trials
        S. None: 5 % of the evaluations of the gradient, as in the authors' program, and at least 50.

    Notes
    -----
    With few variables the shortest step is not small: by default 0.6 % of the longest. In 1,000 variables it is below
    1e-9 of it.

    References
    ----------
    Tran, Zhang. AdaDGS: an adaptive black-box optimization method with a nonlocal directional Gaussian smoothing
    gradient. 2020 (arXiv:2011.02009).
    """

    name: ClassVar[str] = "directional_search"

    longest: float
    contraction: float = 0.9
    trials: int | None = None

    def __post_init__(self) -> None:
        Directional.__post_init__(self)
        checks.real("longest", self.longest, above=0)
        checks.real("contraction", self.contraction, above=0, below=1)
        if self.trials is not None:
            checks.count("trials", self.trials)

    def cost(self, first: bool, ctx: Context) -> int:
        return self._points + 1 + self._trials

    @property
    def _trials(self) -> int:
        return max(MIN_TRIALS, math.ceil(LINE_SEARCH_SHARE * self._points)) if self.trials is None else self.trials

    def observe(self, x: Array, t: Array, state: Leaves, first: bool, noise: Noise, ctx: Context) -> Conversation:
        xp, S = ctx.xp, self._trials
        gradient, _ = yield from Directional.observe(self, x, t, state, first, noise, replace(ctx, needs=frozenset()))
        downhill = unit(gradient.g, xp)
        xi = noise.xi(1) if ctx.stochastic else None
        # 0 is the first of the lengths, so that x stays if no trial is below f(x).
        power = xp.astype(xp.arange(S, device=device_of(x)), x.dtype)
        lengths = xp.concat([xp.zeros_like(power[:1]), self.longest * self.contraction**power])
        points = x[:, None, :] - lengths[None, :, None] * downhill[:, None, :]
        answer = yield Query("fun", points, xi=repeat_xi(xi, points, xp), centers=1)
        center = select(answer, 0, 1)
        values = answer.values
        if answer.ok is not None:
            values = xp.where(answer.ok > 0, values, float(xp.finfo(values.dtype).max))
        step = xp.take(lengths, xp.argmin(values, axis=1), axis=0)
        ok, rejected = gradient.ok, gradient.rejected
        if answer.ok is not None:
            found, lost = answer.ok[:, 0] > 0, xp.sum(1.0 - answer.ok, axis=1)
            ok = found if ok is None else ok & found
            rejected = lost if rejected is None else rejected + lost
        return gradient._replace(g=step[:, None] * downhill, ok=ok, rejected=rejected, f=center.values[:, 0]), ()
