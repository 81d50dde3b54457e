"""Train a network that has no gradient, by forward passes alone: ZOSLGH. Draws train_without_gradients.png and its dark
variant.

The network classifies scikit-learn's digits. Its hidden layers output signs, so that the derivative of the loss is 0
almost everywhere, and backpropagation learns nothing in them.

Needs PyTorch, scikit-learn and matplotlib: pip install "slgh[torch,sklearn,plot]". A number after the command replaces
the number of steps.
"""

import sys

import matplotlib as mpl

mpl.use("Agg")
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy

from slgh.integrations.torch import ZOSLGH
from slgh.plotting.style import METHOD_COLORS, new_figure, readable, style

TRAIN, BATCH = 1400, 128
EVERY = 100
"""Steps from one test to the next."""

COLORS = {"ZOSLGH": METHOD_COLORS["auto"], "backpropagation": METHOD_COLORS["gd"]}


class Sign(nn.Module):
    def forward(self, x):
        return torch.where(x > 0, 1.0, -1.0)


def make_network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 64), Sign(), nn.Linear(64, 32), Sign(), nn.Linear(32, 10))


def train(name, steps):
    """Return the forward passes and the test accuracies of a run."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    x, y = torch.tensor(images[order] / 16, dtype=torch.float32), torch.tensor(labels[order])
    model, g = make_network(), torch.Generator().manual_seed(0)
    if name == "ZOSLGH":
        base = torch.optim.SGD(model.parameters(), lr=1e-3)
        optimizer = ZOSLGH(base, t1=1.0, total_steps=steps, seed=0)
    else:
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    passes, accuracies = [], []
    for step in range(steps + 1):
        if step % EVERY == 0:
            with torch.no_grad():
                accuracies.append(float((model(x[TRAIN:]).argmax(1) == y[TRAIN:]).float().mean()))
            passes.append(2 * step)
        rows = torch.randint(TRAIN, (BATCH,), generator=g)

        def closure(rows=rows):
            loss = cross_entropy(model(x[rows]), y[rows])
            if name != "ZOSLGH":
                optimizer.zero_grad()
                loss.backward()
            return loss

        optimizer.step(closure)
    return np.array(passes), np.array(accuracies)


def draw(runs, *, dark):
    """Plot the test accuracies."""
    with style(dark=dark):
        figure = new_figure(3.6)
        ax = figure.subplots()
        for name, (passes, accuracies) in runs.items():
            label = f"{name}: {accuracies[-1]:.1%}"
            ax.plot(passes, accuracies, color=readable(COLORS[name]), label=label)
        ax.set(xlabel="forward passes (for backpropagation, also backward)", ylabel="test accuracy", ylim=(0, 1))
        ax.legend(loc="lower right")
    return figure


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    torch.set_num_threads(1)
    runs = {name: train(name, steps) for name in COLORS}
    for name, (passes, accuracies) in runs.items():
        print(f"{name:16} {accuracies[-1]:.1%} after {passes[-1]:,} forward passes")
    for suffix, dark in (("", False), ("_dark", True)):
        draw(runs, dark=dark).savefig(f"train_without_gradients{suffix}.png", dpi=150)


if __name__ == "__main__":
    main()
