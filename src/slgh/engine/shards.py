"""Batches in shards. Each shard is a complete run of some of the problems: on a worker, a device or a rank of PyTorch.

Noise is keyed by the number of the problem, so the results are those of one run, bit for bit.

This is the rule for `workers` with a batch. The problems are divided if there are at least `MIN_PROBLEMS_PER_WORKER` of
them per worker. So a worker gets one task per run, and not one per iteration. Fewer problems, and a run with a callback
or with `max_seconds`, advance together in this process, and the workers evaluate their points.
"""

from __future__ import annotations

import copy
import dataclasses
import math
import os
import pickle
import re
import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from slgh import __version__, checks
from slgh.backends import Backend
from slgh.checks import ArgumentFileError, ArgumentValueError
from slgh.engine.arguments import Arguments, ShardOf
from slgh.engine.checkpoint import Arrays, Checkpoint, read, refuse_damaged, resolve
from slgh.engine.clusters import Found, Mapper, unpickle_call
from slgh.engine.config import RunConfig
from slgh.engine.executors import Unit, Workers, is_parallel, open_workers, size_of
from slgh.engine.history import History
from slgh.engine.interrupts import Interrupts
from slgh.engine.recorder import ProgressBar
from slgh.engine.report import LIBRARY_ARRAYS, Story, message_of, minima_of
from slgh.engine.run import Run
from slgh.engine.snapshot import read_meta, read_settings
from slgh.engine.termination import Status
from slgh.method import Method, ObjectiveTraits
from slgh.protocols import PerProblem
from slgh.result import Result

MIN_PROBLEMS_PER_WORKER = 4
"""Smallest batch that is divided. With fewer problems per worker, dividing the points balances better."""

SHARDS_PER_WORKER = 4
"""Shards per worker of a large batch, so that the others are not idle for long while the last one ends."""

GOOD_SHARD_SIZE = 64
"""A worker gets more than one shard only if they have at least this size. Smaller ones lose more time in the overhead
of their iterations than an even load saves."""

MAX_SHARD_SIZE = 1 << 14
"""Maximum number of problems per shard of a worker. It bounds the memory of a worker: noise drawn ahead takes 8 kB per
problem."""

FOLDER_SUFFIX = ".shards"
"""The checkpoints of the shards are in a folder with the name of the checkpoint and this suffix."""

FILE_NAME = re.compile(r"(\d+)-of-(\d+)\.npz")
"""Name of a shard's checkpoint."""

ADVICE = "Move it away to start anew."

PER_PROBLEM = (*LIBRARY_ARRAYS, "nit", "nfev", "njev", "nrejected", "status", "success")
"""Entries of a Result with one row per problem."""

Move: TypeAlias = Callable[[Any, Any], Any]
"""Returns a copy of arrays and functions on a device."""

Solve: TypeAlias = Callable[["Task", threading.Event | None], tuple[Run, Result]]
"""Runs a task. If the event is set by another thread, the run ends as after Ctrl-C."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A call of `minimize`: the arguments of the run, and how to call the user's functions."""

    arguments: Arguments
    traits: ObjectiveTraits
    fun: Any
    grad: Any
    args: tuple[Any, ...]
    vectorized: bool
    compiled: bool | None
    tf32: bool


class ShardItem(NamedTuple):
    """Arguments of one shard that differ from those of the batch."""

    x0: Any
    data: Any
    seed: int | list[int]
    method: str | Method
    checkpoint: Checkpoint | None
    shard: ShardOf

    def __str__(self) -> str:
        first = self.shard.first
        return f"problems {first} to {first + len(self.x0) - 1}"


class ShardResult(NamedTuple):
    """Result of one shard in NumPy arrays, and what it does not hold."""

    result: Result
    t1: NDArray[Any]
    """(n,) first radii of its n problems."""
    floor: NDArray[Any]
    """(n,) smallest t allowed."""
    ended: Arrays
    """(n, ...) last entries of each column of the history, for problems that are `closed`."""
    closed: NDArray[np.bool_]
    stride: int
    """Distance between two rows of the history."""
    remark: str


