"""Smoothing radius of a training run, for PyTorch and optax: the arguments that choose its schedule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from slgh import checks
from slgh.protocols import Schedule
from slgh.schedules import Budget, Derivative, Ratio

UNITS = ("layer", "model", "absolute")
"""Units of t: the root mean square of each parameter, that of all parameters, or 1."""

DEFAULT_UNITS = {False: "layer", True: "model"}
"""Default by `zeroth_order`.

With losses alone, the variance of the gradient g is about the sum of 1 / w^2 times the sum of w^2 g^2. Equal widths w
keep it smallest if all parts of g are equally large.
"""

LAST_PARTS = {False: 0.01, True: 0.3}
"""Default of t_end / t1 by `zeroth_order`, if `total_steps` is given.

With losses alone, the noise grows as 1 / t if the loss has jumps, as with rounded weights. Chosen among 1, 0.3, 0.1,
0.03 and 0.01 on two networks for MNIST images of 7 x 7 pixels that no benchmark reports: one with sign activations, and
one that was fine-tuned to flipped images.
"""

SMALLEST_PART = float(np.finfo(np.float32).eps) ** (1 / 3)
"""Default of t_end / t1 with losses alone, if t falls by a factor per step. Below, differences of losses in float32 are
mostly rounding errors."""


def choose_schedule(
    *,
    t1: float | None,
    t_end: float | None,
    gamma: float | None,
    eta: float | None,
    total_steps: int | None,
    schedule: Schedule | Callable[[Any], Any] | None,
    provides: frozenset[str],
    zeroth_order: bool,
) -> tuple[Schedule | Callable[[Any], Any], float]:
    r"""Return the schedule of t and its smallest value for the arguments of an optimizer, or raise their error.

    =================================  =====================================================================
    arguments                          t of step k = 1, 2, ...
    =================================  =====================================================================
    ``t1, total_steps[, t_end]``       :math:`t_1 (t_{end} / t_1)^{(k - 1) / (T - 1)}`, T = `total_steps`
    ``t1, gamma[, t_end]``             :math:`\max(\gamma\, t_k, t_{end})` next (SLGH_r)
    ``t1, eta[, gamma, t_end]``        :math:`\max(\min(t_k - \eta\, G_t, \gamma\, t_k), t_{end})` next (SLGH_d)
    ``schedule[, t_end]``              a part of `slgh.schedules`, with t_end as its lower limit
    ``schedule``                       a function of k - 1 that returns t
    =================================  =====================================================================

    Parameters
    ----------
    t1, t_end, gamma, eta, total_steps, schedule
        Arguments of the optimizer. None: not given.
    provides
        Estimates that the optimizer can make, by the names of `slgh.protocols.Estimate`.
    zeroth_order
        True if the gradient is estimated from losses alone.
    """
    if t_end is not None:
        checks.at_least("t_end", t_end, 0)
    numbers = {"t1": t1, "gamma": gamma, "eta": eta, "total_steps": total_steps}
    if schedule is None:
        schedule = _schedule_of_numbers(t1, t_end, gamma, eta, total_steps, LAST_PARTS[zeroth_order])
    elif isinstance(schedule, Schedule):
        _refuse_others(numbers)
        if missing := schedule.needs - provides:
            raise checks.ArgumentValueError(
                f"`schedule` {schedule.name!r} needs {', '.join(sorted(missing))}, which this optimizer does not "
                "estimate."
            )
        if schedule.t1 is None:
            raise checks.ArgumentValueError(f"`schedule` {schedule.name!r} needs `t1`, the first smoothing radius.")
        if t_end is not None and t_end > schedule.t1:
            raise checks.ArgumentValueError(f"`t_end` must not exceed `t1`, got t_end={t_end}, t1={schedule.t1}.")
        if schedule.planned and getattr(schedule, "iterations", 1) is None:
            raise checks.ArgumentValueError(
                f"`schedule` {schedule.name!r} needs `iterations`, the number of training steps."
            )
    elif callable(schedule):
        _refuse_others({**numbers, "t_end": t_end})
    else:
        raise checks.ArgumentTypeError(
            "`schedule` must be a schedule, such as slgh.schedules.Ratio(t1=0.1, gamma=0.999), or a function of the "
            f"step that returns t, got {type(schedule).__name__}."
        )
    if zeroth_order and isinstance(schedule, Schedule) and schedule.needs & {"trace", "slope"} and not t_end:
        raise checks.ArgumentValueError(
            "`t_end` must be above 0 with `eta`, because t may fall to it at once, and losses at t = 0 do not differ: "
            "pass `t1`, `eta` and `t_end`."
        )
    if t_end is None and isinstance(schedule, Schedule) and schedule.t1 is not None:
        t_end = schedule.t_end if isinstance(schedule, Budget) else SMALLEST_PART * schedule.t1 if zeroth_order else 0
    return schedule, float(t_end or 0)


def _refuse_others(numbers: dict[str, float | None]) -> None:
    """Raise an error if one of the numbers is given beside a schedule."""
    for name, value in numbers.items():
        if value is not None:
            raise checks.ArgumentTypeError(f"`schedule` determines t: pass it without `{name}`.")


def _schedule_of_numbers(
    t1: float | None,
    t_end: float | None,
    gamma: float | None,
    eta: float | None,
    total_steps: int | None,
    last_part: float,
) -> Schedule:
    if t1 is None:
        raise checks.ArgumentTypeError("`t1`, the first smoothing radius, is missing.")
    checks.real("t1", t1, above=0)
    if t_end is not None and t_end > t1:
        raise checks.ArgumentValueError(f"`t_end` must not exceed `t1`, got t_end={t_end}, t1={t1}.")
    if total_steps is not None:
        if gamma is not None or eta is not None:
            raise checks.ArgumentTypeError("`total_steps` sets how t falls: pass it without `gamma` and `eta`.")
        checks.count("total_steps", total_steps)
        if t_end == 0:
            raise checks.ArgumentValueError("`t_end` must be above 0 with `total_steps`, got t_end=0.")
        return Budget(t1=t1, t_end=last_part * t1 if t_end is None else t_end, iterations=total_steps)
    if eta is not None:
        return Derivative(t1=t1, eta=eta) if gamma is None else Derivative(t1=t1, eta=eta, gamma=gamma)
    if gamma is not None:
        return Ratio(t1=t1, gamma=gamma)
    raise checks.ArgumentTypeError(
        "How t falls is not given: pass `total_steps`, `gamma` (SLGH_r), `eta` (SLGH_d) or `schedule`."
    )
