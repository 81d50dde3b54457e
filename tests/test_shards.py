"""A batch in shards has the result of one run, bit for bit: on workers, on devices, and on ranks of PyTorch."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import slgh
from cases import CASES, WATCHED_STARTS, Case, Entered, assert_same, every_method, starts, watched_bowl
from shard_cases import TESTS, die_always, die_once, fail, python_path, run, start
from slgh.attack import attack
from slgh.engine import shards

SMALL = {"max_evals": 100}


def assert_equal(found: slgh.Result, expected: slgh.Result) -> None:
    """Assert that two results have the same entries, in the same order, with the same bits and types."""
    assert list(found) == list(expected)
    assert_same(found, expected)
    assert found.message == expected.message
    for name, value in expected.items():
        assert getattr(found[name], "dtype", None) == getattr(value, "dtype", None), name


@pytest.fixture
def shard_sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of the shards that have been run in this process."""
    sizes: list[int] = []
    before = shards.ShardCall.__call__

    def call(self: Any, item: Any) -> Any:
        sizes.append(len(item.x0))
        return before(self, item)

    monkeypatch.setattr(shards.ShardCall, "__call__", call)
    return sizes


# The results.


@every_method
def test_every_method_gives_the_same_in_shards(case: Case, shard_sizes: list[int]) -> None:
    with ThreadPoolExecutor(2) as threads:
        found = case.run(starts(9), batched=True, workers=threads, history="x")
    assert sorted(shard_sizes) == [4, 5]
    assert_equal(found, case.run(starts(9), batched=True, history="x"))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"target": -0.5},
        {"target": -0.5, "history": "full"},
        {"target": -0.5, "history": 9},
        {"target": -0.5, "batch_size": 7},
        {"target": -0.5, "batch_size": 30, "history": "full"},
        {"history": 0},
        {"t_end": 1e-3},
        {"seed": list(range(40))},
        {"bounds": [(-3, 3)] * 4},
        {"max_evals": None, "max_iter": 0},
        {"max_evals": 1},
        {"on_nonfinite": "penalize"},
        {"progress": True},
    ],
    ids=str,
)
def test_every_argument_means_the_same_in_shards(options: dict[str, Any], shard_sizes: list[int]) -> None:
    with ThreadPoolExecutor(3) as threads:
        found = run(threads, **options)
    assert sorted(shard_sizes) == [13, 13, 14]
    assert_equal(found, run(None, **options))


def test_bad_values_end_problems_as_in_one_run() -> None:
    def holes(x: Any) -> Any:
        values = (x**2).sum(-1)
        return np.where(x[..., 0] < -1, np.nan, values)

    with ThreadPoolExecutor(2) as threads:
        found = run(threads, holes)
    assert len(set(found.status)) > 1
    assert_equal(found, run(None, holes))


def test_data_and_a_watch_go_with_their_problem() -> None:
    x0 = np.concatenate([WATCHED_STARTS, WATCHED_STARTS + 0.3, WATCHED_STARTS - 0.2])

    def moved(x: Any, a: Any) -> Any:
        return watched_bowl(x - a[..., None])

    options: dict[str, Any] = {
        "method": "zoslgh_r", "t1": 0.3, "gamma": 0.97, "step": 0.05, "samples": 6, "max_iter": 60, "seed": 3,
        "vectorized": True, "batched": True, "data": np.linspace(0, 1, 9), "history": "full",
        "watch": Entered(radius=1.5, ends=True),
    }  # fmt: skip
    whole = slgh.minimize(moved, x0, **options)
    with ThreadPoolExecutor(2) as threads:
        found = slgh.minimize(moved, x0, workers=threads, **options)
    assert len(set(whole.nit)) > 1, "the problems end at different times"
    assert_equal(found, whole)
    for name, leaf in whole.watched.items():
        np.testing.assert_array_equal(found.watched[name], leaf)


def test_a_history_is_thinned_as_that_of_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slgh.engine.history.MAX_COLUMN_NUMBERS", 1200)
    found = run(map, target=-0.5)
    assert 10 < len(found.history["iteration"]) < 30, "40 problems may have 30 rows, those of a shard more"
    assert_equal(found, run(None, target=-0.5))


