"""Tune the eleven hyperparameters of a kernel ridge regression with several methods. Draws kernel_ridge.png.

The kernel exp(-sum_j (x_j - z_j)^2 / 2 l_j^2) has a length scale for each of the ten features of scikit-learn's
diabetes data. With the regularization there are eleven variables, all logarithms. The objective is the leave-one-out
error on 100 patients, which has an exact formula and is not convex. Each method has 300 evaluations. The other 342
patients serve as the test set. The paper names this application of Gaussian homotopy (Shao et al., 2019).
"""

import contextlib

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize as scipy_minimize
from sklearn.datasets import load_diabetes
from threadpoolctl import threadpool_limits

import slgh
from slgh.plotting.style import METHOD_COLORS, lighter

EVALS, REPEATS, TRAIN = 300, 5, 100
LOW, HIGH = np.array([-7.0] + [-1.0] * 10), np.array([3.0] + [5.0] * 10)
BOUNDS = list(zip(LOW, HIGH, strict=True))
AUTO = METHOD_COLORS["auto"]
STYLES = {
    "slgh, auto": (AUTO, "-"),
    "auto, t_end = 0.1": (lighter(AUTO, 0.45), "--"),
    "slgh, zoslgh_r": (METHOD_COLORS["slgh_r"], "-"),
    "random search": (METHOD_COLORS["random_search"], "-"),
    "Powell": (METHOD_COLORS["powell"], "-."),
    "L-BFGS-B": (METHOD_COLORS["lbfgsb"], "-."),
    "CMA-ES": (METHOD_COLORS["cma"], ":"),
}


class Spent(Exception):
    """The budget is spent."""


class Tuning:
    """One split of the data.

    It computes the leave-one-out error, counts the calls, and stores the best hyperparameters.
    """

    def __init__(self, seed):
        X, y = load_diabetes(return_X_y=True)
        order = np.random.default_rng(seed).permutation(len(y))
        X, y = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
        self.X, self.y = X[order[:TRAIN]], y[order[:TRAIN]]
        self.X_test, self.y_test = X[order[TRAIN:]], y[order[TRAIN:]]
        self.lowest = []
        self.best = None

    def kernel(self, Z, logs):
        a, b = self.X * np.exp(-logs), Z * np.exp(-logs)
        square = (a * a).sum(axis=1)[:, None] + (b * b).sum(axis=1) - 2 * a @ b.T
        return np.exp(-np.maximum(square, 0) / 2)

    def solve(self, x):
        """Return the coefficients alpha = (K + lambda I)^-1 y, and the diagonal of that inverse."""
        inverse = np.linalg.inv(self.kernel(self.X, x[1:]) + np.exp(x[0]) * np.eye(TRAIN))
        return inverse @ self.y, np.diag(inverse)

    def __call__(self, x):
        """Return the leave-one-out error: the mean of (alpha_i / inverse_ii)^2."""
        if len(self.lowest) == EVALS:
            raise Spent
        alpha, diagonal = self.solve(np.asarray(x))
        error = float(np.mean((alpha / diagonal) ** 2))
        if not self.lowest or error < self.lowest[-1]:
            self.best = np.array(x)
        self.lowest.append(min([error, *self.lowest[-1:]]))
        return error

    def test_error(self):
        """Return the error on the test set."""
        alpha, _ = self.solve(self.best)
        return float(np.mean((alpha @ self.kernel(self.X_test, self.best[1:]) - self.y_test) ** 2))


def by_auto(f, x0, seed):
    slgh.minimize(f, x0, bounds=BOUNDS, max_evals=EVALS, seed=seed)


def by_auto_to_a_tenth(f, x0, seed):
    # By default t decays to the level of rounding. A tenth of a logarithm is accurate enough for hyperparameters.
    slgh.minimize(f, x0, bounds=BOUNDS, max_evals=EVALS, seed=seed, t_end=0.1)


