"""Walks along the boundary between classes: their parts, linear classifiers with known distances, and bad models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from array_api_compat import array_namespace, device
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import brentq, linprog, minimize
from scipy.special import softmax

from libraries import engine, parametrize_libraries, replay_noise, to_library, to_numpy
from slgh.attack import AttackResult, Outcome, attack, plan
from slgh.attack.boundary.memory import RIDGE, learn
from slgh.attack.boundary.objective import (
    MAX_RIVALS,
    BoundaryObjective,
    BoundaryWatch,
    LabelObjective,
    Ranking,
    choose_rivals,
)
from slgh.attack.boundary.projection import Norm, distance, dual_norm, nearest, nearest_of_all
from slgh.attack.boundary.walk import BoundaryWalk
from slgh.attack.loss import SAFE_MARGIN
from slgh.attack.model import QueriedModel
from slgh.attack.plan import FIRST_PROBE, LAST_PROBE, safe_margin, score_noise
from slgh.attack.result import RETRIES
from slgh.checks import ArgumentValueError
from slgh.engine.termination import Status
from slgh.protocols import Context, Sight

SHAPE, K = (3, 4, 4), 5
D = int(np.prod(SHAPE))

each_norm = pytest.mark.parametrize("norm", ["l2", "linf"])


# Exact answers.


def exact_distance(a: Any, g: Any, level: Any, norm: Norm) -> float:
    """Return the least distance from a (d,) to a point y of the box [-0.5, 0.5] with g y >= level: (K, d) and (K,)."""
    d = len(a)
    if norm == "linf":
        one = np.ones((d, 1))
        rows = [np.hstack([-g, np.zeros((len(g), 1))]), np.hstack([np.eye(d), -one]), np.hstack([-np.eye(d), -one])]
        right = np.concatenate([-level, a, -a])
        found = linprog(np.r_[np.zeros(d), 1.0], np.vstack(rows), right, bounds=[(-0.5, 0.5)] * d + [(0, None)])
        assert found.status == 0
        assert found.fun is not None
        return float(found.fun)
    if len(g) == 1:

        def missing(multiplier: float) -> float:
            return float(level[0] - g[0] @ np.clip(a + multiplier * g[0], -0.5, 0.5))

        multiplier = brentq(missing, 0, 1 / np.abs(g).min(), xtol=1e-14) if missing(0) > 0 else 0.0
        return float(np.linalg.norm(np.clip(a + multiplier * g[0], -0.5, 0.5) - a))
    condition = {"type": "ineq", "fun": lambda y: g @ y - level, "jac": lambda y: g}
    solve: Any = minimize  # its annotations do not allow a list of dictionaries
    found = solve(
        lambda y: ((y - a) ** 2).sum(),
        a,
        jac=lambda y: 2 * (y - a),
        bounds=[(-0.5, 0.5)] * d,
        constraints=[condition],
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-10},
    )
    assert found.success
    return float(np.sqrt(found.fun))


class Linear:
    """Linear classifier of images with pixels in [0, 1], with the logits 10 W (x - 0.5). It counts its queries.

    The products are summed without a matrix product, whose rounding depends on the number of images.
    """

    def __init__(self, classes: int = K, shape: tuple[int, ...] = SHAPE, seed: int = 0) -> None:
        self.W = 10 * np.random.default_rng(seed).normal(size=(int(np.prod(shape)), classes))
        self.shape, self.asked = shape, 0

    def scores(self, images: Any) -> Any:
        xp = array_namespace(images)
        flat = xp.reshape(images, (images.shape[0], -1)) - 0.5
        W = xp.asarray(self.W, dtype=images.dtype, device=device(images))
        return xp.sum(flat[:, :, None] * W, axis=1)

    def __call__(self, images: Any) -> Any:
        assert images.shape[1:] == self.shape
        self.asked += images.shape[0]
        assert images.min() >= 0
        assert images.max() <= 1
        return self.scores(images)

    def labels(self, images: Any) -> Any:
        """Answer with the predicted classes alone."""
        return self(images).argmax(axis=1)

    def problem(self, image: Any, y: int, rivals: Any, targeted: bool) -> tuple[Any, Any, Any]:
        """Return a, g and the levels for the margins of these rivals."""
        g = (self.W[:, [y]] - self.W[:, rivals]).T * (1 if targeted else -1)
        return image.ravel() - 0.5, g, np.zeros(len(rivals))

    def exact(self, images: Any, label: Any, norm: Norm, targets: Any = None) -> Any:
        """Return the least distance of an adversarial image for each image."""
        classes, found = np.arange(self.W.shape[1]), []
        for i, image in enumerate(images):
            if targets is not None:
                found.append(
                    exact_distance(*self.problem(image, targets[i], classes[classes != targets[i]], True), norm)
                )
                continue
            others = classes[classes != label[i]]
            found.append(min(_reachable(*self.problem(image, label[i], [j], False), norm) for j in others))
        return np.array(found)

    def unbounded(self, images: Any, label: Any, norm: Norm) -> Any:
        """Return the same distance without the range of the pixels, in closed form."""
        z, found = self.scores(images), []
        for i, y in enumerate(label):
            others = np.delete(np.arange(self.W.shape[1]), y)
            rate = dual_norm((self.W[:, others] - self.W[:, [y]]).T, norm, np)
            found.append(((z[i, y] - z[i, others]) / rate).min())
        return np.array(found)


def _reachable(a: Any, g: Any, level: Any, norm: Norm) -> float:
    """Return the exact distance, or infinity if no point of the box reaches the level."""
    return exact_distance(a, g, level, norm) if np.abs(g).sum() / 2 > level[0] else np.inf


def gray(B: int = 4, shape: tuple[int, ...] = SHAPE) -> Any:
    """Return images far from the ends of the range."""
    return np.random.default_rng(1).uniform(0.4, 0.6, size=(B, *shape))


def extreme(B: int = 4) -> Any:
    """Return images with nearly black and white pixels."""
    rng = np.random.default_rng(2)
    return np.where(rng.random((B, *SHAPE)) < 0.5, 0.01, 0.99) + rng.uniform(-0.01, 0.01, (B, *SHAPE))


# Memory.


class TestMemory:
    RNG = np.random.default_rng(0)

    def draw(self, n: int, d: int = 40) -> tuple[Any, Any, Any]:
        J, moves, rises = (self.RNG.normal(size=shape) for shape in ((2, 3, d), (2, n, d), (2, n, 3)))
        return J, moves, rises

    @pytest.mark.parametrize("n", [1, 2, 12])
    def test_it_agrees_with_all_differences(self, n: int) -> None:
        J, moves, rises = self.draw(n, 400)
        after = moves @ learn(J, moves, rises, np).swapaxes(1, 2)
        before = moves @ J.swapaxes(1, 2)
        assert np.abs(after - rises).max() < 5 * RIDGE * np.abs(before - rises).max()

    @pytest.mark.parametrize("n", [1, 2, 12])
    def test_it_is_the_least_change(self, n: int) -> None:
        J, moves, rises = self.draw(n)
        learned = learn(J, moves, rises, np)
        for b in range(2):
            change = np.linalg.lstsq(moves[b], rises[b] - moves[b] @ J[b].T, rcond=None)[0].T
            assert np.abs(learned[b] - J[b] - change).max() < 20 * RIDGE * np.abs(change).max()

    def test_directions_that_no_move_has_are_unchanged(self) -> None:
        J, moves, rises = self.draw(5)
        change = learn(J, moves, rises, np) - J
        for b in range(2):
            unseen = np.linalg.svd(moves[b])[2][5:]
            np.testing.assert_allclose(change[b] @ unseen.T, 0, atol=1e-12)

    def test_moves_of_length_0_teach_nothing(self) -> None:
        J, moves, rises = self.draw(4)
        assert np.array_equal(learn(J, 0 * moves, rises, np), J)
        some, longer = moves.copy(), rises.copy()
        some[:, 2], longer[:, 2] = 0, 1e6
        others = [0, 1, 3]
        found = learn(J, some, longer, np)
        np.testing.assert_allclose(found, learn(J, moves[:, others], rises[:, others], np), rtol=1e-2, atol=1e-3)

    def test_one_direction_is_broydens_update(self) -> None:
        J, moves, rises = self.draw(1)
        s, y = moves[:, 0], rises[:, 0]
        broyden = J + np.einsum("bk,bd->bkd", y - np.einsum("bkd,bd->bk", J, s), s) / (s * s).sum(-1)[:, None, None]
        assert np.abs(learn(J, moves, rises, np) - broyden).max() < 2 * RIDGE * np.abs(broyden - J).max()

    def test_parallel_moves_are_averaged(self) -> None:
        s = self.RNG.normal(size=(1, 1, 40))
        learned = learn(np.zeros((1, 1, 40)), np.repeat(s, 3, axis=1), np.array([[[1.0], [2.0], [3.0]]]), np)
        assert float((learned * s).sum()) == pytest.approx(2, rel=1e-3)

    @pytest.mark.parametrize("length", [1e-4, 1e-2, 1.0])
    def test_float32_suffices_for_short_moves(self, length: float) -> None:
        J, moves, rises = self.draw(12, 400)
        small, short, change = (one.astype(np.float32) for one in (J, length * moves, length * rises))
        single = learn(small, short, change, np)
        assert single.dtype == np.float32
        np.testing.assert_allclose(single, learn(J, length * moves, length * rises, np), atol=1e-3)


# Projection.


class TestNearest:
    @each_norm
    @pytest.mark.parametrize("share", [0.05, 0.4, 0.8, 0.97])
    def test_it_is_the_solution_of_scipy(self, norm: Norm, share: float) -> None:
        rng = np.random.default_rng(0)
        for d in (1, 2, 5, 12):
            a, g = rng.uniform(-0.5, 0.5, d), rng.normal(size=d)
            highest = np.abs(g).sum() / 2
            level = g @ a + share * (highest - g @ a)
            y = nearest(a[None], g[None], np.array([level]), norm, np)[0]
            assert (np.abs(y) <= 0.5).all()
            assert g @ y >= level - 1e-12
            exact = exact_distance(a, g[None], np.array([level]), norm)
            assert distance(y - a, norm, np) == pytest.approx(exact, rel=1e-3)

    @each_norm
    def test_a_level_that_is_reached_leaves_the_image(self, norm: Norm) -> None:
        a, g = np.array([[0.1, -0.2, 0.3]]), np.array([[1.0, 2.0, -1.0]])
        assert np.array_equal(nearest(a, g, np.array([-9.0]), norm, np), a)

    @each_norm
    def test_a_level_out_of_reach_gives_the_farthest_point(self, norm: Norm) -> None:
        rng = np.random.default_rng(1)
        a, g = rng.uniform(-0.5, 0.5, (20, 6)), rng.normal(size=(20, 6))
        highest = np.abs(g).sum(axis=1) / 2
        y = nearest(a, g, 1.5 * highest + 0.1, norm, np)
        assert (np.abs(y) <= 0.5).all()
        assert ((g * y).sum(axis=1) > 0.9 * highest).all()

    @each_norm
    def test_a_function_that_is_constant_moves_nothing_far(self, norm: Norm) -> None:
        a = np.array([[0.1, -0.2, 0.3]])
        y = nearest(a, np.zeros((1, 3)), np.array([1.0]), norm, np)
        assert np.isfinite(y).all()
        assert (np.abs(y) <= 0.5).all()

    @each_norm
    def test_problems_do_not_mix(self, norm: Norm) -> None:
        rng = np.random.default_rng(2)
        a, g, level = rng.uniform(-0.5, 0.5, (4, 1, 6)), rng.normal(size=(4, 3, 6)), rng.normal(size=(4, 3))
        many = nearest(a, g, level, norm, np)
        assert many.shape == (4, 3, 6)
        for b in range(4):
            for j in range(3):
                alone = nearest(a[b], g[b, j : j + 1], level[b, j : j + 1], norm, np)
                assert np.array_equal(many[b, j], alone[0])


def targeted_problem(rng: Any, classes: int, d: int) -> tuple[Any, Any, Any]:
    """Return a, g and the levels of a targeted attack on a random linear classifier."""
    a, W = rng.uniform(-0.4, 0.4, d), rng.normal(size=(d, classes))
    target = int((a @ W).argsort()[rng.integers(classes - 1)])
    return a, (W[:, [target]] - np.delete(W, target, axis=1)).T, np.full(classes - 1, 1e-3)


class TestNearestOfAll:
    @pytest.mark.parametrize("classes", [2, 3, 5, 10])
    def test_it_is_near_the_solution_of_scipy(self, classes: int) -> None:
        rng = np.random.default_rng(0)
        for _ in range(8):
            a, g, level = targeted_problem(rng, classes, 100)
            y = nearest_of_all(a[None], g[None], level[None], "l2", np)[0]
            assert (np.abs(y) <= 0.5).all()
            assert (g @ y >= level - 0.02 * np.max(level - g @ a)).all()
            assert distance(y - a, "l2", np) <= 1.05 * exact_distance(a, g, level, "l2")

    def test_one_condition_is_that_of_nearest(self) -> None:
        rng = np.random.default_rng(1)
        a, g = rng.uniform(-0.5, 0.5, (5, 8)), rng.normal(size=(5, 1, 8))
        level = (g * a[:, None]).sum(axis=-1) + 0.5
        for norm in ("l2", "linf"):
            alone = nearest(a, g[:, 0], level[:, 0], norm, np)
            np.testing.assert_allclose(nearest_of_all(a, g, level, norm, np), alone, atol=2e-4)

    @each_norm
    def test_conditions_that_hold_leave_the_image(self, norm: Norm) -> None:
        rng = np.random.default_rng(2)
        a, g = rng.uniform(-0.5, 0.5, (5, 8)), rng.normal(size=(5, 3, 8))
        assert np.array_equal(nearest_of_all(a, g, (g * a[:, None]).sum(axis=-1) - 0.1, norm, np), a)

    def test_conditions_may_oppose_each_other(self) -> None:
        """The coordinate ascent ends after a few sweeps, so a level may be missed by a small share of the gap."""
        rng = np.random.default_rng(3)
        for _ in range(20):
            a, g, inside = rng.uniform(-0.4, 0.4, 20), rng.normal(size=(4, 20)), rng.uniform(-0.5, 0.5, 20)
            level = g @ (a + 0.1 * (inside - a))
            y = nearest_of_all(a[None], g[None], level[None], "l2", np)[0]
            gap = np.max(level - g @ a)
            assert (g @ y >= level - 0.02 * gap).all()
            assert distance(y - a, "l2", np) <= 1.05 * exact_distance(a, g, level, "l2")

    def test_it_is_near_the_solution_in_the_maximum_norm(self) -> None:
        rng = np.random.default_rng(4)
        for _ in range(8):
            a, g, level = targeted_problem(rng, 10, 100)
            y = nearest_of_all(a[None], g[None], level[None], "linf", np)[0]
            assert (g @ y >= level - 1e-9).all()
            assert distance(y - a, "linf", np) <= 1.05 * exact_distance(a, g, level, "linf")


@parametrize_libraries("torch", "jax", "cuda")
@each_norm
def test_the_parts_agree_on_all_libraries(library: str, norm: Norm) -> None:
    rng = np.random.default_rng(0)
    J, moves, rises = rng.normal(size=(3, 4, 30)), rng.normal(size=(3, 6, 30)), rng.normal(size=(3, 6, 4))
    a = rng.uniform(-0.5, 0.5, (3, 30))
    level = (J * a[:, None]).sum(axis=-1) + 1.0

    def parts(J: Any, moves: Any, rises: Any, a: Any, level: Any) -> list[Any]:
        xp = array_namespace(J)
        return [
            learn(J, moves, rises, xp),
            nearest(a[:, None, :], J, level, norm, xp),
            nearest_of_all(a, J, level, norm, xp),
        ]

    given = J, moves, rises, a, level
    for found, expected in zip(parts(*(to_library(one, library) for one in given)), parts(*given), strict=True):
        np.testing.assert_allclose(to_numpy(found), expected, atol=1e-9)


# Margins and values.


def queried(model: Any, outputs: str = "logits") -> QueriedModel:
    return QueriedModel(model=model, shape=(4,), low=-0.5, high=0.5, outputs=outputs, model_batch_size=None)


class TestObjective:
    def test_rivals_are_the_classes_with_the_highest_scores(self) -> None:
        scores = np.array([[1.0, 9.0, 3.0, 2.0], [5.0, 1.0, 4.0, 6.0]])
        assert choose_rivals(scores, np.array([1, 3])).tolist() == [[2, 3, 0], [0, 2, 1]]
        many = np.random.default_rng(0).normal(size=(3, 1000))
        rivals = choose_rivals(many, np.array([5, 6, 7]))
        assert rivals.shape == (3, MAX_RIVALS)
        for row, chosen, y in zip(many, rivals, (5, 6, 7), strict=True):
            assert y not in chosen
            assert row[chosen].min() >= np.sort(np.delete(row, y))[-MAX_RIVALS]

    @pytest.mark.parametrize("targeted", [False, True])
    def test_the_others_are_followed_by_their_maximum(self, targeted: bool) -> None:
        z = np.random.default_rng(0).normal(size=(12, 20))
        f = BoundaryObjective(queried(lambda a: z), targeted, "l2", Ranking(unit=4.0))
        y, rivals = np.array([3, 8]), np.array([[1, 2], [0, 19]])
        x = np.zeros((2, 6, 4))
        _, far, *margins = f(x, x[:, :1], y[:, None], rivals[:, None])
        assert len(margins) == 3
        assert not far.any()
        for b in range(2):
            own, rest = z[6 * b : 6 * b + 6, y[b]], np.delete(z[6 * b : 6 * b + 6], [y[b], *rivals[b]], axis=1)
            expected = [*(z[6 * b : 6 * b + 6, r] - own for r in rivals[b]), rest.max(axis=1) - own]
            for found, one in zip(margins, expected, strict=True):
                np.testing.assert_array_equal(found[b], -one if targeted else one)

    @each_norm
    def test_a_nearer_safe_success_has_the_lowest_value(self, norm: Norm) -> None:
        ranking = Ranking(unit=4.0 if norm == "l2" else 1.0)
        leads = np.array([1.0, 1.0, 0.5 * SAFE_MARGIN, 0.0, -0.1, -5.0])
        x = np.array([0.3, 0.4, 0.1, 0.2, 0.2, 0.0])[None, :, None] * np.ones(4)
        f = BoundaryObjective(queried(lambda a: np.stack([0 * leads, leads], axis=1)), False, norm, ranking)
        value, far, _ = f(x, np.zeros((1, 1, 4)), np.zeros((1, 1), int), np.ones((1, 1, 1), int))
        assert (np.diff(value[0]) > 0).all()
        np.testing.assert_allclose(value[0, :2], far[0, :2])
        assert far[0, 1] == pytest.approx(4 * 0.16 if norm == "l2" else 0.4)
        rank, distance_read = ranking.read(value[0], np)
        assert rank.tolist() == [0, 0, 1, 4, 4, 4]
        np.testing.assert_allclose(distance_read[:3], far[0, :3])
        assert np.isinf(distance_read[3:]).all()
        assert np.array_equal(value[0] < ranking.limit, leads > 0)

    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    @pytest.mark.parametrize("where", [0, 1, 2, 15])
    def test_a_bad_score_of_any_class_spoils_the_value(self, bad: float, where: int) -> None:
        z = np.random.default_rng(0).normal(size=(3, 16))
        z[1, where] = bad
        f = BoundaryObjective(queried(lambda a: z), False, "l2", Ranking(unit=4.0))
        with np.errstate(invalid="ignore"):
            value = f(np.zeros((1, 3, 4)), np.zeros((1, 1, 4)), np.zeros((1, 1), int), np.array([[[1, 2]]]))[0]
        assert np.isfinite(value[0]).tolist() == [True, False, True]

    def test_probabilities_of_0_and_1_have_finite_margins(self) -> None:
        outputs = queried(lambda a: np.array([[1.0, 0, 0], [0, 1, 0]]), "probabilities")
        f = BoundaryObjective(outputs, False, "l2", Ranking(unit=4.0))
        y, rivals = np.zeros((1, 1), int), np.array([[[1, 2]]])
        value, _, *margins = f(np.zeros((1, 2, 4)), np.zeros((1, 1, 4)), y, rivals)
        assert np.isfinite(value).all()
        assert np.isfinite(margins).all()
        assert margins[0][0, 0] < 0 < margins[0][0, 1]

    @pytest.mark.parametrize("targeted", [False, True])
    def test_classes_alone_have_margins_of_1(self, targeted: bool) -> None:
        f = LabelObjective(queried(lambda a: np.array([2, 0, 1]), "labels"), targeted, Ranking(unit=4.0))
        x = np.full((1, 3, 4), 0.1)
        value, far, margin = f(x, np.zeros((1, 1, 4)), np.array([[2]]))
        np.testing.assert_allclose(far, 0.04)
        assert margin.tolist() == [[1, -1, -1] if targeted else [-1, 1, 1]]
        assert np.array_equal(value < 4 * 4, margin > 0)

    def test_what_is_watched(self) -> None:
        watch, d = BoundaryWatch(ends=True, ranking=Ranking(unit=3.0), targeted=False), 3
        state = watch.init(np.zeros((2, d)), np)

        def see(state: Any, k: int, best: list[float], watch: BoundaryWatch = watch) -> Any:
            x = np.full((2, d), float(k))
            more = np.array([[0.5, -1.0, -3.0], [0.7, -2.0, 4.0]])
            return watch.see(state, Sight(k, x, np.zeros(2), more, x, np.array(best)), np)

        state = see(state, 0, [5 * d + 1.0, 5 * d + 2.0])
        assert state[0].tolist() == [-1, -1]
        assert np.isinf(state[1]).all()
        assert state[4].tolist() == [0.5, 0.7]
        assert state[5].tolist() == [1.0, -4.0]  # the lead of the right class
        state = see(state, 1, [d + 0.25, 0.5])
        assert state[0].tolist() == [1, 1]
        assert state[1].tolist() == [0.25, 0.5]
        assert watch.done(state, np).tolist() == [False, True]  # the first is not safe
        state = see(state, 2, [0.2, 0.1])
        assert state[0].tolist() == [1, 1]
        assert state[1].tolist() == [0.2, 0.1]
        assert (state[2] == 2).all()
        within = BoundaryWatch(ends=True, ranking=Ranking(unit=3.0, reach=0.15), targeted=False)
        state = see(within.init(np.zeros((2, d)), np), 0, [2 * d + 0.2, 0.1], within)
        assert state[0].tolist() == [-1, 0]
        assert within.done(state, np).tolist() == [False, True]


# Walks from scores.


def walk(model: Linear, images: Any, **options: Any) -> AttackResult:
    label = model.scores(images).argmax(axis=1)
    given: dict[str, Any] = {"max_queries": 600, "seed": 0}
    return attack(model, images, label, **given | options)


def assert_same_attack(one: AttackResult, other: AttackResult) -> None:
    """Assert that two results are equal bit for bit."""
    for name in ("images", "queries", "first_success", "queries_to_success", "distortion", "last_total"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    assert one.outcome == other.outcome
    assert one.history.keys() == other.history.keys()
    for name, column in one.history.items():
        np.testing.assert_array_equal(column, other.history[name], err_msg=f"history {name}")


class TestConfirmation:
    """The image that is returned fools the model in a separate query, as the user runs it."""

    class Shifted(Linear):
        """After the walk, with as many images per call as at first, the right classes get a little more."""

        def __init__(self, shift: float) -> None:
            super().__init__()
            self.shift, self.label = shift, super().scores(gray()).argmax(axis=1)

        def __call__(self, images: Any) -> Any:
            late, own = self.asked > 20 * len(self.label), np.arange(len(images))
            scores = super().__call__(images)
            if late and len(images) <= len(self.label):
                scores[own, self.label[: len(images)]] += self.shift
            return scores

    def test_an_image_a_little_farther_away_is_returned(self) -> None:
        plain = attack(Linear(), gray(), Linear().scores(gray()).argmax(axis=1), max_iter=30, seed=0)
        model = self.Shifted(0.01)
        found = attack(model, gray(), model.label, max_iter=30, seed=0)
        assert plain.success.all()
        assert found.success.all()
        ratio = found.distance / plain.distance
        assert np.isclose(ratio[:, None], RETRIES, rtol=1e-6).any(axis=1).all()
        assert (found.queries == plain.queries + 1 + np.argmin(abs(ratio[:, None] - RETRIES), axis=1)).all()
        assert found.queries.sum() == model.asked

    def test_the_budget_is_not_exceeded(self) -> None:
        for budget in range(200, 230):
            model = self.Shifted(5.0)
            found = attack(model, gray(), model.label, max_queries=budget, seed=0)
            assert found.queries.max() <= budget
            assert model.asked == found.queries.sum()

    def test_the_budget_is_not_exceeded_from_classes(self) -> None:
        for budget in range(60, 90):
            model = self.Shifted(5.0)
            found = attack(model.labels, gray(), model.label, outputs="labels", max_queries=budget, seed=0)
            assert found.queries.max() <= budget
            assert model.asked == found.queries.sum()

    @pytest.mark.parametrize("outputs", ["logits", "labels"])
    def test_a_budget_without_an_iteration_is_refused_by_its_name(self, outputs: str) -> None:
        model = Linear()
        label = model.scores(gray()).argmax(axis=1)
        for budget in range(1, 13):
            with pytest.raises(ArgumentValueError, match="max_queries"):
                attack(
                    model.labels if outputs == "labels" else model, gray(), label, outputs=outputs, max_queries=budget
                )

    def test_the_noise_is_that_of_logits_or_of_log_probabilities(self) -> None:
        scores, again = np.array([[0.5, 0.25, 0.25]]), np.array([[0.5, 0.26, 0.24]])
        assert score_noise(scores, again, "logits") == pytest.approx(0.01)
        assert score_noise(scores, again, "probabilities") == pytest.approx(np.log(0.25 / 0.24))

    def test_no_image_beyond_eps_is_tried(self) -> None:
        plain = attack(Linear(), gray(), Linear().scores(gray()).argmax(axis=1), max_iter=30, seed=0)
        model = self.Shifted(0.01)
        eps = 1.001 * float(plain.distance.max())
        found = attack(model, gray(), model.label, max_iter=30, seed=0, eps=eps)
        farthest = int(plain.distance.argmax())
        assert found.outcome[farthest] is Outcome.UNCONFIRMED
        assert found.queries[farthest] == plain.queries[farthest]

    def test_the_safe_margin_is_above_the_noise(self) -> None:
        assert safe_margin(0.0) == SAFE_MARGIN
        assert safe_margin(0.2 * SAFE_MARGIN) == SAFE_MARGIN
        assert safe_margin(SAFE_MARGIN) == 4 * SAFE_MARGIN
        assert safe_margin(1.01 * SAFE_MARGIN) == 8 * SAFE_MARGIN

    def test_noise_of_the_first_scores_raises_the_margin(self) -> None:
        class Noisy(Linear):
            def __call__(self, images: Any) -> Any:
                noise = 0.004 if self.asked == 0 else 0.0
                return super().__call__(images) + noise

        model = Noisy()
        label = model.scores(gray()).argmax(axis=1)
        scores = model.scores(attack(model, gray(), label, max_queries=500, seed=0).images)
        lead = np.sort(scores, axis=1)[:, -1] - scores[np.arange(len(label)), label]
        assert (lead >= 0.016).all()


class TestWalk:
    @each_norm
    def test_probes_become_as_short_as_the_steps(self, norm: Norm) -> None:
        """Probes are long at first. Where the scores change faster than that, they are shortened."""
        calls: list[Any] = []

        def model(images: Any) -> Any:
            calls.append(images)
            wave = np.sin(2000 * images[:, 0]).sum(axis=-1)
            return np.stack([wave + 70 - images.mean(axis=(1, 2)), 0 * wave], axis=1)

        attack(model, np.full((1, 1, 64), 0.5), [0], norm=norm, max_queries=600, seed=0)
        lengths = [np.linalg.norm(some[1:] - some[:1], axis=(1, 2)).max() for some in calls if len(some) > 5]
        assert lengths[0] > 0.9 * FIRST_PROBE * 8
        assert min(lengths) < 0.5 * LAST_PROBE * 8

    @each_norm
    def test_it_finds_the_nearest_image(self, norm: Norm) -> None:
        model, images = Linear(), gray()
        label = model.scores(images).argmax(axis=1)
        exact = model.unbounded(images, label, norm)
        assert np.allclose(model.exact(images, label, norm), exact, rtol=1e-4)  # the range of the pixels is no limit
        found = walk(model, images, norm=norm)
        assert found.success.all()
        assert found.norm == norm
        assert (found.distance <= 1.02 * exact).all()
        assert (found.distance >= (1 - 1e-6) * exact).all()

    @each_norm
    def test_it_finds_the_nearest_image_within_the_range(self, norm: Norm) -> None:
        model, images = Linear(), extreme()
        label = model.scores(images).argmax(axis=1)
        exact = model.exact(images, label, norm)
        assert (exact > 1.05 * model.unbounded(images, label, norm)).all()  # the range is a limit
        found = walk(model, images, norm=norm)
        assert found.success.all()
        assert (found.distance <= 1.02 * exact).all()
        assert (found.distance >= (1 - 1e-6) * exact).all()

    @pytest.mark.parametrize("images", [gray(), extreme()], ids=["gray", "extreme"])
    def test_it_finds_the_nearest_image_of_a_class(self, images: Any) -> None:
        model = Linear()
        label = model.scores(images).argmax(axis=1)
        targets = (label + 1) % K
        exact = model.exact(images, label, "l2", targets)
        found = walk(model, images, targets=targets, max_queries=1500)
        assert found.success.all()
        assert (found.after == targets).all()
        assert (found.distance <= 1.02 * exact).all()
        assert (found.distance >= (1 - 1e-5) * exact).all()

    def test_a_class_is_reached_in_the_maximum_norm(self) -> None:
        model, images = Linear(), gray()
        label = model.scores(images).argmax(axis=1)
        targets = (label + 1) % K
        found = walk(model, images, targets=targets, norm="linf", max_queries=1500)
        assert found.success.all()
        assert (found.after == targets).all()
        np.testing.assert_allclose(found.distance, np.abs(found.images - images).max(axis=(1, 2, 3)), rtol=1e-9)

    def test_it_finds_the_nearest_image_of_a_class_in_the_maximum_norm(self) -> None:
        model, images = Linear(), gray()
        label = model.scores(images).argmax(axis=1)
        targets = (label + 1) % K
        found = walk(model, images, targets=targets, norm="linf", max_queries=1500)
        assert (found.distance <= 1.02 * model.exact(images, label, "linf", targets)).all()

    @each_norm
    def test_of_1000_classes_nine_are_followed(self, norm: Norm) -> None:
        model, images = Linear(1000), gray()
        label = model.scores(images).argmax(axis=1)
        found = walk(model, images, norm=norm)
        assert found.success.all()
        assert (found.after != label).all()
        assert (found.distance <= 1.1 * model.unbounded(images, label, norm)).all()
        assert found.run is not None
        assert found.run.method.oracle.margins == MAX_RIVALS + 1

    def test_more_queries_lower_the_distortion(self) -> None:
        model, images = Linear(), extreme()
        polished, first = (walk(model, images, stop=stop, samples=4) for stop in ("end", "first success"))
        assert np.array_equal(polished.first_success, first.first_success)
        assert polished.success.all()
        assert first.success.all()
        assert (polished.distortion < 0.9 * first.distortion).all()
        assert (first.queries < polished.queries).all()
        assert np.array_equal(first.queries_to_success, polished.queries_to_success)

    @pytest.mark.parametrize("options", [{}, {"norm": "linf"}, {"targets": 1}, {"norm": "linf", "targets": 1}])
    def test_every_query_is_counted(self, options: dict[str, Any]) -> None:
        model = Linear()
        found = walk(model, gray(), **options)
        assert model.asked == found.queries.sum()
        assert found.queries.max() <= 600

    @each_norm
    def test_images_of_float32_stay_float32(self, norm: Norm) -> None:
        seen = set()

        class Noting(Linear):
            def scores(self, images: Any) -> Any:
                seen.add(images.dtype)
                return super().scores(images)

        found = walk(Noting(), gray().astype(np.float32), norm=norm)
        assert seen == {np.dtype(np.float32)}
        assert found.images.dtype == np.float32
        double = walk(Linear(), gray(), norm=norm)
        np.testing.assert_allclose(found.distance, double.distance, rtol=0.02)

    @each_norm
    def test_a_batch_is_as_many_single_runs(self, norm: Norm) -> None:
        images, seeds = extreme(), [3, 1, 4, 15]
        together = walk(Linear(), images, norm=norm, seed=seeds)
        for i, seed in enumerate(seeds):
            alone = walk(Linear(), images[i : i + 1], norm=norm, seed=[seed])
            assert np.array_equal(alone.images[0], together.images[i])
            assert alone.queries[0] == together.queries[i]
            assert np.array_equal(alone.history["least"][:, 0], together.history["least"][:, i])

    @parametrize_libraries("torch", "jax")
    @pytest.mark.parametrize("options", [{}, {"norm": "linf", "targets": 1}], ids=["l2", "linf targeted"])
    def test_all_libraries_agree(self, library: str, options: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        def run(library: str) -> AttackResult:
            replay_noise(monkeypatch, library)
            images = to_library(extreme(), library)
            label = to_numpy(Linear().scores(images)).argmax(axis=1)
            return attack(Linear().scores, images, label, max_queries=300, seed=0, **options)

        found, expected = run(library), run("numpy")
        assert found.run is not None
        assert found.run.engine == engine(library)
        np.testing.assert_allclose(to_numpy(found.images), expected.images, atol=1e-6)
        assert np.array_equal(found.queries, expected.queries)
        assert np.array_equal(found.first_success, expected.first_success)


class Killed(Exception):
    """Raised by a model in the middle of a run."""


class Killing(Linear):
    """Model that raises in its n-th call."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.left = n

    def __call__(self, images: Any) -> Any:
        self.left -= 1
        if self.left == 0:
            raise Killed
        return super().__call__(images)