def test_functions_of_a_point_closed_forms_and_gradients_run_in_shards(shard_sizes: list[int]) -> None:
    formula, case = slgh.smooth("x**4 - 3*x**2 + x"), CASES["slgh_r"]
    with ThreadPoolExecutor(2) as threads:
        found = run(threads, formula, starts(9)[:, :1])
        assert_equal(found, run(None, formula, starts(9)[:, :1]))
        found = case.run(starts(9), batched=True, workers=threads)
        assert_equal(found, case.run(starts(9), batched=True))
    point = lambda x: float((x**2).sum())  # noqa: E731
    assert_equal(run(map, point, vectorized=False, **SMALL), run(None, point, vectorized=False, **SMALL))
    assert len(shard_sizes) >= 5


# The number of shards.


@pytest.mark.parametrize(
    ("B", "workers", "count"),
    [(7, 2, None), (8, 2, 2), (40, 2, 2), (128, 2, 2), (200, 2, 3), (10**4, 2, 8), (10**6, 2, 62), (10**6, 64, 256)],
)
def test_the_number_of_shards(B: int, workers: int, count: int | None) -> None:
    arguments: Any = slgh.minimize.__globals__["Arguments"](
        x0=np.zeros((B, 1)), method="auto", sample_xi=None, bounds=None, batched=True, limits={"max_seconds": None},
        seed=0, callback=None, progress=False, history=0, on_nonfinite="reject", checkpoint=None, params={},
    )  # fmt: skip
    division = shards.divide(arguments, workers, ())
    assert (None if division is None else division.shards) == count


def test_few_problems_callbacks_and_time_limits_divide_the_points(shard_sizes: list[int]) -> None:
    calls: list[int] = []
    with ThreadPoolExecutor(2) as threads:
        assert_equal(run(threads, x0=starts(7)), run(None, x0=starts(7)))
        assert_equal(run(threads, callback=lambda r: calls.append(r.nit)), run(None))
        assert_equal(run(threads, max_seconds=100.0), run(None))
    assert len(calls) > 10
    assert not shard_sizes


# Workers.


@pytest.mark.parametrize("workers", [2, -1, map])
def test_processes_and_map(workers: Any) -> None:
    assert_equal(run(workers), run(None))


@pytest.mark.slow
def test_executors_loky_and_joblib() -> None:
    expected = run(None)
    with ProcessPoolExecutor(2) as processes:
        assert_equal(run(processes), expected)
    loky = pytest.importorskip("loky", reason="needs loky")
    assert_equal(run(loky.get_reusable_executor(2)), expected)
    joblib = pytest.importorskip("joblib", reason="needs joblib")
    assert_equal(run(joblib.Parallel(n_jobs=2)), expected)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_dask() -> None:
    distributed = pytest.importorskip("distributed", reason="needs the extra dask")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50) as cluster,
        distributed.Client(cluster) as client,
    ):
        assert_equal(run(client), run(None))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_ray() -> None:
    ray = pytest.importorskip("ray", reason="needs the extra ray")
    options: dict[str, Any] = {"include_dashboard": False, "log_to_driver": False, "logging_level": "error"}
    ray.init(num_cpus=2, runtime_env={"env_vars": {"PYTHONPATH": python_path()}}, **options)
    try:
        assert_equal(run(ray), run(None))
    finally:
        ray.shutdown()


@pytest.mark.slow
def test_mpi(tmp_path: Path) -> None:
    pytest.importorskip("mpi4py", reason="needs the extra mpi")
    if shutil.which("mpirun") is None:
        pytest.skip("needs mpirun")
    (tmp_path / "script.py").write_text(
        "from mpi4py.futures import MPIPoolExecutor\n"
        "from cases import assert_same\n"
        "from shard_cases import run\n"
        "if __name__ == '__main__':\n"
        "    with MPIPoolExecutor() as executor:\n"
        "        assert_same(run(executor), run(None))\n"
        "    print('equal')\n"
    )
    mpirun = ["mpirun", "-n", "3", "--allow-run-as-root", "--oversubscribe"]
    assert start(*mpirun, sys.executable, "-m", "mpi4py.futures", "script.py", cwd=tmp_path) == "equal\n"


# Failures and checkpoints.