class ShardCall:
    """Runs shards. It is an object so that it can be pickled. A copy in another process cannot be stopped."""

    def __init__(self, solve: Solve, task: Task, stop: threading.Event | None = None) -> None:
        self.solve, self.task, self.stop = solve, task, stop

    def __reduce__(self) -> Any:
        return unpickle_call, (__version__, ShardCall, self.solve, self.task)

    def __call__(self, item: Any) -> ShardResult:
        arguments = dataclasses.replace(self.task.arguments, **item._asdict())
        try:
            run, result = self.solve(dataclasses.replace(self.task, arguments=arguments), self.stop)
        except Exception as error:
            error.add_note(f"slgh: raised in the shard of the {item}.")
            raise
        config, history = run.config, run.recorder.history
        for name in LIBRARY_ARRAYS:
            result[name] = config.backend.host(result[name])
        if "watched" in result:
            result["watched"] = {name: config.backend.host(leaf) for name, leaf in result.watched.items()}
        return ShardResult(
            result=result,
            t1=config.t1,
            floor=run.state.full.floor,
            ended=history.ended,
            closed=history.closed,
            stride=history.stride,
            remark=run.loop_remark,
        )

    def on(self, device: Any, move: Move) -> ShardCall:
        """Return the call with the user's functions on this device."""
        task = self.task
        moved = {name: move(getattr(task, name), device) for name in ("fun", "grad", "args")}
        return ShardCall(self.solve, dataclasses.replace(task, **moved), self.stop)


SHARDS = Unit(
    plural="problems",
    name=lambda item: f"ran the {item}",
    advice="Make `fun` survive their points, or return NaN there.",
    again="run again, from their checkpoint if there is one",
    chunked=False,
)


class Ranks:
    """Processes of torch.distributed. Each runs some of the shards, and all of them get all results."""

    def __init__(self, distributed: Any, group: Any) -> None:
        if not (distributed.is_available() and distributed.is_initialized()):
            raise ArgumentValueError(
                "`workers=torch.distributed` needs a process group: call torch.distributed.init_process_group() first, "
                "and start the script with torchrun."
            )
        self._distributed, self._group = distributed, group
        self.rank: int = distributed.get_rank(group)
        self.size: int = distributed.get_world_size(group)

    def gather(self, value: Any) -> list[Any]:
        """Return the values of all ranks. Every rank must call it."""
        found: list[Any] = [None] * self.size
        self._distributed.all_gather_object(found, value, group=self._group)
        return found

    def mapper(self, call: Any, items: Sequence[Any]) -> Found:
        """Run the shards of this rank, and yield the results of all ranks. If one fails, all raise its exception."""
        own: dict[int, ShardResult] = {}
        failure: Exception | None = None
        try:
            for k in range(self.rank, len(items), self.size):
                own[k] = call(items[k])
                if (own[k].result.status == Status.INTERRUPTED).any() and call.stop is not None:
                    call.stop.set()
        except Exception as error:
            failure = _picklable(error)  # otherwise the other ranks would wait forever
        gathered = self.gather((own, failure))
        for rank, (_, raised) in enumerate(gathered):
            if raised is not None:
                raised.add_note(f"slgh: raised on rank {rank}.")
                raise raised
        for found, _ in gathered:
            yield from found.items()


def _picklable(error: Exception) -> Exception:
    """Return the exception or, if it cannot be sent to other processes, one with its text."""
    try:
        pickle.dumps(error)
        copy.copy(error)  # creates it as unpickling does, which fails for some classes
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def read_ranks(workers: Any) -> Ranks | None:
    """Return the processes of torch.distributed, if `workers` is this module or one of its groups."""
    if isinstance(workers, ModuleType) and workers.__name__ == "torch.distributed":
        return Ranks(workers, None)
    names = {base.__qualname__ for base in type(workers).__mro__ if base.__module__.startswith("torch.")}
    return Ranks(sys.modules["torch.distributed"], workers) if "ProcessGroup" in names else None


