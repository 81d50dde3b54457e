"""Settings, lanes and fixtures common to all tests.

Two lanes: `pytest` runs everything, `pytest -m "not slow"` answers in about two minutes and loads neither JAX nor
PyTorch. A test that needs one of them is marked slow and imports it itself, or its whole module is slow.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# The libraries read these when they are imported, which is later, or never.
os.environ.setdefault("OMP_NUM_THREADS", "1")  # several tests run at once: one thread per test
os.environ["JAX_ENABLE_X64"] = "1"

settings.register_profile("slgh", deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("slgh")

ROOT = Path(__file__).parent.parent
HEAVY_LIBRARIES = ("jax", "torch")
HEAVY_SOURCES = [ROOT / "src/slgh" / name for name in ("backends/jax", "backends/torch", "paper/networks")]
SLOW_MODULE = re.compile(
    r"^pytestmark = .*pytest\.mark\.(slow|browser|cuda|heavy)"
    r"|^(import|from) (jax|torch|slgh\.integrations\.(optax|torch))\b",
    re.MULTILINE,
)
"""Marks of a module of slow tests, and imports of a module that only such tests and their processes use."""


def in_fast_lane(config: pytest.Config) -> bool:
    """True if slow tests are deselected."""
    return "not slow" in config.option.markexpr


def pytest_configure(config: pytest.Config) -> None:
    """Leave modules that import a heavy library at their top uncollected in the fast lane."""
    if in_fast_lane(config):
        slow = [file for file in Path(__file__).parent.glob("*.py") if SLOW_MODULE.search(file.read_text())]
        config.option.ignore = [*(config.option.ignore or []), *map(str, HEAVY_SOURCES + slow)]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow what needs a browser, a GPU, or (doctests) a heavy library."""
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.browser)
        heavy = any(item.path.is_relative_to(folder) for folder in HEAVY_SOURCES)
        if heavy or any(item.get_closest_marker(name) for name in ("cuda", "browser", "heavy")):
            item.add_marker(pytest.mark.slow)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests marked cuda if there is no GPU."""
    if item.get_closest_marker("cuda"):
        torch = pytest.importorskip("torch")
        if not torch.cuda.is_available():
            pytest.skip("needs a CUDA device")


def loaded_libraries() -> set[str]:
    """Return the heavy libraries that are loaded."""
    return {name for name in HEAVY_LIBRARIES if name in sys.modules}


def pytest_collection_finish(session: pytest.Session) -> None:
    """End the fast lane if collecting its tests has loaded JAX or PyTorch."""
    if in_fast_lane(session.config) and (found := loaded_libraries()):
        raise pytest.UsageError(f"{found} loaded by a module of the fast lane: import it in tests that are marked slow")


@pytest.fixture(autouse=True)
def no_heavy_library(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail the test that loads JAX or PyTorch in the fast lane."""
    before = loaded_libraries()
    yield
    found = loaded_libraries() - before
    assert not found or not in_fast_lane(request.config), f"{found} loaded in the fast lane: mark the test slow"


@pytest.fixture(autouse=True)
def default_interrupt_handler() -> Iterator[None]:
    """Restore the default handler of Ctrl-C, also for processes that a test starts.

    `nohup`, background jobs and some CI systems start pytest with SIGINT ignored, and child processes inherit that.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    left = signal.signal(signal.SIGINT, before)
    assert left is signal.default_int_handler, "the test left a handler of SIGINT behind"
