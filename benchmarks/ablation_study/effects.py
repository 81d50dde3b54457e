r"""Estimate the effect of each level of an axis, and the interactions of levels.

Some compositions make no sense and are missing, so plain averages would compare levels under different conditions. The
effects are those of the additive model

    y(o, s, u) = mean + a(o) + b(s) + c(u) + rest,

fitted by least squares for each unit (function or image) separately, with each axis centered. If nothing is missing,
this equals plain averaging. Standard errors are over units. The interaction of two levels is the mean rest over their
compositions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ablation_study.axes import AXES, Composition

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Effect:
    """Contribution of a level, or of two levels together, to the score. Lower is better."""

    levels: tuple[str, ...]
    mean: float
    error: float
    cells: int

    @property
    def clear(self) -> bool:
        """True if the effect exceeds two standard errors, and rounding."""
        return abs(self.mean) > max(2 * self.error, 1e-9)


@dataclass(frozen=True, kw_only=True)
class Effects:
    """Result of the additive model.

    Attributes
    ----------
    levels
        Effects of the levels of each axis, the best first.
    explained
        Share of the variance between compositions that the model explains.
    without
        Decrease of that share without an axis.
    added
        Increase of that share if two axes may interact.
    together
        Interactions of pairs of levels, the strongest first.
    """

    levels: dict[str, list[Effect]]
    explained: float
    without: dict[str, float]
    added: dict[tuple[str, str], float]
    together: list[Effect]

    def span(self, axis: str) -> float:
        """Return the difference between the worst level and the best."""
        return self.levels[axis][-1].mean - self.levels[axis][0].mean

    @property
    def axes(self) -> list[str]:
        """Axes by importance: the one whose removal loses the most explained variance comes first."""
        return sorted(self.without, key=self.without.__getitem__, reverse=True)


def effects(of: dict[Composition, Array]) -> Effects:
    """Compute the effects from the scores of each composition, of shape (units,)."""
    cells, y = list(of), np.array(list(of.values()))
    single = {axis: _columns(cells, (axis,)) for axis in AXES}
    everything = np.concatenate([columns for _, columns in single.values()], axis=1)
    coefficients, rest = _fit(everything, y)
    levels, at = {}, 0
    for axis, (names, columns) in single.items():
        own = coefficients[at : at + len(names)]
        at += columns.shape[1]
        counts = columns.sum(axis=0)
        found = [
            _effect(name, each, int(n)) for name, each, n in zip(names, own - own.mean(axis=0), counts, strict=True)
        ]
        levels[axis] = sorted(found, key=lambda effect: effect.mean)
    explained = _share(everything, y)
    pairs = {(a, b): _columns(cells, (a, b)) for a, b in combinations(AXES, 2)}
    others = {axis: [columns for name, (_, columns) in single.items() if name != axis] for axis in AXES}
    return Effects(
        levels=levels,
        explained=explained,
        without={axis: explained - _share(np.concatenate(rest_of, axis=1), y) for axis, rest_of in others.items()},
        added={
            pair: _share(np.concatenate([everything, columns], axis=1), y) - explained
            for pair, (_, columns) in pairs.items()
        },
        together=sorted(
            (
                _effect(name, rest[columns[:, k] > 0].mean(axis=0), int(columns[:, k].sum()))
                for names, columns in pairs.values()
                for k, name in enumerate(names)
            ),
            key=lambda effect: -abs(effect.mean),
        ),
    )


def _columns(cells: list[Composition], axes: tuple[str, ...]) -> tuple[list[tuple[str, ...]], Array]:
    """Return the levels, or pairs of levels, and an indicator matrix (cells, levels) of 0 and 1."""
    has = [tuple(getattr(c, axis) for axis in axes) for c in cells]
    names = sorted(set(has), key=lambda levels: [AXES[a].index(level) for a, level in zip(axes, levels, strict=True)])
    return names, np.array([[float(own == name) for name in names] for own in has])


def _fit(columns: Array, y: Array) -> tuple[Array, Array]:
    """Return the coefficients of the centered y on columns, and the residuals."""
    ones = np.ones((len(y), 1))
    design = np.concatenate([columns, ones], axis=1)
    coefficients, *_ = np.linalg.lstsq(design, y, rcond=None)
    return coefficients[:-1], y - design @ coefficients


def _share(columns: Array, y: Array) -> float:
    """Return the share of the variance of the compositions' means that columns explain."""
    means = y.mean(axis=1, keepdims=True)
    _, rest = _fit(columns, means)
    total = float(((means - means.mean()) ** 2).sum())
    return 1 - float((rest**2).sum()) / total if total else 0.0


def _effect(levels: tuple[str, ...], by_unit: Array, cells: int) -> Effect:
    n = len(by_unit)
    error = float(by_unit.std(ddof=1)) / math.sqrt(n) if n > 1 else math.inf
    return Effect(levels=levels, mean=float(by_unit.mean()), error=error, cells=cells)
