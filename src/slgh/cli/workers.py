"""The workers that --workers names: processes, or a cluster of Dask, Ray or MPI."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from typing import Any

from slgh import checks
from slgh.cli.errors import fail

SERVED: Any = object()
"""Yielded in an MPI worker process, after the run has ended."""


@contextmanager
def open_named(workers: int | str | None) -> Iterator[Any]:
    """Yield the workers for `slgh.minimize`, or SERVED."""
    if not isinstance(workers, str):
        yield workers
        return
    cluster, _, address = workers.partition(":")
    with _OPENERS[cluster](address) as opened:
        yield opened


@contextmanager
def _dask(address: str) -> Generator[Any]:
    """Connect to a Dask scheduler, or start a cluster on this machine."""
    distributed = _library("distributed", "dask")
    try:
        client = distributed.Client(address or None)
    except (OSError, ValueError) as error:
        fail(f"--workers: no Dask scheduler answers at {address!r} ({error}). Start one with: dask scheduler.")
    with client:
        yield client


@contextmanager
def _ray(address: str) -> Generator[Any]:
    """Connect to a Ray cluster, or start one on this machine."""
    ray = _library("ray", "ray")
    try:
        ray.init(address=address or None, include_dashboard=False if not address else None, logging_level="error")
    except (ConnectionError, ValueError) as error:
        fail(f"--workers: no Ray cluster answers at {address!r} ({error}). Start one with: ray start --head.")
    try:
        yield ray
    finally:
        ray.shutdown()


@contextmanager
def _mpi(address: str) -> Generator[Any]:
    """Yield an executor in the first process of mpirun. Let the others evaluate until the run has ended."""
    world = _library("mpi4py.MPI", "mpi").COMM_WORLD
    if world.size == 1:
        fail("--workers mpi needs at least two processes. Use mpirun -n 4 slgh minimize ... --workers mpi.")
    # Every process opens it, so that the workers are released if the first one fails.
    with import_module("mpi4py.futures").MPICommExecutor(world, root=0) as executor:
        yield SERVED if executor is None else executor


_OPENERS: dict[str, Callable[[str], AbstractContextManager[Any]]] = {"dask": _dask, "ray": _ray, "mpi": _mpi}


def _library(name: str, extra: str) -> Any:
    """Import the library of a cluster."""
    try:
        return import_module(name)
    except ImportError as error:
        raise checks.MissingLibraryError(f'`workers` needs {name}: pip install "slgh[{extra}]".') from error
