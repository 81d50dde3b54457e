"""The benchmark of attacks counts queries, credits images, pairs attacks, resumes, and computes its tables."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

from attack_peers import measured, settings_of
from attack_study import attacks
from attack_study.attacks import ATTACKS, GROUPS, HopSkipJump, Slgh
from attack_study.credit import Ledger, Spent
from attack_study.page import page, photograph_table, table_rows
from attack_study.problems import PHOTOGRAPHS, make_problem, photograph_of
from attack_study.records import Row, Store
from attack_study.statistics import paired_ratio

pytestmark = pytest.mark.slow


class Brighter(torch.nn.Module):
    """The class of an image (1, 2, 2) is 1 if its mean is above a half, and 0 otherwise."""

    def forward(self, x: Any) -> Any:
        mean = x.clamp(0, 1).mean(dim=(1, 2, 3))
        return torch.stack([0.5 - mean, mean - 0.5], dim=1) * 10


def gray(*levels: float) -> Any:
    return torch.tensor(levels)[:, None, None, None].expand(-1, 1, 2, 2).clone()


def dark_and_bright() -> Any:
    return make_problem("mnist", Brighter(), gray(0.4, 0.8), torch.tensor([0, 1]), [3, 7])


def rows(**distortions: list[float | None]) -> dict[str, Row]:
    return {
        name.replace("_", "-"): {
            i: {"distortion": far, "first": None if far is None else 5, "queries": 10, "seconds": 0.5}
            for i, far in enumerate(values)
        }
        for name, values in distortions.items()
    }


# Credit


def test_a_query_is_credited_to_the_budgets_that_it_fits() -> None:
    ledger = Ledger(Brighter(), gray(0.4), torch.tensor([0]), [2, 4])
    ledger(gray(0.45, 0.9))  # not adversarial, adversarial at distance 0.5
    ledger(gray(0.6))
    ledger(gray(0.45))
    found = [ledger.records(budget)[0] for budget in (2, 4)]
    assert [one["distortion"] for one in found] == [pytest.approx(4 * 0.5**2), pytest.approx(4 * 0.2**2)]
    assert [(one["first"], one["queries"]) for one in found] == [(2, 2), (2, 4)]
    assert float(ledger.nearest.mean()) == pytest.approx(0.6)


def test_nothing_is_credited_beyond_the_last_budget() -> None:
    ledger = Ledger(Brighter(), gray(0.4), torch.tensor([0]), [2])
    ledger(gray(0.3, 0.2, 0.9))
    assert ledger.records(2)[0]["distortion"] is None
    assert float(ledger.nearest.mean()) == pytest.approx(0.4)
    with pytest.raises(Spent):
        ledger(gray(0.9))


def test_rows_of_a_batch_belong_to_their_images() -> None:
    ledger = Ledger(Brighter(), gray(0.4, 0.8), torch.tensor([0, 1]), [3])
    ledger(gray(0.6, 0.6))
    ledger(gray(0.6, 0.4))  # the first is a repetition
    assert ledger.count.tolist() == [1, 2]
    far = [one["distortion"] for one in ledger.records(3)]
    assert far == [pytest.approx(4 * 0.2**2), pytest.approx(4 * 0.4**2)]
    with ledger.only(1):
        ledger(gray(0.49))
    assert ledger.count.tolist() == [1, 3]
    assert ledger.records(3)[1]["distortion"] == pytest.approx(4 * 0.31**2)
    with pytest.raises(ValueError, match="whose are they"):
        ledger(gray(0.1, 0.2, 0.3))


def test_pixels_are_clipped_before_they_count() -> None:
    ledger = Ledger(Brighter(), gray(0.4), torch.tensor([0]), [1], norm="linf")
    ledger(gray(7.0))
    assert ledger.records(1)[0]["distortion"] == pytest.approx(0.6)


def test_only_the_target_counts_if_there_is_one() -> None:
    ledger = Ledger(Brighter(), gray(0.4), torch.tensor([1]), [2], targeted=True)
    ledger(gray(0.3, 0.7))
    assert ledger.records(2)[0]["first"] == 2


# Attacks


def test_targets_and_starts_are_images_of_other_classes() -> None:
    problem = dark_and_bright()
    assert problem.targets.tolist() == [1, 0]
    assert problem.starts.mean(dim=(1, 2, 3)).tolist() == pytest.approx([0.8, 0.4])
    assert problem.others.mean(dim=(1, 2, 3)).tolist() == pytest.approx([0.8, 0.4])


@pytest.mark.parametrize("name", [name for name in ATTACKS if name.startswith("slgh")])
def test_slgh_is_credited_with_what_it_returns(name: str) -> None:
    problem = dark_and_bright()
    ((budget, row),) = ATTACKS[name].measure(problem, [200], seed=0)
    assert (budget, list(row)) == (200, [3, 7])
    nearest = {3: 0.1, 7: 0.3}
    for i, one in row.items():
        bound = nearest[i] if ATTACKS[name].norm == "linf" else 4 * nearest[i] ** 2
        assert bound * (1 - 1e-5) <= one["distortion"] <= 1.5 * bound
        assert one["first"] <= one["queries"] <= 200


@pytest.mark.parametrize("name", ["hopskipjump", "hopskipjump-starts", "hopskipjump-targeted"])
def test_hop_skip_jump_attacks_a_batch_as_it_attacks_single_images(name: str) -> None:
    pytest.importorskip("foolbox")
    problem = dark_and_bright()
    found = dict(ATTACKS[name].measure(problem, [100, 400], seed=0))
    assert list(found) == [100, 400]
    for i, nearest in ((3, 0.1), (7, 0.3)):
        assert found[100][i]["queries"] == 100
        assert found[400][i]["queries"] == 400
        assert found[400][i]["distortion"] <= found[100][i]["distortion"]
        assert 4 * nearest**2 * (1 - 1e-5) <= found[400][i]["distortion"] <= 1.5 * 4 * nearest**2


def test_gradients_of_a_batch_are_normalized_per_image() -> None:
    fb = pytest.importorskip("foolbox")
    import eagerpy as ep

    made = attacks.batched_hop_skip_jump(fb)()
    x = ep.astensor(gray(0.4, 0.8, 0.3))
    found = made.approximate_gradients(lambda x: x.mean(axis=(1, 2, 3)) > 0.5, x, 50, ep.astensor(torch.ones(3)))
    norms = found.raw.flatten(1).norm(dim=1)
    np.testing.assert_allclose(norms, 1, rtol=1e-4)


# Records


class Fake:
    """An attack that records the budgets and images that it was called with."""

    def __init__(self, planned: bool, single: bool) -> None:
        self.planned, self.single, self.calls = planned, single, list[tuple[list[int], list[int]]]()

    def measure(self, problem: Any, budgets: list[int], seed: int) -> Any:
        self.calls.append((budgets, problem.ids))
        for budget in budgets:
            yield budget, rows(fake=[1.0] * len(problem.ids))["fake"]


@pytest.mark.parametrize(
    ("planned", "single", "calls"),
    [
        (True, False, [([5], [7]), ([9], [3, 7])]),
        (False, False, [([5, 9], [3, 7])]),
        (True, True, [([5], [7]), ([9], [3]), ([9], [7])]),
        (False, True, [([5, 9], [3]), ([5, 9], [7])]),
    ],
)
def test_only_images_without_a_record_are_attacked(
    planned: bool, single: bool, calls: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = Fake(planned, single)
    monkeypatch.setitem(ATTACKS, "fake", fake)
    found: dict[int, Row] = {5: {3: {}}, 9: {}}
    list(measured("fake", dark_and_bright(), (), [3, 7], found, 0, workers=1))
    assert fake.calls == calls
    fake.calls.clear()
    list(measured("fake", dark_and_bright(), (), [3, 7], {5: {3: {}, 7: {}}}, 0, workers=1))
    assert not fake.calls


def test_records_of_other_images_are_ignored(tmp_path: Path) -> None:
    row = rows(slgh=[1.0, None])["slgh"]
    store = Store(tmp_path, settings_of(0, None, 0), {"device": "a"})
    store.add("mnist", "slgh", 200, {0: row[0]})
    store.add("mnist", "slgh", 200, {1: row[1]})
    assert store.read("mnist", "slgh", 200) == row
    assert store.devices() == [{"device": "a"}]
    assert json.loads(store.path("mnist", "slgh", 200).read_text())["settings"]["seed"] == 0
    assert Store(tmp_path, settings_of(1, None, 0)).read("mnist", "slgh", 200) == {}
    assert Store(tmp_path, settings_of(0, Path("data"), 0)).read("mnist", "slgh", 200) == {}


# Statistics and tables


def test_a_ratio_is_paired() -> None:
    """Distortions vary a hundredfold between images, but their ratio hardly does."""
    far = np.geomspace(0.1, 10, 40)
    found = rows(a=list(0.5 * far * np.tile([0.9, 1.1], 20)), b=list(far))
    ratio = paired_ratio(found["a"], found["b"])
    assert ratio.images == 40
    assert 0.45 <= ratio.low <= ratio.median <= ratio.high <= 0.55
    inverse = paired_ratio(found["b"], found["a"])
    assert inverse.median == pytest.approx(1 / ratio.median)


def test_failures_count_as_infinite() -> None:
    found = rows(a=[1.0, None, None, 1.0, 1.0], b=[2.0, 2.0, None, None, 4.0])
    ratio = paired_ratio(found["a"], found["b"])
    assert ratio.images == 4  # both fail on one
    assert ratio.median == pytest.approx(math.sqrt(0.5 * 0.25))
    assert (ratio.low, ratio.high) == (0.0, math.inf)
    assert str(paired_ratio(found["a"], {})) == "-"


def test_figures_are_for_common_images() -> None:
    found = rows(slgh=[1.0, 2.0, 3.0, 100.0], square=[2.0, 4.0, None])
    table = table_rows(found, ["slgh"], None)
    assert [row[:6] for row in table] == [
        ["slgh", "scores", "3", "100%", "2", ""],
        ["square", "scores", "3", "67%", "4", "0.5 (0 to 0.5)"],
        ["slgh, all", "scores", "4", "100%", "2.5", ""],
    ]


def test_crops_of_a_photograph_count_as_one(tmp_path: Path) -> None:
    n = len(PHOTOGRAPHS)
    low = range(1, n // 2 + 2)  # most photographs: two crops of three are at 1, the third is at 9
    values: list[float | None] = [1.0 if crop < 2 and i in low else 9.0 for crop in range(3) for i in range(n)]
    values[0], values[2 * n] = None, None  # two of three crops of the first photograph
    found = rows(slgh=values)
    (by_photograph,) = table_rows(found, ["slgh"], None, photograph_of)
    (by_crop,) = table_rows(found, ["slgh"], None)
    assert by_photograph[2:4] == by_crop[2:4] == [str(3 * n), f"{1 - 2 / (3 * n):.0%}"]
    assert (by_photograph[4], by_crop[4]) == ("1", "9")
    store = Store(tmp_path, settings_of(0, None, 0))
    store.add("imagenet", "slgh", 200, found["slgh"])
    lines = list(photograph_table(store, [200, 500]))
    first, second = list(PHOTOGRAPHS)[:2]
    assert f"| {first} | 1 of 3, - |" in lines
    assert f"| {second} | 3 of 3, 1 |" in lines


def test_the_page_has_a_table_for_each_aim_and_keeps_the_text(tmp_path: Path) -> None:
    store = Store(tmp_path, settings_of(0, None, 0), {"device": "a"})
    for name, row in rows(slgh=[1.0, 2.0], square=[2.0, 2.0], slgh_linf=[0.1, 0.2]).items():
        store.add("mnist", name, 200, row)
    text = page(store, ["mnist", "imagenet"], [200, 500], "command", "## How to read it\n\nBy hand.\n")
    assert text.count("###") == 2
    assert "### mnist: any wrong class, L2, 200 queries" in text
    assert "eps = 0.3" in text
    assert text.endswith("By hand.\n")


def test_every_attack_is_in_a_table() -> None:
    assert sorted(name for group in GROUPS.values() for name in group) == sorted(ATTACKS)
    assert {type(made) for made in ATTACKS.values()} > {Slgh, HopSkipJump}
    for group in GROUPS.values():
        assert len({(ATTACKS[name].norm, ATTACKS[name].targeted) for name in group}) == 1
