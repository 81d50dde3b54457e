r"""What the attack minimizes: the loss of Carlini and Wagner on the model's probabilities, and the distortion."""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, NamedTuple, Protocol

from array_api_compat import array_namespace, device

from slgh.protocols import Array

INSIDE = 0.999999
"""Images are shrunk by so much before atanh, which is infinite at the ends of the range."""

TINY = 1e-10
"""Added to probabilities before their logarithm, so that the loss is at most log(1 + 1e10), about 23."""


class Model(Protocol):
    """What is attacked: images (N, d) in [-0.5, 0.5] to scores (N, K), which are "logits" or "probabilities"."""

    @property
    def outputs(self) -> str: ...
    def scores(self, images: Array) -> Array: ...


SUCCESS = 1e-10
"""The model is fooled where the loss is at most this, as in the paper."""

SURE = 1e-3
"""By so much must the wrong class lead, in log odds, for the success to survive another rounding of the same answer."""


class Seen(NamedTuple):
    """The total loss, and what it is made of: the margin, not yet cut off, and the distortion; (...) each."""

    total: Array
    margin: Array
    distortion: Array


def perturb(x: Array, a: Array) -> Array:
    r"""The image at x, for a perturbation x of the image a in [-0.5, 0.5]: both (..., d).

    .. math:: 0.5 \tanh(\tanh^{-1}(2 a) + x)

    It stays within the range whatever x is, and is a at x = 0: a is shrunk by `INSIDE`, the image stretched again, and
    what that takes out of the range, less than 1e-6, is cut off.
    """
    xp = array_namespace(x)
    return xp.clip(xp.tanh(xp.atanh(a * (2 * INSIDE)) + x) * (0.5 / INSIDE), min=-0.5, max=0.5)


def distortion_of(image: Array, a: Array) -> Array:
    """The squared L2 norm of image - a, which the paper calls the L2 distortion: (..., d) to (...)."""
    change = image - a
    return array_namespace(change).sum(change * change, axis=-1)


def probabilities(logits: Array) -> Array:
    """The softmax of logits (..., K)."""
    xp = array_namespace(logits)
    e = xp.exp(logits - xp.max(logits, axis=-1, keepdims=True))
    return e / xp.sum(e, axis=-1, keepdims=True)


def margin_of(p: Array, label: Array, *, targeted: bool) -> Array:
    r"""By how much the right class leads, of probabilities p (..., K) with the label, or the wanted class, (...).

    .. math:: m = \log(p_y + 10^{-10}) - \log(\max_{j \ne y} p_j + 10^{-10})

    y is `label`; targeted, y is the class that is wanted, and the difference changes its sign. The attack loss is
    :math:`\ell = \max(m, -\kappa)`.
    """
    xp = array_namespace(p)
    of_label = xp.astype(label[..., None] == xp.arange(p.shape[-1], device=device(p)), p.dtype)
    own = xp.sum(p * of_label, axis=-1)
    other = xp.max(p - 2 * of_label, axis=-1)
    lead = xp.log(own + TINY) - xp.log(other + TINY)
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
    r"""The function that `minimize` is given: points x (B, n, d), images a (B, 1, d) and labels (B, 1) to `Seen`.

    .. math::
        f(x) = \lambda\, \ell(0.5 \tanh(\tanh^{-1}(2a) + x)) + \|0.5 \tanh(\tanh^{-1}(2a) + x) - a\|^2

    Parameters
    ----------
    weight
        :math:`\lambda`.
    """

    model: Model
    weight: float
    kappa: float
    targeted: bool

    def __call__(self, x: Array, a: Array, label: Array) -> Seen:
        (B, n, d), xp, kernels = x.shape, array_namespace(x), kernels_for(x)
        if kernels is not None:
            image, distortion = kernels.perturb(x, a, INSIDE)
        else:
            image = perturb(x, a)
            distortion = distortion_of(image, a)
        scores = self.model.scores(xp.reshape(image, (B * n, d)))
        if kernels is not None:
            total, margin = kernels.lose(
                scores,
                label,
                distortion,
                weight=self.weight,
                kappa=self.kappa,
                tiny=TINY,
                targeted=self.targeted,
                logits=self.model.outputs == "logits",
            )
            return Seen(total, margin, distortion)
        p = probabilities(scores) if self.model.outputs == "logits" else scores
        margin = margin_of(xp.reshape(p, (B, n, -1)), label, targeted=self.targeted)
        return Seen(self.weight * xp.clip(margin, min=-self.kappa) + distortion, margin, distortion)


@dataclass(frozen=True, slots=True, kw_only=True)
class Successes:
    """A `Watch` on the attack: when an iterate first fools the model, and the least distorted one that surely does.

    With `ends` a problem ends at the first iterate that surely does. One that only just does is kept until there is a
    sure one.
    """

    ends: bool

    @property
    def names(self) -> tuple[str, ...]:
        return "first", "least", "x_least", "sure", "distortion", "margin"

    @property
    def columns(self) -> tuple[str, ...]:
        return "distortion", "margin"

    def init(self, x: Array, xp: Any) -> tuple[Array, ...]:
        none = xp.zeros_like(x[:, 0])
        return none - 1, none + xp.inf, xp.zeros_like(x), none, none, none

    def see(self, state: tuple[Array, ...], sight: Any, xp: Any) -> tuple[Array, ...]:
        first, least, x_least, held, _, _ = state
        margin, distortion = sight.more[:, 0], sight.more[:, 1]
        success = margin <= SUCCESS
        sure = xp.astype(margin <= -SURE, least.dtype)
        better = success & ((sure > held) | ((sure == held) & (distortion < least)))
        return (
            xp.where(success & (first < 0), sight.k + xp.zeros_like(first), first),
            xp.where(better, distortion, least),
            xp.where(better[:, None], sight.x, x_least),
            xp.where(better, sure, held),
            distortion,
            margin,
        )

    def done(self, state: tuple[Array, ...], xp: Any) -> Array:
        return state[3] > 0
