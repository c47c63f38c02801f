"""What the records of contracts.py refuse, by name."""

from typing import Any

import numpy as np
import pytest

from axonrl import EstimatorSpec, Modes, RunConfig


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        *(
            ({"seed": seed}, r"RunConfig\.seed must be an integer in 0 \.\. 2\*\*63 - 1 or None, got")
            for seed in (-1, 2**63, 5.0, True, "1")
        ),
        *(
            ({"save_checkpoints_secs": secs}, r"RunConfig\.save_checkpoints_secs must be a finite number above 0, got")
            for secs in (0, -1.0, float("inf"), True, "60")
        ),
        *(
            ({name: 0}, rf"RunConfig\.{name} must be an integer of at least 1, got 0")
            for name in (
                "save_checkpoints_steps",
                "save_checkpoints_episodes",
                "keep_checkpoint_max",
                "save_summary_steps",
            )
        ),
        ({"runtime": "tenserflow"}, r"RunConfig\.runtime must be one of auto, tensorflow, litert; got 'tenserflow'"),
    ],
)
def test_a_run_config_refuses(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RunConfig(**arguments)


def test_a_run_config_takes_numpy_s_integers() -> None:
    count: Any = np.int64(3)
    config = RunConfig(seed=count, keep_checkpoint_max=count)
    assert (config.seed, config.keep_checkpoint_max, type(config.keep_checkpoint_max)) == (3, 3, int)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mode": "infer"}, "EstimatorSpec.mode must be one of train, eval, predict; got 'infer'"),
        ({"mode": Modes.PREDICT}, "needs predictions, a mapping of names to tensors; got NoneType"),
        ({"mode": Modes.TRAIN}, "needs a loss, a scalar tensor; got None"),
        ({"mode": Modes.TRAIN, "loss": 0.0, "record": "action"}, "record must be a tuple of names, got the string"),
        ({"mode": Modes.TRAIN, "loss": 0.0, "training_hooks": 3}, "training_hooks must be a tuple, got 3"),
        ({"mode": Modes.TRAIN, "loss": 0.0, "evaluation_hooks": (3,)}, "evaluation_hooks belong to the PREDICT spec"),
        ({"mode": Modes.PREDICT, "predictions": {}, "training_hooks": (3,)}, "training_hooks belong to the TRAIN spec"),
        ({"mode": Modes.PREDICT, "predictions": {}, "exploration": "greedy"}, "must be an Exploration, got 'greedy'"),
    ],
)
def test_a_spec_refuses(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EstimatorSpec(**arguments)
