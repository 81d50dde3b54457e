"""Oracles: where to query f, and how to estimate the gradient of F. One file per kind of oracle."""

from __future__ import annotations

from typing import Any

from slgh.oracles.antithetic import Antithetic, DiagonalScaling, Rademacher
from slgh.oracles.closed_form import ClosedForm
from slgh.oracles.coarse_to_fine import CoarseToFine
from slgh.oracles.directional import Directional, DirectionalSearch
from slgh.oracles.exponential import Exponential, ProgressiveExponential, ProgressiveGradient
from slgh.oracles.forward import Forward
from slgh.oracles.gradient import Gradient, SampledGradient
from slgh.oracles.sphere import Sphere
from slgh.oracles.variance_reduced import VarianceReduced

ORACLES: dict[str, Any] = {
    part.name: part
    for part in (
        *(Forward, Antithetic, CoarseToFine, DiagonalScaling, Rademacher, Sphere, Exponential),
        *(ProgressiveExponential, ProgressiveGradient, Directional, DirectionalSearch),
        *(Gradient, SampledGradient, ClosedForm, VarianceReduced),
    )
}

__all__ = [
    "ORACLES",
    "Antithetic",
    "ClosedForm",
    "CoarseToFine",
    "DiagonalScaling",
    "Directional",
    "DirectionalSearch",
    "Exponential",
    "Forward",
    "Gradient",
    "ProgressiveExponential",
    "ProgressiveGradient",
    "Rademacher",
    "SampledGradient",
    "Sphere",
    "VarianceReduced",
]
