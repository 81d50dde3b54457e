"""The pure step runs on any array-API library: here on strict arrays, with the noise of the NumPy run replayed."""

from __future__ import annotations

from typing import Any

import array_api_strict as strict
import numpy as np
import pytest

from cases import CASES, Case, fun, grad, starts
from slgh.auto.defaults import first_radius, first_widths
from slgh.backends.masking import EagerChoice
from slgh.backends.numpy.noise import NumpyNoise, entropies
from slgh.engine.bounds import Box
from slgh.engine.state import draw_picks, first_state
from slgh.engine.step import StepConfig, map_leaves, step
from slgh.method import ObjectiveTraits, compose
from slgh.problems import rosenbrock
from slgh.protocols import Context, StepState
from slgh.updates import NoiseAware

B, T = 3, 12


class StrictNoise:
    """NumPy noise as strict arrays."""

    def __init__(self, noise: NumpyNoise) -> None:
        self.noise = noise

    def normal(self, m: int, stream: int = 0) -> Any:
        return strict.asarray(self.noise.normal(m, stream).copy())

    def xi(self, m: int) -> Any:
        return strict.asarray(self.noise.xi(m))

    def every_xi(self, start: int, stop: int) -> Any:
        return strict.asarray(self.noise.every_xi(start, stop).copy())


def to_strict(state: StepState) -> StepState:
    return map_leaves(strict.asarray, state)


def with_parts(case: Case) -> dict[str, Any]:
    """Return the parameters of the case, with the update that `step="theory"` resolves to."""
    params = {name: value for name, value in case.params.items() if name not in ("L1", "step")}
    if "L1" not in case.params:
        return case.params
    if "noise" in params:
        return params | {"update": NoiseAware(L1=case.params["L1"], nu=params["noise"], cap=0.02)}
    return params | {"step": 0.01}


def run(case: Case, xp: Any, box: Box | None, *, smooth: Any = None, bad: bool = False) -> StepState:
    """Run T iterations with the arrays of `xp`, answered by NumPy functions. `bad` makes some values NaN."""
    facts = ObjectiveTraits(
        closed_form=smooth is not None,
        gradient=case.first_order,
        stochastic=case.stochastic,
        terms=7 if case.stochastic else None,
    )
    method = compose(case.method, with_parts(case), facts).over(T)
    x = starts(B) if smooth is None else np.tile([-1.0, 1.0], (B, 1))
    ctx = Context(xp=np, needs=method.schedule.needs, stochastic=case.stochastic)
    keys = entropies(3, B)
    config = StepConfig(method=method, ctx=ctx, ops=EagerChoice(np), box=box)
    t = first_radius(x, box) if method.schedule.t1 is None else np.full(B, method.schedule.t1)
    picks = draw_picks(keys, T, 0, exact=config.exact)
    state = first_state(x, t, config, picks, first_widths(box, x.shape[1]))
    noise: Any = NumpyNoise(keys, x.shape[1], x.dtype, 7 if case.stochastic else None)
    if xp is strict:
        state, noise = to_strict(state), StrictNoise(noise)
        box = None if box is None else Box(strict.asarray(box.low), strict.asarray(box.high))
    ctx = Context(xp=xp, needs=method.schedule.needs, stochastic=case.stochastic)
    config = StepConfig(method=method, ctx=ctx, ops=EagerChoice(xp), box=box)
    for k in range(T):
        talk = step(state, k, k % method.oracle.period == 0, noise, config)
        values = None
        while True:
            try:
                with np.errstate(all="ignore"):
                    query = next(talk) if values is None else talk.send(values)
            except StopIteration as end:
                state, _ = end.value
                break
            values = xp.asarray(answer(query, smooth, bad and k % 3 == 1))
    return map_leaves(np.asarray, state)


def answer(query: Any, smooth: Any, bad: bool) -> Any:
    points = np.asarray(query.points)
    extra = () if query.xi is None else (np.asarray(query.xi),)
    if smooth is not None:
        t = np.broadcast_to(np.zeros((1, 1)) if query.t is None else np.asarray(query.t), points.shape[:2])
        what = {"fun": "value", "F": "value", "F.grad": "grad", "F.trace": "trace", "F.dt": "dt"}[query.what]
        return getattr(smooth, what)(points, t)
    values = grad(points, *extra) if query.what == "grad" else fun(points, *extra)
    if bad:
        values = values.copy()
        values[0, 0] = np.nan
        values[1] = np.inf
    return values


BOX = Box(np.full(4, -1.5), np.full(4, 1.5))


@pytest.mark.parametrize("bad", [False, True], ids=["finite", "some bad"])
@pytest.mark.parametrize("box", [None, BOX], ids=["free", "boxed"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_strict_arrays_give_the_numbers_of_numpy(case: Case, box: Box | None, bad: bool) -> None:
    plain, on_strict = run(case, np, box, bad=bad), run(case, strict, box, bad=bad)
    for name, one, other in zip(StepState._fields, plain, on_strict, strict=True):
        for a, b in zip(one, other, strict=True) if isinstance(one, tuple) else [(one, other)]:
            np.testing.assert_allclose(b, a, rtol=1e-12, err_msg=name)


@pytest.mark.parametrize("method", ["slgh_r", "slgh_d", "gradopt"])
def test_closed_forms_run_on_strict_arrays(method: str) -> None:
    params = {"t1": 0.5, "step": 1e-4} | ({"eta": 1e-5} if method == "slgh_d" else {})
    case = Case(params | ({"rule": "F"} if method == "gradopt" else {}), lambda k: 2, method)
    smooth = rosenbrock().smooth
    np.testing.assert_allclose(
        run(case, strict, None, smooth=smooth).x, run(case, np, None, smooth=smooth).x, rtol=1e-12
    )


def test_the_step_leaves_its_state_alone() -> None:
    """The step does not modify its input state."""
    case = CASES["zoslgh_d"]
    method = compose("zoslgh_d", case.params, ObjectiveTraits())
    ctx = Context(xp=np, needs=method.schedule.needs)
    config = StepConfig(method=method, ctx=ctx, ops=EagerChoice(np))
    keys = entropies(1, B)
    picks = draw_picks(keys, T, 0, exact=config.exact)
    state = first_state(starts(B), np.full(B, method.schedule.t1), config, picks)
    for leaf in state:
        if isinstance(leaf, np.ndarray):
            leaf.flags.writeable = False
    talk = step(state, 0, True, NumpyNoise(keys, 4, np.float64), config)
    with pytest.raises(StopIteration):
        talk.send(fun(next(talk).points))
