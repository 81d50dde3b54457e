"""`Result`, the outcome of a run."""

from __future__ import annotations

from typing import Any, NamedTuple

from scipy.optimize import OptimizeResult

from slgh.display import EDGE, as_html, as_text, counts, scalar, spread, vector
from slgh.engine.termination import Status

SHOWN = (
    *("message", "success", "status", "fun", "fun_se", "x", "fun_best", "t"),
    *("nit", "nfev", "njev", "nrejected", "ncached", "method", "seed"),
)
"""Entries that a Result prints, in this order. Of the others it prints the names."""

IF_NONZERO = ("fun_se", "njev", "nrejected", "ncached")
"""Entries that are not printed if they are 0."""


class Phase(NamedTuple):
    """Phase of a run of "auto": iterations `start` to `stop`, without the last."""

    name: str
    """"homotopy", "local_search", "covariance", or "restarts" for those that follow these, basin hops included."""
    start: int
    stop: int


class Minima(NamedTuple):
    """Distinct local minima, the lowest first."""

    points: Any
    """(k, d)."""
    values: Any
    """(k,)."""


class Result(OptimizeResult):
    """Outcome of a run, a `scipy.optimize.OptimizeResult`.

    For B problems (`batched=True`) every entry below that belongs to one problem is an array with leading axis B.

    Attributes
    ----------
    x, fun
        Solution, and f there. This evaluation is counted. For the paper's methods the solution is the last iterate. For
        "auto" and "scale_free" it is the best evaluated point. If "auto" has found f to be noisy, it is a
        point that was evaluated repeatedly, and `fun` is the average there (the last iterate if the run was cut short).
        For a stochastic fun, it is the mean of the last tenth of the iterates. If the `target` was reached, it is
        the point that reached it. (For a stochastic fun, an iteration's estimate reached it, and `fun` is another
        estimate.) After Ctrl-C it is the best evaluated point, and for a stochastic fun the last iterate, with fun NaN.
    fun_se
        Standard error of `fun`. For a stochastic fun, `fun` is the mean over as many samples as an iteration has, and
        the standard error of one sample is NaN. If "auto" has found f to be noisy, that of the average. Otherwise 0.
    x_best, fun_best
        Best evaluated point, and f there. For a stochastic fun, whose single values mean little, x and fun.
    xhat
        Iterate that the theorems are about. It is drawn uniformly from the planned iterations, with step="theory" from
        those after the burn-in. It is the last iterate if the drawn one was not reached or no number of iterations is
        planned. For exact gradients, it is the iterate with the smallest observed gradient norm of F(., t), with
        step="theory" of f, as in Theorem 3.4.
    t
        Last smoothing radius.
    nit, nfev, njev, nrejected
        Numbers of iterations, of evaluations of f (and F), of evaluations of gradients and derivatives, and of samples
        dropped because they were not finite.
    ncached
        Number of evaluations among these that the `cache` answered, since the run was last started. For a batch, of all
        problems together.
    status, success, message
        A `Status`; True if the run ended as planned with a finite fun; and a sentence that says why it ended.
    chosen
        Sentence of `message` on the parts that "auto" and "scale_free" have chosen. Empty for other methods.
    history
        Dictionary of arrays over the recorded iterations: "iteration", "nfev", "fun", "t", "fun_best", "x" with
        history="x", and the columns of a `watch`.
    phases
        For a single problem of "auto", its phases in order, each a tuple (name, start, stop): `history` has their
        iterations start to stop - 1. The name is "homotopy", "local_search" or "covariance" (a homotopy
        that learns a full metric), or "restarts" for each that follows these. Empty for other runs.
    minima
        For a single problem of "auto", the distinct local minima at which its local searches, basin hops and covariance
        homotopies have converged: `minima.points` (k, d) and `minima.values` (k,), the lowest first. Points count as
        one minimum if no variable differs by more than 5 % of the unit of the searches, which is a tenth of the box or,
        without bounds, 0.4 t1. Searches that cannot get below the lowest minimum stop early, so the higher ones are
        known less exactly. Empty (k = 0) for other methods, for batches, and if f is noisy at all points.
    watched
        With a `watch`, the arrays that it keeps, by name.
    method, engine, seed
        The `Method` with all its parameters, the loop that ran, and the seed that repeats the run.
    seconds
        Duration, including the time before a checkpoint, without the compilation of a loop.
    """

    def __init__(self, **entries: Any) -> None:
        super().__init__()
        for name, value in entries.items():
            setattr(self, name, value)

    def __repr__(self) -> str:
        return as_text("Result", self._rows())

    def _repr_html_(self) -> str:
        return as_html("Result", self._rows())

    def _rows(self) -> dict[str, str]:
        """Return the main entries as text, a batch summarized, and the names of the other entries."""
        rows = {name: self._text(name) for name in SHOWN if name in self}
        hidden = [name for name in rows if name in IF_NONZERO and rows[name] in ("0", "0 each")]
        if rows.get("fun_best") == rows.get("fun"):
            hidden.append("fun_best")
        more = [name for name in self if name not in SHOWN or name in hidden]
        rows = {name: text for name, text in rows.items() if name not in hidden}
        return rows | ({"more": ", ".join(more)} if more else {})

    def _text(self, name: str) -> str:
        """Return an entry as text."""
        value = self[name]
        shape = getattr(value, "shape", ())
        if name == "method":
            return str(value.name)
        if name == "seed" and isinstance(value, list):
            return str(value) if len(value) <= 2 * EDGE else f"{len(value)} seeds, one per problem"
        if name == "x" and len(shape) == 1:
            return vector(value)
        if name == "x":
            return f"array of shape {tuple(shape)}"
        if not shape:
            return scalar(value)
        if name == "status":
            return counts(Status(status).name for status in value.tolist())
        if name == "success":
            return f"{sum(value.tolist())} of {len(value)}"
        return spread(value)
