"""`auto` and L-BFGS from the same start on a rugged function, as a picture: rugged_function.png.

Nothing is tuned: `slgh.minimize` gets the function, the start and a budget. L-BFGS stops in the first of many local
minima. `auto` follows the minima of smoothed functions to the global one. The script also counts how many of ten seeds
find it.
"""

import numpy as np
from scipy.optimize import minimize as scipy_minimize

import slgh
from slgh.plotting.style import METHOD_COLORS, readable, style

X0 = np.array([4.4, 3.4])
BUDGET = 600
SEEDS = range(10)


def ackley(x):
    """Ackley's function of two variables: a funnel with a local minimum near every pair of integers."""
    bowl = 20 - 20 * np.exp(-0.2 * np.sqrt(np.mean(x**2)))
    return bowl + np.e - np.exp(np.mean(np.cos(2 * np.pi * x)))


def lbfgs():
    """Return the iterates of L-BFGS (k, 2), and f at each of its evaluations."""
    values, path = [], [X0]

    def recorded(x):
        values.append(ackley(x))
        return values[-1]

    scipy_minimize(recorded, X0, method="L-BFGS-B", callback=lambda x: path.append(x.copy()))
    return np.array(path), np.array(values)


def draw(dark=False):
    """Return the picture that `slgh.plot` draws of the run, with L-BFGS on top."""
    run = slgh.minimize(ackley, X0, max_evals=BUDGET, seed=1, history="x")
    path, values = lbfgs()
    with style(dark=dark):
        color = readable(METHOD_COLORS["lbfgsb"])
        figure = slgh.plot(run, ackley)
        plane, curves, _ = figure.axes
        plane.plot(*path.T, "-", color=color, linewidth=2.5, zorder=6)
        plane.plot(*path[-1], "X", color=color, markersize=11, zorder=6, label=f"L-BFGS stops: f = {values.min():.1f}")
        plane.legend(loc="lower right", framealpha=0.9, edgecolor="none")
        curves.plot(np.arange(len(values)) + 1, np.minimum.accumulate(values), color=color, linewidth=2.5)
        curves.plot([len(values), BUDGET], [values.min()] * 2, ":", color=color, linewidth=1.5)
        curves.text(0.97 * BUDGET, 0.6 * values.min(), "L-BFGS", color=color, ha="right", va="top", weight="bold")
        figure.suptitle(f"slgh finds the global minimum of Ackley's function, f = {run.fun:.0e}", weight="bold")
    return figure


if __name__ == "__main__":
    _, values = lbfgs()
    runs = [slgh.minimize(ackley, X0, max_evals=BUDGET, seed=seed) for seed in SEEDS]
    print(f"L-BFGS: f = {values.min():.3f} after {len(values)} evaluations")
    print(
        f"auto:   f < 1e-6 with {sum(run.fun < 1e-6 for run in runs)} of {len(runs)} seeds, {BUDGET} evaluations each"
    )
    draw().savefig("rugged_function.png", dpi=150)
