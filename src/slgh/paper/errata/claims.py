"""Statements about the homotopy and the test functions that measurement does not confirm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slgh.minimize import minimize
from slgh.paper.errata.erratum import Measurement, erratum, listed, run_variant, ticked
from slgh.paper.experiment import Tick, require_complete
from slgh.paper.experiments.benchmark_functions import HIMMELBLAU, ROSENBROCK
from slgh.problems import Problem, himmelblau, rosenbrock
from slgh.smoothing import Quadrature

MAXIMUM = np.array([-0.27084458, -0.92303857])
"""Himmelblau's local maximum, printed as (-0.271, -0.923)."""


def distance(x: Any, y: Any) -> float:
    return float(np.linalg.norm(np.asarray(x) - y))


def slope_norm(problem: Problem, x: NDArray[Any]) -> float:
    """|grad f(x)|."""
    F: Any = problem.smooth
    return float(np.linalg.norm(F.grad(x, np.asarray(0.0))))


def minimizer(problem: Problem, t: float, start: Any, step: float, steps: int) -> NDArray[Any]:
    """Find a stationary point of F(., t) by descent from a start."""
    # GradOpt with more inner iterations than there are in all never lowers t.
    options: dict[str, Any] = {"method": "gradopt", "rule": "F", "n0": steps + 1}
    result = minimize(problem.smooth, start, t1=t, step=step, max_iter=steps, history=0, **options)
    return np.asarray(require_complete(result).x)


@erratum("the slope in t")
def derivative(tick: Tick, *, d: int = 5, t: float = 0.3) -> Measurement:
    """For f = |x|^2: dF/dt by a difference, and the estimate of equation (9), by quadrature."""
    F, x, h = Quadrature(np.square, separable=True), np.ones(d), 1e-4
    trace = float(F.trace(x, np.asarray(t)))
    dt = float((F.value(x, np.asarray(t + h)) - F.value(x, np.asarray(t - h))) / (2 * h))
    return Measurement({"trace": trace, "dt": dt, "d": d, "t": t}, f"tr Hess F = {trace:.4f}", f"dF/dt = {dt:.4f}")


@erratum("Algorithm 1's last radius")
def algorithm_1(tick: Tick) -> Measurement:
    """|grad f| at the result of Algorithm 1 on Himmelblau's function for radii that end at 1/2, and at 0."""
    problem = himmelblau()
    x, norms = problem.x0, []
    for t in ticked((2.0, 1.0, 0.5, 1e-9), tick):
        x = minimizer(problem, t, x, 1e-3, 1000)
        norms.append(slope_norm(problem, x))
    *_, above, zero = norms
    return Measurement(
        {"above": above, "zero": zero},
        f"t_T = 0.5: |grad f(x_T)| = {above:.3g}",
        f"t_T = 0: |grad f(x_T)| < {max(zero, 1e-6):.0e}",
    )


@erratum("the last t")
def last_t(tick: Tick, *, longer: int = 8000) -> Measurement:
    """Final t and f of SLGH_r 0.999 on Himmelblau's function after T = 2000 iterations, and after more."""
    short, long = (run_variant(HIMMELBLAU, "SLGH_r 0.999", max_iter=T) for T in ticked((2000, longer), tick))
    ends = {"Ackley": 1.0 * 0.999**1000, "the hole": 5.0 * 0.999**1000}
    t, f, t_longer, f_longer = (float(a[0]) for a in (short.t, short.fun, long.t, np.abs(long.fun)))
    others = ", ".join(f"{value:.2g} on {name}" for name, value in ends.items())
    return Measurement(
        {"t": t, "f": f, "longer": longer, "t_longer": t_longer, "f_longer": f_longer, "others": ends},
        f"Himmelblau, T = 2000: t ends at {t:.2g}, f = {f:.2g}; t ends at {others}",
        f"T = {longer}: t ends at {t_longer:.1g}, f = {f_longer:.0e}",
    )


@erratum("GradOpt on Himmelblau")
def stuck(tick: Tick, *, lengths: Sequence[int] = (2000, 5000)) -> Measurement:
    """End of GradOpt 0.8 on Himmelblau's function after T iterations: f, |grad f|, and the distance to extrema."""
    problem, ends = himmelblau(), list[dict[str, float]]()
    for T in ticked(lengths, tick):
        end = run_variant(HIMMELBLAU, "GradOpt 0.8", max_iter=T)
        x = end.x[0]
        near = {"maximum": distance(x, MAXIMUM), "minimum": distance(x, problem.minimizers[0])}
        ends.append({"T": T, "f": float(end.fun[0]), "slope": slope_norm(problem, x), **near})
    short, long = ends[0], ends[-1]
    return Measurement(
        {"ends": ends},
        f"T = {short['T']}: f = {short['f']:.4g}, |grad f| = {short['slope']:.3g}, {short['maximum']:.3g} from the "
        f"maximum, {short['minimum']:.3g} from the minimum (3, 2)",
        f"T = {long['T']}: f = {long['f']:.2g}, {long['minimum']:.2g} from (3, 2)",
    )


@erratum("Himmelblau at t = 2")
def himmelblau_minimum(tick: Tick) -> Measurement:
    """Minimizer of Himmelblau's F(., 2), f there, and its distance to the maximum."""
    problem = himmelblau()
    x = minimizer(problem, 2.0, problem.x0, 1e-3, 1000)
    f, away, top = float(problem.fun(x)), distance(x, MAXIMUM), float(problem.fun(MAXIMUM))
    return Measurement(
        {"x": x.tolist(), "f": f, "distance": away, "top": top},
        f"f(-0.271, -0.923) = {top:.4g}",
        f"({x[0]:.3f}, {x[1]:.3f}), {away:.2f} away, f = {f:.4g}",
    )


@erratum("Rosenbrock at t = 1.5")
def rosenbrock_minimum(tick: Tick) -> Measurement:
    """Minimizer of Rosenbrock's F(., 3/2), f there, and its distance to (1, 1) and (0, 2)."""
    problem = rosenbrock()
    x = minimizer(problem, 1.5, problem.x0, 3e-4, 3000)
    f, optimum, named = float(problem.fun(x)), distance(x, 1), distance(x, [0, 2])
    return Measurement(
        {"x": x.tolist(), "f": f, "optimum": optimum, "named": named},
        "(1, 1), f = 0",
        f"({x[0]:.4f}, {x[1]:.4f}), f = {f:.4g}, {optimum:.2f} from (1, 1) and {named:.2f} from (0, 2)",
    )


@erratum("the number of outer loops")
def outer_loops(tick: Tick, *, target: float = 0.2) -> Measurement:
    """Number of iterations, and of outer loops, until f <= target on Rosenbrock's function."""
    double, *single = (
        run_variant(ROSENBROCK, label, target=target)
        for label in ticked(("GradOpt 0.5", "SLGH_r 0.995", "SLGH_r 0.999"), tick)
    )
    loops = 1 + round(float(np.log(double.t[0] / 1.5) / np.log(0.5)))
    nit, (first, second) = int(double.nit[0]), [int(end.nit[0]) for end in single]
    return Measurement(
        {"GradOpt 0.5": nit, "loops": loops, "SLGH_r 0.995": first, "SLGH_r 0.999": second, "target": target},
        f"{loops} times as many",
        f"GradOpt 0.5: {nit} iterations in {loops} outer loops until f <= {target}; "
        f"SLGH_r 0.995 / 0.999: {listed((first, second), 'd')}",
    )


ERRATA = (derivative, algorithm_1, last_t, stuck, himmelblau_minimum, rosenbrock_minimum, outer_loops)
