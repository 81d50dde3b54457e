"""The optimizers for PyTorch estimate the gradient of F, restore the parameters, and behave as those of torch.optim."""

from __future__ import annotations

import copy
import io
import math
import pickle
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import libraries
import slgh
from libraries import replay_noise, table
from shard_cases import TESTS, start

pytestmark = pytest.mark.slow
pytest.importorskip("torch", reason='needs pip install "slgh[torch]"')

import torch  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402

from slgh.integrations.torch import SLGH, ZOSLGH  # noqa: E402
from slgh.integrations.torch.noise import CHUNK, ParameterNoise, noise_key  # noqa: E402
from training_cases import (  # noqa: E402
    BASES,
    SCHEDULES,
    Optimizers,
    closure_of,
    data,
    network,
    quadratic,
    weights,
)

both = pytest.mark.parametrize("name", ["SLGH", "ZOSLGH"])


def make(name: str, base: str = "SGD", schedule: str = "ratio", seed: int = 0, **options: Any) -> tuple[Any, Any]:
    """Return a network and its optimizer."""
    model = network()
    return model, Optimizers[name](BASES[base](model.parameters()), seed=seed, **SCHEDULES[schedule] | options)


def train(model: Any, optimizer: Any, steps: int) -> list[float]:
    """Do some steps, and return their losses."""
    closure = closure_of(model, optimizer)
    return [float(optimizer.step(closure)) for _ in range(steps)]


def replay(monkeypatch: pytest.MonkeyPatch, samples: int = 1) -> None:
    """Let optimizers take their noise from the table that `replay_noise` gives to `minimize`."""
    keys: list[int] = []

    def sweep(self: Any, key: int) -> Any:
        if key not in keys:
            keys.append(key)
        step, sample = divmod(keys.index(key), samples)
        d = sum(p.numel() for p in self.parameters)
        u = torch.tensor(table(0, samples, d)[step][0][sample], dtype=torch.float32)
        start = 0
        for block in self.blocks():
            block.noise.copy_(u[start : start + len(block.noise)])
            start += len(block.noise)
            yield block

    monkeypatch.setattr(ParameterNoise, "sweep", sweep)


