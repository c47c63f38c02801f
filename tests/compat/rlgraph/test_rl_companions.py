"""What goes along with RLgraph's agents: TensorBoard's events, and checkpoints by the clock."""

from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from axonrl.compat.rlgraph import DQNAgent, FloatBox, IntBox, RandomAgent, RLGraphWarning
from axonrl.core.errors import NonFiniteError

from .agents import make_dqn, refused, scalars

CLOCK: Final = "axonrl.compat.rlgraph.agents.companions.time.monotonic"
STATE: Final = np.zeros(1, np.float32)
SPACES: Final[dict[str, Any]] = {"state_space": FloatBox(shape=(1,)), "action_space": IntBox(2)}


def _dqn(**kwargs: Any) -> DQNAgent:
    decay = {"from": 1.0, "to": 0.0, "num_timesteps": 10}
    more = {"exploration_spec": {"epsilon_spec": {"decay_spec": decay}}, "observe_spec": {"buffer_enabled": False}}
    return make_dqn(**SPACES, **more, update_spec={"batch_size": 2}, **kwargs)


def _lived(agent: DQNAgent) -> list[Any]:
    """Eight timesteps in two environments, with rewards 1 .. 8."""
    found: list[Any] = []
    for step in range(1, 9):
        name, terminal = ("a", step == 5) if step % 2 else ("b", False)
        found.append(int(agent.get_action(STATE)))
        agent.observe(STATE, found[-1], None, float(step), STATE, terminal, env_id=name)
        if step in (4, 7):
            found.append(float(agent.update() or 0.0))
    agent.flush_env_buffers("b")
    return found


@pytest.mark.usefixtures("unconverted")
def test_companions_write_and_change_nothing(tmp_path: Path) -> None:
    agent = _dqn(
        summary_spec={"directory": str(tmp_path / "events"), "save_steps": 3},
        saver_spec={"directory": str(tmp_path / "saved"), "save_steps": 3, "max_checkpoints": 2},
    )
    found = _lived(agent)
    agent.terminate()
    assert found == _lived(_dqn())
    # Nothing is known at timestep 3; the rewards of a are 1 + 3 + 5, of b 2 + 4 + 6 + 8.
    first, second = (value for value in found if isinstance(value, float))
    assert scalars(tmp_path / "events") == [
        (4, {"loss": round(first, 5), "epsilon": 0.6}),
        (6, {"epsilon": 0.4, "episode_reward": 9.0}),
        (8, {"loss": round(second, 5), "epsilon": 0.2, "episode_reward": 20.0}),
    ]
    assert sorted(path.name for path in (tmp_path / "saved").iterdir()) == ["model.ckpt-6", "model.ckpt-8"]
    other = _dqn()
    other.load_model(tmp_path / "saved")
    assert (other.timesteps, other.updates) == (8, 2)


@pytest.mark.usefixtures("unconverted")
def test_what_changes_without_a_timestep_is_saved_at_the_end(tmp_path: Path) -> None:
    saver = {"saver_spec": {"directory": str(tmp_path)}}
    _dqn(**saver).terminate()
    assert not list(tmp_path.iterdir())  # nothing has happened
    states = np.zeros((3, 1))
    with _dqn(**saver) as agent:
        agent.import_observations(
            {"states": states, "actions": [0, 1, 0], "rewards": [1, 2, 3], "terminals": False, "next_states": states}
        )
        agent.store_model()
        agent.set_weights({name: array + 1 for name, array in agent.get_weights().items()})
    other = _dqn()
    other.load_model(tmp_path / "model.ckpt-0")
    assert (len(other.memory), other.get_weights()["dense-0/bias"].tolist()) == (3, [1.0] * 8)


def test_the_clock_decides_without_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(CLOCK, lambda: clock[0])
    agent = RandomAgent(
        **SPACES,
        summary_spec={"directory": str(tmp_path / "events"), "save_secs": 5},
        saver_spec={"directory": str(tmp_path / "saved"), "save_secs": 6},
    )

    def step(now: float, reward: float, terminal: bool = False) -> None:
        clock[0] = now
        agent.observe(STATE, agent.get_action(STATE), None, reward, STATE, terminal)

    step(1, 1.0, terminal=True)
    step(4, 2.0)
    agent.reset()  # of what was not finished nothing is written
    step(5.9, 3.0, terminal=True)
    assert not (tmp_path / "saved").exists()
    step(6, 4.0)
    step(11, 5.0)
    assert [path.name for path in (tmp_path / "saved").iterdir()] == ["model.ckpt-4"]
    agent.terminate()
    assert scalars(tmp_path / "events") == [(1, {"episode_reward": 1.0}), (4, {"episode_reward": 3.0})]


def test_a_pattern_selects_what_is_written(tmp_path: Path) -> None:
    own = {"directory": str(tmp_path / "events"), "save_steps": 1}
    with RandomAgent(**SPACES, summary_spec={**own, "summary_regexp": "rew"}) as agent:
        agent.observe(STATE, 0, None, 2.0, STATE, True)
    assert scalars(tmp_path / "events") == [(0, {"episode_reward": 2.0})]
    with pytest.warns(RLGraphWarning, match="summary_regexp"):
        RandomAgent(**SPACES, summary_spec={**own, "summary_regexp": "accuracy"})
    error = refused(RandomAgent, **SPACES, summary_spec={**own, "summary_regexp": "("})
    assert error.argument == "RandomAgent: summary_spec['summary_regexp']"


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    agent = RandomAgent(**SPACES, auto_build=False, summary_spec={"directory": str(tmp_path / "file" / "events")})
    assert refused(agent.build).argument == "RandomAgent: summary_spec['directory']"
    assert not agent.graph_built


@pytest.mark.usefixtures("unconverted")
def test_weights_that_are_not_finite_never_replace_good_checkpoints(tmp_path: Path) -> None:
    agent = _dqn(saver_spec={"directory": str(tmp_path), "save_steps": 2, "max_checkpoints": 1})
    for _ in range(2):
        agent.observe(STATE, int(agent.get_action(STATE)), None, 1.0, STATE, False)
    agent.set_weights({name: np.full_like(array, 3e38) for name, array in agent.get_weights().items()})
    [good] = tmp_path.iterdir()
    before = {path.name: path.read_bytes() for path in good.iterdir()}
    with pytest.raises(NonFiniteError, match=r"the loss is (inf|nan) at update 1, timestep 2"):
        agent.update()
    with pytest.raises(NonFiniteError, match="NaN or infinite at update 1; nothing is saved"):
        agent.store_model()
    agent.terminate()
    assert [*tmp_path.iterdir()] == [good]
    assert {path.name: path.read_bytes() for path in good.iterdir()} == before
