"""Common part of the optimizers: a base optimizer, the radius t with its schedule, and noise on the parameters."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.optim import Optimizer

from slgh import checks
from slgh.integrations.radius import UNITS, choose_schedule
from slgh.integrations.torch.noise import Excursion, ParameterNoise, sum_type
from slgh.protocols import Estimate, Schedule
from slgh.schedules import Constant

FOLLOW_LR = "lr"
"""Value of `schedule` for a radius proportional to the learning rate."""


class Homotopy(Optimizer):
    """Common part of SLGH and ZOSLGH: a base optimizer, the radius t, its schedule, and the noise on the parameters.

    The parameter groups and the state are those of the base optimizer, so that schedulers of the learning rate work.
    """

    provides: ClassVar[frozenset[str]]
    zeroth_order: ClassVar[bool]

    def __init__(
        self,
        base: Optimizer,
        *,
        t1: float | None,
        t_end: float | None,
        gamma: float | None,
        eta: float | None,
        total_steps: int | None,
        schedule: Schedule | Callable[[Any], Any] | str | None,
        samples: int,
        units: str,
        restore: str | None,
        on_nonfinite: str,
        seed: int | None,
        process_group: Any,
    ) -> None:
        if not isinstance(base, Optimizer):
            raise checks.ArgumentTypeError(
                "`base` must be an optimizer of PyTorch, such as torch.optim.Adam(model.parameters()), got "
                f"{type(base).__name__}."
            )
        if isinstance(base, Homotopy | torch.optim.LBFGS):
            reason = "it calls its closure itself" if isinstance(base, torch.optim.LBFGS) else "it wraps another one"
            raise checks.ArgumentTypeError(f"`base` must not be {type(base).__name__}: {reason}.")
        checks.count("samples", samples)
        checks.choice("units", units, UNITS)
        checks.choice("on_nonfinite", on_nonfinite, ("skip", "raise"))
        if restore is not None:
            checks.choice("restore", restore, ("exact", "arithmetic"))
        self.base = base
        self._ready = False
        super().__init__(base.param_groups, base.defaults)
        self._ready = True
        self.samples, self.units, self.on_nonfinite = samples, units, on_nonfinite
        self.schedule: Schedule | Callable[[Any], Any]
        self._follows_lr = isinstance(schedule, str)
        if isinstance(schedule, str):
            self.schedule, self.floor = _constant_radius(schedule, t1, (t_end, gamma, eta, total_steps)), 0.0
        else:
            self.schedule, self.floor = choose_schedule(
                t1=t1,
                t_end=t_end,
                gamma=gamma,
                eta=eta,
                total_steps=total_steps,
                schedule=schedule,
                provides=self.provides,
                zeroth_order=self.zeroth_order,
            )
        self.process_group = _process_group(process_group)
        self._shares = process_group is not None
        self.seed = _agreed_seed(seed, self.process_group)
        self.steps = 0
        """Number of steps taken, skipped ones not counted."""
        self.rejected = 0
        """Number of samples dropped because their loss or gradient was not finite."""
        self._tried = 0
        """Number of steps, skipped ones counted."""
        self._part = self.schedule if isinstance(self.schedule, Schedule) else None
        """The schedule if it is a part of slgh. The check of its protocol is slow."""
        if isinstance(self.schedule, Schedule):
            first_t = self.schedule.t1
            assert first_t is not None
            self._t = float(first_t)
            self._leaves = self.schedule.init(np.array([self._t]), np.array([self.floor]), np)
        else:
            self._t, self._leaves = float(self.schedule(0)), ()
        self._parameters: list[Tensor] = []
        self._scales: list[float] = []
        self._flags: list[bool] = []
        self._first_rates: list[float] = []
        self._restore = restore
        self._index_parameters()

    # Parameters and groups. They and the state are those of the base optimizer.

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return self.base.param_groups

    @param_groups.setter
    def param_groups(self, value: Any) -> None: ...

    @property
    def state(self) -> Any:
        return self.base.state

    @state.setter
    def state(self, value: Any) -> None: ...

    @property
    def defaults(self) -> dict[str, Any]:
        return self.base.defaults

    @defaults.setter
    def defaults(self, value: Any) -> None: ...

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters to the base optimizer. Its keys `t_scale` and `lr` act on their radius too."""
        if self._ready:
            self.base.add_param_group(param_group)

    def _index_parameters(self) -> None:
        """List the parameters that are trained, if this has changed, and measure the scales of new ones."""
        flags = [p.requires_grad for group in self.param_groups for p in group["params"]]
        if flags == self._flags:
            return
        listed = [(p, g) for g, group in enumerate(self.param_groups) for p in group["params"] if p.requires_grad]
        if not listed:
            raise checks.ArgumentValueError("`base` has no parameter that requires a gradient.")
        for p, _ in listed:
            if not p.is_floating_point():
                raise checks.ArgumentTypeError(
                    f"The parameters must be real floating-point tensors, got {p.dtype}. Set requires_grad to False "
                    "for those that are not trained."
                )
        known = self._known_scales()
        self._parameters = [p for p, _ in listed]
        measured = _weight_scales(self._parameters, self.units)
        self._scales = [known.get(id(p), scale) for p, scale in zip(self._parameters, measured, strict=True)]
        self._group_of = [g for _, g in listed]
        self._noise = ParameterNoise(self._parameters)
        self._flags = flags

    def _known_scales(self) -> dict[int, float]:
        return {id(p): scale for p, scale in zip(self._parameters, self._scales, strict=True)}

    @property
    def restore(self) -> str:
        """Rule that restores the parameters, "exact" or "arithmetic"."""
        if self._restore is not None:
            return self._restore
        return "exact" if any(p.dtype.itemsize < 4 for p in self._parameters) else "arithmetic"

    def _excursion(self) -> Excursion:
        return Excursion(self._noise, exact=self.restore == "exact")

    def _rate_ratios(self) -> list[float]:
        """Return the learning rate of each group, relative to its first one."""
        for group in self.param_groups[len(self._first_rates) :]:
            first = float(group.get("max_lr", group.get("initial_lr", group["lr"])))
            if first == 0:
                raise checks.ArgumentValueError('`schedule="lr"` needs a learning rate other than 0 at the start.')
            self._first_rates.append(first)
        return [float(g["lr"]) / first for g, first in zip(self.param_groups, self._first_rates, strict=True)]

    def _widths(self) -> list[float]:
        """Return w of each parameter: the points are x + t w u."""
        group_scales = [float(group.get("t_scale", 1.0)) for group in self.param_groups]
        for scale in group_scales:
            checks.at_least("t_scale", scale, 0)
        if self._follows_lr:
            group_scales = [a * b for a, b in zip(group_scales, self._rate_ratios(), strict=True)]
        return [scale * group_scales[g] for scale, g in zip(self._scales, self._group_of, strict=True)]

    # Radius

    @property
    def t(self) -> float:
        """Smoothing radius of the next step. With `schedule="lr"`, that of the first group."""
        return self._t * self._rate_ratios()[0] if self._follows_lr else self._t

    @property
    def _needs(self) -> frozenset[str]:
        return frozenset() if self._part is None else self._part.needs

    def _advance(self, **estimates: float | None) -> None:
        """Count a step, and move t. Without a finite estimate, t stays as it is."""
        self.steps += 1
        if any(value is not None and not math.isfinite(value) for value in estimates.values()):
            return
        if self._part is None:
            self._t = float(self.schedule(self.steps))  # type: ignore[operator]
            return
        arrays: dict[str, Any] = {
            name: None if value is None else np.array([value]) for name, value in estimates.items()
        }
        estimate = Estimate(g=np.zeros((1, 0)), cosine=1.0, **arrays)
        t, self._leaves = self._part.next(np.array([self._t]), estimate, self._leaves, np.array([self.floor]), np)
        self._t = float(t[0])

    def _reject(self, samples: int) -> None:
        self.rejected += samples
        if self.on_nonfinite == "raise":
            raise checks.NonfiniteError(
                f"The loss or its gradient is not finite at step {self.steps + 1} (t = {self._t:.3g}). The parameters "
                "are those before the step."
            )

    # Processes

    def _reduce(self, values: list[float], how: str = "mean") -> list[float]:
        """Return the "mean", "sum" or "minimum" of each value over the processes."""
        if self.process_group is None:
            return values
        import torch.distributed as dist

        on_gpu = "nccl" in str(dist.get_backend(self.process_group))
        device = self._parameters[0].device if on_gpu else "cpu"
        tensor = torch.tensor(values, dtype=torch.float64, device=device)
        dist.all_reduce(tensor, dist.ReduceOp.MIN if how == "minimum" else dist.ReduceOp.SUM, self.process_group)
        return [float(value) / (self.process_group.size() if how == "mean" else 1) for value in tensor]

    # State

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the base optimizer, with that of the homotopy under the key "slgh"."""
        known = self._known_scales()
        return {
            **self.base.state_dict(),
            "slgh": {
                "schedule": self._schedule_text(),
                "t": self._t,
                "leaves": [[float(value) for value in leaf] for leaf in self._leaves],
                "steps": self.steps,
                "tried": self._tried,
                "rejected": self.rejected,
                "seed": self.seed,
                "scales": [known.get(id(p)) for group in self.param_groups for p in group["params"]],
                "first_rates": list(self._first_rates),
            },
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state of `state_dict`. The arguments of the optimizer must be those of the saved one."""
        own = state_dict.get("slgh")
        if own is None:
            raise checks.ArgumentValueError(
                f"The state has no entry 'slgh': it is not one of {type(self).__name__}. Load the state of a base "
                "optimizer into `base`."
            )
        if own["schedule"] != (text := self._schedule_text()):
            raise checks.ArgumentValueError(f"The state belongs to the schedule {own['schedule']}, not to {text}.")
        self.base.load_state_dict({name: value for name, value in state_dict.items() if name != "slgh"})
        self._t, self.seed = float(own["t"]), int(own["seed"])
        self._leaves = tuple(np.array(leaf) for leaf in own["leaves"])
        self.steps, self._tried, self.rejected = int(own["steps"]), int(own["tried"]), int(own["rejected"])
        self._first_rates = list(own["first_rates"])
        every = [p for group in self.param_groups for p in group["params"]]
        saved = {id(p): scale for p, scale in zip(every, own["scales"], strict=True) if scale is not None}
        self._scales = [saved.get(id(p), scale) for p, scale in zip(self._parameters, self._scales, strict=True)]

    def _schedule_text(self) -> str:
        """Return the schedule with its parameters. Functions are all alike."""
        return "of a function" if self._part is None else repr(self._part)

    def __getstate__(self) -> dict[str, Any]:
        left = {"_noise", "process_group", "step"}  # a scheduler of the learning rate wraps `step`
        return {name: value for name, value in self.__dict__.items() if name not in left and "hook" not in name}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.process_group = _process_group("auto" if self._shares else None)
        self._noise = ParameterNoise(self._parameters)


