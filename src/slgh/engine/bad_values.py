"""Bad values, which are NaN or infinite: the policies of `on_nonfinite`.

- "reject": the sample is dropped. It counts in `result.nrejected`.
- "penalize": the value is replaced by the worst finite value so far. Before there is one, the sample is dropped. A
  local search counts from its own first value, so that a resumed search sees the same numbers.
- "raise": FloatingPointError.

Gradients that are not finite are always dropped, unless the policy is "raise".

A missing value is no bad value. In an asynchronous run, samples whose values have not arrived when an iteration closes
are dropped under every policy, and do not count in `result.nrejected`. NaN marks them. So `mark_bad` first replaces the
bad values of such a run by infinity.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from slgh.checks import NonfiniteError
from slgh.protocols import Answer, Array, Query

BadValuePolicy: TypeAlias = Literal["reject", "penalize", "raise"]
POLICIES: tuple[str, ...] = get_args(BadValuePolicy)


def clean(
    values: Array, finite: Array | None, worst: Array, policy: str, xp: Any, missing: Array | None = None
) -> tuple[Answer, Array]:
    """Apply a policy other than "raise" to values (B, n) or gradients (B, n, d).

    Parameters
    ----------
    finite
        True where entries of `values` are finite. None: all of them are.
    worst
        (B,) worst finite value so far, -inf if there is none.
    missing
        True where entries of `values` are missing. None: none are.

    Returns
    -------
    tuple
        The usable values, with 0 for those that are dropped, and the new `worst`.
    """
    if finite is None:
        return Answer(values), xp.maximum(worst, xp.max(values, axis=1)) if policy == "penalize" else worst
    if values.ndim == 3:
        complete = xp.all(finite, axis=-1)
        return Answer(xp.where(complete[..., None], values, 0.0), xp.astype(complete, values.dtype)), worst
    if policy == "penalize":
        worst = xp.maximum(worst, xp.max(xp.where(finite, values, -xp.inf), axis=1))
        known = xp.isfinite(worst)
        values = xp.where(finite, values, xp.where(known, worst, 0.0)[:, None])
        finite = finite | known[:, None]
        if missing is not None:
            finite = finite & ~missing
    return Answer(xp.where(finite, values, 0.0), xp.astype(finite, values.dtype)), worst


def mark_bad(values: Array, xp: Any) -> Array:
    """Return the values with infinity for bad ones, so that NaN can mark missing ones."""
    return xp.where(xp.isfinite(values), values, xp.inf)


def find_missing(values: Array, query: Query, xp: Any) -> Array | None:
    """Return where the values (B, n) of an asynchronous run are missing. None if the query needs all of them."""
    return xp.isnan(values) if query.samples else None


def count_dropped(missing: Array, query: Query, xp: Any) -> Array:
    """Return the number of samples (B,) that are dropped because at least one of their values is missing."""
    B, n = missing.shape
    parts = xp.reshape(missing[:, n % query.samples :], (B, -1, query.samples))
    return xp.sum(xp.any(parts, axis=1), axis=1)


def refuse(values: NDArray[Any], points: NDArray[Any], name: str) -> None:
    """Apply "raise" to values (B, n) or gradients (B, n, d) of the user's function `name`."""
    bad = ~np.isfinite(values).all(axis=tuple(range(2, values.ndim)))
    if bad.any():
        b, i = np.argwhere(bad)[0]
        raise NonfiniteError(
            f"`{name}` must be finite with `on_nonfinite='raise'`, got {values[b, i]} at x = {points[b, i]}."
        )
