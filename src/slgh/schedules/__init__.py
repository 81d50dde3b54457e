"""Schedules of the smoothing radius t. One file per schedule."""

from __future__ import annotations

from typing import Any

from slgh.schedules.budget import Budget
from slgh.schedules.constant import Constant
from slgh.schedules.derivative import Derivative
from slgh.schedules.double_loop import DoubleLoop
from slgh.schedules.follow_step import FollowStep
from slgh.schedules.power_law import PowerLaw
from slgh.schedules.ratio import Ratio

SCHEDULES: dict[str, Any] = {
    part.name: part for part in (Constant, Ratio, Derivative, DoubleLoop, Budget, PowerLaw, FollowStep)
}

__all__ = ["SCHEDULES", "Budget", "Constant", "Derivative", "DoubleLoop", "FollowStep", "PowerLaw", "Ratio"]
