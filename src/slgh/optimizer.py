"""`Optimizer`: a run whose points the user evaluates, through ask and tell."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from slgh.checks import ArgumentValueError, NonfiniteError, count
from slgh.engine.arguments import Arguments, choose_start
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
    x0, method, bounds, starts, known, batched, max_evals, max_iter, max_seconds, target, ftol, xtol, seed, parallel
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
        x0: Any = None,
        *,
        method: MethodName | str | Method = "auto",
        sample_xi: Callable[[np.random.Generator, int], Any] | int | None = None,
        bounds: Any = None,
        starts: Any = None,
        known: Any = None,
        batched: bool = False,
        gradients: bool = False,
        max_evals: int | None = None,
        max_iter: int | None = None,
        max_seconds: float | None = None,
        target: float | None = None,
        ftol: float | None = None,
        xtol: float | None = None,
        seed: Any = None,
        parallel: int | None = None,
        callback: Callable[..., object] | None = None,
        progress: bool = False,
        history: History = 1000,
        on_nonfinite: BadValuePolicy = "reject",
        checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
        **params: Unpack[MethodParameters],
    ) -> None:
        arguments = Arguments(
            x0=choose_start(x0, bounds, batched=batched, starts=starts, known=known),
            method=method,
            sample_xi=sample_xi,
            bounds=bounds,
            batched=batched,
            limits={"max_evals": max_evals, "max_iter": max_iter, "max_seconds": max_seconds, "target": target},
            starts=starts,
            known=known,
            ftol=ftol,
            xtol=xtol,
            seed=seed,
            callback=callback,
            progress=progress,
            history=history,
            on_nonfinite=on_nonfinite,
            checkpoint=checkpoint,
            parallel=parallel,
            params=dict(params),
        )
        self._begin(arguments, ObjectiveTraits(gradient=gradients))

    def _begin(self, arguments: Arguments, traits: ObjectiveTraits, state: dict[str, Any] | None = None) -> None:
        """Begin a run, or continue one from its `state_dict`."""
        run = make_run(arguments, traits, None if state is None else _snapshot_of(state))
        self._arguments, self._traits, self._run = arguments, traits, run
        self._request: Evaluate | None = None
        self._out: set[int] = set()
        """Points of the current request that `ask` has returned."""
        self._last: list[int] | None = None
        """Points that the last `ask` has returned, None if there was none in this request."""
        self._result: Result | None = None
        self._status = Status.RUNNING
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
        found, identity = _snapshot_of(state), dict(self._run.config.identity)
        if self._arguments.seed is None:
            identity.pop("seed", None)  # the generated seed travels with the state
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
                self._request, self._last = request, None
                self._out.clear()
                self._run.save_if_due()
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
        """Samples (n, ...), batched (B, n, ...), for the points of the last `ask`. None if f is not stochastic."""
        xi = self._pending().query.xi
        if xi is None or self._run.config.batched:
            return None if xi is None else self._backend.to_library(xi)
        return self._backend.to_library(self._some(xi[0], self._without_value() if self._last is None else self._last))

    def ask(self, n: int | None = None) -> Any:
        """Return points to evaluate, (n, d), batched (B, n, d) for the active problems.

        Parameters
        ----------
        n
            Maximum number of points. They are then points that no other `ask` has returned, and there may be none
            until `tell` has all values of the iteration. None, the default: all points of the iteration that have no
            value yet, whether they were returned before or not. An Optimizer that was pickled or loaded returns all
            points without a value again, since it is not known who evaluates them.
        """
        points = self._pending().query.points
        if self._run.config.batched:
            if n is not None:
                raise ArgumentValueError("`n` is for a single problem. Omit it: a batch is asked for at once.")
            return self._backend.to_library(points)
        at = self._without_value()
        if n is not None:
            count("n", n, 0)
            at = [i for i in at if i not in self._out][:n]
        self._last = at
        self._out.update(at)
        return self._backend.to_library(self._some(points[0], at))

    def tell(self, points: Any, values: Any) -> None:
        """Pass the values or gradients at points of `ask`.

        Parameters
        ----------
        points
            Points that `ask` has returned, unchanged. For a single problem, they may be some of them, in any order.
            Equal points get their values in the order of `ask`. The iteration ends when all its points have values.
        values
            Values (n,) or, if `asks` is "grad", gradients (n, d). Batched: with a leading axis B. NaN if the evaluation
            failed.
        """
        request, backend, batched = self._pending(), self._backend, self._run.config.batched
        query = request.query
        given = backend.host(backend.real(points, "points"))
        all_points = backend.host(query.points if batched else query.points[0])
        complete = (batched or not request.answers.received) and np.array_equal(given, all_points)
        if not complete and (batched or given.ndim != 2 or given.shape[1] != all_points.shape[1]):
            raise ArgumentValueError("`points` must be those of the last `ask`, unchanged.")
        shape = given.shape if query.is_gradient else given.shape[:-1]
        array = backend.real(values, "values")
        if tuple(array.shape) != shape:
            raise ArgumentValueError(
                f"`values` must have shape {shape} for points {given.shape}, got {tuple(array.shape)}."
            )
        if self._run.config.raise_nonfinite and not np.isfinite(backend.host(array)).all():
            raise NonfiniteError("`values` must be finite with on_nonfinite='raise'.")
        if complete:
            self._advance(array if batched else array[None])
            return
        places = self._find(given)
        with Interrupts() as interrupts:
            for i, value in zip(places, array, strict=True):
                request.answers.begin(1)
                request.answers.receive(i, value)
            self._run.save_if_due()
        if not self._without_value():
            found = backend.stack([request.answers.received[i] for i in range(len(all_points))])
            self._advance(backend.xp.reshape(found, query.answer_shape))
        if interrupts.pending:
            raise KeyboardInterrupt

    def abandon(self, points: Any) -> None:
        """Let `ask(n)` return these points again, because nobody will evaluate them.

        Parameters
        ----------
        points
            Points that `ask` has returned and that have no value yet.
        """
        if self._run.config.batched:
            raise ArgumentValueError("`abandon` is for a single problem. A batch is asked for at once.")
        backend = self._backend
        self._out.difference_update(self._find(backend.host(backend.real(points, "points"))))

    def _some(self, array: Any, at: list[int]) -> Any:
        """Return these rows of an array."""
        return array if len(at) == len(array) else array[self._backend.index(np.array(at, np.intp))]

    def _without_value(self) -> list[int]:
        """Return which points of the current request have no value yet."""
        request = self._pending()
        return [i for i in range(request.query.points.shape[1]) if i not in request.answers.received]

    def _find(self, points: NDArray[Any]) -> list[int]:
        """Return which points of the current request these are. Raise if one is foreign, or has a value."""
        request, host = self._pending(), self._backend.host
        places: dict[bytes, list[int]] = {}
        for i, point in enumerate(host(request.query.points[0])):
            places.setdefault(point.tobytes(), []).append(i)
        found = []
        for point in points:
            free = places.get(np.ascontiguousarray(point).tobytes())
            while free and free[0] in request.answers.received:
                free.pop(0)
            if not free:
                raise ArgumentValueError(
                    "`points` must be points that `ask` has returned, unchanged, each with one value; "
                    f"got {np.array2string(point, threshold=6)}, which {'has a value' if free == [] else 'is not one'}."
                )
            found.append(free.pop(0))
        return found

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
