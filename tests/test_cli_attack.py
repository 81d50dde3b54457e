"""`slgh attack` and `slgh attack train`: refused input, output, files, and exit codes."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from typer.testing import CliRunner

from messages import error_message
from slgh.attack import Outcome
from slgh.attack import attack as library
from slgh.cli import app
from slgh.cli.attack_input import nearest, paper_parameters
from slgh.cli.options import ATTACK_METHODS
from slgh.cli.output import console
from slgh.paper.attack.settings import PAPER
from slgh.paper.networks.datasets import shipped_images
from slgh.paper.networks.networks import network, save_weights
from slgh.paper.networks.training import fresh

pytestmark = pytest.mark.slow

MINE = """
import os
import signal

import numpy as np
import torch

NUMBER = 3


def halves(a):
    '''Which half of an image is brighter, left or right.'''
    left, right = a[..., :2].sum(axis=(1, 2, 3)), a[..., 2:].sum(axis=(1, 2, 3))
    return 5 * np.stack([left - right, right - left], axis=1)


def shares(a):
    e = np.exp(halves(a))
    return e / e.sum(axis=1, keepdims=True)


def sides(a):
    return halves(a).argmax(axis=1)


def bytes_of(a):
    assert a.max() > 1
    return halves(a / 255)


class Halves(torch.nn.Module):
    def forward(self, a):
        left, right = a[..., :2].sum(dim=(1, 2, 3)), a[..., 2:].sum(dim=(1, 2, 3))
        return 5 * torch.stack([left - right, right - left], dim=1)


module = Halves().eval()


learning = Halves()


class Wrong(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 2)

    def forward(self, a):
        return self.layer(a.flatten(1))


wrong = Wrong().eval()


def ten(a):
    '''A model of MNIST's shape: the brightest of the first ten columns.'''
    assert a.shape[1:] == (1, 28, 28)
    return a.sum(axis=(1, 2))[:, 5:15]


def fails(a):
    raise RuntimeError("the model\\nbroke")


def flat(a):
    return halves(a)[:, 0]


def words(a):
    return "one"


def nothing(a):
    return np.full((len(a), 2), np.nan)


def shaky(a):
    return halves(a) + np.random.default_rng().normal(size=(len(a), 2))


def talks(a):
    print("now", len(a))
    return halves(a)


calls = 0


def later(a, what):
    global calls
    calls += 1
    if calls == 6:
        what()
    return halves(a)


def broken_later(a):
    return later(a, lambda: 1 / 0)


def interrupted(a):
    return later(a, lambda: os.kill(os.getpid(), signal.SIGINT))


def nan_later(a):
    global calls
    calls += 1
    return halves(a) if calls < 6 else np.full((len(a), 2), np.nan)
