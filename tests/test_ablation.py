"""The ablation covers the stated compositions, treats all alike, tunes on training problems alone, and resumes."""

from __future__ import annotations

import sys
from concurrent.futures import Future
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cocoex")
sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

from ablation import main
from ablation_study import bbob, effects, grids, images, scores
from ablation_study.axes import AUTO_COMPOSITION, AXES, UPDATES, Composition, compositions, why_not
from ablation_study.building import Field, build
from ablation_study.page import auto_parts
from coco_study import records, running
from coco_study.jobs import Job
from coco_study.records import record_of
from coco_study.suites import INSTANCES, Place, is_training
from coco_study.watched import Outcome

import slgh
from slgh.protocols import Context

FIELD = Field(d=40, width=10.0, evaluations=3973, each=26, spread=3.0)
TUNED = [update for update in UPDATES if update != "scale_free"]
SMALL = grids.Grid(first=(0.25,), fall=(1e-2,), eta=(1e-2,), sharpness=(1.0,), step=(0.1, 0.01))


def composition(name: str) -> Composition:
    return Composition(**dict(zip(AXES, name.split("."), strict=True)))


# Compositions, and how they are built


def test_all_compositions_that_make_sense_and_no_others() -> None:
    assert len(compositions()) == 198
    for o, s, u in product(*AXES.values()):
        c = Composition(oracle=o, schedule=s, update=u)
        assert (c in compositions()) == (why_not(c) is None)
    assert AUTO_COMPOSITION in compositions()


@pytest.mark.parametrize("field", [FIELD, replace(FIELD, d=784, each=21, evaluations=1996, evaluates_f=True)])
def test_every_iteration_costs_the_same_and_the_schedule_ends_where_it_should(field: Field) -> None:
    for c in compositions():
        values = bbob.GRID.candidates(c)[-1]
        method = build(c, values, field)
        needs = method.schedule.needs | ({"f"} if field.evaluates_f else set())
        assert field.each - 1 <= method.oracle.cost(True, Context(xp=np, needs=frozenset(needs))) <= field.each
        if c.schedule in ("ratio", "derivative"):
            T = field.evaluations // method.oracle.cost(True, Context(xp=np, needs=frozenset(needs)))
            assert method.schedule.gamma**T == pytest.approx(values["fall"])
        if "fall" in values:
            assert method.floor == pytest.approx(values["fall"] * method.schedule.t1)


def test_points_of_the_sphere_are_as_far_as_those_of_the_others() -> None:
    far = {}
    for oracle in ("rademacher", "sphere"):
        seen: list[Any] = []
        method = build(composition(f"{oracle}.constant.normalized"), {"first": 0.1, "step": 0.1}, FIELD)
        slgh.minimize(lambda x, seen=seen: seen.append(x) or float(x.sum()), np.zeros(40), method=method, max_iter=1)
        far[oracle] = max(np.linalg.norm(x) for x in seen[:26])
    assert far["sphere"] == pytest.approx(far["rademacher"]) == pytest.approx(np.sqrt(40))


@pytest.mark.parametrize("oracle", AXES["oracle"])
@pytest.mark.parametrize("update", TUNED)
def test_the_first_step_is_as_long_as_the_open_value_says(oracle: str, update: str) -> None:
    """In any unit of f. Momentum starts with a tenth of its final step, AdaMM with a tenth over sqrt(0.7)."""
    begins = {"momentum": 0.1, "adamm": 0.1 / np.sqrt(0.7)}.get(update, 1.0)
    lengths = []
    for unit in (1.0, 1e6):
        slope = np.linspace(1.0, 2.0, 40) * unit
        field = replace(FIELD, spread=0.5 * float(np.linalg.norm(slope)))  # of f(x + t u) at t = 0.05 widths
        values = {"first": 0.05, "sharpness": 1.0, "step": 0.02}
        method = build(composition(f"{oracle}.constant.{update}"), values, field)
        found = slgh.minimize(lambda x, slope=slope: float(slope @ x), np.zeros(40), method=method, max_iter=1, seed=0)
        lengths.append(float(np.linalg.norm(found.x)) / (0.02 * 10 * np.sqrt(40)))
    assert lengths == pytest.approx([begins] * 2, rel=1e-3 if update in ("adam", "normalized") else 0.5)
    assert lengths[0] == pytest.approx(lengths[1], rel=0.02 if update == "adamm" else 1e-3)  # its v0 has a unit


def test_scale_free_is_not_tuned_by_a_step_and_the_others_are() -> None:
    for c in compositions():
        assert ("step" in bbob.GRID.open(c)) == (c.update != "scale_free")
    assert bbob.GRID.edges(composition("forward.ratio.adam"), {"fall": 1e-2, "step": 0.3}) == ["step"]


