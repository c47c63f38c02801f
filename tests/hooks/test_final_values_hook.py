import json
import logging
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axonrl.hooks import EvaluationHook, FinalValuesHook, Hooks
from axonrl.hooks.events import EndFacts, EvaluationFacts, UpdateFacts
from axonrl.tests.estimators.fakes import Counting, agent
from axonrl.tests.hooks.facts import BEGIN, END, begun

EVERYTHING = [
    *("global_step", "train/loss", "train/entropy", "rollout/return", "rollout/return_mean"),
    *("rollout/exploration_rate", "eval/loss", "weights/dense/kernel"),
]


def written(model_dir: Path) -> Any:
    return json.loads((model_dir / "final_values.json").read_text())


def test_the_last_value_of_each(session: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "axonrl")
    hook = begun(FinalValuesHook(EVERYTHING), session)
    for session.global_step in (1, 2):
        hook.after_update(session, UpdateFacts(0.5 / session.global_step, {"entropy": math.nan, "other": 9.0}))
        hook.after_episode(session, session.episode(10.0 * session.global_step, exploration=0.25))
    hook.after_evaluation(session, EvaluationFacts({"eval_loss": 0.125, "episodes": 1.0}, (1.0,)))
    assert hook.values == {}
    session.variables["dense/kernel"] = np.array([[1.0, 2.0]], np.float32)
    hook.end(session, END)
    kernel = hook.values.pop("weights/dense/kernel")
    assert (kernel.dtype, kernel.tolist()) == (np.float32, [[1.0, 2.0]])
    assert math.isnan(hook.values.pop("train/entropy"))
    numbers = {
        **{"global_step": 2, "train/loss": 0.25, "rollout/return": 20.0, "rollout/return_mean": 15.0},
        **{"rollout/exploration_rate": 0.25, "eval/loss": 0.125},
    }
    assert hook.values == numbers
    # JSON has no NaN.
    assert written(session.model_dir) == {**numbers, "weights/dense/kernel": [[1.0, 2.0]], "train/entropy": None}
    assert [path.name for path in session.model_dir.iterdir()] == ["final_values.json"]
    assert caplog.messages == [
        "final values: global_step 2, train/loss 0.25, train/entropy nan, rollout/return 20,"
        " rollout/return_mean 15, rollout/exploration_rate 0.25, eval/loss 0.125"
    ]


def test_what_there_was_none_of_is_said(session: Any, caplog: pytest.LogCaptureFixture) -> None:
    hook = begun(FinalValuesHook(["train/entropy", "global_step", "eval/length_mean"]), session)
    hook.after_update(session, UpdateFacts(0.5, {}))
    hook.end(session, END)
    assert hook.values == written(session.model_dir) == {"global_step": 0}
    assert caplog.messages == ["the run ended without a value for train/entropy, eval/length_mean"]


def test_a_run_that_failed_has_none(session: Any) -> None:
    hook = begun(FinalValuesHook(["global_step"]), session)
    hook.end(session, EndFacts("an error", ValueError(), 1.0))
    assert hook.values == {}
    assert list(session.model_dir.iterdir()) == []


@pytest.mark.parametrize("order", [1, -1])
def test_an_evaluation_at_the_end_counts_whichever_hook_comes_first(order: int, session: Any) -> None:
    session.evaluations = [3.0]
    final = FinalValuesHook(["eval/return_mean"])
    hooks = Hooks([final, EvaluationHook(10)][::order])
    session.listeners = hooks.after_evaluation
    for call in hooks.begin:
        call(session, BEGIN)
    session.global_timestep = 5
    hooks.end(session, END)
    assert final.values == written(session.model_dir) == {"eval/return_mean": 3.0}


def test_a_resumed_run_has_the_values_from_before(session: Any) -> None:
    first = FinalValuesHook(["train/loss", "rollout/length"])
    first.after_update(session, UpdateFacts(0.5, {}))
    first.after_episode(session, session.episode(1.0, length=4))
    resumed = begun(FinalValuesHook(["rollout/length"]), session, first.state_dict())
    resumed.end(session, END)
    assert resumed.values == {"rollout/length": 4}


def test_weights_that_the_model_does_not_have(session: Any) -> None:
    hook = FinalValuesHook(["weights/dense/kernl"])
    message = "the model has no 'weights/dense/kernl' (did you mean 'weights/dense/kernel'?)"
    with pytest.raises(ValueError, match=re.escape(message)):
        hook.prepare(session)


def test_of_a_real_run(tmp_path: Path) -> None:
    final = FinalValuesHook(["train/loss", "train/target", "weights/0000.weights", "global_timestep"])
    one = agent(tmp_path).train(Counting(3), 4, 2, timesteps=12, hooks=[final])
    assert list(final.values) == ["train/loss", "train/target", "weights/0000.weights", "global_timestep"]
    assert final.values["global_timestep"] == one.global_timestep == 12
    assert final.values["weights/0000.weights"].shape == (2, 2)
    assert written(tmp_path)["train/loss"] == final.values["train/loss"] > 0
