"""The paper's attacks: running and storing rows, and the tables made from them."""

from __future__ import annotations

import base64
import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from slgh import Status
from slgh.attack import attack
from slgh.cli import app
from slgh.files import to_json
from slgh.paper import DEFAULT, EXPERIMENTS
from slgh.paper.attack import ATTACK_TABLES, ATTACKS, AttackTable, run_rows
from slgh.paper.attack import row_cache as kept
from slgh.paper.attack import run_row as row_module
from slgh.paper.attack.claims import Claim, bootstrap, claims_table, judge, paired, shared_table
from slgh.paper.attack.compare import Sample, main_table, verdict
from slgh.paper.attack.printed import PAPER_ROWS, PaperAttack, PrintedRow, substitutes
from slgh.paper.attack.run_row import RowRun, decode_image, run_row
from slgh.paper.experiment import Record
from slgh.paper.networks.datasets import DATASETS, ImageSet, shipped_images
from slgh.paper.networks.networks import network, save_weights

pytestmark = pytest.mark.slow

run = CliRunner().invoke
MNIST, CIFAR10 = ATTACKS["mnist"], ATTACKS["cifar10"]


def nothing(share: float) -> None: ...


def tiny(name: str = "zosgd", **changes: Any) -> RowRun:
    return dataclasses.replace(RowRun(paper=MNIST, name=name, seed=0, images=2, iterations=3), **changes)


def sample(name: str, success: Any, first: Any, distortion: Any, total: Any, queries: int = 100) -> Sample:
    """Return a row from its figures, of shape (S, N)."""
    records = [
        {
            "success": won,
            "first_success": iterations,
            "last_distortion": l2,
            "least_distortion": [d / 2 if w else None for d, w in zip(l2, won, strict=True)],
            "total_loss": loss,
            "queries": [queries] * len(won),
            "seconds": 1.5,
        }
        for won, iterations, l2, loss in zip(success, first, distortion, total, strict=True)
    ]
    return Sample.of(name, records)


def of_totals(name: str, *totals: list[float]) -> Sample:
    """Return a row in which only the total loss matters."""
    n = len(totals[0])
    same = [[True] * n for _ in totals]
    return sample(name, same, [[1] * n for _ in totals], [[1.0] * n for _ in totals], totals)


# Running rows.


def test_a_row_is_the_attack_on_the_shipped_images_to_the_end() -> None:
    found = run_row(tiny("zoadamm"), "cpu", nothing)
    images = shipped_images("mnist").take([0, 1])
    parameters: dict[str, Any] = {
        "t1": 0.005,
        "step": 100 / 784,
        "v0": 1e-5,
        "beta1": 0.9,
        "beta2": 0.3,
        "samples": 10,
        "floor": 1e-3,
    }
    direct = attack(
        network("mnist"),
        images.pixels(),
        images.labels,
        pixels=(-0.5, 0.5),
        method="zoadamm",
        max_iter=3,
        stop="end",
        seed=0,
        **parameters,
    )
    assert found["ids"] == [0, 1]
    np.testing.assert_allclose(found["total_loss"], direct.last_total, rtol=1e-5)
    np.testing.assert_allclose(found["last_distortion"], direct.last_distortion, rtol=1e-5)
    assert found["queries"] == direct.queries.tolist()
    assert found["least_distortion"] == [None, None]
    assert found["settings"]["parameters"] == parameters
    assert found["made"]["engine"] == "torch eager"
    assert found["curves"]["iteration"] == [0, 1, 2, 3]
    np.testing.assert_allclose(
        found["curves"]["total"]["0"], [*direct.history["total"][:, 0], direct.last_total[0]], rtol=1e-3
    )


def test_the_first_seed_alone_keeps_curves_and_images() -> None:
    assert {"curves", "grid"} <= run_row(tiny(), "cpu", nothing).keys()
    assert not {"curves", "grid"} & run_row(tiny(seed=1), "cpu", nothing).keys()


def test_shared_samples_cost_no_query_more_than_the_ratio_and_two_sets_twice_the_samples() -> None:
    queries = {
        name: run_row(tiny(name, images=1), "cpu", nothing)["queries"][0]
        for name in ("zoslgh_r", "zoslgh_d", "zoslgh_d_shared")
    }
    assert queries["zoslgh_d_shared"] == queries["zoslgh_r"]
    assert queries["zoslgh_d"] == queries["zoslgh_r"] + 3 * 10


