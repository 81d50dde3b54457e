"""Declare an option once: a field of a dataclass, of which Typer's command and everything else is made.

The options of a command are the fields of a frozen dataclass, made by `option`. Typer's command (`command`), the file
of a kept run, the command that repeats a run (`words`) and the errors read these declarations.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from types import MappingProxyType
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from slgh.cli.errors import fail
from slgh.cli.parse import read_count

Read = Callable[[str], Any]
Options = TypeVar("Options")


class Role(Enum):
    """The purpose of an option, which decides where its value goes."""

    PROBLEM = auto()
    """The problem: the function or the images, and the start. Must be the same when a kept run goes on."""
    CODE = auto()
    """Python code of the user's. May be spelled differently when a kept run goes on, as from another folder."""
    PARAMETER = auto()
    """A hyperparameter of the method. Must be the same when a kept run goes on."""
    ARGUMENT = auto()
    """Another argument of the library, passed as it is. Must be the same when a kept run goes on."""
    LIMIT = auto()
    """A limit, passed as it is. May change when a kept run goes on."""
    EXECUTION = auto()
    """An argument without influence on the result, passed as it is. May change when a kept run goes on."""
    PICTURE = auto()
    """A picture. The command that repeats a run draws it again."""
    OUTPUT = auto()
    """Other output, which the command that repeats a run leaves out."""


class HelpPanel(StrEnum):
    """A panel of the help, which groups options of one kind."""

    FUNCTION = "Function and start"
    ATTACKED = "Images and model"
    METHOD = "Method"
    LIMITS = "Limits"
    OUTPUT = "Output"
    ATTACK_TABLES = "Attack (mnist, cifar10)"


ROLES = {
    HelpPanel.FUNCTION: Role.PROBLEM,
    HelpPanel.ATTACKED: Role.PROBLEM,
    HelpPanel.METHOD: Role.PARAMETER,
    HelpPanel.LIMITS: Role.LIMIT,
    HelpPanel.ATTACK_TABLES: Role.ARGUMENT,
}
"""The role of the options of a panel, unless they declare another one."""

PASSED = (Role.ARGUMENT, Role.LIMIT, Role.EXECUTION)
"""Options that are passed to the library as they are."""

KEPT = (Role.PROBLEM, Role.CODE, Role.PARAMETER, Role.ARGUMENT, Role.LIMIT)
"""Options that make a run what it is, and are kept with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """One option of a command."""

    field: str
    flag: str
    """The option as it is typed, "--max-evals"; or the name of a positional argument."""
    kind: Any
    """The type of the value."""
    default: Any
    role: Role
    argument: str
    """The name of the library's argument that it mirrors."""
    positional: bool
    typer: Mapping[str, Any]
    """Keywords for Typer: metavar, help, panel, completion."""
    read: Read | None

    def words(self, value: Any) -> list[str]:
        """Return the option with a value as it is typed."""
        if isinstance(value, bool):
            return [self.flag] if value else []
        if isinstance(value, tuple):
            return [word for each in value for word in (self.flag, each)]
        shown = f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)
        return [shown] if self.positional else [self.flag, shown]

    def parameter(self) -> inspect.Parameter:
        """Return the parameter of a function that Typer makes the option of."""
        kind, default = self.kind, self.default
        if self.positional:
            made = typer.Argument(**self.typer)
        elif kind is bool:
            names = f"{self.flag}/--no-{self.flag[2:]}" if default else self.flag
            made = typer.Option(names, **self.typer)
        elif self.read is None:
            made = typer.Option(self.flag, **self.typer)
        else:
            kind = str | None  # Typer refuses other unions; the parser decides
            made = typer.Option(self.flag, parser=self.read, **self.typer)
        if kind == tuple[str, ...]:
            kind, default = list[str] | None, None
        missing = default is dataclasses.MISSING
        return inspect.Parameter(
            self.field,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=Annotated[kind, made],
            default=inspect.Parameter.empty if missing else default,
        )


