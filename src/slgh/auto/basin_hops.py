"""Basin hops: perturb a local minimum, search locally from there, and accept or reject the new minimum [1]_.

There are several ways to perturb. Each hop chooses one at random. The ways that have paid per evaluation are chosen
more often, and each adapts its step length.

These are pure functions without a budget. The state of the hops follows from their outcomes, so a resumed run obtains
it by repeating `propose` and `after`.

.. [1] D. J. Wales and J. P. K. Doye, "Global optimization by basin-hopping and the lowest energy structures of
   Lennard-Jones clusters containing up to 110 atoms", J. Phys. Chem. A 101, 1997.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slgh.auto.evaluation import Floats

# The constants below come from trials on Morse clusters, ions in a trap, Rastrigin's and Schwefel's functions, Gaussian
# mixtures and a small network, all with gradients. None of them was chosen on Lennard-Jones clusters.

FIRST_LENGTH = 0.3
"""First step length, in units of a local search."""

LONGER = 1.3
"""The step length grows by this factor if a hop ends in the minimum it came from."""

SHORTER = 0.92
"""The step length changes by this factor if a hop is rejected."""

MIN_LENGTH, MAX_LENGTH = 0.01, 20.0
"""Limits of the step length."""

GROUP_LENGTH = 3.0
"""A move of a few groups is this many times as long as one of all variables."""

MAX_GROUP_SIZE = 4
"""Maximum number of variables per group. Groups are for variables such as the coordinates of points."""

ONE_GROUP_PROBABILITY = 0.5
"""The number of groups that move is geometric with this parameter."""

RANDOM_PLACE_PROBABILITY = 0.5
"""A group moves to a place in the region with this probability, else to one near the other groups."""

PLACE_SPREAD = 1.2
"""Spread of places near the other groups, in standard deviations of these."""

MIX_SHARES = 0.1, 0.6
"""Minimum and maximum share of the variables that are copied from another minimum."""

MIX_LENGTH = 0.1
"""Step length of the perturbation after copying."""

MAX_KNOWN_MINIMA = 8
"""Number of minima that are kept for copying."""

TEMPERATURE = 0.1
"""Typical increase of f that a hop may be accepted with, in units of the typical difference between two minima."""

PATIENCE = 40
"""After this many hops without a new best minimum, the hops continue from the next random point."""

SAME = 0.01
"""Minima whose values differ by less count as one, in units of the typical difference between two minima."""

SAME_RELATIVE = 1e-9
"""So do those whose values differ by less than this, relative to their size."""

MAX_GAPS = 15
"""Number of differences between minima that the typical one is the median of."""

UNIFORM_SHARE = 0.1
"""Share of the hops that choose among all moves with equal probability."""

FIRST_REWARD = 0.5
"""Reward per average hop that a move of all variables is credited with at first."""

OTHER_REWARD = 0.1
"""The same for other moves. All group sizes share it. With equal credit for all moves, 2,000 calls solve 69 % of the
runs on six kinds of clusters, with moves of all variables alone 78 %."""

LATER_REWARD = 0.02
"""Reward per average hop that an unused move approaches."""

ACCEPTED_REWARD = 0.2
"""Reward of a hop to a lower minimum. A hop to a new best minimum has the reward 1."""

KEPT_REWARD = 0.93
"""Share of rewards and costs that is kept from one hop to the next."""


class Kind(IntEnum):
    """Kind of a perturbation."""

    ALL = 0
    """Move all variables."""
    MIX = 1
    """Copy some variables from another minimum."""
    RANDOM = 2
    """Start from a random point."""
    GROUP = 3
    """Move a few groups of variables."""
    PLACE = 4
    """Draw a few groups of variables anew."""


class Move(NamedTuple):
    """Perturbation that a hop can choose."""

    kind: Kind
    size: int = 0
    """Number of variables per group. It divides d, and groups begin at its multiples."""


class Record(NamedTuple):
    """Experience with a move."""

    length: float = FIRST_LENGTH
    reward: float = FIRST_REWARD
    cost: float = 1.0
    """Sum of costs, in units of an average hop."""


class Minimum(NamedTuple):
    """Local minimum."""

    x: Floats
    fun: float


class Hop(NamedTuple):
    """Plan of one hop."""

    move: Move
    x: Floats
    """Start of the local search. It may be outside the bounds, or overflow."""
    level: float
    """The hop is accepted if it ends below this value."""


@dataclass(frozen=True, kw_only=True)
class Hops:
    """State of the hops."""

    current: Minimum
    """The next hop perturbs this one."""
    best: Minimum
    known: tuple[Minimum, ...]
    """Best minima with different values, in order."""
    records: dict[Move, Record]
    gaps: tuple[float, ...] = ()
    """Latest differences between the values of neighboring minima."""
    mean_cost: float = 0.0
    """Average evaluations per hop, 0 before the first."""
    stalled: int = 0
    """Number of hops since the latest new best minimum."""

    @property
    def gap(self) -> float:
        """Typical difference between the values of two minima, 0 if it is unknown."""
        return float(np.median(self.gaps)) if self.gaps else 0.0


def first_hops(x: Floats, fun: float) -> Hops:
    """Return the state before the first hop from a minimum x (d,)."""
    sizes = [m for m in range(1, min(x.size // 2, MAX_GROUP_SIZE) + 1) if x.size % m == 0]
    share = OTHER_REWARD / math.sqrt(max(1, len(sizes)))
    records = {
        Move(Kind.ALL): Record(FIRST_LENGTH, FIRST_REWARD),
        Move(Kind.MIX): Record(FIRST_LENGTH, OTHER_REWARD),
        Move(Kind.RANDOM): Record(FIRST_LENGTH, OTHER_REWARD),
    }
    for kind in (Kind.GROUP, Kind.PLACE):
        records |= {Move(kind, m): Record(FIRST_LENGTH, share) for m in sizes}
    first = Minimum(x, fun)
    return Hops(current=first, best=first, known=(first,), records=records)


@np.errstate(all="ignore")
def propose(hops: Hops, unit: Floats, random_point: Floats, rng: np.random.Generator) -> Hop:
    """Choose a move, and perturb the current minimum by it.

    Parameters
    ----------
    unit
        Unit of length per variable, (d,).
    random_point
        Point of the region, (d,), for the moves that need one.
    """
    x = hops.current.x
    move = _choose(hops, rng)
    level = hops.current.fun + TEMPERATURE * hops.gap * float(rng.exponential())
    steps = hops.records[move].length * unit * rng.standard_normal(x.size)
    match move.kind:
        case Kind.ALL:
            return Hop(move, x + steps, level)
        case Kind.GROUP:
            moving = _some_groups(x.size, move.size, rng)
            return Hop(move, np.where(moving, x + GROUP_LENGTH * steps, x), level)
        case Kind.PLACE:
            moving = _some_groups(x.size, move.size, rng)
            return Hop(move, np.where(moving, _places(x, move.size, random_point, rng), x), level)
        case Kind.MIX:
            others = [m for m in hops.known if m.fun != hops.current.fun]
            copied = rng.random(x.size) < rng.uniform(*MIX_SHARES)
            mixed = np.where(copied, others[int(rng.integers(len(others)))].x, x)
            return Hop(move, mixed + MIX_LENGTH * unit * rng.standard_normal(x.size), level)
    return Hop(move, random_point, math.inf if hops.stalled >= PATIENCE else level)


def _choose(hops: Hops, rng: np.random.Generator) -> Move:
    """Choose a move in proportion to its reward per cost."""
    can_mix = any(m.fun != hops.current.fun for m in hops.known)
    moves = [move for move in hops.records if can_mix or move.kind is not Kind.MIX]
    rates = np.array([hops.records[move].reward / hops.records[move].cost for move in moves])
    shares = UNIFORM_SHARE / len(moves) + (1 - UNIFORM_SHARE) * rates / rates.sum()
    return moves[int(rng.choice(len(moves), p=shares))]


def _some_groups(d: int, m: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return a mask (d,) of a few groups of m variables."""
    n = min(d // m, int(rng.geometric(ONE_GROUP_PROBABILITY)))
    chosen = np.zeros((d // m, m), bool)
    chosen[rng.choice(d // m, n, replace=False)] = True
    return chosen.ravel()


def _places(x: Floats, m: int, random_point: Floats, rng: np.random.Generator) -> Floats:
    """Draw a new place for each group of m variables: in the region, or from a normal fit to all groups."""
    if rng.random() < RANDOM_PLACE_PROBABILITY:
        return random_point
    groups = x.reshape(-1, m)
    spread = PLACE_SPREAD * groups.std(axis=0)
    return np.asarray(groups.mean(axis=0) + spread * rng.standard_normal(groups.shape)).ravel()


@np.errstate(all="ignore")
def after(hops: Hops, hop: Hop, x: Floats, fun: float, *, cost: int, converged: bool) -> Hops:
    """Return the state after a hop.

    Parameters
    ----------
    x, fun
        Lowest point (d,) of the hop's local search, and f there, infinite if there is none.
    cost
        Evaluations of the hop.
    converged
        False if the search stopped early, so that `fun` is no local minimum.
    """
    end, gap, finite = Minimum(x, fun), hops.gap, math.isfinite(fun)
    difference = abs(fun - hops.current.fun) if finite else math.inf
    same = difference <= max(SAME * gap, SAME_RELATIVE * abs(hops.current.fun))
    accepted, is_best = fun < hop.level, fun < hops.best.fun
    reward = 1.0 if is_best and not same else ACCEPTED_REWARD if fun < hops.current.fun and not same else 0.0
    mean_cost = hops.mean_cost + 0.2 * (cost - hops.mean_cost) if hops.mean_cost else float(max(1, cost))
    records = {move: _faded(record) for move, record in hops.records.items()}
    used = records[hop.move]
    length = used.length * (LONGER if same else 1.0 if accepted else SHORTER)
    records[hop.move] = Record(
        length=min(max(MIN_LENGTH, length), MAX_LENGTH),
        reward=used.reward + reward,
        cost=used.cost + cost / mean_cost,
    )
    gaps, known = hops.gaps, hops.known
    if finite and converged and not same:
        if math.isfinite(difference):
            gaps = (*gaps, difference)[-MAX_GAPS:]
        if all(abs(m.fun - fun) > SAME * gap for m in known):
            known = tuple(sorted((*known, end), key=lambda m: m.fun)[:MAX_KNOWN_MINIMA])
    return replace(
        hops,
        current=end if accepted else hops.current,
        best=end if is_best else hops.best,
        known=known,
        records=records,
        gaps=gaps,
        mean_cost=mean_cost,
        stalled=0 if reward == 1.0 or hop.level == math.inf else hops.stalled + 1,
    )


def visit(hops: Hops, x: Floats, fun: float) -> Hops:
    """Return the state after another phase has found a minimum. The hops continue from there if it is the lowest."""
    if not fun < hops.current.fun:
        return hops
    found = Minimum(x, fun)
    if fun < hops.best.fun:
        return replace(hops, current=found, best=found, known=(found, *hops.known)[:MAX_KNOWN_MINIMA], stalled=0)
    return replace(hops, current=found)


def _faded(record: Record) -> Record:
    """Return the record after one more hop, if its move was not used. Rewards long ago count less."""
    keep = KEPT_REWARD
    return record._replace(
        reward=keep * record.reward + (1 - keep) * LATER_REWARD, cost=keep * record.cost + (1 - keep)
    )
