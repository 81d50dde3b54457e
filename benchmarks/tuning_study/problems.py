"""Hyperparameters of scikit-learn's models on its bundled data, by cross-validation with fixed folds.

The losses are deterministic: folds and the random numbers of the models are fixed. A space is a dictionary of
parameters of `slgh.space`, which `methods.py` translates for the other libraries.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slgh.space import Boolean, Categorical, Float, Integer, Parameter

Floats = NDArray[np.float64]
Values = dict[str, Any]

FAILED = 10.0
"""Loss of hyperparameters that a model refuses, or whose predictions are not finite. It is above all others."""


@dataclass(frozen=True)
class Problem:
    """A loss of named values, and their parameters."""

    name: str
    loss: Callable[[Values], float]
    space: dict[str, Parameter]

    def __call__(self, values: Values) -> float:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                loss = float(self.loss(values))
            except ValueError:
                return FAILED
        return min(loss, FAILED) if math.isfinite(loss) else FAILED


@cache
def _data(name: str) -> tuple[Floats, NDArray[Any]]:
    """Return inputs and targets, shuffled. Targets of regressions have mean 0 and variance 1."""
    from sklearn import datasets

    if name == "friedman":
        X, y = datasets.make_friedman1(n_samples=150, noise=0.5, random_state=0)
    else:
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))[:400]
    X, y = np.asarray(X, float)[order], y[order]
    if name == "linnerud":
        y = y[:, 0]
    if name in ("diabetes", "friedman", "linnerud"):
        y = (y - y.mean()) / y.std()
    return X, y


Fold = tuple[Floats, NDArray[Any], Floats, NDArray[Any]]


@cache
def _folds(name: str, scaling: str = "standard", n: int = 3) -> tuple[Fold, ...]:
    """Return inputs and targets to learn from and to test on, with inputs scaled by those to learn from."""
    from sklearn.model_selection import KFold

    X, y = _data(name)
    folds = []
    for train, test in KFold(n).split(X):
        low, width = np.zeros(X.shape[1]), np.ones(X.shape[1])
        if scaling == "standard":
            low, width = X[train].mean(axis=0), X[train].std(axis=0)
        elif scaling == "range":
            low, width = X[train].min(axis=0), np.ptp(X[train], axis=0)
        width = np.where(width > 0, width, 1.0)
        folds.append(((X[train] - low) / width, y[train], (X[test] - low) / width, y[test]))
    return tuple(folds)


def _mean(losses: Iterator[float]) -> float:
    return float(np.mean(list(losses)))


def _squared_error(model: Any, folds: tuple[Fold, ...]) -> float:
    """Return the mean squared error, 1 for the mean as the prediction."""
    return _mean(np.mean((model.fit(X, y).predict(U) - v) ** 2) for X, y, U, v in folds)


def _errors(model: Any, folds: tuple[Fold, ...]) -> float:
    """Return the share of wrong classes."""
    return _mean(np.mean(model.fit(X, y).predict(U) != v) for X, y, U, v in folds)


def _log_loss(model: Any, folds: tuple[Fold, ...]) -> float:
    """Return the mean negative logarithm of the probability of the class."""
    found = []
    for X, y, U, v in folds:
        p = model.fit(X, y).predict_proba(U)[np.arange(len(v)), v]
        found.append(-np.log(np.clip(p, 1e-6, 1.0)).mean())
    return float(np.mean(found))


def _one_minus_auc(model: Any, folds: tuple[Fold, ...]) -> float:
    """Return 1 minus the area under the ROC curve, by ranks of the decision function."""
    from scipy.stats import rankdata

    found = []
    for X, y, U, v in folds:
        ranks = rankdata(model.fit(X, y).decision_function(U))
        positive = v == 1
        m, k = int(positive.sum()), int((~positive).sum())
        found.append(1 - (ranks[positive].sum() - m * (m + 1) / 2) / (m * k))
    return float(np.mean(found))


# The problems that are reported.


def _svc(values: Values) -> float:
    from sklearn.svm import SVC

    values = dict(values)
    folds = _folds("breast_cancer", values.pop("scaling"))
    return _one_minus_auc(SVC(**values, max_iter=1000), folds)


def _boosted_trees(values: Values) -> float:
    from sklearn.ensemble import GradientBoostingRegressor

    return _squared_error(GradientBoostingRegressor(**values, random_state=0), _folds("diabetes", n=2))


def _linear_classifier(values: Values) -> float:
    from sklearn.linear_model import SGDClassifier

    return _errors(SGDClassifier(**values, tol=None, random_state=0), _folds("digits", "range", n=2))


TEST = (
    Problem(
        "SVC, breast cancer",
        _svc,
        {
            "C": Float(1e-4, 1e3, log=True),
            "gamma": Float(1e-6, 1e1, log=True),
            "kernel": Categorical(["rbf", "poly", "sigmoid"]),
            "degree": Integer(2, 5),
            "coef0": Float(-1, 1),
            "class_weight": Categorical([None, "balanced"]),
            "shrinking": Boolean(),
            "scaling": Categorical(["standard", "range"]),
        },
    ),
    Problem(
        "boosted trees, diabetes",
        _boosted_trees,
        {
            "n_estimators": Integer(2, 12),
            "learning_rate": Float(0.01, 1.0, log=True),
            "max_depth": Integer(1, 6),
            "min_samples_leaf": Integer(1, 50, log=True),
            "subsample": Float(0.3, 1.0),
            "max_features": Float(0.1, 1.0),
            "loss": Categorical(["squared_error", "absolute_error", "huber"]),
        },
    ),
    Problem(
        "linear classifier, digits",
        _linear_classifier,
        {
            "loss": Categorical(["hinge", "log_loss", "modified_huber", "squared_hinge"]),
            "alpha": Float(1e-6, 1e-1, log=True),
            "learning_rate": Categorical(["optimal", "constant", "invscaling"]),
            "eta0": Float(1e-4, 1.0, log=True),
            "power_t": Float(0.1, 1.0),
            "max_iter": Integer(2, 12),
            "average": Boolean(),
        },
    ),
)


# The problems on which constants of slgh may be chosen: other models, other data, and formulas.


def _neighbors(values: Values) -> float:
    from sklearn.neighbors import KNeighborsClassifier

    values = dict(values)
    folds, axes = _folds("wine", values.pop("scaling")), values.pop("axes")
    model = KNeighborsClassifier(**values, algorithm="brute")
    return _log_loss(model, tuple((X @ _axes(X, axes), y, U @ _axes(X, axes), v) for X, y, U, v in folds))


def _axes(X: Floats, n: int) -> Floats:
    """Return the first n principal axes."""
    return np.asarray(np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[2][:n].T)


def _network(values: Values) -> float:
    from sklearn.neural_network import MLPClassifier

    values = dict(values)
    width = values.pop("width")
    return _log_loss(MLPClassifier((width,), solver="lbfgs", random_state=0, **values), _folds("iris", n=2))


def _kernel_ridge(values: Values) -> float:
    from sklearn.kernel_ridge import KernelRidge

    values = dict(values)
    return _squared_error(KernelRidge(**values), _folds("linnerud", n=4))


def _tree(values: Values) -> float:
    from sklearn.tree import DecisionTreeRegressor

    return _squared_error(DecisionTreeRegressor(**values, random_state=0), _folds("friedman"))


def _mixed_quadratic(values: Values) -> float:
    """Return a correlated quadratic whose minimum depends on a category."""
    shift = {"a": 0.3, "b": 0.7, "c": 0.5, "d": 0.2}[values["kind"]]
    x = np.array([values["x"] - shift, values["y"] - 0.6, (math.log10(values["rate"]) + 3) / 3, values["n"] / 20 - 0.4])
    offset = {"a": 0.0, "b": -0.05, "c": 0.1, "d": 0.2}[values["kind"]] + 0.05 * values["flag"]
    return float(x @ x + 0.8 * x.sum() ** 2 + 0.3 + offset)


def _mixed_ackley(values: Values) -> float:
    """Return Ackley's function of reals, integers and booleans, with its minimum 0 off the middle."""
    x = np.array([3 * (values[f"x{i}"] - 0.35) for i in range(3)] + [(values[f"n{i}"] - 2) / 2 for i in range(2)])
    x = np.append(x, [float(values["p"]), float(not values["q"])])
    return float(20 + math.e - 20 * np.exp(-0.2 * np.sqrt(np.mean(x**2))) - np.exp(np.mean(np.cos(2 * np.pi * x)))) / 3