def option(
    metavar: str,
    about: str,
    panel: HelpPanel | None = None,
    role: Role | None = None,
    *,
    default: Any = None,
    flag: str | None = None,
    argument: str | None = None,
    read: Read | None = None,
    choices: Callable[[str], Any] | tuple[str, ...] = (),
    positional: bool = False,
) -> Any:
    """Declare a field of a dataclass as an option.

    `read` makes a value of the text, by default according to the field's type. `choices` are what the shell offers.
    `flag` and `argument` follow from the field's name unless they are given.
    """
    shown: dict[str, Any] = {"metavar": metavar, "help": about, "rich_help_panel": panel}
    if choices:
        shown["autocompletion"] = choices if callable(choices) else _offer(choices)
    role = role or (Role.OUTPUT if panel is None else ROLES.get(panel, Role.OUTPUT))
    given = {"role": role, "flag": flag, "argument": argument, "read": read, "positional": positional, "typer": shown}
    return dataclasses.field(default=default, metadata=given)


def _offer(choices: tuple[str, ...]) -> Callable[[str], list[str]]:
    return lambda incomplete: [name for name in choices if name.startswith(incomplete)]


def declared(options: type[Any]) -> Mapping[str, Declaration]:
    """Return the declarations of a command, by their fields' names."""
    kinds = get_type_hints(options)
    found = {}
    for field in dataclasses.fields(options):
        given = dict(field.metadata)
        flag = given.pop("flag") or f"--{field.name.replace('_', '-')}"
        found[field.name] = Declaration(
            **given
            | {"field": field.name, "flag": flag, "kind": kinds[field.name], "default": field.default}
            | {"argument": given["argument"] or field.name}
            | {"read": _reader(flag, kinds[field.name], given["read"])}
        )
    return MappingProxyType(found)


def _reader(flag: str, kind: Any, read: Read | None) -> Read | None:
    """Return the function that reads an option's text and refuses what it cannot read; None leaves that to Typer."""
    integer = kind in (int, int | None)
    default: Read | None = read_count if integer else float if kind in (float, float | None) else None
    chosen = read or default
    if chosen is None:
        return None
    rule = "an integer" if integer else "a number"

    def parse(text: str) -> Any:
        try:
            return chosen(text)
        except ValueError:
            fail(f"{flag} must be {rule}, got {text!r}.")

    return parse


def command(options: type[Options], run: Callable[[Options], int | None]) -> Callable[..., None]:
    """Return a function for Typer that has these options as parameters and calls `run` with them."""
    declarations = declared(options)

    def call(ctx: typer.Context, **values: Any) -> None:
        values = {n: tuple(v or ()) if declarations[n].kind == tuple[str, ...] else v for n, v in values.items()}
        given = options(**values)
        if ctx.invoked_subcommand is not None:
            _refuse_before(f"{ctx.command_path} {ctx.invoked_subcommand}", given)
            return
        raise typer.Exit(run(given) or 0)

    parameters = [each.parameter() for each in declarations.values()]
    context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    made: Any = call
    made.__name__, made.__doc__ = run.__name__, run.__doc__
    made.__signature__ = inspect.Signature([context, *parameters])
    made.__annotations__ = {each.name: each.annotation for each in (context, *parameters)}
    return call


def _refuse_before(subcommand: str, given: Any) -> None:
    """Refuse options before a subcommand, which would be lost."""
    for name, each in declared(type(given)).items():
        if getattr(given, name) != each.default:
            fail(f"{each.flag} belongs behind {subcommand.split()[-1]}: {subcommand} {each.flag} ...")


def values_of(options: Any, *roles: Role) -> dict[str, Any]:
    """Return the values of the options with these roles, by the names of the library's arguments."""
    return {
        each.argument: getattr(options, name) for name, each in declared(type(options)).items() if each.role in roles
    }


def words(options: Any, *, hidden: tuple[Role, ...] = (Role.OUTPUT,), **changed: Any) -> list[str]:
    """Return the words of the command line that has these options, those with hidden roles left out.

    Positional arguments come first, or behind -- where they would be taken for options.
    """
    first: list[str] = []
    found: list[str] = []
    for name, each in declared(type(options)).items():
        value = changed.get(name, getattr(options, name))
        if value != each.default and each.role not in hidden:
            (first if each.positional else found).extend(each.words(value))
    return [*found, "--", *first] if any(word.startswith("-") for word in first) else [*first, *found]


def flags(*commands: type[Any]) -> dict[str, str]:
    """Return the options of these commands by the names of the library's arguments.

    >>> from slgh.cli.options import MinimizeOptions
    >>> flags(MinimizeOptions)["max_evals"], flags(MinimizeOptions)["sample_xi"]
    ('--max-evals', '--terms')
    """
    return {each.argument: each.flag for options in commands for each in declared(options).values()}
