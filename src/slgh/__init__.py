"""Non-convex optimization by single loop Gaussian homotopy."""

import logging
import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slgh import oracles, problems, schedules, smoothing, space, theory, updates
    from slgh.engine.checkpoint import Checkpoint
    from slgh.engine.termination import Status
    from slgh.method import METHODS, Method
    from slgh.minimize import minimize
    from slgh.optimizer import Optimizer
    from slgh.plotting.plots import plot
    from slgh.probe import Probe, probe
    from slgh.result import Result
    from slgh.smoothing import smooth

__version__ = "0.1.0"

__all__ = [
    "METHODS",
    "Checkpoint",
    "Method",
    "Optimizer",
    "Probe",
    "Result",
    "Status",
    "minimize",
    "oracles",
    "plot",
    "probe",
    "problems",
    "schedules",
    "smooth",
    "smoothing",
    "space",
    "theory",
    "updates",
]

SOURCES = {
    "METHODS": "slgh.method",
    "Checkpoint": "slgh.engine.checkpoint",
    "Method": "slgh.method",
    "Optimizer": "slgh.optimizer",
    "Probe": "slgh.probe",
    "Result": "slgh.result",
    "Status": "slgh.engine.termination",
    "minimize": "slgh.minimize",
    "plot": "slgh.plotting.plots",
    "probe": "slgh.probe",
    "smooth": "slgh.smoothing",
}
"""Modules of the functions, classes and constants above."""


# Without a handler of the user's, nothing is logged.
logging.getLogger(__name__).addHandler(logging.NullHandler())


class LazyPackage(ModuleType):
    """The package. Exports and submodules are imported on first use, since importing SciPy takes most of the time."""

    def __getattr__(self, name: str) -> Any:
        if name in SOURCES:
            found = getattr(import_module(SOURCES[name]), name)
        elif not name.startswith("_") and find_spec(f"slgh.{name}") is not None:
            found = import_module(f"slgh.{name}")
        else:
            raise AttributeError(f"module 'slgh' has no attribute {name!r}", name=name, obj=self)
        setattr(self, name, found)
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        # Python sets an imported submodule as an attribute of its package. The functions `minimize` and `probe` share
        # the names of their modules, and must not be replaced by them.
        if not (name in SOURCES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *__all__})


sys.modules[__name__].__class__ = LazyPackage