def _on_devices(devices: Sequence[Any], move: Move) -> Mapper:
    """Return a Mapper with one thread per device. Shard k runs on device k, modulo their number."""

    def mapper(call: Any, items: Sequence[Any]) -> Found:
        def run_all(n: int) -> dict[int, ShardResult]:
            device, found = devices[n], dict[int, ShardResult]()
            try:
                here = call.on(device, move)
                for k in range(n, len(items), len(devices)):
                    item = items[k]
                    found[k] = here(item._replace(x0=move(item.x0, device), data=move(item.data, device)))
            except BaseException:
                call.stop.set()  # the others need not go on
                raise
            return found

        interrupted = False
        with ThreadPoolExecutor(len(devices), "slgh device") as threads:
            futures = [threads.submit(run_all, n) for n in range(len(devices))]
            try:
                wait(futures)
            except KeyboardInterrupt:
                call.stop.set()
                interrupted = True
        for future in futures:
            yield from future.result().items()
        if interrupted:
            raise KeyboardInterrupt

    return mapper


class Division(NamedTuple):
    """Division of a batch into shards, and the workers that run them."""

    shards: int
    """Number of shards."""
    workers: Any
    ranks: Ranks | None
    devices: Sequence[Any]
    folder: Path | None
    """Folder of the shards' checkpoints, None without checkpoints."""

    @contextmanager
    def open(self, call: ShardCall, backend: Backend, retries: int) -> Generator[Workers]:
        """Yield the workers that run the shards."""
        if self.ranks is not None:
            yield Workers([self.ranks.mapper], self.ranks.size)
        elif self.devices:
            yield Workers([_on_devices(self.devices, backend.move)], len(self.devices))
        else:
            workers = self.workers if is_parallel(self.workers) else map
            with open_workers(workers, [call], fork=backend.forks, retries=retries, unit=SHARDS) as opened:
                yield opened


