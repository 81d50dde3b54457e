"""Gaussian smoothing of a loss on pytrees of JAX, for `slgh.integrations.optax`.

`Smoothing` has the rules: the noise, the estimates at one t, the schedule of t and the response to bad values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from slgh import checks
from slgh.integrations.radius import UNITS, choose_schedule
from slgh.protocols import Array, Estimate, Schedule

MAX_SEED = 2**64 - 1
"""Largest seed: a key of Threefry has two words of 32 bits."""

FROM_GRADIENTS = frozenset({"trace", "slope"})
"""Estimates that gradients provide."""

FROM_VALUES = frozenset({"f", "F", "trace", "slope"})
"""Estimates that losses provide."""

AT_CENTER = frozenset({"f", "trace", "slope"})
"""Estimates from values that need the loss at the parameters themselves."""


class SLGHState(NamedTuple):
    """State of `slgh`, `zoslgh` and `smoothed_value_and_grad`. All leaves are arrays.

    A restored copy continues with the same bits, since the noise is a function of `key` and `step`.
    """

    step: Array
    """Number of updates so far, k - 1."""
    t: Array
    """Smoothing radius of the next update."""
    key: Array
    """(2,) words of the seed."""
    schedule: tuple[Array, ...]
    """Memory of the schedule, (1,) each."""
    scales: Array
    """(L,) weight scale w of each floating-point leaf of the parameters, in the order of `jax.tree.leaves`."""
    rejected: Array
    """Number of samples dropped so far because their loss or gradient was not finite."""
    loss: Array
    """Last estimate of the smoothed loss, NaN if there is none."""
    base: Any
    """State of the base transformation."""


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """Parameters, divided into floating-point leaves, which are smoothed, and others."""

    floats: list[Array]
    leaves: list[Any]
    is_float: list[bool]
    structure: Any
    params: Any
    all_params: Any
    """Parameters with those that `optax.masked` has removed from `params`, or None if there are none."""

    @classmethod
    def of(cls, params: Any, all_params: Any = None) -> Parameters:
        if params is None:
            raise checks.ArgumentValueError("`params` are missing: pass the current parameters to `update`.")
        if all_params is None and any(map(_is_masked, jax.tree.leaves(params, is_leaf=_is_masked))):
            all_params = _MISSING
        leaves, structure = jax.tree.flatten(params)
        is_float = [_is_float(leaf) for leaf in leaves]
        floats = [jnp.asarray(leaf) for leaf, chosen in zip(leaves, is_float, strict=True) if chosen]
        return cls(
            floats=floats,
            leaves=leaves,
            is_float=is_float,
            structure=structure,
            params=params,
            all_params=all_params,
        )

    def with_floats(self, floats: list[Array], other: Callable[[Any], Any]) -> Any:
        """Return a tree of these floating-point leaves, and of `other` of each other leaf."""
        rest = iter(floats)
        leaves = zip(self.leaves, self.is_float, strict=True)
        return jax.tree.unflatten(self.structure, [next(rest) if chosen else other(leaf) for leaf, chosen in leaves])

    def floats_only(self) -> Any:
        """Return the tree without its other leaves, for the base transformation."""
        return self.with_floats(self.floats, lambda _: optax.MaskedNode())

    def filled(self, floats: list[Array]) -> Any:
        """Return all parameters with these floating-point leaves, for the user's function."""
        params = self.with_floats(floats, lambda leaf: leaf)
        if self.all_params is None:
            return params
        if self.all_params is _MISSING:
            raise checks.ArgumentTypeError(
                "Some parameters are masked, and the loss needs all of them: pass `all_params=params` to `update`."
            )
        return jax.tree.map(
            lambda here, whole: whole if _is_masked(here) else here, params, self.all_params, is_leaf=_is_masked
        )

    def gradients(self, found: Any, name: str) -> list[Array]:
        """Return the gradients of the floating-point leaves, from the output of the user's function `name`."""
        expected: Any = jax.tree.structure(self.params if self.all_params is None else self.all_params)
        structure: Any = jax.tree.structure(found)
        if structure != expected:
            raise checks.ArgumentValueError(
                f"`{name}` must return gradients with the structure of the parameters, {expected}, got {structure}."
            )
        if self.all_params is not None:
            found = jax.tree.map(
                lambda here, gradient: here if _is_masked(here) else gradient, self.params, found, is_leaf=_is_masked
            )
        return [leaf for leaf, chosen in zip(jax.tree.leaves(found), self.is_float, strict=True) if chosen]


_MISSING = object()
"""Value of `Parameters.all_params` if some parameters are masked and the user has not passed all of them."""


def _is_masked(node: Any) -> bool:
    return isinstance(node, optax.MaskedNode)


