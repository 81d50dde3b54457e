"""Noise from NumPy: one stream a problem and purpose, so that a run does not depend on what else is in the batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

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


class ProblemGenerators:
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

    def append(self, keys: list[tuple[int, int]]) -> list[np.random.Generator]:
        """Further problems; their generators, if those of the others are made."""
        self.keys = self.keys + keys
        new = [] if self._made is None else [generator(key, self.purpose) for key in keys]
        self._made = None if self._made is None else self._made + new
        return new

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


class NormalStream:
    """Standard normals for B problems, read in order; how much is drawn ahead does not change them."""

    def __init__(self, keys: list[tuple[int, int]], purpose: int, dtype: Any, *, large: bool) -> None:
        self.sources = ProblemGenerators(keys, purpose)
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

    def append(self, keys: list[tuple[int, int]]) -> None:
        """Further problems, whose numbers begin here."""
        if not len(self.ahead):
            self.ahead, self.at = self.ahead[:, :0], 0
        new = np.zeros((len(keys), self.ahead.shape[1]), self.ahead.dtype)
        for row, source in zip(new, self.sources.append(keys), strict=False):
            row[self.at :] = source.standard_normal(row.size - self.at, dtype=new.dtype)
        self.ahead = np.concatenate([self.ahead, new])

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


def draw_xi(sample_xi: SampleXi | int, generators: list[np.random.Generator], m: int) -> NDArray[Any]:
    """(B, m, ...) samples, m from each generator."""
    if isinstance(sample_xi, int):
        return np.stack([g.integers(sample_xi, size=m) for g in generators])
    drawn = [np.asarray(sample_xi(g, m)) for g in generators]
    for one in drawn:
        if one.shape[:1] != (m,):
            raise ValueError(
                f"`sample_xi(rng, n)` must return n samples along its first axis, ({m}, ...); got {one.shape}."
            )
    return np.stack(drawn)


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
        self.errstate: Any = np.geterr()
        """The user's handling of floating-point errors, for `sample_xi`."""
        large = samples * d > HOLDABLE
        self.streams = [NormalStream(keys, purpose, dtype, large=large) for purpose in (0, 1)]
        self.xi_sources = ProblemGenerators(keys, purpose=2)
        self._marked_xi = self.xi_sources.words

    def normal(self, m: int, stream: int = 0) -> NDArray[Any]:
        return self.streams[stream].read(m * self.d).reshape(-1, m, self.d)

    def xi(self, m: int) -> NDArray[Any]:
        return self._sample(self.xi_sources.generators, m)

    def last_xi(self, m: int, rows: NDArray[np.intp]) -> NDArray[Any]:
        """m samples of their own for the final value of these of all problems, (B, m, ...)."""
        return self._sample([generator(self.keys[i], 4) for i in rows], m)

    def _sample(self, generators: list[np.random.Generator], m: int) -> NDArray[Any]:
        assert self.sample_xi is not None
        with np.errstate(**self.errstate):
            return draw_xi(self.sample_xi, generators, m)

    def every_xi(self, start: int, stop: int) -> NDArray[Any]:
        return np.broadcast_to(np.arange(start, stop), (len(self.xi_sources.keys), stop - start))

    def mark(self, k: int) -> None:
        """Remember this place, the beginning of iteration k."""
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
        self.mark(0)

    def append(self, rows: NDArray[np.intp], k: int) -> None:
        """Have these of all problems begin, behind those that are there."""
        keys = [self.keys[i] for i in rows]
        self.xi_sources.append(keys)
        for stream in self.streams:
            stream.append(keys)
        self.mark(k)

    def assign(self, rows: NDArray[np.intp], began: NDArray[Any]) -> None:
        """Hold the noise of exactly these problems, from its beginning."""
        self.keep(np.arange(0))
        self.append(rows, 0)

    def save(self) -> dict[str, NDArray[Any]]:
        """Everything needed to go on from here, as arrays."""
        saved = {"xi": self.xi_sources.words}
        for i, stream in enumerate(self.streams):
            saved[f"normal{i}"] = stream.sources.words
            saved[f"ahead{i}"] = stream.ahead[:, stream.at :]
        return saved

    def load(self, saved: dict[str, NDArray[Any]], rows: NDArray[np.intp], began: NDArray[Any]) -> None:
        """Go on from what `save` returned, with these of all problems."""
        self.keep(rows)
        self.xi_sources.words = saved["xi"]
        for i, stream in enumerate(self.streams):
            stream.sources.words = saved[f"normal{i}"]
            ahead = saved[f"ahead{i}"]
            if ahead.ndim != 2 or len(ahead) != len(rows) or ahead.dtype != stream.ahead.dtype:
                raise ValueError(f"its noise has shape {ahead.shape} and dtype {ahead.dtype}, which do not fit the run")
            stream.ahead, stream.at = ahead, 0
        self.mark(0)


def pick_index(key: tuple[int, int], n: int) -> int:
    """An index drawn uniformly from 0..n-1 for one problem."""
    seed, problem = key
    word = np.random.SeedSequence(seed, spawn_key=(problem, 3)).generate_state(1, np.uint64)[0]
    return int(word) * n >> 64
