"""Tune a neural network of scikit-learn over a mixed search space. Draws tune_scikit_learn.png and its dark variant.

The network classifies scikit-learn's digits. Its seven hyperparameters are real numbers, integers, ordered sizes and
categories. The objective is the cross-validated log loss on 500 images. The other 1,297 images are the test set. Random
search and, if it is installed, Optuna get as many evaluations.

Needs scikit-learn and matplotlib: pip install "slgh[sklearn,plot]". Two numbers after the command replace the
evaluations per run and the number of seeds.
"""

import sys
import warnings

import matplotlib as mpl

mpl.use("Agg")
import numpy as np
from matplotlib import colormaps
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.neural_network import MLPClassifier

import slgh
from slgh.plotting.style import METHOD_COLORS, background, faint, ink, is_dark, new_figure, readable, style
from slgh.space import Categorical, Float, Integer, Ordinal, Space

SPACE = {
    "layers": Integer(1, 4),
    "units": Ordinal([8, 16, 32, 64, 128]),
    "activation": Categorical(["relu", "tanh", "logistic"]),
    "solver": Categorical(["adam", "sgd"]),
    "learning rate": Float(1e-4, 1.0, log=True),
    "alpha": Float(1e-6, 10.0, log=True),
    "batch size": Ordinal([16, 32, 64, 128]),
}
LOOKS = {
    "slgh, auto": (METHOD_COLORS["auto"], "-"),
    "random search": (METHOD_COLORS["de"], ":"),
    "Optuna, TPE": (METHOD_COLORS["open_es"], "--"),
}
X, Y = load_digits(return_X_y=True)
X_TRAIN, X_TEST, Y_TRAIN, Y_TEST = train_test_split(X / 16, Y, train_size=500, stratify=Y, random_state=0)


def network(p):
    """Return the network with hyperparameters p, a tree like SPACE."""
    return MLPClassifier(
        [p["units"]] * p["layers"],
        activation=p["activation"],
        solver=p["solver"],
        learning_rate_init=p["learning rate"],
        alpha=p["alpha"],
        batch_size=p["batch size"],
        max_iter=20,
        random_state=0,
    )


def loss(p):
    """Return the cross-validated log loss. It is NaN if the training diverges."""
    scores = cross_val_score(network(p), X_TRAIN, Y_TRAIN, cv=3, scoring="neg_log_loss", error_score=np.nan)
    return float(-scores.mean())


def accuracy(p):
    """Return the accuracy on the test set."""
    return network(p).fit(X_TRAIN, Y_TRAIN).score(X_TEST, Y_TEST)


def by_slgh(f, evals, seed):
    start = Space(SPACE).sample(np.random.default_rng(seed))  # the middle, the default, would favor slgh
    slgh.minimize(f, SPACE, start=start, max_evals=evals, seed=seed)


def by_random_search(f, evals, seed):
    rng, space = np.random.default_rng(seed), Space(SPACE)
    for _ in range(evals):
        f(space.sample(rng))


def by_optuna(f, evals, seed):
    import optuna

    def objective(trial):
        tree = {}
        for name, parameter in SPACE.items():
            if isinstance(parameter, Categorical | Ordinal):
                tree[name] = trial.suggest_categorical(name, parameter.choices)
            elif isinstance(parameter, Integer):
                tree[name] = trial.suggest_int(name, parameter.low, parameter.high)
            else:
                tree[name] = trial.suggest_float(name, parameter.low, parameter.high, log=True)
        return f(tree)

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed)).optimize(objective, n_trials=evals)


class Recorded:
    """The loss, with all hyperparameters and values."""

    def __init__(self):
        self.trees, self.values = [], []

    def __call__(self, p):
        self.trees.append(p)
        self.values.append(loss(p))
        return self.values[-1]

    @property
    def best(self):
        return self.trees[int(np.nanargmin(self.values))]

    @property
    def lowest(self):
        return np.fmin.accumulate(self.values)


def compare(evals, repeats):
    """Return the runs of each method, as `Recorded`. Optuna is included if it is installed."""
    methods = {"slgh, auto": by_slgh, "random search": by_random_search}
    try:
        import optuna  # noqa: F401
    except ImportError:
        pass
    else:
        methods["Optuna, TPE"] = by_optuna
    found = {}
    for name, tune in methods.items():
        found[name] = [Recorded() for _ in range(repeats)]
        for seed, f in enumerate(found[name]):
            tune(f, evals, seed)
    return found


