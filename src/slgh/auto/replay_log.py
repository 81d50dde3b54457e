"""What the phases of a portfolio have found and have been told, kept so that another run is led to the same place."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slgh.auto.landscape import Landscape
from slgh.engine.checkpoint import expect

PHASES = ("landscape", "homotopy", "local_search", "restarts")
"""What a portfolio is made of; a checkpoint names them by their places."""


class Outcome(NamedTuple):
    """What a phase found: a point, f there, a number to decide by, and how many evaluations it left.

    The number is the verdict of the look; whether a homotopy was begun (1), or given up (-1), having met no finite
    value; whether a local solver came to its end.
    """

    phase: str
    x: NDArray[np.float64]
    fun: float
    note: int = 0
    left: int = 0


class ReplayLog:
    """Of phases that have ended their outcomes, of the present one all answers.

    After `load`, phases that had ended are skipped, with what they had found, and the one that was broken off is given
    the same answers again.
    """

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []
        """Of the phases that have ended."""
        self._before: list[Outcome] = []
        """Of phases that had ended when a checkpoint was written, and are yet to be skipped."""
        self._log: list[NDArray[np.float64]] = []
        """The answers that the present phase has had."""
        self._told: list[NDArray[np.float64]] = []
        """Answers from a checkpoint that it is yet to be given again."""

    @property
    def skips(self) -> bool:
        """Whether the next phase had ended before the checkpoint."""
        return bool(self._before)

    def skip(self) -> Outcome:
        """What it had found."""
        self.outcomes.append(self._before.pop(0))
        return self.outcomes[-1]

    def end(self, outcome: Outcome) -> Outcome:
        """Book the end of the present phase."""
        self.outcomes.append(outcome)
        self._log = []
        return outcome

    @property
    def repeats(self) -> bool:
        """Whether the next answer is one that was given before the checkpoint."""
        return bool(self._told)

    def repeat(self) -> NDArray[np.float64]:
        """That answer."""
        return self.heard(self._told.pop(0))

    def heard(self, answer: NDArray[np.float64]) -> NDArray[np.float64]:
        """Book an answer to the present phase."""
        self._log.append(answer)
        return answer

    def saved(self) -> dict[str, NDArray[Any]]:
        """What `load` goes on from."""
        ended, log = self.outcomes + self._before, self._log + self._told
        return {
            "x": np.array([o.x for o in ended], float),
            "fun": np.array([o.fun for o in ended], float),
            "numbers": np.array([(PHASES.index(o.phase), o.note, o.left) for o in ended], np.int64).reshape(-1, 3),
            "log": np.concatenate([a.ravel() for a in log]) if log else np.empty(0),
            "shapes": np.array([(a.size, a.ndim) for a in log], np.int64).reshape(-1, 2),
        }

    def load(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Go on from what was `saved`."""
        n = len(arrays["fun"])
        expect(arrays, "fun", (n,), "f")
        expect(arrays, "x", (n, None) if n else (0,), "f")
        phases = expect(arrays, "numbers", (n, 3), "i")[:, 0]
        if not np.isin(phases, range(len(PHASES))).all():
            raise ValueError("its phases are unknown")
        rows = zip(arrays["x"], arrays["fun"].tolist(), arrays["numbers"].tolist(), strict=True)
        self._before = [Outcome(PHASES[phase], x, fun, *more) for x, fun, (phase, *more) in rows]
        for outcome in self._before:
            if outcome.phase == "landscape":
                Landscape(outcome.note)
        sizes, dimensions = expect(arrays, "shapes", (None, 2), "i").T
        log = expect(arrays, "log", (None,), "f")
        if (sizes < 0).any() or sizes.sum() != log.size:
            raise ValueError("its answers do not have the sizes that it says")
        parts = np.split(log, np.cumsum(sizes)[:-1]) if sizes.size else []
        # Values are (n,); gradients, asked for one point at a time, (1, d).
        self._told = [part[None] if ndim == 2 else part for part, ndim in zip(parts, dimensions, strict=True)]
