"""The paper's figures of an attack: curves over the iterations, an image a panel, and the grid of images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from slgh.paper.attack.compare import seen
from slgh.paper.attack.printed import KINDS, Panels, PaperAttack, placed
from slgh.paper.attack.run_row import image_of
from slgh.paper.experiment import Drawing, Record
from slgh.plotting.figures import typeset
from slgh.plotting.style import COLORS, DASHES, WIDTH, new_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ORDER = ("zosgd", "zoadamm", "zogradopt", "zoslgh_r", "zoslgh_d", "zoslgh_d_shared", "zoslgh_r_0.995")
"""Each row has one color in all figures."""

WHAT = {"total": "total loss", "distortion": "L2 distortion"}
"""What is drawn of a column."""

BESIDE: dict[str, Any] = {
    "xycoords": "axes fraction",
    "ha": "right",
    "va": "top",
    "fontsize": 7,
    "color": "0.4",
    "linespacing": 1.35,
}
"""How the lines below the images are named, to their left."""


def drawings(
    paper: PaperAttack, records: Mapping[str, Record], *, name: str, scope: str, why: str
) -> tuple[Drawing, ...]:
    """All of them, from the records of the first seed.

    `name` is part of the files' names, `scope` is written above each figure where the run is not the paper's own, and
    `why` says why an image of the paper is not there.
    """
    found = [_curves(paper, panels, records, name, scope, why) for panels in paper.panels]
    return (*found, _grid(paper, records, name, scope, why))


def _curves(
    paper: PaperAttack, panels: Panels, records: Mapping[str, Record], name: str, scope: str, why: str
) -> Drawing:
    pairs = placed(panels.ids, next(iter(records.values()))["ids"])
    what = WHAT[panels.column]
    scale = " (log scale)" if panels.column == "total" else ""
    about = f"Figure {panels.number}: {what} over the iterations on {paper.title}{scale}, seed 0."
    return Drawing(
        name=f"figure_{panels.number:02}_{name}_{'total_loss' if panels.column == 'total' else panels.column}",
        caption=_caption(about, panels.ids, pairs, scope, why),
        draw=partial(draw_curves, panels, records, pairs, _heading(paper, scope)),
    )


def _grid(paper: PaperAttack, records: Mapping[str, Record], name: str, scope: str, why: str) -> Drawing:
    pairs = placed(paper.grid_ids, next(iter(records.values()))["ids"])
    about = (
        f"Table {paper.grid_table}: adversarial images of {paper.title}, seed 0: the least distorted one that was met, "
        "or the last iterate where the attack failed."
    )
    return Drawing(
        name=f"table_{paper.grid_table:02}_{name}_images",
        caption=_caption(about, paper.grid_ids, pairs, scope, why),
        draw=partial(draw_grid, paper, records, pairs, _heading(paper, scope)),
    )


def _caption(about: str, wanted: Sequence[int], pairs: Sequence[tuple[int, int]], scope: str, why: str) -> str:
    """What a figure shows, of which run, and which images stand for others."""
    instead = [f"ID {i} ({k} is shown)" for i, k in pairs if i != k]
    instead += [f"ID {i} (not shown)" for i in wanted[len(pairs) :]]
    parts = [
        about,
        f"{scope[0].upper()}{scope[1:]}." if scope else "",
        f"{why}: {', '.join(instead)}." if instead else "",
    ]
    return " ".join(part for part in parts if part)


def _heading(paper: PaperAttack, scope: str) -> str:
    """What is written above a figure."""
    return f"{paper.title}; {scope}" if scope else paper.title


def title_of(wanted: int, shown: int) -> str:
    """What is written above an image or its panel."""
    return f"ID {shown}" if wanted == shown else f"ID {shown} (for {wanted})"


def draw_curves(
    panels: Panels, records: Mapping[str, Record], pairs: Sequence[tuple[int, int]], heading: str
) -> Figure:
    """A panel an image, a line a row."""
    across = {4: 2, 8: 4, 10: 5}.get(len(pairs), min(len(pairs), 3))
    down = -(-len(pairs) // across)
    log = panels.column == "total"
    with style():
        from matplotlib.ticker import EngFormatter, MaxNLocator

        figure = new_figure(1.0 + (1.8 if across < 4 else 1.6) * down)
        axes = figure.subplots(down, across, squeeze=False, sharex=True, sharey=log)
        for ax, (wanted, shown) in zip(axes.flat, pairs, strict=False):
            for name in panels.rows:
                _draw_line(ax, name, label(name, panels.rows), records[name]["curves"], panels.column, shown)
            ax.set_title(title_of(wanted, shown))
            ax.margins(x=0.02)
            if log:
                ax.set_yscale("log")
            ax.xaxis.set_major_locator(MaxNLocator(2 if across > 3 else 4, steps=[1, 2, 5, 10]))
            ax.xaxis.set_major_formatter(EngFormatter(sep=""))
        for ax in axes.flat[len(pairs) :]:
            ax.set_axis_off()
        for ax in axes.flat[max(len(pairs) - across, 0) : len(pairs)]:
            ax.tick_params(labelbottom=True)
        figure.supxlabel("iteration $k$", fontsize=9)
        figure.supylabel(WHAT[panels.column], fontsize=9)
        figure.legend(
            *axes.flat[0].get_legend_handles_labels(),
            loc="outside upper center",
            ncols=len(panels.rows),
            frameon=False,
            title=heading,
        )
    return figure


def _draw_line(ax: Axes, name: str, text: str, curves: Mapping[str, Any], column: str, image: int) -> None:
    at = ORDER.index(name)
    values = np.array(curves[column][str(image)], float)
    ax.plot(curves["iteration"], values, color=COLORS[at], linestyle=DASHES[at], linewidth=1.2, label=typeset(text))


def label(name: str, beside: Sequence[str]) -> str:
    """What a row is called in a figure: with its gamma where there is another beside it."""
    other = any(KINDS[each].method == KINDS[name].method for each in beside if each != name)
    return f"{KINDS[name].label} 0.999" if other and "gamma" not in KINDS[name].changes else KINDS[name].label


def draw_grid(
    paper: PaperAttack, records: Mapping[str, Record], pairs: Sequence[tuple[int, int]], heading: str
) -> Figure:
    """The originals above, then a row for each method, with what the network sees and the distortion below each."""
    names = list(paper.grid)
    with style():
        figure = new_figure(0.4 + 1.25 * (len(names) + 1), 0.8 * WIDTH)
        axes = figure.subplots(len(names) + 1, len(pairs), squeeze=False)
        for column, (wanted, shown) in enumerate(pairs):
            cells = [records[name]["grid"][str(shown)] for name in names]
            original = cells[0]
            _draw_image(axes[0, column], paper.data, original["original_pixels"], f"{original['original']}\n0")
            axes[0, column].set_title(title_of(wanted, shown))
            for ax, cell in zip(axes[1:, column], cells, strict=True):
                _draw_image(ax, paper.data, cell["pixels"], f"{seen(cell)}\n{cell['distortion']:.3g}")
                if not cell["success"]:
                    ax.xaxis.label.set_color(COLORS[1])
        for ax, text in zip(axes[:, 0], ["original", *(typeset(KINDS[name].label) for name in names)], strict=True):
            ax.set_ylabel(text, rotation=0, ha="right", va="center", labelpad=8)
            ax.annotate("seen as\nL2 distortion", (-0.12, -0.03), **BESIDE)
        figure.suptitle(heading, fontsize=9)
    return figure


def _draw_image(ax: Axes, data: str, pixels: str, below: str) -> None:
    ax.imshow(image_of(data, pixels), cmap="gray", vmin=0, vmax=255, interpolation="nearest")
    ax.set(xticks=[], yticks=[])
    ax.set_xlabel(below, fontsize=8, labelpad=2)
    for spine in ax.spines.values():
        spine.set_visible(False)
