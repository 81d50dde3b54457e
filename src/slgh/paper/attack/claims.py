"""The paper's claims, tested as claims: image by image, with an interval that says what other images would give."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slgh.paper.attack.compare import COLUMNS, NOT_JUDGED, Sample, shown
from slgh.paper.attack.printed import KINDS
from slgh.plotting.table import Table

LEVEL = 0.95
RESAMPLES = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The mean difference over images, its bootstrap interval, and over how many images."""

    mean: float
    low: float
    high: float
    images: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """That in a column one row has `less` than another, or more; None: it is compared, but nothing is claimed."""

    column: str
    first: str
    second: str
    less: bool | None

    def __str__(self) -> str:
        """In words."""
        first, second = KINDS[self.first].label, KINDS[self.second].label
        if self.less is None:
            return f"{first} beside {second}: {COLUMNS[self.column]} (no claim)"
        return f"{first} has {WORDS[self.column][0 if self.less else 1]} than {second}"


WORDS = {
    "total": ("a lower total loss", "a higher total loss"),
    "success": ("fewer successes", "more successes"),
    "iterations": ("an earlier 1st success", "a later 1st success"),
}
"""What less and more of a column are."""

CLAIMS: tuple[Claim, ...] = (
    *(
        Claim(column="total", first=ours, second=other, less=True)
        for ours in ("zoslgh_r", "zoslgh_d")
        for other in ("zosgd", "zoadamm", "zogradopt")
    ),
    *(
        Claim(column="success", first=ours, second=other, less=False)
        for ours in ("zoslgh_r", "zoslgh_d")
        for other in ("zosgd", "zoadamm", "zogradopt")
    ),
    *(Claim(column="iterations", first=ours, second="zogradopt", less=True) for ours in ("zoslgh_r", "zoslgh_d")),
    Claim(column="total", first="zoslgh_r", second="zoslgh_d", less=None),
    Claim(column="iterations", first="zoslgh_r_0.995", second="zoslgh_r", less=True),
    Claim(column="total", first="zoslgh_r_0.995", second="zoslgh_r", less=False),
)
"""What Section 5 says of the table: on average SLGH lowers the total loss over the others, succeeds more often, and
needs fewer iterations than ZOGradOpt. And of Figure 15: a smaller gamma is faster, and finds worse solutions."""


def of_images(figures: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean over seeds of each image, (S, N) to (N,); NaN where no seed has a figure."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of images without any
        return np.asarray(np.nanmean(figures, axis=0))


def paired(first: NDArray[np.float64], second: NDArray[np.float64]) -> Difference:
    """First minus second, over the images that have both figures: (S, N) each, the seeds need not be as many."""
    differences = of_images(first) - of_images(second)
    return bootstrap(differences[np.isfinite(differences)])


def bootstrap(values: NDArray[np.float64]) -> Difference:
    """The mean, and the percentiles of the means of samples drawn from the values with replacement."""
    n = len(values)
    if not n:
        return Difference(mean=np.nan, low=np.nan, high=np.nan, images=0)
    drawn = np.random.default_rng(0).integers(n, size=(RESAMPLES, n))
    low, high = np.quantile(values[drawn].mean(axis=1), ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return Difference(mean=float(values.mean()), low=float(low), high=float(high), images=n)


def judge(claim: Claim, found: Difference) -> str:
    """In words."""
    if not found.images:
        return "no images to compare"
    if found.low <= 0 <= found.high:
        return "undecided: the interval holds 0"
    if claim.less is None:
        return "less" if found.high < 0 else "more"
    return "holds" if (found.high < 0) == claim.less else "fails: it is the other way round"


def claims_table(samples: Mapping[str, Sample], *, title: str) -> tuple[Table, list[dict[str, Any]]]:
    """The claims about rows that there are, for people and for JSON."""
    rows, data = [], []
    for claim in CLAIMS:
        if claim.first not in samples:
            continue
        found = paired(samples[claim.first].columns[claim.column], samples[claim.second].columns[claim.column])
        said = judge(claim, found)
        rows.append((str(claim), *in_text(claim.column, found), str(found.images), said))
        data.append({"claim": str(claim), **_plain(found), "verdict": said})
    headings = ("claim", "difference", "95 % interval", "images", "verdict")
    return Table(title=title, headings=headings, rows=tuple(rows), note=NOTE), data


NOTE = (
    "Differences are taken image by image between means over seeds, and averaged; iterations over the images on which "
    "both succeed. The interval is a bootstrap's over images."
)


def in_text(column: str, found: Difference) -> tuple[str, str]:
    """The difference and its interval, with their signs."""
    if not found.images:
        return "none", "none"
    how = {"success": "+.1f", "iterations": "+.0f"}.get(column, "+.3g")
    return f"{found.mean:{how}}", f"{found.low:{how}} to {found.high:{how}}"


def shared_table(samples: Mapping[str, Sample], *, title: str, judged: bool) -> tuple[Table, list[dict[str, Any]]]:
    """ZOSLGH_d with the gradient's samples beside the paper's, which draws others for the slope in t."""
    two, one = samples["zoslgh_d"], samples["zoslgh_d_shared"]
    rows, data = [], []
    for column, heading in COLUMNS.items():
        found = paired(one.columns[column], two.columns[column])
        said = within_noise(found, two.mean(column)) if judged else NOT_JUDGED
        means = shown(column, two.mean(column)), shown(column, one.mean(column))
        rows.append((heading, *means, *in_text(column, found), said))
        data.append({"column": heading, "two sets": two.mean(column), "shared": one.mean(column), **_plain(found)})
        data[-1]["verdict"] = said
    queries = [float(samples[name].queries.mean()) for name in ("zoslgh_d", "zoslgh_d_shared", "zoslgh_r")]
    saved = f"{queries[1] - queries[0]:,.0f}"
    rows.append(
        ("queries an image", f"{queries[0]:,.0f}", f"{queries[1]:,.0f}", saved, "", f"ZOSLGH_r: {queries[2]:,.0f}")
    )
    data.append({"column": "queries an image", "two sets": queries[0], "shared": queries[1], "ZOSLGH_r": queries[2]})
    headings = ("", "two sets", "shared", "difference", "95 % interval", "verdict")
    return Table(title=title, headings=headings, rows=tuple(rows)), data


def within_noise(found: Difference, of: float) -> str:
    """Whether there is a difference at all, and how large."""
    if not found.images:
        return "no images to compare"
    if found.low <= 0 <= found.high:
        return "within noise"
    return f"differs by {found.mean / of:+.1%}"


def _plain(found: Difference) -> dict[str, float]:
    return {"difference": found.mean, "low": found.low, "high": found.high, "images": found.images}
