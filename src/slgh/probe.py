"""`probe`: evaluate a function before a run, to see if homotopy helps and which t1 is a good start."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slgh import checks
from slgh.auto.defaults import first_radius
from slgh.backends import backend_of
from slgh.display import as_html, as_text, grid_html, scalar, vector
from slgh.engine.arguments import read_seed, read_x0
from slgh.engine.bounds import Box, read_bounds
from slgh.engine.objective import read_functions
from slgh.engine.termination import Status
from slgh.minimize import minimize
from slgh.protocols import Query
from slgh.result import Result

Floats = NDArray[np.float64]
RADII = 10.0 ** np.arange(-2.5, 1.25, 0.5)
"""Default radii, in units of the first radius of "auto"."""

TRIAL_PAIRS = 2
"""Antithetic pairs per step of a trial run."""

TRIAL_FALL = 10.0
"""Factor by which t falls over a trial run."""

REPEAT_STEPS = 4
"""A trial run from a radius above the best one that found nothing lower is repeated with this many times the steps."""

LINE_POINTS = 32
"""Number of pieces of the straight line from x0 to the lowest point."""

MIN_RISE = 0.01
"""Minimum sum of the rises of f on that line, as a share of its drop, to count as a rise. Less may be rounding."""

MAX_FLAT_CHANGE = 1e-9
"""f is flat around x0 if it changes by less than this share of the drop: descent would have no direction."""

MIN_CURVATURE_RATIO = 10.0
"""f has ripples if the curvature of F falls by this factor from the smallest radius to t1."""


class Estimates(NamedTuple):
    """Estimates at each radius, (k,) each."""

    value: Floats
    gradient_norm: Floats
    snr: Floats
    curvature: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Probe:
    r"""Result of `slgh.probe`: arrays over the k radii `t`, and a recommendation.

    Attributes
    ----------
    t
        The radii, ascending.
    value, gradient_norm, curvature
        F(x0, t), the norm of its gradient in x, and the mean of its second derivatives, tr Hess F / d.
    snr
        The squared gradient norm divided by the variance of the estimate from one pair: 1 / (d + 1) for a linear f in d
        variables. If it is far less, most of the variation in the samples averages out in F.
    value_se, gradient_norm_se, snr_se, curvature_se
        Standard errors, by the jackknife. NaN if fewer than three pairs were finite.
    reached
        The lowest value that the trial run from each radius found; NaN if it found no finite one.
    score
        Expected drop of f in a run from each radius. Higher is better.
    t1
        The radius with the highest score; NaN if no trial run found a value below f(x0).
    helps
        True if homotopy should do better than descent from x0: f rises on the straight line to the lowest point found,
        or the curvature of F at the smallest radius is ten times that at t1 (ripples), or f is flat around x0.
    rise
        The sum of the rises of f on that line, as a share of its drop.
    x, fun
        The lowest point found, (d,), and f there.
    message
        A sentence that says what to do and why.
    nfev, nrejected, seed
        Evaluations, samples dropped because they were not finite (a pair counts as one), and the seed.
    """

    t: Floats
    value: Floats
    value_se: Floats
    gradient_norm: Floats
    gradient_norm_se: Floats
    snr: Floats
    snr_se: Floats
    curvature: Floats
    curvature_se: Floats
    reached: Floats
    score: Floats
    t1: float
    helps: bool
    rise: float
    x: Floats
    fun: float
    message: str
    nfev: int
    nrejected: int
    seed: Any

    def __repr__(self) -> str:
        return as_text("Probe", self._rows())

    def __str__(self) -> str:
        columns = self._columns()
        lines = ["".join(f"{name:>11}" for name in columns)]
        for t, row in zip(self.t, zip(*columns.values(), strict=True), strict=True):
            lines.append("".join(f"{cell:>11}" for cell in row) + (" *" if t == self.t1 else ""))
        return "\n".join([*lines, self.message])

    def _repr_html_(self) -> str:
        best = next((i for i, t in enumerate(self.t) if t == self.t1), None)
        return as_html("Probe", self._rows()) + grid_html(self._columns(), best)

    def _rows(self) -> dict[str, str]:
        rows = {name: scalar(getattr(self, name)) for name in ("message", "helps", "t1", "fun")}
        return rows | {"x": vector(self.x), "nfev": scalar(self.nfev), "seed": scalar(self.seed)}

    def _columns(self) -> dict[str, list[str]]:
        """Return the table of the radii, within 80 columns."""
        columns = {
            "t": self.t,
            "F": self.value,
            "|grad F|": self.gradient_norm,
            "SNR": self.snr,
            "curvature": self.curvature,
            "reached": self.reached,
            "score": self.score,
        }
        return {name: [f"{number:.3g}" for number in numbers] for name, numbers in columns.items()}


def probe(
    fun: Any,
    x0: Any,
    *,
    t: Any = None,
    samples: int = 12,
    steps: int = 24,
    bounds: Any = None,
    args: tuple[Any, ...] = (),
    vectorized: bool = False,
    seed: Any = None,
) -> Probe:
    r"""Evaluate f around x0 before a run, to see if homotopy helps and which t1 is a good start.

    At each radius, M antithetic pairs (the same directions u at all radii) estimate F(x, t) = E f(x + t u) and its
    derivatives at x0. With the odd parts :math:`o_i = (f(x_0 + t u_i) - f(x_0 - t u_i)) / 2t`, the even parts
    :math:`e_i = (f(x_0 + t u_i) + f(x_0 - t u_i)) / 2` and :math:`g_i = o_i u_i`,

    .. math::
        F \approx \frac1M \sum_i e_i, \qquad
        |\nabla F|^2 \approx \frac{1}{M(M-1)} \sum_{i \ne j} g_i^\top g_j, \qquad
        \mathrm{SNR} = \frac{|\nabla F|^2}{\operatorname{tr} \operatorname{Cov} g_i}, \qquad
        \frac{\operatorname{tr} \nabla^2 F}{d} \approx \frac{2}{t^2}
        \frac{\sum_i (|u_i|^2 - \overline{|u|^2})\, e_i}{\sum_i (|u_i|^2 - \overline{|u|^2})^2}.

    These do not show which t1 is best, so there is a trial run from each radius: "auto" for about a hundred
    evaluations, with the same noise for all radii, while t falls tenfold. With :math:`r_j` the lowest value it finds,
    the score is

    .. math:: s_j = \max\left(f(x_0) - r_j,\ \left(1 - \frac{\ln(t_j / t_{j-1})}{\ln(t_1 / t_{end})}\right)
        s_{j-1}\right), \qquad s_0 = 0

    for the radii in ascending order: a run from a larger radius reaches the smaller one later, with this share of its
    budget left. Last, f is evaluated on the straight line from x0 to the lowest point found. If it never rises there,
    descent may find that point as well.

    Parameters
    ----------
    fun, x0, bounds, args, vectorized
        As for `slgh.minimize`, with the same defaults. x0 is one start, (d,).
    t
        Radii, ascending. If None, the default, eight radii, half a decade apart, around the first radius of "auto".
    samples
        Number M of pairs at each radius, at least 3, by default 12. The score does not depend on it.
    steps
        Number of steps of a trial run, with four evaluations each, by default 24. Many variables need more steps.
    seed
        Non-negative integer. If None, the default, one is generated and stored in `probe.seed`.

    Returns
    -------
    Probe
        Print it for a table, or draw it by `slgh.plot`.

    Notes
    -----
    The probe takes k (2 `samples` + 4 `steps` + 2) + 32 evaluations for k radii, by default 1,008. Radii above the best
    one from which nothing lower than f(x0) was found get a second trial run, with four times the steps. The score is
    made for "auto", whose step follows t. The paper's methods have a step of their own, and a t that often ends far
    from 0. A trial run explores only a few radii around x0. If x0 is a good local minimum and there are many variables,
    even more steps may find nothing lower, which means little. In a curved valley, such as Rosenbrock's, f also rises
    on the straight line, which is then mistaken for ruggedness. So are errors in the values of f.

    Examples
    --------
    >>> import numpy as np, slgh
    >>> def ripples(x):
    ...     return np.sum(x**2 - 10 * np.cos(2 * np.pi * x) + 10, axis=-1)
    >>> found = slgh.probe(ripples, np.full(5, 3.3), vectorized=True, seed=0)
    >>> found.helps, found.t1 > 1, found.nfev
    (True, True, 1008)
    """
    checks.count("samples", checks.plain(samples), 3)
    checks.count("steps", checks.plain(steps), 2)
    x, seed = read_x0(x0, backend_of(x0), batched=False), read_seed(seed, 1)
    box = read_bounds(bounds, x.shape[1], x.dtype)
    radii = read_radii(t, x, box)
    # The trial runs come first: `minimize` refuses wrong arguments before anything is evaluated.
    options = {"bounds": bounds, "args": args, "vectorized": vectorized, "seed": seed}
    runs = [_trial_run(fun, x0, float(one), steps, options) for one in radii]
    evaluate = _evaluator(fun, x0, args, box, vectorized=vectorized)

    start = x[0].astype(np.float64)
    u = np.random.default_rng(seed).standard_normal((samples, len(start)))
    around = evaluate(np.concatenate([start[None], *(start + sign * one * u for one in radii for sign in (1, -1))]))
    pairs = around[1:].reshape(len(radii), 2, samples)
    estimates, errors = estimate(u, radii, pairs), jackknife(u, radii, pairs)

    trials = list(runs)
    known = float(around[0]) if np.isfinite(around[0]) else np.inf
    for j in radii_to_repeat(np.array([float(run.fun) for run in runs]), known):
        trials.append(_trial_run(fun, x0, float(radii[j]), REPEAT_STEPS * steps, options))
        runs[j] = min(runs[j], trials[-1], key=lambda run: float(run.fun) if np.isfinite(run.fun) else np.inf)
    reached = np.array([float(run.fun) if np.isfinite(run.fun) else np.nan for run in runs])
    finite = [*around[np.isfinite(around)], *reached[np.isfinite(reached)]]
    if not finite:
        raise checks.ArgumentValueError(
            f"`fun` must be finite somewhere around `x0`, got fun(x0)={around[0]} and nothing better."
        )
    f0 = float(around[0]) if np.isfinite(around[0]) else float(max(finite))
    score = expected_drops(f0 - np.where(np.isfinite(reached), reached, f0), radii, float(np.finfo(x.dtype).eps))
    found = bool(score.max() > 0)
    best = int(np.argmax(score)) if found else len(radii) - 1
    lowest = runs[int(np.argmin(np.where(np.isfinite(reached), reached, np.inf)))]
    end = np.asarray(backend_of(x0).host(lowest.x), np.float64)
    shares = np.arange(1, LINE_POINTS)[:, None] / LINE_POINTS
    line = evaluate(start + shares * (end - start)) if found else np.zeros(0)
    rise = rise_share(np.array([f0, *line, lowest.fun])) if found else 0.0
    drop = f0 - float(lowest.fun)
    flat = bool(found and (np.abs(pairs[0] - f0) <= MAX_FLAT_CHANGE * drop).all())
    bends = estimates.curvature[[0, best]]
    significant = abs(bends[0]) > 2 * errors.curvature[0]
    ripples = bool(significant and abs(bends[0]) > MIN_CURVATURE_RATIO * abs(bends[1]))
    return Probe(
        t=radii,
        **estimates._asdict(),
        **{f"{name}_se": error for name, error in errors._asdict().items()},
        reached=reached,
        score=score,
        t1=float(radii[best]) if found else math.nan,
        helps=found and (rise > MIN_RISE or ripples or flat),
        rise=rise,
        x=end,
        fun=float(lowest.fun),
        message=_message(radii, best, f0, reached, rise, flat, bends if ripples else None),
        nfev=around.size + line.size + sum(int(run.nfev) for run in trials),
        nrejected=sum(map(_count_bad, (around[:1], pairs, line))) + sum(int(run.nrejected) for run in trials),
        seed=seed,
    )


def _count_bad(values: Floats) -> int:
    """Return the number of values (n,), or pairs of values (k, 2, M), that are not finite."""
    finite = np.isfinite(values)
    return int(np.sum(~(finite.all(axis=1) if finite.ndim == 3 else finite)))


def read_radii(t: Any, x0: NDArray[Any], box: Box | None) -> Floats:
    """Return the radii as an ascending array (k,), or the default ones around the first radius of "auto"."""
    if t is None:
        return np.asarray(float(first_radius(x0, box)[0]) * RADII)
    try:
        radii = np.asarray(t, np.float64)
    except (TypeError, ValueError):
        radii = np.zeros(0)
    if radii.ndim != 1 or not radii.size or not (np.isfinite(radii).all() and (np.diff(radii, prepend=0.0) > 0).all()):
        raise checks.ArgumentValueError.of("t", "be a sequence of ascending finite numbers above 0,", t)
    return radii


def estimate(u: Floats, t: Floats, values: Floats) -> Estimates:
    """Return F, the norm of its gradient, signal-to-noise ratio and curvature at each radius, from the finite pairs.

    Directions u (M, d), radii t (k,) and values (k, 2, M) at +u and -u.
    """
    with np.errstate(all="ignore"):
        odd, even = (values[:, 0] - values[:, 1]) / (2 * t[:, None]), (values[:, 0] + values[:, 1]) / 2
        ok = np.isfinite(odd) & np.isfinite(even)
        odd, even, n = np.where(ok, odd, 0.0), np.where(ok, even, 0.0), ok.sum(axis=1)
        square = np.sum(u * u, axis=1)
        total, own = np.sum((odd @ u) ** 2, axis=1), odd**2 @ square
        signal, spread = (total - own) / (n * (n - 1)), (own - total / n) / (n - 1)
        value = even.sum(axis=1) / n
        off = np.where(ok, square - (ok @ square / n)[:, None], 0.0)
        curvature = 2 / t**2 * np.sum(off * (even - value[:, None]), axis=1) / np.sum(off**2, axis=1)
        snr = np.where(own == 0, np.where(n > 1, 0.0, np.nan), signal / spread)
        return Estimates(value, np.sqrt(np.maximum(signal, 0)), snr, curvature)


def jackknife(u: Floats, t: Floats, values: Floats) -> Estimates:
    """Return the standard errors of `estimate`, by leaving out one pair at a time."""
    ok = np.asarray(np.isfinite(values).all(axis=1))
    kept, n = ok.T[:, None, :], ok.sum(axis=1)
    parts = np.stack([estimate(np.delete(u, i, 0), t, np.delete(values, i, 2)) for i in range(len(u))])
    with np.errstate(all="ignore"):
        mean = np.sum(parts, axis=0, where=kept) / n
        squares = np.sum((parts - mean) ** 2, axis=0, where=kept)
        return Estimates(*np.where(n > 2, np.sqrt((n - 1) / n * squares), np.nan))


def _evaluator(fun: Any, x0: Any, args: Any, box: Box | None, *, vectorized: bool) -> Callable[[Floats], Floats]:
    """Return f as a function of points (n, d), which are mirrored into the box and converted to x0's library."""
    backend = backend_of(x0)
    dtype = backend.read(x0).dtype
    extra = args if isinstance(args, tuple) else (args,)
    functions = read_functions(
        fun, None, backend=backend, args=extra, vectorized=vectorized, batched=False, differentiate=False
    )

    def evaluate(points: Floats) -> Floats:
        given = points.astype(dtype)
        inside = given if box is None else box.inside(given, np)
        with backend.session(differences=True):
            values = functions.answer(Query("fun", backend.native(inside[None])), ())
        return np.asarray(backend.host(values)[0], np.float64)

    return evaluate


