"""Results are saved and loaded without loss, and become data frames."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import slgh
from cases import CASES, fun, starts
from slgh.engine import checkpoint
from slgh.oracles import Forward
from slgh.result import Phase
from slgh.result_files import SavedMethod
from slgh.space import Boolean, Categorical, Float, Integer, Space


def same(a: Any, b: Any) -> bool:
    """True if two entries have equal types and values. NaN equals NaN."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray | np.generic):
        return a.dtype == b.dtype and a.shape == b.shape and bool(np.array_equal(a, b, equal_nan=True))
    return a == b or (isinstance(a, float) and a != a and b != b)


def saved(result: slgh.Result, folder: Path) -> slgh.Result:
    result.save(folder / "result.npz")
    return slgh.Result.load(folder / "result.npz")


def auto(**more: Any) -> slgh.Result:
    return slgh.minimize(fun, starts(1)[0], max_evals=400, seed=1, vectorized=True, **more)


def differs(a: slgh.Result, b: slgh.Result) -> list[str]:
    return [name for name in {*a, *b} if name not in a or name not in b or not same(a[name], b[name])]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("batched", [False, True])
def test_a_result_of_every_method_comes_back(name: str, batched: bool, tmp_path: Path) -> None:
    result = CASES[name].run(starts(2) if batched else starts(1)[0], batched=batched, history="x", max_iter=7)
    loaded = saved(result, tmp_path)
    assert differs(result, loaded) == []
    assert list(loaded) == list(result)
    assert repr(loaded) == repr(result)
    assert type(loaded) is slgh.Result


def test_a_run_of_auto_comes_back_with_its_phases(tmp_path: Path) -> None:
    result = auto()
    loaded = saved(result, tmp_path)
    assert differs(result, loaded) == []
    assert isinstance(loaded.status, slgh.Status)
    assert isinstance(loaded.phases[0], Phase)
    assert isinstance(loaded.method, slgh.Method)


def test_a_loaded_result_can_be_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    assert len(slgh.plot(saved(auto(), tmp_path)).axes) == 2


def test_trees_of_values_come_back(tmp_path: Path) -> None:
    space = {"rate": Float(1e-3, 1.0, log=True), "net": [Integer(1, 4), Categorical(["a", None])], "flag": Boolean()}
    result = slgh.minimize(lambda p: p["rate"] + p["net"][0], space, max_evals=40, seed=0)
    loaded = saved(result, tmp_path)
    assert differs(result, loaded) == []
    assert loaded.x.keys() == space.keys()


def test_an_object_among_the_choices_of_a_space_is_named(tmp_path: Path) -> None:
    """The error names the parameter. The relaxed solution and names instead of objects can be saved."""
    space = {"rate": Float(0.0, 1.0), "net": [Integer(1, 4), {"act": Categorical([np.tanh, np.sin])}]}
    result = slgh.minimize(lambda p: p["rate"], space, max_evals=10, seed=0)
    words = r"`net\[1\].act` of its search space must be .*, got ufunc <ufunc '(tanh|sin)'>. Use names as choices"
    with pytest.raises(TypeError, match=words):
        result.save(tmp_path / "result.npz")
    assert Space(space).decode(result.z) == result.x
    named = {"act": Categorical(["tanh", "sin"])}
    saved(slgh.minimize(lambda p: float(getattr(np, p["act"])(1.0)), named, max_evals=10, seed=0), tmp_path)


def test_the_result_of_a_run_that_has_not_ended_can_be_saved(tmp_path: Path) -> None:
    opt = slgh.Optimizer([1.0, 2.0], max_evals=100, seed=0)
    for _ in range(2):
        points = opt.ask()
        opt.tell(points, np.sum(points**2, axis=1))
    result = opt.result
    loaded = saved(result, tmp_path)
    assert differs(result, loaded) == []
    assert loaded.status is slgh.Status.RUNNING


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Own(Forward):
    """An oracle of the user's own."""

    extra: float = 1.0


