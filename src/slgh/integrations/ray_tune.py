"""slgh as a search algorithm of Ray Tune."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

import slgh
from slgh import checks
from slgh.space import Categorical, Float, Integer, Ordinal, Parameter, Space

try:
    from ray.tune.search import Searcher
    from ray.tune.search import sample as domains
except ImportError as missing:
    raise checks.MissingLibraryError(
        '`slgh.integrations.ray_tune` needs Ray Tune: pip install "slgh[ray-tune]".'
    ) from missing

HEADER = "header.json"
"""Name of the header in a file of `save`."""

MAX_QUANTILES = 10_000
"""Maximum number of values of a quantized domain."""


class SLGHSearch(Searcher):
    """Search algorithm that runs slgh's method "auto" on the configurations of a `Tuner`.

    Parameters
    ----------
    space
        Search space: nested dictionaries whose leaves are domains of Ray Tune or parameters of `slgh.space`. Other
        leaves are constants. None, the default: the `param_space` of the Tuner.
    metric, mode
        Name of the metric, and "min" or "max". By default those of the TuneConfig.
    n_trials
        Number of trials to plan for, 100 by default. The search ends after them.
    start
        Configuration to start from, or a part of it. By default, the search starts in the middle.
    parallel
        Number of trials that run at the same time, 1 by default. Set `max_concurrent_trials` of the TuneConfig too.
        If all points of a round are being evaluated, Ray Tune waits.
    seed
        Non-negative integer. If None, the default, a seed is generated.
    """

    def __init__(
        self,
        space: dict[str, Any] | None = None,
        *,
        metric: str | None = None,
        mode: str | None = None,
        n_trials: int = 100,
        start: dict[str, Any] | None = None,
        parallel: int = 1,
        seed: int | None = None,
    ) -> None:
        super().__init__(metric=metric, mode=mode)
        checks.count("n_trials", n_trials)
        self.options: dict[str, Any] = {
            "start": start,
            "max_evals": n_trials,
            "parallel": parallel,
            "seed": seed,
            "history": 0,
        }
        self.space = None if space is None else Space(_read(space, "space"))
        self.optimizer: slgh.Optimizer | None = None
        self.live: dict[str, Any] = {}
        """Points that are being evaluated, by the id of their trial."""
        self.ended = False
        """True if the run had ended when it was saved."""
        self.saved: tuple[dict[str, Any], dict[str, Any]] | None = None
        """Content of the file from which the search was restored."""

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any) -> bool:
        """Accept the metric, the mode and the search space of the Tuner, unless they are known."""
        if metric:
            self._metric = metric
        if mode:
            self._mode = mode
        if self.space is None:
            self.space = Space(_read(config, "param_space"))
        return True

    def suggest(self, trial_id: str) -> Any:
        """Return the configuration of a trial, None to wait for other trials, or FINISHED."""
        if self.space is None or not self._metric or not self._mode:
            raise checks.ArgumentValueError(
                "`SLGHSearch` needs a search space, a metric and a mode. Pass them to it, or to the Tuner."
            )
        if self.optimizer is None:
            self.optimizer = self._begin(self.space)
        if self.ended or self.optimizer.stop():
            return Searcher.FINISHED
        points = self.optimizer.ask(1)
        if not points:
            return None
        self.live[trial_id] = points[0]
        return points[0]

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Accept the result of a trial. One that failed counts as a value that is not finite."""
        if self.optimizer is None and self.saved is not None and self.space is not None:
            self.optimizer = self._begin(self.space)
        point = self.live.pop(trial_id, None)
        if point is None or self.optimizer is None or self.optimizer.stop():
            return
        value = math.nan if error or not result else float(result[self._metric])
        self.optimizer.tell([point], [-value if self._mode == "max" else value])

    def save(self, checkpoint_path: str) -> None:
        """Write the state of the search to a file, an archive of NumPy without pickle."""
        header: dict[str, Any] = {"metric": self._metric, "mode": self._mode, "state": None, "live": {}}
        arrays: dict[str, Any] = {}
        if self.optimizer is not None:
            state = self.optimizer.state_dict()
            header["state"], arrays = state["header"], state["arrays"]
            header["ended"] = self.optimizer.stop()
            header["live"] = {} if header["ended"] else self._live_numbers()
        with open(checkpoint_path, "wb") as file:
            contents: dict[str, Any] = {**arrays, HEADER: np.array(json.dumps(header))}
            np.savez(file, **contents)

    def restore(self, checkpoint_path: str) -> None:
        """Continue from a file of `save`, in a search with the same arguments. Points in evaluation stay so."""
        with np.load(checkpoint_path, allow_pickle=False) as file:
            header = json.loads(str(file[HEADER]))
            arrays = {name: file[name] for name in file.files if name != HEADER}
        self._metric, self._mode = header["metric"], header["mode"]
        self.saved = None if header["state"] is None else (header, arrays)

    def _begin(self, space: Space) -> slgh.Optimizer:
        """Return the Optimizer: a new one, or that of the file from which the search was restored."""
        optimizer = slgh.Optimizer(space, **self.options)
        if self.saved is not None:
            header, arrays = self.saved
            optimizer.load_state_dict({"header": header["state"], "arrays": arrays})
            self.ended = header["ended"]
            if not self.ended:
                points, live = optimizer.ask(), header["live"]
                self.live = {trial: points[i] for trial, i in live.items()}
                optimizer.abandon([point for i, point in enumerate(points) if i not in live.values()])
        return optimizer

    def _live_numbers(self) -> dict[str, int]:
        """Return the number of each trial's point among all points without a value."""
        assert self.optimizer is not None
        assert self.space is not None
        points = self.optimizer.ask()
        keys, numbers = [self.space.key(point) for point in points], dict[str, int]()
        for trial, point in self.live.items():
            key = self.space.key(point)
            numbers[trial] = next(i for i, other in enumerate(keys) if other == key and i not in numbers.values())
        self.optimizer.abandon([point for i, point in enumerate(points) if i not in numbers.values()])
        return numbers


