"""The portfolio of "auto": it sees no scale, keeps to its budget, can be broken off anywhere, and says what it did."""

from __future__ import annotations

import functools
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from array_api_compat import array_namespace
from hypothesis import given, settings
from hypothesis import strategies as st

import slgh
from slgh.auto.defaults import first_radius, first_widths
from slgh.auto.landscape import POINTS, Landscape, affordable_lines, check_landscape
from slgh.auto.local_search import MODEL_MAX_GRADIENTS, MODEL_MAX_VARIABLES, SearchRegion, local_search
from slgh.engine import run as loop
from slgh.engine.bounds import Box
from test_methods import assert_same

Point = Callable[[Any], Any]


def bowl(x: Any) -> Any:
    """Smooth, and worse conditioned in more variables; at least 1."""
    xp = array_namespace(x)
    return 1 + xp.sum(xp.arange(1.0, x.shape[-1] + 1, dtype=x.dtype) ** 2 * (x - 0.3) ** 2, axis=-1)


def slope(x: Any) -> Any:
    """The gradient of the bowl."""
    return 2 * np.arange(1.0, x.size + 1) ** 2 * (x - 0.3)


def valley(x: Any) -> Any:
    """Rosenbrock's function."""
    xp = array_namespace(x)
    return xp.sum(100 * (x[..., 1:] - x[..., :-1] ** 2) ** 2 + (1 - x[..., :-1]) ** 2, axis=-1)


def waves(x: Any) -> Any:
    """Rastrigin's function."""
    xp = array_namespace(x)
    return xp.sum(x**2 + 10 * (1 - xp.cos(2 * np.pi * x)), axis=-1)


def cliff(x: Any) -> Any:
    """Waves, of which half a space is missing."""
    return np.where(x[..., 0] > 1.5, np.nan, waves(x))


def calm(x: Any) -> Any:
    """A bowl, of which half a space is missing."""
    return np.where(x[..., 0] < 0.25, np.nan, bowl(x))


FUNCTIONS = {f.__name__: f for f in (bowl, valley, waves, cliff, calm)}
every_function = pytest.mark.parametrize("fun", FUNCTIONS.values(), ids=FUNCTIONS.keys())


@pytest.fixture(autouse=True)
def no_thread_is_started() -> Iterator[None]:
    """Whatever a test does, slgh starts no thread."""
    before = set(threading.enumerate())
    yield
    assert [thread.name for thread in threading.enumerate() if thread not in before and "slgh" in thread.name] == []


def minimize(fun: Point, x0: Any, **options: Any) -> slgh.Result:
    """slgh.minimize with what most tests here want."""
    return slgh.minimize(fun, x0, **{"seed": 2, "vectorized": True, **options})


class Counted:
    """A function of one point that remembers its values, and fails at a call if told so."""

    def __init__(self, fun: Point, fails_at: int = 0, error: type[BaseException] = ZeroDivisionError) -> None:
        self.fun, self.fails_at, self.error = fun, fails_at, error
        self.values: list[float] = []

    def __call__(self, x: Any) -> float:
        assert np.isfinite(x).all()
        if len(self.values) + 1 == self.fails_at:
            raise self.error
        self.values.append(float(self.fun(x)))
        return self.values[-1]


# It sees no scale.


def assert_scaled(scaled: slgh.Result, plain: slgh.Result, *, x: float = 1.0, f: float = 1.0) -> None:
    """Two runs are the same but for the units of x and f, to the last bit."""
    units = {"x": x, "x_best": x, "xhat": x, "t": x, "fun": f, "fun_best": f}
    for name, unit in units.items():
        np.testing.assert_array_equal(scaled[name], unit * plain[name], err_msg=name)
    for name in ("nit", "nfev", "status"):
        assert scaled[name] == plain[name], name
    for name in ("x", "t", "fun", "fun_best"):
        np.testing.assert_array_equal(scaled.history[name], units[name] * plain.history[name], err_msg=name)


def in_units(fun: Point, *, x: float = 1.0, f: float = 1.0) -> Point:
    """The function with other units."""
    return lambda point: fun(point / point.dtype.type(x)) * point.dtype.type(f)


def in_a_box(low: float, high: float, d: int, unit: float) -> dict[str, Any]:
    """Bounds that are not alike."""
    return {"bounds": [(unit * low * (1 + i), unit * high * (1 + i / 2)) for i in range(d)]}


PLACES: dict[str, Callable[[int, float], dict[str, Any]]] = {
    "unbounded": lambda d, unit: {"t1": 1.25 * unit},
    "equal bounds": lambda d, unit: {"bounds": [(-5 * unit, 3 * unit)] * d},
    "bounds": functools.partial(in_a_box, -5.0, 3.0),
    "half bounded": lambda d, unit: {"t1": 1.25 * unit, "bounds": [(-5 * unit, None)] * d},
}


@pytest.mark.parametrize("method", ["auto", "scale_free"])
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES.keys())
@pytest.mark.parametrize(
    ("fun", "d", "max_evals"), [(bowl, 3, 60), (bowl, 11, 900), (valley, 11, 700), (waves, 11, 1500)]
)
def test_units_of_x_and_f_do_not_matter(method: str, place: Any, fun: Point, d: int, max_evals: int) -> None:
    x0, options = np.full(d, -1.3), {"method": method, "max_evals": max_evals, "history": "x"}
    plain = minimize(fun, x0, **options, **place(d, 1.0))
    assert method == "scale_free" or "local search" in plain.message
    for unit in (2.0**40, 2.0**-40):
        assert_scaled(minimize(in_units(fun, f=unit), x0, **options, **place(d, 1.0)), plain, f=unit)
    for unit in (2.0**20, 2.0**-20):
        assert_scaled(minimize(in_units(fun, x=unit), unit * x0, **options, **place(d, unit)), plain, x=unit)


def test_the_units_of_a_float32_run_do_not_matter() -> None:
    x0, options = np.full(4, -1.3, np.float32), {"max_evals": 900, "history": "x"}
    for fun in (valley, waves):
        plain = minimize(fun, x0, t1=1.25, **options)
        assert "local search" in plain.message
        assert_scaled(minimize(in_units(fun, f=2.0**-40), x0, t1=1.25, **options), plain, f=2.0**-40)


