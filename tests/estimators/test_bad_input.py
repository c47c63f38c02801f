from pathlib import Path
from typing import Any

import pytest

from axonrl import EstimatorSpec
from axonrl.errors import BrokenEnvironmentError, CheckpointError, NonFiniteError
from axonrl.tests.estimators.fakes import (
    At,
    Counting,
    Faulty,
    Notes,
    agent,
    differences,
    saved,
    snapshot,
    vector,
)

pytestmark = pytest.mark.usefixtures("traced_once")


LENGTH = 4
AT = 14  # the second timestep of episode 3


@pytest.mark.parametrize(
    ("num_envs", "fault", "kind", "message"),
    [
        (1, RuntimeError("out of coal"), BrokenEnvironmentError, r"\.step raised RuntimeError: out of coal"),
        (2, lambda o, _, *rest: (o, 1e300, *rest), NonFiniteError, r"the reward 1e\+300 in environment 1, beyond"),
    ],
    ids=["raises", "reward"],
)
def test_an_environment_that_fails_in_mid_episode(
    num_envs: int, fault: Any, kind: type[Exception], message: str, tmp_path: Path
) -> None:
    """The error says where; the last checkpoint stays; the repaired environment goes on as if nothing had been."""
    healthy, faulty = Counting(LENGTH), Faulty(fault, AT, length=LENGTH)

    def env(last: Counting) -> Any:
        return vector(Counting(LENGTH), last) if num_envs == 2 else last

    agent(tmp_path / "a", save_checkpoints_episodes=num_envs).train(env(healthy), 8, max_timesteps=40)
    notes = Notes()
    one = agent(tmp_path / "b", save_checkpoints_episodes=num_envs)
    with pytest.raises(kind, match=message) as caught:
        one.train(env(faulty), 8, max_timesteps=40, hooks=[notes])
    row, before = num_envs - 1, (AT - 1) * num_envs
    where = rf"environment {row}: seed {faulty.seeds[3]}, episode 3, timestep 1; global_timestep {before}\)"
    caught.match(where)
    assert caught.value.environment == row  # type: ignore[attr-defined]
    assert notes.events[-1][:2] == ("end", before)
    assert notes.facts["end"][0].error is caught.value
    assert saved(tmp_path / "b")[-1][0] == 12 * num_envs  # at the end of episode 2
    # In the same process, and in another.
    again = one if num_envs == 1 else agent(tmp_path / "b", save_checkpoints_episodes=num_envs)
    assert again.global_timestep == 12 * num_envs
    again.train(env(Counting(LENGTH)), 8, max_timesteps=40)
    assert differences(snapshot(tmp_path / "a"), snapshot(tmp_path / "b")) == []


def test_an_environment_that_fails_in_reset(tmp_path: Path) -> None:
    class Tired(Counting):
        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            result = super().reset(seed=seed)
            if len(self.seeds) == 3:
                raise RuntimeError("too tired")
            return result

    env = Tired(LENGTH)
    match = r"Tired\.reset raised RuntimeError: too tired \(environment 0: seed \d+, episode 2, timestep 0; glob"
    with pytest.raises(BrokenEnvironmentError, match=match):
        agent(tmp_path).train(env, timesteps=20)
    assert saved(tmp_path) == [(0, 0, 0)]


def test_a_model_that_returns_what_it_should_not(tmp_path: Path) -> None:
    def model(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        return EstimatorSpec(mode, {"value": features})

    env = Counting()
    with pytest.raises(ValueError, match=r"predictions has no 'action', only \['value'\]"):
        agent(tmp_path, model=model).train(env, timesteps=4)
    assert env.seeds == []
    assert list(tmp_path.glob("*.json")) == []


def test_a_second_writer(tmp_path: Path) -> None:
    one, env = agent(tmp_path), Counting()
    with one.session(env) as session:
        one.run_episode(env, session)
        with pytest.raises(CheckpointError, match=rf"{tmp_path} is in use by another writer \(process \d+\)"):
            agent(tmp_path).train(Counting(), timesteps=4)
        assert agent(tmp_path).evaluate(Counting(), 1)["episodes"] == 1  # who only reads may
        one.run_episode(env, session)
    assert saved(tmp_path)[-1] == (6, 0, 2)
    assert agent(tmp_path).train(Counting(), timesteps=4).global_timestep == 10


def test_a_file_where_the_model_dir_should_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for model_dir in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(CheckpointError, match=rf"{model_dir}.* cannot be"):
            agent(model_dir).train(Counting(), timesteps=4)
    assert (tmp_path / "file").read_text() == "mine"


def test_a_checkpoint_that_cannot_be_written_in_mid_run(tmp_path: Path) -> None:
    """The folder of the checkpoints is gone, and a file is in the way: what was saved before is elsewhere."""

    def block(session: Any) -> None:
        (tmp_path / "run" / "checkpoints").rename(tmp_path / "kept")
        (tmp_path / "run" / "checkpoints").write_text("mine")

    notes = Notes()
    one = agent(tmp_path / "run", save_checkpoints_episodes=2)
    with pytest.raises(CheckpointError):
        one.train(Counting(), 8, timesteps=20, hooks=[At("after_timestep", 7, block), notes])
    assert notes.events[-1] == ("end", 12, 1, 4)
    (tmp_path / "run" / "checkpoints").unlink()
    (tmp_path / "kept").rename(tmp_path / "run" / "checkpoints")
    assert saved(tmp_path / "run") == [(0, 0, 0), (6, 0, 2)]
    assert one.train(Counting(), 8, timesteps=20).global_timestep == 26


def test_a_hook_whose_state_cannot_be_saved(tmp_path: Path) -> None:
    class Holds:
        def begin(self, session: Any, facts: Any) -> None:
            pass

        def state_dict(self) -> Any:
            return {"thing": object()}

        def load_state_dict(self, state: Any) -> None:
            pass

    with pytest.raises(ValueError, match=r"hooks.*Holds.*thing"):
        agent(tmp_path).train(Counting(), timesteps=4, hooks=[Holds()])
    assert not (tmp_path / "run.json").exists()
