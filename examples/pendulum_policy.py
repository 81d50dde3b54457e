"""Learn to swing up a pendulum: the weights of a policy with six features, from the costs of episodes alone.

Trains by slgh and, if pycma is installed, by CMA-ES from the same small random weights, with several seeds. slgh plans
by its budget, so it also gets half of it. Draws pendulum_policy.png and pendulum_policy_dark.png.

Needs Gymnasium and matplotlib: pip install "slgh[gymnasium,plot]". Run it with: python examples/pendulum_policy.py
Two numbers after the command replace the evaluations per run and the number of seeds.
"""

import sys

import gymnasium
import matplotlib as mpl

mpl.use("Agg")
import numpy as np

import slgh
from slgh.plotting.style import METHOD_COLORS, faint, ink, new_figure, readable, style

D = 6
"""Number of weights."""

TRAINING, TEST = range(6), range(100, 120)
"""Seeds of the first states of episodes."""

STEPS_PER_SECOND = 20
"""Steps of the simulation."""


def torque(weights, observation):
    """Return the action of the policy: a bounded linear function of six features."""
    cos, sin, velocity = observation / [1.0, 1.0, 8.0]
    features = [cos, sin, velocity, sin * cos, velocity * cos, velocity**3]
    return 2 * np.tanh(5 * np.dot(weights, features))[None]


def episodes(weights, seeds):
    """Return the total costs (k,) of episodes, and the angles to the upright position in degrees, (k, steps)."""
    env, costs, angles = gymnasium.make("Pendulum-v1"), [], []
    for seed in seeds:
        observation, _ = env.reset(seed=seed)
        total, path, ended = 0.0, [], False
        while not ended:
            path.append(np.arctan2(observation[1], observation[0]))
            observation, reward, terminated, truncated, _ = env.step(torque(weights, observation))
            total -= float(reward)
            ended = terminated or truncated
        costs.append(total)
        angles.append(np.rad2deg(np.unwrap(path)))
    env.close()
    return np.array(costs), np.array(angles)


def cost(weights, seeds=TRAINING):
    """Return the mean cost of episodes that begin at the same states for all weights."""
    return float(episodes(weights, seeds)[0].mean())


def first_weights(seed):
    """Return small random weights, (D,)."""
    return 0.1 * np.random.default_rng(seed).standard_normal(D)


class Recorded:
    """The cost of the training episodes, with the lowest value after each evaluation."""

    def __init__(self):
        self.lowest, self.best = [], np.zeros(D)

    def __call__(self, weights):
        value = cost(weights)
        if not self.lowest or value < self.lowest[-1]:
            self.best = np.array(weights)
        self.lowest.append(min([value, *self.lowest[-1:]]))
        return value


def by_slgh(f, max_evals, seed):
    slgh.minimize(f, first_weights(seed), t1=1.0, max_evals=max_evals, seed=seed)


def by_cma(f, max_evals, seed):
    import cma

    start, restarts = first_weights(seed), 0
    while len(f.lowest) < max_evals:
        es = cma.CMAEvolutionStrategy(start, 1.0, {"seed": 100 * seed + restarts + 1, "verbose": -9})
        while not es.stop() and len(f.lowest) < max_evals:
            points = es.ask()[: max_evals - len(f.lowest)]
            values = [f(x) for x in points]
            if len(points) == es.popsize:
                es.tell(points, values)
        restarts += 1  # it has converged: begin again from a random point
        start = np.random.default_rng([seed, restarts]).standard_normal(D)


def compare(max_evals, repeats):
    """Return the runs of each method, as `Recorded`."""
    methods = {
        f"slgh, {max_evals // 2} evaluations": (by_slgh, max_evals // 2),
        f"slgh, {max_evals} evaluations": (by_slgh, max_evals),
    }
    try:
        import cma  # noqa: F401
    except ImportError:
        pass
    else:
        methods["CMA-ES"] = by_cma, max_evals
    found = {}
    for name, (optimize, budget) in methods.items():
        found[name] = [Recorded() for _ in range(repeats)]
        for seed, f in enumerate(found[name]):
            optimize(f, budget, seed)
            f.lowest += f.lowest[-1:] * (budget - len(f.lowest))  # a run may end before its budget is spent
    return found


def draw(runs, weights, *, dark):
    """Plot the angles of test episodes under a policy (left), and the progress of all runs (right)."""
    with style(dark=dark):
        figure = new_figure(3.0, 8.0)
        left, right = figure.subplots(1, 2, width_ratios=(1.15, 1))
        draw_episodes(left, weights)
        looks = (("slgh_d", "-."), ("auto", "-"), ("cma", "--"))
        for (name, tried), (method, dash) in zip(runs.items(), looks, strict=False):
            color, curves = readable(METHOD_COLORS[method]), np.array([f.lowest for f in tried])
            evals = np.arange(1, curves.shape[1] + 1)
            right.plot(evals, curves.T, color=color, alpha=faint(0.3), linewidth=0.8)
            right.plot(evals, np.median(curves, axis=0), dash, color=color, linewidth=2.2, label=name)
        right.set(xlabel="evaluations", ylabel="lowest mean cost", xlim=(0, curves.shape[1]), yscale="log")
        right.set_yticks(ticks := [tick for tick in (150, 200, 300, 500, 1000) if tick > right.get_ylim()[0]], ticks)
        right.set_yticks([], minor=True)
        right.legend(frameon=False)
        right.set_title(f"{len(tried)} seeds, and the median")
    return figure


def draw_episodes(ax, weights):
    """Draw the angles of test episodes, without torque and under a policy."""
    for policy, color, alpha in (
        (np.zeros(D), ink(), faint(0.25)),
        (weights, readable(METHOD_COLORS["auto"]), 0.8),
    ):
        angles = episodes(policy, TEST)[1]
        angles -= 360 * np.round(angles[:, -1:] / 360)  # upright is 0, and not a multiple of 360
        seconds = np.arange(angles.shape[1]) / STEPS_PER_SECOND
        ax.plot(seconds, angles.T, color=color, alpha=alpha, linewidth=0.9)
        ax.plot([], [], color=color, alpha=max(alpha, 0.5), label="learned policy" if policy.any() else "no torque")
    ax.set(xlabel="seconds", ylabel="angle to the upright position", xlim=(0, 10), ylim=(-400, 520))
    ax.set_yticks(range(-360, 361, 180), [f"{a}°" for a in range(-360, 361, 180)])
    ax.legend(loc="upper right", ncols=2, framealpha=0.9, edgecolor="none")
    ax.set_title(f"{len(TEST)} initial states that the training has not seen")


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:3]]
    max_evals, repeats = given + [600, 5][len(given) :]
    runs = compare(max_evals, repeats)
    print(f"Mean cost of an episode, median of {repeats} seeds:")
    print(f"{'':24}{'training':>10}{'test':>8}")
    print(f"{'without torque':24}{cost(np.zeros(D)):10.0f}{cost(np.zeros(D), TEST):8.0f}")
    for name, tried in runs.items():
        trained, tests = np.median([f.lowest[-1] for f in tried]), [cost(f.best, TEST) for f in tried]
        print(f"{name:24}{trained:10.0f}{np.median(tests):8.0f}")
    ranked = sorted(runs[f"slgh, {max_evals} evaluations"], key=lambda f: f.lowest[-1])
    for dark in (False, True):
        figure = draw(runs, ranked[len(ranked) // 2].best, dark=dark)
        figure.savefig(f"pendulum_policy{'_dark' * dark}.png", dpi=150, metadata={"Software": None})