class TestIterates:
    """Training gives the iterates of `minimize` for the same noise."""

    @pytest.mark.parametrize(
        ("method", "schedule"),
        [
            ("slgh_r", {"t1": 0.2, "gamma": 0.9}),
            ("slgh_d", {"t1": 0.2, "gamma": 0.99, "eta": 1e-3}),
            ("antithetic", {"t1": 0.2, "gamma": 0.9}),
            ("antithetic", {"t1": 0.2, "gamma": 0.99, "eta": 1e-4, "t_end": 0.01}),
        ],
    )
    @pytest.mark.parametrize("samples", [1, 3])
    def test_they_are_those_of_minimize(
        self, method: str, schedule: dict[str, Any], samples: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        inputs, targets = data()
        model = network()

        def f(x: Tensor) -> Tensor:
            a, b, c, e = x[:32].view(8, 4), x[32:40], x[40:64].view(3, 8), x[64:67]
            return (torch.tanh(inputs @ a.T + b) @ c.T + e - targets).square().mean()

        options: dict[str, Any] = {"step": 0.02, "max_iter": 30, "seed": 0, "history": 0}
        options["floor"] = schedule.get("t_end", 0.0)
        first_order = method != "antithetic"
        options["oracle"] = "sampled_gradient" if first_order else "antithetic"
        name = "slgh_d" if "eta" in schedule else "slgh_r"
        replay_noise(monkeypatch, "torch")
        monkeypatch.setattr(libraries, "table", lambda *shape: table(*shape).astype(np.float32))
        options |= {"grad": True} if first_order else {}
        options |= {argument: value for argument, value in schedule.items() if argument != "t_end"}
        result = slgh.minimize(f, weights(model), method=name, samples=samples, **options)
        replay(monkeypatch, samples)
        kind = SLGH if first_order else ZOSLGH
        base = torch.optim.SGD(model.parameters(), lr=0.02)
        optimizer = kind(base, samples=samples, units="absolute", seed=0, **schedule)
        train(model, optimizer, 30)
        assert result.nit == 30
        np.testing.assert_allclose(weights(model), result.x, atol=1e-6)
        assert optimizer.t == pytest.approx(float(result.t), rel=1e-4)


class TestEstimates:
    """Gradient and trace are unbiased."""

    @both
    @pytest.mark.parametrize("units", ["absolute", "layer"])
    def test_the_mean_step_is_the_gradient(self, name: str, units: str) -> None:
        curvatures = torch.tensor([1.0, 3.0, -2.0, 0.5], dtype=torch.float64)
        x = nn.Parameter(torch.tensor([0.5, -1.0, 2.0, 0.1], dtype=torch.float64))
        start, steps = x.detach().clone(), 4000
        gradient = curvatures * start + 1
        # g = Hx + b + t H w u for SLGH, and the slope along u times u for ZOSLGH: the values of f are quadratic.
        optimizer = Optimizers[name](torch.optim.SGD([x], lr=1.0), t1=0.1, gamma=0.9999, units=units, seed=1)
        sums, squares = torch.zeros_like(start), torch.zeros_like(start)

        def closure() -> Tensor:
            loss = quadratic(x, curvatures)
            if name == "SLGH":
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
            return loss

        for _ in range(steps):
            optimizer.step(closure)
            g = start - x.detach()
            sums += g
            squares += g * g
            x.data.copy_(start)
        mean = sums / steps
        error = ((squares / steps - mean**2) / steps).sqrt()
        assert ((mean - gradient).abs() < 4 * error + 1e-9).all()

    @both
    def test_the_derivative_schedule_follows_the_trace(self, name: str) -> None:
        curvatures = torch.tensor([1.0, 3.0, 2.0, 0.5], dtype=torch.float64)
        x = nn.Parameter(torch.ones(4, dtype=torch.float64))
        base, eta = torch.optim.SGD([x], lr=0.0), 1e-3
        optimizer = Optimizers[name](
            base, t1=1.0, eta=eta, gamma=1 - 1e-9, t_end=1e-9, units="absolute", samples=4000, seed=1
        )

        def closure() -> Tensor:
            loss = quadratic(x, curvatures)
            if name == "SLGH":
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
            return loss

        optimizer.step(closure)
        # The standard deviation is below 5 percent of the trace for this number of samples.
        assert (1.0 - optimizer.t) / eta == pytest.approx(float(curvatures.sum()), rel=0.2)

    def test_a_pair_of_passes_gives_the_step_of_the_formula(self) -> None:
        model, optimizer = make("ZOSLGH", samples=2)
        x, inputs, targets = weights(model), *data()
        scales = optimizer._widths()
        widths = torch.cat([torch.full((p.numel(),), w) for p, w in zip(model.parameters(), scales, strict=True)])
        expected = x.clone()
        for i in range(2):
            u = torch.cat(
                [block.noise.clone() for block in ParameterNoise(list(model.parameters())).sweep(noise_key(0, 1, i))]
            )
            losses = []
            for sign in (1, -1):
                nn.utils.vector_to_parameters(x + sign * 0.2 * widths * u, model.parameters())
                losses.append((model(inputs) - targets).square().mean().item())
            expected -= 0.02 / 2 * (losses[0] - losses[1]) / 0.4 * u / widths
        nn.utils.vector_to_parameters(x, model.parameters())
        train(model, optimizer, 1)
        torch.testing.assert_close(weights(model), expected, rtol=1e-5, atol=1e-6)


class TestSchedules:
    @both
    def test_total_steps_end_at_t_end(self, name: str) -> None:
        model, optimizer = make(name, t1=0.1, gamma=None, total_steps=10, t_end=1e-3)
        radii = []
        for _ in range(12):
            radii.append(optimizer.t)
            train(model, optimizer, 1)
        np.testing.assert_allclose(radii[:10], np.geomspace(0.1, 1e-3, 10))
        assert radii[10:] == pytest.approx([1e-3, 1e-3])

    @both
    def test_the_last_radius_has_a_default(self, name: str) -> None:
        model, optimizer = make(name, t1=0.1, gamma=None, total_steps=4)
        train(model, optimizer, 6)
        assert optimizer.t == pytest.approx(0.001 if name == "SLGH" else 0.03)

    @both
    def test_a_function_and_a_part_give_t(self, name: str) -> None:
        model, optimizer = make(name, "SGD", "function")
        train(model, optimizer, 3)
        assert optimizer.t == pytest.approx(0.05)
        part = slgh.schedules.PowerLaw(t1=0.3, t_power=0.5)
        optimizer = Optimizers[name](BASES["SGD"](model.parameters()), schedule=part)
        train(model, optimizer, 3)
        assert optimizer.t == pytest.approx(0.15)

    @both
    def test_the_radius_follows_the_learning_rate(self, name: str) -> None:
        model, optimizer = make(name, "SGD", "lr", units="absolute")
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        for _ in range(2):
            train(model, optimizer, 1)
            scheduler.step()
        assert optimizer._widths() == pytest.approx([0.25] * 4)
        assert optimizer.t == pytest.approx(0.05)

    @both
    def test_the_radius_is_relative_to_the_learning_rate_after_the_warm_up(self, name: str) -> None:
        base = torch.optim.SGD(network().parameters(), lr=0.02)
        warm_up = torch.optim.lr_scheduler.LambdaLR(base, lambda k: min(1.0, k / 2))
        optimizer = Optimizers[name](base, t1=0.2, schedule="lr", units="absolute")
        found = []
        for _ in range(3):
            found.append(optimizer.t)
            base.step()
            warm_up.step()
        assert found == pytest.approx([0.0, 0.1, 0.2])
        optimizer = Optimizers[name](torch.optim.SGD(network().parameters(), lr=0.0), t1=0.2, schedule="lr")
        with pytest.raises(ValueError, match="learning rate other than 0"):
            _ = optimizer.t

    @both
    @pytest.mark.parametrize("scheduler", ["StepLR", "OneCycleLR", "CosineAnnealingLR"])
    def test_schedulers_of_the_learning_rate_work(self, name: str, scheduler: str) -> None:
        options: Any = {
            "StepLR": {"step_size": 2, "gamma": 0.1},
            "OneCycleLR": {"max_lr": 0.1, "total_steps": 10},
            "CosineAnnealingLR": {"T_max": 10},
        }[scheduler]
        model, optimizer = make(name, "SGD, momentum")
        plain = torch.optim.SGD(network().parameters(), lr=0.02, momentum=0.9)
        schedulers = [getattr(torch.optim.lr_scheduler, scheduler)(each, **options) for each in (optimizer, plain)]
        for _ in range(4):
            train(model, optimizer, 1)
            plain.step()
            for each in schedulers:
                each.step()
            assert optimizer.base.param_groups[0]["lr"] == plain.param_groups[0]["lr"]
            assert optimizer.base.param_groups[0]["momentum"] == plain.param_groups[0]["momentum"]


class TestRestore:
    @both
    @pytest.mark.parametrize("restore", ["exact", "arithmetic"])
    def test_a_step_of_rate_zero_returns_to_x(self, name: str, restore: str) -> None:
        model, optimizer = make(name, restore=restore, samples=2)
        optimizer.param_groups[0]["lr"] = 0.0
        before = weights(model)
        train(model, optimizer, 3)
        if restore == "exact":
            assert torch.equal(weights(model), before)
        torch.testing.assert_close(weights(model), before, rtol=0, atol=1e-6)

    @both
    @pytest.mark.parametrize("call", [1, 2])
    def test_an_exception_leaves_the_parameters_at_x(self, name: str, call: int) -> None:
        model, optimizer = make(name, restore="exact", samples=2)
        good, calls = closure_of(model, optimizer), 0

        def closure() -> Tensor:
            nonlocal calls
            calls += 1
            if calls == call:
                raise ZeroDivisionError
            return good()

        before = weights(model)
        with pytest.raises(ZeroDivisionError):
            optimizer.step(closure)
        assert torch.equal(weights(model), before)
        assert optimizer.steps == 0
        train(model, optimizer, 1)
        assert optimizer.steps == 1

    @both
    @pytest.mark.parametrize("restore", ["exact", "arithmetic"])
    def test_ctrl_c_leaves_the_parameters_at_x(self, name: str, restore: str, monkeypatch: pytest.MonkeyPatch) -> None:
        model, optimizer = make(name, "SGD", "derivative", restore=restore, samples=2)
        optimizer.param_groups[0]["lr"] = 0.0
        before, sweep, blocks = weights(model), ParameterNoise.sweep, 0
        for stop in range(1, 12):

            def interrupted(self: Any, key: int, stop: int = stop) -> Any:
                nonlocal blocks
                for block in sweep(self, key):
                    blocks += 1
                    if blocks == stop:
                        signal.raise_signal(signal.SIGINT)
                    yield block

            blocks = 0
            monkeypatch.setattr(ParameterNoise, "sweep", interrupted)
            handler = signal.signal(signal.SIGINT, signal.default_int_handler)
            try:
                train(model, optimizer, 3)
            except KeyboardInterrupt:
                torch.testing.assert_close(weights(model), before, rtol=0, atol=1e-5)
            else:
                raise AssertionError("not interrupted")
            finally:
                signal.signal(signal.SIGINT, handler)
        monkeypatch.setattr(ParameterNoise, "sweep", sweep)
        train(model, optimizer, 1)

    @both
    def test_half_precision_is_restored_exactly_by_default(self, name: str) -> None:
        model = network()
        optimizer = Optimizers[name](torch.optim.SGD(model.parameters(), lr=0.0), **SCHEDULES["ratio"])
        assert optimizer.restore == "arithmetic"
        model.to(torch.bfloat16)
        assert optimizer.restore == "exact"
        before = weights(model)
        train(model, optimizer, 3)
        assert torch.equal(weights(model), before)

    def test_bfloat16_trains(self) -> None:
        model = network(torch.bfloat16)
        optimizer = SLGH(torch.optim.SGD(model.parameters(), lr=0.1), **SCHEDULES["ratio"], seed=0)
        losses = train(model, optimizer, 60)
        assert losses[-1] < 0.9 * losses[0]

    @pytest.mark.parametrize("base", ["SGD", "SGD, weight decay", "SGD, maximize"])
    @pytest.mark.parametrize("samples", [1, 3])
    @pytest.mark.parametrize("restore", ["exact", "arithmetic"])
    def test_the_fused_step_of_sgd_is_that_of_the_base_optimizer(self, base: str, samples: int, restore: str) -> None:
        class Other(torch.optim.SGD):
            """SGD that is not recognized as such."""

        found = []
        for fused in (True, False):
            model = network()
            inner = BASES[base](model.parameters())
            if not fused:
                inner.__class__ = Other
            train(model, ZOSLGH(inner, **SCHEDULES["ratio"], samples=samples, seed=0, restore=restore), 5)
            found.append(weights(model))
        torch.testing.assert_close(*found, rtol=1e-5, atol=1e-6)
        assert not torch.equal(found[0], weights(network()))


class TestState:
    @both
    @pytest.mark.parametrize("base", BASES)
    @pytest.mark.parametrize("schedule", SCHEDULES)
    def test_a_saved_run_continues_bit_for_bit(self, name: str, base: str, schedule: str) -> None:
        model, optimizer = make(name, base, schedule)
        train(model, optimizer, 3)
        file = io.BytesIO()
        torch.save([model.state_dict(), optimizer.state_dict()], file)
        expected = train(model, optimizer, 3)
        other, restored = make(name, base, schedule, seed=7)
        saved = torch.load(io.BytesIO(file.getvalue()), weights_only=True)
        other.load_state_dict(saved[0])
        restored.load_state_dict(saved[1])
        assert train(other, restored, 3) == expected
        assert torch.equal(weights(other), weights(model))
        assert (restored.t, restored.steps) == (optimizer.t, optimizer.steps)

    @both
    @pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda both: pickle.loads(pickle.dumps(both))])
    def test_a_copy_with_its_model_continues(self, name: str, duplicate: Callable[[Any], Any]) -> None:
        model, optimizer = make(name, "Adam")
        torch.optim.lr_scheduler.StepLR(optimizer, 1)
        train(model, optimizer, 2)
        other, copied = duplicate((model, optimizer))
        assert train(other, copied, 3) == train(model, optimizer, 3)
        assert copied.param_groups is copied.base.param_groups

    @both
    def test_foreign_states_are_errors(self, name: str) -> None:
        model, optimizer = make(name)
        with pytest.raises(ValueError, match="no entry 'slgh'"):
            optimizer.load_state_dict(optimizer.base.state_dict())
        _, other = make(name, "SGD", "budget")
        with pytest.raises(ValueError, match="belongs to the schedule Budget"):
            optimizer.load_state_dict(other.state_dict())
        assert len(list(model.parameters())) == 4

    @both
    def test_the_seed_is_drawn_and_saved(self, name: str) -> None:
        model = network()
        first, second = (Optimizers[name](BASES["SGD"](model.parameters()), **SCHEDULES["ratio"]) for _ in range(2))
        assert first.seed != second.seed
        second.load_state_dict(first.state_dict())
        assert first.seed == second.seed


