"""RunConfig: everything that is decided before the first evaluation."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from array_api_compat import is_array_api_obj
from numpy.typing import NDArray

from slgh import checks
from slgh.backends import Backend, backend_of
from slgh.backends.numpy.noise import entropies
from slgh.backends.protocols import Keys
from slgh.engine.arguments import (
    MAX_SAMPLES,
    PHASES,
    Arguments,
    Known,
    read_asynchronous,
    read_batch_size,
    read_data,
    read_known,
    read_parallel,
    read_phases,
    read_sample_xi,
    read_seed,
    read_watch,
    read_x0,
    refuse_foreign_names,
    refuse_tolerances,
)
from slgh.engine.bad_values import POLICIES
from slgh.engine.batch_search import local_method
from slgh.engine.bounds import Box, read_bounds
from slgh.engine.constraints import Constraints, read_constraints
from slgh.engine.state import draw_picks
from slgh.engine.step import StepConfig
from slgh.engine.termination import Limits, Tolerances, read_limits, read_tolerances, with_iterations
from slgh.engine.theory_step import THEORY_NAMES, apply_theory, fill_gamma, read_theory
from slgh.method import SLOTS, Composition, ObjectiveTraits, read_composition, refuse_mismatch
from slgh.oracles import Antithetic
from slgh.protocols import Array, Oracle, Schedule
from slgh.space import Space

LOCAL_SEARCH_REMARK = "The last {} evaluations of each problem were for a local search."
"""Sentence for the message if "auto" has added local searches to a batch."""

TAIL_START = 0.9
"""The solution of a stochastic f is the mean of the iterates after this share of the iterations."""


class Defaults(Protocol):
    """Source of the parameters that the user leaves open: the module `slgh.auto.defaults`."""

    def round_width(self, parallel: int, max_evals: int | None) -> int: ...
    def fill_samples(self, composition: Composition, d: int, max_evals: int | None, width: int) -> Composition: ...
    def fill_pace(
        self, composition: Composition, oracle: Oracle, schedule: Schedule, mean_t1: float, d: int, T: int
    ) -> Composition: ...
    def first_radius(self, x0: NDArray[Any], box: Box | None) -> NDArray[Any]: ...
    def first_widths(self, box: Box | None, d: int) -> NDArray[np.float64]: ...
    def local_search_evals(self, budget: int, gradient_cost: int) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """Settings of a run. Arrays are NumPy's if nothing else is said."""

    step: StepConfig
    backend: Backend
    x0: NDArray[Any]
    """(B, d) start."""
    t1: NDArray[Any]
    """(B,) first radii."""
    widths: NDArray[np.float64]
    """(d,) first widths of the samples."""
    box: Box | None
    data: tuple[Array, ...]
    """The user's data, in the backend's arrays with leading axis B."""
    limits: Limits
    tolerances: Tolerances | None
    """Changes of f and x by which the run converges. None: it does not."""
    reserve: int
    """Evaluations of each problem that are reserved for its final value."""
    start_evals: int
    """Evaluations of each problem before its first iteration: 1 if the start is evaluated, else 0, and the `starts`."""
    known: Known | None
    """Points to choose the start from: `starts`, which begin with x0 unless its value is known, and known points."""
    constraints: Constraints | None
    """Constraints beyond the bounds."""
    batched: bool
    batch_size: int | None
    """Number of problems that run at a time. None: all."""
    seed: int | list[int]
    keys: Keys
    burn_in: int
    """Number of first iterations that xhat is not drawn from."""
    sample_xi: Any
    noise_samples: int
    """Maximum number of samples that an iteration draws."""
    phases: tuple[str, ...] | None
    """Phases of "auto" for a single problem. None: one homotopy, or another method."""
    width: int
    """Number of points that a round of parallel evaluations should have."""
    search: StepConfig | None
    """Local searches of "auto" in a batch, after the planned iterations of the homotopy. None: there are none."""
    traits: ObjectiveTraits
    given: frozenset[str]
    """Names of the parameters that the user has set."""
    identity: dict[str, Any]
    """Properties that a checkpoint must share to belong to this run."""
    remark: str
    """Sentence for the result's message that says how the theory chose the step. Otherwise empty."""
    space: Space | None = None
    """Search space whose relaxed variables the run minimizes over, if there is one."""

    def step_at(self, k: int) -> StepConfig:
        """Return the step of iteration k: a homotopy, or the local searches that follow it."""
        return self.step if self.search is None or k < self.limits.iterations else self.search

    def draw_picks(self) -> list[int]:
        """Draw the iteration of each problem whose iterate is xhat."""
        return draw_picks(self.keys, self.limits.iterations, self.burn_in, exact=self.step.exact)

    @property
    def mean_t1(self) -> float:
        """Geometric mean of the first radii."""
        return _geometric_mean(self.t1)

    @property
    def stochastic(self) -> bool:
        return self.step.ctx.stochastic

    @property
    def raise_nonfinite(self) -> bool:
        """True if a bad value raises an error."""
        return self.step.on_nonfinite == "raise"

    @property
    def dtype(self) -> Any:
        return self.x0.dtype

    @property
    def discrete(self) -> bool:
        """True if f is constant on cells of x, since a parameter of the search space is not real."""
        return self.space is not None and self.space.discrete

    def inside(self, x: NDArray[Any]) -> NDArray[Any]:
        """Reflect x into the bounds."""
        return x if self.box is None else np.asarray(self.box.inside(x, np))