def _trial_run(fun: Any, x0: Any, t1: float, steps: int, options: dict[str, Any]) -> Result:
    """Run a short homotopy of "auto" from radius t1, with values of f alone."""
    run = minimize(
        fun,
        x0,
        method="scale_free",
        t1=t1,
        t_end=t1 / TRIAL_FALL,
        shape=1.0,
        alpha=0.5,
        oracle="antithetic",
        samples=TRIAL_PAIRS,
        max_evals=2 + 2 * TRIAL_PAIRS * steps,
        history=None,
        **options,
    )
    if run.status == Status.INTERRUPTED:
        raise KeyboardInterrupt
    return run


def radii_to_repeat(reached: Floats, f0: float) -> list[int]:
    """Return the radii above the best one that found nothing below f(x0); if none found anything, the larger half.

    >>> radii_to_repeat(np.array([3.0, 1.0, 2.0, 5.0, 4.0]), 4.0), radii_to_repeat(np.array([3.0, 3.0, 3.0, 3.0]), 1.0)
    ([3, 4], [2, 3])
    """
    lower = np.isfinite(reached) & (reached < f0)
    first = int(np.argmin(np.where(lower, reached, np.inf))) + 1 if lower.any() else len(reached) // 2
    return [j for j in range(first, len(reached)) if not lower[j]]


