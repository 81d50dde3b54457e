"""Compare slgh with the black-box attacks of ART, foolbox and torchattacks on one network, with equal queries.

The network is the MNIST network of the package, the images are the first ones of the package, untargeted, with pixels
in [0, 1]. A wrapper around the network counts the queries and raises once the budget is spent. A peer is credited with
the least distorted adversarial image that it evaluated or returned within the budget. slgh is credited with the image
that `attack` returns. Images outside [0, 1] are clipped.

Peers are called with one image at a time, so that queries can be counted per image. slgh attacks all images at once.

Run `python benchmarks/attack_peers.py --markdown benchmarks/attack_peers.md`. Each attack and budget is stored in a
JSON file when it ends, so an interrupted run continues. It takes about half an hour on one thread. `--budget 20000`
takes longer.
"""

from __future__ import annotations

import json
import random
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
        warnings.simplefilter("ignore", DeprecationWarning)  # foolbox imports from a deprecated namespace of SciPy
        import foolbox
    import torchattacks
    from art.attacks.evasion import HopSkipJump, SquareAttack, ZooAttack
    from art.estimators.classification import PyTorchClassifier
except ImportError as missing:
    raise SystemExit(
        f'{missing.name} is missing. Run pip install -c constraints.txt -e ".[bench]" && '
        "pip install --no-deps -c constraints.txt torchattacks"
    ) from None

BUDGETS = (1_000, 5_000)
RADII = (2.0, 3.0)
"""L2 radii of the attacks that need one, and of the columns that count the images within them."""

FIRST_EPSILON, SHRINK = 5.0, 0.9
"""First radius of an attack that needs one, and the factor between the distortion found and the next radius."""

READING = "## How to read it"
"""The text from this heading on is written by hand. `--markdown` keeps it."""


def clock() -> float:
    """Return CPU seconds, which equal wall seconds on an idle machine (one thread). With CUDA, return wall seconds."""
    return time.perf_counter() if torch.cuda.is_initialized() else time.process_time()


class Spent(Exception):
    """The budget is spent."""


class Clocked(nn.Module):
    """The MNIST network of the package for pixels in [0, 1]. It counts images and its own seconds."""

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
    """The network under an attack on one image. It stores the best image evaluated, and stops at the last budget."""

    def __init__(self, net: nn.Module, image: Tensor, label: int, budgets: list[int]) -> None:
        super().__init__(net)
        self.image, self.label, self.budgets = image, label, budgets
        self.started = clock()
        self.curve: list[tuple[int, float]] = []
        """Improvements: the query that evaluated a less distorted adversarial image, and its squared L2."""
        self.reached: dict[int, tuple[float, float]] = {}
        """Seconds since the start, in all and in the network, when each budget was reached."""

    @property
    def least(self) -> float:
        return self.curve[-1][1] if self.curve else float("inf")

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        before, fits = self.count, min(len(x), self.budgets[-1] - self.count)
        if fits:
            answer = super().forward(x[:fits])
            self.store_adversarial(x[:fits].float(), answer, before)
            for budget in self.budgets:
                if self.count >= budget:
                    self.reached.setdefault(budget, self.now())
        if fits < len(x):
            raise Spent
        return answer

    def now(self) -> tuple[float, float]:
        return clock() - self.started, self.seconds

    def end(self) -> None:
        """End the attack before its budget is spent."""
        for budget in self.budgets:
            self.reached.setdefault(budget, self.now())

    @torch.no_grad()
    def store_adversarial(self, x: Tensor, answer: Tensor, before: int) -> None:
        """Store the images that fool the network, in the order of evaluation."""
        fooled = (answer.argmax(dim=1) != self.label) & x.isfinite().flatten(1).all(dim=1)
        clipped = x.clamp(0, 1)
        squared = (clipped - self.image).square().flatten(1).sum(dim=1)
        for i in (fooled & (squared < self.least)).nonzero().flatten().tolist():
            inside = bool((clipped[i] == x[i]).all())
            if squared[i] < self.least and (inside or self.net(clipped[i : i + 1] - 0.5).argmax() != self.label):
                self.curve.append((before + i + 1, float(squared[i])))

    def found(self, budget: int) -> dict[str, Any]:
        """Return what was found within a budget."""
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
"""Attack of a peer: takes the model, an image (1, ...), its label (1,), and the remaining budget."""


@dataclass(frozen=True, kw_only=True)
class Peer:
    """An attack of another library, run until the budget is spent.

    `planned` is True if the attack behaves differently with another budget. If False, one run covers all budgets.
    """

    library: str
    sees: str
    about: str
    run: Run
    planned: bool = False

    def measure(self, net: nn.Module, images: Tensor, labels: Tensor, budgets: list[int], seed: int) -> Iterator[Any]:
        """Yield for each budget the records of all images."""
        groups = [[budget] for budget in budgets] if self.planned else [budgets]
        for group in groups:
            models = [self.attacked(net, images[i], labels[i], group, seed) for i in range(len(labels))]
            for budget in group:
                yield budget, [model.found(budget) for model in models]

    def attacked(self, net: nn.Module, image: Tensor, label: Tensor, budgets: list[int], seed: int) -> Watched:
        """Return the model after the attack on one image."""
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
        model.store_adversarial(returned, net(returned - 0.5), model.count - 1)
        return model


