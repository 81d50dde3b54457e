r"""The transformations of optax, and the same estimates for other training loops. They share `Smoothing`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import optax

from slgh import checks
from slgh.integrations.optax.smoothing import (
    Estimated,
    Evaluated,
    Parameters,
    SLGHState,
    Smoothing,
    check_scalar,
    select,
)
from slgh.integrations.radius import DEFAULT_UNITS
from slgh.protocols import Array, Schedule


def slgh(
    base: optax.GradientTransformation | optax.MultiSteps,
    *,
    t1: float | None = None,
    t_end: float | None = None,
    gamma: float | None = None,
    eta: float | None = None,
    total_steps: int | None = None,
    schedule: Schedule | Callable[[Any], Any] | None = None,
    samples: int = 1,
    units: str = "layer",
    seed: int = 0,
) -> optax.GradientTransformationExtraArgs:
    r"""Smooth the loss f, and pass the gradient of the smoothed loss to a base transformation (first-order SLGH).

    .. math::
        g_k = \frac{1}{M} \sum_{i=1}^M \nabla f(x_k + t_k\, w \odot u_i), \qquad
        x_{k+1} = x_k + \mathrm{base}(g_k), \qquad
        t_{k+1} = \max(\gamma\, t_k,\ t_{end})

    with :math:`u_i \sim N(0, I)`. With `eta` (SLGH_d), t follows the slope of the smoothed loss F, which costs no
    further gradient:

    .. math::
        t_{k+1} = \max\{\min\{t_k - \eta\, G_k,\ \gamma\, t_k\},\ t_{end}\}, \qquad
        t_k\, G_k = \frac{1}{M} \sum_{i=1}^M (w \odot u_i)^\top \nabla f(x_k + t_k\, w \odot u_i)
        \approx \frac{\partial F}{\partial t}

    The method `update` of the transformation ignores the gradients that it is given, which may be None. It needs a
    function instead: ``update(None, state, params, grad_fn=jax.grad(loss))``. It calls `grad_fn` M times, with the
    perturbed parameters. With ``value_and_grad_fn=jax.value_and_grad(loss)`` instead, ``state.loss`` is an estimate of
    F. All further keyword arguments go to `base`.

    A sample with a gradient (or loss) that is not finite is dropped from the mean and counted in ``state.rejected``. If
    no sample is left, the update is 0, and t and the state of `base` do not change.

    Parameters
    ----------
    base
        Transformation that turns gradients into updates, for example ``optax.adam(1e-3)``.
    t1
        :math:`t_1`, the first smoothing radius. With `units="layer"`, 0.1 means noise of 10 % of the weights.
    t_end
        :math:`t_{end}`, the smallest radius; 0 by default, with `total_steps` 0.01 `t1`.
    gamma
        :math:`\gamma`, the factor by which t falls per step (SLGH_r). With `eta`: the factor by which t falls at least,
        0.999 by default.
    eta
        :math:`\eta`, the step size of t (SLGH_d).
    total_steps
        Number of updates over which t falls from `t1` to `t_end` by a constant factor, instead of `gamma`.
    schedule
        Schedule of `slgh.schedules`, or a function of the number of updates so far that returns t, such as a schedule
        of optax. It replaces `t1`, `t_end`, `gamma`, `eta` and `total_steps`.
    samples
        M, the number of perturbations per update. They are evaluated one after the other, so that the memory does not
        grow with M.
    units
        Unit of t. "layer", the default: w is the root mean square of each leaf of the parameters at `init`. If a leaf
        is zero, it is that of all leaves. "model": w is the root mean square of all parameters. "absolute": w = 1.
    seed
        Non-negative integer that determines the noise.

    Returns
    -------
    optax.GradientTransformationExtraArgs
        Its state is an `SLGHState`. t is ``state.t``.

    Notes
    -----
    Floating-point leaves are perturbed and updated. All others keep their values. The noise of leaves in bfloat16 and
    float16 is added in float32, and the sum is rounded.

    Inside `optax.masked` and `optax.multi_transform`, pass all parameters to `update` once more, as
    ``all_params=params``. Masked leaves are neither perturbed nor updated. These wrappers, `optax.apply_if_finite` and
    `optax.MultiSteps` need gradients of the right structure: pass zeros instead of None. To average over K minibatches,
    use a `base` of ``optax.MultiSteps(optimizer, K)``.

    Compile the training step with `jax.jit`. Otherwise, each update with M > 1 is compiled again.

    Arrays that are sharded under `jax.jit` keep their sharding. In `jax.shard_map`, the parameters must be the same on
    all devices, and `grad_fn` must return the mean over the devices.

    References
    ----------
    Iwakiri, Wang, Ito, Takeda. Single loop Gaussian homotopy method for non-convex optimization. NeurIPS 2022,
    Algorithms 2 and 3.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, optax
    >>> from slgh.integrations.optax import slgh
    >>> loss = lambda params: jnp.sum((params["x"] - 1.0) ** 2)
    >>> optimizer = slgh(optax.sgd(0.1), t1=0.5, gamma=0.9, samples=4)
    >>> @jax.jit
    ... def step(params, state):
    ...     updates, state = optimizer.update(None, state, params, grad_fn=jax.grad(loss))
    ...     return optax.apply_updates(params, updates), state
    >>> params = {"x": jnp.array([3.0, -2.0])}
    >>> state = optimizer.init(params)
    >>> for _ in range(80):
    ...     params, state = step(params, state)
    >>> print(bool(loss(params) < 1e-4))
    True
    """
    smoothing = Smoothing.of(
        zeroth_order=False,
        has_value=False,
        t1=t1,
        t_end=t_end,
        gamma=gamma,
        eta=eta,
        total_steps=total_steps,
        schedule=schedule,
        samples=samples,
        units=units,
        seed=seed,
    )

    def estimate(
        tree: Parameters,
        state: SLGHState,
        *,
        grad_fn: Callable[[Any], Any] | None = None,
        value_and_grad_fn: Callable[[Any], Any] | None = None,
        **extra: Any,
    ) -> tuple[Estimated, dict[str, Any]]:
        if (grad_fn is None) == (value_and_grad_fn is None):
            raise checks.ArgumentTypeError(
                "`update` needs the gradient as a function: pass `grad_fn=jax.grad(loss)` or "
                "`value_and_grad_fn=jax.value_and_grad(loss)`."
            )

        def evaluate(floats: list[Array]) -> Evaluated:
            if grad_fn is not None:
                return Evaluated(jnp.zeros_like(state.t), tree.gradients(grad_fn(tree.filled(floats)), "grad_fn"))
            assert value_and_grad_fn is not None
            found = value_and_grad_fn(tree.filled(floats))
            if not isinstance(found, tuple) or len(found) != 2:
                raise checks.ArgumentTypeError("`value_and_grad_fn` must return a loss and its gradients.")
            return Evaluated(check_scalar(found[0], "value_and_grad_fn"), tree.gradients(found[1], "value_and_grad_fn"))

        return smoothing.from_gradients(evaluate, tree, state, has_value=grad_fn is None), extra

    return _transformation(base, smoothing, estimate)


def zoslgh(
    base: optax.GradientTransformation | optax.MultiSteps,
    *,
    t1: float | None = None,
    t_end: float | None = None,
    gamma: float | None = None,
    eta: float | None = None,
    total_steps: int | None = None,
    schedule: Schedule | Callable[[Any], Any] | None = None,
    samples: int = 1,
    units: str = "model",
    seed: int = 0,
) -> optax.GradientTransformationExtraArgs:
    r"""Estimate the gradient of the smoothed loss from losses, and pass it to a base transformation (ZOSLGH).

    .. math::
        g_k = \frac{1}{M} \sum_{i=1}^M \frac{f(x_k + t_k\, w \odot u_i) - f(x_k - t_k\, w \odot u_i)}{2\, t_k}\,
        \frac{u_i}{w}, \qquad
        x_{k+1} = x_k + \mathrm{base}(g_k), \qquad
        t_{k+1} = \max(\gamma\, t_k,\ t_{end})

    with :math:`u_i \sim N(0, I)`. With `eta` (ZOSLGH_d), t follows the curvature of the smoothed loss, which costs one
    more forward pass:

    .. math::
        t_{k+1} = \max\{\min\{t_k - \eta\, G_k,\ \gamma\, t_k\},\ t_{end}\}, \qquad
        G_k = \frac{1}{M} \sum_{i=1}^M (u_i^\top u_i - d)\,
        \frac{f(x_k + t_k\, w \odot u_i) + f(x_k - t_k\, w \odot u_i) - 2 f(x_k)}{2\, t_k^2}

    The method `update` of the transformation ignores the gradients that it is given, which may be None. It needs a
    function instead: ``update(None, state, params, value_fn=loss)``. It calls `value_fn` 2M times, and never
    differentiates it. The noise is generated again for each pair, so that the memory is that of a forward pass and a
    few copies of the parameters. The mean loss of the pairs is ``state.loss``, and goes to `base` as `value`, for
    example for `optax.contrib.reduce_on_plateau`. All further keyword arguments go to `base`.

    A pair with a loss that is not finite is dropped from the mean and counted in ``state.rejected``. If no pair is
    left, the update is 0, and t and the state of `base` do not change.

    Parameters
    ----------
    base
        Transformation that turns gradients into updates, for example ``optax.adam(1e-3)``.
    t1
        :math:`t_1`, the first smoothing radius. With `units="model"`, 0.1 means noise of 10 % of the weights.
    t_end
        :math:`t_{end}`, the smallest radius: by default 0.3 `t1` with `total_steps`, else 0.005 `t1`, below which
        differences of losses in float32 are mostly rounding errors. With `eta` it must be given.
    gamma
        :math:`\gamma`, the factor by which t falls per step (ZOSLGH_r). With `eta`: the factor by which t falls at
        least, 0.999 by default.
    eta
        :math:`\eta`, the step size of t (ZOSLGH_d).
    total_steps
        Number of updates over which t falls from `t1` to `t_end` by a constant factor, instead of `gamma`.
    schedule
        Schedule of `slgh.schedules`, or a function of the number of updates so far that returns t, such as a schedule
        of optax. It replaces `t1`, `t_end`, `gamma`, `eta` and `total_steps`.
    samples
        M, the number of pairs per update.
    units
        Unit of t. "model", the default: w is the root mean square of all parameters at `init`. "layer": w is that of
        each leaf. Use it with Adam. With plain descent, unequal w increase the variance of g. "absolute": w = 1.
    seed
        Non-negative integer that determines the noise.

    Returns
    -------
    optax.GradientTransformationExtraArgs
        Its state is an `SLGHState`. t is ``state.t``.

    Notes
    -----
    Those of `slgh` on leaves, wrappers, compilation and sharding. In `jax.shard_map`, `value_fn` must return the mean
    over the devices. In bfloat16, a perturbation below 0.2 % of a weight is lost by rounding.

    References
    ----------
    Iwakiri, Wang, Ito, Takeda. Single loop Gaussian homotopy method for non-convex optimization. NeurIPS 2022,
    Algorithms 3 and 4, here with antithetic pairs.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, optax
    >>> from slgh.integrations.optax import zoslgh
    >>> loss = lambda params: jnp.sum((params["x"] - 1.0) ** 2)
    >>> optimizer = zoslgh(optax.sgd(0.05), t1=0.5, t_end=0.01, gamma=0.95, samples=4)
    >>> @jax.jit
    ... def step(params, state):
    ...     updates, state = optimizer.update(None, state, params, value_fn=loss)
    ...     return optax.apply_updates(params, updates), state
    >>> params = {"x": jnp.array([3.0, -2.0])}
    >>> state = optimizer.init(params)
    >>> for _ in range(120):
    ...     params, state = step(params, state)
    >>> print(bool(loss(params) < 1e-3))
    True
    """
    smoothing = Smoothing.of(
        zeroth_order=True,
        has_value=True,
        t1=t1,
        t_end=t_end,
        gamma=gamma,
        eta=eta,
        total_steps=total_steps,
        schedule=schedule,
        samples=samples,
        units=units,
        seed=seed,
    )

    def estimate(
        tree: Parameters, state: SLGHState, *, value_fn: Callable[[Any], Any] | None = None, **extra: Any
    ) -> tuple[Estimated, dict[str, Any]]:
        if value_fn is None:
            raise checks.ArgumentTypeError("`update` needs the loss as a function: pass `value_fn=loss`.")

        def evaluate(floats: list[Array]) -> Evaluated:
            return Evaluated(check_scalar(value_fn(tree.filled(floats)), "value_fn"), [])

        return smoothing.from_values(evaluate, tree, state), extra

    return _transformation(base, smoothing, estimate)


def smoothed_value_and_grad(
    fun: Callable[..., Any],
    *,
    t1: float | None = None,
    t_end: float | None = None,
    gamma: float | None = None,
    eta: float | None = None,
    total_steps: int | None = None,
    schedule: Schedule | Callable[[Any], Any] | None = None,
    samples: int = 1,
    units: str | None = None,
    seed: int = 0,
    zeroth_order: bool = False,
    has_aux: bool = False,
) -> SmoothedValueAndGrad:
    r"""Return a function that evaluates the smoothed loss and its gradient, for your own training loop.

    .. math::
        F(x, t) = \mathbb{E}\, f(x + t\, w \odot u) \approx \frac{1}{M} \sum_{i=1}^M f(x + t\, w \odot u_i), \qquad
        \nabla_x F \approx g

    with :math:`u_i \sim N(0, I)` and the g of `slgh`. With ``zeroth_order=True``, g is that of `zoslgh`, and F is
    estimated from the values of its pairs. Each call also moves t to its next value, as these transformations do:

    .. code-block:: python

        smoothed = smoothed_value_and_grad(loss, t1=0.1, total_steps=1000)
        state = smoothed.init(params)
        (value, grads), state = smoothed(params, state, batch)

    If no sample is finite, the value is NaN, the gradients are 0 and t does not change.

    Parameters
    ----------
    fun
        The loss f, a function of the parameters and further arguments that returns a scalar.
    t1, t_end, gamma, eta, total_steps, schedule, samples, units, seed
        Those of `slgh`, or with ``zeroth_order=True`` those of `zoslgh`, with their defaults.
    zeroth_order
        True: call `fun` only, and never differentiate it. False, the default: use its gradients.
    has_aux
        True: `fun` returns a pair of the loss and auxiliary data. The call returns
        ``((value, aux), grads), state``, with the data of the last sample. Default: False.

    Returns
    -------
    SmoothedValueAndGrad
        Has the methods ``init(params)`` and ``__call__(params, state, *args, **kwargs)``.
    """
    if not callable(fun):
        raise checks.ArgumentTypeError(f"`fun` must be a function of the parameters, got {checks.show(fun)}.")
    smoothing = Smoothing.of(
        zeroth_order=zeroth_order,
        has_value=True,
        t1=t1,
        t_end=t_end,
        gamma=gamma,
        eta=eta,
        total_steps=total_steps,
        schedule=schedule,
        samples=samples,
        units=units or DEFAULT_UNITS[zeroth_order],
        seed=seed,
    )
    return SmoothedValueAndGrad(fun=fun, smoothing=smoothing, zeroth_order=zeroth_order, has_aux=has_aux)


@dataclass(frozen=True, kw_only=True)
class SmoothedValueAndGrad:
    """Smoothed loss and its gradient, as a pure function of the parameters and the state.

    `smoothed_value_and_grad` returns it.
    """

    fun: Callable[..., Any]
    smoothing: Smoothing
    zeroth_order: bool
    has_aux: bool

    def init(self, params: Any) -> SLGHState:
        """Return the first state."""
        return self.smoothing.init(Parameters.of(params))

    def __call__(self, params: Any, state: SLGHState, *args: Any, **kwargs: Any) -> tuple[tuple[Any, Any], SLGHState]:
        """Return ``(value, grads), state`` for the parameters. Further arguments go to the user's function."""
        tree = Parameters.of(params)

        def value(floats: list[Array]) -> tuple[Array, Any]:
            found = self.fun(tree.filled(floats), *args, **kwargs)
            if not self.has_aux:
                return check_scalar(found, "fun"), ()
            if not isinstance(found, tuple) or len(found) != 2:
                raise checks.ArgumentTypeError("`fun` must return a loss and auxiliary data with `has_aux=True`.")
            return check_scalar(found[0], "fun"), found[1]

        def forward(floats: list[Array]) -> Evaluated:
            found, aux = value(floats)
            return Evaluated(found, [], aux)

        def backward(floats: list[Array]) -> Evaluated:
            (found, aux), gradients = jax.value_and_grad(value, has_aux=True)(floats)
            return Evaluated(found, gradients, aux)

        if self.zeroth_order:
            estimated = self.smoothing.from_values(forward, tree, state, has_aux=self.has_aux)
        else:
            estimated = self.smoothing.from_gradients(backward, tree, state, has_aux=self.has_aux)
        after = self.smoothing.advance(state, estimated.estimate)
        assert estimated.estimate.F is not None
        smoothed = jnp.where(estimated.ok, estimated.estimate.F[0], jnp.nan)
        grads = tree.with_floats(estimated.gradients, jnp.zeros_like)
        return ((smoothed, estimated.aux) if self.has_aux else smoothed, grads), after


