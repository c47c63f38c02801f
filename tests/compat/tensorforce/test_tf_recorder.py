import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axonrl.compat.tensorforce.agents.recorder import write_trace

from .agents import make, refused


def play(agent: Any, episodes: int, length: int = 3, terminal: int = 1) -> list[int]:
    """Episodes whose states are (episode, timestep, 0), and the actions of all."""
    actions = []
    for _ in range(episodes):
        for t in range(length):
            actions.append(int(agent.act([agent.episodes, t, 0.0])))
            agent.observe(0.1 * t, terminal if t == length - 1 else 0)
    return actions


def traces(folder: Path) -> list[dict[str, Any]]:
    """What the files hold, in the order of their names."""
    found = []
    for path in sorted(folder.iterdir()):
        with np.load(path, allow_pickle=False) as file:
            found.append({name: file[name] for name in file.files})
    return found


def episodes_of(folder: Path) -> list[int]:
    return sorted(int(path.name.split("-")[1]) for path in folder.iterdir())


def test_files_hold_so_many_episodes(tmp_path: Path) -> None:
    agent = make(recorder=dict(directory=str(tmp_path / "new" / "traces"), frequency=2))
    actions = play(agent, 4)
    first, second = traces(tmp_path / "new" / "traces")
    assert list(first) == ["state", "action", "action_mask", "terminal", "reward"]
    assert first["terminal"].tolist() == second["terminal"].tolist() == [0, 0, 1, 0, 0, 1]
    assert first["state"][:, 0].tolist() == [0, 0, 0, 1, 1, 1]
    assert second["state"][:, :2].tolist() == [[2, 0], [2, 1], [2, 2], [3, 0], [3, 1], [3, 2]]
    assert first["reward"].tolist() == [0.0, 0.1, 0.2] * 2
    assert [*first["action"], *second["action"]] == actions
    assert first["action_mask"].shape == (6, 3)
    assert first["action_mask"].all()
    assert [array.dtype for array in first.values()] == [np.float32, np.int32, np.bool_, np.int64, np.float64]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [({"max-traces": 1}, [4]), ({"max_traces": 3}, [2, 3, 4]), ({"start": 3, "frequency": 2}, [4])],
)
def test_which_files_there_are(tmp_path: Path, settings: dict[str, int], expected: list[int]) -> None:
    agent = make(recorder=dict(directory=tmp_path, **settings))
    play(agent, 4)
    agent.close()
    assert episodes_of(tmp_path) == expected


def test_old_files_go_by_their_number_and_never_the_new_one(tmp_path: Path) -> None:
    names = ["trace-9-20200101-000000.npz", "trace-12-20190101-000000.npz", "trace-30-x.npz", "other.npz"]
    for name in names:
        (tmp_path / name).touch()
    play(make(recorder=dict(directory=tmp_path, **{"max-traces": 2})), 1)
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left[0] == "other.npz"
    assert left[1].startswith("trace-00000001-")
    assert left[2:] == ["trace-12-20190101-000000.npz", "trace-30-x.npz"]


