"""Run many Optimizers and `minimize` calls concurrently, in every combination.

Each must give the bits of the run alone.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import slgh
from fuzz import random_runs, zygote
from fuzz.target import Case, Violation

LIMIT = 40.0
"""Seconds after which a process counts as hung."""

PROMPT = 2.5
"""Maximum number of seconds from Ctrl-C to the Result."""


class Concurrency:
    """A case is a list of runs, the way they are combined, and a seed for the order."""

    name = "concurrency"
    weight = 2.0
    timeout = 60.0

    def generate(self, rng: random.Random) -> Case:
        """Draw a case."""
        how = rng.choice(list(MIXTURES))
        number = 3 if how == "nested" else rng.choices([2, 10, 100], [6, 3, 0.3])[0]
        library = "torch" if how == "interleaved" and rng.random() < 0.05 else "numpy"
        runs = []
        for _ in range(number):
            run = random_runs.draw(rng, libraries=(library,), evals={2: 400, 3: 60, 10: 150}.get(number, 60))
            run["seed"] = run["seed"] or 0
            if rng.random() < 0.5:
                run |= {"method": "auto", "problems": 0, "stochastic": False}
                if number == 2 and run["d"] <= 4:
                    run["limit"] = {}  # the default, 1000 + 200 d evaluations
            if library == "torch":
                run["vectorized"] = True  # its functions round differently for one point and for many
            if how == "nested":
                run |= {"vectorized": False, "problems": 0, "d": min(run["d"], 6)}
            runs.append(run)
        return {"how": how, "library": library, "order": rng.randrange(10**6), "runs": runs}

    def check(self, case: Case) -> dict[str, int]:
        """Let a child run them alone and then together."""
        if not zygote.available:
            return {"skipped": 1}
        with zygote.scratch() as scratch:
            answer = zygote.ask(case["library"], "concurrency.act", case, scratch, LIMIT)
            now = (scratch / "now").read_text() if (scratch / "now").exists() else ""
        if "error" in answer:
            raise Violation(f"{case['how']}: failed {now}: {answer['error']}")
        if answer["wrong"]:
            raise Violation(f"{case['how']}: " + "\n".join(answer["wrong"][:5]))
        return {"configurations": len(case["runs"]), "interrupts": int(case["how"] == "interrupted")}

    def simpler(self, case: Case) -> Iterator[Case]:
        """Yield simpler variants."""
        runs = case["runs"]
        least = 3 if case["how"] == "nested" else 1
        for kept in (runs[: len(runs) // 2], runs[len(runs) // 2 :], *(runs[:n] + runs[n + 1 :] for n in range(9))):
            if least <= len(kept) < len(runs):
                yield {**case, "runs": kept}
        if len(runs) <= 3:
            for n, run in enumerate(runs):
                for simple in random_runs.simpler_runs(run) if run["limit"] else ():
                    yield {**case, "runs": [*runs[:n], simple, *runs[n + 1 :]]}

    def script(self, case: Case) -> str:
        """Return a script that runs the same combination with this file, after the essence of it for two Optimizers."""
        first = random_runs.written({**case["runs"][0], "vectorized": True, "workers": None})
        text = json.dumps(case)
        return (
            f"{first}"
            "# Two Optimizers, told in turn:\n"
            "for name in ('vectorized', 'workers', 'grad'):\n"
            "    options.pop(name, None)\n"
            "two = [slgh.Optimizer(x0, **options) for _ in range(2)]\n"
            "while not all(opt.stop() for opt in two):\n"
            "    for opt in two:\n"
            "        if not opt.stop():\n"
            "            points = opt.ask()\n"
            "            opt.tell(points, f(points, *([] if opt.xi is None else [opt.xi])))\n"
            "print([opt.result for opt in two])\n"
            f"# The mixture that failed ({case['how']}), with the repository's tests:\n"
            "import json, sys, tempfile\n"
            "from pathlib import Path\n"
            "sys.path.insert(0, 'tests')\n"
            "from fuzz.concurrency import act\n"
            f"print(act(json.loads({text!r}), Path(tempfile.mkdtemp())))\n"
        )


Fine = Callable[[int, slgh.Result], None]
"""Compare the result of a run with that of the same run alone."""


def tell(run: Case, opt: slgh.Optimizer) -> None:
    """Ask and tell once."""
    f = random_runs.Objective(run["shape"])
    points = opt.ask()
    extra = () if opt.xi is None else (opt.xi,)
    opt.tell(points, f.grad(points, *extra) if opt.asks == "grad" else f(points, *extra))


def optimizer(run: Case) -> slgh.Optimizer:
    """Create the Optimizer of a run."""
    gradients = run["method"] in random_runs.FIRST_ORDER
    return slgh.Optimizer(random_runs.start_of(run), gradients=gradients, **random_runs.settings(run))


def half_told(runs: list[Case], rng: random.Random) -> list[slgh.Optimizer]:
    """Create Optimizers, and tell each a random number of times."""
    opts = [optimizer(run) for run in runs]
    for run, opt in zip(runs, opts, strict=True):
        for _ in range(rng.choice([1, 5, 20, 80])):
            if not opt.stop():
                tell(run, opt)
    return opts


def finish(runs: list[Case], opts: list[slgh.Optimizer], rng: random.Random, fine: Fine) -> None:
    """Tell Optimizers in random order until all have ended."""
    going = [n for n, opt in enumerate(opts) if not opt.stop()]
    while going:
        n = rng.choice(going)
        for _ in range(rng.randint(1, 5)):
            if not opts[n].stop():
                tell(runs[n], opts[n])
        if opts[n].stop():
            going.remove(n)
    for n, opt in enumerate(opts):
        fine(n, opt.result)


def interleaved(runs: list[Case], rng: random.Random, fine: Fine) -> None:
    """Run Optimizers in one thread, in random order."""
    finish(runs, [optimizer(run) for run in runs], rng, fine)


def beside(runs: list[Case], rng: random.Random, fine: Fine) -> None:
    """Call `minimize` while Optimizers are half-told."""
    opts = half_told(runs, rng)
    for n, run in enumerate(runs):
        fine(n, random_runs.execute(run))
    finish(runs, opts, rng, fine)


def abandoned(runs: list[Case], rng: random.Random, fine: Fine) -> None:
    """Drop Optimizers half-way, then run others."""
    opts = half_told(runs, rng)
    del opts[::2]
    if rng.random() < 0.5:
        gc.collect()
    for n, run in enumerate(runs):
        fine(n, random_runs.execute(run))


def threads(runs: list[Case], rng: random.Random, fine: Fine) -> None:
    """Run each in its own thread, with `minimize` or with ask and tell."""
    raised: list[BaseException] = []

    def work(n: int, *, told: bool) -> None:
        try:
            if told:
                finish([runs[n]], [optimizer(runs[n])], random.Random(n), lambda _, result: fine(n, result))
            else:
                fine(n, random_runs.execute(runs[n]))
        except BaseException as error:
            raised.append(error)

    workers = [
        threading.Thread(target=work, args=(n,), kwargs={"told": rng.random() < 0.5}, daemon=True)
        for n in range(len(runs))
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if raised:
        raise raised[0]


def tasks(runs: list[Case], rng: random.Random, fine: Fine) -> None:
    """Run each in its own asyncio task."""

    async def work(n: int) -> None:
        opt = optimizer(runs[n])
        while not opt.stop():
            await asyncio.sleep(rng.choice([0, 0, 1e-4]))
            tell(runs[n], opt)
        fine(n, opt.result)

    async def main() -> None:
        await asyncio.gather(*(work(n) for n in range(len(runs))))

    asyncio.run(main())


def nested(runs: list[Case], rng: random.Random, fine: Fine) -> None:
    """Run inside the function of a run inside the function of a run."""
    every = rng.choice([7, 20])

    def execute(level: int) -> slgh.Result:
        inner = Nesting(runs[level]["shape"])
        if level + 1 < len(runs):
            object.__setattr__(inner, "inside", lambda: fine(level + 1, execute(level + 1)))
            object.__setattr__(inner, "every", every)
        return random_runs.execute(runs[level], inner)

    fine(0, execute(0))


class Nesting(random_runs.Objective):
    """Objective that calls a function occasionally."""

    inside: Callable[[], object] | None = None
    every = 1
    calls = 0

    def _begin(self, x: Any) -> None:
        super()._begin(x)
        object.__setattr__(self, "calls", self.calls + 1)
        if self.inside is not None and self.calls % self.every == 0:
            self.inside()


def forked(runs: list[Case], rng: random.Random, fine: Fine) -> None:
    """Fork while Optimizers are half-told. The child does its own runs."""
    opts = half_told(runs, rng)
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            signal.alarm(int(LIMIT / 2))
            for n, run in enumerate(runs[:3]):
                fine(n, random_runs.execute(run))
            status = 0
        finally:
            os._exit(status)
    finish(runs, opts, rng, fine)
    if code := os.waitpid(pid, 0)[1]:
        raise AssertionError(f"A forked child hung, raised or found other results (wait status {code}).")


def interrupted(runs: list[Case], rng: random.Random, fine: Fine) -> None:
    """Press Ctrl-C in a slow run while Optimizers are half-told, then continue them."""
    opts = half_told(runs, rng)
    run = {**runs[0], "limit": {"max_evals": 400}, "vectorized": False}
    sent: list[float] = []

    def send() -> None:
        time.sleep(rng.uniform(0.0, 0.2))
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    def begin() -> None:
        if sender.ident is None:
            sender.start()

    sender = threading.Thread(target=send)
    result = None
    try:
        objective = Nesting(run["shape"], 2e-3)
        object.__setattr__(objective, "inside", begin)
        result = random_runs.execute(run, objective)
        returned = time.monotonic()
        sender.join()
    except KeyboardInterrupt:
        if result is not None:
            return  # it arrived after the run
    if result is None:
        raise AssertionError("KeyboardInterrupt came out of a run.")
    if slgh.Status.INTERRUPTED not in (result.status if run["problems"] else [result.status]):
        raise AssertionError(f"After Ctrl-C the status is {result.status}.")
    if returned - sent[0] > PROMPT:
        raise AssertionError(f"The run returned {returned - sent[0]:.1f} s after Ctrl-C.")
    finish(runs, opts, rng, fine)


MIXTURES: dict[str, Callable[[list[Case], random.Random, Fine], None]] = {
    "interleaved": interleaved,
    "beside": beside,
    "abandoned": abandoned,
    "threads": threads,
    "tasks": tasks,
    "nested": nested,
    "forked": forked,
    "interrupted": interrupted,
}


def act(case: Case, folder: Path) -> dict[str, Any]:
    """Do all runs alone, then together, and check for leftovers, in a child."""
    (folder / "now").write_text("alone")
    alone = [random_runs.facts(random_runs.execute(run)) for run in case["runs"]]
    before = set(threading.enumerate())
    wrong: list[str] = []
    process = os.getpid()

    def fine(n: int, result: slgh.Result) -> None:
        if differs := random_runs.difference(random_runs.facts(result), alone[n]):
            wrong.append(f"run {n} differs from the same run alone: {differs}")
            if os.getpid() != process:
                raise AssertionError(wrong[-1])

    (folder / "now").write_text("together")
    MIXTURES[case["how"]](case["runs"], random.Random(case["order"]), fine)
    gc.collect()
    until = time.monotonic() + 2
    while (left := set(threading.enumerate()) - before) and time.monotonic() < until:
        time.sleep(0.01)
    if left:
        wrong.append(f"Threads are left: {[thread.name for thread in left]}")
    return {"wrong": wrong}


TARGET = Concurrency()
