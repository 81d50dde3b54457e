"""Composing methods: names, swapped parts, and a user's own parts."""

from __future__ import annotations

import dataclasses
import inspect
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast, get_args

import numpy as np
import pytest

import slgh
from cases import fun
from slgh.engine.arguments import PHASES
from slgh.engine.theory_step import THEORY_NAMES
from slgh.method import METHODS, SLOTS, ObjectiveTraits, compose
from slgh.oracles import Antithetic, Forward
from slgh.parameters import MethodName, MethodParameters, Phase
from slgh.schedules import Constant, Ratio
from slgh.updates import Adam, Descent

PAPER: dict[str, Any] = {"t1": 1.0, "step": 0.1}


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("gd", ("gradient", "constant", "descent")),
        ("sgd", ("gradient", "constant", "descent")),
        ("zosgd", ("forward", "constant", "descent")),
        ("zoadamm", ("forward", "constant", "adamm")),
        ("zosvrg", ("variance_reduced", "constant", "descent")),
        ("spsa", ("rademacher", "power_law", "spsa_gain")),
        ("openai_es", ("antithetic", "constant", "adam")),
        ("power_gs", ("exponential", "constant", "normalized")),
        ("power_hp", ("progressive_gradient", "ratio", "descent")),
        ("zopower_hp", ("progressive_exponential", "ratio", "scale_free")),
        ("dgs", ("directional", "ratio", "descent")),
        ("adadgs", ("directional_search", "follow_step", "descent")),
        ("gradopt", ("sampled_gradient", "double_loop", "descent")),
        ("zogradopt", ("forward", "double_loop", "descent")),
        ("gradopt_hazan", ("sphere", "double_loop", "harmonic")),
        ("slgh_r", ("sampled_gradient", "ratio", "descent")),
        ("slgh_d", ("sampled_gradient", "derivative", "descent")),
        ("zoslgh_r", ("forward", "ratio", "descent")),
        ("zoslgh_d", ("forward", "derivative", "descent")),
        ("auto", ("diagonal_scaling", "budget", "scale_free")),
        ("scale_free", ("diagonal_scaling", "budget", "scale_free")),
    ],
)
def test_a_method_is_oracle_x_schedule_x_update(name: str, parts: tuple[str, str, str]) -> None:
    recipe = METHODS[name]
    assert (recipe.oracle, recipe.schedule, recipe.update) == parts


def test_auto_takes_the_best_there_is() -> None:
    assert compose("auto", {}, ObjectiveTraits()).oracle.name == "diagonal_scaling"
    assert compose("auto", {}, ObjectiveTraits(gradient=True)).oracle.name == "sampled_gradient"
    assert compose("auto", {}, ObjectiveTraits(closed_form=True)).oracle.name == "closed_form"
    assert compose("auto", {"oracle": "forward"}, ObjectiveTraits(gradient=True)).oracle.name == "forward"


def test_a_closed_form_replaces_sampling() -> None:
    assert compose("slgh_r", PAPER, ObjectiveTraits(closed_form=True)).oracle.name == "closed_form"
    assert compose("zoslgh_r", PAPER, ObjectiveTraits(closed_form=True)).oracle.name == "forward"


def test_parts_are_swapped_by_name_class_or_instance() -> None:
    by_name = compose("zoslgh_r", PAPER | {"update": "adam", "beta1": 0.5}, ObjectiveTraits())
    by_class = compose("zoslgh_r", PAPER | {"update": Adam, "beta1": 0.5}, ObjectiveTraits())
    by_instance = compose("zoslgh_r", {"t1": 1.0, "update": Adam(step=0.1, beta1=0.5)}, ObjectiveTraits())
    assert by_name == by_class == by_instance
    assert by_name.update == Adam(step=0.1, beta1=0.5)


def test_a_method_is_taken_as_it_is_and_can_be_changed_in_the_call() -> None:
    method = slgh.Method(oracle=Forward(samples=3), schedule=Ratio(t1=1.0), update=Descent(step=0.1))
    assert compose(method, {}, ObjectiveTraits()) == method
    changed = compose(method, {"gamma": 0.5, "oracle": Antithetic(samples=2), "floor": 0.1}, ObjectiveTraits())
    assert (changed.schedule, changed.oracle, changed.floor) == (Ratio(t1=1.0, gamma=0.5), Antithetic(samples=2), 0.1)
    named = slgh.minimize(fun, [1.0, 2.0], method="zoslgh_r", samples=3, max_iter=9, seed=1, **PAPER)
    own = slgh.minimize(fun, [1.0, 2.0], method=method, max_iter=9, seed=1)
    np.testing.assert_array_equal(named.x, own.x)


@dataclass(frozen=True, kw_only=True)
class SignDescent:
    """User's own update: a step of fixed size per coordinate."""

    name: ClassVar[str] = "sign"
    step: float

    def init(self, x: Any, xp: Any) -> tuple[Any, ...]:
        return ()

    def apply(self, x: Any, estimate: Any, t: Any, state: Any, xp: Any) -> tuple[Any, tuple[Any, ...]]:
        return x - self.step * xp.sign(estimate.g), state


def test_a_part_of_ones_own_is_a_part_like_any_other() -> None:
    result = slgh.minimize(
        fun, [1.0, 2.0], method="zosgd", t1=0.1, update=SignDescent, step=0.01, samples=5, max_iter=1, seed=0
    )
    np.testing.assert_allclose(np.abs(result.x - [1.0, 2.0]), 0.01)
    assert result.method.update == SignDescent(step=0.01)


