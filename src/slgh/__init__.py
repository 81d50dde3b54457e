"""Non-convex optimization by single loop Gaussian homotopy."""

from slgh import oracles, problems, schedules, smoothing, theory, updates
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
    "theory",
    "updates",
]
