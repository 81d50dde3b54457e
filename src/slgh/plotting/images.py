"""Figures of an attack: originals, adversarial images and differences; distortion and margin over the queries."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slgh.backends import backend_of
from slgh.checks import ArgumentValueError
from slgh.plotting.style import COLORS, DASHES, WIDTH, new_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from slgh.attack import AttackResult
    from slgh.attack.boundary.projection import Norm

COLUMNS = 8
"""Maximum number of images side by side."""

CELL_WIDTHS = (0.85, 1.3)
"""Minimum and maximum width of an image, in inches."""

MIN_WIDTH = 5.0
"""Minimum width of the figure, whose title has to fit, in inches."""

NORM_SYMBOLS = {"l2": "$L_2$", "linf": "$L_\\infty$"}

DISTORTIONS = {"l2": "squared $L_2$ distortion", "linf": "$L_\\infty$ distortion"}

ROWS = ("original", "adversarial", "difference")

FAILURE_CONTRAST = 0.25
"""Contrast left of an image on which the attack failed."""


def attack_images(
    found: AttackResult,
    originals: Any,
    *,
    pixels: tuple[float, float] = (0.0, 1.0),
    ids: Sequence[Any] | NDArray[Any] | None = None,
    classes: Sequence[str] | None = None,
    most: int | None = 20,
    title: str | None = None,
) -> Figure:
    """Draw the attacked images, the adversarial images, and the differences.

    Parameters
    ----------
    found
        The result of `slgh.attack.attack`, which does not keep the originals.
    originals, pixels
        Its arguments: images (B, C, H, W), (B, H, W, C) or (B, H, W), and their range.
    ids, classes
        Names of the images and of the classes; by default their indices.
    most
        Maximum number of images, from the first on; None for all.
    title
        Title of the figure.
    """
    B, n = len(found.outcome), len(found.outcome[:most])
    before, after = (np.asarray(backend_of(images).host(images)) for images in (originals, found.images))
    if before.shape != after.shape:
        raise ArgumentValueError(
            f"`originals` must be the images that were attacked, {after.shape}; got {before.shape}."
        )
    labels, results = _labels(found, ids, classes)
    it = ComparedImages(
        originals=before[:n],
        adversarial=after[:n],
        pixels=pixels,
        success=found.success[:n],
        above=labels[:n],
        between=results[:n],
        below=[f"{NORM_SYMBOLS[found.norm]} {far:.3g}" for far in found.distance[:n]],
    )
    return compare(it, title=title if n == B or title is None else f"{title} (the first {n} of {B})")


def attack_curves(
    found: AttackResult,
    *,
    ids: Sequence[Any] | NDArray[Any] | None = None,
    classes: Sequence[str] | None = None,
    title: str | None = None,
) -> Figure:
    """Draw the distortion and the margin of each image over the queries; see `attack_images`."""
    record = found.history
    if not len(record.get("queries", ())):
        raise ArgumentValueError(
            "`found` must have a history, which there is none of if no image was attacked or history=0."
        )
    labels, results = _labels(found, ids, classes)
    it = AttackTrace(
        queries=record["queries"],
        distortion=record["distortion"],
        margin=record["margin"],
        ends=found.queries,
        first=found.queries_to_success,
        labels=[f"{labels[i]} {results[i]}" if ok else labels[i] for i, ok in enumerate(found.success)],
        norm=found.norm,
    )
    return curves(it, title=title)


def _labels(
    found: AttackResult, ids: Sequence[Any] | NDArray[Any] | None, classes: Sequence[str] | None
) -> tuple[list[str], list[str]]:
    """Return ID and class of each image, and its new class, or the reason why there is none."""
    B, name = len(found.outcome), str if classes is None else classes.__getitem__
    numbers = range(B) if ids is None else ids
    new = [f"→ {name(found.after[i])}" if found.success[i] else found.outcome[i].value for i in range(B)]
    return [f"{numbers[i]}: {name(found.label[i])}" for i in range(B)], new


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ComparedImages:
    """Images before and after an attack, N of them, and their labels.

    Attributes
    ----------
    originals, adversarial
        (N, C, H, W), (N, H, W, C) with one or three channels C, or (N, H, W).
    pixels
        The range of their pixels.
    success
        (N,), True if the attack succeeded. For the others `adversarial` is ignored.
    above
        Texts above the originals, for example ID and class.
    between
        Texts above the adversarial images, for example the new class, or the reason why there is none.
    below
        Texts below the differences, for example their norm.
    """

    originals: NDArray[Any]
    adversarial: NDArray[Any]
    pixels: tuple[float, float]
    success: NDArray[np.bool_]
    above: Sequence[str]
    between: Sequence[str]
    below: Sequence[str]


def as_pictures(images: NDArray[Any], pixels: tuple[float, float]) -> NDArray[np.float64]:
    """Return images in matplotlib's layout: (N, H, W) if gray, (N, H, W, 3) in color, with pixels in [0, 1].

    >>> as_pictures(np.zeros((5, 3, 8, 9)), (-0.5, 0.5)).shape, as_pictures(np.zeros((5, 1, 8, 9)), (0, 1)).shape
    ((5, 8, 9, 3), (5, 8, 9))
    """
    low, high = pixels
    scaled = (np.asarray(images, float) - low) / (high - low)
    if scaled.ndim == 4 and scaled.shape[1] in (1, 3):
        scaled = scaled.transpose(0, 2, 3, 1)
    if scaled.ndim == 4 and scaled.shape[-1] == 1:
        scaled = scaled[..., 0]
    if scaled.ndim != 3 and not (scaled.ndim == 4 and scaled.shape[-1] == 3):
        raise ArgumentValueError(
            "`images` must be pictures, (N, C, H, W) or (N, H, W, C) with one or three channels or (N, H, W), to be "
            f"drawn; got shape {np.shape(images)}."
        )
    return np.clip(scaled, 0, 1)


@style()
def compare(it: ComparedImages, *, title: str | None = None) -> Figure:
    """Draw originals, adversarial images and their differences, one below the other.

    A difference is signed and drawn around 0, on one scale for all images, which is stated below them. In gray images,
    red is brighter and blue is darker; in colored ones, each channel is drawn around gray.
    """
    from matplotlib.gridspec import GridSpec

    before, after = (as_pictures(images, it.pixels) for images in (it.originals, it.adversarial))
    change = np.where(it.success.reshape(-1, *(1,) * (before.ndim - 1)), after - before, 0.0)
    scale = float(np.abs(change).max(initial=0.0)) or 1.0
    n = len(before)
    columns = min(n, COLUMNS)
    bands = -(-n // columns)
    cell = float(np.clip(WIDTH / (columns + 1), *CELL_WIDTHS))
    figure = new_figure(height=bands * 3 * (cell + 0.2) + 0.55, width=max((columns + 0.6) * cell, MIN_WIDTH))
    grid = GridSpec(3 * bands, columns, figure=figure)
    for i in range(n):
        band, column = divmod(i, columns)
        top, middle, bottom = (figure.add_subplot(grid[3 * band + row, column]) for row in range(3))
        if column == 0:
            for ax, name in zip((top, middle, bottom), ROWS, strict=True):
                ax.set_ylabel(name)
        _show(top, before[i])
        top.set_title(it.above[i], pad=3, fontsize=8)
        if it.success[i]:
            _show(middle, after[i])
            middle.set_title(it.between[i], pad=3, fontsize=8)
            if before.ndim == 4:
                _show(bottom, 0.5 + change[i] / (2 * scale))
            else:
                _show(bottom, change[i], cmap="RdBu_r", low=-scale, high=scale)
            bottom.set_xlabel(it.below[i], fontsize=8)
        else:
            _show(middle, 1 - FAILURE_CONTRAST * (1 - before[i]))
            place: dict[str, Any] = {"transform": middle.transAxes, "ha": "center", "va": "center"}
            middle.text(0.5, 0.5, textwrap.fill(it.between[i], 14), fontsize=7, color=COLORS[1], **place)
            bottom.set(xticks=[], yticks=[], frame_on=False)
    if it.success.any():
        meaning = "gray is no change" if before.ndim == 4 else "red is brighter, blue is darker"
        text = f"Differences: {meaning}; the full color is ±{scale:.2g} of the pixels' range."
        figure.supxlabel(text, fontsize=8, color="0.3")
    if title is not None:
        figure.suptitle(title)
    return figure


def _show(ax: Axes, image: NDArray[Any], cmap: str = "gray", low: float = 0.0, high: float = 1.0) -> None:
    """Draw one image in a frame: (H, W) with a color map from low to high, or (H, W, 3) with colors in [0, 1]."""
    ax.imshow(image, cmap=cmap, vmin=low, vmax=high, interpolation="nearest")
    ax.set(xticks=[], yticks=[])
    for side in ("top", "right", "bottom", "left"):
        ax.spines[side].set(visible=True, color="0.8", linewidth=0.5)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AttackTrace:
    """Distortion and margin of an attack on B images over R recorded iterations.

    Attributes
    ----------
    queries
        (R,), queries so far per image that is still under attack.
    distortion, margin
        (R, B), of the iterates; NaN for images that were not attacked. The model is fooled if the margin is negative.
    ends
        (B,), queries after which the attack on an image ended; later records repeat its last values.
    first
        (B,), queries until the first success; negative if there was none.
    labels
        Names of the images.
    norm
        The norm of the distortion, which is squared for "l2".
    """

    queries: NDArray[Any]
    distortion: NDArray[Any]
    margin: NDArray[Any]
    ends: NDArray[Any]
    first: NDArray[Any]
    labels: Sequence[str]
    norm: Norm = "l2"


@style()
def curves(it: AttackTrace, *, title: str | None = None) -> Figure:
    """Draw the distortion and the margin over the queries: a line per image, a dot at its first success.

    Up to seven images have colors and names; of more, those that were never fooled are gray.
    """
    figure = new_figure(2.8)
    left, right = figure.subplots(1, 2)
    attacked = np.flatnonzero(np.isfinite(it.margin).any(axis=0)).tolist()
    named = len(attacked) <= len(COLORS)
    for k, i in enumerate(attacked):
        until = it.queries <= it.ends[i]
        queries = it.queries[until]
        color = COLORS[k] if named else COLORS[0] if it.first[i] >= 0 else "0.6"
        look: dict[str, Any] = (
            {"linestyle": DASHES[k], "label": it.labels[i]} if named else {"linewidth": 0.7, "alpha": 0.6}
        )
        for ax, values in ((left, it.distortion[until, i]), (right, it.margin[until, i])):
            ax.plot(queries, values, color=color, **look)
            if it.first[i] >= 0:
                at = int(np.searchsorted(queries, it.first[i]).clip(0, len(queries) - 1))
                ax.plot(queries[at], values[at], "o", color=color, markersize=4)
    left.set(xlabel="queries", ylabel=DISTORTIONS[it.norm], ylim=(0, None))
    right.set(xlabel="queries", ylabel="margin in log odds")
    right.axhline(0, color="0.7", linewidth=0.8, zorder=0)
    place: dict[str, Any] = {"xytext": (0, -5), "textcoords": "offset points", "ha": "right", "va": "top"}
    right.annotate("fooled", (1, 0), xycoords=right.get_yaxis_transform(), fontsize=7, color="0.5", **place)
    if named and attacked:
        handles, labels = left.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    if title is not None:
        figure.suptitle(title)
    return figure
