"""What the three parts of a method are, and what they say to each other.

One iteration is a conversation. The oracle asks questions (`Query`) at points around x and gets answers
(`Answer`); it ends by saying what it saw (`Estimate`). The update moves x by that, the schedule moves t.
Shapes: B problems, n points, d variables; everything carries the leading axis B.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias, runtime_checkable

Array: TypeAlias = Any
"""An array of any array-API namespace."""

Leaves: TypeAlias = tuple[Array, ...]
"""What a part remembers between iterations: arrays with leading axis B, possibly none."""


class Query(NamedTuple):
    """A question to the user's objective at `points` (B, n, d).

    `what` is "fun" (values of f), "grad" (gradients of f), or "F", "F.grad", "F.dt", "F.trace" of a closed
    form at radius `t` (B, 1). `xi` (B, n, ...) accompanies the points of a stochastic objective. The first `centers`
    of the points are x itself.
    """

    what: str
    points: Array
    t: Array | None = None
    xi: Array | None = None
    centers: int = 0


class Answer(NamedTuple):
    """Values (B, n), or gradients (B, n, d); `ok` (B, n) is 1 where they were finite, and 0 where they are put to 0.

    `ok` is None where all are known to be finite, which spares most of the arithmetic on it.
    """

    values: Array
    ok: Array | None = None


class Estimate(NamedTuple):
    """What an oracle estimates at (x, t). What was neither needed nor free is None.

    g (B, d) estimates grad_x F; `grad_f` (B, d) is the gradient of f itself; `f` (B,) is f(x); `F` (B,) is F(x, t) or
    the minibatch mean of f(x + t u); `F_next` is F(x', t) at the x' that the update leads to; `trace` (B,) estimates
    tr Hess_x F and `slope` (B,) dF/dt = t * trace. `ok` (B,) is False where nothing could be learned, `rejected` (B,)
    counts the samples that were dropped (both None: all is well), and `cosine` is the expected cosine between g and
    grad_x F, in (0, 1]. `widths` (B, d) are those of the samples in each variable, in units of t; None: all are 1.
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


class Sight(NamedTuple):
    """What a `Watch` is shown of an iteration: its number k, x (B, d), f(x) (B,), and what else fun returned there.

    `more` (B, E) holds the E further numbers that fun returned at x.
    """

    k: Any
    x: Array
    f: Array
    more: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What is fixed for a whole run: the array namespace, what is needed, whether f is stochastic.

    `chunk` is the number of array elements that the directions of one query may hold per problem. It depends on
    nothing but itself, so that sums are taken in the same order however many problems or workers there are.
    """

    xp: Any
    needs: frozenset[str] = frozenset()
    stochastic: bool = False
    chunk: int = 1 << 17

    def chunks(self, samples: int, d: int) -> list[int]:
        """Split `samples` directions in d variables into queries: a list of counts."""
        if samples * d <= self.chunk:
            return [samples]
        size = max(1, self.chunk // d)
        full, rest = divmod(samples, size)
        return [size] * full + ([rest] if rest else [])

    def sample_points(self, x: Array, t: Array, directions: list[Array], centers: int) -> Array:
        """`centers` copies of x (B, d), then x + t*u for each u of the `directions`, (B, m, d) each: (B, n, d)."""
        xp, origin = self.xp, x[:, None, :]
        copies = [xp.broadcast_to(origin, (x.shape[0], centers, x.shape[1]))] if centers else []
        return xp.concat([*copies, *(t[:, None, None] * u + origin for u in directions)], axis=1)

    def antithetic_points(self, x: Array, t: Array, u: Array, widths: Array | None, centers: int) -> Array:
        """`centers` copies of x (B, d), then x + t*w*u for each u (B, m, d), then x - t*w*u; widths None are 1."""
        moves = u if widths is None else u * widths[:, None, :]
        return self.sample_points(x, t, [moves, -moves], centers)

    def weighted_sum(self, weights: Array, u: Array) -> Array:
        """Sum over the samples of weight times direction: (B, m) and (B, m, d) give (B, d)."""
        if u.shape[1] == 1:
            return weights * u[:, 0, :]
        return self.xp.matmul(weights[:, None, :], u)[:, 0, :]


class Noise(Protocol):
    """Where randomness comes from: the parts never draw. Each call goes on where the last one stopped."""

    def normal(self, m: int, stream: int = 0) -> Array:
        """The next m standard normal directions of each problem, (B, m, d), valid until the stream's next call.

        Streams are independent of each other.
        """

    def xi(self, m: int) -> Array:
        """The next m samples of the objective's own randomness, (B, m, ...)."""

    def every_xi(self, start: int, stop: int) -> Array:
        """Components start..stop-1 of a finite sum, for each problem, (B, stop - start)."""


Conversation: TypeAlias = Generator[Query, Answer, tuple[Estimate, Leaves]]


@runtime_checkable
class Oracle(Protocol):
    """Where to query, and how to estimate. Write your own as a frozen dataclass.

    `observe` is a generator: it yields a Query, is sent the Answer, and returns (Estimate, what to remember). `cost` is
    the exact number of evaluations of an iteration. `first` is True in every `period`-th iteration, beginning with the
    very first; all others are alike, so that a compiled loop needs two programs at most. Directions come from
    `noise`, never from a generator of its own.
    """

    name: ClassVar[str]
    asks: ClassVar[str]
    """What it needs of the objective: "values", "gradients", or a "closed form"."""
    exact: ClassVar[bool]
    """Whether g is the gradient of f or F itself, not an estimate from directions."""
    provides: ClassVar[frozenset[str]]
    """Which of f, F, F_next, trace, slope it can observe."""
    rounding: ClassVar[float | None]
    """The default floor of t is t1 * eps**rounding, eps the dtype's: below it there is rounding. None: no floor."""

    @property
    def samples(self) -> int: ...
    @property
    def period(self) -> int: ...

    def init(self, x: Array, ctx: Context) -> Leaves: ...
    def cost(self, first: bool, ctx: Context) -> int: ...
    def observe(self, x: Array, t: Array, state: Leaves, first: bool, noise: Noise, ctx: Context) -> Conversation: ...


@runtime_checkable
class Schedule(Protocol):
    """How t falls. Write your own as a frozen dataclass.

    `t1` is the first radius. `needs` names what the oracle must observe: of f, F, F_next, trace, slope.
    `init(t, floor, xp)` returns a tuple of arrays to remember. `next(t, estimate, state, floor, xp)` returns the next
    t (B,), at least `floor` (B,), and the new tuple.
    """

    name: ClassVar[str]
    planned: ClassVar[bool]
    """Whether it needs to know the number of iterations, as a field `iterations`."""

    @property
    def t1(self) -> float | None: ...
    @property
    def needs(self) -> frozenset[str]: ...
    def init(self, t: Array, floor: Array, xp: Any) -> Leaves: ...
    def next(self, t: Array, estimate: Estimate, state: Leaves, floor: Array, xp: Any) -> tuple[Array, Leaves]: ...


@runtime_checkable
class Update(Protocol):
    """How x moves. Write your own as a frozen dataclass; its fields become parameters of `minimize`.

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
    """What else to remember of a run than the lowest value, and when that is enough. Write it as a frozen dataclass.

    With `minimize(..., watch=...)` a vectorized fun returns a tuple: the values that are minimized, and further numbers
    of the same shape. `init(x, xp)` returns a tuple of arrays with leading axis B, one for each of `names`;
    `see(state, sight, xp)` the tuple after an iteration, of what `Sight` shows of it, and once more at the final
    point; `done(state, xp)` (B,) which problems have what they want, which end there. `xp` is the array namespace.
    Look at no value in Python, so that it can be compiled.
    """

    @property
    def names(self) -> tuple[str, ...]:
        """Of what is remembered, as `result.watched` has it."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Those of the names, (B,) each, that the history records."""

    @property
    def ends(self) -> bool:
        """Whether `done` may hold of a problem."""

    def init(self, x: Array, xp: Any) -> Leaves: ...
    def see(self, state: Leaves, sight: Sight, xp: Any) -> Leaves: ...
    def done(self, state: Leaves, xp: Any) -> Array: ...
