"""Search spaces: values and relaxed points, the homotopy in closed form, and runs of `minimize` and `Optimizer`."""

from __future__ import annotations

import json
import pickle
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import slgh
from slgh.auto.covariance import Incumbent, SampleSpace, covariance_homotopy
from slgh.checks import ArgumentError
from slgh.engine.bounds import Box
from slgh.oracles import Antithetic
from slgh.space import Array, Boolean, Categorical, Float, Integer, Ordinal, Parameter, Space
from slgh.space.cells import largest_probabilities, reflected_cdf

Floats = NDArray[np.float64]

TREE: dict[str, Any] = {
    "rate": Float(1e-4, 1.0, log=True),
    "net": [Integer(1, 8), {"units": Ordinal([16, 32, 64]), "act": Categorical(["relu", "tanh", None])}],
    "bias": Boolean(),
    "weights": Array((2, 2), -1.0, 3.0),
    "epochs": 10,
}


def loss(values: Any) -> float:
    """Return 0 at rate 1e-2, 5 layers, 64 units, tanh, no bias, and weights 1."""
    layers, net = values["net"]
    act = {"relu": 0.3, "tanh": 0.0, None: 0.5}[net["act"]]
    real = (np.log10(values["rate"]) + 2) ** 2 + np.sum((values["weights"] - 1) ** 2)
    return float(real + 0.2 * (layers - 5) ** 2 + (64 - net["units"]) / 64 + act + 0.4 * values["bias"])


class Pair(NamedTuple):
    left: Any
    right: Any


# Values and points.


def leaves() -> st.SearchStrategy[Parameter]:
    ends = st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)).map(lambda e: (min(e), max(e)))
    positive = st.tuples(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6)).map(lambda e: (min(e), max(e)))
    whole = st.tuples(st.integers(-1000, 1000), st.integers(0, 2000))
    counted = st.tuples(st.integers(1, 2**30), st.integers(0, 2**30))
    names = st.lists(st.text(max_size=3) | st.integers() | st.none() | st.booleans(), min_size=1, unique_by=repr)
    return st.one_of(
        ends.map(lambda e: Float(*e)),
        positive.map(lambda e: Float(*e, log=True)),
        whole.map(lambda e: Integer(e[0], e[0] + e[1])),
        counted.map(lambda e: Integer(e[0], e[0] + e[1], log=True)),
        names.map(lambda choices: Categorical(tuple(choices))),
        names.map(lambda choices: Ordinal(tuple(choices))),
        st.just(Boolean()),
        ends.map(lambda e: Array((3,), *e)),
    )


