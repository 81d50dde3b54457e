r"""Decay of t over exactly the planned number of iterations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from slgh import checks
from slgh.protocols import Array, Estimate, Leaves


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    r"""Decrease t from t1 to t_end over the T iterations that the budget allows.

    .. math:: t_k = t_1\, (t_{end} / t_1)^{s^p}, \qquad s = (k - 1) / (T - 1)

    Parameters
    ----------
    t1
        The first radius; None chooses it from the bounds or the start of each problem.
    t_end
        The last radius, at most t1; None is `fall` times t1.
    fall
        t_end / t1, if t_end is not given; None is the run's floor, or without one the square root of the dtype's eps.
    shape
        p. With 1, t falls by the same ratio each time. A larger p spends more of the iterations at large t.
    iterations
        T, filled in by the run from `max_iter` and `max_evals`.
    """

    name: ClassVar[str] = "budget"
    planned: ClassVar[bool] = True
    needs: ClassVar[frozenset[str]] = frozenset()

    t1: float | None = None
    t_end: float | None = None
    fall: float | None = None
    shape: float = 1.0
    iterations: int | None = None

    def __post_init__(self) -> None:
        if self.t1 is not None:
            checks.real("t1", self.t1, above=0)
        if self.t_end is not None:
            checks.real("t_end", self.t_end, above=0)
            if self.t1 is not None and self.t_end > self.t1:
                raise checks.ArgumentValueError(f"`t_end` must not exceed `t1`, got t_end={self.t_end}, t1={self.t1}.")
        if self.fall is not None:
            checks.real("fall", self.fall, above=0)
            if self.fall > 1:
                raise checks.ArgumentValueError(f"`fall` is t_end / t1 and must not exceed 1, got {self.fall}.")
        checks.real("shape", self.shape, above=0)

    def init(self, t: Array, floor: Array, xp: Any) -> Leaves:
        """Return t1, t_end / t1, s, and the increase of s per iteration."""
        assert self.iterations is not None
        if self.t_end is not None:
            end = xp.full_like(t, self.t_end)
        elif self.fall is not None:
            end = t * self.fall
        else:
            end = xp.where(floor > 0, floor, t * float(xp.finfo(t.dtype).eps) ** 0.5)
        ratio = xp.minimum(xp.maximum(end, floor), t) / t
        return t, ratio, xp.zeros_like(t), xp.full_like(t, 1.0 / max(1, self.iterations - 1))

    def next(self, t: Array, estimate: Estimate, state: Leaves, floor: Array, xp: Any) -> tuple[Array, Leaves]:
        t1, ratio, s, each = state
        s = s + each
        return xp.maximum(t1 * ratio ** (s**self.shape), floor), (t1, ratio, s, each)
