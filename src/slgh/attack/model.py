"""Query a model: pass images in the range, shape and library that it reads, and check what it returns."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray

from slgh import checks
from slgh.backends import backend_of
from slgh.protocols import Array

OUTPUTS = ("logits", "probabilities", "labels")

CHECK_BATCH_SIZE = 256
"""Maximum number of images per call before and after the attack."""

SHAPE_WORDS = ("shape", "size", "channel", "dimension", "expected")
"""Words in error messages that suggest a wrong order of the channels."""

PROBABILITY_TOLERANCE = 0.05
"""Maximum deviation from 1 of a sum of probabilities: a service may round them to two digits."""

REPEAT_TOLERANCE = 1e-3
"""Maximum difference between two outputs for the same images, relative to the largest output."""

TF32_TOLERANCE = 1e-2
"""The same on CUDA, where one query may use TF32 and the other not."""


@dataclass(frozen=True, kw_only=True)
class QueriedModel:
    """A model as a function of images (N, d) in [-0.5, 0.5]: logits or probabilities (N, K), or classes (N,).

    Parameters
    ----------
    model
        Maps images (N, \\*shape), with pixels in [low, high], to logits or probabilities (N, K), or to classes (N,).
    model_batch_size
        Maximum number of images per call of the model; None: no limit.
    """

    model: Callable[[Array], Any]
    shape: tuple[int, ...]
    low: float
    high: float
    outputs: str
    model_batch_size: int | None

    def scores(self, images: Array, limit: int | None = None) -> Array:
        """Return the model's outputs, (N, K) or (N,), with at most `limit` images per call."""
        xp, n = array_namespace(images), images.shape[0]
        size = min(self.model_batch_size or n, limit or n)
        pixels = xp.reshape(self.pixels(images), (n, *self.shape))
        if n <= size:
            return self._checked(self.model(pixels), images)
        parts = [pixels[i : i + size] for i in range(0, n, size)]
        return xp.concat([self._checked(self.model(part), part) for part in parts], axis=0)

    def classes(self, images: Array, limit: int | None = None) -> Array:
        """Return the classes that the model predicts, (N,), with at most `limit` images per call."""
        found = self.scores(images, limit)
        return found if self.outputs == "labels" else array_namespace(found).argmax(found, axis=1)

    def pixels(self, images: Array) -> Array:
        """Return images in [-0.5, 0.5] in the model's range."""
        if (self.low, self.high) == (-0.5, 0.5):
            return images
        pixels = images * (self.high - self.low) + (self.low + self.high) / 2
        return array_namespace(images).clip(pixels, min=self.low, max=self.high)

    def _checked(self, found: Any, images: Array) -> Array:
        """Return the model's output as an array (n, K), or (n,) for classes, of the images' library."""
        if self.outputs == "labels":
            return self._checked_classes(found, images)
        if isinstance(images, np.ndarray):
            found = np.asarray(found, images.dtype)
        elif isinstance(found, np.ndarray | list):  # from a remote call, for example
            found = array_namespace(images).asarray(found, dtype=images.dtype, device=device(images))
        shape = tuple(getattr(found, "shape", ()))
        if len(shape) != 2 or shape[0] != images.shape[0] or shape[1] < 2:
            raise checks.ArgumentValueError(
                f"`model` must return one row of {self.outputs} per image, shape ({images.shape[0]}, classes); got "
                f"{shape or checks.show(found)}."
            )
        return found

    def _checked_classes(self, found: Any, images: Array) -> Array:
        """Return classes (n,) as integers of the images' library."""
        xp = array_namespace(images)
        if isinstance(images, np.ndarray):
            found = np.asarray(found)
        elif isinstance(found, np.ndarray | list | tuple):
            found = xp.asarray(np.asarray(found), device=device(images))
        shape = tuple(getattr(found, "shape", ()))
        if shape != (images.shape[0],):
            raise checks.ArgumentValueError(
                f"`model` must return one class per image with `outputs='labels'`, shape ({images.shape[0]},); got "
                f"{shape or checks.show(found)}. For scores pass `outputs='logits'` or `outputs='probabilities'`."
            )
        if not array_namespace(found).isdtype(found.dtype, "integral"):
            raise checks.ArgumentTypeError(
                f"`model` must return integers with `outputs='labels'`, got dtype {found.dtype}."
            )
        return found