# Tuning


def test_values_are_chosen_on_training_functions_and_instances_alone() -> None:
    assert all(is_training(place.f) and place.i not in INSTANCES for place in bbob.TUNING_PROBLEMS)
    assert len(bbob.TEST) == 13
    assert not any(map(is_training, bbob.TEST))


def test_the_candidate_with_the_best_mean_rank_is_chosen_once_all_are_run() -> None:
    c = composition("forward.ratio.descent")
    candidates = bbob.GRID.candidates(c)

    def record(values: Any, place: Place, gap: float) -> records.Record:
        outcome = Outcome(at=[gap], hits=[], evaluations=4000)
        return record_of(bbob.method_of(c, values), place, (4000,), outcome, 0.0)

    found = [
        record(values, place, abs(k - 7) + 1.0) for k, values in enumerate(candidates) for place in bbob.TUNING_PROBLEMS
    ]
    assert bbob.best_values(c, found) == candidates[7]
    assert bbob.best_values(c, found[1:]) is None


def test_choices_are_kept_until_what_they_depend_on_changes(tmp_path: Path) -> None:
    c = composition("exponential.constant.adam")
    chosen = grids.Chosen(tmp_path, "bbob", SMALL, {"d": 40})
    chosen.add(c, {"first": 0.25, "sharpness": 1.0, "step": 0.01}, 4)
    kept = {"values": {"first": 0.25, "sharpness": 1.0, "step": 0.01}, "runs": 4, "edges": ["step"]}
    assert grids.Chosen(tmp_path, "bbob", SMALL, {"d": 40}).read() == {c.name: kept}
    assert grids.Chosen(tmp_path, "bbob", SMALL, {"d": 20}).read() == {}
    assert grids.Chosen(tmp_path, "bbob", replace(SMALL, step=(1.0,)), {"d": 40}).read() == {}


@pytest.mark.parametrize("update", TUNED)
def test_steps_by_row_are_the_runs_of_each_step_by_itself(update: str) -> None:
    steps = bbob.GRID.step
    made = [
        build(composition(f"antithetic.ratio.{update}"), {"fall": 1e-2, "step": step}, replace(FIELD, d=5))
        for step in steps
    ]
    rows = images.StepsByRow(update=made[0].update, factors=tuple(step / steps[0] for step in steps))
    shared: dict[str, Any] = {"vectorized": True, "max_iter": 5}

    def f(x: Any) -> Any:
        return np.sqrt(1 + (x - 1) ** 2).sum(-1)

    together = slgh.minimize(
        f,
        np.zeros((len(steps), 5)),
        method=replace(made[0], update=rows),
        batched=True,
        seed=[3] * len(steps),
        **shared,
    )
    for method, x in zip(made, together.x, strict=True):
        alone = slgh.minimize(f, np.zeros(5), method=method, seed=3, **shared)
        assert x == pytest.approx(alone.x, rel=1e-9)


# Effects


def test_effects_are_found_again_though_compositions_are_missing() -> None:
    rng = np.random.default_rng(0)
    true = {axis: dict(zip(levels, rng.normal(size=len(levels)), strict=True)) for axis, levels in AXES.items()}
    of = {
        c: sum(true[axis][getattr(c, axis)] for axis in AXES) * np.array([0.5, 1.0, 1.5]) + np.arange(3.0)
        for c in compositions()
    }
    found = effects.effects(of)
    assert found.explained == pytest.approx(1)
    for axis, levels in true.items():
        center = np.mean(list(levels.values()))
        for effect in found.levels[axis]:
            assert effect.mean == pytest.approx(levels[effect.levels[0]] - center)
            assert effect.error == pytest.approx(abs(effect.mean) * 0.5 / np.sqrt(3))
    assert found.levels["update"][0].mean == min(effect.mean for effect in found.levels["update"])
    assert max(abs(effect.mean) for effect in found.together) < 1e-9


def test_what_two_parts_do_together_is_found_and_named() -> None:
    of = {c: np.full(4, -1.0 * (c.oracle == "diagonal_scaling" and c.update == "scale_free")) for c in compositions()}
    found = effects.effects(of)
    assert found.together[0].levels == ("diagonal_scaling", "scale_free")
    assert found.added["oracle", "update"] == pytest.approx(1 - found.explained)
    assert found.added["oracle", "schedule"] < 0.05


# The commands


