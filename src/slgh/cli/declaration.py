"""Declare an option once: a field of a dataclass, of which Typer's command and everything else is made.

The options of a command are the fields of a frozen dataclass, made by `option` or `switch`. Typer's command
(`command`), the file of a kept run, the command that repeats a run (`words`) and the errors read these declarations.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Annotated, Any, NamedTuple, TypeVar, get_type_hints

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


class HelpPanel(NamedTuple):
    """A panel of the help, and the role of its options unless they declare another one."""

    position: int
    title: str | None
    role: Role


# Options appear in the order of their panels, in the help as in the command that repeats a run. Those without a title
# share the first panel of the help.
GENERAL = HelpPanel(0, None, Role.OUTPUT)
FUNCTION = HelpPanel(1, "Function and start", Role.PROBLEM)
ATTACKED = HelpPanel(2, "Images and model", Role.PROBLEM)
METHOD = HelpPanel(3, "Method", Role.PARAMETER)
LIMITS = HelpPanel(4, "Limits", Role.LIMIT)
SEED = HelpPanel(5, None, Role.ARGUMENT)
OUTPUT = HelpPanel(6, "Output", Role.OUTPUT)
ATTACK_TABLES = HelpPanel(7, "Attack (mnist, cifar10)", Role.ARGUMENT)

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
    typer: Mapping[str, Any]
    """Keywords for Typer: metavar, help, panel, completion."""
    read: Read | None
    """Make a value of the text. None leaves that to Typer."""

    @property
    def positional(self) -> bool:
        """True for an argument without a flag."""
        return not self.flag.startswith("-")

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
        if self.read is not None:
            kind = str | None  # Typer refuses other unions; the parser decides
        elif kind == tuple[str, ...]:
            kind, default = list[str] | None, None
        names = f"{self.flag}/--no-{self.flag[2:]}" if default is True else self.flag
        made = typer.Argument(**self.typer) if self.positional else typer.Option(names, parser=self.read, **self.typer)
        return inspect.Parameter(
            self.field,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=Annotated[kind, made],
            default=inspect.Parameter.empty if default is dataclasses.MISSING else default,
        )


def option(
    metavar: str,
    about: str,
    panel: HelpPanel = GENERAL,
    role: Role | None = None,
    *,
    default: Any = None,
    flag: str | None = None,
    argument: str | None = None,
    read: Read | None = None,
    choices: Sequence[str] | Callable[[str], Any] = (),
) -> Any:
    """Declare a field of a dataclass as an option.

    `read` makes a value of the text, by default according to the field's type. `choices` are what the shell offers.
    `flag` and `argument` follow from the field's name unless they are given. A `flag` without dashes declares a
    positional argument.
    """
    shown: dict[str, Any] = {"metavar": metavar, "help": about, "rich_help_panel": panel.title}
    if choices:
        shown["autocompletion"] = choices if callable(choices) else _offer(choices)
    given = {"role": role or panel.role, "flag": flag, "argument": argument, "read": read, "typer": shown}
    return dataclasses.field(default=default, metadata={"position": panel.position, "declared": given})


def switch(about: str, panel: HelpPanel = GENERAL, role: Role | None = None, *, default: bool = False) -> Any:
    """Declare a field of a dataclass as an option without a value."""
    return option("", about, panel, role, default=default)


def _offer(choices: Sequence[str]) -> Callable[[str], list[str]]:
    return lambda incomplete: [name for name in choices if name.startswith(incomplete)]


def declared(options: type[Any]) -> dict[str, Declaration]:
    """Return the declarations of a command, by their fields' names."""
    kinds = get_type_hints(options)
    found = {}
    for field in sorted(dataclasses.fields(options), key=lambda field: field.metadata["position"]):
        name, kind, given = field.name, kinds[field.name], field.metadata["declared"]
        flag = given["flag"] or f"--{name.replace('_', '-')}"
        derived = {"flag": flag, "argument": given["argument"] or name, "read": _reader(flag, kind, given["read"])}
        found[name] = Declaration(field=name, kind=kind, default=field.default, **given | derived)
    return found


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

    def call(ctx: typer.Context, **values: Any) -> None:
        typed = {name: value for name, value in values.items() if value is not None}
        given = options(**{name: tuple(value) if isinstance(value, list) else value for name, value in typed.items()})
        if ctx.invoked_subcommand is not None:
            _refuse_before(f"{ctx.command_path} {ctx.invoked_subcommand}", given)
            return
        raise typer.Exit(run(given) or 0)

    context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    parameters = [context, *(each.parameter() for each in declared(options).values())]
    made: Any = call
    made.__name__, made.__doc__ = run.__name__, run.__doc__
    made.__signature__ = inspect.Signature(parameters)
    made.__annotations__ = {each.name: each.annotation for each in parameters}
    return call


def refuse(options: Any, *names: str, because: str) -> None:
    """Refuse options that do not go with the others."""
    for name in names:
        each = declared(type(options))[name]
        if getattr(options, name) != each.default:
            fail(f"{each.flag} {because}")


def _refuse_before(subcommand: str, given: Any) -> None:
    """Refuse options before a subcommand, which would be lost."""
    for name, each in declared(type(given)).items():
        if getattr(given, name) != each.default:
            fail(f"{each.flag} belongs behind {subcommand.split()[-1]}: {subcommand} {each.flag} ...")


def values_of(options: Any, *roles: Role) -> dict[str, Any]:
    """Return the values of the options with these roles, by the names of the library's arguments."""
    found = declared(type(options)).items()
    return {each.argument: getattr(options, name) for name, each in found if each.role in roles}


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
