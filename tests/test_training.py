"""Training follows the published recipe, is reproducible, can be resumed, and reports failures."""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from slgh.paper.networks import training
from slgh.paper.networks.datasets import shipped_images
from slgh.paper.networks.networks import Network, network, save_weights
from slgh.paper.networks.training import Epoch, Training, accuracy, fresh, learning_rate, train

pytestmark = pytest.mark.slow

SHIPPED = shipped_images("mnist")


def short(**options: Any) -> Training:
    """Return a training of at most a second."""
    given: dict[str, Any] = {"name": "mnist", "images": SHIPPED.images, "labels": SHIPPED.labels}
    return train(**given | {"epochs": 2, "held_out": 20, "batch": 32, "device": "cpu"} | options)


@functools.cache
def two_epochs() -> Training:
    return short()


def assert_equal(one: Training, other: Training) -> None:
    assert one.log == other.log
    for name, tensor in one.network.state_dict().items():
        assert torch.equal(tensor, other.network.state_dict()[name]), name


# The recipe


def test_training_learns() -> None:
    """A hundred digits are memorized: six seeds ended below 0.32, with at least 98 correct. A guess costs log 10."""
    found = short(epochs=20, held_out=0, batch=10)
    losses = [line.loss for line in found.log]
    assert abs(losses[0] - math.log(10)) < 0.1
    assert losses[-1] < 1
    assert accuracy(found.network, SHIPPED.images, SHIPPED.labels) > 0.9


def test_color_images_are_trained_on_too() -> None:
    shipped = shipped_images("cifar10")
    found = short(name="cifar10", images=shipped.images, labels=shipped.labels, epochs=1, held_out=68)
    assert math.isfinite(found.log[0].loss)
    assert found.network(torch.from_numpy(shipped.pixels()[:2])).shape == (2, 10)


def test_the_learning_rate_falls_with_the_number_of_updates() -> None:
    assert [learning_rate(k) for k in (0, 1, 21_500)] == [0.01, 0.01 / 1.000001, 0.01 / 1.0215]


