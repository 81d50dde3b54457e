"""Worker process of the runner: it reads cases from its input and writes their outcomes."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import sys
import traceback
from typing import Any

from fuzz.target import Case, Target
from fuzz.targets import load


def case_of(target: Target, seed: int, index: int) -> Case:
    """Return case `index` of a target. It depends only on (seed, target, index)."""
    case = target.generate(random.Random(f"{seed}/{target.name}/{index}"))
    plain: Case = json.loads(json.dumps(case))
    return plain


def run_case(target: Target, case: Case) -> dict[str, Any]:
    """Run a case: {"counts": ...}, or {"finding": kind, "message": ..., "trace": ...}."""
    try:
        with open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing):
            return {"counts": dict(target.check(case))}
    except (Exception, KeyboardInterrupt, SystemExit) as error:
        return {
            "finding": type(error).__name__,
            "message": str(error)[:2000],
            "trace": "".join(traceback.format_exception(error))[-6000:],
        }


def signature(target: str, outcome: dict[str, Any]) -> str:
    """Return the key for deduplicating findings: the target, the kind, and the message without its numbers."""
    message = re.sub(r"\[[^\]]*\]", "[]", outcome["message"])
    message = re.sub(r"\b(nan|inf|True|False|None)\b|[-+]?\d[\d.]*(e[-+]?\d+)?", "#", message)
    message = re.sub(r"(/[\w.#-]+)+", "/PATH", message)
    return f"{target} {outcome['finding']}: {message[:160]}"


def main() -> None:
    """Serve requests, one JSON object per line."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the output of a case must not be mistaken for a reply
    targets: dict[str, Target] = {}
    for line in sys.stdin:
        request = json.loads(line)
        name = request["target"]
        if name not in targets:
            targets[name] = load(name)
        case = request.get("case")
        if case is None:
            case = case_of(targets[name], request["seed"], request["index"])
        outcome = run_case(targets[name], case)
        json.dump(outcome, replies)
        replies.write("\n")
        replies.flush()


if __name__ == "__main__":
    main()