def test_the_grid_has_the_adversarial_image_of_a_success_and_the_last_iterate_of_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(RowRun, "chosen", lambda self: shipped_images("mnist").take([15, 3]))
    found = run_row(tiny("zoadamm", iterations=25), "cpu", nothing)
    assert found["success"] == [True, False]
    won, lost = found["grid"]["15"], found["grid"]["3"]
    assert (won["success"], won["original"], won["distortion"]) == (
        True,
        "5",
        pytest.approx(found["least_distortion"][0], 1e-3),
    )
    assert won["seen"] != "5"
    assert (lost["success"], lost["seen"], lost["original"]) == (False, "0", "0")
    assert lost["distortion"] == pytest.approx(found["last_distortion"][1], 1e-3)
    for cell in (won, lost):
        change = decode_image("mnist", cell["pixels"]) / 255.0 - decode_image("mnist", cell["original_pixels"]) / 255.0
        assert (change**2).sum() == pytest.approx(cell["distortion"], rel=0.02)  # bytes are rounded
    np.testing.assert_array_equal(
        decode_image("mnist", lost["original_pixels"]), shipped_images("mnist").take(3).images[0, 0]
    )


def test_a_row_that_was_interrupted_is_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: Any, **options: Any) -> Any:
        result = attack(*args, **options)
        assert result.run is not None
        result.run.status[:] = Status.INTERRUPTED
        return result

    monkeypatch.setattr(row_module, "attack", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_row(tiny(), "cpu", nothing)


def test_kept_rows_are_not_run_again_and_others_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    options: dict[str, Any] = {
        "rows": tmp_path,
        "images": 2,
        "methods": ["zosgd"],
        "device": "cpu",
        "progress": lines.append,
    }
    first = run_rows("mnist", iterations=2, seeds=2, **options)
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "mnist-zosgd-seed0-2x2.json",
        "mnist-zosgd-seed1-2x2.json",
    ]
    assert first[0]["total_loss"] != first[1]["total_loss"]
    ran: list[RowRun] = []

    def counted(run: RowRun, device: str, tick: Any) -> Record:
        ran.append(run)
        return run_row(run, device, tick)

    monkeypatch.setattr(kept, "run_row", counted)
    assert run_rows("mnist", iterations=2, seeds=2, **options) == first
    assert ran == []
    assert lines[-1].endswith("kept before")
    run_rows("mnist", iterations=3, seeds=[1], **options)
    assert [(each.iterations, each.seed) for each in ran] == [(3, 1)]
    file = tmp_path / "mnist-zosgd-seed0-2x2.json"
    for text in (file.read_text().replace('"step": 0.0', '"step": 0.1'), file.read_text()[:200], "[]"):
        file.write_text(text)  # another step, a truncated file, another file
        ran.clear()
        again = run_rows("mnist", iterations=2, seeds=1, **options)
        assert len(ran) == 1
        assert again[0]["total_loss"] == first[0]["total_loss"]


def test_other_weights_have_rows_of_their_own_and_images_that_this_network_sees_rightly(tmp_path: Path) -> None:
    weights, folder = tmp_path / "another one.safetensors", tmp_path / "whole"
    save_weights(network("mnist"), weights)
    shipped = shipped_images("mnist")
    x, y = np.zeros((10_000, 28, 28), np.uint8), np.zeros(10_000, np.uint8)
    x[:100], y[:100] = shipped.images[:, 0], shipped.labels
    y[[0, 2]] += 1
    folder.mkdir()
    np.savez_compressed(folder / "mnist_test.npz", x=x, y=y)
    other = tiny(weights=weights, folder=folder)
    assert other.chosen().ids.tolist() == [1, 3]
    assert kept.file_of(other, tmp_path).name == "mnist-another_one-zosgd-seed0-2x3.json"
    before = other.settings()["weights"]
    assert before["file"] == "another one.safetensors"
    same = tmp_path / "copy" / weights.name
    same.parent.mkdir()
    save_weights(network("mnist"), same, dtype="float32")
    assert dataclasses.replace(other, weights=same).settings()["weights"] != before
    table = AttackTable(paper=MNIST, images=100, iterations=20_000, weights=weights)
    assert table.name == "mnist-another one"
    assert table.scope == "weights: another one.safetensors"


