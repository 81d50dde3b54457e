"""Dask, Ray, MPI, joblib and executors evaluate points with the same result as this process. The engines are real."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import slgh
from cases import assert_same
from cluster_cases import (
    SHARED,
    alone,
    assert_shared,
    die_always,
    die_and_count,
    die_once,
    fail,
    fail_then_die,
    run,
    waves,
    waves_one_by_one,
    work,
)

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # the libraries warn of many things

TESTS = Path(__file__).parent
IMPORTS = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))
MPIRUN = ["mpirun", "-n", "3", "--allow-run-as-root", "--oversubscribe"]


def start(*command: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command that can import the tests."""
    environment = {**os.environ, "PYTHONPATH": IMPORTS}
    return subprocess.run(command, env=environment, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)


def assert_evaluates(workers: Any) -> None:
    """Check that points and chunks of points are evaluated, with the bits of this process."""
    assert_same(run(workers), alone(workers))
    assert_same(run(workers, parallel=1), run(None))
    assert_same(run(workers, waves, vectorized=True), alone(workers, waves, vectorized=True))


def assert_survives(workers: Any, folder: Path) -> slgh.Result:
    """Check that a run survives the death of a worker. Return its result."""
    found = run(workers, die_once, args=(str(folder),))
    assert (folder / "dead").exists()
    np.testing.assert_array_equal(found.x, alone(workers).x)
    return found


@pytest.fixture
def dask() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed", reason="needs the extra dask")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def test_dask(dask: Any, tmp_path: Path) -> None:
    assert_evaluates(dask)
    assert_same(run(dask.get_executor()), alone(dask.get_executor()))
    with pytest.raises(ZeroDivisionError, match="in a worker"):
        run(dask, fail)
    assert_survives(dask, tmp_path)


def test_workers_share_an_optimizer_that_is_a_dask_actor(dask: Any) -> None:
    def work_for(opt: Any) -> list[bytes]:
        return work(lambda name, *args: getattr(opt, name)(*args).result())

    opt = dask.submit(slgh.Optimizer, np.full(4, 2.0), actor=True, **SHARED).result()
    points = dask.gather([dask.submit(work_for, opt, pure=False) for _ in range(2)])
    assert_shared(points, opt.result, opt.arrivals)


def test_ray(tmp_path: Path) -> None:
    ray = pytest.importorskip("ray", reason="needs the extra ray")
    from ray.util import ActorPool
    from ray.util.multiprocessing import Pool

    environment = {"env_vars": {"PYTHONPATH": IMPORTS}}
    options: dict[str, Any] = {"include_dashboard": False, "log_to_driver": False, "logging_level": "error"}
    ray.init(num_cpus=2, runtime_env=environment, **options)
    try:
        assert_evaluates(ray)
        with pytest.raises(ZeroDivisionError, match="in a worker"):
            run(ray, fail)
        assert_survives(ray, tmp_path)
        with pytest.raises(ray.exceptions.WorkerCrashedError):
            run(ray, die_always, args=(str(tmp_path),), retries=1)
        pool = Pool(1)
        assert_same(run(pool), alone(pool))
        pool.terminate()

        class Simulator:
            """An actor that knows nothing of slgh."""

        assert_evaluates(ActorPool([ray.remote(Simulator).remote()]))

        def work_for(opt: Any) -> list[bytes]:
            return work(lambda name, *args: ray.get(getattr(opt, name).remote(*args)))

        opt = ray.remote(slgh.Optimizer).options(num_cpus=0).remote(np.full(4, 2.0), **SHARED)
        points = ray.get([ray.remote(work_for).remote(opt) for _ in range(2)])
        assert_shared(points, *ray.get(opt.__ray_call__.remote(lambda self: (self.result, self.arrivals))))
    finally:
        ray.shutdown()


def test_mpi() -> None:
    pytest.importorskip("mpi4py", reason="needs the extra mpi")
    if shutil.which("mpirun") is None:
        pytest.skip("needs mpirun")
    done = start(*MPIRUN, sys.executable, "-m", "mpi4py.futures", str(TESTS / "mpi_case.py"))
    assert done.stdout == "workers: 2\n", done.stderr


@pytest.mark.parametrize("workers", ["2", "dask", "mpi"])
def test_the_command_line_names_workers(workers: str, tmp_path: Path) -> None:
    pytest.importorskip({"dask": "distributed", "mpi": "mpi4py"}.get(workers, "slgh"))
    if workers == "mpi" and shutil.which("mpirun") is None:
        pytest.skip("needs mpirun")
    code = "import numpy as np\n\ndef loss(x):\n    return float(np.sum(x**2 - np.cos(5 * x)))\n"
    (tmp_path / "model.py").write_text(code)
    words = ["--fun", "model.py:loss", "--x0", "2", "--d", "4", "--max-evals", "400", "--seed", "0", "--quiet"]
    command = [sys.executable, "-m", "slgh", "minimize", *words]
    parallel = str(os.cpu_count()) if workers == "dask" else "2"
    expected = start(*command, "--parallel", parallel, cwd=tmp_path).stdout
    together = start(*(MPIRUN if workers == "mpi" else []), *command, "--workers", workers, cwd=tmp_path)
    assert together.stdout == expected != "", together.stderr
    if workers == "mpi":
        command[command.index("model.py:loss")] = "model.py:none"
        failed = start(*MPIRUN, *command, "--workers", workers, cwd=tmp_path)
        assert "model.py has no function 'none'" in failed.stderr, "the other processes must not wait forever"


