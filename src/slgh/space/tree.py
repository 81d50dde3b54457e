"""`Space`: a tree of dictionaries, lists and tuples with parameters as leaves, as a point of the unit cube."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from slgh.checks import ArgumentTypeError, ArgumentValueError, did_you_mean, show
from slgh.space.parameters import Floats, Parameter


class Slot(NamedTuple):
    """A parameter, its name, and its variables z[begin:end]."""

    name: str
    parameter: Parameter
    begin: int
    end: int

    def of(self, z: Floats) -> Floats:
        """Return the variables of the parameter."""
        return z[self.begin : self.end]

    def replaced(self, z: Floats, part: Floats) -> Floats:
        """Return z with other variables of the parameter."""
        return np.concatenate([z[: self.begin], part, z[self.end :]])


def is_tree_of_parameters(tree: Any) -> bool:
    """Return True for a parameter, or for dictionaries, lists and tuples with a parameter somewhere inside."""
    if isinstance(tree, dict):
        return any(map(is_tree_of_parameters, tree.values()))
    if isinstance(tree, list | tuple):
        return any(map(is_tree_of_parameters, tree))
    return isinstance(tree, Parameter) or _is_class(tree)


def _is_class(leaf: Any) -> bool:
    """Return True for a class such as `Float` where Float(low, high) was meant."""
    return isinstance(leaf, type) and issubclass(leaf, Parameter)


def _children(tree: Any, path: str) -> Iterator[tuple[Any, str, Any]]:
    """Return key, path and value of each child of a dictionary, list or tuple."""
    if isinstance(tree, dict):
        return ((key, f"{path}.{key}" if path else str(key), child) for key, child in tree.items())
    return ((i, f"{path}[{i}]", child) for i, child in enumerate(tree))


def _rebuilt(tree: Any, children: list[Any]) -> Any:
    """Return a tree of the same structure with other children."""
    if isinstance(tree, dict):
        return dict(zip(tree, children, strict=True))
    if isinstance(tree, list):
        return children
    return type(tree)(*children) if hasattr(tree, "_fields") else tuple(children)  # a named tuple, or a tuple


class Space:
    """A search space: a tree of parameters, relaxed to the unit cube.

    Parameters
    ----------
    tree
        A parameter, or nested dictionaries, lists and tuples with parameters as leaves: `Float`, `Integer`,
        `Categorical`, `Ordinal`, `Boolean` or `Array`. Any other leaf is a constant, which f gets unchanged.

    Examples
    --------
    >>> from slgh.space import Boolean, Float, Integer, Space
    >>> space = Space({"rate": Float(1e-4, 1, log=True), "layers": Integer(1, 4), "bias": Boolean()})
    >>> space.d, space.names
    (3, ['rate', 'layers', 'bias'])
    >>> space.decode([0, 0.3, 0.9])
    {'rate': 0.0001, 'layers': 2, 'bias': True}
    """

    def __init__(self, tree: Any) -> None:
        self.tree: Any = tree.tree if isinstance(tree, Space) else tree
        self._slots: list[Slot] = []
        self._collect(self.tree, "", frozenset())
        if not self._slots:
            raise ArgumentTypeError(
                f"`space` must have at least one parameter of slgh.space, such as Float(0, 1); got {show(tree)}."
            )
        if not self.d:
            raise ArgumentValueError("`space` must have more than one point, but all its parameters are fixed.")
        names = self.names
        if len(set(names)) < len(names):
            raise ArgumentValueError(f"`space` must have different names, got {names}. Rename a key.")

    def _collect(self, tree: Any, path: str, above: frozenset[int]) -> None:
        """Add the parameters of a tree. `above` identifies the trees that contain it."""
        if isinstance(tree, Parameter):
            begin = self._slots[-1].end if self._slots else 0
            self._slots.append(Slot(path or "x", tree, begin, begin + tree.size))
        elif isinstance(tree, Space):
            raise ArgumentTypeError(f"`{path}` must be a parameter, got a Space. Pass its `tree`.")
        elif _is_class(tree):
            raise ArgumentTypeError(
                f"`{path or 'space'}` must be a parameter, got its class. Write {tree.__name__}(...)."
            )
        elif isinstance(tree, dict | list | tuple):
            if id(tree) in above:
                raise ArgumentValueError(f"`{path}` must not contain itself.")
            for _, name, child in _children(tree, path):
                self._collect(child, name, above | {id(tree)})

    def __repr__(self) -> str:
        return f"Space({self.tree!r})"

    @property
    def d(self) -> int:
        """Number of relaxed variables z."""
        return self._slots[-1].end

    @property
    def names(self) -> list[str]:
        """Names of the parameters, in the order of their variables: "optimizer.rate", "layers[0]"."""
        return [slot.name for slot in self._slots]

    @property
    def slots(self) -> list[Slot]:
        """The parameters, with their names and variables."""
        return self._slots

    @property
    def bounds(self) -> list[tuple[float, float]]:
        """Bounds of z: the unit cube."""
        return [(0.0, 1.0)] * self.d

    @property
    def discrete(self) -> bool:
        """True if a parameter is not real, so that f is constant on cells of z."""
        return any(slot.parameter.count is not None for slot in self._slots)

    @property
    def cells(self) -> Floats:
        """Width of the cells along each variable (d,), 0 for real numbers."""
        return np.concatenate([np.full(slot.end - slot.begin, slot.parameter.cell) for slot in self._slots])

    @property
    def count(self) -> int | None:
        """Number of distinct points, or None if a parameter is real."""
        counts = [slot.parameter.count for slot in self._slots]
        return None if None in counts else math.prod(n for n in counts if n is not None)

    def decode(self, z: Any) -> Any:
        """Return the tree of values at z (d,). Variables outside [0, 1] are clipped."""
        z = np.asarray(z, float)
        if z.shape != (self.d,):
            raise ArgumentValueError(f"`z` must have shape ({self.d},), got {z.shape}.")
        slots = iter(self._slots)

        def value(tree: Any) -> Any:
            if isinstance(tree, Parameter):
                return tree.decode(next(slots).of(z))
            if isinstance(tree, dict | list | tuple):
                return _rebuilt(tree, [value(child) for _, _, child in _children(tree, "")])
            return tree

        return value(self.tree)

    def encode(self, values: Any) -> Floats:
        """Return the point z (d,) of a tree of values. A discrete value is encoded as the middle of its cell."""
        return self._encoded(values, "values", complete=True)

    def encode_start(self, start: Any) -> Floats:
        """Return the point z (d,) of a start. Parameters that are missing or None get the middle of their range."""
        return np.full(self.d, 0.5) if start is None else self._encoded(start, "start", complete=False)

    def key(self, values: Any) -> tuple[Hashable, ...]:
        """Return a key that is equal for trees of equal values."""
        return tuple(s.parameter.key(v) for s, v in self._matched(values, "points", complete=True))

    def center(self) -> Any:
        """Return the tree of values in the middle of the cube. Each category has its first choice."""
        return self.decode(np.full(self.d, 0.5))

    def sample(self, rng: np.random.Generator) -> Any:
        """Return a tree of random values. z is uniform in the cube, so choices and cells are equally probable."""
        return self.decode(rng.random(self.d))

    def probabilities(self, z: Any, t: Any) -> dict[str, Floats]:
        """Return the probability of each value of the discrete parameters, by their names.

        The homotopy evaluates f at z + t u, reflected into the cube. These are the probabilities at such points.

        Parameters
        ----------
        z
            Point of the cube, (d,).
        t
            Smoothing radius, a number or (d,).
        """
        z, t = np.asarray(z, float), np.broadcast_to(np.asarray(t, float), (self.d,))
        return {s.name: s.parameter.probabilities(s.of(z), s.of(t)) for s in self._slots if s.parameter.count}

    def grid(self) -> Iterator[Floats]:
        """Return one z (d,) for each point of a space without real numbers."""
        return (np.concatenate(parts) for parts in product(*(list(s.parameter.points()) for s in self._slots)))

    def neighbors(self, z: Floats) -> list[Floats]:
        """Return the points (d,) that differ from z in one discrete parameter, by a step to a neighboring value."""
        return [s.replaced(z, part) for s in self._slots for part in s.parameter.neighbors(s.of(z))]

    @property
    def fingerprint(self) -> str:
        """Short text that differs for different spaces. It is the same in every process."""
        text = repr([(s.name, _described(s.parameter)) for s in self._slots])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def _encoded(self, values: Any, what: str, *, complete: bool) -> Floats:
        """Return z (d,) of a tree of values."""
        parts = {s.name: s.parameter.encode(v, s.name) for s, v in self._matched(values, what, complete=complete)}
        middles = {s.name: np.full(s.end - s.begin, 0.5) for s in self._slots}
        return np.concatenate([parts.get(s.name, middles[s.name]) for s in self._slots])

    def _matched(self, values: Any, what: str, *, complete: bool) -> Iterator[tuple[Slot, Any]]:
        """Return each parameter with its value in a tree of the same structure.

        Raise if the structures differ. Values may be missing or None unless `complete`.
        """
        slots = iter(self._slots)

        def match(tree: Any, given: Any, path: str, *, known: bool) -> Iterator[tuple[Slot, Any]]:
            if isinstance(tree, Parameter):
                slot = next(slots)
                if known and (complete or given is not None or None in getattr(tree, "choices", ())):
                    yield slot, given
            elif isinstance(tree, dict | list | tuple):
                known = known and (complete or given is not None)
                lookup = _lookup(tree, given, path, what, complete=complete) if known else None
                for key, name, child in _children(tree, path):
                    found = lookup is not None and key in lookup
                    yield from match(child, lookup[key] if lookup and found else None, name, known=found)

        return match(self.tree, values, "", known=True)


def _lookup(tree: Any, given: Any, path: str, what: str, *, complete: bool) -> Mapping[Any, Any]:
    """Return the children of `given` by their keys in `tree`, or raise if they do not match."""
    where = f"`{what}`" if not path else f"`{path}` in `{what}`"
    if isinstance(tree, dict):
        if not isinstance(given, Mapping):
            raise ArgumentTypeError(f"{where} must be a dictionary like the space, got {show(given)}.")
        for key in given:
            if key not in tree:
                names = [str(name) for name in tree]
                hint = did_you_mean(key, names) or f" The space has {', '.join(names)}."
                raise ArgumentValueError(f"{where} has no name {key!r}.{hint}")
        for key, child in tree.items():
            if complete and key not in given and is_tree_of_parameters(child):
                raise ArgumentValueError(f"{where} must have all names of the space, but {key!r} is missing.")
        return given
    if not isinstance(given, list | tuple):
        raise ArgumentTypeError(f"{where} must be a list or tuple like the space, got {show(given)}.")
    if len(given) != len(tree):
        raise ArgumentValueError(f"{where} must have {len(tree)} entries like the space, got {len(given)}.")
    return dict(enumerate(given))


def _described(thing: Any) -> Any:
    """Describe parameters by their fields, and choices by their values or, if they are objects, their types."""
    if isinstance(thing, Parameter):
        return type(thing).__name__, {name: _described(value) for name, value in vars(thing).items()}
    if thing is None or isinstance(thing, bool | int | float | str):
        return repr(thing)
    if isinstance(thing, np.ndarray):
        return thing.tolist()
    if isinstance(thing, list | tuple):
        return [_described(each) for each in thing]
    name: Callable[..., Any] | str = getattr(thing, "__qualname__", type(thing).__qualname__)
    return str(name)
