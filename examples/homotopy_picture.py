"""Draw what a Gaussian homotopy does: the picture of the README, saved as homotopy.png."""

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import slgh

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#999999"
WHITE = {"bbox": {"facecolor": "white", "edgecolor": "none", "pad": 0.5}}


def ripples(x):
    """A bowl with ripples, of one variable."""
    return x[..., 0] ** 2 / 20 - np.cos(3 * x[..., 0]) + 1


def smoothed_ripples(x, t):
    """Its Gaussian smoothing: the ripples fade first."""
    return (x**2 + t**2) / 20 - np.exp(-4.5 * t**2) * np.cos(3 * x) + 1


def draw_smoothing(axes):
    """The function, its smoothed versions, and the path of (x, t) through them."""
    path = slgh.minimize(
        ripples,
        [6.4],
        method="zoslgh_r",
        t1=1.3,
        gamma=0.997,
        step=0.15,
        samples=200,
        max_iter=2000,
        seed=3,
        vectorized=True,
        history="x",
    )
    stuck = slgh.minimize(
        ripples,
        [6.4],
        method="zosgd",
        t1=0.005,
        step=0.15,
        samples=200,
        max_iter=2000,
        seed=3,
        vectorized=True,
        history="x",
    )
    grid = np.linspace(-4, 7, 600)
    for t, shade in ((1.3, 0.8), (0.6, 0.6), (0.4, 0.45), (0.25, 0.3)):
        axes.plot(grid, smoothed_ripples(grid, t), color=str(shade), lw=1, zorder=1)
        axes.annotate(f"t = {t:g}", (-2.1, smoothed_ripples(-2.1, t)), fontsize=7, ha="center", va="center", **WHITE)
    axes.plot(grid, ripples(grid[:, None]), color="black", lw=1.6, zorder=2)
    x, t = path.history["x"][:, 0], path.history["t"]
    axes.plot(x, smoothed_ripples(x, t), color=BLUE, lw=2, label="SLGH: x and t together", zorder=3)
    y = stuck.history["x"][:, 0]
    axes.plot(y, ripples(y[:, None]), color=ORANGE, lw=2.5, label="descent on f", zorder=3)
    axes.plot(*[[v] for v in (path.x[0], path.fun)], "o", color=BLUE, zorder=4)
    axes.plot(*[[v] for v in (stuck.x[0], stuck.fun)], "s", color=ORANGE, zorder=4)
    axes.set(xlabel="x", ylabel="f(x) and F(x, t)", title="Smoothing removes the ripples", xlim=(-4, 7))
    axes.legend(loc="upper left", fontsize=8, frameon=False)


def draw_rosenbrock(axes):
    """Gradient descent and SLGH_r on Rosenbrock's valley, as in the paper."""
    problem = slgh.problems.rosenbrock()
    x, y = np.meshgrid(np.linspace(-3.2, 2, 300), np.linspace(-1, 5, 300))
    levels = np.logspace(-1, 4, 14)
    axes.contour(x, y, problem.fun(np.stack([x, y], axis=-1)), levels, colors=GREY, linewidths=0.6)
    runs = (("gd", {}, ORANGE, "GD"), ("slgh_r", {"t1": 1.5, "gamma": 0.999}, BLUE, "SLGH_r"))
    for method, params, colour, label in runs:
        run = slgh.minimize(problem.smooth, problem.x0, method=method, step=1e-4, max_iter=20000, history="x", **params)
        axes.plot(*run.history["x"].T, color=colour, lw=1.8, label=f"{label}: f = {run.fun:.3f}")
        axes.plot(*run.x, "o", color=colour)
    axes.plot(1, 1, "*", color="black", ms=10)
    axes.set(xlabel="x", ylabel="y", title="Rosenbrock, 20,000 steps from (-3, 2)")
    axes.legend(loc="lower left", fontsize=8)


figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
draw_smoothing(left)
draw_rosenbrock(right)
figure.savefig("homotopy.png", dpi=130)
print("homotopy.png")