class TestGroups:
    @both
    @pytest.mark.parametrize("base", ["SGD", "Adam"])
    def test_frozen_parameters_and_a_group_of_scale_zero_get_no_noise(self, name: str, base: str) -> None:
        model = network()
        model[0].weight.requires_grad_(False)
        groups = [{"params": model[0].parameters()}, {"params": model[2].parameters(), "t_scale": 0.0}]
        optimizer = Optimizers[name](BASES[base](groups), **SCHEDULES["derivative"], seed=0)
        seen = []
        closure = closure_of(model, optimizer)

        def watch() -> Tensor:
            seen.append(torch.cat([model[0].weight.flatten(), model[2].weight.flatten()]).detach().clone())
            return closure()

        frozen = model[0].weight.clone()
        before = model[2].weight.detach().clone()
        optimizer.step(watch)
        assert all(torch.equal(seen[0], each) for each in seen)
        assert torch.equal(model[0].weight, frozen)
        assert torch.equal(model[2].weight, before) == (name == "ZOSLGH")

    @both
    def test_parameters_can_be_frozen_and_unfrozen(self, name: str) -> None:
        model, optimizer = make(name, "Adam", samples=2)
        for frozen in (True, False):
            model[0].weight.requires_grad_(not frozen)
            before = model[0].weight.detach().clone()
            train(model, optimizer, 1)
            assert torch.equal(model[0].weight, before) == frozen

    @both
    def test_a_state_can_be_loaded_into_the_base_optimizer(self, name: str) -> None:
        model, optimizer = make(name, "Adam")
        train(model, optimizer, 1)
        optimizer.base.load_state_dict(optimizer.base.state_dict())
        torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
        assert optimizer.param_groups is optimizer.base.param_groups
        assert len(optimizer.state_dict()["state"]) == 4
        train(model, optimizer, 1)

    @both
    def test_a_group_can_be_added(self, name: str) -> None:
        model = network()
        optimizer = Optimizers[name](BASES["Adam"](model[0].parameters()), **SCHEDULES["ratio"], seed=0)
        train(model, optimizer, 1)
        before = model[2].weight.detach().clone()
        optimizer.add_param_group({"params": list(model[2].parameters()), "lr": 0.5})
        train(model, optimizer, 1)
        assert len(optimizer.base.param_groups) == 2
        assert not torch.equal(model[2].weight, before)

    @pytest.mark.parametrize(
        ("units", "widths"), [("layer", [3, math.sqrt(4.5)]), ("model", [math.sqrt(4.5)] * 2), ("absolute", [1, 1])]
    )
    @both
    def test_scales_are_root_mean_squares(self, name: str, units: str, widths: list[float]) -> None:
        x, zeros = nn.Parameter(torch.tensor([3.0, -3.0])), nn.Parameter(torch.zeros(2))
        optimizer = Optimizers[name](torch.optim.SGD([x, zeros], lr=0.1), t1=0.1, gamma=0.9, units=units)
        assert optimizer._widths() == pytest.approx(widths)


