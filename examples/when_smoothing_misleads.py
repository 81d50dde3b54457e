"""Draw functions on which Gaussian homotopy fails: misleads_*.png.

Each function below measures one failure, draws it, and prints the result in a line. docs/when_smoothing_misleads.md
explains the reasons, the symptoms and the remedies.
"""

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize as scipy_minimize

import slgh
from slgh.plotting.style import METHOD_COLORS, lighter
from slgh.problems.wells import Wells
from slgh.smoothing import Quadrature

AUTO, SLGH_R, SLGH_D, GRADOPT, LBFGS = (
    METHOD_COLORS[name] for name in ("auto", "slgh_r", "slgh_d", "gradopt", "lbfgsb")
)
BLACK, ORANGE, SKY, GREEN, BLUE, RED, PINK = "black", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7"
"""Colors of Okabe and Ito, which are safe for color-blind readers."""

CONTOURS = {"colors": "0.7", "linewidths": 0.7}


def panels(titles, **options):
    """Create a figure 1200 pixels wide with a panel for each title."""
    figure, axes = plt.subplots(1, len(titles), figsize=(8, 3.3), layout="constrained", **options)
    for ax, title in zip(axes, titles, strict=True):
        ax.set_title(title, fontsize=9.5)
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=8)
        ax.xaxis.label.set_size(9)
        ax.yaxis.label.set_size(9)
    return figure, axes


def legend(ax, **where):
    """Add a legend with a white background."""
    ax.legend(fontsize=8, edgecolor="none", framealpha=0.85, **where)


def at(F, x, t):
    """Evaluate F at points of one variable, all at the same t."""
    return F.value(x[:, None], np.full(len(x), float(t)))


def himmelblau():
    """The double loop spends its iterations at the minimum of a function that is not f."""
    problem = slgh.problems.himmelblau()
    common = {"step": 1e-4, "t1": 2.0, "history": "x"}
    inner = {"rule": "F", "eps0": 1e-3, "n0": 50}
    double = slgh.minimize(problem.smooth, problem.x0, method="gradopt", gamma=0.8, max_iter=5000, **inner, **common)
    single = slgh.minimize(problem.smooth, problem.x0, method="slgh_r", gamma=0.999, max_iter=3000, **common)

    way, x = [], double.history["x"][1000]
    for t in np.linspace(2, 0, 41):
        for _ in range(100):
            x = x - 4e-3 * problem.smooth.grad(x, np.asarray(t))
        way.append(x)
    way = np.array(way)

    figure, (left, right) = panels(["Himmelblau's function, 2,000 steps from (5, 5)", "f over the iterations"])
    grid = np.stack(np.meshgrid(np.linspace(-1, 5.4, 200), np.linspace(-2, 5.4, 200)), axis=-1)
    left.contour(grid[..., 0], grid[..., 1], problem.fun(grid), np.geomspace(2, 600, 11), **CONTOURS)
    left.plot(*way.T, color=BLACK, ls=":", lw=2.2, label="minima of F(., t), t from 2 to 0")
    for run, color, name in ((double, GRADOPT, "GradOpt 0.8"), (single, SLGH_R, "SLGH_r 0.999")):
        left.plot(*run.history["x"][:2000].T, color=color, lw=1.6, label=name)
        left.plot(*run.history["x"][1999], "o", color=color, ms=5)
        right.plot(run.history["fun"], color=color, lw=1.6, label=name)
    left.plot(-0.271, -0.923, "x", color=BLACK)
    left.annotate("maximum", (-0.271, -0.923), (4, -11), textcoords="offset points", fontsize=8)
    left.set(xlabel="x", ylabel="y", xlim=(-1, 5.4), ylim=(-2, 5.4))
    legend(left, loc="upper left")
    right.axvline(2000, color=BLACK, lw=0.8, ls="--")
    right.annotate("T of the paper", (2000, 2e-3), (5, 0), textcoords="offset points", fontsize=8)
    right.set(xlabel="iteration", yscale="log", ylim=(1e-3, 2e3))
    legend(right, loc="upper right")

    waiting = int(np.sum(double.history["t"] == 2.0))
    f = {name: run.history["fun"] for name, run in (("double", double), ("single", single))}
    return figure, (
        f"GradOpt spends {waiting} iterations at t = 2 and has f = {f['double'][2000]:.2f} after 2,000 (SLGH_r: "
        f"{f['single'][2000]:.2f}), {f['double'][-1]:.3f} after 5,000"
    )