def test_writers_at_the_same_time_do_not_overwrite_each_other(tmp_path: Path) -> None:
    def write(value: int) -> None:
        for k in range(5):
            write_trace(tmp_path, 1, {"x": np.array([5 * value + k])})

    threads = [threading.Thread(target=write, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(int(trace["x"][0]) for trace in traces(tmp_path)) == list(range(20))


@pytest.mark.usefixtures("unconverted")
def test_lanes_have_their_own_rows_in_the_order_of_their_ends(tmp_path: Path) -> None:
    vpg = dict(batch_size=50, network=[dict(type="linear", size=1)])
    agent = make("vpg", recorder=dict(directory=tmp_path, frequency=2), parallel_interactions=2, **vpg)
    agent.act([[0, 0, 0], [1, 0, 0]], parallel=[0, 1])
    agent.observe([0.5, 1.5], [0, 0], parallel=[0, 1])
    for t, end in ((1, 0), (2, 2)):
        agent.act([1, t, 0], parallel=1)
        agent.observe(10.0 + t, end, parallel=1)
    agent.act([0, 1, 0], parallel=0)
    agent.observe(20.0, True, parallel=0)
    for lane, t, reward, end in ((1, 0, 1.5, 0), (1, 1, 11.0, 0), (1, 2, 12.0, 2), (0, 0, 0.5, 0), (0, 1, 20.0, 1)):
        agent.act([lane, t, 0], parallel=lane)
        agent.observe(reward, end, parallel=lane)
    for trace in traces(tmp_path):
        assert trace["state"][:, :2].tolist() == [[1, 0], [1, 1], [1, 2], [0, 0], [0, 1]]
        assert trace["reward"].tolist() == [1.5, 11.0, 12.0, 0.5, 20.0]
        assert trace["terminal"].tolist() == [0, 0, 2, 0, 1]
    learning: Any = agent.learning
    stored = learning.memory.state_dict()
    assert stored["observation"]["state"][:, :2].tolist() == [[1, 0], [1, 1], [1, 2], [0, 0], [0, 1]] * 2
    assert stored["reward"].tolist() == [1.5, 11.0, 12.0, 0.5, 20.0] * 2


@pytest.mark.usefixtures("unconverted")
def test_agents_learn_from_traces(tmp_path: Path) -> None:
    folder = tmp_path / "traces"
    agent = make("vpg", recorder=dict(directory=tmp_path / "own"), batch_size=2, network=[dict(type="linear", size=1)])
    for missing in (folder, tmp_path / "own"):
        assert refused(agent.pretrain, str(missing), num_iterations=2).value == str(missing)
    play(make(recorder=dict(directory=folder)), 3)
    agent.pretrain(str(folder), num_iterations=2, num_traces=2, num_updates=3)
    assert (agent.updates, agent.timesteps, agent.episodes) == (6, 0, 0)


def test_independent_acts_dropped_episodes_and_what_the_owner_of_a_state_does_to_it_are_not_recorded(
    tmp_path: Path,
) -> None:
    agent = make(recorder=dict(directory=tmp_path))
    agent.act([7, 7, 7])
    agent.observe(1.0)
    agent.act([8, 8, 8], independent=True)
    agent.act([7, 8, 7])
    agent.reset()
    agent.act([8, 8, 8], evaluation=True)
    state = np.zeros(3, np.float32)
    agent.act(state)
    state[:] = 8
    agent.observe(0.0)
    agent.act([0, 1, 0])
    agent.observe(0.1, 2)
    (trace,) = traces(tmp_path)
    assert (trace["state"].tolist(), trace["terminal"].tolist()) == ([[0, 0, 0], [0, 1, 0]], [0, 2])


def test_masks_and_nested_names(tmp_path: Path) -> None:
    states = dict(file=dict(type="bool", shape=()), eye=dict(left=dict(type="int", shape=(2,), num_values=4)))
    actions = dict(go=dict(type="int", num_values=2), grip=dict(type="bool", shape=(2,)), turn=dict(type="float"))
    agent = make(recorder=dict(directory=tmp_path), states=states, actions=actions)
    for mask in ([True, False], None):
        given: dict[str, Any] = dict(file=True, eye=dict(left=[3, 1]))
        agent.act(given if mask is None else {**given, "go_mask": mask})
        agent.observe(1, mask is None)
    (trace,) = traces(tmp_path)
    shapes = {name: array.shape for name, array in trace.items()}
    assert shapes == {
        "eye/left": (2, 2), "file": (2,), "go": (2,), "grip": (2, 2), "turn": (2,), "go_mask": (2, 2),
        "terminal": (2,), "reward": (2,),
    }  # fmt: skip
    assert trace["go_mask"].tolist() == [[True, False], [True, True]]
    assert trace["eye/left"].tolist() == [[3, 1], [3, 1]]


def test_a_folder_that_cannot_be_made_or_is_lost(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    wrong: Any
    for name, wrong in (("directory", tmp_path / "file" / "x"), ("start", -1)):
        error = refused(make, recorder={"directory": tmp_path, name: wrong})
        assert error.argument == f"RandomAgent: recorder['{name}']"
    folder = tmp_path / "lost"
    agent = make(recorder=dict(directory=folder))
    folder.rmdir()
    refused(play, agent, 1)
    folder.mkdir()
    assert agent.episodes == 1  # the timestep itself was done
    play(agent, 1)
    assert [trace["state"][:, 0].tolist() for trace in traces(folder)] == [[0, 0, 0], [1, 1, 1]]
