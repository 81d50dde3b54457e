"""The three parts of a method, the data that they exchange, and their state.

In one iteration, the oracle yields queries (`Query`) at points around x, is sent the answers (`Answer`), and returns an
`Estimate`. From that, the update computes the next x and the schedule the next t. Shapes: B problems, n points, d
variables; every array has the leading axis B.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeAlias, runtime_checkable

from array_api_compat import device, is_jax_array

Array: TypeAlias = Any
"""An array of any array-API namespace."""


def device_of(x: Array) -> Any:
    """Return the device on which to make another array for arithmetic with x.

    It is None on JAX, which places new arrays where they are used. The "device" of an x that is divided among several
    is a rule for arrays with one row per problem.
    """
    return None if is_jax_array(x) else device(x)


Leaves: TypeAlias = tuple[Array, ...]
"""Memory of a part between iterations: arrays with leading axis B, possibly none."""


class Query(NamedTuple):
    """A query of the user's objective at `points` (B, n, d).

    `what` is "fun" (values of f), "grad" (gradients of f), or "F", "F.grad", "F.dt", "F.trace" of a closed form at
    radius `t` (B, 1). `xi` (B, n, ...) belongs to the points of a stochastic objective. The first `centers` of the
    points are x itself.

    `samples` is the number of samples that the points consist of, if the estimate can do without some of them. Sample i
    then has every `samples`-th of the last points, as plus_1..plus_M, minus_1..minus_M do. The first n % samples
    points belong to all samples. 0, the default: all values are needed.
    """

    what: str
    points: Array
    t: Array | None = None
    xi: Array | None = None
    centers: int = 0
    samples: int = 0

    @property
    def is_gradient(self) -> bool:
        """True if the answer is gradients (B, n, d), False if it is values (B, n)."""
        return self.what in ("grad", "F.grad")

    @property
    def answer_shape(self) -> tuple[int, ...]:
        B, n, d = self.points.shape
        return (B, n, d) if self.is_gradient else (B, n)


class Answer(NamedTuple):
    """Values (B, n), or gradients (B, n, d), with bad ones replaced by 0.

    `ok` (B, n) is 1 for finite values and 0 for bad ones. None: all are known to be finite, which avoids most of the
    arithmetic with it. `more` (B, n, E) are the further values of a fun that returns a tuple, 0 for bad ones. None: fun
    returns no tuple.
    """

    values: Array
    ok: Array | None = None
    more: Array | None = None


class Estimate(NamedTuple):
    """Estimates of an oracle at (x, t). Those that were neither needed nor free are None.

    `g` (B, d) estimates grad_x F. `cosine` is the expected cosine between g and grad_x F, in (0, 1]. `ok` (B,) is False
    if nothing could be learned, and `rejected` (B,) counts the dropped samples (both None: no value was bad). `grad_f`
    (B, d) is the gradient of f itself, `f` (B,) is f(x), `F` (B,) is F(x, t) or the minibatch mean of f(x + t u), and
    `F_next` (B,) is F(x', t) at the next iterate x'. `trace` (B,) estimates tr Hess_x F, and `slope` (B,) dF/dt =
    t * trace. `widths` (B, d) are the widths of the samples in each variable, in units of t; None: all are 1.
    """

    g: Array
    cosine: float
    ok: Array | None = None
    rejected: Array | None = None
    grad_f: Array | None = None
    f: Array | None = None
    F: Array | None = None
    F_next: Array | None = None
    trace: Array | None = None
    slope: Array | None = None
    widths: Array | None = None


class StepState(NamedTuple):
    """State of B problems between two iterations: arrays with leading axis B, and tuples of such arrays."""

    x: Array
    """(B, d) iterate."""
    t: Array
    """(B,) smoothing radius."""
    oracle: Leaves
    schedule: Leaves
    update: Leaves
    floor: Array
    """(B,) smallest t."""
    x_best: Array
    """(B, d) best evaluated point."""
    f_best: Array
    """(B,) value there."""
    xhat: Array
    """(B, d) iterate that the theorems are about."""
    xhat_norm: Array
    """(B,) gradient norm there."""
    xhat_at: Array
    """(B,) iteration drawn for xhat."""
    tail: Leaves
    """(B, d) sum of the last iterates, if their mean is the solution; else empty."""
    rejected: Array
    """(B,) samples dropped so far."""
    worst: Array
    """(B,) worst finite value so far."""
    watch: Leaves
    """Memory of the user's Watch."""
    counters: Leaves
    """Memory of the rule that ends a run."""


class Sight(NamedTuple):
    """View of an iteration for a `Watch`: its number k, x (B, d), f(x) (B,), and the further values `more` (B, E).

    `x_best` (B, d) and `f_best` (B,) are the best point evaluated so far, and its value.
    """

    k: Any
    x: Array
    f: Array
    more: Array
    x_best: Array
    f_best: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Constants of a run: the array namespace, the estimates that are needed, and whether f is stochastic.

    `chunk` is the maximum number of array elements in the directions of one query, per problem. It does not depend on
    the number of problems or workers, so that sums are taken in the same order.
    """

    xp: Any
    needs: frozenset[str] = frozenset()
    stochastic: bool = False
    chunk: int = 1 << 17

    def chunks(self, samples: int, d: int) -> list[int]:
        """Split `samples` directions in d variables into queries, and return their sizes."""
        if samples * d <= self.chunk:
            return [samples]
        size = max(1, self.chunk // d)
        full, rest = divmod(samples, size)
        return [size] * full + ([rest] if rest else [])

    def sample_points(self, x: Array, t: Array, directions: list[Array], centers: int) -> Array:
        """Return (B, n, d): `centers` copies of x (B, d), then x + t*u for each u of `directions`, (B, m, d) each."""
        xp, origin = self.xp, x[:, None, :]
        copies = [xp.broadcast_to(origin, (x.shape[0], centers, x.shape[1]))] if centers else []
        return xp.concat([*copies, *(t[:, None, None] * u + origin for u in directions)], axis=1)

    def antithetic_points(self, x: Array, t: Array, u: Array, widths: Array | None, centers: int) -> Array:
        """Return (B, n, d): `centers` copies of x (B, d), then x + t*w*u for each u of (B, m, d), then x - t*w*u.

        w is `widths` (B, d), or 1 if that is None.
        """
        moves = u if widths is None else u * widths[:, None, :]
        return self.sample_points(x, t, [moves, -moves], centers)

    def weighted_sum(self, weights: Array, u: Array) -> Array:
        """Return the sum over the samples of weight times direction: (B, m) and (B, m, d) give (B, d)."""
        if u.shape[1] == 1:
            return weights * u[:, 0, :]
        return self.xp.matmul(weights[:, None, :], u)[:, 0, :]


class Noise(Protocol):
    """Source of all randomness. Each call continues where the last one ended."""

    def normal(self, m: int, stream: int = 0) -> Array:
        """Return the next m standard normal directions of each problem, (B, m, d).

        They are valid until the next call for the same stream. Streams are independent of each other.
        """

    def xi(self, m: int) -> Array:
        """Return the next m samples of the objective's own randomness, (B, m, ...)."""

    def every_xi(self, start: int, stop: int) -> Array:
        """Return the components start..stop-1 of a finite sum, for each problem, (B, stop - start)."""


Conversation: TypeAlias = Generator[Query, Answer, tuple[Estimate, Leaves]]


@runtime_checkable
class Oracle(Protocol):
    """Rule for where to query the objective, and how to estimate the gradient. Write your own as a frozen dataclass.

    `observe` is a generator: it yields a Query, is sent the Answer, and returns an Estimate and the new memory. `cost`
    is the exact number of evaluations of an iteration. `first` is True in every `period`-th iteration, beginning with
    the very first. All others are alike, so that a compiled loop needs at most two programs. Draw directions from
    `noise` only.
    """

    name: ClassVar[str]
    asks: ClassVar[str]
    """Kind of evaluation: "values", "gradients", or a "closed form"."""
    exact: ClassVar[bool]
    """True if g is the gradient of f or F itself, not an estimate from directions."""
    provides: ClassVar[frozenset[str]]
    """The fields of `Estimate` that it can provide: some of f, F, F_next, grad_f, trace, slope."""
    rounding: ClassVar[float | None]
    """The default floor of t is t1 * eps**rounding, with the dtype's eps. Below it, differences are rounding errors.

    None: no floor.
    """

    @property
    def samples(self) -> int: ...
    @property
    def period(self) -> int: ...

    def init(self, x: Array, ctx: Context) -> Leaves: ...
    def cost(self, first: bool, ctx: Context) -> int: ...
    def observe(self, x: Array, t: Array, state: Leaves, first: bool, noise: Noise, ctx: Context) -> Conversation: ...


@runtime_checkable
class PerProblem(Protocol):
    """Part of a method that holds arrays with one row per problem, and so cannot be used for other problems."""

    def of_problems(self, rows: slice) -> Self:
        """Return the part for some of the problems."""


@runtime_checkable
class Schedule(Protocol):
    """Rule for the smoothing radius t. Write your own as a frozen dataclass.

    `t1` is the first radius. `needs` names the estimates that it uses: some of f, F, F_next, trace, slope.
    `init(t, floor, xp)` returns a tuple of arrays to remember. `next(t, estimate, state, floor, xp)` returns the next
    t (B,), at least `floor` (B,), and the new tuple.
    """

    name: ClassVar[str]
    planned: ClassVar[bool]
    """True if it needs the number of iterations, in a field `iterations`."""

    @property
    def t1(self) -> float | None: ...
    @property
    def needs(self) -> frozenset[str]: ...
    def init(self, t: Array, floor: Array, xp: Any) -> Leaves: ...
    def next(self, t: Array, estimate: Estimate, state: Leaves, floor: Array, xp: Any) -> tuple[Array, Leaves]: ...


@runtime_checkable
class Update(Protocol):
    """Rule for the next x. Write your own as a frozen dataclass; its fields become parameters of `minimize`.

    `init(x, xp)` returns what the update remembers between iterations, a tuple of arrays with leading axis B (or the
    empty tuple). `apply(x, estimate, t, state, xp)` returns the new x (B, d) and the new tuple. x and `estimate.g` are
    (B, d), and t is (B,), so that a factor of t is t[:, None]. `xp` is the array namespace. Do not write into
    arguments. An update that needs the number of iterations sets `planned = True`, as a schedule does.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from typing import ClassVar
    >>> import slgh
    >>> @dataclass(frozen=True, kw_only=True)
    ... class SignDescent:
    ...     name: ClassVar[str] = "sign_descent"
    ...     step: float
    ...
    ...     def init(self, x, xp):
    ...         return ()
    ...
    ...     def apply(self, x, estimate, t, state, xp):
    ...         return x - self.step * t[:, None] * xp.sign(estimate.g), state
    >>> f = lambda x: ((x - 1) ** 2).sum()
    >>> run = slgh.minimize(f, [3.0, -2.0], method="zoslgh_r", update=SignDescent, step=0.1, t1=1.0, gamma=0.97,
    ...                     samples=10, max_iter=300, seed=0)
    >>> bool(run.fun < 1e-2)
    True
    """

    name: ClassVar[str]

    def init(self, x: Array, xp: Any) -> Leaves: ...
    def apply(self, x: Array, estimate: Estimate, t: Array, state: Leaves, xp: Any) -> tuple[Array, Leaves]: ...


@runtime_checkable
class Watch(Protocol):
    """Rule for what to record of a run besides the lowest value, and when to stop. Write it as a frozen dataclass.

    With `minimize(..., watch=...)` a vectorized fun returns a tuple: the values to minimize, and further arrays of the
    same shape. `init(x, xp)` returns a tuple of arrays with leading axis B, one for each of `names`.
    `see(state, sight, xp)` returns the tuple after an iteration, described by `sight`, and is called once more at the
    final point. `done(state, xp)` returns a mask (B,) of the problems to stop. `xp` is the array namespace. Do not read
    values in Python, so that it can be compiled.
    """

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the arrays, in `result.watched`."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the arrays, (B,) each, that the history records."""

    @property
    def ends(self) -> bool:
        """True if `done` may stop a problem."""

    def init(self, x: Array, xp: Any) -> Leaves: ...
    def see(self, state: Leaves, sight: Sight, xp: Any) -> Leaves: ...
    def done(self, state: Leaves, xp: Any) -> Array: ...