def test_a_disk_too_full_to_keep_a_row_loses_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(kept, "write_text", full)
    with pytest.warns(RuntimeWarning, match="seed 0 is not kept"):
        assert kept.run_and_keep(tiny(), "cpu", tmp_path, nothing)["ids"] == [0, 1]


def test_rows_need_neither_the_command_line_nor_matplotlib() -> None:
    code = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("typer", "rich", "matplotlib", "plotly", "jinja2", "sympy", "pooch", "jax"):
            raise ImportError(name)
sys.meta_path.insert(0, Absent())
from slgh.paper.attack import run_rows
import slgh.paper.networks.networks
"""
    subprocess.run([sys.executable, "-c", code], check=True)


# Artificial rows, and the conclusions from them.


def made_up(table: AttackTable) -> list[Record]:
    """Return rows with the paper's success and similar figures: an image falls to all methods with enough successes."""
    ids = shipped_images(table.paper.data).ids[: table.images].tolist()
    classes = DATASETS[table.paper.data].classes
    original = base64.b64encode(bytes(int(np.prod(DATASETS[table.paper.data].shape)))).decode()
    found = []
    for each in table.runs():
        rng = np.random.default_rng([each.seed, sum(map(ord, each.name))])
        figures = table.paper.rows[each.variant.printed or "zosgd"]
        won = np.arange(table.images) < figures.mean("success") * table.images / 100
        l2 = np.where(won, figures.mean("l2") * rng.uniform(0.9, 1.1, table.images), 1e-5)
        record: dict[str, Any] = {
            "settings": each.settings(),
            "made": {"slgh": "0", "torch": "0", "device": "paper", "engine": "pencil"},
            "seconds": 1.0,
            "ids": ids,
            "success": won,
            "first_success": np.where(won, figures.mean("iterations") + rng.integers(-9, 10, table.images), -1),
            "last_distortion": l2,
            "least_distortion": np.where(won, l2, np.nan),
            "total_loss": np.where(won, l2, 200.0),
            "queries": np.full(table.images, 21 if each.name == "zoslgh_d" else 11),
        }
        if each.seed == 0:
            columns = {c: {str(k): [9.0, 0.1] for k in table.paper.curve_ids(c, ids)} for c in COLUMNS}
            record["curves"] = {"iteration": [0, table.iterations], **columns}
            record["grid"] = {
                str(k): {
                    "success": True,
                    "original": classes[0],
                    "seen": classes[1],
                    "distortion": 0.5,
                    "original_pixels": original,
                    "pixels": original,
                }
                for _, k in substitutes(table.paper.grid_ids, ids)
            }
        found.append(json.loads(to_json(record)))
    return found


COLUMNS = ("total", "distortion")


def full(paper: PaperAttack, **changes: Any) -> AttackTable:
    return AttackTable(paper=paper, images=100, iterations=paper.T, **changes)


def keep(table: AttackTable, folder: Path) -> None:
    for each, record in zip(table.runs(), made_up(table), strict=True):
        kept.file_of(each, folder).write_text(json.dumps(record))


def test_means_are_over_images_and_seeds_and_those_of_successes_over_them_alone() -> None:
    found = sample(
        "zosgd",
        [[True, True, False], [True, False, False]],
        [[100, 300, -1], [200, -1, -1]],
        [[1.0, 3.0, 50.0], [2.0, 50.0, 50.0]],
        [[1.0, 3.0, 56.0], [2.0, 60.0, 58.0]],
    )
    assert found.mean("success") == 50.0
    assert (found.mean("iterations"), found.mean("l2"), found.mean("total")) == (200.0, 2.0, 30.0)
    assert found.deviation("iterations") == pytest.approx((20_000 / 3) ** 0.5)
    assert found.of_seeds("iterations").tolist() == [200.0, 200.0]
    assert found.of_seeds("success") == pytest.approx([200 / 3, 100 / 3])
    assert found.images("l2") == 1.5
    table = main_table(MNIST, [found], title="", note="", judged=False)
    assert table.rows[0] == (
        "ZOSGD",
        "50.0 [67]",
        "200 ± 82 [1171 ± 1954]",
        "2.00 ± 0.82 [4.83 ± 4.13]",
        "30.00 ± 28.03 [73.60 ± 102.70]",
        "not judged",
    )


