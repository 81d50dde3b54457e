"""Iterations close before all values have arrived, no value is lost, and the log repeats the run bit for bit."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import slgh
from cases import assert_same
from optimizer_cases import pickled, waves
from slgh.auto.covariance import Incumbent, SampleSpace, choose_rates, covariance_homotopy
from slgh.engine.arrivals import may_close, order_of_points
from slgh.protocols import Query

CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "homotopy": {"max_evals": 400, "samples": 5},
    "covariance": {"max_evals": 1800, "x0": [2.0, -1.0]},
    "one covariance homotopy": {"max_evals": 900, "x0": [2.0, -1.0], "phases": ("homotopy", "covariance")},
    "scale_free": {"method": "scale_free", "max_evals": 300, "values": "ranks", "samples": 6},
    "forward": {"method": "zoslgh_r", "t1": 1.0, "step": 0.05, "samples": 9, "max_iter": 12},
    "exponential": {"method": "power_gs", "t1": 1.0, "step": 0.05, "samples": 9, "sharpness": 1.0, "max_evals": 200},
    "bounds": {"max_evals": 300, "samples": 6, "bounds": [(-3.0, 3.0)] * 4},
    "penalize": {"max_evals": 300, "samples": 6, "on_nonfinite": "penalize"},
    "raise": {"max_evals": 300, "samples": 6, "on_nonfinite": "raise"},
}


def make(seed: int = 0, **options: Any) -> slgh.Optimizer:
    options = dict[str, Any](x0=np.full(4, 2.0), asynchronous=True, seed=seed) | options
    return slgh.Optimizer(options.pop("x0"), **options)


def sometimes_bad(x: Any) -> float:
    """Return NaN at about a tenth of the points."""
    return float("nan") if int(abs(x[0]) * 1e6) % 10 == 0 else float(waves(x))


Swap = Callable[[slgh.Optimizer], slgh.Optimizer]


class Crowd:
    """Workers with random delays on a virtual clock. A tenth of the evaluations take long, and some are abandoned."""

    def __init__(self, fun: Callable[[Any], float], workers: int, seed: int) -> None:
        self.fun, self.workers = fun, workers
        self.rng = np.random.default_rng(seed)
        self.running: list[tuple[float, int, Any]] = []
        self.clock, self.count = 0.0, itertools.count()
        self.asked: list[bytes] = []
        """Points that were handed out, without those that were handed out again after `abandon` or a resume."""
        self.told: list[bytes] = []
        self.again: set[bytes] = set()
        """Points that may be handed out again."""

    def drive(self, opt: slgh.Optimizer, *, steps: int | None = None, abandon: float = 0.0) -> slgh.Optimizer:
        """Evaluate until the run ends, or for this many values."""
        while not opt.stop() and (steps is None or steps > 0):
            for point in opt.ask(self.workers - len(self.running)):
                name = point.tobytes()
                if name in self.again:
                    self.again.remove(name)
                else:
                    self.asked.append(name)
                time = self.rng.random() + (20 if self.rng.random() < 0.1 else 0)
                heapq.heappush(self.running, (self.clock + time, next(self.count), point))
            if opt.stop():
                break
            assert self.running, "a point is out, or there is one to ask for"
            self.clock, _, point = heapq.heappop(self.running)
            if self.rng.random() < abandon:
                opt.abandon([point])
                self.again.add(point.tobytes())
                continue
            opt.tell([point], [self.fun(point)])
            self.told.append(point.tobytes())
            steps = None if steps is None else steps - 1
        return opt

    def die(self) -> None:
        """Lose all evaluations that run."""
        self.again |= {point.tobytes() for _, _, point in self.running}
        self.running = []


def closed(opt: slgh.Optimizer) -> int:
    """Return the number of iterations that were closed early."""
    return int((opt.arrivals[:, 1] == -1).sum())


# The order of arrival.


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_the_log_repeats_the_run_bit_for_bit(name: str) -> None:
    options = CONFIGURATIONS[name]
    fun = waves if name == "raise" else sometimes_bad
    opt = Crowd(fun, workers=6, seed=1).drive(make(**options))
    assert closed(opt) > 5, "iterations were closed early"
    other = make(**options)
    assert_same(other.replay(opt.arrivals, fun), opt.result)
    np.testing.assert_array_equal(other.arrivals, opt.arrivals)


@settings(max_examples=25)
@given(
    name=st.sampled_from(sorted(CONFIGURATIONS)),
    workers=st.integers(1, 12),
    seed=st.integers(0, 2**20),
    every=st.integers(20, 150),
    loses=st.booleans(),
)
@example(name="covariance", workers=8, seed=3, every=40, loses=True)
def test_any_delays_deaths_and_resumes_lose_nothing(
    name: str, workers: int, seed: int, every: int, loses: bool
) -> None:
    options = CONFIGURATIONS[name]
    crowd, opt = Crowd(waves, workers, seed), make(**options)
    while not opt.stop():
        opt = crowd.drive(opt, steps=every, abandon=0.05)
        if opt.stop():
            break
        opt = pickled(opt)
        if loses:
            crowd.die()
        else:  # the workers live on, but the Optimizer does not know that
            crowd.again |= {point.tobytes() for _, _, point in crowd.running}
            crowd.die()
    result = opt.result
    assert len(crowd.told) == len(set(crowd.told)), "no answered point is evaluated again"
    assert len(crowd.asked) == len(set(crowd.asked)), "each point is handed out once, unless its worker is gone"
    assert sorted(crowd.told) == sorted(crowd.asked), "the run has waited for every value"
    assert result.nfev == len(crowd.told)
    assert result.nfev <= options.get("max_evals", result.nfev)
    assert result.fun_best == min(float(waves(np.frombuffer(name))) for name in crowd.told)
    assert result.nrejected == 0
    assert_same(make(**options).replay(opt.arrivals, waves), result)


def test_the_log_of_an_unfinished_run_is_continued() -> None:
    first = Crowd(waves, 6, seed=2).drive(make(max_evals=300), steps=100)
    second = make(max_evals=300)
    assert not second.replay(first.arrivals, waves).success
    np.testing.assert_array_equal(second.arrivals, first.arrivals)
    crowds = Crowd(waves, 6, seed=5), Crowd(waves, 6, seed=5)
    a, b = crowds[0].drive(pickled(first)), crowds[1].drive(second)
    assert a.stop()
    assert b.stop()
    assert a.result.nfev == b.result.nfev


def test_a_log_of_another_run_is_refused() -> None:
    log = Crowd(waves, 6, seed=2).drive(make(max_evals=300)).arrivals
    with pytest.raises(ValueError, match=r"`arrivals` is not the log of this run: its row \d+ .*Pass the arguments"):
        make(max_evals=300, x0=[1.0, 2.0], samples=3).replay(log, waves)
    with pytest.raises(ValueError, match=r"its row 0 is \(0, -1\)"):
        make(max_evals=300).replay([(0, -1)], waves)
    for wrong in (log[:, :1], log.astype(float), log[0]):
        with pytest.raises(ValueError, match=r"`arrivals` must be integers of shape \(n, 2\)"):
            make(max_evals=300).replay(wrong, waves)
    opt = make(max_evals=300)
    opt.tell(points := opt.ask(1), waves(points))
    with pytest.raises(ValueError, match=r"`replay` needs an Optimizer that has received no values\. Make a new one"):
        opt.replay(log, waves)


def test_equal_points_are_replayed() -> None:
    options: dict[str, Any] = {"x0": np.zeros(2), "bounds": [(0.0, 0.0), (0.0, 0.0)], "method": "scale_free"}
    options |= {"t1": 1.0, "samples": 4, "max_iter": 4}
    opt, values = make(**options), itertools.count()
    while not opt.stop():
        points = opt.ask(3)
        opt.tell(points[::-1], [float(next(values) % 3) for _ in points])
    values = itertools.count()
    assert_same(make(**options).replay(opt.arrivals, lambda x: float(next(values) % 3)), opt.result)


# A synchronous user, and a run without `asynchronous`.


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_user_who_tells_all_points_gets_the_synchronous_run(name: str) -> None:
    options, results = dict(CONFIGURATIONS[name]), []
    if "method" not in options:
        # Without evaluations at single points, "auto" differs between the two: compare one of its phases.
        options = dict[str, Any](method="scale_free") | options
        options.pop("phases", None)
    for asynchronous in (False, True):
        opt = make(**options, asynchronous=asynchronous)
        while not opt.stop():
            points = opt.ask()
            opt.tell(points, [waves(x) if name == "raise" else sometimes_bad(x) for x in points])
        results.append(opt.result)
        assert not asynchronous or closed(opt) == 0
    assert_same(*results)


def test_a_synchronous_run_has_no_log() -> None:
    opt = make(asynchronous=False, max_evals=300)
    with pytest.raises(ValueError, match=r"`arrivals` is for asynchronous runs\. Pass asynchronous=True"):
        _ = opt.arrivals
    with pytest.raises(ValueError, match=r"`replay` is for asynchronous runs\. Pass asynchronous=True"):
        opt.replay(np.empty((0, 2), int), waves)


# When an iteration closes.


def at_a_homotopy(**options: Any) -> slgh.Optimizer:
    """Return a run of pairs x + t u, x - t u, whose start has its value."""
    opt = make(**dict[str, Any](method="scale_free", samples=6, max_evals=500) | options)
    opt.tell(points := opt.ask(1), waves(points))
    return opt


def test_an_iteration_closes_when_its_points_are_out_and_enough_values_are_there() -> None:
    opt = at_a_homotopy()
    points = opt.ask(12)
    assert len(points) == 12
    assert len(opt.ask(1)) == 0, "no value has arrived"
    opt.tell(points[:7], waves(points[:7]))
    assert len(opt.ask(1)) == 0, "7 of 12 values are too few"
    opt.tell(points[7:8], waves(points[7:8]))
    assert closed(opt) == 0, "only `ask` closes an iteration"
    assert len(opt.ask(1)) == 1
    assert closed(opt) == 1
    assert opt.result.nit == 1
    assert opt.result.nfev == 13, "the points in flight are counted"


def test_points_are_handed_out_pair_by_pair() -> None:
    opt = at_a_homotopy()
    points = opt.ask(12)
    np.testing.assert_allclose(points[::2] + points[1::2], np.full((6, 4), 4.0))


def test_one_ask_goes_on_to_the_next_iteration() -> None:
    opt = at_a_homotopy()
    points = opt.ask(10)
    opt.tell(points, waves(points))
    assert len(opt.ask(9)) == 9, "the last 2 points of the iteration, and 7 of the next one"
    assert closed(opt) == 1


def test_incomplete_pairs_do_not_close_an_iteration() -> None:
    query = Query("fun", np.zeros((1, 13, 2)), samples=6)  # f(x) and 6 pairs
    assert may_close(query, range(1, 13)) is False, "f(x) belongs to all samples"
    assert may_close(query, range(9)) is False, "2 of 6 pairs"
    assert may_close(query, [0, 1, 2, 3, 4, 7, 8, 9, 10]) is True
    assert may_close(query, [0, 1, 2, 3, 7, 8, 9]) is False, "7 of 13 values"
    assert order_of_points(query)[:5] == [0, 1, 7, 2, 8]
    one_pair = Query("fun", np.zeros((1, 3, 2)), samples=1)
    assert may_close(one_pair, [1, 2]) is False


def test_requests_that_are_no_samples_wait_for_all_values() -> None:
    query = Query("fun", np.zeros((1, 6, 2)))
    assert may_close(query, range(5)) is False
    start = make(max_evals=300)
    assert len(start.ask(5)) == 1, "the start is a request of its own"
    assert len(start.ask(5)) == 0


@pytest.mark.parametrize("on_nonfinite", ["reject", "penalize", "raise"])
def test_a_missing_value_is_not_a_bad_value(on_nonfinite: Any) -> None:
    """The step is that of the pairs that have arrived, whatever the policy. Bad values alone are rejected."""
    x = {}
    for policy in ("reject", on_nonfinite):
        opt = at_a_homotopy(on_nonfinite=policy)
        points = opt.ask(12)
        opt.tell(points[:9], waves(points[:9]))
        x[policy] = opt.ask(1)
        opt.tell(points[9:], waves(points[9:]))
        while not opt.stop():
            opt.tell(points := opt.ask(), waves(points))
        assert opt.result.nrejected == 0
    np.testing.assert_array_equal(x["reject"], x[on_nonfinite])


def test_bad_values_among_missing_ones_are_counted_once() -> None:
    opt = at_a_homotopy()
    points = opt.ask(12)
    values = waves(points)
    values[0] = np.nan  # the pair 0, 1
    opt.tell(points[:8], values[:8])
    assert len(opt.ask(1)) == 1
    while not opt.stop():
        opt.tell(points := opt.ask(), waves(points))
    assert opt.result.nrejected == 1


def test_a_covariance_homotopy_ranks_the_samples_that_have_arrived() -> None:
    space = SampleSpace(x=np.zeros(3), t=1.0, widths=np.ones(3), box=None, dtype=np.dtype(np.float64))
    search = covariance_homotopy(
        space,
        100,
        Incumbent(np.zeros(3), np.inf, False),
        samples=6,
        t1=1.0,
        rng=np.random.default_rng(0),
        asynchronous=True,
    )
    points = next(search).points
    values = np.array([3.0, np.nan, 1.0, 2.0, np.nan, np.inf])
    center = search.send(values).center
    assert center is not None
    weights = np.maximum(choose_rates(3, 4, diagonal=False).weights, 0)
    assert weights[2] == 0, "the samples of values 1 and 2 have all the weight"
    np.testing.assert_allclose(center, weights[0] * points[2] + weights[1] * points[3], rtol=1e-12)


# Values that arrive late.


def test_a_late_value_can_be_the_best_and_never_changes_the_iterates() -> None:
    points_of = []
    for late_value in (-100.0, 100.0):
        opt = at_a_homotopy()
        points = opt.ask(12)
        opt.tell(points[:11], waves(points[:11]))
        rest = [opt.ask(1)]
        opt.tell(points[11:], [late_value])
        if late_value < 0:
            assert opt.result.fun == late_value
            np.testing.assert_array_equal(opt.result.x, points[11])
        while not opt.stop():
            rest.append(opt.ask())
            opt.tell(rest[-1], waves(rest[-1]))
        points_of.append(np.concatenate(rest))
        assert (opt.result.fun == late_value) is (late_value < 0)
    np.testing.assert_array_equal(points_of[0], points_of[1])


def test_a_late_value_that_reaches_the_target_ends_the_run() -> None:
    opt = at_a_homotopy(target=-50.0)
    points = opt.ask(12)
    opt.tell(points[:11], waves(points[:11]))
    others = opt.ask(3)
    opt.tell(others[:1], waves(others[:1]))
    opt.tell(points[11:], [-60.0])
    assert opt.stop()
    assert opt.result.status == slgh.Status.TARGET
    assert opt.result.fun == -60.0
    np.testing.assert_array_equal(opt.result.x, points[11])
    assert opt.result.nfev == 14
    opt.tell(others[1:], waves(others[1:]))  # workers that do not know yet
    opt.abandon(others[1:])
    assert opt.ask(3).shape == (0, 4)
    fun = {point.tobytes(): value for point, value in zip(points, [*waves(points[:11]), -60.0], strict=True)}
    again = at_a_homotopy(target=-50.0)
    with pytest.raises(ValueError, match="has received no values"):
        again.replay(opt.arrivals, waves)
    fresh = make(method="scale_free", samples=6, max_evals=500, target=-50.0)
    assert_same(fresh.replay(opt.arrivals, lambda x: fun.get(x.tobytes(), waves(x))), opt.result)


@pytest.mark.parametrize("options", [{"method": "scale_free"}, {"method": "auto"}])
def test_a_value_in_time_that_reaches_the_target_does_not_wait_for_late_ones(options: dict[str, Any]) -> None:
    opt = at_a_homotopy(target=-50.0, **options)
    first = opt.ask(12)
    opt.tell(first[:11], waves(first[:11]))
    second = opt.ask(12)
    opt.tell(second, np.append(waves(second[:11]), -60.0))
    assert opt.stop()
    assert opt.result.status == slgh.Status.TARGET
    assert opt.result.fun == -60.0
    assert opt.result.nfev == 1 + 11 + 12, "the point in flight has no value"
    assert pickled(opt).result.nfev == 24


def test_an_exception_in_the_callback_leaves_the_number_of_values() -> None:
    def fails(intermediate_result: slgh.Result) -> None:
        if intermediate_result.nit == 2:
            raise KeyError("callback")

    opt = at_a_homotopy(callback=fails)
    first = opt.ask(12)
    opt.tell(first[:11], waves(first[:11]))
    second = opt.ask(12)
    with pytest.raises(KeyError):
        opt.tell(second, waves(second))
    assert opt.result.status == slgh.Status.FAILED
    assert opt.result.nfev == 1 + 11 + 12


def test_a_failed_late_evaluation_is_told_as_nan() -> None:
    opt = at_a_homotopy()
    points = opt.ask(12)
    opt.tell(points[:11], waves(points[:11]))
    assert len(opt.ask(1)) == 1
    opt.tell(points[11:], [np.nan])
    assert np.isfinite(opt.result.fun)


def test_the_run_waits_for_late_values_before_its_planned_end() -> None:
    opt = at_a_homotopy(max_evals=26)  # the start, two iterations, and the reserve
    first = opt.ask(12)
    opt.tell(first[:11], waves(first[:11]))
    second = opt.ask(12)
    opt.tell(second, waves(second))
    assert not opt.stop()
    assert len(opt.ask(5)) == 0
    np.testing.assert_array_equal(pickled(opt).ask(5), first[11:])
    np.testing.assert_array_equal(pickled(opt).ask(), first[11:])
    opt.abandon(first[11:])
    np.testing.assert_array_equal(opt.ask(5), first[11:])
    opt.tell(first[11:], [-9.0])
    opt.tell(last := opt.ask(5), waves(last))  # f at the last iterate
    assert opt.stop()
    assert (opt.result.fun, opt.result.nfev) == (-9.0, 26)


def test_max_evals_is_never_exceeded_by_points_in_flight() -> None:
    opt, handed_out = make(max_evals=120, samples=6), 0
    points = list(opt.ask(1))
    opt.tell(points, waves(np.array(points)))
    for _ in range(100):
        asked = opt.ask(7)
        handed_out += len(asked)
        if len(asked) > 5:  # two of seven evaluations never end
            opt.tell(asked[:5], waves(asked[:5]))
        else:
            opt.tell(asked, waves(asked))
    assert not opt.stop(), "the run waits for the points in flight"
    assert 100 < handed_out + 1 <= 120
    assert closed(opt) > 5


# A resume.


@pytest.mark.parametrize("way", ["pickle", "state_dict", "checkpoint"])
def test_after_a_resume_points_in_flight_come_again_and_answered_ones_never(way: str, tmp_path: Path) -> None:
    file = slgh.Checkpoint(path=tmp_path / "run.npz", every_seconds=0) if way == "checkpoint" else None
    opt = at_a_homotopy(checkpoint=file)
    points = opt.ask(12)
    opt.tell(points[:10], waves(points[:10]))
    others = opt.ask(3)
    opt.tell(others[:1], waves(others[:1]))
    log = opt.arrivals
    if way == "pickle":
        later = pickled(opt)
    else:
        later = make(method="scale_free", samples=6, max_evals=500, checkpoint=file)
        if way == "state_dict":
            later.load_state_dict(opt.state_dict())
    np.testing.assert_array_equal(later.arrivals, log)
    again = later.ask(13)
    np.testing.assert_array_equal(again[:2], others[1:])
    assert len(again) == 13, "11 points of the iteration, and 2 late ones"
    np.testing.assert_array_equal(again[11:], points[10:])
    with pytest.raises(ValueError, match="which has a value"):
        later.tell(others[:1], waves(others[:1]))
    with pytest.raises(ValueError, match="which is not one"):
        later.tell(points[:1], waves(points[:1]))
    later.tell(points[10:], waves(points[10:]))  # the old workers, as they do not know


def test_a_state_is_not_that_of_a_synchronous_run() -> None:
    one, other = make(max_evals=300, method="scale_free"), make(max_evals=300, method="scale_free", asynchronous=False)
    for a, b in ((one, other), (other, one)):
        with pytest.raises(ValueError, match=r"its asynchronous is .*Pass the arguments of that run"):
            a.load_state_dict(b.state_dict())


@pytest.mark.parametrize("name", ["log", "late", "late_points", "x_best", "f_best", "request"])
def test_a_damaged_log_is_refused(name: str) -> None:
    opt = at_a_homotopy()
    points = opt.ask(12)
    opt.tell(points[:11], waves(points[:11]))
    assert len(opt.ask(1)) == 1
    for damaged in (np.full((1, 3), 7), np.full((1, 2), -5)):
        state = opt.state_dict()
        state["arrays"][f"arrivals.{name}"] = damaged
        with pytest.raises(ValueError, match="not a complete checkpoint"):
            at_a_homotopy().load_state_dict(state)


# Input that is refused.


def test_wrong_points_and_values_are_refused_and_nothing_is_lost() -> None:
    opt, other = at_a_homotopy(), at_a_homotopy()
    points = opt.ask(12)
    opt.tell(points[:8], waves(points[:8]))
    assert len(opt.ask(1)) == 1
    wrong: list[tuple[Any, Any, str]] = [
        (points[[8, 8]], [1.0, 1.0], "which is not one"),
        (points[:1], [1.0], "which is not one"),
        (points[8:9] + 1, [1.0], "which is not one"),
        (np.concatenate([points[8:9], points[:1]]), [1.0, 1.0], "which is not one"),
        (points[8:10], [1.0], r"`values` must have shape \(2,\)"),
        (points[8], [1.0], "`points` must be those of the last `ask`"),
        (points[8:9], ["a"], "real numbers"),
    ]
    before = opt.arrivals
    for given_points, values, match in wrong:
        with pytest.raises((ValueError, TypeError), match=match):
            opt.tell(given_points, values)
        np.testing.assert_array_equal(opt.arrivals, before)
    with pytest.raises(ValueError, match="which is not one"):
        opt.abandon(points[:1])
    opt.tell(points[8:], waves(points[8:]))
    same = other.ask(12)
    other.tell(same[:8], waves(same[:8]))
    other.ask(1)
    other.tell(same[8:], waves(same[8:]))
    np.testing.assert_array_equal(opt.ask(), other.ask())


def test_bad_values_raise_if_the_user_wants_that() -> None:
    opt = at_a_homotopy(on_nonfinite="raise")
    points = opt.ask(12)
    opt.tell(points[:11], waves(points[:11]))
    assert len(opt.ask(1)) == 1
    with pytest.raises(FloatingPointError, match="`values` must be finite"):
        opt.tell(points[11:], [np.inf])
    opt.tell(points[11:], [1.0])


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"x0": np.ones((2, 3)), "batched": True}, "`asynchronous` is for a single problem.*one Optimizer per problem"),
        ({"sample_xi": 5}, "`asynchronous` excludes sample_xi.*Draw xi in your function"),
        ({"method": "gd", "step": 0.1, "gradients": True}, "`asynchronous` is for methods that estimate the gradient"),
        ({"gradients": True, "phases": ("landscape", "homotopy")}, "`phases` of an asynchronous run must be among"),
        ({"phases": ("homotopy", "local_search")}, "got 'local_search', which waits for all its values. Leave it out"),
        ({"asynchronous": 1}, "`asynchronous` must be True or False, got 1"),
    ],
)
def test_what_cannot_be_asynchronous_is_refused(options: dict[str, Any], match: str) -> None:
    with pytest.raises((ValueError, TypeError), match=match):
        make(**options)


# "auto" and arrays of other libraries.


def test_auto_has_homotopies_alone() -> None:
    small = Crowd(waves, 8, seed=0).drive(make(max_evals=300)).result
    assert {phase.name for phase in small.phases} == {"homotopy"}
    options = CONFIGURATIONS["covariance"]
    large = Crowd(waves, 8, seed=0).drive(make(**options)).result
    assert [phase.name for phase in large.phases[:3]] == ["homotopy", "covariance", "restarts"]
    assert "local search" not in large.message


@pytest.mark.parametrize("d", [2, 10])
def test_it_still_minimizes(d: int) -> None:
    def sphere(x: Any) -> float:
        return float(np.sum((x - 1) ** 2))

    start = np.full(d, 2.0)
    result = Crowd(sphere, 8, seed=0).drive(make(x0=start, max_evals=600 * d)).result
    assert result.success
    assert result.fun < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("library", ["torch", "jax"])
def test_arrays_of_other_libraries(library: str) -> None:
    module = pytest.importorskip("jax.numpy" if library == "jax" else library)
    opt = make(x0=module.ones(4), method="scale_free", samples=6, max_evals=120)
    running: list[Any] = []
    while not opt.stop():
        running += list(opt.ask(7 - len(running)))
        for point in running[len(running) // 2 :]:  # the others take long
            opt.tell(point[None], [float(waves(np.asarray(point)))])
        running = running[: len(running) // 2]
    assert closed(opt) > 3
    other = make(x0=module.ones(4), method="scale_free", samples=6, max_evals=120)
    again = other.replay(opt.arrivals, lambda x: float(waves(np.asarray(x))))
    assert bool((again.x == opt.result.x).all())
