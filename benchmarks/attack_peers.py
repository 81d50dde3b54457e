"""Ours beside the black-box attacks of ART, foolbox and torchattacks: the same network, images and queries.

The shipped MNIST network and the first shipped images, untargeted, pixels in [0, 1]. A model that counts stands between
the network and the attack, and answers no more once the budget is spent. What a peer found is the least distorted
adversarial image that it asked about or returned within the budget, whether it would have returned that one or not;
what we found is what `attack` returns. An image outside [0, 1] counts as what it is when it is clipped.

Peers are called with one image at a time, so that queries can be told apart; ours attacks all images at once.

Run `python benchmarks/attack_peers.py --markdown benchmarks/attack_peers.md`: a job for each attack and budget, each
kept in a JSON file as soon as it has ended, so that a run that was broken off goes on. One thread, about half an hour;
`--budget 20000` takes longer.
"""

from __future__ import annotations

import json
import random
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from slgh.attack import attack
from slgh.files import write_text
from slgh.paper.attack.settings import PAPER
from slgh.paper.networks.datasets import shipped_images
from slgh.paper.networks.networks import network

try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # foolbox imports from a namespace of SciPy that is to go
        import foolbox
    import torchattacks
    from art.attacks.evasion import HopSkipJump, SquareAttack, ZooAttack
    from art.estimators.classification import PyTorchClassifier
except ImportError as missing:
    raise SystemExit(
        f'{missing.name} is missing: pip install -c constraints.txt -e ".[bench]" && '
        "pip install --no-deps -c constraints.txt torchattacks"
    ) from None

BUDGETS = (1_000, 5_000)
RADII = (2.0, 3.0)
"""L2 radii: of the attacks that need one, and of the columns that count the images within them."""

FIRST_EPSILON, SHRINK = 5.0, 0.9
"""Where an attack that needs a radius begins, and how much closer than what it has found it is sent to look next."""

READING = "## How to read it"
"""Where the words begin that `--markdown` leaves as they are."""


def clock() -> float:
    """Seconds of the processor, which on an idle machine are those of the wall (one thread); with CUDA of the wall."""
    return time.perf_counter() if torch.cuda.is_initialized() else time.process_time()


class Spent(Exception):
    """The budget is used up."""


class Clocked(nn.Module):
    """The shipped MNIST network for pixels in [0, 1], counting images and the seconds that it takes itself."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net, self.count, self.seconds = net, 0, 0.0
        self.eval()

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        started = clock()
        answer: Tensor = self.net(x.float() - 0.5)
        self.seconds += clock() - started
        self.count += len(x)
        return answer


class Watched(Clocked):
    """The network under an attack on one image: it remembers the best that was asked, and stops at the last budget."""

    def __init__(self, net: nn.Module, image: Tensor, label: int, budgets: list[int]) -> None:
        super().__init__(net)
        self.image, self.label, self.budgets = image, label, budgets
        self.started = clock()
        self.curve: list[tuple[int, float]] = []
        """Each time that a less distorted adversarial image was asked about: at which query, and its squared L2."""
        self.reached: dict[int, tuple[float, float]] = {}
        """When each budget was reached: seconds since the beginning, and those of the network."""

    @property
    def least(self) -> float:
        return self.curve[-1][1] if self.curve else float("inf")

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        before, fits = self.count, min(len(x), self.budgets[-1] - self.count)
        if fits:
            answer = super().forward(x[:fits])
            self.remember(x[:fits].float(), answer, before)
            for budget in self.budgets:
                if self.count >= budget:
                    self.reached.setdefault(budget, self.now())
        if fits < len(x):
            raise Spent
        return answer

    def now(self) -> tuple[float, float]:
        return clock() - self.started, self.seconds

    def end(self) -> None:
        """The attack leaves the rest of its budget."""
        for budget in self.budgets:
            self.reached.setdefault(budget, self.now())

    @torch.no_grad()
    def remember(self, x: Tensor, answer: Tensor, before: int) -> None:
        """Keep what fools the network, in the order of asking."""
        fooled = (answer.argmax(dim=1) != self.label) & x.isfinite().flatten(1).all(dim=1)
        clipped = x.clamp(0, 1)
        squared = (clipped - self.image).square().flatten(1).sum(dim=1)
        for i in (fooled & (squared < self.least)).nonzero().flatten().tolist():
            inside = bool((clipped[i] == x[i]).all())
            if squared[i] < self.least and (inside or self.net(clipped[i : i + 1] - 0.5).argmax() != self.label):
                self.curve.append((before + i + 1, float(squared[i])))

    def found(self, budget: int) -> dict[str, Any]:
        """What there was within a budget."""
        within = [point for point in self.curve if point[0] <= budget]
        seconds, own = self.reached[budget]
        return {
            "first": within[0][0] if within else None,
            "squared": within[-1][1] if within else None,
            "queries": min(self.count, budget),
            "seconds": seconds,
            "network": own,
        }


Run = Callable[[Watched, Tensor, Tensor, int], Any]
"""A peer's attack: on the model, an image (1, ...), its label (1,), and the budget that is left."""


