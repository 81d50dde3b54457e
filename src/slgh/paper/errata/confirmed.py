"""Statements of the text that measurement confirms."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slgh.paper.errata.erratum import run_variant
from slgh.paper.experiment import Record, Tick
from slgh.paper.experiments.benchmark_functions import HIMMELBLAU, ROSENBROCK
from slgh.problems import PROBLEMS, himmelblau, rosenbrock
from slgh.smoothing import Quadrature


def measure(tick: Tick) -> Record:
    """Return the numbers behind each statement."""
    runs = [run_variant(ROSENBROCK, label, max_iter=300, history="x") for label in ("GradOpt 0.8", "SLGH_r 0.999")]
    tick(0.3)
    path = run_variant(HIMMELBLAU, "SLGH_r 0.999", history="x").history["x"][:, 0]
    tick(0.6)
    distance = np.linalg.norm(path - himmelblau().minimizers[0], axis=-1)
    passed = int(np.argmax(np.diff(distance) > 0))
    farthest = passed + int(np.argmax(distance[passed:]))
    return {
        "named": [float(np.linalg.norm(run.history["x"][:, 0] - [0, 2], axis=-1).min()) for run in runs],
        "convex": [convex_share(rosenbrock().smooth, 1.5), convex_share(himmelblau().smooth, 2.0)],
        "return": [float(distance[k]) for k in (passed, farthest, -1)],
        "hole": [count_minima("hole", t, reach=20.0) for t in (0.0, 5.0)],
        "ackley": [count_minima("ackley", t, reach=6.5, beyond=0.5) for t in (0.0, 1.0)],
    }


def convex_share(F: Any, t: float) -> float:
    """Return the share of the square |x|, |y| <= 5 on which F(., t) is convex."""
    x = np.stack(np.meshgrid(*[np.linspace(-5, 5, 101)] * 2), axis=-1)
    at, h = np.full(x.shape[:-1], t), 1e-4
    hessian = np.stack([(F.grad(x + h * e, at) - F.grad(x - h * e, at)) / (2 * h) for e in np.eye(2)], axis=-1)
    return float(np.mean(np.linalg.eigvalsh((hessian + hessian.swapaxes(-1, -2)) / 2)[..., 0] > 0))


def count_minima(name: str, t: float, reach: float, beyond: float = 0.0) -> int:
    """Count the local minima of F(., t) on the first axis at a distance of at least `beyond` from 0."""
    x = np.zeros((401, 2))
    x[:, 0] = np.linspace(-reach, reach, len(x))
    F: NDArray[Any] = Quadrature(PROBLEMS[name]().fun, nodes=64).value(x, np.full(len(x), t))
    return int(np.sum((F[1:-1] < F[:-2]) & (F[1:-1] < F[2:]) & (np.abs(x[1:-1, 0]) >= beyond)))


def rows(found: Record) -> list[tuple[str, str, str]]:
    """Return for each statement its place, its text, and the measurement."""
    near, away, end = found["return"]
    double, single = found["named"]
    convex = [f"convex on {share:.0%} of |x|, |y| <= 5" for share in found["convex"]]
    reached = f"GradOpt 0.8 comes within {double:.1g} of it, SLGH_r 0.999 within {single:.1g}, in 300 iterations"
    returned = f"0.999: {near:.2f} from (3, 2), then {away:.2f}, at the end {end:.2f}"
    hole = "local minima on the axis: {} at t = 0, {} at t = 5".format(*found["hole"])
    ackley = "on the axis, besides the global one: {} at t = 0, {} at t = 1".format(*found["ackley"])
    return [
        ("D.2", "the GH methods reach near (0, 2) early", reached),
        ("D.2, Figure 5", "smoothed by t = 1.5, almost convex", convex[0]),
        ("D.3, Figure 8", "smoothed by t = 2, almost convex", convex[1]),
        ("D.3", "SLGH_r returns to a minimum that it has passed", returned),
        ("D.4", "the hole disappears when t is large", hole),
        ("D.1", "at t = 1 the local minima have almost disappeared", ackley),
    ]
