"""What a run records of the values with which its program begins, and what is said where they are others later."""

import json
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from axonrl import EstimatorSpec, Modes
from axonrl.run_dir.initial_values import differences, digests
from axonrl.tests.estimators.fakes import Counting, agent


def test_numbers_are_kept_and_arrays_have_digests() -> None:
    found = digests({"rate": np.array(0.5, np.float32), "step": np.array([3]), "kernel": np.zeros((2, 2), np.float32)})
    assert (found["rate"], found["step"]) == (0.5, 3)
    assert len(found["kernel"]) == 16
    assert json.loads(json.dumps(found)) == found


def test_differences_name_numbers_first_and_a_few() -> None:
    then = digests({"rate": np.array(0.5, np.float32), **{f"k{i}": np.zeros(2) for i in range(4)}})
    now = digests({"rate": np.array(0.25, np.float32), **{f"k{i}": np.ones(2) for i in range(4)}, "new": np.array(1.0)})
    assert differences(then, then) is None
    assert differences(then, now) == "rate, 0.5 before and 0.25 now; k0; k1; and 2 more"
    wide, narrow = digests({"kernel": np.zeros((2, 2))}), digests({"kernel": np.zeros((2, 1))[:1]})
    assert differences(wide, narrow) == differences(narrow, wide) == "kernel"  # which will not fit


def test_a_learning_rate_edited_under_a_run_is_said_and_the_run_s_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def learn(rate: float) -> Any:
        def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
            weight = tf.Variable([[1.0], [1.0]], name="weight")
            value = features @ weight
            if mode == Modes.PREDICT:
                return EstimatorSpec(mode, {"action": tf.cast(value[:, 0] > 0, tf.int32)})
            loss = tf.reduce_mean(value**2)
            keras.optimizers.SGD(rate).apply(tf.gradients(loss, weight), [weight])
            return EstimatorSpec(mode, loss=loss)

        return agent(tmp_path, model=model_fn).train(Counting(), first_update=5, timesteps=10)

    learn(0.01)
    learn(0.01)
    assert caplog.messages == []
    learner = learn(0.001)
    edited, message = sorted(caplog.messages, key=lambda message: "learning_rate" in message)
    assert edited == "this run will not resume exactly: the code of its model_fn was edited"
    assert "learning_rate, 0.01 before and 0.001 now. The run continues with those of its checkpoint" in message
    (rate,) = (value for name, value in learner._trainer.state().stepper.weights().items() if "learning_rate" in name)
    assert rate == np.float32(0.01)
