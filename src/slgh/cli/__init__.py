"""The command line."""

from __future__ import annotations

from typing import Annotated

import typer

from slgh import __version__
from slgh.cli.attack import attack
from slgh.cli.declaration import command
from slgh.cli.errors import EXIT_CODES
from slgh.cli.group import Command, Commands, Group
from slgh.cli.lists import MethodsOptions, methods, problems
from slgh.cli.minimize import minimize
from slgh.cli.options import AttackOptions, CommonOptions, MinimizeOptions, ProbeOptions, TrainOptions
from slgh.cli.output import console
from slgh.cli.probe import probe
from slgh.cli.reproduce import ReproduceOptions, reproduce
from slgh.cli.train import train

CODES = "\n".join(["\b", "Exit codes:", *(f"{code:>5}  {meaning}" for code, meaning in EXIT_CODES.items())])
"""The end of the help; \\b keeps the lines apart."""

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
        console.print(__version__)
        raise typer.Exit
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


app.command(cls=Command, epilog=CODES)(command(MinimizeOptions, minimize))
app.command(cls=Command)(command(ProbeOptions, probe))
app.command(cls=Command)(command(MethodsOptions, methods))
app.command(cls=Command)(command(CommonOptions, problems))
app.command(cls=Command)(command(ReproduceOptions, reproduce))

attack_app = typer.Typer(cls=Group, invoke_without_command=True, epilog=CODES, subcommand_metavar="[train ...]")
attack_app.callback()(command(AttackOptions, attack))
attack_app.command(cls=Command)(command(TrainOptions, train))
app.add_typer(attack_app, name="attack")
