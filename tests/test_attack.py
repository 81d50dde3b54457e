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

from slgh.attack import AttackResult, Outcome, attack, homotopies
from slgh.attack.homotopies import (
    FinishedHomotopy,
    PlannedHomotopy,
    default_parameters,
    first_radii,
    homotopy_start,
    narrow_parameters,
    plan_homotopies,
    run_homotopies,
)
from slgh.attack.loss import AttackObjective, SuccessWatch, distortion_of, margin_of, perturb
from slgh.attack.model import ImageClasses, QueriedModel
from slgh.attack.result import report
from slgh.engine.checkpoint import Checkpoint
from slgh.engine.termination import Status
from slgh.paper.attack.settings import METHODS, PAPER
from slgh.paper.networks.datasets import shipped_images
from slgh.paper.networks.networks import network
from slgh.protocols import Sight
from slgh.result import Result

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(0)
D, K = 12, 4
WEIGHTS = RNG.normal(size=(D, K))
IMAGES = RNG.uniform(0.1, 0.9, size=(9, 3, 2, 2))
QUICK: dict[str, Any] = {"max_queries": 3000, "seed": 0}


def model(images: Any) -> Any:
    """Linear classifier of NumPy images (N, 3, 2, 2)."""
    assert images.shape[1:] == (3, 2, 2)
    assert images.min() >= 0
    assert images.max() <= 1
    return (images.reshape(len(images), D) - 0.5) @ WEIGHTS


LABELS = model(IMAGES).argmax(axis=1)


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
        return watch.see(state, Sight(k, np.full((2, 3), float(k)), np.zeros(2), more), np)

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


@pytest.mark.parametrize("stop", ["end", "first success"])
@pytest.mark.parametrize("method", ["auto", "zoslgh_r", "zoslgh_d", "zosgd", "zoadamm", "zogradopt"])
def test_every_query_is_counted(method: str, stop: str) -> None:
    counting = Counting()
    params: dict[str, Any] = {"t1": 0.3, "step": 0.05, "samples": 4} if method != "auto" else {}
    params |= {"eta": 1e-3} if method == "zoslgh_d" else {}
    found = attack(counting, IMAGES, LABELS, method=method, stop=stop, **QUICK | params)
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
    found = attack(counting, IMAGES, LABELS, max_queries=max_queries, seed=1, stop=stop)
    assert (found.queries <= max_queries).all()
    assert counting.asked == found.queries.sum()


def test_what_is_returned_fools_the_model() -> None:
    found = attack(model, IMAGES, LABELS, **QUICK)
    assert found.success.mean() > 0.8
    assert np.array_equal(fooled(found), found.success)
    assert np.array_equal(found.after[found.success], model(found.images).argmax(axis=1)[found.success])
    change = ((found.images - IMAGES) ** 2).sum(axis=(1, 2, 3))
    assert np.allclose(found.distortion[found.success], change[found.success], rtol=1e-5)
    assert np.allclose(found.l2[found.success] ** 2, change[found.success], rtol=1e-5)
    assert (found.images >= 0).all()
    assert (found.images <= 1).all()
    assert {found.outcome[i] for i in np.flatnonzero(found.success)} == {Outcome.SUCCESS}


def test_an_image_that_resists_comes_back_untouched() -> None:
    def stubborn(images: Any) -> Any:
        return np.tile([9.0, 0, 0, 0], (len(images), 1))

    found = attack(stubborn, IMAGES, np.zeros(9, int), max_queries=200, seed=0)
    assert np.array_equal(found.images, IMAGES)
    assert set(found.outcome) == {Outcome.FAILED}
    assert np.isnan(found.distortion).all()
    assert np.isfinite(found.last_total).all()
    assert (found.first_success == -1).all()


def test_polishing_lowers_the_distortion() -> None:
    options = QUICK | {"max_queries": 1000}  # too few for two homotopies
    polished, first = (attack(model, IMAGES, LABELS, stop=stop, **options) for stop in ("end", "first success"))
    assert np.array_equal(polished.first_success, first.first_success)
    both = polished.success & first.success
    assert (polished.distortion[both] <= first.distortion[both]).all()
    assert polished.distortion[both].sum() < 0.9 * first.distortion[both].sum()
    assert (first.queries[first.success] < polished.queries[first.success]).all()