@dataclass(frozen=True, kw_only=True)
class Peer:
    """An attack of another library, run until the budget is spent.

    `planned`: whether it goes about it otherwise with another budget. If not, one run shows all budgets.
    """

    library: str
    sees: str
    about: str
    run: Run
    planned: bool = False

    def measure(self, net: nn.Module, images: Tensor, labels: Tensor, budgets: list[int], seed: int) -> Iterator[Any]:
        """Of each budget, what was found for each image."""
        groups = [[budget] for budget in budgets] if self.planned else [budgets]
        for group in groups:
            models = [self.attacked(net, images[i], labels[i], group, seed) for i in range(len(labels))]
            for budget in group:
                yield budget, [model.found(budget) for model in models]

    def attacked(self, net: nn.Module, image: Tensor, label: Tensor, budgets: list[int], seed: int) -> Watched:
        """The model after the attack on one image."""
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002, the libraries draw from it
        torch.manual_seed(seed)
        model = Watched(net, image[None], int(label), budgets)
        try:
            found = self.run(model, image[None].clone(), label[None].clone(), budgets[-1])
        except Spent:
            return model
        model.end()
        returned = torch.as_tensor(found, device=image.device).float()
        model.remember(returned, net(returned - 0.5), model.count - 1)
        return model


@dataclass(frozen=True, kw_only=True)
class Ours:
    """One of our methods, on all images at once, polishing to the end."""

    about: str
    params: dict[str, Any]
    library: str = "slgh"
    sees: str = "scores"

    def measure(self, net: nn.Module, images: Tensor, labels: Tensor, budgets: list[int], seed: int) -> Iterator[Any]:
        """Of each budget, what was found for each image."""
        B = len(labels)
        for budget in budgets:
            model, started = Clocked(net), clock()
            found = attack(
                model, images, labels, max_queries=budget, stop="end", seed=seed, history=None, **self.params
            )
            seconds = clock() - started
            on_host = images.device.type == "cpu"  # a CUDA graph is replayed without calling the model
            assert not on_host or model.count == found.queries.sum() <= B * budget
            yield (
                budget,
                [
                    {
                        "first": int(found.queries_to_success[i]) if found.success[i] else None,
                        "squared": float(found.distortion[i]) if found.success[i] else None,
                        "queries": int(found.queries[i]),
                        "seconds": seconds / B,
                        "network": model.seconds / B if on_host else None,
                    }
                    for i in range(B)
                ],
            )


def of_paper(method: str) -> Ours:
    return Ours(about="the paper's parameters", params={"method": method, **PAPER["mnist"].parameters(method)})


