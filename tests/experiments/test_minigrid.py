"""MiniGrid's tasks by their ids, in a file, with MiniGrid's own wrappers; skipped where MiniGrid is not installed."""

from pathlib import Path

import numpy as np
import pytest

from axonrl.environments.description import arguments_of
from axonrl.experiments.config.schema import load
from axonrl.experiments.running.runner import run
from axonrl.tests.environments.untyped import make, open_environment, similar

FILE = """
environment:
  id: minigrid:MiniGrid-DoorKey-5x5-v0
  num_envs: 2
  kwargs: {max_steps: 9}
  wrappers:
    - {kind: "minigrid.wrappers:ReseedWrapper", seeds: [3]}
    - minigrid.wrappers:ImgObsWrapper
    - {kind: "gymnasium.wrappers:DtypeObservation", dtype: float32}
    - normalize_observation
agent:
  model_fn: ppo
  params: {hidden: [4], intrinsic_coefficient: 1.0, rnd_units: 4, minibatch_size: null}
  memory: {kind: batch, size: 32}
train: {max_timesteps: 64}
evaluate: {episodes: 2}
"""


@pytest.mark.filterwarnings("ignore:.*A seed has been passed to:UserWarning")
def test_a_file_with_minigrids_wrappers(tmp_path: Path) -> None:
    pytest.importorskip("minigrid", reason="MiniGrid is not installed: pip install minigrid")
    file = tmp_path / "file.yml"
    file.write_text(FILE)
    result = run(*load(file), tmp_path / "run")
    assert result.evaluation is not None
    assert (result.timesteps, result.evaluation["episodes"]) == (64, 2)
    wrappers = [
        {"kind": "minigrid.wrappers:ReseedWrapper", "seeds": [3]},
        "minigrid.wrappers:ImgObsWrapper",
        {"kind": "gymnasium.wrappers:DtypeObservation", "dtype": "float32"},
    ]
    training = make("minigrid:MiniGrid-DoorKey-5x5-v0", 2, wrappers=wrappers, max_steps=9)
    env = open_environment(training)
    first = env.reset(None, [1, 2])
    assert (first.dtype, first.shape) == (np.float32, (2, 7, 7, 3))
    assert np.array_equal(first[0], first[1])  # the layout of seed 3
    found = arguments_of(training)
    assert found is not None
    again = make(found["id"], wrappers=found["wrappers"], **found["kwargs"])
    assert again.spec.id == training.envs[0].spec.id == "MiniGrid-DoorKey-5x5-v0"
    for one in (again, similar(training)):
        assert np.array_equal(one.reset()[0], first[0])
        assert [one.step(0)[3] for _ in range(9)] == [False] * 8 + [True]