class TestBadValues:
    @both
    @pytest.mark.parametrize("base", ["SGD", "Adam"])
    @pytest.mark.parametrize("bad", [math.nan, math.inf])
    def test_a_step_without_a_finite_loss_changes_nothing(self, name: str, base: str, bad: float) -> None:
        model, optimizer = make(name, base, restore="exact", samples=2)
        closure = closure_of(model, optimizer)
        before = weights(model)
        assert math.isnan(float(optimizer.step(lambda: closure() * bad)))
        assert torch.equal(weights(model), before)
        assert (optimizer.steps, optimizer.t, optimizer.rejected) == (0, 0.2, 2)
        train(model, optimizer, 1)
        assert optimizer.steps == 1

    def test_a_gradient_that_is_not_finite_changes_nothing(self) -> None:
        model, optimizer = make("SLGH", "Adam", restore="exact")
        closure, before = closure_of(model, optimizer), weights(model)

        def bad() -> Tensor:
            loss = closure()
            model[0].bias.grad[0] = math.inf
            return loss

        assert math.isnan(float(optimizer.step(bad)))
        assert torch.equal(weights(model), before)
        assert optimizer.rejected == 1

    @both
    def test_raise_raises(self, name: str) -> None:
        model, optimizer = make(name, restore="exact", on_nonfinite="raise")
        before = weights(model)
        with pytest.raises(FloatingPointError, match=r"not finite at step 1 \(t = 0.2\)"):
            optimizer.step(lambda: torch.tensor(math.nan))
        assert torch.equal(weights(model), before)

    @both
    def test_other_samples_count(self, name: str) -> None:
        model, optimizer = make(name, samples=3)
        closure, calls = closure_of(model, optimizer), 0

        def sometimes() -> Tensor:
            nonlocal calls
            calls += 1
            return closure() * (math.nan if calls == 1 else 1.0)

        assert math.isfinite(float(optimizer.step(sometimes)))
        assert (optimizer.rejected, optimizer.steps) == (1, 1)
        assert torch.isfinite(weights(model)).all()

    @pytest.mark.parametrize("name", ["SLGH", "ZOSLGH"])
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({}, "`t1`, the first smoothing radius, is missing"),
            ({"t1": 0.1}, "How t falls is not given"),
            ({"t1": 0.0, "gamma": 0.9}, "`t1` must"),
            ({"t1": 0.1, "gamma": 1.5}, "`gamma` must"),
            ({"t1": 0.1, "total_steps": 10, "gamma": 0.9}, "pass it without `gamma`"),
            ({"t1": 0.1, "total_steps": 0}, "`total_steps` must"),
            ({"t1": 0.1, "total_steps": 10, "t_end": 0.2}, "`t_end` must not exceed `t1`"),
            ({"t1": 0.1, "gamma": 0.9, "schedule": "lr"}, "pass it with `t1` alone"),
            ({"schedule": "lr"}, "`t1`, the first"),
            ({"t1": 0.1, "schedule": "cosine"}, "`schedule` must"),
            ({"schedule": 3.0}, "`schedule` must be a schedule"),
            ({"t1": 0.1, "schedule": slgh.schedules.Ratio(t1=0.1)}, "pass it without `t1`"),
            ({"schedule": slgh.schedules.Budget(t1=0.1)}, "needs `iterations`"),
            ({"t1": 0.1, "gamma": 0.9, "samples": 0}, "`samples` must"),
            ({"t1": 0.1, "gamma": 0.9, "units": "weights"}, "`units` must"),
            ({"t1": 0.1, "gamma": 0.9, "restore": "no"}, "`restore` must"),
            ({"t1": 0.1, "gamma": 0.9, "on_nonfinite": "no"}, "`on_nonfinite` must"),
            ({"t1": 0.1, "gamma": 0.9, "seed": -1}, "`seed` must"),
            ({"t1": 0.1, "eta": 0.1, "t_end": -1.0}, "`t_end` must"),
        ],
    )
    def test_bad_arguments_are_errors(self, name: str, options: dict[str, Any], message: str) -> None:
        base = BASES["SGD"](network().parameters())
        with pytest.raises((TypeError, ValueError), match=message):
            Optimizers[name](base, **options)

    @both
    def test_bad_parameters_are_errors(self, name: str) -> None:
        with pytest.raises(TypeError, match="must be an optimizer of PyTorch"):
            Optimizers[name](network().parameters(), t1=0.1, gamma=0.9)
        for base in (torch.optim.LBFGS(network().parameters()), make(name)[1]):
            with pytest.raises(TypeError, match=r"`base` must not be (LBFGS|SLGH|ZOSLGH)"):
                Optimizers[name](base, t1=0.1, gamma=0.9)
        complex_ones = nn.Parameter(torch.ones(2, dtype=torch.complex64))
        with pytest.raises(TypeError, match="real floating-point"):
            Optimizers[name](BASES["SGD"]([complex_ones]), t1=0.1, gamma=0.9)
        with pytest.raises(ValueError, match="not finite"):
            Optimizers[name](BASES["SGD"]([nn.Parameter(torch.tensor([math.nan]))]), t1=0.1, gamma=0.9)
        with pytest.raises(ValueError, match="no parameter that requires"):
            Optimizers[name](BASES["SGD"]([torch.ones(2)]), t1=0.1, gamma=0.9)

    def test_misuse_is_an_error(self) -> None:
        model, optimizer = make("SLGH")
        with pytest.raises(RuntimeError, match="no gradient of the smoothed loss"):
            optimizer.step()
        with optimizer.perturbed(), pytest.raises(RuntimeError, match="already active"), optimizer.perturbed():
            pass
        with pytest.raises(RuntimeError, match="not both"):
            train(model, optimizer, 1)
        with optimizer.perturbed(), pytest.raises(RuntimeError, match="Leave `perturbed`"):
            optimizer.step()
        with pytest.raises(ValueError, match="`t_end` must not exceed"):
            SLGH(optimizer.base, schedule=slgh.schedules.Ratio(t1=0.1), t_end=0.5)
        _, zeroth = make("ZOSLGH")
        with pytest.raises(TypeError, match="`closure` is missing"):
            zeroth.step()
        with pytest.raises(ValueError, match="`t_end` must be above 0 with `eta`"):
            ZOSLGH(zeroth.base, t1=0.1, eta=0.1)
        zeroth = ZOSLGH(zeroth.base, schedule=lambda step: 0.0)
        with pytest.raises(ValueError, match="t must be positive"):
            zeroth.step(lambda: 0.0)


