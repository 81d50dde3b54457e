"""What a run returns: `Result`, and `Status`, why it ended."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from scipy.optimize import OptimizeResult


class Status(IntEnum):
    """Why a problem's run ended. COMPLETED, TARGET and WATCHED are successes, if f(x) is finite."""

    COMPLETED = 0
    TARGET = 1
    MAX_EVALS = 2
    MAX_SECONDS = 3
    CALLBACK = 4
    INTERRUPTED = 5
    NONFINITE = 6
    WATCHED = 7
    FAILED = 8
    RUNNING = -1

    @property
    def success(self) -> bool:
        """Whether this is a planned end."""
        return self in (Status.COMPLETED, Status.TARGET, Status.WATCHED)

    @property
    def message(self) -> str:
        """One sentence on why the run ended."""
        return _MESSAGES[self]


_MESSAGES = {
    Status.COMPLETED: "The planned iterations were completed.",
    Status.TARGET: "The target value was reached.",
    Status.MAX_EVALS: "Cut short: the next iteration would exceed max_evals.",
    Status.MAX_SECONDS: "Cut short: max_seconds have passed.",
    Status.CALLBACK: "Stopped by the callback.",
    Status.INTERRUPTED: "Interrupted from the keyboard.",
    Status.NONFINITE: "Gave up: fun was not finite at x, or around it, 10 iterations in a row or at the end.",
    Status.WATCHED: "Stopped by `watch`.",
    Status.FAILED: "An exception ended the run.",
    Status.RUNNING: "Running.",
}


class Result(OptimizeResult):
    """The outcome of a run, a `scipy.optimize.OptimizeResult`.

    For B problems (`batched=True`) every entry below that belongs to one problem is an array with leading axis B.

    Attributes
    ----------
    x, fun
        The solution and f there, evaluated and counted. For the paper's methods the last iterate; for "auto" and
        "scale_free" the best evaluated point (of an f that "auto" has seen to be noisy the last iterate), or for a
        stochastic fun the mean of the last tenth of the iterates; after a `target` was reached, the point that reached
        it (for a stochastic fun, by an iteration's estimate; fun is another one). After Ctrl-C the best evaluated point
        (for a stochastic fun the last iterate, whose `fun` is NaN).
    fun_se
        The standard error of `fun`, which of a stochastic fun is the mean over as many samples as an iteration has (NaN
        for one); 0 unless fun is stochastic.
    x_best, fun_best
        The best evaluated point; of a stochastic fun, whose single values mean little, x and fun.
    xhat
        The iterate that the theorems speak of: drawn uniformly from the planned ones after the burn-in, which there is
        with step="theory" (the last, if it was not reached or no number is planned). For exact gradients the one with
        the least gradient norm that was observed, that of F(., t); with step="theory" that of f, as Theorem 3.4 has it.
    t
        The last smoothing radius.
    nit, nfev, njev, nrejected
        Iterations, evaluations of f (and F), of gradients and derivatives, samples dropped as not finite.
    status, success, message
        A `Status`, whether it was the planned end with a finite fun, and a sentence.
    chosen
        The part of `message` on what "auto" and "scale_free" have chosen; empty for other methods.
    history
        Arrays over the recorded iterations: "iteration", "nfev", "fun", "t", "fun_best", "x" if asked for, and the
        columns of a `watch`.
    watched
        With a `watch`, what it remembers, by name.
    method, engine, seed
        What ran: the bound `Method`, the loop, and the seed that repeats the run.
    seconds
        How long it took, with what it took before a checkpoint, without the compilation of a loop.
    """

    def __init__(self, **entries: Any) -> None:
        super().__init__()
        for name, value in entries.items():
            setattr(self, name, value)
