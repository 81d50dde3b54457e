"""slgh as a sampler of Optuna."""

from __future__ import annotations

import hashlib
import json
import math
import secrets
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import slgh
from slgh import checks
from slgh.space import Categorical, Float, Integer, Parameter, Space

try:
    from optuna.distributions import (
        BaseDistribution,
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
        distribution_to_json,
    )
    from optuna.samplers import BaseSampler, RandomSampler
    from optuna.search_space import intersection_search_space
    from optuna.study import Study, StudyDirection
    from optuna.trial import FrozenTrial, TrialState
except ImportError as missing:
    raise checks.MissingLibraryError(
        '`slgh.integrations.optuna` needs Optuna: pip install "slgh[optuna]".'
    ) from missing

POINT = "slgh:point"
"""Attribute of a trial: its search space, run and the number of its point in the run."""

SEED = "slgh:seed"
"""Attribute of a study: the seed, if the user has given none."""

LOST_AFTER = 20
"""A point whose trial still runs after this many further trials is evaluated again, since its process may be dead."""

MAX_INTEGERS = 2**31
"""Integer parameters with more values are sampled independently."""


class SLGHSampler(BaseSampler):
    """Sampler that runs slgh's method "auto" on a study with one objective.

    It optimizes the parameters that all finished trials have in common, including integers, steps and categories. It
    samples all others independently. Each process rebuilds the state from the finished trials. So storages, resumed
    studies and parallel trials work, in threads and processes. A failed trial counts as a non-finite value. A pruned
    trial counts with its last intermediate value.

    Parameters
    ----------
    n_trials
        Number of trials to plan for, 100 by default. After them, a new run begins at the best point.
    seed
        Non-negative integer. All processes of a study must have the same one. If None, the default, a seed is
        generated and stored in the study.
    start
        Values of some parameters, by name, to start from. By default, the first run starts in the middle.
    parallel
        Number of trials that run at the same time, 1 by default.
    independent_sampler
        Sampler for the parameters and trials without a point of slgh. By default, a RandomSampler.
    """

    def __init__(
        self,
        *,
        n_trials: int = 100,
        seed: int | None = None,
        start: Mapping[str, Any] | None = None,
        parallel: int = 1,
        independent_sampler: BaseSampler | None = None,
    ) -> None:
        checks.count("n_trials", n_trials)
        checks.count("parallel", parallel)
        if seed is not None:
            checks.count("seed", seed, 0)
        self.n_trials, self.seed, self.start, self.parallel = n_trials, seed, dict(start or {}), parallel
        self.independent_sampler = independent_sampler or RandomSampler(seed=seed)
        self._lock = threading.Lock()
        self._replay: _Replay | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return what pickle needs. The rest is rebuilt from the study."""
        return {name: value for name, value in self.__dict__.items() if name not in ("_lock", "_replay")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock, self._replay = threading.Lock(), None

    def reseed_rng(self) -> None:
        """Reseed the independent sampler. The seed of the run is common to all workers."""
        self.independent_sampler.reseed_rng()

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return the parameters that all finished trials have in common."""
        common = intersection_search_space(study.get_trials(deepcopy=False))
        return {name: each for name, each in common.items() if not each.single() and _read(each) is not None}

    def sample_independent(self, study: Study, trial: FrozenTrial, name: str, distribution: BaseDistribution) -> Any:
        """Return a value of a parameter that is not optimized with the others."""
        self._raise_error_if_multi_objective(study)
        return self.independent_sampler.sample_independent(study, trial, name, distribution)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return the values of the next point of the run, or random ones if all its points are being evaluated."""
        self._raise_error_if_multi_objective(study)
        search_space = {name: each for name, each in search_space.items() if not each.single() and _read(each)}
        if not search_space:
            return {}
        with self._lock:
            replay = self._replay_of(study, search_space)
            at = replay.next_point(study.get_trials(deepcopy=False), trial.number)
            if at is None:
                return replay.random_values(trial.number)
            study._storage.set_trial_system_attr(trial._trial_id, POINT, [replay.key, replay.run, at])
            return replay.values(at)

    def _replay_of(self, study: Study, search_space: dict[str, BaseDistribution]) -> _Replay:
        """Return the run on this search space. It is kept for the next trial."""
        key = _key(search_space)
        old = self._replay
        if old is None or (old.storage, old.study_id, old.key) != (study._storage, study._study_id, key):
            self._replay = _Replay(self, study, search_space, key)
        assert self._replay is not None
        return self._replay

    def seed_of(self, study: Study) -> int:
        """Return the seed, which the study stores if the user has given none."""
        if self.seed is not None:
            return self.seed
        stored = study._storage.get_study_system_attrs(study._study_id)
        if SEED not in stored:
            study._storage.set_study_system_attr(study._study_id, SEED, secrets.randbits(62))
            stored = study._storage.get_study_system_attrs(study._study_id)
        return int(stored[SEED])


class _Replay:
    """Runs of slgh on one search space, one after the other, rebuilt from the trials of a study.

    Points are numbered in the order in which a run asks for them. A trial stores the number of its point. The runs
    depend on the seed and the values only, so that any process gets to the same points.
    """

    def __init__(self, sampler: SLGHSampler, study: Study, search_space: dict[str, BaseDistribution], key: str) -> None:
        self.storage, self.study_id, self.key = study._storage, study._study_id, key
        self.sampler, self.search_space = sampler, search_space
        self.sign = -1.0 if study.direction == StudyDirection.MAXIMIZE else 1.0
        self.seed = sampler.seed_of(study)
        self.space = Space({name: _read(each) for name, each in search_space.items()})
        self.run = -1
        """Number of the current run."""
        start = {
            n: v
            for n, v in sampler.start.items()
            if n in search_space and search_space[n]._contains(search_space[n].to_internal_repr(v))
        }
        self._begin({name: _encode(search_space[name], value) for name, value in start.items()})

    def _begin(self, start: Any) -> None:
        """Begin the next run."""
        self.run += 1
        self.optimizer = slgh.Optimizer(
            self.space,
            start=start,
            max_evals=self.sampler.n_trials,
            parallel=self.sampler.parallel,
            seed=int(np.random.SeedSequence([self.seed, self.run]).generate_state(1, np.uint64)[0]),
            history=0,
        )
        self.first = 0
        """Number of the first point of the current request."""
        self._ask()

    def _ask(self) -> None:
        """Get the points of the next request."""
        self.points: list[Any] = self.optimizer.ask()

    def values(self, at: int) -> dict[str, Any]:
        """Return the values of the parameters at a point of the current request."""
        return self._decoded(self.points[at - self.first])

    def random_values(self, number: int) -> dict[str, Any]:
        """Return random values for trial `number`."""
        return self._decoded(self.space.sample(np.random.default_rng([self.seed, self.run, number])))

    def _decoded(self, point: Any) -> dict[str, Any]:
        """Return the values of Optuna's parameters."""
        return {name: _decode(each, point[name]) for name, each in self.search_space.items()}

    def next_point(self, trials: Sequence[FrozenTrial], number: int) -> int | None:
        """Return the number of a point that trial `number` should evaluate, or None if all are being evaluated."""
        by_point: dict[tuple[int, int], list[FrozenTrial]] = {}
        for trial in trials:
            key, run, at = trial.system_attrs.get(POINT, (None, 0, 0))
            if key == self.key and trial.number != number:
                by_point.setdefault((run, at), []).append(trial)
        while True:
            places = range(self.first, self.first + len(self.points))
            found, running = self._observed({at: by_point.get((self.run, at), []) for at in places}, number)
            if not all(at in found for at in places):
                return next((at for at in places if at not in found and at not in running), None)
            self.optimizer.tell(self.points, [found[at] for at in places])
            self.first += len(self.points)
            if self.optimizer.stop():
                self._begin(self.optimizer.result.x)
            else:
                self._ask()

    def _observed(self, trials: Mapping[int, Sequence[FrozenTrial]], number: int) -> tuple[dict[int, float], set[int]]:
        """Return the values at points of the current request, and the points that are being evaluated."""
        found: dict[int, float] = {}
        running: set[int] = set()
        for at, some in trials.items():
            expected = self.values(at) if some else {}
            for trial in some:
                # An enqueued trial has other values than its point.
                if any(trial.params.get(name, value) != value for name, value in expected.items()):
                    continue
                if trial.state.is_finished():
                    found.setdefault(at, self._value(trial))
                elif number - trial.number <= LOST_AFTER + self.sampler.parallel:
                    running.add(at)
        return found, running

    def _value(self, trial: FrozenTrial) -> float:
        """Return the value to minimize of a finished trial, NaN if it has none."""
        value: float
        if trial.state == TrialState.COMPLETE:
            value = trial.value
        elif trial.state == TrialState.PRUNED and trial.intermediate_values:
            value = trial.intermediate_values[max(trial.intermediate_values)]
        else:
            value = math.nan
        return self.sign * value


