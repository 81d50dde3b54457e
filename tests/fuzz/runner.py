"""The runner divides the time among the targets, monitors its workers, and reports their findings."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fuzz.target import Case, Target
from fuzz.targets import available, load
from fuzz.worker import case_of, signature

FIRST_SECONDS = 60.0
"""Added to the timeout of a worker's first case of a target, which imports its libraries."""

SHRINK_SECONDS = 60.0
"""Seconds for shrinking one finding."""

FINDINGS_PER_TARGET = 12
"""Maximum number of findings per target that are shrunk and printed. Further ones are counted."""

EVERY = 5.0
"""Seconds between two lines of progress."""


class Worker:
    """A process that runs cases one by one. It is started when needed, and killed with its children."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None
        self.known: set[str] = set()

    def ask(self, request: dict[str, Any], timeout: float) -> dict[str, Any]:
        """Return the outcome of a case. A hung or crashed worker is an outcome too."""
        if self.process is None:
            self._start()
        process = self.process
        assert process is not None
        assert process.stdin is not None
        first = request["target"] not in self.known
        self.known.add(request["target"])
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            line = self.lines.get(timeout=timeout + (FIRST_SECONDS if first else 0.0))
        except queue.Empty:
            self.stop()
            return {"finding": "Hung", "message": f"The case took more than {timeout:.0f} s.", "trace": ""}
        except BrokenPipeError:
            line = ""
        if not line:
            code = process.wait(10)
            self.stop()
            return {"finding": "Crashed", "message": f"The worker ended with code {code}.", "trace": ""}
        found: dict[str, Any] = json.loads(line)
        return found

    def stop(self) -> None:
        """Kill the process and its children."""
        if self.process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.reader.join()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(BrokenPipeError):
                assert pipe is not None
                pipe.close()
        self.process = None
        self.known = set()

    def _start(self) -> None:
        here = Path(__file__).resolve().parent.parent
        environment = dict(os.environ)
        environment["PYTHONPATH"] = os.pathsep.join([str(here), environment.get("PYTHONPATH", "")]).rstrip(os.pathsep)
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            environment.setdefault(name, "1")
        process = subprocess.Popen(
            [sys.executable, "-m", "fuzz.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
            start_new_session=True,
        )
        self.lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.reader = threading.Thread(target=_forward, args=(process, self.lines), daemon=True)
        self.reader.start()
        self.process = process


def _forward(process: subprocess.Popen[str], lines: queue.SimpleQueue[str]) -> None:
    """Copy the process's output lines to a queue, then an empty line when it exits."""
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line)
    lines.put("")


@dataclass
class Finding:
    """A broken contract: the first case that showed it, and the simplest."""

    target: str
    outcome: dict[str, Any]
    case: Case
    index: int
    times: int = 1
    shrunk: bool = False


@dataclass
class Campaign:
    """The state of a run of the harness, shared by the threads that drive its workers."""

    seed: int
    targets: dict[str, Target]
    deadline: float
    cases: int | None = None
    """Maximum number of cases per target."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    spent: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Seconds per target, to divide the time by weights."""
    begun: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    findings: dict[str, Finding] = field(default_factory=dict)
    further: Counter[str] = field(default_factory=Counter)

    def next(self) -> tuple[str, int] | None:
        """Return the target that is furthest behind its share, and the number of its next case."""
        with self.lock:
            open_ = [n for n in self.targets if self.cases is None or self.begun[n] < self.cases]
            if not open_ or time.monotonic() >= self.deadline:
                return None
            name = min(open_, key=lambda n: self.spent[n] / self.targets[n].weight)
            self.spent[name] += 1e-3
            self.begun[name] += 1
            return name, self.begun[name] - 1

    def drive(self) -> None:
        """Run cases in one worker until the time is up."""
        worker = Worker()
        try:
            while (chosen := self.next()) is not None:
                name, index = chosen
                request = {"target": name, "seed": self.seed, "index": index}
                began = time.monotonic()
                outcome = worker.ask(request, self.targets[name].timeout)
                self.book(worker, name, index, outcome, time.monotonic() - began)
        finally:
            worker.stop()

    def book(self, worker: Worker, name: str, index: int, outcome: dict[str, Any], seconds: float) -> None:
        """Count an outcome. Shrink it if it is a new finding."""
        with self.lock:
            self.spent[name] += seconds
            if "counts" in outcome:
                self.counts.update(outcome["counts"])
                return
            key = signature(name, outcome)
            if key in self.findings:
                self.findings[key].times += 1
                return
            if sum(f.target == name for f in self.findings.values()) >= FINDINGS_PER_TARGET:
                self.further[name] += 1
                return
            case = case_of(self.targets[name], self.seed, index)
            finding = self.findings[key] = Finding(name, outcome, case, index)
        print(f"\nFOUND {key}\ncase {index}: {json.dumps(case)}", flush=True)
        self.shrink(worker, finding)

    def shrink(self, worker: Worker, finding: Finding) -> None:
        """Replace the case of a finding by simpler ones that break the same contract, while there are any."""
        target, until = self.targets[finding.target], time.monotonic() + SHRINK_SECONDS
        progress = True
        while progress and time.monotonic() < until:
            progress = False
            for case in target.simpler(finding.case):
                if time.monotonic() >= until:
                    break
                try:
                    outcome = worker.ask({"target": finding.target, "case": case}, target.timeout)
                except (TypeError, ValueError):
                    continue
                if outcome.get("finding") == finding.outcome["finding"]:
                    finding.case, finding.outcome, finding.shrunk = case, outcome, True
                    progress = True
                    break

    def line(self) -> str:
        """Return a line of progress."""
        done = ", ".join(f"{name} {n}" for name, n in self.begun.items())
        return f"{max(0.0, self.deadline - time.monotonic()):6.0f} s left; {done}; {len(self.findings)} findings"


