"""Figure that a notebook shows as a picture, with or without pyplot."""

from __future__ import annotations

import io

from matplotlib.figure import Figure


class NotebookFigure(Figure):
    """A Matplotlib figure that pyplot does not manage."""

    def _repr_png_(self) -> bytes:
        """Return the picture for a notebook in which pyplot has not set up one."""
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=100)
        return buffer.getvalue()
