"""Kill a run repeatedly. Resumed from its checkpoint, it must end with the bits of the uninterrupted run."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import slgh
from fuzz import random_runs, zygote
from fuzz.target import Case, Violation

LIMIT = 60.0
"""Maximum number of seconds for one part of a run."""


class Kills:
    """A case is a run, its checkpoint interval, and the times or calls at which signals kill it."""

    name = "kills"
    weight = 2.0
    timeout = 240.0

    def generate(self, rng: random.Random) -> Case:
        """Draw a case."""
        library = rng.choices(["numpy", "torch", "jax"], [40, 5, 1])[0]  # a JAX case compiles for seconds
        run = random_runs.draw(rng, libraries=(library,), evals=3000 if library == "jax" else 300)
        # PyTorch's workers import it again, which takes seconds.
        if not run["vectorized"] and rng.random() < (0.2 if library == "numpy" else 0.05):
            run["workers"] = 2
        delay = 0.0 if library == "jax" else rng.choice([0.0, 2e-4, 1e-3])
        every = {"every_iterations": rng.randint(1, 20)} if rng.random() < 0.5 else {"every_seconds": 0.0}
        return {
            "run": run,
            "delay": delay,
            "every": every,
            "kills": [_kill(rng, run) for _ in range(rng.randint(1, 4))],
        }

    def check(self, case: Case) -> dict[str, int]:
        """Kill and resume, then compare with the uninterrupted run."""
        if not zygote.available:
            return {"skipped": 1}
        run, library = case["run"], case["run"]["library"]
        with zygote.scratch() as scratch:
            saved = scratch / "saved"
            saved.mkdir()
            told = {**case, "checkpoint": str(saved / "run.npz")}
            found: dict[str, Any] | None = None
            for n, kill in enumerate([*case["kills"], None]):
                child = zygote.start(library, "kills.sit", {**told, "kill": kill}, scratch / f"sitting{n}", LIMIT)
                try:
                    _disturb(child, kill)
                    answer = child.answer()
                finally:
                    # Workers of PyTorch and JAX are new processes. They notice a dead parent after their imports.
                    left = child.left_behind() if library == "numpy" else child.left_behind(60.0)
                if left:
                    raise Violation(f"{len(left)} processes outlive a run that was killed: {left}")
                if answer is None and kill is None:
                    raise Violation(f"The resumed run died or hung after {LIMIT} s. {child.complaint()}")
                if answer is not None and "error" in answer:
                    raise Violation(f"The resumed run raised: {answer['error']}")
                found = answer or found
            files = sorted(path.name for path in saved.iterdir())
            if files != ["run.npz"]:
                raise Violation(f"The resumed run left the files {files}, not the checkpoint alone.")
            assert found is not None
            undisturbed = {**run, "workers": None, "seed": found["seed"]}
            alone = {"run": undisturbed, "delay": 0.0, "kill": None, "checkpoint": None}
            expected = zygote.ask(library, "kills.sit", alone, scratch / "alone", LIMIT)
        if "error" in expected:
            raise Violation(f"The uninterrupted run failed: {expected['error']}")
        if differs := random_runs.difference(found["facts"], expected["facts"]):
            raise Violation(f"The resumed run differs from the uninterrupted one: {differs}")
        return {"configurations": 1, "kills": len(case["kills"])}

    def simpler(self, case: Case) -> Iterator[Case]:
        """Yield simpler variants."""
        for n in range(len(case["kills"])):
            if len(case["kills"]) > 1:
                yield {**case, "kills": [case["kills"][n]]}
        for run in random_runs.simpler_runs(case["run"]):
            yield {**case, "run": run}
        if case["delay"] != 1e-3:
            yield {**case, "delay": 1e-3}

    def script(self, case: Case) -> str:
        """Return a script that forks the run, kills it and resumes it."""
        every = ", ".join(f"{n}={v}" for n, v in case["every"].items())
        return (
            random_runs.written(case["run"])
            + f"DELAY = {case['delay']}\n"
            + "import os, signal, tempfile\n"
            + "file = os.path.join(tempfile.mkdtemp(), 'run.npz')\n"
            + f"checkpoint = slgh.Checkpoint(path=file, {every})\n"
            + f"for kill in {case['kills']!r}:  # a kill at a call: time.sleep until about that call\n"
            + "    pid = os.fork()\n"
            + "    if pid == 0:\n"
            + "        slgh.minimize(f, x0, checkpoint=checkpoint, **options)\n"
            + "        os._exit(0)\n"
            + "    time.sleep(kill.get('after', kill.get('call', 0) * DELAY))\n"
            + "    os.kill(pid, getattr(signal, kill['signal']))\n"
            + "    os.waitpid(pid, 0)\n"
            + "resumed = slgh.minimize(f, x0, checkpoint=checkpoint, **options)\n"
            + "undisturbed = slgh.minimize(f, x0, **{**options, 'seed': resumed.seed})\n"
            + "print(resumed, undisturbed, os.listdir(os.path.dirname(file)), sep='\\n\\n')\n"
            + "os.system('ps -ef | grep python')  # workers that are left behind\n"
        )


def _kill(rng: random.Random, run: Case) -> Case:
    """Draw a kill: at a call of fun, which is reproducible, or at a time, which may be during a write."""
    number = rng.choice(["SIGKILL", "SIGTERM"])
    if run["workers"] is None and run["library"] != "jax" and rng.random() < 0.4:
        return {"signal": number, "call": rng.randint(1, 150)}
    return {"signal": number, "after": round(rng.uniform(0, 0.5) ** 2, 4) + (0.5 if run["library"] == "jax" else 0.0)}


def _disturb(child: zygote.Child, kill: Case | None) -> None:
    """Kill the child as the case says, unless it ends before."""
    if kill is not None and "after" in kill and child.wait_for("ready"):
        child.wait(kill["after"])
        child.send(getattr(signal, kill["signal"]))
    child.wait()


class Deadly(random_runs.Objective):
    """Objective that ends its own process at a given call."""

    def _begin(self, x: Any) -> None:
        super()._begin(x)
        _Countdown.left -= 1
        if _Countdown.left == 0:
            os.kill(os.getpid(), _Countdown.signal)
            time.sleep(5)  # SIGTERM may take a moment


class _Countdown:
    left = -1
    signal = 0


def sit(case: Case, folder: Path) -> dict[str, Any]:
    """Run, or resume, in a child. A file in `folder` marks the start."""
    kill = case["kill"] or {}
    _Countdown.left, _Countdown.signal = kill.get("call", -1), getattr(signal, kill.get("signal", "SIGKILL"))
    kind = Deadly if "call" in kill else random_runs.Objective
    objective = kind(case["run"]["shape"], case["delay"])
    checkpoint = slgh.Checkpoint(path=case["checkpoint"], **case["every"]) if case["checkpoint"] else None
    (folder / "ready").touch()
    result = random_runs.execute(case["run"], objective, checkpoint=checkpoint)
    return {"facts": random_runs.facts(result), "seed": result.seed}


TARGET = Kills()
