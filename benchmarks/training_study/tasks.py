"""Tasks: data, a network, and a score on validation or test data. Lower scores are better.

Tasks with gradients count calls of forward and backward passes. Tasks without count forward passes.
"""

from __future__ import annotations

import functools
import math
import pydoc_data.topics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

DATA = Path("data")
"""Folder with mnist_train.npz and mnist_test.npz, and digits.npz if scikit-learn is missing. Set by the command."""

DEVICE = "cpu"
"""Device of the networks. Set by the command."""


class Problem:
    """A model to train, with its losses.

    Parameters
    ----------
    model
        The network.
    loss
        Function of a generator that returns the loss on a random batch of the training data.
    score
        Function of "validation" or "test" that returns the score.
    """

    def __init__(self, model: nn.Module, loss: Callable[[torch.Generator], Tensor], score: Callable[[str], float]):
        self.model, self.loss, self.score = model, loss, score


@dataclass(frozen=True, kw_only=True)
class Task:
    """A kind of problem, one per seed, and the budget of a run.

    Parameters
    ----------
    title
        Name in tables.
    about
        One sentence on the data and the network.
    make
        Function of the seed that returns the problem.
    budget
        Number of gradients or of forward passes.
    gradients
        True if methods use gradients.
    rates, radii
        Grids for tuning.
    own_radii
        Grid of the radius for slgh, in its units.
    seeds
        Number of reported seeds.
    tuning_seeds
        Number of seeds that every setting is tuned on. They are none of the reported ones.
    units
        Units of the radius in slgh. None: its default.
    score
        What the score is.
    """

    title: str
    about: str
    make: Callable[[int], Problem]
    budget: int
    gradients: bool
    rates: tuple[float, ...]
    radii: tuple[float, ...]
    own_radii: tuple[float, ...]
    seeds: int = 5
    tuning_seeds: int = 1
    units: str | None = None
    score: str = "error"


class Vector(nn.Module):
    """Parameters of a regression."""

    def __init__(self, start: Tensor) -> None:
        super().__init__()
        self.x = nn.Parameter(start.clone())


