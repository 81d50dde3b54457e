"""Pictures of an attack: originals, adversarial images and differences; distortion and margin over the queries."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slgh.backends import backend_of
from slgh.plotting.style import COLORS, DASHES, WIDTH, new_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from slgh.attack import AttackResult

COLUMNS = 8
"""So many images stand side by side; more go below."""

CELL, LEAST = (0.85, 1.3), 5.0
"""The least and the largest width of an image, and the least of the figure, whose title has to fit, in inches."""

ROWS = ("original", "adversarial", "difference")

FADED = 0.25
"""How much is left of an image that was not fooled."""


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
    """Draw the images that were attacked, what fooled the model, and the difference.

    Parameters
    ----------
    found
        Of `slgh.attack.attack`, which does not keep the originals.
    originals, pixels
        What it was given: images (B, C, H, W), (B, H, W, C) or (B, H, W), and their range.
    ids, classes
        Names of the images and of the classes; by default their numbers, from 0.
    most
        At most so many images, the first ones; None: all.
    """
    B, n = len(found.outcome), len(found.outcome[:most])
    before, after = (np.asarray(backend_of(images).host(images)) for images in (originals, found.images))
    if before.shape != after.shape:
        raise ValueError(f"`originals` must be the images that were attacked, {after.shape}; got {before.shape}.")
    numbers, names = range(B) if ids is None else ids, _names(classes)
    it = Compared(
        originals=before[:n],
        adversarial=after[:n],
        pixels=pixels,
        success=found.success[:n],
        above=[f"{numbers[i]}: {names(found.label[i])}" for i in range(n)],
        between=[f"→ {names(found.after[i])}" if found.success[i] else found.outcome[i].value for i in range(n)],
        below=[f"$L_2$ {found.l2[i]:.3g}" for i in range(n)],
    )
    return compare(it, title=title if n == B or title is None else f"{title} (the first {n} of {B})")


def attack_curves(
    found: AttackResult,
    *,
    ids: Sequence[Any] | NDArray[Any] | None = None,
    classes: Sequence[str] | None = None,
    title: str | None = None,
    figure: Figure | None = None,
) -> Figure:
    """Draw how the distortion and the margin of each image went with the queries; see `attack_images`."""
    record = found.history
    if not len(record.get("queries", ())):
        raise ValueError("`found` must have a history, which there is none of if no image was attacked or history=0.")
    B = len(found.outcome)
    numbers, names = range(B) if ids is None else ids, _names(classes)
    it = Course(
        queries=record["queries"],
        distortion=record["distortion"],
        margin=record["margin"],
        ends=found.queries,
        first=found.queries_to_success,
        labels=[
            f"{numbers[i]}: {names(found.label[i])}" + (f" → {names(found.after[i])}" if found.success[i] else "")
            for i in range(B)
        ],
    )
    return curves(it, title=title, figure=figure)


def _names(classes: Sequence[str] | None) -> Callable[[int], str]:
    return str if classes is None else lambda label: classes[label]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Compared:
    """Images before and after an attack, N of them, and what to write about each.

    Attributes
    ----------
    originals, adversarial
        (N, C, H, W), (N, H, W, C) with one or three channels C, or (N, H, W).
    pixels
        The range of their pixels.
    success
        (N,), whether the attack found something; of the others `adversarial` is not looked at.
    above
        What stands above an original: its number and class, say.
    between
        What stands above its adversarial image, the class that is seen now, or where there is none: why.
    below
        What stands below the difference, its size, say.
    """

    originals: NDArray[Any]
    adversarial: NDArray[Any]
    pixels: tuple[float, float]
    success: NDArray[np.bool_]
    above: Sequence[str]
    between: Sequence[str]
    below: Sequence[str]


def as_pictures(images: NDArray[Any], pixels: tuple[float, float]) -> NDArray[np.float64]:
    """Images as matplotlib draws them: (N, H, W) if gray, (N, H, W, 3) in color, with pixels in [0, 1].

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
        raise ValueError(
            "`images` must be pictures, (N, C, H, W) or (N, H, W, C) with one or three channels or (N, H, W), to be "
            f"drawn; got shape {np.shape(images)}."
        )
    return np.clip(scaled, 0, 1)


