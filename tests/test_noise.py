"""Noise is the same whether it is read in parts, batched, drawn ahead or interrupted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from slgh.backends.numpy.noise import NumpyNoise, entropies, generator, pick_index

D = 3


def make(B: int = 2, *, seed: int = 0, samples: int = 1, dtype: type = np.float64, **options: Any) -> NumpyNoise:
    return NumpyNoise(entropies(seed, B), D, dtype, samples=samples, **options)


@given(
    reads=st.lists(st.integers(1, 600), min_size=1, max_size=12),
    marks=st.lists(st.booleans(), min_size=12, max_size=12),
)
def test_how_it_is_read_does_not_matter(reads: list[int], marks: list[bool]) -> None:
    noise, parts = make(), []
    for m, mark in zip(reads, marks, strict=False):
        if mark:
            noise.mark(0)
        parts.append(noise.normal(m).copy())
    np.testing.assert_array_equal(np.concatenate(parts, axis=1), make().normal(sum(reads)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("large", [False, True])
@given(before=st.integers(1, 500), broken=st.lists(st.integers(1, 700), max_size=4), after=st.integers(1, 500))
def test_a_broken_off_iteration_gets_the_same_noise_again(
    dtype: type, large: bool, before: int, broken: list[int], after: int
) -> None:
    samples = 1 << 17 if large else 1
    noise, straight = make(dtype=dtype, samples=samples), make(dtype=dtype, samples=samples)
    np.testing.assert_array_equal(noise.normal(before), straight.normal(before))
    noise.mark(0)
    for m in broken:
        noise.normal(m)
    noise.rewind()
    resumed = make(dtype=dtype, samples=samples)
    everyone = np.arange(len(resumed.keys))
    resumed.load({name: array.copy() for name, array in noise.save().items()}, everyone, np.zeros_like(everyone))
    expected = straight.normal(after)
    np.testing.assert_array_equal(noise.normal(after), expected)
    np.testing.assert_array_equal(resumed.normal(after), expected)


def test_a_problem_has_the_same_noise_in_any_batch() -> None:
    alone = [NumpyNoise([key], D, np.float64).normal(50) for key in entropies(7, 5)]
    np.testing.assert_array_equal(make(5, seed=7).normal(50), np.concatenate(alone))
    shrinking = make(5, seed=7)
    first = shrinking.normal(20).copy()
    shrinking.keep(np.array([1, 4]))
    rest = shrinking.normal(30)
    np.testing.assert_array_equal(np.concatenate([first[[1, 4]], rest], axis=1), np.concatenate(alone)[[1, 4]])


def test_streams_problems_and_seeds_are_independent() -> None:
    noise = make(2)
    a, b = noise.normal(4000).copy(), noise.normal(4000, stream=1)
    other = make(1, seed=1).normal(4000)
    for x, y in ((a[0], a[1]), (a[0], b[0]), (a[0], other[0])):
        assert abs(np.corrcoef(x.ravel(), y.ravel())[0, 1]) < 5 / 12000**0.5


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_it_is_standard_normal(dtype: type) -> None:
    sample = make(1, dtype=dtype).normal(20_000).ravel()
    assert sample.dtype == dtype
    assert stats.kstest(sample, "norm").pvalue > 1e-4


def test_xi_is_rewound_with_the_rest() -> None:
    noise = make(sample_xi=10)
    first = noise.xi(4)
    noise.mark(0)
    broken = noise.xi(5)
    noise.rewind()
    np.testing.assert_array_equal(noise.xi(5), broken)
    fresh = make(sample_xi=10)
    np.testing.assert_array_equal(fresh.xi(4), first)
    assert first.min() >= 0
    assert first.max() < 10


def test_the_last_xi_are_their_own() -> None:
    noise = make(3, sample_xi=lambda rng, n: rng.random(n))
    before = noise.last_xi(4, np.array([2]))
    noise.xi(9)
    noise.keep(np.array([2]))
    np.testing.assert_array_equal(noise.last_xi(4, np.array([2])), before)


@given(n=st.integers(1, 10**12), seed=st.integers(0, 2**64))
def test_a_picked_index_is_in_range(n: int, seed: int) -> None:
    assert 0 <= pick_index((seed, 0), n) < n


def test_generators_are_keyed_by_purpose() -> None:
    assert generator((0, 0), 0).random() != generator((0, 0), 1).random()
    assert generator((0, 1), 0).random() != generator((1, 0), 0).random()
