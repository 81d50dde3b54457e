"""The paper's figures of an attack: curves over the iterations, one panel per image, and the grid of images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from slgh.paper.attack.compare import seen
from slgh.paper.attack.printed import VARIANTS, PaperAttack, PrintedFigure, substitutes
from slgh.paper.attack.run_row import decode_image
from slgh.paper.experiment import Drawing, Record
from slgh.plotting.figures import typeset
from slgh.plotting.style import COLORS, WIDTH, looks, new_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOOKS = dict(zip(VARIANTS, looks([variant.label for variant in VARIANTS.values()]), strict=True))
"""Color and line style of a row, the same in all figures."""

QUANTITIES = {"total": "total loss", "distortion": "L2 distortion"}
"""Names of the columns that are drawn."""

BESIDE: dict[str, Any] = {
    "xycoords": "axes fraction",
    "ha": "right",
    "va": "top",
    "fontsize": 7,
    "color": "0.4",
    "linespacing": 1.35,
}
"""Style of the text to the left of the lines below the images."""


def drawings(
    paper: PaperAttack, records: Mapping[str, Record], *, name: str, scope: str, why: str
) -> tuple[Drawing, ...]:
    """Return all figures, from the records of the first seed.

    `name` is part of the file names. `scope` is written above each figure if the run is not the paper's own. `why` says
    why an image of the paper is missing.
    """
    ids = next(iter(records.values()))["ids"]
    heading = f"{paper.title}; {scope}" if scope else paper.title

    def caption(about: str, wanted: Sequence[int], pairs: Sequence[tuple[int, int]]) -> str:
        instead = [f"ID {i} ({k} is shown)" for i, k in pairs if i != k]
        instead += [f"ID {i} (not shown)" for i in wanted[len(pairs) :]]
        run = f"{scope[0].upper()}{scope[1:]}." if scope else ""
        return " ".join(filter(None, [about, run, f"{why}: {', '.join(instead)}." if instead else ""]))

    found = []
    for figure in paper.figures:
        pairs = substitutes(figure.ids, ids)
        quantity = QUANTITIES[figure.column]
        scale = " (log scale)" if figure.column == "total" else ""
        about = f"Figure {figure.number}: {quantity} over the iterations on {paper.title}{scale}, seed 0."
        found.append(
            Drawing(
                name=f"figure_{figure.number:02}_{name}_{'total_loss' if figure.column == 'total' else figure.column}",
                caption=caption(about, figure.ids, pairs),
                draw=partial(draw_curves, figure, records, pairs, heading),
            )
        )
    pairs = substitutes(paper.grid_ids, ids)
    about = (
        f"Table {paper.grid_table}: adversarial images of {paper.title}, seed 0: the least distorted one that was met, "
        "or the last iterate where the attack failed."
    )
    grid = Drawing(
        name=f"table_{paper.grid_table:02}_{name}_images",
        caption=caption(about, paper.grid_ids, pairs),
        draw=partial(draw_grid, paper, records, pairs, heading),
    )
    return (*found, grid)


def title_of(wanted: int, shown: int) -> str:
    """Title of an image or its panel."""
    return f"ID {shown}" if wanted == shown else f"ID {shown} (for {wanted})"


@style()
def draw_curves(
    printed: PrintedFigure, records: Mapping[str, Record], pairs: Sequence[tuple[int, int]], heading: str
) -> Figure:
    """Draw one panel per image, one line per row."""
    from matplotlib.ticker import EngFormatter, MaxNLocator

    across = {4: 2, 8: 4, 10: 5}.get(len(pairs), min(len(pairs), 3))
    down = -(-len(pairs) // across)
    log = printed.column == "total"
    figure = new_figure(1.0 + (1.8 if across < 4 else 1.6) * down)
    axes = figure.subplots(down, across, squeeze=False, sharex=True, sharey=log)
    for ax, (wanted, shown) in zip(axes.flat, pairs, strict=False):
        for name in printed.rows:
            curves, (color, dash) = records[name]["curves"], LOOKS[name]
            text, values = typeset(label(name, printed.rows)), curves[printed.column][str(shown)]
            ax.plot(curves["iteration"], values, color=color, linestyle=dash, linewidth=1.2, label=text)
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
    figure.supylabel(QUANTITIES[printed.column], fontsize=9)
    legend: dict[str, Any] = {"loc": "outside upper center", "ncols": len(printed.rows), "frameon": False}
    figure.legend(*axes.flat[0].get_legend_handles_labels(), title=heading, **legend)
    return figure


def label(name: str, beside: Sequence[str]) -> str:
    """Name of a row in a figure, with its gamma if the figure has another row of the same method."""
    variant = VARIANTS[name]
    other = any(VARIANTS[each].method == variant.method for each in beside if each != name)
    return f"{variant.label} 0.999" if other and "gamma" not in variant.changes else variant.label


@style()
def draw_grid(
    paper: PaperAttack, records: Mapping[str, Record], pairs: Sequence[tuple[int, int]], heading: str
) -> Figure:
    """Draw the originals, then one row per method, with the predicted class and the distortion below each image."""
    names = list(paper.grid)
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
    for ax, text in zip(axes[:, 0], ["original", *(typeset(VARIANTS[name].label) for name in names)], strict=True):
        ax.set_ylabel(text, rotation=0, ha="right", va="center", labelpad=8)
        ax.annotate("seen as\nL2 distortion", (-0.12, -0.03), **BESIDE)
    figure.suptitle(heading, fontsize=9)
    return figure


def _draw_image(ax: Axes, data: str, pixels: str, below: str) -> None:
    ax.imshow(decode_image(data, pixels), cmap="gray", vmin=0, vmax=255, interpolation="nearest")
    ax.set(xticks=[], yticks=[])
    ax.set_xlabel(below, fontsize=8, labelpad=2)
    for spine in ax.spines.values():
        spine.set_visible(False)
