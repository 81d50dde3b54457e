r"""A walk along the boundary between classes, towards the original image, as an oracle of `minimize`.

An iteration has two queries. The first measures the derivatives of the margins around x, along a few directions of the
cosine basis, from coarse to fine. The second tries points on the way from x to the nearest point at which the
linearized margins say that the model is fooled. The best of them is the next x. As long as x has not reached the
boundary, one of these points is a leap: stripes that fool most models, or a point on the way to an image that does.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from array_api_compat import device

from slgh import checks
from slgh.attack.boundary.memory import learn
from slgh.attack.boundary.projection import Norm, distance, dual_norm, nearest, nearest_of_all
from slgh.attack.loss import SAFE_MARGIN
from slgh.oracles.cosines import MAX_CHANNELS, CosineBasis
from slgh.oracles.estimators import SamplingOracle, both_good, select, zero_bad
from slgh.protocols import Answer, Array, Context, Conversation, Estimate, Leaves, Noise, Query

SHARES = (0.4, 1.0)
"""Points that are tried, as shares of the step. A leap replaces the first of them."""

# The constants of the leaps were chosen on crops of photographs that no table reports on.

FIRST_LEAP = 0.02
"""Length of the first leap along stripes, in units of a change of all pixels by 1."""

LEAP_GROW = 2.0
LEAP_SHRINK = 0.7
"""Next length of a leap: 2 times as long after a failure, 0.7 times as long after one that fooled the model."""

PATIENCE = 2
"""Rejected trials in a row after which a walk that has not reached the boundary moves to a leap."""

LEAP_TRUST = 0.3
"""Trust radius after such a move, relative to its length."""

FIRST_TRUST = 0.05
MIN_TRUST = 3e-5
MAX_TRUST = 1.0
"""First trust radius and its bounds, in units of a change of all pixels by 1. No step is longer than this radius."""

MIN_PROBE = 1e-4
"""Lower bound of the length of a probe, per square root of the number of pixels, against rounding. It was not tuned."""

GROW = 2.0
KEEP = 0.6
SHRINK = 0.35
"""Next trust radius in units of the step: if the longest trial was best, if another was, and if none was accepted."""

OVERSHOOT = 0.02
"""First overshoot: the share of the distance by which the walk aims beyond the linearized boundary."""

MIN_OVERSHOOT = 5e-4
MAX_OVERSHOOT = 0.05
"""Bounds of the overshoot. It shrinks while the best trials fool the model, and grows while they do not."""

PENALTY = 3.0
"""Weight of the remaining way to the boundary, relative to the distance from the original.

