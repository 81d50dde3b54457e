r"""t falls geometrically over exactly the planned number of iterations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from slgh import checks
from slgh.parts import Array, Leaves, Observed


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    r"""Let t go from t_1 to t_T = t_end over the T iterations that the budget allows.

    .. math:: t_{k+1} = \gamma\, t_k, \qquad \gamma = (t_{end} / t_1)^{1/(T - 1)}

    Parameters
    ----------
    t1
        The first radius; None chooses it from the bounds or the start of each problem.
    t_end
        The last radius, at most t1; None is the run's floor, or without one t1 times the root of the dtype's eps.
    iterations
        T, filled in by the run from `max_iter` and `max_evals`.
    """

    name: ClassVar[str] = "budget"
    planned: ClassVar[bool] = True

    t1: float | None = None
    t_end: float | None = None
    iterations: int | None = None

    def __post_init__(self) -> None:
        if self.t1 is not None:
            checks.real("t1", self.t1, above=0)
        if self.t_end is not None:
            checks.real("t_end", self.t_end, above=0)
            if self.t1 is not None and self.t_end > self.t1:
                raise ValueError(f"`t_end` must not exceed `t1`, got t_end={self.t_end}, t1={self.t1}.")

    @property
    def needs(self) -> frozenset[str]:
        return frozenset()

    def init(self, t: Array, floor: Array, xp: Any) -> Leaves:
        assert self.iterations is not None
        least = t * float(xp.finfo(t.dtype).eps) ** 0.5
        end = xp.where(floor > 0, floor, least) if self.t_end is None else xp.full_like(t, self.t_end)
        ratio = xp.minimum(xp.maximum(end, floor), t) / t
        return (ratio ** (1.0 / max(1, self.iterations - 1)),)

    def next(self, t: Array, seen: Observed, state: Leaves, floor: Array, xp: Any) -> tuple[Array, Leaves]:
        return xp.maximum(state[0] * t, floor), state
