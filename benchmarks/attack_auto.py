"""The attack by "auto" with a third of the paper's queries, beside ZOSLGH_r with all of them: success and total loss.

    python benchmarks/attack_auto.py --markdown benchmarks/attack_auto.md        needs CUDA, about two minutes

The same networks, images and function; ZOSLGH_r's rows are those of the reproduced tables (docs/reproduced/attack),
with the paper's settings. Total losses are compared image by image, at the points that the methods return: ZOSLGH_r's
last iterate, as in the paper, and the best point that "auto" asked about. The interval is a bootstrap over images;
"where both do" are the images that both fool.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from slgh.attack import AttackResult, attack
from slgh.attack.images import shipped_images
from slgh.attack.networks import network
from slgh.files import write_text

ROWS = Path(__file__).parents[1] / "docs" / "reproduced" / "attack"
DATA = ("mnist", "cifar10")
SHARES = (3, 6, 10)
"""The paper's queries are divided by these."""

HEAD = (
    "data",
    "method",
    "queries an image, at most",
    "mean",
    "success",
    "total loss",
    "less ZOSLGH_r's, image by image (95 %)",
    "where both do",
    "ZOSLGH_r's there",
    "lower on",
)


def paper_row(data: str) -> dict[str, Any]:
    """ZOSLGH_r with all of the paper's queries, seed 0."""
    return json.loads((ROWS / f"{data}-zoslgh_r-seed0.json").read_text())  # type: ignore[no-any-return]


def interval(differences: np.ndarray, resamples: int = 10_000) -> tuple[float, float]:
    """A 95 % bootstrap interval of the mean over images."""
    picks = np.random.default_rng(0).integers(len(differences), size=(resamples, len(differences)))
    low, high = np.quantile(differences[picks].mean(axis=1), [0.025, 0.975])
    return float(low), float(high)


def rows(data: str, seeds: int) -> list[list[str]]:
    """A row for the paper's method, and one for each budget and seed of ours."""
    paper, images = paper_row(data), shipped_images(data)
    assert paper["ids"] == images.ids.tolist()
    theirs, fooled, asked = np.array(paper["total_loss"]), np.array(paper["success"], bool), np.array(paper["queries"])
    most, mean, loss = f"{asked.max():,}", f"{asked.mean():,.0f}", f"{theirs.mean():.2f}"
    table = [[data, "zoslgh_r", most, mean, f"{fooled.sum()} %", loss, *[""] * 4]]
    model = network(data).to("cuda")
    pixels = torch.as_tensor(images.images / 255 - 0.5, dtype=torch.float32, device="cuda")
    for share in SHARES:
        for seed in range(seeds):
            queries = int(asked.max()) // share
            found = attack(model, pixels, images.labels, pixels=(-0.5, 0.5), max_queries=queries, seed=seed, history=0)
            table.append([data, "auto", f"{queries:,}", *compared(found, theirs, fooled)])
            print(" | ".join(table[-1]), flush=True)
    return table


def compared(found: AttackResult, theirs: np.ndarray, fooled: np.ndarray) -> list[str]:
    """The figures of an attack beside the total losses of ZOSLGH_r and which images it has fooled."""
    ours, both = found.last_total, (found.first_success >= 0) & fooled
    less = ours - theirs
    low, high = interval(less)
    return [
        f"{found.queries.mean():,.0f}",
        f"{(found.first_success >= 0).sum()} %",
        f"{ours.mean():.2f}",
        f"{less.mean():+.2f} ({low:+.2f} to {high:+.2f})",
        f"{ours[both].mean():.2f}",
        f"{theirs[both].mean():.2f}",
        f"{(less < 0).sum()} of {less.size}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--markdown", type=Path, help="write the table to this file")
    parser.add_argument("--seeds", type=int, default=2)
    args = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("This benchmark needs CUDA.")
    found = [row for data in DATA for row in rows(data, args.seeds)]
    lines = ["| " + " | ".join(row) + " |" for row in (HEAD, ["---"] * len(HEAD), *found)]
    text = "\n".join(
        [
            "# The attack by auto, beside ZOSLGH_r",
            "",
            f"{torch.cuda.get_device_name()}, 100 images each, by `python benchmarks/attack_auto.py --markdown "
            "benchmarks/attack_auto.md`.",
            "Total loss: at the point that the method returns, ZOSLGH_r's last iterate and the best one that auto",
            "asked about. Where both do: the mean over the images that both fool.",
            "",
            *lines,
            "",
        ]
    )
    print(text)
    if args.markdown:
        write_text(args.markdown, text)


if __name__ == "__main__":
    main()
