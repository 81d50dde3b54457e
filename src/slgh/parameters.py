"""Types of the parameters of a method, so that editors complete and check them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias, TypedDict

from slgh.protocols import Oracle, Schedule, Update

MethodName: TypeAlias = Literal[
    "auto",
    "scale_free",
    "gd",
    "sgd",
    "zosgd",
    "zoadamm",
    "zosvrg",
    "spsa",
    "openai_es",
    "power_gs",
    "power_hp",
    "zopower_hp",
    "dgs",
    "adadgs",
    "gradopt",
    "zogradopt",
    "gradopt_hazan",
    "slgh_r",
    "slgh_d",
    "zoslgh_r",
    "zoslgh_d",
]
"""Names in `slgh.METHODS`."""

History: TypeAlias = int | Literal["full", "x"] | None
"""Maximum number of rows, "full" for all, "x" for all with iterates."""

Phase: TypeAlias = Literal["landscape", "homotopy", "local_search", "restarts", "basin_hops", "covariance"]
"""Phases of "auto"."""


class MethodParameters(TypedDict, total=False):
    """Keyword arguments of `minimize` and `Optimizer` that belong to the method. Each part documents its own.

    A part of your own may have other fields. Pass it as an instance with its fields set.
    """

    # Parts.
    oracle: str | Oracle | type[Oracle]
    schedule: str | Schedule | type[Schedule]
    update: str | Update | type[Update]

    # The smoothing radius t.
    t1: float | None
    floor: float | None
    noise: float
    gamma: float | Literal["tuned"]
    eta: float
    fall: float | None
    t_end: float | None
    shape: float
    t_power: float
    slope: Literal["trace", "exact"]
    rule: Literal["f", "F", "minibatch"]
    n0: int
    eps0: float
    stuck: float
    patience: int

    # Samples.
    samples: int
    values: Literal["raw", "ranks"]
    xi: Literal["pairs", "shared"]
    slope_from: Literal["u", "v"]
    rate: float
    sharpness: float
    growth: float
    nodes: int
    basis: Literal["random", "axes"]
    longest: float
    contraction: float
    trials: int | None
    period: int
    grid: tuple[int, ...]
    t_fine: float
    coarsest: float

    # The step.
    step: float | Literal["theory"]
    alpha: float
    beta1: float
    beta2: float
    cap: float | None
    delta: float
    halving: float | None
    momentum: float
    offset: float | None
    step_power: float
    v0: float

    # Constants of step="theory".
    L1: float
    eps: float
    sigma: float
    burn_in: int

    # For "auto".
    phases: Phase | Sequence[Phase]
