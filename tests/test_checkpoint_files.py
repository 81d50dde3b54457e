"""A checkpoint's file: where it is, what is said when it cannot be written, and what is refused when it is read."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import slgh
from cases import CASES, fun, starts
from slgh import files
from slgh.engine import checkpoint
from test_checkpoint import Stopper, fails_after
from test_methods import assert_same

CASE = CASES["zoslgh_r"]
X0 = starts(1)[0]
EVERY = {"every_iterations": 1}
DAMAGED = "is not a whole checkpoint .*Move it away to start anew"


# --- where it is


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
    with files.whole(file) as first:
        first.write(b"first")
        with files.whole(file) as second:
            second.write(b"second, and longer")
        assert file.read_bytes() == b"second, and longer"
    assert file.read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["text"]


# --- a disk that is full


def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on nothing can be forced to the disk."""

    def fsync(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fsync)


def raises_on_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], Any]:
    """`fun` that raises at its seventh call, when the disk is full."""
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
        monkeypatch.setattr(checkpoint, "write", broken)
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