def expected_drops(drop: Floats, t: Floats, eps: float) -> Floats:
    """Return the score (k,) from the drops of the trial runs: see `probe`. In "auto", t falls by eps^(1/3).

    >>> expected_drops(np.array([1.0, 4.0, 0.0]), np.array([1.0, 10.0, 100.0]), 1e-30).tolist()
    [1.0, 4.0, 3.6]
    """
    lost = np.diff(np.log(t)) / (-np.log(eps) / 3)
    score = drop.copy()
    for j in range(1, len(t)):
        score[j] = max(score[j], (1 - lost[j - 1]) * score[j - 1])
    return score


def rise_share(values: Floats) -> float:
    """Return the rises of f along a line up to its lowest point, as a share of the drop; 0 for a convex f.

    >>> rise_share(np.array([4.0, 2.0, 3.0, 0.0, 1.0]))
    0.25
    """
    values = values[np.isfinite(values)]
    falling = values[: int(np.argmin(values)) + 1]
    drop = float(values[0] - falling[-1])
    return float(np.maximum(np.diff(falling), 0).sum()) / drop if drop > 0 else 0.0


def _message(t: Floats, best: int, f0: float, reached: Floats, rise: float, flat: bool, bends: Floats | None) -> str:
    """Return a sentence that says what to do, and why."""
    lowest = float(np.min(reached, where=np.isfinite(reached), initial=np.inf))
    if not lowest < f0:
        return (
            f"No radius found a value below f(x0) = {f0:.4g}: x0 is a minimum at all of them, or they are too small, "
            "or the `steps` too few."
        )
    start = f"start at t1 = {t[best]:.3g}"
    fell = f"from f(x0) = {f0:.4g} to {lowest:.4g}, the lowest value found"
    if flat:
        text = f"f is flat around x0, where descent has no direction: {start}."
    elif rise > MIN_RISE:
        text = f"On the way {fell}, f rises by {rise:.0%} of the drop, where descent may stop: {start}."
    elif bends is not None:
        text = (
            f"f has ripples (the curvature falls from {bends[0]:.3g} at the smallest radius to {bends[1]:.3g}), where "
            f"descent may stop: {start}."
        )
    else:
        text = f"f falls all the way {fell}: a local method such as L-BFGS will do; for homotopy, {start}."
    if best == len(t) - 1:
        text += " It is the largest radius tried: larger ones may be better."
    failed = t[best + 1 :][~(reached[best + 1 :] < f0)]
    if failed.size:
        text += f" From t = {failed[0]:.3g} nothing below f(x0) was found, which more `steps` may change."
    return text
