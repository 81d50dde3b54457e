"""Parameters of a search space. Each maps its values to the unit interval or cube, and back."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slgh.checks import ArgumentTypeError, ArgumentValueError, plain, show
from slgh.space.cells import cell_probabilities, largest_probabilities

Floats: TypeAlias = NDArray[np.float64]

MAX_VALUES = 2**40
"""Maximum number of values of an Integer. Beyond, the cells are too narrow for the rounding of the logarithm."""

CHOSEN, OTHERS = 0.75, 0.25
"""Variables of a category that is chosen, and of the others. They are the means of the halves of [0, 1], so that noise
of t = 1/4 can still choose another one."""


class Parameter(ABC):
    """A parameter with `size` variables in [0, 1]."""

    @property
    def size(self) -> int:
        """Number of variables z."""
        return 1

    @property
    def count(self) -> int | None:
        """Number of values, or None for real numbers."""
        return None

    @property
    def cell(self) -> float:
        """Width in z of the set of points with the same value, 0 for real numbers."""
        return 0.0

    @abstractmethod
    def encode(self, value: Any, name: str) -> Floats:
        """Return z (size,) of a value. Raise if the parameter cannot have this value. `name` is for the error."""

    @abstractmethod
    def decode(self, z: Floats) -> Any:
        """Return the value at z (size,)."""

    def key(self, value: Any) -> Hashable:
        """Return a key that is equal for equal values."""
        return value  # type: ignore[no-any-return]

    def neighbors(self, z: Floats) -> list[Floats]:
        """Return points z of the values next to the one at z. Empty for real numbers."""
        return []

    def points(self) -> Iterable[Floats]:
        """Return one z for each value."""
        raise NotImplementedError

    def probabilities(self, z: Floats, t: Floats) -> Floats:
        """Return the probability of each value if f is evaluated at z + t u, reflected into [0, 1]."""
        raise NotImplementedError


def _read_limits(kind: str, low: Any, high: Any, *, log: bool) -> tuple[float, float]:
    """Return finite bounds low <= high, positive if `log`, or raise."""
    for name, side in (("low", low), ("high", high)):
        if isinstance(side, bool) or not isinstance(side, Real):
            raise ArgumentTypeError(f"`{name}` of {kind} must be a real number, got {show(side)}.")
        if not math.isfinite(side):
            raise ArgumentValueError(f"`{name}` of {kind} must be finite, got {side}. Choose the widest useful range.")
    if low > high:
        raise ArgumentValueError(f"`low` of {kind} must be <= high, got ({low}, {high}). Exchange the bounds.")
    if log and low <= 0:
        raise ArgumentValueError(f"`low` of {kind} must be > 0 with log=True, got {low}. Raise it, or omit `log`.")
    return float(low), float(high)


def _to_unit(x: Floats, low: Floats, high: Floats, *, log: bool) -> Floats:
    """Map [low, high] to [0, 1], by its logarithm if `log`. The middle if low = high."""
    if log:
        x, low, high = np.log(x), np.log(low), np.log(high)
    half = high / 2 - low / 2  # the width may overflow
    z = (x / 2 - low / 2) / np.where(half > 0, half, 1.0)
    return np.clip(np.where(half > 0, z, 0.5), 0.0, 1.0)


def _from_unit(z: Floats, low: Floats, high: Floats, *, log: bool) -> Floats:
    """Map [0, 1] to [low, high]. The ends are exact."""
    z = np.clip(z, 0.0, 1.0)
    if log:
        x = np.exp((1 - z) * np.log(low) + z * np.log(high))
    else:
        x = (1 - z) * low + z * high
    return np.clip(np.where(z == 0, low, np.where(z == 1, high, x)), low, high)


@dataclass(frozen=True)
class Float(Parameter):
    """Real number in [low, high].

    Parameters
    ----------
    low, high
        Bounds, included.
    log
        True to vary the logarithm, for rates and scales. False by default.
    """

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        low, high = _read_limits("Float", plain(self.low), plain(self.high), log=self.log)
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    def encode(self, value: Any, name: str) -> Floats:
        number = plain(value)
        if isinstance(number, bool) or not isinstance(number, Real):
            raise ArgumentTypeError(f"`{name}` must be a real number, got {show(value)}.")
        if not self.low <= float(number) <= self.high:
            raise ArgumentValueError(f"`{name}` must lie within ({self.low}, {self.high}), got {number}.")
        x, low, high = np.array([[float(number)], [self.low], [self.high]])
        return _to_unit(x, low, high, log=self.log)

    def decode(self, z: Floats) -> float:
        low, high = np.array([[self.low], [self.high]])
        return float(_from_unit(z, low, high, log=self.log)[0])


@dataclass(frozen=True)
class Integer(Parameter):
    """Integer from low to high.

    The cell of the integer k is the image of [k - 1/2, k + 1/2) in [0, 1]. All cells have the same width or, with
    `log`, widths that shrink as k grows.

    Parameters
    ----------
    low, high
        Bounds, included.
    log
        True to vary the logarithm. False by default.
    """

    low: int
    high: int
    log: bool = False

    def __post_init__(self) -> None:
        low, high = plain(self.low), plain(self.high)
        for name, side in (("low", low), ("high", high)):
            if isinstance(side, bool) or not isinstance(side, Integral):
                raise ArgumentTypeError(f"`{name}` of Integer must be an integer, got {show(side)}.")
        _read_limits("Integer", low, high, log=self.log)
        if high - low >= MAX_VALUES or (self.log and high >= MAX_VALUES):
            raise ArgumentValueError(
                f"`Integer` must have at most 2**40 values, got ({low}, {high}). Use Float, and round its value."
            )
        object.__setattr__(self, "low", int(low))
        object.__setattr__(self, "high", int(high))

    @property
    def size(self) -> int:
        return int(self.high > self.low)

    @property
    def count(self) -> int:
        return self.high - self.low + 1

    @property
    def cell(self) -> float:
        """Width of the cell in the middle."""
        k = self.decode(np.array([0.5])) - self.low
        return float(np.diff(self._edges(np.array([k, k + 1])))[0])

    def _edges(self, k: NDArray[Any]) -> Floats:
        """Return the lower ends of the cells of the integers low + k."""
        if not self.log:
            return np.asarray(k / self.count, float)
        first, end = self.low - 0.5, self.high + 0.5
        return np.asarray(np.log((first + k) / first) / math.log(end / first))

    def encode(self, value: Any, name: str) -> Floats:
        number = plain(value)
        if isinstance(number, bool) or not isinstance(number, Integral):
            raise ArgumentTypeError(f"`{name}` must be an integer, got {show(value)}.")
        if not self.low <= int(number) <= self.high:
            raise ArgumentValueError(f"`{name}` must lie within ({self.low}, {self.high}), got {number}.")
        return self._center(int(number))

    def _center(self, value: int) -> Floats:
        """Return the middle of the cell of a value."""
        if not self.size:
            return np.empty(0)
        k = value - self.low
        return np.asarray(self._edges(np.array([k, k + 1])).mean(keepdims=True))

    def decode(self, z: Floats) -> int:
        if not self.size:
            return self.low
        at = min(max(float(z[0]), 0.0), 1.0)
        if self.log:
            first, end = self.low - 0.5, self.high + 0.5
            found = math.floor(first * math.exp(at * math.log(end / first)) + 0.5)
        else:
            found = self.low + math.floor(at * self.count)
        return min(max(found, self.low), self.high)

    def neighbors(self, z: Floats) -> list[Floats]:
        """Return the centers of the cells at distance 1, 2, 4, ... in both directions."""
        value, found, step = self.decode(z), [], 1
        while step < self.count:
            found += [self._center(k) for k in (value - step, value + step) if self.low <= k <= self.high]
            step *= 2
        return found

    def points(self) -> Iterable[Floats]:
        return (self._center(k) for k in range(self.low, self.high + 1))

    def probabilities(self, z: Floats, t: Floats) -> Floats:
        if not self.size:
            return np.ones(1)
        return cell_probabilities(self._edges(np.arange(self.count + 1)), float(z[0]), float(t[0]))


def _read_choices(kind: str, choices: Any) -> tuple[Any, ...]:
    """Return the choices as a tuple, or raise."""
    if isinstance(choices, str | bytes | Mapping | Set) or not isinstance(choices, Iterable):
        raise ArgumentTypeError(f"`choices` of {kind} must be a list or tuple, got {show(choices)}.")
    found = tuple(choices)
    if not found:
        raise ArgumentValueError(f"`choices` of {kind} must not be empty. Pass at least one.")
    for i, choice in enumerate(found):
        if _find(found, choice) != i:
            raise ArgumentValueError(f"`choices` of {kind} must differ, got {choice!r} twice.")
    return found


def _find(choices: Sequence[Any], value: Any) -> int | None:
    """Return the position of a value. Identical objects come first, then equal ones of the same type, then equal ones.

    So the choices 1, 1.0 and True differ, and NumPy's strings are found.
    """
    for same in (_identical, _equal_of_one_type, _equal):
        for i, choice in enumerate(choices):
            if same(choice, value):
                return i
    return None


def _identical(a: Any, b: Any) -> bool:
    return a is b


def _equal_of_one_type(a: Any, b: Any) -> bool:
    return type(a) is type(b) and _equal(a, b)


def _equal(a: Any, b: Any) -> bool:
    try:
        return bool(np.array_equal(a, b)) if isinstance(a, np.ndarray) else bool(a == b)
    except (TypeError, ValueError):  # objects that cannot be compared
        return False


@dataclass(frozen=True)
class _Choices(Parameter):
    """A parameter with a list of values of any type."""

    choices: Sequence[Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "choices", _read_choices(type(self).__name__, self.choices))

    @property
    def count(self) -> int:
        return len(self.choices)

    def index(self, value: Any, name: str) -> int:
        """Return the position of a value among the choices, or raise."""
        found = _find(self.choices, value)
        if found is None:
            listed = ", ".join(repr(choice) for choice in self.choices)
            raise ArgumentValueError(f"`{name}` must be one of {listed}; got {value!r}.")
        return found

    def key(self, value: Any) -> Hashable:
        return self.index(value, "choice")


@dataclass(frozen=True)
class Categorical(_Choices):
    """One of several unordered choices.

    It has one variable per choice. The largest variable selects the choice.

    Parameters
    ----------
    choices
        List or tuple of distinct objects of any type. f gets these objects.
    """

    @property
    def size(self) -> int:
        return self.count if self.count > 1 else 0

    @property
    def cell(self) -> float:
        return CHOSEN - OTHERS

    def encode(self, value: Any, name: str) -> Floats:
        return self._chosen(self.index(value, name))

    def _chosen(self, i: int) -> Floats:
        """Return z of the i-th choice."""
        z = np.full(self.size, OTHERS)
        z[i : i + 1] = CHOSEN
        return z

    def decode(self, z: Floats) -> Any:
        return self.choices[int(np.argmax(z)) if self.size else 0]

    def neighbors(self, z: Floats) -> list[Floats]:
        """Return all other choices."""
        now = int(np.argmax(z)) if self.size else 0
        return [self._chosen(i) for i in range(self.count) if i != now]

    def points(self) -> Iterable[Floats]:
        return (self._chosen(i) for i in range(self.count))

    def probabilities(self, z: Floats, t: Floats) -> Floats:
        return largest_probabilities(np.asarray(z, float), t) if self.size else np.ones(1)


@dataclass(frozen=True)
class Ordinal(_Choices):
    """One of several ordered choices, such as the sizes of a model. It has one variable, like an Integer.

    Parameters
    ----------
    choices
        List or tuple of distinct objects of any type, in their order. f gets these objects.
    """

    @property
    def _positions(self) -> Integer:
        return Integer(0, self.count - 1)

    @property
    def size(self) -> int:
        return self._positions.size

    @property
    def cell(self) -> float:
        return self._positions.cell

    def encode(self, value: Any, name: str) -> Floats:
        return self._positions.encode(self.index(value, name), name)

    def decode(self, z: Floats) -> Any:
        return self.choices[self._positions.decode(z)]

    def neighbors(self, z: Floats) -> list[Floats]:
        return self._positions.neighbors(z)

    def points(self) -> Iterable[Floats]:
        return self._positions.points()

    def probabilities(self, z: Floats, t: Floats) -> Floats:
        return self._positions.probabilities(z, t)


@dataclass(frozen=True)
class Boolean(Parameter):
    """True or False. It has one variable z, and is True if z >= 1/2."""

    @property
    def count(self) -> int:
        return 2

    @property
    def cell(self) -> float:
        return 0.5

    def encode(self, value: Any, name: str) -> Floats:
        flag = plain(value)
        if not isinstance(flag, bool):
            raise ArgumentTypeError(f"`{name}` must be True or False, got {show(value)}.")
        return np.array([CHOSEN if flag else OTHERS])

    def decode(self, z: Floats) -> bool:
        return bool(z[0] >= 0.5)

    def neighbors(self, z: Floats) -> list[Floats]:
        return [np.array([OTHERS if self.decode(z) else CHOSEN])]

    def points(self) -> Iterable[Floats]:
        return (np.array([z]) for z in (OTHERS, CHOSEN))

    def probabilities(self, z: Floats, t: Floats) -> Floats:
        return cell_probabilities(np.array([0.0, 0.5, 1.0]), float(z[0]), float(t[0]))


@dataclass(frozen=True, eq=False)
class Array(Parameter):
    """NumPy array of real numbers in [low, high].

    Parameters
    ----------
    shape
        Shape of the array, an integer or a tuple.
    low, high
        Bounds, included: numbers, or arrays that broadcast to the shape.
    log
        True to vary the logarithm. False by default.
    """

    shape: int | tuple[int, ...]
    low: ArrayLike
    high: ArrayLike
    log: bool = False

    def __post_init__(self) -> None:
        shape = plain(self.shape)
        shape = (shape,) if isinstance(shape, Integral) else tuple(shape)
        if not all(isinstance(n, Integral) and not isinstance(n, bool) and int(n) > 0 for n in shape):
            raise ArgumentValueError(f"`shape` of Array must consist of positive integers, got {self.shape}.")
        object.__setattr__(self, "shape", tuple(int(n) for n in shape))
        for name in ("low", "high"):
            object.__setattr__(self, name, self._read_side(name, getattr(self, name)))
        low, high = self._sides
        for pair in zip(low.tolist(), high.tolist(), strict=True):
            _read_limits("Array", *pair, log=self.log)

    def _read_side(self, name: str, side: Any) -> Floats:
        """Return bounds as a read-only array of the shape, or raise."""
        try:
            return np.broadcast_to(np.array(side, float), self._shape)
        except (TypeError, ValueError):
            raise ArgumentValueError(
                f"`{name}` of Array must be a number or broadcast to the shape {self.shape}, got {show(side)}."
            ) from None

    @property
    def _shape(self) -> tuple[int, ...]:
        """The shape as a tuple, which it is after the initialization."""
        return self.shape if isinstance(self.shape, tuple) else (self.shape,)

    @property
    def _sides(self) -> tuple[Floats, Floats]:
        """The bounds as vectors."""
        return np.ravel(self.low).astype(float), np.ravel(self.high).astype(float)

    @property
    def size(self) -> int:
        return math.prod(self._shape)

    def encode(self, value: Any, name: str) -> Floats:
        try:
            x = np.array(value, float)
        except (TypeError, ValueError):
            raise ArgumentTypeError(f"`{name}` must be an array of real numbers, got {show(value)}.") from None
        if x.shape != self.shape:
            raise ArgumentValueError(f"`{name}` must have shape {self.shape}, got {x.shape}.")
        low, high = self._sides
        flat = x.ravel()
        outside = ~((flat >= low) & (flat <= high))
        if outside.any():
            i = int(np.argmax(outside))
            raise ArgumentValueError(f"`{name}` must lie within ({low[i]}, {high[i]}) at position {i}, got {flat[i]}.")
        return _to_unit(flat, low, high, log=self.log)

    def decode(self, z: Floats) -> Floats:
        return _from_unit(np.asarray(z, float), *self._sides, log=self.log).reshape(self._shape)

    def key(self, value: Any) -> Hashable:
        return np.ascontiguousarray(value, float).tobytes()