def make_config(
    arguments: Arguments,
    traits: ObjectiveTraits,
    defaults: Defaults,
    *,
    names: Iterable[str] = (),
    saved_seed: Any = None,
    saved_parallel: int | None = None,
) -> RunConfig:
    """Check the arguments, compose the method, and fill in the parameters that the user leaves open.

    `names` are those of the caller's arguments, for hints on misspelled ones. `saved_seed` and `saved_parallel`
    are those of a checkpoint. They are used if the user gives none.
    """
    # The problem.
    refuse_foreign_names(arguments.params)
    checks.choice("on_nonfinite", arguments.on_nonfinite, POLICIES)
    backend = backend_of(arguments.x0)
    x = read_x0(arguments.x0, backend, batched=arguments.batched)
    (B, d), shard = x.shape, arguments.shard
    whole = B if shard is None else shard.problems
    data = read_data(arguments.data, backend, B, batched=arguments.batched)
    sample_xi = read_sample_xi(arguments.sample_xi)
    terms = sample_xi if isinstance(sample_xi, int) else None
    traits = dataclasses.replace(traits, stochastic=sample_xi is not None, terms=terms)
    box = _read_box(arguments.bounds, x)
    constraints = read_constraints(arguments.constraints, d, arguments.feasibility_tol, x.dtype)
    known = read_known(arguments, x, stochastic=traits.stochastic)
    if known is not None:
        _refuse_outside("starts", known.starts, box)
        _refuse_outside("known", known.points, box)
    method, watch, stochastic = arguments.method, arguments.watch, traits.stochastic

    # The method, without the parameters that depend on the number of iterations.
    params = dict(arguments.params)
    if method == "auto":
        params.pop("phases", None)  # `_plan_phases` reads them
    theory = None
    if THEORY_NAMES & params.keys():
        theory, params = read_theory(params, stochastic=stochastic)
    if constraints is not None and not constraints.differentiable:
        traits = dataclasses.replace(traits, gradient=False)  # without those of the constraints, it is no use
    composition = read_composition(method, params, traits, names)
    limits = read_limits(d, planned=composition.planned, **arguments.limits)
    parallel = read_parallel(arguments, composition.name, saved_parallel)
    width = 1 if traits.gradient or traits.closed_form else defaults.round_width(parallel, limits.max_evals)
    composition = defaults.fill_samples(composition, d, limits.max_evals, width)
    composition.require_complete(later=theory.fills if theory else frozenset())
    if theory:
        composition = fill_gamma(composition, theory, d)
    oracle, schedule = composition.part("oracle"), composition.part("schedule")
    refuse_mismatch(composition.name, oracle, schedule, composition.floor, traits)
    checks.count("samples", oracle.samples, 0, MAX_SAMPLES)
    # Quantities that the oracle must estimate besides the gradient.
    needs = schedule.needs | ({"f"} & oracle.provides if stochastic and limits.target is not None else set())
    if watch is not None:
        needs |= read_watch(watch, oracle, stochastic=stochastic)
    if theory and oracle.exact and not stochastic:
        needs |= {"grad_f"} & oracle.provides
    ctx = backend.context(frozenset(needs), stochastic=stochastic)

    # The number of iterations T, and the parameters that depend on it.
    reports_best = composition.reports == "best"
    start_evals = int(reports_best and not stochastic and constraints is None)
    if known is not None:
        known = _distinct_starts(known, x, limits.max_evals)
        start_evals = len(known.starts)
    reserve = 0 if constraints is not None else oracle.samples if stochastic else 1
    if limits.max_evals is not None:
        reserve = min(reserve, limits.max_evals)
    searches = method == "auto" and arguments.batched and _mixes(arguments, limits, oracle)
    size = checks.plain(arguments.batch_size)
    slotted = isinstance(size, int) and size < whole
    # With slots, every problem has its own iteration, but the loop runs one method for all of them.
    search = local_method(oracle, d) if searches and not slotted else None
    kept = 0
    if search is not None and limits.max_evals is not None:
        budget = limits.max_evals - start_evals - reserve
        kept = defaults.local_search_evals(budget, search.oracle.cost(True, ctx))
    limits = with_iterations(limits, oracle, ctx, reserve + start_evals + kept, planned=composition.planned)
    T = limits.iterations
    if not (kept and T):
        search = None
    batch_size = read_batch_size(
        arguments.batch_size, whole, T, oracle, backend, batched=arguments.batched, callback=arguments.callback
    )
    batch_size = None if batch_size is None else min(batch_size, B)
    applied = apply_theory(composition, theory, d, T) if theory else None
    if applied:
        composition = applied.composition
    t1 = _first_radii(x, schedule.t1, box, defaults)
    if T is not None:
        mean_t1 = _geometric_mean(t1) if shard is None else shard.mean_t1
        composition = defaults.fill_pace(composition, oracle, schedule, mean_t1, d, T)
    if composition.planned:
        composition = composition.over(T)
    built = composition.build()
    tail_from = int(TAIL_START * T) if reports_best and stochastic and T is not None else None
    phases = _plan_phases(arguments, limits, built.oracle, constraints) if method == "auto" else None
    asynchronous = read_asynchronous(
        arguments.asynchronous, built.oracle, batched=arguments.batched, stochastic=stochastic
    )
    if constraints is not None:
        _refuse_with_constraints(arguments, traits, backend, planned=phases is not None)

    tolerances = read_tolerances(arguments.ftol, arguments.xtol)
    if tolerances is not None:
        composes = bool(phases) or search is not None
        refuse_tolerances(tolerances, built.oracle, stochastic=stochastic, composes=composes)

    # The seed, and what is drawn before the run.
    seed = read_seed(arguments.seed, B)
    if arguments.seed is None and saved_seed is not None and (np.ndim(saved_seed) == 0 or len(saved_seed) == B):
        seed = saved_seed  # a list of another length belongs to another run
    keys = entropies(seed, B, 0 if shard is None else shard.first)
    burn_in = applied.burn_in if applied else 0
    step = StepConfig(
        method=built,
        ctx=ctx,
        ops=backend.ops,
        box=None if box is None else box.converted(backend.native),
        on_nonfinite=arguments.on_nonfinite,
        asynchronous=asynchronous,
        tail_from=tail_from,
        watch=watch,
        # "auto" converges in its searches, not in the homotopies before them.
        tolerances=None if phases or search is not None else tolerances,
    )
    described = describe(built)
    if search is not None:
        described += f", then {describe(search)}"
    identity: dict[str, Any] = {
        "arrays": f"{backend.name} {x.dtype}",
        "x0": digest(x),
        "data": [digest(backend.host(a)) for a in data],
        **({"parallel": parallel} if parallel > 1 else {}),
        **({"constraints": describe_constraints(constraints)} if constraints is not None else {}),
        **({} if known is None else {"starts": digest(*known)}),
        **({} if tolerances is None else {"tolerances": list(tolerances)}),
        "number of evaluations, which the method plans by": limits.max_evals if phases else None,
        "number of iterations, which the method plans by": T if composition.planned or tail_from is not None else None,
        "method": described,
        "phases": list(phases) if phases else None,
        "burn-in": burn_in,
        "number of terms": terms,
        "history": arguments.history == "x",
        "bounds": None if box is None else digest(box.low, box.high),
        **({} if arguments.space is None else {"search space": arguments.space.fingerprint}),
        "stochastic": stochastic,
        "on_nonfinite": arguments.on_nonfinite,
        "asynchronous": asynchronous or None,  # checkpoints of older versions do not have it
        "watch": describe(watch),
        "batch_size": None if batch_size is None else {"problems": batch_size, "iterations": T},
        "seed": seed,
        "first problem": None if shard is None else shard.first,
    }
    return RunConfig(
        step=step,
        backend=backend,
        x0=x,
        t1=t1,
        widths=defaults.first_widths(box, d),
        box=box,
        data=data,
        limits=limits,
        tolerances=tolerances,
        reserve=reserve,
        start_evals=start_evals,
        constraints=constraints,
        known=known,
        batched=arguments.batched,
        batch_size=batch_size,
        seed=seed,
        keys=keys,
        burn_in=burn_in,
        sample_xi=sample_xi,
        noise_samples=max(built.oracle.samples, terms or 0),
        phases=phases,
        width=width,
        search=None if search is None else dataclasses.replace(step, method=search, tolerances=tolerances),
        traits=traits,
        given=frozenset(params),
        identity=identity,
        remark=str(applied) if applied else LOCAL_SEARCH_REMARK.format(kept) if search else "",
        space=arguments.space,
    )


