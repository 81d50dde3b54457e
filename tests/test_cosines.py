"""The cosine basis: orthonormal, from coarse to fine, and the same on every library."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from array_api_compat import array_namespace
from scipy.fft import idctn

from libraries import parametrize_libraries, to_library, to_numpy
from slgh.oracles.cosines import CosineBasis, cosine_matrix

SHAPES = [(7,), (1, 28, 28), (3, 32, 32)]

each_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)
RNG = np.random.default_rng(0)


def size(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape))


def chosen(shape: tuple[int, ...], m: int = 6) -> Any:
    """Return the numbers of some basis vectors (2, m), the first and the last among them."""
    d = size(shape)
    index = np.random.default_rng(1).integers(d, size=(2, m))
    index[0, 0], index[1, -1] = 0, d - 1
    return index


@pytest.mark.parametrize("n", [1, 2, 7, 28, 224])
def test_the_matrix_is_orthogonal(n: int) -> None:
    C = cosine_matrix(n, np.zeros(1), np)
    np.testing.assert_allclose(C @ C.T, np.eye(n), atol=1e-13)


@pytest.mark.parametrize("shape", [*SHAPES[:2], pytest.param(SHAPES[2], marks=pytest.mark.slow)], ids=str)
def test_the_basis_is_orthonormal(shape: tuple[int, ...]) -> None:
    d = size(shape)
    every = CosineBasis(shape).vectors(np.arange(d)[None], np.zeros(1), np)[0]
    assert every.shape == (d, d)
    np.testing.assert_allclose(every @ every.T, np.eye(d), atol=1e-12)


@each_shape
def test_a_synthesis_is_the_sum_of_the_vectors(shape: tuple[int, ...]) -> None:
    index, basis = chosen(shape), CosineBasis(shape)
    weights = RNG.normal(size=index.shape)
    coefficients = np.zeros((2, size(shape)))
    for b in range(2):
        np.add.at(coefficients[b], index[b], weights[b])
    expected = (weights[..., None] * basis.vectors(index, np.zeros(1), np)).sum(axis=1)
    np.testing.assert_allclose(basis.synthesize(coefficients, np), expected, atol=1e-13)


@each_shape
def test_a_synthesis_is_the_inverse_transform_of_scipy(shape: tuple[int, ...]) -> None:
    coefficients = RNG.normal(size=(2, 3, size(shape)))
    expected = idctn(coefficients.reshape(2, 3, *shape), axes=range(2, 2 + len(shape)), norm="ortho")
    np.testing.assert_allclose(CosineBasis(shape).synthesize(coefficients, np), expected.reshape(2, 3, -1), atol=1e-12)


@each_shape
def test_frequencies_rise_along_each_axis_from_0_at_the_constant(shape: tuple[int, ...]) -> None:
    basis = CosineBasis(shape)
    frequencies = basis.frequencies(np.zeros(1), np).reshape(shape)
    assert frequencies.ravel()[0] == 0
    assert np.isfinite(frequencies).all()
    assert (frequencies < np.sqrt(len(shape))).all()
    for axis in range(len(shape)):
        assert (np.diff(frequencies, axis=axis) > 0).all()
    constant = basis.vectors(np.zeros((1, 1), int), np.zeros(1), np)
    np.testing.assert_allclose(constant, size(shape) ** -0.5, rtol=1e-13)


def test_a_higher_frequency_has_more_changes_of_sign() -> None:
    basis, d = CosineBasis((16,)), 16
    vectors = basis.vectors(np.arange(d)[None], np.zeros(1), np)[0]
    order = np.argsort(basis.frequencies(np.zeros(1), np))
    changes = (np.diff(np.sign(vectors[order]), axis=1) != 0).sum(axis=1)
    assert changes.tolist() == list(range(d))


def test_changes_of_color_are_coarse() -> None:
    frequencies = CosineBasis((3, 32, 32)).frequencies(np.zeros(1), np).reshape(3, 32, 32)
    assert (frequencies[:, 0, 0] < 0.2).all()
    assert frequencies[0, 31, 0] > 0.9


@each_shape
def test_float32_is_accurate(shape: tuple[int, ...]) -> None:
    basis, index = CosineBasis(shape), chosen(shape)
    like, coefficients = np.zeros(1, np.float32), RNG.normal(size=(2, size(shape)))
    single, double = (basis.vectors(index, one, np) for one in (like, np.zeros(1)))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, double, atol=5e-7 * np.abs(double).max())
    synthesis = basis.synthesize(coefficients.astype(np.float32), np)
    assert synthesis.dtype == np.float32
    np.testing.assert_allclose(synthesis, basis.synthesize(coefficients, np), atol=1e-5)
    assert basis.frequencies(like, np).dtype == np.float32


@parametrize_libraries("torch", "jax", "cuda")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@each_shape
def test_all_libraries_agree(library: str, dtype: Any, shape: tuple[int, ...]) -> None:
    basis, index = CosineBasis(shape), chosen(shape)
    coefficients = RNG.normal(size=(2, size(shape))).astype(dtype)
    like = to_library(coefficients, library)
    xp = array_namespace(like)
    tolerance = 1e-12 if dtype == np.float64 else 1e-5
    for found, expected in (
        (basis.vectors(to_library(index, library), like, xp), basis.vectors(index, coefficients, np)),
        (basis.synthesize(like, xp), basis.synthesize(coefficients, np)),
        (basis.frequencies(like, xp), basis.frequencies(coefficients, np)),
    ):
        assert to_numpy(found).dtype == dtype
        np.testing.assert_allclose(to_numpy(found), expected, atol=tolerance)
