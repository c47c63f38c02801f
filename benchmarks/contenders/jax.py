"""JAX and optax alone, jitted."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from .. import settings
from ..settings import NETWORKS, Array, Network
from ..timing import microseconds


def initial(network: Network) -> list[tuple[Any, Any]]:
    """Kernel and bias of each layer."""
    rng = np.random.default_rng(0)
    shapes: list[tuple[int, ...]] = []
    width = network.shape[-1]
    if network.has_frames:
        size = network.shape[0]
        for filters, kernel, stride in settings.CONVOLUTIONS:
            shapes.append((kernel, kernel, width, filters))
            width, size = filters, (size - kernel) // stride + 1
        width *= size * size
    for units in (*network.hidden, network.actions):
        shapes.append((width, units))
        width = units
    kernels = [rng.normal(size=shape) / np.sqrt(np.prod(shape[:-1])) for shape in shapes]
    return [(jnp.asarray(kernel, jnp.float32), jnp.zeros(kernel.shape[-1])) for kernel in kernels]


def q_values(layers: list[tuple[Any, Any]], observation: Any) -> Any:
    """[B, ...] to [B, actions]."""
    hidden = observation
    if observation.dtype == jnp.uint8:
        hidden = hidden.astype(jnp.float32) / 255
        for (kernel, bias), (_, _, stride) in zip(layers, settings.CONVOLUTIONS, strict=False):
            axes = ("NHWC", "HWIO", "NHWC")
            hidden = jax.lax.conv_general_dilated(hidden, kernel, (stride, stride), "VALID", dimension_numbers=axes)
            hidden = jax.nn.relu(hidden + bias)
        hidden, layers = hidden.reshape(len(hidden), -1), layers[len(settings.CONVOLUTIONS) :]
    for kernel, bias in layers[:-1]:
        hidden = jax.nn.relu(hidden @ kernel + bias)
    kernel, bias = layers[-1]
    return hidden @ kernel + bias


_best = jax.jit(lambda layers, observation: q_values(layers, observation).argmax(1))


def greedy(layers: list[tuple[Any, Any]], observation: Array) -> Array:
    """[B, ...] to [B]."""
    return np.asarray(_best(layers, observation))


def act(networks: Sequence[str], batches: Sequence[int], seconds: float) -> dict[str, float]:
    """Microseconds from a NumPy observation to a NumPy action."""
    found = {}
    for name in networks:
        layers = initial(NETWORKS[name])
        for batch in batches:
            observation = settings.observations(NETWORKS[name], batch)
            found[f"{name}, batch {batch}"] = microseconds(partial(greedy, layers, observation), seconds)
    return found


OPTIMIZER = optax.chain(optax.clip_by_global_norm(settings.MAX_GRADIENT_NORM), optax.adam(settings.LEARNING_RATE))


@partial(jax.jit, donate_argnums=(0, 1))
def step(online: Any, state: Any, target: Any, batch: dict[str, Any]) -> Any:
    """One update of DQN: forward, Huber loss, backward, clipping and Adam."""
    following = q_values(target, batch["next_observation"]).max(1)
    goal = batch["reward"] + settings.DISCOUNT * (1 - batch["terminated"]) * following

    def loss_of(layers: Any) -> Any:
        values = jnp.take_along_axis(q_values(layers, batch["observation"]), batch["action"][:, None], 1)[:, 0]
        return optax.huber_loss(values, goal).mean()

    loss, gradients = jax.value_and_grad(loss_of)(online)
    updates, state = OPTIMIZER.update(gradients, state)
    return optax.apply_updates(online, updates), state, loss


def update(networks: Sequence[Sequence[Any]], seconds: float) -> dict[str, float]:
    """Microseconds of an update, on one batch of NumPy arrays."""
    return {f"{name}, batch {batch}": microseconds(step_of(NETWORKS[name], batch), seconds) for name, batch in networks}


def step_of(network: Network, batch: int) -> Any:
    """One update of DQN, waited for."""
    online, target = initial(network), initial(network)
    state = OPTIMIZER.init(online)
    arrays: dict[str, Array] = settings.transitions(network, batch)

    def call() -> float:
        nonlocal online, state
        online, state, loss = step(online, state, target, arrays)
        return float(loss)

    return call
