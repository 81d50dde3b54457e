"""Noise on NumPy: one stream a problem and purpose, so that a run does not depend on what else is in the batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slgh.parts import Context

_add: Any = np.add.reduce
_minimum: Any = np.minimum.reduce
_maximum: Any = np.maximum.reduce
_and: Any = np.logical_and.reduce


class Namespace:
    """NumPy as an array-API namespace, with the Python wrappers around some functions peeled off.

    The same results, sooner: for small arrays a wrapper costs more than what it wraps. Everything else is
    NumPy's own.
    """

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        setattr(self, name, found)
        return found

    @staticmethod
    def sum(x: Any, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
        return _add(x, axis, dtype, None, keepdims)

    @staticmethod
    def min(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
        return _minimum(x, axis, None, None, keepdims)

    @staticmethod
    def max(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
        return _maximum(x, axis, None, None, keepdims)

    @staticmethod
    def all(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
        return _and(x, axis, None, None, keepdims)

    @staticmethod
    def argmin(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
        return x.argmin(axis, keepdims=keepdims)

    @staticmethod
    def reshape(x: Any, /, shape: tuple[int, ...]) -> Any:
        return x.reshape(shape)

    @staticmethod
    def take(x: Any, indices: Any, /, *, axis: Any = None) -> Any:
        return x.take(indices, axis)

    @staticmethod
    def astype(x: Any, dtype: Any, /, *, copy: bool = True) -> Any:
        return x.astype(dtype, copy=copy)

    @staticmethod
    def zeros_like(x: Any, /, *, dtype: Any = None) -> Any:
        return np.zeros(x.shape, dtype or x.dtype)

    @staticmethod
    def ones_like(x: Any, /, *, dtype: Any = None) -> Any:
        return np.ones(x.shape, dtype or x.dtype)


xp = Namespace()


class NumpyContext(Context):
    """A Context that writes points where they are needed, without the intermediate arrays."""

    def place(self, x: NDArray[Any], t: NDArray[Any], directions: list[NDArray[Any]], centres: int) -> NDArray[Any]:
        B, d = x.shape
        m = [u.shape[1] for u in directions]
        points = np.empty((B, centres + sum(m), d), x.dtype)
        points[:, :centres] = x[:, None, :]
        flat, at, radius = points.reshape(B, -1), centres * d, t[:, None]
        for u, size in zip(directions, m, strict=True):
            np.multiply(u.reshape(B, size * d), radius, out=flat[:, at : at + size * d])
            at += size * d
        moved = points[:, centres:]
        moved += x[:, None, :]
        return points


SampleXi = Callable[[np.random.Generator, int], Any]

AT_ONCE = 1024
"""Normals drawn ahead a call and problem: below it the call costs more than the drawing."""

HOLDABLE = 1 << 17
"""A problem's normals up to this number are held until the iteration is complete; beyond, the generator's state is."""


def entropies(seed: int | Sequence[int], B: int) -> list[tuple[int, int]]:
    """(seed, problem) of each of B problems: one seed numbers them, a sequence seeds each as a run of its own."""
    return [(int(seed), b) for b in range(B)] if np.ndim(seed) == 0 else [(int(s), 0) for s in seed]  # type: ignore[arg-type,union-attr]


def generator(key: tuple[int, int], purpose: int) -> np.random.Generator:
    """The generator of one problem and purpose."""
    seed, problem = key
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=(problem, purpose))))


class Sources:
    """One SFC64 generator a problem, made when first needed; their states as an array of words."""

    def __init__(self, keys: list[tuple[int, int]], purpose: int) -> None:
        self.keys = keys
        self.purpose = purpose
        self._made: list[np.random.Generator] | None = None

    @property
    def generators(self) -> list[np.random.Generator]:
        if self._made is None:
            self._made = [generator(key, self.purpose) for key in self.keys]
        return self._made

    def keep(self, rows: NDArray[np.intp]) -> None:
        self.keys = [self.keys[i] for i in rows]
        self._made = None if self._made is None else [self._made[i] for i in rows]

    @property
    def words(self) -> NDArray[np.uint64]:
        """(B, 6): four words of state, and the half word that 32-bit draws leave over. (0, 6) if still unused."""
        rows = []
        for source in self._made or []:
            state: Any = source.bit_generator.state
            rows.append([*state["state"]["state"].tolist(), int(state["has_uint32"]), int(state["uinteger"])])
        return np.array(rows, np.uint64).reshape(-1, 6)

    @words.setter
    def words(self, words: NDArray[np.uint64]) -> None:
        if not len(words):
            self._made = None
        else:
            for source, row in zip(self.generators, words, strict=True):
                source.bit_generator.state = {
                    "bit_generator": "SFC64",
                    "state": {"state": np.array(row[:4], np.uint64)},
                    "has_uint32": int(row[4]),
                    "uinteger": int(row[5]),
                }


class Stream:
    """Standard normals for B problems, read in order; how much is drawn ahead does not change them."""

    def __init__(self, keys: list[tuple[int, int]], purpose: int, dtype: Any, *, large: bool) -> None:
        self.sources = Sources(keys, purpose)
        self.ahead: NDArray[Any] = np.empty((len(keys), 0), dtype)
        self.at = 0
        self.large = large
        self._marked: int | NDArray[np.uint64] = 0

    def read(self, n: int) -> NDArray[Any]:
        """The next n numbers of each problem, (B, n)."""
        if self.at + n > self.ahead.shape[1]:
            self._draw(n)
        self.at += n
        return self.ahead[:, self.at - n : self.at]

    def mark(self) -> None:
        """Remember this place."""
        self._marked = self.sources.words if self.large else self.at

    def rewind(self) -> None:
        """Go back to the marked place."""
        if isinstance(self._marked, int):
            self.at = self._marked
        else:
            self.sources.words = self._marked
            self.ahead, self.at = self.ahead[:, :0], 0

    def _draw(self, n: int) -> None:
        start = self._marked if isinstance(self._marked, int) else self.at
        left = self.ahead[:, start:]
        shape = self.ahead.shape[0], n if self.large else n * max(1, AT_ONCE // n)
        reused = self.ahead.shape == shape and not left.shape[1]
        drawn = self.ahead if reused else np.empty(shape, self.ahead.dtype)
        for row, source in zip(drawn, self.sources.generators, strict=True):
            source.standard_normal(out=row, dtype=drawn.dtype)
        self.ahead = np.concatenate([left, drawn], axis=1) if left.shape[1] else drawn
        self.at -= start
        if isinstance(self._marked, int):
            self._marked = 0


class NumpyNoise:
    """The noise of B problems in d variables, and its position, which a checkpoint holds."""

    def __init__(
        self,
        keys: list[tuple[int, int]],
        d: int,
        dtype: Any,
        sample_xi: SampleXi | int | None = None,
        *,
        samples: int = 1,
    ) -> None:
        self.keys = keys
        self.d = d
        self.sample_xi = sample_xi
        large = samples * d > HOLDABLE
        self.streams = [Stream(keys, purpose, dtype, large=large) for purpose in (0, 1)]
        self.xi_sources = Sources(keys, purpose=2)
        self._marked_xi = self.xi_sources.words

    def normal(self, m: int, stream: int = 0) -> NDArray[Any]:
        return self.streams[stream].read(m * self.d).reshape(-1, m, self.d)

    def xi(self, m: int) -> NDArray[Any]:
        return self._sample(self.xi_sources.generators, m)

    def last_xi(self, m: int, rows: NDArray[np.intp]) -> NDArray[Any]:
        """m samples of their own for the final value of these of all problems, (B, m, ...)."""
        return self._sample([generator(self.keys[i], 4) for i in rows], m)

    def _sample(self, generators: list[np.random.Generator], m: int) -> NDArray[Any]:
        if isinstance(self.sample_xi, int):
            return np.stack([g.integers(self.sample_xi, size=m) for g in generators])
        assert self.sample_xi is not None
        drawn = [np.asarray(self.sample_xi(g, m)) for g in generators]
        for one in drawn:
            if one.shape[:1] != (m,):
                raise ValueError(
                    f"`sample_xi(rng, n)` must return n samples along its first axis, ({m}, ...); got {one.shape}."
                )
        return np.stack(drawn)

    def every_xi(self, start: int, stop: int) -> NDArray[Any]:
        return np.broadcast_to(np.arange(start, stop), (len(self.xi_sources.keys), stop - start))

    def mark(self) -> None:
        """Remember this place, the beginning of an iteration."""
        for stream in self.streams:
            stream.mark()
        if self.sample_xi is not None:
            self._marked_xi = self.xi_sources.words

    def rewind(self) -> None:
        """Go back to the marked place: the iteration that was begun there will be done again."""
        for stream in self.streams:
            stream.rewind()
        self.xi_sources.words = self._marked_xi

    def keep(self, rows: NDArray[np.intp]) -> None:
        """Go on with these of the problems that are left."""
        self.xi_sources.keep(rows)
        for stream in self.streams:
            stream.sources.keep(rows)
            stream.ahead = stream.ahead[rows]
        self.mark()

    def save(self) -> dict[str, NDArray[Any]]:
        """Everything needed to go on from here, as arrays."""
        saved = {"xi": self.xi_sources.words}
        for i, stream in enumerate(self.streams):
            saved[f"normal{i}"] = stream.sources.words
            saved[f"ahead{i}"] = stream.ahead[:, stream.at :]
        return saved

    def load(self, saved: dict[str, NDArray[Any]]) -> None:
        """Go on from what `save` returned."""
        self.xi_sources.words = saved["xi"]
        for i, stream in enumerate(self.streams):
            stream.sources.words = saved[f"normal{i}"]
            stream.ahead, stream.at = saved[f"ahead{i}"], 0
        self.mark()


def pick_index(key: tuple[int, int], n: int) -> int:
    """An index drawn uniformly from 0..n-1 for one problem."""
    seed, problem = key
    word = np.random.SeedSequence(seed, spawn_key=(problem, 3)).generate_state(1, np.uint64)[0]
    return int(word) * n >> 64
