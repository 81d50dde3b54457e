"""Run a command: read its line, and turn exceptions into one line on standard error and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import typer
import typer.core

from slgh import checks
from slgh.cli.declaration import declared
from slgh.cli.errors import Refused, Unwritten, UserCodeFailed, complain, printable
from slgh.cli.options import MinimizeOptions, ProbeOptions
from slgh.cli.wording import explain_argument, in_options

FORMULA_COMMANDS = {"minimize": MinimizeOptions, "probe": ProbeOptions}

DEBUG = " --debug shows the traceback."


def hide_flag_types(params: Any) -> Any:
    """Show no type beside flags in the help, not even beside those that Typer adds itself."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


class Command(typer.core.TyperCommand):
    """A command."""

    def get_params(self, ctx: Any) -> Any:
        """Return the parameters, --help among them."""
        return hide_flag_types(super().get_params(ctx))


class Group(typer.core.TyperGroup):
    """A command with subcommands."""

    def get_params(self, ctx: Any) -> Any:
        """Return the parameters, --help among them."""
        return hide_flag_types(super().get_params(ctx))


class Commands(Group):
    """The group of all commands."""

    def main(self, args: Sequence[str] | None = None, *, standalone_mode: bool = True, **extra: Any) -> Any:  # type: ignore[override]
        """Run a command. With --debug among its arguments, errors keep their traceback."""
        arguments = list(sys.argv[1:] if args is None else args)
        with warnings.catch_warnings():
            warnings.showwarning = show_warning
            try:
                code = super().main(sort_arguments(arguments), standalone_mode=False, **extra)
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
                complain(message)
        code = code if isinstance(code, int) else 0
        if not standalone_mode:
            return code
        sys.exit(code)


def sort_arguments(args: list[str]) -> list[str]:
    """Put formulas behind the options, so that one that begins with a minus sign is not taken for an option.

    The numbers of --x0 may have spaces between.

    >>> sort_arguments(["minimize", "-x**2", "--x0", "-3", "2", "--seed", "1"])
    ['minimize', '--x0', '-3,2', '--seed', '1', '--', '-x**2']
    """
    if "--" in args or not args or args[0] not in FORMULA_COMMANDS:
        return args
    declarations = declared(FORMULA_COMMANDS[args[0]]).values()
    valued = {each.flag for each in declarations if each.kind is not bool}
    options: list[str] = []
    formulas: list[str] = []
    left = list(args)
    while left:
        word = left.pop(0)
        if word in valued and left:
            value = left.pop(0)
            while word == "--x0" and left and _is_number(left[0]):
                value += f",{left.pop(0)}"
            options += [word, value]
        elif word.startswith("-") and word[1:2] not in ("", "-") and word != "-h":
            formulas.append(word)
        else:
            options.append(word)
    return [*options, "--", *formulas] if formulas else options


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def is_closed_pipe(error: BaseException) -> bool:
    """Return True if nobody reads the output any more. Rich and Typer make a SystemExit of it, each in its way."""
    return isinstance(error, BrokenPipeError) or isinstance(error.__context__, BrokenPipeError)


def leave_pipe() -> int:
    """Write no more, not even what is buffered as the interpreter ends. Return the exit code, as SIGPIPE's."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    return 141


@runtime_checkable
class UsageProblem(Protocol):
    """An exception of Typer about the command line. Its class is not public, and not the same in all versions."""

    ctx: typer.Context | None

    def format_message(self) -> str:
        """Return the message."""
        ...


def explain(error: Exception) -> tuple[str, int]:
    """Return an exception in one line, and its exit code."""
    text = " ".join(str(error).split())
    notes = [note.removeprefix("slgh: ") for note in getattr(error, "__notes__", ())]
    if isinstance(error, Refused):
        return text, 2
    if isinstance(error, Unwritten):
        return text, 1
    if isinstance(error, UsageProblem):
        path = error.ctx.command_path if error.ctx else "slgh"
        said = " ".join(error.format_message().split()).rstrip(".")
        return f"{said}{'' if said.endswith('?') else '.'} Try '{path} --help'.", 2
    if isinstance(error, UserCodeFailed):
        return " ".join([text, *(f"{note[:1].upper()}{note[1:]}" for note in notes)]) + DEBUG, 1
    if isinstance(error, FloatingPointError) and text.startswith("`"):
        return in_options(text), 4
    if checks.is_about_argument(error):
        return " ".join(explain_argument(error).split()), 2
    return " ".join(
        [f"{type(error).__name__}: {text.rstrip('.')}.", *notes, f"Internal error. Please report it.{DEBUG}"]
    ), 1


def show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: Any, **__: Any
) -> None:
    """Print a warning in one line."""
    text = " ".join(str(message).split())
    complain(f"{category.__name__}: {text} ({filename}:{lineno})")
