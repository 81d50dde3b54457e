"""Data of the page's explorer for a function of one or two variables: F(x, t) for many t, and paths."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from slgh import checks
from slgh.plotting.path import Path
from slgh.smoothing import Quadrature

Floats: TypeAlias = NDArray[np.float64]
Function: TypeAlias = Callable[[Floats], Any]
"""Maps points (..., d) to values (...)."""
Box: TypeAlias = Sequence[tuple[float, float]]
"""The interval of each variable."""

FRAMES = {1: 61, 2: 31}
"""Number of radii by the number of variables. A page with four explorers stays below 10 MB."""

POINTS = {1: 1001, 2: 81}
"""Number of points per axis by the number of variables."""

REACH = 5.0
"""Radius of the blur in units of t. Only 6e-7 of the Gaussian is beyond it."""

MAX_BLURRED_POINTS = {1: 5_000, 2: 300}
"""Maximum number of points per axis that are blurred. A larger reach uses a coarser grid, enough for large t."""

CHUNK = 1_000
"""Number of points evaluated at once: quadrature holds some thousand nodes around each of them."""

MARGIN = 0.15
"""Space that a box leaves around the paths, as a share of its side."""

DIVERGED = 1e100
"""Points at least this large are left out of the box."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Explorer:
    """F on a grid for descending t, the last of them 0, with paths."""

    name: str
    title: str
    axes: tuple[Floats, ...]
    """The grid along each variable, one or two of them."""
    t: Floats
    """(n,), descending to 0."""
    F: Floats
    """(n, nx) or (n, ny, nx)."""
    paths: tuple[Path, ...] = ()
    minimizers: Floats | None = None
    """Known global minimizers, (n, d)."""


def explore(
    F: Any,
    *,
    name: str,
    title: str,
    box: Box,
    t1: float,
    paths: Sequence[Path] = (),
    minimizers: Any = None,
    frames: int | None = None,
    points: int | None = None,
) -> Explorer:
    """Evaluate F(x, t) over a box for t from t1 down to 0.

    Parameters
    ----------
    F
        A closed form, whose value(x, t) is evaluated; or a function that maps points (n, d) to values (n,), which is
        evaluated on a grid around the box and blurred.
    box
        The interval of each of the one or two variables.
    t1
        The largest t. The others are t1 s^2 with evenly spaced s, so that small t are dense.
    paths
        The paths of the methods.
    minimizers
        Known global minimizers (n, d), to be marked.
    frames, points
        Number of t, and of points per axis. By default 61 and 1001 for one variable, 31 and 81 for two.
    """
    d = _dimension(box, paths)
    checks.real("t1", t1, above=0)
    frames = FRAMES[d] if frames is None else frames
    points = POINTS[d] if points is None else points
    checks.count("frames", frames, 2)
    checks.count("points", points, 2)
    known = None if minimizers is None else _known(minimizers, d)
    axes = tuple(np.linspace(low, high, points) for low, high in box)
    t = t1 * np.linspace(1, 0, frames) ** 2
    with np.errstate(all="ignore"):
        if _is_exact(F, axes, t1):
            values = np.stack([_on_grid(smoothed_at(F, s), axes) for s in t])
        else:
            values = blur(_function(F), axes, t)
    return Explorer(name=name, title=title, axes=axes, t=t, F=values, paths=tuple(paths), minimizers=known)


def _dimension(box: Box, paths: Sequence[Path]) -> int:
    d = len(box)
    if d not in FRAMES:
        raise checks.ArgumentValueError(f"`box` must have an interval for each of one or two variables, got {d}.")
    for low, high in box:
        if not -math.inf < low < high < math.inf:
            raise checks.ArgumentValueError(
                f"`box` must have finite intervals (low, high) with low < high, got ({low}, {high})."
            )
    for path in paths:
        if path.x.shape[1:] != (d,):
            raise checks.ArgumentValueError(f"`paths` must have x of shape (k, {d}), like `box`; got {path.x.shape}.")
    return d


def _known(minimizers: Any, d: int) -> Floats:
    known = np.asarray(minimizers, float)
    if known.ndim != 2 or known.shape[1] != d:
        raise checks.ArgumentValueError(f"`minimizers` must have shape (n, {d}), like `box`; got {known.shape}.")
    return known


