"""Modal regression on scikit-learn's diabetes data: a differentiable real problem, with gradients of JAX.

The loss mean(1 - exp(-r^2 / (2 c^2))) with a width c far below the residuals finds the hyperplane that most
patients lie on and ignores the others. It is non-convex, and flat far from the data. Single loop homotopy, gradient
descent and Adam start from the same 20 points, in one batch, with equal numbers of gradients. The step of each method
is the best of one grid on 20 other starts. t1 is the spread of the starts, and gamma reduces t by four orders of
magnitude.

Run `python benchmarks/modal_regression.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import typer
from rich.console import Console
from rich.table import Table

import slgh

try:
    from sklearn.datasets import load_diabetes
except ImportError as missing:
    raise SystemExit(f'{missing.name} is missing. Run pip install -c constraints.txt -e ".[bench]"') from None

jax.config.update("jax_enable_x64", True)

WIDTH = 0.1
STARTS, ITERATIONS = 20, 3000
STEPS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
HOMOTOPY = {"t1": 1.0, "gamma": 1e-4 ** (1 / ITERATIONS)}
METHODS: dict[str, dict[str, Any]] = {
    "gradient descent": {"method": "gd"},
    "slgh_r": {"method": "slgh_r", **HOMOTOPY},
    "Adam": {"method": "gd", "update": "adam"},
    "slgh_r with Adam's update": {"method": "slgh_r", "update": "adam", **HOMOTOPY},
}


def standardized() -> tuple[Any, Any]:
    """Return ten measurements and a constant for 442 patients, and the progression of the disease a year later."""
    X, y = load_diabetes(return_X_y=True)
    X, y = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
    return jnp.asarray(np.column_stack([X, np.ones(len(y))])), jnp.asarray(y)


DATA, RESPONSE = standardized()


def loss(w: Any) -> Any:
    """Map coefficients (..., 11) to losses (...)."""
    r = (jnp.einsum("...d,nd->...n", w, DATA) - RESPONSE) / WIDTH
    return jnp.mean(1 - jnp.exp(-r * r / 2), axis=-1)


def starts(seed: int) -> Any:
    """Return standard normal coefficients."""
    return jnp.asarray(np.random.default_rng(seed).standard_normal((STARTS, DATA.shape[1])))


def run(options: dict[str, Any], step: float, x0: Any, seed: int) -> slgh.Result:
    """Run all starts in one batch."""
    return slgh.minimize(
        loss, x0, batched=True, vectorized=True, step=step, max_iter=ITERATIONS, seed=seed, history=None, **options
    )


class Row(NamedTuple):
    """A method with the chosen step and the final losses."""

    name: str
    step: float
    loss: Any


def measure() -> list[Row]:
    """Choose the step of each method on other starts, then run it."""
    rows = []
    for name, options in METHODS.items():
        step = min(STEPS, key=lambda step: float(jnp.mean(run(options, step, starts(1), 1).fun)))
        found = run(options, step, starts(0), 0)
        assert found.engine == "jax while_loop"
        rows.append(Row(name, step, np.asarray(found.fun)))
    return rows


def main(markdown: Annotated[Path | None, typer.Option(help="Write the table to this file.")] = None) -> None:
    """Measure, and print the table."""
    rows = measure()
    lines = [("method", "step", "mean", "median", "best", "worst", "lower at")]
    for row, plain in zip(rows, (rows[0], rows[0], rows[2], rows[2]), strict=True):
        figures = [f"{reduce(row.loss):.4f}" for reduce in (np.mean, np.median, np.min, np.max)]
        wins = "" if row is plain else f"{int(np.sum(row.loss < plain.loss))} of {STARTS}"
        lines.append((row.name, f"{row.step:g}", *figures, wins))
    shown = [(line[0], line[1], *line[3:]) for line in lines]  # without the mean, to fit 80 columns
    table = Table(*shown[0])
    for line in shown[1:]:
        table.add_row(*line)
    Console().print(table)
    if markdown:
        text = [f"| {' | '.join(line)} |" for line in lines]
        text.insert(1, "| --- " * len(lines[0]) + "|")
        about = (
            f"Command: `python benchmarks/modal_regression.py`. Final loss from {STARTS} starts, {ITERATIONS} "
            f"gradients each; slgh {slgh.__version__}, JAX {jax.__version__}. The last column counts the starts "
            "with a lower loss than without the homotopy.\n\n"
        )
        markdown.write_text(about + "\n".join(text) + "\n")


if __name__ == "__main__":
    typer.run(main)