def _key(search_space: dict[str, BaseDistribution]) -> str:
    """Return a text that identifies a search space."""
    text = json.dumps({name: distribution_to_json(each) for name, each in sorted(search_space.items())})
    return hashlib.sha256(text.encode()).hexdigest()[:16]


# A step is an integer of slgh, and a category the number of its choice: choices may be equal, as 1 and True.


def _read(distribution: BaseDistribution) -> Parameter | None:
    """Return the parameter of slgh for a distribution, or None if there is none."""
    if isinstance(distribution, CategoricalDistribution):
        return Categorical(tuple(range(len(distribution.choices))))
    if isinstance(distribution, FloatDistribution) and distribution.step is None:
        return Float(distribution.low, distribution.high, log=distribution.log)
    if isinstance(distribution, FloatDistribution | IntDistribution):
        if distribution.log:
            low, high = distribution.low, distribution.high
        else:
            low, high = 0, round((distribution.high - distribution.low) / distribution.step)
        return Integer(low, high, log=distribution.log) if high - low < MAX_INTEGERS else None
    return None


def _encode(distribution: BaseDistribution, value: Any) -> Any:
    """Return the value of slgh for a value of Optuna."""
    if isinstance(distribution, CategoricalDistribution):
        return int(distribution.to_internal_repr(value))
    if distribution.log or distribution.step is None:
        return value
    return round((value - distribution.low) / distribution.step)


def _decode(distribution: BaseDistribution, value: Any) -> Any:
    """Return the value of Optuna for a value of slgh."""
    if isinstance(distribution, CategoricalDistribution):
        return distribution.choices[value]
    if distribution.log or distribution.step is None:
        return value
    return distribution.low + value * distribution.step
