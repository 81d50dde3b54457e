"""On CUDA, the kernels of the attack agree with the plain code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from slgh.attack import attack, loss
from slgh.attack.loss import AttackObjective
from slgh.attack.model import QueriedModel
from slgh.paper.attack.settings import PAPER
from slgh.paper.networks.datasets import shipped_images
from slgh.paper.networks.networks import NETWORKS, network

pytestmark = pytest.mark.cuda
both_networks = pytest.mark.parametrize("name", list(NETWORKS))


@pytest.fixture(autouse=True)
def full_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


def pictures(name: str, n: int) -> Any:
    shape = NETWORKS[name].dataset.shape
    return torch.rand(n, *shape, generator=torch.Generator().manual_seed(0)).cuda() - 0.5


@both_networks
@pytest.mark.parametrize("n", [1, 7, 300])
def test_the_network_is_float32_and_no_coarser(name: str, n: int) -> None:
    net, x = network(name).cuda(), pictures(name, n)
    with torch.no_grad():
        found = net(x)
    assert net._fused is not None
    with torch.enable_grad():  # the plain layers
        plain, exact = net(x), network(name).cuda().double()(x.double())
    largest = exact.abs().max()
    assert (found - exact).abs().max() < 1e-5 * largest
    assert (found - exact).abs().max() < 20 * (plain - exact).abs().max() + 1e-7 * largest


@both_networks
def test_new_weights_are_seen(name: str) -> None:
    net, x = network(name).cuda(), pictures(name, 5)
    with torch.no_grad():
        before = net(x)
        net.conv3.weight *= 1.1
        after = net(x)
    with torch.enable_grad():
        assert torch.allclose(after, net(x), rtol=1e-3, atol=1e-3)
    assert not torch.allclose(before, after, rtol=1e-2, atol=1e-2)


@both_networks
@pytest.mark.parametrize("targeted", [False, True])
@pytest.mark.parametrize("outputs", ["logits", "probabilities"])
def test_the_objective_is_the_same(name: str, targeted: bool, outputs: str, monkeypatch: pytest.MonkeyPatch) -> None:
    net = network(name).cuda()
    spec, d = NETWORKS[name], pictures(name, 1).numel()

    def model(images: Any) -> Any:
        return net(images) if outputs == "logits" else net(images).softmax(1)

    asked = QueriedModel(
        model=model,
        shape=spec.dataset.shape,
        low=-0.5,
        high=0.5,
        outputs=outputs,
        model_batch_size=None,
    )
    f = AttackObjective(asked, 10.0, 1e-10, targeted)
    a = pictures(name, 3).reshape(3, 1, d)
    a[0, 0, :5] = torch.tensor([-0.5, 0.5, 0.0, 0.49999, -0.49999])
    x = torch.randn(3, 11, d, generator=torch.Generator().manual_seed(1)).cuda() * 0.3
    label = torch.tensor([[3], [0], [9]], device="cuda")
    with torch.no_grad():
        quick = f(x, a, label)
        monkeypatch.setattr("slgh.attack.loss.kernels_for", lambda x: None)
        plain = f(x, a, label)
    for one, other in zip(quick, plain, strict=True):
        assert torch.allclose(one, other, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("outputs", ["logits", "probabilities"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_scores_that_are_no_numbers_stay_so(outputs: str, bad: float) -> None:
    def model(images: Any) -> Any:
        scores = torch.full((len(images), 4), 0.25, device="cuda")
        scores[::3, 2] = bad
        return scores

    f = AttackObjective(
        QueriedModel(model=model, shape=(5,), low=0.0, high=1.0, outputs=outputs, model_batch_size=None),
        10.0,
        0.0,
        False,
    )
    with torch.no_grad():
        seen = f(
            torch.zeros(2, 6, 5, device="cuda"),
            torch.zeros(2, 1, 5, device="cuda"),
            torch.zeros(2, 1, device="cuda").long(),
        )
    assert (~torch.isfinite(seen.total.flatten()[::3])).all()
    assert torch.isfinite(seen.total.flatten()[1::3]).all()


def test_channels_in_the_wrong_place_are_an_error() -> None:
    with torch.no_grad(), pytest.raises(RuntimeError):
        network("cifar10").cuda()(pictures("cifar10", 2).permute(0, 2, 3, 1).contiguous())


def test_an_attack_runs_as_one_graph() -> None:
    images, net = shipped_images("mnist"), network("mnist").cuda()
    options = PAPER["mnist"].parameters("zoadamm") | {"max_iter": 60, "pixels": (-0.5, 0.5), "seed": 0, "stop": "end"}
    found = attack(net, images.pixels()[:20], images.labels[:20], method="zoadamm", **options)
    assert found.run is not None
    assert found.run.engine == "torch cuda graph"
    assert found.success.any()
    fewer = attack(net, images.pixels()[:3], images.labels[:3], method="zoadamm", **options)
    assert np.allclose(fewer.last_total, found.last_total[:3], rtol=0.05)


def test_without_triton_the_plain_code_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss, "_has_triton", lambda: False)
    net = network("mnist").cuda()
    with torch.no_grad():
        net(pictures("mnist", 2))
    assert net._fused is None
