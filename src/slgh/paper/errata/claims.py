"""What the text says of the homotopy and of the test functions, computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slgh.minimize import minimize
from slgh.paper.errata.erratum import Erratum, listed, run_variant, ticked, whole
from slgh.paper.experiment import Record, Tick
from slgh.paper.experiments.himmelblau import EXPERIMENT as HIMMELBLAU
from slgh.paper.experiments.rosenbrock import EXPERIMENT as ROSENBROCK
from slgh.problems import Problem, himmelblau, rosenbrock
from slgh.smoothing import Quadrature

MAXIMUM = np.array([-0.27084458, -0.92303857])
"""Himmelblau's local maximum, which the paper prints as (-0.271, -0.923)."""


def derivative(tick: Tick, *, d: int = 5, t: float = 0.3) -> Record:
    """f = |x|^2: dF/dt by a difference, and what equation (9) estimates, by quadrature."""
    F, x, h = Quadrature(np.square, separable=True), np.ones(d), 1e-4
    rise = F.value(x, np.asarray(t + h)) - F.value(x, np.asarray(t - h))
    return {"trace": float(F.trace(x, np.asarray(t))), "dt": float(rise / (2 * h)), "d": d, "t": t}


def tell_derivative(found: Record) -> tuple[str, str]:
    return f"tr Hess F = {found['trace']:.4f}", f"dF/dt = {found['dt']:.4f}"


def minimizer(problem: Problem, t: float, start: Any, step: float, steps: int) -> NDArray[Any]:
    """A stationary point of F(., t) by descent from a start."""
    result = minimize(
        problem.smooth,
        start,
        method="gradopt",
        rule="F",
        t1=t,
        n0=steps + 1,
        step=step,
        max_iter=steps,
        history=0,
    )
    return np.asarray(whole(result).x)


def algorithm_1(tick: Tick) -> Record:
    """|grad f| at what Algorithm 1 returns on Himmelblau's function for radii that end at 1/2, and at 0."""
    problem = himmelblau()
    x, norms = problem.x0, []
    for t in ticked((2.0, 1.0, 0.5, 1e-9), tick):
        x = minimizer(problem, t, x, 1e-3, 1000)
        norms.append(float(np.linalg.norm(problem.smooth.grad(x, np.asarray(0.0)))))  # type: ignore[union-attr]
    return {"above": norms[-2], "zero": norms[-1]}


def tell_algorithm_1(found: Record) -> tuple[str, str]:
    return (
        f"t_T = 0.5: |grad f(x_T)| = {found['above']:.3g}",
        f"t_T = 0: |grad f(x_T)| < {max(found['zero'], 1e-6):.0e}",
    )


def last_t(tick: Tick, *, longer: int = 8000) -> Record:
    """t and f where SLGH_r 0.999 ends on Himmelblau's function after T = 2000 iterations, and after more."""
    short, long = (run_variant(HIMMELBLAU, "SLGH_r 0.999", max_iter=T) for T in ticked((2000, longer), tick))
    ends = {"Ackley": 1.0 * 0.999**1000, "the hole": 5.0 * 0.999**1000}
    return {
        "t": float(short.t[0]),
        "f": float(short.fun[0]),
        "longer": longer,
        "t_longer": float(long.t[0]),
        "f_longer": abs(float(long.fun[0])),
        "others": ends,
    }


def tell_last_t(found: Record) -> tuple[str, str]:
    others = ", ".join(f"{value:.2g} on {name}" for name, value in found["others"].items())
    return (
        f"Himmelblau, T = 2000: t ends at {found['t']:.2g}, f = {found['f']:.2g}; t ends at {others}",
        f"T = {found['longer']}: t ends at {found['t_longer']:.1g}, f = {found['f_longer']:.0e}",
    )


def stuck(tick: Tick, *, lengths: Sequence[int] = (2000, 5000)) -> Record:
    """Where GradOpt 0.8 ends on Himmelblau's function after T iterations: f, |grad f|, how far from which point."""
    problem, found = himmelblau(), list[dict[str, float]]()
    for T in ticked(lengths, tick):
        end = run_variant(HIMMELBLAU, "GradOpt 0.8", max_iter=T)
        x = end.x[0]
        found.append(
            {
                "T": T,
                "f": float(end.fun[0]),
                "slope": float(np.linalg.norm(problem.smooth.grad(x, np.asarray(0.0)))),  # type: ignore[union-attr]
                "maximum": float(np.linalg.norm(x - MAXIMUM)),
                "minimum": float(np.linalg.norm(x - problem.minimizers[0])),
            }
        )
    return {"ends": found}


def tell_stuck(found: Record) -> tuple[str, str]:
    short, long = found["ends"][0], found["ends"][-1]
    return (
        f"T = {short['T']}: f = {short['f']:.4g}, |grad f| = {short['slope']:.3g}, {short['maximum']:.3g} from the "
        f"maximum, {short['minimum']:.3g} from the minimum (3, 2)",
        f"T = {long['T']}: f = {long['f']:.2g}, {long['minimum']:.2g} from (3, 2)",
    )


