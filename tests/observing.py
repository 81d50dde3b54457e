"""Observe with an oracle alone, on given noise."""

from __future__ import annotations

from typing import Any

import numpy as np

from slgh.protocols import Answer, Context


class Replay:
    """Given noise: u and v (B, M, d), xi (B, M)."""

    def __init__(self, u: Any, v: Any = None, xi: Any = None) -> None:
        self.streams, self.at, self.xis = [u, v], [0, 0], xi
        self.xi_at = 0

    def normal(self, m: int, stream: int = 0) -> Any:
        self.at[stream] += m
        return self.streams[stream][:, self.at[stream] - m : self.at[stream]]

    def xi(self, m: int) -> Any:
        self.xi_at += m
        return self.xis[:, self.xi_at - m : self.xi_at]

    def every_xi(self, start: int, stop: int) -> Any:
        return np.arange(start, stop)[None]


def observe(oracle: Any, fun: Any, x: Any, t: Any, noise: Any, *, state: Any = (), k: int = 0, **context: Any) -> Any:
    """Return what an oracle observes.

    `fun` answers each query; bad values are marked and warnings are off, as in the engine.
    """
    ctx = Context(xp=np, **context)
    talk = oracle.observe(np.atleast_2d(x), np.atleast_1d(t), state, k == 0, noise, ctx)
    answer = None
    while True:
        try:
            with np.errstate(all="ignore"):
                query = next(talk) if answer is None else talk.send(answer)
        except StopIteration as end:
            return end.value[0]
        values = fun(query)
        finite = np.isfinite(values)
        whole = finite if values.ndim == 2 else finite.all(axis=-1)
        answer = Answer(np.where(finite, values, 0.0), None if whole.all() else whole.astype(float))


def values_of(f: Any) -> Any:
    return lambda query: f(query.points)
