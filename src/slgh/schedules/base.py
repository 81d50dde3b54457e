"""Defaults of the schedules."""

from __future__ import annotations

from typing import Any, ClassVar

from slgh.protocols import Array, Leaves


class BaseSchedule:
    """A schedule that needs no estimate and no number of iterations, and remembers nothing."""

    __slots__ = ()

    planned: ClassVar[bool] = False

    @property
    def needs(self) -> frozenset[str]:
        return frozenset()

    def init(self, t: Array, floor: Array, xp: Any) -> Leaves:
        return ()