def himmelblau_minimum(tick: Tick) -> Record:
    """The minimizer of Himmelblau's F(., 2), f there, and how far the maximum is."""
    problem = himmelblau()
    x = minimizer(problem, 2.0, problem.x0, 1e-3, 1000)
    return {
        "x": x.tolist(),
        "f": float(problem.fun(x)),
        "distance": float(np.linalg.norm(x - MAXIMUM)),
        "top": float(problem.fun(MAXIMUM)),
    }


def tell_himmelblau_minimum(found: Record) -> tuple[str, str]:
    x, y = found["x"]
    return (
        f"f(-0.271, -0.923) = {found['top']:.4g}",
        f"({x:.3f}, {y:.3f}), {found['distance']:.2f} away, f = {found['f']:.4g}",
    )


def rosenbrock_minimum(tick: Tick) -> Record:
    """The minimizer of Rosenbrock's F(., 3/2), f there, and how far (1, 1) and (0, 2) are."""
    problem = rosenbrock()
    x = minimizer(problem, 1.5, problem.x0, 3e-4, 3000)
    return {
        "x": x.tolist(),
        "f": float(problem.fun(x)),
        "optimum": float(np.linalg.norm(x - 1)),
        "named": float(np.linalg.norm(x - [0, 2])),
    }


def tell_rosenbrock_minimum(found: Record) -> tuple[str, str]:
    x, y = found["x"]
    return (
        "(1, 1), f = 0",
        f"({x:.4f}, {y:.4f}), f = {found['f']:.4g}, {found['optimum']:.2f} from (1, 1) and {found['named']:.2f} from "
        "(0, 2)",
    )


def outer_loops(tick: Tick, *, target: float = 0.2) -> Record:
    """After how many iterations, and outer loops, f <= target on Rosenbrock's function."""
    found = {}
    for label in ticked(("GradOpt 0.5", "SLGH_r 0.995", "SLGH_r 0.999"), tick):
        end = run_variant(ROSENBROCK, label, target=target)
        found[label] = int(end.nit[0])
        if label.startswith("GradOpt"):
            found["loops"] = 1 + round(float(np.log(end.t[0] / 1.5) / np.log(0.5)))
    return found | {"target": target}


def tell_outer_loops(found: Record) -> tuple[str, str]:
    single = listed((found["SLGH_r 0.995"], found["SLGH_r 0.999"]), "d")
    double = (
        f"GradOpt 0.5: {found['GradOpt 0.5']} iterations in {found['loops']} outer loops until f <= {found['target']}"
    )
    return f"{found['loops']} times as many", f"{double}; SLGH_r 0.995 / 0.999: {single}"


ERRATA = (
    Erratum(
        name="the slope in t",
        where="Section 3.1, equation (9)",
        says="dF/dt = tr Hess F, by the heat equation",
        takes="dF/dt = t tr Hess F: the heat equation's time is t^2/2; (9) estimates the trace",
        measure=derivative,
        tell=tell_derivative,
    ),
    Erratum(
        name="Algorithm 1's last radius",
        where="Algorithm 1",
        says="t_1 > ... > t_T; uses t_(T+1); returns x_T",
        takes="k = 1..T-1, and t_T = 0",
        measure=algorithm_1,
        tell=tell_algorithm_1,
    ),
    Erratum(
        name="the last t",
        where="Section 3.2, D.1, D.3, D.4",
        says="the final smoothing parameter needs to be zero; gamma = 0.999, T = 1000 or 2000",
        takes="as printed, to reproduce; more iterations, or a smaller gamma, to minimize",
        prints="Himmelblau: 0.21",
        measure=last_t,
        tell=tell_last_t,
    ),
    Erratum(
        name="GradOpt on Himmelblau",
        where="D.3",
        says="GradOpt is stuck around a local maximum",
        takes="it runs out of iterations on its way to a minimum",
        prints="80.51",
        measure=stuck,
        tell=tell_stuck,
    ),
    Erratum(
        name="Himmelblau at t = 2",
        where="D.3",
        says="the minimum of F(., 2) lies near the maximum of f",
        takes="on the same hill, not near its top",
        measure=himmelblau_minimum,
        tell=tell_himmelblau_minimum,
    ),
    Erratum(
        name="Rosenbrock at t = 1.5",
        where="D.2",
        says="the optimal solution of F is close to that of f",
        takes="close to (0, 2), which the text names too; there f is large",
        measure=rosenbrock_minimum,
        tell=tell_rosenbrock_minimum,
    ),
    Erratum(
        name="the number of outer loops",
        where="Sections 1 and 3.3",
        says="SLGH is faster than the double loop by around the number of outer loops",
        takes="not where inner loops end early",
        measure=outer_loops,
        tell=tell_outer_loops,
    ),
)
