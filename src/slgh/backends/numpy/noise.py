"""Noise from NumPy: one generator per problem and purpose, so that a problem's noise does not depend on the batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slgh.backends.protocols import Keys
from slgh.checks import ArgumentValueError

SampleXi = Callable[[np.random.Generator, int], Any]

DRAW_AHEAD = 1024
"""Normals drawn per call and problem. Fewer, and the call takes longer than the drawing."""

MAX_HELD = 1 << 17
"""Maximum number of normals per problem and iteration to hold for a rewind. Beyond it, generator states are held."""

NORMAL = (0, 1)
XI = 2
XHAT = 3
LAST_XI = 4
"""Purposes of the generators."""


def entropies(seed: int | Sequence[int], B: int, first: int = 0) -> Keys:
    """Return (seed, problem) of each of B problems.

    One seed numbers them, from `first` on. A sequence has one seed per problem.
    """
    seeds: Any = seed
    return [(int(s), 0) for s in seeds] if np.ndim(seeds) else [(int(seeds), first + b) for b in range(B)]


def generator(key: tuple[int, int], purpose: int) -> np.random.Generator:
    """Return the generator of one problem and purpose."""
    seed, problem = key
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=(problem, purpose))))


def pick_index(key: tuple[int, int], n: int) -> int:
    """Draw an index uniformly from 0..n-1 for one problem."""
    seed, problem = key
    word = np.random.SeedSequence(seed, spawn_key=(problem, XHAT)).generate_state(1, np.uint64)[0]
    return int(word) * n >> 64


def draw_xi(sample_xi: SampleXi | int, generators: list[np.random.Generator], m: int) -> NDArray[Any]:
    """Return (B, m, ...) samples, m from each generator."""
    if isinstance(sample_xi, int):
        return np.stack([g.integers(sample_xi, size=m) for g in generators])
    drawn = [np.asarray(sample_xi(g, m)) for g in generators]
    for one in drawn:
        if one.shape[:1] != (m,):
            raise ArgumentValueError(
                f"`sample_xi(rng, n)` must return n samples along its first axis, ({m}, ...); got {one.shape}."
            )
    return np.stack(drawn)


class ProblemGenerators:
    """One SFC64 generator per problem, made when first needed, with their states as an array of words."""

    def __init__(self, keys: Keys, purpose: int) -> None:
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

    def append(self, keys: Keys) -> list[np.random.Generator]:
        """Add problems. Returns their generators, if those of the others are made."""
        self.keys = self.keys + keys
        if self._made is None:
            return []
        new = [generator(key, self.purpose) for key in keys]
        self._made = self._made + new
        return new

    @property
    def words(self) -> NDArray[np.uint64]:
        """(B, 6): four words of state, and the half word that 32-bit draws leave over. (0, 6) if still unused."""
        states: list[Any] = [g.bit_generator.state for g in self._made or []]
        rows = [[*s["state"]["state"].tolist(), int(s["has_uint32"]), int(s["uinteger"])] for s in states]
        return np.array(rows, np.uint64).reshape(-1, 6)

    @words.setter
    def words(self, words: NDArray[np.uint64]) -> None:
        if not len(words):
            self._made = None
            return
        for made, row in zip(self.generators, words, strict=True):
            made.bit_generator.state = {
                "bit_generator": "SFC64",
                "state": {"state": np.array(row[:4], np.uint64)},
                "has_uint32": int(row[4]),
                "uinteger": int(row[5]),
            }


class NormalStream:
    """Standard normals for B problems, read in order. They do not depend on how many are drawn ahead."""

    def __init__(self, keys: Keys, purpose: int, dtype: Any, *, large: bool) -> None:
        self.sources = ProblemGenerators(keys, purpose)
        self.ahead: NDArray[Any] = np.empty((len(keys), 0), dtype)
        self.at = 0
        self.large = large
        self._marked: int | NDArray[np.uint64] = 0

    def read(self, n: int) -> NDArray[Any]:
        """Return the next n numbers of each problem, (B, n)."""
        if self.at + n > self.ahead.shape[1]:
            self._draw(n)
        self.at += n
        return self.ahead[:, self.at - n : self.at]

    def mark(self) -> None:
        """Remember this position."""
        self._marked = self.sources.words if self.large else self.at

    def rewind(self) -> None:
        """Return to the marked position."""
        if isinstance(self._marked, int):
            self.at = self._marked
        else:
            self.sources.words = self._marked
            self._forget()

    def append(self, keys: Keys) -> None:
        """Add problems, whose numbers start here."""
        if not len(self.ahead):
            self._forget()
        new = np.zeros((len(keys), self.ahead.shape[1]), self.ahead.dtype)
        for row, source in zip(new, self.sources.append(keys), strict=False):
            row[self.at :] = source.standard_normal(row.size - self.at, dtype=new.dtype)
        self.ahead = np.concatenate([self.ahead, new])

    def _forget(self) -> None:
        """Drop what was drawn ahead."""
        self.ahead, self.at = self.ahead[:, :0], 0

    def _draw(self, n: int) -> None:
        # Numbers since the mark are kept for a rewind, unless the state of the generators is.
        start = self._marked if isinstance(self._marked, int) else self.at
        left = self.ahead[:, start:]
        shape = self.ahead.shape[0], n if self.large else n * max(1, DRAW_AHEAD // n)
        reused = self.ahead.shape == shape and not left.shape[1]
        drawn = self.ahead if reused else np.empty(shape, self.ahead.dtype)
        for row, source in zip(drawn, self.sources.generators, strict=True):
            source.standard_normal(out=row, dtype=drawn.dtype)
        self.ahead = np.concatenate([left, drawn], axis=1) if left.shape[1] else drawn
        self.at -= start
        if isinstance(self._marked, int):
            self._marked = 0


class NumpyNoise:
    """Noise of B problems in d variables. It has a position, which a checkpoint holds."""

    def __init__(
        self, keys: Keys, d: int, dtype: Any, sample_xi: SampleXi | int | None = None, *, samples: int = 1
    ) -> None:
        self.keys = keys
        self.d = d
        self.sample_xi = sample_xi
        self.errstate: Any = np.geterr()
        """The user's handling of floating-point errors, for `sample_xi`."""
        large = samples * d > MAX_HELD
        self.streams = [NormalStream(keys, purpose, dtype, large=large) for purpose in NORMAL]
        self.xi_sources = ProblemGenerators(keys, XI)
        self._marked_xi = self.xi_sources.words

    def normal(self, m: int, stream: int = 0) -> NDArray[Any]:
        return self.streams[stream].read(m * self.d).reshape(-1, m, self.d)

    def xi(self, m: int) -> NDArray[Any]:
        return self._sample(self.xi_sources.generators, m)

    def last_xi(self, m: int, rows: NDArray[np.intp]) -> NDArray[Any]:
        return self._sample([generator(self.keys[i], LAST_XI) for i in rows], m)

    def _sample(self, generators: list[np.random.Generator], m: int) -> NDArray[Any]:
        assert self.sample_xi is not None
        with np.errstate(**self.errstate):
            return draw_xi(self.sample_xi, generators, m)

    def every_xi(self, start: int, stop: int) -> NDArray[Any]:
        return np.broadcast_to(np.arange(start, stop), (len(self.xi_sources.keys), stop - start))

    def mark(self, k: int) -> None:
        for stream in self.streams:
            stream.mark()
        if self.sample_xi is not None:
            self._marked_xi = self.xi_sources.words

    def rewind(self) -> None:
        for stream in self.streams:
            stream.rewind()
        self.xi_sources.words = self._marked_xi

    def keep(self, rows: NDArray[np.intp]) -> None:
        self.xi_sources.keep(rows)
        for stream in self.streams:
            stream.sources.keep(rows)
            stream.ahead = stream.ahead[rows]
        self.mark(0)

    def append(self, rows: NDArray[np.intp], k: int) -> None:
        keys = [self.keys[i] for i in rows]
        self.xi_sources.append(keys)
        for stream in self.streams:
            stream.append(keys)
        self.mark(k)

    def assign(self, rows: NDArray[np.intp], began: NDArray[Any]) -> None:
        self.keep(rows[:0])
        self.append(rows, 0)

    def save(self) -> dict[str, NDArray[Any]]:
        saved = {"xi": self.xi_sources.words}
        for i, stream in enumerate(self.streams):
            saved[f"normal{i}"] = stream.sources.words
            saved[f"ahead{i}"] = stream.ahead[:, stream.at :]
        return saved

    def load(self, saved: dict[str, NDArray[Any]], rows: NDArray[np.intp], began: NDArray[Any]) -> None:
        self.keep(rows)
        self.xi_sources.words = saved["xi"]
        for i, stream in enumerate(self.streams):
            stream.sources.words = saved[f"normal{i}"]
            ahead = saved[f"ahead{i}"]
            if ahead.ndim != 2 or len(ahead) != len(rows) or ahead.dtype != stream.ahead.dtype:
                raise ValueError(f"its noise has shape {ahead.shape} and dtype {ahead.dtype}, which do not fit the run")
            stream.ahead, stream.at = ahead, 0
        self.mark(0)