WALKS: dict[str, dict[str, Any]] = {
    "l2": {},
    "linf": {"norm": "linf"},
    "targeted": {"targets": 1},
    "labels": {"outputs": "labels"},
    "labels targeted": {"outputs": "labels", "targets": 1},
}


def walk_of(kind: str, model: Linear, images: Any, **options: Any) -> AttackResult:
    """Run one of the walks, on the scores or on the classes of a model."""
    label = model.scores(images).argmax(axis=1)
    given: dict[str, Any] = {"max_queries": 400, "seed": 0, "history": "full"} | WALKS[kind]
    answers = model.labels if given.get("outputs") == "labels" else model
    return attack(answers, images, label, **given | options)


class TestResume:
    @pytest.mark.parametrize("kind", WALKS)
    @pytest.mark.parametrize("calls", [3, 4, 5, 6, 11, 20])
    def test_a_killed_walk_goes_on_with_the_same_bits(self, kind: str, calls: int, tmp_path: Path) -> None:
        images, file = extreme(6), tmp_path / "walk.npz"
        whole = walk_of(kind, Linear(), images)
        killing, rest = Killing(calls), Linear()
        with pytest.raises(Killed):
            walk_of(kind, killing, images, checkpoint=file)
        assert_same_attack(walk_of(kind, rest, images, checkpoint=file), whole)
        # Only the checks of the originals, and perhaps of noise to start from, are repeated.
        asked = Linear()
        walk_of(kind, asked, images)
        assert killing.asked + rest.asked - asked.asked <= 3 * 6

    @pytest.mark.parametrize("kind", WALKS)
    def test_a_walk_that_is_killed_again_and_again_ends(self, kind: str, tmp_path: Path) -> None:
        images, file = extreme(6), tmp_path / "walk.npz"
        for calls in (4, 6, 9, 5):
            with pytest.raises(Killed):
                walk_of(kind, Killing(calls), images, checkpoint=file)
        assert_same_attack(walk_of(kind, Linear(), images, checkpoint=file), walk_of(kind, Linear(), images))

    def test_a_checkpoint_of_another_walk_is_refused(self, tmp_path: Path) -> None:
        file = tmp_path / "walk.npz"
        walk_of("l2", Linear(), gray(), checkpoint=file)
        for kind in ("linf", "targeted", "labels"):
            with pytest.raises(ValueError, match=r"walk\.npz"):
                walk_of(kind, Linear(), gray(), checkpoint=file)

    def test_another_start_is_another_run(self, tmp_path: Path) -> None:
        file, images, model = tmp_path / "walk.npz", gray(2), Linear(2)
        label = model.scores(images).argmax(axis=1)
        first = opposite(model, images, label)
        second = np.clip(first + 0.01, 0, 1)
        options: dict[str, Any] = {"outputs": "labels", "max_queries": 200, "seed": 0, "checkpoint": file}
        attack(model.labels, images, label, starts=first, **options)
        with pytest.raises(ValueError, match=r"walk\.npz"):
            attack(model.labels, images, label, starts=second, **options)

    def test_another_start_of_a_walk_by_scores_is_another_run(self, tmp_path: Path) -> None:
        file, images, model = tmp_path / "walk.npz", gray(2), Linear(2)
        label = model.scores(images).argmax(axis=1)
        first = opposite(model, images, label)
        options: dict[str, Any] = {"max_queries": 200, "seed": 0, "checkpoint": file}
        attack(model, images, label, starts=first, **options)
        with pytest.raises(ValueError, match=r"walk\.npz"):
            attack(model, images, label, starts=np.clip(first + 0.01, 0, 1), **options)


