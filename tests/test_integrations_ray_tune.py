"""slgh as a search algorithm of Ray Tune."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

tune: Any = pytest.importorskip("ray.tune", reason='needs pip install "slgh[ray-tune]"', exc_type=ImportError)
pytestmark = [pytest.mark.heavy, pytest.mark.filterwarnings("ignore")]  # of Ray and its dependencies

from ray.tune.search import Searcher  # noqa: E402

from slgh.integrations.ray_tune import SLGHSearch  # noqa: E402
from slgh.space import Float  # noqa: E402

SPACE: dict[str, Any] = {
    "rate": tune.loguniform(1e-4, 1.0),
    "net": {"layers": tune.randint(1, 5), "kind": tune.choice(["a", "b"]), "drop": tune.quniform(0.0, 0.5, 0.1)},
    "epochs": 3,
}


def loss(config: dict[str, Any]) -> float:
    net = config["net"]
    return float((np.log10(config["rate"]) + 2) ** 2 + (net["layers"] - 3) ** 2 + (net["kind"] != "b") + net["drop"])


def run(search: SLGHSearch, n: int, first: int = 0) -> list[Any]:
    """Evaluate n trials one after the other."""
    seen = []
    for i in range(first, first + n):
        config: Any = search.suggest(str(i))
        seen.append(config)
        search.on_trial_complete(str(i), {"loss": loss(config)})
    return seen


def search(**options: Any) -> SLGHSearch:
    given: dict[str, Any] = {"metric": "loss", "mode": "min", "seed": 0}
    return SLGHSearch(SPACE, **(given | options))


def test_configurations_belong_to_the_space() -> None:
    for config in run(search(), 60):
        assert 1e-4 <= config["rate"] <= 1
        assert config["net"]["layers"] in (1, 2, 3, 4)
        assert type(config["net"]["layers"]) is int
        assert config["net"]["kind"] in ("a", "b")
        assert min(abs(config["net"]["drop"] - 0.1 * k) for k in range(6)) < 1e-12
        assert config["epochs"] == 3


def test_it_finds_the_minimum_and_ends_after_the_planned_trials() -> None:
    tuned = search(n_trials=80)
    assert min(map(loss, run(tuned, 80))) < 0.1
    assert tuned.suggest("more") == Searcher.FINISHED


def test_maximizing_is_minimizing_the_negative() -> None:
    low, high = search(), search(mode="max")
    for i in range(30):
        a, b = low.suggest(str(i)), high.suggest(str(i))
        assert a == b
        low.on_trial_complete(str(i), {"loss": loss(a)})
        high.on_trial_complete(str(i), {"loss": -loss(b)})


def test_it_waits_for_the_trials_of_a_round() -> None:
    tuned = search(parallel=4)
    live: dict[str, Any] = {}
    while (config := tuned.suggest(f"trial{len(live)}")) is not None:
        live[f"trial{len(live)}"] = config
    assert live
    for trial, config in reversed(live.items()):
        tuned.on_trial_complete(trial, {"loss": loss(config)})
    assert isinstance(tuned.suggest("next"), dict)


def test_a_trial_that_failed_does_not_stop_the_search() -> None:
    tuned = search()
    for i in range(60):
        config: Any = tuned.suggest(str(i))
        tuned.on_trial_complete(str(i), None if i % 5 == 1 else {"loss": loss(config)}, error=i % 5 == 1)
    tuned.on_trial_complete("unknown", {"loss": 0.0})


def test_a_restored_search_goes_on(tmp_path: Path) -> None:
    tuned = search(parallel=4)
    run(tuned, 10)
    first: Any = tuned.suggest("first")
    tuned.save(str(tmp_path / "state"))
    restored = search(parallel=4)
    restored.restore(str(tmp_path / "state"))
    for each in (tuned, restored):
        each.on_trial_complete("first", {"loss": loss(first)})
    assert run(tuned, 10, 20) == run(restored, 10, 20)


def test_a_space_of_slgh_and_a_start_are_accepted() -> None:
    tuned = SLGHSearch({"x": Float(-1, 1)}, metric="loss", mode="min", start={"x": 0.25})
    assert tuned.suggest("0") == {"x": pytest.approx(0.25)}


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ({"x": tune.grid_search([1, 2])}, "grid search"),
        ({"x": tune.randn(0, 1)}, "space.x"),
        ({"x": {"y": tune.sample_from(lambda spec: 1)}}, "space.x.y"),
        ({"x": tune.quniform(0, 1, 1e-9)}, "values"),
    ],
)
def test_domains_that_it_does_not_have_are_errors(space: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SLGHSearch(space)
    with pytest.raises(ValueError, match="metric"):
        SLGHSearch(SPACE).suggest("0")


def test_a_tuner_runs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNE_DISABLE_SIGINT_HANDLER", "1")
    ray: Any = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR")
    try:
        tuner = tune.Tuner(
            lambda config: {"loss": loss(config)},
            param_space=SPACE,
            tune_config=tune.TuneConfig(
                metric="loss",
                mode="min",
                search_alg=SLGHSearch(seed=0, parallel=2),
                num_samples=12,
                max_concurrent_trials=2,
            ),
            run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0),
        )
        results = tuner.fit()
        assert len(results) == 12
        assert results.get_best_result().metrics["loss"] < 3
    finally:
        ray.shutdown()
