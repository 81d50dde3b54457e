"""How a command reads its line, formulas that begin with a minus sign among it, and shows its options."""

from __future__ import annotations

import re
from typing import Any

import typer.core

TYPED = "slgh.typed"
"""Where a context keeps the arguments as they were typed."""


class Command(typer.core.TyperCommand):
    """A command whose help shows no type beside a flag, which takes no value."""

    def get_params(self, ctx: Any) -> Any:
        """The parameters, --help among them."""
        return untyped_flags(super().get_params(ctx))


def untyped_flags(params: Any) -> Any:
    """The parameters, with nothing to be shown for the values of flags."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


class FormulaCommand(Command):
    """A command whose argument may begin with a minus sign, and whose start may be numbers with spaces between."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put formulas behind the options, where none of them is taken for one."""
        ctx.meta[TYPED] = list(args)
        options: list[Any] = [param for param in self.params if param.param_type_name == "option"]
        valued = {name for option in options if not option.is_flag for name in option.opts}
        return super().parse_args(ctx, sort_arguments(args, valued))


def sort_arguments(args: list[str], valued: set[str]) -> list[str]:
    """Options first, then formulas; `valued` are the options that a value follows.

    >>> sort_arguments(["-x**2", "--x0", "-3", "2", "--seed", "1"], {"--x0", "--seed"})
    ['--x0', '-3,2', '--seed', '1', '--', '-x**2']
    """
    if "--" in args:
        return args
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
        elif re.match(r"-[^-]", word):
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
