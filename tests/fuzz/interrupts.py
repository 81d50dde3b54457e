"""Press Ctrl-C at random moments, several times in a row. A Result must return soon, and nothing may be lost."""

from __future__ import annotations

import math
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

import slgh
from fuzz import random_runs, zygote
from fuzz.target import Case, Violation

WAYS = ("serial", "serial", "callback", "workers", "workers", "threads", "nested", "tell")

PROMPT = 2.5
"""Seconds from the first Ctrl-C in which a run must return, even if an evaluation in a worker takes longer."""

LIMIT = 20.0
"""Seconds after which an interrupted process counts as hung."""

UNDISTURBED = 60.0
"""Seconds for the same run without Ctrl-C, and for resuming it."""

QUERY = 100
"""Maximum number of points of one query in these runs."""

RECENT = 4
"""Queries at the end of an interrupted run that may be lost: those of the interrupted iteration."""


class Interrupts:
    """A case is a run, a way of calling fun, and the times of SIGINT: after `first` seconds, then after `gaps`."""

    name = "interrupts"
    weight = 2.0
    timeout = 120.0

    def generate(self, rng: random.Random) -> Case:
        """Draw a case."""
        way = rng.choice(WAYS)
        run = random_runs.draw(rng, evals=200)
        run["seed"] = run["seed"] or 0
        if way not in ("serial", "callback"):
            run |= {"vectorized": False, "problems": 0}
        delay = rng.choice([0.0, 5e-4, 5e-3])
        if way == "workers":
            run["workers"] = 2
            delay = rng.choice([0.0, 0.01, 0.5, 3.0])
        elif way == "threads":
            delay = rng.choice([0.0, 0.01, 0.5])
        elif way == "nested":
            run |= {"d": min(run["d"], 3), "stochastic": False, "shape": "bowl"}
            run["limit"] = {kind: min(number, 40) for kind, number in run["limit"].items()}
            if run["method"] in (*random_runs.FIRST_ORDER, *random_runs.STOCHASTIC):
                run["method"] = "zoslgh_r"
        return {
            "run": run,
            "way": way,
            "inner": rng.choice(["auto", "zoslgh_r"]),
            "delay": delay,
            "first": round(rng.uniform(0, 0.6) ** 2, 4),
            "gaps": [rng.choice([0.0, round(rng.uniform(0, 0.05), 4)]) for _ in range(rng.randint(0, 4))],
            "group": way == "workers" and rng.random() < 0.5,
            "every": rng.choice([{}, {"every_iterations": 3}, {"every_seconds": 0.0}]),
        }

    def check(self, case: Case) -> dict[str, int]:
        """Interrupt the run, resume it, and compare with the uninterrupted run."""
        if not zygote.available:
            return {"skipped": 1}
        with zygote.scratch() as scratch:
            (scratch / "saved").mkdir()
            told = {**case, "checkpoint": str(scratch / "saved" / "run.npz"), "tally": str(scratch / "tally")}
            child = zygote.start("numpy", "interrupts.sit", told, scratch / "sitting", LIMIT)
            try:
                ended = child.wait()
            finally:
                left = child.left_behind(0.0 if not ended else zygote.LEAVE)
            found = child.answer()
            if found is None:
                raise Violation(f"The interrupted process hung for {LIMIT} s, or died. {child.complaint()}")
            if "error" in found:
                raise Violation(f"The interrupted process failed: {found['error']}")
            if left:
                raise Violation(f"{len(left)} processes outlive an interrupted run: {left}")
            refuse_answer(found)
            expected = zygote.ask("numpy", "interrupts.settle", told, scratch / "settled", UNDISTURBED)
            if "error" in expected:
                raise Violation(f"The run cannot be resumed after Ctrl-C: {expected['error']}")
            if case["way"] != "tell" and sorted(os.listdir(scratch / "saved")) != ["run.npz"]:
                raise Violation(f"An interrupted run left the files {sorted(os.listdir(scratch / 'saved'))}.")
        if differs := random_runs.difference(expected["resumed"], expected["alone"]):
            raise Violation(f"Resumed after Ctrl-C, the run differs from the undisturbed one: {differs}")
        if found["facts"] is not None:
            refuse_result(case, found, expected)
        return {"configurations": 1, "interrupts": found["sent"]}

    def simpler(self, case: Case) -> Iterator[Case]:
        """Yield simpler variants."""
        for n in range(len(case["gaps"])):
            yield {**case, "gaps": case["gaps"][:n]}
        if case["group"]:
            yield {**case, "group": False}
        if case["every"]:
            yield {**case, "every": {}}
        for run in random_runs.simpler_runs(case["run"]):
            if run["workers"] == case["run"]["workers"]:
                yield {**case, "run": run}

    def script(self, case: Case) -> str:
        """Return a script in which a thread sends the signals."""
        way = case["way"]
        call = {
            "serial": "slgh.minimize(f, x0, **options)",
            "workers": "slgh.minimize(f, x0, **options)",
            "callback": "slgh.minimize(f, x0, callback=lambda r: time.sleep(0.002), **options)",
            "threads": "slgh.minimize(f, x0, **{**options, 'workers': ThreadPoolExecutor(2)})",
            "nested": "slgh.minimize(nested, x0, **options)",
            "tell": "told()",
        }[way]
        text = random_runs.written(case["run"]) + f"DELAY = {case['delay']}\n"
        text += "import os, signal, threading\n"
        if way == "threads":
            text += "from concurrent.futures import ThreadPoolExecutor\n"
        if way == "nested":
            inner = INNER | {"method": case["inner"]} | random_runs.PARAMS[case["inner"]]
            text += (
                "def nested(x, *xi):\n"
                f"    r = slgh.minimize(f, x, **{inner!r})\n"
                "    if r.status == slgh.Status.INTERRUPTED:\n"
                "        raise KeyboardInterrupt\n"
                "    return r.fun\n"
            )
        if way == "tell":
            text += (
                "def told():\n"
                "    del options['vectorized'], options['workers'], options['grad']\n"
                "    opt = slgh.Optimizer(x0, **options)\n"
                "    while not opt.stop():\n"
                "        try:\n"
                "            points = opt.ask()\n"
                "            opt.tell(points, [f(p) for p in points])\n"
                "        except KeyboardInterrupt:\n"
                "            print('interrupted in the loop')\n"
                "    return opt.result\n"
            ).replace(
                ", options['grad']", "" if case["run"]["method"] not in random_runs.FIRST_ORDER else ", options['grad']"
            )
        kill = "os.killpg(os.getpgid(0), signal.SIGINT)" if case["group"] else "os.kill(os.getpid(), signal.SIGINT)"
        return text + (
            "def send():\n"
            f"    for pause in {[case['first'], *case['gaps']]}:\n"
            "        time.sleep(pause)\n"
            f"        {kill}\n"
            "if __name__ == '__main__':\n"
            "    signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            "    begin = time.monotonic()\n"
            "    threading.Thread(target=send, daemon=True).start()\n"
            f"    print({call})\n"
            "    print(time.monotonic() - begin, 's', signal.getsignal(signal.SIGINT))\n"
        )