def in_this_process(jobs: list[Job], *, workers: int, seconds: float) -> Any:
    """Like `coco_study.jobs.run_jobs`, but in this process, which saves the start of others."""
    for job in jobs if seconds > 0 else []:
        future: Future[records.Record] = Future()
        future.set_result(job())
        yield job, future


def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "run_jobs", in_this_process)
    monkeypatch.setattr(bbob, "GRID", SMALL)
    monkeypatch.setattr(bbob, "TUNING_PROBLEMS", (Place(suite="bbob", d=40, f=1, i=1),))
    monkeypatch.setattr(bbob, "TIMES", 5)
    monkeypatch.setattr(images, "GRID", SMALL)
    monkeypatch.setattr(images, "TUNING_IMAGES", 2)


def test_bbob_is_tuned_once_run_resumed_and_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    small(monkeypatch)
    narrow = ["--functions", "4,16", "--instances", "6", "--records", str(tmp_path)]
    words = ["bbob", *narrow, "--oracles", "forward,diagonal_scaling", "--schedules", "ratio"]
    words += ["--updates", "descent,scale_free", "--no-auto", "--workers", "1"]
    assert main([*words, "--seconds", "0"]) == 1
    assert "0 done, 0 failed, 6 left" in capsys.readouterr().out
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "6 done, 0 failed, 0 left" in said
    assert "8 done, 0 failed, 0 left" in said
    (tmp_path / "tuning").rename(tmp_path / "elsewhere")
    assert main(words) == 0
    assert "8 runs already recorded, 0 done" in capsys.readouterr().out
    assert main(["table", *narrow, "--markdown", str(tmp_path / "page.md")]) == 0
    found = scores.bbob_scores(tmp_path, fs=(4, 16), instances=(6,))
    assert len(found.of) == 4
    page = (tmp_path / "page.md").read_text()
    for c in found.of:
        assert f"{found.beyond_median(c):+.2f} ({found.ranks[c]:.0f})" in page
    assert (tmp_path / "page.png").read_bytes().startswith(b"\x89PNG")


def test_a_run_is_the_same_each_time_and_spends_its_budget() -> None:
    c, place = composition("ranks.power_law.spsa_gain"), Place(suite="bbob", d=40, f=8, i=1)
    job = Job(method=bbob.method_of(c, {"first": 0.05, "step": 0.03}), place=place, budgets=(400,))
    first, second = job(), job()
    assert first.at == second.at
    assert 400 - bbob.EVALUATIONS_PER_ITERATION < first.evaluations <= 400


def test_variants_of_auto_differ_by_what_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "run_jobs", in_this_process)
    monkeypatch.setattr(bbob, "AUTO_CELLS", ((10, 20), (3, 400)))
    words = ["auto", "--functions", "10", "--instances", "1", "--records", str(tmp_path)]
    assert main(words) == 0
    found = {(record.method, record.place.d): record.at for record in records.read(tmp_path)}
    assert len(found) == 2 * len(bbob.VARIANTS)
    assert found["auto", 10] == found["auto-no-covariance", 10]  # it takes no part in small budgets
    assert len({found[f"auto{variant}", 3] for variant in ("", "-no-covariance", "-no-local-search")}) == 3
    page = "\n".join(auto_parts(tmp_path, (10,), (1,)))
    assert "| no covariance | +0.00 ± inf (0, 0) |" in page


@pytest.mark.slow
def test_the_attack_is_tuned_on_other_images_run_and_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("safetensors")
    small(monkeypatch)
    attacked, tuned_on = images.scenes("cpu", 2, 70)
    assert not set(attacked.ids) & set(tuned_on.ids)
    words = ["attack", "--device", "cpu", "--images", "2", "--queries", "70", "--records", str(tmp_path)]
    words += ["--oracles", "antithetic", "--schedules", "budget", "--updates", "normalized,scale_free"]
    assert main(words) == 0
    assert "2 of 2: antithetic.budget.scale_free fooled" in capsys.readouterr().out
    assert main(words) == 0
    assert capsys.readouterr().out == ""
    found, attack_records = scores.attack_scores(tmp_path)
    assert [c.update for c in found.of] == ["normalized", "scale_free"]
    assert {one.name for one in attack_records} == {"auto", *(c.name for c in found.of)}
    assert found.units == attacked.ids
    assert all(np.isfinite(total).all() and (total >= 0).all() for total in found.of.values())


@pytest.mark.slow
def test_what_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["bbob", "--oracles", "forwards"])
    assert "there is no oracle 'forwards'; choose from forward, antithetic" in capsys.readouterr().err
    assert main(["attack", "--device", "cpu", "--images", "95"]) == 2
    assert "`images` must lie in 1 to 90" in capsys.readouterr().err