@pytest.mark.parametrize("saved", [False, True])
def test_the_shard_of_a_worker_that_died_is_run_again(saved: bool, tmp_path: Path) -> None:
    checkpoint = slgh.Checkpoint(path=tmp_path / "run.npz", every_iterations=5) if saved else None
    found = run(2, die_once, args=(str(tmp_path),), checkpoint=checkpoint)
    assert (tmp_path / "dead").exists()
    assert_same(found, run(None))
    assert "A worker died once, and its problems were run again" in found.message


@pytest.mark.parametrize("workers", [None, 1, 3])
def test_a_run_is_continued_with_another_number_of_workers(workers: int | None, tmp_path: Path) -> None:
    checkpoint = slgh.Checkpoint(path=tmp_path / "run.npz", every_iterations=5)
    with pytest.raises(BrokenExecutor, match=r"ran the problems \d+ to \d+\. Make `fun` survive") as caught:
        run(2, die_always, args=(str(tmp_path),), checkpoint=checkpoint, retries=1)
    assert "saved in" in str(caught.value.__notes__)
    files = sorted((tmp_path / "run.npz.shards").glob("*.npz"))  # a worker may be killed while it writes another
    assert [file.name for file in files] == ["0-of-2.npz", "1-of-2.npz"]
    assert all(np.load(file)["a.status"].size == 20 for file in files)
    calls: list[int] = []

    def counted(x: Any, folder: str) -> Any:
        calls.append(1)
        return shards_fun(x)

    if workers in (None, 1):
        found = run(workers, counted, args=(str(tmp_path),), checkpoint=checkpoint, seed=None)
        assert 0 < len(calls) < 2 * 250, "iterations before the checkpoint are not repeated"
    else:
        found = run(workers, checkpoint=checkpoint, seed=None)
    assert_same(found, run(None))
    assert found.seed == 3, "the seed is that of the checkpoint"


def shards_fun(x: Any) -> Any:
    """The function of the other runs."""
    from cases import fun

    return fun(x)


def test_a_finished_run_in_shards_is_extended(tmp_path: Path) -> None:
    file, case = tmp_path / "run.npz", CASES["zoslgh_r"]
    case.run(starts(9), batched=True, max_iter=20, workers=2, checkpoint=file)
    found = case.run(starts(9), batched=True, max_iter=40, workers=2, checkpoint=file)
    np.testing.assert_array_equal(found.x, case.run(starts(9), batched=True, max_iter=40).x)


def test_a_checkpoint_in_one_piece_stays_in_one_piece(tmp_path: Path) -> None:
    file, case = tmp_path / "run.npz", CASES["zoslgh_r"]
    case.run(starts(9), batched=True, max_iter=20, checkpoint=file)
    found = case.run(starts(9), batched=True, max_iter=40, workers=2, checkpoint=file)
    np.testing.assert_array_equal(found.x, case.run(starts(9), batched=True, max_iter=40).x)
    assert not (tmp_path / "run.npz.shards").exists()


@pytest.mark.parametrize(
    ("options", "fragment"),
    [
        ({"callback": print}, "which `callback` and `max_seconds` do not allow: leave them out"),
        ({"max_seconds": 1.0}, "which `callback` and `max_seconds` do not allow: leave them out"),
        ({"seed": 4}, "belongs to another run: its seed is 3, here it is 4"),
        ({"x0": starts(39)}, "belongs to another run: its x0 is"),
        ({"max_evals": 200}, "belongs to another run: its number of iterations"),
    ],
)
def test_shards_of_another_run_are_refused(options: dict[str, Any], fragment: str, tmp_path: Path) -> None:
    file = tmp_path / "run.npz"
    run(map, checkpoint=file, **SMALL)
    with pytest.raises(ValueError, match=fragment):
        run(map, checkpoint=file, **{**SMALL, **options})


def test_shards_of_two_divisions_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "run.npz"
    run(2, checkpoint=file, **SMALL)
    (tmp_path / "run.npz.shards" / "0-of-2.npz").rename(tmp_path / "run.npz.shards" / "0-of-3.npz")
    with pytest.raises(ValueError, match="with checkpoints of 2 and 3 shards"):
        run(2, checkpoint=file, **SMALL)