def classifier(model: nn.Module) -> Any:
    """A model as ART wants it."""
    device = "gpu" if next(model.parameters()).device.type == "cuda" else "cpu"
    return PyTorchClassifier(
        model=model,
        loss=nn.CrossEntropyLoss(),
        input_shape=(1, 28, 28),
        nb_classes=10,
        clip_values=(0, 1),
        device_type=device,
    )


def art_square(model: Watched, x: Tensor, y: Tensor, budget: int, epsilon: float) -> Any:
    # It asks three times an iteration: whether it has succeeded, and for the loss before and after the change.
    made = SquareAttack(classifier(model), norm=2, eps=epsilon, max_iter=max(1, budget // 3), verbose=False)
    with np.errstate(divide="ignore", invalid="ignore"):  # it divides by the norm of a perturbation, which may be 0
        return made.generate(x.cpu().numpy(), y.cpu().numpy())


def art_zoo(model: Watched, x: Tensor, y: Tensor, budget: int) -> Any:
    made = ZooAttack(
        classifier(model),
        initial_const=10.0,
        max_iter=budget,
        abort_early=False,
        use_resize=False,
        use_importance=False,
        verbose=False,
    )
    return made.generate(x.cpu().numpy(), y.cpu().numpy())


def art_hop_skip_jump(model: Watched, x: Tensor, y: Tensor, budget: int) -> Any:
    made = HopSkipJump(classifier(model), norm=2, max_iter=budget, verbose=False)
    return made.generate(x.cpu().numpy(), y.cpu().numpy())


def foolbox_boundary(model: Watched, x: Tensor, y: Tensor, budget: int) -> Any:
    seen = foolbox.PyTorchModel(model, bounds=(0, 1), device=x.device)
    return foolbox.attacks.BoundaryAttack(steps=budget)(seen, x, y, epsilons=None)[0]


def foolbox_hop_skip_jump(model: Watched, x: Tensor, y: Tensor, budget: int) -> Any:
    seen = foolbox.PyTorchModel(model, bounds=(0, 1), device=x.device)
    return foolbox.attacks.HopSkipJumpAttack(steps=budget)(seen, x, y, epsilons=None)[0]


def torchattacks_square(model: Watched, x: Tensor, y: Tensor, budget: int, epsilon: float) -> Any:
    return torchattacks.Square(model, norm="L2", eps=epsilon, n_queries=budget)(x, y)


def torchattacks_pixle(model: Watched, x: Tensor, y: Tensor, budget: int) -> Any:
    return torchattacks.Pixle(model, restarts=budget)(x, y)


def square_within(library: str, within: Callable[..., Any], radius: float) -> Peer:
    """An attack that needs a radius, with one, until it finds something."""
    run = partial(within, epsilon=radius)
    return Peer(library=library, sees="scores", about=f"radius {radius:g}", run=run, planned=True)


def closer_and_closer(within: Callable[..., Any]) -> Run:
    """Look for small perturbations with an attack that needs a radius: after each success a smaller one."""

    def run(model: Watched, x: Tensor, y: Tensor, budget: int) -> Any:
        epsilon, before = FIRST_EPSILON, float("inf")
        while True:
            found = within(model, x, y, budget - model.count, epsilon)
            if model.least >= before:
                return found
            before, epsilon = model.least, SHRINK * model.least**0.5

    return run


_SMALLER = f"radius {FIRST_EPSILON:g}, then {SHRINK:g} times what it found, as long as it finds"

ATTACKS: dict[str, Ours | Peer] = {
    "slgh": Ours(about="default settings", params={}),
    "zoslgh_r": of_paper("zoslgh_r"),
    "zoslgh_d": of_paper("zoslgh_d"),
    "zosgd": of_paper("zosgd"),
    "zoadamm": of_paper("zoadamm"),
    "art-square": Peer(library="ART", sees="scores", about=_SMALLER, run=closer_and_closer(art_square), planned=True),
    "art-square-3": square_within("ART", art_square, 3.0),
    "art-zoo": Peer(
        library="ART",
        sees="scores",
        about="constant 10, no resizing, never aborted, the rest as by default",
        run=art_zoo,
    ),
    "art-hopskipjump": Peer(library="ART", sees="classes", about="default settings", run=art_hop_skip_jump),
    "foolbox-boundary": Peer(library="foolbox", sees="classes", about="default settings", run=foolbox_boundary),
    "foolbox-hopskipjump": Peer(library="foolbox", sees="classes", about="default settings", run=foolbox_hop_skip_jump),
    "torchattacks-square": Peer(
        library="torchattacks", sees="scores", about=_SMALLER, run=closer_and_closer(torchattacks_square), planned=True
    ),
    "torchattacks-square-2": square_within("torchattacks", torchattacks_square, 2.0),
    "torchattacks-square-3": square_within("torchattacks", torchattacks_square, 3.0),
    "torchattacks-pixle": Peer(
        library="torchattacks",
        sees="scores",
        about="default settings; moves few pixels, and does not look at L2",
        run=torchattacks_pixle,
    ),
}

COLUMNS = (
    "attack",
    "sees",
    "success",
    *(f"L2 <= {radius:g}" for radius in RADII),
    "median L2²",
    "mean L2², successes",
    "mean L2², same images",
    "queries",
    "to the first",
    "s an image",
    "in the network",
)


def figures(records: list[dict[str, Any]], common: NDArray[np.intp]) -> list[str]:
    """The figures of a row: successes, distortions, queries and seconds. A failure counts as infinite in the median."""
    squared = np.array([np.inf if r["squared"] is None else r["squared"] for r in records])
    success = np.isfinite(squared)
    first = [r["first"] for r in records if r["first"] is not None]
    own = [r["network"] for r in records if r["network"] is not None]

    def shown(reduce: Callable[..., Any], values: Any, form: str = ".2f") -> str:
        return format(found, form) if len(values) and np.isfinite(found := reduce(values)) else "-"

    return [
        f"{success.mean():.0%}",
        *(f"{np.mean(squared <= radius**2 * (1 + 1e-5)):.0%}" for radius in RADII),
        shown(np.median, squared),
        shown(np.mean, squared[success]),
        shown(np.mean, squared[common]),
        shown(np.mean, [r["queries"] for r in records], ",.0f"),
        shown(np.median, first, ",.0f"),
        shown(np.mean, [r["seconds"] for r in records], ".1f"),
        shown(np.mean, own, ".1f"),
    ]


def images_in_common(found: dict[str, list[dict[str, Any]]]) -> NDArray[np.intp]:
    """The images on which every attack succeeds, of those that succeed on half of the images at least."""
    success = np.array([[r["squared"] is not None for r in records] for records in found.values()])
    return np.flatnonzero(success[success.mean(axis=1) >= 0.5].all(axis=0))


class Store:
    """A folder with a JSON file for each attack and budget, valid for the same settings."""

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        self.folder, self.settings = folder, settings
        folder.mkdir(parents=True, exist_ok=True)

    def _path(self, name: str, budget: int) -> Path:
        return self.folder / f"{name}-{budget}.json"

    def _header(self, name: str, budget: int) -> dict[str, Any]:
        made = ATTACKS[name]
        return {**self.settings, "attack": name, "about": made.about, "library": made.library, "budget": budget}

    def read(self, name: str, budget: int) -> list[dict[str, Any]] | None:
        path = self._path(name, budget)
        if not path.exists():
            return None
        kept = json.loads(path.read_text())
        return kept["found"] if kept["settings"] == self._header(name, budget) else None

    def write(self, name: str, budget: int, found: list[dict[str, Any]]) -> None:
        write_text(
            self._path(name, budget), json.dumps({"settings": self._header(name, budget), "found": found}, indent=1)
        )


def tables(store: Store, names: list[str], budgets: list[int]) -> Iterator[tuple[str, list[list[str]]]]:
    """For each budget a title and its rows."""
    for budget in budgets:
        found = {name: kept for name in names if (kept := store.read(name, budget)) is not None}
        common = images_in_common(found)
        rows = [[name, ATTACKS[name].sees, *figures(records, common)] for name, records in found.items()]
        yield f"{budget:,} queries an image (the same images: {len(common)})", rows


def markdown_text(found: list[tuple[str, list[list[str]]]], settings: dict[str, Any], command: str) -> str:
    lines = [
        "# The attack beside those of ART, foolbox and torchattacks",
        "",
        f"Written by `{command}`; MNIST, the shipped network, the first {settings['images']} shipped images, seed "
        f"{settings['seed']}, {settings['device']}, one thread.",
        ", ".join(f"{name} {version(name)}" for name in ("slgh", "torch", *LIBRARIES)) + ".",
        "",
        *(f"- `{name}`: {made.library}, {made.about}." for name, made in ATTACKS.items()),
        "",
    ]
    for title, rows in found:
        lines += [f"## {title}", "", f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
        lines += [f"| {' | '.join(row)} |" for row in rows] + [""]
    return "\n".join(lines)


LIBRARIES = ("adversarial-robustness-toolbox", "foolbox", "torchattacks")


def main(
    images: Annotated[int, typer.Option(help="How many of the shipped images.")] = 10,
    skip: Annotated[int, typer.Option(help="Leave out so many images first: other images to choose settings on.")] = 0,
    budget: Annotated[list[int] | None, typer.Option(help="Queries an image; may be repeated.")] = None,
    attacks: Annotated[list[str] | None, typer.Option(help="Only this attack; may be repeated.")] = None,
    device: Annotated[str, typer.Option(help="cpu, or cuda.")] = "cpu",
    seed: int = 0,
    folder: Annotated[Path, typer.Option(help="Where what was measured is kept.")] = Path("out/attack_peers"),
    fresh: Annotated[bool, typer.Option(help="Measure again what is kept.")] = False,
    markdown: Annotated[Path | None, typer.Option(help="Write the tables to this file.")] = None,
) -> None:
    """Measure what is not kept yet, and print."""
    torch.set_num_threads(1)
    budgets, names = sorted(budget or BUDGETS), attacks or list(ATTACKS)
    if unknown := set(names) - set(ATTACKS):
        raise SystemExit(f"--attacks must be among {', '.join(ATTACKS)}; got {', '.join(sorted(unknown))}.")
    settings = {"images": images, "skip": skip, "seed": seed, "device": device}
    store, console = Store(folder, settings), Console(width=None if sys.stdout.isatty() else 180)
    net, chosen = network("mnist").to(device), shipped_images("mnist")
    taken = slice(skip, skip + images)
    x = torch.tensor(chosen.images[taken] / np.float32(255), device=device)
    y = torch.tensor(chosen.labels[taken], device=device)
    for name in names:
        missing = [each for each in budgets if fresh or store.read(name, each) is None]
        for each, records in ATTACKS[name].measure(net, x, y, missing, seed) if missing else ():
            store.write(name, each, records)
            spent = sum(record["seconds"] for record in records)
            console.print(f"{name}, {each:,} queries: {figures(records, np.arange(0))[0]} in {spent:.0f} s")
    found = list(tables(store, names, budgets))
    for title, rows in found:
        table = Table(*COLUMNS, title=title)
        for row in rows:
            table.add_row(*row)
        console.print(table)
    if markdown:
        kept = markdown.read_text() if markdown.exists() else ""
        words = kept[kept.index(READING) :] if READING in kept else f"{READING}\n"
        text = markdown_text(found, settings, f"python benchmarks/attack_peers.py --markdown {markdown}")
        write_text(markdown, f"{text}\n{words}")


if __name__ == "__main__":
    typer.run(main)