class TestLoops:
    """Training loops without a closure, with mixed precision, and with random layers."""

    @pytest.mark.parametrize("schedule", ["ratio", "derivative"])
    @pytest.mark.parametrize("samples", [1, 3])
    def test_perturbed_does_what_a_closure_does(self, schedule: str, samples: int) -> None:
        model, optimizer = make("SLGH", "Adam", schedule, samples=samples)
        train(model, optimizer, 4)
        other, looped = make("SLGH", "Adam", schedule)
        inputs, targets = data()
        for _ in range(4):
            looped.zero_grad()
            for _ in range(samples):
                with looped.perturbed():
                    ((other(inputs) - targets).square().mean() / samples).backward()
            looped.step()
        torch.testing.assert_close(weights(other), weights(model), rtol=1e-5, atol=1e-6)
        assert looped.t == pytest.approx(optimizer.t, rel=1e-5)

    def test_gradients_accumulate(self) -> None:
        model, optimizer = make("SLGH", "SGD")
        inputs, targets = data()
        x = torch.cat([p.detach().flatten() for p in model.parameters()])
        halves = [slice(0, 8), slice(8, 16)]

        def loss(part: slice) -> Tensor:
            half: Tensor = (model(inputs[part]) - targets[part]).square().mean() / 2
            return half

        loss(halves[0]).backward()  # type: ignore[no-untyped-call]
        first = torch.cat([p.grad.flatten() for p in model.parameters()])

        def closure() -> Tensor:
            second: Tensor = loss(halves[1])
            second.backward()  # type: ignore[no-untyped-call]
            return second

        optimizer.step(closure)
        total = (x - weights(model)) / 0.02
        assert float((total - first).norm()) > 0.1 * float(first.norm())
        optimizer.zero_grad()
        other, alone = make("SLGH", "SGD")

        def alone_closure() -> Tensor:
            second: Tensor = (other(inputs[halves[1]]) - targets[halves[1]]).square().mean() / 2
            second.backward()  # type: ignore[no-untyped-call]
            return second

        alone.step(alone_closure)
        torch.testing.assert_close(total, first + (x - weights(other)) / 0.02, rtol=1e-3, atol=1e-4)

    def test_zero_grad_inside_forgets_old_gradients(self) -> None:
        radii = []
        for before in (0.0, 100.0):
            model, optimizer = make("SLGH", "SGD", "derivative")
            for p in model.parameters():
                p.grad = torch.full_like(p, before)
            train(model, optimizer, 1)
            radii.append(optimizer.t)
        assert radii[0] == radii[1]

    def test_a_gradient_scaler_works(self) -> None:
        model, optimizer = make("SLGH", "Adam", "derivative")
        plain, expected = make("SLGH", "Adam", "derivative")
        inputs, targets = data()
        scaler = torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=1)
        for _ in range(3):
            optimizer.zero_grad()
            with optimizer.perturbed(loss_scale=scaler.get_scale()):
                scaler.scale((model(inputs) - targets).square().mean()).backward()
            scaler.step(optimizer)
            scaler.update()
        train(plain, expected, 3)
        torch.testing.assert_close(weights(model), weights(plain), rtol=1e-5, atol=1e-6)
        assert optimizer.t == pytest.approx(expected.t, rel=1e-5)

    @both
    def test_autocast_works(self, name: str) -> None:
        model, optimizer = make(name, "Adam")
        closure = closure_of(model, optimizer)

        def mixed() -> Tensor:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return closure()

        losses = [optimizer.step(mixed) for _ in range(30)]
        assert losses[-1] < losses[0]

    def test_both_passes_of_a_pair_drop_the_same_units(self) -> None:
        x = nn.Parameter(torch.zeros(50))
        masks = []

        def closure() -> Tensor:
            masks.append(torch.nn.functional.dropout(torch.ones(50)))
            return (masks[-1] * x).sum()

        optimizer = ZOSLGH(torch.optim.SGD([x], lr=0.01), t1=0.1, eta=1e-9, t_end=0.01, seed=0)
        for _ in range(2):
            optimizer.step(closure)
        assert torch.equal(masks[0], masks[1])
        assert torch.equal(masks[0], masks[2])
        assert not torch.equal(masks[0], masks[3])

    def test_a_forgotten_sample_does_not_count(self) -> None:
        model, optimizer = make("SLGH", "SGD", "derivative")
        inputs, targets = data()
        for skipped in (True, False):  # as a gradient scaler skips a step
            optimizer.zero_grad()
            with optimizer.perturbed():
                (model(inputs) - targets).square().mean().backward()
            if not skipped:
                optimizer.step()
        assert optimizer.steps == 1
        assert optimizer._entered == 0


