"""Measure how easy the code is to follow: its size, the files that a call visits, and its public names.

    python tools/code_metrics.py lines            # code, docstring and comment lines by folder
    python tools/code_metrics.py walks --files    # files visited before the user's function is called
    python tools/code_metrics.py names            # public names and command-line options, to compare with diff

The installed `slgh` is measured. Set PYTHONPATH to measure another checkout.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import io
import pkgutil
import sys
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import slgh

PACKAGE = Path(slgh.__file__).parent
REPOSITORY = Path(__file__).parents[1]
LAYOUT_TOKENS = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


# Lines


@dataclass(frozen=True)
class LineCount:
    """Number of lines by kind. A line with code and a comment counts as both."""

    code: int = 0
    docstring: int = 0
    comment: int = 0
    files: int = 0

    def __add__(self, other: LineCount) -> LineCount:
        """Return the sum, kind by kind."""
        return LineCount(
            self.code + other.code,
            self.docstring + other.docstring,
            self.comment + other.comment,
            self.files + other.files,
        )


def count_lines(source: str) -> LineCount:
    """Count the lines of one file. Strings that document an attribute count as docstrings.

    >>> count_lines("# Why.\\nLIMIT = 3\\n'''Maximum.'''\\n")
    LineCount(code=1, docstring=1, comment=1, files=1)
    """
    docstring_lines: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else []:
            match statement:
                case ast.Expr(value=ast.Constant(value=str()), lineno=first, end_lineno=int(last)):
                    docstring_lines.update(range(first, last + 1))
    code_lines: set[int] = set()
    comment_lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            comment_lines.add(token.start[0])
        elif token.type not in LAYOUT_TOKENS:
            code_lines.update(range(token.start[0], token.end[0] + 1))
    return LineCount(len(code_lines - docstring_lines), len(docstring_lines), len(comment_lines), files=1)


def count_by_folder(root: Path) -> dict[str, LineCount]:
    """Count the lines of every folder: each folder of the package, and each other folder at the root."""
    counts: dict[str, LineCount] = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).parts
        if any(part.startswith(".") for part in parts):
            continue
        depth = min(3 if parts[0] == "src" else 1, len(parts) - 1)
        folder = "/".join(parts[:depth])
        counts[folder] = counts.get(folder, LineCount()) + count_lines(path.read_text(encoding="utf-8"))
    return counts


def print_lines(root: Path) -> None:
    """Print a table of lines by folder, and the sums of the folders at the root."""
    counts = count_by_folder(root)
    sums: dict[str, LineCount] = {}
    for folder, count in counts.items():
        top = folder.split("/")[0]
        sums[top] = sums.get(top, LineCount()) + count
    print(f"{'folder':<24} {'code':>7} {'docstring':>10} {'comment':>8} {'files':>6}")
    rows = [*counts.items(), *((f"total {top}", count) for top, count in sums.items() if top not in counts)]
    for name, count in rows:
        print(f"{name:<24} {count.code:>7} {count.docstring:>10} {count.comment:>8} {count.files:>6}")


# Walks


@dataclass(frozen=True)
class Walk:
    """Files of the package in the order of the calls, until the user's function is called."""

    calls: list[str]

    @property
    def files(self) -> list[str]:
        """The different files, in the order of the first visit."""
        return list(dict.fromkeys(self.calls))

    @property
    def switches(self) -> int:
        """Number of calls into another file than the call before."""
        return sum(here != there for here, there in zip(self.calls, self.calls[1:], strict=False))