def test_a_class_can_be_aimed_at() -> None:
    targets = (LABELS + 1) % K
    found = attack(model, IMAGES, LABELS, targets=targets, max_queries=6000, seed=0)
    assert found.success.mean() > 0.5
    assert np.array_equal(found.after[found.success], targets[found.success])
    one = attack(model, IMAGES, LABELS, targets=2, max_queries=6000, seed=0)
    assert set(one.after[one.success]) == {2}
    there = attack(model, IMAGES, LABELS, targets=LABELS, max_queries=50)
    assert set(there.outcome) == {Outcome.THERE}


def test_misclassified_images_are_reported_and_left_alone() -> None:
    counting, labels = Counting(), LABELS.copy()
    labels[[2, 5]] = (labels[[2, 5]] + 1) % K
    found = attack(counting, IMAGES, labels, **QUICK)
    assert [i for i, o in enumerate(found.outcome) if o is Outcome.MISCLASSIFIED] == [2, 5]
    assert found.queries[[2, 5]].tolist() == [2, 2]
    assert np.array_equal(found.images[[2, 5]], IMAGES[[2, 5]])
    assert counting.asked == found.queries.sum()
    assert np.isnan(found.history["total"][:, [2, 5]]).all()
    assert np.isfinite(found.history["total"][:, 0]).all()
    others = np.delete(np.arange(9), [2, 5])
    alone = attack(model, IMAGES[others], LABELS[others], **QUICK)
    assert np.array_equal(alone.images, found.images[others])
    none = attack(model, IMAGES, (LABELS + 1) % K, **QUICK)
    assert none.runs == ()
    assert none.history == {}
    assert "Most are misclassified to begin with" in none.message


def test_it_is_shown_in_a_few_lines_and_goes_into_json() -> None:
    found = attack(model, IMAGES, LABELS, stop="first-success", **QUICK)
    lines = repr(found).splitlines()
    assert [lines[0], lines[1].strip(), lines[3].strip()] == [
        "AttackResult:",
        "message: 9 of 9: success.",
        "success: 9 of 9",
    ]
    assert f"queries: {found.queries.min()} to {found.queries.max()}, median " in lines[4]
    assert f"l2: {found.l2.min():.6g} to {found.l2.max():.6g}, median " in lines[-1]
    assert '<td style="text-align: left">9 of 9</td>' in found._repr_html_()
    none = attack(model, IMAGES, (LABELS + 1) % K, **QUICK)
    assert "success: 0 of 9" in repr(none)
    assert "l2" not in repr(none)
    assert json.dumps(found.outcome[:1]) == '["success"]'


def test_rounded_probabilities_are_probabilities() -> None:
    def service(images: Any) -> Any:
        return np.round(softmax(model(images), axis=1), 2)

    assert attack(service, IMAGES, LABELS, outputs="probabilities", max_queries=100, seed=0).queries.max() <= 100


def test_the_history_is_of_each_image() -> None:
    found = attack(model, IMAGES, LABELS, history="full", **QUICK)
    assert found.history["total"].shape == (len(found.history["iteration"]), 9)
    assert (np.diff(found.history["queries"]) == 21).all()
    for i in np.flatnonzero(found.success):
        assert found.history["margin"][found.first_success[i], i] <= 1e-10
        assert (found.history["margin"][: found.first_success[i], i] > 1e-10).all()


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
def test_models_of_every_library(kind: str) -> None:
    one, images = libraries()[kind]
    found = attack(one, images, torch.tensor(LABELS) if kind == "module" else LABELS, **QUICK)
    assert isinstance(found.images, type(images))
    assert np.array_equal(fooled(found), found.success)
    assert found.success.mean() > 0.7
    if kind != "jax":  # its noise is different
        assert np.allclose(np.asarray(found.images), attack(model, IMAGES, LABELS, **QUICK).images, rtol=1e-6)


def test_probabilities_do_as_well_as_logits() -> None:
    scores = attack(model, IMAGES, LABELS, **QUICK)
    chances = attack(lambda a: softmax(model(a), axis=1), IMAGES, LABELS, outputs="probabilities", **QUICK)
    assert np.allclose(scores.images, chances.images, rtol=1e-6)


def test_the_range_of_pixels_does_not_matter() -> None:
    plain = attack(model, IMAGES, LABELS, **QUICK)
    centered = attack(lambda a: model(a + 0.5), IMAGES - 0.5, LABELS, pixels=(-0.5, 0.5), **QUICK)
    bytes_ = attack(lambda a: model(a / 255), IMAGES * 255, LABELS, pixels=(0, 255), **QUICK)
    assert np.allclose(centered.images + 0.5, plain.images, atol=1e-9)
    assert np.allclose(bytes_.images / 255, plain.images, atol=1e-9)
    assert np.allclose(bytes_.distortion, plain.distortion, rtol=1e-6, equal_nan=True)


