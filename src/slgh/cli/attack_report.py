"""The report of an attack for others to read: success by queries and by distance, and a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from slgh import __version__
from slgh.attack.robustness import BudgetRow, SuccessCurves, budgets
from slgh.plotting.page import Picture, Section, write_page
from slgh.plotting.table import Table

NORM_NAMES = {"l2": "L2", "linf": "L∞"}

OUTPUTS = {
    "logits": "the logits of all classes",
    "probabilities": "the probabilities of all classes",
    "labels": "the predicted class only",
}
"""Outputs that the attacker sees, for each value of --outputs."""

ABOUT = (
    "An attack searches for small changes to images that make a classifier predict a wrong class. This one queries the "
    "classifier and sees its outputs, but neither its weights nor its gradients."
)

LIMITS_OF_THE_REPORT = (
    "An attack gives an upper bound of the robustness, never a lower one. A success proves that an adversarial image "
    "exists at this distance, and a nearer one may exist. A failure proves nothing: more queries, another seed, "
    "another method, or access to gradients may fool the model.",
    "The figures hold for these images, this norm and this preprocessing. They say nothing about changes that are not "
    "small in this norm, such as rotations or other lighting.",
    "The figures for fewer queries are those of this run on its way. An attack that is planned for fewer queries can "
    "reach more with them.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreatModel:
    """The aim of an attack, and what the attacker knows."""

    norm: str
    eps: float | None
    """Largest distance of a success, in units of the pixels."""
    pixels: tuple[float, float]
    target: str | None
    """Name of the target class. None: any wrong class."""
    outputs: str

    @property
    def scaled_eps(self) -> float | None:
        """`eps` for pixels in a range of width 1."""
        return None if self.eps is None else self.eps / (self.pixels[1] - self.pixels[0])

    def line(self) -> str:
        """Return the threat model in one line."""
        return f"{self.distance()}; {self.aim()}; the model returns {self.outputs}"

    def distance(self) -> str:
        """Return what is minimized or limited."""
        name = NORM_NAMES[self.norm]
        return f"smallest {name} distance" if self.eps is None else f"{name} distance of at most {self.eps_text()}"

    def eps_text(self) -> str:
        """Return `eps` in units of the pixels, and relative to their range."""
        if self.eps is None:
            return "no limit"
        same = self.scaled_eps == self.eps
        return f"{self.eps:g}" if same else f"{self.eps:g} ({self.scaled_eps:.3g} of the pixel range)"

    def aim(self) -> str:
        """Return the classes that count as a success."""
        return "any wrong class" if self.target is None else f"target class {self.target}"


def curve_rows(curves: SuccessCurves, limit: int) -> list[BudgetRow]:
    """Return what was reached within 100, 200, 500, ... queries per image, up to a limit."""
    return [curves.at(n) for n in budgets(limit)]


def curve_table(rows: Sequence[BudgetRow], threat: ThreatModel) -> Table:
    """Return success and median distance by the number of queries."""
    within = "" if threat.eps is None else f" within {threat.eps_text()}"
    return Table(
        title="Success by number of queries",
        headings=("queries per image", "success", f"median {NORM_NAMES[threat.norm]}"),
        rows=tuple((f"{row.queries:,}", f"{100 * row.success:.0f} %", _shown(row.median_distance)) for row in rows),
        note=f"Success{within}: share of the attacked images. Median: distance of the nearest adversarial image, with "
        "pixels in a range of width 1. Images without one count as infinitely far.",
    )


def curves_as_dict(curves: SuccessCurves, rows: Sequence[BudgetRow]) -> dict[str, Any]:
    """Return the curves for the JSON file."""
    distances, shares = curves.success_by_distance()
    return {
        "norm": curves.norm,
        "eps": curves.eps,
        "by_queries": [row._asdict() for row in rows],
        "by_distance": {"distance": distances, "success": shares},
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportPage:
    """The contents of the page."""

    model: str
    images: str
    """Where the images are from."""
    shape: tuple[int, ...]
    given: int
    """Number of images."""
    correct: int
    """Number of images that the model classifies correctly."""
    attacked: int
    fooled: int
    distances: Sequence[float]
    """Distances of the successes, with pixels in a range of width 1."""
    threat: ThreatModel
    method: str
    budget: str
    cost: str
    seed: int
    command: str
    rows: Sequence[BudgetRow]

    def write(self, file: Path, pictures: Sequence[Picture]) -> None:
        """Write the page: `pictures` are the curves, and the images if they can be drawn."""
        curves, images = tuple(pictures[:1]), tuple(pictures[1:])
        sections = [
            Section(name="result", title="Result", texts=(self.verdict(),), tables=(self._result(),)),
            Section(name="setup", title="What was attacked", tables=(self._setup(),)),
            Section(
                name="curves",
                title="Success by queries and by distance",
                tables=(curve_table(self.rows, self.threat),),
                pictures=curves,
            ),
            *([Section(name="images", title="Images", pictures=images)] if images else []),
            Section(name="limits", title="What this report does not show", texts=LIMITS_OF_THE_REPORT),
        ]
        write_page(file, f"Robustness report: {self.model}", sections, about=ABOUT)

    def verdict(self) -> str:
        """Return the result in a sentence."""
        share = 100 * self.fooled / self.attacked
        return (
            f"The attack fooled the model on {self.fooled} of {self.attacked} images ({share:.0f} %), with "
            f"{self.budget}. Threat model: {self.threat.line()}."
        )

    def _result(self) -> Table:
        rows = [
            ("images", f"{self.given:,}"),
            ("classified correctly", f"{self.correct:,} ({100 * self.correct / self.given:.0f} %)"),
            ("attacked", f"{self.attacked:,}"),
            ("fooled", f"{self.fooled:,} ({100 * self.fooled / self.attacked:.0f} % of the attacked ones)"),
        ]
        if self.threat.target is None:
            left = self.correct - self.fooled
            share = 100 * left / self.given
            rows.append(("accuracy under this attack", f"{share:.0f} % ({left:,} of {self.given:,}), an upper bound"))
        if len(self.distances):
            low, middle, high = np.quantile(self.distances, [0, 0.5, 1])
            text = f"median {middle:.3g}, from {low:.3g} to {high:.3g}"
            rows.append((f"{NORM_NAMES[self.threat.norm]} distance of the successes", text))
        return Table(title="Result", headings=("", ""), rows=tuple(rows))

    def _setup(self) -> Table:
        low, high = self.threat.pixels
        size = " x ".join(map(str, self.shape))
        rows = (
            ("model", self.model),
            ("images", f"{self.images}, {size}, pixels from {low:g} to {high:g}"),
            ("norm", NORM_NAMES[self.threat.norm]),
            ("eps", self.threat.eps_text()),
            ("goal", self.threat.aim()),
            ("the attacker sees", OUTPUTS[self.threat.outputs]),
            ("budget", self.budget),
            ("cost", self.cost),
            ("method", self.method),
            ("seed", str(self.seed)),
            ("slgh", f"version {__version__}"),
            ("command", self.command),
        )
        return Table(title="What was attacked", headings=("", ""), rows=rows)


def _shown(distance: float) -> str:
    return f"{distance:.3g}" if np.isfinite(distance) else "-"