def _learning_curve(values: Values) -> float:
    """Return a valley of two rates, steep where training diverges, of integers and categories that interact."""
    rate, decay = math.log10(values["rate"]), math.log10(values["decay"])
    best = -2.5 + {"sgd": 1.0, "adam": -0.5, "rms": 0.0}[values["rule"]] - 0.15 * values["layers"]
    off = rate - best
    capacity = values["layers"] * math.log2(values["units"])
    fit = 0.4 / (1 + 0.15 * capacity) + 0.02 * max(0.0, capacity - 18 - 2 * (decay + 5)) ** 1.5 / 5
    extra = {"sgd": 0.02, "adam": 0.0, "rms": 0.01}[values["rule"]] + 0.02 * abs(values["drop"] - 0.2)
    return float(0.05 + fit + extra + (0.05 * off**2 if off < 0 else 0.4 * off**2))


TRAINING = (
    Problem(
        "neighbors, wine",
        _neighbors,
        {
            "n_neighbors": Integer(1, 60, log=True),
            "weights": Categorical(["uniform", "distance"]),
            "p": Float(1.0, 5.0),
            "scaling": Categorical(["standard", "range", "none"]),
            "axes": Integer(1, 13),
        },
    ),
    Problem(
        "network, iris",
        _network,
        {
            "width": Integer(1, 12),
            "alpha": Float(1e-6, 1e1, log=True),
            "activation": Categorical(["identity", "logistic", "tanh", "relu"]),
            "max_iter": Integer(3, 30),
        },
    ),
    Problem(
        "kernel ridge, linnerud",
        _kernel_ridge,
        {
            "alpha": Float(1e-4, 1e2, log=True),
            "kernel": Categorical(["rbf", "laplacian", "polynomial", "sigmoid", "linear"]),
            "gamma": Float(1e-4, 1e1, log=True),
            "degree": Integer(1, 4),
            "coef0": Float(-2, 2),
        },
    ),
    Problem(
        "tree, Friedman",
        _tree,
        {
            "criterion": Categorical(["squared_error", "absolute_error", "friedman_mse"]),
            "splitter": Categorical(["best", "random"]),
            "max_depth": Integer(1, 12),
            "min_samples_split": Integer(2, 30),
            "min_samples_leaf": Integer(1, 20),
            "max_features": Float(0.1, 1.0),
            "ccp_alpha": Float(1e-5, 1e-1, log=True),
        },
    ),
    Problem(
        "quadratic",
        _mixed_quadratic,
        {
            "x": Float(0, 1),
            "y": Float(0, 1),
            "rate": Float(1e-5, 1e-1, log=True),
            "n": Integer(0, 20),
            "kind": Categorical(["a", "b", "c", "d"]),
            "flag": Boolean(),
        },
    ),
    Problem(
        "Ackley",
        _mixed_ackley,
        {
            **{f"x{i}": Float(0, 1) for i in range(3)},
            **{f"n{i}": Integer(0, 9) for i in range(2)},
            "p": Boolean(),
            "q": Boolean(),
        },
    ),
    Problem(
        "learning curve",
        _learning_curve,
        {
            "rate": Float(1e-6, 1.0, log=True),
            "decay": Float(1e-8, 1e-2, log=True),
            "rule": Categorical(["sgd", "adam", "rms"]),
            "layers": Integer(1, 6),
            "units": Integer(8, 512, log=True),
            "drop": Float(0, 0.6),
        },
    ),
)

PROBLEMS = {problem.name: problem for problem in (*TRAINING, *TEST)}