def _read_box(bounds: Any, x: NDArray[Any]) -> Box | None:
    """Return the bounds, or raise if a start x (B, d) is outside them."""
    box = read_bounds(bounds, x.shape[1], x.dtype)
    _refuse_outside("x0", x, box)
    return box


def _refuse_outside(name: str, x: NDArray[Any], box: Box | None) -> None:
    """Raise if one of the points x (n, d) is outside the bounds."""
    if box is not None and (outside := (x < box.low) | (x > box.high)).any():
        b, i = np.argwhere(outside)[0]
        low, high = box.low[i], box.high[i]
        raise checks.ArgumentValueError(
            f"`{name}` must lie within `bounds`, ({low}, {high}) for variable {i}; got {x[b, i]}."
        )


def _distinct_starts(known: Known, x: NDArray[Any], max_evals: int | None) -> Known:
    """Return the points with x0 before the other starts. Points that are known or repeated are not evaluated."""
    seen, starts = {point.tobytes() for point in known.points}, []
    for point in (*x, *known.starts):
        if point.tobytes() not in seen:
            seen.add(point.tobytes())
            starts.append(point)
    return known._replace(starts=np.array(starts[:max_evals], x.dtype).reshape(-1, x.shape[1]))


@np.errstate(all="ignore")
def _first_radii(x: NDArray[Any], t1: float | None, box: Box | None, defaults: Defaults) -> NDArray[Any]:
    """Return the first t of each problem, (B,): the user's `t1`, or the default."""
    return defaults.first_radius(x, box) if t1 is None else np.full(x.shape[0], t1, x.dtype)


