r"""A constant t, for GD, SGD, ZOSGD and ZOAdaMM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from slgh import checks
from slgh.protocols import Array, Estimate, Leaves


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    r"""Keep the smoothing radius.

    .. math:: t_{k+1} = t_k = t_1

    Parameters
    ----------
    t1
        Initial smoothing radius.
    """

    name: ClassVar[str] = "constant"
    planned: ClassVar[bool] = False
    needs: ClassVar[frozenset[str]] = frozenset()

    t1: float

    def __post_init__(self) -> None:
        checks.at_least("t1", self.t1, 0)

    def init(self, t: Array, floor: Array, xp: Any) -> Leaves:
        return ()

    def next(self, t: Array, estimate: Estimate, state: Leaves, floor: Array, xp: Any) -> tuple[Array, Leaves]:
        return t, state
