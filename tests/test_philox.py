"""The keyed noise of PyTorch devices: the generator itself, its normals, and the Triton kernel."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from slgh.backends.torch.noise import philox, philox_index, philox_normal

pytestmark = pytest.mark.slow


def key(B: int, device: str = "cpu") -> torch.Tensor:
    rng = np.random.default_rng(0)
    return torch.tensor(
        np.column_stack([rng.integers(2**32, size=(B, 2)), np.arange(B), np.zeros(B, int)]), device=device
    )


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ([0] * 4, (0, 0), "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ([0xFFFFFFFF] * 4, (0xFFFFFFFF, 0xFFFFFFFF), "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            (0xA4093822, 0x299F31D0),
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_the_words_are_those_of_the_generators_authors(counter: list[int], key: tuple[int, int], expected: str) -> None:
    found = philox([torch.tensor(c) for c in counter], (torch.tensor(key[0]), torch.tensor(key[1])))
    assert " ".join(f"{int(word):08x}" for word in found) == expected


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_normals_are_normal_and_independent(dtype: torch.dtype) -> None:
    drawn = philox_normal(key(4), torch.tensor(3), 1, 50_001, dtype)
    assert drawn.shape == (4, 50_001)
    assert drawn.dtype == dtype
    for row in drawn.numpy():
        assert stats.kstest(row, "norm").pvalue > 1e-4
    correlation = np.corrcoef([*drawn.numpy(), *drawn.numpy()[:, ::-1]]) - np.eye(8)
    assert np.abs(correlation).max() < 5 / 50_001**0.5
    for other in (
        philox_normal(key(4), torch.tensor(4), 1, 50_001, dtype),
        philox_normal(key(4), torch.tensor(3), 5, 50_001, dtype),
    ):
        assert abs(np.corrcoef(drawn.flatten(), other.flatten())[0, 1]) < 5 / drawn.numel() ** 0.5


def test_a_problems_numbers_do_not_depend_on_the_batch_or_on_how_many_are_drawn() -> None:
    together = philox_normal(key(5), torch.tensor(7), 0, 30, torch.float64)
    alone = philox_normal(key(5)[3:4], torch.tensor(7), 0, 11, torch.float64)
    torch.testing.assert_close(together[3:4, :11], alone, rtol=0, atol=0)


def test_indices_are_uniform() -> None:
    drawn = philox_index(key(2), torch.tensor(0), 2, 60_000, 7)
    counts = np.bincount(drawn.flatten().numpy(), minlength=7)
    assert counts.size == 7
    assert stats.chisquare(counts).pvalue > 1e-4


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n", [1, 100, 4097])
def test_the_kernel_draws_the_same_normals(n: int, dtype: torch.dtype) -> None:
    from slgh.backends.torch import triton_kernels

    k = torch.tensor(12345, device="cuda")
    found = triton_kernels.normal(key(3, "cuda"), k, 6, n, dtype)
    expected = philox_normal(key(3), k.cpu(), 6, n, dtype)
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-13, atol=2e-5 if dtype == torch.float32 else 1e-13)


@pytest.mark.cuda
@pytest.mark.parametrize("d", [256, 3000])
@pytest.mark.parametrize("centers", [0, 1, 3])
def test_the_kernels_place_points_and_sum_directions(d: int, centers: int) -> None:
    from slgh.backends.torch.arrays import TorchContext, xp
    from slgh.protocols import Context

    x, t, *directions = (torch.randn(*shape, dtype=torch.float64) for shape in ((2, d), (2,), (2, 3, d), (2, 4, d)))
    fast, plain = TorchContext(xp=xp), Context(xp=xp)
    found = fast.sample_points(x.cuda(), t.cuda(), [u.cuda() for u in directions], centers)
    torch.testing.assert_close(found.cpu(), plain.sample_points(x, t, directions, centers), rtol=1e-14, atol=1e-14)
    weights = torch.randn(2, 8, dtype=torch.float64)[:, ::2]
    found = fast.weighted_sum(weights.cuda(), directions[1].cuda())
    torch.testing.assert_close(found.cpu(), plain.weighted_sum(weights, directions[1]), rtol=1e-12, atol=1e-12)
