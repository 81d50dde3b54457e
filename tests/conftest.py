"""Settings common to all tests."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one test a core: threads of several would wait for each other

from collections.abc import Iterator

import jax
import pytest
import torch
from hypothesis import HealthCheck, settings

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_disable_most_optimizations", True)  # most of the time of JAX's tests it is being compiled
torch.set_num_threads(1)

settings.register_profile("slgh", deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("slgh")


@pytest.fixture
def optimised() -> Iterator[None]:
    """JAX compiles as it does for users: for tests that compare last bits, which optimisation may change."""
    jax.config.update("jax_disable_most_optimizations", False)
    jax.clear_caches()
    yield
    jax.config.update("jax_disable_most_optimizations", True)
    jax.clear_caches()
