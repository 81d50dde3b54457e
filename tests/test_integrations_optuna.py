"""slgh as a sampler of Optuna: it passes Optuna's own tests, and resumes from any storage."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

optuna: Any = pytest.importorskip("optuna", reason='needs pip install "slgh[optuna]"')
pytestmark = pytest.mark.slow  # Optuna takes a second to import

from optuna.testing.pytest_samplers import (  # noqa: E402
    BasicSamplerTestCase,
    RelativeSamplerTestCase,
    SingleOnlySamplerTestCase,
)

from slgh.integrations.optuna import POINT, SLGHSampler  # noqa: E402

optuna.logging.set_verbosity(optuna.logging.WARNING)


class TestOptunasOwn(BasicSamplerTestCase, RelativeSamplerTestCase, SingleOnlySamplerTestCase):
    """Optuna's tests of samplers with one objective."""

    @pytest.fixture
    def sampler(self) -> Callable[[], Any]:
        return SLGHSampler


def objective(trial: Any) -> float:
    x, y = trial.suggest_float("x", -5, 5), trial.suggest_float("y", 1e-3, 1e3, log=True)
    return float((x - 1) ** 2 + (math.log10(y) + 1) ** 2)


def mixed(trial: Any) -> float:
    x = trial.suggest_float("x", -5, 5, step=0.25)
    n = trial.suggest_int("n", 1, 64, log=True)
    kind = trial.suggest_categorical("kind", ["a", "b", None])
    return float((x - 1) ** 2 + (n - 5) ** 2 / 10 + (kind is not None))


def study_of(function: Any = objective, n: int = 60, **options: Any) -> Any:
    given: dict[str, Any] = {"seed": 0, "n_trials": n}
    for name in ("parallel", "start"):
        if name in options:
            given[name] = options.pop(name)
    study = optuna.create_study(sampler=SLGHSampler(**given), **options)
    study.optimize(function, n_trials=n)
    return study


def params(study: Any) -> list[dict[str, Any]]:
    return [trial.params for trial in study.trials]


def test_it_finds_the_minimum() -> None:
    assert study_of().best_value < 1e-3
    best = study_of(mixed, n=100).best_trial
    assert best.params["kind"] is None
    assert best.value < 0.2


def test_maximizing_is_minimizing_the_negative() -> None:
    low, high = study_of(), study_of(lambda trial: -objective(trial), direction="maximize")
    assert params(low) == params(high)


def test_all_trials_but_the_first_belong_to_the_run() -> None:
    study = study_of()
    assert [POINT in trial.system_attrs for trial in study.trials] == [False] + [True] * 59
    assert sorted(trial.system_attrs[POINT][2] for trial in study.trials[1:]) == list(range(59))


def test_the_run_begins_at_the_start() -> None:
    study = study_of(start={"x": 2.0, "y": 10.0, "unknown": 3}, n=2)
    assert study.trials[1].params == pytest.approx({"x": 2.0, "y": 10.0})


def test_another_run_begins_after_the_planned_trials() -> None:
    study = study_of(n=20)
    study.optimize(objective, n_trials=30)
    assert {trial.system_attrs[POINT][1] for trial in study.trials[1:]} == {0, 1, 2}
    assert study.best_value < 1e-2


@pytest.mark.parametrize("kind", ["sqlite", "journal"])
def test_a_resumed_study_goes_on_as_if_it_had_not_ended(kind: str, tmp_path: Path) -> None:
    from optuna.storages import JournalStorage, RDBStorage
    from optuna.storages.journal import JournalFileBackend

    def storage() -> Any:
        if kind == "sqlite":
            return RDBStorage(f"sqlite:///{tmp_path / 'study.db'}")
        return JournalStorage(JournalFileBackend(str(tmp_path / "study.log")))

    whole = study_of(n=40)
    for _ in range(4):
        sampler = SLGHSampler(seed=0, n_trials=40)
        study = optuna.create_study(storage=storage(), study_name="a", load_if_exists=True, sampler=sampler)
        study.optimize(objective, n_trials=10)
    # The first trial is random: its sampler is not in the storage.
    assert params(study)[1:] == params(whole)[1:]


def test_the_seed_of_the_study_is_stored() -> None:
    storage = optuna.storages.InMemoryStorage()
    for _ in range(2):
        study = optuna.create_study(storage=storage, study_name="a", load_if_exists=True, sampler=SLGHSampler())
        study.optimize(objective, n_trials=15)
    assert sorted(trial.system_attrs[POINT][2] for trial in study.trials[1:]) == list(range(29))


def test_threads_evaluate_different_points() -> None:
    study = optuna.create_study(sampler=SLGHSampler(seed=0, parallel=4))
    study.optimize(objective, n_trials=80, n_jobs=4)
    points = [tuple(trial.system_attrs[POINT]) for trial in study.trials if POINT in trial.system_attrs]
    assert len(points) == len(set(points)) > 60
    assert study.best_value < 0.1


def test_ask_and_tell_in_any_order() -> None:
    study = optuna.create_study(sampler=SLGHSampler(seed=0, parallel=8))
    space = {
        "x": optuna.distributions.FloatDistribution(-5, 5),
        "y": optuna.distributions.FloatDistribution(1e-3, 1e3, log=True),
    }
    rng = np.random.default_rng(0)
    for _ in range(12):
        trials = [study.ask(space) for _ in range(8)]
        for i in rng.permutation(8):
            study.tell(trials[i], objective(trials[i]))
    assert study.best_value < 0.1


def test_trials_that_fail_or_are_pruned_do_not_stop_the_run() -> None:
    def fragile(trial: Any) -> float:
        value = objective(trial)
        trial.report(value, 0)
        if trial.number % 5 == 1:
            raise optuna.TrialPruned
        if trial.number % 5 == 2:
            raise RuntimeError
        return value

    study = optuna.create_study(sampler=SLGHSampler(seed=0))
    study.optimize(fragile, n_trials=80, catch=(RuntimeError,))
    assert study.best_value < 0.1


def test_the_point_of_a_killed_process_is_evaluated_again() -> None:
    study = study_of(n=5)
    lost = study.ask()  # never told
    objective(lost)
    at = study._storage.get_trial(lost._trial_id).system_attrs[POINT]
    study.optimize(objective, n_trials=60)
    again = [trial for trial in study.trials if trial.system_attrs.get(POINT) == at]
    assert len(again) == 2
    assert study.best_value < 0.1


def test_the_value_of_an_enqueued_trial_is_not_taken_for_that_of_its_point() -> None:
    study = study_of(n=5)
    study.enqueue_trial({"x": 1.0})
    study.optimize(objective, n_trials=2)
    enqueued, after = study.trials[-2:]
    assert enqueued.params["x"] == 1.0
    assert after.params["x"] != 1.0
    assert after.params["y"] == enqueued.params["y"]
    assert after.system_attrs[POINT] == enqueued.system_attrs[POINT]


def test_a_sampler_can_be_pickled() -> None:
    study, other = study_of(n=10), study_of(n=10)
    other.sampler = pickle.loads(pickle.dumps(other.sampler))
    for each in (study, other):
        each.optimize(objective, n_trials=5)
    assert params(study) == params(other)


@pytest.mark.parametrize("wrong", [{"n_trials": 0}, {"seed": -1}, {"parallel": 0}])
def test_wrong_arguments_are_errors(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        SLGHSampler(**wrong)
