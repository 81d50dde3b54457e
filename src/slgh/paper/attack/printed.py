"""The attacks as the paper prints them: numbers of Tables 2 and 9, images of its figures and grids."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from slgh.paper.attack.settings import METHODS, PAPER
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
    ids: tuple[int, ...]
    column: str = "total"
    rows: tuple[str, ...] = PAPER_ROWS


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperAttack:
    """The paper's attack on one set of images."""

    data: str
    table: int
    """Number of the table with these `rows`."""
    rows: Mapping[str, PrintedRow]
    variants: tuple[str, ...]
    """Rows to run."""
    figures: tuple[PrintedFigure, ...]
    grid_table: int
    """Number of the table that is a grid of images, with these IDs and cells."""
    grid_ids: tuple[int, ...]
    grid: Mapping[str, tuple[str, ...]]
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


MNIST = PaperAttack(
    data="mnist",
    table=9,
    rows={
        "zosgd": PrintedRow("67", "1171 ± 1954", "4.83 ± 4.13", "73.60 ± 102.70"),
        "zoadamm": PrintedRow("71", "261 ± 1068", "4.25 ± 3.36", "67.49 ± 100.25"),
        "zogradopt": PrintedRow("84", "6166 ± 4354", "5.16 ± 2.28", "28.25 ± 65.35"),
        "zoslgh_r": PrintedRow("96", "1537 ± 277", "4.32 ± 2.44", "11.83 ± 37.88"),
        "zoslgh_d": PrintedRow("96", "1342 ± 242", "4.37 ± 2.58", "12.09 ± 38.56"),
    },
    variants=(*PAPER_ROWS, "zoslgh_d_shared"),
    figures=(
        PrintedFigure(number=1, ids=(32, 45, 95)),
        PrintedFigure(number=16, ids=(7, 58, 18, 94, 61, 30, 68, 82)),
        PrintedFigure(number=17, ids=(61, 30, 68, 82), column="distortion"),
    ),
    grid_table=10,
    grid_ids=(10, 21, 48, 83),
    grid={
        "zosgd": ("0 (fail.), 4.1e-7", "5, 1.194", "9, 1.183", "7 (fail.), 1.8e-4"),
        "zoadamm": ("0 (fail.), 4.9e-14", "5, 1.334", "9, 1.100", "7 (fail.), 4.0e-14"),
        "zogradopt": ("2, 3.898", "5, 1.378", "9, 1.903", "9, 6.379"),
        "zoslgh_r": ("2, 3.867", "5, 1.261", "9, 1.106", "9, 6.075"),
        "zoslgh_d": ("2, 4.048", "5, 1.222", "9, 1.059", "9, 5.722"),
    },
)
"""Tables 9 and 10, and Figures 1, 16 and 17."""

CIFAR10 = PaperAttack(
    data="cifar10",
    table=2,
    rows={
        "zosgd": PrintedRow("88", "835 ± 1238", "0.076 ± 0.085", "27.70 ± 74.80"),
        "zoadamm": PrintedRow("85", "3335 ± 2634", "0.050 ± 0.055", "20.24 ± 62.48"),
        "zogradopt": PrintedRow("65", "6789 ± 1901", "0.249 ± 0.159", "41.45 ± 76.04"),
        "zoslgh_r": PrintedRow("93", "4979 ± 756", "0.246 ± 0.178", "14.26 ± 54.61"),
        "zoslgh_d": PrintedRow("92", "4436 ± 805", "0.150 ± 0.084", "16.49 ± 58.69"),
    },
    variants=(*PAPER_ROWS, "zoslgh_d_shared", "zoslgh_r_0.995"),
    figures=(
        PrintedFigure(number=1, ids=(56, 34, 102)),
        PrintedFigure(number=13, ids=(1, 16, 37, 7, 51, 96, 39, 104, 14, 41)),
        PrintedFigure(number=14, ids=(39, 104, 14, 41), column="distortion"),
        PrintedFigure(number=15, ids=(8, 66, 105, 89), rows=("zosgd", "zoslgh_r_0.995", "zoslgh_r")),
    ),
    grid_table=8,
    grid_ids=(39, 79, 89, 115),
    grid={
        "zosgd": ("dog (fail.), 6.7e-5", "airplane, 0.154", "truck (fail.), 5.6e-5", "horse, 4.5e-3"),
        "zoadamm": ("dog (fail.), 0.226", "airplane, 0.145", "truck (fail.), 0.131", "horse, 1.6e-3"),
        "zogradopt": ("cat, 0.304", "airplane, 0.254", "truck (fail.), 1.1e-30", "horse, 0.192"),
        "zoslgh_r": ("cat, 0.540", "airplane, 0.212", "automobile, 0.282", "horse, 0.076"),
        "zoslgh_d": ("cat, 0.359", "airplane, 0.174", "automobile, 0.241", "horse, 0.075"),
    },
)
"""Tables 2 and 8, and Figures 1, 13, 14 and 15."""

ATTACKS: dict[str, PaperAttack] = {"mnist": MNIST, "cifar10": CIFAR10}