class TestNoise:
    def test_it_is_normal_and_repeats(self) -> None:
        parameters = [nn.Parameter(torch.zeros(300, 400)), nn.Parameter(torch.zeros(7)), nn.Parameter(torch.zeros(()))]
        noise = ParameterNoise(parameters)

        def vector(key: int) -> Tensor:
            return torch.cat([block.noise.clone() for block in noise.sweep(key)])

        u = vector(5)
        assert torch.equal(u, vector(5))
        n = len(u)
        assert n == 120_008
        assert abs(float(u.mean())) < 4 / math.sqrt(n)
        assert abs(float(u.square().mean()) - 1) < 4 * math.sqrt(2 / n)
        assert abs(float((u * vector(6)).mean())) < 4 / math.sqrt(n)
        assert len({noise_key(*k) for k in [(0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0), (0, 0, 0, 1)]}) == 5

    @pytest.mark.parametrize("layout", ["contiguous", "transposed", "channels last", "strided", "scalar", "empty"])
    def test_every_layout_gets_the_same_kind_of_noise(self, layout: str) -> None:
        x = {
            "contiguous": torch.zeros(2, 3, 4, 5),
            "transposed": torch.zeros(4, 6).T,
            "channels last": torch.zeros(2, 3, 4, 5).to(memory_format=torch.channels_last),
            "strided": torch.zeros(6, 8)[:, ::2],
            "scalar": torch.zeros(()),
            "empty": torch.zeros(0, 3),
        }[layout]
        p = nn.Parameter(x)
        noise = ParameterNoise([p, nn.Parameter(torch.zeros(3))])
        noise.add(1, [2.0, 1.0])
        assert len(set(p.detach().flatten().tolist())) == p.numel()
        with torch.no_grad():
            p.mul_(0.5)
        total = noise.dot(1, [p.detach().clone(), None], [1.0, 1.0])
        assert total == pytest.approx(float(p.detach().square().sum()), rel=1e-5)
        noise.add(1, [-1.0, -1.0])
        torch.testing.assert_close(p.detach(), torch.zeros_like(p), rtol=0, atol=1e-6)

    def test_large_parameters_are_cut_and_small_ones_joined(self) -> None:
        parameters = [nn.Parameter(torch.zeros(2 * CHUNK + 5)), *(nn.Parameter(torch.zeros(3)) for _ in range(4))]
        blocks = ParameterNoise(parameters).blocks()
        assert [len(block.noise) for block in blocks] == [CHUNK, CHUNK, 5 + 12]
        mixed = [nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(3, dtype=torch.bfloat16))]
        assert len(ParameterNoise(mixed).blocks()) == 2

    def test_moved_parameters_are_followed(self) -> None:
        p = nn.Parameter(torch.zeros(3))
        noise = ParameterNoise([p])
        noise.add(1, [1.0])
        old, p.data = p.data, torch.zeros(3)
        noise.add(1, [1.0])
        assert torch.equal(p.data, old)