def _is_float(leaf: Any) -> bool:
    """Return True for a floating-point leaf, and raise an error for a complex one."""
    dtype = leaf.dtype if hasattr(leaf, "dtype") else jnp.result_type(leaf)
    if jnp.issubdtype(dtype, jnp.complexfloating):
        raise checks.ArgumentTypeError(
            f"Parameters must be real, got a leaf of {dtype}: pass its real and imaginary part as two leaves."
        )
    return bool(jnp.issubdtype(dtype, jnp.floating))


def _wide(leaf: Array) -> Any:
    """Return the dtype in which a leaf is perturbed, at least float32."""
    return leaf.dtype if leaf.dtype == jnp.float64 else jnp.dtype(jnp.float32)


def check_scalar(value: Any, name: str) -> Array:
    """Return the loss from the user's function `name`, or raise an error if it is not a scalar."""
    if isinstance(value, tuple | list | dict) or jnp.shape(value) != ():
        raise checks.ArgumentTypeError(
            f"`{name}` must return the loss as a scalar, got {checks.show(jax.tree.map(jnp.shape, value))}."
        )
    return jnp.asarray(value)


class Evaluated(NamedTuple):
    """Answer of a user's function at one point: the loss, gradients of the floating-point leaves, and further data."""

    value: Array
    gradients: list[Array]
    aux: Any = ()


class Estimated(NamedTuple):
    """Estimate of one update. `gradients` have the dtypes of the floating-point leaves."""

    gradients: list[Array]
    estimate: Estimate
    aux: Any

    @property
    def ok(self) -> Array:
        """True if at least one sample was good, a scalar."""
        assert self.estimate.ok is not None
        return self.estimate.ok[0]


def _normal(key: Array, step: Array, sample: Array, leaf: int, shape: tuple[int, ...], dtype: Any) -> Array:
    """Return the noise u of one leaf in one sample of one update."""
    folded = jax.random.wrap_key_data(jnp.asarray(key), impl="threefry2x32")
    for number in (step, sample, leaf):
        folded = jax.random.fold_in(folded, number)
    return jax.random.normal(folded, shape, dtype)