@given(leaves(), st.integers(0, 2**32))
def test_a_value_survives_encoding(leaf: Parameter, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for z in (rng.random(leaf.size), np.zeros(leaf.size), np.ones(leaf.size)):
        value = leaf.decode(z)
        again = leaf.decode(leaf.encode(value, "x"))
        if leaf.count is None:
            np.testing.assert_allclose(again, value, rtol=1e-9, atol=1e-9 * 2e6)
        else:
            assert again is value or (type(again), again) == (type(value), value)


@given(leaves(), st.integers(0, 2**32))
def test_neighbors_have_other_values(leaf: Parameter, seed: int) -> None:
    z = np.random.default_rng(seed).random(leaf.size)
    keys = [leaf.key(leaf.decode(near)) for near in leaf.neighbors(z)]
    assert leaf.key(leaf.decode(z)) not in keys
    assert len(set(keys)) == len(keys)


def test_the_ends_of_a_float_are_exact() -> None:
    for leaf in (Float(1e-5, 0.3, log=True), Float(-0.1, 0.7), Float(-1.7e308, 1.7e308)):
        assert (leaf.decode(np.zeros(1)), leaf.decode(np.ones(1))) == (leaf.low, leaf.high)


def test_each_integer_has_a_cell_of_the_same_width() -> None:
    z = (np.arange(7000) + 0.5) / 7000
    values = [Integer(-3, 3).decode(np.array([each])) for each in z]
    assert np.unique(values, return_counts=True)[1].tolist() == [1000] * 7


def test_a_tree_keeps_its_structure() -> None:
    space = Space({**TREE, "pair": Pair(Boolean(), (Float(0, 1), "constant"))})
    values = space.sample(np.random.default_rng(0))
    assert [type(values[name]) for name in ("rate", "net", "bias", "epochs")] == [float, list, bool, int]
    assert isinstance(values["pair"], Pair)
    assert isinstance(values["pair"].right, tuple)
    assert values["pair"].right[1] == "constant"
    assert values["weights"].shape == (2, 2)
    assert space.d == 1 + 1 + 1 + 3 + 1 + 4 + 1 + 1
    assert space.bounds == [(0.0, 1.0)] * space.d
    assert space.names == [
        *("rate", "net[0]", "net[1].units", "net[1].act", "bias", "weights", "pair[0]", "pair[1][0]"),
    ]


def test_choices_are_the_objects_of_the_user() -> None:
    functions = (np.sin, np.cos)
    assert Categorical(functions).decode(np.array([0.1, 0.2])) is np.cos
    mixed = Categorical((1, 1.0, True, np.array([1.0, 2.0])))
    assert [mixed.index(value, "x") for value in (1, 1.0, True, np.array([1.0, 2.0]))] == [0, 1, 2, 3]


def test_what_a_start_leaves_out_is_in_the_middle() -> None:
    space = Space(TREE)
    start = space.decode(space.encode_start({"net": [None, {"act": "tanh"}]}))
    assert start["rate"] == pytest.approx(1e-2)
    assert (start["net"][1]["act"], start["net"][0]) == ("tanh", 5)
    assert space.decode(space.encode_start(None))["weights"].tolist() == [[1, 1], [1, 1]]


# Errors.


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Float(1, 0), r"`low` of Float must be <= high, got \(1, 0\)"),
        (lambda: Integer(2, 1), r"`low` of Integer must be <= high"),
        (lambda: Array(3, [0, 1, 2], 1), r"`low` of Array must be <= high, got \(2.0, 1.0\)"),
        (lambda: Float(0, 1, log=True), r"`low` of Float must be > 0 with log=True, got 0"),
        (lambda: Integer(-1, 5, log=True), "must be > 0 with log=True"),
        (lambda: Array(2, 0, 1, log=True), "must be > 0 with log=True"),
        (lambda: Float(0, np.inf), "must be finite"),
        (lambda: Float("0", 1), "must be a real number"),  # type: ignore[arg-type]
        (lambda: Integer(0, 1.5), "must be an integer"),  # type: ignore[arg-type]
        (lambda: Integer(0, 2**60), r"at most 2\*\*40 values"),
        (lambda: Categorical(()), "`choices` of Categorical must not be empty"),
        (lambda: Ordinal(()), "`choices` of Ordinal must not be empty"),
        (lambda: Categorical("abc"), "must be a list or tuple"),
        (lambda: Categorical(("a", "b", "a")), "must differ, got 'a' twice"),
        (lambda: Array((0,), 0, 1), "positive integers"),
        (lambda: Array((2,), [0, 0, 0], 1), r"broadcast to the shape \(2,\)"),
        (lambda: Space({"a": 1}), "at least one parameter"),
        (lambda: Space({}), "at least one parameter"),
        (lambda: Space({"a": Integer(1, 1)}), "more than one point"),
        (lambda: Space({"a": Float}), "got its class"),
        (lambda: Space({"a.b": Boolean(), "a": {"b": Boolean()}}), "different names"),
    ],
)
def test_a_wrong_space_is_refused(make: Any, words: str) -> None:
    with pytest.raises((ValueError, TypeError), match=words) as caught:
        make()
    assert isinstance(caught.value, ArgumentError)