class LargestTensor(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records the size of the largest new tensor, views excluded."""

    size = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        given = {t.untyped_storage().data_ptr() for t in tree_leaves(args) if isinstance(t, Tensor)}
        for t in tree_leaves(out):
            if isinstance(t, Tensor) and t.untyped_storage().data_ptr() not in given:
                self.size = max(self.size, t.numel())
        return out


@pytest.mark.parametrize("restore", ["arithmetic", "exact"])
def test_a_step_makes_no_large_tensor(restore: str) -> None:
    """With plain descent, only noise of CHUNK elements, and the copies of `exact`."""
    model = nn.Sequential(nn.Linear(2000, 2000, bias=False), nn.Linear(2000, 10))
    optimizer = ZOSLGH(torch.optim.SGD(model.parameters(), lr=1e-3), t1=0.01, gamma=0.9, restore=restore, samples=2)
    inputs = torch.randn(2, 2000)
    with LargestTensor() as largest:  # type: ignore[no-untyped-call]
        optimizer.step(lambda: model(inputs).square().mean())
    assert largest.size == (CHUNK if restore == "arithmetic" else 2000 * 2000)
    assert all(p.grad is None for p in model.parameters())


def test_processes_of_torchrun_train_one_network(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    printed = start(*command, str(TESTS / "training_rank_case.py"), cwd=tmp_path, OMP_NUM_THREADS="1")
    assert all(f"rank {rank} is done" in printed for rank in (0, 1))


def peak_memory(step: Callable[[], object]) -> float:
    """Return the peak of CUDA memory during a step, after one that fills the caches."""
    step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    step()
    torch.cuda.synchronize()
    return float(torch.cuda.max_memory_allocated())


@pytest.mark.cuda
@pytest.mark.parametrize("width", [1_000, 3_162])
def test_peak_memory_on_cuda_is_that_of_inference(width: int) -> None:
    model = nn.Sequential(*(nn.Linear(width, width) for _ in range(10))).cuda()
    inputs = torch.randn(16, width, device="cuda")
    parameters = 4 * sum(p.numel() for p in model.parameters())

    def forward() -> Tensor:
        with torch.no_grad():
            loss: Tensor = model(inputs).square().mean()
            return loss

    inference = peak_memory(forward)
    for restore, most in {"arithmetic": 1.1 * inference, "exact": 1.1 * inference + parameters}.items():
        base = torch.optim.SGD(model.parameters(), lr=1e-3)
        optimizer = ZOSLGH(base, t1=1e-3, total_steps=100, restore=restore)
        assert peak_memory(partial(optimizer.step, forward)) <= most


@pytest.mark.cuda
@both
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_cuda_trains_and_resumes(name: str, dtype: str) -> None:
    found = []
    for stop in (6, 3):
        model = network(getattr(torch, dtype)).cuda()
        optimizer = Optimizers[name](BASES["Adam"](model.parameters()), **SCHEDULES["derivative"], seed=0)
        train(model, optimizer, stop)
        if stop < 6:
            saved = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
            model = network(getattr(torch, dtype)).cuda()
            optimizer = Optimizers[name](BASES["Adam"](model.parameters()), **SCHEDULES["derivative"], seed=1)
            model.load_state_dict(saved[0])
            optimizer.load_state_dict(saved[1])
            train(model, optimizer, 3)
        found.append(weights(model))
    assert torch.equal(*found)
    assert torch.isfinite(found[0]).all()
