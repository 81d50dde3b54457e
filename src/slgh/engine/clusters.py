"""Evaluation on the workers of other libraries: executors, Dask, Ray, joblib, MPI, and callables like map."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence, Set
from concurrent.futures import BrokenExecutor, Executor, as_completed
from types import ModuleType
from typing import Any, NamedTuple, Protocol

from slgh import __version__, checks

Call = Callable[[tuple[Any, ...]], Any]
Found = Generator[tuple[int, Any], None, None]
"""Index of an item and its value, in any order."""
Mapper = Callable[[Call, Sequence[tuple[Any, ...]]], Found]
"""Calls a function for each item, and yields the values with their indices."""


_BROKEN = (
    "slgh: a worker died. These workers do not evaluate its points again, or have tried it as often as they may. With "
    "a `checkpoint`, the same call with new workers continues the run."
)


def unpickle_call(version: str, kind: Callable[..., Call], *parts: Any) -> Call:
    """Return a call in the process of a worker. Raise if that process has another version of slgh."""
    if version != __version__:
        raise RuntimeError(
            f"A worker has slgh {__version__}, and the run has slgh {version}. Install the same version on all workers."
        )
    return kind(*parts)


class Pool(Protocol):
    """Workers that are replaced when they die."""

    deaths: int
    """Number of times that workers have died, and their points were evaluated again."""
    timeouts: int
    """Number of evaluations that took too long."""


class Engine(NamedTuple):
    """Workers that evaluate points."""

    mapper: Mapper
    size: int | None = None
    """Number of evaluations that can run at the same time, None if it is unknown."""
    pool: Pool | None = None
    """None if slgh does not learn of workers that die."""


def as_engine(workers: Any, retries: int) -> Engine:
    """Return how to evaluate on the user's `workers`.

    Parameters
    ----------
    workers
        An executor of concurrent.futures (also loky's, MPI's and Dask's), a Dask Client, the module ray, a Ray
        ActorPool, a joblib.Parallel, an object with a `map` method such as a multiprocessing pool, or a callable like
        `map`.
    retries
        Maximum number of times that a point is evaluated again because its worker died, on Ray and joblib. Dask follows
        its own settings, and an executor that has lost a worker is broken.
    """
    names = {f"{base.__module__}.{base.__qualname__}" for base in type(workers).__mro__}
    if isinstance(workers, ModuleType) and workers.__name__ == "ray":
        cores = workers.cluster_resources().get("CPU", 0) if workers.is_initialized() else 0
        return Engine(_on_ray(workers, retries), int(cores) or None)
    if "ray.util.actor_pool.ActorPool" in names:
        return Engine(_on_actors(workers))
    if "distributed.client.Client" in names:
        return Engine(_on_dask(workers), sum(workers.nthreads().values()) or None)
    if "joblib.parallel.Parallel" in names:
        pool = _Joblib(workers, retries)
        return Engine(pool.map, pool.size, pool)
    if isinstance(workers, Executor):
        size = getattr(workers, "_max_workers", None) or getattr(workers, "num_workers", None)  # the latter is MPI's
        return Engine(_on_executor(workers), size)
    if hasattr(workers, "map"):  # not a protocol: its isinstance would refuse proxies
        # A pool's imap yields each value when it is there, so that an exception does not lose those before it.
        return Engine(_with_map(getattr(workers, "imap", workers.map)), getattr(workers, "_processes", None))
    if callable(workers):
        return Engine(_with_map(workers))
    raise checks.ArgumentTypeError(
        "`workers` must be an integer, an executor, a Dask Client, the module ray, a joblib.Parallel, or a callable "
        f"like map; got {workers!r}."
    )


def _with_map(mapping: Callable[..., Any]) -> Mapper:
    """Return a Mapper that calls the user's `mapping`, a callable like `map`, and checks its values."""

    def mapper(call: Call, items: Sequence[tuple[Any, ...]]) -> Found:
        values = mapping(call, items)
        if isinstance(values, Mapping | Set | str | bytes) or not isinstance(values, Iterable):
            raise checks.ArgumentTypeError(
                f"`workers` must return the values in the order of the items, as `map` does; got {checks.show(values)}."
            )
        count = 0
        for value in values:
            if count < len(items):
                yield count, value
            count += 1
            if count > len(items):
                break
        if count != len(items):
            got = f"more than {len(items)}" if count > len(items) else str(count)
            raise checks.ArgumentValueError(
                f"`workers` must return one value per item that it gets (expected {len(items)}); got {got}."
            )

    return mapper


def _on_executor(executor: Executor) -> Mapper:
    """Return a Mapper for an executor of concurrent.futures.

    After the first failure, it yields the values that are there, and waits for no others: once futures are canceled, a
    worker that dies can leave the rest of them without an end.
    """

    def mapper(call: Call, items: Sequence[tuple[Any, ...]]) -> Found:
        futures: dict[Any, int] = {}
        try:
            for i, item in enumerate(items):
                futures[executor.submit(call, item)] = i
            for future in as_completed(futures):
                if (failure := future.exception()) is not None:
                    break
                yield futures.pop(future), future.result()
            else:
                return
            for future, i in futures.items():
                if future.done() and not future.cancelled() and future.exception() is None:
                    yield i, future.result()
            if isinstance(failure, BrokenExecutor):
                failure.add_note(_BROKEN)
            raise failure
        finally:
            for future in futures:
                future.cancel()

    return mapper


def _on_dask(client: Any) -> Mapper:
    """Return a Mapper for a Dask Client."""
    from distributed import as_completed as dask_completed

    def mapper(call: Call, items: Sequence[tuple[Any, ...]]) -> Found:
        futures = client.map(call, items, pure=False)
        index = {future.key: i for i, future in enumerate(futures)}
        try:
            for future, value in dask_completed(futures, with_results=True, raise_errors=False):
                if future.status != "finished":
                    break
                yield index.pop(future.key), value
            else:
                return
            for other in futures:
                if other.key in index and other.status == "finished":
                    yield index[other.key], other.result()
            future.result()  # raises the exception of fun, or KilledWorker
        finally:
            client.cancel(futures)

    return mapper


def _call_item(call: Call, item: tuple[Any, ...]) -> Any:
    """Call a function in a Ray task."""
    return call(item)


def _call_indexed(call: Call, pair: tuple[int, tuple[Any, ...]]) -> tuple[int, Any]:
    """Call a function, and return the index of the item with the value."""
    return pair[0], call(pair[1])


def _call_in_actor(actor: object, call: Call, pair: tuple[int, tuple[Any, ...]]) -> tuple[int, Any]:
    """Call a function in the process of a Ray actor."""
    return _call_indexed(call, pair)


def _on_ray(ray: Any, retries: int) -> Mapper:
    """Return a Mapper that runs Ray tasks. Ray repeats the task of a worker that died up to `retries` times."""

    def mapper(call: Call, items: Sequence[tuple[Any, ...]]) -> Found:
        task, function = ray.remote(max_retries=retries)(_call_item), ray.put(call)
        index = {task.remote(function, item): i for i, item in enumerate(items)}
        pending, failure = list(index), None
        try:
            while pending:
                ray.wait(pending)
                done, pending = ray.wait(pending, num_returns=len(pending), timeout=0)
                for ref in done:
                    try:
                        value = ray.get(ref)
                    except Exception as error:
                        failure = failure or error
                    else:
                        yield index[ref], value
                if failure is not None:
                    raise failure
        finally:
            for ref in pending:
                ray.cancel(ref, force=True)

    return mapper


def _on_actors(pool: Any) -> Mapper:
    """Return a Mapper for a Ray ActorPool. The actors may be of any class."""
    import ray

    def mapper(call: Call, items: Sequence[tuple[Any, ...]]) -> Found:
        function = ray.put(call)

        def submit(actor: Any, pair: Any) -> Any:
            return actor.__ray_call__.remote(_call_in_actor, function, pair)

        yield from pool.map_unordered(submit, list(enumerate(items)))

    return mapper


class _Joblib:
    """A joblib.Parallel, with any of its `return_as`. It starts new workers for its next call when one has died."""

    def __init__(self, parallel: Any, retries: int) -> None:
        import joblib

        self.parallel, self.retries = parallel, retries
        self.delayed = joblib.delayed(_call_indexed)
        self.size: int = joblib.effective_n_jobs(parallel.n_jobs)
        self.deaths = 0
        self.timeouts = 0

    def map(self, call: Call, items: Sequence[tuple[Any, ...]]) -> Found:
        """Evaluate the items."""
        left, tries = dict(enumerate(items)), 0
        while left:
            try:
                for index, value in self.parallel([self.delayed(call, pair) for pair in left.items()]):
                    del left[index]
                    yield index, value
            except BrokenExecutor as error:
                if tries == self.retries:
                    error.add_note(_BROKEN)
                    raise
                tries, self.deaths = tries + 1, self.deaths + 1
