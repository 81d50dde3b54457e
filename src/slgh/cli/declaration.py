"""Declare an option once, as a field of a dataclass.

The options of a command are the fields of a frozen dataclass, made by `option` or `switch`. Typer's command
(`command`), the file of a stored run, the command that repeats a run (`words`) and the errors read these declarations.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from importlib import import_module
from typing import Annotated, Any, NamedTuple, TypeVar, get_type_hints

import typer

from slgh.cli.errors import fail
from slgh.cli.parse import read_count

Read = Callable[[str], Any]
Options = TypeVar("Options")


class Role(Enum):
    """Purpose of an option. It decides where the value is passed and stored."""

    PROBLEM = auto()
    """The problem: the function or the images, and the start. Must not change when a run is resumed."""
    CODE = auto()
    """The user's Python code. Its name may change when a run is resumed, for example from another folder."""
    PARAMETER = auto()
    """A hyperparameter of the method. Must not change when a run is resumed."""
    ARGUMENT = auto()
    """Another argument of the library, passed unchanged. Must not change when a run is resumed."""
    LIMIT = auto()
    """A limit, passed unchanged. May change when a run is resumed."""
    EXECUTION = auto()
    """An argument that does not affect the result, passed unchanged. May change when a run is resumed."""
    OUTPUT = auto()
    """Output, which the command that repeats a run leaves out."""


class HelpPanel(NamedTuple):
    """Panel of the help, and the default role of its options."""

    position: int
    title: str | None
    role: Role


# The help and the command that repeats a run list options in the order of their panels. Panels without a title are
# shown as one, the first of the help.
GENERAL = HelpPanel(0, None, Role.OUTPUT)
FUNCTION = HelpPanel(1, "Function and start", Role.PROBLEM)
ATTACKED = HelpPanel(2, "Images and model", Role.PROBLEM)
METHOD = HelpPanel(3, "Method", Role.PARAMETER)
LIMITS = HelpPanel(4, "Limits", Role.LIMIT)
SEED = HelpPanel(5, None, Role.ARGUMENT)
OUTPUT = HelpPanel(6, "Output", Role.OUTPUT)
ATTACK_TABLES = HelpPanel(7, "Attack (mnist, cifar10)", Role.ARGUMENT)

PASSED = (Role.ARGUMENT, Role.LIMIT, Role.EXECUTION)
"""Roles of options that are passed to the library unchanged."""

STORED = (Role.PROBLEM, Role.CODE, Role.PARAMETER, Role.ARGUMENT, Role.LIMIT)
"""Roles of options that identify a run and are stored with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """One option of a command."""

    field: str
    flag: str
    """The option as typed, such as "--max-evals", or the name of a positional argument."""
    kind: Any
    """Type of the value."""
    default: Any
    role: Role
    argument: str
    """Name of the library's argument that the option mirrors."""
    typer: Mapping[str, Any]
    """Keywords for Typer: metavar, help, panel, completion."""
    read: Read | None
    """Function that reads the text. None: Typer reads it."""
    bare: str | None
    """Value of the option if it is typed without one. None: a value is required."""

    @property
    def positional(self) -> bool:
        """True for an argument without a flag."""
        return not self.flag.startswith("-")

    def words(self, value: Any) -> list[str]:
        """Return the option and a value as typed."""
        if isinstance(value, bool):
            return [self.flag] if value else []
        if isinstance(value, tuple):
            return [word for each in value for word in (self.flag, each)]
        shown = f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)
        return [shown] if self.positional else [self.flag, shown]

    def parameter(self) -> inspect.Parameter:
        """Return the function parameter that Typer turns into the option."""
        kind, default = self.kind, self.default
        if self.read is not None:
            kind = str | None  # Typer refuses other unions, and the parser decides
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
    bare: str | None = None,
) -> Any:
    """Declare a field of a dataclass as an option.

    `read` reads the text, by default according to the field's type. The shell completes `choices`. By default, `flag`
    and `argument` follow from the field's name. A `flag` without dashes declares a positional argument. `bare` is the
    value of the option if it is typed without one.
    """
    shown: dict[str, Any] = {"metavar": metavar, "help": about, "rich_help_panel": panel.title}
    if choices:
        shown["autocompletion"] = choices if callable(choices) else _offer(choices)
    given = {"role": role or panel.role, "flag": flag, "argument": argument, "read": read, "typer": shown, "bare": bare}
    return dataclasses.field(default=default, metadata={"position": panel.position, "declared": given})