def hole():
    """A hole that strong smoothing fills: the value of t when x passes the hole decides."""
    problem = slgh.problems.hole()
    F = Quadrature(problem.fun, nodes=24)
    common = {"t1": 5.0, "step": 0.01, "max_iter": 1000, "history": "x"}
    runs = {
        "SLGH_r 0.995": (lighter(SLGH_R, 0.45), slgh.minimize(F, problem.x0, method="slgh_r", gamma=0.995, **common)),
        "SLGH_r 0.999": (SLGH_R, slgh.minimize(F, problem.x0, method="slgh_r", gamma=0.999, **common)),
        "SLGH_d": (SLGH_D, slgh.minimize(F, problem.x0, method="slgh_d", eta=0.01, floor=0.02, **common)),
    }
    figure, (left, right) = panels(["F along the axis y = 0", "x and t over the iterations"])
    x = np.linspace(-12, 17, 400)
    line = np.stack([x, 0 * x], axis=-1)
    for t, shade in ((5, 0.8), (3, 0.65), (2, 0.5), (1, 0.35)):
        left.plot(x, F.value(line, np.full(len(x), float(t))), color=str(shade), lw=1.2, label=f"t = {t}")
    left.plot(x, problem.fun(line), color=BLACK, lw=1.6, label="f")
    left.set(xlabel="x", ylabel="F(x, 0, t)", ylim=(-65, 160))
    legend(left, loc="upper left")
    right.axvspan(8.3, 10.3, color="0.92")
    right.annotate("the hole", (9.3, 6.2), fontsize=8, ha="center")
    for name, (color, run) in runs.items():
        right.plot(run.history["x"][:, 0], run.history["t"], color=color, lw=1.6)
        right.plot(run.x[0], run.t, "o", color=color, ms=5)
        right.annotate(name, (run.x[0], run.t), (0, -13), textcoords="offset points", fontsize=8, ha="center")
    right.set(xlabel="x", ylabel="t", yscale="log", xlim=(-8, 16), ylim=(0.009, 8))
    return figure, ", ".join(f"{name}: f = {run.fun:.3f}" for name, (_, run) in runs.items())


def narrow():
    """A narrow deep well beside a broad shallow one: smoothing weights depth by volume."""
    depth, width, apart = np.array([1.0, 0.6]), np.array([0.4, 1.6]), 4.0

    def pair(d):
        centers = np.zeros((2, d))
        centers[1, 0] = apart
        return Wells(centers, width, depth)

    figure, (left, right) = panels(["One variable", "Smoothed depth, narrow well over broad one"])
    x, t = np.linspace(-3, 9, 500), np.linspace(0, 1.5, 400)
    for radius, shade in ((1.2, 0.75), (0.6, 0.55), (0.3, 0.35)):
        left.plot(x, at(pair(1), x, radius), color=str(shade), lw=1.2, label=f"t = {radius:g}")
    left.plot(x, at(pair(1), x, 0), color=BLACK, lw=1.6, label="f")
    left.set(xlabel="x", ylabel="F(x, t)", ylim=(-1.1, 0.1))
    legend(left, loc="lower right")
    told = []
    for d, color in ((1, SKY), (2, GREEN), (5, ORANGE), (10, RED)):
        narrowed, broad = (w * (s**2 / (s**2 + t**2)) ** (d / 2) for w, s in zip(depth, width, strict=True))
        right.plot(t, narrowed / broad, color=color, lw=1.6, label=f"d = {d}")
        turns = t[np.argmax(narrowed < broad)]
        start = np.eye(d)[0]
        ends = [
            slgh.minimize(pair(d), start, method="slgh_r", t1=t1, gamma=0.98, step=0.1, max_iter=500, history=0).x[0]
            for t1 in (0.1, 1.0)
        ]
        told.append(
            f"d = {d}: order turns at t = {turns:.2f}, x ends at {ends[0]:.2f} (t1 = 0.1), {ends[1]:.2f} (t1 = 1)"
        )
    right.axhline(1, color=BLACK, lw=0.8)
    right.set(xlabel="t", ylabel="ratio of depths of F", yscale="log", ylim=(1e-3, 3))
    legend(right, loc="lower left", ncols=2)
    return figure, "; ".join(told)


