"""`Optimizer`: a run whose points the user evaluates, through ask and tell."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from slgh.checks import ArgumentValueError, NonfiniteError
from slgh.engine.arguments import Arguments
from slgh.engine.bad_values import BadValuePolicy
from slgh.engine.checkpoint import Checkpoint, refuse_damaged
from slgh.engine.interrupts import Interrupts
from slgh.engine.requests import Evaluate
from slgh.engine.snapshot import Snapshot, read_meta
from slgh.engine.termination import Status
from slgh.method import Method, ObjectiveTraits
from slgh.minimize import make_run
from slgh.parameters import History, MethodName, MethodParameters
from slgh.result import Result


def _snapshot_of(state: dict[str, Any]) -> Snapshot:
    """Return the content of a `state_dict`."""
    with refuse_damaged("state_dict"):
        return Snapshot("state_dict", read_meta(state["header"]), dict(state["arrays"]))


class Optimizer:
    """Ask/tell interface, for objectives that only the user can evaluate.

    The run is bit for bit the one that `minimize` does in a Python loop with the same arguments. The parameters are
    those of `minimize`, without fun and the ones that say how to call it.

    Parameters
    ----------
    x0, method, bounds, batched, max_evals, max_iter, max_seconds, target, seed
        As for `minimize`, with the same defaults.
    callback, progress, history, on_nonfinite, checkpoint
        As for `minimize`, with the same defaults.
    sample_xi
        As for `minimize`. `xi` has the samples for the points of `ask`.
    gradients
        True if gradients can be passed to `tell`. First-order methods such as gd and slgh_r then need them: see `asks`.
        False by default.
    **params
        As for `minimize`.

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
        method: MethodName | str | Method = "auto",
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
        history: History = 1000,
        on_nonfinite: BadValuePolicy = "reject",
        checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
        **params: Unpack[MethodParameters],
    ) -> None:
        arguments = Arguments(
            x0=x0,
            method=method,
            sample_xi=sample_xi,
            bounds=bounds,
            batched=batched,
            limits={"max_evals": max_evals, "max_iter": max_iter, "max_seconds": max_seconds, "target": target},
            seed=seed,
            callback=callback,
            progress=progress,
            history=history,
            on_nonfinite=on_nonfinite,
            checkpoint=checkpoint,
            params=dict(params),
        )
        self._begin(arguments, ObjectiveTraits(gradient=gradients))

    def _begin(self, arguments: Arguments, traits: ObjectiveTraits, state: dict[str, Any] | None = None) -> None:
        """Begin a run, or continue one from its `state_dict`."""
        self._arguments, self._traits = arguments, traits
        self._request: Evaluate | None = None
        self._result: Result | None = None
        self._status = Status.RUNNING
        self._run = make_run(arguments, traits, None if state is None else _snapshot_of(state))
        self._backend = self._run.config.backend
        self._requests = self._run.requests()
        self._advance(None)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the run: what a checkpoint holds, as numbers, text and NumPy arrays.

        The run can be continued from it at any time, also between `ask` and `tell`.

        Returns
        -------
        dict
            "header" can be written as JSON, "arrays" with `numpy.savez`.
        """
        meta, arrays = self._run.capture()
        return {"header": meta._asdict(), "arrays": {name: array.copy() for name, array in arrays.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue the run of a `state_dict`. It must come from an Optimizer with the same arguments.

        The points of `ask` are then those of that Optimizer. `max_evals`, `max_iter`, `max_seconds` and `target` may
        differ, as far as they may for a checkpoint.
        """
        found, identity = _snapshot_of(state), self._run.config.identity
        for name, value in identity.items():
            if found.meta.identity.get(name) != value:
                raise ArgumentValueError(
                    f"`state` belongs to another run: its {name} is {found.meta.identity.get(name)!r}, here it is "
                    f"{value!r}. Pass the arguments of that run to Optimizer."
                )
        self._begin(self._arguments, self._traits, state)

    def __getstate__(self) -> dict[str, Any]:
        """Return what pickle and copy need: the arguments, the state of the run, and its result if it has ended."""
        return {
            "arguments": self._arguments,
            "traits": self._traits,
            "state": self.state_dict(),
            "result": self._result,
            "status": self._status,
        }

    def __setstate__(self, saved: dict[str, Any]) -> None:
        """Continue a pickled run."""
        self._begin(saved["arguments"], saved["traits"], saved["state"])
        if saved["result"] is not None:
            self._request, self._result = None, saved["result"]
        elif saved["status"] is not Status.RUNNING:
            self._request, self._status = None, saved["status"]

    def _advance(self, values: Any) -> None:
        """Answer the current request, and get the next one.

        Ctrl-C is raised after the values are accepted, so that the run can be continued.
        """
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
        """Return the current request, or raise if the run has ended."""
        if self._request is None:
            raise RuntimeError("The run has ended: see `stop()` and `result`.")
        return self._request

    @property
    def asks(self) -> str:
        """Kind of values for `tell`: "fun" for one value per point, or "grad" for one gradient per point."""
        return self._pending().query.what

    @property
    def active(self) -> NDArray[np.intp]:
        """Problems of the batch that the points belong to, in the order of the points."""
        return (self._run.active if self._request is None else self._request.rows).copy()

    @property
    def xi(self) -> Any:
        """Samples (n, ...), batched (B, n, ...), for the points of a stochastic function. Otherwise None."""
        xi = self._pending().query.xi
        return None if xi is None else self._backend.to_library(xi if self._run.config.batched else xi[0])

    def ask(self) -> Any:
        """Return the points to evaluate, (n, d), batched (B, n, d) for the active problems.

        They stay the same until `tell` is called.
        """
        points = self._pending().query.points
        return self._backend.to_library(points if self._run.config.batched else points[0])

    def tell(self, points: Any, values: Any) -> None:
        """Pass the values or gradients at the points of the last `ask`.

        Parameters
        ----------
        points
            The points of the last `ask`, unchanged.
        values
            Values (n,) or, if `asks` is "grad", gradients (n, d). Batched: with a leading axis B.
        """
        query = self._pending().query
        backend = self._backend
        expected = query.points if self._run.config.batched else query.points[0]
        if not np.array_equal(backend.host(backend.real(points, "points")), backend.host(expected)):
            raise ArgumentValueError("`points` must be those of the last `ask`, in their order.")
        shape = tuple(expected.shape if query.is_gradient else expected.shape[:-1])
        array = backend.real(values, "values")
        if tuple(array.shape) != shape:
            raise ArgumentValueError(
                f"`values` must have shape {shape} for points {tuple(expected.shape)}, got {tuple(array.shape)}."
            )
        if self._run.config.raise_nonfinite and not np.isfinite(backend.host(array)).all():
            raise NonfiniteError("`values` must be finite with on_nonfinite='raise'.")
        self._advance(array if self._run.config.batched else array[None])

    def stop(self) -> bool:
        """Return True if the run has ended."""
        return self._request is None

    @property
    def result(self) -> Result:
        """The Result. Before the end, the best point so far (the iterate if f is stochastic), with Status.RUNNING.

        After an exception, in the callback for example, it is the best point so far, with Status.FAILED.
        """
        if self._result is not None:
            return self._result
        return self._run.interim_result(self._status)