def test_parts_of_the_users_own_come_back_as_text(tmp_path: Path) -> None:
    own = Own(samples=3)
    result = CASES["zoslgh_r"].run(starts(1)[0], oracle=own, max_iter=3)
    loaded = saved(result, tmp_path)
    assert isinstance(loaded.method, SavedMethod)
    assert loaded.method.oracle == repr(own)
    assert loaded.method.schedule == result.method.schedule
    assert differs(result, loaded) == ["method"]
    assert saved(loaded, tmp_path).method == loaded.method


def test_entries_of_the_users_own_come_back(tmp_path: Path) -> None:
    result = auto()
    result["note"] = {"text": "first", "numbers": [1, (2.5, None)], "flags": np.array([True])}
    assert differs(result, saved(result, tmp_path)) == []


def test_an_entry_that_no_file_can_hold_is_an_error_and_leaves_the_old_file(tmp_path: Path) -> None:
    result = auto()
    saved(result, tmp_path)
    before = (tmp_path / "result.npz").read_bytes()
    result["model"] = object()
    with pytest.raises(TypeError, match=r"its entry `model` must be .*, got object.*Remove the entry"):
        result.save(tmp_path / "result.npz")
    assert (tmp_path / "result.npz").read_bytes() == before
    assert os.listdir(tmp_path) == ["result.npz"]


@pytest.mark.slow
@pytest.mark.parametrize("library", ["torch", "jax"])
def test_arrays_of_other_libraries_come_back_as_those_of_numpy(library: str, tmp_path: Path) -> None:
    from libraries import to_library, to_numpy

    x0 = to_library(starts(1)[0], library)
    result = slgh.minimize(lambda x: (x**2).sum(), x0, max_evals=200, seed=0)
    loaded = saved(result, tmp_path)
    assert type(loaded.x) is np.ndarray
    np.testing.assert_array_equal(loaded.x, to_numpy(result.x))
    assert loaded.fun == result.fun


def test_a_file_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="does not exist"):
        slgh.Result.load(tmp_path / "nothing.npz")
    with pytest.raises(OSError, match=r"nowhere is not a folder"):
        auto().save(tmp_path / "nowhere" / "result.npz")
    with pytest.raises(ValueError, match="a directory"):
        slgh.Result.load(tmp_path)


def test_a_checkpoint_is_not_a_result(tmp_path: Path) -> None:
    auto(checkpoint=tmp_path / "run.npz")
    with pytest.raises(ValueError, match=r"is not a complete Result.*it is a checkpoint"):
        slgh.Result.load(tmp_path / "run.npz")
    auto().save(tmp_path / "result.npz")
    with pytest.raises(ValueError, match="has format None"):
        auto(checkpoint=tmp_path / "result.npz")


def test_every_damaged_byte_is_noticed(tmp_path: Path) -> None:
    auto(history=0).save(tmp_path / "result.npz")
    content = (tmp_path / "result.npz").read_bytes()
    for i in np.linspace(0, len(content) - 1, 60).astype(int):
        damaged = bytearray(content)
        damaged[i] ^= 1
        (tmp_path / "damaged.npz").write_bytes(damaged)
        with pytest.raises(ValueError, match="is not a complete Result"):
            slgh.Result.load(tmp_path / "damaged.npz")
        (tmp_path / "damaged.npz").write_bytes(content[:i])
        with pytest.raises(ValueError, match="is not a complete Result"):
            slgh.Result.load(tmp_path / "damaged.npz")


def hostile(entries: dict[str, Any]) -> dict[str, Any]:
    """Return the header of a complete Result with other entries."""
    plain = {"x": 1.0, "fun": 1.0, "status": {"status": 0}, "success": True, "nit": 1, "nfev": 1}
    return {"slgh_result": 1, "entries": plain | entries}