"""

RNG = np.random.default_rng(0)
IMAGES = np.concatenate([RNG.uniform(0.5, 0.6, (5, 1, 4, 2)), RNG.uniform(0.4, 0.5, (5, 1, 4, 2))], axis=-1)
LABELS = np.zeros(5, int)

OWN = ["--model", "mine.py:halves", "--inputs", "mine.npz"]
METHOD = ["--method", "zoslgh_r", "--t1", "0.05", "--step", "2e-4"]
QUICK = [*METHOD, "--max-iter", "200", "--stop", "first-success", "--seed", "3"]
SHORT_ATTACK = ["--method", "zoadamm", "--samples", "4", "--seed", "0", "--max-iter", "12"]
"""A few iterations on the network of the package."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Current folder with the user's own model and images."""
    (tmp_path / "mine.py").write_text(MINE)
    np.savez(tmp_path / "mine.npz", images=IMAGES, labels=LABELS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(console, "width", 200)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    return tmp_path


def run(*arguments: str, **options: Any) -> Any:
    return CliRunner().invoke(app, ["attack", *arguments], **options)


def attack(*arguments: str) -> dict[str, Any]:
    """Return the JSON of an attack."""
    result = run(*arguments, "--json", "-")
    assert result.exit_code in (0, 3), result.output
    return cast(dict[str, Any], json.loads(result.stdout))


def column(found: dict[str, Any], name: str) -> list[Any]:
    return [row[name] for row in found["images"]]


def block(text: str) -> dict[str, str]:
    """Return the labeled lines of the output."""
    lines = [line for line in text.splitlines() if line[:1].strip() and "  " in line]
    return {line.split()[0]: line[10:] for line in lines}


# --- networks of the package


def test_the_table_the_summary_and_the_picture_of_the_first_images(folder: Path) -> None:
    result = run("--data", "mnist", "--images", "2", *SHORT_ATTACK, "--plot")
    assert result.exit_code == 0, result.output
    shown = block(result.stdout)
    assert shown["attack"] == "2 images of the test set of MNIST, classified by the network of slgh"
    assert shown["method"].startswith("zoadamm = forward(samples=4, ")
    assert shown["method"].endswith(
        " x constant(t1=0.005) x adamm(step=0.127551, beta1=0.9, beta2=0.3, v0=1e-05), floor 0.001"
    )
    assert "0 of 2 attacked." in shown["fooled"]
    assert shown["again"] == "slgh attack --data mnist --images 2 --method zoadamm --samples 4 --max-iter 12 --seed 0"
    assert shown["drawn"] == "slgh-attack.png"
    assert (folder / "slgh-attack.png").read_bytes()[:4] == b"\x89PNG"
    rows = [line.split() for line in result.stdout.splitlines() if " failed " in line]
    assert [row[:5] for row in rows] == [["0", "7", "failed", "63", "-"], ["1", "2", "failed", "63", "-"]]


@pytest.mark.parametrize("data", ["mnist", "cifar10"])
def test_the_json_is_what_the_library_returns(data: str) -> None:
    number = {"mnist": 4, "cifar10": 12}[data]
    arguments = [*SHORT_ATTACK, "--ids", f"{number},3", "--stop", "end", "--history"]
    found = attack("--data", data, *arguments)
    some = shipped_images(data).take([number, 3])
    params = PAPER[data].parameters("zoadamm") | {"samples": 4}
    options: dict[str, Any] = {"pixels": (-0.5, 0.5), "method": "zoadamm", "stop": "end", "max_iter": 12, "seed": 0}
    expected = library(network(data), some.pixels(), some.labels, **options, **params)
    assert column(found, "id") == [number, 3]
    assert found["parameters"] == params
    for name in ("label", "before", "after", "success", "queries", "first_success", "last_total"):
        assert column(found, name) == getattr(expected, name).tolist(), name
    assert_array_equal(found["history"]["total"], expected.history["total"])
    assert found["summary"]["queries"] == expected.queries.sum()


@pytest.mark.parametrize("method", ATTACK_METHODS)
def test_parameters_that_are_not_given_are_the_papers_and_auto_needs_none(method: str) -> None:
    found = attack("--method", method, "--max-iter", "1", "--images", "1")
    assert found["method"] == method
    assert found["parameters"] == ({} if method == "auto" else PAPER["mnist"].parameters(method))


def test_without_a_word_four_images_of_mnist_are_attacked_by_auto_to_the_end() -> None:
    found = attack("--max-queries", "100", "--seed", "0")
    some = shipped_images("mnist").take([0, 1, 2, 3])
    expected = library(network("mnist"), some.pixels(), some.labels, pixels=(-0.5, 0.5), max_queries=100, seed=0)
    assert found["method"] == "auto"
    assert column(found, "id") == [0, 1, 2, 3]
    assert column(found, "last_total") == expected.last_total.tolist()


def test_parameters_follow_the_size_of_the_images_and_the_parts() -> None:
    mnist = PAPER["mnist"].parameters("zoslgh_d")
    larger = paper_parameters("zoslgh_d", 2 * 784 - 100, {})
    for name in ("step", "eta"):
        assert_allclose(larger[name] * (2 * 784 - 100), mnist[name] * 784)
    assert nearest(1600) == "cifar10"
    swapped = paper_parameters("zoslgh_r", 784, {"schedule": "constant", "update": "adam"})
    assert swapped.keys() == {"samples", "step", "floor", "t1", "schedule", "update"}


def test_the_default_limit_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slgh.cli.attack.DEFAULT_QUERIES", 60)
    result = run("--images", "1", "--json", "a.json")
    assert "--max-queries 60 is the default." in result.stdout
    assert 30 < json.loads(Path("a.json").read_text())["images"][0]["queries"] <= 60


def test_a_targeted_attack_leaves_out_the_images_of_the_class_itself() -> None:
    by_number = attack("--target", "2", "--images", "2", *SHORT_ATTACK)
    assert column(by_number, "id") == [0, 2]
    assert by_number["target"] == 2
    by_name = attack("--data", "cifar10", "--target", "ship", "--images", "1", "--method", "zosgd", "--max-iter", "1")
    assert by_name["target"] == 8


def test_other_weights_and_images_that_are_misclassified(folder: Path) -> None:
    save_weights(fresh("mnist", 5), folder / "w.safetensors")
    first = int(
        network("mnist", weights=folder / "w.safetensors")(torch.tensor(shipped_images("mnist").pixels()[:1])).argmax()
    )
    labels = shipped_images("mnist").labels
    wrong = np.flatnonzero(labels != first)[:2]
    result = run("--weights", "w.safetensors", "--ids", ",".join(map(str, wrong)), *SHORT_ATTACK)
    assert result.exit_code == 2
    assert len([line for line in result.stdout.splitlines() if line.split()[2:4] == ["→", str(first)]]) == 2
    assert f"2 of 2: {Outcome.MISCLASSIFIED.value}." in result.stdout
    assert result.stderr == (
        "error: no image was attacked: the model misclassifies all of them from the start.\ntip: Choose other images.\n"
    )
    assert "the network of slgh with w.safetensors" in result.stdout


def test_whole_test_sets_are_read_from_a_folder(folder: Path) -> None:
    some = shipped_images("mnist")
    x, y = np.zeros((10_000, 28, 28), np.uint8), np.zeros(10_000, np.uint8)
    x[1234], y[1234] = some.images[1, 0], some.labels[1]
    np.savez(folder / "mnist_test.npz", x=x, y=y)
    found = attack("--folder", ".", "--ids", "1234", *SHORT_ATTACK)
    assert (column(found, "id"), column(found, "label")) == ([1234], [2])


# --- the user's own model


@pytest.mark.parametrize(
    "arguments",
    [
        OWN,
        ["--model", "mine:halves", "--inputs", "mine.npz", "--model-batch-size", "3", "--batch-size", "2"],
        ["--model", "mine.py:shares", "--inputs", "mine.npz", "--outputs", "probabilities"],
        ["--model", "mine.py:module", "--inputs", "mine.npz"],
        ["--model", "mine.py:module", "--inputs", "mine.npz", "--device", "cpu"],
        ["--model", "mine.py:bytes_of", "--inputs", "bytes.npz", "--pixels", "0,255"],
    ],
    ids=" ".join,
)
def test_ones_own_model_is_fooled(arguments: list[str], folder: Path) -> None:
    np.savez(folder / "bytes.npz", images=(255 * IMAGES).astype(np.uint8), labels=LABELS, ids=np.arange(5) + 10)
    result = run(*arguments, *QUICK, "--out", "found")
    assert result.exit_code == 0, result.output
    shown = block(result.stdout)
    assert "5 of 5 attacked (100 %)" in shown["fooled"]
    assert shown["attack"].startswith("5 images of ")
    assert result.stdout.count("0 → 1") == 5
    with np.load(folder / "found" / "images.npz") as file:
        kept = dict(file)
    high = 255 if "0,255" in arguments else 1
    assert (kept["images"][..., 2:].sum((1, 2, 3)) > kept["images"][..., :2].sum((1, 2, 3))).all()
    assert kept["images"].min() >= 0
    assert 0.5 < kept["images"].max() / high <= 1
    assert_array_equal(kept["success"], True)
    assert_allclose(kept["originals"] / high, IMAGES, atol=1 / 255)
    found = json.loads((folder / "found" / "attack.json").read_text())
    change = np.linalg.norm((kept["images"].astype(float) - kept["originals"]).reshape(5, -1) / high, axis=1)
    assert_allclose(column(found, "distance"), change, rtol=1e-4)
    assert column(found, "id") == (list(range(10, 15)) if high == 255 else list(range(5)))
    assert {file.name for file in (folder / "found").iterdir()} == {
        "images.npz",
        "attack.json",
        "images.png",
        "curves.png",
        "success.png",
        "report.html",
    }


def test_a_public_set_is_scaled_to_the_range_that_ones_own_model_reads() -> None:
    result = run(
        "--model", "mine.py:ten", "--data", "mnist", "--pixels", "0,1", "--images", "100", *SHORT_ATTACK, "--json", "-"
    )
    found = json.loads(result.stdout)
    seen = (shipped_images("mnist").images[:, 0] / 255).sum(1)[:, 5:15].argmax(1)
    assert column(found, "before") == seen.tolist()
    attacked = seen == shipped_images("mnist").labels
    assert found["summary"]["attacked"] == attacked.sum() > 0
    assert_array_equal(np.array(column(found, "queries")) > 2, attacked)


def test_what_a_model_prints_does_not_come_between_the_figures() -> None:
    own = ["--model", "mine.py:talks", "--inputs", "mine.npz", *QUICK]
    assert attack(*own)["summary"]["fooled"] == 5
    result = run(*own, "--quiet")
    fooled, attacked, queries, l2 = result.stdout.split()
    assert (fooled, attacked) == ("5", "5")
    assert float(queries) > 10
    assert 0 < float(l2) < 1
    assert "now" in result.stderr


def test_without_a_success_quiet_prints_nan() -> None:
    assert run(*OWN, *QUICK, "--max-iter", "1", "--quiet").stdout == "0 5 nan nan\n"


# --- norms, labels, and the report

WALK = ["--max-queries", "300", "--seed", "0"]


def test_a_norm_and_an_eps_reach_the_library() -> None:
    found = attack(*OWN, *WALK, "--norm", "linf")
    expected = library(halves, IMAGES, LABELS, norm="linf", max_queries=300, seed=0)
    assert (found["norm"], found["eps"]) == ("linf", None)
    assert_array_equal(column(found, "distance"), expected.distance)
    assert found["summary"]["fooled"] == 5
    eps = float(np.median(expected.distance))
    limited = attack(*OWN, *WALK, "--norm", "linf", "--eps", str(eps))
    assert limited["eps"] == eps
    assert limited["summary"]["fooled"] == 3
    assert limited["curves"]["by_queries"][-1]["success"] == 0.6


def halves(a: Any) -> Any:
    left, right = a[..., :2].sum(axis=(1, 2, 3)), a[..., 2:].sum(axis=(1, 2, 3))
    return 5 * np.stack([left - right, right - left], axis=1)


def test_labels_are_enough() -> None:
    found = attack("--model", "mine.py:sides", "--inputs", "both.npz", *WALK, "--outputs", "labels")
    assert found["outputs"] == "labels"
    assert found["summary"]["fooled"] == 6
    assert max(column(found, "queries")) <= 300


@pytest.fixture(autouse=True)
def both(folder: Path) -> None:
    """Write images of both classes, since a walk by labels starts at one of another class."""
    np.savez(folder / "both.npz", images=np.concatenate([IMAGES, 1 - IMAGES[:1]]), labels=[0] * 5 + [1])


def test_a_walk_that_has_used_its_queries_has_come_to_its_planned_end() -> None:
    for more in ((), ("--max-iter", "1000")):
        result = run(*OWN, *WALK, *more)
        assert result.exit_code == 0
        assert block(result.stdout)["status"] == "5 of 5: success. 5 of 5: The planned iterations were completed."


@pytest.mark.parametrize(
    ("more", "headings"),
    [
        ([], ["L2²", "L2"]),
        (["--norm", "linf"], ["L∞"]),
        (["--norm", "linf", "--eps", "0.5", "--target", "1"], ["L∞"]),
        ([*METHOD, "--max-iter", "20"], ["L2²", "L2", "total"]),
    ],
    ids=["l2", "linf", "eps", "a method of the paper"],
)
def test_the_columns_fit_the_norm_and_80_columns(
    more: list[str], headings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "width", 80)
    result = run(*OWN, *(WALK if "--method" not in more else ["--seed", "0"]), *more, "--out", "found")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    heading = next(line for line in lines if line.split()[:1] == ["image"])
    assert heading.split()[-len(headings) - 1 :] == ["first", *headings]
    unbroken = ("again", "drawn")
    assert max(len(line) for line in lines if not line.startswith(unbroken)) <= 80


def test_the_classes_of_cifar10_fit_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "width", 80)
    result = run("--data", "cifar10", "--images", "8", "--max-queries", "60", "--seed", "0")
    rows = [line.split() for line in result.stdout.splitlines() if line[:8].strip().isdecimal()]
    assert len(rows) == 8, result.stdout


