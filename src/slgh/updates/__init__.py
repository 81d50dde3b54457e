"""How x moves: one file an update."""

from __future__ import annotations

from typing import Any

from slgh.updates.adam import Adam
from slgh.updates.adamm import AdaMM
from slgh.updates.descent import Descent, Harmonic
from slgh.updates.gain import Gain
from slgh.updates.momentum import Momentum
from slgh.updates.normalised import Normalised
from slgh.updates.scale_free import ScaleFree
from slgh.updates.tolerant import Tolerant

UPDATES: dict[str, Any] = {
    part.name: part for part in (Descent, Tolerant, Harmonic, Gain, Momentum, Adam, AdaMM, Normalised, ScaleFree)
}

__all__ = [
    "UPDATES",
    "AdaMM",
    "Adam",
    "Descent",
    "Gain",
    "Harmonic",
    "Momentum",
    "Normalised",
    "ScaleFree",
    "Tolerant",
]