@pytest.mark.parametrize(
    "header",
    [
        {},
        {"slgh_result": 2, "entries": {}},
        {"slgh_result": 1},
        {"slgh_result": 1, "entries": []},
        {"slgh_result": 1, "entries": {"x": 1.0}},
        hostile({"status": {"status": 99}}),
        hostile({"status": 99}),
        hostile({"status": "COMPLETED"}),
        hostile({"x": {"array": "7"}}),
        hostile({"x": {"array": ["7"]}}),
        hostile({"x": {"pickle": "gANjb3MKc3lzdGVt"}}),
        hostile({"x": {"tuple": 3}}),
        hostile({"x": {"array": "0", "tuple": []}}),
        hostile({"history": 3}),
        hostile({"phases": {"tuple": [{"phase": ["homotopy", "0", 1]}]}}),
        hostile({"method": {"method": {}}}),
        hostile(
            {
                "method": {
                    "method": {
                        "name": "a",
                        "reports": "last",
                        "floor": None,
                        "oracle": {"name": "os.system", "fields": {}},
                        "schedule": "",
                        "update": "",
                    }
                }
            }
        ),
        hostile({"x": json.loads("[" * 900 + "]" * 900)}),
    ],
    ids=str,
)
def test_a_hostile_header_is_refused(header: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "hostile.npz"
    checkpoint.write_archive(path, header, {})
    with pytest.raises(ValueError, match="is not a complete Result"):
        slgh.Result.load(path)


def test_files_of_others_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "foreign.npz"
    np.savez(path, x=np.zeros(3))
    with pytest.raises(ValueError, match="digest"):
        slgh.Result.load(path)
    with io.BytesIO() as file:
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("x", "y")
        path.write_bytes(file.getvalue())
    with pytest.raises(ValueError, match="digest"):
        slgh.Result.load(path)


# Frames.


def test_a_frame_has_one_row_per_iteration() -> None:
    pytest.importorskip("pandas")
    result = CASES["zoslgh_r"].run(starts(1)[0], max_iter=25, history="x")
    frame = result.to_frame()
    d = starts(1).shape[1]
    assert frame.columns.tolist() == ["iteration", "nfev", "fun", "t", "fun_best", *(f"x{i}" for i in range(d))]
    for name in ("iteration", "nfev", "fun", "t", "fun_best"):
        np.testing.assert_array_equal(frame[name], result.history[name])
    np.testing.assert_array_equal(frame[[f"x{i}" for i in range(d)]], result.history["x"])


def test_the_frame_of_a_batch_has_one_row_per_problem_and_iteration() -> None:
    pytest.importorskip("pandas")
    result = CASES["zoslgh_r"].run(starts(3), batched=True, max_iter=5, history="x")
    frame = result.to_frame()
    assert frame.columns[0] == "problem"
    assert len(frame) == 15
    for b, own in frame.groupby("problem"):
        np.testing.assert_array_equal(own["fun"], result.history["fun"][:, b])
        np.testing.assert_array_equal(own["x1"], result.history["x"][:, b, 1])
        np.testing.assert_array_equal(own["nfev"], result.history["nfev"])


def test_a_frame_names_the_phases_of_auto() -> None:
    pytest.importorskip("pandas")
    result = auto(history="full")
    frame = result.to_frame()
    counted = frame.groupby("phase", sort=False).size().to_dict()
    lengths: dict[str, int] = {}
    for name, start, stop in result.phases:
        lengths[name] = lengths.get(name, 0) + stop - start
    assert counted == lengths


def test_the_frame_of_a_run_without_history_is_empty() -> None:
    pytest.importorskip("pandas")
    frame = auto(history=0).to_frame()
    assert frame.empty
    assert {"iteration", "fun", "t"} <= set(frame.columns)


@pytest.mark.parametrize("method", ["auto", "zoslgh_r"])
def test_the_frame_of_a_run_without_iterations_has_its_columns(method: str) -> None:
    pytest.importorskip("pandas")
    options: dict[str, Any] = {"step": 0.1, "t1": 1.0} if method == "zoslgh_r" else {}
    result = slgh.minimize(np.sum, np.ones(3), method=method, max_evals=1, history="x", seed=0, **options)
    assert result.nit == 0
    frame = result.to_frame()
    assert frame.empty
    assert frame.columns.tolist()[:8] == ["iteration", "nfev", "fun", "t", "fun_best", "x0", "x1", "x2"]


def test_a_frame_needs_a_history() -> None:
    pytest.importorskip("pandas")
    with pytest.raises(ValueError, match="needs a history"):
        slgh.Optimizer([1.0], max_evals=10).result.to_frame()


def test_a_frame_without_pandas_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"slgh\[pandas\]"):
        auto().to_frame()
