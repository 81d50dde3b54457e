"""Checkpoint files: their path, errors when they cannot be written, and files that are refused."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import re
import socket
import subprocess
import sys
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import slgh
from cases import CASES, Stopper, assert_same, fails_after, fun, starts
from slgh import files
from slgh.engine import checkpoint, snapshot

ODD_VALUES: list[Any] = [None, "x", -1, 0.5, True, [], [1], {}, 2**70]


CASE = CASES["zoslgh_r"]
X0 = starts(1)[0]
EVERY = {"every_iterations": 1}
DAMAGED = "is not a complete checkpoint .*Move it away to start anew"


# --- path


def test_a_change_of_the_working_directory_does_not_move_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    monkeypatch.chdir(here)

    def leaves(x: Any) -> Any:
        os.chdir(there)
        return fun(x)

    CASE.run(X0, fun=leaves, checkpoint=slgh.Checkpoint(path="run.npz", **EVERY), max_iter=9)
    assert os.listdir(there) == []
    found = checkpoint.read(here / "run.npz")
    assert found is not None
    assert found[0]["k"] == 9


def test_a_link_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    target, link = tmp_path / "disk" / "run.npz", tmp_path / "run.npz"
    target.parent.mkdir()
    link.symlink_to("disk/run.npz")
    for iterations in (9, 20):
        CASE.run(X0, checkpoint=link, max_iter=iterations)
        assert link.is_symlink()
        found = checkpoint.read(target)
        assert found is not None
        assert found[0]["k"] == iterations
    assert sorted(os.listdir(tmp_path)) == ["disk", "run.npz"]
    assert os.listdir(target.parent) == ["run.npz"]


@pytest.mark.parametrize("kind", ["a pipe", "a directory", "a socket", "a device"])
@pytest.mark.timeout(30)
def test_anything_but_a_file_is_refused_at_once(kind: str, tmp_path: Path) -> None:
    place, server = tmp_path / "p", socket.socket(socket.AF_UNIX)
    with server:
        if kind == "a pipe":
            os.mkfifo(place)
        elif kind == "a directory":
            place.mkdir()
        elif kind == "a socket":
            if len(os.fspath(place)) > 100:
                pytest.skip("the path is too long for a socket")
            server.bind(os.fspath(place))
        else:
            place = Path(os.devnull)
        with pytest.raises(ValueError, match=f"`checkpoint` must be the path of a file, got '.*', which is {kind}"):
            CASE.run(X0, checkpoint=place)


@pytest.mark.parametrize("path", ["a\0b", "x" * 10_000])
def test_a_path_that_cannot_be_one_is_an_error_that_names_the_argument(path: str) -> None:
    with pytest.raises(ValueError, match="`checkpoint` must be the path of a file, got"):
        CASE.run(X0, checkpoint=path)


def test_a_seed_of_another_batch_is_another_run(tmp_path: Path) -> None:
    CASE.run(starts(3), batched=True, seed=[1, 2, 3], checkpoint=tmp_path / "run", max_iter=3)
    with pytest.raises(ValueError, match="belongs to another run: its x0 is"):
        CASE.run(starts(5), batched=True, seed=None, checkpoint=tmp_path / "run", max_iter=3)


# --- temporary files


def test_temporary_files_of_living_processes_stay(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        alive = tmp_path / f"run.{other.pid}.0123abcd.tmp"
        before = tmp_path / f"run.{other.pid}.tmp"
        mine = tmp_path / f"run.{os.getpid()}.0123abcd.tmp"
        foreign = tmp_path / "run.notes.tmp"
        for file in (alive, before, mine, foreign):
            file.touch()
        CASE.run(X0, checkpoint=tmp_path / "run", max_iter=2)
        assert all(file.exists() for file in (alive, before, mine, foreign))
        other.communicate(b"\n")
    CASE.run(X0, checkpoint=tmp_path / "run", max_iter=3)
    assert not alive.exists()
    assert not before.exists()
    assert mine.exists()
    assert foreign.exists()


def test_a_name_with_brackets_is_no_pattern(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as dead:
        pass
    own, other = tmp_path / f"[ab].{dead.pid}.0123abcd.tmp", tmp_path / f"a.{dead.pid}.0123abcd.tmp"
    own.touch()
    other.touch()
    CASE.run(X0, checkpoint=tmp_path / "[ab]", max_iter=2)
    assert not own.exists()
    assert other.exists()


def test_two_writers_of_one_file_do_not_disturb_each_other(tmp_path: Path) -> None:
    file = tmp_path / "text"
    with files.atomic_write(file) as first:
        first.write(b"first")
        with files.atomic_write(file) as second:
            second.write(b"second, and longer")
        assert file.read_bytes() == b"second, and longer"
    assert file.read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["text"]


# --- full disk


def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every fsync fail from now on."""

    def fsync(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fsync)


