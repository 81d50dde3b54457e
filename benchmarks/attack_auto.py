"""Compare the attack with "auto" on a third of the paper's queries with ZOSLGH_r on all of them.

    python benchmarks/attack_auto.py --markdown benchmarks/attack_auto.md        needs CUDA, about two minutes
    python benchmarks/attack_auto.py --folder DATA --first 5000 --images 12      other images; half an hour on one core

Networks, images and objective are the same. The rows of ZOSLGH_r are those of the reproduced tables
(docs/reproduced/attack), with the paper's settings. Total losses are compared image by image, at the points that the
methods return: the last iterate of ZOSLGH_r, as in the paper, and the nearest image that "auto" found. If "auto" fails
on an image, its loss is that of its last iterate. The interval is a bootstrap over images. "Both successful" means the
images that both methods fool.

With `--folder`, the folder of the official MNIST files, other images of the test set are attacked, with ZOSLGH_r too.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from slgh.attack import AttackResult, attack
from slgh.files import write_text
from slgh.paper.attack.settings import PAPER
from slgh.paper.networks.datasets import shipped_images
from slgh.paper.networks.image_files import load_images
from slgh.paper.networks.networks import network

ROWS = Path(__file__).parents[1] / "docs" / "reproduced" / "attack"
DATA = ("mnist", "cifar10")
QUERY_DIVISORS = (3, 6, 10)
"""Divisors of the paper's number of queries."""

HEAD = (
    "data",
    "method",
    "max queries per image",
    "mean queries",
    "success",
    "total loss",
    "difference from ZOSLGH_r (95 %)",
    "both successful",
    "ZOSLGH_r on these",
    "lower on",
)


def paper_row(data: str) -> dict[str, Any]:
    """Return the record of ZOSLGH_r with all of the paper's queries and seed 0."""
    return json.loads((ROWS / f"{data}-zoslgh_r-seed0.json").read_text())  # type: ignore[no-any-return]


def interval(differences: np.ndarray, resamples: int = 10_000) -> tuple[float, float]:
    """Return a 95 % bootstrap interval of the mean over images."""
    picks = np.random.default_rng(0).integers(len(differences), size=(resamples, len(differences)))
    low, high = np.quantile(differences[picks].mean(axis=1), [0.025, 0.975])
    return float(low), float(high)


def rows(data: str, seeds: int) -> list[list[str]]:
    """Return a row for the paper's method, and one for each budget and seed of slgh."""
    paper, images = paper_row(data), shipped_images(data)
    assert paper["ids"] == images.ids.tolist()
    paper_loss, fooled, asked = (
        np.array(paper["total_loss"]),
        np.array(paper["success"], bool),
        np.array(paper["queries"]),
    )
    table = [zoslgh_r(data, paper_loss, fooled, asked)]
    model = network(data).to("cuda")
    pixels = torch.as_tensor(images.images / 255 - 0.5, dtype=torch.float32, device="cuda")
    for share in QUERY_DIVISORS:
        for seed in range(seeds):
            queries = int(asked.max()) // share
            found = attack(model, pixels, images.labels, pixels=(-0.5, 0.5), max_queries=queries, seed=seed, history=0)
            table.append([data, "auto", f"{queries:,}", *compared(found, paper_loss, fooled)])
            print(" | ".join(table[-1]), flush=True)
    return table


def others(folder: Path, first: int, n: int) -> list[list[str]]:
    """Compare on n other images of MNIST's test set that the network classifies correctly, from `first` on."""
    device, model = "cuda" if torch.cuda.is_available() else "cpu", network("mnist")
    images, shipped = load_images("mnist", folder=folder), shipped_images("mnist").ids
    rest = images.take([i for i in images.ids[first : first + 2 * n] if i not in shipped])
    right = model(torch.as_tensor(rest.pixels())).argmax(dim=1).numpy() == rest.labels
    chosen = rest.take(rest.ids[right][:n])
    pixels, settings = torch.as_tensor(chosen.pixels(), device=device), PAPER["mnist"]
    common: dict[str, Any] = {"pixels": (-0.5, 0.5), "seed": 0, "history": 0}
    given = settings.parameters("zoslgh_r") | {"method": "zoslgh_r", "max_iter": settings.T}
    paper = attack(model.to(device), pixels, chosen.labels, **given, **common)
    fooled, queries = paper.first_success >= 0, int(paper.queries.max()) // QUERY_DIVISORS[0]
    found = attack(model, pixels, chosen.labels, max_queries=queries, **common)
    auto = ["mnist", "auto", f"{queries:,}", *compared(found, paper.last_total, fooled)]
    return [zoslgh_r("mnist", paper.last_total, fooled, paper.queries), auto]


def zoslgh_r(data: str, losses: np.ndarray, fooled: np.ndarray, asked: np.ndarray) -> list[str]:
    """Return the row of the paper's method."""
    figures = f"{asked.max():,}", f"{asked.mean():,.0f}", f"{100 * fooled.mean():.0f} %", f"{losses.mean():.2f}"
    return [data, "zoslgh_r", *figures, *[""] * 4]


def compared(found: AttackResult, paper_loss: np.ndarray, fooled: np.ndarray) -> list[str]:
    """Compare an attack with the total losses of ZOSLGH_r and the images that it fools."""
    auto_loss, both = found.last_total, found.success & fooled
    less = auto_loss - paper_loss
    low, high = interval(less)
    return [
        f"{found.queries.mean():,.0f}",
        f"{100 * found.success.mean():.0f} %",
        f"{auto_loss.mean():.2f}",
        f"{less.mean():+.2f} ({low:+.2f} to {high:+.2f})",
        f"{auto_loss[both].mean():.2f}",
        f"{paper_loss[both].mean():.2f}",
        f"{(less < 0).sum()} of {less.size}",
    ]


def as_lines(table: list[list[str]]) -> list[str]:
    """Format the table as Markdown."""
    return ["| " + " | ".join(row) + " |" for row in (HEAD, ["---"] * len(HEAD), *table)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--markdown", type=Path, help="write the table to this file")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="attack other images of MNIST, whose files are in this folder")
    parser.add_argument("--first", type=int, default=5000, help="index of the first of these images")
    parser.add_argument("--images", type=int, default=12, help="number of these images")
    args = parser.parse_args()
    if args.folder:
        print("\n".join(as_lines(others(args.folder, args.first, args.images))))
        return
    if not torch.cuda.is_available():
        raise SystemExit("This benchmark needs CUDA.")
    found = [row for data in DATA for row in rows(data, args.seeds)]
    text = "\n".join(
        [
            "# Attack with auto compared with ZOSLGH_r",
            "",
            f"{torch.cuda.get_device_name()}, 100 images each. Command: `python benchmarks/attack_auto.py "
            f"--seeds {args.seeds} --markdown benchmarks/attack_auto.md`.",
            "The total loss is taken at the point that the method returns: the last iterate of ZOSLGH_r, the nearest",
            "image found by auto. Both successful: the mean over the images that both methods fool.",
            "",
            *as_lines(found),
            "",
        ]
    )
    print(text)
    if args.markdown:
        write_text(args.markdown, text)


if __name__ == "__main__":
    main()
