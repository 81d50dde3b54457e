"""Run a command: prepare its arguments, and turn exceptions into messages on standard error and an exit code."""

from __future__ import annotations

import itertools
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import typer
import typer.core

from slgh.cli.declaration import declared
from slgh.cli.errors import (
    Refused,
    Unwritten,
    UserCodeFailed,
    print_error,
    print_message,
    printable,
    split_tip,
)
from slgh.cli.options import AttackOptions, CommonOptions, MinimizeOptions, ProbeOptions

FORMULA_COMMANDS: dict[str, type[CommonOptions]] = {"minimize": MinimizeOptions, "probe": ProbeOptions}
PLOT_COMMANDS = FORMULA_COMMANDS | {"attack": AttackOptions}

DEBUG_TIP = "Pass --debug to see the traceback."


def hide_flag_types(params: Any) -> Any:
    """Remove the type of flags from the help, including the flags that Typer adds."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


class Command(typer.core.TyperCommand):
    """A command."""

    def get_params(self, ctx: Any) -> Any:
        """Return the parameters, including --help."""
        return hide_flag_types(super().get_params(ctx))


class Group(typer.core.TyperGroup):
    """A command with subcommands."""

    def get_params(self, ctx: Any) -> Any:
        """Return the parameters, including --help."""
        return hide_flag_types(super().get_params(ctx))


class Commands(Group):
    """The group of all commands."""

    def main(self, args: Sequence[str] | None = None, *, standalone_mode: bool = True, **extra: Any) -> Any:  # type: ignore[override]
        """Run a command. If --debug is among its arguments, the traceback of an error is printed."""
        arguments = list(sys.argv[1:] if args is None else args)
        with warnings.catch_warnings():
            warnings.showwarning = show_warning
            try:
                code = super().main(sort_arguments(add_bare_values(arguments)), standalone_mode=False, **extra)
                sys.stdout.flush()  # here, where a closed pipe can be distinguished from a bug
            except (BrokenPipeError, SystemExit) as end:
                if not is_closed_pipe(end):
                    raise
                code = leave_pipe()
            except Exception as error:
                wrong, tip, code = explain(error)
                if "--debug" in arguments:
                    print(printable("".join(traceback.format_exception(error))), end="", file=sys.stderr)
                    tip = tip.removesuffix(DEBUG_TIP).rstrip()
                print_error(wrong, tip)
        code = code if isinstance(code, int) else 0
        if not standalone_mode:
            return code
        sys.exit(code)


def add_bare_values(args: list[str]) -> list[str]:
    """Add the values of options that are typed without one, which Typer does not support.

    >>> add_bare_values(["minimize", "x**2", "--plot", "--x0", "1"])
    ['minimize', 'x**2', '--plot', 'slgh-path.png', '--x0', '1']
    """
    if not args or args[0] not in PLOT_COMMANDS:
        return args
    bare = {each.flag: each.bare for each in declared(PLOT_COMMANDS[args[0]]).values() if each.bare is not None}
    completed: list[str] = []
    for word, following in itertools.zip_longest(args, args[1:], fillvalue="--"):
        completed += [word, bare[word]] if word in bare and following.startswith("-") else [word]
    return completed


def sort_arguments(args: list[str]) -> list[str]:
    """Move formulas behind the options, so that one that begins with a minus sign is not read as an option.

    The numbers of --x0 may be separated by spaces.

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
    """Return True if the reader of the output has closed the pipe. Rich and Typer turn that into a SystemExit."""
    return isinstance(error, BrokenPipeError) or isinstance(error.__context__, BrokenPipeError)


def leave_pipe() -> int:
    """Discard all further output, also what is still buffered. Return the exit code that SIGPIPE would give."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    return 141


@runtime_checkable
class UsageProblem(Protocol):
    """An exception of Typer about the command line. Its class is private and depends on the version."""

    ctx: typer.Context | None

    def format_message(self) -> str:
        """Return the message."""
        ...


def explain(error: Exception) -> tuple[str, str, int]:
    """Return what is wrong, what to do, and the exit code."""
    from slgh import checks  # here, since they take long to import, and most commands end without an error
    from slgh.cli.wording import explain_argument, in_options

    text = " ".join(str(error).split())
    notes = [f"{note[:1].upper()}{note[1:]}" for note in _notes_of(error)]
    if isinstance(error, Refused):
        return *split_tip(text), 2
    if isinstance(error, Unwritten):
        return *split_tip(text), 1
    if isinstance(error, UsageProblem):
        path = error.ctx.command_path if error.ctx else "slgh"
        wrong, tip = split_tip(error.format_message())
        return f"{wrong.rstrip('.')}.", f"{tip} Try '{path} --help'.".strip(), 2
    if isinstance(error, UserCodeFailed):
        return " ".join([text, *notes]), DEBUG_TIP, 1
    if isinstance(error, checks.NonfiniteError):
        return *split_tip(in_options(text)), 4
    if isinstance(error, checks.ArgumentError):
        return *split_tip(explain_argument(error)), 2
    wrong = f"internal error. {type(error).__name__}: {text.rstrip('.')}."
    return " ".join([wrong, *notes]), f"Please report it. {DEBUG_TIP}", 1


def _notes_of(error: Exception) -> list[str]:
    return [note.removeprefix("slgh: ") for note in getattr(error, "__notes__", ())]


def show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: Any, **__: Any
) -> None:
    """Print a warning in one line."""
    text = " ".join(str(message).split())
    print_message("warning", f"{category.__name__}: {text} ({filename}:{lineno})")