def _random(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def sine(seed: int) -> Problem:
    """Fit a sin(b x + c) to noisy values. The loss has a local minimum for about every frequency."""
    g = _random(seed)
    x = 10 * torch.rand(200, generator=g) - 5
    true = torch.tensor([1.0, 3.0, 0.5]) + torch.rand(3, generator=g) * torch.tensor([1.0, 3.0, 2.0])
    clean = true[0] * torch.sin(true[1] * x + true[2])
    y = clean + 0.1 * torch.randn(200, generator=g)
    model = Vector(torch.tensor([1.0, 0.5, 0.0]) + torch.rand(3, generator=g))

    def predicted() -> Tensor:
        return model.x[0] * torch.sin(model.x[1] * x + model.x[2])

    def score(split: str) -> float:
        with torch.no_grad():
            return float((predicted() - clean).square().mean() / clean.square().mean())

    return Problem(model, lambda g: (predicted() - y).square().mean(), score)


def modal(seed: int) -> Problem:
    """Linear modal regression: a bounded loss, and more than half of the data are outliers on another plane."""
    g = _random(seed)
    features = torch.randn(300, 10, generator=g)
    true, other = torch.randn(10, generator=g), torch.randn(10, generator=g)
    outlier = torch.rand(300, generator=g) < 0.55
    spread = torch.where(outlier, 3.0, 0.1)
    y = features @ true + outlier * (features @ other) + spread * torch.randn(300, generator=g)
    model = Vector(3 * torch.randn(10, generator=g))

    def loss(_: torch.Generator) -> Tensor:
        return (1 - torch.exp(-((features @ model.x - y) ** 2) / (2 * 0.3**2))).mean()

    def score(split: str) -> float:
        return float((model.x.detach() - true).norm() / true.norm())

    return Problem(model, loss, score)


def phase(seed: int) -> Problem:
    """Real phase retrieval: find x up to its sign from (A x)^2, with 2.5 measurements per variable."""
    g = _random(seed)
    n = 30
    A = torch.randn(5 * n // 2, n, generator=g)
    true = torch.randn(n, generator=g)
    true /= true.norm()
    y = (A @ true) ** 2
    start = torch.randn(n, generator=g)
    model = Vector(start / start.norm())

    def score(split: str) -> float:
        x = model.x.detach()
        return float(min((x - true).norm(), (x + true).norm()))

    return Problem(model, lambda _: ((A @ model.x) ** 2 - y).square().mean(), score)


# Images


@functools.cache
def mnist() -> dict[str, tuple[Tensor, Tensor]]:
    """Return 10,000 training images, 5,000 for validation, and the test set."""
    arrays = {split: np.load(DATA / f"mnist_{split}.npz") for split in ("train", "test")}

    def part(split: str, rows: slice) -> tuple[Tensor, Tensor]:
        images, labels = (arrays[split][key][rows] for key in _keys(arrays[split]))
        images = torch.tensor(images.reshape(-1, 1, 28, 28), dtype=torch.float32) / 255
        return images.to(DEVICE), torch.tensor(labels.astype(np.int64)).to(DEVICE)

    return {
        "train": part("train", slice(0, 10_000)),
        "validation": part("train", slice(50_000, 55_000)),
        "test": part("test", slice(None)),
    }


def _keys(file: Any) -> tuple[str, str]:
    """Return the names of the images and of the labels in an archive."""
    images = next(name for name in file.files if file[name].ndim > 1)
    labels = next(name for name in file.files if name != images)
    return images, labels


@functools.cache
def digits() -> dict[str, tuple[Tensor, Tensor]]:
    """Return scikit-learn's digits: 1,000 for training, 300 for validation, 497 for the test."""
    if (DATA / "digits.npz").exists():
        file = np.load(DATA / "digits.npz")
        images, labels = file["data"], file["target"]
    else:
        from sklearn.datasets import load_digits

        images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    x = torch.tensor(images[order] / 16, dtype=torch.float32)
    y = torch.tensor(labels[order].astype(np.int64))
    cuts = {"train": slice(0, 1000), "validation": slice(1000, 1300), "test": slice(1300, None)}
    return {name: (x[cut], y[cut]) for name, cut in cuts.items()}


def classifier(model: nn.Module, data: dict[str, tuple[Tensor, Tensor]], batch: int) -> Problem:
    """Return the problem of a classifier. Its score is the share of wrong classes."""
    images, labels = data["train"]

    def loss(g: torch.Generator) -> Tensor:
        rows = torch.randint(len(labels), (batch,), generator=g).to(images.device)
        return F.cross_entropy(model(images[rows]), labels[rows])

    def score(split: str) -> float:
        with torch.no_grad():
            wrong = sum(
                int((model(x).argmax(1) != y).sum())
                for x, y in zip(data[split][0].split(1000), data[split][1].split(1000), strict=True)
            )
        return wrong / len(data[split][1])

    return Problem(model, loss, score)


def cnn() -> nn.Sequential:
    """Return a small convolutional network for MNIST, with 54,000 parameters."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 49, 25),
        nn.ReLU(),
        nn.Linear(25, 10),
    ).to(DEVICE)


def cnn_from_scratch(seed: int) -> Problem:
    torch.manual_seed(seed)
    return classifier(cnn(), mnist(), 64)


@functools.cache
def _pretrained_cnn() -> dict[str, Tensor]:
    """Return the weights of a network that has learned the upright digits."""
    torch.manual_seed(10_000)
    problem = classifier(cnn(), mnist(), 64)
    _pretrain(problem, 1500)
    return problem.model.state_dict()


def _pretrain(problem: Problem, steps: int) -> None:
    optimizer = torch.optim.Adam(problem.model.parameters(), lr=1e-3)
    g = _random(10_000)
    for _ in range(steps):
        optimizer.zero_grad()
        problem.loss(g).backward()
        optimizer.step()


def turned_digits(seed: int) -> Problem:
    """Fine-tune to digits that are turned by 90 degrees and inverted, with 1,000 images."""
    torch.manual_seed(seed)
    model = cnn()
    model.load_state_dict(_pretrained_cnn())
    data = {split: (1 - x.rot90(1, (2, 3)), y) for split, (x, y) in mnist().items()}
    data["train"] = tuple(array[:1000] for array in data["train"])  # type: ignore[assignment]
    return classifier(model, data, 128)


class Sign(nn.Module):
    """Activation without a derivative."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.where(x > 0, 1.0, -1.0)


def sign_network(seed: int) -> Problem:
    """Train a network with sign activations from scratch."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(64, 64), Sign(), nn.Linear(64, 32), Sign(), nn.Linear(32, 10))
    return classifier(model, digits(), 128)


class Rounded(nn.Linear):
    """Linear layer whose weights are rounded to `levels` equidistant values on each side of 0."""

    levels = 127

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)
        # Twice the initial range, so that weights can grow.
        self.unit = 2 * float(self.weight.detach().abs().max()) / self.levels

    def forward(self, x: Tensor) -> Tensor:
        weight = (self.weight / self.unit).round().clamp(-self.levels, self.levels) * self.unit
        return F.linear(x, weight, self.bias)


def rounded_network(seed: int) -> Problem:
    """Train a network with rounded weights from scratch."""
    torch.manual_seed(seed)
    model = nn.Sequential(Rounded(64, 64), nn.ReLU(), Rounded(64, 32), nn.ReLU(), Rounded(32, 10))
    return classifier(model, digits(), 128)


# Text

SYMBOLS = "\n" + "".join(map(chr, range(32, 127)))
CONTEXT = 64


@functools.cache
def text() -> dict[str, Tensor]:
    """Return Python's help texts as symbols: 80 percent for training, 10 for validation, 10 for the test."""
    content = "\n".join(pydoc_data.topics.topics[topic] for topic in sorted(pydoc_data.topics.topics))
    codes = torch.tensor([SYMBOLS.index(c) for c in content if c in SYMBOLS]).to(DEVICE)
    a, b = len(codes) * 8 // 10, len(codes) * 9 // 10
    return {"train": codes[:a], "validation": codes[a:b], "test": codes[b:]}


class Transformer(nn.Module):
    """Two layers of causal attention over characters, 112,000 parameters."""

    def __init__(self, width: int = 64, layers: int = 2) -> None:
        super().__init__()
        self.symbols = nn.Embedding(len(SYMBOLS), width)
        self.places = nn.Embedding(CONTEXT, width)
        layer = functools.partial(
            nn.TransformerEncoderLayer, width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True
        )
        self.layers = nn.ModuleList(layer() for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, len(SYMBOLS))
        mask = torch.full((CONTEXT, CONTEXT), -math.inf).triu(1)
        self.register_buffer("mask", mask)

    def forward(self, codes: Tensor) -> Tensor:
        x = self.symbols(codes) + self.places.weight
        for layer in self.layers:
            x = layer(x, src_mask=self.mask, is_causal=True)
        return self.out(self.norm(x))  # type: ignore[no-any-return]


def language(model: nn.Module, data: dict[str, Tensor], batch: int) -> Problem:
    """Return the problem of a language model. Its score is the cross entropy per character, in nats."""
    window = torch.arange(CONTEXT + 1, device=DEVICE)

    def cross_entropy(codes: Tensor) -> Tensor:
        logits = model(codes[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1), codes[:, 1:].flatten())

    def loss(g: torch.Generator) -> Tensor:
        starts = torch.randint(len(data["train"]) - CONTEXT, (batch,), generator=g).to(DEVICE)
        return cross_entropy(data["train"][starts[:, None] + window])

    def score(split: str) -> float:
        starts = torch.arange(0, len(data[split]) - CONTEXT - 1, CONTEXT, device=DEVICE)[:256]
        with torch.no_grad():
            return float(cross_entropy(data[split][starts[:, None] + window]))

    return Problem(model, loss, score)


def transformer_from_scratch(seed: int) -> Problem:
    torch.manual_seed(seed)
    return language(Transformer().to(DEVICE), text(), 16)


NETWORK_RADII = (0.01, 0.03, 0.1, 0.3)
NETWORK_RATES = (1e-3, 3e-3, 1e-2)
TOY_RATES = (1e-3, 1e-2, 3e-2, 1e-1)
TOY_RADII = (0.1, 0.3, 1.0, 3.0)

TOY: dict[str, Any] = {
    "budget": 1000,
    "gradients": True,
    "rates": TOY_RATES,
    "radii": TOY_RADII,
    "own_radii": TOY_RADII,
    "seeds": 20,
    "tuning_seeds": 5,
    "units": "absolute",
}
"""Settings that the regressions have in common."""

TASKS = {
    "sine": Task(
        title="Sine regression",
        about="Three parameters, 200 points.",
        make=sine,
        **TOY,
        score="relative error",
    ),
    "modal": Task(
        title="Modal regression",
        about="Ten parameters, 300 points, 55 % of them outliers.",
        make=modal,
        **TOY,
        score="distance",
    ),
    "phase": Task(
        title="Phase retrieval",
        about="30 variables, 75 measurements.",
        make=phase,
        **TOY,
        score="distance",
    ),
    "cnn": Task(
        title="CNN, MNIST",
        about="54,000 parameters, 10,000 training images, batches of 64.",
        make=cnn_from_scratch,
        budget=1000,
        gradients=True,
        rates=NETWORK_RATES,
        radii=NETWORK_RADII,
        own_radii=NETWORK_RADII,
    ),
    "transformer": Task(
        title="Transformer, text",
        about="112,000 parameters, Python's help texts by characters, batches of 16 windows of 64.",
        make=transformer_from_scratch,
        budget=1000,
        gradients=True,
        rates=NETWORK_RATES,
        radii=NETWORK_RADII,
        own_radii=NETWORK_RADII,
        score="nats per character",
    ),
    "turned": Task(
        title="Fine-tuned CNN",
        about="The CNN, pretrained on upright digits, learns turned and inverted ones from 1,000 images.",
        make=turned_digits,
        budget=6000,
        gradients=False,
        rates=(3e-5, 1e-4, 3e-4),
        radii=(1e-3, 1e-2, 3e-2, 1e-1),
        own_radii=(0.03, 0.1, 0.3, 1.0),
    ),
    "sign": Task(
        title="Sign activations",
        about="6,600 parameters, scikit-learn's digits, from scratch.",
        make=sign_network,
        budget=40_000,
        gradients=False,
        rates=(3e-4, 1e-3, 3e-3, 1e-2),
        radii=(0.01, 0.03, 0.1, 0.3),
        own_radii=(0.1, 0.3, 1.0, 3.0),
    ),
    "8-bit": Task(
        title="8-bit weights",
        about="6,600 parameters rounded to 255 values, scikit-learn's digits, from scratch.",
        make=rounded_network,
        budget=40_000,
        gradients=False,
        rates=(3e-4, 1e-3, 3e-3, 1e-2),
        radii=(0.001, 0.01, 0.03, 0.1),
        own_radii=(0.03, 0.1, 0.3, 1.0),
    ),
}