# Budgets.


@given(
    max_queries=st.integers(1, 150),
    samples=st.none() | st.integers(1, 60),
    kind=st.sampled_from([*WALKS]),
    stop=st.sampled_from(["end", "first success"]),
    alone=st.booleans(),
)
@example(max_queries=4, samples=1, kind="l2", stop="end", alone=False)
@example(max_queries=7, samples=1, kind="l2", stop="end", alone=False)
@example(max_queries=149, samples=48, kind="linf", stop="end", alone=False)
def test_no_budget_is_exceeded(max_queries: int, samples: int | None, kind: str, stop: str, alone: bool) -> None:
    model, images = Linear(), gray(1 if alone else 3)
    params = {} if samples is None else {"samples": samples}
    try:
        found = walk_of(kind, model, images, max_queries=max_queries, stop=stop, **params)
    except ArgumentValueError:  # too small for an iteration, or more probes than pixels
        assert max_queries < 70 or (samples or 0) > 48
    else:
        assert model.asked == found.queries.sum()
        assert found.queries.max() <= max_queries
    assert model.asked <= len(images) * max(max_queries, 2)


# Walks from classes alone.


def opposite(model: Linear, images: Any, label: Any) -> Any:
    """Return images that a classifier of two classes sees as the other class, far from the boundary."""
    sign = np.sign(model.W[:, 1] - model.W[:, 0]).reshape(images.shape[1:])
    return np.stack([0.5 + (0.5 if y == 0 else -0.5) * sign for y in label])


