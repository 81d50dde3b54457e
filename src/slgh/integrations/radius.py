"""Smoothing radius of a training run, for PyTorch and optax: the arguments that choose its schedule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slgh import checks
from slgh.protocols import Schedule
from slgh.schedules import Budget, Derivative, Ratio

FIRST_ORDER_LAST_PART = 0.01
"""Default of t_end / t1 with gradients, if `total_steps` is given."""

ZEROTH_ORDER_LAST_PART = 0.3
"""The same with values alone. The noise of differences grows as 1 / t for losses with jumps, as of rounded weights.

Chosen among 1, 0.3, 0.1, 0.03 and 0.01 on two networks for MNIST images of 7 x 7 pixels that no benchmark reports: one
with sign activations, and one that was fine-tuned to flipped images.
"""


def choose_schedule(
    *,
    t1: float | None,
    t_end: float | None,
    gamma: float | None,
    eta: float | None,
    total_steps: int | None,
    schedule: Schedule | Callable[[Any], Any] | None,
    provides: frozenset[str],
    last_part: float,
) -> Schedule | Callable[[Any], Any]:
    r"""Return the schedule of t for the arguments of an optimizer, or their mistake as an error.

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
    last_part
        Default of t_end / t1.
    """
    if t_end is not None:
        checks.at_least("t_end", t_end, 0)
    if schedule is not None:
        numbers = {"t1": t1, "gamma": gamma, "eta": eta, "total_steps": total_steps}
        if not isinstance(schedule, Schedule):
            numbers["t_end"] = t_end
        given = [name for name, value in numbers.items() if value is not None]
        if given:
            raise checks.ArgumentTypeError(f"`schedule` determines t: pass it without `{given[0]}`.")
        if isinstance(schedule, Schedule):
            missing = schedule.needs - provides
            if missing:
                raise checks.ArgumentValueError(
                    f"`schedule` {schedule.name!r} needs {', '.join(sorted(missing))}, which this optimizer does not "
                    "estimate."
                )
            if schedule.planned and getattr(schedule, "iterations", 1) is None:
                raise checks.ArgumentValueError(
                    f"`schedule` {schedule.name!r} needs `iterations`, the number of training steps."
                )
        elif not callable(schedule):
            raise checks.ArgumentTypeError(
                "`schedule` must be a schedule, such as slgh.schedules.Ratio(t1=0.1, gamma=0.999), or a function of "
                f"the step that returns t, got {type(schedule).__name__}."
            )
        return schedule
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
        return Budget(t1=t1, t_end=t_end, fall=None if t_end is not None else last_part, iterations=total_steps)
    if eta is not None:
        return Derivative(t1=t1, eta=eta) if gamma is None else Derivative(t1=t1, eta=eta, gamma=gamma)
    if gamma is not None:
        return Ratio(t1=t1, gamma=gamma)
    raise checks.ArgumentTypeError(
        "How t falls is not given: pass `total_steps`, `gamma` (SLGH_r), `eta` (SLGH_d) or `schedule`."
    )
