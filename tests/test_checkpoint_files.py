"""A checkpoint's file: where it is, what is said when it cannot be written, and what is refused when it is read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from cases import CASES, starts
from slgh import files

CASE = CASES["zoslgh_r"]
X0 = starts(1)[0]
EVERY = {"every_iterations": 1}
DAMAGED = "is not a whole checkpoint .*Move it away to start anew"


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