def report(campaign: Campaign) -> str:
    """Return the table of counts and the findings."""
    parts = [f"seed {campaign.seed}", ""]
    for name, finding in campaign.findings.items():
        case = json.dumps(finding.case)
        parts += [
            "=" * 100,
            f"FINDING ({finding.times} times): {name}",
            f"seed {campaign.seed}, case {finding.index} of {finding.target}" + (", shrunk" if finding.shrunk else ""),
            finding.outcome["message"],
            finding.outcome["trace"],
            f"case: {case}",
            f"again: python tests/fuzz --only {finding.target} --case '{case}'",
            "",
            "script:",
            campaign.targets[finding.target].script(finding.case),
        ]
    parts += ["=" * 100, "cases per target"]
    parts += [f"  {name:<16}{n:>10}   {campaign.spent[name]:8.0f} s" for name, n in campaign.begun.items()]
    parts.append("counts")
    parts += [f"  {name:<16}{n:>10}" for name, n in sorted(campaign.counts.items())]
    for name, n in campaign.further.items():
        parts.append(f"  further findings of {name}, not printed: {n}")
    parts.append(f"findings: {len(campaign.findings)}")
    return "\n".join(parts)


def fuzz(
    names: Sequence[str], *, seed: int, seconds: float, jobs: int = 1, cases: int | None = None, quiet: bool = False
) -> Campaign:
    """Run the targets until the time limit, or until each has run its maximum number of cases."""
    targets = {name: load(name) for name in names}
    campaign = Campaign(seed, targets, time.monotonic() + seconds, cases)
    threads = [threading.Thread(target=campaign.drive, daemon=True) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    try:
        while any(thread.is_alive() for thread in threads):
            for thread in threads:
                thread.join(EVERY / len(threads))
            if not quiet:
                print(campaign.line(), flush=True)
    except KeyboardInterrupt:
        print("Interrupted. Findings so far:", flush=True)
    return campaign


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line, run, and report. Return 1 if anything was found."""
    parser = argparse.ArgumentParser(prog="python tests/fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", nargs="+", metavar="NAME", help=f"targets, of {', '.join(available())}")
    parser.add_argument("--cases", type=int, help="maximum number of cases per target")
    parser.add_argument("--case", help="run one case, given as JSON; requires --only with one target")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="run the findings in a file written by --out")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the findings as JSON")
    given = parser.parse_args(arguments)
    names = given.only or available()
    if unknown := set(names) - set(available()):
        parser.error(f"unknown target {sorted(unknown)[0]!r}. Available: {', '.join(available())}")
    if given.case is not None:
        load(names[0]).check(json.loads(given.case))
        print("The case passes.")
        return 0
    if given.replay is not None:
        return replay(given.replay)
    campaign = fuzz(names, seed=given.seed, seconds=60 * given.minutes, jobs=given.jobs, cases=given.cases)
    print(report(campaign))
    if given.out is not None:
        found = [
            {"signature": key, "target": f.target, "case": f.case, "times": f.times, **f.outcome}
            for key, f in campaign.findings.items()
        ]
        summary = {"seed": given.seed, "cases": campaign.begun, "counts": campaign.counts, "findings": found}
        given.out.write_text(json.dumps(summary, indent=1))
    return int(bool(campaign.findings))


def replay(path: Path) -> int:
    """Run the cases of a file of findings again, each in a worker."""
    worker, failed = Worker(), 0
    for finding in json.loads(path.read_text())["findings"]:
        name = finding["target"]
        outcome = worker.ask({"target": name, "case": finding["case"]}, load(name).timeout)
        failed += "finding" in outcome
        print(f"{finding['signature'][:90]}: {outcome.get('finding', 'passes')}")
    worker.stop()
    return int(failed > 0)
