"""The paper's networks: their layers, the weights that come with the package, and weights from files."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from slgh.paper.networks import networks
from slgh.paper.networks.datasets import shipped_images
from slgh.paper.networks.networks import NETWORKS, Network, network, predict, save_weights, scale

pytestmark = pytest.mark.slow

F = torch.nn.functional

every_network = pytest.mark.parametrize("name", list(NETWORKS))


def small(name: str) -> torch.Tensor:
    return torch.from_numpy(shipped_images(name).pixels()[:5])


def keras_layout(state: dict[str, torch.Tensor], name: str) -> dict[str, np.ndarray]:
    """Return the weights as Keras would save them, index by index where the order of axes matters."""
    spec = NETWORKS[name]
    saved: dict[str, np.ndarray] = {}
    for key, tensor in state.items():
        layer, kind = key.split(".")
        array = tensor.numpy()
        if kind == "weight" and array.ndim == 4:
            array = np.einsum("oihw->hwio", array)
        elif layer == "dense1" and kind == "weight":
            array = np.einsum("ochw->hwco", array.reshape(spec.h, spec.c2, spec.last_side, spec.last_side))
            array = array.reshape(-1, spec.h)
        elif kind == "weight":
            array = array.T
        saved[f"{layer}_{'kernel' if kind == 'weight' else 'bias'}"] = array
    return saved


@every_network
def test_the_layers_are_those_of_the_paper(name: str) -> None:
    """Compare the forward pass with one written out with functions."""
    made, x = network(name), small(name)
    w = made.state_dict()

    def conv(x: torch.Tensor, k: int) -> torch.Tensor:
        return F.relu(F.conv2d(x, w[f"conv{k}.weight"], w[f"conv{k}.bias"]))

    def dense(x: torch.Tensor, k: int) -> torch.Tensor:
        return torch.as_tensor(x @ w[f"dense{k}.weight"].T + w[f"dense{k}.bias"])

    a = F.max_pool2d(conv(conv(x, 1), 2), 2)
    a = F.max_pool2d(conv(conv(a, 3), 4), 2)
    a = dense(F.relu(dense(F.relu(dense(a.reshape(len(a), -1), 1)), 2)), 3)
    torch.testing.assert_close(made(x), a, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("name", "parameters"), [("mnist", 312_202), ("cifar10", 1_147_978)])
def test_the_networks_have_as_many_weights_as_the_papers(name: str, parameters: int) -> None:
    assert sum(p.numel() for p in network(name).parameters()) == parameters


@every_network
def test_a_network_comes_ready_to_be_asked(name: str) -> None:
    made = network(name)
    assert not made.training
    assert {p.dtype for p in made.parameters()} == {torch.float32}
    assert not any(p.requires_grad for p in made.parameters())
    assert made(small(name)).shape == (5, 10)


@every_network
def test_every_shipped_image_is_classified_correctly(name: str) -> None:
    shipped = shipped_images(name)
    assert (predict(network(name), shipped.images) == shipped.labels).all()


@every_network
def test_the_shipped_weights_are_sure_of_their_images(name: str) -> None:
    """With weights in the wrong layout, or pixels in the wrong scale, they would not be."""
    sure = F.softmax(network(name)(torch.from_numpy(shipped_images(name).pixels())), dim=1).max(dim=1).values
    assert sure.median() > 0.95


def test_making_a_network_draws_no_random_numbers() -> None:
    before = torch.random.get_rng_state()
    network("mnist")
    assert torch.equal(torch.random.get_rng_state(), before)


def test_dropout_acts_in_training_mode_only() -> None:
    made, x = network("mnist"), small("mnist")
    assert torch.equal(made(x), made(x))
    made.train()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        assert not torch.equal(made(x), made(x))


def test_dropout_zeroes_half_of_the_first_dense_layer_and_doubles_the_rest() -> None:
    seen = []
    made = network("mnist").train()
    made.dropout.register_forward_hook(lambda _module, args, out: seen.append((args[0], out)))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made(torch.from_numpy(shipped_images("mnist").pixels()))
    before, after = seen[0]
    assert before.shape == (100, 200)
    active = before > 0
    kept = (after > 0)[active]
    assert abs(kept.float().mean() - 0.5) < 5 * 0.5 / len(kept) ** 0.5
    assert torch.equal(after[active][kept], 2 * before[active][kept])


@every_network
def test_scaling_in_torch_and_in_numpy_agree_to_the_bit(name: str) -> None:
    shipped = shipped_images(name)
    assert np.array_equal(scale(torch.from_numpy(shipped.images)).numpy(), shipped.pixels())


def test_predict_asks_without_dropout_and_leaves_the_mode_as_it_was() -> None:
    made, shipped = network("mnist").train(), shipped_images("mnist")
    dropped = []
    made.dropout.register_forward_hook(lambda module, args, out: dropped.append(module.training))
    assert (predict(made, shipped.images, batch=7) == shipped.labels).all()
    assert dropped == [False] * 15
    assert made.training
    assert predict(made, shipped.images[:0]).shape == (0,)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_saved_weights_are_read_again(dtype: str, tmp_path: Path) -> None:
    made, file = network("mnist"), tmp_path / "weights.safetensors"
    save_weights(made, file, dtype=dtype)
    assert {t.dtype for t in load_file(file).values()} == {getattr(torch, dtype)}
    again = network("mnist", weights=file)
    for name, tensor in made.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor), name
    assert list(tmp_path.iterdir()) == [file]


def test_weights_that_float16_cannot_hold_are_not_saved(tmp_path: Path) -> None:
    made = network("mnist")
    assert made.conv3.bias is not None
    made.conv3.bias[0] = 1e6
    with pytest.raises(ValueError, match="`network` has weights that float16 cannot hold as finite numbers, in conv3"):
        save_weights(made, tmp_path / "weights.safetensors")
    assert not list(tmp_path.iterdir())
    save_weights(made, tmp_path / "weights.safetensors", dtype="float32")


@every_network
def test_weights_in_the_layout_of_keras_give_the_same_network(name: str, tmp_path: Path) -> None:
    made, file = network(name), tmp_path / "keras.npz"
    np.savez(file, allow_pickle=False, **keras_layout(made.state_dict(), name))
    again = network(name, weights=file)
    for key, tensor in made.state_dict().items():
        assert torch.equal(again.state_dict()[key], tensor), key


def test_the_first_dense_layer_of_keras_reads_the_channels_last(tmp_path: Path) -> None:
    """Its weights act on h.permute(0, 2, 3, 1).flatten(1)."""
    arrays: dict[str, Any] = keras_layout(network("mnist").state_dict(), "mnist")
    arrays["dense1_kernel"] = np.random.default_rng(0).normal(size=(1024, 200)).astype(np.float32)
    np.savez(tmp_path / "keras.npz", **arrays)
    made = network("mnist", weights=tmp_path / "keras.npz")
    h = torch.randn(3, 64, 4, 4, generator=torch.Generator().manual_seed(0))
    expected = h.permute(0, 2, 3, 1).flatten(1) @ torch.from_numpy(arrays["dense1_kernel"]) + made.dense1.bias
    torch.testing.assert_close(made.dense1(h.flatten(1)), expected, rtol=1e-4, atol=1e-4)


# Bad input


def test_an_unknown_name_lists_the_choices() -> None:
    with pytest.raises(ValueError, match=r"`name` must be one of 'mnist', 'cifar10'; got name='minst'. Did you mean"):
        network("minst")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"`weights` must be a file, got '.*none.safetensors'"):
        network("mnist", weights=tmp_path / "none.safetensors")
    with pytest.raises(FileNotFoundError, match="`weights` must be a file"):
        network("mnist", weights=tmp_path)


def refused(tmp_path: Path, state: dict[str, Any], match: str, *, keras: bool = False) -> None:
    file = tmp_path / "weights"
    if keras:
        with open(file, "wb") as handle:
            np.savez(handle, **state)
    else:
        save_file({name: tensor.contiguous() for name, tensor in state.items()}, file)
    with pytest.raises(ValueError, match=match):
        network("mnist", weights=file)


@pytest.mark.parametrize("keras", [False, True])
def test_weights_of_another_network_are_refused_and_recognized(keras: bool, tmp_path: Path) -> None:
    state: dict[str, Any] = network("cifar10").state_dict()
    first, shapes = "conv1.weight", r"\(32, 1, 3, 3\) for 'mnist', got \(64, 3, 3, 3\)"
    if keras:
        state = keras_layout(state, "cifar10")
        first, shapes = "conv1_kernel", r"\(3, 3, 1, 32\) for 'mnist', got \(3, 3, 3, 64\)"
    refused(tmp_path, state, rf"{first} must have shape {shapes}\. It holds the network 'cifar10'", keras=keras)


def test_names_that_lack_or_are_unknown_are_listed(tmp_path: Path) -> None:
    state = network("mnist").state_dict()
    del state["dense2.bias"], state["conv4.weight"]
    refused(tmp_path, state, r"lacks conv4.weight, dense2.bias; it must hold conv1.bias, conv1.weight, ")
    refused(tmp_path, network("mnist").state_dict() | {"more": torch.ones(1)}, "has unknown more; it must hold")
    refused(tmp_path, {"x": np.ones(3)}, r"lacks conv1_bias, conv1_kernel, ", keras=True)


def test_wrong_values_are_refused(tmp_path: Path) -> None:
    good = network("mnist").state_dict()
    refused(tmp_path, good | {"dense3.bias": torch.zeros(11)}, r"dense3.bias must have shape \(10,\) .* got \(11,\)\.$")
    refused(tmp_path, good | {"dense3.bias": torch.zeros(10, dtype=torch.int64)}, "dense3.bias must be floats")
    refused(tmp_path, good | {"dense3.bias": torch.full((10,), torch.nan)}, "dense3.bias must be finite")
    pickled = keras_layout(good, "mnist") | {"dense3_bias": np.array([None] * 10)}
    refused(tmp_path, pickled, "is not a complete .npz of numbers", keras=True)


@pytest.mark.parametrize("content", [b"", b"hello", b"\x00" * 100, b"PK\x03\x04 and no more"])
def test_a_file_that_is_neither_is_refused(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "weights.safetensors"
    file.write_bytes(content)
    with pytest.raises(ValueError, match=r"`weights` .*(is neither|is not a complete .npz)"):
        network("mnist", weights=file)


@pytest.mark.parametrize("keras", [False, True])
def test_a_file_that_is_cut_short_is_refused(keras: bool, tmp_path: Path) -> None:
    file = tmp_path / "weights"
    if keras:
        np.savez(tmp_path / "whole.npz", allow_pickle=False, **keras_layout(network("mnist").state_dict(), "mnist"))
        content = (tmp_path / "whole.npz").read_bytes()
    else:
        save_weights(network("mnist"), file)
        content = file.read_bytes()
    file.write_bytes(content[:-1000])
    with pytest.raises(ValueError, match=r"`weights` .*complete"):
        network("mnist", weights=file)


# Imports


def test_importing_the_package_does_not_load_torch() -> None:
    modules = "sys, slgh, slgh.attack, slgh.paper.networks.datasets"
    code = f"import {modules}; print('torch' in sys.modules, 'pooch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.split() == ["False", "False"]


def test_without_torch_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "slgh.paper.networks.networks")
    with pytest.raises(ImportError, match=r'needs PyTorch. Install: pip install "slgh\[attack\]"'):
        importlib.import_module("slgh.paper.networks.networks")


def test_without_safetensors_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = network("mnist")
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    for use in (lambda: network("mnist"), lambda: save_weights(made, tmp_path / "weights")):
        with pytest.raises(ImportError, match=r'need safetensors: pip install "slgh\[attack\]"'):
            use()
    assert not list(tmp_path.iterdir())


def test_a_spec_says_what_a_network_reads() -> None:
    spec = NETWORKS["cifar10"]
    assert (spec.dataset.title, spec.dataset.channels, spec.dataset.side, spec.c1, spec.c2, spec.h) == (
        "CIFAR-10",
        3,
        32,
        64,
        128,
        256,
    )
    assert spec.dataset.classes[3] == "cat"
    assert Network(spec).spec is networks.NETWORKS["cifar10"]
