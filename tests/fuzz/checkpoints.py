"""Damage checkpoints. A run must refuse one with a clear error, or continue to the bits of the uninterrupted run."""

from __future__ import annotations

import contextlib
import io
import os
import random
import sys
import threading
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import slgh
from fuzz import damage, random_runs, zygote
from fuzz.target import Case, Violation

if sys.platform != "win32":
    import resource

MEMORY = 200
"""MB that reading a damaged file may allocate."""

CAP = 2000
"""MB of address space at which the reading process gets a MemoryError, to protect the machine."""

LIMIT = 20.0
"""Seconds after which a process counts as hung."""


class Checkpoints:
    """A case is a run, the call of fun that ends it, and damages, each applied to a new copy of its checkpoint.

    Or it has a number of threads or processes that save to one path at the same time.
    """

    name = "checkpoints"
    weight = 2.0
    timeout = 120.0

    def generate(self, rng: random.Random) -> Case:
        """Draw a case."""
        run = random_runs.draw(rng, evals=120)
        run["seed"] = run["seed"] or 0
        case: Case = {"run": run, "broken": round(rng.random(), 3), "damages": [], "sharing": None}
        if rng.random() < 0.1:
            case["sharing"] = {"by": rng.choice(["threads", "processes"]), "number": rng.randint(2, 3)}
            return case
        # Bombs take a second to build, and special paths do not depend on the run.
        kinds = [kind for kind in damage.KINDS if kind not in ("bomb", *damage.PATHS) or rng.random() < 0.1]
        case["damages"] = [{"kind": rng.choice(kinds), "seed": rng.randrange(10**6)} for _ in range(12)]
        return case

    def check(self, case: Case) -> dict[str, int]:
        """Let a child resume from each damaged file, or several children save to one."""
        if not zygote.available:
            return {"skipped": 1}
        task = "checkpoints.share" if case["sharing"] else "checkpoints.suffer"
        with zygote.scratch() as scratch:
            answer = zygote.ask("numpy", task, case, scratch, LIMIT)
            now = (scratch / "now").read_text() if (scratch / "now").exists() else ""
        if "error" in answer:
            raise Violation(f"The process failed, {now}: {answer['error']}")
        if answer["wrong"]:
            raise Violation("\n".join(answer["wrong"]))
        return {"configurations": 1, "damaged": len(case["damages"])}

    def simpler(self, case: Case) -> Iterator[Case]:
        """Yield simpler variants."""
        if len(case["damages"]) > 1:
            for each in case["damages"]:
                yield {**case, "damages": [each]}
            return
        for run in random_runs.simpler_runs(case["run"]):
            yield {**case, "run": run}
        if case["sharing"] and case["sharing"]["number"] > 2:
            yield {**case, "sharing": {**case["sharing"], "number": 2}}

    def script(self, case: Case) -> str:
        """Return a script that makes the checkpoint and damages it."""
        text = random_runs.written(case["run"]) + "import os, tempfile\nfrom pathlib import Path\n"
        text += "path = Path(tempfile.mkdtemp(), 'run.npz')\n"
        if case["sharing"]:
            return text + (
                "from concurrent.futures import ThreadPoolExecutor\n"
                "import zipfile\n"
                "checkpoint = slgh.Checkpoint(path=path, every_iterations=1)\n"
                f"with ThreadPoolExecutor({case['sharing']['number']}) as pool:  # or as many processes\n"
                "    runs = [pool.submit(slgh.minimize, f, x0, checkpoint=checkpoint, **options) for _ in range("
                f"{case['sharing']['number']})]\n"
                "    while not all(run.done() for run in runs):\n"
                "        if path.exists():\n"
                "            assert zipfile.ZipFile(path).testzip() is None\n"
                "print([run.result() for run in runs])\n"
            )
        return text + (
            "class Stopper(Exception): ...\n"
            "calls = []\n"
            "def broken(x, *xi):\n"
            "    calls.append(1)\n"
            f"    if len(calls) == AT:\n"
            "        raise Stopper\n"
            "    return f(x, *xi)\n"
            "undisturbed = slgh.minimize(f, x0, **options)\n"
            f"AT = 1 + int({case['broken']} * undisturbed.nfev.max() if hasattr(undisturbed.nfev, 'max') else "
            f"{case['broken']} * undisturbed.nfev)\n"
            "try:\n"
            "    slgh.minimize(broken, x0, checkpoint=path, **options)\n"
            "except Stopper:\n"
            "    pass\n"
            "intact = path.read_bytes()\n"
            "path.unlink()\n"
            "import sys; sys.path.insert(0, 'tests')\n"
            "from fuzz.damage import inflict\n"
            f"for each in {case['damages']!r}:\n"
            "    given = inflict(each['kind'], each['seed'], path, intact)\n"
            "    print(slgh.minimize(f, x0, checkpoint=given, **options))\n"
            "print('not', undisturbed)\n"
        )


class Stopper(Exception):
    """Raised by a test's function to end a run."""