With 3, a trial is accepted if the margin rises by at least a third of what the linear model predicts.
"""

OUT_OF_REACH = 10.0
"""The same weight for the choice of a class whose boundary lies outside of the box."""

SPECTRUM_OFFSET = 0.1
"""Frequency below which derivatives are expected to be about equally large."""

SPECTRUM_POWER = 1.5
"""Power with which squared derivatives are expected to fall with the frequency."""

GROWTH = 0.5
"""Growth of the uncertainty of a direction per pass over all directions, relative to its expected square."""

CHOICE_NOISE = 0.5
"""Standard deviation of the noise on the logarithm of the priority of a direction."""

TINY = 1e-12
"""Lower bound of divisors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundaryWalk(SamplingOracle):
    r"""Walk along the boundary of a class towards the original image.

    .. math::
        m(x + s) \approx m(x) + J s, \qquad
        y = \arg\min_y \|y - a\| \ \text{ subject to } \ m(x) + J (y - x) \ge \kappa, \qquad
        x' = x + \tau (y - x)

    `fun` returns a tuple: a value, the distance from a, and the margins m of the classes. a is the first x. J, the
    derivatives of the margins, is measured along `samples` directions per iteration, with probes of length t at most,
    and remembered: see `memory`. If the model may predict any other class, y is the nearest of the points for each
    class, otherwise it satisfies the condition for all margins. The share tau keeps x' within a trust radius of x,
    which grows when the longest of the trials was the best, and shrinks when none was better than x.

    Until x reaches the boundary, the first trial of an iteration is a leap from a, along random stripes or towards a
    start. Its length grows until it fools the model, and then shrinks. So there is a success early on. x moves to such
    a leap only if trials near x are rejected several times in a row.

    A walk ends near a local minimum of the distance. After `first_walk` iterations, and then after every `next_walk`,
    another one begins at a with a new memory. It leaves out the classes to which earlier walks led, until none is left.
    `minimize` keeps the best point of all walks.

    The directions are those of the cosine basis whose derivatives are the least certain. The uncertainty of a
    direction is its expected squared derivative at first and 0 after a measurement. It grows with every iteration,
    since J changes with x. The expected square falls with the frequency.

    Parameters
    ----------
    samples
        M, the number of directions per iteration. An iteration takes M + 3 evaluations.
    shape
        Shape of an image, for the cosine basis.
    margins
        Number of margins that `fun` returns.
    targeted
        True if all margins must be positive, False if one of them must.
    norm
        Norm of the distance: "l2" or "linf".
    safe_margin
        Minimum margin of a success that survives rounding.
    starts
        (B, d) points that fool the model, or None. Leaps then go towards them.
    first_walk, next_walk
        Iterations of the first walk, and of each further one. 0: there is only one walk.
    """

    name: ClassVar[str] = "boundary_walk"
    provides: ClassVar[frozenset[str]] = frozenset({"f"})

    shape: tuple[int, ...]
    margins: int
    targeted: bool = False
    norm: Norm = "l2"
    safe_margin: float = SAFE_MARGIN
    starts: Any = field(default=None, compare=False)
    first_walk: int = 0
    next_walk: int = 0

    def __post_init__(self) -> None:
        SamplingOracle.__post_init__(self)
        checks.count("margins", self.margins)
        checks.choice("norm", self.norm, ("l2", "linf"))

    def cost(self, first: bool, ctx: Context) -> int:
        return 1 + self.samples + len(SHARES)

    def of_problems(self, rows: slice) -> BoundaryWalk:
        """Return the walk of some of the images."""
        return self if self.starts is None else replace(self, starts=self.starts[rows])

    def init(self, x: Array, ctx: Context) -> Leaves:
        """Return the original, J (B, K, d), the uncertainty (B, d), the way to the start (B, d), and numbers.

        These are (B,) the trust radius, the overshoot, the length of the next leap, the number of rejected trials in a
        row, and the iterations until the next walk, and (B, K) 1 for each class that is left out. The length is 0 after
        x has reached the boundary. The way is 0 if there is no start.
        """
        heading = ctx.xp.zeros_like(x) if self.starts is None else ctx.xp.asarray(self.starts) - x
        return self._begin(x, heading, self.first_walk, ctx.xp)

    def _begin(self, a: Array, heading: Array, iterations: int, xp: Any) -> Leaves:
        """Return the memory of a new walk from a (B, d), with the number of its iterations."""
        J = xp.stack([xp.zeros_like(a)] * self.margins, axis=1)
        one = xp.ones_like(a[:, 0])
        unit = distance(xp.ones_like(a), self.norm, xp)
        uncertainty = xp.zeros_like(a) + expected_squares(CosineBasis(self.shape), a, xp)
        leap = FIRST_LEAP * unit if self.starts is None else distance(heading, self.norm, xp)
        numbers = FIRST_TRUST * unit, OVERSHOOT * one, leap, 0.0 * one, iterations * one
        return a, J, uncertainty, heading, *numbers, xp.zeros_like(J[..., 0])

    def observe(self, x: Array, t: Array, state: Leaves, first: bool, noise: Noise, ctx: Context) -> Conversation:
        xp = ctx.xp
        a, J, uncertainty, heading, trust, overshoot, leap, rejections, left, left_out = state
        # Probes longer than a step would measure the model beyond the boundary.
        unit = distance(xp.ones_like(x), self.norm, xp)
        length = xp.minimum(t, xp.clip(trust / unit, min=MIN_PROBE) * x.shape[1] ** 0.5)
        signs = noise.normal(1, 1)[:, 0]
        probes, measured = self._probes(x, length, uncertainty, noise, signs, xp)
        answer = yield Query("fun", xp.concat([x[:, None, :], probes], axis=1), centers=1)
        center, around = select(answer, 0, 1), select(answer, 1, 1 + self.samples)
        J = _learned(J, probes - x[:, None, :], around, center, xp)
        growth = GROWTH * self.samples / x.shape[1]
        uncertainty = xp.where(measured, 0.0, uncertainty) + growth * expected_squares(CosineBasis(self.shape), x, xp)

        def open_margins(answer: Answer) -> Array:
            """Return the margins (B, n, K). A class that is left out is never reached."""
            return xp.where(left_out[:, None, :] > 0, -xp.inf, _margins(answer))

        goal, price, led = self._goal(a, x, J, _margins(center)[:, 0], left_out, overshoot, xp)
        way = goal - x
        far = distance(way, self.norm, xp)
        step = xp.clip(trust / (far + TINY), max=1.0)
        short, full = (x + (share * step)[:, None] * way for share in SHARES)
        leaping = leap > 0
        trials = xp.stack([xp.where(leaping[:, None], self._leap(a, heading, leap, signs, xp), short), full], axis=1)
        tried = yield Query("fun", trials)
        landed = self._lead(open_margins(tried)[:, 0], xp) >= self.safe_margin
        landed = landed if tried.ok is None else landed & (tried.ok[:, 0] > 0)
        leapt = leaping & landed & (rejections >= PATIENCE)
        costs = self._merit(trials - a[:, None, :], open_margins(tried), price, xp)
        costs = costs if tried.ok is None else xp.where(tried.ok > 0, costs, xp.inf)
        current = self._merit((x - a)[:, None, :], open_margins(center), price, xp)[:, 0]
        # A leap does not compete with steps: x moves to it out of patience, or not at all.
        near = xp.where(leaping, xp.inf, costs[:, 0])
        best = xp.where(leapt | (near < costs[:, 1]), 0, 1)
        accepted = leapt | (xp.minimum(near, costs[:, 1]) < current)
        chosen = _one(tried, best, xp)
        move = xp.take_along_axis(trials, best[:, None, None], axis=1) - x[:, None, :]
        J = _learned(J, move, chosen, center, xp)
        # `where` of two Python numbers has the library's default dtype, hence the array of ones.
        one = xp.ones_like(step)
        # The radius follows the step that was made, so that it shrinks at once if it was not needed.
        factor = xp.where(accepted, xp.where(best == len(SHARES) - 1, GROW * one, KEEP), SHRINK)
        trust = xp.where(leapt, LEAP_TRUST * leap, factor * step * far)
        trust = xp.clip(trust, min=MIN_TRUST * unit, max=MAX_TRUST * unit)
        fooled = self._lead(open_margins(chosen)[:, 0], xp) >= self.safe_margin
        overshoot = xp.clip(overshoot * xp.where(fooled, 0.7 * one, 1.5), min=MIN_OVERSHOOT, max=MAX_OVERSHOOT)
        longest = unit if self.starts is None else distance(heading, self.norm, xp)
        leap = xp.minimum(leap * xp.where(landed, LEAP_SHRINK * one, LEAP_GROW), longest)
        leap = xp.where(accepted & fooled, 0.0, leap)
        rejections = xp.where(accepted, 0.0, rejections + 1.0)
        ok, rejected = usable([answer, tried], xp)
        g = xp.where(accepted[:, None], -move[:, 0], 0.0)
        memory = a, J, uncertainty, heading, trust, overshoot, leap, rejections, left - 1.0, left_out
        if self.next_walk:
            again = left <= 1.0
            g = xp.where(again[:, None], x - a, g)
            memory = self._restarted(again, led, memory, xp)
        return Estimate(g=g, cosine=1.0, ok=ok, rejected=rejected, f=answer.values[:, 0]), memory

    def _restarted(self, again: Array, led: Array, memory: Leaves, xp: Any) -> Leaves:
        """Return the memory, or where `again` (B,) is True that of a new walk, without the class (B, K) of the last."""
        a, _, _, heading, *_, left_out = memory
        *fresh, none = self._begin(a, heading, self.next_walk, xp)
        left_out = xp.clip(left_out + led, max=1.0)
        left_out = xp.where(xp.min(left_out, axis=1, keepdims=True) > 0, none, left_out)
        return tuple(
            xp.where(xp.reshape(again, (-1,) + (1,) * (old.ndim - 1)), new, old)
            for new, old in zip((*fresh, left_out), memory, strict=True)
        )

    def _probes(
        self, x: Array, t: Array, uncertainty: Array, noise: Noise, signs: Array, xp: Any
    ) -> tuple[Array, Array]:
        """Return probes (B, M, d) within the range of the pixels, and a mask of their directions (B, d)."""
        priority = uncertainty * xp.exp(CHOICE_NOISE * noise.normal(1)[:, 0])
        index = xp.argsort(-priority, axis=1)[:, : self.samples]
        measured = priority >= xp.take_along_axis(priority, index[:, -1:], axis=1)
        length = xp.where(signs[:, : self.samples] < 0, -t[:, None], t[:, None])
        moves = length[..., None] * CosineBasis(self.shape).vectors(index, x, xp)
        center = x[:, None, :]
        there, back = (xp.clip(center + sign * moves, min=-0.5, max=0.5) for sign in (1, -1))
        # Where the range cuts off most of a probe, the opposite one is longer.
        turn = 2 * xp.sum((there - center) ** 2, axis=-1) < xp.sum((back - center) ** 2, axis=-1)
        return xp.where(turn[..., None], back, there), measured

    def _leap(self, a: Array, heading: Array, length: Array, signs: Array, xp: Any) -> Array:
        """Return the point at a distance `length` (B,) from a (B, d), along stripes or towards the start."""
        way = _stripes(signs, self.shape, xp) if self.starts is None else heading
        return xp.clip(a + (length / (distance(way, self.norm, xp) + TINY))[:, None] * way, min=-0.5, max=0.5)

    def _goal(
        self, a: Array, x: Array, J: Array, margins: Array, left_out: Array, overshoot: Array, xp: Any
    ) -> tuple[Array, Array, Array]:
        """Return the nearest point to a (B, d) at which the linearized margins say that the model is fooled.

        Returns also the price of each margin (B, K): the distance per unit of margin. Without the box it is one over
        the dual norm of the derivatives. Pixels at the ends of their range increase it. The last result is 1 for the
        class of that point, else 0 (B, K), or 0 for all if `targeted`.
        """
        level = xp.sum(J * x[:, None, :], axis=-1) - margins
        missing = level - xp.sum(J * a[:, None, :], axis=-1)
        level = level + overshoot[:, None] * xp.abs(missing) + 2 * self.safe_margin
        rate = dual_norm(J, self.norm, xp) + TINY
        here = distance(x - a, self.norm, xp)[:, None]
        behind = xp.clip(-margins, min=0.0) + TINY
        if self.targeted:
            y = nearest_of_all(a, J, level, self.norm, xp)
            dearer = (distance(y - a, self.norm, xp)[:, None] - here) / xp.max(behind, axis=1, keepdims=True)
            return y, xp.maximum(1 / rate, dearer), xp.zeros_like(rate)
        points = nearest(a[:, None, :], J, level, self.norm, xp)
        short = xp.clip(level - xp.sum(J * points, axis=-1), min=0.0) / rate
        far = distance(points - a[:, None, :], self.norm, xp) + OUT_OF_REACH * short
        # The class is chosen as the merit judges the next point, or else no step towards it might be accepted.
        price = xp.where(margins < 0, xp.maximum(1 / rate, (far - here) / behind), 1 / rate)
        chosen = xp.argmin(xp.where(left_out > 0, xp.inf, far + PENALTY * behind * price), axis=1)
        y = xp.take_along_axis(points, chosen[:, None, None], axis=1)[:, 0]
        led = xp.astype(chosen[:, None] == xp.arange(rate.shape[1], device=device(rate)), rate.dtype)
        return y, price, led

    def _lead(self, margins: Array, xp: Any) -> Array:
        """Return the margin that decides, (...), of margins (..., K)."""
        return xp.min(margins, axis=-1) if self.targeted else xp.max(margins, axis=-1)

    def _merit(self, change: Array, margins: Array, price: Array, xp: Any) -> Array:
        """Return the distance from the original plus the weighted way to the boundary, (B, n)."""
        ways = xp.clip(self.safe_margin - margins, min=0.0) * price[:, None, :]
        way = xp.max(ways, axis=-1) if self.targeted else xp.min(ways, axis=-1)
        return distance(change, self.norm, xp) + PENALTY * way


