"""The path of a run: where x and t went."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slgh.backends import backend_of
from slgh.result import Result


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Path:
    """Recorded iterations of one problem, ascending, the end included."""

    label: str
    iteration: NDArray[np.int64]
    """(k,)."""
    x: NDArray[np.float64]
    """(k, d)."""
    t: NDArray[np.float64]
    """(k,)."""
    fun: NDArray[np.float64]
    """f(x), (k,)."""

    def thin(self, most: int) -> Path:
        """About so many of the recorded iterations at most: see `thinned`."""
        keep = thinned(len(self.iteration), most)
        return Path(
            label=self.label, iteration=self.iteration[keep], x=self.x[keep], t=self.t[keep], fun=self.fun[keep]
        )


def thinned(n: int, most: int) -> NDArray[np.intp]:
    """Which of n rows to keep: the first ones all, since x moves most there, the others evenly, and the last.

    >>> thinned(1000, 10)
    array([  0,   1,   2,   3, 145, 288, 430, 572, 714, 857, 999])
    """
    if n <= most:
        return np.arange(n)
    first = most // 3
    return np.concatenate([np.arange(first), np.linspace(first, n - 1, most - first + 1).round().astype(np.intp)])


def path_of(result: Result, label: str = "", *, problem: int = 0) -> Path:
    """The path of a result with history="x"; of a batch, that of one problem.

    f is what the history has: f(x), or in the iterations of "auto" its mean over the samples around x.
    """
    record = result.history
    if not record or "x" not in record:
        raise ValueError('`result` must have its iterates, which `history="x"` records in slgh.minimize.')
    batched = record["x"].ndim == 3
    x, t, fun = (record[name][:, problem] if batched else record[name] for name in ("x", "t", "fun"))
    ends = (_end(result, name, problem, batched=batched) for name in ("x", "t", "fun"))
    x, t, fun = (np.concatenate([column, [end]]).astype(float) for column, end in zip((x, t, fun), ends, strict=True))
    nit = int(np.asarray(result.nit).ravel()[problem if batched else 0])
    keep = np.append(record["iteration"] < nit, True)
    iteration = np.append(record["iteration"], nit)
    return Path(label=label, iteration=iteration[keep], x=x[keep], t=t[keep], fun=fun[keep])


def _end(result: Result, name: str, problem: int, *, batched: bool) -> NDArray[Any]:
    value = result[name]
    value = np.asarray(backend_of(value).host(value)) if hasattr(value, "shape") else np.asarray(value)
    return np.asarray(value[problem] if batched else value)