@dataclass(frozen=True, kw_only=True)
class Smoothing:
    """Gaussian smoothing of a loss: the estimates at one t, and the schedule of t."""

    schedule: Schedule | Callable[[Any], Any]
    floor: float
    samples: int
    units: str
    seed: int

    @classmethod
    def of(
        cls, *, zeroth_order: bool, has_value: bool, samples: int, units: str, seed: int, **radius: Any
    ) -> Smoothing:
        """Return the smoothing for the arguments of an optimizer. `radius` has those of `choose_schedule`.

        `has_value` is False if gradients come without their loss.
        """
        provides = FROM_VALUES if zeroth_order else FROM_GRADIENTS | ({"F"} if has_value else set())
        schedule, floor = choose_schedule(**radius, provides=provides, zeroth_order=zeroth_order)
        checks.count("samples", samples)
        checks.choice("units", units, UNITS)
        checks.count("seed", seed, 0, MAX_SEED)
        return cls(schedule=schedule, floor=floor, samples=samples, units=units, seed=seed)

    @property
    def needs(self) -> frozenset[str]:
        """Estimates that the schedule uses."""
        return self.schedule.needs if isinstance(self.schedule, Schedule) else frozenset()

    def init(self, tree: Parameters, base: Any = None) -> SLGHState:
        """Return the first state, with that of the base transformation."""
        dtype = jnp.float64 if any(leaf.dtype == jnp.float64 for leaf in tree.floats) else jnp.float32
        first = self.schedule.t1 if isinstance(self.schedule, Schedule) else self.schedule(jnp.zeros((), jnp.int32))
        t = jnp.asarray(first, dtype).reshape(())
        memory: tuple[Array, ...] = ()
        if isinstance(self.schedule, Schedule):
            memory = self.schedule.init(t[None], jnp.full((1,), self.floor, dtype), jnp)
        return SLGHState(
            step=jnp.zeros((), jnp.int32),
            t=t,
            key=jnp.asarray(np.array([self.seed >> 32, self.seed & 0xFFFFFFFF], np.uint32)),
            schedule=memory,
            scales=self._scales(tree.floats, dtype),
            rejected=jnp.zeros((), jnp.int32),
            loss=jnp.full((), jnp.nan, dtype),
            base=optax.EmptyState() if base is None else base,
        )

    def _scales(self, floats: list[Array], dtype: Any) -> Array:
        """Return w of each leaf, (L,)."""
        if self.units == "absolute" or not floats:
            return jnp.ones(len(floats), dtype)
        squares = jnp.stack([jnp.sum(jnp.square(leaf.astype(_wide(leaf)))).astype(dtype) for leaf in floats])
        sizes = np.array([leaf.size for leaf in floats])
        each = jnp.sqrt(squares / jnp.asarray(np.maximum(sizes, 1), dtype))
        overall = jnp.sqrt(jnp.sum(squares) / max(1, int(sizes.sum())))
        # If all parameters are zero, they have no scale, and t is absolute.
        overall = jnp.where(overall > 0, overall, 1.0)
        return jnp.where((each > 0) & (self.units == "layer"), each, overall)

    def _directions(self, tree: Parameters, state: SLGHState, sample: Any) -> list[Array]:
        """Return u of one sample, one array per floating-point leaf."""
        return [
            _normal(state.key, state.step, sample, i, leaf.shape, _wide(leaf)) for i, leaf in enumerate(tree.floats)
        ]

    def _moved(self, tree: Parameters, state: SLGHState, u: list[Array], sign: float) -> list[Array]:
        """Return the floating-point leaves of x + sign t w u."""
        moved = []
        for x, direction, w in zip(tree.floats, u, state.scales, strict=True):
            wide = _wide(x)
            moved.append((x.astype(wide) + (sign * state.t * w).astype(wide) * direction).astype(x.dtype))
        return moved

    def _sum(self, add_sample: Callable[[Any, Any], Any], sums: Any) -> Any:
        """Add all samples to the sums. The loop is compiled once, and holds one sample at a time."""
        return add_sample(0, sums) if self.samples == 1 else jax.lax.fori_loop(0, self.samples, add_sample, sums)

    def _zero_sums(
        self, evaluate: Callable[[list[Array]], Evaluated], tree: Parameters, state: SLGHState, has_aux: bool
    ) -> Any:
        """Return sums of no samples: g, good samples, values, and the slope or trace, with the data of the last one."""
        aux = jax.eval_shape(lambda floats: evaluate(floats).aux, tree.floats) if has_aux and self.samples > 1 else ()
        zero = jnp.zeros_like(state.t)
        return {
            "g": [jnp.zeros_like(leaf, _wide(leaf)) for leaf in tree.floats],
            "good": zero,
            "F": zero,
            "bend": zero,
            "aux": jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), aux),
        }

    def from_gradients(
        self,
        evaluate: Callable[[list[Array]], Evaluated],
        tree: Parameters,
        state: SLGHState,
        *,
        has_value: bool = True,
        has_aux: bool = False,
    ) -> Estimated:
        r"""Estimate the gradient of F from gradients of f.

        .. math::
            g = \frac{1}{M} \sum_{i=1}^M \nabla f(x + t w u_i), \qquad
            \frac{\partial F}{\partial t} \approx \frac{1}{M} \sum_{i=1}^M (w u_i)^\top \nabla f(x + t w u_i)
        """

        def add_sample(i: Any, sums: Any) -> Any:
            u = self._directions(tree, state, i)
            found = evaluate(self._moved(tree, state, u, 1.0))
            gradients = [each.astype(one.dtype) for each, one in zip(found.gradients, u, strict=True)]
            value = found.value.astype(state.t.dtype)
            ok = jnp.stack([jnp.isfinite(value), *(jnp.all(jnp.isfinite(each)) for each in gradients)]).all()
            gradients = [jnp.where(ok, each, 0.0) for each in gradients]
            bend = sums["bend"]
            if self.needs & {"trace", "slope"}:
                terms = zip(state.scales, u, gradients, strict=True)
                bend = bend + sum((w * jnp.sum(one * each)).astype(bend.dtype) for w, one, each in terms)
            return {
                "g": [total + each for total, each in zip(sums["g"], gradients, strict=True)],
                "good": sums["good"] + ok,
                "F": sums["F"] + jnp.where(ok, value, 0.0),
                "bend": bend,
                "aux": found.aux,
            }

        sums = self._sum(add_sample, self._zero_sums(evaluate, tree, state, has_aux))
        n = jnp.maximum(sums["good"], 1.0)
        g = [(total / n.astype(total.dtype)).astype(x.dtype) for total, x in zip(sums["g"], tree.floats, strict=True)]
        slope = sums["bend"] / n
        return self._estimated(
            g, sums, F=sums["F"] / n if has_value else None, trace=slope * _inverse(state.t), slope=slope, cosine=1.0
        )

    def from_values(
        self, evaluate: Callable[[list[Array]], Evaluated], tree: Parameters, state: SLGHState, *, has_aux: bool = False
    ) -> Estimated:
        r"""Estimate the gradient of F from pairs of values of f.

        .. math::
            g = \frac{1}{M} \sum_{i=1}^M \frac{f(x + t w u_i) - f(x - t w u_i)}{2t}\, \frac{u_i}{w}, \qquad
            \operatorname{tr} \approx \frac{1}{M} \sum_{i=1}^M (u_i^\top u_i - d)\,
            \frac{f(x + t w u_i) + f(x - t w u_i) - 2 f(x)}{2t^2}
        """
        zero = jnp.zeros_like(state.t)
        center = None
        if self.needs & AT_CENTER:
            center = evaluate(tree.floats).value.astype(zero.dtype)

        def add_pair(i: Any, sums: Any) -> Any:
            u = self._directions(tree, state, i)
            plus, minus = (evaluate(self._moved(tree, state, u, sign)) for sign in (1.0, -1.0))
            high, low = plus.value.astype(zero.dtype), minus.value.astype(zero.dtype)
            ok = jnp.isfinite(high) & jnp.isfinite(low)
            ok = ok if center is None else ok & jnp.isfinite(center)
            odd, even = jnp.where(ok, high - low, 0.0), jnp.where(ok, (high + low) / 2, 0.0)
            bend = sums["bend"]
            if center is not None and self.needs & {"trace", "slope"}:
                # The sum of u^2 - 1 is more accurate than u.u - d in float32.
                excess = sum((jnp.sum(one * one - 1.0).astype(zero.dtype) for one in u), start=zero)
                bend = bend + jnp.where(ok, excess * (even - center), 0.0)
            return {
                "g": [total + odd.astype(one.dtype) * one for total, one in zip(sums["g"], u, strict=True)],
                "good": sums["good"] + ok,
                "F": sums["F"] + even,
                "bend": bend,
                "aux": plus.aux,
            }

        sums = self._sum(add_pair, self._zero_sums(evaluate, tree, state, has_aux))
        n, inverse = jnp.maximum(sums["good"], 1.0), _inverse(state.t)
        g = []
        for total, x, w in zip(sums["g"], tree.floats, state.scales, strict=True):
            g.append((total * (inverse / (2 * n * w)).astype(total.dtype)).astype(x.dtype))
        slope = sums["bend"] / n * inverse
        d = sum(leaf.size for leaf in tree.floats)
        cosine = (self.samples / (self.samples + d)) ** 0.5
        return self._estimated(g, sums, F=sums["F"] / n, trace=slope * inverse, slope=slope, cosine=cosine, f=center)

    def _estimated(
        self,
        g: list[Array],
        sums: Any,
        *,
        F: Array | None,
        trace: Array,
        slope: Array,
        cosine: float,
        f: Array | None = None,
    ) -> Estimated:
        """Return the estimate for a schedule, with arrays of shape (1,).

        Its `g` is the length of the gradient only, (1, 1): schedules use no more of it.
        """
        known = bool(self.needs & {"trace", "slope"})
        good = sums["good"]
        length = jnp.sqrt(sum((jnp.sum(jnp.square(leaf.astype(good.dtype))) for leaf in g), start=jnp.zeros_like(good)))
        estimate = Estimate(
            g=length[None, None],
            cosine=cosine,
            ok=(good > 0)[None],
            rejected=(self.samples - good)[None],
            f=None if f is None else f[None],
            F=None if F is None else F[None],
            trace=trace[None] if known else None,
            slope=slope[None] if known else None,
        )
        return Estimated(g, estimate, sums["aux"])

    def advance(self, state: SLGHState, estimate: Estimate) -> SLGHState:
        """Return the next state, with the old state of the base transformation."""
        step = optax.safe_increment(state.step)
        if isinstance(self.schedule, Schedule):
            floor = jnp.full((1,), self.floor, state.t.dtype)
            t, memory = self.schedule.next(state.t[None], estimate, state.schedule, floor, jnp)
        else:
            t, memory = jnp.asarray(self.schedule(step)), ()
        assert estimate.ok is not None
        assert estimate.rejected is not None
        ok = estimate.ok[0]
        return state._replace(
            step=step,
            t=jnp.where(ok, t.reshape(()).astype(state.t.dtype), state.t),
            schedule=select(ok, memory, state.schedule),
            rejected=state.rejected + estimate.rejected[0].astype(jnp.int32),
            loss=state.loss if estimate.F is None else jnp.where(ok, estimate.F[0], state.loss),
        )


def _inverse(t: Array) -> Array:
    """Return 1 / t, and 0 for t = 0, which a schedule may reach."""
    positive = t >= np.finfo(t.dtype).tiny
    return jnp.where(positive, 1 / jnp.where(positive, t, 1), 0)


def select(ok: Array, new: Any, old: Any) -> Any:
    """Return the new tree if `ok`, else the old one."""
    return jax.tree.map(lambda one, other: jnp.where(ok, one, other), new, old)
