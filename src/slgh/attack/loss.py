r"""The function that the attack minimizes: the loss of Carlini and Wagner on the model's probabilities, and distortion.

The unconstrained black-box attack of Section 5 of the paper, after Chen et al. (ZO-AdaMM).
"""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, ClassVar, NamedTuple

from array_api_compat import array_namespace, device

from slgh.attack.model import QueriedModel
from slgh.protocols import Array, Sight

ATANH_SCALE = 0.999999
"""Images are shrunk by this factor before atanh, which is infinite at the ends of the range."""

LOG_OFFSET = 1e-10
"""Added to probabilities before their logarithm, so that the loss is at most log(1 + 1e10), about 23."""

MAX_SUCCESS_MARGIN = 1e-10
"""The model is fooled where the margin is at most this, as in the paper."""

SAFE_MARGIN = 1e-3
"""A lead of the wrong class, in log odds, at which a success survives different rounding of the same output."""


class LossTerms(NamedTuple):
    """The total loss and its parts, each (...): the margin before it is clipped at -kappa, and the distortion."""

    total: Array
    margin: Array
    distortion: Array


def perturb(x: Array, a: Array) -> Array:
    r"""Return the image at x, for a perturbation x of the image a in [-0.5, 0.5]: both (..., d).

    .. math:: 0.5 \tanh(\tanh^{-1}(2 a) + x)

    It stays within the range for every x, and is a at x = 0: a is shrunk by `ATANH_SCALE`, the image is stretched
    again, and the part that then lies outside of the range, less than 1e-6, is clipped.
    """
    xp = array_namespace(x)
    return xp.clip(xp.tanh(xp.atanh(a * (2 * ATANH_SCALE)) + x) * (0.5 / ATANH_SCALE), min=-0.5, max=0.5)


def distortion_of(image: Array, a: Array) -> Array:
    """Return the squared L2 norm of image - a, which the paper calls the L2 distortion: (..., d) to (...)."""
    change = image - a
    return array_namespace(change).sum(change * change, axis=-1)


def probabilities(logits: Array) -> Array:
    """Return the softmax of logits (..., K)."""
    xp = array_namespace(logits)
    e = xp.exp(logits - xp.max(logits, axis=-1, keepdims=True))
    return e / xp.sum(e, axis=-1, keepdims=True)


def margin_of(p: Array, label: Array, *, targeted: bool) -> Array:
    r"""Return the lead of the right class in log odds, for probabilities p (..., K) and labels (...).

    .. math:: m = \log(p_y + 10^{-10}) - \log(\max_{j \ne y} p_j + 10^{-10})

    y is `label`. If `targeted`, y is the target class, and the difference changes its sign. The attack loss is
    :math:`\ell = \max(m, -\kappa)`.
    """
    xp = array_namespace(p)
    is_label = xp.astype(label[..., None] == xp.arange(p.shape[-1], device=device(p)), p.dtype)
    own = xp.sum(p * is_label, axis=-1)
    other = xp.max(p - 2 * is_label, axis=-1)
    lead = xp.log(own + LOG_OFFSET) - xp.log(other + LOG_OFFSET)
    return -lead if targeted else lead


@functools.cache
def _has_triton() -> bool:
    return find_spec("triton") is not None


def fits_kernels(x: Array) -> bool:
    """Return True for a float32 tensor on CUDA without gradients, if Triton is installed."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(x, torch.Tensor):
        return False
    return x.is_cuda and x.dtype == torch.float32 and not torch.is_grad_enabled() and _has_triton()


def kernels_for(x: Array) -> Any:
    """Return the module of kernels, or None if they cannot take x."""
    if not fits_kernels(x):
        return None
    from slgh.attack import kernels

    return kernels


@dataclass(frozen=True)
class AttackObjective:
    r"""The function passed to `minimize`: maps points x (B, n, d), images a (B, 1, d) and labels (B, 1) to `LossTerms`.

    .. math::
        f(x) = \lambda\, \ell(0.5 \tanh(\tanh^{-1}(2a) + x)) + \|0.5 \tanh(\tanh^{-1}(2a) + x) - a\|^2

    Parameters
    ----------
    weight
        :math:`\lambda`.
    """

    model: QueriedModel
    weight: float
    kappa: float
    targeted: bool

    def __call__(self, x: Array, a: Array, label: Array) -> LossTerms:
        (B, n, d), xp, kernels = x.shape, array_namespace(x), kernels_for(x)
        if kernels is not None:
            image, distortion = kernels.perturb(x, a, ATANH_SCALE)
        else:
            image = perturb(x, a)
            distortion = distortion_of(image, a)
        scores = self.model.scores(xp.reshape(image, (B * n, d)))
        if kernels is not None:
            total, margin = kernels.total_loss(
                scores,
                label,
                distortion,
                weight=self.weight,
                kappa=self.kappa,
                offset=LOG_OFFSET,
                targeted=self.targeted,
                logits=self.model.outputs == "logits",
            )
            return LossTerms(total, margin, distortion)
        p = probabilities(scores) if self.model.outputs == "logits" else scores
        margin = margin_of(xp.reshape(p, (B, n, -1)), label, targeted=self.targeted)
        return LossTerms(self.weight * xp.clip(margin, min=-self.kappa) + distortion, margin, distortion)


@dataclass(frozen=True, slots=True, kw_only=True)
class SuccessWatch:
    """A `Watch` that records the first iterate that fools the model, and the least distorted one that does so safely.

    An iterate that fools the model by less than `SAFE_MARGIN` is recorded until there is a safe one. With `ends` a
    problem ends at the first safe one.
    """

    ends: bool
    names: ClassVar[tuple[str, ...]] = ("first", "least", "x_least", "sure", "distortion", "margin")
    columns: ClassVar[tuple[str, ...]] = ("distortion", "margin", "least")

    def init(self, x: Array, xp: Any) -> tuple[Array, ...]:
        zero = xp.zeros_like(x[:, 0])
        return zero - 1, zero + xp.inf, xp.zeros_like(x), zero, zero, zero

    def see(self, state: tuple[Array, ...], sight: Sight, xp: Any) -> tuple[Array, ...]:
        first, least, x_least, was_safe, _, _ = state
        margin, distortion = sight.more[:, 0], sight.more[:, 1]
        success = margin <= MAX_SUCCESS_MARGIN
        safe = xp.astype(margin <= -SAFE_MARGIN, least.dtype)
        better = success & ((safe > was_safe) | ((safe == was_safe) & (distortion < least)))
        return (
            xp.where(success & (first < 0), sight.k + xp.zeros_like(first), first),
            xp.where(better, distortion, least),
            xp.where(better[:, None], sight.x, x_least),
            xp.where(better, safe, was_safe),
            distortion,
            margin,
        )

    def done(self, state: tuple[Array, ...], xp: Any) -> Array:
        return state[3] > 0