@pytest.mark.parametrize(
    "options", [{"batch_size": 2}, {"model_batch_size": 5}, {"batch_size": 4, "model_batch_size": 1}]
)
def test_how_many_at_a_time_does_not_matter(options: dict[str, int]) -> None:
    most = []

    def watched(images: Any) -> Any:
        most.append(len(images))
        return model(images)

    found = attack(watched, IMAGES, LABELS, **QUICK | options)
    plain = attack(model, IMAGES, LABELS, **QUICK)
    assert np.allclose(found.images, plain.images, rtol=1e-4)  # products of other sizes are rounded differently
    assert np.array_equal(found.queries, plain.queries)
    assert np.allclose(found.history["total"], plain.history["total"], rtol=1e-4)
    if "model_batch_size" in options:
        assert max(most) <= options["model_batch_size"]


def test_a_shortage_of_memory_is_met_with_fewer_images(monkeypatch: pytest.MonkeyPatch) -> None:
    class Small(Exception):
        pass

    def small(images: Any) -> Any:
        if len(images) > 60:
            raise Small("no room")
        return model(images)

    monkeypatch.setattr(homotopies, "is_out_of_memory", lambda error: isinstance(error, Small))
    found = attack(small, IMAGES, LABELS, **QUICK)
    assert "sufficed for 2 images at a time, not for 9" in found.message
    assert np.allclose(found.images, attack(model, IMAGES, LABELS, **QUICK).images, rtol=1e-9)

    def hopeless(images: Any) -> Any:
        if len(images) > 9:
            raise Small("no room at all")
        return model(images)

    with pytest.raises(Small):
        attack(hopeless, IMAGES, LABELS, **QUICK)


def test_out_of_memory_is_told_from_other_errors() -> None:
    assert homotopies.is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory"))
    assert not homotopies.is_out_of_memory(RuntimeError("shape mismatch"))


def test_a_run_is_resumed(tmp_path: Path) -> None:
    file = tmp_path / "attack.npz"
    whole = attack(model, IMAGES, LABELS, **QUICK)
    calls = []

    def failing(images: Any) -> Any:
        calls.append(1)
        if len(calls) == 12:
            raise ConnectionError("the line is dead")
        return model(images)

    with pytest.raises(ConnectionError):
        attack(failing, IMAGES, LABELS, checkpoint=file, **QUICK)
    resumed = attack(model, IMAGES, LABELS, checkpoint=file, **QUICK)
    assert np.array_equal(resumed.images, whole.images)
    assert np.array_equal(resumed.first_success, whole.first_success)