@dataclass(frozen=True, kw_only=True)
class ImageClasses:
    """The true classes (B,), the model's classes of the originals, and the target classes of a targeted attack."""

    label: NDArray[np.int64]
    before: NDArray[np.int64]
    target: NDArray[np.int64] | None

    def attacked(self) -> NDArray[np.intp]:
        """Return the numbers of the images to attack: classified correctly, and not yet as the target class."""
        right = self.before == self.label
        return np.flatnonzero(right if self.target is None else right & (self.before != self.target))

    def fooled(self, rows: NDArray[np.intp], seen: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return a mask of the images `rows` for which the class `seen` is a success."""
        return np.asarray(seen != self.label[rows] if self.target is None else seen == self.target[rows])


def read_images(images: Any, model: Any, pixels: Any, name: str = "images") -> tuple[Array, tuple[float, float]]:
    """Return the images, float32 or float64 (B, ...) of the library that the model reads, and the range of pixels."""
    low, high = _read_pixels(pixels)
    torch: Any = sys.modules.get("torch")
    if isinstance(images, list | tuple):
        images = np.asarray(images)
    if not hasattr(images, "ndim"):
        raise checks.ArgumentTypeError(f"`{name}` must be an array of images, got {checks.show(images)}.")
    if isinstance(images, np.ndarray):
        if images.dtype.kind in "iub" and (low, high) != (0.0, 255.0):
            raise checks.ArgumentValueError(
                f"`{name}` hold integers, but `pixels` says {(low, high)}: pass `pixels=(0, 255)`, or scale them first."
            )
        if images.dtype.kind not in "iubf":
            raise checks.ArgumentTypeError(f"`{name}` must be real numbers, got dtype {images.dtype}.")
        images = images.astype(np.float64 if images.dtype == np.float64 else np.float32)
    if torch is not None and isinstance(model, torch.nn.Module):
        device, dtype = _device_and_dtype(model, torch)
        images = torch.as_tensor(images, device=device).to(dtype)
    if torch is not None and isinstance(images, torch.Tensor):
        images = images.detach()
        if images.dtype not in (torch.float32, torch.float64):
            raise checks.ArgumentTypeError(f"`{name}` must be of dtype float32 or float64, got {images.dtype}.")
    xp = array_namespace(images)
    if images.ndim < 2 or 0 in images.shape:
        raise checks.ArgumentValueError(
            f"`{name}` must have shape (B, ...), at least one image of one pixel; got {images.shape}."
        )
    if not bool(xp.all(xp.isfinite(images))):
        raise checks.ArgumentValueError(f"`{name}` must be finite, got NaN or infinite pixels.")
    least, most = float(xp.min(images)), float(xp.max(images))
    slack = 1e-6 * (high - low)
    if least < low - slack or most > high + slack:
        raise checks.ArgumentValueError(
            f"`{name}` must have pixels in [{low:g}, {high:g}], got [{least:g}, {most:g}]: say which range is meant "
            "with `pixels=(low, high)`."
        )
    return xp.clip(images, min=low, max=high), (low, high)


def _device_and_dtype(module: Any, torch: Any) -> tuple[Any, Any]:
    """Return the device and dtype of a module's parameters."""
    for tensor in (*module.parameters(), *module.buffers()):
        if tensor.is_floating_point():
            if tensor.dtype not in (torch.float32, torch.float64):
                raise checks.ArgumentTypeError(
                    f"`model` must compute in float32 or float64, got {tensor.dtype}: close values are subtracted."
                )
            return tensor.device, tensor.dtype
    return torch.device("cpu"), torch.float32


def _read_pixels(pixels: Any) -> tuple[float, float]:
    try:
        low, high = (float(end) for end in pixels)
    except (TypeError, ValueError):
        raise checks.ArgumentTypeError(f"`pixels` must be a pair (low, high), got {checks.show(pixels)}.") from None
    if not (np.isfinite([low, high]).all() and low < high):
        raise checks.ArgumentValueError(f"`pixels` must be a pair low < high, got {pixels!r}.")
    return low, high


def read_labels(name: str, labels: Any, B: int) -> NDArray[np.int64]:
    """Return classes (B,) as a NumPy array."""
    found = np.asarray(backend_of(labels).host(labels))
    if found.shape != (B,):
        hint = " Pass the classes, not one-hot rows." if found.ndim == 2 else ""
        raise checks.ArgumentValueError(
            f"`{name}` must have one class per image, shape ({B},); got {found.shape}.{hint}"
        )
    if found.dtype.kind not in "iu":
        raise checks.ArgumentTypeError(f"`{name}` must be integers, got dtype {found.dtype}.")
    return found.astype(np.int64)


def check_classes(name: str, found: NDArray[np.int64], classes: int) -> None:
    """Raise unless these are classes of the model, 0..classes-1."""
    if (outside := (found < 0) | (found >= classes)).any():
        i = int(np.flatnonzero(outside)[0])
        raise checks.ArgumentValueError(
            f"`{name}` must lie in 0..{classes - 1}, the model's {classes} classes; got {found[i]} for image {i}."
        )


def first_scores(queried: QueriedModel, images: Array, host: Callable[[Array], NDArray[Any]]) -> NDArray[Any]:
    """Return the model's scores (B, K) of the originals: they must be finite and in range."""
    try:
        scores = host(queried.scores(images, CHECK_BATCH_SIZE))
    except Exception as error:
        hint = _channel_hint(queried.shape) if any(word in str(error).lower() for word in SHAPE_WORDS) else ""
        error.add_note(f"slgh: the model was given images of shape {(images.shape[0], *queried.shape)}.{hint}")
        raise
    if not np.isfinite(scores).all():
        i = int(np.argwhere(~np.isfinite(scores))[0][0])
        raise checks.ArgumentValueError(f"`model` must return finite numbers, got {scores[i]} for image {i}.")
    off = abs(scores.sum(axis=1) - 1) > PROBABILITY_TOLERANCE
    if queried.outputs == "probabilities" and ((scores < 0).any() or off.any()):
        raise checks.ArgumentValueError(
            f"`outputs` is 'probabilities', but the model's rows are not, for example "
            f"{checks.show(scores[0].tolist())}: pass `outputs='logits'`."
        )
    return scores


def repeated_scores(
    queried: QueriedModel, images: Array, host: Callable[[Array], NDArray[Any]], before: NDArray[Any]
) -> NDArray[Any]:
    """Query the originals again, and return the scores (B, K): they must be nearly those of `before`.

    They may differ in precision: `attack` turns TF32 off, which the user may have on.
    """
    scores = host(queried.scores(images, CHECK_BATCH_SIZE))
    change = np.abs(scores - before).max()
    tolerance = TF32_TOLERANCE if str(device(images)).startswith("cuda") else REPEAT_TOLERANCE
    if not change <= tolerance * np.abs(before).max():
        raise checks.ArgumentValueError(
            f"`model` must return the same for the same images, but its {queried.outputs} changed by {change:.3g}: "
            "turn dropout and other noise off (.eval() for a PyTorch module)."
        )
    return scores


def first_classes(queried: QueriedModel, images: Array, host: Callable[[Array], NDArray[Any]]) -> NDArray[np.int64]:
    """Return the model's classes (B,) of the originals, queried twice: they must be equal."""
    classes, again = (host(queried.classes(images, CHECK_BATCH_SIZE)).astype(np.int64) for _ in range(2))
    if (classes != again).any():
        i = int(np.flatnonzero(classes != again)[0])
        raise checks.ArgumentValueError(
            f"`model` must return the same for the same images, but the class of image {i} changed from {classes[i]} "
            f"to {again[i]}: turn dropout and other noise off (.eval() for a PyTorch module)."
        )
    return classes


def _channel_hint(shape: tuple[int, ...]) -> str:
    """Return a remark if the channels seem to be at the wrong end."""
    if len(shape) == 3 and shape[-1] in (1, 3, 4) and shape[0] not in (1, 3, 4):
        return " Its channels are last: PyTorch's models want them first, images.transpose(0, 3, 1, 2)."
    if len(shape) == 3 and shape[0] in (1, 3, 4) and shape[-1] not in (1, 3, 4):
        return " Its channels are first: models of Keras want them last, images.transpose(0, 2, 3, 1)."
    return ""
