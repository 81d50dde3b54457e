"""The command line."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from slgh import __version__
from slgh.cli import options
from slgh.cli.declaration import command, imported
from slgh.cli.errors import EXIT_CODES
from slgh.cli.group import Command, Commands, Group

CODES = "\n".join(["\b", "Exit codes:", *(f"{code:>5}  {meaning}" for code, meaning in EXIT_CODES.items())])
"""Last lines of the help; \\b keeps them apart."""

app = typer.Typer(
    cls=Commands,
    help="Non-convex optimization by single loop Gaussian homotopy.",
    epilog=CODES,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def main(
    ctx: typer.Context,
    version: Annotated[bool, typer.Option("-V", "--version", help="Print the version and exit.")] = False,
) -> None:
    """Non-convex optimization by single loop Gaussian homotopy."""
    if version:
        typer.echo(__version__)
        raise typer.Exit
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


def add(group: typer.Typer, name: str, kind: type[options.CommonOptions], function: str, **keywords: Any) -> None:
    """Add a command. Its module is imported when it runs."""
    group.command(name, cls=Command, **keywords)(command(kind, imported(function)))


add(app, "minimize", options.MinimizeOptions, "slgh.cli.minimize:minimize", epilog=CODES)
add(app, "probe", options.ProbeOptions, "slgh.cli.probe:probe")
add(app, "methods", options.MethodsOptions, "slgh.cli.lists:methods")
add(app, "problems", options.ProblemsOptions, "slgh.cli.lists:problems")
add(app, "reproduce", options.ReproduceOptions, "slgh.cli.reproduce:reproduce")

attack_app = typer.Typer(cls=Group, invoke_without_command=True, epilog=CODES, subcommand_metavar="[train ...]")
attack_app.callback()(command(options.AttackOptions, imported("slgh.cli.attack:attack")))
add(attack_app, "train", options.TrainOptions, "slgh.cli.train:train")
app.add_typer(attack_app, name="attack")