def judged(success: int, iterations: float, l2: float, printed: PrintedRow) -> str:
    """Return the verdict on a row of 100 images. Each success has the same figures."""
    paper = dataclasses.replace(MNIST, rows={**MNIST.rows, "zosgd": printed})
    won = [k < success for k in range(100)]
    found = sample("zosgd", [won], [[iterations] * 100], [[l2] * 100], [[1.0] * 100])
    return verdict(paper, found, judged=True)


def test_a_verdict_says_what_differs_by_how_much_and_whether_chance_can_explain_it() -> None:
    printed = PrintedRow("64", "1000 ± 800", "2.00 ± 0.08", "9 ± 9")
    assert judged(64, 1000, 2.0, printed) == "match"
    assert judged(74, 1149, 1.71, printed) == "match"
    # The paper's mean over 64 images has a standard error of 800 / 8 = 100, that of slgh is 0: 200 / 100.
    assert judged(64, 1200, 2.0, printed) == (
        "differs: iterations to 1st success +20% (2.0 standard errors: other images could do that)"
    )
    # 0.08 / 8 = 0.01: 0.4 / 0.01.
    assert judged(64, 1000, 1.6, printed) == (
        "differs: L2 of successes -20% (40.0 standard errors: more than other images do; "
        "the network is our own training)"
    )
    # sqrt(64 * 36 / 100 + 80 * 20 / 100) = 6.25: 16 / 6.25.
    assert judged(80, 1000, 2.0, printed) == (
        "differs: success +16 points (2.6 standard errors: more than other images do; the network is our own training)"
    )
    assert judged(0, 1000, 2.0, printed).startswith("differs: success -64 points")
    assert "no L2 of successes, since no image fell" in judged(0, 1000, 2.0, printed)


def test_the_interval_is_that_of_means_of_values_drawn_again() -> None:
    constant = bootstrap(np.full(7, 3.0))
    assert (constant.mean, constant.low, constant.high, constant.images) == (3.0, 3.0, 3.0, 7)
    # Means of two draws from 0 and 1 are 0, 1/2, 1 with chances 1/4, 1/2, 1/4.
    two = bootstrap(np.array([0.0, 1.0]))
    assert (two.mean, two.low, two.high) == (0.5, 0.0, 1.0)
    values = np.random.default_rng(1).normal(5, 2, 400)
    many = bootstrap(values)
    expected = 1.96 * values.std() / 20
    assert [many.mean - many.low, many.high - many.mean] == pytest.approx([expected, expected], rel=0.05)
    assert bootstrap(np.empty(0)).images == 0


def test_differences_are_taken_image_by_image_between_means_over_seeds() -> None:
    first = np.array([[1.0, 2.0, np.nan, np.nan], [3.0, np.nan, 5.0, np.nan]])
    found = paired(first, np.array([[1.0, 1.0, 1.0, 1.0]]))
    assert found.images == 3
    assert found.mean == pytest.approx((1 + 1 + 4) / 3)
    assert (found.low, found.high) == (1.0, 4.0)


def test_claims_hold_fail_or_are_undecided() -> None:
    def said(less: bool | None, first: list[float], second: list[float]) -> str:
        claim = Claim(column="total", first="zoslgh_r", second="zosgd", less=less)
        return judge(claim, paired(np.array([first]), np.array([second])))

    low, high = [1.0, 2.0, 3.0], [2.0, 4.0, 6.0]
    assert said(True, low, high) == "holds"
    assert said(False, low, high) == "fails: it is the other way round"
    assert said(False, high, low) == "holds"
    assert said(True, [1.0, 4.0, 3.0], [2.0, 2.0, 4.0]) == "undecided"
    assert said(True, low, low) == "undecided"
    assert said(None, low, high) == "less"
    assert said(None, high, low) == "more"
    assert said(True, [np.nan] * 3, low) == "no images to compare"