@pytest.mark.parametrize("fun", [bowl, waves])
@pytest.mark.parametrize("bounded", [False, True])
def test_by_ranks_only_the_order_of_values_matters(fun: Point, bounded: bool) -> None:
    place = PLACES["bounds" if bounded else "unbounded"](5, 1.0)
    options = {"values": "ranks", "max_evals": 800, "history": "x", **place}
    plain = minimize(lambda x: fun(x) + 1, np.full(5, -1.3), **options)
    cubed = minimize(lambda x: (fun(x) + 1) ** 3, np.full(5, -1.3), **options)
    assert len(np.unique(plain.history["x"], axis=0)) > 50
    np.testing.assert_array_equal(cubed.history["x"], plain.history["x"])
    np.testing.assert_array_equal(cubed.x, plain.x)
    other = minimize(
        lambda x: (fun(x) + 1) ** 3, np.full(5, -1.3), **options | {"values": "raw", "method": "scale_free"}
    )
    raw = minimize(lambda x: fun(x) + 1, np.full(5, -1.3), **options | {"values": "raw", "method": "scale_free"})
    assert not np.array_equal(other.x, raw.x), "raw values do see the difference"


# A box that is longer than wide.


def box(*pairs: tuple[float, float]) -> Box:
    return Box(*np.array(pairs, float).T)


def test_the_widths_of_the_box_are_the_first_widths() -> None:
    unlike = box((0, 1), (-2, 2), (3, 19))
    assert first_radius(np.ones((1, 3)), unlike)[0] == pytest.approx(1.0)
    np.testing.assert_allclose(first_widths(unlike, 3), [0.25, 1.0, 4.0])
    np.testing.assert_array_equal(first_widths(box((-5, 5), (0, 10)), 2), [1.0, 1.0])
    assert first_radius(np.ones((2, 2)), box((-5, 5), (0, 10))).tolist() == [2.5, 2.5]


def test_fixed_variables_count_as_the_mean_of_the_others() -> None:
    some = box((0, 1), (7, 7), (0, 4))
    np.testing.assert_allclose(first_widths(some, 3), [0.5, 1.0, 2.0])
    assert first_radius(np.ones((1, 3)), some)[0] == pytest.approx(0.5)


@pytest.mark.parametrize("sides", [(-np.inf, 4), (2, 2), (-1.7e308, 1.7e308)])
def test_without_bounds_all_widths_are_one(sides: tuple[float, float]) -> None:
    np.testing.assert_array_equal(first_widths(box(sides, (1, 1)), 2), [1.0, 1.0])
    assert first_radius(np.full((1, 2), 3.0), box(sides, (1, 1)))[0] == pytest.approx(3.0)


@pytest.mark.parametrize("d", [1, 3, 7, 40])
def test_equal_widths_are_one_to_the_last_bit(d: int) -> None:
    rng = np.random.default_rng(d)
    for low, width in zip(rng.normal(size=20) * 100, rng.uniform(1e-3, 1e3, 20), strict=True):
        alike = box(*[(low, low + width)] * d)
        np.testing.assert_array_equal(first_widths(alike, d), np.ones(d))
        assert first_radius(np.zeros((1, d)), alike)[0] == (low + width - low) / 4


def stretched(x: Any) -> Any:
    """Waves in a box whose sides differ by a factor of 10,000."""
    return waves((x - 0.5 * LENGTHS) / LENGTHS * 10 - 1.0)


LENGTHS = np.array([0.01, 1.0, 100.0, 0.1, 10.0])


@pytest.mark.parametrize("method", ["auto", "scale_free"])
def test_a_long_box_is_as_good_as_a_cube(method: str) -> None:
    options = {"max_evals": 1500, "method": method, "history": "x"}
    cube = minimize(lambda x: waves((x - 0.5) * 10 - 1.0), np.full(5, 0.9), bounds=[(0, 1)] * 5, **options)
    long = minimize(stretched, 0.9 * LENGTHS, bounds=[(0, side) for side in LENGTHS], **options)
    assert (cube.history["t"][:6] > 0).all(), "the test is about the homotopy"
    np.testing.assert_allclose(long.history["x"][:6] / LENGTHS, cube.history["x"][:6], rtol=1e-7)
    assert long.fun < 1.2 * cube.fun + 1


def test_a_local_search_has_its_unit_in_each_variable() -> None:
    seen = Counted(lambda x: np.sum((x / LENGTHS - 0.5) ** 2))
    run = slgh.minimize(
        seen, 0.9 * LENGTHS, bounds=[(0, s) for s in LENGTHS], phases="local_search", max_evals=400, seed=0
    )
    np.testing.assert_allclose(run.x, 0.5 * LENGTHS, rtol=1e-6)


# The budget is hard, and the counts are exact.

KINDS: dict[str, Callable[[Any, Any], Any]] = {
    "smooth": lambda x, rng: bowl(x),
    "rugged": lambda x, rng: waves(x),
    "noisy": lambda x, rng: bowl(x) + rng.normal(),
    "cliff": lambda x, rng: cliff(x),
    "islands": lambda x, rng: waves(x) if np.sin(9 * x).sum() > 0 else np.nan,
    "steps": lambda x, rng: np.floor(bowl(x)),
    "constant": lambda x, rng: 1.0,
    "nothing": lambda x, rng: np.nan,
    "infinite": lambda x, rng: np.inf if x[0] < 1.0 else bowl(x),
}


