"""Compare PyTorch on the CPU with the reference."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from typing import Any

from fuzz.asktell import draw_case, script_of
from fuzz.invariants import expect
from fuzz.runs import Experiment, simpler_cases
from fuzz.target import Case


class TorchRuns:
    """The target "torch_runs"."""

    name = "torch_runs"
    weight = 2.0
    timeout = 120.0

    def generate(self, rng: random.Random) -> Case:
        case = draw_case(rng)
        while case["closed"]:
            case = draw_case(rng)
        case["callback"] = rng.choice([None, "look", "stop"])
        case |= {"calling": rng.choice(["vectorized", "pointwise"]), "hostile": rng.random() < 0.1}
        if case["batch_size"] is not None:
            case["callback"] = None
        if case["xi"] == "normal":
            case["xi"] = 3
        return case | {"stop_after": 3}

    def check(self, case: Case) -> dict[str, int]:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            check_torch(case)
        return {"configurations": 1, "torch runs": 1}

    def simpler(self, case: Case) -> Iterator[Case]:
        yield from simpler_cases(case)

    def script(self, case: Case) -> str:
        return script_of(self.name, case)


class TorchExperiment(Experiment):
    """Experiment whose start is a tensor."""

    def __init__(self, case: Case) -> None:
        import torch

        super().__init__(case)
        self.recorder.library = "torch"
        self.numpy_x0 = self.x0
        self.tensor = torch.as_tensor(self.x0)

    def arguments(self) -> dict[str, Any]:
        import torch

        given = super().arguments()
        if "data" in given:
            given["data"] = torch.as_tensor(given["data"])
        return given

    def run(self) -> Any:
        self.x0 = self.tensor
        try:
            return super().run()
        except ValueError as error:
            # Tensors cannot be made read-only: a function that writes into them gets a clear error.
            if self.case["hostile"] and "must not write into its arguments" in str(error):
                return None
            raise
        finally:
            self.x0 = self.numpy_x0


def check_torch(case: Case) -> None:
    """A run on CPU tensors has the noise of one on NumPy arrays, so the reference predicts it too."""
    import torch

    state = torch.random.get_rng_state()
    experiment = TorchExperiment(case)
    result = experiment.run()
    expect(bool((torch.random.get_rng_state() == state).all()), "The global random state of PyTorch was changed.")
    if result is None:
        return
    for name in ("x", "x_best", "xhat"):
        expect(isinstance(result[name], torch.Tensor), f"{name} is not a tensor but {type(result[name]).__name__}.")
        expect(not result[name].requires_grad, f"{name} requires a gradient.")
    experiment.check(result)


TARGET = TorchRuns()