def flat():
    """A bounded function far from its wells: the gradient of F vanishes at every radius, and so does a fixed step."""
    figure, (left, right) = panels(
        ["Gradient of F at the start, 6 from the well", "Way of SLGH_r, 500 iterations, step 0.1"]
    )
    radii, told = np.geomspace(0.2, 30, 60), []
    for d, color in ((2, GREEN), (5, ORANGE), (10, RED)):
        problem = slgh.problems.wells(d)
        start = 6 * np.eye(d)[0]
        slopes = problem.smooth.grad(np.tile(start, (len(radii), 1)), radii)
        left.plot(radii, np.linalg.norm(slopes, axis=-1), color=color, lw=1.6, label=f"d = {d}")
        ways = []
        for t1 in (tried := np.geomspace(0.5, 20, 4)):
            end = slgh.minimize(
                problem.smooth, start, method="slgh_r", t1=t1, gamma=0.99, step=0.1, max_iter=500, history=0
            )
            ways.append(np.linalg.norm(end.x - start))
        right.plot(tried, ways, "o-", color=color, lw=1.6, ms=4, label=f"d = {d}")
        auto = slgh.minimize(problem.fun, start, t1=2.0, max_evals=2000, seed=0, vectorized=True, history=0)
        told.append(f"d = {d}: SLGH_r moves at most {max(ways):.2g}, auto finds f = {auto.fun:.3f}")
    left.set(xlabel="t", ylabel="|grad F|", xscale="log", yscale="log", ylim=(1e-12, 1))
    right.axhline(6, color=BLACK, lw=0.8)
    right.annotate("the deep well", (0.5, 6), (0, -11), textcoords="offset points", fontsize=8)
    right.set(xlabel="t1", ylabel="distance from the start", xscale="log", yscale="log", ylim=(1e-6, 30))
    legend(left, loc="lower left")
    legend(right, loc="lower right")
    return figure, "; ".join(told)


class Walls:
    """f(x) = exp(3x) + exp(-x) and its smoothing. The minimum lies at -log(3)/4 - t^2."""

    def value(self, x, t):
        return np.exp(3 * x[..., 0] + 4.5 * t * t) + np.exp(-x[..., 0] + t * t / 2)

    def grad(self, x, t):
        s = (t * t)[..., None]
        return 3 * np.exp(3 * x + 4.5 * s) - np.exp(-x + s / 2)

    def trace(self, x, t):
        return 9 * np.exp(3 * x[..., 0] + 4.5 * t * t) + np.exp(-x[..., 0] + t * t / 2)

    def dt(self, x, t):
        return t * self.trace(x, t)


def walls():
    """Steep walls dominate F: its minimum moves away from them, and the step size of f is too long for F."""
    F, best = Walls(), -np.log(3) / 4
    logarithm = Quadrature(lambda x: np.log(np.exp(3 * x[..., 0]) + np.exp(-x[..., 0])))
    common = {"method": "slgh_r", "gamma": 0.97, "max_iter": 300, "history": "x"}
    with np.errstate(over="ignore"):
        runs = {
            "t1 = 0.5": (GREEN, slgh.minimize(F, [0.5], t1=0.5, step=0.05, **common)),
            "t1 = 1": (RED, slgh.minimize(F, [0.5], t1=1.0, step=0.05, **common)),
            "t1 = 2, log f": (BLUE, slgh.minimize(logarithm, [0.5], t1=2.0, step=0.5, **common)),
        }
    figure, (left, right) = panels(["f and F, and where their minima are", "x over the iterations"])
    x = np.linspace(-3, 1.2, 300)
    for t, shade in ((1.25, 0.75), (1, 0.6), (0.5, 0.4), (0, 0.0)):
        left.plot(x, at(F, x, t), color=str(shade), lw=1.6 if t == 0 else 1.2, label="f" if t == 0 else f"t = {t:g}")
        low = np.array([best - t * t])
        left.plot(low, at(F, low, t), "o", color=str(shade), ms=5)
    left.set(xlabel="x", ylabel="F(x, t)", yscale="log", ylim=(1, 300), xlim=(-3, 1.2))
    legend(left, loc="lower left")
    for name, (color, run) in runs.items():
        right.plot(run.history["x"][:, 0], color=color, lw=1.6, label=name)
    right.axhline(best, color=BLACK, lw=0.8)
    right.annotate("minimum of f", (45, best), (0, 4), textcoords="offset points", fontsize=8)
    right.set(xlabel="iteration", ylabel="x", xlim=(-1, 60), ylim=(-3, 3))
    legend(right, loc="upper right")
    told = ", ".join(f"{name}: {run.status.name}, x = {run.x[0]:.3g}" for name, (_, run) in runs.items())
    return figure, f"{told}; the minimum is {best:.4f}"