def test_the_report_has_the_curves_and_stands_alone(folder: Path) -> None:
    result = run(*OWN, *WALK, "--out", "found")
    assert "Success by number of queries" in result.stdout
    found = json.loads((folder / "found" / "attack.json").read_text())
    rows = found["curves"]["by_queries"]
    assert [row["queries"] for row in rows] == [100, 200, 300]
    assert rows[-1]["success"] == 1.0
    assert_allclose(rows[-1]["median_distance"], np.median(column(found, "distance")))
    assert_allclose(rows[-1]["median_distortion"], np.median(column(found, "distortion")))
    assert (np.diff([row["median_distance"] for row in rows]) <= 0).all()
    assert_allclose(found["curves"]["by_distance"]["distance"], sorted(column(found, "distance")))
    assert found["curves"]["by_distance"]["success"] == [0.2, 0.4, 0.6, 0.8, 1.0]
    page = (folder / "found" / "report.html").read_text()
    for text in (
        "Robustness report: mine.py:halves",
        "at most 300 queries per image",
        "smallest L2 distance; any wrong class; the model returns logits",
        "0 % (0 of 5), an upper bound",
        "slgh attack --model mine.py:halves --inputs mine.npz --max-queries 300 --seed 0",
        "An attack gives an upper bound of the robustness, never a lower one.",
        "data:image/png;base64,",
        "data:image/svg+xml;base64,",
    ):
        assert text in page, text
    assert "http://" not in page
    assert "https://" not in page