@settings(max_examples=40)
@given(
    kind=st.sampled_from(list(KINDS)),
    d=st.integers(1, 12),
    max_evals=st.integers(1, 400),
    bounded=st.booleans(),
    seed=st.integers(0, 99),
)
def test_the_budget_is_hard_and_the_counts_exact(kind: str, d: int, max_evals: int, bounded: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    fun = Counted(lambda x: KINDS[kind](x, rng))
    place = {"bounds": [(-4.0, 3.0)] * d} if bounded else {}
    run = slgh.minimize(fun, np.full(d, 1.25), max_evals=max_evals, seed=seed, **place)
    assert run.nfev == len(fun.values) <= max_evals
    assert (run.njev, run.seed) == (0, seed)
    finite = [value for value in fun.values if np.isfinite(value)]
    if "looked noisy" in run.message:
        assert kind == "noisy"
        assert run.fun == fun.values[-1]
    elif finite:
        assert run.fun == run.fun_best == min(finite)
        assert not run.fun > fun.values[0]
        assert kind == "noisy" or run.fun == fun.fun(run.x)
    else:
        assert not np.isfinite(run.fun)
    assert run.success == (run.status == slgh.Status.COMPLETED)
    assert run.success <= np.isfinite(run.fun)
    expected = (
        {slgh.Status.COMPLETED, slgh.Status.NONFINITE} if run.nit else {slgh.Status.MAX_EVALS, slgh.Status.NONFINITE}
    )
    assert run.status in expected


@pytest.mark.parametrize("max_evals", [40, 41, 42, 43])
def test_the_last_iterate_is_evaluated(max_evals: int) -> None:
    """In many variables no sample is as low as the iterates in their midst."""
    seen = Counted(lambda x: np.sum(x**2))
    run = slgh.minimize(seen, np.full(1000, 3.0), max_evals=max_evals, seed=0)
    assert run.fun == seen.values[-1] < seen.values[0]
    assert len(seen.values) <= max_evals


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("max_evals", range(1, 6))
@pytest.mark.parametrize("kind", ["smooth", "nothing", "cliff"])
def test_the_smallest_budgets(d: int, max_evals: int, kind: str) -> None:
    fun = Counted(lambda x: KINDS[kind](x, None))
    run = slgh.minimize(fun, np.full(d, 1.25), max_evals=max_evals, seed=0)
    assert run.nfev == len(fun.values) <= max_evals
    assert np.isfinite(run.fun) == (kind != "nothing")
    assert not run.success or run.nit > 0


@settings(max_examples=20)
@given(
    d=st.integers(1, 6),
    max_evals=st.integers(30, 500),
    at=st.integers(1, 500),
    kind=st.sampled_from(["smooth", "cliff"]),
)
def test_an_exception_in_fun_reaches_the_caller(d: int, max_evals: int, at: int, kind: str) -> None:
    fun = Counted(lambda x: KINDS[kind](x, None), fails_at=at)
    try:
        run = slgh.minimize(fun, np.full(d, 1.25), max_evals=max_evals, seed=0)
    except ZeroDivisionError:
        assert len(fun.values) == at - 1
    else:
        assert run.nfev == len(fun.values) < at


def test_no_variables_are_an_error_as_before() -> None:
    with pytest.raises(ValueError, match="`x0` must have at least one variable"):
        slgh.minimize(bowl, [])


@pytest.mark.parametrize(("samples", "max_evals"), [(400, 5000), (4000, 5000), (700, 1500)])
def test_iterations_that_do_not_fit_end_nothing_in_a_loop(samples: int, max_evals: int) -> None:
    run = minimize(waves, np.full(3, 3.3), samples=samples, max_evals=max_evals)
    assert run.nfev <= max_evals
    assert run.success


def test_variables_that_are_all_fixed() -> None:
    for d, max_evals in ((2, 80), (2, 900), (12, 900)):
        run = minimize(bowl, np.ones(d), bounds=[(1, 1)] * d, max_evals=max_evals)
        assert run.nfev <= max_evals
        np.testing.assert_array_equal(run.x, np.ones(d))


# It can be broken off anywhere, and goes on to the same result.


class Stopper(Exception):
    """Raised by a function that has had enough."""


START = np.full(11, 1.25)
"""With so many variables all local searches are by L-BFGS-B."""

FEWER = np.full(3, 1.25)
"""With these many are by quadratic models."""


def resumable(fun: Point, x0: Any = START, **options: Any) -> slgh.Result:
    """A run with all phases."""
    return slgh.minimize(fun, x0, **{"max_evals": 80 * (x0.size + 1), "seed": 4, "history": "x", **options})


@functools.cache
def uninterrupted(fun: Point, *, fewer: bool = False) -> slgh.Result:
    return resumable(fun, FEWER if fewer else START)


def assert_same_run(a: slgh.Result, b: slgh.Result) -> None:
    assert_same(a, b)
    assert (a.message, a.success) == (b.message, b.success)


def everywhere(fun: Point) -> list[int]:
    """Calls in every phase: at the start, within the look, and every so many evaluations from then on."""
    return [1, 2, 20, *range(50, uninterrupted(fun).nfev, 101), uninterrupted(fun).nfev]


@pytest.mark.parametrize("fun", [bowl, waves, cliff, calm])
def test_the_runs_that_are_broken_off_have_all_phases(fun: Point) -> None:
    whole = uninterrupted(fun)
    assert "f looked" in whole.message
    assert "local search" in whole.message
    assert (whole.history["t"] > 0).any()
    assert (whole.history["t"] == 0).any()


@every_function
def test_a_run_broken_off_by_an_exception_is_continued_bit_for_bit(fun: Point, tmp_path: Path) -> None:
    for at in everywhere(fun):
        file = tmp_path / f"{at}.npz"
        with pytest.raises(Stopper):
            resumable(Counted(fun, at, Stopper), checkpoint=file)
        rest = Counted(fun)
        assert_same_run(resumable(rest, checkpoint=file), uninterrupted(fun))
        assert len(rest.values) < uninterrupted(fun).nfev - at + 100, "what was answered is not asked again"


@pytest.mark.parametrize("fun", [valley, cliff])
def test_a_run_broken_off_again_and_again(fun: Point, tmp_path: Path) -> None:
    file, sittings = tmp_path / "run.npz", 0
    while True:
        sittings += 1
        try:
            run = resumable(Counted(fun, 41, Stopper), FEWER, checkpoint=file)
        except Stopper:
            continue
        break
    assert sittings > 5
    assert_same_run(run, uninterrupted(fun, fewer=True))


@pytest.mark.parametrize("fun", [valley, waves])
def test_a_run_broken_off_by_the_keyboard_is_continued_bit_for_bit(fun: Point, tmp_path: Path) -> None:
    for at in everywhere(fun)[1::2]:
        file = tmp_path / f"{at}.npz"
        broken = resumable(Counted(fun, at, KeyboardInterrupt), checkpoint=file)
        assert broken.status == slgh.Status.INTERRUPTED
        assert_same_run(resumable(fun, checkpoint=file), uninterrupted(fun))


class Clock:
    """A clock that stands still until it is told."""

    def __init__(self) -> None:
        self.now = 0.0
        self.ticks, self.jumps_at = 0, 0

    def tick(self) -> None:
        self.ticks += 1
        self.now += 2.0 * (self.ticks == self.jumps_at)

    def monotonic(self) -> float:
        return self.now


@pytest.mark.parametrize("fun", [valley, waves, calm])
def test_a_run_whose_time_was_up_is_continued_bit_for_bit(
    fun: Point, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in everywhere(fun)[1::2]:
        clock, file = Clock(), tmp_path / f"{at}.npz"
        slow = Counted(lambda x, clock=clock: clock.tick() or fun(x))
        clock.jumps_at = at
        monkeypatch.setattr(loop, "time", clock)
        cut = resumable(slow, checkpoint=file, max_seconds=1.0)
        assert cut.status == slgh.Status.MAX_SECONDS or at == uninterrupted(fun).nfev
        assert cut.nfev <= at + 100
        assert_same_run(resumable(fun, checkpoint=file), uninterrupted(fun))


@pytest.mark.parametrize("fun", [valley, waves])
def test_a_run_that_was_killed_goes_on_from_its_last_checkpoint(fun: Point, tmp_path: Path) -> None:
    file, copies = tmp_path / "run.npz", []
    calls = Counted(fun)

    def watched(x: Any) -> float:
        if len(calls.values) % 103 == 0:
            copies.append(tmp_path / f"{len(copies)}.npz")
            shutil.copy(file, copies[-1])
        return calls(x)

    resumable(watched, checkpoint=slgh.Checkpoint(path=file, every_iterations=3))
    assert len(copies) > 6
    for copy in copies:
        assert_same_run(resumable(fun, checkpoint=copy), uninterrupted(fun))


def shaky(asked: list[int]) -> Point:
    """A bowl with noise that is the same each time at the same point, but for the start."""

    def fun(x: Any) -> float:
        asked[0] += 1
        again = asked[0] if (x == START).all() else 0
        return float(bowl(x)) + np.random.default_rng([*x.view(np.uint64).tolist(), again]).normal()

    return fun


def test_a_noisy_run_is_continued_bit_for_bit(tmp_path: Path) -> None:
    whole = resumable(shaky([0]))
    assert "looked noisy" in whole.message
    for at in (150, 300, 700):
        file = tmp_path / f"{at}.npz"
        with pytest.raises(Stopper):
            resumable(Counted(shaky([0]), at, Stopper), checkpoint=file)
        assert_same_run(resumable(shaky([at]), checkpoint=file), whole)


@every_function
def test_a_finished_run_is_finished(fun: Point, tmp_path: Path) -> None:
    file, calls = tmp_path / "run.npz", Counted(fun)
    resumable(fun, checkpoint=file)
    assert_same_run(resumable(calls, checkpoint=file), uninterrupted(fun))
    assert calls.values == []


def test_a_run_that_gave_up_has_given_up(tmp_path: Path) -> None:
    file, calls = tmp_path / "run.npz", Counted(lambda x: np.nan)
    first = resumable(calls, checkpoint=file)
    again = resumable(Counted(lambda x: np.nan), checkpoint=file)
    assert first.status == again.status == slgh.Status.NONFINITE
    assert (first.nfev, first.nit, first.message) == (again.nfev, again.nit, again.message)


def test_a_run_that_reached_its_target_has_reached_it(tmp_path: Path) -> None:
    file = tmp_path / "run.npz"
    first = resumable(valley, checkpoint=file, target=0.01)
    calls = Counted(valley)
    assert_same_run(resumable(calls, checkpoint=file, target=0.01), first)
    assert (first.status, calls.values) == (slgh.Status.TARGET, [])


def test_another_budget_is_another_run(tmp_path: Path) -> None:
    resumable(bowl, checkpoint=tmp_path / "run.npz")
    with pytest.raises(ValueError, match="number of evaluations, which the method plans by is 960, here it is 961"):
        resumable(bowl, checkpoint=tmp_path / "run.npz", max_evals=961)


def test_other_stages_are_another_run(tmp_path: Path) -> None:
    resumable(bowl, checkpoint=tmp_path / "run.npz")
    with pytest.raises(ValueError, match="belongs to another run: its phases is"):
        resumable(bowl, checkpoint=tmp_path / "run.npz", phases=("homotopy", "local_search"))


def tell_all(opt: slgh.Optimizer, fun: Point) -> slgh.Result:
    while not opt.stop():
        points = opt.ask()
        opt.tell(points, np.array([fun(point) for point in points]))
    return opt.result


@every_function
@pytest.mark.parametrize(("x0", "max_evals"), [(FEWER, 30), (FEWER, 150), (START, 150), (START, 960)])
def test_ask_and_tell_is_the_same_run(fun: Point, x0: Any, max_evals: int) -> None:
    opt = slgh.Optimizer(x0, max_evals=max_evals, seed=4, history="x")
    assert_same_run(tell_all(opt, fun), resumable(fun, x0, max_evals=max_evals))


def test_ask_and_tell_with_gradients_is_the_same_run() -> None:
    opt = slgh.Optimizer(START, gradients=True, max_evals=200, seed=4, history="x")
    while not opt.stop():
        points = opt.ask()
        answer = slope if opt.asks == "grad" else bowl
        opt.tell(points, np.array([answer(point) for point in points]))
    assert opt.result.njev > 0
    assert_same_run(opt.result, resumable(bowl, grad=slope, max_evals=200))


def test_ask_and_tell_is_continued(tmp_path: Path) -> None:
    for asked in (1, 2, 5, 20, 40):
        options = {"max_evals": 960, "seed": 4, "history": "x"}
        opt = slgh.Optimizer(
            START, checkpoint=slgh.Checkpoint(path=tmp_path / f"{asked}.npz", every_iterations=1), **options
        )
        for _ in range(asked):
            points = opt.ask()
            opt.tell(points, [valley(point) for point in points])
        del opt
        again = slgh.Optimizer(START, checkpoint=tmp_path / f"{asked}.npz", **options)
        assert_same_run(tell_all(again, valley), uninterrupted(valley))


# What happens within a local search.

LOCAL: dict[str, Any] = {"phases": ("local_search", "restarts"), "seed": 0}
"""A run that is nothing but local searches."""


@pytest.mark.parametrize("max_evals", [60, 2000], ids=["models", "l-bfgs-b"])
@pytest.mark.parametrize("at", [2, 9, 40])
def test_an_exception_in_a_local_search_has_its_own_traceback(max_evals: int, at: int) -> None:
    fun = Counted(valley, at)
    with pytest.raises(ZeroDivisionError) as caught:
        slgh.minimize(fun, np.full(4, -1.0), max_evals=max_evals, **LOCAL)
    assert caught.traceback[-1].name == "__call__"
    assert "slgh: raised after" in caught.value.__notes__[0]


@pytest.mark.parametrize("max_evals", [60, 2000], ids=["models", "l-bfgs-b"])
def test_an_optimizer_in_a_local_search_has_no_thread(max_evals: int) -> None:
    before = threading.enumerate()
    opt = slgh.Optimizer(np.full(4, -1.0), max_evals=max_evals, **LOCAL)
    for _ in range(5):
        points = opt.ask()
        opt.tell(points, [valley(point) for point in points])
        assert threading.enumerate() == before


def test_two_runs_do_not_disturb_each_other() -> None:
    options = {"max_evals": 200, **LOCAL}
    alone = [slgh.minimize(fun, np.full(4, -1.0), **options) for fun in (valley, bowl)]
    both = [slgh.Optimizer(np.full(4, -1.0), **options) for _ in range(2)]
    while not all(opt.stop() for opt in both):
        for opt, fun in zip(both, (valley, bowl), strict=True):
            if not opt.stop():
                points = opt.ask()
                opt.tell(points, [fun(point) for point in points])
    for opt, run in zip(both, alone, strict=True):
        assert_same_run(opt.result, run)


def test_ctrl_c_in_a_local_search_returns_what_there_is() -> None:
    calls = Counted(valley)

    def pressed(x: Any) -> float:
        if len(calls.values) == 70:
            signal.raise_signal(signal.SIGINT)
        return calls(x)

    run = slgh.minimize(pressed, np.full(4, -1.0), max_evals=2000, **LOCAL)
    assert run.status == slgh.Status.INTERRUPTED
    assert run.fun == min(calls.values)


@pytest.mark.parametrize("max_evals", [60, 2000], ids=["models", "l-bfgs-b"])
def test_the_target_ends_a_local_search(max_evals: int) -> None:
    calls = Counted(bowl)
    run = slgh.minimize(calls, np.full(4, -1.0), max_evals=max_evals, target=1.5, **LOCAL)
    assert (run.status, run.success) == (slgh.Status.TARGET, True)
    assert run.fun == bowl(run.x) <= 1.5
    assert run.nfev == len(calls.values) <= max_evals
    assert min(calls.values[:-5]) > 1.5


def test_the_callback_sees_a_local_search_and_ends_it() -> None:
    seen: list[Any] = []

    def look_on(intermediate_result: Any) -> bool:
        seen.append(intermediate_result)
        return len(seen) == 4

    run = slgh.minimize(valley, np.full(4, -1.0), max_evals=2000, callback=look_on, **LOCAL)
    assert (run.status, run.nit, run.nfev) == (slgh.Status.CALLBACK, 4, 1 + 4 * 5)
    assert [(r.nit, r.t) for r in seen] == [(1, 0.0), (2, 0.0), (3, 0.0), (4, 0.0)]
    assert all(r.fun == valley(r.x) and r.fun_best == valley(r.x_best) for r in seen)
    np.testing.assert_array_equal(seen[0].x, np.full(4, -1.0))


def test_a_callback_may_raise_stop_iteration() -> None:
    def enough(result: Any) -> None:
        raise StopIteration

    assert slgh.minimize(valley, np.full(4, -1.0), max_evals=2000, callback=enough, **LOCAL).nit == 1


def test_an_exception_in_the_callback_reaches_the_caller() -> None:
    def fail(result: Any) -> None:
        raise KeyError("callback")

    with pytest.raises(KeyError, match="callback"):
        slgh.minimize(valley, np.full(4, -1.0), max_evals=2000, callback=fail, **LOCAL)


def test_time_that_is_up_ends_a_local_search(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(loop, "time", clock)

    def slow(x: Any) -> float:
        clock.now += 1.0
        return float(valley(x))

    run = slgh.minimize(slow, np.full(4, -1.0), max_evals=2000, max_seconds=50.0, **LOCAL)
    assert run.status == slgh.Status.MAX_SECONDS
    assert 50 <= run.nfev <= 50 + 9


@pytest.mark.parametrize("max_evals", [60, 2000], ids=["models", "l-bfgs-b"])
def test_a_bad_value_in_a_local_search_raises_if_that_is_wanted(max_evals: int) -> None:
    with pytest.raises(FloatingPointError):
        slgh.minimize(cliff, np.full(4, 1.4), max_evals=max_evals, on_nonfinite="raise", **LOCAL)


def test_the_progress_bar_counts_evaluations(capsys: pytest.CaptureFixture[str]) -> None:
    run = resumable(waves, progress=True)
    assert_same_run(run, uninterrupted(waves))
    shown = capsys.readouterr().err
    assert f"{run.nfev}/960" in shown
    assert "best" in shown


@every_function
def test_history_has_a_row_for_each_step(fun: Point) -> None:
    run = uninterrupted(fun)
    history = run.history
    np.testing.assert_array_equal(history["iteration"], np.arange(run.nit))
    assert (np.diff(history["nfev"]) > 0).all()
    assert (np.diff(history["fun_best"]) <= 0).all()
    assert history["fun_best"][-1] == run.fun
    local = history["t"] == 0
    np.testing.assert_array_equal(history["fun"][local], [fun(x) for x in history["x"][local]])


def test_a_step_whose_differences_take_several_requests_is_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    one = minimize(valley, np.full(8, -1.0), max_evals=600, history="x", **LOCAL)
    monkeypatch.setattr("slgh.auto.local_search.CHUNK", 3 * 8)
    several = minimize(valley, np.full(8, -1.0), max_evals=600, history="x", **LOCAL)
    n = len(one.history["x"])
    np.testing.assert_array_equal(several.history["x"][:n], one.history["x"])
    assert len(several.history["x"]) <= n + 1, "the last step may have been begun"
    assert several.history["nfev"][0] == 1 + 1 + 3, "the start, and the first three of eight differences"


# The look and the local search by themselves.


def answered(talk: Any, fun: Point, gradient: Point = slope) -> tuple[Any, int]:
    """What a conversation returns, and how many evaluations it took."""
    answer, n = None, 0
    while True:
        try:
            request = talk.send(answer)
        except StopIteration as end:
            return end.value, n
        n += len(request.points)
        answer = np.array([(gradient if request.gradient else fun)(x) for x in request.points])


def ackley(x: Any) -> Any:
    return -20 * np.exp(-0.2 * np.sqrt(np.mean(x**2))) - np.exp(np.mean(np.cos(2 * np.pi * x))) + 20 + np.e


NOISE = np.random.default_rng(0)


@pytest.mark.parametrize("d", [2, 10, 40])
@pytest.mark.parametrize("unit", [1.0, 2.0**60])
@pytest.mark.parametrize(
    ("fun", "verdict"),
    [
        (lambda x: np.sum(x**2), Landscape.SMOOTH),
        (lambda x: np.sum(10.0 ** np.linspace(0, 6, x.size) * x**2), Landscape.SMOOTH),
        (lambda x: np.sum(x), Landscape.SMOOTH),
        (lambda x: 7.0, Landscape.SMOOTH),
        (lambda x: 1e9 + np.sum(x**2), Landscape.SMOOTH),
        (valley, Landscape.SMOOTH),
        (waves, Landscape.RUGGED),
        (ackley, Landscape.RUGGED),
        (lambda x: np.sum(x**2) if x[0] > 3.1 else np.nan, Landscape.RUGGED),
        (lambda x: np.nan, Landscape.RUGGED),
        (lambda x: np.sum(x**2) * (1 + 0.01 * NOISE.normal()), Landscape.NOISY),
        (lambda x: NOISE.normal(), Landscape.NOISY),
        (lambda x: np.sum(x**2) + 100 * NOISE.standard_cauchy() * (NOISE.random() < 0.05), Landscape.NOISY),
    ],
    ids=[
        *("sphere", "ellipsoid", "linear", "constant", "offset", "valley", "waves", "ackley"),
        *("cliff", "nothing", "noise of f", "noise", "outliers"),
    ],
)
def test_the_look_tells_smooth_from_rugged_from_noisy(fun: Point, verdict: Landscape, d: int, unit: float) -> None:
    right = 0
    for seed in range(5):
        ends = np.random.default_rng([seed, d]).uniform(-5, 5, (6, d))
        found, n = answered(check_landscape(np.full(d, 3.3), ends, 2.0**-52), lambda x: unit * fun(x))
        assert n == 6 * (POINTS + 1)
        right += found is verdict
    assert right >= 4


def judged(values: Any, n: int = 6, d: int = 8) -> Landscape:
    """The verdict of a look whose requests, first and second, are answered by `values` of all their points."""
    talk = check_landscape(np.full(d, 3.3), np.random.default_rng(0).uniform(-5, 5, (n, d)), 2.0**-52)
    points = next(talk).points
    points = talk.send(values(points, 1)).points
    assert points.shape == (n, d)
    with pytest.raises(StopIteration) as end:
        talk.send(values(points, 2))
    return end.value.value


@pytest.mark.parametrize("n", [1, 2, 3, 6])
@pytest.mark.parametrize("f", [np.square, np.negative])
def test_last_digits_that_depend_on_how_many_points_are_asked_are_no_noise(f: Any, n: int) -> None:
    single = lambda values: values.astype(np.float32).astype(float)  # noqa: E731
    assert judged(lambda points, request: single(f(points).sum(axis=1) * (1 + 5e-7 * request)), n) is Landscape.SMOOTH


@pytest.mark.parametrize("n", [1, 2, 3, 6])
def test_an_answer_that_changes_is_noise(n: int) -> None:
    def one_jumps(points: Any, request: int) -> Any:
        values = np.sum(points**2, axis=1)
        if request == 1:
            values[POINTS // 2] += 100.0
        return values

    assert judged(one_jumps, n) is Landscape.NOISY
    assert judged(lambda points, request: np.sum(points**2, axis=1) + np.log(2.5 - request), n) is Landscape.NOISY
    assert (
        judged(lambda points, request: np.sum(points**2, axis=1) * (np.nan if request > 1 else 1), n) is Landscape.NOISY
    )
    assert judged(lambda points, request: np.full(len(points), 1.0 if request > 1 else np.nan), n) is Landscape.NOISY


def test_one_value_of_each_line_that_is_not_finite_hides_no_noise() -> None:
    def holed(points: Any, request: int) -> Any:
        values = np.sum(points**2, axis=1)
        if request == 1:
            values = values.reshape(6, -1) + 10 * np.random.default_rng(1).normal(size=(6, POINTS))
            values[:, 7] = np.inf
            values = values.ravel()
        return values

    assert judged(holed) is Landscape.NOISY


def test_values_close_to_the_greatest_number_are_looked_at_without_a_warning() -> None:
    assert judged(lambda points, request: 1.7e308 * np.cos(points[:, 0])) is not Landscape.NOISY


def test_numbers_of_few_digits_are_no_ruggedness() -> None:
    ends = np.random.default_rng(0).uniform(-5, 5, (6, 8))
    coarse = lambda x: float(np.float32(bowl(x)))  # noqa: E731
    eps = float(np.finfo(np.float32).eps)
    assert answered(check_landscape(np.full(8, 3.3), ends, eps), coarse)[0] is Landscape.SMOOTH
    short = np.full(8, 3.3) + 1e-4 * ends
    assert answered(check_landscape(np.full(8, 3.3), short, eps), coarse)[0] is Landscape.SMOOTH


def test_a_small_budget_is_not_looked_at() -> None:
    assert [affordable_lines(budget) for budget in (0, 100, 283)] == [0, 0, 0]
    assert affordable_lines(10_000) * (POINTS + 1) <= 600


def place(x: Any, low: float = -np.inf, high: float = np.inf, dtype: Any = np.float64) -> SearchRegion:
    x = np.asarray(x, float)
    ones = np.ones_like(x)
    return SearchRegion(x=x, unit=ones, low=low * ones, high=high * ones, dtype=np.dtype(dtype))


def ellipsoid(x: Any) -> float:
    return float(np.sum(10.0 ** np.linspace(0, 6, x.size) * (x - 0.5) ** 2))


@pytest.mark.parametrize(("fun", "d", "budget"), [(valley, 10, 2500), (ellipsoid, 20, 4000), (valley, 3, 2000)])
def test_a_local_search_finds_the_minimum(fun: Point, d: int, budget: int) -> None:
    (x, low, _), n = answered(local_search(place(np.full(d, -1.0)), budget, np.inf, gradients=False), fun)
    assert n <= budget
    assert low == fun(x) < 1e-9


@pytest.mark.parametrize("fun", [bowl, lambda x: 1 + float(np.sum(np.cumsum(x - 0.3) ** 2))])
def test_few_variables_on_a_short_budget_are_left_to_quadratic_models(fun: Point) -> None:
    d, budget = 3, MODEL_MAX_GRADIENTS * 4 - 1
    assert d <= MODEL_MAX_VARIABLES
    sizes = []

    def talk() -> Any:
        inner, answer = local_search(place(np.full(d, -1.0)), budget, np.inf, gradients=False), None
        while True:
            try:
                request = inner.send(answer)
            except StopIteration as end:
                return end.value
            sizes.append(len(request.points))
            answer = yield request

    (x, low, _), n = answered(talk(), fun)
    assert set(sizes) == {1}, "quadratic models take no differences"
    assert n <= budget
    assert low == fun(x) < 1 + 1e-5


def test_a_local_search_on_gradients() -> None:
    gradient = lambda x: 2 * 10.0 ** np.linspace(0, 6, x.size) * (x - 0.5)  # noqa: E731
    (_, low, _), n = answered(local_search(place(np.full(20, -1.0)), 1000, np.inf, gradients=True), ellipsoid, gradient)
    assert low < 1e-9
    assert n <= 1000


def test_a_local_search_keeps_to_the_bounds() -> None:
    def inside(x: Any) -> float:
        assert (x >= 0.75).all()
        assert (x <= 2).all()
        return float(valley(x))

    (x, _, _), _ = answered(local_search(place(np.full(5, 2.0), 0.75, 2.0), 2000, np.inf, gradients=False), inside)
    np.testing.assert_allclose(x, np.ones(5), atol=1e-5)


def test_a_local_search_below_no_rival_ends_early() -> None:
    above = lambda x: 1 + ellipsoid(x)  # noqa: E731
    (_, low, converged), whole = answered(local_search(place(np.ones(8)), 5000, np.inf, gradients=False), above)
    _, early = answered(local_search(place(np.ones(8)), 5000, -1.0, gradients=False), above)
    assert converged
    assert low < 1 + 1e-12
    assert early < whole


@settings(max_examples=25)
@given(d=st.integers(1, 12), budget=st.integers(1, 300), seed=st.integers(0, 50))
def test_a_local_search_never_asks_for_more_than_it_has(d: int, budget: int, seed: int) -> None:
    x = np.random.default_rng(seed).normal(size=d)
    seen = Counted(waves)
    (best, low, _), n = answered(local_search(place(x), budget, np.inf, gradients=False), seen)
    assert n <= budget
    assert np.isfinite(best).all()
    assert low == np.inf or low in seen.values


# Functions that are not nice.


def test_nowhere_finite_is_given_up() -> None:
    run = resumable(lambda x: np.nan)
    assert (run.status, run.success) == (slgh.Status.NONFINITE, False)
    assert np.isnan(run.fun)


@pytest.mark.parametrize("d", [1, 4, 15])
def test_a_start_where_f_is_not_finite_does_not_matter_if_it_is_so_nearby(d: int) -> None:
    beyond = lambda x: np.where(x[..., 0] > 0, np.nan, np.sum((x + 1) ** 2, axis=-1))  # noqa: E731
    run = minimize(beyond, np.full(d, 0.1))
    assert run.success
    assert run.fun < 1e-6


def test_a_domain_with_a_narrow_entrance() -> None:
    barrier = lambda x: np.sum(x - np.log(np.where((x > 0).all(-1, keepdims=True), x, np.nan)), -1)  # noqa: E731
    run = minimize(barrier, np.full(10, 0.1))
    assert run.success
    assert run.fun == pytest.approx(10.0, abs=1e-6)


@pytest.mark.parametrize("height", [0.0, -3.0, 1e300])
def test_a_plateau(height: float) -> None:
    run = minimize(lambda x: np.full(x.shape[:-1], height), np.ones(3))
    assert (run.fun, run.status) == (height, slgh.Status.COMPLETED)


def test_a_staircase_is_descended() -> None:
    run = minimize(lambda x: np.sum(np.floor(np.abs(x)), axis=-1), np.full(6, 4.4))
    assert run.fun <= 1.0


@pytest.mark.parametrize("fun", [lambda x: np.sum(x, -1), lambda x: -np.sum(np.exp(x), -1)], ids=["line", "exp"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_function_without_a_minimum_leads_to_no_infinite_point(fun: Point, dtype: Any) -> None:
    def finite(x: Any) -> Any:
        assert np.isfinite(x).all()
        with np.errstate(over="ignore", invalid="ignore"):
            return fun(x)

    run = minimize(finite, np.ones(4, dtype))
    assert np.isfinite(run.x).all()
    assert run.fun < -1e3


@pytest.mark.parametrize("size", [1e300, 1e-300])
def test_values_of_any_size(size: float) -> None:
    run = minimize(lambda x: size * bowl(x), np.ones(4))
    assert run.fun < (1 + 1e-12) * size


def test_noise_is_seen_and_the_last_iterate_reported() -> None:
    rng = np.random.default_rng(0)
    exact = lambda x: float(np.sum(x**2))  # noqa: E731
    noisy = Counted(lambda x: exact(x) + rng.normal())
    run = slgh.minimize(noisy, np.full(5, 3.0), max_evals=2000, seed=1)
    assert "f looked noisy: 1 homotopy." in run.message
    assert "local search" not in run.message
    assert run.nfev == len(noisy.values)
    assert run.fun == noisy.values[-1] > min(noisy.values) == run.fun_best
    assert exact(run.x) < 1.0


# What is given to it.


def sizes_of(message: str) -> tuple[bool, bool]:
    return "homotop" in message, "local search" in message


@pytest.mark.parametrize(
    ("phases", "done"),
    [
        (("homotopy",), (True, False)),
        ("homotopy", (True, False)),
        (("landscape", "homotopy"), (True, False)),
        (("local_search",), (False, True)),
        (("landscape", "local_search", "restarts"), (False, True)),
        (("homotopy", "local_search"), (True, True)),
        (("landscape", "homotopy", "local_search"), (True, True)),
        (("restarts", "local_search", "homotopy", "landscape"), (True, True)),
    ],
)
def test_stages_are_chosen(phases: Any, done: tuple[bool, bool]) -> None:
    run = minimize(waves, np.full(4, 3.3), max_evals=1500, phases=phases)
    assert sizes_of(run.message) == done
    assert ("f looked rugged" in run.message) == ("landscape" in phases and all(done)), "there is a choice to make"
    t = run.history["t"]
    assert ((t > 0).any(), (t == 0).any()) == done


@pytest.mark.parametrize("max_evals", [2, 3, 10, 60])
def test_a_local_search_alone_is_one_on_any_budget(max_evals: int) -> None:
    run = minimize(waves, np.full(4, 3.3), max_evals=max_evals, phases=("landscape", "local_search"))
    assert run.nfev <= max_evals
    assert not run.history["t"].any()
    assert sizes_of(run.message) == (False, True)


def test_the_homotopy_alone_is_scale_free() -> None:
    x0 = np.full(4, 3.3)
    alone = minimize(waves, x0, max_evals=1500, phases="homotopy", history="x")
    plain = minimize(waves, x0, max_evals=1500, method="scale_free", history="x")
    np.testing.assert_array_equal(alone.history["x"], plain.history["x"])


@pytest.mark.parametrize(
    "options",
    [
        {"batched": True},
        {"values": "ranks"},
        {"max_iter": 40},
        {"update": "scale_free"},
        {"oracle": "antithetic"},
    ],
)
def test_what_is_no_single_problem_gets_the_plain_composition(options: dict[str, Any]) -> None:
    x0 = np.random.default_rng(0).normal(size=(3, 4))
    x0 = x0 if options.get("batched") else x0[0]
    options = {"max_evals": 700, "history": "x", **options}
    assert_same(minimize(waves, x0, **options), minimize(waves, x0, method="scale_free", **options))


def test_a_stochastic_function_gets_the_plain_composition() -> None:
    fun = lambda x, xi: waves(x) + 0.1 * xi  # noqa: E731
    options = {"max_evals": 700, "sample_xi": 5, "history": "x"}
    assert_same(minimize(fun, np.ones(4), **options), minimize(fun, np.ones(4), method="scale_free", **options))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (
            {"phases": ("local_search", "sleep")},
            "`phases` must be one of 'landscape', 'homotopy', 'local_search', 'restarts'",
        ),
        ({"phases": ("landscape", "restarts")}, "`phases` must have 'homotopy' or 'polish' among them"),
        ({"phases": ()}, "`phases` must have"),
        ({"phases": ("local_search",), "max_iter": 10}, "`phases` are for a single problem limited by max_evals"),
        ({"phases": ("local_search",), "values": "ranks"}, "`phases` are for a single problem"),
        ({"phases": ("local_search",), "update": "scale_free"}, "`phases` are for a single problem"),
        (
            {"phases": ("local_search",), "method": "zoslgh_r", "t1": 1.0, "step": 1.0},
            "`phases` is not a parameter of 'zoslgh_r'",
        ),
    ],
)
def test_wrong_phases(options: dict[str, Any], match: str) -> None:
    with pytest.raises((ValueError, TypeError), match=match):
        minimize(bowl, np.ones(3), **options)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_dtype_is_kept(dtype: Any) -> None:
    def typed(x: Any) -> Any:
        assert x.dtype == dtype
        return valley(x)

    run = minimize(typed, np.full(4, -1.0, dtype), history="x")
    assert run.x.dtype == run.x_best.dtype == run.history["x"].dtype == run.history["fun"].dtype == dtype
    assert run.fun < (1e-3 if dtype == np.float32 else 1e-10)


def test_bounds_are_kept_in_float32() -> None:
    low, high = np.float32(0.1), np.float32(2.3)

    def inside(x: Any) -> Any:
        assert (x >= low).all()
        assert (x <= high).all()
        return waves(x)

    assert minimize(inside, np.full(4, 2.0, np.float32), bounds=[(low, high)] * 4).nfev > 1000


def test_a_gradient_is_used() -> None:
    calls = {"fun": 0, "grad": 0}

    def fun(x: Any) -> float:
        calls["fun"] += 1
        return float(bowl(x))

    def grad(x: Any) -> Any:
        calls["grad"] += 1
        return slope(x)

    for x0, max_evals in ((np.ones(40), 300), (np.ones(3), 30), (np.ones(3), 5), (np.ones(2), 1)):
        calls.update(fun=0, grad=0)
        run = slgh.minimize(fun, x0, grad=grad, max_evals=max_evals, seed=0)
        assert (run.nfev, run.njev) == (calls["fun"], calls["grad"])
        assert run.nfev + run.njev <= max_evals
        assert run.fun <= bowl(x0)
    run = slgh.minimize(fun, np.ones(40), grad=grad, max_evals=300, seed=0)
    assert run.njev > 0
    assert run.fun < 1 + 1e-10


def test_a_closed_form_is_used() -> None:
    run = minimize(slgh.problems.rosenbrock().smooth, np.array([-3.0, 2.0]), max_evals=3000, history="x")
    assert "closed_form" in run.message or "local search" in run.message
    assert run.njev > 0
    assert run.nfev + run.njev <= 3000
    assert run.fun < 1e-10
    assert (run.history["t"] == 0).any()


def test_many_variables_on_a_small_budget_have_the_homotopy_alone() -> None:
    run = minimize(lambda x: np.sum(x**2, -1), np.ones(2000), max_evals=3000)
    assert sizes_of(run.message) == (True, False)
    assert run.nfev <= 3000
    assert run.fun < 2000 * 0.9


def test_workers_give_the_same_run() -> None:
    assert_same_run(resumable(waves, workers=map), uninterrupted(waves))


def test_data_and_arguments_reach_the_function() -> None:
    center, options = np.arange(4.0), {"max_evals": 600, "seed": 0}
    plain = minimize(lambda x: np.sum((x - center) ** 2, axis=-1), np.zeros(4), **options)
    given = minimize(
        lambda x, a, c: c * np.sum((x - a) ** 2, axis=-1), np.zeros(4), data=center, args=(1.0,), **options
    )
    assert_same_run(given, plain)


def test_functions_of_tensors_are_differentiated_where_that_is_wanted() -> None:
    run = minimize(valley, torch.full((4,), -1.3, dtype=torch.float64), grad=True, max_evals=600)
    assert run.njev > 100
    assert run.nfev + run.njev <= 600
    assert run.fun < 1e-10


@pytest.mark.parametrize("fun", [valley, waves])
def test_torch_tensors(fun: Point) -> None:
    seen = []

    def typed(x: Any) -> Any:
        seen.append(isinstance(x, torch.Tensor) and x.dtype == torch.float64)
        return fun(x)

    run = minimize(typed, torch.full((4,), -1.3, dtype=torch.float64), max_evals=1500)
    plain = minimize(fun, np.full(4, -1.3), max_evals=1500)
    assert all(seen)
    assert isinstance(run.x, torch.Tensor)
    assert run.message.split("Chosen")[0][:40] == plain.message.split("Chosen")[0][:40]
    assert run.fun == pytest.approx(plain.fun, abs=1e-6)


@pytest.mark.parametrize(("fun", "compiled"), [(waves, True), (waves, False), (valley, False)])
def test_jax_arrays(fun: Point, compiled: bool) -> None:
    run = minimize(fun, jnp.full(4, -1.3), max_evals=1500, compiled=compiled, history="x")
    assert run.engine == ("jax while_loop" if compiled else "jax python loop")
    assert "local search" in run.message
    assert run.success
    assert run.nfev <= 1500
    assert isinstance(run.x, jnp.ndarray)
    assert run.fun == pytest.approx(float(fun(run.x)), rel=1e-12, abs=1e-12)
    assert run.fun < (1e-8 if fun is valley else 4.0)
    assert len(run.history["fun"]) == run.nit


def test_a_compiled_run_is_continued(tmp_path: Path) -> None:
    x0, options = jnp.full(4, -1.3), {"max_evals": 1500, "history": "x"}
    whole = minimize(waves, x0, **options)
    for seen_k in (10, 90, whole.nit - 3):
        file = tmp_path / f"{seen_k}.npz"
        cut = minimize(waves, x0, checkpoint=file, callback=lambda r, k=seen_k: r.nit == k, **options)
        assert cut.status == slgh.Status.CALLBACK
        assert_same(minimize(waves, x0, checkpoint=file, **options), whole)


# It says what it did.


def test_with_nothing_else_given_it_does_something_sensible_and_says_what() -> None:
    smooth = slgh.minimize(valley, np.full(5, -1.0))
    assert smooth.success
    assert smooth.fun < 1e-10
    assert smooth.nfev <= 1000 + 200 * 5
    assert "f looked smooth: " in smooth.message
    assert "local search" in smooth.message
    rugged = slgh.minimize(waves, np.full(5, 3.3))
    assert rugged.success
    assert rugged.fun < waves(np.full(5, 3.3)) / 10
    assert "f looked rugged: " in rugged.message
    assert "Chosen: diagonal_scaling x budget x scale_free, " in rugged.message
    assert " samples, t from 3.3 to " in rugged.message


def test_the_message_counts_what_was_done() -> None:
    once = minimize(waves, np.full(4, 3.3), max_evals=1500, phases=("landscape", "homotopy", "local_search"))
    assert "f looked rugged: 1 homotopy, 1 local search." in once.message
    local = minimize(valley, np.full(4, -1.0), max_evals=200, phases="local_search")
    assert local.message == "The planned iterations were completed. 1 local search."
    nothing = minimize(valley, np.full(4, -1.0), max_evals=1)
    assert nothing.message == "Cut short: the next iteration would exceed max_evals."


def test_the_message_of_a_run_that_was_cut_short_tells_what_it_was_at() -> None:
    stop = lambda at: lambda r: r.nit == at  # noqa: E731
    in_homotopy = minimize(waves, np.full(4, 3.3), max_evals=1500, callback=stop(5))
    assert "f looked rugged: 1 homotopy. Chosen: " in in_homotopy.message
    in_search = minimize(valley, np.full(4, -1.0), max_evals=1500, callback=stop(5))
    assert "f looked smooth: 1 local search." in in_search.message