def waves():
    """A wave whose height varies: at radii above the wavelength its mean is 0, and the deepest trough is lost."""

    def packet(x):
        return -np.cos(2 * np.pi * x[..., 0]) * np.exp(-(x[..., 0] ** 2) / 8)

    def sharpened(x):
        return -np.exp(-4 * (packet(x) + 1))

    starts = np.linspace(-4, 4, 33)[:, None]
    plain = slgh.minimize(
        Quadrature(packet),
        starts,
        batched=True,
        method="slgh_r",
        t1=1.0,
        gamma=0.98,
        step=0.02,
        max_iter=300,
        history=0,
    )
    common = {"batched": True, "vectorized": True, "t1": 2.0, "max_evals": 1000, "seed": 0, "history": 0}
    auto, changed = slgh.minimize(packet, starts, **common), slgh.minimize(sharpened, starts, **common)

    figure, (left, right) = panels(["f, and -exp(-4(f + 1)), smoothed", "Where 33 runs end"])
    x = np.linspace(-5, 5, 1000)
    left.plot(x, packet(x[:, None]), color=BLACK, lw=1.0, label="f")
    left.plot(x, at(Quadrature(packet), x, 0.5), color=RED, lw=1.8, label="f, t = 0.5")
    left.plot(x, 4 * at(Quadrature(sharpened), x, 0.5), color=BLUE, lw=1.8, ls="--", label="4 x sharpened, t = 0.5")
    left.set(xlabel="x", ylabel="F(x, t)", ylim=(-1.1, 1.6))
    legend(left, loc="upper right")
    for run, color, mark, name in (
        (plain, SLGH_R, "o", "SLGH_r on f"),
        (auto, lighter(AUTO, 0.45), "s", "auto on f"),
        (changed, AUTO, "^", "auto, sharpened"),
    ):
        right.plot(starts, run.x, mark, color=color, ms=4, mfc="none", label=name)
    right.set(xlabel="start", ylabel="end", ylim=(-4.5, 7))
    legend(right, loc="upper left")
    ends = {"SLGH_r": plain, "auto": auto, "auto on the sharpened f": changed}
    told = ", ".join(f"{name} {np.mean(np.abs(run.x) < 0.5):.0%}" for name, run in ends.items())
    return figure, f"share of 33 starts that end in the deepest well: {told}"


def valley(x):
    """Falls gently to 0.2 and rises steeply behind it."""
    return np.where(x[..., 0] < 0.2, 0.5 * (0.2 - x[..., 0]), 8 * (x[..., 0] - 0.2) + 20 * (x[..., 0] - 0.2) ** 2)


def box():
    """A minimum near the wall of a box: smoothing pushes it outside, and reflection holds it at the wall."""

    def mirrored(x):
        inside = np.mod(x, 2)
        return valley(np.minimum(inside, 2 - inside))

    free, held = Quadrature(valley, nodes=400), Quadrature(mirrored, nodes=400)
    x, radii = np.linspace(-1, 1.2, 441), np.linspace(0.01, 0.4, 40)
    lows = [x[np.argmin(at(free, x, t))] for t in radii]
    kept = x[(x >= 0) & (x <= 1)]
    held_lows = [kept[np.argmin(at(held, kept, t))] for t in radii]

    outside = []
    for bounds in (None, [(0, 1)]):
        seen = []

        def looked_at(x, seen=seen):
            seen.append(np.ravel(x))
            return valley(x)

        run = {"method": "zoslgh_r", "t1": 0.25, "gamma": 0.99, "step": 0.002, "samples": 10, "max_iter": 400}
        end = slgh.minimize(looked_at, [0.5], bounds=bounds, vectorized=True, seed=0, history=0, **run)
        points = np.concatenate(seen)
        outside.append((np.mean((points < 0) | (points > 1)), end.x[0]))

    figure, (left, right) = panels(["f, with and without mirrors, and F at t = 0.2", "Where the minimum of F lies"])
    left.axvspan(0, 1, color="0.93")
    left.plot(x, valley(x[:, None]), color=RED, lw=1)
    left.plot(x, mirrored(x[:, None]), color=BLUE, lw=1, ls="--")
    left.plot(x, at(free, x, 0.2), color=RED, lw=2)
    left.plot(x, at(held, x, 0.2), color=BLUE, lw=2, ls="--")
    left.set(xlabel="x", ylabel="f and, thick, F", ylim=(-0.3, 8), xlim=(-1, 1.2))
    for text, where in (("f as it goes on", (-0.97, 0.8)), ("f mirrored", (-0.4, 4.5)), ("the box", (0.7, 0.3))):
        left.annotate(text, where, fontsize=8)
    right.axhspan(0, 1, color="0.93")
    right.plot(radii, lows, color=RED, lw=1.6, label="without bounds")
    right.plot(radii, held_lows, color=BLUE, lw=1.6, ls="--", label="with bounds")
    right.axhline(0.2, color=BLACK, lw=0.8)
    right.annotate("minimum of f", (0.25, 0.2), (0, 3), textcoords="offset points", fontsize=8)
    right.set(xlabel="t", ylabel="x", ylim=(-0.9, 1))
    legend(right, loc="lower left")
    told = [
        f"{name}: {share:.0%} of the points lie outside, x ends at {end:.3f}"
        for name, (share, end) in zip(("without bounds", "with bounds"), outside, strict=True)
    ]
    return figure, "; ".join(told)