@np.errstate(all="ignore")
def _geometric_mean(t: NDArray[Any]) -> float:
    return float(np.exp(np.mean(np.log(t))))


def _plan_phases(
    arguments: Arguments, limits: Limits, oracle: Oracle, constraints: Constraints | None
) -> tuple[str, ...] | None:
    """Return the phases of "auto", or None if there is one homotopy alone."""
    phases = arguments.params.get("phases", PHASES)
    if not arguments.batched and _mixes(arguments, limits, oracle):
        return read_phases(phases, asynchronous=arguments.asynchronous, constrained=constraints is not None)
    if phases is not PHASES:  # the user has passed some
        raise checks.ArgumentValueError(
            "`phases` are for a single problem limited by max_evals, without sample_xi, watch, ranks or swapped parts; "
            f"got phases={phases!r}: leave them out."
        )
    return None


def _refuse_with_constraints(arguments: Arguments, traits: ObjectiveTraits, backend: Backend, *, planned: bool) -> None:
    """Raise if a run of this kind cannot have constraints."""
    if not planned or traits.closed_form:
        raise checks.ArgumentValueError(
            "`constraints` are for a single problem of method='auto' without closed form, sample_xi, watch, max_iter, "
            "ranks or swapped parts. Leave those out, or solve the problems of a batch one by one."
        )
    for name in ("starts", "known", "ftol", "xtol"):
        if getattr(arguments, name) is not None:
            raise checks.ArgumentValueError(f"`{name}` is not possible with `constraints`. Leave it out.")
    if arguments.space is not None:
        raise checks.ArgumentValueError(
            "`constraints` are not possible in a search space. Leave them out, and return NaN where they are violated."
        )
    if backend.name != "numpy":
        raise checks.ArgumentValueError(f"`constraints` are for NumPy arrays, got {backend.name}: convert x0.")


