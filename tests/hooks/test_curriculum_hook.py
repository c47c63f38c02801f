"""A curriculum raises the difficulty between episodes, at returns or timesteps, and resumes exactly."""

from pathlib import Path
from typing import Any, Final
from unittest.mock import Mock, call

import gymnasium
import pytest

from axonrl.environments import make
from axonrl.errors import ArgumentError
from axonrl.hooks import CheckpointHook, CurriculumHook
from axonrl.tests.estimators.fakes import At, Counting, Notes, agent, differences, failing, record, snapshot, vector
from axonrl.tests.raising import raised

pytestmark = pytest.mark.usefixtures("traced_once")
BY_TIME: Final[dict[str, Any]] = {"levels": [2, 5, 9], "at_timesteps": [10, 31]}
BY_RETURN: Final[dict[str, Any]] = {"levels": [2, 5, 9], "at_return": [9, 30], "episodes": 3}


class Longer(Counting):
    """Its difficulty is the length of an episode, beyond ``extra`` timesteps, and takes effect at once."""

    def __init__(self, extra: int = 0) -> None:
        super().__init__()
        self.extra = extra

    def set_difficulty(self, level: int) -> None:
        self.length = level + self.extra


def lengths(notes: Notes, environment: int) -> list[int]:
    return [facts.length for facts in notes.facts["after_episode"] if facts.environment == environment]


def test_levels_follow_timesteps(tmp_path: Path) -> None:
    notes = Notes()
    agent(tmp_path).train(vector(Longer(), Longer(2)), timesteps=60, hooks=[CurriculumHook(**BY_TIME), notes])
    # At timestep 10, after the 5th of 30 steps of both, the running episodes keep their lengths; likewise at 31.
    assert lengths(notes, 0) == [2, 2, 2, 5, 5, 9]
    assert lengths(notes, 1) == [4, 4, 7, 7]


def test_a_curriculum_that_is_added_to_a_run_begins_at_the_level_of_its_timestep() -> None:
    for timestep, level in {9: 2, 10: 5, 30: 5, 31: 9}.items():
        session = Mock(num_envs=2, global_timestep=timestep)
        CurriculumHook(**BY_TIME).prepare(session)
        assert session.set_difficulty.mock_calls == [call(0, level), call(1, level)]


def test_levels_follow_the_mean_return_at_the_current_one(tmp_path: Path) -> None:
    notes = Notes()
    hook = CurriculumHook([2, 3, 4], at_return=[3, 6], episodes=2)  # an episode of n timesteps returns n (n + 1) / 2
    agent(tmp_path).train(vector(Longer(), Longer(1)), timesteps=40, hooks=[hook, notes])
    # Returns 3 and 6 reach 3; the first one's second episode, of the level before, no longer counts. 6 and 10 reach 6.
    assert lengths(notes, 0) == [2, 2, 3, 3, 4, 4]
    assert lengths(notes, 1) == [3, 4, 5, 5]


@pytest.mark.parametrize("curriculum", [BY_TIME, BY_RETURN])
def test_a_killed_run_resumes_exactly_with_episodes_of_different_levels(
    curriculum: dict[str, Any], tmp_path: Path
) -> None:
    def train(name: str, until: int, *hooks: Any) -> None:
        hooks = (CurriculumHook(**curriculum), CheckpointHook(steps=1), *hooks)
        env = vector(Longer(), Longer(2))
        agent(tmp_path / name).train(env, 4, 2, max_timesteps=until, hooks=hooks)

    train("whole", 120)
    for at in range(8, 118, 10):
        with pytest.raises(RuntimeError, match="killed"):
            train("parts", 120, At("after_timestep", at, failing("killed")))
    train("parts", 120)
    assert differences(snapshot(tmp_path / "whole"), snapshot(tmp_path / "parts")) == []
    episodes = [(tmp_path / name / "episodes.csv").read_text().splitlines() for name in ("whole", "parts")]
    without_seconds = [[row.rpartition(",")[0] for row in rows] for rows in episodes]
    assert without_seconds[0] == without_seconds[1]
    assert record(tmp_path / "parts")["not_exact"] == []


@pytest.mark.parametrize("env", [Counting(), make("CartPole-v1", 2, vectorization="native")])
def test_an_environment_without_difficulty_is_refused(env: gymnasium.Env[Any, Any], tmp_path: Path) -> None:
    train = agent(tmp_path).train
    raised(
        ArgumentError, train, env, timesteps=8, hooks=CurriculumHook(**BY_TIME), match="has no method set_difficulty"
    )


@pytest.mark.parametrize("given", [100, "10"])
def test_timesteps_are_a_list(given: Any) -> None:
    raised(ArgumentError, CurriculumHook, [1, 2], at_timesteps=given, match="must be a list of timesteps, got")
