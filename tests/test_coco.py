"""The COCO benchmark uses the stated problems, counts, resumes, and computes its tables from the records."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cocoex")
sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

from coco import main
from coco_study import overview, records, table
from coco_study.cells import choose, columns_of
from coco_study.jobs import Job, jobs_of
from coco_study.records import Record
from coco_study.settings import FILE, Cell, Method, labeled, read_cells, read_methods, store
from coco_study.statistics import area, critical_difference, ecdf, rank
from coco_study.suites import FRESH_INSTANCES, INSTANCES, NOISE_FREE, TARGETS, Place, functions, is_training, opened
from coco_study.watched import Spent, Watched, watch
from cocoex.bare_problem import BareProblem

from slgh.plotting.style import method_color

METHODS = read_methods()
ANYTIME = [name for name, method in METHODS.items() if not method.planned]
NEEDS = {"cma": "cma", "bipop": "cma", "nevergrad": "nevergrad", "open_es": "evosax"}


def needing(name: str) -> Method:
    """Return a method, or skip if its library is not installed."""
    method = METHODS[name]
    if method.run in NEEDS:
        pytest.importorskip(NEEDS[method.run])
    return method


def random_search(fun: Any, x0: Any, lower: Any, upper: Any, budget: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    while True:
        fun(rng.uniform(lower, upper))


# Problems


def test_the_cells_are_those_of_the_table() -> None:
    cells = read_cells()
    long = [cell for cell in cells if cell.instances is not None]
    assert [(cell.d, cell.budgets, cell.instances) for cell in long] == [
        (d, (10_000,), (6, 9)) for d in (2, 3, 5, 10, 20)
    ], "one instance of each kind"
    said = [(cell.suite, cell.d, cell.budgets, cell.linear) for cell in cells if cell not in long]
    assert said == [
        *(("bbob", d, (20, 100, 1000), False) for d in (2, 3, 5, 10)),
        ("bbob", 20, (20, 100, 500, 1000), False),
        ("bbob", 40, (20, 100, 500, 1000), False),
        ("bbob-largescale", 160, (20, 100, 500), False),
        ("bbob-largescale", 640, (100,), True),
        ("bbob-noisy", 20, (500,), False),
        ("bbob-noisy", 40, (500,), False),
    ]


def test_training_and_test_functions() -> None:
    assert [f for f in functions("bbob") if is_training(f)] == [1, 2, 3, 5, 8, 10, 12, 15, 17, 20, 22]
    assert len(functions("bbob")) == len(functions("bbob-largescale")) == 24
    assert functions("bbob-noisy") == tuple(range(101, 131))
    assert set(INSTANCES).isdisjoint(range(1, 6))
    assert set(FRESH_INSTANCES).isdisjoint(range(1, 9))


@pytest.mark.parametrize("i", INSTANCES)
def test_a_problem_is_the_instance_asked_for(i: int) -> None:
    """Its value at the optimum of that instance is fopt. That of another instance is not."""
    for f in functions("bbob"):
        place = Place(suite="bbob", d=5, f=f, i=i)
        best = BareProblem("bbob", f, 5, i).best_parameter()
        with opened(place) as problem:
            assert problem(best) == pytest.approx(place.fopt, abs=1e-9)
        with opened(Place(suite="bbob", d=5, f=f, i=i + 1)) as other:
            assert abs(other(best) - place.fopt) > 1e-3


@pytest.mark.parametrize(("suite", "d"), [("bbob-largescale", 20), ("bbob-noisy", 5)])
def test_fopt_is_the_one_that_coco_logs(suite: str, d: int, tmp_path: Path) -> None:
    for f in functions(suite)[::5]:
        place = Place(suite=suite, d=d, f=f, i=7)
        keep = tmp_path / str(f)
        watch(random_search, place, [3], name="random", keep=keep)
        logged = next(keep.rglob("*.tdat")).read_text().split("Fopt (")[1].split(")")[0]
        assert place.fopt == pytest.approx(float(logged), abs=1e-11)


def test_starts_are_the_same_for_all_and_differ_by_problem() -> None:
    place = Place(suite="bbob", d=20, f=3, i=6)
    assert np.array_equal(place.x0, Place(suite="bbob", d=20, f=3, i=6).x0)
    assert np.abs(place.x0).max() <= 4
    others = [Place(suite="bbob-largescale", d=20, f=3, i=6), Place(suite="bbob", d=20, f=3, i=7)]
    assert all(not np.array_equal(place.x0, other.x0) and place.seed != other.seed for other in others)


# Counting


def test_watched_counts_stops_and_remembers() -> None:
    values = iter([250.0, 90.0, 95.0, 1.0, 0.5, 7.0])
    fun = Watched(lambda x: next(values) + 10, fopt=10, budgets=[1, 3, 5])
    assert [fun(np.zeros(2)) for _ in range(5)] == [260, 100, 105, 11, 10.5]
    with pytest.raises(Spent):
        fun(np.zeros(2))
    found = fun.outcome()
    assert (found.at, found.evaluations) == ([250, 90, 0.5], 5)
    assert found.hits == [2] + [4] * 10 + [5]  # 10^2; 10^1.8 to 10^0; 10^-0.2
    assert next(values) == 7


def test_watched_ends_at_the_last_target_and_fills_the_budgets() -> None:
    fun = Watched(lambda x: 1e-9, fopt=0, budgets=[2, 9])
    fun(np.zeros(2))
    with pytest.raises(Spent):
        fun(np.zeros(2))
    assert fun.outcome().at == [1e-9, 1e-9]
    assert fun.outcome().hits == [1] * 51


def test_noisy_quality_is_the_noise_free_value_of_what_was_evaluated() -> None:
    place, clean = Place(suite="bbob-noisy", d=20, f=107, i=6), BareProblem("bbob", 1, 20, 6)
    seen: list[Any] = []

    def search(fun: Any, x0: Any, lower: Any, upper: Any, budget: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        for k in range(budget):
            x = clean_best + rng.standard_normal(20) * 2.0 ** (-k / 40)
            seen.append(clean(x) - place.fopt)
            noisy.append(fun(x))

    noisy: list[float] = []
    clean_best = BareProblem("bbob", 1, 20, 6).best_parameter()
    found = watch(search, place, [100, 400], name="search")
    best = np.minimum.accumulate(seen)
    assert found.at == pytest.approx([best[99], best[399]], rel=1e-8)
    assert found.hits == [int(np.argmax(best <= t)) + 1 for t in TARGETS if best[-1] <= t]
    assert len(found.hits) > 5
    assert min(noisy) - place.fopt < best[-1]  # so the noisy value would be wrong


def test_the_function_under_the_noise() -> None:
    """f101 to f106 have a noise of a few percent: they are close to the functions without noise."""
    rng = np.random.default_rng(0)
    for f in (101, 104):
        place = Place(suite="bbob-noisy", d=5, f=f, i=7)
        x = rng.uniform(-4, 4, 5)
        with opened(place) as problem:
            noisy = np.mean([problem(x) for _ in range(100)])
        plain = BareProblem("bbob", NOISE_FREE[f], 5, 7)(x)
        assert noisy - place.fopt == pytest.approx(plain - place.fopt, rel=0.02)


# Methods


SLOW = {"open-es", "cobyqa"}


def with_slow_ones(names: Iterable[str]) -> list[Any]:
    """Mark the methods that need JAX or more than a second."""
    return [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in names]


@pytest.mark.parametrize("name", with_slow_ones(METHODS))
def test_a_method_spends_its_budget_and_is_the_same_each_time(name: str) -> None:
    place = Place(suite="bbob", d=20, f=3, i=1)
    job = Job(method=needing(name), place=place, budgets=(200,))
    first, second = job(), job()
    assert 180 <= first.evaluations <= 200
    assert (first.at, first.hits) == (second.at, second.hits)
    with opened(place) as problem:
        assert first.at[0] < problem(place.x0) - place.fopt


@pytest.mark.parametrize("name", with_slow_ones(ANYTIME))
def test_a_method_that_does_not_plan_shows_smaller_budgets_too(name: str) -> None:
    place, method = Place(suite="bbob", d=5, f=3, i=1), needing(name)
    long, short = (Job(method=method, place=place, budgets=budgets)() for budgets in ((150, 2500), (150,)))
    assert long.at[0] == short.at[0]
    assert long.at[1] < long.at[0]


def test_a_variant_changes_what_is_given_and_has_another_digest() -> None:
    few = read_methods(["few = {like = 'slgh', samples = 2}"])["few"]
    assert (few.run, few.settings, few.planned) == ("slgh", {"samples": 2}, True)
    assert few.digest != METHODS["slgh"].digest
    assert labeled(few, "v2").name == "few@v2"
    assert labeled(METHODS["cma"], "v2").name == "cma"


@pytest.mark.parametrize("text", ["few = {", "few = {like = 'slhg'}", "few = {run = 'none'}", "'a/b' = {run = 'slgh'}"])
def test_a_wrong_variant_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"got|Choose"):
        read_methods([text])


def test_stored_values_replace_their_own_alone(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    shutil.copy(FILE, file)
    store("paper", {"step": 0.5, "samples": 7}, file)
    after = read_methods(file=file)
    assert after["paper"].settings == METHODS["paper"].settings | {"step": 0.5, "samples": 7}
    assert {**after, "paper": METHODS["paper"]} == METHODS
    assert len(file.read_text().splitlines()) == len(FILE.read_text().splitlines())
    with pytest.raises(ValueError, match="`stride` must occur once"):
        store("paper", {"stride": 1}, file)


# Records


def some_record(name: str, f: int, i: int, at: float, digest: str = "") -> Record:
    place = Place(suite="bbob", d=20, f=f, i=i)
    hits = tuple(10 * (k + 1) for k, target in enumerate(TARGETS) if at <= target)
    digest = digest or METHODS[name].digest
    many = {"evaluations": 2000, "seconds": 0.5, "code": ""}
    return Record(method=name, digest=digest, place=place, budgets=(2000,), at=(at,), hits=hits, **many)


def test_records_are_read_as_they_were_written_and_a_cut_line_is_left_out(tmp_path: Path) -> None:
    kept = [some_record("cma", 4, 6, 0.125), some_record("slgh", 6, 6, 3e-9)]
    for record in kept:
        records.append(tmp_path, record)
    assert records.read(tmp_path) == kept
    file = tmp_path / "bbob.cma.jsonl"
    with open(file, "a") as half:
        half.write(kept[0].line()[:30])
    assert records.read(tmp_path) == kept
    records.drop_incomplete_lines(tmp_path)
    records.append(tmp_path, some_record("cma", 4, 7, 1.0))
    assert len(records.read(tmp_path)) == 3


def test_jobs_are_one_for_all_budgets_or_one_for_each() -> None:
    cell = Cell(suite="bbob-largescale", d=160, budgets=(100, 500))
    of = {name: list(jobs_of([cell], [METHODS[name]], [6])) for name in ("cma", "slgh")}
    assert [job.budgets for job in of["cma"]] == [(16000, 80000)] * 24
    assert [job.budgets for job in of["slgh"]] == [(16000,), (80000,)] * 24
    linear = Cell(suite="bbob-largescale", d=640, budgets=(100,), linear=True)
    quadratic, slow = {"cma", "cma-bipop", "cobyqa"}, {"nevergrad"}
    assert {job.method.name for job in jobs_of([linear], METHODS.values(), [6])} == set(METHODS) - quadratic - slow


@pytest.mark.parametrize(("d", "budgets"), [(2, (40, 20_000)), (20, (400, 20_000)), (40, (800,)), (160, ())])
def test_a_slow_method_has_no_long_runs(d: int, budgets: tuple[int, ...]) -> None:
    cell = Cell(suite="bbob", d=d, budgets=(20, 20_000 // d if d < 40 else 1000))
    jobs = list(jobs_of([cell], [METHODS["cobyqa"]], [6]))
    assert {job.budgets for job in jobs} == ({budgets} if budgets else set())


def test_a_cell_may_have_fewer_instances() -> None:
    cell = Cell(suite="bbob", d=5, budgets=(10_000,), instances=(6, 9))
    assert {job.place.i for job in jobs_of([cell], [METHODS["cma"]], INSTANCES)} == {6}
    (column,) = columns_of([cell], {}, training=False, instances=FRESH_INSTANCES)
    assert column.instances == (9,)


def test_a_run_goes_on_where_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    narrow = ["--records", str(tmp_path / "kept"), "--suites", "bbob", "--d", "20", "--budgets", "100"]
    command = ["run", *narrow, "--methods", "lbfgsb", "--instances", "1", "--workers", "1"]
    assert main([*command, "--functions", "1", "--observe", str(tmp_path / "coco")]) == 0
    assert "0 runs already recorded, 1 done, 0 failed, 0 left." in capsys.readouterr().out
    assert list((tmp_path / "coco/bbob/lbfgsb/d20_f1_i1").glob("*.info"))
    assert main([*command, "--functions", "1,3", "--seconds", "0"]) == 0
    assert "1 runs already recorded, 0 done, 0 failed, 1 left." in capsys.readouterr().out
    assert len(records.read(tmp_path / "kept")) == 1
    assert main(["run", "--methods", "none"]) == 2
    assert "Choose from slgh, cma" in capsys.readouterr().err


# Statistics and tables


def test_ranks_average_ties_and_instances_before_functions() -> None:
    values = {"slgh": [(1.0, 1e-9), (5.0, 5.0)], "cma": [(2.0, 1e-8), (4.0, 5.0)], "de": [(3.0, 1.0), (3.0, 5.0)]}
    runs = {}
    for name, by_function in values.items():
        for f, of in zip((4, 6), by_function, strict=True):
            for i, at in zip((6, 7), of, strict=True):
                record = some_record(name, f, i, at)
                runs[name, record.place] = record
    found = rank(runs, list(values), sorted({place for _, place in runs}), 2000)
    # f4: (1, 2, 3) and (1.5, 1.5, 3); f6: (3, 2, 1) and (2, 2, 2)
    assert found.ranks == pytest.approx({"slgh": 1.875, "cma": 1.875, "de": 2.25})
    assert found.functions == 2
    assert found.critical_difference == critical_difference(3, 2)
    assert found.if_independent == critical_difference(3, 4)


def test_nemenyi() -> None:
    """Demšar (2006), Table 5: q = 2.343 for 3 methods and 2.728 for 5."""
    assert critical_difference(3, 30) == pytest.approx(2.343 * math.sqrt(3 * 4 / 180), abs=1e-3)
    assert critical_difference(5, 30) == pytest.approx(2.728 * math.sqrt(5 * 6 / 180), abs=1e-3)


def test_area_is_that_under_the_ecdf() -> None:
    record = some_record("cma", 4, 6, 1.0)
    assert len(record.hits) == 11
    grid = np.geomspace(1, 2000, 200_001)
    under = np.trapezoid(ecdf({("cma", record.place): record}, "cma", [record.place], grid), np.log(grid))
    assert area(record, 2000) == pytest.approx(under / math.log(2000), abs=1e-4)
    assert area(record, 50) == pytest.approx(sum(1 - math.log(n) / math.log(50) for n in (10, 20, 30, 40)) / 51)


@pytest.fixture
def full() -> list[Record]:
    """Two methods on all problems of a cell, a third on some, and one with other settings."""
    rng = np.random.default_rng(0)
    problems = [(f, i) for f in functions("bbob") for i in INSTANCES]
    kept = [some_record(name, f, i, 10 ** rng.uniform(-9, 3)) for name in ("slgh", "cma") for f, i in problems]
    return [*kept, some_record("de", 4, 6, 1.0), *(some_record("lbfgsb", f, i, 1.0, "other") for f, i in problems)]


def test_the_page_follows_from_the_records_alone(full: list[Record], tmp_path: Path) -> None:
    for record in full:
        records.append(tmp_path / "kept", record)
    page = tmp_path / "coco.md"
    words = "## How to read it\n\nNobody wins.\n"
    page.write_text(words)
    command = ["table", "--records", str(tmp_path / "kept"), "--markdown", str(page)]
    pytest.importorskip("matplotlib")
    assert main(command) == 0
    names = ("ecdf", "ranks", "overview", "overview_dark")
    first, figures = page.read_text(), [(tmp_path / f"coco_{name}.png").read_bytes() for name in names]
    assert main(command) == 0
    assert page.read_text() == first
    assert [(tmp_path / f"coco_{name}.png").read_bytes() for name in names] == figures
    assert first.index("## How to read it") < first.index("Nobody wins.") < first.index("## Mean rank, test functions")
    assert "instances 9 and 10\n" not in first, "they were not run"
    assert "Left out because incomplete: de at 20-D, 100 d (1 of 39 problems)." in first
    assert "lbfgsb: 72 records with other settings are left out." in first
    columns = first.split("## Mean rank, test functions\n\n")[1].splitlines()
    assert columns[0].endswith("| functions |")
    assert columns[2].endswith("| 13 |")
    assert "| 11 |\n" in first


def test_a_column_compares_only_who_was_run_on_all_problems(full: list[Record]) -> None:
    chosen, _ = choose(full, METHODS.values())
    column = columns_of([Cell(suite="bbob", d=20, budgets=(100,))], chosen, training=False)[0]
    assert column.methods == ["slgh", "cma"]
    rows = {row[0]: row[1] for row in table.rank_rows([column], lambda f: True)}
    ranks = [float(rows[name].strip("*°")) for name in ("slgh", "cma")]
    assert sum(ranks) == pytest.approx(3, abs=0.011)
    assert rows["functions"] == "13"
    (duel,) = table.duel_rows([column])
    better, worse = map(int, duel[1].split(", "))
    assert duel[0] == "cma"
    assert better + worse == 13, "no two values of this column are equal"


def test_the_overview_shows_the_means_of_the_table_and_the_colors_of_the_methods() -> None:
    chosen, _ = choose(records.read(records.FOLDER), list(read_methods().values()))
    columns = [c for c in columns_of(read_cells(), chosen, training=False) if c.suite != "bbob-noisy"]
    left, right = overview.paint(columns).axes
    for ax, multimodal in ((left, True), (right, False)):
        ranks = overview.mean_ranks(columns, multimodal=multimodal)
        dots = {line.get_ydata()[0]: line for line in ax.lines if line.get_marker() == "o"}
        assert len(dots) == len(ranks) == 12
        for y, label in enumerate(left.get_yticklabels()):
            (name,) = [name for name, text in overview.NAMES.items() if text == label.get_text()]
            assert dots[y].get_xdata()[0] == ranks[name][0]
            assert ranks[name][1] <= ranks[name][0] <= ranks[name][2]
            assert dots[y].get_color() == method_color(name) is not None
    part = [c for c in columns if (c.d, c.times) == (20, 500)]
    assert round(overview.mean_ranks(part, multimodal=True)["slgh"][0], 2) == 1.19, "as in docs/coco.md"
