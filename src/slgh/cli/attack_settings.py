"""What an attack from the command line is run with where the user says nothing."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from slgh.attack.api import DEFAULT_QUERIES
from slgh.method import METHODS, SLOTS
from slgh.paper.attack.settings import METHODS as OF_THE_PAPER
from slgh.paper.attack.settings import PAPER
from slgh.paper.networks.datasets import DATASETS

DATA, IMAGES, METHOD, STOP, MAX_QUERIES = "mnist", 4, "auto", "end", DEFAULT_QUERIES

NAMES = ("auto", *OF_THE_PAPER)
"""The methods to choose from: those that need nothing but answers, and have parameters for images."""

SCALED = ("step", "eta")
"""Steps, which the paper divides by the number of pixels."""


def nearest(d: int) -> str:
    """The data set whose images are nearest in their number of pixels.

    >>> nearest(28 * 28), nearest(3 * 224 * 224)
    ('mnist', 'cifar10')
    """
    return min(DATASETS, key=lambda name: abs(math.log(d / size_of(name))))


def size_of(data: str) -> int:
    """The number of pixels, times channels, of an image."""
    return math.prod(DATASETS[data].shape)


def usual_parameters(method: str, d: int, given: Mapping[str, Any]) -> dict[str, Any]:
    """The hyperparameters for images of d pixels: those given, and for the paper's methods its own.

    Its own are left out where a part that was swapped does not take them. "auto" chooses for itself.
    """
    if method not in OF_THE_PAPER:
        return dict(given)
    data = nearest(d)
    ours = PAPER[data].parameters(method)
    ours |= {name: ours[name] * size_of(data) / d for name in SCALED if name in ours}
    parts = (SLOTS[slot].get(given.get(slot, getattr(METHODS[method], slot))) for slot in SLOTS)
    taken = {"floor"} | {field.name for part in parts if part is not None for field in dataclasses.fields(part)}
    return {name: value for name, value in ours.items() if name in taken} | dict(given)