def test_all_claims_of_the_paper_are_tested() -> None:
    totals = {"zosgd": 9.0, "zoadamm": 8.0, "zogradopt": 7.0, "zoslgh_r": 2.0, "zoslgh_d": 3.0}
    table, data = claims_table({name: of_totals(name, [t, t]) for name, t in totals.items()}, title="")
    said = {row[0]: row for row in table.rows}
    assert len(said) == 15
    assert said["ZOSLGH_d has a lower total loss than ZOSGD"][1:] == ("-6.000", "-6.000 to -6.000", "2", "holds")
    assert said["ZOSLGH_r has more successes than ZOSGD"][-1].startswith("undecided")
    assert said["ZOSLGH_r beside ZOSLGH_d: total loss (no claim)"][-1] == "less"
    assert data[0] == {
        "claim": "ZOSLGH_r has a lower total loss than ZOSGD",
        "difference": -7.0,
        "low": -7.0,
        "high": -7.0,
        "images": 2,
        "verdict": "holds",
    }


def test_shared_samples_are_compared_in_every_column_and_in_queries() -> None:
    two = sample("zoslgh_d", [[True, True]], [[10, 30]], [[1.0, 3.0]], [[1.0, 3.0]], queries=210)
    one = sample("zoslgh_d_shared", [[True, True]], [[12, 26]], [[2.0, 4.0]], [[1.0, 3.0]], queries=110)
    ratio = of_totals("zoslgh_r", [1.0, 1.0])
    table, _ = shared_table({"zoslgh_d": two, "zoslgh_d_shared": one, "zoslgh_r": ratio}, title="", judged=True)
    assert table.rows == (
        ("success %", "100.0", "100.0", "+0.0", "+0.0 to +0.0", "within noise"),
        ("iterations to 1st success", "20", "19", "-1", "-4 to +2", "within noise"),
        ("L2 of successes", "2.00", "3.00", "+1.000", "+1.000 to +1.000", "differs by +50.0%"),
        ("total loss", "2.00", "2.00", "+0.000", "+0.000 to +0.000", "within noise"),
        ("queries per image", "210", "110", "-100", "", "ZOSLGH_r: 100"),
    )


@pytest.mark.parametrize("data", ATTACKS)
def test_a_full_run_is_judged_and_its_claims_are_tested(data: str) -> None:
    table = full(ATTACKS[data], seeds=3)
    findings = table.conclude(made_up(table))
    main, claims, *_ = findings.tables
    assert [row[-1] for row in main.rows[:6]] == ["match"] * 6
    assert not any("reduced" in each.title for each in findings.tables)
    assert all(f"100 images, {table.iterations:,} iterations; seeds: 3" in each.title for each in findings.tables)
    assert {row[0]: row[-1] for row in claims.rows}["ZOSLGH_r has a lower total loss than ZOSGD"] == "holds"
    assert findings.data["rows"][0]["paper"]["success"] == table.paper.rows["zosgd"].success
    assert [row["seeds"] for row in findings.data["rows"]] == [3] * 6 + [1] * (len(table.paper.variants) - 6)
    assert not table.reduced
    assert main.note.endswith("Made on paper (pencil, PyTorch 0, slgh 0).")


def test_the_figures_are_the_papers_and_an_image_that_is_not_there_is_told() -> None:
    found = {data: full(paper).conclude(made_up(full(paper))).drawings for data, paper in ATTACKS.items()}
    names = [drawing.name for drawings in found.values() for drawing in drawings]
    assert names == [
        "figure_01_mnist_total_loss",
        "figure_16_mnist_total_loss",
        "figure_17_mnist_distortion",
        "table_10_mnist_images",
        "figure_01_cifar10_total_loss",
        "figure_13_cifar10_total_loss",
        "figure_14_cifar10_distortion",
        "figure_15_cifar10_total_loss",
        "table_08_cifar10_images",
    ]
    # The network of the package classifies image 115, a cat, as a dog.
    assert "so not attacked: ID 115 (116 is shown)." in found["cifar10"][-1].caption
    assert not any("not attacked" in d.caption for drawings in found.values() for d in drawings[:-1])
    grid = found["cifar10"][-1].draw()
    assert [ax.get_title() for ax in grid.axes[:4]] == ["ID 39", "ID 79", "ID 89", "ID 116 (for 115)"]
    gammas = found["cifar10"][-2].draw()
    assert [line.get_label() for line in gammas.axes[0].lines] == ["ZOSGD", "ZOSLGH$_r$ 0.995", "ZOSLGH$_r$ 0.999"]
    assert all(ax.get_yscale() == "log" for ax in gammas.axes)
    distortion = found["mnist"][2].draw()
    assert [ax.get_title() for ax in distortion.axes] == ["ID 61", "ID 30", "ID 68", "ID 82"]
    assert len(distortion.axes[0].lines) == len(PAPER_ROWS)