def test_a_list_of_seeds_must_be_given_again(tmp_path: Path) -> None:
    seeds, file = list(range(40)), tmp_path / "run.npz"
    found = run(map, checkpoint=file, **SMALL | {"seed": seeds})
    with pytest.raises(ValueError, match="`seed` must be the list of seeds"):
        run(map, checkpoint=file, **SMALL | {"seed": None})
    assert_same(run(map, checkpoint=file, **SMALL | {"seed": seeds}), found)


@pytest.mark.parametrize("checkpoint", [3, "missing/run.npz", "."])
def test_checkpoints_that_cannot_be_written(checkpoint: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((TypeError, ValueError, OSError), match="`checkpoint` must be"):
        run(map, checkpoint=checkpoint, **SMALL)


def test_an_exception_in_a_shard_reaches_the_caller(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError, match="in a shard") as caught:
        run(2, fail, checkpoint=tmp_path / "run.npz")
    notes = str(caught.value.__notes__)
    assert "raised in the shard of the problems" in notes
    assert "the shards so far are saved in" in notes


def test_bad_workers() -> None:
    with ThreadPoolExecutor(2) as threads:
        pass
    with pytest.raises(RuntimeError, match="after shutdown"):
        run(threads)
    with pytest.raises(ValueError, match=r"one value per item that it gets \(expected 2\); got 1"):
        run(lambda call, items: [call(item) for item in items][:1])
    with pytest.raises(TypeError, match="`workers` must return the values in the order of the items"):
        run(lambda call, items: None)
    with pytest.raises(TypeError, match="must be picklable to run in 2 processes"):
        run(2, lambda x: (x**2).sum(-1))
    with pytest.raises(TypeError, match="`workers` must be an integer, an executor"):
        run("many")
    with pytest.raises(ValueError, match="`retries` must be an integer >= 0"):
        run(2, retries=-1)


def test_after_ctrl_c_shards_that_have_ended_keep_their_results(tmp_path: Path) -> None:
    def pressed(call: Any, items: Any) -> Iterator[Any]:
        yield call(items[0])
        raise KeyboardInterrupt

    whole, file = run(None), tmp_path / "run.npz"
    found = run(pressed, checkpoint=file)
    assert (found.status[:20] == slgh.Status.COMPLETED).all()
    assert (found.status[20:] == slgh.Status.INTERRUPTED).all()
    np.testing.assert_array_equal(found.x[:20], whole.x[:20])
    np.testing.assert_array_equal(found.x[20:], starts(40)[20:])
    assert (found.nfev[20:] == 0).all()
    assert_same(run(map, checkpoint=file), whole)


# Attacks.

WEIGHTS = np.random.default_rng(0).normal(size=(30, 5))
IMAGES = np.random.default_rng(1).uniform(0.3, 0.7, (20, 5, 6))


def scores(a: Any) -> Any:
    """A linear model whose scores of an image do not depend on the others."""
    return (a.reshape(len(a), -1, 1) * WEIGHTS).sum(1)


def labels(a: Any) -> Any:
    """The classes that the model predicts."""
    return scores(a).argmax(1)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"norm": "linf"},
        {"outputs": "labels"},
        {"batch_size": 6},
        {"stop": "first success"},
        {"method": "zoslgh_r", "t1": 0.1, "gamma": 0.99, "step": 0.01, "samples": 5},
    ],
    ids=str,
)
def test_an_attack_divides_its_images(options: dict[str, Any], tmp_path: Path, shard_sizes: list[int]) -> None:
    model = labels if "outputs" in options else scores
    given: dict[str, Any] = {"max_queries": 300, "seed": 1, **options}
    whole = attack(model, IMAGES, labels(IMAGES), **given)
    with ThreadPoolExecutor(2) as threads:
        found = attack(model, IMAGES, labels(IMAGES), workers=threads, checkpoint=tmp_path / "run.npz", **given)
    assert sorted(shard_sizes) == [10, 10]
    again = attack(model, IMAGES, labels(IMAGES), checkpoint=tmp_path / "run.npz", **{**given, "batch_size": None})
    for one in (found, again):
        np.testing.assert_array_equal(one.images, whole.images)
        np.testing.assert_array_equal(one.queries, whole.queries)
        for name, column in whole.history.items():
            np.testing.assert_array_equal(one.history[name], column, err_msg=name)
    assert found.message == whole.message