def raises_on_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], Any]:
    """Return `fun` that raises at its seventh call, with a full disk."""
    failing = fails_after(7)

    def f(x: Any) -> Any:
        full_disk(monkeypatch)
        return failing(x)

    return f


def test_a_note_does_not_claim_that_a_run_was_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Stopper) as caught, pytest.warns(RuntimeWarning, match="could not be written"):
        CASE.run(X0, fun=raises_on_a_full_disk(monkeypatch), checkpoint=tmp_path / "run")
    (note,) = caught.value.__notes__
    assert "which could not be saved in" in note
    assert os.strerror(errno.ENOSPC) in note
    found = checkpoint.read(tmp_path / "run")
    assert found is not None
    assert found[0]["k"] == 0


def test_a_warning_that_is_an_error_does_not_replace_the_users_exception(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(Stopper):
            CASE.run(X0, fun=raises_on_a_full_disk(monkeypatch), checkpoint=tmp_path / "run")
    assert "could not be written" in capsys.readouterr().err


@pytest.mark.parametrize("often", [True, False])
def test_a_warning_that_is_an_error_does_not_cost_the_result(
    often: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = CASE.run(X0)

    def f(x: Any) -> Any:
        full_disk(monkeypatch)
        return fun(x)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        settings = slgh.Checkpoint(path=tmp_path / "run", every_iterations=1 if often else None)
        assert_same(CASE.run(X0, fun=f, checkpoint=settings), whole)
    assert capsys.readouterr().err.count("could not be written") == 1


def test_nothing_that_goes_wrong_while_saving_replaces_the_users_exception(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = fails_after(7)

    def broken(*_: Any) -> None:
        raise ZeroDivisionError("while saving")

    def f(x: Any) -> Any:
        monkeypatch.setattr(snapshot, "write", broken)
        return failing(x)

    with pytest.raises(Stopper) as caught:
        CASE.run(X0, fun=f, checkpoint=tmp_path / "run")
    assert "could not be saved in" in caught.value.__notes__[0]
    assert "while saving" in caught.value.__notes__[0]


LIMITED = """
import resource, sys, warnings
import numpy as np, slgh

def f(x):
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, resource.RLIM_INFINITY))
    return ((x - 1) ** 2).sum()

with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    result = slgh.minimize(
        f, np.zeros(3), method="zoslgh_r", t1=1.0, step=0.01, samples=3, max_iter=30, seed=2,
        checkpoint=slgh.Checkpoint(path=sys.argv[1], every_iterations=1),
    )
print(result.nit, [str(w.message) for w in seen])
"""


def test_a_write_that_fails_halfway_leaves_the_last_whole_checkpoint(tmp_path: Path) -> None:
    pytest.importorskip("resource")
    command = [sys.executable, "-c", LIMITED, str(tmp_path / "run")]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert found.startswith("30 [")
    assert "could not be written" in found
    read = checkpoint.read(tmp_path / "run")
    assert read is not None
    assert read[0]["k"] == 0
    assert os.listdir(tmp_path) == ["run"]


# --- damaged files


def saved(tmp_path: Path) -> Path:
    file = tmp_path / "run.npz"
    with pytest.raises(Stopper):
        CASE.run(X0, fun=fails_after(9), checkpoint=file)
    return file


def test_any_changed_byte_is_noticed(tmp_path: Path) -> None:
    file = saved(tmp_path)
    good = file.read_bytes()
    places = [*range(0, len(good), 97), *range(len(good) - 60, len(good))]
    for place in places:
        bad = bytearray(good)
        bad[place] ^= 0x10
        file.write_bytes(bad)
        with pytest.raises(ValueError, match=DAMAGED):
            checkpoint.read(file)
    file.write_bytes(good + b"\0")
    with pytest.raises(ValueError, match=DAMAGED):
        checkpoint.read(file)


def test_a_file_of_format_2_is_refused(tmp_path: Path) -> None:
    """That format had no digest."""
    file = tmp_path / "run.npz"
    np.savez(file, header=np.frombuffer(b'{"slgh": 2}', np.uint8))
    with pytest.raises(ValueError, match=r"digest is wrong or missing: .* older version"):
        CASE.run(X0, checkpoint=file)


# --- hostile files with a valid digest


def sealed(archive: bytes) -> bytes:
    """Return a zip archive with the digest of a checkpoint."""
    body = archive[:-2] + (32).to_bytes(2, "little")
    return body + hashlib.sha256(body).digest()


def packed(members: list[tuple[str, bytes]], compression: int = zipfile.ZIP_STORED) -> bytes:
    """Return a zip archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # duplicate names
        for name, content in members:
            archive.writestr(name, content)
    return buffer.getvalue()


def npy(shape: str = "(3,)", dtype: str = "'<f8'", content: bytes = b"\0" * 24, version: int = 1) -> bytes:
    """Return the file of an array with this header."""
    text = f"{{'descr': {dtype}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    size = len(text).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + size + text + content


HEADER = ("header.npy", npy("(11,)", "'|u1'", b'{"slgh": 3}'))
BOMB = npy("(8000000,)", content=bytes(64_000_000))


def encrypted(archive: bytes) -> bytes:
    """Return the archive with the flag of an encrypted member."""
    at = archive.rindex(b"PK\x01\x02")
    return archive[: at + 8] + b"\x01" + archive[at + 9 :]


def longer(archive: bytes) -> bytes:
    """Return the archive with a last member that claims 2 GB."""
    at, size = archive.rindex(b"PK\x01\x02"), (2**31).to_bytes(4, "little")
    return archive[: at + 20] + size + size + archive[at + 28 :]


HOSTILE: dict[str, Callable[[], bytes]] = {
    "compressed": lambda: packed([HEADER, ("a.x.npy", BOMB)], zipfile.ZIP_DEFLATED),
    "encrypted": lambda: encrypted(packed([HEADER, ("a.x.npy", npy())])),
    "twice": lambda: packed([HEADER, ("a.x.npy", npy()), ("a.x.npy", npy())]),
    "larger than the file": lambda: longer(packed([HEADER, ("a.x.npy", npy())])),
    "more than there is": lambda: packed([HEADER, ("a.x.npy", npy("(400000000,)"))]),
    "less than there is": lambda: packed([HEADER, ("a.x.npy", npy("(1,)"))]),
    "negative": lambda: packed([HEADER, ("a.x.npy", npy("(-3, -1)"))]),
    "too long an axis": lambda: packed([HEADER, ("a.x.npy", npy(f"(0, {10**30})", content=b""))]),
    "too many axes": lambda: packed([HEADER, ("a.x.npy", npy(f"(0,{'1,' * 99})", content=b""))]),
    "objects": lambda: packed([HEADER, ("a.x.npy", npy(dtype="'|O'"))]),
    "records": lambda: packed([HEADER, ("a.x.npy", npy(dtype="[('a', '<f8')]"))]),
    "nothing each": lambda: packed([HEADER, ("a.x.npy", npy("(1000000000000,)", "'|V0'", b""))]),
    "foreign byte order": lambda: packed([HEADER, ("a.x.npy", npy(dtype="'>f8'"))]),
    "no dtype": lambda: packed([HEADER, ("a.x.npy", npy(dtype="'nonsense'"))]),
    "another npy version": lambda: packed([HEADER, ("a.x.npy", npy(version=2))]),
    "code": lambda: packed([HEADER, ("a.x.npy", npy("print('no')"))]),
    "nested": lambda: packed([HEADER, ("a.x.npy", npy("(" * 900 + ")" * 900))]),
    "signs": lambda: packed([HEADER, ("a.x.npy", npy(f"({'-' * 9000}1,)"))]),
    "not an array": lambda: packed([HEADER, ("a.x.npy", b"text")]),
    "no members": lambda: packed([]),
    "no header": lambda: packed([("a.x.npy", npy())]),
    "odd name": lambda: packed([HEADER, ("../x.npy", npy())]),
    "header of no JSON": lambda: packed([("header.npy", npy("(3,)", "'|u1'", b"{;}"))]),
    "header of a list": lambda: packed([("header.npy", npy("(2,)", "'|u1'", b"[]"))]),
    "nested header": lambda: packed([("header.npy", npy("(100000,)", "'|u1'", b"[" * 100_000))]),
    "a long number": lambda: packed([("header.npy", npy("(100000,)", "'|u1'", b"9" * 100_000))]),
    "no archive": lambda: b"no zip archive at all, but long enough to be one",
    "many members": lambda: packed([(f"{i}", b"") for i in range(20_000)]),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_one_clear_error_and_takes_little_memory(name: str, tmp_path: Path) -> None:
    file = tmp_path / "run.npz"
    file.write_bytes(sealed(HOSTILE[name]()))
    assert file.stat().st_size < 3_000_000
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=DAMAGED):
            CASE.run(X0, checkpoint=file)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 32_000_000


def test_a_zip_bomb_without_digest_takes_little_memory(tmp_path: Path) -> None:
    file = tmp_path / "run.npz"
    file.write_bytes(HOSTILE["compressed"]())
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=DAMAGED):
            CASE.run(X0, checkpoint=file)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16_000_000


# --- changed files of a run, with a valid digest


def batch(**more: Any) -> slgh.Result:
    return CASE.run(starts(4), batched=True, target=0.5, max_iter=20, **more)


def some_at_a_time(**more: Any) -> slgh.Result:
    return CASE.run(starts(4), batched=True, batch_size=2, max_iter=8, history="x", **more)


def stochastic(**more: Any) -> slgh.Result:
    return CASES["zoslgh_r stochastic"].run(X0, **more)


def of_auto(**more: Any) -> slgh.Result:
    return slgh.minimize(**{"fun": fun} | more, x0=X0, max_evals=200, seed=3)


RUNS: dict[str, tuple[Callable[..., slgh.Result], int]] = {
    "batch": (batch, 18),
    "some at a time": (some_at_a_time, 9),
    "stochastic": (stochastic, 9),
    "auto": (of_auto, 130),
}


def changed(array: np.ndarray) -> Iterator[np.ndarray]:
    """Yield arrays that differ from this one."""
    yield array[None]
    yield array.ravel()
    yield np.concatenate([array, array])
    yield array[:-1]
    yield np.zeros(0)
    yield np.array(1)
    yield array.astype(float) if array.dtype.kind in "iu" else array.astype(int)
    yield array.astype(bool)
    yield np.full_like(array, 99)
    if array.dtype.kind != "u":
        yield np.full_like(array, -7)
    if array.dtype.kind == "f":
        yield np.full_like(array, np.nan)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", RUNS)
def test_a_changed_run_is_one_clear_error_or_goes_on(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other values cannot be detected. Other names, shapes and kinds are refused."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # hundreds of files, and no crash
    run, at = RUNS[name]
    file = tmp_path / "run.npz"
    with pytest.raises(Stopper):
        run(fun=fails_after(at), checkpoint=file)
    found = checkpoint.read(file)
    assert found is not None
    meta, arrays = found
    # A run of "auto" takes longer, and differs only in its portfolio.
    edits = [(meta, arrays | {"further": np.zeros(3)})]
    for key in arrays if name != "auto" else [key for key in arrays if key.startswith("portfolio.")]:
        edits.append((meta, {n: a for n, a in arrays.items() if n != key}))
        edits += [(meta, arrays | {key: np.asarray(other)}) for other in changed(arrays[key])]
    for key in meta.keys() - {"slgh"} if name != "auto" else ():
        edits.append(({n: m for n, m in meta.items() if n != key}, arrays))
        edits += [(meta | {key: other}, arrays) for other in ODD_VALUES]
    refused = 0
    for meta_edit, array_edit in edits:
        checkpoint.write(file, meta_edit, array_edit)
        try:
            run(checkpoint=file)
        except ValueError as error:
            if not re.match("`checkpoint` .* start anew", str(error)):
                raise
            refused += 1
    assert refused > len(edits) / 2
    checkpoint.write(file, meta, arrays)
    assert_same(run(checkpoint=file), run())


def test_the_header_is_readable(tmp_path: Path) -> None:
    """The file is an .npz that NumPy can read."""
    with np.load(saved(tmp_path)) as file:
        assert json.loads(file["header"].tobytes())["slgh"] == 4
        assert file["a.state.x"].shape == (1, 4)
