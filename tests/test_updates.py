"""Updates of x: each compared with its equation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slgh.protocols import Estimate
from slgh.updates import UPDATES, Adam, AdaMM, Descent, Harmonic, Momentum, Normalized, ScaleFree, SpsaGain

G = [np.array([1.0, -2.0]), np.array([0.5, 0.5]), np.array([-1.0, 3.0])]
X0 = np.array([0.1, 0.2])


def follow(update: Any, ts: tuple[float, ...] = (1.0, 1.0, 1.0), cosine: float = 1.0) -> list[np.ndarray]:
    """Return x_2, x_3, x_4 under the gradients G."""
    x, xs = X0[None], []
    state = update.init(x, np)
    for g, t in zip(G, ts, strict=True):
        x, state = update.apply(x, Estimate(g=g[None], cosine=cosine), np.array([t]), state, np)
        xs.append(x[0])
    return xs


def test_descent() -> None:
    np.testing.assert_allclose(follow(Descent(step=0.1))[-1], X0 - 0.1 * sum(G))


def test_harmonic_starts_anew_when_t_changes() -> None:
    xs = follow(Harmonic(step=0.6), ts=(1.0, 1.0, 0.5))
    np.testing.assert_allclose(xs[-1], X0 - 0.6 * (G[0] + G[1] / 2 + G[2]))


def test_gain_falls_as_a_power_of_the_number() -> None:
    steps = 0.6 / (np.array([1.0, 2.0, 3.0]) + 5.0) ** 0.602
    x = X0 - sum(step * g for step, g in zip(steps, G, strict=True))
    np.testing.assert_allclose(follow(SpsaGain(step=0.6, offset=5.0))[-1], x, rtol=1e-14)
    np.testing.assert_allclose(follow(SpsaGain(step=0.6, iterations=50))[-1], x, rtol=1e-14)
    plain = X0 - 0.6 * (G[0] + G[1] / 2 + G[2] / 3)
    np.testing.assert_allclose(follow(SpsaGain(step=0.6, offset=0, step_power=1.0))[-1], plain, rtol=1e-14)


def test_normalized_moves_by_its_step_which_can_be_halved() -> None:
    for halving, lengths in ((None, [0.3, 0.3, 0.3]), (2.0, [0.3, 0.2, 0.15])):
        steps = np.diff([X0, *follow(Normalized(step=0.3, halving=halving))], axis=0)
        np.testing.assert_allclose(np.linalg.norm(steps, axis=1), lengths, rtol=1e-13)
        np.testing.assert_allclose(steps[1], -lengths[1] * G[1] / np.linalg.norm(G[1]), rtol=1e-13)


@given(scale=st.floats(1e-300, 1e300))
def test_normalized_ignores_the_size_of_the_gradient(scale: float) -> None:
    plain, _ = Normalized(step=1.0).apply(X0[None], Estimate(g=G[0][None], cosine=1.0), np.ones(1), (), np)
    scaled, _ = Normalized(step=1.0).apply(X0[None], Estimate(g=scale * G[0][None], cosine=1.0), np.ones(1), (), np)
    np.testing.assert_allclose(scaled, plain, rtol=1e-12)


def test_momentum() -> None:
    v, x = np.zeros(2), X0
    for g in G:
        v = 0.9 * v - 0.1 * g
        x = x + v
    np.testing.assert_allclose(follow(Momentum(step=0.1))[-1], x)


def test_adam() -> None:
    m, v, x = np.zeros(2), np.zeros(2), X0
    for k, g in enumerate(G, 1):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        x = x - 0.1 * (m / (1 - 0.9**k)) / (np.sqrt(v / (1 - 0.999**k)) + 1e-8)
    np.testing.assert_allclose(follow(Adam(step=0.1))[-1], x)


def test_adamm_keeps_the_largest_second_moment() -> None:
    m, v, v_hat, x = np.zeros(2), np.full(2, 1e-5), np.full(2, 1e-5), X0
    for g in G:
        m, v = 0.9 * m + 0.1 * g, 0.3 * v + 0.7 * g**2
        v_hat = np.maximum(v_hat, v)
        x = x - 0.1 * m / np.sqrt(v_hat)
    np.testing.assert_allclose(follow(AdaMM(step=0.1))[-1], x)


def test_scale_free_moves_by_a_share_of_the_shell() -> None:
    xs = follow(ScaleFree(alpha=0.5), ts=(2.0, 1.0, 0.5), cosine=0.25)
    steps = np.diff([X0, *xs], axis=0)
    np.testing.assert_allclose(np.linalg.norm(steps, axis=1), 0.5 * 0.25 * 2**0.5 * np.array([2.0, 1.0, 0.5]))
    np.testing.assert_allclose(steps[0] / np.linalg.norm(steps[0]), -G[0] / np.linalg.norm(G[0]))


@given(scale=st.floats(1e-200, 1e200))
def test_scale_free_does_not_see_the_scale_of_f(scale: float) -> None:
    x, t = X0[None], np.ones(1)
    update = ScaleFree()
    plain, _ = update.apply(x, Estimate(g=G[0][None], cosine=1.0), t, update.init(x, np), np)
    scaled, _ = update.apply(x, Estimate(g=scale * G[0][None], cosine=1.0), t, update.init(x, np), np)
    np.testing.assert_allclose(scaled, plain, rtol=1e-12)


@pytest.mark.parametrize("update", [ScaleFree(), Normalized(step=1.0)])
def test_x_stays_where_there_is_no_direction(update: Any) -> None:
    state = update.init(X0[None], np)
    x, _ = update.apply(X0[None], Estimate(g=np.zeros((1, 2)), cosine=1.0), np.ones(1), state, np)
    np.testing.assert_array_equal(x[0], X0)


@pytest.mark.parametrize("name", UPDATES)
def test_every_update_is_registered_under_its_name_and_checks_itself(name: str) -> None:
    part = UPDATES[name]
    assert part.name == name
    with pytest.raises(ValueError, match="must be a finite number above 0"):
        part(**{"scale_free": {"alpha": -1.0}, "noise_aware": {"L1": -1.0, "nu": 1.0}}.get(name, {"step": -1.0}))
