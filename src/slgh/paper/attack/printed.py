"""The attacks as the paper prints them, and the rows to run for them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from slgh.paper.attack.settings import METHODS, PAPER
from slgh.paper.data_files import read_toml
from slgh.paper.networks.datasets import DATASETS

IMAGES = 100
"""Number of images that the paper attacks."""

PAPER_ROWS = tuple(METHODS)
"""The rows of the paper's tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodVariant:
    """A row to run: a method with the paper's parameters, apart from `changes`.

    `printed` names the row of the paper to compare with, if there is one. `seeds` limits the number of runs.
    """

    label: str
    method: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    printed: str | None = None
    seeds: int | None = None


VARIANTS: dict[str, MethodVariant] = {
    **{name: MethodVariant(label=label, method=name, printed=name) for name, label in METHODS.items()},
    "zoslgh_d": MethodVariant(label="ZOSLGH_d", method="zoslgh_d", changes={"slope_from": "v"}, printed="zoslgh_d"),
    "zoslgh_d_shared": MethodVariant(
        label="ZOSLGH_d, shared samples", method="zoslgh_d", changes={"slope_from": "u"}, printed="zoslgh_d"
    ),
    "zoslgh_r_0.995": MethodVariant(label="ZOSLGH_r 0.995", method="zoslgh_r", changes={"gamma": 0.995}, seeds=1),
}
"""The paper's five rows, ZOSLGH_d with the samples already spent on the gradient, and Figure 15's."""


class PrintedRow(NamedTuple):
    """A row of the paper's table: success in %, and mean ± standard deviation over images."""

    success: str
    iterations: str
    l2: str
    total: str

    def mean(self, column: str) -> float:
        """Return the mean as a number.

        >>> PrintedRow("67", "1171 ± 1954", "4.83 ± 4.13", "73.60 ± 102.70").mean("l2")
        4.83
        """
        return float(getattr(self, column).split(" ± ")[0])

    def deviation(self, column: str) -> float:
        """Return the standard deviation over images; for success, 0 or 100 %, it follows from the rate."""
        if column == "success":
            share = float(self.success)
            return math.sqrt(share * (100 - share))
        return float(getattr(self, column).split(" ± ")[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedFigure:
    """A figure of the paper: "total" loss or "distortion" of some rows over the iterations, one panel per image."""

    number: int
    ids: Sequence[int]
    column: str = "total"
    rows: Sequence[str] = PAPER_ROWS


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperAttack:
    """The paper's attack on one set of images."""

    data: str
    table: int
    """Number of the table with these `rows`."""
    rows: Mapping[str, PrintedRow]
    variants: list[str]
    """Rows to run."""
    figures: Sequence[PrintedFigure]
    grid_table: int
    """Number of the table that is a grid of images, with these IDs and cells."""
    grid_ids: Sequence[int]
    grid: Mapping[str, Sequence[str]]
    """Predicted class and distortion of each image."""

    @property
    def title(self) -> str:
        """Name of the images."""
        return DATASETS[self.data].title

    @property
    def T(self) -> int:
        """The paper's number of iterations."""
        return PAPER[self.data].T

    def curve_ids(self, column: str, there: Sequence[int]) -> list[int]:
        """IDs of the images whose curve of this column is drawn, if the images `there` were attacked."""
        return sorted({shown for f in self.figures if f.column == column for _, shown in substitutes(f.ids, there)})


def substitutes(wanted: Sequence[int], there: Sequence[int]) -> list[tuple[int, int]]:
    """Pair each image shown in the paper with the one to show: the same, or else the next free one.

    If there are too few images, the last ones are left out.

    >>> substitutes((39, 79, 115), (39, 79, 114, 116, 118))
    [(39, 39), (79, 79), (115, 116)]
    >>> substitutes((32, 45, 95), (0, 1))
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


def read_printed() -> dict[str, PaperAttack]:
    """Read the attacks from the data file."""
    return {
        data: PaperAttack(
            **printed
            | {
                "data": data,
                "rows": {name: PrintedRow(*cells) for name, cells in printed["rows"].items()},
                "figures": [PrintedFigure(**figure) for figure in printed["figures"]],
            }
        )
        for data, printed in read_toml("slgh.paper.attack", "printed.toml").items()
    }


ATTACKS = read_printed()
