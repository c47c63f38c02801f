"""Training in vector environments as Gymnasium allows them: every mode, plain and wrapped, of one and several lanes."""

from pathlib import Path
from typing import Any

import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorWrapper

from axonrl.environments.making import open_environment
from axonrl.errors import ArgumentError
from axonrl.tests.estimators.fakes import Counting, ListMemory, agent


class Wrapper(VectorWrapper):
    """Changes nothing; but whoever looks at its type does not see a SyncVectorEnv."""


# Where all episodes end at the same step, everything would be reset; what resets itself has done so already.
@pytest.mark.parametrize("lengths", [(3,), (3, 3), (2, 5, 3)], ids=str)
@pytest.mark.parametrize("is_wrapped", [False, True])
@pytest.mark.parametrize("mode", AutoresetMode)
def test_resets_episodes_and_transitions_are_those_of_the_environments(
    mode: AutoresetMode, is_wrapped: bool, lengths: tuple[int, ...], tmp_path: Path
) -> None:
    envs = [Counting(length) for length in lengths]
    env: Any = SyncVectorEnv([lambda env=env: env for env in envs], autoreset_mode=mode)  # type: ignore[misc]
    memory = ListMemory(4)
    learner = agent(tmp_path, memory)
    learner.train(Wrapper(env) if is_wrapped else env, first_update=999, timesteps=10 * len(lengths))
    for env, length in zip(envs, lengths, strict=True):
        ended = len(env.actions) // length
        begun = ended + (len(env.actions) % length > 0)  # the episode of the last timestep may be the last
        assert len(env.seeds) in ({begun, ended + 1} if mode is AutoresetMode.SAME_STEP else {begun})
    assert learner.global_timestep == sum(len(env.actions) for env in envs) == len(memory.rows)
    assert learner.global_episode == sum(len(env.actions) // env.length for env in envs)
    for row in memory.rows:  # the observation is (timestep, a number of the episode), the reward the next timestep
        (timestep, mark), (following, mark_then) = row["observation"], row["next_observation"]
        assert (following, mark_then, row["reward"]) == (timestep + 1, mark, timestep + 1)


def test_one_environment_in_several_places_is_refused() -> None:
    env = Counting()
    with pytest.raises(ArgumentError, match="has one environment object in several places"):
        open_environment(SyncVectorEnv([lambda: env] * 2))
    open_environment(SyncVectorEnv([Counting] * 2))