def expected_squares(basis: CosineBasis, like: Array, xp: Any) -> Array:
    """Return the expected squared derivative of a margin along each vector of the basis (d,), in arbitrary units."""
    return (SPECTRUM_OFFSET + basis.frequencies(like, xp)) ** -SPECTRUM_POWER


def _stripes(signs: Array, shape: tuple[int, ...], xp: Any) -> Array:
    """Return patterns of 1 and -1 (B, d) that are constant along the first axis of the image, by the signs (B, d).

    Stripes fool networks more often than noise of the same length: Andriushchenko et al., "Square Attack", ECCV 2020,
    start with them. If only one axis is longer than the channels, each number has its own sign.
    """
    field = xp.reshape(signs, (-1, *shape))
    axes = [1 + axis for axis, n in enumerate(shape) if n > MAX_CHANNELS]
    if len(axes) > 1:
        first = (slice(None),) * axes[0] + (slice(0, 1),)
        field = xp.broadcast_to(field[first], field.shape)
    return xp.reshape(xp.where(field < 0, -xp.ones_like(field), 1.0), signs.shape)


def _margins(answer: Answer) -> Array:
    """Return the margins (B, n, K), which `fun` returns behind the value and the distance."""
    assert answer.more is not None
    return answer.more[..., 1:]


