"""Style of figures: sizes for print, colors for the color-blind, lines that can be told apart in gray."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's palette for the color-blind, darker colors first."""

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


def matplotlib() -> Any:
    """Return the library, or raise an error that names the extra."""
    try:
        import matplotlib
    except ImportError as missing:
        raise ImportError('Figures need matplotlib: pip install "slgh[plot]".') from missing
    return matplotlib


@contextmanager
def style() -> Iterator[None]:
    """Draw and write figures in this style; the user's settings are restored. Also a decorator."""
    with matplotlib().rc_context(RC):
        yield


def new_figure(height: float, width: float = WIDTH) -> Figure:
    """Return an empty figure that pyplot does not know of."""
    matplotlib()
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def as_bytes(figure: Figure, kind: str) -> bytes:
    """Return the figure as a file of this kind ("svg", "png"), the same bytes each time."""
    buffer = io.BytesIO()
    with style():
        figure.savefig(buffer, format=kind, metadata={"Date": None} if kind == "svg" else None)
    return buffer.getvalue()