def draw(runs, *, dark):
    """Plot all networks that slgh has tried (top), and the progress of all runs (bottom)."""
    with style(dark=dark):
        figure = new_figure(5.6, 7.5)
        top, bottom = figure.subplots(2, 1, height_ratios=(1.15, 1))
        draw_networks(top, runs["slgh, auto"])
        draw_progress(bottom, runs)
    return figure


def draw_networks(ax, tried):
    """Draw each network as a line through its hyperparameters, low losses on top."""
    rng, names = np.random.default_rng(0), list(SPACE)
    trees, values = [p for f in tried for p in f.trees], np.array([v for f in tried for v in f.values])
    low, high = np.nanquantile(values, (0.0, 0.75))  # the few bad networks would leave one color to the others
    norm, colors = LogNorm(low, high), colormaps["viridis_r" if is_dark() else "viridis"]
    for i in np.argsort(-values, stable=True):
        if np.isfinite(values[i]):
            heights = [height(SPACE[name], trees[i][name]) for name in names]
            # Equal values of discrete parameters would hide each other.
            heights += rng.uniform(-0.025, 0.025, len(names))
            ax.plot(heights, color=colors(norm(values[i])), linewidth=1.1, alpha=0.8)
    best = trees[int(np.nanargmin(values))]
    ax.plot([height(SPACE[n], best[n]) for n in names], "-o", color="#E0245E", linewidth=2.2, markersize=5)
    box = {"facecolor": background(), "edgecolor": "none", "alpha": 0.75, "pad": 0.8}
    for x, parameter in enumerate(SPACE.values()):
        ax.axvline(x, color=ink(), linewidth=0.8, alpha=0.5)
        for choice in ends(parameter):
            label = f"{choice:g}" if isinstance(choice, float) else choice
            ax.text(x + 0.06, height(parameter, choice), label, fontsize=7, va="center", bbox=box, zorder=4)
    ax.set(xlim=(-0.1, len(names) - 0.4), ylim=(-0.06, 1.06), yticks=[])
    ax.set_xticks(range(len(names)), names)
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    bar = ax.figure.colorbar(ScalarMappable(norm, colors), ax=ax, label="log loss", aspect=30, extend="max")
    label_losses(bar.ax)


def ends(parameter):
    """Return the values that label the axis of a hyperparameter: its choices, or its bounds."""
    if isinstance(parameter, Categorical | Ordinal):
        return parameter.choices
    if isinstance(parameter, Integer):
        return range(parameter.low, parameter.high + 1)
    return parameter.low, parameter.high


def height(parameter, value):
    """Return the place of a value on the axis of its hyperparameter, from 0 to 1."""
    if isinstance(parameter, Categorical | Ordinal):
        return parameter.choices.index(value) / (len(parameter.choices) - 1)
    if isinstance(parameter, Integer):
        return (value - parameter.low) / (parameter.high - parameter.low)
    return np.log(value / parameter.low) / np.log(parameter.high / parameter.low)


def draw_progress(ax, runs):
    """Draw the lowest loss of all runs over the number of networks."""
    for name, tried in runs.items():
        color, dash = readable(LOOKS[name][0]), LOOKS[name][1]
        curves = np.array([f.lowest for f in tried])
        evals = np.arange(1, curves.shape[1] + 1)
        ax.plot(evals, curves.T, color=color, alpha=faint(0.3), linewidth=0.8)
        ax.plot(evals, np.median(curves, axis=0), dash, color=color, linewidth=2.2, label=name)
    ax.set(xlabel="networks tried", ylabel="lowest log loss", xlim=(1, curves.shape[1]), yscale="log")
    ax.legend(title=f"{len(curves)} seeds, and the median", frameon=False)
    label_losses(ax)


def label_losses(ax):
    """Label round numbers on a logarithmic axis of losses."""
    low, high = ax.get_ylim()
    ticks = [tick for tick in (0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7, 1, 2, 5, 10, 20, 50) if low <= tick <= high]
    ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.set_yticks([], minor=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore", ConvergenceWarning)  # 20 epochs are all that a network gets
    given = [int(word) for word in sys.argv[1:3]]
    evals, repeats = given + [60, 5][len(given) :]
    runs = compare(evals, repeats)
    print(f"Median of {repeats} runs with {evals} evaluations each:")
    print(f"{'':16}{'log loss':>10}{'test accuracy':>16}")
    for name, tried in runs.items():
        low, tests = np.median([f.lowest[-1] for f in tried]), [accuracy(f.best) for f in tried]
        print(f"{name:16}{low:10.3f}{np.median(tests):16.3f}")
    for dark in (False, True):
        draw(runs, dark=dark).savefig(f"tune_scikit_learn{'_dark' * dark}.png", dpi=110, metadata={"Software": None})
