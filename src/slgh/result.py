"""`Result`, the outcome of a run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from scipy.optimize import OptimizeResult

from slgh import checks
from slgh.display import EDGE, as_html, as_text, counts, scalar, spread, tree, vector
from slgh.engine.termination import Status

if TYPE_CHECKING:
    import pandas as pd

SHOWN = (
    *("message", "success", "status", "fun", "fun_se", "maxcv", "x", "fun_best", "t"),
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
    z
        In a search space, where `x`, `x_best` and `xhat` are trees of values: the solution in relaxed variables. The
        iterates in `history` are such points, too. Without one there is no such entry.
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
        dropped because they were not finite. In an asynchronous run, points of closed iterations count as soon as they
        are asked for. After its end, `nfev` is the number of points with a value.
    maxcv
        With `constraints`, the largest violation at x, as in SciPy's COBYQA. 0 if x meets them all.
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

    def to_frame(self) -> pd.DataFrame:
        """Return the history as a pandas DataFrame.

        Returns
        -------
        pandas.DataFrame
            One row per recorded iteration, with the columns iteration, nfev, fun, t, fun_best and those of a `watch`.
            A run of "auto" also has the column phase. With history="x" there are columns x0, x1, ..., in a search space
            the relaxed variables. For a batch there
            is one row per problem and recorded iteration, with the column problem first. As in `history`, a problem
            that has ended repeats its last row.

        Examples
        --------
        >>> import numpy as np, slgh
        >>> result = slgh.minimize(lambda x: np.sum(x**2), [1.0, 2.0], max_evals=50, seed=0, history="x")
        >>> result.to_frame().columns.tolist()
        ['iteration', 'nfev', 'fun', 't', 'fun_best', 'x0', 'x1', 'phase']
        """
        try:
            import pandas as pd
        except ImportError as missing:
            raise checks.MissingLibraryError('`to_frame` needs pandas: pip install "slgh[pandas]".') from missing
        if "history" not in self:
            raise checks.ArgumentValueError(
                "`to_frame` needs a history, which the Result of a run that has not ended does not have. Wait for the "
                "end of the run."
            )
        batched = np.ndim(self.success) > 0
        frames = []
        for b in range(len(self.success) if batched else 1):
            columns: dict[str, Any] = {}
            for name, column in self.history.items():
                own = column[:, b] if batched and name not in ("iteration", "nfev") else column
                if own.ndim == 1:
                    columns[name] = own
                else:
                    columns |= {f"{name}{i}": each for i, each in enumerate(own.T)}
            frame = pd.DataFrame(columns)
            if batched:
                frame.insert(0, "problem", b)
            frames.append(frame)
        frame = pd.concat(frames, ignore_index=True)
        if self.get("phases"):
            starts = [phase.start for phase in self.phases]
            at = np.searchsorted(starts, frame["iteration"], side="right") - 1
            frame["phase"] = [self.phases[i].name for i in at]
        return frame

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the Result to a file, which `Result.load` reads. A file that exists is replaced atomically.

        Parameters
        ----------
        path
            The file, an .npz archive without pickle. No suffix is added.
        """
        from slgh.result_files import save_entries

        save_entries(path, dict(self))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return the Result that `save` has written.

        Arrays of PyTorch and JAX come back as NumPy arrays. Parts of a method that are not slgh's come back as text,
        and `method` is then a description. All other entries are equal to those that were saved.

        Parameters
        ----------
        path
            The file. It need not be trusted: nothing in it is executed.

        Raises
        ------
        ValueError
            If the file is damaged, or not a Result.
        """
        from slgh.result_files import load_entries

        result = cls()
        result.update(load_entries(path))
        return result

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
        if name == "x" and "z" in self:
            return tree(value)
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