def test_memory_that_is_short_and_a_checkpoint_go_together(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Small(Exception):
        pass

    calls = []

    def small(images: Any) -> Any:
        if len(images) > 60:
            raise Small("no room")
        calls.append(1)
        if len(calls) == 40:
            raise ConnectionError("the line is dead")
        return model(images)

    monkeypatch.setattr(homotopies, "is_out_of_memory", lambda error: isinstance(error, Small))
    file = tmp_path / "attack.npz"
    with pytest.raises(ConnectionError):
        attack(small, IMAGES, LABELS, checkpoint=file, **QUICK)
    resumed = attack(small, IMAGES, LABELS, checkpoint=file, **QUICK)
    whole = attack(model, IMAGES, LABELS, batch_size=2, **QUICK)
    assert np.array_equal(resumed.images, whole.images)


def test_time_that_is_up_leaves_images_that_were_not_begun() -> None:
    found = attack(model, IMAGES, LABELS, batch_size=2, max_queries=10**6, max_seconds=0.3, seed=0)
    assert set(found.outcome[2:]) == {Outcome.WAITING}
    assert (found.queries[2:] == 3).all()  # two before, and the evaluation of the start


def test_queries_to_success_are_exact_however_the_run_ends() -> None:
    whole = attack(model, IMAGES, LABELS, **QUICK)
    cut = attack(model, IMAGES, LABELS, target=0.05, **QUICK)
    same = (whole.first_success == cut.first_success) & whole.success
    assert same.sum() > 3
    assert np.array_equal(whole.queries_to_success[same], cut.queries_to_success[same])


def test_answers_of_another_library_are_taken_over() -> None:
    found = attack(lambda a: model(a.numpy()), torch.tensor(IMAGES, requires_grad=True), LABELS, **QUICK)
    assert isinstance(found.images, torch.Tensor)
    assert np.allclose(found.images.numpy(), attack(model, IMAGES, LABELS, **QUICK).images, rtol=1e-4)
    assert attack(lambda a: model(a).tolist(), IMAGES, LABELS, max_queries=100, seed=0).queries.max() <= 100


def test_pixels_a_rounding_outside_are_taken_for_its_end() -> None:
    images = IMAGES.copy()
    images[0, 0, 0, 0], images[1, 0, 0, 0] = 1 + 7e-7, -7e-7
    found = attack(model, images, LABELS, **QUICK)
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


def test_a_model_that_breaks_down_later_is_a_status() -> None:
    calls = []

    def fading(images: Any) -> Any:
        calls.append(1)
        return model(images) if len(calls) < 5 else np.full((len(images), K), np.nan)

    found = attack(fading, IMAGES, LABELS, **QUICK)
    assert set(found.outcome) <= {Outcome.NONFINITE, Outcome.UNCONFIRMED, Outcome.FAILED}
    assert not found.success.any()


def test_a_success_that_does_not_hold_is_none() -> None:
    calls = []

    def fickle(images: Any) -> Any:
        calls.append(len(images))
        return model(images) if len(images) > 9 or len(calls) < 3 else model(IMAGES[: len(images)]) * 0 + [[9, 0, 0, 0]]

    found = attack(fickle, IMAGES, LABELS, **QUICK)
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
    ({"outputs": "classes"}, "`outputs` must be one of 'logits', 'probabilities'"),
    ({"outputs": "probabilities"}, "but the model's rows are not, .* pass `outputs='logits'"),
    ({"stop": "never"}, "`stop` must be one of"),
    ({"max_queries": 3}, "`max_queries` must be an integer >= 4"),
    ({"max_queries": 25}, "`max_queries` must allow an iteration, 26 queries per image; got 25"),
    ({"max_evals": 100}, "pass max_queries"),
    ({"eps": 0.1}, "there is no ball to stay in"),
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


def test_many_queries_make_a_narrow_homotopy_and_a_wide_one() -> None:
    photographs, digits = (shipped_images(name).pixels().reshape(100, -1) for name in ("cifar10", "mnist"))
    first, second = plan_homotopies(digits, 73_331, None, {}, reduce_distortion=True)
    assert (first.params["values"], second.params.get("values")) == ("ranks", None)
    assert first.params["t1"] == pytest.approx(3.92, rel=0.01)
    assert first.params["shape"] == pytest.approx(0.393, rel=0.01)
    assert first.params["alpha"] == pytest.approx(0.322, rel=0.01)
    assert second.params["alpha"] == pytest.approx(3 * 0.216, rel=0.02)
    assert (first.max_evals, second.max_evals) == (48_888, 24_443)
    assert narrow_parameters(photographs, 873, 10)["shape"] == pytest.approx(0.304, rel=0.01)
    by_iterations = plan_homotopies(digits, None, 2001, {"samples": 5}, reduce_distortion=True)
    assert [(one.max_iter, one.params["samples"]) for one in by_iterations] == [(1334, 5), (667, 5)]
    for a, queries in ((digits, 15_186), (photographs, 29_928)):  # as the documentation says
        assert len(plan_homotopies(a, queries - 3 - 1, None, {}, reduce_distortion=True)) == 1
        assert len(plan_homotopies(a, queries - 3, None, {}, reduce_distortion=True)) == 2
    assert len(plan_homotopies(digits, 73_331, None, {"samples": np.int64(10)}, reduce_distortion=True)) == 2
    assert len(plan_homotopies(digits, 73_331, None, {}, reduce_distortion=False)) == 1
    assert len(plan_homotopies(digits, 73_331, None, {"alpha": 0.3}, reduce_distortion=True)) == 1


class TestTwoHomotopies:
    """A model that ignores changes within some distance: the narrow homotopy fools it on few of the images."""

    IMAGES = np.random.default_rng(0).uniform(0.3, 0.7, size=(8, D))
    LABELS = np.zeros(8, int)

    @staticmethod
    def model(images: Any) -> Any:
        beyond = np.maximum(((images - 0.5) ** 2).sum(axis=1) - 0.3, 0)
        return np.stack([np.full(len(images), 3.0), 9 * beyond], axis=1)

    def attack(self, model: Any = None, **options: Any) -> AttackResult:
        return attack(model or self.model, self.IMAGES, self.LABELS, **(QUICK | options))

    def test_the_second_is_for_those_that_the_first_did_not_fool(self) -> None:
        counting = Counting(self.model)
        found = self.attack(counting)
        first, second = found.runs
        early = first.watched["first"] >= 0
        assert 0 < early.sum() < 8
        assert second.x.shape == ((~early).sum(), D)
        assert found.success.all()
        assert (self.model(found.images).argmax(axis=1) == 1).all()
        assert counting.asked == found.queries.sum()
        assert found.queries.max() <= QUICK["max_queries"]
        assert (found.queries[early] < 2010).all()
        assert np.array_equal(found.first_success[~early], first.nit[~early] + second.watched["first"])
        assert f"for the {(~early).sum()} that the first homotopy did not fool" in found.message

    def test_queries_to_success_are_those_of_both(self) -> None:
        found = self.attack(history="full")
        for i in range(8):
            row = int(np.flatnonzero(found.history["margin"][:, i] <= 0)[0])
            assert found.history["queries"][row] == found.queries_to_success[i]
            assert found.history["iteration"][row] == found.first_success[i]

    def test_the_history_is_of_both(self) -> None:
        found = self.attack()
        early = found.runs[0].watched["first"] >= 0
        rows = len(found.runs[0].history["iteration"])
        assert (np.diff(found.history["iteration"]) > 0).all()
        assert (np.diff(found.history["queries"]) > 0).all()
        assert np.isfinite(found.history["total"][:rows]).all()
        assert np.isnan(found.history["total"][rows:, early]).all()
        assert np.isfinite(found.history["total"][rows:, ~early]).all()
        assert found.history["queries"][-1] <= found.queries.max()

    @pytest.mark.parametrize(("calls", "second"), [(30, False), (100, True)])
    def test_each_is_resumed(self, calls: int, second: bool, tmp_path: Path) -> None:
        file, whole = tmp_path / "attack.npz", self.attack()

        class Failing(Counting):
            def __call__(self, images: Any) -> Any:
                nonlocal calls
                if (calls := calls - 1) == 0:
                    raise ConnectionError("the line is dead")
                return super().__call__(images)

        failing, rest, again = Failing(self.model), Counting(self.model), Counting(self.model)
        with pytest.raises(ConnectionError):
            self.attack(failing, checkpoint=file)
        assert (tmp_path / "attack.2.npz").exists() == second
        resumed = self.attack(rest, checkpoint=Checkpoint(path=file))
        assert np.array_equal(resumed.images, whole.images)
        assert np.array_equal(resumed.queries_to_success, whole.queries_to_success)
        assert failing.asked + rest.asked <= whole.queries.sum() + 25 * 8  # the queries before, and an iteration
        assert np.array_equal(self.attack(again, checkpoint=file).images, whole.images)
        assert again.asked <= 5 * 8  # before and after

    def test_seeds_are_the_images_own(self) -> None:
        options = QUICK | {"t1": 0.2, "alpha": 0.5}
        alone = attack(self.model, self.IMAGES[5:6], self.LABELS[5:6], **(options | {"seed": [7]}))
        among = attack(self.model, self.IMAGES, self.LABELS, **(options | {"seed": [1, 2, 3, 4, 5, 7, 8, 9]}))
        assert np.array_equal(alone.images[0], among.images[5])
        with pytest.raises(
            ValueError, match=r"`seed` must be an integer, or one integer per image \(expected 8\); got 2"
        ):
            self.attack(seed=[1, 2])

    def test_a_drawn_seed_is_both_ones(self) -> None:
        first, second = self.attack(seed=None).runs
        assert first.seed == second.seed

    def test_the_first_success_takes_one(self) -> None:
        assert len(self.attack(stop="first success").runs) == 1

    def test_time_that_is_up_before_the_second_leaves_what_the_first_found(self) -> None:
        whole, cut = self.attack(), self.attack(history=0)
        first, second = cut.runs
        second.nit[:], second.status[:] = 0, Status.MAX_SECONDS
        second.watched["first"][:] = -1
        rows = np.flatnonzero(first.watched["first"] < 0)
        passed = [FinishedHomotopy(np.arange(8), first, ""), FinishedHomotopy(rows, second, "")]
        a = self.IMAGES - 0.5
        asked = QueriedModel(model=self.model, shape=(D,), low=0, high=1, outputs="logits", model_batch_size=None)
        who = ImageClasses(label=self.LABELS, before=self.LABELS, target=None)
        found = report(asked, self.IMAGES, a, who, passed)
        assert {found.outcome[i] for i in rows} == {Outcome.FAILED}
        assert np.array_equal(found.last_total[rows], first.fun[rows])
        assert np.array_equal(found.success, whole.first_success < first.nit[0])

    def test_an_interrupt_begins_no_second(self, tmp_path: Path) -> None:
        file, calls = tmp_path / "attack.npz", 0

        def interrupted(images: Any) -> Any:
            nonlocal calls
            if (calls := calls + 1) == 150:  # when the first four have ended, and the others have not
                raise KeyboardInterrupt
            return self.model(images)

        whole = self.attack(batch_size=4)
        cut = self.attack(interrupted, batch_size=4, checkpoint=file)
        assert set(cut.runs[0].status.tolist()) == {Status.COMPLETED, Status.INTERRUPTED}
        assert len(cut.runs) == 1
        assert not (tmp_path / "attack.2.npz").exists()
        assert np.array_equal(self.attack(batch_size=4, checkpoint=file).images, whole.images)

    def test_a_second_checkpoint_without_the_first_is_of_another_run(self, tmp_path: Path) -> None:
        file = tmp_path / "attack.npz"
        self.attack(checkpoint=file)
        file.unlink()
        counting = Counting(self.model)
        with pytest.raises(ValueError, match=r"attack.npz' does not exist, but .*attack.2.npz', which belongs to it"):
            self.attack(counting, checkpoint=file)
        assert counting.asked <= 2 * 8

    def test_some_at_a_time_are_the_same(self) -> None:
        whole, some = self.attack(), self.attack(batch_size=3)
        assert np.array_equal(some.images, whole.images)
        assert np.array_equal(some.queries, whole.queries)


class TestPasses:
    """One homotopy after another, with a substitute for `minimize`."""

    @staticmethod
    def went(first: list[int], status: Any = Status.COMPLETED, **options: Any) -> list[Any]:
        """Return the rows and the options of each call of `minimize`."""
        calls = []

        def minimize(rows: Any, **given: Any) -> Any:
            calls.append((rows.tolist(), given))
            ended = np.broadcast_to(status, len(first))[rows]
            watched = {"first": np.array(first)[rows]}
            return Result(x=np.zeros((rows.size, 1)), status=ended, watched=watched, seed=7, seconds=2.0)

        given = {"batch_size": None, "max_seconds": None, "seed": 0, "checkpoint": None} | options
        run_homotopies(
            [PlannedHomotopy({}, 20, None), PlannedHomotopy({}, 10, None)], minimize, np.arange(len(first)), **given
        )
        return calls

    def test_the_second_has_those_that_were_not_fooled(self) -> None:
        assert [rows for rows, _ in self.went([3, -1, 0, -1])] == [[0, 1, 2, 3], [1, 3]]
        assert len(self.went([3, 1])) == 1

    def test_seeds_go_with_their_images(self) -> None:
        assert [given["seed"] for _, given in self.went([3, -1, 0, -1], seed=[5, 6, 7, 8])] == [[5, 6, 7, 8], [6, 8]]
        assert [given["seed"] for _, given in self.went([-1], seed=None)] == [None, 7]

    def test_seconds_are_for_both(self) -> None:
        assert [given["max_seconds"] for _, given in self.went([-1], max_seconds=5.0)] == [5.0, 3.0]
        assert [given["max_seconds"] for _, given in self.went([-1], max_seconds=1.0)] == [1.0, 0.0]

    def test_what_is_not_finite_is_not_tried_again(self) -> None:
        kinds = [Status.COMPLETED, Status.NONFINITE, Status.MAX_EVALS]
        assert [rows for rows, _ in self.went([-1, -1, -1], kinds)] == [[0, 1, 2], [0, 2]]

    @pytest.mark.parametrize("cut", [Status.INTERRUPTED, Status.MAX_SECONDS, Status.CALLBACK])
    def test_what_was_cut_short_is_the_end(self, cut: Status) -> None:
        assert len(self.went([-1, -1], [Status.COMPLETED, cut])) == 1


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