def compare(it: Compared, *, title: str | None = None) -> Figure:
    """Originals, adversarial images and their differences, one below the other.

    A difference is signed and drawn around 0, on one scale for all images, which is written beneath: of gray images red
    where a pixel got brighter and blue where it got darker, of colored ones each channel around gray.
    """
    from matplotlib.gridspec import GridSpec

    before, after = (as_pictures(images, it.pixels) for images in (it.originals, it.adversarial))
    change = np.where(it.success.reshape(-1, *(1,) * (before.ndim - 1)), after - before, 0.0)
    scale = float(np.abs(change).max(initial=0.0)) or 1.0
    n = len(before)
    columns = min(n, COLUMNS)
    bands = -(-n // columns)
    with style():
        cell = float(np.clip(WIDTH / (columns + 1), *CELL))
        figure = new_figure(height=bands * 3 * (cell + 0.2) + 0.55, width=max((columns + 0.6) * cell, LEAST))
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
                _show_change(bottom, change[i], scale)
                bottom.set_xlabel(it.below[i], fontsize=8)
            else:
                _show(middle, _faded(before[i]))
                _say(middle, it.between[i])
                _empty(bottom)
        if it.success.any():
            figure.supxlabel(_caption(scale, colored=before.ndim == 4), fontsize=8, color="0.3")
        if title is not None:
            figure.suptitle(title)
    return figure


def _caption(scale: float, *, colored: bool) -> str:
    """What the colors of the differences mean."""
    meaning = "gray is no change" if colored else "red is brighter, blue is darker"
    return f"Differences: {meaning}; the full color is ±{scale:.2g} of the pixels' range."


def _faded(image: NDArray[Any]) -> NDArray[Any]:
    """An image whose contrast is almost gone, around white."""
    return 1 - FADED * (1 - image)


def _show(ax: Axes, image: NDArray[Any]) -> None:
    """One image, (H, W) or (H, W, 3) in [0, 1], pixel by pixel."""
    ax.imshow(image, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    _bare(ax)


def _show_change(ax: Axes, change: NDArray[Any], scale: float) -> None:
    """A signed difference; gray images by a diverging map, colored ones as colors around gray."""
    if change.ndim == 2:
        ax.imshow(change, cmap="RdBu_r", vmin=-scale, vmax=scale, interpolation="nearest")
    else:
        ax.imshow(0.5 + change / (2 * scale), interpolation="nearest")
    _bare(ax)


def _bare(ax: Axes) -> None:
    ax.set(xticks=[], yticks=[])
    for side in ("top", "right", "bottom", "left"):
        ax.spines[side].set(visible=True, color="0.8", linewidth=0.5)


def _empty(ax: Axes) -> None:
    """Nothing but what is written beside it."""
    ax.set(xticks=[], yticks=[], frame_on=False)


def _say(ax: Axes, text: str) -> None:
    """Why there is no adversarial image, in the middle of where it would be."""
    lines = textwrap.fill(text, 14)
    ax.text(0.5, 0.5, lines, transform=ax.transAxes, ha="center", va="center", fontsize=7, color=COLORS[1])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Course:
    """The course of an attack on B images over R recorded iterations.

    Attributes
    ----------
    queries
        (R,), made until then for an image that is still attacked.
    distortion, margin
        (R, B), of the iterates; NaN for images that were not attacked. The model is fooled where the margin is below 0.
    ends
        (B,), the queries after which an image was left alone; what is recorded later repeats its end.
    first
        (B,), the queries until the first success; negative where there was none.
    labels
        What to call the images.
    """

    queries: NDArray[Any]
    distortion: NDArray[Any]
    margin: NDArray[Any]
    ends: NDArray[Any]
    first: NDArray[Any]
    labels: Sequence[str]


def curves(it: Course, *, title: str | None = None, figure: Figure | None = None) -> Figure:
    """The squared distortion and the margin over the queries: a line an image, a dot at its first success.

    Up to seven images have colors and names; of more, those that were never fooled are gray.
    """
    with style():
        figure = new_figure(2.8) if figure is None else figure
        left, right = figure.subplots(1, 2)
        attacked = np.flatnonzero(np.isfinite(it.margin).any(axis=0)).tolist()
        named = len(attacked) <= len(COLORS)
        for k, i in enumerate(attacked):
            until = it.queries <= it.ends[i]
            color = COLORS[k] if named else COLORS[0] if it.first[i] >= 0 else "0.6"
            look: dict[str, Any] = (
                {"linestyle": DASHES[k], "label": it.labels[i]} if named else {"linewidth": 0.7, "alpha": 0.6}
            )
            for ax, values in ((left, it.distortion[:, i]), (right, it.margin[:, i])):
                ax.plot(it.queries[until], values[until], color=color, **look)
                if it.first[i] >= 0:
                    at = int(np.searchsorted(it.queries[until], it.first[i]).clip(0, until.sum() - 1))
                    ax.plot(it.queries[until][at], values[until][at], "o", color=color, markersize=4)
        left.set(xlabel="queries", ylabel="squared $L_2$ distortion", ylim=(0, None))
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
