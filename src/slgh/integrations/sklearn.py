"""Search of hyperparameters in scikit-learn."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from numbers import Integral
from typing import Any, ClassVar

import numpy as np

import slgh
from slgh import checks
from slgh.space import Space

try:
    from sklearn.exceptions import FitFailedWarning
    from sklearn.model_selection._search import BaseSearchCV
    from sklearn.utils import check_random_state, get_tags
    from sklearn.utils._param_validation import Interval
except ImportError as missing:
    raise checks.MissingLibraryError(
        '`slgh.integrations.sklearn` needs scikit-learn: pip install "slgh[sklearn]".'
    ) from missing


ALL_FAILED = re.compile(r"^\s*All the \d+ fits failed\.")
"""Beginning of scikit-learn's error if all fits fail."""


class HomotopySearchCV(BaseSearchCV):
    """Hyperparameter search with cross-validation by slgh, in the style of `RandomizedSearchCV`.

    Parameters
    ----------
    estimator
        Estimator, which is copied and fitted for each candidate.
    param_space
        Dictionary that maps names to parameters of `slgh.space`, such as `Float(1e-3, 1e3, log=True)`. Other values are
        constants.
    n_iter
        Maximum number of candidates, 50 by default.
    start
        Values of some parameters to start from. By default, the search starts in the middle.
    parallel
        Number of candidates per round, 1 by default. The result depends on `parallel`, not on `n_jobs`. Each candidate
        is fitted once per split. For a full load, set n_jobs to a multiple of `parallel` times the number of splits.
    random_state
        Seed of the search.
    scoring, n_jobs, refit, cv, verbose, pre_dispatch, error_score, return_train_score
        As in `RandomizedSearchCV`. With several metrics, `refit` must be the name of the one to maximize.

    Attributes
    ----------
    best_params_, best_score_, best_estimator_, cv_results_
        As in `RandomizedSearchCV`, as are all other attributes. `cv_results_` omits candidates whose fits all fail.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseSearchCV._parameter_constraints,
        "param_space": [dict],
        "n_iter": [Interval(Integral, 1, None, closed="left")],
        "start": [dict, None],
        "parallel": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator: Any,
        param_space: dict[str, Any],
        *,
        n_iter: int = 50,
        start: Mapping[str, Any] | None = None,
        parallel: int = 1,
        scoring: Any = None,
        n_jobs: int | None = None,
        refit: Any = True,
        cv: Any = None,
        verbose: int = 0,
        pre_dispatch: Any = "2*n_jobs",
        random_state: Any = None,
        error_score: Any = np.nan,
        return_train_score: bool = False,
    ) -> None:
        self.param_space = param_space
        self.n_iter = n_iter
        self.start = start
        self.parallel = parallel
        self.random_state = random_state
        super().__init__(
            estimator=estimator,
            scoring=scoring,
            n_jobs=n_jobs,
            refit=refit,
            cv=cv,
            verbose=verbose,
            pre_dispatch=pre_dispatch,
            error_score=error_score,
            return_train_score=return_train_score,
        )

    def __sklearn_tags__(self) -> Any:
        """Return the tags of BaseSearchCV, which lack that the estimator may have several targets."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = get_tags(self.estimator).target_tags.multi_output
        return tags

    def _run_search(self, evaluate_candidates: Callable[..., dict[str, Any]]) -> None:
        """Evaluate the candidates that slgh asks for, round by round."""
        optimizer = slgh.Optimizer(
            Space(self.param_space),
            start=self.start,
            max_evals=int(self.n_iter),
            parallel=int(self.parallel),
            seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
            history=0,
        )
        failure: ValueError | None = None
        any_fitted = False
        while not optimizer.stop():
            candidates = optimizer.ask()
            try:
                results = evaluate_candidates(candidates)
            except ValueError as error:
                # scikit-learn gives up if all fits of one call fail, which are all fits of a search there.
                if not ALL_FAILED.search(str(error)):
                    raise
                failure, scores = error, np.full(len(candidates), np.nan)
                warnings.warn(f"{candidates} could not be fitted.", FitFailedWarning, stacklevel=2)
            else:
                scores = np.asarray(results[f"mean_test_{self._metric(results)}"][-len(candidates) :], float)
                any_fitted = True
            optimizer.tell(candidates, -scores)
        if failure is not None and not any_fitted:
            raise failure

    def _metric(self, results: dict[str, Any]) -> str:
        """Return the name of the metric to maximize."""
        if "mean_test_score" in results:
            return "score"
        if not isinstance(self.refit, str):
            raise checks.ArgumentValueError(
                f"`refit` must be the name of a metric if there are several, got {self.refit!r}. Name the one to "
                "maximize."
            )
        return self.refit
