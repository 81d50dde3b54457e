"""Draw the thumbnails of examples that have no picture: `python docs/gallery/thumbnails.py`.

The background is transparent and the colors are mid-tones, so that one file serves the light and the dark theme.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

import slgh

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parents[1] / "examples"))

from ask_tell_cluster import run as run_ask_tell  # noqa: E402
from resume_after_kill import rugged  # noqa: E402
from slgh_from_scratch import Rosenbrock  # noqa: E402
from slgh_from_scratch import slgh as algorithm_2  # noqa: E402

GRAY, BLUE, ORANGE, GREEN = "#888888", "#2E86C1", "#E69F00", "#009E73"


def ask_tell(ax: Axes) -> None:
    """Bars: eight workers evaluate the points of twelve iterations. One evaluation is one unit of time."""
    sizes: list[int] = []

    def evaluate(points: NDArray[np.float64]) -> list[float]:
        sizes.append(len(points))
        return [rugged(point) for point in points]

    run_ask_tell(evaluate)
    begin = 0
    for k, size in enumerate(sizes[2:14]):
        for point in range(size):
            left = begin + point // 8
            ax.barh(point % 8, 0.8, left=left, height=0.7, color=(BLUE, ORANGE, GREEN)[k % 3])
        begin += -(-size // 8)


def resume(ax: Axes) -> None:
    """The best value over the evaluations, and the moment of the kill."""
    history = slgh.minimize(rugged, np.full(10, 3.3), max_evals=4000, seed=7).history
    killed = int(np.searchsorted(history["nfev"], 1500))
    ax.semilogy(history["nfev"][: killed + 1], history["fun_best"][: killed + 1], color=BLUE, lw=4)
    ax.semilogy(history["nfev"][killed:], history["fun_best"][killed:], color=GREEN, lw=4)
    ax.plot(history["nfev"][killed], history["fun_best"][killed], "X", color=ORANGE, ms=22)


def from_scratch(ax: Axes) -> None:
    """The path of SLGH_r over the contours of Rosenbrock's function."""
    F, x, t = Rosenbrock(), np.array([-3.0, 2.0]), 1.5
    path = [x]
    for _ in range(400):
        x, t = algorithm_2(F, x, t, beta=1e-4, gamma=0.995, T=50)
        path.append(x)
    first = [np.array([-3.0, 2.0])]
    for k in range(1, 60):
        first.append(algorithm_2(F, first[0], 1.5, beta=1e-4, gamma=0.995, T=k)[0])
    way = np.array(first + path[2:])
    X, Y = np.meshgrid(np.linspace(-3.3, 1.8, 200), np.linspace(-0.6, 3.4, 200))
    ax.contour(X, Y, np.log10(F.value((X, Y), 0.0) + 0.1), 9, colors=GRAY, linewidths=1)
    ax.plot(*way.T, color=BLUE, lw=4)
    ax.plot(*way[0], "o", color=ORANGE, ms=14)
    ax.plot(1, 1, "*", color=GREEN, ms=24)


if __name__ == "__main__":
    for draw in (ask_tell, resume, from_scratch):
        figure, ax = plt.subplots(figsize=(4.8, 2.7), layout="constrained")
        draw(ax)
        ax.axis("off")
        figure.savefig(FOLDER / f"thumb_{draw.__name__}.png", dpi=100, transparent=True)
        plt.close(figure)
