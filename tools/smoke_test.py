"""Run each part of slgh that a dependency could break, in about a minute, without pytest.

`tools/test-lowest` runs it with the lowest supported versions of the dependencies.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import slgh

PAPER_METHOD: dict[str, Any] = {"method": "zoslgh_r", "t1": 1.0, "gamma": 0.99, "step": 0.02, "max_iter": 200}


def rastrigin(x: Any) -> float:
    """Return a function with many local minima. Its global minimum is 0 at x = 0."""
    return float(np.sum(x**2 + 10 - 10 * np.cos(2 * np.pi * x)))


def run_auto() -> None:
    """Run the model search, the homotopy and the local search of `auto`, with and without bounds."""
    for d, max_evals in ((2, 300), (20, 3000)):
        for bounds in (None, [(-4.0, 6.0)] * d):
            result = slgh.minimize(rastrigin, np.full(d, 3.0), max_evals=max_evals, bounds=bounds, seed=0)
            assert result.fun < rastrigin(np.full(d, 3.0)) / 2
            assert result.nfev <= max_evals


def run_local_search_with_gradient() -> None:
    """Run SciPy's L-BFGS-B code, which is called through a private interface."""
    result = slgh.minimize(
        lambda x: float(np.sum((x - 1) ** 2)), np.full(5, 3.0), grad=lambda x: 2 * (x - 1), max_evals=500, seed=0
    )
    assert result.fun < 1e-8


def run_batch() -> None:
    """Run a batch of problems with a method of the paper."""
    result = slgh.minimize(
        lambda x: np.sum(x**2, axis=-1), np.ones((3, 4)), batched=True, vectorized=True, seed=0, **PAPER_METHOD
    )
    assert result.x.shape == (3, 4)
    assert np.all(result.fun < 1)


def run_checkpoint() -> None:
    """Write a checkpoint and read it again."""
    first, second = (
        slgh.minimize(rastrigin, np.full(3, 3.0), max_evals=200, seed=0, checkpoint="run.npz") for _ in range(2)
    )
    assert np.array_equal(first.x, second.x)


def run_smoothing() -> None:
    """Smooth a formula in closed form, and one that has none by the two fallbacks."""
    smoothed = slgh.smooth("100*(y - x**2)**2 + (1 - x)**2")
    assert np.isfinite(smoothed.value(np.array([-3.0, 2.0]), 0.5))
    for fallback in ("quadrature", "sampling"):
        smoothed = slgh.smooth("log(1 + x**2 + y**2)", fallback=fallback)
        result = slgh.minimize(smoothed, [1.0, 2.0], **{**PAPER_METHOD, "method": "slgh_r"})
        assert result.fun < np.log(6)


def run_probe() -> None:
    """Probe a function before a run."""
    assert slgh.probe(rastrigin, np.full(5, 3.0), seed=0).t1 > 0


def run_plot() -> None:
    """Draw the path of a run over contours."""
    hole = slgh.problems.hole()
    result = slgh.minimize(hole.fun, hole.x0, history="x", seed=0, **PAPER_METHOD)
    slgh.plot(result, hole.fun, vectorized=True).savefig("hole.png")


def run_jax() -> None:
    """Run the compiled loop, and `auto`, on JAX arrays."""
    import jax.numpy as jnp

    for params in (PAPER_METHOD, {"max_evals": 500}):
        assert slgh.minimize(lambda x: jnp.sum(x**2), jnp.ones(4), seed=0, **params).fun < 1


def run_command_line() -> None:
    """Print the help, minimize with a picture and a page, and reproduce one table of the paper."""
    assert "minimize" in command("--help")
    help_text = command("minimize --help")
    assert "\\[" not in help_text, "escaped brackets are shown as they are"
    assert any(line.split()[:1] == ["130"] for line in help_text.splitlines()), (
        "exit codes are not on lines of their own"
    )
    command("methods")
    command("minimize x**2 --x0 3 --method slgh_r --t1 1 --gamma 0.9 --step 0.1 --max-iter 5")
    command("minimize x**4-3*x**2+x --x0 2 --seed 0 --plot path.png --json run.json")
    command("minimize ackley --d 2 --max-evals 200 --seed 0 --plot page.html")
    command("reproduce himmelblau --out reproduced")
    for name in ("path.png", "run.json", "page.html", "reproduced/index.html"):
        assert Path(name).is_file(), name


def command(line: str) -> str:
    """Run the command line and return what it prints."""
    words = [sys.executable, "-m", "slgh", *line.split()]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"slgh {line}\n{done.stdout}{done.stderr}"
    return done.stdout


CHECKS = (
    run_auto,
    run_local_search_with_gradient,
    run_batch,
    run_checkpoint,
    run_smoothing,
    run_probe,
    run_plot,
    run_jax,
    run_command_line,
)


def main() -> None:
    """Run all checks in a temporary folder. The first failure ends the program."""
    names = ("slgh", "numpy", "scipy", "array-api-compat", "typer", "rich", "matplotlib", "plotly", "sympy", "jax")
    print("Python", sys.version.split()[0], *(f"{name} {version(name)}" for name in names))
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for check in CHECKS:
            print(f"{check.__name__} ...", flush=True)
            check()
    print("The smoke test passed.")


if __name__ == "__main__":
    main()
