"""Train with gradients at perturbed weights: SLGH around Adam. Draws train_with_homotopy.png and its dark variant.

The problem is linear modal regression in ten variables. More than half of the points are outliers, and the loss is
bounded, so that points far from the plane have no gradient. Both methods start from the same 20 random weights and get
as many gradients.

Needs PyTorch and matplotlib: pip install "slgh[torch,plot]". A number after the command replaces the number of steps.
"""

import sys

import matplotlib as mpl

mpl.use("Agg")
import numpy as np
import torch

from slgh.integrations.torch import SLGH
from slgh.plotting.style import METHOD_COLORS, background, faint, ink, new_figure, readable, style

POINTS, VARIABLES, STARTS, WIDTH = 300, 10, 20, 0.3
FOUND = 0.05
"""Relative distance to the true weights up to which a start has found them."""

COLORS = {"Adam": METHOD_COLORS["gd"], "SLGH around Adam": METHOD_COLORS["auto"]}


def make_data():
    """Return inputs, targets and the true weights. 55 % of the targets follow other weights, with much noise."""
    g = torch.Generator().manual_seed(7)
    x = torch.randn(POINTS, VARIABLES, generator=g)
    true, other = torch.randn(VARIABLES, generator=g), torch.randn(VARIABLES, generator=g)
    outlier = torch.rand(POINTS, generator=g) < 0.55
    noise = torch.where(outlier, 3.0, 0.1) * torch.randn(POINTS, generator=g)
    return x, x @ true + outlier * (x @ other) + noise, true


def train(name, start, steps):
    """Return the relative distances to the true weights, and the radii t, over the steps."""
    x, y, true = make_data()
    w = torch.nn.Parameter(3 * torch.randn(VARIABLES, generator=torch.Generator().manual_seed(100 + start)))
    optimizer = torch.optim.Adam([w], lr=0.1)
    if name != "Adam":
        optimizer = SLGH(optimizer, t1=1.0, total_steps=steps, units="absolute", seed=start)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)

    def closure():
        optimizer.zero_grad()
        residual = x @ w - y
        loss = (1 - torch.exp(-(residual**2) / (2 * WIDTH**2))).mean()
        loss.backward()
        return loss

    distances, radii = [], []
    for _ in range(steps):
        distances.append(float((w.detach() - true).norm() / true.norm()))
        radii.append(getattr(optimizer, "t", 0.0))
        optimizer.step(closure)
        scheduler.step()
    return np.array(distances), np.array(radii)


def draw(runs, *, dark):
    """Plot the distances of all starts (top) and t (bottom) over the steps."""
    with style(dark=dark):
        figure = new_figure(5.0)
        top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
        for name, found in runs.items():
            color = readable(COLORS[name])
            ends = []
            for distances, _ in found:
                top.semilogy(distances, color=color, lw=0.9, alpha=faint(0.45))
                ends.append(distances[-1])
            share = sum(end < FOUND for end in ends)
            top.plot([], [], color=color, label=f"{name}: {share} of {STARTS} starts")
        bottom.semilogy(runs["SLGH around Adam"][0][1], color=readable(COLORS["SLGH around Adam"]))
        top.axhline(FOUND, color=ink(), lw=0.7, ls=":")
        top.set(ylabel="distance / |true weights|", ylim=(2e-3, 20))
        bottom.set(ylabel="t", xlabel="gradients")
        legend = top.legend(loc="lower left", title="weights found by")
        legend.get_frame().set_facecolor(background())
    return figure


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    torch.set_num_threads(1)
    runs = {name: [train(name, start, steps) for start in range(STARTS)] for name in COLORS}
    for name, found in runs.items():
        ends = [distances[-1] for distances, _ in found]
        print(
            f"{name:17} {sum(end < FOUND for end in ends):2} of {STARTS} starts, median distance {np.median(ends):.3f}"
        )
    for suffix, dark in (("", False), ("_dark", True)):
        draw(runs, dark=dark).savefig(f"train_with_homotopy{suffix}.png", dpi=150)


if __name__ == "__main__":
    main()