def test_updates_are_those_of_the_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three epochs of three batches, the last one smaller, compared with the equations of Nesterov's momentum."""
    updates: list[tuple[int, torch.Tensor, torch.Tensor]] = []
    update = training._Run._update

    def recorded(self: Any, k: int, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        updates.append((k, images, labels))
        return update(self, k, images, labels)

    def without_dropout(name: str, seed: int) -> Network:
        made = fresh(name, seed)
        made.dropout.p = 0.0
        return made

    monkeypatch.setattr(training, "DECAY", 0.1)  # makes an error in the count of updates visible
    monkeypatch.setattr(training._Run, "_update", recorded)
    monkeypatch.setattr(training, "fresh", without_dropout)
    found = short(epochs=3, held_out=30, batch=30, seed=5)

    assert [(k, len(labels)) for k, _, labels in updates] == list(enumerate([30, 30, 10] * 3))
    model = fresh("mnist", 5).eval()
    velocity = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    for k, images, labels in updates:
        model.zero_grad()
        logits = model(images.float() / 255 - 0.5)
        (logits.logsumexp(1) - logits[torch.arange(len(labels)), labels]).mean().backward()
        with torch.no_grad():
            for name, p in model.named_parameters():
                assert p.grad is not None
                velocity[name] = 0.9 * velocity[name] + p.grad
                p.data -= 0.01 / (1 + 0.1 * k) * (p.grad + 0.9 * velocity[name])
    # Float32 agrees to 1e-5 until rounding switches a unit on or off, a jump of the gradient that has cost 0.4 %.
    # A rate that is one update late, or momentum without Nesterov's correction, is at least 6 % off.
    start = fresh("mnist", 5).state_dict()
    for name, expected in model.state_dict().items():
        moved, error = expected - start[name], found.network.state_dict()[name] - expected
        assert error.norm() < 0.01 * moved.norm(), name


def test_an_epoch_sees_every_image_once_in_an_order_of_its_own_and_never_those_held_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Images are identified by their first pixel, with label and pixel in step."""
    numbered, classes = np.zeros((100, 1, 28, 28), np.uint8), np.arange(100) % 10
    numbered[:, 0, 0, 0] = np.arange(100)
    seen: list[int] = []
    update = training._Run._update

    def recorded(self: Any, k: int, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        ids = images[:, 0, 0, 0].long()
        assert torch.equal(labels, ids % 10)
        seen.extend(ids.tolist())
        return update(self, k, images, labels)

    monkeypatch.setattr(training._Run, "_update", recorded)
    short(images=numbered, labels=classes, held_out=15)
    first, second = seen[:85], seen[85:]
    assert sorted(first) == sorted(second) == list(range(15, 100))
    assert first != second


@pytest.mark.parametrize("name", ["mnist", "cifar10"])
def test_the_first_weights_are_glorots(name: str) -> None:
    for key, p in fresh(name, 3).named_parameters():
        if p.ndim == 1:
            assert not p.any(), key
            continue
        area = math.prod(p.shape[2:])
        bound = math.sqrt(6 / (p.shape[0] * area + p.shape[1] * area))
        assert p.abs().max() <= bound
        # The square of a uniform variable has mean a^2 / 3 and standard deviation a^2 sqrt(4 / 45).
        z = (p.square().mean() / bound**2 - 1 / 3) / math.sqrt(4 / 45 / p.numel())
        assert abs(z) < 5, key


def test_the_log_has_the_mean_loss_of_an_epoch_and_the_accuracy_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    losses: list[tuple[float, int]] = []
    update = training._Run._update

    def recorded(self: Any, k: int, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        loss = update(self, k, images, labels)
        losses.append((float(loss), len(labels)))
        return loss

    monkeypatch.setattr(training._Run, "_update", recorded)
    told: list[Epoch] = []
    found = short(progress=told.append)
    assert found.log == tuple(told)
    assert [line.epoch for line in told] == [1, 2]
    for k, line in enumerate(told):
        mean = sum(loss * n for loss, n in losses[3 * k : 3 * k + 3]) / 80
        assert line.loss == pytest.approx(mean, rel=1e-5)
    assert told[-1].held_out_accuracy == accuracy(found.network, SHIPPED.images[:20], SHIPPED.labels[:20])
    assert short(epochs=1, held_out=0).log[0].held_out_accuracy is None


def test_dropout_acts_in_updates_and_not_on_the_images_held_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the positive units are dropped when it is active."""
    shares: list[float] = []

    def observed(name: str, seed: int) -> Network:
        made = fresh(name, seed)
        made.dropout.register_forward_hook(
            lambda module, args, out: shares.append(float((out[args[0] > 0] == 0).float().mean()))
        )
        return made

    monkeypatch.setattr(training, "fresh", observed)
    short(epochs=2, batch=40)
    updates, held_out = [shares[k] for k in (0, 1, 3, 4)], [shares[k] for k in (2, 5)]
    assert len(shares) == 6
    assert all(0.45 < share < 0.55 for share in updates)
    assert held_out == [0, 0]


def test_accuracy_is_the_share_of_right_answers_without_dropout() -> None:
    trained, wrong = network("mnist").train(), SHIPPED.labels.copy()
    wrong[:25] = (wrong[:25] + 1) % 10
    assert accuracy(trained, SHIPPED.images, wrong) == 0.75
    assert trained.training


# Results and reproducibility


def test_the_trained_network_is_ready_to_be_asked_and_to_be_saved(tmp_path: Path) -> None:
    found = two_epochs()
    assert not found.network.training
    for name, tensor in found.network.named_parameters():
        assert not tensor.requires_grad, name
        assert tensor.is_contiguous(), name
        assert tensor.dtype == torch.float32, name
    save_weights(found.network, tmp_path / "weights", dtype="float32")
    assert_equal(found, Training(network=network("mnist", weights=tmp_path / "weights"), log=found.log))


def test_the_same_seed_gives_the_same_weights_and_another_seed_others() -> None:
    assert_equal(short(), two_epochs())
    assert short(seed=1).log != two_epochs().log


def test_training_leaves_the_random_numbers_of_others_alone_and_does_not_depend_on_them() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(123)
        before = torch.random.get_rng_state()
        found = short()
        assert torch.equal(torch.random.get_rng_state(), before)
    assert_equal(found, two_epochs())


def test_training_does_not_change_what_it_is_given() -> None:
    images, labels = SHIPPED.images.copy(), SHIPPED.labels.astype(np.uint8)
    images.flags.writeable = labels.flags.writeable = False
    assert_equal(short(images=images, labels=labels), two_epochs())


class Stopped(Exception):
    """Raised during a training."""


def test_a_training_that_was_broken_off_is_continued_bit_for_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "training.npz"
    update = training._Run._update

    def stopping(self: Any, k: int, *batch: torch.Tensor) -> torch.Tensor:
        if k == 4:
            raise Stopped
        return update(self, k, *batch)

    with monkeypatch.context() as patched:
        patched.setattr(training._Run, "_update", stopping)
        with pytest.raises(Stopped):
            short(checkpoint=file)
    told: list[Epoch] = []
    assert_equal(short(checkpoint=file, progress=told.append), two_epochs())
    assert [line.epoch for line in told] == [2]
    assert list(tmp_path.iterdir()) == [file]


def test_a_finished_training_is_read_from_its_checkpoint_and_can_be_extended(tmp_path: Path) -> None:
    file = tmp_path / "training.npz"
    short(epochs=1, checkpoint=file)
    assert_equal(short(checkpoint=file), two_epochs())
    told: list[Epoch] = []
    assert_equal(short(checkpoint=file, progress=told.append), two_epochs())
    assert not told
    with pytest.raises(ValueError, match=r"`epochs` must be at least those in .*training.npz', 2; got epochs=1"):
        short(epochs=1, checkpoint=file)


def test_a_checkpoint_of_another_training_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "training.npz"
    short(epochs=1, checkpoint=file)
    labels = SHIPPED.labels.copy()
    labels[50] = (labels[50] + 1) % 10
    for other, what in ({"seed": 1}, "seed"), ({"batch": 16}, "batch"), ({"labels": labels}, "images"):
        with pytest.raises(ValueError, match=f"belongs to another run: its {what} is"):
            short(checkpoint=file, **other)
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(ValueError, match="is not a complete checkpoint"):
        short(checkpoint=file)


# Bad input


def test_a_loss_that_is_not_finite_is_an_error_that_names_the_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "training.npz"
    short(epochs=1, checkpoint=file)
    monkeypatch.setattr(training, "RATE", 1e20)
    with pytest.raises(FloatingPointError, match="`train` lost its way: the loss of epoch 2 is nan"):
        short(checkpoint=file)
    monkeypatch.undo()
    assert_equal(short(checkpoint=file), two_epochs())


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"name": "svhn"}, ValueError, "`name` must be one of 'mnist', 'cifar10'"),
        ({"epochs": 0}, ValueError, "`epochs` must be an integer >= 1"),
        ({"batch": 0}, ValueError, "`batch` must be an integer >= 1"),
        ({"seed": -1}, ValueError, "`seed` must be an integer >= 0"),
        ({"held_out": -1}, ValueError, "`held_out` must be an integer >= 0"),
        ({"held_out": 100}, ValueError, "`held_out` must be less than the number of images, 100"),
        ({"images": SHIPPED.pixels()}, TypeError, "`images` must be a NumPy array of uint8"),
        ({"images": SHIPPED.images[:, 0]}, ValueError, r"`images` of MNIST must have shape \(N, 1, 28, 28\)"),
        ({"name": "cifar10"}, ValueError, r"`images` of CIFAR-10 must have shape \(N, 3, 32, 32\)"),
        ({"labels": SHIPPED.labels[:99]}, ValueError, "`labels` must be one per image"),
        ({"labels": SHIPPED.labels + 1}, ValueError, "`labels` must lie in 0 to 9, got 10"),
        ({"device": "tpu please"}, ValueError, "`device` must be 'cpu', 'cuda', 'cuda:1'"),
        ({"device": "meta"}, ValueError, "`device` must be 'cpu', 'cuda', 'cuda:1'"),
        ({"device": "cuda:99"}, ValueError, "`device` must be there, got 'cuda:99' with"),
    ],
)
def test_bad_arguments_are_refused(options: dict[str, Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        short(**options)


def test_accuracy_of_no_images_is_refused() -> None:
    with pytest.raises(ValueError, match="`images` must be one at least"):
        accuracy(two_epochs().network, SHIPPED.images[:0], SHIPPED.labels[:0])


# On a GPU


@pytest.mark.cuda
def test_cuda_learns_as_well_and_leaves_its_random_numbers_alone() -> None:
    before = torch.cuda.get_rng_state()
    found = short(epochs=20, held_out=0, batch=10, device="cuda")
    assert torch.equal(torch.cuda.get_rng_state(), before)
    assert {p.device.type for p in found.network.parameters()} == {"cpu"}
    assert accuracy(found.network, SHIPPED.images, SHIPPED.labels) > 0.9
