"""The paper's settings of its attacks: Table 7 and the text around it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slgh import checks

METHODS = {
    "zosgd": "ZOSGD",
    "zoadamm": "ZOAdaMM",
    "zogradopt": "ZOGradOpt",
    "zoslgh_r": "ZOSLGH_r",
    "zoslgh_d": "ZOSLGH_d",
}
"""The methods that the paper compares, with its names for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperSettings:
    """Settings for one set of images: iterations T, the steps beta (ZOAdaMM's apart) and eta, and ZOGradOpt's rule."""

    T: int
    step: float
    adamm_step: float
    eta: float
    n0: int
    eps0: float

    def parameters(self, method: str) -> dict[str, Any]:
        """Return the arguments of `minimize` for one of `METHODS`.

        The floor of t is not the paper's: below it f(x + t u) - f(x) is rounding error in float32. ZOGradOpt's inner
        loop ends by changes of f, since by the printed rule it hardly ever does.
        """
        checks.choice("method", method, tuple(METHODS))
        own: dict[str, dict[str, Any]] = {
            "zosgd": {"t1": 0.005},
            "zoadamm": {"t1": 0.005, "step": self.adamm_step, "v0": 1e-5, "beta1": 0.9, "beta2": 0.3},
            "zogradopt": {"t1": 10.0, "gamma": 0.5, "n0": self.n0, "eps0": self.eps0, "rule": "f"},
            "zoslgh_r": {"t1": 10.0, "gamma": 0.999},
            "zoslgh_d": {"t1": 10.0, "gamma": 0.999, "eta": self.eta},
        }
        return {"samples": 10, "step": self.step, "floor": 1e-3} | own[method]


PAPER: dict[str, PaperSettings] = {
    "cifar10": PaperSettings(T=10_000, step=0.01 / 3072, adamm_step=0.5 / 3072, eta=1e-4 / 3072, n0=100, eps0=5e-3),
    "mnist": PaperSettings(T=20_000, step=1 / 784, adamm_step=100 / 784, eta=0.1 / 784, n0=100, eps0=1e-3),
}
"""Table 7."""