class TestLabelWalk:
    @pytest.mark.parametrize("shape", [(4,), (3, 2, 2), (4, 4)], ids=str)
    def test_it_finds_the_nearest_image(self, shape: tuple[int, ...]) -> None:
        model, images = Linear(2, shape), gray(6, shape)
        label = model.scores(images).argmax(axis=1)
        found = attack(model.labels, images, label, outputs="labels", max_queries=2000, seed=0)
        assert model.asked == found.queries.sum()
        assert found.success.all()
        exact = model.unbounded(images, label, "l2")
        assert (found.distance <= 1.1 * exact).all()
        assert (found.distance >= (1 - 1e-9) * exact).all()

    def test_it_finds_the_nearest_image_of_a_class(self) -> None:
        model, images = Linear(3, (4, 4)), gray(6, (4, 4))
        label = model.scores(images).argmax(axis=1)
        targets = (label + 1) % 3
        found = attack(model.labels, images, label, targets=targets, outputs="labels", max_queries=4000, seed=0)
        assert found.success.all()
        assert (found.after == targets).all()
        assert (found.distance <= 1.1 * model.exact(images, label, "l2", targets)).all()

    def test_it_starts_where_the_user_says(self) -> None:
        model, images, asked = Linear(2), gray(2), []
        label = model.scores(images).argmax(axis=1)
        starts = opposite(model, images, label)

        def noting(images: Any) -> Any:
            asked.append(images)
            return model.labels(images)

        found = attack(noting, images, label, outputs="labels", starts=starts, max_queries=300, seed=0)
        assert np.array_equal(asked[2], starts)  # after two calls with the originals
        assert found.success.all()
        assert model.asked == found.queries.sum()

    def test_it_starts_at_the_nearest_other_image_without_a_query(self) -> None:
        model, images = Linear(2), np.concatenate([gray(1), extreme(5)])
        label = model.scores(images).argmax(axis=1)
        assert len(set(label)) == 2
        found = attack(model.labels, images, label, outputs="labels", max_queries=300, max_iter=0, seed=0)
        assert found.queries.max() <= 2 + 1 + 1 + 1
        many = attack(model.labels, images, label, outputs="labels", max_queries=300, seed=0)
        assert many.success.all()
        for i in range(6):
            others = np.flatnonzero(label != label[i])
            nearest_other = np.linalg.norm((images[others] - images[i]).reshape(len(others), -1), axis=1).min()
            assert many.distance[i] < nearest_other

    def test_it_starts_at_noise_if_no_other_image_fools_the_model(self) -> None:
        model, images = Linear(2), gray(1)
        label = model.scores(images).argmax(axis=1)
        found = attack(model.labels, images, label, outputs="labels", max_queries=300, seed=0)
        assert found.success.all()
        assert model.asked == found.queries[0]

    @pytest.mark.parametrize("targeted", [False, True])
    def test_a_start_that_does_not_fool_the_model_is_an_error(self, targeted: bool) -> None:
        model, images = Linear(3), gray(3)
        label = model.scores(images).argmax(axis=1)
        targets = (label + 1) % 3 if targeted else None
        wanted = f"as class {(label[0] + 1) % 3}" if targeted else "as another class"
        with pytest.raises(ValueError, match=f"`starts` must be .* sees {wanted}, but image 0 is seen as {label[0]}"):
            attack(model.labels, images, label, targets=targets, outputs="labels", starts=images, max_queries=300)

    @pytest.mark.parametrize(
        ("starts", "message"),
        [
            (gray(2), r"`starts` must have the shape of `images`, \(3, 3, 4, 4\); got \(2, 3, 4, 4\)"),
            (gray(3) * 9, r"`starts` must have pixels in \[0, 1\]"),
            (gray(3) * np.nan, "`starts` must be finite"),
            ("noise", "`starts` must be an array of images"),
        ],
        ids=["shape", "range", "nan", "text"],
    )
    def test_starts_that_are_no_images_are_an_error(self, starts: Any, message: str) -> None:
        model, images = Linear(3), gray(3)
        label = model.scores(images).argmax(axis=1)
        with pytest.raises((ValueError, TypeError), match=message):
            attack(model.labels, images, label, outputs="labels", starts=starts, max_queries=300)

    def test_scores_instead_of_classes_are_an_error(self) -> None:
        model, images = Linear(), gray()
        label = model.scores(images).argmax(axis=1)
        with pytest.raises(ValueError, match=r"must return one class per image .*For scores pass `outputs='logits'`"):
            attack(model, images, label, outputs="labels")

    def test_classes_that_change_are_an_error(self) -> None:
        images, calls = gray(), []

        def fickle(images: Any) -> Any:
            calls.append(1)
            return np.full(len(images), len(calls) % 2)

        with pytest.raises(ValueError, match="the class of image 0 changed from 1 to 0: turn dropout"):
            attack(fickle, images, np.ones(4, int), outputs="labels")

    def test_images_of_float32_stay_float32(self) -> None:
        model, images = Linear(2), gray().astype(np.float32)
        label, seen = model.scores(images).argmax(axis=1), set()

        def noting(images: Any) -> Any:
            seen.add(images.dtype)
            return model.labels(images)

        found = attack(noting, images, label, outputs="labels", max_queries=400, seed=0)
        assert seen == {np.dtype(np.float32)}
        assert found.images.dtype == np.float32
        assert found.success.all()

    @parametrize_libraries("torch", "jax")
    def test_all_libraries_agree(self, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
        def run(library: str) -> AttackResult:
            replay_noise(monkeypatch, library)
            images, model = to_library(gray(), library), Linear(2)
            label = to_numpy(model.scores(images)).argmax(axis=1)

            def labels(images: Any) -> Any:
                return array_namespace(images).argmax(model.scores(images), axis=1)

            return attack(labels, images, label, outputs="labels", max_queries=300, seed=0)

        found, expected = run(library), run("numpy")
        assert found.run is not None
        assert found.run.engine == engine(library)
        np.testing.assert_allclose(to_numpy(found.images), expected.images, atol=1e-6)
        assert np.array_equal(found.queries, expected.queries)


# Models that misbehave.


class Spoiled(Linear):
    """Model that answers with a bad number for a part of the images, after the originals were checked."""

    def __init__(self, bad: float, share: float = 0.3) -> None:
        super().__init__()
        self.bad, self.share, self.spoiled = bad, share, list[Any]()

    def is_bad(self, images: Any) -> Any:
        """Return a mask that depends on the pixels alone."""
        digits = (1e4 * images.reshape(len(images), -1)).sum(axis=1) % 1
        return digits < self.share

    def __call__(self, images: Any) -> Any:
        scores = super().__call__(images)
        bad = self.is_bad(images)
        if self.asked <= 3 * len(images):  # the originals, twice, and the start
            return scores
        scores[bad, 2] = self.bad
        self.spoiled.extend(images[bad])
        return scores


class TestBadModels:
    @each_norm
    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    def test_bad_answers_are_dropped_and_counted(self, bad: float, norm: Norm) -> None:
        model, images = Spoiled(bad), gray()
        found = walk(model, images, norm=norm)
        assert found.run is not None
        assert found.run.nrejected.sum() == len(model.spoiled) > 0
        assert model.asked == found.queries.sum()
        assert found.success.any()
        for i in np.flatnonzero(found.success):
            assert not any(np.array_equal(found.images[i], one) for one in model.spoiled)
            assert model.scores(found.images[i : i + 1]).argmax() == found.after[i] != found.label[i]

    def test_a_walk_with_bad_answers_still_gets_near(self) -> None:
        model, images = Spoiled(np.nan, 0.1), gray()
        found = walk(model, images)
        assert found.success.all()
        assert (found.distance <= 1.1 * model.unbounded(images, found.label, "l2")).all()

    @pytest.mark.parametrize("targets", [None, 1])
    def test_a_model_that_answers_nan_for_good_is_an_outcome(self, targets: Any) -> None:
        model, images = Linear(), gray()
        label, calls = model.scores(images).argmax(axis=1), []

        def fading(images: Any) -> Any:
            calls.append(1)
            return model(images) * (1.0 if len(calls) < 4 else np.nan)

        found = attack(fading, images, label, targets=targets, max_queries=2000, seed=0)
        expected = {Outcome.NONFINITE} | ({Outcome.THERE} if targets in label else set())
        assert set(found.outcome) == expected
        assert np.array_equal(found.images, images)
        assert np.isnan(found.distortion).all()
        assert found.queries.max() < 500  # ten iterations

    def test_labels_that_change_at_random_never_break_the_walk(self) -> None:
        model, images, calls = Linear(2), gray(), []
        label, rng = model.scores(images).argmax(axis=1), np.random.default_rng(0)

        def fickle(images: Any) -> Any:
            calls.append(len(images))
            flip = (rng.random(len(images)) < 0.2) & (len(calls) > 2)
            return np.where(flip, 1 - model.labels(images), model.labels(images))

        found = attack(fickle, images, label, outputs="labels", max_queries=400, seed=0)
        assert sum(calls) == found.queries.sum()
        assert found.queries.max() <= 400
        assert set(found.outcome) <= {Outcome.SUCCESS, Outcome.UNCONFIRMED}
        untouched = [one is Outcome.UNCONFIRMED for one in found.outcome]
        assert np.array_equal(found.images[untouched], images[untouched])

    @each_norm
    def test_scores_that_change_later_never_break_the_walk(self, norm: Norm) -> None:
        model, images, calls = Linear(), gray(), []
        label, rng = model.scores(images).argmax(axis=1), np.random.default_rng(0)

        def noisy(images: Any) -> Any:
            calls.append(len(images))
            return model(images) + (rng.normal(size=(len(images), K)) if len(calls) > 2 else 0)

        found = attack(noisy, images, label, norm=norm, max_queries=400, seed=0)
        assert sum(calls) == found.queries.sum()
        assert set(found.outcome) <= {Outcome.SUCCESS, Outcome.UNCONFIRMED}

    @each_norm
    def test_probabilities_that_underflow_have_finite_margins(self, norm: Norm) -> None:
        model, images = Linear(), gray()
        label = model.scores(images).argmax(axis=1)

        def certain(images: Any) -> Any:
            with np.errstate(under="ignore"):
                return softmax(1e6 * model(images), axis=1)

        assert set(np.unique(certain(images))) == {0.0, 1.0}
        found = attack(certain, images, label, outputs="probabilities", norm=norm, max_queries=400, seed=0)
        assert np.isfinite(found.history["margin"]).all()
        assert np.isfinite(found.last_total).all() == (norm == "l2")
        assert set(found.outcome) <= {Outcome.SUCCESS, Outcome.FAILED}
        assert np.array_equal(certain(found.images).argmax(axis=1) != label, found.success)

    @pytest.mark.parametrize("options", [*WALKS.values()], ids=[*WALKS])
    def test_a_constant_model_is_not_fooled(self, options: dict[str, Any]) -> None:
        images = gray()

        def constant(images: Any) -> Any:
            scores = np.tile([1.0, 0.0, 0.5], (len(images), 1))
            return scores.argmax(axis=1) if options.get("outputs") == "labels" else scores

        found = attack(constant, images, np.zeros(4, int), max_queries=300, seed=0, **options)
        labels = options.get("outputs") == "labels"
        assert set(found.outcome) == {Outcome.NO_START if labels else Outcome.FAILED}
        assert np.array_equal(found.images, images)
        assert found.queries.max() <= (2 + 300 // 4 if labels else 300)  # without a start there is no walk
        assert not found.success.any()

    def test_penalties_for_bad_values_are_refused(self) -> None:
        """A walk follows margins. A bad value has none, so that a penalty would look like a point of the boundary."""
        with pytest.raises(ValueError, match="`on_nonfinite` 'penalize' needs the loss of the paper"):
            walk(Linear(), gray(), on_nonfinite="penalize")


class TestRanking:
    @pytest.mark.parametrize("unit", [4.0, 1.0, 150_528.0])
    def test_a_success_within_reach_comes_before_a_safe_one_beyond(self, unit: float) -> None:
        ranking = Ranking(unit=unit, reach=0.2)
        far, lead = np.array([0.1, 0.15, 0.3, 0.25, 0.05]), np.array([1.0, 0.5 * SAFE_MARGIN, 1.0, 1e-4, -1.0])
        value = ranking.value(far, lead, np)
        assert np.array_equal(np.argsort(value), [0, 1, 2, 3, 4])
        rank, read = ranking.read(value, np)
        assert rank.tolist() == [0, 1, 2, 3, 4]
        np.testing.assert_allclose(read[:4], far[:4], rtol=1e-9)

    def test_the_largest_reach_ends_nothing_that_is_not_fooled(self) -> None:
        found = walk(Linear(), gray(), eps=100.0, stop="first success")
        assert found.success.all()

    def test_the_distortion_is_that_of_the_returned_image(self) -> None:
        """Also where rounding makes every success unsafe."""
        small, images = Linear(), gray().astype(np.float32)
        label = small.scores(images).argmax(axis=1)
        for norm in ("l2", "linf"):
            found = attack(
                lambda a: 1e-5 * small(a),
                images,
                label,
                norm=norm,
                max_queries=300,
                seed=0,
            )
            change = (found.images - images)[found.success].reshape(found.success.sum(), -1)
            exact = (change**2).sum(axis=1) if norm == "l2" else np.abs(change).max(axis=1)
            np.testing.assert_allclose(found.distortion[found.success], exact, rtol=1e-3)


class TestReach:
    @each_norm
    def test_only_images_within_eps_are_successes(self, norm: Norm) -> None:
        model, images = Linear(), gray()
        exact = model.unbounded(images, model.scores(images).argmax(axis=1), norm)
        limit = float(np.sort(exact)[1:3].mean())  # two of the four are nearer
        found = walk(model, images, norm=norm, eps=limit)
        assert np.array_equal(found.success, exact < limit)
        assert (found.distance[found.success] <= limit).all()
        assert np.isnan(found.distance[~found.success]).all()
        assert np.array_equal(found.images[~found.success], images[~found.success])
        assert {found.outcome[i] for i in np.flatnonzero(~found.success)} == {Outcome.FAILED}

    @pytest.mark.parametrize("kind", ["l2", "linf", "labels"])
    def test_eps_out_of_reach_fails(self, kind: str) -> None:
        model, images = Linear(), gray()
        found = walk_of(kind, model, images, eps=1e-6)
        assert set(found.outcome) == {Outcome.FAILED}
        assert np.array_equal(found.images, images)
        assert model.asked == found.queries.sum()

    @each_norm
    def test_the_first_success_is_the_first_within_eps(self, norm: Norm) -> None:
        model, images = Linear(), extreme()
        exact = model.exact(images, model.scores(images).argmax(axis=1), norm)
        limit = 1.1 * float(exact.max())
        found = walk(model, images, norm=norm, eps=limit, stop="first success")
        assert found.success.all()
        assert (found.distance <= limit).all()
        assert found.run is not None
        assert (found.run.status == Status.WATCHED).all()

    @each_norm
    def test_eps_has_the_units_of_the_pixels(self, norm: Norm) -> None:
        model, images = Linear(), gray()
        label = model.scores(images).argmax(axis=1)
        limit = float(np.median(model.unbounded(images, label, norm)))
        options: dict[str, Any] = {"norm": norm, "max_queries": 300, "seed": 0}
        plain = attack(model, images, label, eps=limit, **options)
        bytes_ = attack(
            lambda x: model(np.clip(x / 255, 0, 1)), 255 * images, label, pixels=(0, 255), eps=255 * limit, **options
        )
        assert 0 < plain.success.sum() < 4
        assert np.array_equal(plain.success, bytes_.success)
        np.testing.assert_allclose(bytes_.distance, plain.distance, rtol=1e-3)


# Leaps.


class Flat:
    """Classifier whose scores do not change near the gray image: class 0 there, 2 near white, 1 elsewhere.

    The derivatives are 0 at each image, so that only a leap gets to another class.
    """

    radius = 0.1

    def __call__(self, images: Any) -> Any:
        flat = images.reshape(len(images), -1) - 0.5
        distance = np.sqrt(np.mean(flat**2, axis=1))
        seen = np.where(np.all(flat > 0.2, axis=1), 2, np.where(distance > self.radius, 1, 0))
        return 2.0 * np.eye(3)[seen] - 1.0


class TestLeaps:
    @each_norm
    @pytest.mark.parametrize("shape", [SHAPE, (16,)])
    def test_a_model_without_derivatives_is_fooled_by_stripes(self, norm: Norm, shape: tuple[int, ...]) -> None:
        images = np.full((3, *shape), 0.5)
        found = attack(Flat(), images, np.zeros(3, int), norm=norm, max_queries=200, seed=0)
        assert found.success.all()
        # All pixels of a stripe change by the same amount. The last leap that fooled was at most 2 times too long.
        unit = 1.0 if norm == "linf" else np.prod(shape) ** 0.5
        assert (found.distance <= 2 * Flat.radius * unit).all()
        assert (found.distance > Flat.radius * unit).all()

    def test_a_class_that_no_stripe_reaches_needs_a_start(self) -> None:
        images, white, target = np.full((3, *SHAPE), 0.5), np.full((3, *SHAPE), 0.9), np.full(3, 2)
        alone = attack(Flat(), images, np.zeros(3, int), targets=target, max_queries=300, seed=0)
        assert not alone.success.any()
        found = attack(Flat(), images, np.zeros(3, int), targets=target, starts=white, max_queries=300, seed=0)
        assert found.success.all()
        assert (found.after == 2).all()
        assert (found.distance <= 0.4 * D**0.5 * (1 + 1e-9)).all()
        assert found.queries.max() <= 300

    def test_a_start_takes_one_query(self) -> None:
        model, images = Linear(2), gray(2)
        label = model.scores(images).argmax(axis=1)
        found = attack(model, images, label, starts=opposite(model, images, label), max_queries=200, seed=0)
        assert model.asked == found.queries.sum()
        assert found.success.all()

    def test_there_are_none_after_the_boundary_is_reached(self) -> None:
        """A walk that is at the boundary of a linear model makes small steps. A leap would change all pixels alike."""
        model, images, asked = Linear(2, (4, 4)), gray(1, (4, 4)), []
        label = model.scores(images).argmax(axis=1)

        def noting(images: Any) -> Any:
            asked.append(np.asarray(images))
            return model(images)

        found = attack(noting, images, label, max_queries=400, seed=0)
        assert found.success.all()
        sizes = [np.abs(np.abs(one - images[0]).ravel()) for batch in asked for one in batch]
        is_leap = np.array([size.max() > 0.01 and np.ptp(size) < 1e-9 for size in sizes])
        assert is_leap.any()
        assert not is_leap[len(is_leap) // 2 :].any()


# Further walks.


class Trap:
    """Classifier of gray images of 64 pixels. Class 1 looks nearest at the image, at distance 1, but class 2 is nearer.

    The margins of class 2 rise by 0.2 s at first, and then by 4 s ** 2.
    """

    nearest = (np.sqrt(0.2**2 + 16) - 0.2) / 8

    def __init__(self) -> None:
        angles = np.pi * (np.arange(8) + 0.5) / 8
        self.u = np.outer(np.cos(angles), np.ones(8)).ravel() / np.sqrt(32)
        self.v = np.outer(np.ones(8), np.cos(angles)).ravel() / np.sqrt(32)
        self.asked: list[Any] = []

    def __call__(self, images: Any) -> Any:
        self.asked.append(images)
        flat = images.reshape(len(images), -1) - 0.5
        s = (flat * self.v).sum(axis=1)
        return np.stack([0 * s, (flat * self.u).sum(axis=1) - 1, 4 * s**2 + 0.2 * s - 1], axis=1)


@pytest.fixture
def short_walks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let images of any size have short walks, so that 600 queries suffice for three."""
    monkeypatch.setattr(plan, "MIN_WALK_PIXELS", 1)


def first_walk_of(found: AttackResult) -> int:
    """Return the iterations of the first walk, after an assertion that there are more."""
    assert found.run is not None
    oracle = found.run.method.oracle
    assert isinstance(oracle, BoundaryWalk)
    assert oracle.next_walk > 0
    return oracle.first_walk


class TestFurtherWalks:
    def test_one_finds_a_nearer_class(self) -> None:
        images = np.full((2, 1, 8, 8), 0.5)
        one, several = (attack(Trap(), images, [0, 0], max_queries=n, seed=0) for n in (5_000, 7_200))
        assert one.after.tolist() == [1, 1]
        np.testing.assert_allclose(one.distance, 1, rtol=0.01)
        assert several.after.tolist() == [2, 2]
        np.testing.assert_allclose(several.distance, Trap.nearest, rtol=0.01)

    @each_norm
    @pytest.mark.usefixtures("short_walks")
    def test_they_begin_at_the_original_and_keep_the_best(self, norm: Norm) -> None:
        found = walk(Linear(), extreme(), norm=norm, history="full")
        k = first_walk_of(found)
        far, least = found.history["distortion"], found.history["least"]
        assert (far[k - 1] > 1e-4).all()
        assert (far[k] < 1e-12).all()
        assert (least[1:] <= least[:-1]).all()
        np.testing.assert_allclose(found.distortion, least[-1], rtol=1e-9)

    @pytest.mark.usefixtures("short_walks")
    def test_the_run_does_not_end_at_the_original(self) -> None:
        for max_queries in range(480, 620, 7):
            found = walk(Linear(), gray(), max_queries=max_queries)
            first_walk_of(found)
            assert (found.last_distortion > 1e-6).all()

    def test_small_budgets_have_a_single_walk(self) -> None:
        assert plan.walk_lengths(5_000 // 27, 27, 784) == (0, 0)
        assert plan.walk_lengths(20_000 // 27, 27, 3072) == (0, 0)
        assert plan.walk_lengths(20_000 // 27, 27, 150_528) == (0, 0)
        assert plan.walk_lengths(5_000 // 27, 27, 4) == (0, 0)
        first, again = plan.walk_lengths(20_000 // 27, 27, 784)
        assert again > 0
        assert 27 * first >= 7 * 784

    @given(st.integers(1, 3000), st.integers(2, 30), st.integers(1, 4000))
    def test_the_last_walk_is_complete(self, iterations: int, cost: int, d: int) -> None:
        first, again = plan.walk_lengths(iterations, cost, d)
        if again:
            assert first - 1 >= plan.FIRST_WALK_QUERIES * d / cost
            assert (iterations - (first - 1)) % again == 0
            assert iterations >= first

    def test_only_the_given_images_begin_again(self) -> None:
        oracle = BoundaryWalk(samples=1, shape=(4,), margins=3, first_walk=5, next_walk=2)
        rng = np.random.default_rng(0)
        begun = oracle.init(rng.uniform(-0.5, 0.5, (4, 4)), Context(xp=np))
        memory = (begun[0], *(rng.normal(size=one.shape) for one in begun[1:3]), begun[3], *begun[4:-1])
        left_out = np.array([[0.0, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 0]])
        led = np.array([[1.0, 0, 0], [1, 0, 0], [0, 0, 1], [0, 1, 0]])
        again = np.array([True, True, True, False])
        new = oracle._restarted(again, led, (*memory, left_out), np)
        for one, old, first in zip(new[:-1], memory, begun[:-1], strict=True):
            np.testing.assert_array_equal(one[3], old[3])
            if first is not begun[-2]:
                np.testing.assert_array_equal(one[:3], first[:3])
        assert new[-2].tolist() == [2, 2, 2, 5]
        assert new[-1].tolist() == [[1, 0, 0], [1, 1, 0], [0, 0, 0], [0, 0, 0]]

    @pytest.mark.parametrize("kind", ["l2", "linf", "targeted"])
    @pytest.mark.usefixtures("short_walks")
    def test_every_query_is_counted(self, kind: str) -> None:
        for max_queries in (590, 600, 613):
            model = Linear()
            found = walk_of(kind, model, gray(), max_queries=max_queries)
            first_walk_of(found)
            assert model.asked == found.queries.sum()
            assert found.queries.max() <= max_queries

    @pytest.mark.parametrize("kind", ["l2", "linf", "targeted"])
    @pytest.mark.parametrize("after", [-1, 0, 1, 4])
    @pytest.mark.usefixtures("short_walks")
    def test_a_killed_one_goes_on_with_the_same_bits(self, kind: str, after: int, tmp_path: Path) -> None:
        images, file = extreme(3), tmp_path / "walk.npz"
        whole = walk_of(kind, Linear(), images, max_queries=600)
        # Two calls come first, one of the start, and then there are two per iteration.
        killing = Killing(3 + 2 * (first_walk_of(whole) + after))
        with pytest.raises(Killed):
            walk_of(kind, killing, images, max_queries=600, checkpoint=file)
        assert_same_attack(walk_of(kind, Linear(), images, max_queries=600, checkpoint=file), whole)

    @pytest.mark.parametrize("kind", ["l2", "linf"])
    @pytest.mark.usefixtures("short_walks")
    def test_a_batch_is_as_many_single_runs(self, kind: str) -> None:
        images, seeds = extreme(3), [3, 1, 4]
        together = walk_of(kind, Linear(), images, seed=seeds, max_queries=600)
        first_walk_of(together)
        for i, seed in enumerate(seeds):
            alone = walk_of(kind, Linear(), images[i : i + 1], seed=[seed], max_queries=600)
            assert np.array_equal(alone.images[0], together.images[i])
            assert np.array_equal(alone.history["least"][:, 0], together.history["least"][:, i])

    @parametrize_libraries("torch", "jax")
    @pytest.mark.parametrize("starts", [False, True])
    @pytest.mark.usefixtures("short_walks")
    def test_all_libraries_agree(self, library: str, starts: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        def run(library: str) -> AttackResult:
            replay_noise(monkeypatch, library)
            model, images = Linear(2), extreme()
            label = model.scores(images).argmax(axis=1)
            given = to_library(opposite(model, images, label), library) if starts else None
            return attack(model.scores, to_library(images, library), label, starts=given, max_queries=500, seed=0)

        found, expected = run(library), run("numpy")
        assert found.run is not None
        assert found.run.engine == engine(library)
        assert first_walk_of(found) == first_walk_of(expected)
        np.testing.assert_allclose(to_numpy(found.images), expected.images, atol=1e-6)
        assert np.array_equal(found.queries, expected.queries)


# On a GPU.


@pytest.mark.cuda
class TestGraphs:
    @pytest.mark.parametrize("kind", WALKS)
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("short", [False, True])
    def test_a_graph_does_what_the_python_loop_does(
        self, kind: str, dtype: Any, short: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        replay_noise(monkeypatch, "cuda")
        if short:
            monkeypatch.setattr(plan, "MIN_WALK_PIXELS", 1)
            monkeypatch.setattr(plan, "FIRST_WALK_QUERIES", 4)
        found, expected = (self.run(kind, dtype, compiled) for compiled in (True, False))
        assert found.run is not None
        assert found.run.engine == "torch cuda graph"
        assert expected.run is not None
        assert expected.run.engine == "torch eager"
        assert np.array_equal(found.queries, expected.queries)
        assert np.array_equal(found.success, expected.success)
        tolerance = 1e-6 if dtype == np.float64 else 2e-2
        np.testing.assert_allclose(found.distance, expected.distance, rtol=tolerance)
        if dtype == np.float64:
            np.testing.assert_allclose(to_numpy(found.images), to_numpy(expected.images), atol=1e-6)

    @staticmethod
    def run(kind: str, dtype: Any, compiled: bool) -> AttackResult:
        model, images = Linear(), to_library(extreme(6).astype(dtype), "cuda")
        label = to_numpy(model.scores(images)).argmax(axis=1)
        options: dict[str, Any] = {"max_queries": 400, "seed": 0, "compiled": compiled} | WALKS[kind]

        def answers(images: Any) -> Any:
            scores = model.scores(images)
            return scores.argmax(dim=1) if options.get("outputs") == "labels" else scores

        model.W = to_library(model.W, "cuda")  # a graph cannot contain the copy from the host
        return attack(answers, images, label, **options)

    @pytest.mark.parametrize("kind", ["l2", "labels"])
    def test_a_graph_is_the_default_and_resumes(self, kind: str, tmp_path: Path) -> None:
        model, images, file = Linear(), to_library(extreme(6), "cuda"), tmp_path / "walk.npz"
        label = to_numpy(model.scores(images)).argmax(axis=1)
        model.W = to_library(model.W, "cuda")
        options: dict[str, Any] = {"seed": 0, "samples": 20} | WALKS[kind]

        def answers(images: Any) -> Any:
            scores = model.scores(images)
            return scores.argmax(dim=1) if options.get("outputs") == "labels" else scores

        whole = attack(answers, images, label, max_iter=12, **options)
        assert whole.run is not None
        assert whole.run.engine == "torch cuda graph"
        assert whole.success.any()
        again = attack(answers, images, label, max_iter=12, checkpoint=file, **options)
        resumed = attack(answers, images, label, max_iter=12, checkpoint=file, **options)
        for other in (again, resumed):
            assert np.array_equal(to_numpy(other.images), to_numpy(whole.images))


class TestStarts:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_they_may_have_another_dtype(self, dtype: Any) -> None:
        model, images = Linear(), gray().astype(np.float32)
        label = model.scores(images).argmax(axis=1)
        starts = np.roll(images, 1, axis=0).astype(dtype)
        fools = model.scores(starts).argmax(axis=1) != label
        seen = []

        def classes(a: Any) -> Any:
            seen.append(a.dtype)
            return model(a).argmax(axis=1)

        found = attack(
            classes, images[fools], label[fools], outputs="labels", starts=starts[fools], max_queries=200, seed=0
        )
        assert found.images.dtype == np.float32
        assert set(seen) == {np.dtype(np.float32)}

    @pytest.mark.parametrize("max_queries", [54, 60, 70, 80, 100])
    def test_the_search_leaves_room_for_an_iteration(self, max_queries: int) -> None:
        model, images = Linear(), gray()[:1]
        label = model.scores(images).argmax(axis=1)
        found = attack(
            lambda a: model(a).argmax(axis=1), images, label, outputs="labels", max_queries=max_queries, seed=0
        )
        assert found.queries.max() <= max_queries

    def test_a_seed_is_checked_before_it_is_used(self) -> None:
        model, images = Linear(), gray()
        with pytest.raises(ValueError, match="`seed`"):
            attack(lambda a: model(a).argmax(axis=1), images, [0] * len(images), outputs="labels", seed=-1)


def test_a_checkpoint_of_another_shape_is_refused(tmp_path: Path) -> None:
    """The cosines depend on the shape, which x0 does not show."""
    model, images = Linear(), gray()
    label = model.scores(images).argmax(axis=1)
    file = tmp_path / "attack.npz"
    attack(model, images, label, max_queries=100, seed=0, checkpoint=file)
    flat = images.reshape(len(images), -1)
    with pytest.raises(ValueError, match="method"):
        attack(
            lambda a: model(a.reshape(-1, *images.shape[1:])),
            flat,
            label,
            max_queries=100,
            seed=0,
            checkpoint=file,
        )
