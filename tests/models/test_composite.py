"""PPO's programs for composite actions agree in TensorFlow and LiteRT, and with the policy that acted."""

from typing import Any

import numpy as np
from gymnasium import spaces

from axonrl import RunConfig
from axonrl.contracts import ArraySpec
from axonrl.models import ppo
from axonrl.runs.programs import shared
from axonrl.runtimes.choosing import choose
from axonrl.runtimes.tracing.program import Program
from axonrl.runtimes.tracing.signature import BoundModelFn

F32 = np.float32
ROWS = 16
SPACE = spaces.Dict(
    {
        "arm": spaces.Tuple([spaces.Box(-1, 1, (2,)), spaces.MultiBinary((2, 1)), spaces.Box(-1, 1, (1,))]),
        "gear": spaces.Discrete(3, start=5),
        "keys": spaces.MultiDiscrete([2, 3]),
    }
)
PARAMS = {"hidden": (8,), "epochs": 1, "minibatch_size": None, "entropy_coefficient": 0.1, "optimizer": "sgd"}


def specs(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {name: specs(value) for name, value in tree.items()}
    return ArraySpec(tree.shape, tree.dtype)


def test_both_executors_learn_alike_with_the_probabilities_that_acted() -> None:
    rng = np.random.default_rng(0)
    config = RunConfig(observation_space=spaces.Box(-1, 1, (3,)), action_space=SPACE)
    program = Program(BoundModelFn(ppo.model_fn, PARAMS, config, None), ArraySpec((3,), F32), 0)
    observation = rng.standard_normal((ROWS, 3)).astype(F32)
    exploration = program.predict.exploration
    assert exploration is not None

    def batch(predictions: Any) -> dict[str, Any]:
        action, extras = exploration(predictions, 0, np.random.default_rng(1))
        rows = {"observation": observation, "next_observation": observation, "action": action, **extras}
        rows |= {name: np.zeros(ROWS, F32) for name in ("discount", "truncated")}
        rows |= {"terminated": np.ones(ROWS, F32), "value": predictions["value"]}
        rows["reward"] = np.arange(ROWS, dtype=F32) / ROWS
        return {
            name: {part: value[:, None] for part, value in row.items()} if isinstance(row, dict) else row[:, None]
            for name, row in rows.items()
        }

    zeros = {name: np.zeros((ROWS, *spec.shape), spec.dtype) for name, spec in program.predict.outputs.items()}
    train = program.trace_train(specs(batch(zeros)))
    executors = [choose(program, train, runtime, None, shared)[0] for runtime in ("tensorflow", "litert")]
    before = executors[0].get_weights()
    found = []
    for executor in executors:
        executor.set_weights(before)
        predictions = executor.act(observation)[0]
        assert sorted(predictions["action"]) == ["arm/0", "arm/1", "arm/2", "gear", "keys"]
        draws = [np.arange(ROWS, dtype=np.int32)] * len(train.noise)
        one = executor.train(
            batch(predictions), {"global_step": 0, "global_timestep": 0, "progress": 0.0}, draws
        ).scalars
        found.append((one, executor.get_predict_weights()))
    (theirs, their_weights), (ours, our_weights) = found
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    for name, value in their_weights.items():
        np.testing.assert_allclose(our_weights[name], value, rtol=1e-3, atol=1e-5)
    changed = [name for name, value in our_weights.items() if not np.array_equal(value, before[name])]
    assert changed == list(our_weights)  # every leaf learns
    scalars = dict(zip(("loss", *train.metrics), ours.tolist(), strict=True))
    assert abs(scalars["kl"]) < 1e-6  # so every ratio is 1
    assert scalars["clip_fraction"] == 0
