"""torch alone, without a library around it.

Convolutions are timed in both of torch's memory formats, and the faster one counts. Each gets frames in its own order
of axes, so that nobody pays for transposing them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import torch
from torch import nn

from .. import settings
from ..products import matrices_of
from ..settings import NETWORKS, Array, Network
from ..timing import microseconds

torch.set_num_threads(settings.threads())

FORMATS: Final = {False: (torch.contiguous_format,), True: (torch.contiguous_format, torch.channels_last)}
"""Memory formats to try, by whether a network has frames."""


def q_network(network: Network, memory_format: Any) -> Any:
    """``nn.Sequential``, float32 [B, ...] to [B, actions]."""
    layers: list[Any] = []
    width = network.shape[-1]
    if network.has_frames:
        size = network.shape[0]
        for filters, kernel, stride in settings.CONVOLUTIONS:
            layers += [nn.Conv2d(width, filters, kernel, stride), nn.ReLU()]
            width, size = filters, (size - kernel) // stride + 1
        layers.append(nn.Flatten())
        width *= size * size
    for units in network.hidden:
        layers += [nn.Linear(width, units), nn.ReLU()]
        width = units
    return nn.Sequential(*layers, nn.Linear(width, network.actions)).to(memory_format=memory_format)


def numbers(observation: Array) -> Any:
    """Perceptrons' observations as a float32 tensor."""
    return torch.from_numpy(observation)


def frames(observation: Array) -> Any:
    """Frames [B, channels, height, width] as floats in 0 .. 1."""
    return torch.from_numpy(observation).float().div_(255)


def frames_last(observation: Array) -> Any:
    """Frames [B, height, width, channels] as floats in 0 .. 1 [B, channels, height, width]; memory stays as it is."""
    return torch.from_numpy(observation).permute(0, 3, 1, 2).float().div_(255)


def tensor_maker(network: Network, memory_format: Any) -> Callable[[Array], Any]:
    """A function that makes a tensor of observations, with the axes in the order of :func:`arranged`."""
    if not network.has_frames:
        return numbers
    return frames_last if memory_format is torch.channels_last else frames


def arranged(network: Network, memory_format: Any, observation: Array) -> Array:
    """Frames in the order of axes in which this format has them in memory."""
    if network.has_frames and memory_format is torch.contiguous_format:
        return np.ascontiguousarray(observation.transpose(0, 3, 1, 2))
    return observation


def act(networks: Sequence[str], batches: Sequence[int], seconds: float) -> dict[str, float]:
    """Microseconds from a NumPy observation to a NumPy action, in inference mode."""
    cases = [(name, batch) for name in networks for batch in batches]
    with torch.inference_mode():
        return {f"{name}, batch {batch}": fastest(actor_of, NETWORKS[name], batch, seconds) for name, batch in cases}


def update(networks: Sequence[Sequence[Any]], seconds: float) -> dict[str, float]:
    """Microseconds of forward, Huber loss, backward, clipping and Adam, on one batch of NumPy arrays."""
    return {f"{name}, batch {batch}": fastest(step_of, NETWORKS[name], batch, seconds) for name, batch in networks}


def products(hidden: Sequence[int], batch: int, seconds: float) -> dict[str, float]:
    """Microseconds of all matrix products of one update of SAC, one after the other, with torch's library."""
    ready = [tuple(map(torch.from_numpy, matrices)) for matrices in matrices_of(hidden, batch)]

    def multiply() -> None:
        for a, b, out in ready:
            torch.mm(a, b, out=out)

    with torch.inference_mode():
        return {"one update": microseconds(multiply, seconds)}


def fastest(make: Callable[..., Any], network: Network, batch: int, seconds: float) -> float:
    """Microseconds in the faster memory format."""
    return min(microseconds(make(network, batch, format), seconds) for format in FORMATS[network.has_frames])


def actor_of(network: Network, batch: int, memory_format: Any) -> Any:
    """NumPy observation to NumPy action."""
    q_values, tensor = q_network(network, memory_format), tensor_maker(network, memory_format)

    def act(observation: Array) -> Any:
        return q_values(tensor(observation)).argmax(1).numpy()

    return partial(act, arranged(network, memory_format, settings.observations(network, batch)))


def step_of(network: Network, batch: int, memory_format: Any) -> Any:
    """One update of DQN."""
    online, observations = q_network(network, memory_format), tensor_maker(network, memory_format)
    target = copy.deepcopy(online)
    parameters = list(online.parameters())
    optimizer = torch.optim.Adam(parameters, settings.LEARNING_RATE, fused=True)  # the fastest of its kinds
    arrays = settings.transitions(network, batch)
    for key in ("observation", "next_observation"):
        arrays[key] = arranged(network, memory_format, arrays[key])

    def step() -> Any:
        action, reward, terminated = (torch.from_numpy(arrays[key]) for key in ("action", "reward", "terminated"))
        with torch.no_grad():
            following = target(observations(arrays["next_observation"])).amax(1)
            goal = reward + settings.DISCOUNT * (1 - terminated) * following
        values = online(observations(arrays["observation"])).gather(1, action[:, None])[:, 0]
        loss = nn.functional.smooth_l1_loss(values, goal)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, settings.MAX_GRADIENT_NORM)
        optimizer.step()
        return loss.item()

    return step
