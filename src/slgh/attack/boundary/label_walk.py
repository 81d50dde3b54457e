r"""A walk along the boundary for models that return only a class, as an oracle of `minimize`.

An iteration has three stages. A bisection finds the boundary on the line from the original to x. The classes of probes
around that point show how the boundary is tilted. Then points on an arc towards that direction are tried, on which a
flat boundary would be nearer to the original.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from slgh.attack.boundary.walk import expected_squares, usable
from slgh.oracles.cosines import CosineBasis
from slgh.oracles.estimators import SamplingOracle
from slgh.protocols import Answer, Array, Context, Conversation, Estimate, Leaves, Noise, Query

FIRST_SHARE = 0.95
"""The first point on the ray that is tried, as a share of the distance of x."""

BISECTIONS = 6
"""Bisections of the ray in an iteration. More would take queries from the probes."""

ANGLES = (2.0, 1.4, 1.0, 0.7, 0.4)
"""Angles that are tried, as multiples of the current one."""

FIRST_ANGLE = 0.3
MIN_ANGLE = 1e-3
MAX_ANGLE = 1.2
"""First angle between the old and the new direction, in radians, and its bounds."""

DECAY = 0.4
"""Factor by which an older estimate of the tilt counts less, per iteration.

It is low because a step towards w removes the tilt along w. This, the length of the probes and the number of bisections
were chosen on test images 5000 to 5015 of MNIST and CIFAR-10, which no table reports on.
"""

TINY = 1e-12
"""Lower bound of divisors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelWalk(SamplingOracle):
    r"""Walk along the boundary of a class towards the original image, from classes alone.

    .. math::
        w \leftarrow \rho\, w + \sum_{i=1}^M (s_i - \bar s)\, u_i, \qquad
        s_i = \pm 1 \ \text{ by the class at } \ R (v + t u_i), \quad u_i \perp v, \qquad
        x' = R \cos\theta\, (v \cos\theta + \frac{w}{\|w\|} \sin\theta)

    R v is the point of the boundary on the ray through x. The unit vectors u_i are random combinations of the cosine
    basis, orthogonal to v, so that the signs depend on the tilt of the boundary alone. Low frequencies get larger
    weights: the variance of a coefficient is the expected squared derivative of a margin at its frequency. If
    the boundary is flat and tilted by phi towards w, then x' fools the model for all angles from 0 to phi, and is the
    nearest point at phi. The angle adapts.

    `fun` returns the distance of a point that fools the model, and a value of at least `limit` for others.

    Parameters
    ----------
    samples
        M, the number of probes per iteration. An iteration takes M + 13 evaluations.
    shape
        Shape of an image, for the cosine basis.
    limit
        Values below it belong to points that fool the model.
    starts
        (B, d) points that fool the model. The first x are the originals.
    """

    name: ClassVar[str] = "label_walk"
    provides: ClassVar[frozenset[str]] = frozenset({"f"})

    shape: tuple[int, ...]
    limit: float
    starts: Any = field(compare=False)

    def cost(self, first: bool, ctx: Context) -> int:
        return 2 + BISECTIONS + self.samples + len(ANGLES)

    def of_problems(self, rows: slice) -> LabelWalk:
        """Return the walk of some of the images."""
        return replace(self, starts=self.starts[rows])

    def init(self, x: Array, ctx: Context) -> Leaves:
        """Return the original, the point (B, d) from which to go on, the tilt (B, d) and the angle (B,)."""
        one = ctx.xp.ones_like(x[:, 0])
        return x, ctx.xp.asarray(self.starts), ctx.xp.zeros_like(x), FIRST_ANGLE * one

    def observe(self, x: Array, t: Array, state: Leaves, first: bool, noise: Noise, ctx: Context) -> Conversation:
        xp = ctx.xp
        a, point, tilt, angle = state
        change = point - a
        answer = yield Query("fun", xp.stack([point, a + FIRST_SHARE * change], axis=1), centers=1)
        answers = [answer]
        nearer = self._fooled(answer, ctx)[:, 1] > 0
        # `where` of two Python numbers has the library's default dtype, hence the array of ones.
        one = xp.ones_like(t)
        low, high = xp.where(nearer, 0.0, FIRST_SHARE * one), xp.where(nearer, FIRST_SHARE * one, 1.0)
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            answer = yield Query("fun", (a + middle[:, None] * change)[:, None, :])
            answers.append(answer)
            fools = self._fooled(answer, ctx)[:, 0] > 0
            low, high = xp.where(fools, low, middle), xp.where(fools, middle, high)

        norm = _norm(change, xp)
        v = change / (norm + TINY)[:, None]
        center = a + ((low + high) / 2)[:, None] * change
        u = self._directions(v, noise, xp)
        length = t * high * norm
        probes = _inside(center[:, None, :] + length[:, None, None] * u, xp)
        answer = yield Query("fun", probes)
        answers.append(answer)
        signs = 2.0 * self._fooled(answer, ctx) - 1.0
        signs = signs - xp.mean(signs, axis=1, keepdims=True)
        moves = (probes - center[:, None, :]) / (length + TINY)[:, None, None]
        tilt = DECAY * tilt + ctx.weighted_sum(signs, moves)
        tilt = tilt - xp.sum(tilt * v, axis=-1, keepdims=True) * v

        radius = high * norm
        w = tilt / (_norm(tilt, xp) + TINY)[:, None]
        arc = [a + _arc(radius, v, w, xp.clip(k * angle, max=MAX_ANGLE), xp) for k in ANGLES]
        trials = _inside(xp.stack(arc, axis=1), xp)
        answer = yield Query("fun", trials)
        answers.append(answer)
        fools = self._fooled(answer, ctx)
        best = xp.argmin(xp.where(fools > 0, answer.values, xp.inf), axis=1)
        accepted = xp.max(fools, axis=1) > 0
        trial = xp.take_along_axis(trials, best[:, None, None], axis=1)[:, 0]
        point = xp.where(accepted[:, None], trial, a + high[:, None] * change)
        factor = sum(xp.where(best == i, k * one, 0.0) for i, k in enumerate(ANGLES))
        angle = xp.clip(angle * xp.where(accepted, factor, ANGLES[-1]), min=MIN_ANGLE, max=MAX_ANGLE)
        ok, rejected = usable(answers, xp)
        estimate = Estimate(g=x - point, cosine=1.0, ok=ok, rejected=rejected, f=answers[0].values[:, 0])
        return estimate, (a, point, tilt, angle)

    def _fooled(self, answer: Answer, ctx: Context) -> Array:
        """Return 1 where the model is fooled, else 0: (B, n). A bad value does not fool it."""
        fooled = ctx.xp.astype(answer.values < self.limit, answer.values.dtype)
        return fooled if answer.ok is None else fooled * answer.ok

    def _directions(self, v: Array, noise: Noise, xp: Any) -> Array:
        """Return random unit vectors (B, M, d) orthogonal to v (B, d), mostly of low frequencies."""
        basis, normals = CosineBasis(self.shape), noise.normal(self.samples)
        u = basis.synthesize(normals * xp.sqrt(expected_squares(basis, normals, xp)), xp)
        u = u - xp.sum(u * v[:, None, :], axis=-1, keepdims=True) * v[:, None, :]
        return u / (_norm(u, xp) + TINY)[..., None]


def _arc(radius: Array, v: Array, w: Array, angle: Array, xp: Any) -> Array:
    """Return the point at an angle (B,) on the circle through 0 and radius * v, on the side of w."""
    cosine, sine = xp.cos(angle), xp.sin(angle)
    return (radius * cosine)[:, None] * (cosine[:, None] * v + sine[:, None] * w)


def _inside(points: Array, xp: Any) -> Array:
    return xp.clip(points, min=-0.5, max=0.5)


def _norm(x: Array, xp: Any) -> Array:
    return xp.sqrt(xp.sum(x * x, axis=-1))
