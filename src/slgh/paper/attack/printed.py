"""What the paper prints of an attack: figures of its table, images of its figures and of its grid."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from slgh.paper.attack.settings import PAPER
from slgh.paper.networks.datasets import DATASETS

IMAGES = 100
"""How many images the paper attacks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of row: a method with the paper's parameters, but for some changes.

    `printed` names the row of the paper that it is to be compared with, if there is one. Where `seeds` is given, there
    are at most so many runs of it.
    """

    label: str
    method: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    printed: str | None = None
    seeds: int | None = None


KINDS: dict[str, Kind] = {
    "zosgd": Kind(label="ZOSGD", method="zosgd", printed="zosgd"),
    "zoadamm": Kind(label="ZOAdaMM", method="zoadamm", printed="zoadamm"),
    "zogradopt": Kind(label="ZOGradOpt", method="zogradopt", printed="zogradopt"),
    "zoslgh_r": Kind(label="ZOSLGH_r", method="zoslgh_r", printed="zoslgh_r"),
    "zoslgh_d": Kind(label="ZOSLGH_d", method="zoslgh_d", changes={"slope_from": "v"}, printed="zoslgh_d"),
    "zoslgh_d_shared": Kind(
        label="ZOSLGH_d, shared samples", method="zoslgh_d", changes={"slope_from": "u"}, printed="zoslgh_d"
    ),
    "zoslgh_r_0.995": Kind(label="ZOSLGH_r 0.995", method="zoslgh_r", changes={"gamma": 0.995}, seeds=1),
}
"""The rows: the paper's five, ZOSLGH_d with the samples that the gradient has already paid for, and Figure 15's."""

FIVE = ("zosgd", "zoadamm", "zogradopt", "zoslgh_r", "zoslgh_d")
"""The paper's."""


class Figures(NamedTuple):
    """A row of the paper's table: success in %, and mean ± standard deviation over images."""

    success: str
    iterations: str
    l2: str
    total: str

    def mean(self, column: str) -> float:
        """The number itself.

        >>> Figures("67", "1171 ± 1954", "4.83 ± 4.13", "73.60 ± 102.70").mean("l2")
        4.83
        """
        return float(getattr(self, column).split(" ± ")[0])

    def deviation(self, column: str) -> float:
        """The standard deviation over images; of a success, 0 or 100 %, it follows from their share."""
        if column == "success":
            share = float(self.success)
            return math.sqrt(share * (100 - share))
        return float(getattr(self, column).split(" ± ")[1])


class Cell(NamedTuple):
    """A cell of the paper's grid: what the network sees, and the distortion."""

    seen: str
    distortion: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Panels:
    """A figure of the paper: the "total" loss or "distortion" of some rows over the iterations, an image a panel."""

    number: int
    ids: tuple[int, ...]
    column: str = "total"
    rows: tuple[str, ...] = FIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperAttack:
    """The paper's attack on one set of images."""

    data: str
    table: int
    """The number of the table, and its rows."""
    rows: Mapping[str, Figures]
    kinds: tuple[str, ...]
    """The rows that we run."""
    panels: tuple[Panels, ...]
    grid_table: int
    """The number of the table that is a grid of images, their IDs, and its cells."""
    grid_ids: tuple[int, ...]
    grid: Mapping[str, tuple[Cell, ...]]
    remarks: Mapping[str, str] = field(default_factory=dict)
    """What is known beyond chance of rows that differ."""

    @property
    def title(self) -> str:
        """The name of the images."""
        return DATASETS[self.data].title

    @property
    def T(self) -> int:
        """The paper's number of iterations."""
        return PAPER[self.data].T

    def of_column(self, column: str, there: Sequence[int]) -> list[int]:
        """The IDs whose curve of this column is drawn where these images were attacked."""
        found = {shown for p in self.panels if p.column == column for _, shown in placed(p.ids, there)}
        return sorted(found)


def placed(wanted: Sequence[int], there: Sequence[int]) -> list[tuple[int, int]]:
    """For the images that the paper shows, those that we show: the same, or else the next one that is free.

    Where there are too few images, the last ones are left out.

    >>> placed((39, 79, 115), (39, 79, 114, 116, 118))
    [(39, 39), (79, 79), (115, 116)]
    >>> placed((32, 45, 95), (0, 1))
    [(32, 0), (45, 1)]
    """
    free = [i for i in there if i not in wanted]
    found = []
    for each in wanted:
        if each in there:
            found.append((each, each))
        elif free:
            shown = next((i for i in free if i > each), free[0])
            free.remove(shown)
            found.append((each, shown))
    return found
