"""The libraries of the comparison, each called in its documented way.

Only the process that runs a cell imports the library. `NotOffered` is raised for anything that a library does not have.
"""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Fun = Callable[[Array], Any]
Values = Callable[[Fun, Iterable[Array]], Iterable[Any]]

BUDGET = 300
BOX = ((-5.0, 5.0), (-5.0, 5.0))
START = (3.0, -2.0)


class NotOffered(Exception):
    """The library does not offer this."""


class Answer(NamedTuple):
    """Result of a library.

    Parameters
    ----------
    x, fun
        The solution and the value reported for it (None where there is none).
    success
        The library's own flag, None where it has none.
    also
        Further pairs (x, fun) that were reported.
    """

    x: Array
    fun: float | None
    success: bool | None = None
    also: tuple[tuple[Array, float], ...] = ()


class Session:
    """A run with ask and tell."""

    def ask(self) -> list[Array]:
        """Return the points to evaluate."""
        raise NotImplementedError

    def tell(self, values: Array) -> None:
        """Pass on the values of the points, one per point."""
        raise NotImplementedError

    def done(self) -> bool:
        """Return True if the budget is spent."""
        raise NotImplementedError

    def answer(self) -> Answer:
        """Return the result."""
        raise NotImplementedError


class Library:
    """Interface of a library under test. Methods that are not overridden are not offered."""

    name: str
    title: str
    package: str
    call: str

    def minimize(
        self,
        fun: Fun,
        *,
        budget: int = BUDGET,
        seed: int = 0,
        box: Any = BOX,
        x0: Any = None,
        callback: Callable[[list[Any]], None] | None = None,
    ) -> Answer:
        """Minimize in this process.

        The callback gets every array or dictionary that the library passes to a callback.
        """
        raise NotImplementedError

    def within(self, fun: Fun, budget: int) -> bool:
        """Minimize with a hard budget. Return False if the library has no setting for it."""
        self.minimize(fun, budget=budget)
        return True

    def interruptible(self, fun: Fun, *, budget: int = BUDGET, parallel: bool = False) -> Answer:
        """Minimize, and return what the caller has after Ctrl-C. Use two workers if `parallel`."""
        return self.parallel(fun, budget=budget) if parallel else self.minimize(fun, budget=budget)

    def parallel(self, fun: Fun, *, budget: int = BUDGET) -> Answer:
        """Minimize with two worker processes."""
        raise NotOffered("no worker processes")

    def vectorized(self, fun: Fun) -> Answer:
        """Minimize a function that gets several points, in the library's own array."""
        raise NotOffered("no vectorized functions")

    def mapped(self, values: Values) -> Answer:
        """Minimize with a map function of the user."""
        raise NotOffered("no map of the user's own")

    def session(self, *, budget: int, seed: int) -> Session:
        """Start a run with ask and tell."""
        raise NotOffered("no ask and tell")

    def resume(self, fun: Fun, path: Path, *, budget: int) -> Answer:
        """Run, save the state to `path` as often as possible, and continue from it if it is there."""
        raise NotOffered("no saved state")


