"""`Optimizer`: the ask/tell interface."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterator
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from slgh.checks import ArgumentTypeError, ArgumentValueError, NonfiniteError, count, show
from slgh.engine.arguments import Arguments, choose_start
from slgh.engine.arrivals import CLOSED, Arrivals, Place, may_close, order_of_points
from slgh.engine.bad_values import BadValuePolicy, mark_bad
from slgh.engine.checkpoint import Checkpoint, refuse_damaged
from slgh.engine.interrupts import Interrupts
from slgh.engine.requests import REACHED, Evaluate
from slgh.engine.search_space import read_space, read_tree_start
from slgh.engine.snapshot import Snapshot, read_meta
from slgh.engine.termination import Status
from slgh.method import Method, ObjectiveTraits
from slgh.minimize import make_run
from slgh.parameters import History, MethodName, MethodParameters
from slgh.result import Result
from slgh.space import Space


def _snapshot_of(state: dict[str, Any]) -> Snapshot:
    """Return the content of a `state_dict`."""
    with refuse_damaged("state_dict"):
        return Snapshot("state_dict", read_meta(state["header"]), dict(state["arrays"]))


class Optimizer:
    """Ask/tell interface, for objectives that slgh cannot call.

    `ask` returns points, and `tell` takes their values. Unless it is asynchronous, the run is bit-identical to that of
    `minimize` in a Python loop with the same arguments. The parameters are those of `minimize`, without fun and those
    that control how fun is called.

    Parameters
    ----------
    x0, method, bounds, start, starts, known, batched, seed, parallel
        As for `minimize`, with the same defaults.
    max_evals, max_iter, max_seconds, target, ftol, xtol
        As for `minimize`, with the same defaults.
    callback, progress, history, on_nonfinite, checkpoint
        As for `minimize`, with the same defaults.
    sample_xi
        As for `minimize`. The attribute `xi` has the samples for the points of `ask`.
    gradients
        True if `tell` can get gradients. First-order methods such as gd and slgh_r need them: see `asks`. False by
        default.
    asynchronous
        True if `ask(n)` may close an iteration before all its values have arrived. All points of the iteration must
        have been returned, and two thirds of the values and half of the samples must have arrived. The missing samples
        are dropped. A late value counts as an evaluation, and can be the best value or reach the `target`, but does not
        change the iterates. Before a planned end, the run waits for all values. Only for a single problem without
        sample_xi or a search space, and for methods that estimate the gradient from values. Iterations close early with
        the oracles antithetic, rademacher, diagonal_scaling, coarse_to_fine, forward (unless `slope_from="v"` separates
        its directions), sphere, exponential and progressive_exponential. Other oracles wait for all values. "auto" then
        has the phases "homotopy", "covariance" and "restarts", and does not check for noise. False by default.
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
        start: Any = None,
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
        asynchronous: bool = False,
        **params: Unpack[MethodParameters],
    ) -> None:
        space = read_space(
            *(x0, start), bounds=bounds, batched=batched, gradients=gradients, starts=starts, known=known
        )
        if space is not None and asynchronous:
            raise ArgumentValueError(
                "`asynchronous` is not possible with a search space. Leave it out, or pass bounds."
            )
        if space is not None:
            x0, bounds = read_tree_start(space, start), space.bounds
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
            asynchronous=asynchronous,
            space=space,
            params=dict(params),
        )
        self._begin(arguments, ObjectiveTraits(gradient=gradients))

    def _begin(self, arguments: Arguments, traits: ObjectiveTraits, state: dict[str, Any] | None = None) -> None:
        """Begin a run, or continue one from its `state_dict`."""
        run = make_run(arguments, traits, None if state is None else _snapshot_of(state))
        self._arguments, self._traits, self._run = arguments, traits, run
        self._request: Evaluate | None = None
        self._out: set[Place] = set()
        """Points that `ask` has returned, and that have no value yet."""
        self._last: list[int] | None = None
        """Points that the last `ask` has returned, None if there was none in this request."""
        self._result: Result | None = None
        self._status = Status.RUNNING
        self._backend = self._run.config.backend
        self._requests = self._run.requests()
        self._advance(None)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the run, the content of a checkpoint, as numbers, text and NumPy arrays.

        You can call it at any time, even between `ask` and `tell`, and continue the run with `load_state_dict`.

        Returns
        -------
        dict
            Write "header" as JSON, and "arrays" with `numpy.savez`.
        """
        meta, arrays = self._run.capture()
        return {"header": meta._asdict(), "arrays": {name: array.copy() for name, array in arrays.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue the run of a `state_dict`, which must come from an Optimizer with the same arguments.

        `ask` then returns the points of that Optimizer. `max_evals`, `max_iter`, `max_seconds` and `target` may differ
        where a checkpoint allows it.
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
                if self._run.arrivals is None:
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
        """Kind of values that `tell` takes: "fun" for one value per point, or "grad" for one gradient per point."""
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

    @property
    def arrivals(self) -> NDArray[np.int64]:
        """Log of an asynchronous run, (n, 2): the order in which values have arrived.

        A row (r, i) means that the value at point i of request r has arrived. A row (r, -1) means that request r was
        closed. A request is a group of points that belong together, such as the points of an iteration. Requests are
        numbered from 0. `replay` repeats the run from its log.
        """
        return self._log_of("arrivals").log

    def ask(self, n: int | None = None) -> Any:
        """Return points to evaluate, (n, d), batched (B, n, d) for the active problems.

        In a search space, return a list of n trees of values.

        Parameters
        ----------
        n
            Maximum number of points. With n, `ask` returns only points that it has not returned before. There may be
            none until `tell` has all values of the iteration. An asynchronous run closes the iteration if enough values
            have arrived. It returns no points after its end. None, the default: all points of the iteration without a
            value, even if they were returned before. An Optimizer that was unpickled or loaded returns all points
            without a value again, since it cannot know if they are being evaluated.
        """
        if n is not None and self._run.config.batched:
            raise ArgumentValueError("`n` is for a single problem. Omit it: a batch is asked for at once.")
        if n is not None:
            count("n", n, 0)
        arrivals = self._run.arrivals
        if arrivals is not None and n is not None:
            return self._backend.to_library(self._ask_asynchronously(arrivals, n))
        points = self._pending().query.points
        if arrivals is not None and not points.shape[1]:  # the run ends when these have values
            self._out.update(arrivals.late)
            return self._backend.to_library(self._points_at(list(arrivals.late)))
        if self._run.config.batched:
            return self._backend.to_library(points)
        at = self._without_value() if n is None else self._unasked()[:n]
        self._last = at
        self._out.update((self._number, i) for i in at)
        some = self._some(points[0], at)
        return self._backend.to_library(some) if self._space is None else [self._space.decode(z) for z in some]

    def _ask_asynchronously(self, arrivals: Arrivals, n: int) -> Any:
        """Return at most n points (n, d). If the current request has none left, close it and go on if possible."""
        places: list[Place] = []
        while self._request is not None:
            places += [(arrivals.request, i) for i in self._unasked()[: n - len(places)]]
            self._out.update(places)
            if len(places) == n or not may_close(self._request.query, self._request.answers.received):
                break
            self._close(arrivals)
        if self._request is None:
            places = []
        else:  # late points that nobody evaluates, after a resume or `abandon`: there is nothing better to do
            places += [place for place in arrivals.late if place not in self._out][: n - len(places)]
        self._out.update(places)
        return self._points_at(places)

    def _points_at(self, places: list[Place]) -> Any:
        """Return the points (n, d) at these places, which have no value yet."""
        found, config = dict(self._waiting()) if places else {}, self._run.config
        points = np.array([found[place] for place in places], config.dtype)
        return self._backend.native(points.reshape(-1, config.x0.shape[1]))

    def tell(self, points: Any, values: Any) -> None:
        """Pass the values or gradients at points of `ask`.

        Parameters
        ----------
        points
            Points that `ask` has returned, unchanged: an array, or a list of trees. For a single problem, `tell` takes
            any of them, in any order. Equal points get their values in the order of `ask`. The iteration ends when all
            its points have values. An asynchronous run also takes points of closed iterations. After its end, it
            ignores all points.
        values
            Values (n,) or, if `asks` is "grad", gradients (n, d). For a batch, with a leading axis B. Pass NaN for a
            failed evaluation.
        """
        if self._run.arrivals is not None and self._request is None:
            return
        request, backend, batched = self._pending(), self._backend, self._run.config.batched
        query = request.query
        all_points = backend.host(query.points if batched else query.points[0])
        if self._space is None:
            given = self._read_points(points)
        else:  # the relaxed points of the trees; those of equal values are interchangeable
            given = all_points[[i for _, i in self._find(points)]]
        complete = (batched or not request.answers.received) and np.array_equal(given, all_points)
        if not complete and (batched or given.ndim != 2 or given.shape[1] != all_points.shape[1]):
            raise ArgumentValueError("`points` must be those of the last `ask`, unchanged.")
        array = self._read_values(values, given.shape, is_gradient=query.is_gradient)
        if complete and self._run.arrivals is None:
            self._advance(array if batched else array[None])
            return
        places = self._find(points)
        with Interrupts() as interrupts:
            for place, value in zip(places, array, strict=True):
                if self._request is not None:  # late values are of no use after the end
                    self._receive(place, value)
            if self._request is not None:
                self._run.save_if_due()
        if interrupts.pending:
            raise KeyboardInterrupt

    def _read_values(self, values: Any, shape: tuple[int, ...], *, is_gradient: bool) -> Any:
        """Return the values, or raise if they do not fit points of this shape."""
        array = self._backend.real(values, "values")
        expected = shape if is_gradient else shape[:-1]
        if tuple(array.shape) != expected:
            raise ArgumentValueError(
                f"`values` must have shape {expected} for points {shape}, got {tuple(array.shape)}."
            )
        if self._run.config.raise_nonfinite and not np.isfinite(self._backend.host(array)).all():
            raise NonfiniteError("`values` must be finite with on_nonfinite='raise'.")
        return array

    def _receive(self, place: Place, value: Any) -> None:
        """Accept one value, and advance if the current request has all that it waits for."""
        (number, i), request, arrivals = place, self._pending(), self._run.arrivals
        self._out.discard(place)
        if arrivals is not None and number < arrivals.request:
            if self._run.receive_late(place, float(value)):
                self._advance(REACHED)
                return
        else:
            request.answers.begin(1)
            if arrivals is not None:
                arrivals.add(i)
                value = mark_bad(value, self._backend.xp) if request.query.samples else value
            request.answers.receive(i, value)
        # A request without points waits for all late values.
        if not self._without_value() and (request.query.points.shape[1] or not (arrivals and arrivals.late)):
            self._answer()

    def _close(self, arrivals: Arrivals) -> None:
        """Close the current request. The values that are missing may still arrive."""
        arrivals.close(self._backend.host(self._pending().query.points[0]), self._without_value())
        self._answer()

    def _answer(self) -> None:
        """Answer the current request with the values received, NaN where they are missing, and get the next one."""
        request, backend = self._pending(), self._backend
        n, received = request.query.points.shape[1], request.answers.received
        if self._run.arrivals is not None:
            self._run.arrivals.request += 1  # before the run saves itself, which it does before its next request
        missing = backend.real(np.nan, "values")
        found = backend.stack([received.get(i, missing) for i in range(n)]) if n else request.query.points[0, :, 0]
        self._advance(backend.xp.reshape(found, request.query.answer_shape))

    def abandon(self, points: Any) -> None:
        """Let `ask(n)` return these points again, because nobody will evaluate them.

        Parameters
        ----------
        points
            Points that `ask` has returned and that have no value yet.
        """
        if self._run.config.batched:
            raise ArgumentValueError("`abandon` is for a single problem. A batch is asked for at once.")
        if self._run.arrivals is not None and self._request is None:
            return
        self._out.difference_update(self._find(points))

    @property
    def _space(self) -> Space | None:
        """Search space of the run, if there is one."""
        return self._run.config.space

    def _read_points(self, points: Any) -> NDArray[Any]:
        """Return points on the host."""
        return np.asarray(self._backend.host(self._backend.real(points, "points")))

    def replay(self, arrivals: Any, fun: Callable[[Any], Any]) -> Result:
        """Repeat an asynchronous run from its log, and return its Result, bit for bit.

        Call it on a new Optimizer with the arguments and the seed of that run. If the log ends before the run does, you
        can continue the run with `ask` and `tell`.

        Parameters
        ----------
        arrivals
            Log of the run, `Optimizer.arrivals`.
        fun
            Function of one point (d,) that returns the value passed to `tell` in that run.
        """
        log, own = np.asarray(arrivals), self._log_of("replay")
        if log.ndim != 2 or log.shape[1] != 2 or log.dtype.kind not in "iu":
            raise ArgumentValueError(f"`arrivals` must be integers of shape (n, 2), got {log.dtype} {log.shape}.")
        if len(own.log):
            raise ArgumentValueError("`replay` needs an Optimizer that has received no values. Make a new one.")
        for row, (number, index) in enumerate(log.tolist()):
            place, waiting = (number, index), {} if self._request is None else dict(self._waiting())
            if place == (own.request, CLOSED) and waiting and self._pending().query.samples:
                self._close(own)
            elif place in waiting:
                point = self._backend.to_library(self._backend.native(waiting[place][None]))[0]
                self._receive(place, self._read_values([fun(point)], (1, len(point)), is_gradient=False)[0])
            else:
                raise ArgumentValueError(
                    f"`arrivals` is not the log of this run: its row {row} is {place}, which is no event here. Pass "
                    "the arguments and the seed of that run to Optimizer, and the same function."
                )
        return self.result

    def _log_of(self, name: str) -> Arrivals:
        """Return the log, or raise an error that names the attribute."""
        if self._run.arrivals is None:
            raise ArgumentValueError(f"`{name}` is for asynchronous runs. Pass asynchronous=True to Optimizer.")
        return self._run.arrivals

    @property
    def _number(self) -> int:
        """Number of the current request. It matters in asynchronous runs only."""
        return 0 if self._run.arrivals is None else self._run.arrivals.request

    def _some(self, array: Any, at: list[int]) -> Any:
        """Return these rows of an array."""
        return array if len(at) == len(array) else array[self._backend.index(np.array(at, np.intp))]

    def _without_value(self) -> list[int]:
        """Return which points of the current request have no value yet."""
        request = self._pending()
        return [i for i in range(request.query.points.shape[1]) if i not in request.answers.received]

    def _unasked(self) -> list[int]:
        """Return which points of the current request `ask` may return, in this order."""
        received, number = self._pending().answers.received, self._number
        query = self._pending().query
        order = range(query.points.shape[1]) if self._run.arrivals is None else order_of_points(query)
        return [i for i in order if i not in received and (number, i) not in self._out]

    def _waiting(self) -> Iterator[tuple[Place, NDArray[Any]]]:
        """Yield the points that have no value yet: those of closed requests, then those of the current one."""
        if self._run.arrivals is not None:
            yield from self._run.arrivals.late.items()
        points, number = self._backend.host(self._pending().query.points[0]), self._number
        yield from (((number, i), points[i]) for i in self._without_value())

    def _find(self, points: Any) -> list[Place]:
        """Return which points without a value these are. Raise if one is foreign, or has a value."""
        space = self._space
        if space is None:
            return self._find_keys(self._read_points(points), lambda p: np.ascontiguousarray(p).tobytes(), lambda p: p)
        if not isinstance(points, list | tuple):
            raise ArgumentTypeError(f"`points` must be a list of trees that `ask` has returned, got {show(points)}.")
        return self._find_keys(points, space.key, space.decode)

    def _find_keys(
        self, points: Any, key: Callable[[Any], Hashable], as_given: Callable[[NDArray[Any]], Any]
    ) -> list[Place]:
        """Return which points without a value have the keys of `points`.

        `as_given` converts a point of a request to the form that `points` have.
        """
        places: dict[Hashable, list[Place]] = {}
        # Of equal points, those that are out come first.
        for place, point in sorted(self._waiting(), key=lambda waiting: waiting[0] not in self._out):
            places.setdefault(key(as_given(point)), []).append(place)
        known = {key(as_given(point)) for point in self._backend.host(self._pending().query.points[0])}
        found = []
        for point in points:
            name = key(point)
            if not places.get(name):
                shown = np.array2string(point, threshold=6) if self._space is None else point
                raise ArgumentValueError(
                    "`points` must be points that `ask` has returned, unchanged, each with one value; got "
                    f"{shown}, which {'has a value' if name in known else 'is not one'}."
                )
            found.append(places[name].pop(0))
        return found

    def stop(self) -> bool:
        """Return True if the run has ended."""
        return self._request is None

    @property
    def result(self) -> Result:
        """Result of the run. Before the end, it is the best point so far, with Status.RUNNING.

        For a stochastic f, it is then the iterate. After an exception, for example in the callback, it is the best
        point so far, with Status.FAILED.
        """
        if self._result is not None:
            return self._result
        return self._run.interim_result(self._status)
