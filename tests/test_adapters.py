"""The attack inside foolbox, ART and torchattacks fools the network of the package through their calls, and counts."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from slgh.attack import Outcome, attack
from slgh.paper.networks.datasets import shipped_images
from slgh.paper.networks.networks import network

pytestmark = pytest.mark.slow

# Images that fall within a few hundred queries, and the nearest wrong class of each.
EASY, NEAREST = [15, 62, 43], [3, 5, 1]
FAST: dict[str, Any] = {
    "method": "zoslgh_r",
    "stop": "first success",
    "t1": 1.0,
    "gamma": 0.98,
    "step": 5 / 784,
    "samples": 5,
    "floor": 1e-3,
    "seed": 0,
}


class Counting(nn.Module):
    """The network of the package for pixels in [0, 1] (or shifted). It counts the images that it evaluates."""

    def __init__(self, shift: float = 0.5) -> None:
        super().__init__()
        self.net, self.shift, self.count = network("mnist"), shift, 0
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        self.count += len(x)
        found: Tensor = self.net(x - self.shift)
        return found


@pytest.fixture
def model() -> Counting:
    return Counting()


def easy_images() -> tuple[Tensor, Tensor]:
    found = shipped_images("mnist")
    return torch.tensor(found.images[EASY] / np.float32(255)), torch.tensor(found.labels[EASY])


class Found(NamedTuple):
    """Outcome of an attack through the call of a library. The success is judged by that library."""

    images: Tensor
    success: list[bool]
    adapter: Any
    asked_by_host: int = 0
    """Queries of the library itself, besides those of the attack."""


def by_foolbox(model: Counting, x: Tensor, y: Tensor, wanted: Tensor | None = None, **settings: Any) -> Found:
    fb = pytest.importorskip("foolbox")
    from slgh.attack.adapters.foolbox import SLGHFoolboxAttack, SLGHLinfFoolboxAttack

    norm = settings.pop("norm", "l2")
    adapter: Any = {"l2": SLGHFoolboxAttack, "linf": SLGHLinfFoolboxAttack}[norm](**settings)
    criterion = y if wanted is None else fb.criteria.TargetedMisclassification(wanted)
    images, clipped, success = adapter(fb.PyTorchModel(model, bounds=(0, 1)), x, criterion, epsilons=None)
    assert (clipped == images).all()
    return Found(images, success.tolist(), adapter, asked_by_host=len(x))


def by_art(model: Counting, x: Tensor, y: Tensor, wanted: Tensor | None = None, **settings: Any) -> Found:
    pytest.importorskip("art")
    from art.estimators.classification import PyTorchClassifier

    classifier = PyTorchClassifier(
        model=model, loss=nn.CrossEntropyLoss(), input_shape=(1, 28, 28), nb_classes=10, clip_values=(0, 1)
    )
    return by_classifier(classifier, model, x, y, wanted, **settings)


def by_art_asking(model: Counting, x: Tensor, y: Tensor, wanted: Tensor | None = None, **settings: Any) -> Found:
    pytest.importorskip("art")
    from art.estimators.classification import BlackBoxClassifier

    def answer(images: Any) -> Any:
        return model(torch.from_numpy(images)).softmax(dim=1).numpy()

    classifier = BlackBoxClassifier(answer, input_shape=(1, 28, 28), nb_classes=10, clip_values=(0, 1))
    return by_classifier(classifier, model, x, y, wanted, **{"outputs": "probabilities"} | settings)


def by_classifier(
    classifier: Any, model: Counting, x: Tensor, y: Tensor, wanted: Tensor | None, **settings: Any
) -> Found:
    from art.utils import compute_success_array

    from slgh.attack.adapters.art import SLGHArtAttack

    targeted = wanted is not None
    classes = (y if wanted is None else wanted).numpy()
    adapter: Any = SLGHArtAttack(classifier, targeted=targeted, **settings)
    images = adapter.generate(x.numpy(), classes)
    before = model.count
    success = compute_success_array(classifier, x.numpy(), np.eye(10)[classes], images, targeted=targeted)
    return Found(torch.from_numpy(images), success.tolist(), adapter, asked_by_host=model.count - before)


def by_torchattacks(model: Counting, x: Tensor, y: Tensor, wanted: Tensor | None = None, **settings: Any) -> Found:
    pytest.importorskip("torchattacks")
    from slgh.attack.adapters.torchattacks import SLGH

    adapter: Any = SLGH(model, **settings)
    if wanted is not None:
        adapter.set_mode_targeted_by_label(quiet=True)
    images = adapter(x, y if wanted is None else wanted)
    seen = adapter.get_output_with_eval_nograd(images).argmax(dim=1)
    success = seen != y if wanted is None else seen == wanted
    return Found(images, success.tolist(), adapter, asked_by_host=len(x))


HOSTS: dict[str, Callable[..., Found]] = {
    "foolbox": by_foolbox,
    "art": by_art,
    "art, asking alone": by_art_asking,
    "torchattacks": by_torchattacks,
}
each_host = pytest.mark.parametrize("by_host", HOSTS.values(), ids=HOSTS)


@each_host
def test_the_network_is_fooled_within_the_pixels_and_the_budget(by_host: Callable[..., Found], model: Counting) -> None:
    x, y = easy_images()
    found = by_host(model, x, y, max_queries=500, **FAST)
    assert found.success == [True, True, True]
    assert found.images.shape == x.shape
    assert found.images.dtype == x.dtype
    assert 0 <= found.images.min() < found.images.max() <= 1
    assert (model(found.images).argmax(dim=1) == torch.tensor(found.adapter.result.after)).all()
    distance = (found.images - x).flatten(1).norm(dim=1).numpy()
    np.testing.assert_allclose(distance, found.adapter.result.distance, rtol=1e-4)
    assert (distance > 0.5).all()
    assert (distance < 2.5).all()


@each_host
@pytest.mark.parametrize("settings", [FAST, {**FAST, "stop": "end"}, {"seed": 0}], ids=["first success", "end", "auto"])
def test_queries_are_those_that_the_model_saw(
    by_host: Callable[..., Found], model: Counting, settings: dict[str, Any]
) -> None:
    x, y = easy_images()
    found = by_host(model, x, y, max_queries=300, **settings)
    queries = found.adapter.queries
    assert queries.shape == (3,)
    assert model.count == queries.sum() + found.asked_by_host
    assert queries.max() <= 300
    if settings is FAST:
        assert queries.min() < 100
    else:
        assert queries.min() > 300 - 21  # an iteration that does not fit is not started


@each_host
def test_it_is_the_attack_itself_that_runs(by_host: Callable[..., Found], model: Counting) -> None:
    """Every setting is passed on: the result is that of a direct call."""
    x, y = easy_images()
    settings: dict[str, Any] = {
        "method": "zosgd",
        "max_iter": 12,
        "stop": "end",
        "t1": 0.01,
        "step": 5 / 784,
        "samples": 4,
        "seed": 3,
    }
    found = by_host(model, x, y, weight=5.0, **settings)
    direct = attack(Counting(), x, y, weight=5.0, **settings)
    assert direct.success.any()
    assert found.adapter.queries.tolist() == direct.queries.tolist() == [2 + 12 * 5 + 1 + ok for ok in direct.success]
    np.testing.assert_allclose(found.images.numpy(), direct.images.numpy(), atol=1e-4)
    np.testing.assert_allclose(found.adapter.result.last_total, direct.last_total, rtol=1e-3)


@each_host
def test_the_maximum_norm(by_host: Callable[..., Found], model: Counting) -> None:
    x, y = easy_images()
    found = by_host(model, x, y, norm="linf", max_queries=300, seed=0)
    direct = attack(Counting(), x, y, norm="linf", max_queries=300, seed=0)
    assert direct.success.any()
    assert found.adapter.result.norm == "linf"
    np.testing.assert_allclose(found.adapter.result.distance, direct.distance, rtol=0.05)
    change = (found.images - x).flatten(1).abs().max(dim=1).values.numpy()
    won = found.adapter.result.success
    np.testing.assert_allclose(change[won], found.adapter.result.distance[won], rtol=1e-4)


@each_host
def test_eps_is_the_largest_distance_of_a_success(by_host: Callable[..., Found], model: Counting) -> None:
    x, y = easy_images()
    found = by_host(model, x, y, eps=1e-3, max_queries=60, seed=0)
    assert found.success == [False] * 3
    assert (found.images == x).all()


@each_host
def test_only_the_class_is_used_with_labels(by_host: Callable[..., Found], model: Counting) -> None:
    x, y = easy_images()
    found = by_host(model, x, y, outputs="labels", max_queries=300, seed=0)
    assert found.success == [True] * 3
    assert found.adapter.result.run.method.name == "label_walk"
    assert model.count == found.adapter.queries.sum() + found.asked_by_host


@pytest.mark.parametrize(
    ("module", "name"), [("foolbox", "SLGHFoolboxAttack"), ("art", "SLGHArtAttack"), ("torchattacks", "SLGH")]
)
def test_the_defaults_are_those_of_the_attack(module: str, name: str) -> None:
    pytest.importorskip(module)
    parameters = inspect.signature(getattr(importlib.import_module(f"slgh.attack.adapters.{module}"), name)).parameters
    expected = inspect.signature(attack).parameters
    for each in ("method", "max_queries", "max_iter", "stop", "norm", "eps"):
        if (module, each) == ("foolbox", "norm"):
            continue  # each norm has its own class
        assert parameters[each].default == expected[each].default


@each_host
def test_targeted(by_host: Callable[..., Found], model: Counting) -> None:
    x, y = easy_images()
    found = by_host(model, x, y, torch.tensor(NEAREST), max_queries=500, **FAST)
    assert found.success == [True, True, True]
    assert found.adapter.result.after.tolist() == NEAREST
    assert model.count == found.adapter.queries.sum() + found.asked_by_host


@each_host
def test_what_is_asked_for_the_labels_of_a_targeted_attack_is_in_its_budget(
    by_host: Callable[..., Found], model: Counting
) -> None:
    x, y = easy_images()
    far = torch.tensor([0, 0, 0])
    found = by_host(model, x, y, far, max_queries=30, **FAST)
    assert found.success == [False, False, False]
    assert (found.images == x).all()
    # One query for the class, two before the attack, four iterations, the final value. One checks a success.
    assert found.adapter.queries.tolist() == [1 + 2 + 4 * 6 + 1] * 3
    assert model.count == found.adapter.queries.sum() + found.asked_by_host
    assert found.adapter.result.history["queries"].max() <= 30


@each_host
def test_an_image_that_is_misclassified_already_is_left_alone(by_host: Callable[..., Found], model: Counting) -> None:
    x, y = easy_images()
    y[1] = 7
    found = by_host(model, x, y, max_queries=300, **FAST)
    assert found.success[::2] == [True, True]
    assert found.adapter.result.outcome[1] is Outcome.MISCLASSIFIED
    assert found.adapter.queries[1] == 2
    assert (found.images[1] == x[1]).all()


@each_host
@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"method": "zoslgh"}, ValueError, "`method` must be one of .*zoslgh_r"),
        ({"stop": "soon"}, ValueError, "`stop` must be one of 'first success', 'end'"),
        ({"max_queries": 3}, ValueError, "`max_queries` must be an integer >= 4"),
        ({"max_iter": 1.5}, TypeError, "`max_iter` must be an integer"),
        ({"pixels": (0, 1)}, TypeError, "`pixels` must be left out, .* the attack library says it"),
        ({"targets": [1]}, TypeError, "`targets` must be left out"),
        ({"speed": 3}, TypeError, "speed"),
        ({"eps": 0}, ValueError, "`eps` must be"),
    ],
    ids=lambda case: next(iter(case)) if isinstance(case, dict) else "",
)
def test_wrong_arguments_are_named(
    by_host: Callable[..., Found], model: Counting, wrong: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        by_host(model, *easy_images(), **{**FAST, "max_queries": 50, **wrong})


@each_host
def test_it_says_what_it_is_in_a_line(by_host: Callable[..., Found], model: Counting) -> None:
    found = by_host(model, *easy_images(), max_queries=20, **FAST)
    text = repr(found.adapter)
    assert "zoslgh_r" in text
    assert "max_queries=20" in text
    assert "\n" not in text


class TestFoolbox:
    def test_before_the_first_call_there_is_no_result(self) -> None:
        pytest.importorskip("foolbox")
        from slgh.attack.adapters.foolbox import SLGHFoolboxAttack

        assert SLGHFoolboxAttack().queries is None
        assert SLGHFoolboxAttack().result is None

    def test_epsilons_are_judged_by_foolbox(self, model: Counting) -> None:
        fb = pytest.importorskip("foolbox")
        from slgh.attack.adapters.foolbox import SLGHFoolboxAttack

        x, y = easy_images()
        adapter: Any = SLGHFoolboxAttack(max_queries=500, **FAST)
        raw, clipped, success = adapter(fb.PyTorchModel(model, bounds=(0, 1)), x, y, epsilons=[0.5, 3.0])
        l2 = torch.tensor(adapter.result.distance)
        assert success.tolist() == [[False] * 3, [True] * 3]
        assert (raw[0] == raw[1]).all()
        np.testing.assert_allclose((clipped[0] - x).flatten(1).norm(dim=1), l2.clip(max=0.5), rtol=1e-4)
        assert model.count == adapter.queries.sum() + 2 * len(x)

    def test_the_maximum_norm_is_judged_by_foolbox(self, model: Counting) -> None:
        fb = pytest.importorskip("foolbox")
        from slgh.attack.adapters.foolbox import SLGHFoolboxAttack, SLGHLinfFoolboxAttack

        x, y = easy_images()
        adapter: Any = SLGHLinfFoolboxAttack(max_queries=300, seed=0)
        _, clipped, success = adapter(fb.PyTorchModel(model, bounds=(0, 1)), x, y, epsilons=[0.001, 0.5])
        assert success.tolist() == [[False] * 3, adapter.result.success.tolist()]
        assert (clipped[0] - x).abs().max() <= 0.001 + 1e-6
        with pytest.raises(TypeError, match=r"`norm` must be left out, .* SLGHLinfFoolboxAttack"):
            SLGHFoolboxAttack(norm="linf")

    def test_the_bounds_of_the_model_are_the_range(self) -> None:
        fb = pytest.importorskip("foolbox")
        from slgh.attack.adapters.foolbox import SLGHFoolboxAttack

        x, y = easy_images()
        shifted = fb.PyTorchModel(Counting(shift=0.0), bounds=(-0.5, 0.5))
        found, _, success = SLGHFoolboxAttack(max_queries=500, **FAST)(shifted, x - 0.5, y, epsilons=None)
        assert success.all()
        assert -0.5 <= found.min() < -0.4
        assert 0.4 < found.max() <= 0.5

    @pytest.mark.parametrize("library", ["numpy", "jax"])
    def test_models_of_other_libraries(self, library: str) -> None:
        fb = pytest.importorskip("foolbox")
        from slgh.attack.adapters.foolbox import SLGHFoolboxAttack

        def brightness(images: Any) -> Any:
            return 9 * images.reshape(len(images), -1)

        if library == "numpy":
            xp: Any = np
            model = fb.models.NumPyModel(brightness, bounds=(0, 1))
        else:
            import jax.numpy as xp

            model = fb.JAXModel(brightness, bounds=(0, 1))
        x, y = xp.asarray([[0.6, 0.4], [0.3, 0.5]], dtype="float32"), xp.asarray([0, 1])
        adapter: Any = SLGHFoolboxAttack(max_queries=1000, seed=0)
        found, _, success = adapter(model, x, y, epsilons=None)
        assert isinstance(found, type(x))
        assert success.tolist() == [True, True]
        assert (xp.argmax(found, axis=1) == xp.asarray([1, 0])).all()
        wanted = fb.criteria.TargetedMisclassification(xp.asarray([1, 0]))
        assert adapter(model, x, wanted, epsilons=None)[2].all()

    def test_other_criteria_are_refused(self, model: Counting) -> None:
        fb = pytest.importorskip("foolbox")
        from slgh.attack.adapters.foolbox import SLGHFoolboxAttack

        x, y = easy_images()
        both = fb.criteria.Misclassification(y) & fb.criteria.Misclassification(y)
        with pytest.raises(ValueError, match=r"`criterion` must be labels, Misclassification or Targeted"):
            SLGHFoolboxAttack(max_queries=50, **FAST)(fb.PyTorchModel(model, bounds=(0, 1)), x, both, epsilons=None)
        with pytest.raises(TypeError, match="starting_points"):
            SLGHFoolboxAttack(**FAST)(fb.PyTorchModel(model, bounds=(0, 1)), x, y, epsilons=None, starting_points=x)


class TestART:
    @pytest.fixture(autouse=True)
    def installed(self) -> None:
        pytest.importorskip("art")

    def classifier(self, model: Counting, **options: Any) -> Any:
        from art.estimators.classification import BlackBoxClassifier

        def answer(images: Any) -> Any:
            return model(torch.from_numpy(images)).numpy()

        return BlackBoxClassifier(answer, (1, 28, 28), 10, **{"clip_values": (0.0, 1.0), **options})

    def test_without_labels_it_asks_for_them(self, model: Counting) -> None:
        from slgh.attack.adapters.art import SLGHArtAttack

        x, y = easy_images()
        adapter: Any = SLGHArtAttack(self.classifier(model), max_queries=500, batch_size=7, **FAST)
        told, queries = adapter.generate(x.numpy(), np.eye(10)[y.numpy()]), adapter.queries
        model.count = 0
        assert (adapter.generate(x.numpy()) == told).all()
        assert (adapter.queries == queries + 1).all()
        assert model.count == adapter.queries.sum()

    def test_the_clip_values_are_the_range(self) -> None:
        from slgh.attack.adapters.art import SLGHArtAttack

        x, y = easy_images()
        shifted = self.classifier(Counting(shift=0.0), clip_values=(-0.5, 0.5))
        adapter: Any = SLGHArtAttack(shifted, max_queries=500, **FAST)
        found = adapter.generate(x.numpy() - 0.5, y.numpy())
        assert adapter.result.success.all()
        assert -0.5 <= found.min() < -0.4
        assert 0.4 < found.max() <= 0.5

    def test_its_parameters_are_set_and_checked_as_arts_are(self, model: Counting) -> None:
        from slgh.attack.adapters.art import SLGHArtAttack

        x, y = easy_images()
        adapter: Any = SLGHArtAttack(self.classifier(model), max_queries=50, **FAST)
        adapter.set_params(max_queries=20, targeted=True)
        adapter.generate(x.numpy(), np.array(NEAREST))
        assert adapter.queries.max() <= 20
        with pytest.raises(ValueError, match="`y` must hold the classes that are wanted"):
            adapter.generate(x.numpy())
        with pytest.raises(ValueError, match="`stop` must be one of"):
            adapter.set_params(stop="never")
        with pytest.raises(TypeError, match="`generate` takes x and y, got mask too"):
            adapter.generate(x.numpy(), y.numpy(), mask=x.numpy())

    @pytest.mark.parametrize("ends", [None, (np.zeros((1, 28, 28)), np.linspace(0.5, 1, 784).reshape(1, 28, 28))])
    def test_a_range_is_needed(self, model: Counting, ends: Any) -> None:
        from slgh.attack.adapters.art import SLGHArtAttack

        classifier = self.classifier(model, clip_values=ends)
        with pytest.raises(ValueError, match="`clip_values` of the classifier must be two numbers"):
            SLGHArtAttack(classifier, **FAST)

    def test_anything_but_a_classifier_is_refused(self, model: Counting) -> None:
        from art.exceptions import EstimatorError

        from slgh.attack.adapters.art import SLGHArtAttack

        with pytest.raises(EstimatorError, match="SLGHArtAttack requires an estimator"):
            SLGHArtAttack(model, **FAST)


class TestTorchattacks:
    @pytest.fixture(autouse=True)
    def installed(self) -> None:
        pytest.importorskip("torchattacks")

    @pytest.mark.parametrize(("mode", "extra"), [("least_likely", 2), ("random", 2), ("by_function", 1)])
    def test_the_modes_that_choose_targets(self, model: Counting, mode: str, extra: int) -> None:
        from slgh.attack.adapters.torchattacks import SLGH

        x, y = easy_images()
        adapter: Any = SLGH(model, max_queries=60, **FAST)
        options = {"target_map_function": lambda images, labels: torch.tensor(NEAREST)} if mode == "by_function" else {}
        getattr(adapter, f"set_mode_targeted_{mode}")(**options, quiet=True)
        adapter(x, y)
        assert model.count == adapter.queries.sum()
        assert adapter.queries.max() <= 60
        history = adapter.result.history["queries"]
        assert history[0].max() == extra + 2 + 6  # extra queries before the attack, two by it, one iteration

    def test_without_labels_it_asks_for_them(self, model: Counting) -> None:
        from slgh.attack.adapters.torchattacks import SLGH

        x, y = easy_images()
        adapter: Any = SLGH(model, max_queries=500, **FAST)
        told, queries = adapter(x, y), adapter.queries
        assert (adapter(x) == told).all()
        assert (adapter.queries == queries + 1).all()

    def test_normalized_images(self, model: Counting) -> None:
        from slgh.attack.adapters.torchattacks import SLGH

        mean, std = 0.1307, 0.3081

        class Normalized(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.inner = model

            def forward(self, z: Tensor) -> Tensor:
                answer: Tensor = self.inner(z * std + mean)
                return answer

        x, y = easy_images()
        plain = SLGH(model, max_queries=500, **FAST)(x, y)
        adapter: Any = SLGH(Normalized(), max_queries=500, **FAST)
        adapter.set_normalization_used(mean=[mean], std=[std])
        found = adapter((x - mean) / std, y)
        torch.testing.assert_close(found * std + mean, plain, atol=1e-3, rtol=0)
        assert adapter.result.images.min() >= 0
        assert adapter.result.images.max() <= 1

    def test_a_module_in_training_mode_is_attacked_without_dropout_and_put_back(self, model: Counting) -> None:
        from slgh.attack.adapters.torchattacks import SLGH

        x, y = easy_images()
        model.train()
        found = SLGH(model, max_queries=500, **FAST)(x, y)
        assert model.training
        assert (model.eval()(found).argmax(dim=1) != y).all()

    def test_among_several_attacks(self, model: Counting) -> None:
        """`MultiAttack` passes to an attack the images that the previous ones did not fool."""
        torchattacks = pytest.importorskip("torchattacks")
        from slgh.attack.adapters.torchattacks import SLGH

        x, y = easy_images()
        own = SLGH(model, max_queries=500, **FAST)
        found = torchattacks.MultiAttack([torchattacks.VANILA(model), own])(x, y)
        assert (model(found).argmax(dim=1) != y).all()


@pytest.mark.parametrize(
    ("library", "needed", "remedy"),
    [
        ("foolbox", "eagerpy", r'pip install "slgh\[foolbox\]"'),
        ("art", "art.attacks.attack", r'pip install "slgh\[art\]"'),
        ("torchattacks", "torchattacks.attack", "pip install --no-deps torchattacks"),
    ],
)
def test_a_missing_library_is_named_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, library: str, needed: str, remedy: str
) -> None:
    name = f"slgh.attack.adapters.{library}"
    monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, needed, None)
    with pytest.raises(ImportError, match=rf"`{name}` needs .*{remedy}"):
        importlib.import_module(name)


def test_the_folder_of_the_adapters_loads_none_of_the_libraries() -> None:
    code = "import sys, slgh.attack.adapters; print({'foolbox', 'eagerpy', 'art', 'torchattacks'} & set(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.strip() == "set()"