def refuse_answer(found: dict[str, Any]) -> None:
    """Raise unless a result was returned in time."""
    if found["lost"]:
        raise Violation(f"KeyboardInterrupt came out of a run after {found['calls']} evaluations: {found['lost']}")
    if found["handler"] != "default":
        raise Violation(f"The SIGINT handler was not restored: {found['handler']}")
    if found["late"] > PROMPT:
        raise Violation(f"The run returned {found['late']:.1f} s after Ctrl-C.")


def refuse_result(case: Case, found: dict[str, Any], expected: dict[str, Any]) -> None:
    """Raise unless the result of an interrupted run is correct."""
    run = case["run"]
    if not found["interrupted"]:
        if differs := random_runs.difference(found["facts"], expected["alone"]):
            raise Violation(f"A run that ended despite Ctrl-C differs from the uninterrupted one: {differs}")
        return
    counted = case["way"] in ("serial", "callback") and not (run["problems"] and not run["vectorized"])
    # Ctrl-C may arrive after a call was counted and before it reaches the tally: one point, or one query.
    slack = QUERY * max(1, run["problems"]) if run["vectorized"] else 1
    if counted and not found["calls"] <= found["counted"] <= found["calls"] + slack:
        raise Violation(f"nfev + njev is {found['counted']}, but {found['calls']} evaluations were started.")
    if run["stochastic"] or run["problems"] or case["way"] in ("nested", "tell"):
        return
    best, fun = found["fun_best"], found["fun"]
    tolerance = 1e-12 if run["dtype"] == "float64" else 1e-5
    for name, told, actual in (("fun", fun, found["f(x)"]), ("fun_best", best, found["f(x_best)"])):
        if math.isfinite(told) and abs(told - actual) > tolerance * (1 + abs(actual)):
            raise Violation(f"After Ctrl-C {name} is {told}, but f there is {actual}.")
    if math.isfinite(best) and not math.isfinite(fun):
        raise Violation(f"After Ctrl-C fun is {fun}, although f is known to be {best} at x_best.")
    if math.isfinite(fun) and not best <= fun:
        raise Violation(f"After Ctrl-C fun_best is {best}, above fun = {fun}.")
    if case["way"] in ("serial", "callback") and expected["queries"]:
        ends = np.cumsum([size for size, _ in expected["queries"]])
        least = np.minimum.accumulate([low for _, low in expected["queries"]])
        known = int(np.searchsorted(ends, found["calls"], side="right"))
        if known > RECENT and best > (low := least[known - RECENT - 1]) + tolerance * (1 + abs(low)):
            raise Violation(f"After Ctrl-C fun_best is {best}, but {low} was evaluated.")