def cooling():
    """If t decays too fast, x stays in a ripple. If it decays too slowly, the run ends before t is small."""
    problem, gammas, T = slgh.problems.ackley(10), 1 - np.geomspace(0.1, 1e-4, 10), 500
    starts = np.tile(problem.x0, (8, 1))
    common = {"batched": True, "vectorized": True, "seed": 0, "history": 0}
    ends = []
    for gamma in gammas:
        run = {"method": "zoslgh_r", "t1": 2.0, "gamma": gamma, "step": 0.05, "samples": 20, "max_iter": T}
        ends.append(np.quantile(slgh.minimize(problem.fun, starts, **run, **common).fun, (0.1, 0.5, 0.9)))
    low, middle, high = np.array(ends).T
    auto = float(np.median(slgh.minimize(problem.fun, starts, t1=2.0, max_evals=21 * T, **common).fun))

    figure, (left, right) = panels(["Ackley's function, d = 10, 500 iterations", "The last radius"])
    left.fill_between(1 - gammas, low, high, color=SLGH_R, alpha=0.25, lw=0)
    left.plot(1 - gammas, middle, "o-", color=SLGH_R, ms=4, lw=1.6, label="ZOSLGH_r, step 0.05")
    left.axhline(auto, color=AUTO, ls="--", lw=1.6, label="auto, as many evaluations")
    left.annotate("too slow", (3e-4, 7), fontsize=8, ha="center")
    left.annotate("too fast", (4e-2, 6), fontsize=8, ha="center")
    left.set(xlabel="1 - gamma", ylabel="f at the end", xscale="log", ylim=(-0.5, 14))
    legend(left, loc="upper left")
    right.plot(1 - gammas, np.maximum(2 * gammas**T, 1e-12), "o-", color=SLGH_R, ms=4, lw=1.6)
    right.axhline(1, color=BLACK, lw=0.8)
    right.annotate("ripples' wavelength", (1.2e-4, 1), (0, -12), textcoords="offset points", fontsize=8)
    right.set(xlabel="1 - gamma", ylabel="t at the end", xscale="log", yscale="log", ylim=(1e-12, 30))
    best = int(np.argmin(middle))
    return figure, (
        f"f = {middle[0]:.2f} with gamma = {gammas[0]:.2g}, {middle[best]:.2f} with {gammas[best]:.4f}, "
        f"{middle[-1]:.2f} with {gammas[-1]:.4f}; auto: {auto:.1e}"
    )