def test_another_network_has_its_name_in_every_title_and_only_its_orderings_are_judged(tmp_path: Path) -> None:
    save_weights(network("mnist"), tmp_path / "mine.safetensors")
    table = full(MNIST, weights=tmp_path / "mine.safetensors")
    findings = table.conclude(made_up(table))
    assert all("weights: mine.safetensors" in each.title for each in findings.tables)
    assert all("Weights: mine.safetensors." in each.caption for each in findings.drawings)
    assert {row[-1] for row in findings.tables[0].rows} == {"not judged"}
    assert findings.tables[1].rows[0][-1] == "holds"
    assert findings.drawings[0].name == "figure_01_mnist-mine_total_loss"


# The command.


def test_a_reduced_run_says_so_everywhere_and_judges_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out"
    sizes = ["--images", "2", "--iterations", "2", "--device", "cpu"]
    rows = ["--rows", str(tmp_path / "rows"), "--workers", "1"]
    result = run(app, ["reproduce", "mnist", *sizes, *rows, "--out", str(out)])
    assert result.exit_code == 0, result.output
    text = (out / "tables" / "mnist.md").read_text()
    titles = [line for line in text.splitlines() if line.startswith("**")]
    assert len(titles) == 4
    assert all("reduced: 2 images, 2 iterations; seeds: 1" in title for title in titles)
    assert "differs" not in text
    assert "| match |" not in text
    assert "holds" not in text
    assert text.count("not judged") == 6 + 4
    page = (out / "index.html").read_text()
    assert page.count("Reduced: 2 images, 2 iterations.") == 2 * 4  # a caption is also the alternative text
    assert "Not among the 2 images attacked: ID 32 (0 is shown), ID 45 (1 is shown), ID 95 (not shown)." in page
    found = json.loads((out / "reproduce.json").read_text())["experiments"]["mnist"]
    assert (found["reduced"], found["images"], found["claims"]) == (True, 2, [])
    kept_rows = sorted(file.name for file in (tmp_path / "rows").iterdir())
    assert len(kept_rows) == 6
    assert kept_rows[0] == "mnist-zoadamm-seed0-2x2.json"


def test_kept_rows_of_a_full_run_make_the_tables_without_running_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(full(MNIST, seeds=3), tmp_path)
    monkeypatch.setattr(kept, "run_row", lambda *_: pytest.fail("a row was run"))
    command = ["reproduce", "mnist", "--rows", str(tmp_path), "--out", str(tmp_path / "out"), "--no-figures", "--quiet"]
    result = run(app, command)
    assert result.exit_code == 0, result.output
    assert "mnist: ZOSLGH_d, shared samples: match" in result.output
    assert "mnist: ZOSLGH_r has a lower total loss than ZOSGD: holds" in result.output
    assert "100 images, 20,000 iterations; seeds: 3" in (tmp_path / "out" / "tables" / "mnist.md").read_text()


def test_what_is_not_said_is_the_papers_on_a_gpu_and_reduced_on_a_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sizes(table: AttackTable) -> tuple[int, int, int, str]:
        return table.images, table.iterations, table.seeds, table.device

    experiment = ATTACK_TABLES["cifar10"]
    keep(full(CIFAR10, seeds=3), tmp_path)
    assert sizes(experiment.asked(rows=tmp_path)) == (100, 10_000, 3, "cpu")
    assert sizes(experiment.asked(rows=tmp_path, device="cpu", seeds=4)) == (2, 1000, 4, "cpu")
    assert sizes(experiment.asked(device="cpu")) == (2, 1000, 1, "cpu")
    assert sizes(experiment.asked(device="cpu", images=7)) == (7, 1000, 1, "cpu")
    assert sizes(experiment.asked(device="cpu", images=100, iterations=10_000)) == (100, 10_000, 1, "cpu")
    monkeypatch.setattr("slgh.paper.networks.networks.usable_device", lambda device: device or "cuda")
    assert sizes(experiment.asked()) == (100, 10_000, 3, "cuda")
    assert sizes(experiment.asked(images=10, seeds=2)) == (10, 10_000, 2, "cuda")