INNER: dict[str, Any] = {"max_evals": 40, "seed": 0}
"""Settings of a run inside fun."""


def callers(case: Case, *, tally: str, delay: float) -> tuple[Any, dict[str, Any]]:
    """Return the objective and the options of `minimize` for this way of calling fun."""
    objective = random_runs.Objective(case["run"]["shape"], delay, tally)
    if case["way"] == "callback":
        return objective, {"callback": lambda result: time.sleep(0.002)}
    if case["way"] == "nested":

        def nested(x: Any) -> float:
            inner = INNER | {"method": case["inner"]} | random_runs.PARAMS[case["inner"]]
            result = slgh.minimize(objective, x, **inner)
            if result.status == slgh.Status.INTERRUPTED:
                raise KeyboardInterrupt
            return float(result.fun)

        return nested, {}
    return objective, {}


class Sitting:
    """Start a run once, then ignore SIGINT, and reach the end although any step may be interrupted."""

    def __init__(self, begin: Callable[[], slgh.Result]) -> None:
        self.begin: Callable[[], slgh.Result] | None = begin
        self.result: slgh.Result | None = None
        self.error: BaseException | None = None
        self.handler: Any = None
        self.returned = math.inf

    def survive(self, layers: int = 10) -> None:
        """Continue in nested `try` statements, more of them than there are signals."""
        try:
            if layers:
                self.survive(layers - 1)
            self._go_on()
        except KeyboardInterrupt as error:
            self.returned = min(self.returned, time.monotonic())
            self.error = self.error or error

    def _go_on(self) -> None:
        if self.begin is not None:
            begin, self.begin = self.begin, None
            self.result = begin()
        self.returned = min(self.returned, time.monotonic())
        if self.handler is None:
            handler = signal.getsignal(signal.SIGINT)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            self.handler = handler


