"""What the records of contracts.py refuse, with the field in the error."""

from typing import Any

import numpy as np
import pytest

from axonrl import EstimatorSpec, Modes, RunConfig
from axonrl.errors import ArgumentError

TRAIN = {"mode": Modes.TRAIN, "loss": 0.0}
PREDICT: dict[str, Any] = {"mode": Modes.PREDICT, "predictions": {}}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("seed", seed) for seed in (-1, 2**63, 5.0, True, "1")),
        ("save_checkpoints_secs", 0),
        ("save_checkpoints_steps", 0),
        ("save_checkpoints_episodes", 0),
        ("keep_checkpoint_max", None),
        ("save_summary_steps", 0),
        ("runtime", "tenserflow"),
    ],
)
def test_a_run_config_refuses(field: str, value: Any) -> None:
    with pytest.raises(ArgumentError) as caught:
        RunConfig(**{field: value})
    assert (caught.value.argument, caught.value.value) == (f"RunConfig.{field}", value)


def test_a_run_config_takes_numpy_s_integers() -> None:
    count: Any = np.int64(3)
    config = RunConfig(seed=count, keep_checkpoint_max=count)
    assert (config.seed, config.keep_checkpoint_max, type(config.keep_checkpoint_max)) == (3, 3, int)


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("mode", {"mode": "infer"}),
        ("predictions", {"mode": Modes.PREDICT}),
        ("loss", {"mode": Modes.TRAIN}),
        ("loss", {"mode": Modes.EVAL}),
        ("record", {**TRAIN, "record": "action"}),
        ("record", {**TRAIN, "record": 3}),
        ("training_hooks", {**TRAIN, "training_hooks": 3}),
        ("evaluation_hooks", {**TRAIN, "evaluation_hooks": (3,)}),
        ("training_hooks", {**PREDICT, "training_hooks": (3,)}),
        ("exploration", {**PREDICT, "exploration": "greedy"}),
        ("exploration", {**PREDICT, "exploration": dict}),
    ],
)
def test_a_spec_refuses(field: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError) as caught:
        EstimatorSpec(**arguments)
    assert (caught.value.argument, caught.value.value) == (f"EstimatorSpec.{field}", arguments.get(field))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RunConfig(seed=-1), "RunConfig.seed must be an integer in 0 .. 2**63 - 1 or None, got -1"),
        (
            lambda: EstimatorSpec(Modes.PREDICT),
            "EstimatorSpec(mode='predict') needs predictions, a mapping of names to",
        ),
        (lambda: EstimatorSpec(Modes.EVAL), "EstimatorSpec(mode='eval') needs a loss, a scalar tensor; got None"),
        (
            lambda: EstimatorSpec(**TRAIN, record="a"),
            "EstimatorSpec.record must be a tuple of names, got the string 'a'",
        ),
        (lambda: EstimatorSpec(**TRAIN, training_hooks=3), "EstimatorSpec.training_hooks must be a tuple, got 3"),
        (
            lambda: EstimatorSpec(**TRAIN, evaluation_hooks=(3,)),
            "EstimatorSpec.evaluation_hooks belong to the PREDICT spec, got some in mode 'train'",
        ),
        (
            lambda: EstimatorSpec(**PREDICT, training_hooks=(3,)),
            "EstimatorSpec.training_hooks belong to the TRAIN spec, got some in mode 'predict'",
        ),
        (lambda: EstimatorSpec(**PREDICT, exploration=3), "EstimatorSpec.exploration must be an Exploration, got 3"),
        (
            lambda: EstimatorSpec(**PREDICT, exploration=dict),
            "EstimatorSpec.exploration takes an instance: got the class dict, expected dict(...)",
        ),
    ],
)
def test_messages(make: Any, message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        make()
    assert str(caught.value).startswith(message)
