"""Peak memory and time of a step of ZOSLGH, beside a forward pass and a hand-written MeZO step."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from slgh.integrations.torch import ZOSLGH

SIZES = {"cpu": (1000,), "cuda": (1000, 3162)}
"""Width of ten square layers, for 10^7 and 10^8 parameters."""

REPEATS = 10


class HandWritten:
    """The step of MeZO as its paper describes it: four passes over the parameters, with noise per parameter."""

    def __init__(self, model: nn.Module, rate: float, radius: float) -> None:
        self.parameters, self.rate, self.radius, self.k = list(model.parameters()), rate, radius, 0
        self.generator = torch.Generator(self.parameters[0].device)

    def _move(self, factor: float) -> None:
        self.generator.manual_seed(self.k)
        for p in self.parameters:
            u = torch.empty_like(p).normal_(generator=self.generator)
            p.add_(u, alpha=factor)

    @torch.no_grad()
    def step(self, closure: Callable[[], Tensor]) -> None:
        self._move(self.radius)
        plus = closure().item()
        self._move(-2 * self.radius)
        minus = closure().item()
        self._move(self.radius)
        self._move(-self.rate * (plus - minus) / (2 * self.radius))
        self.k += 1


def _peak(work: Callable[[], object], device: str) -> float:
    """Return the peak of allocated bytes on CUDA, NaN elsewhere."""
    work()
    if device != "cuda":
        return float("nan")
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    work()
    torch.cuda.synchronize()
    return float(torch.cuda.max_memory_allocated())


def _seconds(steps: list[Callable[[], object]], device: str) -> list[float]:
    """Return the smallest time of each, taken in turn."""
    best = [float("inf")] * len(steps)
    for _ in range(REPEATS):
        for i, step in enumerate(steps):
            begin = time.perf_counter()
            step()
            if device == "cuda":
                torch.cuda.synchronize()
            best[i] = min(best[i], time.perf_counter() - begin)
    return best


def measure(device: str, folder: Path) -> None:
    """Print the table, and store it for the page."""
    lines = [
        f"## Memory and time of a step, {device}\n",
        "Ten square layers in float32, 16 inputs, plain SGD. Peak memory relative to that of a forward pass, and time "
        "relative to a hand-written MeZO step.\n",
        "| parameters | | peak memory | time |\n|---:|---|---:|---:|",
    ]
    for width in SIZES[device]:
        model = nn.Sequential(*(nn.Linear(width, width, device=device) for _ in range(10)))
        inputs = torch.randn(16, width, device=device)
        count = sum(p.numel() for p in model.parameters())

        def forward(model: nn.Module = model, inputs: Tensor = inputs) -> Tensor:
            with torch.no_grad():
                return model(inputs).square().mean()  # type: ignore[no-any-return]

        steps = {"MeZO by hand": HandWritten(model, 1e-6, 1e-3).step}
        for restore in ("arithmetic", "exact"):
            base = torch.optim.SGD(model.parameters(), lr=1e-6)
            steps[f"ZOSLGH, {restore}"] = ZOSLGH(base, t1=1e-3, total_steps=1000, restore=restore).step
        inference = _peak(forward, device)
        peaks = [_peak(lambda step=step: step(forward), device) for step in steps.values()]
        times = _seconds([lambda step=step: step(forward) for step in steps.values()], device)
        for name, peak, seconds in zip(steps, peaks, times, strict=True):
            memory = f"{peak / inference:.2f}" if peak == peak else "not measured"
            lines.append(f"| {count:,} | {name} | {memory} | {seconds / times[0]:.2f} ({1e3 * seconds:.1f} ms) |")
    text = "\n".join(lines) + "\n\n"
    print(text)
    if device == "cuda":
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "memory.md").write_text(text)