@dataclass(frozen=True, kw_only=True)
class SlghAttack:
    """A method of slgh, on all images at once, until the budget is spent."""

    about: str
    params: dict[str, Any]
    library: str = "slgh"
    sees: str = "scores"

    def measure(self, net: nn.Module, images: Tensor, labels: Tensor, budgets: list[int], seed: int) -> Iterator[Any]:
        """Yield for each budget the records of all images."""
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


def paper_attack(method: str) -> SlghAttack:
    return SlghAttack(about="the paper's parameters", params={"method": method, **PAPER["mnist"].parameters(method)})


def classifier(model: nn.Module) -> Any:
    """Wrap a model for ART."""
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
    # It makes three queries per iteration: for success, and for the loss before and after the change.
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
    """Return an attack with a given radius that runs until it succeeds."""
    run = partial(within, epsilon=radius)
    return Peer(library=library, sees="scores", about=f"radius {radius:g}", run=run, planned=True)


def closer_and_closer(within: Callable[..., Any]) -> Run:
    """Search for small perturbations with an attack that needs a radius: reduce the radius after each success."""

    def run(model: Watched, x: Tensor, y: Tensor, budget: int) -> Any:
        epsilon, before = FIRST_EPSILON, float("inf")
        while True:
            found = within(model, x, y, budget - model.count, epsilon)
            if model.least >= before:
                return found
            before, epsilon = model.least, SHRINK * model.least**0.5

    return run


_SMALLER = f"radius {FIRST_EPSILON:g}, then {SHRINK:g} times the distortion found, while it succeeds"

ATTACKS: dict[str, SlghAttack | Peer] = {
    "slgh": SlghAttack(about="default settings", params={}),
    "zoslgh_r": paper_attack("zoslgh_r"),
    "zoslgh_d": paper_attack("zoslgh_d"),
    "zosgd": paper_attack("zosgd"),
    "zoadamm": paper_attack("zoadamm"),
    "art-square": Peer(library="ART", sees="scores", about=_SMALLER, run=closer_and_closer(art_square), planned=True),
    "art-square-3": square_within("ART", art_square, 3.0),
    "art-zoo": Peer(
        library="ART",
        sees="scores",
        about="constant 10, no resizing, never aborted, defaults otherwise",
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
        about="default settings; changes few pixels, ignores L2",
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
    "mean L2², common images",
    "queries",
    "median first success",
    "s per image",
    "s in the network",
)
TERMINAL_COLUMNS = ("attack", "success", "median L2²", "queries", "s per image")
"""Columns that fit 80 characters. The page has all."""


def figures(records: list[dict[str, Any]], common: NDArray[np.intp]) -> list[str]:
    """Format a row: successes, distortions, queries and seconds. A failure counts as infinite in the median."""
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
    """Return the images that all attacks fool, ignoring attacks that fool less than half of the images."""
    success = np.array([[r["squared"] is not None for r in records] for records in found.values()])
    return np.flatnonzero(success[success.mean(axis=1) >= 0.5].all(axis=0))


class Store:
    """Folder with a JSON file for each attack and budget. A file with other settings is ignored."""

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
    """Yield a title and the rows for each budget."""
    for budget in budgets:
        found = {name: kept for name in names if (kept := store.read(name, budget)) is not None}
        common = images_in_common(found)
        rows = [[name, ATTACKS[name].sees, *figures(records, common)] for name, records in found.items()]
        yield f"{budget:,} queries per image ({len(common)} common images)", rows


def markdown_text(found: list[tuple[str, list[list[str]]]], settings: dict[str, Any], command: str) -> str:
    lines = [
        "# slgh compared with attacks of ART, foolbox and torchattacks",
        "",
        f"Command: `{command}`. MNIST, the network of the package, its first {settings['images']} images, seed "
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
    images: Annotated[int, typer.Option(help="Number of images of the package.")] = 10,
    skip: Annotated[
        int, typer.Option(help="Skip this many images first, for example to choose settings on other images.")
    ] = 0,
    budget: Annotated[list[int] | None, typer.Option(help="Queries per image. May be repeated.")] = None,
    attacks: Annotated[list[str] | None, typer.Option(help="Run only this attack. May be repeated.")] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    seed: int = 0,
    folder: Annotated[Path, typer.Option(help="Folder of the stored results.")] = Path("out/attack_peers"),
    fresh: Annotated[bool, typer.Option(help="Ignore stored results.")] = False,
    markdown: Annotated[Path | None, typer.Option(help="Write the tables to this file.")] = None,
) -> None:
    """Run the attacks without a stored result, and print the tables."""
    torch.set_num_threads(1)
    budgets, names = sorted(budget or BUDGETS), attacks or list(ATTACKS)
    if unknown := set(names) - set(ATTACKS):
        raise SystemExit(f"--attacks must be among {', '.join(ATTACKS)}, got {', '.join(sorted(unknown))}.")
    settings = {"images": images, "skip": skip, "seed": seed, "device": device}
    store, console = Store(folder, settings), Console()
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
        shown = [COLUMNS.index(name) for name in TERMINAL_COLUMNS]
        table = Table(*TERMINAL_COLUMNS, title=title)
        for row in rows:
            table.add_row(*(row[i] for i in shown))
        console.print(table)
    if markdown:
        kept = markdown.read_text() if markdown.exists() else ""
        words = kept[kept.index(READING) :] if READING in kept else f"{READING}\n"
        text = markdown_text(found, settings, f"python benchmarks/attack_peers.py --markdown {markdown}")
        write_text(markdown, f"{text}\n{words}")


if __name__ == "__main__":
    typer.run(main)
