"""The attack: its formula, counts and outcomes on models of any library, and user errors."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax

from slgh.attack import AttackResult, Outcome, attack
from slgh.attack import plan as planning
from slgh.attack.homotopy import default_parameters, first_radii, homotopy_start
from slgh.attack.loss import AttackObjective, SuccessWatch, distortion_of, margin_of, perturb
from slgh.attack.model import QueriedModel
from slgh.engine.checkpoint import Checkpoint
from slgh.engine.termination import Status
from slgh.paper.attack.settings import METHODS, PAPER
from slgh.paper.networks.datasets import shipped_images
from slgh.paper.networks.networks import network
from slgh.protocols import Sight

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(0)
D, K = 12, 4
WEIGHTS = RNG.normal(size=(D, K))
IMAGES = RNG.uniform(0.1, 0.9, size=(9, 3, 2, 2))
QUICK: dict[str, Any] = {"max_queries": 3000, "seed": 0}

HOMOTOPY: dict[str, Any] = {"oracle": "antithetic"}
"""A parameter of the homotopy, with its default: "auto" then runs the homotopy with all of its defaults."""

LABELS_ONLY: dict[str, Any] = {"outputs": "labels"}

with_scores = pytest.mark.parametrize("way", [{}, HOMOTOPY], ids=["walk", "homotopy"])
every_way = pytest.mark.parametrize("way", [{}, HOMOTOPY, LABELS_ONLY], ids=["walk", "homotopy", "labels"])


def model(images: Any) -> Any:
    """Linear classifier of NumPy images (N, 3, 2, 2)."""
    assert images.shape[1:] == (3, 2, 2)
    assert images.min() >= 0
    assert images.max() <= 1
    return (images.reshape(len(images), D) - 0.5) @ WEIGHTS


LABELS = model(IMAGES).argmax(axis=1)


def answering(way: dict[str, Any], model: Any = model) -> Any:
    """Return the model as this way of attacking sees it: its scores, or its classes alone."""
    return (lambda images: model(images).argmax(axis=1)) if way == LABELS_ONLY else model


class Counting:
    """Model that counts the images that it evaluates."""

    def __init__(self, model: Any = model) -> None:
        self.model, self.asked = model, 0

    def __call__(self, images: Any) -> Any:
        self.asked += len(images)
        return self.model(images)


def fooled(found: AttackResult) -> Any:
    """Return True where the model, evaluated here, is fooled."""
    return model(np.asarray(found.images)).argmax(axis=1) != LABELS


def test_perturb_is_the_papers_formula() -> None:
    a, x = RNG.uniform(-0.5, 0.5, (3, 5)), RNG.normal(size=(3, 5))
    assert np.allclose(perturb(x, a), 0.5 * np.tanh(np.arctanh(2 * a * 0.999999) + x) / 0.999999, rtol=1e-14)
    ends = np.array([[-0.5, 0.5, 0.0]])
    assert np.allclose(perturb(np.zeros((1, 3)), ends), ends, atol=1e-12)
    assert np.abs(perturb(np.array([[1e9, -1e9, 1e9]]), ends)).max() <= 0.5


def test_distortion_is_the_squared_norm() -> None:
    assert distortion_of(np.array([[0.3, 0.1]]), np.array([[0.0, 0.5]])) == pytest.approx([0.09 + 0.16])


@pytest.mark.parametrize("targeted", [False, True])
def test_margin_is_the_loss_of_the_notes(targeted: bool) -> None:
    logits, label = RNG.normal(size=(6, K)) * 3, np.array([0, 1, 2, 3, 0, 2])
    p = softmax(logits, axis=1)
    for row, y, found in zip(p, label, margin_of(p, label, targeted=targeted), strict=True):
        lead = np.log(row[y] + 1e-10) - np.log(max(q for j, q in enumerate(row) if j != y) + 1e-10)
        assert found == pytest.approx(-lead if targeted else lead, rel=1e-12)
    certain = margin_of(np.array([[1.0, 0.0]]), np.array([0]), targeted=False)
    assert 10 * certain[0] == pytest.approx(230.26, abs=0.01)


@pytest.mark.parametrize("kappa", [1e-10, 2.0])
def test_the_total_is_the_weighted_loss_and_the_distortion(kappa: float) -> None:
    asked = QueriedModel(model=model, shape=(3, 2, 2), low=0.0, high=1.0, outputs="logits", model_batch_size=None)
    f = AttackObjective(asked, 10.0, kappa, targeted=False)
    a, x = IMAGES[:2].reshape(2, 1, D) - 0.5, RNG.normal(size=(2, 5, D))
    total, margin, distortion = f(x, a, LABELS[:2, None])
    image = 0.5 * np.tanh(np.arctanh(2 * a * 0.999999) + x) / 0.999999
    scores = log_softmax(image @ WEIGHTS, axis=-1)
    for b in range(2):
        for i in range(5):
            own = scores[b, i, LABELS[b]]
            lead = own - np.delete(scores[b, i], LABELS[b]).max()
            assert margin[b, i] == pytest.approx(lead, rel=1e-6)
            assert distortion[b, i] == pytest.approx(((image - a)[b, i] ** 2).sum(), rel=1e-12)
            assert total[b, i] == pytest.approx(10 * max(lead, -kappa) + distortion[b, i], rel=1e-6)


def test_what_is_watched() -> None:
    watch = SuccessWatch(ends=True)
    state = watch.init(np.zeros((2, 3)), np)

    def see(state: Any, k: int, margins: list[float], distortions: list[float]) -> Any:
        more = np.column_stack([margins, distortions])
        x = np.full((2, 3), float(k))
        return watch.see(state, Sight(k, x, np.zeros(2), more, x, np.zeros(2)), np)

    state = see(state, 0, [1.0, 1.0], [0.1, 0.2])
    assert state[0].tolist() == [-1, -1]
    state = see(state, 1, [-1e-5, 0.5], [3.0, 0.2])
    assert state[0].tolist() == [1, -1]
    assert state[1][0] == 3.0
    assert not watch.done(state, np).any()  # the margin is too small to be sure
    state = see(state, 2, [-1.0, -1e-9], [5.0, 0.3])
    assert watch.done(state, np).tolist() == [True, False]
    assert state[0].tolist() == [1, 2]
    assert state[1].tolist() == [5.0, 0.3]  # a certain success counts more than a nearer one
    state = see(state, 3, [-2.0, 1.0], [4.0, 0.1])
    assert state[1].tolist() == [4.0, 0.3]
    assert state[2][:, 0].tolist() == [3, 2]
    state = see(state, 4, [-1e-9, np.nan], [1.0, np.nan])
    assert state[1].tolist() == [4.0, 0.3]


STEPS: dict[str, Any] = {"t1": 0.3, "step": 0.05, "samples": 4}
METHOD_PARAMETERS: dict[str, dict[str, Any]] = {
    "auto": {},
    "homotopy": HOMOTOPY,
    "labels": LABELS_ONLY,
    "scale_free": {"method": "scale_free", "samples": 4},
    "zoslgh_r": {"method": "zoslgh_r"} | STEPS,
    "zoslgh_d": {"method": "zoslgh_d", "eta": 1e-3} | STEPS,
    "zosgd": {"method": "zosgd"} | STEPS,
    "zoadamm": {"method": "zoadamm"} | STEPS,
    "zogradopt": {"method": "zogradopt"} | STEPS,
}


@pytest.mark.parametrize("stop", ["end", "first success"])
@pytest.mark.parametrize("name", METHOD_PARAMETERS)
def test_every_query_is_counted(name: str, stop: str) -> None:
    params = METHOD_PARAMETERS[name]
    counting = Counting(answering(params))
    found = attack(counting, IMAGES, LABELS, stop=stop, **QUICK | params)
    assert counting.asked == found.queries.sum()
    assert (found.queries <= 3000).all()
    assert found.success.any()
    assert (found.queries_to_success[found.success] <= found.queries[found.success]).all()
    assert np.array_equal(found.queries_to_success < 0, found.first_success < 0)
    if stop == "first success":
        assert (found.queries[found.success] < 2900).any()


@pytest.mark.parametrize("max_queries", [26, 27, 46, 47, 48, 200])
@pytest.mark.parametrize("stop", ["end", "first success"])
def test_the_budget_is_never_exceeded(max_queries: int, stop: str) -> None:
    counting = Counting()
    found = attack(counting, IMAGES, LABELS, max_queries=max_queries, seed=1, stop=stop, **HOMOTOPY)
    assert (found.queries <= max_queries).all()
    assert counting.asked == found.queries.sum()


@with_scores
def test_what_is_returned_fools_the_model(way: dict[str, Any]) -> None:
    found = attack(model, IMAGES, LABELS, **QUICK | way)
    assert found.success.mean() > 0.8
    assert np.array_equal(fooled(found), found.success)
    assert np.array_equal(found.after[found.success], model(found.images).argmax(axis=1)[found.success])
    change = ((found.images - IMAGES) ** 2).sum(axis=(1, 2, 3))
    assert np.allclose(found.distortion[found.success], change[found.success], rtol=1e-5)
    assert np.allclose(found.distance[found.success] ** 2, change[found.success], rtol=1e-5)
    assert (found.images >= 0).all()
    assert (found.images <= 1).all()
    assert {found.outcome[i] for i in np.flatnonzero(found.success)} == {Outcome.SUCCESS}


@every_way
def test_an_image_that_resists_comes_back_untouched(way: dict[str, Any]) -> None:
    def stubborn(images: Any) -> Any:
        return np.tile([9.0, 0, 0, 0], (len(images), 1))

    counting = Counting(answering(way, stubborn))
    found = attack(counting, IMAGES, np.zeros(9, int), max_queries=200, seed=0, **way)
    assert np.array_equal(found.images, IMAGES)
    labels = way.get("outputs") == "labels"  # then there is nothing to start from, and no loss of the paper
    assert set(found.outcome) == {Outcome.NO_START if labels else Outcome.FAILED}
    assert np.isnan(found.distortion).all()
    assert np.isfinite(found.last_total).all() != labels
    assert (found.first_success == -1).all()
    assert counting.asked == found.queries.sum()
    assert found.queries.max() <= 200


def test_polishing_lowers_the_distortion() -> None:
    options = QUICK | HOMOTOPY | {"max_queries": 1000}
    polished, first = (attack(model, IMAGES, LABELS, stop=stop, **options) for stop in ("end", "first success"))
    assert np.array_equal(polished.first_success, first.first_success)
    both = polished.success & first.success
    assert (polished.distortion[both] <= first.distortion[both]).all()
    assert polished.distortion[both].sum() < 0.9 * first.distortion[both].sum()
    assert (first.queries[first.success] < polished.queries[first.success]).all()


@every_way
def test_a_class_can_be_aimed_at(way: dict[str, Any]) -> None:
    targets, seen = (LABELS + 1) % K, answering(way)
    found = attack(seen, IMAGES, LABELS, targets=targets, max_queries=6000, seed=0, **way)
    assert found.success.mean() > 0.5
    assert np.array_equal(found.after[found.success], targets[found.success])
    one = attack(seen, IMAGES, LABELS, targets=2, max_queries=6000, seed=0, **way)
    assert set(one.after[one.success]) == {2}
    there = attack(seen, IMAGES, LABELS, targets=LABELS, max_queries=50, **way)
    assert set(there.outcome) == {Outcome.THERE}


@with_scores
def test_misclassified_images_are_reported_and_left_alone(way: dict[str, Any]) -> None:
    counting, labels = Counting(), LABELS.copy()
    labels[[2, 5]] = (labels[[2, 5]] + 1) % K
    found = attack(counting, IMAGES, labels, **QUICK | way)
    assert [i for i, o in enumerate(found.outcome) if o is Outcome.MISCLASSIFIED] == [2, 5]
    assert found.queries[[2, 5]].tolist() == [2, 2]
    assert np.array_equal(found.images[[2, 5]], IMAGES[[2, 5]])
    assert counting.asked == found.queries.sum()
    assert np.isnan(found.history["total"][:, [2, 5]]).all()
    assert np.isfinite(found.history["total"][:, 0]).all()
    others = np.delete(np.arange(9), [2, 5])
    alone = attack(model, IMAGES[others], LABELS[others], **QUICK | way)
    assert np.array_equal(alone.images, found.images[others])
    none = attack(model, IMAGES, (LABELS + 1) % K, **QUICK | way)
    assert none.run is None
    assert none.history == {}
    assert "Most are misclassified to begin with" in none.message


def test_it_is_shown_in_a_few_lines_and_goes_into_json() -> None:
    found = attack(model, IMAGES, LABELS, stop="first-success", **QUICK | HOMOTOPY)
    lines = repr(found).splitlines()
    assert [lines[0], lines[1].strip(), lines[3].strip()] == [
        "AttackResult:",
        "message: 9 of 9: success.",
        "success: 9 of 9",
    ]
    assert f"queries: {found.queries.min()} to {found.queries.max()}, median " in lines[4]
    assert f"l2: {found.distance.min():.6g} to {found.distance.max():.6g}, median " in lines[-1]
    assert '<td style="text-align: left">9 of 9</td>' in found._repr_html_()
    pixelwise = attack(model, IMAGES, LABELS, norm="linf", **QUICK)
    assert f"linf: {pixelwise.distance.min():.6g} to {pixelwise.distance.max():.6g}, median " in repr(pixelwise)
    none = attack(model, IMAGES, (LABELS + 1) % K, **QUICK)
    assert "success: 0 of 9" in repr(none)
    assert "l2" not in repr(none)
    assert json.dumps(found.outcome[:1]) == '["success"]'


@with_scores
def test_rounded_probabilities_are_probabilities(way: dict[str, Any]) -> None:
    def service(images: Any) -> Any:
        return np.round(softmax(model(images), axis=1), 2)

    assert attack(service, IMAGES, LABELS, outputs="probabilities", max_queries=100, seed=0, **way).queries.max() <= 100


def test_the_history_of_a_homotopy_is_of_each_image() -> None:
    found = attack(model, IMAGES, LABELS, history="full", **QUICK | HOMOTOPY)
    assert found.history["total"].shape == (len(found.history["iteration"]), 9)
    assert (np.diff(found.history["queries"]) == 21).all()
    for i in np.flatnonzero(found.success):
        assert found.history["margin"][found.first_success[i], i] <= 1e-10
        assert (found.history["margin"][: found.first_success[i], i] > 1e-10).all()


@pytest.mark.parametrize("way", [{}, LABELS_ONLY], ids=["walk", "labels"])
def test_the_history_of_a_walk_has_the_nearest_success_so_far(way: dict[str, Any]) -> None:
    found = attack(answering(way), IMAGES, LABELS, history="full", **QUICK | way)
    assert found.success.all()
    assert len(set(np.diff(found.history["queries"]))) == 1
    for i in range(9):
        least = found.history["least"][:, i]
        assert np.array_equal(np.isfinite(least), found.history["iteration"] >= found.first_success[i])
        assert (np.diff(least[np.isfinite(least)]) <= 0).all()
        assert found.distortion[i] <= least[-1]
        assert found.history["queries"][found.first_success[i]] == found.queries_to_success[i]


def libraries() -> dict[str, Any]:
    weights = torch.tensor(WEIGHTS)
    return {
        "torch function": (lambda a: (a.reshape(len(a), D) - 0.5) @ weights, torch.tensor(IMAGES)),
        "jax": (lambda a: (a.reshape(len(a), D) - 0.5) @ jnp.asarray(WEIGHTS), jnp.asarray(IMAGES)),
        "module": (torch_module(), torch.tensor(IMAGES)),
        "module of NumPy's": (torch_module(), IMAGES),
    }


def torch_module() -> torch.nn.Module:
    layer = torch.nn.Linear(D, K).double()
    layer.weight.data, layer.bias.data = torch.tensor(WEIGHTS.T.copy()), torch.tensor(-0.5 * WEIGHTS.sum(axis=0))
    return torch.nn.Sequential(torch.nn.Flatten(), layer).eval()


@pytest.mark.parametrize("kind", list(libraries()))
@with_scores
def test_models_of_every_library(kind: str, way: dict[str, Any]) -> None:
    one, images = libraries()[kind]
    found = attack(one, images, torch.tensor(LABELS) if kind == "module" else LABELS, **QUICK | way)
    assert isinstance(found.images, type(images))
    assert np.array_equal(fooled(found), found.success)
    assert found.success.mean() > 0.7
    if kind != "jax":  # its noise is different
        # A walk compares merits that are nearly equal near its end, so that rounding changes its last steps.
        same = attack(model, IMAGES, LABELS, **QUICK | way).images
        assert np.allclose(np.asarray(found.images), same, rtol=1e-6 if way else 1e-5)


@with_scores
def test_probabilities_do_as_well_as_logits(way: dict[str, Any]) -> None:
    scores = attack(model, IMAGES, LABELS, **QUICK | way)
    chances = attack(lambda a: softmax(model(a), axis=1), IMAGES, LABELS, outputs="probabilities", **QUICK | way)
    # A walk divides differences by the length of short probes, and with them what is added to the probabilities.
    assert np.allclose(scores.images, chances.images, rtol=1e-6 if way else 1e-4)


@every_way
def test_the_range_of_pixels_does_not_matter(way: dict[str, Any]) -> None:
    seen, options = answering(way), QUICK | way
    plain = attack(seen, IMAGES, LABELS, **options)
    centered = attack(lambda a: seen(a + 0.5), IMAGES - 0.5, LABELS, pixels=(-0.5, 0.5), **options)
    bytes_ = attack(lambda a: seen(a / 255), IMAGES * 255, LABELS, pixels=(0, 255), **options)
    assert np.allclose(centered.images + 0.5, plain.images, atol=1e-9)
    assert np.allclose(bytes_.images / 255, plain.images, atol=1e-9)
    assert np.allclose(bytes_.distortion, plain.distortion, rtol=1e-6, equal_nan=True)


@pytest.mark.parametrize(
    "options", [{"batch_size": 2}, {"model_batch_size": 5}, {"batch_size": 4, "model_batch_size": 1}]
)
@every_way
def test_how_many_at_a_time_does_not_matter(options: dict[str, int], way: dict[str, Any]) -> None:
    most, seen = [], answering(way)

    def watched(images: Any) -> Any:
        most.append(len(images))
        return seen(images)

    found = attack(watched, IMAGES, LABELS, **QUICK | way | options)
    plain = attack(seen, IMAGES, LABELS, **QUICK | way)
    assert np.allclose(found.images, plain.images, rtol=1e-4)  # products of other sizes are rounded differently
    assert np.array_equal(found.queries, plain.queries)
    assert np.allclose(found.history["distortion"], plain.history["distortion"], rtol=1e-4)
    assert np.allclose(found.history["total"], plain.history["total"], rtol=1e-4, equal_nan=True)
    if "model_batch_size" in options:
        assert max(most) <= options["model_batch_size"]


MEMORY = pytest.mark.parametrize(
    ("way", "room"), [({"samples": 10}, 30), ({"samples": 10} | HOMOTOPY, 60)], ids=["walk", "homotopy"]
)
"""Ways whose queries have 11 or 21 points per image, and room for those of two images."""


@MEMORY
def test_a_shortage_of_memory_is_met_with_fewer_images(
    way: dict[str, Any], room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Small(Exception):
        pass

    def small(images: Any) -> Any:
        if len(images) > room:
            raise Small("no room")
        return model(images)

    monkeypatch.setattr(planning, "is_out_of_memory", lambda error: isinstance(error, Small))
    found = attack(small, IMAGES, LABELS, **QUICK | way)
    assert "sufficed for 2 images at a time, not for 9" in found.message
    assert np.allclose(found.images, attack(model, IMAGES, LABELS, **QUICK | way).images, rtol=1e-9)

    def hopeless(images: Any) -> Any:
        if len(images) > 9:
            raise Small("no room at all")
        return model(images)

    with pytest.raises(Small):
        attack(hopeless, IMAGES, LABELS, **QUICK | way)


def test_out_of_memory_is_told_from_other_errors() -> None:
    assert planning.is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory"))
    assert not planning.is_out_of_memory(RuntimeError("shape mismatch"))


class Failing(Counting):
    """Model that raises in its n-th call."""

    def __init__(self, n: int, model: Any = model, error: type[BaseException] = ConnectionError) -> None:
        super().__init__(model)
        self.left, self.error, self.unanswered = n, error, 0

    def __call__(self, images: Any) -> Any:
        self.left -= 1
        if self.left == 0:
            self.unanswered = len(images)
            raise self.error("the line is dead")
        return super().__call__(images)


@every_way
@pytest.mark.parametrize("calls", [5, 12, 13, 60])
def test_a_run_is_resumed(way: dict[str, Any], calls: int, tmp_path: Path) -> None:
    file, seen = tmp_path / "attack.npz", answering(way)
    whole = attack(seen, IMAGES, LABELS, **QUICK | way)
    failing, rest, again = Failing(calls, seen), Counting(seen), Counting(seen)
    with pytest.raises(ConnectionError):
        attack(failing, IMAGES, LABELS, checkpoint=file, **QUICK | way)
    resumed = attack(rest, IMAGES, LABELS, checkpoint=Checkpoint(path=file), **QUICK | way)
    assert np.array_equal(resumed.images, whole.images)
    assert np.array_equal(resumed.first_success, whole.first_success)
    assert np.array_equal(resumed.queries_to_success, whole.queries_to_success)
    assert np.array_equal(resumed.queries, whole.queries)
    # Answers that had arrived are not asked for again. Only the checks of the originals are.
    assert failing.asked + rest.asked == whole.queries.sum() + 2 * 9
    assert np.array_equal(attack(again, IMAGES, LABELS, checkpoint=file, **QUICK | way).images, whole.images)
    assert again.asked <= 4 * 9  # two before, the final point, and one after


@every_way
def test_an_interrupt_keeps_what_was_found_and_can_be_resumed(way: dict[str, Any], tmp_path: Path) -> None:
    file, seen = tmp_path / "attack.npz", answering(way)
    whole = attack(seen, IMAGES, LABELS, batch_size=4, **QUICK | way)
    interrupted = Failing(60, seen, KeyboardInterrupt)
    cut = attack(interrupted, IMAGES, LABELS, batch_size=4, checkpoint=file, **QUICK | way)
    assert cut.run is not None
    assert Status.INTERRUPTED in cut.run.status
    assert set(cut.outcome) <= {Outcome.SUCCESS, Outcome.INTERRUPTED}
    assert np.array_equal(fooled(cut), cut.success)
    assert interrupted.asked + interrupted.unanswered == cut.queries.sum()
    resumed = attack(seen, IMAGES, LABELS, batch_size=4, checkpoint=file, **QUICK | way)
    assert np.array_equal(resumed.images, whole.images)


@MEMORY
def test_memory_that_is_short_and_a_checkpoint_go_together(
    way: dict[str, Any], room: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Small(Exception):
        pass

    calls = []

    def small(images: Any) -> Any:
        if len(images) > room:
            raise Small("no room")
        calls.append(1)
        if len(calls) == 40:
            raise ConnectionError("the line is dead")
        return model(images)

    monkeypatch.setattr(planning, "is_out_of_memory", lambda error: isinstance(error, Small))
    file = tmp_path / "attack.npz"
    with pytest.raises(ConnectionError):
        attack(small, IMAGES, LABELS, checkpoint=file, **QUICK | way)
    resumed = attack(small, IMAGES, LABELS, checkpoint=file, **QUICK | way)
    whole = attack(model, IMAGES, LABELS, batch_size=2, **QUICK | way)
    assert np.array_equal(resumed.images, whole.images)


@with_scores
def test_time_that_is_up_leaves_images_that_were_not_begun(way: dict[str, Any]) -> None:
    found = attack(model, IMAGES, LABELS, batch_size=2, max_queries=10**6, max_seconds=0.3, seed=0, **way)
    assert set(found.outcome[2:]) == {Outcome.WAITING}
    assert (found.queries[2:] == 3).all()  # two before, and the evaluation of the start


@with_scores
def test_queries_to_success_are_exact_however_the_run_ends(way: dict[str, Any]) -> None:
    whole = attack(model, IMAGES, LABELS, **QUICK | way)
    cut = attack(model, IMAGES, LABELS, target=0.05, **QUICK | way)
    same = (whole.first_success == cut.first_success) & whole.success
    assert same.sum() > 3
    assert np.array_equal(whole.queries_to_success[same], cut.queries_to_success[same])


@every_way
def test_answers_of_another_library_are_taken_over(way: dict[str, Any]) -> None:
    seen, options = answering(way), QUICK | way
    found = attack(lambda a: seen(a.numpy()), torch.tensor(IMAGES, requires_grad=True), LABELS, **options)
    assert isinstance(found.images, torch.Tensor)
    assert np.allclose(found.images.numpy(), attack(seen, IMAGES, LABELS, **options).images, rtol=1e-4)
    assert attack(lambda a: seen(a).tolist(), IMAGES, LABELS, max_queries=100, seed=0, **way).queries.max() <= 100


@with_scores
def test_pixels_a_rounding_outside_are_taken_for_its_end(way: dict[str, Any]) -> None:
    images = IMAGES.copy()
    images[0, 0, 0, 0], images[1, 0, 0, 0] = 1 + 7e-7, -7e-7
    found = attack(model, images, LABELS, **QUICK | way)
    assert Outcome.NONFINITE not in found.outcome


def test_first_order_methods_see_through_a_module() -> None:
    found = attack(
        torch_module(),
        IMAGES,
        LABELS,
        method="slgh_r",
        t1=0.3,
        gamma=0.97,
        step=0.02,
        samples=4,
        max_queries=700,
        seed=0,
    )
    assert found.success.mean() > 0.8


@with_scores
def test_a_model_that_breaks_down_later_is_a_status(way: dict[str, Any]) -> None:
    calls = []

    def fading(images: Any) -> Any:
        calls.append(1)
        return model(images) if len(calls) < 5 else np.full((len(images), K), np.nan)

    found = attack(fading, IMAGES, LABELS, **QUICK | way)
    assert set(found.outcome) <= {Outcome.NONFINITE, Outcome.UNCONFIRMED, Outcome.FAILED}
    assert not found.success.any()


@with_scores
def test_a_success_that_does_not_hold_is_none(way: dict[str, Any]) -> None:
    calls = []

    def fickle(images: Any) -> Any:
        calls.append(len(images))
        return model(images) if len(images) > 9 or len(calls) < 3 else model(IMAGES[: len(images)]) * 0 + [[9, 0, 0, 0]]

    found = attack(fickle, IMAGES, LABELS, **QUICK | way)
    zero = LABELS == 0
    assert 0 < zero.sum() < 9
    assert {found.outcome[i] for i in np.flatnonzero(zero)} <= {Outcome.UNCONFIRMED, Outcome.FAILED}
    assert np.array_equal(np.asarray(found.images)[zero], IMAGES[zero])


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"images": IMAGES * 2}, r"pixels in \[0, 1\], got \[.*say which range is meant with `pixels="),
    ({"images": IMAGES - 0.5}, r"pixels in \[0, 1\]"),
    ({"images": (IMAGES * 255).astype(np.uint8)}, r"integers, but `pixels` says \(0.0, 1.0\): pass `pixels=\(0, 255\)"),
    ({"images": IMAGES * np.nan}, "`images` must be finite"),
    ({"images": IMAGES[:0]}, "at least one image"),
    ({"images": "cat.png"}, "`images` must be an array of images"),
    ({"images": IMAGES.astype(complex)}, "must be real numbers"),
    ({"images": torch.tensor(IMAGES).half()}, "`images` must be of dtype float32 or float64"),
    ({"labels": LABELS[:3]}, r"one class per image, shape \(9,\); got \(3,\)"),
    ({"labels": np.eye(K)[LABELS]}, "not one-hot rows"),
    ({"labels": LABELS + 0.5}, "must be integers"),
    ({"labels": LABELS + 4}, r"must lie in 0\.\.3, the model's 4 classes; got"),
    ({"labels": LABELS - 5}, r"must lie in 0\.\.3"),
    ({"targets": LABELS + 9}, r"`targets` must lie in 0\.\.3"),
    ({"pixels": (1, 0)}, "low < high"),
    ({"pixels": 255}, r"`pixels` must be a pair \(low, high\)"),
    ({"outputs": "classes"}, "`outputs` must be one of 'logits', 'probabilities', 'labels'"),
    ({"outputs": "probabilities"}, "but the model's rows are not, .* pass `outputs='logits'"),
    ({"stop": "never"}, "`stop` must be one of"),
    ({"max_queries": 3}, "`max_queries` must be an integer >= 4"),
    ({"max_queries": 25} | HOMOTOPY, "`max_queries` must allow an iteration, 26 queries per image; got 25"),
    ({"max_queries": 10}, r"`max_queries` must allow an iteration, \d+ queries per image; got 10"),
    ({"max_queries": 10, "outputs": "labels", "model": answering(LABELS_ONLY)}, "`max_queries` must allow an iter"),
    ({"max_evals": 100}, "pass max_queries"),
    ({"epsilon": 0.1}, "`epsilon` is not taken: the largest distance of a success is called eps"),
    ({"eps": 0.0}, "`eps` must be"),
    ({"eps": -0.1}, "`eps` must be"),
    ({"eps": np.nan}, "`eps` must be"),
    ({"norm": "l1"}, "`norm` must be one of 'l2', 'linf'"),
    ({"norm": "linf"} | HOMOTOPY, "`norm` is for `method='auto'` without parameters of a homotopy: leave out the me"),
    ({"norm": "linf", "method": "scale_free"}, "`norm` is for `method='auto'`"),
    ({"eps": 0.1, "method": "scale_free"}, "`eps` is for `method='auto'`"),
    ({"outputs": "labels", "alpha": 1.0}, "`outputs` is for `method='auto'`"),
    ({"outputs": "labels", "norm": "linf"}, "`norm` must be 'l2' with `outputs='labels'`"),
    ({"outputs": "labels"}, r"one class per image with `outputs='labels'`, shape \(9,\); got \(9, 4\).* For scores"),
    ({"outputs": "labels", "model": lambda a: model(a)[:, 0]}, "must return integers with `outputs='labels'`, got dt"),
    ({"starts": IMAGES} | HOMOTOPY, "`starts` is for `method='auto'` without parameters of a homotopy: leave out the"),
    ({"starts": IMAGES}, "`starts` must be images that the model sees as another class, but image 0 is seen as"),
    ({"samples": 0}, "`samples` must be an integer"),
    ({"samples": D + 1}, "`samples` must be an integer"),
    ({"data": IMAGES}, "the attack says it to `minimize`"),
    ({"images": IMAGES[0], "labels": LABELS[0]}, r"`labels` must have one class per image, shape \(3,\); got \(\)"),
    ({"weight": 0.0}, "`weight` must be"),
    ({"kappa": -1.0}, "`kappa` must be"),
    ({"batch_size": 0}, "`batch_size` must be an integer >= 1"),
    ({"model_batch_size": 0}, "`model_batch_size` must be an integer >= 1"),
    ({"method": "zoslgh_r"}, "t1"),
    ({"model": lambda a: model(a) * np.nan}, "must return finite numbers"),
    ({"model": lambda a: model(a)[:, 0]}, r"one row of logits per image, shape \(9, classes\); got \(9,\)"),
    ({"model": lambda a: model(a)[:-1]}, r"got \(8, 4\)"),
    ({"model": lambda a: model(a)[:, :1]}, r"got \(9, 1\)"),
    ({"model": lambda a: model(a) + RNG.normal(size=(len(a), K))}, "must return the same for the same images"),
    ({"model": torch_module().half()}, "must compute in float32 or float64"),
    ({"model": torch_module().train()}, "`model` uses a Sequential in training mode"),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "message"), REFUSED, ids=[m[:40] for _, m in REFUSED])
def test_what_is_wrong_is_told(wrong: dict[str, Any], message: str) -> None:
    given = {"model": model, "images": IMAGES, "labels": LABELS, "max_queries": 100} | wrong
    with pytest.raises((ValueError, TypeError), match=message):
        attack(given.pop("model"), given.pop("images"), given.pop("labels"), **given)


def test_channels_in_the_wrong_place_are_hinted_at() -> None:
    net, images = network("cifar10"), shipped_images("cifar10")
    wrong = images.pixels()[:2].transpose(0, 2, 3, 1)
    with pytest.raises(RuntimeError) as caught:
        attack(net, wrong, images.labels[:2], pixels=(-0.5, 0.5))
    assert "channels are last: PyTorch's models want them first" in caught.value.__notes__[0]


def test_radius_follows_the_images() -> None:
    assert first_radii(shipped_images("mnist").pixels().reshape(100, -1)) == pytest.approx((2.9, 5.3), rel=0.01)
    assert first_radii(shipped_images("cifar10").pixels().reshape(100, -1)) == pytest.approx((0.164, 0.896), rel=0.01)
    assert first_radii(np.zeros((2, 5))) == (0.1, 0.1)
    assert first_radii(np.zeros((0, 5))) == (0.1, 0.1)


def test_fewer_queries_make_longer_steps_and_more_a_wider_look() -> None:
    photographs, digits = (shipped_images(name).pixels().reshape(100, -1) for name in ("cifar10", "mnist"))
    few = [homotopy_start(photographs, q // 21, 10) for q in (10_000, 2_000, 600, 4)]
    assert [alpha for _, alpha in few] == pytest.approx([1, 2.23, 4, 4], rel=0.01)
    assert [t1 for t1, _ in few] == pytest.approx([0.164] * 4, rel=0.01)
    many = [homotopy_start(photographs, q // 21, 10) for q in (20_000, 36_668, 10**6)]
    assert all(a.t1 < b.t1 and a.alpha > b.alpha for a, b in pairwise(many))
    assert many[-1].t1 == pytest.approx(0.896, rel=0.01)
    assert homotopy_start(digits, 73_334 // 21, 10) == pytest.approx((5.3, 0.216), rel=0.02)
    a = np.full((1, 784), 0.25)
    assert (
        default_parameters(a, 600, None, {})["alpha"]
        == default_parameters(a, 10_000, 600 // 21, {})["alpha"]
        == homotopy_start(a, 28, 10).alpha
    )
    assert default_parameters(a, 600, None, {"samples": 2})["alpha"] == homotopy_start(a, 120, 2).alpha
    assert "alpha" not in default_parameters(a, 600, None, {"update": "adam"})
    assert default_parameters(a, 600, None, {"alpha": 0.3})["alpha"] == 0.3


class TestOneByOne:
    """A model without matrix products, so that the bits do not depend on the number of images."""

    IMAGES = np.random.default_rng(0).uniform(0.3, 0.7, size=(8, D))
    LABELS = np.zeros(8, int)

    @staticmethod
    def model(images: Any) -> Any:
        beyond = np.maximum(((images - 0.5) ** 2).sum(axis=1) - 0.1, 0)
        return np.stack([np.full(len(images), 3.0), 9 * beyond + 2 * images[:, 0] + images[:, 1]], axis=1)

    def attack(self, way: dict[str, Any], rows: Any = slice(None), **options: Any) -> AttackResult:
        seen = answering(way, self.model)
        return attack(seen, self.IMAGES[rows], self.LABELS[rows], **QUICK | way | options)

    @every_way
    def test_seeds_are_the_images_own(self, way: dict[str, Any]) -> None:
        if way == HOMOTOPY:  # its defaults depend on all images
            way = {"t1": 0.2, "alpha": 0.5}
        alone = self.attack(way, slice(5, 6), seed=[7])
        among = self.attack(way, seed=[1, 2, 3, 4, 5, 7, 8, 9])
        assert alone.success[0]
        if way != LABELS_ONLY:  # the noise from which that starts is drawn for all images together
            assert np.array_equal(alone.images[0], among.images[5])
        other = self.attack(way, slice(5, 6), seed=[8])
        assert not np.array_equal(alone.images, other.images)
        with pytest.raises(
            ValueError, match=r"`seed` must be an integer, or one integer per image \(expected 8\); got 2"
        ):
            self.attack(way, seed=[1, 2])

    @every_way
    def test_some_at_a_time_are_the_same(self, way: dict[str, Any]) -> None:
        whole, some = self.attack(way), self.attack(way, batch_size=3)
        assert np.array_equal(some.images, whole.images)
        assert np.array_equal(some.queries, whole.queries)


def test_digits_are_misread_within_few_queries() -> None:
    net, images = network("mnist"), shipped_images("mnist")
    found = attack(net, images.pixels()[:2], images.labels[:2], pixels=(-0.5, 0.5), max_queries=600, seed=0)
    assert found.success.all()
    seen = net(torch.tensor(found.images)).argmax(1).numpy()
    assert (seen[found.success] != images.labels[:2][found.success]).all()


def test_the_papers_settings_run_for_every_method() -> None:
    images = shipped_images("mnist")
    for name in METHODS:
        params = PAPER["mnist"].parameters(name)
        found = attack(
            network("mnist"),
            images.pixels()[:1],
            images.labels[:1],
            pixels=(-0.5, 0.5),
            method=name,
            max_iter=2,
            **params,
        )
        assert found.queries[0] == 2 + 2 * 11 + 1
    assert PAPER["cifar10"].parameters("zosgd")["step"] == 0.01 / 3072
    with pytest.raises(ValueError, match="`method` must be one of"):
        PAPER["mnist"].parameters("gd")