def test_without_a_success_the_report_says_so(folder: Path) -> None:
    assert run(*OWN, *WALK, "--eps", "1e-6", "--out", "found").exit_code == 0
    found = json.loads((folder / "found" / "attack.json").read_text())
    assert [row["success"] for row in found["curves"]["by_queries"]] == [0, 0, 0]
    assert "fooled the model on 0 of 5 images (0 %)" in (folder / "found" / "report.html").read_text()


def test_images_that_are_all_misclassified_have_no_report(folder: Path) -> None:
    np.savez(folder / "wrong.npz", images=IMAGES, labels=LABELS + 1)
    result = run("--model", "mine.py:halves", "--inputs", "wrong.npz", *WALK, "--out", "found")
    assert result.exit_code == 2
    assert json.loads((folder / "found" / "attack.json").read_text())["curves"] is None
    assert not (folder / "found" / "report.html").exists()


# --- folders of images


def write_image(file: Path, image: Any, **options: Any) -> None:
    from PIL import Image

    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.asarray(image)).save(file, **options)


def bright_half(side: int, channels: int | None = None, seed: int = 0) -> Any:
    """Return an image of bytes whose left or right half is brighter."""
    image = np.random.default_rng(seed).integers(90, 110, (4, 4) if channels is None else (4, 4, channels))
    image[:, 2 * side : 2 * side + 2] += 40
    return image.astype(np.uint8)


FOLDER = ["--model", "mine.py:halves", "--inputs", "photos"]


@pytest.mark.parametrize("names", [("0", "1"), ("left", "right")], ids=["numbers", "names"])
def test_the_classes_of_image_files_are_their_subfolders(names: tuple[str, str], folder: Path) -> None:
    for side, name in enumerate(names):
        write_image(folder / "photos" / name / "b.png", bright_half(side))
        write_image(folder / "photos" / name / "a.PNG", bright_half(side, seed=1))
    (folder / "photos" / names[0] / "notes.txt").write_text("not an image")
    found = attack(*FOLDER, *WALK)
    assert column(found, "file") == [f"{name}/{file}" for name in names for file in ("a.PNG", "b.png")]
    assert column(found, "label") == column(found, "before") == [0, 0, 1, 1]
    assert found["classes"] == (None if names[0] == "0" else ["left", "right"])
    assert found["summary"]["fooled"] == 4
    one = attack(*FOLDER, *WALK, "--ids", "3", "--target", names[0])
    assert (column(one, "file"), one["target"]) == ([f"{names[1]}/b.png"], 0)


def test_the_classes_of_image_files_are_listed(folder: Path) -> None:
    for side in (0, 1):
        write_image(folder / "photos" / f"{side}.png", bright_half(side, 3))
    (folder / "photos" / "labels.csv").write_text("label,file\nright,1.png\n0, 0.png\n")
    (folder / "photos" / "classes.txt").write_text("left\nright\n")
    result = run(*FOLDER, *WALK, "--out", "found")
    assert result.exit_code == 0, result.output
    found = json.loads((folder / "found" / "attack.json").read_text())
    assert column(found, "file") == ["1.png", "0.png"]
    assert column(found, "before") == [1, 0]
    assert "right → left" in result.stdout
    with np.load(folder / "found" / "images.npz") as file:
        assert file["originals"].shape == (2, 3, 4, 4)
        assert_allclose(file["originals"][1], bright_half(0, 3).transpose(2, 0, 1) / 255, rtol=1e-6)


def test_channels_can_be_last_and_pixels_scaled(folder: Path) -> None:
    (folder / "last.py").write_text(
        "def model(a):\n    assert a.shape[1:] == (4, 4, 3) and a.max() > 1\n"
        "    return (a / 255).mean(axis=(1, 3))[:, 1:3] * 9\n"
    )
    write_image(folder / "photos" / "0" / "a.png", bright_half(0, 3))
    options = ["--model", "last.py:model", "--inputs", "photos", "--channels", "last", "--pixels", "0,255"]
    assert attack(*options, *WALK)["summary"]["fooled"] == 1


def test_gray_and_colored_files_are_read_as_colored_ones(folder: Path) -> None:
    write_image(folder / "photos" / "0" / "gray.png", bright_half(0))
    write_image(folder / "photos" / "0" / "opaque.png", np.dstack([bright_half(0, 3), np.full((4, 4), 255, np.uint8)]))
    write_image(folder / "photos" / "1" / "color.jpg", bright_half(1, 3), quality=95)
    assert attack(*FOLDER, *WALK)["summary"]["attacked"] == 3


BAD_FOLDERS = {
    "empty": ({}, "photos has no images in subfolders. Put PNG or JPEG files"),
    "broken": ({"0/a.png": b"\x89PNG no"}, "photos/0/a.png is not a complete PNG or JPEG image"),
    "half": ({"0/a.png": "half"}, "photos/0/a.png is not a complete PNG or JPEG image"),
    "two sizes": ({"0/a.png": (4, 4), "0/b.png": (4, 5)}, "must have one size, got 4 x 4 and 5 x 4 pixels."),
    "transparent": ({"0/a.png": (4, 4, 4)}, "photos/0/a.png is transparent."),
    "sixteen bits": ({"0/a.png": "deep"}, "Write it with 8 bits per channel."),
    "columns": ({"labels.csv": b"name,label\n", "a.png": (4, 4)}, "labels.csv lacks the column file."),
    "nothing listed": ({"labels.csv": b"file,label\n"}, "labels.csv lists no images."),
    "no such file": ({"labels.csv": b"file,label\nb.png,0\n"}, "lists 'b.png', which is not a file in photos."),
    "a file elsewhere": (
        {"labels.csv": b"file,label\n../mine.png,0\n"},
        "lists '../mine.png', which is outside of photos.",
    ),
    "another format": ({"0/a.png": b"BM" + bytes(60)}, "photos/0/a.png is not a complete PNG or JPEG image"),
    "bytes": ({"labels.csv": b"\xff\xfe\x00"}, "labels.csv cannot be read"),
    "unknown class": (
        {"labels.csv": b"file,label\na.png,cat\n", "a.png": (4, 4), "classes.txt": b"dog\n"},
        "the class 'cat' of a.png is not in classes.txt.",
    ),
}


