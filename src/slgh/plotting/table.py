"""A table of text, for the terminal, a page, or a document."""

from __future__ import annotations

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

    def rich(self) -> rich.table.Table:
        """Return the table for the terminal, without its note."""
        from rich import box
        from rich.markup import escape
        from rich.table import Table as RichTable

        table = RichTable(title=escape(self.title), box=box.SIMPLE_HEAD)
        for heading in self.headings:
            table.add_column(escape(heading), overflow="fold")
        for row in self.rows:
            table.add_row(*map(escape, row))
        return table

    def markdown(self) -> str:
        """Return the table in Markdown.

        >>> print(Table(title="t", headings=("a", "b"), rows=(("1", "x|y"),)).markdown())
        | a | b |
        |---|---|
        | 1 | x\\|y |
        """
        rule = "|" + "---|" * len(self.headings)
        return "\n".join([_line(self.headings), rule, *map(_line, self.rows)])


def _line(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