def to_number(loss: Any) -> float:
    """Return the loss of a closure as a number."""
    return float(loss.detach() if isinstance(loss, Tensor) else loss)


def _constant_radius(schedule: str, t1: float | None, others: tuple[float | None, ...]) -> Schedule:
    """Return the schedule for `schedule="lr"`: the learning rate acts on w instead."""
    checks.choice("schedule", schedule, (FOLLOW_LR,))
    if t1 is None:
        raise checks.ArgumentTypeError("`t1`, the first smoothing radius, is missing.")
    if any(value is not None for value in others):
        raise checks.ArgumentTypeError('`schedule="lr"` determines t: pass it with `t1` alone.')
    checks.real("t1", t1, above=0)
    return Constant(t1=t1)


def _weight_scales(parameters: list[Tensor], units: str) -> list[float]:
    """Return w of each parameter in these units."""
    if units == "absolute":
        return [1.0] * len(parameters)
    squares = [float(torch.linalg.vector_norm(p.detach(), dtype=sum_type(p))) ** 2 for p in parameters]
    overall = math.sqrt(sum(squares) / max(1, sum(p.numel() for p in parameters))) or 1.0
    if not math.isfinite(overall):
        raise checks.ArgumentValueError("A parameter is not finite. Initialize the model before the optimizer.")
    if units == "model":
        return [overall] * len(parameters)
    return [math.sqrt(s / p.numel()) if s else overall for s, p in zip(squares, parameters, strict=True)]


def _process_group(given: Any) -> Any:
    """Return the process group, or None for a single process."""
    import torch.distributed as dist

    ready = dist.is_available() and dist.is_initialized()
    if isinstance(given, str):
        checks.choice("process_group", given, ("auto",))
        given = dist.group.WORLD if ready else None
    if given is None or dist.get_world_size(given) == 1:
        return None
    return given


def _agreed_seed(seed: int | None, group: Any) -> int:
    """Return the seed, or a new one, that of the first process."""
    if seed is not None:
        checks.count("seed", seed, least=0)
    seed = secrets.randbits(63) if seed is None else int(seed)
    if group is None:
        return seed
    import torch.distributed as dist

    box = [seed]
    dist.broadcast_object_list(box, src=dist.get_global_rank(group, 0), group=group)
    return box[0]
