"""Single loop Gaussian homotopy for training with forward passes alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from slgh import checks
from slgh.integrations.torch.homotopy import Homotopy, to_number
from slgh.integrations.torch.noise import Excursion, noise_key, sum_type
from slgh.protocols import Schedule


class ZOSLGH(Homotopy):
    r"""Train by single loop Gaussian homotopy with forward passes alone, at the memory of inference.

    .. math::
        g_k = \frac{1}{M} \sum_{i=1}^M c_i \frac{u_i}{w}, \qquad
        c_i = \frac{f(x_k + t_k w u_i) - f(x_k - t_k w u_i)}{2 t_k}, \qquad
        x_{k+1} = \operatorname{base}(x_k, g_k), \qquad t_{k+1} = \operatorname{schedule}(t_k, G_t),

    with :math:`u_i \sim N(0, I)`. For the derivative schedule (`eta`), one more pass at :math:`x_k` gives

    .. math::
        G_t = \frac{1}{M} \sum_{i=1}^M (u_i^\top u_i - d)
        \frac{f(x_k + t_k w u_i) + f(x_k - t_k w u_i) - 2 f(x_k)}{2 t_k^2}.

    Parameters are changed in place, and the noise is generated again whenever it is needed (as MeZO does). With plain
    SGD as the base optimizer there is no gradient in memory. Any other base optimizer gets :math:`g_k` in the `grad` of
    the parameters.

    Parameters
    ----------
    base
        Optimizer that gets :math:`g_k`, for example `torch.optim.SGD(model.parameters(), lr=1e-3)`. Both share
        their parameter groups. Pass the slgh optimizer to schedulers of the learning rate. A group may have a key
        `t_scale`, which multiplies the radius of its parameters. Parameters that do not require a gradient stay as
        they are.
    t1
        First radius.
    t_end
        Lower limit of t. With `total_steps`, t ends there, by default at 0.3 t1. With `eta` it must be given. Otherwise
        it is 0.005 t1, below which differences of losses in float32 are mostly rounding errors.
    total_steps
        Number of training steps, over which t falls geometrically from t1 to t_end.
    gamma
        Factor of t per step (ZOSLGH_r). With `eta`, t falls at least by this factor, 0.999 by default.
    eta
        Step size of t (ZOSLGH_d): t falls by eta :math:`G_t`.
    schedule
        Instead of the arguments above: a part of `slgh.schedules`, or a function of the number of steps that returns t.
        "lr", with `t1`: t is t1 times the learning rate of each group, relative to its first learning rate.
    samples
        M, the number of pairs per step, 1 by default. Each costs two forward passes.
    units
        "model", the default: w is the root mean square of all parameters at the start, so that t is relative to the
        weights. "layer": w is that of each parameter. Use it with Adam. With SGD, unequal w increase the variance of
        :math:`g_k`. "absolute": w = 1.
    restore
        How the parameters are restored. "arithmetic": by subtracting the noise, which needs no copy and leaves rounding
        errors. "exact": from a copy of the parameters, bit for bit. None, the default: "exact" for 16-bit parameters,
        else "arithmetic".
    same_randomness
        True, the default: all passes of a step start from the same state of PyTorch's random numbers, so that dropout
        is the same in them.
    on_nonfinite
        Response to a loss that is NaN or infinite. "skip", the default, drops the pair, and skips the step if no pair
        is left. "raise" raises `FloatingPointError`.
    seed
        Seed of the noise. None, the default, generates one, which `state_dict` stores.
    process_group
        Processes that train together. "auto", the default: all, if torch.distributed is initialized. Each evaluates the
        loss on its own part of the data. They use the same noise and exchange only losses. None: this process alone.

    References
    ----------
    Iwakiri, Wang, Ito, Takeda. Single loop Gaussian homotopy method for non-convex optimization. NeurIPS 2022.
    Malladi, Gao, Nichani, Damian, Lee, Chen, Arora. Fine-tuning language models with just forward passes. NeurIPS 2023.
    """

    zeroth_order = True
    provides = frozenset({"f", "F", "trace", "slope"})

    def __init__(
        self,
        base: Optimizer,
        *,
        t1: float | None = None,
        t_end: float | None = None,
        total_steps: int | None = None,
        gamma: float | None = None,
        eta: float | None = None,
        schedule: Schedule | Callable[[Any], Any] | str | None = None,
        samples: int = 1,
        units: str = "model",
        restore: str | None = None,
        same_randomness: bool = True,
        on_nonfinite: str = "skip",
        seed: int | None = None,
        process_group: Any = "auto",
    ) -> None:
        super().__init__(
            base,
            t1=t1,
            t_end=t_end,
            gamma=gamma,
            eta=eta,
            total_steps=total_steps,
            schedule=schedule,
            samples=samples,
            units=units,
            restore=restore,
            on_nonfinite=on_nonfinite,
            seed=seed,
            process_group=process_group,
        )
        self.same_randomness = same_randomness
        self._checked = False

    def step(self, closure: Callable[[], Any] | None = None) -> Tensor:  # type: ignore[override]
        """Do one step from forward passes, and move t.

        Parameters
        ----------
        closure
            Function that evaluates and returns the loss. It is called twice per sample, without gradients.

        Returns
        -------
        Tensor
            Mean loss over the points around x, an estimate of F. NaN if no loss was finite.
        """
        if closure is None:
            raise checks.ArgumentTypeError("`closure` is missing: ZOSLGH evaluates the loss itself.")
        if not self._t > 0:
            raise checks.ArgumentValueError(f"t must be positive for differences of the loss, got {self._t}.")
        self._index_parameters()
        self._require_equal_parameters()
        excursion = self._excursion()
        try:
            with torch.no_grad():
                return torch.tensor(self._step(closure, excursion))
        except BaseException:
            excursion.back()
            raise

    def _step(self, closure: Callable[[], Any], excursion: Excursion) -> float:
        t, widths = self._t, self._widths()
        forth, back = [t * w for w in widths], [-t * w for w in widths]
        random = _RandomState(self._parameters) if self.same_randomness else None
        center = None
        if self._needs & {"f", "trace", "slope"}:
            (center,) = self._reduce([_evaluate(closure, random)])
        pairs: dict[int, tuple[float, float]] = {}
        """Both losses of each good pair, by the key of its noise."""
        self._tried += 1
        for i in range(self.samples):
            key = noise_key(self.seed, self._tried, i)
            excursion.go(key, forth)
            plus = _evaluate(closure, random)
            excursion.go(key, back)
            minus = _evaluate(closure, random)
            plus, minus = self._reduce([plus, minus])
            if all(value is None or math.isfinite(value) for value in (plus, minus, center)):
                pairs[key] = plus, minus
            else:
                excursion.back()
                self._reject(1)
        if not pairs:
            excursion.back()
            return math.nan
        trace = self._trace(pairs, center, widths)
        slopes = {key: (plus - minus) / (2 * t * len(pairs)) for key, (plus, minus) in pairs.items()}
        if _is_plain(self.base):
            self._descend(slopes, widths, excursion)
        else:
            excursion.back()
            self._step_base(slopes, widths)
        mean = sum(plus + minus for plus, minus in pairs.values()) / (2 * len(pairs))
        self._advance(f=center, F=mean, trace=trace, slope=None if trace is None else trace * t)
        return mean

    def _trace(self, pairs: dict[int, tuple[float, float]], center: float | None, widths: list[float]) -> float | None:
        """Return the estimate of the trace, if the schedule needs it."""
        if center is None or not self._needs & {"trace", "slope"}:
            return None
        total = 0.0
        for key, (plus, minus) in pairs.items():
            square, d = self._noise.square(key, widths)
            total += (square - d) * (plus + minus - 2 * center)
        return total / (2 * self._t**2 * len(pairs))

    def _descend(self, slopes: dict[int, float], widths: list[float], excursion: Excursion) -> None:
        """Do the step of plain SGD in place: x (1 - lr weight_decay) - lr g.

        `slopes` has the slope along the noise of each key, divided by M.
        """
        groups = [self.param_groups[g] for g in self._group_of]
        rates = [-float(group["lr"]) if group["maximize"] else float(group["lr"]) for group in groups]
        keep = [1 - float(group["lr"]) * float(group["weight_decay"]) for group in groups]
        factors = {
            key: [-rate * slope / w if w else 0.0 for rate, w in zip(rates, widths, strict=True)]
            for key, slope in slopes.items()
        }
        excursion.add_at(factors, keep)

    def _step_base(self, slopes: dict[int, float], widths: list[float]) -> None:
        """Store the estimate of the gradient in the parameters, and do a step of the base optimizer."""
        grads = [torch.zeros_like(p) for p in self._parameters]
        for key, slope in slopes.items():
            for block in self._noise.sweep(key):
                for piece, part in zip(block.pieces, block.parts, strict=True):
                    if w := widths[piece.parameter]:
                        piece.of(grads[piece.parameter]).add_(part, alpha=slope / w)
        for p, grad in zip(self._parameters, grads, strict=True):
            p.grad = grad
        self.base.step()
        self.zero_grad()

    def _require_equal_parameters(self) -> None:
        """Raise an error unless all processes start from the same parameters."""
        if self.process_group is None or self._checked:
            return
        total = sum(float(p.detach().sum(dtype=sum_type(p))) for p in self._parameters)
        low, high = self._reduce([total, -total], "minimum")
        if low != -high:
            raise checks.ArgumentValueError(
                "The parameters differ between the processes. Load the same state, or wrap the model in "
                "DistributedDataParallel, before the first step."
            )
        self._checked = True


def _evaluate(closure: Callable[[], Any], random: _RandomState | None) -> float:
    if random is not None:
        random.restore()
    return to_number(closure())


class _RandomState:
    """State of PyTorch's random numbers on the devices of some tensors, to start several passes from."""

    def __init__(self, tensors: list[Tensor]) -> None:
        self._cpu = torch.get_rng_state()
        self._cuda = {t.device: torch.cuda.get_rng_state(t.device) for t in tensors if t.is_cuda}

    def restore(self) -> None:
        torch.set_rng_state(self._cpu)
        for device, state in self._cuda.items():
            torch.cuda.set_rng_state(state, device)


def _is_plain(base: Optimizer) -> bool:
    """Return True if the base optimizer is x - lr (g + weight_decay x), and nothing else happens in its step."""
    hooks = base._optimizer_step_pre_hooks or base._optimizer_step_post_hooks
    return type(base) is torch.optim.SGD and not hooks and all(group["momentum"] == 0 for group in base.param_groups)