@pytest.mark.parametrize("name", BAD_FOLDERS)
def test_folders_that_cannot_be_read_are_refused(name: str, folder: Path) -> None:
    files, message = BAD_FOLDERS[name]
    (folder / "photos").mkdir()
    for place, content in cast(dict[str, Any], files).items():
        file = folder / "photos" / place
        file.parent.mkdir(exist_ok=True)
        if isinstance(content, bytes):
            file.write_bytes(content)
        elif isinstance(content, tuple):
            write_image(file, np.full(content, 100, np.uint8))
        elif content == "deep":
            write_image(file, np.full((4, 4), 1000, np.uint16))
        else:
            write_image(file, np.random.default_rng(0).integers(0, 255, (64, 64), np.uint8))
            file.write_bytes(file.read_bytes()[:2000])
    result = run(*FOLDER, *WALK)
    assert result.exit_code == 2, result.output
    assert message in error_message(result.stderr)


def test_a_missing_pillow_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_image(folder / "photos" / "0" / "a.png", bright_half(0))
    monkeypatch.setitem(sys.modules, "PIL", None)
    result = run(*FOLDER, *WALK)
    assert result.exit_code == 2
    assert 'needs Pillow: pip install "slgh[images]"' in result.stderr


# --- refused input

BAD = {
    "unknown data": (["--data", "mnits"], "--data must be one of mnist, cifar10; got 'mnits'."),
    "too many images": (
        ["--images", "101"],
        "--images must be at most 100, the number of images; got 101. Pass --folder",
    ),
    "no images": (["--images", "0"], "--images must be an integer >= 1, got 0."),
    "images of words": (["--images", "all"], "--images must be an integer, got 'all'."),
    "images and ids": (["--images", "3", "--ids", "3"], "Got both --images and --ids"),
    "ids that are not there": (["--data", "cifar10", "--ids", "0,2,-1"], "2, -1 are not. Pass --folder or --download"),
    "one id that is not there": (["--ids", "200"], "100 images, 0 to 99; 200 is not."),
    "ids of words": (["--ids", "first"], "--ids must be numbers separated by commas"),
    "half an id": (["--ids", "1.5"], "1.5 is not"),
    "ids twice": (["--ids", "1,1"], "--ids must not contain duplicates, got '1,1'."),
    "target out of range": (["--target", "10"], "--target must be one of 0, 1, 2"),
    "target of words": (["--data", "cifar10", "--target", "boat"], "ship, truck, or 0 to 9; got 'boat'."),
    "target that is there": (["--target", "7", "--ids", "0,1"], "--target 7 is already the class of 0."),
    "target out of the model's range": ([*OWN, "--target", "2"], "--target must lie in 0..1, the model's 2 classes"),
    "folder that is none": (["--folder", "nowhere"], "--folder must be a folder with the files of MNIST"),
    "folder without the set": (["--folder", "."], "lacks t10k-images-idx3-ubyte(.gz)"),
    "folder and download": (["--folder", ".", "--download"], "Got both --folder and --download"),
    "weights that are none": (["--weights", "no.safetensors"], "--weights must be a file, got 'no.safetensors'"),
    "weights of another kind": (
        ["--weights", "mine.py"],
        "--weights must be a safetensors file or an .npz, and complete",
    ),
    "unknown device": (["--device", "gpu"], "--device must be cpu, or cuda if available; 'gpu' failed"),
    "a module in training mode": (["--model", "mine.py:learning", "--inputs", "mine.npz"], "in training mode"),
    "device of a function": ([*OWN, "--device", "cpu"], "--device is for PyTorch modules"),
    "unknown method": (["--method", "slgh_r"], "--method must be one of 'auto', 'zosgd', 'zoadamm'"),
    "unknown parameter": (["--set", "momentum=1"], "`momentum` is not a parameter of"),
    "set of an option": (["--set", "pixels=1"], "--set pixels: pixels is not a hyperparameter. Pass --pixels."),
    "set of what is not here": (["--set", "labels=1"], "--set labels: labels is not a hyperparameter"),
    "gamma above 1": (["--method", "zoslgh_r", "--gamma", "1.5"], "--gamma must lie in (0, 1), got --gamma 1.5."),
    "weight of nothing": (["--weight", "0"], "--weight must be a finite number above 0"),
    "unknown stop": (["--stop", "never"], "--stop must be one of 'first success', 'end'; got --stop never."),
    "not enough queries": (["--max-queries", "3"], "--max-queries must be an integer >= 4, got --max-queries 3."),
    "negative seed": (["--seed", "-1"], "--seed must be an integer >= 0"),
    "inputs without a model": (["--inputs", "mine.npz"], "--inputs is for --model"),
    "pixels without a model": (["--pixels", "0,1"], "--pixels is for --model"),
    "a model without images": (["--model", "mine.py:halves"], "either --inputs or --data; got neither."),
    "a model with both": ([*OWN, "--data", "mnist"], "got both"),
    "weights of a model": ([*OWN, "--weights", "w"], "--weights is for the networks of slgh"),
    "folder of inputs": ([*OWN, "--folder", "."], "--folder is for --data"),
    "no such model file": (["--model", "yours.py:f", "--inputs", "mine.npz"], "--model: there is no file"),
    "no such model": (["--model", "mine.py:halfs", "--inputs", "mine.npz"], "Did you mean halves?"),
    "not a model": (["--model", "mine.py:NUMBER", "--inputs", "mine.npz"], "must be a function, got int"),
    "a class": (["--model", "mine.py:Halves", "--inputs", "mine.npz"], "mine.py:Halves is a class"),
    "a model of the wrong shape": (
        ["--model", "mine.py:flat", "--inputs", "mine.npz"],
        "--model must return one row of logits per image, shape (5, classes); got (5,).",
    ),
    "a model of words": (["--model", "mine.py:words", "--inputs", "mine.npz"], "could not convert"),
    "a model of nothing": (["--model", "mine.py:nothing", "--inputs", "mine.npz"], "--model must return finite"),
    "a model that changes its mind": (
        ["--model", "mine.py:shaky", "--inputs", "mine.npz"],
        "--model must return the same for the same images",
    ),
    "logits as probabilities": ([*OWN, "--outputs", "probabilities"], "pass --outputs logits"),
    "unknown outputs": (
        [*OWN, "--outputs", "words"],
        "--outputs must be one of 'logits', 'probabilities', 'labels'; got --outputs words.",
    ),
    "scores as labels": ([*OWN, "--outputs", "labels"], "--model must return one class per image"),
    "labels as scores": (["--model", "mine.py:sides", "--inputs", "mine.npz"], "--model must return one row of logits"),
    "labels in the maximum norm": (
        ["--model", "mine.py:sides", "--inputs", "mine.npz", "--outputs", "labels", "--norm", "linf"],
        "--norm must be 'l2' with --outputs labels; got 'linf'.",
    ),
    "unknown norm": ([*OWN, "--norm", "l1"], "--norm must be one of 'l2', 'linf'; got --norm l1."),
    "norm of a method": ([*OWN, *METHOD, "--norm", "linf"], "--norm is for --method auto"),
    "eps of a homotopy": ([*OWN, "--t1", "0.1", "--eps", "1"], "--eps is for --method auto"),
    "eps of nothing": ([*OWN, "--eps", "0"], "--eps must be a finite number above 0"),
    "eps of words": ([*OWN, "--eps", "small"], "--eps must be a number, got 'small'."),
    "channels of an array": ([*OWN, "--channels", "last"], "--channels is for a folder of image files."),
    "channels without a model": (["--channels", "last"], "--channels is for --model"),
    "no such inputs": (
        ["--model", "mine.py:halves", "--inputs", "no.npz"],
        "--inputs: there is no file or folder 'no.npz'.",
    ),
    "inputs of another kind": (
        ["--model", "mine.py:halves", "--inputs", "mine.py"],
        "mine.py is not a complete .npz file of numbers. Write",
    ),
    "inputs of one array": (["--model", "mine.py:halves", "--inputs", "one.npy"], "one.npy holds one array"),
    "inputs without labels": (
        ["--model", "mine.py:halves", "--inputs", "other.npz"],
        "--inputs: other.npz lacks images and labels; it holds x, y.",
    ),
    "inputs of objects": (
        ["--model", "mine.py:halves", "--inputs", "objects.npz"],
        "not a complete .npz file of numbers",
    ),
    "too few labels": (
        ["--model", "mine.py:halves", "--inputs", "few.npz"],
        "labels must be 5 integers, one per image",
    ),
    "labels out of range": (
        ["--model", "mine.py:halves", "--inputs", "range.npz"],
        "--inputs: labels must lie in 0..1, the model's 2 classes; got 7 for image 0.",
    ),
    "pixels out of range": (
        ["--model", "mine.py:halves", "--inputs", "bytes.npz", "--pixels", "0,1"],
        "--inputs: images hold integers, but --pixels says (0.0, 1.0): pass --pixels 0,255, or scale them first.",
    ),
    "pixels out of a narrow range": ([*OWN, "--pixels", "0,0.1"], "--inputs: images must have pixels in [0, 0.1]"),
    "pixels the wrong way round": ([*OWN, "--pixels", "1,0"], "--pixels must be two numbers low,high with low < high"),
    "one end of the pixels": ([*OWN, "--pixels", "1"], "--pixels must be two numbers low,high"),
    "plot of no kind": (["--plot", "a.html"], "--plot must end in .png, .svg or .pdf, got 'a.html'."),
    "plot in no folder": (["--plot", "no/a.png"], "--plot: no/a.png cannot be written"),
    "plot that exists": (["--plot", "mine.png"], "--plot: mine.png exists. Pass --overwrite"),
    "json in no folder": (["--json", "no/a.json"], "--json: no/a.json cannot be written"),
    "history for nobody": (["--history"], "--history needs a file to write to. Pass --json FILE or --out FOLDER."),
    "out is a file": (["--out", "mine.py"], "--out: mine.py cannot be created"),
    "unknown command": (["tran"], "No such command 'tran'."),
    "options before train": (["--data", "cifar10", "train", "--out", "w"], "--data must come after train"),
    "unknown option": (["--metod", "zosgd"], "No such option: --metod"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_with_the_remedy(name: str, folder: Path) -> None:
    arguments, fragment = BAD[name]
    (folder / "mine.png").touch()
    np.save(folder / "one.npy", IMAGES)
    np.savez(folder / "other.npz", x=IMAGES, y=LABELS)
    np.savez(folder / "objects.npz", images=np.array([None]), labels=LABELS)
    np.savez(folder / "few.npz", images=IMAGES, labels=LABELS[1:])
    np.savez(folder / "range.npz", images=IMAGES, labels=LABELS + 7)
    np.savez(folder / "bytes.npz", images=(255 * IMAGES).astype(np.uint8), labels=LABELS)
    before = set(folder.iterdir())
    result = run(*arguments)
    assert result.exit_code == (1 if "convert" in fragment else 2), result.output
    assert result.stdout == ""
    assert fragment in error_message(result.stderr)
    assert {p for p in folder.iterdir() if p.name != "__pycache__"} == before, "nothing was drawn or written"


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("fails", "RuntimeError in mine.py:{line}: the model broke. The model was given images of shape (5, 1, 4, 4)."),
        ("wrong", "RuntimeError in mine.py:{line}: mat1 and mat2 shapes cannot be multiplied (5x16 and 3x2)."),
        ("broken_later", "ZeroDivisionError in mine.py:{line}: division by zero. Raised after"),
    ],
)
def test_a_model_that_fails_is_the_users(model: str, told: str) -> None:
    lines = {"fails": "raise RuntimeError", "wrong": "return self.layer", "broken_later": "1 / 0"}
    line = next(i for i, text in enumerate(MINE.splitlines(), 1) if lines[model] in text)
    result = run("--model", f"mine.py:{model}", "--inputs", "mine.npz", *QUICK)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error: {told.format(line=line)}")
    assert error_message(result.stderr)
    assert "internal error" not in result.stderr