def describe_constraints(constraints: Constraints) -> str:
    """Return a fingerprint of constraints. Functions cannot be compared, but their bounds can."""
    linear = digest(constraints.matrix, constraints.low, constraints.high)
    sides = [digest(one.low, one.high) for one in constraints.nonlinear]
    return " ".join([linear, *sides, repr(constraints.tolerance)])


def _mixes(arguments: Arguments, limits: Limits, oracle: Oracle) -> bool:
    """Return True if "auto" may add local searches to its homotopy."""
    stochastic, swapped = arguments.sample_xi is not None, SLOTS.keys() & arguments.params.keys()
    ranks = isinstance(oracle, Antithetic) and oracle.values == "ranks"
    return not (stochastic or arguments.watch is not None or limits.max_iter is not None or swapped or ranks)


def describe(thing: Any) -> str:
    """Describe a method or part by its class and fields. The text is the same in every process."""
    if thing is None or isinstance(thing, bool | int | float | str):
        return repr(thing)
    if type(thing) in (tuple, list):
        return f"({', '.join(map(describe, thing))})"
    if is_array_api_obj(thing):
        return f"array {digest(backend_of(thing).host(thing))}"
    if dataclasses.is_dataclass(thing):
        names = [f.name for f in dataclasses.fields(thing)]
    else:
        names = sorted(getattr(thing, "__dict__", ()))
    return f"{type(thing).__name__}({', '.join(f'{n}={describe(getattr(thing, n))}' for n in names)})"


def digest(*arrays: NDArray[Any]) -> str:
    """Return a short fingerprint of arrays: values, shape and dtype."""
    h = hashlib.sha256()
    for a in arrays:
        h.update(f"{a.dtype} {a.shape}".encode())
        h.update(np.ascontiguousarray(a).tobytes())
    return h.hexdigest()[:16]
