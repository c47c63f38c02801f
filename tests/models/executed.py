"""A model_fn as an executor runs it, with its weights by their names."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from axonrl import RunConfig
from axonrl.core.protocols import ArraySpec
from axonrl.environments.spaces import observation_spec
from axonrl.policies.executors import Executor
from axonrl.run_dir.programs import shared_content
from axonrl.runtimes.executor_choice import choose
from axonrl.runtimes.tracing.program import Program, Train
from axonrl.runtimes.tracing.signature import BoundModelFn

LINEAR: dict[str, Any] = {"hidden": (), "optimizer": "sgd", "learning_rate": 0.1}
"""Of networks that are one matrix."""
WHOLE = {**LINEAR, "epochs": 1, "minibatch_size": None, "normalize_advantages": False}
"""One step on a whole rollout."""


def transitions(observation: Any, action: Any, reward: Any, discount: Any = (0.5, 0), **others: Any) -> dict[str, Any]:
    """A replay memory's batch: the first row is truncated, those without a discount are terminated.

    Next observations are the same, unless others are given.
    """
    columns = {"reward": reward, "discount": discount, "terminated": np.equal(discount, 0), **others}
    floats = {name: np.asarray(value, np.float32) for name, value in columns.items() if name != "next_observation"}
    floats["truncated"] = (np.arange(len(floats["reward"])) == 0).astype(np.float32)
    following = others.get("next_observation", observation)
    return {"observation": observation, "action": action, "next_observation": following, **floats}


def layers(values: Mapping[str, Any]) -> dict[str, Any]:
    """Kernels and biases by their names, of the pairs of both for each layer."""
    return {f"{name}/{part}": pair[i] for name, pair in values.items() for i, part in enumerate(("kernel", "bias"))}


def random_rollout(rng: np.random.Generator, shape: tuple[int, int]) -> dict[str, Any]:
    """A BatchMemory's batch [T, N] of observations of two numbers and actions 0 and 1; some episodes end."""
    floats = {name: rng.normal(size=shape).astype(np.float32) for name in ("reward", "value", "log_prob")}
    ends = {name: (rng.random(shape) < 0.15).astype(np.float32) for name in ("terminated", "truncated")}
    seen = {name: rng.normal(size=(*shape, 2)).astype(np.float32) for name in ("observation", "next_observation")}
    action = rng.integers(2, size=shape, dtype=np.int32)
    floats["log_prob"] = -np.abs(floats["log_prob"])
    return {**floats, **ends, **seen, "action": action, "discount": 0.9 * (1 - ends["terminated"])}


class Model:
    """Traced for the shapes of a batch, and run.

    Args:
        model_fn: of an algorithm.
        params: of it.
        config: with the spaces.
        batch: by name, with ``observation``.
        runtime: of both modes.
    """

    def __init__(
        self,
        model_fn: Callable[..., Any],
        params: Mapping[str, Any],
        config: RunConfig,
        batch: Mapping[str, Any],
        runtime: str,
    ) -> None:
        assert config.observation_space is not None
        self.batch = batch
        self.program = Program(
            BoundModelFn(model_fn, params, config, None), observation_spec(config.observation_space), 0
        )
        specs = {name: _spec(value) for name, value in batch.items()}
        self.train_program: Train = self.program.trace_train(specs)
        self.executor = self._executor_of(runtime)

    def _executor_of(self, runtime: str) -> Executor:
        return choose(self.program, self.train_program, runtime, None, shared_content)[0]

    def also_in(self, runtime: str) -> Model:
        """The same trace in another executor, with weights of its own unless both are TensorFlow; they begin equal."""
        other = copy.copy(self)
        other.executor = self._executor_of(runtime)
        return other

    @property
    def weights(self) -> dict[str, Any]:
        """By the names of layers: ``online/q_values/bias``."""
        return {_short(name): value for name, value in self.executor.get_weights().items()}

    def check(self, expected: Mapping[str, Any], rtol: float = 1e-5, atol: float = 0.0) -> None:
        """Check that these variables are as expected, in any shape of their size."""
        weights = self.weights
        for name, value in expected.items():
            np.testing.assert_allclose(weights[name].ravel(), np.ravel(value), rtol=rtol, atol=atol, err_msg=name)

    def set(self, weights: Mapping[str, Any]) -> None:
        """Set these variables, in any shape of their size; all others become zero."""
        values = self.executor.get_weights()
        unknown = weights.keys() - {_short(name) for name in values}
        assert not unknown, f"{unknown} not in {sorted(map(_short, values))}"
        self.executor.set_weights(
            {
                name: np.asarray(weights.get(_short(name), np.zeros_like(value)), value.dtype).reshape(value.shape)
                for name, value in values.items()
            }
        )

    def act(self, observation: Any = None, draws: Any = None) -> dict[str, Any]:
        """The predictions, for the batch's observations unless others are given."""
        features = self.batch["observation"] if observation is None else observation
        return dict(self.executor.act(features, *([] if draws is None else [draws]))[0])

    def train(self, step: int = 1, draws: Any = (), **batch: Any) -> dict[str, Any]:
        """One update: loss, metrics and ``td_error``."""
        counters = {"global_step": step, "global_timestep": step, "progress": 0.0}
        result = self.executor.train({**self.batch, **batch}, counters, list(draws))
        names = ("loss", *self.train_program.metrics)
        return {**dict(zip(names, result.scalars.tolist(), strict=True)), "td_error": result.td_error}


_traced: dict[str, Model] = {}
"""Of the file whose tests run, by what they were made of."""


def traced(
    model_fn: Callable[..., Any],
    params: Mapping[str, Any],
    config: RunConfig,
    batch: Mapping[str, Any],
    runtime: str = "tensorflow",
) -> Model:
    """A Model that shares its trace with equal ones of the file: in LiteRT its weights are its own, else set them."""
    spaces = config.observation_space, config.action_space
    key = repr((model_fn.__module__, sorted(params.items()), spaces, sorted(_spec(batch).items())))
    if key not in _traced:
        _traced[key] = Model(model_fn, params, config, batch, "tensorflow")
    model = _traced[key].also_in(runtime)
    model.batch = batch
    return model


def forget_traces() -> None:
    """Drop what other files' tests have traced."""
    _traced.clear()


def _short(name: str) -> str:
    return name.partition(".")[2].replace("mlp/", "")


def _spec(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _spec(part) for name, part in value.items()}
    return ArraySpec(value.shape, value.dtype)
