"""`HomotopySearchCV` is an estimator of scikit-learn, and finds good hyperparameters."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

sklearn: Any = pytest.importorskip("sklearn", reason='needs pip install "slgh[sklearn]"')
pytestmark = pytest.mark.slow

from sklearn.base import clone  # noqa: E402
from sklearn.datasets import make_classification, make_regression  # noqa: E402
from sklearn.exceptions import FitFailedWarning, NotFittedError  # noqa: E402
from sklearn.linear_model import LogisticRegression, Ridge  # noqa: E402
from sklearn.model_selection import GridSearchCV  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402
from sklearn.svm import SVC  # noqa: E402
from sklearn.utils.estimator_checks import check_estimator  # noqa: E402

from slgh.integrations.sklearn import HomotopySearchCV  # noqa: E402
from slgh.space import Boolean, Categorical, Float, Integer  # noqa: E402

ALPHA = Float(1e-3, 1e3, log=True)


def data() -> Any:
    return make_regression(n_samples=60, n_features=8, noise=20.0, random_state=0)


def search(**options: Any) -> Any:
    given: dict[str, Any] = {"n_iter": 25, "cv": 3, "random_state": 0}
    return HomotopySearchCV(Ridge(), {"alpha": ALPHA}, **(given | options))


@pytest.mark.parametrize("estimator", [Ridge(), LogisticRegression()], ids=["regressor", "classifier"])
@pytest.mark.filterwarnings("ignore")  # scikit-learn's checks warn
def test_scikit_learns_checks_pass(estimator: Any) -> None:
    name = "alpha" if isinstance(estimator, Ridge) else "C"
    check_estimator(HomotopySearchCV(estimator, {name: Float(0.1, 10, log=True)}, n_iter=3, cv=2))


def test_it_finds_what_a_fine_grid_finds() -> None:
    X, y = data()
    grid = GridSearchCV(Ridge(), {"alpha": np.logspace(-3, 3, 121)}, cv=3).fit(X, y)
    found = search().fit(X, y)
    assert found.best_score_ >= grid.best_score_ - 1e-4
    assert len(found.cv_results_["params"]) <= 25
    assert found.predict(X).shape == y.shape


def test_pipelines_and_mixed_parameters() -> None:
    X, y = make_classification(n_samples=80, random_state=0)
    space = {
        "svc__C": Float(1e-2, 1e2, log=True),
        "svc__degree": Integer(1, 4),
        "svc__kernel": Categorical(["linear", "poly", "rbf"]),
        "svc__shrinking": Boolean(),
        "svc__tol": 1e-2,
    }
    found = HomotopySearchCV(make_pipeline(StandardScaler(), SVC()), space, n_iter=20, cv=3, random_state=0).fit(X, y)
    assert set(found.best_params_) == set(space)
    assert all(params["svc__tol"] == 1e-2 for params in found.cv_results_["params"])
    assert {type(params["svc__degree"]) for params in found.cv_results_["params"]} == {int}
    assert found.best_score_ > 0.75


def test_the_result_depends_on_the_seed_and_not_on_n_jobs() -> None:
    X, y = data()
    first, again = search().fit(X, y), search(n_jobs=2).fit(X, y)
    assert first.cv_results_["params"] == again.cv_results_["params"]
    other = search(random_state=1).fit(X, y)
    assert first.cv_results_["params"] != other.cv_results_["params"]


def test_the_search_begins_at_the_start() -> None:
    found = search(start={"alpha": 5.0}).fit(*data())
    assert found.cv_results_["params"][0]["alpha"] == pytest.approx(5.0)


def test_of_several_metrics_refit_names_the_one_to_maximize() -> None:
    X, y = data()
    scoring = ["r2", "neg_mean_absolute_error"]
    found = search(scoring=scoring, refit="neg_mean_absolute_error").fit(X, y)
    single = search(scoring="neg_mean_absolute_error").fit(X, y)
    assert found.best_params_ == single.best_params_
    with pytest.raises(ValueError, match="refit"):
        search(scoring=scoring, refit=False).fit(X, y)


def test_candidates_that_cannot_be_fitted_are_dropped() -> None:
    searcher = HomotopySearchCV(Ridge(), {"alpha": Float(-1, 1)}, n_iter=25, cv=3, random_state=0)
    with pytest.warns(FitFailedWarning, match="could not be fitted"):
        found = searcher.fit(*data())
    assert found.best_params_["alpha"] >= 0
    assert np.isfinite(found.best_score_)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning")
def test_if_nothing_can_be_fitted_the_reason_is_raised() -> None:
    searcher = HomotopySearchCV(Ridge(), {"alpha": Float(-2, -1)}, n_iter=25, cv=3, random_state=0)
    with pytest.raises(ValueError, match="fits failed"):
        searcher.fit(*data())
    with pytest.raises(ValueError, match="alpha"):
        searcher.set_params(error_score="raise").fit(*data())


def test_it_can_be_cloned_and_pickled() -> None:
    X, y = data()
    with pytest.raises(NotFittedError):
        clone(search().fit(X, y)).predict(X)
    fitted = search().fit(X, y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict(X), fitted.predict(X))


@pytest.mark.parametrize("wrong", [{"n_iter": 0}, {"parallel": 0}, {"param_space": [1]}])
def test_wrong_arguments_are_errors(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        search().set_params(**wrong).fit(*data())
