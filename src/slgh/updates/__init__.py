"""Updates of x. One file per update."""

from __future__ import annotations

from typing import Any

from slgh.updates.adam import Adam
from slgh.updates.adamm import AdaMM
from slgh.updates.descent import Descent, Harmonic
from slgh.updates.momentum import Momentum
from slgh.updates.noise_aware import NoiseAware
from slgh.updates.normalized import Normalized
from slgh.updates.scale_free import ScaleFree
from slgh.updates.spsa_gain import SpsaGain

UPDATES: dict[str, Any] = {
    part.name: part for part in (Descent, NoiseAware, Harmonic, SpsaGain, Momentum, Adam, AdaMM, Normalized, ScaleFree)
}

__all__ = [
    "UPDATES",
    "AdaMM",
    "Adam",
    "Descent",
    "Harmonic",
    "Momentum",
    "NoiseAware",
    "Normalized",
    "ScaleFree",
    "SpsaGain",
]