def stop_listening() -> None:
    """Ignore further Ctrl-C: the library has given control back."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def rows_of(fun: Fun) -> Callable[[Array], Any]:
    """Return a vectorized function that passes views of its points to `fun`."""
    return lambda points: fun(points) if points.ndim == 1 else np.array([fun(point) for point in points])


class Slgh(Library):
    """slgh with its default method."""

    name, title, package = "slgh", "slgh", "slgh"
    call = "`slgh.minimize(f, x0, bounds=..., max_evals=300, seed=...)`"

    def minimize(
        self,
        fun: Any,
        *,
        budget: int = BUDGET,
        seed: int = 0,
        box: Any = BOX,
        x0: Any = None,
        callback: Callable[[list[Any]], None] | None = None,
        **options: Any,
    ) -> Answer:
        import slgh

        if callback is not None:
            options["callback"] = lambda r: callback([v for v in r.values() if isinstance(v, np.ndarray)])
        start = np.array(START if x0 is None else x0, float)
        found = slgh.minimize(fun, start, bounds=box, max_evals=budget, seed=seed, **options)
        return Answer(found.x, float(found.fun), bool(found.success), ((found.x_best, float(found.fun_best)),))

    def parallel(self, fun: Fun, *, budget: int = BUDGET) -> Answer:
        return self.minimize(fun, budget=budget, workers=2)

    def vectorized(self, fun: Fun) -> Answer:
        return self.minimize(rows_of(fun), vectorized=True)

    def mapped(self, values: Values) -> Answer:
        return self.minimize(sphere, workers=values)

    def session(self, *, budget: int, seed: int) -> Session:
        return SlghSession(budget, seed)

    def resume(self, fun: Fun, path: Path, *, budget: int) -> Answer:
        import slgh

        return self.minimize(fun, budget=budget, checkpoint=slgh.Checkpoint(path=path, every_iterations=1))


class SlghSession(Session):
    def __init__(self, budget: int, seed: int) -> None:
        import slgh

        self.opt = slgh.Optimizer(np.array(START), bounds=BOX, max_evals=budget, seed=seed)

    def ask(self) -> list[Array]:
        self.points = self.opt.ask()
        return list(self.points)

    def tell(self, values: Array) -> None:
        self.opt.tell(self.points, values)

    def done(self) -> bool:
        return self.opt.stop()

    def answer(self) -> Answer:
        return Answer(self.opt.result.x, float(self.opt.result.fun))


class DifferentialEvolution(Library):
    """SciPy's differential evolution."""

    name, title, package = "de", "SciPy DE", "scipy"
    call = "`differential_evolution(f, bounds, maxiter=9, rng=...)`, which is 300 evaluations and a polish"

    def minimize(
        self,
        fun: Any,
        *,
        budget: int = BUDGET,
        seed: int = 0,
        box: Any = BOX,
        x0: Any = None,
        callback: Callable[[list[Any]], None] | None = None,
        **options: Any,
    ) -> Answer:
        from scipy.optimize import differential_evolution

        def watch(intermediate_result: Any) -> None:
            assert callback is not None
            callback([v for v in intermediate_result.values() if isinstance(v, np.ndarray)])

        if callback is not None:
            options["callback"] = watch
        options.setdefault("maxiter", max(0, budget // (15 * len(box)) - 1))
        found = differential_evolution(fun, box, rng=seed, x0=x0, **options)
        return Answer(found.x, float(found.fun), bool(found.success))

    def within(self, fun: Fun, budget: int) -> bool:
        # The documentation gives (maxiter + 1) * popsize * d calls without polish, and at least 5 points.
        popsize = next((size for size in (15, 5, 3) if 2 * size <= budget), None)
        if popsize is None:
            return False
        self.minimize(fun, popsize=popsize, maxiter=budget // (2 * popsize) - 1, polish=False)
        return True

    def parallel(self, fun: Fun, *, budget: int = BUDGET) -> Answer:
        return self.minimize(fun, budget=budget, workers=2, updating="deferred")

    def vectorized(self, fun: Fun) -> Answer:
        def columns(points: Array) -> Any:
            return rows_of(fun)(points.T)

        return self.minimize(columns, vectorized=True, updating="deferred")

    def mapped(self, values: Values) -> Answer:
        return self.minimize(sphere, workers=values, updating="deferred")


class DualAnnealing(Library):
    """SciPy's dual annealing."""

    name, title, package = "da", "SciPy dual annealing", "scipy"
    call = "`dual_annealing(f, bounds, maxfun=300, rng=...)`"

    def minimize(
        self,
        fun: Any,
        *,
        budget: int = BUDGET,
        seed: int = 0,
        box: Any = BOX,
        x0: Any = None,
        callback: Callable[[list[Any]], None] | None = None,
        **options: Any,
    ) -> Answer:
        from scipy.optimize import dual_annealing

        if callback is not None:
            options["callback"] = lambda x, f, context: callback([x])
        found = dual_annealing(fun, box, maxfun=budget, rng=seed, x0=x0, **options)
        return Answer(found.x, float(np.squeeze(found.fun)), bool(found.success))

    def within(self, fun: Fun, budget: int) -> bool:
        # maxfun is documented as soft because of the local searches.
        self.minimize(fun, budget=budget, no_local_search=True)
        return True


class Pycma(Library):
    """CMA-ES by pycma."""

    name, title, package = "cma", "pycma", "cma"
    call = '`cma.fmin2(f, x0, 2.5, {"bounds": ..., "maxfevals": 300, "seed": ...})`'

    @staticmethod
    def options(budget: int, seed: int, box: Any) -> dict[str, Any]:
        low, high = np.transpose(box).tolist()
        # A seed of 0 means the clock.
        return {"bounds": [low, high], "maxfevals": budget, "seed": seed + 1, "verbose": -9}

    @staticmethod
    def read(es: Any) -> Answer:
        return Answer(np.array(es.result.xbest, float), None if es.result.fbest is None else float(es.result.fbest))

    def strategy(self, budget: int, seed: int) -> Any:
        import cma

        return cma.CMAEvolutionStrategy(list(START), 2.5, self.options(budget, seed, BOX))

    def minimize(
        self,
        fun: Any,
        *,
        budget: int = BUDGET,
        seed: int = 0,
        box: Any = BOX,
        x0: Any = None,
        callback: Callable[[list[Any]], None] | None = None,
        **options: Any,
    ) -> Answer:
        import cma

        if callback is not None:
            options["callback"] = lambda es: callback([v for v in es.result if isinstance(v, np.ndarray)])
        sigma0 = (box[0][1] - box[0][0]) / 4
        start = list(START if x0 is None else x0)
        _, es = cma.fmin2(fun, start, sigma0, self.options(budget, seed, box), **options)
        return self.read(es)

    def interruptible(self, fun: Fun, *, budget: int = BUDGET, parallel: bool = False) -> Answer:
        import cma
        from cma.optimization_tools import EvalParallel2

        es = self.strategy(budget, 0)
        try:
            if parallel:
                with EvalParallel2(fun, 2) as values:
                    cma.fmin2(None, es, None, parallel_objective=values)
            else:
                cma.fmin2(fun, es, None)
        except KeyboardInterrupt:
            stop_listening()
        return self.read(es)

    def parallel(self, fun: Fun, *, budget: int = BUDGET) -> Answer:
        from cma.optimization_tools import EvalParallel2

        with EvalParallel2(fun, 2) as values:
            return self.minimize(None, budget=budget, parallel_objective=values)

    def vectorized(self, fun: Fun) -> Answer:
        return self.minimize(None, parallel_objective=lambda points: [fun(point) for point in points])

    def mapped(self, values: Values) -> Answer:
        return self.minimize(None, parallel_objective=lambda points: values(sphere, points))

    def session(self, *, budget: int, seed: int) -> Session:
        return PycmaSession(self.strategy(budget, seed), budget)

    def resume(self, fun: Fun, path: Path, *, budget: int) -> Answer:
        es = pickle.loads(path.read_bytes()) if path.exists() else self.strategy(budget, 0)
        while not es.stop():
            points = es.ask()
            es.tell(points, [fun(point) for point in points])
            write(path, es.pickle_dumps())
        return self.read(es)


class PycmaSession(Session):
    def __init__(self, es: Any, budget: int) -> None:
        self.es, self.budget = es, budget

    def ask(self) -> list[Array]:
        self.points = self.es.ask()
        return list(self.points)

    def tell(self, values: Array) -> None:
        self.es.tell(self.points, values)

    def done(self) -> bool:
        return bool(self.es.stop())

    def answer(self) -> Answer:
        return Pycma.read(self.es)


class Optuna(Library):
    """Optuna with its default sampler, TPE."""

    name, title, package = "optuna", "Optuna", "optuna"
    call = "`study.optimize(f, n_trials=300)` with `TPESampler(seed=...)`, and `trial.suggest_float` for each variable"

    @staticmethod
    def study(seed: int, **options: Any) -> Any:
        import optuna

        options.setdefault("sampler", optuna.samplers.TPESampler(seed=seed))
        return optuna.create_study(**options)

    @staticmethod
    def objective(fun: Fun, box: Any) -> Callable[[Any], Any]:
        def of_trial(trial: Any) -> Any:
            return fun(np.array([trial.suggest_float(f"x{i}", *side) for i, side in enumerate(box)]))

        return of_trial

    @staticmethod
    def read(study: Any) -> Answer:
        params = study.best_params
        return Answer(np.array([params[f"x{i}"] for i in range(len(params))]), float(study.best_value))

    def minimize(
        self,
        fun: Any,
        *,
        budget: int = BUDGET,
        seed: int = 0,
        box: Any = BOX,
        x0: Any = None,
        callback: Callable[[list[Any]], None] | None = None,
    ) -> Answer:
        study = self.study(seed)
        if x0 is not None:
            study.enqueue_trial({f"x{i}": float(v) for i, v in enumerate(x0)})
        callbacks = [] if callback is None else [lambda study, trial: callback([trial.params, study.best_params])]
        study.optimize(self.objective(fun, box), n_trials=budget, callbacks=callbacks)
        return self.read(study)

    def interruptible(self, fun: Fun, *, budget: int = BUDGET, parallel: bool = False) -> Answer:
        study = self.study(0)
        try:
            study.optimize(self.objective(fun, BOX), n_trials=budget, n_jobs=2 if parallel else 1)
        except KeyboardInterrupt:
            stop_listening()
        return self.read(study)

    def parallel(self, fun: Fun, *, budget: int = BUDGET) -> Answer:
        raise NotOffered("n_jobs are threads; processes are started by the user, around one storage")

    def session(self, *, budget: int, seed: int) -> Session:
        return OptunaSession(self.study(seed), budget)

    def resume(self, fun: Fun, path: Path, *, budget: int) -> Answer:
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend
        from optuna.trial import TrialState

        # The documentation keeps the trials in a storage, and the sampler in a pickle, for the same random numbers.
        kept = Path(f"{path}.sampler")
        options: dict[str, Any] = {"sampler": pickle.loads(kept.read_bytes())} if kept.exists() else {}
        storage = JournalStorage(JournalFileBackend(str(path)))
        study = self.study(0, study_name="run", storage=storage, load_if_exists=True, **options)
        # A killed process leaves its trial running, which the sampler would count.
        for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            study.tell(trial.number, state=TrialState.FAIL)
        finished = len(study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)))
        study.optimize(
            self.objective(fun, BOX),
            n_trials=budget - finished,
            callbacks=[lambda study, trial: write(kept, pickle.dumps(study.sampler))],
        )
        return self.read(study)


class OptunaSession(Session):
    def __init__(self, study: Any, budget: int) -> None:
        self.study, self.left = study, budget

    def ask(self) -> list[Array]:
        self.trial = self.study.ask()
        return [np.array([self.trial.suggest_float(f"x{i}", *side) for i, side in enumerate(BOX)])]

    def tell(self, values: Array) -> None:
        self.left -= 1
        self.study.tell(self.trial, values[0])

    def done(self) -> bool:
        return self.left == 0

    def answer(self) -> Answer:
        return Optuna.read(self.study)


class Nevergrad(Library):
    """nevergrad's TwoPointsDE: its default NGOpt raises TypeError with NumPy 2.4 in 2 variables on 300 evaluations."""

    name, title, package = "nevergrad", "nevergrad", "nevergrad"
    call = "`ng.optimizers.TwoPointsDE(ng.p.Array(init=x0, lower=..., upper=...), budget=300).minimize(f)`"

    @staticmethod
    def optimizer(budget: int, seed: int, *, box: Any = BOX, x0: Any = None, num_workers: int = 1) -> Any:
        import nevergrad as ng

        low, high = np.transpose(box)
        space = ng.p.Array(init=np.array(START if x0 is None else x0, float), lower=low, upper=high)
        space.random_state = np.random.RandomState(seed)
        return ng.optimizers.TwoPointsDE(parametrization=space, budget=budget, num_workers=num_workers)

    @staticmethod
    def read(found: Any) -> Answer:
        return Answer(np.array(found.value, float), None if found.loss is None else float(found.loss))

    def minimize(
        self,
        fun: Any,
        *,
        budget: int = BUDGET,
        seed: int = 0,
        box: Any = BOX,
        x0: Any = None,
        callback: Callable[[list[Any]], None] | None = None,
    ) -> Answer:
        opt = self.optimizer(budget, seed, box=box, x0=x0)
        if callback is not None:
            opt.register_callback("tell", lambda opt, candidate, loss: callback([candidate.value]))
        return self.read(opt.minimize(fun))

    def interruptible(self, fun: Fun, *, budget: int = BUDGET, parallel: bool = False) -> Answer:
        from concurrent.futures import ProcessPoolExecutor

        opt = self.optimizer(budget, 0, num_workers=2 if parallel else 1)
        try:
            if parallel:
                with ProcessPoolExecutor(2) as pool:
                    opt.minimize(fun, executor=pool)
            else:
                opt.minimize(fun)
        except KeyboardInterrupt:
            stop_listening()
        return self.read(opt.provide_recommendation())

    def parallel(self, fun: Fun, *, budget: int = BUDGET) -> Answer:
        from concurrent.futures import ProcessPoolExecutor

        with ProcessPoolExecutor(2) as pool:
            return self.read(self.optimizer(budget, 0, num_workers=2).minimize(fun, executor=pool))

    def session(self, *, budget: int, seed: int) -> Session:
        return NevergradSession(self.optimizer(budget, seed), budget)

    def resume(self, fun: Fun, path: Path, *, budget: int) -> Answer:
        import nevergrad as ng

        opt = ng.optimizers.TwoPointsDE.load(path) if path.exists() else self.optimizer(budget, 0)
        while opt.num_tell < budget:
            candidate = opt.ask()
            opt.tell(candidate, fun(candidate.value))
            opt.dump(path)
        return self.read(opt.provide_recommendation())


class NevergradSession(Session):
    def __init__(self, opt: Any, budget: int) -> None:
        self.opt, self.budget = opt, budget

    def ask(self) -> list[Array]:
        self.candidate = self.opt.ask()
        return [self.candidate.value]

    def tell(self, values: Array) -> None:
        self.opt.tell(self.candidate, values[0])

    def done(self) -> bool:
        return bool(self.opt.num_tell >= self.budget)

    def answer(self) -> Answer:
        return Nevergrad.read(self.opt.provide_recommendation())


def write(path: Path, content: bytes) -> None:
    """Replace a file atomically."""
    beside = path.with_name(f"{path.name}.new")
    beside.write_bytes(content)
    os.replace(beside, path)


def sphere(x: Array) -> float:
    """The function of every case: 0 at (1, 1)."""
    return float(np.sum((np.asarray(x) - 1.0) ** 2))


LIBRARIES: dict[str, Library] = {
    library.name: library
    for library in (Slgh(), DifferentialEvolution(), DualAnnealing(), Pycma(), Optuna(), Nevergrad())
}
