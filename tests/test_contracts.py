"""What the records of core/protocols.py refuse, with the field in the error."""

import re
from typing import Any

import numpy as np
import pytest

from axonrl import EstimatorSpec, Modes, RunConfig
from axonrl.errors import ArgumentError
from axonrl.tests.raising import raised

TRAIN = {"mode": Modes.TRAIN, "loss": 0.0}
PREDICT: dict[str, Any] = {"mode": Modes.PREDICT, "predictions": {}}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("seed", seed) for seed in (-1, 2**63, True)),
        ("save_checkpoints_secs", 0),
        ("save_checkpoints_at_evaluations", 1),
        ("keep_checkpoint_max", None),
        ("keep_checkpoint_every_n_hours", 0),
        ("save_summary_steps", 0),
        ("runtime", "tenserflow"),
    ],
)
def test_a_run_config_refuses(field: str, value: Any) -> None:
    with pytest.raises(ArgumentError, match=rf"^RunConfig\.{field} must be .* got {re.escape(repr(value))}") as caught:
        RunConfig(**{field: value})
    assert (caught.value.argument, caught.value.value) == (f"RunConfig.{field}", value)


def test_a_run_config_takes_numpy_s_integers() -> None:
    count: Any = np.int64(3)
    config = RunConfig(seed=count, keep_checkpoint_max=count)
    assert (config.seed, config.keep_checkpoint_max, type(config.keep_checkpoint_max)) == (3, 3, int)


class Saved:
    """An exploration with half of what saving its state takes."""

    def __call__(self, predictions: Any, timestep: int, rng: np.random.Generator) -> Any:
        return predictions["action"], {}

    def state_dict(self) -> dict[str, Any]:
        return {}


@pytest.mark.parametrize(
    ("field", "arguments", "message"),
    [
        ("mode", {"mode": "infer"}, " must be one of train, eval, predict; got 'infer'"),
        ("predictions", {"mode": Modes.PREDICT}, "needs predictions, a mapping of names to tensors; got NoneType"),
        ("loss", {"mode": Modes.TRAIN}, "EstimatorSpec(mode='train') needs a loss, a scalar tensor; got None"),
        ("record", {**TRAIN, "record": "action"}, " must be a tuple of names, got the string 'action'"),
        ("record", {**TRAIN, "record": 3}, " must be a tuple, got 3"),
        ("evaluation_hooks", {**TRAIN, "evaluation_hooks": (3,)}, " belong to the PREDICT spec, got some in mode 'tr"),
        (
            "training_hooks",
            {**PREDICT, "training_hooks": (3,)},
            " belong to the TRAIN spec, got some in mode 'predict'",
        ),
        ("export_outputs", {**PREDICT, "export_outputs": {"serving": 1}}, "use Agent.export(directory)"),
        ("exploration", {**PREDICT, "exploration": "greedy"}, " must be an Exploration, got 'greedy'"),
        ("exploration", {**PREDICT, "exploration": dict}, " takes an instance: got the class dict, expected dict(...)"),
        ("exploration", {**PREDICT, "exploration": Saved()}, " must have both state_dict() and load_state_dict(state)"),
    ],
)
def test_a_spec_refuses(field: str, arguments: dict[str, Any], message: str) -> None:
    caught = raised(ArgumentError, EstimatorSpec, **arguments, match=re.escape(message))
    assert (caught.argument, caught.value) == (f"EstimatorSpec.{field}", arguments.get(field))
