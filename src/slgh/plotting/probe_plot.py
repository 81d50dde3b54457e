"""Plot what `probe` has found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slgh.plotting.style import new_figure
from slgh.probe import Probe

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_probe(found: Probe, ax: Axes | None = None) -> Axes:
    """Plot score, signal-to-noise ratio and curvature against t, and the recommended t1; return the Axes.

    The score is relative to the highest one, the signal-to-noise ratio to that of a linear function. The curvature has
    its own axis on the right.
    """
    if ax is None:
        ax = new_figure(4.8, 6.4).add_subplot()
    score = found.score / max(found.score.max(), np.finfo(float).tiny)
    snr, snr_se = (len(found.x) + 1) * found.snr, (len(found.x) + 1) * found.snr_se
    ax.plot(found.t, score, "o-", color="C0", label="score / best score")
    ax.errorbar(found.t, snr, snr_se, fmt="s--", color="C1", capsize=2, label="SNR / linear SNR")
    ax.axvline(found.t1, color="black", ls=":", label=f"t1 = {found.t1:.3g}")
    bars = snr + np.nan_to_num(snr_se)
    highest = min(np.max(bars, where=np.isfinite(bars), initial=1.3), 5.0)
    left = "score (of the best), SNR (of a linear f's)"
    ax.set(xscale="log", xlabel="radius t", ylabel=left, ylim=(-0.2, highest + 0.2))
    right, curvature = ax.twinx(), found.curvature
    right.errorbar(found.t, curvature, found.curvature_se, fmt="^-", color="C2", capsize=2, label="curvature")
    finite = np.isfinite(curvature)
    largest = np.max(np.abs(curvature), where=finite, initial=0.0)
    mean = np.mean(curvature, where=finite) if largest > 0 else 0.0
    if np.all(np.abs(curvature - mean) < 0.1 * largest):  # constant up to rounding
        right.set_ylim(*sorted((-0.1 * float(mean), 1.5 * float(mean))))
    else:
        right.set_yscale("symlog", linthresh=1e-3 * largest if largest > 0 else 1.0)
    right.set_ylabel("curvature tr Hess F / d", color="C2")
    handles = [h for axes in (ax, right) for h in axes.get_legend_handles_labels()[0]]
    # Above the frame: the curves leave no corner free.
    ax.legend(handles=handles, loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2, frameon=False, fontsize="small")
    return ax
