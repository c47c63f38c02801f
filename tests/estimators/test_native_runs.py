"""Runs in native vector environments: the very weights of runs with copies stepped one by one, and no replay."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axonrl import Agent, RunConfig
from axonrl.environments import make
from axonrl.environments.native import NativeVectorEnv
from axonrl.hooks import CheckpointHook, EvaluationHook
from axonrl.memories import BatchMemory
from axonrl.models import ppo
from axonrl.tests.estimators.fakes import At, failing, record, snapshot

pytestmark = pytest.mark.usefixtures("traced_once")

PARAMS = {"hidden": [4], "epochs": 1, "minibatch_size": 32, "optimizer": "sgd"}
WRAPPERS = ["normalize_observation", "normalize_reward"]
TIMESTEPS = 320


def crash(at: int) -> At:
    """Fails some timesteps after the last checkpoint."""
    return At("after_timestep", at, failing("crash"))


def train(folder: Path, vectorization: str, *hooks: Any) -> Agent:
    config = RunConfig(seed=3, save_checkpoints_secs=None)
    agent = Agent(ppo.model_fn, BatchMemory(64, discount=0.99), folder, config, PARAMS)
    env = make("CartPole-v1", 4, vectorization=vectorization, wrappers=WRAPPERS)
    evaluation = EvaluationHook(160, episodes=2)
    return agent.train(env, max_timesteps=TIMESTEPS, hooks=[CheckpointHook(steps=1), evaluation, *hooks])


def test_it_resumes_without_a_replay_to_the_weights_of_copies_stepped_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(tmp_path / "sync", "sync")
    with pytest.raises(RuntimeError, match="crash"):
        train(tmp_path / "native", "native", crash(150))
    saved = snapshot(tmp_path / "native")
    assert saved["episodes"]["running"].any()
    assert saved["environment"]["inner"]["environment"]["made_from"].startswith("CartPole-v1, 4 lanes")
    calls: list[Any] = []
    for name in ("reset", "step", "load_state_dict"):
        original = getattr(NativeVectorEnv, name)

        def counted(self: Any, *args: Any, name: str = name, original: Any = original, **kwargs: Any) -> Any:
            calls.append((name, kwargs))
            return original(self, *args, **kwargs)

        monkeypatch.setattr(NativeVectorEnv, name, counted)
    with pytest.raises(RuntimeError, match="crash"):
        train(tmp_path / "native", "native", crash(230))
    assert calls[0][0] == "load_state_dict"
    steps = sum(name == "step" for name, _ in calls)
    assert 4 * steps == 232 - saved["counters"]["global_timestep"]  # none is for a replay
    assert not any(kwargs["options"]["reset_mask"].all() for name, kwargs in calls if name == "reset")
    train(tmp_path / "native", "sync")  # the state is of no use here: its episodes are replayed
    sync, native = snapshot(tmp_path / "sync"), snapshot(tmp_path / "native")
    assert "environment" not in sync
    assert sync["counters"] == native["counters"]
    assert sync["weights"].keys() == native["weights"].keys()
    for name, value in sync["weights"].items():
        assert value.tobytes() == native["weights"][name].tobytes(), name
    assert np.array_equal(sync["observation"]["array"], native["observation"]["array"])
    best = [(tmp_path / name / "best.safetensors").read_bytes() for name in ("sync", "native")]
    assert best[0] == best[1]
    assert record(tmp_path / "native")["not_exact"] == []
    assert "vectorization" not in record(tmp_path / "native")["environment"]  # what it was trained in at last
