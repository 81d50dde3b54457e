"""Directive `methods-table`: the registry METHODS as a table, so that the reference is always complete."""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import slgh
from slgh.method import SLOTS


class MethodsTable(SphinxDirective):
    """One row per method: name, parts, description."""

    def run(self) -> list[nodes.Node]:
        headings = ("method", *SLOTS, "description")
        rows = [headings]
        for name, recipe in slgh.METHODS.items():
            parts = {slot: classes[getattr(recipe, slot)].__name__ for slot, classes in SLOTS.items()}
            links = (f":class:`~slgh.{slot}s.{part}`" for slot, part in parts.items())
            rows.append((f"``{name}``", *links, recipe.about))
        lines = [".. list-table::", "   :header-rows: 1", ""]
        for row in rows:
            lines += [f"   {'* -' if i == 0 else '  -'} {cell}" for i, cell in enumerate(row)]
        return self.parse_text_to_nodes("\n".join(lines))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_directive("methods-table", MethodsTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
