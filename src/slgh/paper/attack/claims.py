"""Test the paper's claims image by image, with a bootstrap interval over images."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slgh.paper.attack.compare import COLUMNS, NOT_JUDGED, Sample, shown
from slgh.paper.attack.printed import VARIANTS
from slgh.plotting.table import Table, interval_decimals

LEVEL = 0.95
RESAMPLES = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Mean difference over images, its bootstrap interval, and the number of images."""

    mean: float
    low: float
    high: float
    images: int

    @property
    def undecided(self) -> bool:
        """True if the interval holds 0."""
        return self.low <= 0 <= self.high

    def shown(self, column: str) -> tuple[str, str]:
        """The difference and its interval as text, with signs."""
        if not self.images:
            return "none", "none"
        fixed = {"success": 1, "iterations": 0}
        how = f"+z.{fixed.get(column, interval_decimals(self.mean, self.low, self.high))}f"
        return f"{self.mean:{how}}", f"{self.low:{how}} to {self.high:{how}}"

    def as_dict(self) -> dict[str, float]:
        """Return the numbers for JSON."""
        return {"difference": self.mean, "low": self.low, "high": self.high, "images": self.images}


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One row has `less` than another in a column, or more; None: compared, but nothing is claimed."""

    column: str
    first: str
    second: str
    less: bool | None

    def __str__(self) -> str:
        first, second = VARIANTS[self.first].label, VARIANTS[self.second].label
        if self.less is None:
            return f"{first} beside {second}: {COLUMNS[self.column]} (no claim)"
        return f"{first} has {LESS_AND_MORE[self.column][0 if self.less else 1]} than {second}"


LESS_AND_MORE = {
    "total": ("a lower total loss", "a higher total loss"),
    "success": ("fewer successes", "more successes"),
    "iterations": ("an earlier 1st success", "a later 1st success"),
}
"""Words for less and more of a column."""

CLAIMS: tuple[Claim, ...] = (
    *(
        Claim(column=column, first=ours, second=other, less=less)
        for (column, less), ours, other in product(
            (("total", True), ("success", False)), ("zoslgh_r", "zoslgh_d"), ("zosgd", "zoadamm", "zogradopt")
        )
    ),
    *(Claim(column="iterations", first=ours, second="zogradopt", less=True) for ours in ("zoslgh_r", "zoslgh_d")),
    Claim(column="total", first="zoslgh_r", second="zoslgh_d", less=None),
    Claim(column="iterations", first="zoslgh_r_0.995", second="zoslgh_r", less=True),
    Claim(column="total", first="zoslgh_r_0.995", second="zoslgh_r", less=False),
)
"""Claims of Section 5 about the table: on average SLGH has a lower total loss than the others, succeeds more often, and
needs fewer iterations than ZOGradOpt. And about Figure 15: a smaller gamma is faster, and finds worse solutions."""

NOTE = (
    "Differences are taken image by image between means over seeds, and averaged; iterations over the images on which "
    "both succeed. The interval is a bootstrap's over images. Undecided: it contains 0."
)


def of_images(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean over seeds for each image, (S, N) to (N,); NaN if no seed has a value."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # raised for images without a value
        return np.asarray(np.nanmean(values, axis=0))


def paired(first: NDArray[np.float64], second: NDArray[np.float64]) -> Difference:
    """First minus second over the images with both values: (S, N) each, where S may differ."""
    differences = of_images(first) - of_images(second)
    return bootstrap(differences[np.isfinite(differences)])


def bootstrap(values: NDArray[np.float64]) -> Difference:
    """Mean of the values, and percentiles of the means of resamples with replacement."""
    n = len(values)
    if not n:
        return Difference(mean=np.nan, low=np.nan, high=np.nan, images=0)
    drawn = np.random.default_rng(0).integers(n, size=(RESAMPLES, n))
    low, high = np.quantile(values[drawn].mean(axis=1), ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return Difference(mean=float(values.mean()), low=float(low), high=float(high), images=n)


def judge(claim: Claim, found: Difference) -> str:
    """Return the verdict on a claim."""
    if not found.images:
        return "no images to compare"
    if found.undecided:
        return "undecided"
    if claim.less is None:
        return "less" if found.high < 0 else "more"
    return "holds" if (found.high < 0) == claim.less else "fails: it is the other way round"


def claims_table(samples: Mapping[str, Sample], *, title: str) -> tuple[Table, list[dict[str, Any]]]:
    """The claims about the given rows, as a table and for JSON."""
    rows, data = [], []
    for claim in CLAIMS:
        if claim.first not in samples:
            continue
        found = paired(samples[claim.first].columns[claim.column], samples[claim.second].columns[claim.column])
        said = judge(claim, found)
        rows.append((str(claim), *found.shown(claim.column), str(found.images), said))
        data.append({"claim": str(claim), **found.as_dict(), "verdict": said})
    headings = ("claim", "difference", "95 % interval", "images", "verdict")
    optional = ("images", "difference", "95 % interval")
    return Table(title=title, headings=headings, rows=tuple(rows), note=NOTE, optional=optional), data


def shared_table(samples: Mapping[str, Sample], *, title: str, judged: bool) -> tuple[Table, list[dict[str, Any]]]:
    """Compare ZOSLGH_d that reuses the gradient's samples with the paper's, which draws others for the slope in t."""
    two, one = samples["zoslgh_d"], samples["zoslgh_d_shared"]
    rows, data = [], []
    for column, heading in COLUMNS.items():
        found, means = paired(one.columns[column], two.columns[column]), (two.mean(column), one.mean(column))
        said = within_noise(found, means[0]) if judged else NOT_JUDGED
        rows.append((heading, *(shown(column, value) for value in means), *found.shown(column), said))
        data.append({"column": heading, "two sets": means[0], "shared": means[1], **found.as_dict(), "verdict": said})
    cost = [float(sample.queries.mean()) for sample in (two, one, samples["zoslgh_r"])]
    texts = [f"{queries:,.0f}" for queries in (*cost, cost[1] - cost[0])]
    rows.append(("queries per image", texts[0], texts[1], texts[3], "", f"ZOSLGH_r: {texts[2]}"))
    data.append({"column": "queries per image"} | dict(zip(("two sets", "shared", "ZOSLGH_r"), cost, strict=True)))
    headings = ("", "two sets", "shared", "difference", "95 % interval", "verdict")
    return Table(title=title, headings=headings, rows=tuple(rows), optional=("95 % interval", "difference")), data


def within_noise(found: Difference, of: float) -> str:
    """Return "within noise", or the relative difference."""
    if not found.images:
        return "no images to compare"
    return "within noise" if found.undecided else f"differs by {found.mean / of:+.1%}"