def _one(answer: Answer, index: Array, xp: Any) -> Answer:
    """Return the answer at one point of each problem, by its number (B,)."""
    at = index[:, None]
    ok = None if answer.ok is None else xp.take_along_axis(answer.ok, at, axis=1)
    return Answer(
        xp.take_along_axis(answer.values, at, axis=1), ok, xp.take_along_axis(answer.more, at[..., None], axis=1)
    )


def _learned(J: Array, moves: Array, there: Answer, here: Answer, xp: Any) -> Array:
    """Return J after moves (B, n, d) from one point, `here`, to others. Moves with bad values teach nothing."""
    ok = both_good(there.ok, here.ok)
    ok = None if ok is None else ok[..., None]
    return learn(J, zero_bad(moves, ok), zero_bad(_margins(there) - _margins(here), ok), xp)


def usable(answers: list[Answer], xp: Any) -> tuple[Array | None, Array | None]:
    """Return the mask of problems whose x has a usable value, and the number of bad values; None: none is bad.

    The first answer begins with the value at x.
    """
    if all(answer.ok is None for answer in answers):
        return None, None
    goods = [xp.ones_like(answer.values) if answer.ok is None else answer.ok for answer in answers]
    return goods[0][:, 0] > 0, sum(xp.sum(1.0 - good, axis=1) for good in goods)