@pytest.mark.parametrize(
    ("workers", "fragment"),
    [("mpi", "--workers mpi needs at least two processes"), ("many", "--workers must be a number of processes, dask")],
)
def test_wrong_workers_of_the_command_line(workers: str, fragment: str) -> None:
    if workers == "mpi":
        pytest.importorskip("mpi4py", reason="needs the extra mpi")
    words = ["--fun", "math:fsum", "--x0", "1", "--max-evals", "9"]
    done = start(sys.executable, "-m", "slgh", "minimize", *words, "--workers", workers)
    assert done.returncode == 2
    assert fragment in done.stderr


@pytest.mark.parametrize("return_as", ["list", "generator", "generator_unordered"])
def test_joblib(return_as: str, tmp_path: Path) -> None:
    joblib = pytest.importorskip("joblib", reason="needs joblib")
    parallel = joblib.Parallel(n_jobs=2, return_as=return_as)
    assert_same(run(parallel), alone(parallel))
    if return_as == "list":
        assert_same(run(parallel, waves, vectorized=True), alone(parallel, waves, vectorized=True))
        found = assert_survives(parallel, tmp_path)
        assert "A worker died once, and its points were evaluated again." in found.message
        with pytest.raises(BrokenExecutor) as caught:
            run(parallel, die_always, args=(str(tmp_path),), retries=1)
        assert "a worker died. These workers" in str(caught.value.__notes__)


def test_loky(tmp_path: Path) -> None:
    loky = pytest.importorskip("loky", reason="needs loky")
    assert_evaluates(loky.get_reusable_executor(2))
    with pytest.raises(BrokenExecutor) as caught:
        run(loky.get_reusable_executor(2), die_once, args=(str(tmp_path),))
    assert "a worker died. These workers" in str(caught.value.__notes__)


def test_executors() -> None:
    with ThreadPoolExecutor(3) as threads:
        assert_evaluates(threads)
    with pytest.raises(RuntimeError, match="after shutdown"):
        run(threads)
    with ProcessPoolExecutor(2) as processes:
        assert_evaluates(processes)


def test_processes_that_die_are_replaced(tmp_path: Path) -> None:
    found = assert_survives(2, tmp_path)
    assert "A worker died once, and its points were evaluated again." in found.message
    assert found.nfev == alone(2).nfev


@pytest.mark.parametrize("workers", [2, 5])
def test_a_point_that_kills_every_worker_is_named_and_the_run_can_be_continued(workers: int, tmp_path: Path) -> None:
    file = tmp_path / "run.npz"
    with pytest.raises(BrokenExecutor, match=r"each time that it evaluated the point .*array.*Make `fun` survive") as e:
        run(workers, die_always, args=(str(tmp_path),), checkpoint=file)
    assert "saved in" in str(e.value.__notes__)
    assert_same(run(None, die_once, args=(str(tmp_path),), checkpoint=file), alone(workers))


def test_without_retries_a_death_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(BrokenExecutor) as caught:
        run(2, die_once, args=(str(tmp_path),), retries=0)
    assert "a worker process died" in str(caught.value.__notes__)


@pytest.mark.parametrize("retries", [-1, 1.5, None])
def test_wrong_retries(retries: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="`retries` must be an integer"):
        run(2, retries=retries)


def test_vectorized_functions_get_one_chunk_per_worker() -> None:
    sizes: list[int] = []

    def counted(x: Any) -> Any:
        sizes.append(len(x))
        return waves(x)

    with ThreadPoolExecutor(3) as threads:
        run(threads, counted, vectorized=True, method="zoslgh_r", samples=7, step=0.01, t1=1.0)
    assert sorted(sizes[:3]) == [2, 3, 3], "x itself and seven samples"


def test_chunks_of_a_batch_are_problems_with_their_data() -> None:
    targets = np.arange(12.0).reshape(4, 3)

    def distance(x: Any, a: Any) -> Any:
        assert x.shape[0] == a.shape[0] == 2
        return ((x - a) ** 2).sum(-1)

    def distance_alone(x: Any, a: Any) -> Any:
        return ((x - a) ** 2).sum(-1)

    options: dict[str, Any] = {"batched": True, "vectorized": True, "data": targets, "max_evals": 200, "seed": 1}
    with ThreadPoolExecutor(2) as threads:
        found = slgh.minimize(distance, np.zeros((4, 3)), workers=threads, **options)
    assert_same(found, slgh.minimize(distance_alone, np.zeros((4, 3)), **options))


def test_a_point_that_fails_before_another_kills_its_worker_ends_the_run(tmp_path: Path) -> None:
    with ProcessPoolExecutor(1) as processes, pytest.raises(ZeroDivisionError):
        run(processes, fail_then_die, method="zoslgh_r", samples=7, step=0.01, t1=1.0)


def test_a_vectorized_function_cannot_change_the_points() -> None:
    def careless(x: Any) -> Any:
        x -= 1
        return waves(x)

    with ThreadPoolExecutor(2) as threads, pytest.raises(ValueError, match="read-only"):
        run(threads, careless, vectorized=True)


@pytest.mark.parametrize("retries", [1, 2, 3])
def test_a_point_is_evaluated_again_as_often_as_retries_say(retries: int, tmp_path: Path) -> None:
    with pytest.raises(BrokenExecutor):
        run(2, die_and_count, args=(str(tmp_path),), retries=retries)
    assert len(list(tmp_path.iterdir())) == 1 + retries


def test_a_closed_form_needs_no_workers() -> None:
    with pytest.raises(ValueError, match="`workers` cannot evaluate a closed form"):
        slgh.minimize(slgh.smooth("x**2"), [3.0], workers=2)


def test_objects_that_are_no_workers_are_refused() -> None:
    with pytest.raises(TypeError, match="`workers` must be an integer, an executor, a Dask Client"):
        run(object(), waves_one_by_one)
