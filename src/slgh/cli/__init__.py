"""The command line."""

from __future__ import annotations

from typing import Annotated

import typer

from slgh import __version__
from slgh.cli.attack import AttackGroup, attack
from slgh.cli.command import Command, FormulaCommand
from slgh.cli.common import console
from slgh.cli.errors import EXIT_CODES, Commands
from slgh.cli.lists import methods, problems
from slgh.cli.minimize import minimize
from slgh.cli.probe import probe
from slgh.cli.reproduce import reproduce
from slgh.cli.resume import resume
from slgh.cli.train import train

CODES = "\n".join(["\b", "Exit codes:", *(f"{code:>5}  {meaning}" for code, meaning in EXIT_CODES.items())])
"""For the end of the help; \\b keeps the lines apart."""

app = typer.Typer(
    cls=Commands,
    help="Non-convex optimization by single loop Gaussian homotopy.",
    epilog=CODES,
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def main(
    ctx: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Non-convex optimization by single loop Gaussian homotopy."""
    if version:
        console.print(__version__)
        raise typer.Exit
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


app.command(cls=FormulaCommand, epilog=CODES)(minimize)
app.command(cls=Command, epilog=CODES)(resume)
app.command(cls=FormulaCommand)(probe)
for command in (methods, problems, reproduce):
    app.command(cls=Command)(command)

attack_app = typer.Typer(cls=AttackGroup, invoke_without_command=True, epilog=CODES, subcommand_metavar="[train ...]")
attack_app.callback()(attack)
attack_app.command(cls=Command)(train)
app.add_typer(attack_app, name="attack")