def test_an_internal_error_is_not_blamed_on_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("a defect")

    monkeypatch.setattr("slgh.attack.api.report", broken)
    result = run(*OWN, *QUICK)
    assert result.exit_code == 1
    assert "internal error. RuntimeError: a defect." in result.stderr


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there_is_refused() -> None:
    result = run("--device", "cuda")
    assert result.exit_code == 2
    assert "'cuda' failed" in result.stderr
    assert error_message(result.stderr)


def test_missing_libraries_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("slgh.paper.networks.networks", "slgh.paper.networks.training"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    for arguments in (["--images", "1"], ["train", "--out", "w.safetensors"]):
        result = run(*arguments)
        assert result.exit_code == 2, result.output
        assert "needs PyTorch." in result.stderr
        assert 'pip install "slgh[attack]"' in result.stderr
        assert error_message(result.stderr)


# --- ends of a run


def test_a_run_that_was_cut_short_is_gone_on_with(folder: Path) -> None:
    limits = ("--data", "mnist", "--images", "2", "--max-queries", "150")
    whole = attack(*limits, "--seed", "3")
    cut = attack(*limits, "--seed", "3", "--run", "kept.npz", "--max-seconds", "0.01")
    assert column(cut, "queries") != column(whole, "queries")
    gone_on = attack(*limits, "--run", "kept.npz")
    assert gone_on["seed"] == 3
    assert gone_on["images"] == whole["images"]
    result = run(*limits, "--run", "kept.npz", "--seed", "4")
    assert result.exit_code == 2
    assert "--run" in result.stderr


def test_being_cut_short_is_exit_code_3() -> None:
    result = run(*OWN, *QUICK, "--max-queries", "30")
    assert result.exit_code == 3
    assert "exceed --max-queries" in result.stdout
    assert run(*OWN, *QUICK, "--max-seconds", "0").exit_code == 3


def test_answers_that_are_not_finite_end_in_their_outcome() -> None:
    result = run("--model", "mine.py:nan_later", "--inputs", "mine.npz", *QUICK)
    assert result.exit_code == 4
    assert len([line for line in result.stdout.splitlines() if line.split()[2:4] == ["not", "finite"]]) == 5
    assert f"5 of 5: {Outcome.NONFINITE.value}." in result.stdout


def test_ctrl_c_gives_what_there_is(folder: Path) -> None:
    result = run("--model", "mine.py:interrupted", "--inputs", "mine.npz", *QUICK, "--out", "found")
    assert result.exit_code == 130
    assert result.stdout.count(" interrupted ") == 5
    assert result.stderr == "note: interrupted. The results are those of the iterations so far.\n"
    assert json.loads((folder / "found" / "attack.json").read_text())["exit_code"] == 130


# --- output files


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_the_picture_goes_where_it_is_wanted(suffix: str, folder: Path) -> None:
    result = run(*OWN, *QUICK, "--plot", f"a.{suffix}")
    assert block(result.stdout)["drawn"] == f"a.{suffix}"
    assert (folder / f"a.{suffix}").stat().st_size > 1000
    assert not (folder / "slgh-attack.png").exists()


def test_a_folder_holds_images_figures_and_pictures(folder: Path) -> None:
    result = run(*OWN, *QUICK, "--out", "here/found")
    shown = block(result.stdout)
    assert shown["written"] == "here/found/images.npz, here/found/attack.json"
    names = [f"here/found/{name}" for name in ("images.png", "success.png", "curves.png", "report.html")]
    assert shown["drawn"].split(", ") == names
    for name in names[:3]:
        assert (folder / name).read_bytes()[:4] == b"\x89PNG"
    assert not list(folder.glob("*.png"))


@pytest.mark.parametrize("more", [[], ["--quiet"], ["--json", "-"]], ids=" ".join)
def test_nothing_is_drawn_unasked(more: list[str], folder: Path) -> None:
    assert run(*OWN, *QUICK, *more).exit_code == 0
    assert not list(folder.glob("*.png"))


def test_without_matplotlib_the_table_comes_and_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setattr("slgh.cli.output.find_spec", lambda name: None)
    result = run(*OWN, *QUICK, "--out", "found")
    assert result.exit_code == 0
    assert "0 → 1" in result.stdout
    assert block(result.stdout)["drawn"] == 'nothing: matplotlib is missing. Install: pip install "slgh[plot]".'
    assert run(*OWN, *QUICK, "--plot", "a.png").exit_code == 2


def test_images_that_are_no_pictures_are_attacked_all_the_same(folder: Path) -> None:
    (folder / "flat.py").write_text("def first(a):\n    return 9 * a[:, :2]\n")
    np.savez(folder / "flat.npz", images=np.array([[0.6, 0.4, 0.1]]), labels=[0])
    own = ["--model", "flat.py:first", "--inputs", "flat.npz", "--max-queries", "500", "--seed", "0"]
    result = run(*own, "--out", "found")
    assert result.exit_code == 0
    assert "1 of 1 attacked" in result.stdout
    assert block(result.stdout)["drawn"].startswith("nothing: `images` must be pictures")
    asked = run(*own, "--plot", "a.png")
    assert asked.exit_code == 1
    assert "--plot: a.png was not drawn" in asked.stderr


def full(*_: Any, **__: Any) -> Any:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("place", "more", "told"),
    [
        ("slgh.cli.attack_output.write_text", ["--out", "found"], "--out: found cannot be written: No space left"),
        ("slgh.cli.output.write_text", ["--json", "a.json"], "--json: a.json cannot be written: No space left"),
        (
            "slgh.cli.drawing.atomic_write",
            ["--plot", "a.png"],
            "--plot: a.png was not drawn: [Errno 28] No space left",
        ),
    ],
)
def test_a_full_disk_is_told(place: str, more: list[str], told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, full)
    result = run(*OWN, *QUICK, *more)
    assert result.exit_code == 1
    assert "0 → 1" in result.stdout, "the table has come before"
    assert told in result.stderr
    assert error_message(result.stderr)


