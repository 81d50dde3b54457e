"""A checkpoint's file: where it is, what is said when it cannot be written, and what is refused when it is read."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import slgh
from cases import CASES, fun, starts
from slgh import files
from slgh.engine import checkpoint

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