def _is_exact(F: Any, axes: Sequence[Floats], t1: float) -> bool:
    """True if F(x, t) is a closed form. Quadrature, which reports an error, costs a thousand times the blur."""
    if not hasattr(F, "value"):
        return False
    few = _points([axis[:: max(1, len(axis) // 4)] for axis in axes])
    return not (hasattr(F, "error") and np.any(F.error(few, np.full(len(few), t1))))


def _function(F: Any) -> Function:
    """Return f = F(., 0)."""
    if isinstance(F, Quadrature):
        fun = F.fun
        return (lambda x: np.sum(fun(x), axis=-1)) if F.separable else fun
    return smoothed_at(F, 0.0) if hasattr(F, "value") else F


def smoothed_at(F: Any, t: float) -> Function:
    """Return F(., t) of a closed form."""
    return lambda x: F.value(x, np.full(x.shape[:-1], t))


def _points(axes: Sequence[Floats]) -> Floats:
    """Return the points of a grid, (n, d), the first variable running fastest."""
    return np.stack([part.ravel() for part in np.meshgrid(*axes)], axis=-1)


def _on_grid(f: Function, axes: Sequence[Floats]) -> Floats:
    """Evaluate f on a grid, (nx,) or (ny, nx)."""
    x = _points(axes)
    values = []
    for first in range(0, len(x), CHUNK):
        some = x[first : first + CHUNK]
        found = np.asarray(f(some), float)
        if found.shape != (len(some),):
            raise checks.ArgumentValueError(
                f"`F` must map points {some.shape} to values ({len(some)},), got {found.shape}."
            )
        values.append(found)
    return np.concatenate(values).reshape([len(axis) for axis in reversed(axes)])


def blur(f: Function, axes: Sequence[Floats], t: Floats) -> Floats:
    """Compute F(x, t) = E f(x + t u) on a grid for each of descending t, by blurring f with a Gaussian of radius t.

    f is evaluated once, on the grid extended by some t on each side. For t that need too many points, it is evaluated
    again on a grid twice as coarse, and so on. Where f is not finite, F is the mean over the rest, E [f | f finite],
    and f itself at t = 0.
    """
    parts = [_blurred(f, axes, np.array(list(group)), level) for level, group in groupby(t, lambda s: _level(axes, s))]
    return np.concatenate(parts)


def _level(axes: Sequence[Floats], t: float) -> int:
    """Return how many times the grid's spacing must be doubled for the reach of t to fit."""
    most, level = MAX_BLURRED_POINTS[len(axes)], 0
    while any(len(axis) / 2**level + 2 * REACH * t / (2**level * _spacing(axis)) > most for axis in axes):
        level += 1
    return level


def _spacing(axis: Floats) -> float:
    return float(axis[-1] - axis[0]) / (len(axis) - 1)


def _blurred(f: Function, axes: Sequence[Floats], t: Floats, level: int) -> Floats:
    stretch = 2**level
    h = [stretch * _spacing(axis) for axis in axes]
    reach = [math.ceil(REACH * t[0] / step) for step in h]
    grid = [
        axis[0] + step * np.arange(-more, math.ceil((len(axis) - 1) / stretch) + more + 1)
        for axis, step, more in zip(axes, h, reach, strict=True)
    ]
    values = _on_grid(f, grid)
    # Positions of the box's grid within this one, in units of its spacing. Arrays have the last variable first.
    at = np.meshgrid(*(more + np.arange(len(a)) / stretch for a, more in zip(axes, reach, strict=True)))[::-1]
    return np.stack([_cut(_filter(values, [s / step for step in reversed(h)]), at) for s in t])


def _filter(values: Floats, sigma: Sequence[float]) -> Floats:
    """Blur the values, ignoring those that are not finite; without a blur, return them unchanged."""
    if not any(sigma):
        return values

    from scipy import ndimage

    def mean(a: Floats) -> Floats:
        return np.asarray(ndimage.gaussian_filter(a, sigma, mode="nearest", truncate=REACH))

    ok = np.isfinite(values)
    if ok.all():
        return mean(values)
    share = mean(ok.astype(float))
    # Shares below rounding error count as zero.
    return np.where(share > 1e-12, mean(np.where(ok, values, 0.0)) / share, np.nan)


def _cut(values: Floats, at: Sequence[Floats]) -> Floats:
    """Interpolate values between grid points; at grid points they are exact."""
    floors = [np.floor(a).astype(np.intp) for a in at]
    if all(np.array_equal(a, floor) for a, floor in zip(at, floors, strict=True)):
        return values[tuple(floors)]
    # A spline would spread a NaN over all points.
    from scipy import ndimage

    return np.asarray(ndimage.map_coordinates(values, at, order=3 if np.isfinite(values).all() else 1, mode="nearest"))


def box_around(paths: Sequence[Path], minimizers: Any = None) -> tuple[tuple[float, float], ...]:
    """Return a box with equal sides and a margin around the framed points of paths, and around minimizers.

    Its sides have length 2 if nothing moves.

    >>> still = Path(label="", iteration=np.arange(2), x=np.ones((2, 1)), t=np.zeros(2), fun=np.zeros(2))
    >>> box_around([still])
    ((0.0, 2.0),)
    >>> box_around([still], minimizers=[[8.0]])
    ((-0.5, 9.5),)
    """
    places = [path.framed() for path in paths] + (
        [] if minimizers is None else [np.atleast_2d(np.asarray(minimizers, float))]
    )
    x = np.concatenate(places)
    x = x[(np.abs(x) < DIVERGED).all(axis=-1)]
    if not len(x):
        raise checks.ArgumentValueError(
            "`paths` must have a finite x to put a box around, got none: no explorer of this run."
        )
    low, high = x.min(axis=0), x.max(axis=0)
    side = float((high - low).max()) / (1 - 2 * MARGIN)
    if side <= 1e-9 * np.abs(x).max():  # rounding error
        side = 2 * max(1.0, 1e-6 * float(np.abs(x).max()))
    middle = low + (high - low) / 2
    return tuple((float(m - side / 2), float(m + side / 2)) for m in middle)