def test_a_full_run_that_is_not_complete_is_told_where_it_cannot_be_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(full(MNIST, seeds=3), tmp_path)
    for seed in (1, 2):
        (tmp_path / f"mnist-zosgd-seed{seed}.json").unlink()
    small = dataclasses.replace(ATTACK_TABLES["mnist"], images=1, iterations=1)
    monkeypatch.setitem(EXPERIMENTS, "mnist", small)
    command = ["reproduce", "mnist", "--rows", str(tmp_path), "--out", str(tmp_path / "out"), "--no-figures"]
    result = run(app, [*command, "--device", "cpu", "--workers", "1", "--quiet"])
    assert result.exit_code == 0, result.output
    assert f"2 of 18 rows of the full run of mnist are not in {tmp_path} yet." in result.output
    assert small.asked(device="cpu").lacking() == ""


def test_all_leaves_the_attacks_out_where_there_is_no_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    from slgh.cli import reproduce as command

    assert [e.name for e in command._choose(["all"], None)] == list(EXPERIMENTS)
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    left = command._choose(["all"], None)
    assert [e.name for e in left] == [name for name in EXPERIMENTS if name not in ATTACKS]
    assert command._notes(["all"], [], {}) == [
        'mnist, cifar10 need PyTorch and are left out. Install: pip install "slgh[attack]".'
    ]


def test_the_attacks_are_experiments_that_do_not_run_by_default() -> None:
    assert {"mnist", "cifar10"} <= EXPERIMENTS.keys()
    assert not {"mnist", "cifar10"} & set(DEFAULT)
    for table in ATTACK_TABLES.values():
        assert table.reduced
        assert len(table.jobs()) == len(table.paper.variants)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["himmelblau", "--images", "3"], "--images is for mnist, cifar10, but none is named."),
        (["mnist", "--images", "101"], "--images must be at most the paper's 100, got 101."),
        (["mnist", "--iterations", "0"], "--iterations must be an integer >= 1"),
        (["mnist", "--images", "many"], "--images must be an integer, got 'many'."),
        (["cifar10", "--iterations", "2e4"], "--iterations must be at most the paper's 10,000, got 20000."),
        (["mnist", "--device", "tpu"], "--device must be 'cpu', 'cuda', 'cuda:1', ...; got 'tpu'."),
        (["mnist", "--device", "cuda:77"], "--device must be there, got 'cuda:77' with"),
        (["mnist", "--weights", "none.npz"], "--weights must be a file, got 'none.npz'"),
        (["mnist", "cifar10", "--weights", "file"], "--weights holds one network, but there are two experiments"),
        (["mnist", "--folder", "."], "--folder is for --weights"),
        (["mnist", "--rows", "file"], "--rows must be a folder"),
        (["mnist", "--weights", "own", "--folder", "none"], "--folder must be a folder with the files of MNIST"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_options_are_one_line_before_anything_is_run(
    options: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    save_weights(network("mnist"), tmp_path / "own")
    result = run(app, ["reproduce", *options])
    assert result.exit_code == 2, result.output
    assert said in result.output.replace("\n", " ")
    assert not list(tmp_path.glob("reproduced*"))


def test_rows_of_unknown_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"`data` must be one of 'mnist', 'cifar10'; got data='minst'\. Did you mean mnist\?"
    ):
        run_rows("minst", rows=tmp_path)
    with pytest.raises(ValueError, match="`methods` must be one of 'zosgd'"):
        run_rows("mnist", rows=tmp_path, methods=["zoslgh_r_0.995"])
    save_weights(network("mnist"), tmp_path / "own")
    with pytest.raises(FileNotFoundError, match="`folder` must be a folder"):
        run_rows("mnist", rows=tmp_path, weights=tmp_path / "own", folder=tmp_path / "none", device="cpu")
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="`rows` must be a folder"):
        run_rows("mnist", rows=tmp_path / "file")


def test_an_image_that_another_device_sees_otherwise_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = shipped_images("mnist").take([0, 1])
    wrong = ImageSet(name="mnist", images=shipped.images, labels=np.array([7, 3]), ids=shipped.ids)
    monkeypatch.setattr(RowRun, "chosen", lambda self: wrong)
    with pytest.raises(ValueError, match="on cpu those with the IDs 1 are not"):
        run_row(tiny(), "cpu", nothing)