@pytest.mark.parametrize(
    ("start", "words"),
    [
        ({"rates": 0.1}, "`start` has no name 'rates'. Did you mean rate?"),
        ({"net": [1, {"unit": 16}]}, r"`net\[1\]` in `start` has no name 'unit'"),
        ({"net": [1]}, "must have 2 entries"),
        ({"net": 1}, "must be a list or tuple"),
        ([1, 2], "must be a dictionary"),
        ({"rate": 2.0}, r"`rate` must lie within \(0.0001, 1.0\), got 2.0"),
        ({"net": [2.5, {}]}, r"`net\[0\]` must be an integer"),
        ({"net": [9, {}]}, r"`net\[0\]` must lie within \(1, 8\), got 9"),
        ({"net": [1, {"act": "gelu"}]}, r"`net\[1\].act` must be one of 'relu', 'tanh', None; got 'gelu'"),
        ({"bias": 1}, "`bias` must be True or False"),
        ({"weights": np.zeros(4)}, r"`weights` must have shape \(2, 2\), got \(4,\)"),
        ({"weights": np.full((2, 2), 9.0)}, "`weights` must lie within"),
    ],
)
def test_a_start_that_does_not_match_is_refused(start: Any, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        slgh.minimize(loss, TREE, start=start, max_evals=10)


@pytest.mark.parametrize(
    "given",
    [
        {"bounds": [(0, 1)]},
        {"grad": loss},
        {"grad": True},
        {"vectorized": True},
        {"batched": True},
        {"fun": slgh.problems.rosenbrock().smooth},
        {"fun": 3},
    ],
)
def test_what_a_space_excludes_is_refused(given: dict[str, Any]) -> None:
    arguments: dict[str, Any] = {"fun": loss, "x0": TREE, "max_evals": 10} | given
    with pytest.raises(ArgumentError, match="with a search space"):
        slgh.minimize(**arguments)


def test_a_start_needs_a_space() -> None:
    with pytest.raises(ArgumentError, match="`start` belongs to a search space"):
        slgh.minimize(np.sum, [1.0], start=[0.5], max_evals=10)


def test_a_result_of_a_space_is_no_point_of_arrays() -> None:
    result = slgh.minimize(lambda values: values["a"], {"a": Float(0, 1)}, max_evals=3, seed=0)
    with pytest.raises(ArgumentError, match=r"Pass the space as `x0`, and the result as `start`"):
        slgh.minimize(lambda x: 0.0, result, max_evals=3)
    with pytest.raises(ArgumentError, match="`known` is the result of a search space"):
        slgh.minimize(lambda x: 0.0, [1.0], known=result, max_evals=3)


def test_a_result_is_a_start() -> None:
    first = slgh.minimize(loss, TREE, max_evals=30, seed=0)
    given: dict[str, Any] = {"max_evals": 30, "seed": 1, "history": "x"}
    from_result = slgh.minimize(loss, TREE, start=first, **given)
    from_tree = slgh.minimize(loss, TREE, start=first.x, **given)
    assert from_result.fun == from_tree.fun <= first.fun
    np.testing.assert_array_equal(from_result.history["x"], from_tree.history["x"])
    opt = slgh.Optimizer(TREE, start=first, max_evals=30, seed=1)
    assert Space(TREE).key(opt.ask()[0]) == Space(TREE).key(first.x)


def test_only_a_result_of_a_space_is_a_start() -> None:
    other = slgh.minimize(np.sum, [1.0], max_evals=3, seed=0)
    with pytest.raises(ArgumentError, match=r"`start` must be the result of a search space.*Pass a tree"):
        slgh.minimize(loss, TREE, start=other, max_evals=3)
    foreign = slgh.minimize(lambda values: values["a"], {"a": Float(0, 1)}, max_evals=3, seed=0)
    with pytest.raises(ArgumentError, match="`start` has no name 'a'"):
        slgh.minimize(loss, TREE, start=foreign, max_evals=3)


def test_encode_needs_all_names() -> None:
    with pytest.raises(ArgumentError, match="'b' is missing"):
        Space({"a": Boolean(), "b": Boolean()}).encode({"a": True})


# The homotopy in closed form.

DISCRETE = Space({"k": Integer(0, 4), "l": Integer(1, 6, log=True), "c": Categorical(["a", "b", "c"]), "b": Boolean()})


def table(values: Any) -> float:
    return float(
        values["k"] * values["l"] + {"a": 3, "b": -1, "c": 2}[values["c"]] * (1 if values["b"] else values["k"])
    )


def smoothed(z: Floats, t: float) -> float:
    """Return F(z, t), the sum of f over all values, weighted by their probabilities."""
    P = DISCRETE.probabilities(z, t)
    choices = {"k": range(5), "l": range(1, 7), "c": "abc", "b": (False, True)}
    total = 0.0
    for at in product(*(range(len(each)) for each in choices.values())):
        weights = [P[name][i] for name, i in zip(choices, at, strict=True)]
        total += float(np.prod(weights)) * table({n: choices[n][i] for n, i in zip(choices, at, strict=True)})
    return total


def reflected(z: Floats) -> Floats:
    z = np.mod(z, 2)
    return np.minimum(z, 2 - z)


@pytest.mark.parametrize("t", [0.02, 0.2, 0.7, 5.0])
def test_the_probabilities_are_those_of_samples(t: float) -> None:
    rng, n = np.random.default_rng(1), 20_000
    z = rng.random(DISCRETE.d)
    points = reflected(z + t * rng.standard_normal((n, DISCRETE.d)))
    values = [DISCRETE.decode(point) for point in points]
    exact = DISCRETE.probabilities(z, t)
    for name, choices in {"k": range(5), "l": range(1, 7), "c": "abc", "b": (False, True)}.items():
        assert exact[name].sum() == pytest.approx(1, abs=1e-9)
        for choice, p in zip(choices, exact[name], strict=True):
            share = np.mean([value[name] == choice for value in values])
            assert abs(share - p) <= 4.5 * np.sqrt(p * (1 - p) / n) + 1e-9  # false alarms: 7e-6 per choice


def test_without_bounds_nearby_two_categories_follow_the_normal_distribution() -> None:
    from scipy.special import ndtr

    found = largest_probabilities(np.array([0.52, 0.48]), np.array([0.03, 0.04]))
    assert found[0] == pytest.approx(ndtr(0.04 / 0.05), abs=1e-9)


def test_many_categories_sum_to_one_and_are_symmetric() -> None:
    found = largest_probabilities(np.array([0.3, 0.9, 0.3, 0.3]), np.full(4, 0.3))
    assert found.sum() == pytest.approx(1, abs=1e-9)
    assert found[0] == pytest.approx(found[2], abs=1e-12)


def test_the_reflected_distribution_becomes_uniform() -> None:
    s = np.linspace(0, 1, 9)
    np.testing.assert_allclose(reflected_cdf(s, 0.2, 3.999), s, atol=1e-12)
    np.testing.assert_allclose(reflected_cdf(s, 0.2, 4.0), s, atol=1e-12)


def test_at_t_zero_the_homotopy_is_f() -> None:
    for z in np.random.default_rng(2).random((20, DISCRETE.d)):
        assert smoothed(z, 0.0) == table(DISCRETE.decode(z))


def test_the_engine_estimates_the_gradient_of_the_closed_form() -> None:
    """The mean of many iterations' first moves is the gradient of F, a sum over all 180 points of the space."""
    z, t, samples = np.full(DISCRETE.d, 0.45), 0.15, 4000
    gradient = np.array(
        [(smoothed(z + e, t) - smoothed(z - e, t)) / 2e-4 for e in 1e-4 * np.eye(DISCRETE.d)],
    )
    step = 1e-3
    moves = []
    for seed in range(4):
        result = slgh.minimize(
            lambda z: table(DISCRETE.decode(z)), z, bounds=DISCRETE.bounds, seed=seed,
            method="zoslgh_r", oracle=Antithetic, samples=samples, t1=t, gamma=0.999, step=step, max_iter=1,
        )  # fmt: skip
        moves.append((z - result.x) / step)
    error = np.linalg.norm(np.mean(moves, axis=0) - gradient)
    assert error < 0.05 * np.linalg.norm(gradient)


# Runs.

SMALL = {
    "k": Integer(-5, 5),
    "l": Ordinal(["small", "medium", "large"]),
    "c": Categorical(["p", "q", "r"]),
    "b": Boolean(),
}


def small(values: Any) -> float:
    """Return values with local minima, and an interaction of all parameters."""
    l, c = ["small", "medium", "large"].index(values["l"]), "pqr".index(values["c"])
    return float(
        (values["k"] - 3 + 2 * c) ** 2 + 4 * (values["k"] % 2) + 3 * abs(l - c) + (2 if values["b"] == (l > 1) else 0)
    )


def test_a_space_within_the_budget_is_enumerated() -> None:
    space = Space(SMALL)
    best = min(small(space.decode(z)) for z in space.grid())
    assert space.count == 198
    result = slgh.minimize(small, SMALL, max_evals=200, seed=0)
    assert (result.fun, result.nfev, result.success) == (best, 198, True)
    assert "enumeration" in result.message


def test_most_runs_find_the_optimum_of_a_space_that_is_larger_than_the_budget() -> None:
    space = Space(SMALL)
    best = min(small(space.decode(z)) for z in space.grid())
    found = [slgh.minimize(small, SMALL, max_evals=100, seed=seed).fun for seed in range(10)]
    assert sum(fun == best for fun in found) >= 8


def test_samples_reach_the_neighboring_cells_at_any_t() -> None:
    cells = np.array([0.1, 0.0])
    space = SampleSpace(
        x=np.full(2, 0.55),
        t=1e-6,
        widths=np.ones(2),
        box=Box(np.zeros(2), np.ones(2)),
        dtype=np.dtype(np.float64),
        cells=cells,
    )
    search = covariance_homotopy(
        space, 2000, Incumbent(space.x, np.inf, False), samples=2000, t1=0.25, rng=np.random.default_rng(0)
    )
    points = next(search).points
    assert abs(np.std(points[:, 0]) - 0.035) < 0.003  # 4.5 standard errors
    assert np.std(points[:, 1]) < 2e-6


def test_a_large_budget_has_covariance_homotopies() -> None:
    result = slgh.minimize(loss, TREE, max_evals=2500, seed=1)
    assert {"covariance", "local_search"} <= {phase.name for phase in result.phases}


@pytest.mark.parametrize("max_evals", [60, 300])
def test_mixed_parameters_are_minimized(max_evals: int) -> None:
    result = slgh.minimize(loss, TREE, max_evals=max_evals, seed=1)
    assert result.nfev <= max_evals
    assert result.fun == loss(result.x) == loss(result.x_best)
    assert result.x["epochs"] == 10
    if max_evals >= 300:
        assert result.fun < 1e-3
        assert (result.x["net"][0], result.x["net"][1]["act"], result.x["bias"]) == (5, "tanh", False)
    np.testing.assert_array_equal(Space(TREE).decode(result.z)["weights"], result.x["weights"])


def test_a_space_of_real_numbers_gives_the_run_in_the_unit_cube() -> None:
    tree = {"x": Float(-2, 3), "y": Array(2, 1e-3, 1.0, log=True)}
    space = Space(tree)

    def f(values: Any) -> float:
        return float((values["x"] - 1) ** 2 + np.sum(np.log(values["y"] / 0.1) ** 2))

    by_name = slgh.minimize(f, tree, start={"x": 0.0}, max_evals=400, seed=3)
    start = space.encode_start({"x": 0.0})
    by_hand = slgh.minimize(lambda z: f(space.decode(z)), start, bounds=space.bounds, max_evals=400, seed=3)
    np.testing.assert_array_equal(by_name.z, by_hand.x)
    assert by_name.fun == by_hand.fun


@pytest.mark.parametrize("method", ["scale_free", "zoslgh_r"])
def test_other_methods_take_spaces(method: str) -> None:
    more: dict[str, Any] = {} if method == "scale_free" else {"t1": 0.3, "gamma": 0.99, "step": 0.01}
    result = slgh.minimize(loss, TREE, method=method, max_evals=200, seed=0, **more)
    assert result.fun_best == loss(result.x_best)


def test_the_callback_sees_trees() -> None:
    seen: list[Any] = []
    slgh.minimize(loss, TREE, max_evals=60, seed=0, callback=lambda result: seen.append(result))
    assert seen
    assert all(Space(TREE).key(each.x) and each.z.shape == (11,) for each in seen)
    assert seen[-1].fun_best == loss(seen[-1].x_best)


def test_the_result_prints_its_tree() -> None:
    text = repr(slgh.minimize(small, SMALL, max_evals=200, seed=0))
    assert "x: {k: " in text


@pytest.mark.parametrize("max_evals", [60, 400])
def test_ask_and_tell_give_the_run_of_minimize(max_evals: int) -> None:
    wanted = slgh.minimize(loss, TREE, max_evals=max_evals, seed=5)
    opt = slgh.Optimizer(TREE, max_evals=max_evals, seed=5)
    rng = np.random.default_rng(0)
    while not opt.stop():
        trees = opt.ask()
        some = [trees[i] for i in rng.permutation(len(trees))[: rng.integers(1, len(trees) + 1)]]
        opt.tell(some, [loss(tree) for tree in some])
        if rng.random() < 0.05:
            opt = pickle.loads(pickle.dumps(opt))
    assert opt.result.fun == wanted.fun
    np.testing.assert_array_equal(opt.result.z, wanted.z)


def test_trees_may_travel_as_json() -> None:
    tree = {"rate": Float(1e-4, 1, log=True), "k": Integer(1, 9), "pair": (Boolean(), Categorical(["a", "b"]))}
    opt = slgh.Optimizer(tree, max_evals=30, seed=0)
    while not opt.stop():
        trees = json.loads(json.dumps(opt.ask()))
        opt.tell(trees, [each["k"] + each["rate"] for each in trees])
    assert opt.result.x["k"] == 1


def test_foreign_trees_are_refused() -> None:
    opt = slgh.Optimizer({"k": Integer(1, 9), "x": Float(0, 1)}, max_evals=30, seed=0)
    opt.ask()
    with pytest.raises(ArgumentError, match="must be points that `ask` has returned"):
        opt.tell([{"k": 1, "x": 0.123}], [0.0])
    with pytest.raises(ArgumentError, match="list of trees"):
        opt.tell({"k": 1, "x": 0.123}, [0.0])
    with pytest.raises(ArgumentError, match="'x' is missing"):
        opt.tell([{"k": 1}], [0.0])


class Interrupting:
    """f that raises at its n-th call."""

    def __init__(self, n: int) -> None:
        self.left = n

    def __call__(self, values: Any) -> float:
        self.left -= 1
        if self.left < 0:
            raise RuntimeError("stop")
        return loss(values)


@pytest.mark.parametrize("max_evals", [90, 600])
def test_a_run_is_resumed_exactly(tmp_path: Path, max_evals: int) -> None:
    wanted = slgh.minimize(loss, TREE, max_evals=max_evals, seed=2)
    file = tmp_path / "run.npz"
    for n in (max_evals // 3, max_evals // 3):
        with pytest.raises(RuntimeError, match="stop"):
            slgh.minimize(Interrupting(n), TREE, max_evals=max_evals, seed=2, checkpoint=file)
    result = slgh.minimize(Interrupting(max_evals // 2), TREE, max_evals=max_evals, seed=2, checkpoint=file)
    assert (result.fun, result.nfev) == (wanted.fun, wanted.nfev)
    np.testing.assert_array_equal(result.z, wanted.z)


def test_a_checkpoint_of_another_space_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "run.npz"
    slgh.minimize(small, SMALL, max_evals=50, seed=2, checkpoint=file)
    with pytest.raises(ArgumentError, match="search space"):
        slgh.minimize(small, SMALL | {"k": Integer(-6, 4)}, max_evals=50, seed=2, checkpoint=file)


@pytest.mark.slow
def test_workers_evaluate_trees() -> None:
    serial = slgh.minimize(loss, TREE, max_evals=120, seed=4, parallel=2)
    result = slgh.minimize(loss, TREE, max_evals=120, seed=4, workers=2)
    assert result.fun == serial.fun
    np.testing.assert_array_equal(result.z, serial.z)


def test_bad_values_are_survived() -> None:
    def f(values: Any) -> float:
        return np.nan if values["net"][0] > 5 or values["bias"] else loss(values)

    result = slgh.minimize(f, TREE, max_evals=300, seed=0)
    assert result.fun < 0.5
    assert not slgh.minimize(lambda values: np.nan, TREE, max_evals=100, seed=0).success


def test_budgets_are_kept() -> None:
    for max_evals in range(1, 40):
        calls: list[Any] = []
        result = slgh.minimize(lambda v, calls=calls: calls.append(v) or loss(v), TREE, max_evals=max_evals, seed=0)
        assert len(calls) == result.nfev <= max_evals