def _read(tree: Any, path: str) -> Any:
    """Return a search space of Ray Tune with its domains as parameters of slgh."""
    if isinstance(tree, dict):
        if "grid_search" in tree:
            raise checks.ArgumentValueError(f"`{path}` must not be a grid search. Use tune.choice instead.")
        return {name: _read(child, f"{path}.{name}") for name, child in tree.items()}
    return _parameter(tree, path) if isinstance(tree, domains.Domain) else tree


def _parameter(domain: Any, path: str) -> Parameter:
    """Return the parameter for a domain of Ray Tune."""
    sampler = domain.get_sampler()
    step = None
    if isinstance(sampler, domains.Quantized):
        step, sampler = sampler.q, sampler.get_sampler()
    log = isinstance(sampler, domains.LogUniform)
    supported = log or isinstance(sampler, domains.Uniform)
    if isinstance(domain, domains.Categorical) and supported:
        return Categorical(tuple(domain.categories))
    if not isinstance(domain, domains.Float | domains.Integer) or not supported or (log and step not in (None, 1)):
        raise checks.ArgumentValueError(
            f"`{path}` must be uniform, loguniform, quniform, randint, lograndint, qrandint or choice, got {domain}. "
            "Choose one of them."
        )
    low, high = domain.lower, domain.upper
    if isinstance(domain, domains.Float) and step is None:
        return Float(low, high, log=log)
    if isinstance(domain, domains.Integer) and step in (None, 1):
        return Integer(low, high - 1, log=log)  # the upper bound is exclusive, unless there is a step above 1
    first, last = math.ceil(low / step), math.floor(high / step)
    if last - first >= MAX_QUANTILES:
        raise checks.ArgumentValueError(f"`{path}` must have at most {MAX_QUANTILES} values. Use a larger step.")
    return Ordinal(tuple((np.arange(first, last + 1) * step).tolist()))
