"""How figures look: sizes for print, colors that everybody can tell apart, lines that survive gray."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's, which the color-blind can tell apart, the darker ones first."""

DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)), "-")
"""One for each color, so that the lines differ in gray too."""

WIDTH = 6.5
"""Inches between the margins of a printed page."""

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
    "svg.hashsalt": "slgh",  # the same figure is the same file
    "svg.fonttype": "path",  # and looks the same everywhere
}


def matplotlib() -> Any:
    """The library, or an error that names the extra."""
    try:
        import matplotlib
    except ImportError as missing:
        raise ImportError('Figures need matplotlib: pip install "slgh[plot]".') from missing
    return matplotlib


@contextmanager
def style() -> Iterator[None]:
    """Inside, figures are drawn and written in this style; the user's own settings come back afterwards."""
    with matplotlib().rc_context(RC):
        yield


def new_figure(height: float, width: float = WIDTH) -> Figure:
    """An empty figure that no window and no list of open figures knows of."""
    matplotlib()
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def as_bytes(figure: Figure, kind: str) -> bytes:
    """The figure as a file of this kind ("svg", "png"), the same bytes each time."""
    buffer = io.BytesIO()
    with style():
        figure.savefig(buffer, format=kind, metadata={"Date": None} if kind == "svg" else None)
    return buffer.getvalue()
