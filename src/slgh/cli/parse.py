"""Read numbers, points and bounds from the command line.

This module is imported for `slgh --help`, so NumPy is imported only where it is used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from slgh.cli.errors import fail, shorten

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_DIGITS = 18
"""Maximum digits of an integer. Longer ones become floats, since they do not fit into 64 bits."""

CLUSTERS = ("dask", "ray", "mpi")
"""Clusters that --workers can name."""


def read_count(text: str) -> int:
    """Read an integer, also in the form 1e4.

    >>> read_count("1e4")
    10000
    """
    try:
        return int(text)
    except ValueError:
        number = float(text)
        if not number.is_integer():
            raise
        return int(number)


def read_workers(text: str) -> int | str:
    """Read a number of processes, or the name of a cluster.

    >>> read_workers("-1"), read_workers("dask:tcp://localhost:8786")
    (-1, 'dask:tcp://localhost:8786')
    """
    if text.partition(":")[0] in CLUSTERS:
        return text
    try:
        return read_count(text)
    except ValueError:
        fail(f"--workers must be a number of processes, dask:ADDRESS, ray, ray:ADDRESS or mpi, got {text!r}.")


def read_value(text: str) -> Any:
    """Read an integer, a float, true, false, or text.

    >>> [read_value(text) for text in ("3", "1e-3", "true", "adam")]
    [3, 0.001, True, 'adam']
    """
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    digits = text.removeprefix("-").removeprefix("+")
    if digits.isascii() and digits.isdigit() and len(digits) <= MAX_DIGITS:
        return int(text)
    try:
        return float(text)
    except ValueError:
        return text


def read_numbers(text: str, option: str = "--x0") -> list[float]:
    """Read numbers separated by commas or spaces.

    >>> read_numbers("-3, 2 1e-3")
    [-3.0, 2.0, 0.001]
    """
    try:
        numbers = [float(word) for word in text.strip().strip("[]()").replace(",", " ").split()]
    except ValueError:
        numbers = []
    if not numbers:
        fail(f"{option} must be numbers separated by commas, such as {option} -3,2; got {shorten(text, 200)!r}.")
    return numbers


def _suggest_colon(bounds: str) -> str:
    """Return a suggestion if the bounds have a comma instead of a colon.

    >>> _suggest_colon("-5,5")
    ' Did you mean --bounds -5:5?'
    """
    try:
        low, high = map(float, bounds.split(","))
    except ValueError:
        return ""
    return f" Did you mean --bounds {low:g}:{high:g}?"


def read_start(
    x0: str | None, repeated: int | None, d: int | None, order: str, bounds: str | None = None
) -> NDArray[np.float64]:
    """Read x0. Without it, the start is the middle of the bounds if all of them are finite.

    `d` is the number of variables of the problem, if known, and `repeated` that of --d. One number is repeated --d
    times. `order` explains the variables in errors.
    """
    import numpy as np

    wanted = repeated if d is None else d
    if d is not None and repeated is not None and repeated != d:
        fail(f"--d must be {d} here, got {repeated}: {order}.")
    if x0 is None:
        pairs = [] if bounds is None else _read_pairs(bounds)
        count = len(pairs) if wanted is None and len(pairs) > 1 else wanted
        if pairs and count is None:
            fail(f"--d or --x0 is missing: {order}. Pass for example --d 2, and the start is the middle of --bounds.")
        if pairs and all(math.isfinite(end) for pair in pairs for end in pair):
            assert count is not None
            return np.array([low / 2 + high / 2 for low, high in _repeated(pairs, count)])
        example = ",".join(["1"] * min(wanted or 2, 4)) if (wanted or 2) <= 4 else f"1 --d {wanted}"
        fail(
            f"--x0 is missing: {order}. Pass for example --x0 {example}, or finite --bounds, whose middle is the start."
        )
    numbers = read_numbers(x0)
    if len(numbers) == 1 and repeated is not None:
        numbers *= repeated
    if wanted is not None and len(numbers) != wanted:
        fail(f"--x0 must have {wanted} number{'s' * (wanted > 1)}, got {len(numbers)}: {order}.")
    if not all(map(math.isfinite, numbers)):
        fail(f"--x0 must be finite numbers, got {x0!r}.")
    return np.array(numbers)


def _read_pairs(text: str) -> list[tuple[float, float]]:
    """Read pairs low:high, separated by commas.

    >>> _read_pairs("-1:1,0:")
    [(-1.0, 1.0), (0.0, inf)]
    """
    pairs = []
    for part in text.split(","):
        low, colon, high = part.partition(":")
        try:
            pairs.append((float(low) if low.strip() else -math.inf, float(high) if high.strip() else math.inf))
        except ValueError:
            colon = ""
        if not colon:
            got = f"got {shorten(text, 200)!r}.{_suggest_colon(text)}"
            fail(f"--bounds must be LOW:HIGH for all variables, or one such pair per variable; {got}")
    return pairs


def _repeated(pairs: list[tuple[float, float]], d: int) -> list[tuple[float, float]]:
    """Return one pair per variable, for all of which a single one is repeated."""
    if len(pairs) not in (1, d):
        fail(f"--bounds must have one pair for all variables, or one per variable (expected {d}); got {len(pairs)}.")
    return pairs * d if len(pairs) == 1 else pairs


def read_bounds(
    text: str | None, x0: NDArray[np.float64], names: Sequence[str] = ()
) -> list[tuple[float, float]] | None:
    """Read one pair low:high for all variables, or one per variable, separated by commas. An empty side is no bound.

    `names` are the names of the variables, by default x[0], x[1], ...

    >>> import numpy as np
    >>> read_bounds("-1:1,0:", np.zeros(2))
    [(-1.0, 1.0), (0.0, inf)]
    """
    if text is None:
        return None
    pairs = _repeated(_read_pairs(text), len(x0))
    for i, ((low_i, high_i), start) in enumerate(zip(pairs, x0.tolist(), strict=True)):
        name = names[i] if names else f"x[{i}]"
        if not low_i <= high_i:
            fail(f"--bounds must have low <= high, got {low_i:g}:{high_i:g} for {name}.")
        if not low_i <= start <= high_i:
            fail(f"--x0 must lie within --bounds, {low_i:g}:{high_i:g} for {name}; got {start:g}.")
    return pairs
