"""Style of figures: one color per method, sizes for print, lines that can be told apart in gray."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from slgh.checks import MissingLibraryError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's palette for the color-blind, darker colors first."""

METHOD_COLORS = {
    "auto": "#0072B2",
    "slgh_r": "#D55E00",
    "slgh_d": "#56B4E9",
    "gradopt": "#4D4D4D",
    "gd": "#CC79A7",
    "adamm": "#8C564B",
    "lbfgsb": "#C8102E",
    "cma": "#6A3D9A",
    "cma_bipop": "#A66FD6",
    "cma_diagonal": "#CDB4E8",
    "de": "#8A8A8A",
    "dual_annealing": "#B5A300",
    "nevergrad": "#1B7F8C",
    "open_es": "#009E73",
    "powell": "#3D5A2A",
    "cobyqa": "#7A4419",
    "random_search": "#BDBDBD",
}
"""Color of each method, in all figures, pages and benchmarks. `method_color` reads labels."""

SAME_METHOD = {
    "slgh": "auto",
    "scale_free": "auto",
    "paper": "slgh_r",
    "sgd": "gd",
    "adam": "adamm",
    "l_bfgs": "lbfgsb",
    "l_bfgs_b": "lbfgsb",
    "lbfgs": "lbfgsb",
    "cma_es": "cma",
    "bipop_cma_es": "cma_bipop",
    "openai_es": "open_es",
    "random": "random_search",
}
"""Other names of the methods of `METHOD_COLORS`."""

PHASE_COLORS = {
    "homotopy": METHOD_COLORS["auto"],
    "local_search": "#E69F00",
    "covariance": "#009E73",
    "restarts": "#8A8A8A",
}
"""Color of each phase of "auto", for its part of the path and its part of the curves."""

DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)), "-")
"""One line style per color, so that lines differ in gray too."""

WIDTH = 6.5
"""Width of a figure on a printed page, in inches."""

RC = {
    "font.size": 9.0,
    "axes.titlesize": 9.0,
    "axes.labelsize": 9.0,
    "legend.fontsize": 8.0,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "lines.linewidth": 1.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "savefig.dpi": 200,
    "svg.hashsalt": "slgh",  # the same figure gives the same file
    "svg.fonttype": "path",  # the same look without the fonts
}

DARK = {
    **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), "#E8E8E8"),
    **dict.fromkeys(("axes.edgecolor", "legend.edgecolor"), "#A0A0A0"),
    **dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), "#131416"),
}
"""Light text on the background that the documentation has in dark mode."""


def matplotlib() -> Any:
    """Return the library, or raise an error that names the extra."""
    try:
        import matplotlib
    except ImportError as missing:
        raise MissingLibraryError('Figures need matplotlib: pip install "slgh[plot]".') from missing
    return matplotlib


@contextmanager
def style(*, dark: bool = False) -> Iterator[None]:
    """Draw and write figures in this style; the user's settings are restored. Also a decorator."""
    with matplotlib().rc_context(RC | DARK if dark else RC):
        yield


def ink() -> str:
    """Return the color of text, which is readable on the background: black, or light in dark mode."""
    return str(matplotlib().rcParams["text.color"])


def is_dark() -> bool:
    """Return True if the background is dark."""
    from matplotlib.colors import to_rgb

    return sum(to_rgb(background())) < 1.5


def readable(color: str) -> str:
    """Return a color "#rrggbb" for lines and text on the current background: lighter if that is dark."""
    return lighter(color, 0.3) if is_dark() else color


def faint(alpha: float) -> float:
    """Return the opacity of a faint line. On a dark background, lines need more of it to be seen."""
    return min(1.0, 1.7 * alpha) if is_dark() else alpha


def background() -> str:
    """Return the color behind the axes."""
    return str(matplotlib().rcParams["axes.facecolor"])


def method_color(label: str) -> str | None:
    """Return the color of a method by its label, or None if it has none.

    Capitals, the prefix "zo" of zeroth-order methods, and parameters after the name do not matter.

    >>> method_color("ZOSLGH_r 0.999") == method_color("slgh_r") == METHOD_COLORS["slgh_r"]
    True
    >>> method_color("L-BFGS-B") == METHOD_COLORS["lbfgsb"]
    True
    """
    name = re.sub(r"[^a-z]+", "_", re.split(r"[,\d]", label.lower())[0]).strip("_")
    for known in (name, name.removeprefix("zo")):
        if (color := METHOD_COLORS.get(SAME_METHOD.get(known, known))) is not None:
            return color
    return None


def looks(labels: Sequence[str]) -> list[tuple[str, Any]]:
    """Return color and line style of each line of a figure.

    The color says which method it is. Further lines of one method are lighter. Labels that name no method get the
    colors of `COLORS` in order.
    """
    others, seen = itertools.cycle(COLORS), list[str]()
    found = []
    for k, label in enumerate(labels):
        color = method_color(label) or next(others)
        found.append((lighter(color, 0.45 * seen.count(color)), DASHES[k % len(DASHES)]))
        seen.append(color)
    return found


def lighter(color: str, share: float) -> str:
    """Mix a color "#rrggbb" with white.

    >>> lighter("#000000", 0.5)
    '#808080'
    """
    parts = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(part + min(share, 0.8) * (255 - part)):02X}" for part in parts)


def new_figure(height: float, width: float = WIDTH) -> Figure:
    """Return an empty figure that pyplot does not know of, so that a notebook shows it once."""
    matplotlib()
    from slgh.plotting.notebook_figure import NotebookFigure

    return NotebookFigure(figsize=(width, height), layout="constrained")


def as_bytes(figure: Figure, kind: str) -> bytes:
    """Return the figure as a file of this kind ("svg", "png"), the same bytes each time."""
    buffer = io.BytesIO()
    with style():
        figure.savefig(buffer, format=kind, metadata={"Date": None} if kind == "svg" else None)
    return buffer.getvalue()
