"""How commands end: an exit code, and for errors one line with the remedy."""

from __future__ import annotations

import os
import re
import sys
import traceback
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

import typer
import typer.core

from slgh.cli.command import untyped_flags
from slgh.cli.common import Refused, Unwritten, printable
from slgh.cli.user_code import UserCodeFailed
from slgh.method import SLOTS
from slgh.smoothing import FormulaError

EXIT_CODES = {
    0: "the planned end: iterations completed, or target reached",
    1: "your function failed, a file cannot be written, or slgh has a defect",
    2: "bad input",
    3: "cut short by --max-evals, --max-queries or --max-seconds",
    4: "gave up: values were not finite",
    130: "interrupted by Ctrl-C",
    141: "nobody reads the output any more, as after | head",
}

OPTIONS = (
    {
        name: f"--{name.replace('_', '-')}"
        for name in (
            *("x0", "d", "fun", "grad", "vectorized", "fallback", "bounds", "method", "max_evals", "max_iter"),
            *("max_seconds", "target", "seed", "workers", "on_nonfinite", "steps", "save_every"),
            *("t1", "gamma", "eta", "step", "samples", "floor", "noise"),
            *("model", "ids", "weights", "folder", "pixels", "outputs", "max_queries", "stop", "weight", "kappa"),
            *("model_batch_size", "batch_size", "device", "epochs", "held_out"),
        )
    }
    | {"images": "--inputs: images", "labels": "--inputs: labels", "targets": "--target"}
    | {"sample_xi": "--terms", "checkpoint": "--run", "t": "--radii", "formula": "FORMULA"}
    | {slot: f"--set {slot}" for slot in SLOTS}
)
"""What arguments of the library are called here."""

ALIASES = {"minimize": "minimize"}
"""Other spellings of commands, which no list shows."""

DEBUG = " --debug shows the traceback."

UsageError: Any = typer.BadParameter.__base__
"""What Typer raises about options; it has no public name, and not the same module in all versions."""


class Commands(typer.core.TyperGroup):
    """The group of all commands, which turns exceptions into one line and an exit code."""

    def main(self, args: Sequence[str] | None = None, *, standalone_mode: bool = True, **extra: Any) -> Any:  # type: ignore[override]
        """Run a command. With --debug among its arguments, errors keep their traceback."""
        arguments = list(sys.argv[1:] if args is None else args)
        with warnings.catch_warnings():
            warnings.showwarning = show_warning
            try:
                code = super().main(arguments, standalone_mode=False, **extra)
                sys.stdout.flush()  # here, where a closed pipe can be told from a defect
            except (BrokenPipeError, SystemExit) as end:
                if not is_closed_pipe(end):
                    raise
                code = leave_pipe()
            except Exception as error:
                message, code = explain(error)
                if "--debug" in arguments:
                    print(printable("".join(traceback.format_exception(error))), end="", file=sys.stderr)
                    message = message.removesuffix(DEBUG)
                print(f"slgh: {printable(message)}", file=sys.stderr)
        code = code if isinstance(code, int) else 0
        if not standalone_mode:
            return code
        sys.exit(code)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command by its name, or by another spelling of it."""
        return super().get_command(ctx, ALIASES.get(cmd_name, cmd_name))

    def get_params(self, ctx: Any) -> Any:
        """The parameters of slgh itself."""
        return untyped_flags(super().get_params(ctx))


def is_closed_pipe(error: BaseException) -> bool:
    """Whether whoever read our output has gone; Rich and Typer have made a SystemExit of it, each in its way."""
    return isinstance(error, BrokenPipeError) or isinstance(error.__context__, BrokenPipeError)


def leave_pipe() -> int:
    """Write no more, not even what is buffered as the interpreter ends; returns the exit code, as SIGPIPE's."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    return 141


def explain(error: Exception) -> tuple[str, int]:
    """An exception in one line, and its exit code."""
    text = " ".join(str(error).split())
    notes = "".join(f" {note.removeprefix('slgh: ')}" for note in getattr(error, "__notes__", ()))
    if isinstance(error, Refused):
        return text, 2
    if isinstance(error, Unwritten):
        return text, 1
    if isinstance(error, UsageError):
        where = getattr(error, "ctx", None)
        path = where.command_path if where else "slgh"
        said = " ".join(error.format_message().split()).rstrip(".")
        return f"{said}{'' if said.endswith('?') else '.'} Try '{path} --help'.", 2
    if isinstance(error, UserCodeFailed):
        return text + notes.replace(" raised", " Raised") + DEBUG, 1
    if text.startswith("`"):  # as all refusals of the library do, with the name of the argument
        if isinstance(error, FormulaError):
            return text.replace("`formula`", OPTIONS["formula"]), 2
        if isinstance(error, FloatingPointError):
            return in_options(text), 4
        if isinstance(error, ValueError | TypeError | ImportError | OSError):
            return in_options(text), 2
    return f"{type(error).__name__}: {text.rstrip('.')}.{notes} This was not foreseen.{DEBUG}", 1


def in_options(text: str) -> str:
    """A sentence of the library about its arguments, as one about options.

    >>> in_options("`gamma` must lie in (0, 1), got gamma=1.5.")
    '--gamma must lie in (0, 1), got --gamma 1.5.'
    >>> in_options('Pass step=... (or step="theory" with L1=...).')
    'Pass --step NUMBER (or --step theory with --set L1=NUMBER).'
    >>> in_options("say which range is meant with pixels=(low, high).")
    'say which range is meant with --pixels low,high.'
    """

    def given(found: re.Match[str]) -> str:
        name, value = found[1], "NUMBER" if found[3] == "..." else found[3]
        if name in OPTIONS:
            return f"{OPTIONS[name]} {value}"
        return f"--set {name}={value}" if found[3] == "..." else found[0]

    text = re.sub(r"`(\w+)`", lambda found: OPTIONS.get(found[1], found[0]), text)
    text = re.sub(r"\bpixels=\(([^\s,]+), ([^\s,]+)\)", r"--pixels \1,\2", text)
    return re.sub(r"\b(\w+)=(['\"]?)(\.\.\.|[^\s'\",;()]*[^\s'\",;().])\2", given, text)


def as_options(arguments: Mapping[str, Any]) -> str:
    """Arguments of the library as they are typed here.

    >>> as_options({"t1": 1.5, "max_iter": 20000})
    '--t1 1.5 --max-iter 20000'
    """
    shown = {name: f"{value:.6g}" if isinstance(value, float) else str(value) for name, value in arguments.items()}
    return " ".join(f"{OPTIONS[name]} {value}" for name, value in shown.items())


def show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """A warning in one line."""
    text = printable(" ".join(str(message).split()))
    print(f"slgh: {category.__name__}: {text} ({filename}:{lineno})", file=sys.stderr)