def noise():
    """Error with ten directions: rounding at small t, the number of variables above, and the curvature at large t."""
    rng, radii, M = np.random.default_rng(0), np.geomspace(1e-7, 3, 40), 10
    figure, (left, right) = panels(["Forward differences", "Antithetic pairs"], sharey=True)
    told = []
    for d, color in ((3, GREEN), (30, ORANGE), (300, RED)):
        x = np.full(d, d**-0.5, np.float32)

        def f(p):
            return np.float32(10) + np.sum(p * p, axis=-1, dtype=np.float32) / np.float32(2)

        errors = {left: [], right: []}
        for t in radii.astype(np.float32):
            u = rng.standard_normal((40, M, d)).astype(np.float32)
            up, down = f(x + t * u), f(x - t * u)
            for ax, slope in ((left, (up - f(x)) / t), (right, (up - down) / (2 * t))):
                g = np.mean(slope[..., None] * u, axis=1)
                errors[ax].append(np.sqrt(np.mean(np.sum((g - x) ** 2, axis=-1))))
        for ax, error in errors.items():
            ax.plot(radii, error, color=color, lw=1.6, label=f"d = {d}")
            ax.axhline(((d + 1) / M) ** 0.5, color=color, lw=0.8, ls=":")
        middle = errors[left][int(np.argmin(np.abs(radii - 1e-3)))]
        told.append(f"d = {d}: {middle:.1f} at t = 1e-3, {errors[left][-1]:.0f} at t = 3")
    for ax in (left, right):
        ax.set(xlabel="t", xscale="log", yscale="log", ylim=(0.3, 5e3))
    left.set_ylabel("error of the gradient / its length")
    left.annotate("rounding", (1.1e-7, 0.36), fontsize=8)
    left.annotate("number of variables", (2e-6, 9), fontsize=8)
    left.annotate("curvature", (0.012, 300), fontsize=8, ha="right")
    legend(left, loc="upper left")
    return figure, "float32, f about 10, |grad f| = 1, M = 10: error " + "; ".join(told)


def conditioning():
    """A smoothed quadratic is the quadratic plus a constant: its long valley stays long."""
    d, evals = 10, 3000
    figure, (left, right) = panels(["f and F(., 1): the same contours", f"{d} variables, {evals} evaluations"])
    grid = np.stack(np.meshgrid(np.linspace(-2, 2, 100), np.linspace(-2, 2, 100)), axis=-1)
    ellipses = Quadrature(lambda x: (x[..., 0] ** 2 + 30 * x[..., 1] ** 2) / 2, nodes=8)
    levels = np.array([0.5, 2, 8, 20, 40])
    for t, color, style in ((0.0, BLACK, "solid"), (1.0, RED, "dashed")):
        F = ellipses.value(grid, np.full(grid.shape[:-1], t))
        left.contour(grid[..., 0], grid[..., 1], F - F.min(), levels, colors=color, linestyles=style, linewidths=1.3)
    left.set(xlabel="x", ylabel="y", ylim=(-2, 2.7))
    left.plot([], [], color=BLACK, label="f")
    left.plot([], [], color=RED, ls="--", label="F(., 1) - min F")
    legend(left, loc="upper right")
    conditions = 10.0 ** np.arange(0, 7, 2)
    ends = {"auto": [], "auto, then L-BFGS": [], "L-BFGS": []}
    for condition in conditions:
        scale = condition ** np.linspace(0, 1, d)

        def f(x, scale=scale):
            return np.sum(scale * x * x, axis=-1) / 2

        start = np.full(d, 3.0)
        auto = slgh.minimize(f, start, max_evals=evals, seed=0, vectorized=True, history=0)
        half = slgh.minimize(f, start, max_evals=evals // 2, seed=0, vectorized=True, history=0)
        polished, local = (
            scipy_minimize(f, x, method="L-BFGS-B", options={"maxfun": n - d, "maxiter": n, "ftol": 0, "gtol": 0})
            for x, n in ((half.x, evals // 2), (start, evals))
        )
        for name, value in zip(ends, (auto.fun, polished.fun, local.fun), strict=True):
            ends[name].append(value / f(start))
    for (name, values), color, mark in zip(ends.items(), (AUTO, lighter(AUTO, 0.45), LBFGS), "osv", strict=True):
        right.plot(conditions, np.maximum(values, 1e-25), mark + "-", color=color, lw=1.6, ms=5, label=name)
    right.set(
        xlabel="condition number", ylabel="f at the end / f at the start", xscale="log", yscale="log", ylim=(1e-20, 1e3)
    )
    legend(right, loc="upper left", ncols=3, columnspacing=1, handletextpad=0.4)
    told = ", ".join(f"{name} {listed(values)}" for name, values in ends.items())
    return figure, f"f / f(x0) for condition {listed(conditions)}: {told}"


def listed(values):
    return " / ".join(f"{value:.1g}" for value in values)


GALLERY = (himmelblau, hole, narrow, flat, walls, waves, box, cooling, noise, conditioning)

if __name__ == "__main__":
    for draw in GALLERY:
        figure, told = draw()
        figure.savefig(f"misleads_{draw.__name__}.png", dpi=150)
        plt.close(figure)
        print(f"misleads_{draw.__name__}.png: {told}.")
