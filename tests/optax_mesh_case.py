"""Script with 8 virtual devices of JAX: sharded parameters stay sharded, and get the updates of unsharded ones."""

from __future__ import annotations

from contextlib import nullcontext
from importlib import import_module
from typing import Any

import numpy as np

from slgh.integrations.optax import slgh, zoslgh

# mypy takes some functions of JAX for untyped ones.
jax: Any = import_module("jax")
jnp: Any = import_module("jax.numpy")
optax: Any = import_module("optax")
Mesh, NamedSharding, P = jax.sharding.Mesh, jax.sharding.NamedSharding, jax.sharding.PartitionSpec

SETTINGS: dict[str, Any] = {"t1": 0.2, "t_end": 0.05, "eta": 1e-3, "samples": 3, "seed": 5}


def loss(params: Any, batch: Any) -> Any:
    """Return the loss of a network with one hidden layer."""
    inputs, targets = batch
    hidden = jnp.tanh(inputs @ params["inner"] + params["bias"])
    return jnp.mean(((hidden * params["outer"]).sum(-1) - targets) ** 2)


def problem() -> tuple[Any, Any]:
    """Return the parameters and the data."""
    rng = np.random.default_rng(0)
    shapes = {"inner": (4, 16), "bias": (16,), "outer": (16,)}
    params = {name: jnp.asarray(rng.normal(size=shape)) for name, shape in shapes.items()}
    return params, (jnp.asarray(rng.normal(size=(32, 4))), jnp.asarray(rng.normal(size=32)))


def train(kind: Any, params: Any, batch: Any, mean: Any = lambda each: each) -> tuple[Any, Any]:
    """Return the parameters and the state after 6 updates in one compiled loop."""
    optimizer = kind(optax.adam(0.01), **SETTINGS)

    def body(carry: Any, _: Any) -> tuple[Any, None]:
        params, state = carry
        of = {"value_fn": lambda point: mean(loss(point, batch))}
        if kind is slgh:
            of = {"grad_fn": lambda point: jax.grad(lambda each: mean(loss(each, batch)))(point)}
        updates, state = optimizer.update(None, state, params, **of)
        return (optax.apply_updates(params, updates), state), None

    state = optimizer.init(params)
    found: tuple[Any, Any] = jax.lax.scan(body, (params, state), None, length=6)[0]
    return found


def assert_close(found: Any, expected: Any) -> None:
    """Assert that two trees agree up to the order of sums."""
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-10, atol=1e-12)


def main() -> None:
    """Compare sharded training with training on one device."""
    assert len(jax.devices()) == 8
    params, batch = problem()
    layout = {"inner": P(None, "model"), "bias": P("model"), "outer": P("model")}
    meshes: list[Any] = [Mesh(np.array(jax.devices()), ("model",)), jax.make_mesh((8,), ("model",))]
    for kind in (slgh, zoslgh):
        expected = jax.jit(train, static_argnums=0)(kind, params, batch)
        # Parameters divided among the devices by jit, on meshes with automatic and with explicit axes.
        for mesh in meshes:
            divided = {name: jax.device_put(leaf, NamedSharding(mesh, layout[name])) for name, leaf in params.items()}
            with jax.set_mesh(mesh) if mesh is meshes[1] else nullcontext():
                found = jax.jit(train, static_argnums=0)(kind, divided, jax.device_put(batch, NamedSharding(mesh, P())))
            assert_close(found, expected)
            moments = found[1].base[0].mu
            for tree in (found[0], moments):
                for name, leaf in tree.items():
                    assert leaf.sharding.is_equivalent_to(NamedSharding(mesh, layout[name]), leaf.ndim), (
                        kind,
                        name,
                        leaf,
                    )
        # Data divided among the devices, in shard_map.
        mesh = Mesh(np.array(jax.devices()), ("data",))
        mapped = jax.shard_map(
            lambda params, batch, kind=kind: train(kind, params, batch, lambda each: jax.lax.pmean(each, "data")),
            mesh=mesh,
            in_specs=(P(), P("data")),
            out_specs=P(),
        )
        assert_close(jax.jit(mapped)(params, batch), expected)
    print(len(jax.devices()), "devices")


if __name__ == "__main__":
    main()