def test_a_recipes_defaults_do_not_reach_swapped_parts() -> None:
    assert compose("gradopt_hazan", PAPER | {"schedule": "ratio"}, ObjectiveTraits()).schedule == Ratio(
        t1=1.0, gamma=0.999
    )


def test_a_method_of_names_is_told_what_it_needs() -> None:
    with pytest.raises(TypeError, match=r"`oracle` must be a part, such as slgh.oracles.Forward\(...\)"):
        slgh.Method(oracle=cast(Any, "forward"), schedule=Ratio(t1=1.0), update=Descent(step=0.1))


def test_the_number_of_terms_is_that_of_the_call() -> None:
    params = PAPER | {"samples": 2}
    first = compose("zosvrg", params, ObjectiveTraits(stochastic=True, terms=5))
    assert cast(Any, compose(first, {}, ObjectiveTraits(stochastic=True, terms=9)).oracle).terms == 9


@dataclass(frozen=True, kw_only=True)
class Derived(SignDescent):
    """Part with a field that is not meant for users."""

    half: float = field(init=False, default=0.5)


def test_a_part_may_have_fields_of_its_own() -> None:
    assert compose("zosgd", {"t1": 0.1, "update": Derived, "step": 0.01}, ObjectiveTraits()).update == Derived(
        step=0.01
    )
    assert compose("zosgd", {"t1": 0.1, "update": Derived(step=0.01)}, ObjectiveTraits()).update == Derived(step=0.01)


def test_a_recipes_defaults_go_with_its_parts() -> None:
    assert compose("gd", {"step": 0.1}, ObjectiveTraits(gradient=True)).schedule == Constant(t1=0.0)
    assert cast(Any, compose("gradopt_hazan", PAPER, ObjectiveTraits()).schedule).n0 == 100
    assert compose("openai_es", PAPER, ObjectiveTraits()).oracle == Antithetic(values="ranks")
    assert compose("openai_es", PAPER | {"values": "raw"}, ObjectiveTraits()).oracle == Antithetic()


@pytest.mark.parametrize("slot", SLOTS)
def test_parts_say_what_they_are(slot: str) -> None:
    for part in SLOTS[slot].values():
        assert ".. math::" in part.__doc__


def test_auto_says_what_was_chosen() -> None:
    result = slgh.minimize(fun, np.ones(3), max_evals=1000, samples=3, seed=0, phases="homotopy")
    assert "Chosen: diagonal_scaling x budget x scale_free, 3 samples, t from 1 to" in result.message
    assert result.method.name == "auto"


@pytest.mark.parametrize("options", [{}, {"grad": True}, {"floor": 0.0}])
def test_the_homotopy_lets_t_fall_over_the_whole_run(options: dict[str, Any]) -> None:
    from cases import grad

    options = options | ({"grad": grad} if "grad" in options else {})
    smooth = slgh.problems.rosenbrock().smooth if not options else fun
    options = options | {"method": "scale_free", "shape": 1.0, "vectorized": True, "history": "full"}
    result = slgh.minimize(smooth, [-3.0, 2.0], max_evals=3000, seed=0, **options)
    t = result.history["t"]
    assert (t > 0).all()
    np.testing.assert_allclose(np.diff(np.log(t)), np.log(t[1] / t[0]), rtol=1e-6)
    assert result.fun < (0.1 if smooth is not fun else -0.25)


def test_auto_is_never_worse_than_its_start() -> None:
    def near(x: Any) -> Any:
        return ((x - 1.01) ** 2).sum(axis=-1)

    for max_evals in (1, 2, 3, 50, 200):
        result = slgh.minimize(near, np.ones(10), max_evals=max_evals, seed=0, vectorized=True)
        assert result.fun <= near(np.ones(10))
        assert result.nfev <= max_evals


def test_auto_chooses_the_first_radius_from_bounds_or_start() -> None:
    options: dict[str, Any] = {"method": "scale_free", "max_evals": 50, "seed": 0, "history": "full"}
    assert slgh.minimize(fun, np.ones(3), bounds=[(-2, 6)] * 3, **options).history["t"][0] == 2.0
    assert slgh.minimize(fun, np.full(3, 5.0), **options).history["t"][0] == pytest.approx(5.0)
    assert slgh.minimize(fun, np.zeros(3), **options).history["t"][0] == 1.0


@pytest.mark.parametrize("d", [1, 2, 10, 1000])
@pytest.mark.parametrize("max_evals", [2, 50, 2000])
def test_auto_runs_in_any_dimension_with_any_budget(d: int, max_evals: int) -> None:
    result = slgh.minimize(fun, np.ones(d), max_evals=max_evals, seed=0, vectorized=True)
    assert result.nfev <= max_evals
    assert np.isfinite(result.fun)
    assert result.fun <= fun(np.ones(d)) or result.nit <= 1


def test_editors_know_the_names_of_methods_and_parameters() -> None:
    fields = {f.name for parts in SLOTS.values() for part in parts.values() for f in dataclasses.fields(part)}
    chosen_by_the_run = {"iterations", "terms", "nu"}
    others = {*SLOTS, *THEORY_NAMES, "floor", "noise", "phases"}
    assert set(MethodParameters.__annotations__) == (fields - chosen_by_the_run) | others
    assert set(get_args(MethodName)) == set(METHODS)
    assert get_args(Phase) == PHASES


def test_hints_know_the_arguments_of_minimize() -> None:
    for name, each in inspect.signature(slgh.minimize).parameters.items():
        if each.kind is each.KEYWORD_ONLY:
            misspelled: dict[str, Any] = {f"{name}_": None}
            with pytest.raises(TypeError, match=f"Did you mean {name}\\?"):
                slgh.minimize(fun, np.ones(2), **misspelled)