def _transformation(
    base: optax.GradientTransformation | optax.MultiSteps,
    smoothing: Smoothing,
    estimate: Callable[..., tuple[Estimated, dict[str, Any]]],
) -> optax.GradientTransformationExtraArgs:
    """Return the transformation that passes estimates of the gradient to `base`.

    `estimate` takes the parameters, the state and the keyword arguments of `update`, and returns an estimate and the
    keyword arguments for `base`.
    """
    if isinstance(base, optax.MultiSteps):
        base = base.gradient_transformation()
    if not isinstance(base, optax.GradientTransformation):
        raise checks.ArgumentTypeError(
            f"`base` must be a gradient transformation, such as optax.adam(1e-3), got {checks.show(base)}."
        )
    inner = optax.with_extra_args_support(base)

    def init(params: Any) -> SLGHState:
        tree = Parameters.of(params)
        return smoothing.init(tree, inner.init(tree.floats_only()))

    def update(
        updates: Any, state: SLGHState, params: Any = None, *, all_params: Any = None, **extra: Any
    ) -> tuple[Any, SLGHState]:
        del updates
        tree = Parameters.of(params, all_params)
        estimated, extra = estimate(tree, state, **extra)
        after = smoothing.advance(state, estimated.estimate)
        if estimated.estimate.F is not None:
            extra = {"value": estimated.estimate.F[0], **extra}
        gradients = tree.with_floats(estimated.gradients, lambda _: optax.MaskedNode())
        moves, base_state = inner.update(gradients, state.base, tree.floats_only(), **extra)
        floats = [jnp.where(estimated.ok, move, jnp.zeros_like(move)) for move in jax.tree.leaves(moves)]
        after = after._replace(base=select(estimated.ok, base_state, state.base))
        return tree.with_floats(floats, jnp.zeros_like), after

    return optax.GradientTransformationExtraArgs(init, update)