class Breaking(random_runs.Objective):
    """Objective that raises Stopper at a given call, or calls a function at its first one."""

    calls = 0
    at = -1
    first: Callable[[], object] | None = None

    def _begin(self, x: Any) -> None:
        cls = type(self)
        cls.calls += 1
        if cls.calls == cls.at:
            raise Stopper
        if cls.first is not None:
            do, cls.first = cls.first, None
            do()


def suffer(case: Case, folder: Path) -> dict[str, Any]:
    """Create a checkpoint, damage it in each way, and resume, in a child."""
    run = case["run"]
    resource.setrlimit(resource.RLIMIT_AS, (_virtual() + (CAP << 20), resource.RLIM_INFINITY))
    Breaking.calls, Breaking.at = 0, -1
    expected = random_runs.facts(random_runs.execute(run, Breaking(run["shape"])))
    Breaking.calls, Breaking.at = 0, 1 + int(case["broken"] * Breaking.calls)
    made = folder / "made.npz"
    with contextlib.suppress(Stopper):
        random_runs.execute(run, Breaking(run["shape"]), checkpoint=made)
    Breaking.at = -1
    wrong = []
    for n, each in enumerate(case["damages"]):
        (folder / "now").write_text(f"at the damage {each}")
        home = folder / f"damage{n}"
        home.mkdir()
        if complaint := _resume(run, each, home, made.read_bytes(), expected):
            wrong.append(f"{each}: {complaint}")
    return {"wrong": wrong}


def _resume(run: Case, each: Case, home: Path, intact: bytes, expected: dict[str, str]) -> str:
    """Return the error in resuming from a damaged checkpoint, if any."""
    kind, path = each["kind"], home / "run.npz"
    if kind == "unreadable" and os.geteuid() == 0:
        return ""  # root can read everything
    given = damage.inflict(kind, each["seed"], path, intact)
    if kind == "relative":
        os.chdir(home)
        given = "run.npz"
        (home / "other").mkdir()
        Breaking.first = lambda: os.chdir(home / "other")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about duplicate names
            found = random_runs.facts(random_runs.execute(run, Breaking(run["shape"]), checkpoint=given))
    except (ValueError, OSError) as error:
        if "checkpoint" not in str(error):
            return f"the error does not name the checkpoint: {type(error).__name__}: {str(error)[:300]}"
    except Exception as error:
        return f"raises {type(error).__name__}: {str(error)[:300]}"
    used = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    if used > MEMORY:
        return f"takes {used:.0f} MB of memory"
    if found is not None and (differs := random_runs.difference(found, expected)):
        return f"is accepted, and the result differs: {differs}"
    if found is not None and kind in ("symlink", "dangling") and not path.is_symlink():
        return "the symbolic link was replaced by a file"
    if kind == "relative" and list((home / "other").iterdir()):
        return "the checkpoint moves with the working directory"
    stray = [p.name for p in home.iterdir() if p.name not in ("run.npz", "elsewhere.npz", "other")]
    return f"leaves {stray}" if stray else ""


def _virtual() -> int:
    """Return the bytes of address space of this process."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except FileNotFoundError:
        return 1 << 40


def share(case: Case, folder: Path) -> dict[str, Any]:
    """Run the same in several threads or processes that save to one path, and check the file meanwhile."""
    run, path, number = case["run"], folder / "saved" / "run.npz", case["sharing"]["number"]
    path.parent.mkdir()
    expected = random_runs.facts(random_runs.execute(run))
    wrong: list[str] = []

    def execute() -> None:
        try:
            checkpoint = slgh.Checkpoint(path=path, every_iterations=1)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                found = random_runs.facts(random_runs.execute(run, checkpoint=checkpoint))
            if differs := random_runs.difference(found, expected):
                wrong.append(f"A run that shares its checkpoint with others differs: {differs}")
        except BaseException as error:
            wrong.append(f"A run that shares its checkpoint with others raises {type(error).__name__}: {error}")

    if case["sharing"]["by"] == "threads":
        threads = [threading.Thread(target=execute) for _ in range(number)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            _look(path, wrong)
        for thread in threads:
            thread.join()
    else:
        pids = []
        for n in range(number):
            pid = os.fork()
            if pid == 0:
                execute()
                (folder / f"wrong{n}").write_text("\n".join(wrong))
                os._exit(0)
            pids.append(pid)
        while pids:
            _look(path, wrong)
            pids = [pid for pid in pids if os.waitpid(pid, os.WNOHANG)[0] == 0]
        wrong += [text for n in range(number) if (text := (folder / f"wrong{n}").read_text())]
    if (left := sorted(os.listdir(path.parent))) != ["run.npz"]:
        wrong.append(f"Runs that share their checkpoint leave the files {left}.")
    return {"wrong": wrong}


def _look(path: Path, wrong: list[str]) -> None:
    """Record it if the file is incomplete."""
    with contextlib.suppress(FileNotFoundError):
        data = path.read_bytes()
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                bad = archive.testzip()
        except zipfile.BadZipFile as error:
            bad = str(error)
        if bad:
            wrong.append(f"A checkpoint of {len(data)} bytes was seen that is not complete: {bad}")


TARGET = Checkpoints()