def switch(about: str, panel: HelpPanel = GENERAL, role: Role | None = None, *, default: bool = False) -> Any:
    """Declare a field of a dataclass as an option without a value."""
    return option("", about, panel, role, default=default)


def _offer(choices: Sequence[str]) -> Callable[[str], list[str]]:
    return lambda incomplete: [name for name in choices if name.startswith(incomplete)]


def declared(options: type[Any]) -> dict[str, Declaration]:
    """Return the declarations of a command by field name."""
    kinds = get_type_hints(options)
    found = {}
    for field in sorted(dataclasses.fields(options), key=lambda field: field.metadata["position"]):
        name, kind, given = field.name, kinds[field.name], field.metadata["declared"]
        flag = given["flag"] or f"--{name.replace('_', '-')}"
        derived = {"flag": flag, "argument": given["argument"] or name, "read": _reader(flag, kind, given["read"])}
        found[name] = Declaration(field=name, kind=kind, default=field.default, **given | derived)
    return found


def _reader(flag: str, kind: Any, read: Read | None) -> Read | None:
    """Return the function that reads an option's text and refuses bad input. None: Typer reads it."""
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
    """Return a function for Typer that has these options as parameters and calls `run` with them.

    Its docstring, which Typer shows as the help, is that of the options.
    """

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
    made.__doc__ = options.__doc__
    made.__signature__ = inspect.Signature(parameters)
    made.__annotations__ = {each.name: each.annotation for each in parameters}
    return call


def imported(name: str) -> Callable[[Any], int | None]:
    """Return the function module:function, which imports its module when it is called."""
    module, _, function = name.partition(":")
    return lambda options: getattr(import_module(module), function)(options)


def refuse(options: Any, *names: str, because: str) -> None:
    """Refuse options that contradict others. `because` continues the sentence that begins with the option."""
    for name in names:
        each = declared(type(options))[name]
        if getattr(options, name) != each.default:
            fail(f"{each.flag} {because}")


def _refuse_before(subcommand: str, given: Any) -> None:
    """Refuse options before a subcommand, which would be ignored."""
    for name, each in declared(type(given)).items():
        if getattr(given, name) != each.default:
            fail(f"{each.flag} must come after {subcommand.split()[-1]}. Type: {subcommand} {each.flag} ...")


def values_of(options: Any, *roles: Role) -> dict[str, Any]:
    """Return the values of the options with these roles, by argument name."""
    found = declared(type(options)).items()
    return {each.argument: getattr(options, name) for name, each in found if each.role in roles}


def words(options: Any, *, hidden: tuple[Role, ...] = (Role.OUTPUT,), **changed: Any) -> list[str]:
    """Return the command line of these options as words, without options of hidden roles.

    Positional arguments come first, or after -- if they would be read as options.
    """
    first: list[str] = []
    found: list[str] = []
    for name, each in declared(type(options)).items():
        value = changed.get(name, getattr(options, name))
        if value != each.default and each.role not in hidden:
            (first if each.positional else found).extend(each.words(value))
    return [*found, "--", *first] if any(word.startswith("-") for word in first) else [*first, *found]


def flags(*commands: type[Any]) -> dict[str, str]:
    """Return the options of these commands by argument name.

    >>> from slgh.cli.options import MinimizeOptions
    >>> flags(MinimizeOptions)["max_evals"], flags(MinimizeOptions)["sample_xi"]
    ('--max-evals', '--terms')
    """
    return {each.argument: each.flag for options in commands for each in declared(options).values()}