def divide(arguments: Arguments, workers: Any, devices: Sequence[Any]) -> Division | None:
    """Return how the problems are divided, or None if they run together in this process."""
    ranks = read_ranks(workers)
    spread = ranks is not None or bool(devices)
    argument = "device" if devices else "workers=torch.distributed"
    if spread and not arguments.batched:
        raise ArgumentValueError(f"`{argument}` divides the problems of a batch: pass batched=True.")
    if devices and is_parallel(workers):
        raise ArgumentValueError("`device` and `workers` exclude each other: leave one of them out.")
    if not arguments.batched:
        return None
    together = arguments.callback is not None or (arguments.limits["max_seconds"] is not None and not spread)
    if spread and together:
        raise ArgumentValueError(f"`callback` needs all problems in one run: leave out `callback` or `{argument}`.")
    B = max(1, len(arguments.x0)) if np.ndim(arguments.x0) else 1  # a wrong shape is refused later
    folder, stored, whole = None, None, False
    if arguments.checkpoint is not None:
        path = resolve(read_settings(arguments.checkpoint).path)
        folder, whole = path.with_name(path.name + FOLDER_SUFFIX), path.exists()
        stored = _stored_count(folder)
    if ranks is not None:
        stored, whole = ranks.gather((stored, whole))[0]
    if whole:
        if spread:
            raise ArgumentValueError(
                f"`checkpoint` holds a run that is not divided, which `{argument}` cannot continue: leave it out, or "
                "pass another file."
            )
        return None
    if stored is not None and together:
        raise ArgumentValueError(
            f"`checkpoint` has a folder {str(folder)!r} of a run in shards, which `callback` and `max_seconds` do not "
            f"allow: leave them out. {ADVICE}"
        )
    if stored is not None:
        count = stored
    elif spread:
        count = min(B, len(devices) if ranks is None else ranks.size)
    elif not is_parallel(workers) or together:
        return None
    else:
        size = size_of(workers) or os.cpu_count() or 1
        if MIN_PROBLEMS_PER_WORKER * size > B:
            return None
        count = max(size, min(SHARDS_PER_WORKER * size, B // GOOD_SHARD_SIZE), -(-B // MAX_SHARD_SIZE))
    return Division(count, workers, ranks, devices, folder)


def _stored_count(folder: Path) -> int | None:
    """Return the number of shards whose checkpoints are in the folder, or None if there are none."""
    counts = {int(match[2]) for path in _listed(folder) if (match := FILE_NAME.fullmatch(path.name))}
    if len(counts) > 1:
        raise ArgumentValueError(
            f"`checkpoint` has a folder {str(folder)!r} with checkpoints of {' and '.join(map(str, sorted(counts)))} "
            f"shards. {ADVICE}"
        )
    return counts.pop() if counts else None


def _listed(folder: Path) -> list[Path]:
    """Return the checkpoints in the folder."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if FILE_NAME.fullmatch(path.name))


def stored_files(checkpoint: str | os.PathLike[str]) -> list[Path]:
    """Return the files of a checkpoint: the file itself, or those of the shards of the run."""
    path = resolve(checkpoint)
    return [path] if path.exists() else _listed(path.with_name(path.name + FOLDER_SUFFIX))


def saved_seed(division: Division, given: Any) -> int | None:
    """Return the seed of the run that the folder holds, if the user gives none."""
    found: int | None = None
    if given is None and division.folder is not None and (files := _listed(division.folder)):
        content = read(files[0])
        assert content is not None
        with refuse_damaged(files[0]):
            seed = read_meta(content[0]).seed
        if isinstance(seed, list):
            raise ArgumentValueError("`seed` must be the list of seeds that the run in `checkpoint` has; got None.")
        found = seed
    return found


def run_shards(solve: Solve, task: Task, config: RunConfig, division: Division, *, retries: int = 0) -> Result:
    """Run the shards, and return their results as those of one run. `config` is that of the whole batch."""
    checks.count("retries", retries, 0)
    begun, stop, backend, ranks = time.monotonic(), threading.Event(), config.backend, division.ranks
    if ranks is not None:
        config = _agreed(config, ranks)
    items = _items(task.arguments, config, division)
    shared = {"x0": None, "data": None, "progress": False, "history": _history(task.arguments.history, len(config.x0))}
    call = ShardCall(solve, dataclasses.replace(task, arguments=dataclasses.replace(task.arguments, **shared)), stop)
    bar = None
    if task.arguments.progress and (ranks is None or ranks.rank == 0):
        bar = ProgressBar(len(config.x0))
        bar.open()
    found: dict[int, ShardResult] = {}
    differences = config.step.method.oracle.asks == "values" and not task.tf32
    remark = ""
    # All threads of a division over devices share the settings of the session.
    with ExitStack() as stack:
        interrupts = stack.enter_context(Interrupts())
        stack.enter_context(backend.session(differences=differences))
        if bar is not None:
            stack.callback(bar.stop)
        try:
            interrupts.enter_user_code()
            with division.open(call, backend, retries) as opened:
                with closing(opened.mappers[0](call, items)) as results:
                    for k, result in results:
                        found[k] = result
                        if bar is not None:
                            _show(bar, found)
                remark = opened.remark
            interrupts.leave_user_code()
        except KeyboardInterrupt:
            interrupts.clear()
            stop.set()
            if interrupts.nested:
                raise
        except Exception as error:
            if division.folder is not None:
                error.add_note(f"slgh: the shards so far are saved in {str(division.folder)!r}.")
            raise
    # After Ctrl-C, shards without a result end where they began, or at their last checkpoint.
    found |= {k: call(items[k]) for k in range(len(items)) if k not in found}
    return merge(config, [found[k] for k in range(len(items))], remark, time.monotonic() - begun)


def _agreed(config: RunConfig, ranks: Ranks) -> RunConfig:
    """Return the config with the seed of rank 0. Raise unless all ranks run the same problem."""
    seed = ranks.gather(config.seed)[0]
    identity = config.identity | {"seed": seed}
    for rank, other in enumerate(ranks.gather(identity)):
        for name, value in identity.items():
            if other[name] != value:
                raise ArgumentValueError(
                    f"`workers=torch.distributed` needs the same arguments on all ranks, but the {name} of rank {rank} "
                    f"is not that of rank {ranks.rank}. Pass the same x0, data, bounds and method everywhere."
                )
    return dataclasses.replace(config, seed=seed, identity=identity)


def _history(keep: Any, B: int) -> Any:
    """Return the maximum number of rows of a shard's history, so that it has the rows of the batch."""
    limit = History(keep, B).limit
    return keep if math.isinf(limit) else int(limit)


def _items(arguments: Arguments, config: RunConfig, division: Division) -> list[ShardItem]:
    """Return the arguments of the shards."""
    B, backend = len(config.x0), config.backend
    if division.folder is not None:
        try:
            division.folder.mkdir(exist_ok=True)
        except OSError as error:
            raise ArgumentFileError(
                f"`checkpoint` must be where a folder can be made for the shards, {str(division.folder)!r}: "
                f"{error.strerror or error}. Pass another path."
            ) from error
    items = []
    for k in range(division.shards):
        rows = slice(B * k // division.shards, B * (k + 1) // division.shards)
        method = arguments.method
        if isinstance(method, Method) and isinstance(method.oracle, PerProblem):
            method = dataclasses.replace(method, oracle=method.oracle.of_problems(rows))
        checkpoint = None
        if division.folder is not None:
            path = division.folder / f"{k}-of-{division.shards}.npz"
            checkpoint = dataclasses.replace(read_settings(arguments.checkpoint), path=path)
        items.append(
            ShardItem(
                # Copies: to pickle a view of a tensor is to pickle all of it.
                x0=backend.to_library(config.x0[rows]),
                data=tuple(backend.data(a[rows]) for a in config.data) or None,
                seed=config.seed[rows] if isinstance(config.seed, list) else config.seed,
                method=method,
                checkpoint=checkpoint,
                shard=ShardOf(rows.start, B, config.mean_t1),
            )
        )
    return items


def _show(bar: ProgressBar, found: dict[int, ShardResult]) -> None:
    """Show the number of problems that have ended."""
    ended = sum(len(one.t1) for one in found.values())
    best = min(float(np.nanmin(one.result.fun_best, initial=np.inf)) for one in found.values())
    bar.say(f"best {best:.6g}", ended)


def merge(config: RunConfig, shards: Sequence[ShardResult], remark: str, seconds: float) -> Result:
    """Return the result of the batch from those of its shards, in their order."""
    results, to_library = [one.result for one in shards], config.backend.to_library
    found: dict[str, Any] = {name: np.concatenate([result[name] for result in results]) for name in PER_PROBLEM}
    remarks = dict.fromkeys([config.remark, *(one.remark for one in shards), remark])
    story = Story(
        method=results[0].method,
        t1=np.concatenate([one.t1 for one in shards]),
        t=found["t"],
        floor=np.concatenate([one.floor for one in shards]),
        auto="",
        homotopies=1,
        remarks=tuple(remarks),
    )
    message = message_of(found["status"], story)
    found |= {name: to_library(found[name]) for name in LIBRARY_ARRAYS}
    if "watched" in results[0]:
        names = results[0].watched
        found["watched"] = {name: to_library(np.concatenate([r.watched[name] for r in results])) for name in names}
    return Result(
        **found,
        message=message,
        ncached=0,
        chosen=story.chosen,
        history=merge_histories(shards),
        minima=minima_of(config, None),
        phases=(),
        method=results[0].method,
        engine=results[0].engine,
        seed=config.seed,
        seconds=seconds,
    )


def merge_histories(shards: Sequence[ShardResult]) -> Arrays:
    """Return the history of the batch.

    The longest shard has the rows of the batch. In the others, problems that have ended repeat their last entries.
    """
    histories, stride = [one.result.history for one in shards], max(one.stride for one in shards)
    kept = [history["iteration"] % stride == 0 for history in histories]
    longest = int(np.argmax([rows.sum() for rows in kept]))
    merged = {name: histories[longest][name][kept[longest]] for name in ("iteration", "nfev")}
    R = len(merged["iteration"])
    for name in histories[longest]:
        if name not in merged:
            columns = (_lengthened(one, name, rows, R) for one, rows in zip(shards, kept, strict=True))
            merged[name] = np.concatenate(list(columns), axis=1)
    return merged


def _lengthened(shard: ShardResult, name: str, kept: NDArray[np.bool_], R: int) -> NDArray[Any]:
    """Return a column of a shard (R, n, ...), whose last rows repeat the last entries of its problems."""
    column: NDArray[Any] = shard.result.history[name][kept]
    if len(column) == R:
        return column
    last = column[-1] if len(column) else np.full((len(shard.t1), *column.shape[2:]), np.nan, column.dtype)
    if name in shard.ended:
        closed = shard.closed.reshape(-1, *(1 for _ in last.shape[1:]))
        last = np.where(closed, shard.ended[name], last)
    return np.concatenate([column, np.broadcast_to(last, (R - len(column), *last.shape))])
