"""Single loop Gaussian homotopy for training with gradients."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any, overload

import torch
from torch import Tensor
from torch.optim import Optimizer

from slgh import checks
from slgh.integrations.torch.homotopy import Homotopy, to_number
from slgh.integrations.torch.noise import noise_key
from slgh.protocols import Schedule


class SLGH(Homotopy):
    r"""Train by single loop Gaussian homotopy around any optimizer: gradients at x + t w u instead of x, while t falls.

    .. math::
        g_k = \frac{1}{M} \sum_{i=1}^M \nabla f(x_k + t_k w u_i), \qquad
        x_{k+1} = \operatorname{base}(x_k, g_k), \qquad t_{k+1} = \operatorname{schedule}(t_k, G_t), \qquad
        G_t = \frac{1}{M t_k} \sum_{i=1}^M u_i^\top (w \nabla f(x_k + t_k w u_i)),

    with :math:`u_i \sim N(0, I)`. :math:`g_k` is an unbiased estimate of the gradient of
    :math:`F(x, t) = E f(x + t w u)`.

    Parameters
    ----------
    base
        Optimizer that gets :math:`g_k`, for example `torch.optim.Adam(model.parameters(), lr=1e-3)`. Both share
        their parameter groups. Pass the slgh optimizer to schedulers of the learning rate. A group may have a key
        `t_scale`, which multiplies the radius of its parameters.
    t1
        First radius.
    t_end
        Lower limit of t. With `total_steps`, t ends there. The default is 0.01 t1 with `total_steps`, else 0.
    total_steps
        Number of training steps, over which t falls geometrically from t1 to t_end.
    gamma
        Factor of t per step (SLGH_r). With `eta`, t falls at least by this factor, 0.999 by default.
    eta
        Step size of t (SLGH_d): t falls by eta :math:`G_t`.
    schedule
        Instead of the arguments above: a part of `slgh.schedules`, or a function of the number of steps that returns t.
        "lr", with `t1`: t is t1 times the learning rate of each group, relative to its first learning rate.
    samples
        M, the number of perturbations per step with a closure, 1 by default. Each costs a forward and a backward pass.
    units
        "layer", the default: w is the root mean square of each parameter at the start, so that t is relative to the
        weights. For a parameter that is all zero, it is the root mean square of all parameters. "model": w is that of
        all parameters. "absolute": w = 1.
    restore
        How the parameters are restored after each sample. "exact": from a copy, bit for bit. "arithmetic": by
        subtracting the noise, which needs no copy and leaves rounding errors. None, the default: "exact" for 16-bit
        parameters and in several processes, else "arithmetic".
    on_nonfinite
        Response to a loss or gradient that is NaN or infinite, in `step(closure)` only. "skip", the default, drops the
        sample, and skips the step if no sample is left. "raise" raises `FloatingPointError`.
    seed
        Seed of the noise. None, the default, generates one, which `state_dict` stores.
    process_group
        Processes that train one model, each with `DistributedDataParallel`. "auto", the default: all, if
        torch.distributed is initialized. Their directions differ, so that the mean gradient has more samples. None:
        this process alone.

    References
    ----------
    Iwakiri, Wang, Ito, Takeda. Single loop Gaussian homotopy method for non-convex optimization. NeurIPS 2022.
    """

    zeroth_order = False
    provides = frozenset({"trace", "slope"})

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
        units: str = "layer",
        restore: str | None = None,
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
        self._rank = 0
        if self.process_group is not None:
            # Each process has its own directions. Rounding errors of arithmetic would drive their parameters apart.
            if restore == "arithmetic":
                raise checks.ArgumentValueError("`restore` must be 'exact' in several processes, got 'arithmetic'.")
            self._restore = "exact"
            self._rank = torch.distributed.get_rank(self.process_group)
        self._inside = False
        self._before = 0.0
        """Dot product of the noise and the gradients from before the sample."""
        self._forget_samples()

    def _forget_samples(self) -> None:
        self._entered = 0
        """Number of samples of this step."""
        self._slopes: list[float | None] = []
        """Slopes of F in t from the samples of this step. None: not measured."""

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients. Outside of `perturbed`, also forget the samples since the last step."""
        super().zero_grad(set_to_none)
        self._before = 0.0
        if self._entered and not self._inside:
            self._forget_samples()
            self._tried += 1  # new noise

    @contextlib.contextmanager
    def perturbed(self, loss_scale: float = 1.0) -> Iterator[None]:
        """Hold the parameters at x + t w u, for one forward and backward pass of a training loop without a closure.

        Enter it once per sample, then call `step()`. Gradients accumulate, so divide the loss by the number of samples.
        Reset gradients by the `zero_grad` of this optimizer, not of the model.

        Parameters
        ----------
        loss_scale
            Factor of the loss, such as `scaler.get_scale()`. Only the derivative schedule (`eta`) needs it.
        """
        if self._inside:
            raise RuntimeError("`perturbed` is already active. Leave it before you enter it again.")
        self._index_parameters()
        widths = self._widths()
        key = noise_key(self.seed, self._tried, self._entered, self._rank)
        measures = bool(self._needs & {"trace", "slope"})
        self._before = self._dot(key, widths) if measures else 0.0
        excursion = self._excursion()
        self._inside = True
        try:
            excursion.go(key, [self._t * w for w in widths])
            yield
        finally:
            self._inside = False
            excursion.back()
        self._entered += 1
        self._slopes.append((self._dot(key, widths) - self._before) / loss_scale if measures else None)

    def _dot(self, key: int, widths: list[float]) -> float:
        return self._noise.dot(key, [p.grad for p in self._parameters], widths)

    @overload  # type: ignore[override]
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], Any]) -> Tensor: ...
    def step(self, closure: Callable[[], Any] | None = None) -> Tensor | None:
        """Do one step of the base optimizer with the gradient of F, and move t.

        Parameters
        ----------
        closure
            Function that resets the gradients, evaluates the loss, calls its `backward`, and returns it. It is called M
            times. None, the default: the passes were done inside `perturbed`.

        Returns
        -------
        Tensor or None
            Mean loss over the samples, an estimate of F, or NaN if no sample was finite. None without a closure.
        """
        if self._inside:
            raise RuntimeError("Leave `perturbed` before `step`.")
        loss = None
        if closure is not None:
            loss = self._sample_gradients(closure)
        elif not self._entered:
            raise RuntimeError(
                "There is no gradient of the smoothed loss. Run the forward and the backward pass inside "
                "`with optimizer.perturbed():`, or pass a closure."
            )
        known = [slope for slope in self._slopes if slope is not None]
        skipped = not self._slopes
        self._forget_samples()
        self._tried += 1
        if skipped:
            return loss
        self.base.step()
        # Without a closure, the losses are divided by the number of samples, and so are the slopes.
        slope = sum(known) / (len(known) if closure is not None else 1) if known else None
        if slope is not None:
            # DistributedDataParallel has divided the gradients, and so these slopes, by the number of processes.
            slope = self._reduce([slope], "sum")[0]
        self._advance(slope=slope, trace=slope / self._t if slope and self._t else slope)
        return loss

    def _sample_gradients(self, closure: Callable[[], Any]) -> Tensor:
        """Store the mean gradient of the good samples in the parameters, and return their mean loss."""
        if self._entered:
            raise RuntimeError("Pass a closure, or use `perturbed`, not both in one step.")
        self._index_parameters()
        sums: list[Tensor | None] = [None] * len(self._parameters)
        losses: list[float] = []
        try:
            for _ in range(self.samples):
                if self.samples > 1:
                    super().zero_grad()
                with torch.enable_grad(), self.perturbed():
                    value = to_number(closure())
                good = math.isfinite(value) and self._finite_gradients()
                if self._reduce([float(good)], "minimum")[0] == 0:
                    self._slopes.pop()
                    super().zero_grad()
                    self._reject(1)
                    continue
                losses.append(value)
                if self.samples > 1:
                    _collect_gradients(self._parameters, sums)
        except BaseException:
            self._forget_samples()
            raise
        if self.samples > 1 and losses:
            for p, total in zip(self._parameters, sums, strict=True):
                p.grad = None if total is None else total.div_(len(losses))
        return torch.tensor(sum(losses) / len(losses) if losses else math.nan)

    def _finite_gradients(self) -> bool:
        """Return True if all gradients are finite."""
        grads = [p.grad for p in self._parameters if p.grad is not None]
        return all(math.isfinite(float(torch.stack(norms).sum())) for norms in _norms_by_device(grads))


def _norms_by_device(grads: list[Tensor]) -> list[list[Tensor]]:
    """Return the norms of tensors, one list per device."""
    by_device: dict[torch.device, list[Tensor]] = {}
    for norm in torch._foreach_norm(grads) if grads else ():
        by_device.setdefault(norm.device, []).append(norm.float())
    return list(by_device.values())


def _collect_gradients(parameters: list[Tensor], sums: list[Tensor | None]) -> None:
    """Move the gradients of the parameters into the sums."""
    for i, p in enumerate(parameters):
        if p.grad is not None:
            total = sums[i]
            sums[i] = p.grad if total is None else total.add_(p.grad)
            p.grad = None
