"""The engine turned inside out: ask for points, tell their values."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slgh.engine.arguments import Arguments
from slgh.engine.checkpoint import Checkpoint
from slgh.engine.interrupts import Interrupts
from slgh.engine.requests import Evaluate
from slgh.method import Method, ObjectiveTraits
from slgh.minimize import make_run
from slgh.result import Result, Status


class Optimizer:
    """Ask, tell, stop, result: for objectives that only you can evaluate.

    The run is the one that `minimize` would do in a Python loop with the same arguments, to the last bit. Parameters
    are those of `minimize`, less fun and what belongs to calling it.

    Parameters
    ----------
    x0, method, bounds, batched, max_evals, max_iter, max_seconds, target, seed
        As for `minimize`.
    callback, progress, history, on_nonfinite, checkpoint
        As for `minimize`.
    **params
        As for `minimize`.
    sample_xi
        As for `minimize`; the samples that go with the points are `opt.xi`.
    gradients
        Whether you can tell gradients: the methods gd, slgh_r and their like then ask for them (see `asks`).

    Examples
    --------
    >>> import numpy as np, slgh
    >>> opt = slgh.Optimizer([3, -2], method="zoslgh_r", t1=1, gamma=0.97, step=0.1, samples=4, max_iter=500, seed=1)
    >>> while not opt.stop():
    ...     points = opt.ask()
    ...     opt.tell(points, [np.sum(p**2) for p in points])
    >>> bool(opt.result.fun < 1e-6), opt.result.nfev
    (True, 2501)
    """

    def __init__(
        self,
        x0: Any,
        *,
        method: str | Method = "auto",
        sample_xi: Callable[[np.random.Generator, int], Any] | int | None = None,
        bounds: Any = None,
        batched: bool = False,
        gradients: bool = False,
        max_evals: int | None = None,
        max_iter: int | None = None,
        max_seconds: float | None = None,
        target: float | None = None,
        seed: Any = None,
        callback: Callable[..., object] | None = None,
        progress: bool = False,
        history: int | str | None = 1000,
        on_nonfinite: str = "reject",
        checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
        **params: Any,
    ) -> None:
        self._run = make_run(
            Arguments(
                x0=x0,
                method=method,
                sample_xi=sample_xi,
                bounds=bounds,
                batched=batched,
                max_evals=max_evals,
                max_iter=max_iter,
                max_seconds=max_seconds,
                target=target,
                seed=seed,
                callback=callback,
                progress=progress,
                history=history,
                on_nonfinite=on_nonfinite,
                checkpoint=checkpoint,
                params=params,
            ),
            ObjectiveTraits(gradient=gradients),
        )
        self._backend = self._run.config.backend
        self._raises = on_nonfinite == "raise"
        self._requests = self._run.requests()
        self._request: Evaluate | None = None
        self._result: Result | None = None
        self._status = Status.RUNNING
        self._advance(None)

    def _advance(self, values: Any) -> None:
        """Go on to the next request. Ctrl-C is raised when the values have been taken in: the run can then go on."""
        with Interrupts() as interrupts:
            try:
                with np.errstate(all="ignore"), self._backend.session(differences=True):
                    request = self._requests.send(values)
                assert isinstance(request, Evaluate)
                self._request = request
            except StopIteration as end:
                self._request, self._result = None, end.value
            except BaseException as error:
                self._request = None
                self._status = Status.INTERRUPTED if isinstance(error, KeyboardInterrupt) else Status.FAILED
                self._run.close_after(error)
                raise
        if interrupts.pending:
            raise KeyboardInterrupt

    def _pending(self) -> Evaluate:
        if self._request is None:
            raise RuntimeError("The run has ended: see `stop()` and `result`.")
        return self._request

    @property
    def asks(self) -> str:
        """What `tell` expects for the points that are asked: "fun", one value each, or "grad", one gradient each."""
        return self._pending().query.what

    @property
    def active(self) -> NDArray[np.intp]:
        """The problems of the batch that the points belong to, in their order."""
        return (self._run.active if self._request is None else self._request.rows).copy()

    @property
    def xi(self) -> Any:
        """The samples (n, ...), batched (B, n, ...), that go with the points of a stochastic function."""
        xi = self._pending().query.xi
        return None if xi is None else self._backend.to_library(xi if self._run.config.batched else xi[0])

    def ask(self) -> Any:
        """The points to evaluate, (n, d); batched (B, n, d) for the active problems. Asking twice gives the same."""
        points = self._pending().query.points
        return self._backend.to_library(points if self._run.config.batched else points[0])

    def tell(self, points: Any, values: Any) -> None:
        """Give the values (n,), or gradients (n, d), of the points that were asked; batched with leading axis B."""
        query = self._pending().query
        backend = self._backend
        asked = query.points if self._run.config.batched else query.points[0]
        if not np.array_equal(backend.host(backend.real(points, "points")), backend.host(asked)):
            raise ValueError("`points` must be those of the last `ask`, in their order.")
        shape = tuple(asked.shape if query.what == "grad" else asked.shape[:-1])
        array = backend.real(values, "values")
        if tuple(array.shape) != shape:
            raise ValueError(
                f"`values` must have shape {shape} for points {tuple(asked.shape)}, got {tuple(array.shape)}."
            )
        if self._raises and not np.isfinite(backend.host(array)).all():
            raise FloatingPointError("`values` must be finite with on_nonfinite='raise'.")
        self._advance(array if self._run.config.batched else array[None])

    def stop(self) -> bool:
        """Whether the run has ended."""
        return self._request is None

    @property
    def result(self) -> Result:
        """The Result; while the run goes on, the best point so far (the iterate, if stochastic) and Status.RUNNING.

        After an exception, such as one of the callback, it is the best point so far with Status.FAILED.
        """
        if self._result is not None:
            return self._result
        return self._run.interim_result(self._status)
