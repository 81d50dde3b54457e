"""A table of text, for the terminal, a page, or a document."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import rich.table


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Headings and rows of plain text, with a title above and a note below."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    optional: tuple[str, ...] = ()
    """Headings of columns that a narrow terminal does without, the first to be dropped first."""

    def rich(self, width: int) -> rich.table.Table:
        """Return the table for a terminal of this width, without its note.

        A table that is too wide loses its optional columns, one by one, until it fits. The caption names them.
        """
        from rich import box
        from rich.markup import escape
        from rich.table import Table as RichTable

        dropped: tuple[str, ...] = ()
        while self._printed_width(dropped) > width and len(dropped) < len(self.optional):
            dropped = self.optional[: len(dropped) + 1]
        caption = f"Too wide for this terminal: {'; '.join(dropped)}" if dropped else None
        table = RichTable(title=escape(self.title), box=box.SIMPLE_HEAD, caption=caption and escape(caption))
        kept = self._columns_without(dropped)
        for column in kept:
            table.add_column(escape(self.headings[column]), overflow="fold")
        for row in self.rows:
            table.add_row(*(escape(row[column]) for column in kept))
        return table

    def _columns_without(self, dropped: tuple[str, ...]) -> list[int]:
        return [column for column, heading in enumerate(self.headings) if heading not in dropped]

    def _printed_width(self, dropped: tuple[str, ...]) -> int:
        """Return the width in a terminal: each column has a space on either side and one before the next."""
        lines = (self.headings, *self.rows)
        widths = [max(len(line[column]) for line in lines) for column in self._columns_without(dropped)]
        return sum(width + 3 for width in widths) + 1

    def markdown(self) -> str:
        """Return the table in Markdown.

        >>> print(Table(title="t", headings=("a", "b"), rows=(("1", "x|y"),)).markdown())
        | a | b |
        |---|---|
        | 1 | x\\|y |
        """
        rule = "|" + "---|" * len(self.headings)
        return "\n".join([_line(self.headings), rule, *map(_line, self.rows)])


def interval_decimals(middle: float, low: float, high: float) -> int:
    """Return the number of decimals for a number and its interval, which contains it as printed if they are equal.

    The distance from the number to the nearer end gets two significant digits, the number itself at most four.

    >>> interval_decimals(4.98604, 4.98571, 4.98637), interval_decimals(-0.000266, -0.0201, 0.0109)
    (3, 3)
    """
    distances = [distance for distance in (middle - low, high - middle) if distance > 0]
    resolved = 1 - _exponent(min(distances)) if distances else math.inf
    return int(max(0, min(resolved, 3 - _exponent(middle))))


def _exponent(number: float) -> int:
    """Return the decimal exponent of the first significant digit."""
    return math.floor(math.log10(abs(number))) if number else 0


def _line(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