def sit(case: Case, folder: Path) -> dict[str, Any]:
    """Run under signals, in a child."""
    objective, options = callers(case, tally=case["tally"], delay=case["delay"])
    checkpoint = slgh.Checkpoint(path=case["checkpoint"], **case["every"])
    Path(case["tally"]).touch()
    if case["way"] == "threads":
        options["workers"] = ThreadPoolExecutor(2)
    sent: list[float] = []

    def send() -> None:
        for pause in (case["first"], *case["gaps"]):
            time.sleep(pause)
            sent.append(time.monotonic())
            os.killpg(os.getpgid(0), signal.SIGINT) if case["group"] else os.kill(os.getpid(), signal.SIGINT)

    def begin() -> slgh.Result:
        sender.start()
        if case["way"] == "tell":
            return _tell(case)
        return random_runs.execute(case["run"], objective, checkpoint=checkpoint, **options)

    sender = threading.Thread(target=send, daemon=True)
    sitting = Sitting(begin)
    sitting.survive()
    result, error = sitting.result, sitting.error
    sender.join()
    calls = os.path.getsize(case["tally"])
    lost = ""
    if result is None and error is not None and calls:
        lost = _inside(error.__traceback__)
    answer: dict[str, Any] = {
        "facts": None if result is None else random_runs.facts(result),
        "lost": lost,
        "handler": "default" if sitting.handler is signal.default_int_handler else repr(sitting.handler),
        "late": max(0.0, sitting.returned - sent[0]) if sent else 0.0,
        "sent": len(sent),
        "calls": calls,
    }
    if result is None:
        return answer
    statuses = {slgh.Status(int(status)) for status in np.ravel(result.status)}
    answer["interrupted"] = slgh.Status.INTERRUPTED in statuses
    answer["counted"] = int(np.sum(result.nfev) + np.sum(result.njev))
    if not case["run"]["problems"] and not case["run"]["stochastic"] and case["way"] != "nested":
        f = random_runs.Objective(case["run"]["shape"])
        answer |= {"fun": float(result.fun), "fun_best": float(result.fun_best)}
        answer |= {"f(x)": float(f(result.x)), "f(x_best)": float(f(result.x_best))}
    return answer


def _inside(trace: TracebackType | None) -> str:
    """Return where in slgh an exception came from.

    Return nothing if `minimize` was returning, or if it came from outside.
    """
    frames = []
    while trace is not None:
        frames.append((trace.tb_frame, trace.tb_lineno))
        trace = trace.tb_next
    own = [n for n, (frame, _) in enumerate(frames) if f"{os.sep}slgh{os.sep}" in frame.f_code.co_filename]
    if not own:
        return ""
    last = frames[-1][0]
    returning = os.path.basename(last.f_code.co_filename) in ("minimize.py", "interrupts.py")
    handling = any(value == signal.SIGINT for value in last.f_locals.values() if isinstance(value, int))
    if returning and own[-1] == len(frames) - 1 and not handling:
        return ""  # the default handler was already restored: slgh cannot prevent that
    return " > ".join(f"{os.path.basename(f.f_code.co_filename)}:{line} {f.f_code.co_name}" for f, line in frames[1:])


def _tell(case: Case) -> slgh.Result:
    """Ask and tell to the end, whatever is raised."""
    run = case["run"]
    f = random_runs.Objective(run["shape"], case["delay"])
    opt = slgh.Optimizer(
        random_runs.start_of(run), gradients=run["method"] in random_runs.FIRST_ORDER, **random_runs.settings(run)
    )
    patience = 10_000
    while not opt.stop() and patience:
        patience -= 1
        try:
            points = opt.ask()
            extra = () if opt.xi is None else (opt.xi,)
            opt.tell(points, f.grad(points, *extra) if opt.asks == "grad" else f(points, *extra))
        except KeyboardInterrupt:
            continue
    return opt.result


def settle(case: Case, folder: Path) -> dict[str, Any]:
    """Resume from the checkpoint, and run alone, in a child.

    Also return the size and the lowest value of each query.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    objective, options = callers({**case, "delay": 0.0}, tally="", delay=0.0)
    options.pop("callback", None)
    run = {**case["run"], "workers": None}
    queries: list[tuple[int, float]] = []

    def record(call: Any, items: list[Any]) -> list[Any]:
        values = [call(item) for item in items]
        finite = [float(v) for v in values if np.ndim(v) == 0 and math.isfinite(v)]
        queries.append((len(items), min(finite, default=math.inf)))
        return values

    recording = {} if run["vectorized"] or run["problems"] else {"workers": record}
    alone = random_runs.facts(random_runs.execute(run, objective, **options, **recording))
    resumed = alone
    if case["way"] != "tell":
        resumed = random_runs.facts(random_runs.execute(run, objective, checkpoint=case["checkpoint"], **options))
    return {"alone": alone, "resumed": resumed, "queries": queries}


TARGET = Interrupts()