def test_a_picture_of_out_on_a_full_disk_does_not_lose_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slgh.cli.drawing.atomic_write", full)
    result = run(*OWN, *QUICK, "--out", "found")
    assert result.exit_code == 0
    assert "No space left on device" in block(result.stdout)["drawn"]


def test_the_line_that_repeats_an_attack_repeats_it() -> None:
    first = attack(*OWN, *METHOD, "--max-iter", "60")
    words = shlex.split(first["again"])
    assert words[:2] == ["slgh", "attack"]
    again = attack(*words[2:])
    assert again["images"] == first["images"]
    assert again["seed"] == first["seed"]


def test_help_shows_options_and_the_command_train() -> None:
    result = run("--help")
    assert result.exit_code == 0
    for word in ("--data", "--model", "--max-queries", "train", "bool"):
        assert (word in result.output) == (word != "bool"), word
    assert "--epochs" in run("train", "--help").output


# --- training


@pytest.fixture
def small_sets(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Training and test sets of a hundred images. The list stores the requested sets."""
    asked: list[Any] = []

    def load(name: str, split: str, folder: Any) -> Any:
        asked.append((name, split, folder))
        return shipped_images(name)

    monkeypatch.setattr("slgh.cli.train.load_images", load)
    return asked


TRAIN = ["train", "--out", "w.safetensors", "--held-out", "20", "--epochs", "2", "--device", "cpu"]


def test_a_trained_network_can_be_attacked(folder: Path, small_sets: list[Any]) -> None:
    result = run(*TRAIN, "--data", "mnist", "--folder", "data", "--json", "t.json")
    assert result.exit_code == 0, result.output
    assert small_sets == [("mnist", "train", Path("data")), ("mnist", "test", Path("data"))]
    lines = result.stdout.splitlines()
    assert lines[0].startswith("epoch 1 of 2: loss 2.")
    assert lines[1].startswith("epoch 2 of 2: loss 2.")
    found = json.loads((folder / "t.json").read_text())
    assert f"{100 * found['test_accuracy']:.2f} % on the 100 test images" in result.stdout
    assert found["log"][-1]["held_out_accuracy"] == found["held_out_accuracy"]
    trained = network("mnist", weights=folder / "w.safetensors")
    some = shipped_images("mnist")
    right = (trained(torch.tensor(some.pixels())).argmax(1).numpy() == some.labels).mean()
    assert found["test_accuracy"] == right
    assert lines[-1].split(maxsplit=1)[1] == "slgh attack --data mnist --weights w.safetensors"
    assert run("--weights", "w.safetensors", *SHORT_ATTACK).exit_code in (0, 2)
    assert {p.name for p in folder.iterdir()} >= {"w.safetensors", "t.json"}
    assert not list(folder.glob("*unfinished*"))


def test_half_is_half_the_size_and_quiet_is_one_line(folder: Path, small_sets: list[Any]) -> None:
    result = run(*TRAIN, "--epochs", "1", "--quiet")
    full_size = (folder / "w.safetensors").stat().st_size
    held_out, test = map(float, result.stdout.split())
    assert 0 <= held_out <= 1
    assert 0 <= test <= 1
    assert run(*TRAIN, "--epochs", "1", "--quiet", "--half", "--held-out", "0").stdout.split()[0] == "nan"
    assert (folder / "w.safetensors").stat().st_size < 0.51 * full_size


def test_an_interrupted_training_goes_on(folder: Path, small_sets: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    whole = json.loads(run(*TRAIN, "--json", "-").stdout)

    def interrupt(line: str) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(console, "print", interrupt)
        stopped = run(*TRAIN)
    assert stopped.exit_code == 130
    assert stopped.stderr == (
        "note: interrupted. Finished epochs are kept in w.safetensors.unfinished.npz: repeat the command to continue.\n"
    )
    refused = run(*TRAIN, "--seed", "1")
    assert refused.exit_code == 2
    assert "holds an unfinished training with other options" in refused.stderr
    resumed = run(*TRAIN, "--json", "t.json")
    assert "epoch 1 of" not in resumed.stdout
    found = json.loads((folder / "t.json").read_text())
    assert found["log"] == whole["log"]
    assert not list(folder.glob("*unfinished*"))


@pytest.mark.parametrize(
    ("more", "fragment"),
    [
        (["--data", "mnits"], "--data must be one of mnist, cifar10"),
        (["--epochs", "0"], "--epochs must be an integer >= 1"),
        (["--held-out", "100"], "--held-out must be less than the number of images, 100"),
        (["--device", "gpu"], "--device must be 'cpu', 'cuda', 'cuda:1'"),
        (["--out", "no/w.safetensors"], "--out: no/w.safetensors cannot be written"),
        (["--seed", "-1"], "--seed must be an integer >= 0"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_options_of_a_training_are_one_line(more: list[str], fragment: str, small_sets: list[Any]) -> None:
    result = run(*TRAIN, *more)
    assert result.exit_code == 2, result.output
    assert fragment in result.stderr
    assert error_message(result.stderr)


def test_a_training_that_cannot_be_written_is_told(small_sets: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slgh.paper.networks.networks.atomic_write", full)
    result = run(*TRAIN, "--epochs", "1")
    assert result.exit_code == 1
    assert "--out: w.safetensors cannot be written: No space left on device." in result.stderr
