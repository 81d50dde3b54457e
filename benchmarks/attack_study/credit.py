"""Count the queries of an attack outside of it, and store the least distorted adversarial image per budget."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn

Norm = Literal["l2", "linf"]


class Spent(Exception):
    """The largest budget of every image is spent."""


class Ledger(nn.Module):
    """A network under attack. It counts queries per image, and credits the attack with what it evaluated.

    A query that repeats the image before is not counted: foolbox checks its own results, and evaluates images again
    while it waits for others of a batch. This favors the peers.

    Parameters
    ----------
    images
        The B originals, with pixels in [0, 1].
    classes
        The true classes (B,) or, if `targeted`, the target classes.
    budgets
        Numbers of queries, in increasing order. Beyond the last one nothing is credited, and once all images are there
        the next call raises `Spent`.
    """

    def __init__(
        self,
        net: nn.Module,
        images: Tensor,
        classes: Tensor,
        budgets: list[int],
        norm: Norm = "l2",
        targeted: bool = False,
    ) -> None:
        super().__init__()
        self.net, self.images, self.classes = net, images, classes
        self.budgets, self.norm, self.targeted = budgets, norm, targeted
        B, device = len(images), images.device
        self.rows = torch.arange(B, device=device)
        self.count = torch.zeros(B, dtype=torch.int64, device=device)
        self.least = torch.full((len(budgets), B), torch.inf, device=device)
        self.first = torch.full((B,), torch.iinfo(torch.int64).max, device=device)
        self.nearest = images.clone()
        """The least distorted adversarial image of each original so far, or the original."""
        self.previous: Tensor | None = None
        self.started = time.perf_counter()
        self.reached: dict[int, float] = {}
        """Seconds until all images had spent each budget."""
        self.eval()

    @contextmanager
    def only(self, i: int) -> Iterator[None]:
        """Attribute all rows of the calls to image i."""
        before, self.rows, self.previous = self.rows, self.rows[i : i + 1], None
        try:
            yield
        finally:
            self.rows, self.previous = before, None

    def keep(self, rows: list[int]) -> None:
        """Attribute the rows of the following calls to these images, in this order."""
        self.rows, self.previous = torch.tensor(rows, device=self.rows.device), None

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        if int(self.count[self.rows].min()) >= self.budgets[-1]:
            raise Spent
        x = x.float()
        answer: Tensor = self.net(x)
        self._credit(x.clamp(0, 1), answer)
        spent = int(self.count.min())
        for budget in self.budgets:
            if spent >= budget:
                self.reached.setdefault(budget, time.perf_counter() - self.started)
        return answer

    def _credit(self, x: Tensor, answer: Tensor) -> None:
        """Count these images, and store the adversarial ones with a smaller distortion than before."""
        owners, number = self._numbers(x)
        change = (x - self.images[owners]).flatten(1)
        far = change.square().sum(dim=1) if self.norm == "l2" else change.abs().amax(dim=1)
        seen, wanted = answer.argmax(dim=1), self.classes[owners]
        fooled = ((seen == wanted) if self.targeted else (seen != wanted)) & answer.isfinite().all(dim=1)
        fooled &= number <= self.budgets[-1]
        far = torch.where(fooled, far, torch.inf)
        if len(self.rows) == 1:  # All rows belong to one image: only the nearest can improve on it.
            best = far.argmin(keepdim=True)
            better = best[far[best] < self.least[-1, owners[best]]]
        else:
            better = (far < self.least[-1, owners]).nonzero().flatten()
        self.nearest[owners[better]] = x[better]
        for k, budget in enumerate(self.budgets):
            within = torch.where(number <= budget, far, torch.inf)
            self.least[k].scatter_reduce_(0, owners, within, "amin")
        never = torch.full_like(number, torch.iinfo(torch.int64).max)
        self.first.scatter_reduce_(0, owners, torch.where(fooled, number, never), "amin")

    def _numbers(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the image that each row belongs to, and the number of the query among those of that image."""
        repeated = torch.zeros(len(x), dtype=torch.bool, device=x.device)
        if self.previous is not None and len(self.previous) == len(x):
            repeated = (x == self.previous).flatten(1).all(dim=1)
        self.previous = x
        new = (~repeated).to(torch.int64)
        if len(self.rows) == 1:
            owners = self.rows.expand(len(x))
            number = self.count[self.rows] + new.cumsum(0)
        elif len(self.rows) == len(x):
            owners = self.rows
            number = self.count[owners] + new
        else:
            raise ValueError(f"A call has {len(x)} rows for {len(self.rows)} images: whose are they?")
        self.count.scatter_add_(0, owners, new)
        return owners, number

    def records(self, budget: int) -> list[dict[str, Any]]:
        """Return what was found within a budget, one record per image."""
        k, B = self.budgets.index(budget), len(self.images)
        seconds = self.reached.get(budget, time.perf_counter() - self.started) / B
        return [
            record(
                float(self.least[k, i]),
                int(self.first[i]) if self.first[i] <= budget else None,
                min(int(self.count[i]), budget),
                seconds,
            )
            for i in range(B)
        ]


def record(distortion: float, first: int | None, queries: int, seconds: float) -> dict[str, Any]:
    """Return a record of one image. An infinite distortion means that the model was not fooled."""
    found = distortion if distortion < float("inf") else None
    return {"distortion": found, "first": first, "queries": queries, "seconds": round(seconds, 4)}