@pytest.mark.slow
def test_the_command_attack_has_workers(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "slgh", "attack", "--data", "mnist", "--images", "8", "--max-queries", "200"]
    alone = start(*command, "--seed", "3", "--quiet", cwd=tmp_path).split()
    options = ["--quiet", "--workers", "2", "--run", "run.npz"]
    found = start(*command, "--seed", "3", *options, cwd=tmp_path)
    np.testing.assert_allclose([float(n) for n in found.split()], [float(n) for n in alone], rtol=1e-3)
    assert start(*command, *options, cwd=tmp_path) == found, "the seed is that of the checkpoint"


# Devices of PyTorch and JAX.


@pytest.mark.slow
def test_devices_of_pytorch(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    x0, devices = torch.tensor(starts(9)), ["cpu", torch.device("cpu")]
    for options in ({}, {"data": torch.linspace(0, 1, 9)}, {"max_seconds": 100.0}):
        function = shifted if "data" in options else shards_fun
        found = run(None, function, x0, device=devices, **options)
        assert_equal(found, run(None, function, x0, **options))
    file = tmp_path / "run.npz"
    run(None, shards_fun, x0, device=devices, checkpoint=file)
    assert len(list((tmp_path / "run.npz.shards").iterdir())) == 2
    assert_same(run(None, shards_fun, x0, checkpoint=file), run(None, shards_fun, x0))
    with pytest.raises(ZeroDivisionError, match="in a shard"):
        run(None, fail, x0, device=devices)


def shifted(x: Any, a: Any) -> Any:
    """A function with data."""
    return ((x - a[..., None]) ** 2).sum(-1)


@pytest.mark.slow
def test_modules_tensors_and_dataclasses_are_copied_to_a_device() -> None:
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    import functools

    from slgh.attack.model import QueriedModel
    from slgh.backends import backend_of

    move, module = backend_of(torch.zeros(1)).move, torch.nn.Linear(2, 1)
    queried = QueriedModel(model=module, shape=(2,), low=0.0, high=1.0, outputs="logits", model_batch_size=None)
    moved = move((queried, functools.partial(print, torch.zeros(1)), 3, print), "meta")
    assert moved[0].model.weight.device.type == moved[1].args[0].device.type == "meta"
    assert module.weight.device.type == "cpu", "the user's module stays where it is"
    assert moved[2:] == (3, print)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "error", "fragment"),
    [
        ({"device": "cuda:0"}, TypeError, "must be a list of PyTorch devices, got 'cuda:0'. For one device, put x0"),
        ({"device": []}, TypeError, "must be a list of PyTorch devices"),
        ({"device": ["nowhere"]}, ValueError, "must be a list of PyTorch devices, got .'nowhere'."),
        ({"device": ["cuda:0"]}, ValueError, "must name devices of x0's kind"),
        ({"device": ["cpu"], "workers": 2}, ValueError, "`device` and `workers` exclude each other"),
        ({"device": ["cpu"], "callback": print}, ValueError, "leave out `callback` or `device`"),
        ({"device": ["cpu"], "batched": False}, ValueError, "`device` divides the problems of a batch"),
    ],
)
def test_bad_devices(options: dict[str, Any], error: type[Exception], fragment: str) -> None:
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    with pytest.raises(error, match=fragment):
        run(**{"workers": None, "x0": torch.tensor(starts(9)), **options})


def test_devices_are_for_pytorch() -> None:
    with pytest.raises(TypeError, match="`device` is for PyTorch, and x0 is an array of numpy: use `workers`"):
        run(None, device=["cpu"])


@pytest.mark.slow
def test_torchrun(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    with pytest.raises(ValueError, match=r"needs a process group: call torch\.distributed"):
        run(torch.distributed)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    printed = start(*command, str(TESTS / "rank_case.py"), str(tmp_path), cwd=tmp_path, OMP_NUM_THREADS="1")
    assert all(f"rank {rank} is done" in printed for rank in (0, 1))


@pytest.mark.slow
def test_a_sharded_batch_of_jax_stays_sharded(tmp_path: Path) -> None:
    pytest.importorskip("jax", reason="needs JAX")
    flags = "--xla_force_host_platform_device_count=8"
    printed = start(sys.executable, str(TESTS / "mesh_case.py"), cwd=tmp_path, XLA_FLAGS=flags, JAX_ENABLE_X64="1")
    assert printed == "8 devices\n"