def by_zoslgh(f, x0, seed):
    # The step was chosen from 1, 3, 10 and 30 on three other splits (seeds 100 to 102).
    hand = {"t1": 1.5, "gamma": 0.95, "step": 10.0, "samples": 5}
    slgh.minimize(f, x0, method="zoslgh_r", bounds=BOUNDS, max_evals=EVALS, seed=seed, **hand)


def by_random_search(f, x0, seed):
    rng = np.random.default_rng(seed)
    f(x0)
    while True:
        f(rng.uniform(LOW, HIGH))


def by_scipy(method, f, x0):
    scipy_minimize(f, x0, method=method, bounds=BOUNDS, options={"maxiter": EVALS})


def by_cma(f, x0, seed):
    import cma

    options = {"bounds": [LOW, HIGH], "seed": seed + 1, "verbose": -9}
    cma.fmin2(f, x0, (HIGH - LOW).mean() / 4, options)


def methods():
    """Return the methods. CMA-ES is included if it is installed."""
    found = {
        "slgh, auto": by_auto,
        "auto, t_end = 0.1": by_auto_to_a_tenth,
        "slgh, zoslgh_r": by_zoslgh,
        "random search": by_random_search,
        "Powell": lambda f, x0, seed: by_scipy("Powell", f, x0),
        "L-BFGS-B": lambda f, x0, seed: by_scipy("L-BFGS-B", f, x0),
    }
    try:
        import cma  # noqa: F401
    except ImportError:
        return found
    return found | {"CMA-ES": by_cma}


def compare():
    """Return for each method the lowest error after each evaluation, (REPEATS, EVALS), and the test errors."""
    curves, tests = {}, {}
    for name, tune in methods().items():
        runs = []
        for seed in range(REPEATS):
            f = Tuning(seed)
            x0 = np.random.default_rng([seed, 1]).uniform(LOW, HIGH)
            with contextlib.suppress(Spent):
                tune(f, x0, seed)
            f.lowest += f.lowest[-1:] * (EVALS - len(f.lowest))  # a method may stop before its budget is spent
            runs.append(f)
        curves[name] = np.array([f.lowest for f in runs])
        tests[name] = np.array([f.test_error() for f in runs])
    return curves, tests


def draw(curves, tests):
    """Plot the progress (left) and the final errors of each split (right). Filled markers are medians."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained", width_ratios=(1.2, 1))
    for k, name in enumerate(curves):
        color, dash = STYLES[name]
        left.plot(np.median(curves[name], axis=0), color=color, ls=dash, lw=1.8, label=name)
        for values, mark, y in ((curves[name][:, -1], "o", k - 0.15), (tests[name], "s", k + 0.15)):
            right.plot(values, np.full(REPEATS, y), mark, color=color, ms=4, mfc="none")
            right.plot(np.median(values), y, mark, color=color, ms=7)
    left.set(xlabel="evaluations", ylabel="leave-one-out error, median", ylim=(0.4, 1.1), xlim=(0, EVALS))
    left.legend(fontsize=8, frameon=False, ncols=2, loc="upper right", handlelength=2.8)
    right.set(xlabel="error: o leave-one-out, \u25a1 test set", yticks=range(len(curves)))
    right.set_yticklabels(list(curves))
    right.invert_yaxis()
    for ax in (left, right):
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=8)
    return figure


if __name__ == "__main__":
    threadpool_limits(1)  # with such small matrices, several threads only wait for each other
    curves, tests = compare()
    print(f"Errors relative to the variance, median over {REPEATS} splits and starts, {EVALS} evaluations each:")
    print(f"{'':18}{'leave-one-out':>15}{'test set':>16}{'best of a split':>17}")
    winners = np.argmin([curve[:, -1] for curve in curves.values()], axis=0)
    for k, name in enumerate(curves):
        low, test = np.median(curves[name][:, -1]), np.median(tests[name])
        print(f"{name:18}{low:15.4f}{test:16.4f}{np.sum(winners == k):17d}")
    draw(curves, tests).savefig("kernel_ridge.png", dpi=150)
