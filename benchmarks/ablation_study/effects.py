r"""Which part contributes what: effects of the levels of each axis, and what levels do together.

Compositions that make no sense are missing, so that plain averages would compare levels beside different others. The
effects are those of the additive model

    y(o, s, u) = mean + a(o) + b(s) + c(u) + rest,

fitted by least squares for each unit (function or image) by itself, each axis centered. Where nothing is missing that
is plain averaging. Standard errors are over units. What two levels do together is the mean rest over their
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
    """How much a level, or two levels together, add to the score: less is better."""

    levels: tuple[str, ...]
    mean: float
    error: float
    cells: int

    @property
    def clear(self) -> bool:
        """Whether it is more than two standard errors, and than rounding."""
        return abs(self.mean) > max(2 * self.error, 1e-9)


@dataclass(frozen=True, kw_only=True)
class Effects:
    """What the additive model finds.

    Attributes
    ----------
    levels
        Of each axis the effects of its levels, the best first.
    explained
        The share of the variance between compositions that the model explains.
    without
        By how much that share falls without an axis.
    added
        By how much it grows if two axes may interact.
    together
        Pairs of levels, the strongest first.
    """

    levels: dict[str, list[Effect]]
    explained: float
    without: dict[str, float]
    added: dict[tuple[str, str], float]
    together: list[Effect]

    def span(self, axis: str) -> float:
        """From the best level to the worst."""
        return self.levels[axis][-1].mean - self.levels[axis][0].mean

    @property
    def axes(self) -> list[str]:
        """The one without which least is explained first."""
        return sorted(self.without, key=self.without.__getitem__, reverse=True)


def effects(of: dict[Composition, Array]) -> Effects:
    """The effects from the scores of each composition, (units,) each."""
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
    """The levels, or pairs of them, that there are, and which composition has which: (cells, levels), 0 and 1."""
    has = [tuple(getattr(c, axis) for axis in axes) for c in cells]
    names = sorted(set(has), key=lambda levels: [AXES[a].index(level) for a, level in zip(axes, levels, strict=True)])
    return names, np.array([[float(own == name) for name in names] for own in has])


def _fit(columns: Array, y: Array) -> tuple[Array, Array]:
    """Coefficients of the centered y on columns, and what is left."""
    ones = np.ones((len(y), 1))
    design = np.concatenate([columns, ones], axis=1)
    coefficients, *_ = np.linalg.lstsq(design, y, rcond=None)
    return coefficients[:-1], y - design @ coefficients


def _share(columns: Array, y: Array) -> float:
    """The share of the variance of the compositions' means that columns explain."""
    means = y.mean(axis=1, keepdims=True)
    _, rest = _fit(columns, means)
    total = float(((means - means.mean()) ** 2).sum())
    return 1 - float((rest**2).sum()) / total if total else 0.0


def _effect(levels: tuple[str, ...], by_unit: Array, cells: int) -> Effect:
    n = len(by_unit)
    error = float(by_unit.std(ddof=1)) / math.sqrt(n) if n > 1 else math.inf
    return Effect(levels=levels, mean=float(by_unit.mean()), error=error, cells=cells)
