"""Script with 8 virtual devices of JAX: a sharded batch stays sharded, and has the bits of one device."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import slgh
from cases import assert_same, starts
from slgh.backends.jax.loop import WhileLoop

MESH = Mesh(np.array(jax.devices()), ("batch",))
DIVIDED: Any = NamedSharding(MESH, P("batch"))  # type: ignore[no-untyped-call]
ZEROTH: dict[str, Any] = {"t1": 0.5, "step": 0.02, "samples": 3, "max_iter": 40}
OPTIONS: list[dict[str, Any]] = [
    {"method": "zoslgh_r", **ZEROTH},
    {"method": "zosvrg", "period": 5, "sample_xi": 5, **ZEROTH},
    {"max_evals": 200, "target": -0.5, "history": "x"},
    {"max_evals": 100, "compiled": False},
]


def rugged(x: Any, *extra: Any) -> Any:
    """A rugged bowl, with data or xi."""
    return (x**2 + 0.3 * jnp.sin(3 * x)).sum(-1) + sum(0.1 * one for one in extra)


def constrained(x: Any, *extra: Any) -> Any:
    """The same with a constraint on the sharding of the points."""
    lax: Any = jax.lax
    return rugged(lax.with_sharding_constraint(x, DIVIDED), *extra)


def is_divided(array: Any) -> bool:
    """Return True if every device has an eighth of the array."""
    return len(array.sharding.device_set) == 8 and {s.data.size * 8 for s in array.addressable_shards} == {array.size}


def check_loops() -> list[int]:
    """Check every state and all noise that the compiled loop returns from now on."""
    checked: list[int] = []
    advance = WhileLoop.advance

    def checking(self: WhileLoop, *args: Any) -> Any:
        after, *rest = advance(self, *args)
        if self.key.shape[0] % 8 == 0 and len(self.key.sharding.device_set) == 8:
            for leaf in jax.tree.leaves((after, self.key, self.drawn, self.inputs.data)):
                assert is_divided(leaf), (leaf.shape, leaf.sharding)
                checked.append(leaf.size)
        return after, *rest

    WhileLoop.advance = checking  # type: ignore[method-assign,assignment]
    return checked


def main() -> None:
    """Compare sharded runs with runs on one device."""
    assert len(jax.devices()) == 8
    checked, x0 = check_loops(), jnp.asarray(starts(16))
    common: dict[str, Any] = {"batched": True, "vectorized": True, "seed": 1}
    for options in OPTIONS:
        alone = slgh.minimize(rugged, x0, **common, **options)
        for fun in (rugged, constrained):
            if fun is constrained and "compiled" in options:
                continue  # problems that have ended leave the batch, and the others cannot be divided evenly
            checked.clear()
            found = slgh.minimize(fun, jax.device_put(x0, DIVIDED), **common, **options)
            assert_same(found, alone)
            assert found.x.sharding == DIVIDED
            assert is_divided(found.fun)
            assert found.engine == alone.engine
            assert bool(checked) == ("compiled" not in options)
    given = {**common, "data": jnp.linspace(0, 1, 16)[:, None], "method": "zoslgh_r", **ZEROTH}
    assert_same(slgh.minimize(shifted, jax.device_put(x0, DIVIDED), **given), slgh.minimize(shifted, x0, **given))
    # A function of one point is mapped over the problems, and a mesh of jax.make_mesh has explicit axes.
    sharding = NamedSharding(jax.make_mesh((8,), ("batch",)), P("batch"))  # type: ignore[no-untyped-call]
    found = slgh.minimize(rugged, jax.device_put(x0, sharding), batched=True, seed=1, method="zoslgh_r", **ZEROTH)
    assert found.x.sharding == sharding
    assert_same(found, slgh.minimize(rugged, x0, batched=True, seed=1, method="zoslgh_r", **ZEROTH))
    # JAX itself does not divide 12 problems among 8 devices. Sharded along the variables, x0 goes to one device.
    try:
        jax.device_put(jnp.asarray(starts(12)), DIVIDED)
        raise AssertionError("JAX divides unevenly now, and slgh could, too")
    except ValueError:
        pass
    wide = jax.device_put(jnp.ones((3, 8)), NamedSharding(MESH, P(None, "batch")))  # type: ignore[no-untyped-call]
    assert len(slgh.minimize(rugged, wide, **common, max_evals=100).x.sharding.device_set) == 1
    print(len(jax.devices()), "devices")


def shifted(x: Any, a: Any) -> Any:
    """A function with data, (B, 1, 1) for points (B, n, d)."""
    return ((x - a) ** 2).sum(-1)


if __name__ == "__main__":
    main()
