"""Turn the arguments in the library's messages into options of the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slgh import checks
from slgh.cli.declaration import flags
from slgh.cli.options import AttackOptions, MinimizeOptions, ProbeOptions, TrainOptions
from slgh.method import SLOTS

OPTIONS = (
    flags(TrainOptions, ProbeOptions, AttackOptions, MinimizeOptions)
    | {"images": "--inputs: images", "labels": "--inputs: labels"}
    | {slot: f"--set {slot}" for slot in SLOTS}
)
"""Options by argument name."""


def explain_argument(error: checks.ArgumentError) -> str:
    """Return the message of an error about an argument, with options instead of arguments.

    >>> explain_argument(checks.ArgumentValueError.of("max_evals", "be an integer >= 1,", 0))
    '--max-evals must be an integer >= 1, got --max-evals 0.'
    """
    broken = error.broken
    if broken is None:
        return in_options(str(error))
    name, value = broken.name, broken.value
    got = f"{OPTIONS[name]} {value}" if name in OPTIONS else f"{name}={value!r}"
    return f"{as_option(name)} must {broken.rule} got {got}.{broken.hint}"


def in_options(text: str, options: Mapping[str, str] = OPTIONS) -> str:
    """Replace the arguments in a message, which are in backticks, by options.

    >>> in_options('Pass `step=...` (or `step="theory"` with `L1=...`).')
    'Pass --step NUMBER (or --step theory with --set L1=NUMBER).'
    """
    parts = text.split("`")
    for i in range(1, len(parts) - 1, 2):
        parts[i] = as_option(parts[i], options)
    if len(parts) % 2 == 0:
        parts[-1] = f"`{parts[-1]}"  # a single backtick
    return "".join(parts)


def as_option(text: str, options: Mapping[str, str] = OPTIONS) -> str:
    """Return an argument, alone or with a value, as an option.

    >>> as_option("max_evals"), as_option("pixels=(0, 255)"), as_option("momentum")
    ('--max-evals', '--pixels 0,255', '`momentum`')
    """
    name, sign, value = text.partition("=")
    shown = "NUMBER" if value == "..." else value.strip("'\"()").replace(", ", ",")
    if name in options:
        return f"{options[name]} {shown}" if sign else options[name]
    return f"--set {name}={shown}" if sign else f"`{text}`"


def as_options(arguments: Mapping[str, Any]) -> str:
    """Return arguments and values as options.

    >>> as_options({"t1": 1.5, "max_iter": 20000})
    '--t1 1.5 --max-iter 20000'
    """
    shown = {name: f"{value:.6g}" if isinstance(value, float) else str(value) for name, value in arguments.items()}
    return " ".join(f"{OPTIONS[name]} {value}" for name, value in shown.items())