def record_walk(run: Callable[[Callable[[], None]], object], package: Path = PACKAGE) -> Walk:
    """Record the files that `run` visits until it calls the function that it is given.

    A first run is not recorded, so that modules imported at the first use do not count. Functions that
    have no file, such as the `__init__` of a dataclass, do not count either.
    """
    run(lambda: None)
    calls: list[str] = []
    reached = False

    def record(frame: FrameType, event: str, argument: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(package):
            calls.append(path.relative_to(package).as_posix())

    def stop() -> None:
        nonlocal reached
        reached = True
        sys.setprofile(None)

    sys.setprofile(record)
    try:
        run(stop)
    finally:
        sys.setprofile(None)
    if not reached:
        raise RuntimeError("The run ended before it called the user's function.")
    return Walk(calls)


def minimize_auto(reached: Callable[[], None]) -> None:
    """Minimize a function of ten variables with `auto` on NumPy."""

    def sphere(x: Any) -> float:
        reached()
        return float(np.sum(x**2))

    slgh.minimize(sphere, np.ones(10))


def minimize_compiled(reached: Callable[[], None]) -> None:
    """Minimize with `zoslgh_r` and the compiled loop on JAX. JAX calls the function to trace it."""
    import jax.numpy as jnp

    # Each run needs its own function: JAX would not trace the same function again.
    def sphere(x: Any) -> Any:
        reached()
        return jnp.sum(x**2)

    slgh.minimize(sphere, jnp.ones(10), method="zoslgh_r", t1=1.0, gamma=0.99, step=0.01, max_iter=10, seed=0)


def attack_images(reached: Callable[[], None]) -> None:
    """Attack two NumPy images of two pixels, until the first evaluation of the loss.

    The attack first calls the model with the unchanged images, to find those that it classifies correctly. The walk
    continues until the first call inside `slgh.minimize`.
    """
    from slgh.attack import attack

    def brighter_pixel(images: Any) -> Any:
        if runs_inside(slgh.minimize):
            reached()
        return 9 * images

    attack(brighter_pixel, np.array([[0.6, 0.4], [0.3, 0.7]]), [0, 1], max_queries=200, seed=0)


def runs_inside(function: Callable[..., Any]) -> bool:
    """Return True if a call of `function` is on the stack."""
    code = inspect.unwrap(function).__code__
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame is not None


WALKS = {
    "minimize(f, x0), auto, NumPy": minimize_auto,
    "minimize, zoslgh_r compiled, JAX": minimize_compiled,
    "attack, NumPy images": attack_images,
}


def print_walks(show_files: bool) -> None:
    """Print the number of files and of switches between files for each walk, and the files if asked."""
    print(f"{'walk':<34} {'files':>6} {'switches':>9}")
    for name, run in WALKS.items():
        walk = record_walk(run)
        print(f"{name:<34} {len(walk.files):>6} {walk.switches:>9}")
        if show_files:
            for file in walk.files:
                print(f"    {file}")


# Names


def public_names() -> Iterator[str]:
    """Yield the names in `__all__` of the package and of its folders, with parameters and the keys of registries."""
    folders = [module.name for module in pkgutil.iter_modules(slgh.__path__) if module.ispkg]
    for module in (slgh, *(importlib.import_module(f"slgh.{folder}") for folder in folders)):
        for name in getattr(module, "__all__", ()):
            full_name, value = f"{module.__name__}.{name}", getattr(module, name)
            yield full_name
            if isinstance(value, dict):
                yield from (f"{full_name} {key}" for key in value)
            elif inspect.isfunction(value) or inspect.isclass(value):
                yield from (f"{full_name} {parameter}" for parameter in _parameters(value))


def _parameters(function: Any) -> list[str]:
    try:
        return list(inspect.signature(function).parameters)
    except ValueError:  # some built-in base classes have no signature
        return []


def command_options(command: Any = None, prefix: str = "slgh") -> Iterator[str]:
    """Yield every command of the command line with each of its options and arguments."""
    if command is None:
        import typer

        from slgh.cli import app

        command = typer.main.get_command(app)
    yield prefix
    for parameter in command.params:
        yield from (f"{prefix} {option}" for option in [*parameter.opts, *parameter.secondary_opts])
    for name, subcommand in getattr(command, "commands", {}).items():
        yield from command_options(subcommand, f"{prefix} {name}")


def main() -> None:
    """Run one of the subcommands."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    lines = commands.add_parser("lines", help="code, docstring and comment lines by folder")
    lines.add_argument("root", type=Path, nargs="?", default=REPOSITORY, help="a checkout (default: this one)")
    walks = commands.add_parser("walks", help="files visited before the user's function is called")
    walks.add_argument("--files", action="store_true", help="list the files too")
    commands.add_parser("names", help="public names and command-line options, sorted")
    arguments = parser.parse_args()
    if arguments.command == "lines":
        print_lines(arguments.root)
    elif arguments.command == "walks":
        print_walks(arguments.files)
    else:
        print(*sorted({*public_names(), *command_options()}), sep="\n")


if __name__ == "__main__":
    main()
