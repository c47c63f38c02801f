"""Saving and loading: names of files, what is in them, and that a loaded agent goes on as the saved one."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axonrl.compat.tensorforce import Agent, Environment, util
from axonrl.compat.tensorforce.agents.files import find, read_arrays
from axonrl.compat.tensorforce.agents.saver import Saver
from axonrl.compat.tensorforce.agents.state import load_variables
from axonrl.core.errors import NonFiniteError

from .agents import Count, S, generic, make, refused

pytestmark = pytest.mark.usefixtures("traced_once")
VIEWS = [[0.1, -0.2, 0.3], [1.0, 0.0, -1.0], [-2.0, 0.5, 0.25]]


def learner(**kwargs: Any) -> Any:
    return generic(**{"optimizer": dict(type="adam", learning_rate=1e-2), **kwargs})


def dqn(**kwargs: Any) -> Any:
    more: dict[str, Any] = dict(memory=50, batch_size=4, update_frequency=3, exploration=0.1)
    return make("dqn", network=[dict(type="dense", size=8)], **{**more, **kwargs})


def load(folder: Path, filename: str = "agent", **kwargs: Any) -> Any:
    return Agent.load(str(folder), filename, **kwargs)


def step(agent: Any, t: int) -> None:
    """Timestep t of episodes of four timesteps, aborted and ended in turn."""
    agent.act([0.1 * t, np.cos(t), 1.0])
    agent.observe(float(t % 3), terminal=(1 + t // 4 % 2) if t % 4 == 3 else 0)


def run(agent: Any, first: int, last: int) -> None:
    for t in range(first, last):
        step(agent, t)


def variables(agent: Any) -> dict[str, Any]:
    return {name: agent.get_variable(name) for name in agent.get_variables()}


def assert_same(one: Any, other: Any) -> None:
    mine, theirs = variables(one), variables(other)
    assert mine.keys() == theirs.keys()
    assert [name for name in mine if not np.array_equal(mine[name], theirs[name])] == []
    for agent in (one, other):
        agent.initial_internals()
    assert [one.act(s, evaluation=True) for s in VIEWS] == [other.act(s, evaluation=True) for s in VIEWS]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """An agent within its sixth episode, and a folder with a file of it."""
    agent, folder = learner(), tmp_path_factory.mktemp("saved")
    run(agent, 0, 22)
    agent.save(directory=str(folder))
    return agent, folder


def test_paths(saved: tuple[Any, Path], tmp_path: Path) -> None:
    agent, _ = saved
    folder = str(tmp_path / "new" / "folder")
    assert agent.save(directory=folder) == f"{folder}/agent"
    assert agent.save(directory=folder, append="timesteps") == f"{folder}/agent-22"
    assert agent.save(folder, format="numpy", append="timesteps") == f"{folder}/agent-22.npz"
    assert agent.save(folder, "b", "hdf5", "episodes") == f"{folder}/b-5.hdf5"
    files = {"agent.json", "agent.safetensors", "agent.actonly", "agent-22.safetensors", "agent-22.actonly"}
    assert {path.name for path in Path(folder).iterdir()} == {*files, "agent-22.npz", "b.json", "b-5.hdf5"}
    spec = json.loads((tmp_path / "new" / "folder" / "b.json").read_text())
    assert (spec["agent"], spec["internals"], spec["initial_internals"]) == ("tensorforce", {}, {})
    for wrong in (dict(format="npz"), dict(append="timestep"), dict(directory="")):
        refused(agent.save, **{"directory": folder, **wrong})


@pytest.mark.parametrize(
    ("files", "format", "found"),
    [
        (["agent-9.npz", "agent-12.npz", "agent2-1.hdf5", "agent-x.npz", "agent-9-1.npz"], None, "agent-12.npz"),
        (["agent-9.npz", "agent-12.npz", "agent.npz"], None, "agent.npz"),
        (["agent.safetensors", "agent.actonly"], "pb-actonly", "agent.actonly"),
    ],
)
def test_which_file_a_name_means(tmp_path: Path, files: list[str], format: Any, found: str) -> None:
    for file in files:
        (tmp_path / file).touch()
    assert find("Agent.load", tmp_path, "agent", format).path == tmp_path / found


@pytest.mark.parametrize(
    ("files", "given", "argument"),
    [
        (["agent.npz", "agent.hdf5"], {}, "Agent.load: format"),
        (["agent.npz"], dict(format="checkpoint"), "Agent.load: format"),
        (["agent2.npz", "agent.json"], {}, "Agent.load: filename"),
    ],
)
def test_names_that_mean_nothing(tmp_path: Path, files: list[str], given: dict[str, Any], argument: str) -> None:
    for file in files:
        (tmp_path / file).touch()
    assert refused(Agent.load, **{"directory": str(tmp_path), **given}).argument == argument


@pytest.mark.parametrize("format", ["numpy", "hdf5"])
def test_a_name_may_end_like_a_file(saved: tuple[Any, Path], tmp_path: Path, format: str) -> None:
    agent, _ = saved
    agent.save(str(tmp_path), "model.npz", format)
    assert load(tmp_path, "model.npz").timesteps == 22
    assert "model.h5 (or with" in str(refused(load, tmp_path, "model.h5"))


@pytest.mark.parametrize("format", ["numpy", "hdf5"])
def test_every_variable_and_counter(saved: tuple[Any, Path], tmp_path: Path, format: str) -> None:
    agent, _ = saved
    agent.save(directory=str(tmp_path), format=format)
    other = load(tmp_path)
    assert (other.timesteps, other.episodes, other.updates) == (22, 5, 5)
    assert_same(agent, other)
    assert other.spec == agent.spec
    other.act(S)  # no episode runs


@pytest.mark.usefixtures("unconverted")
def test_variables_of_two_optimizers_that_are_shown_alike(tmp_path: Path) -> None:
    agent = learner(baseline_policy=[dict(type="dense", size=2)], baseline_objective="value", baseline_optimizer="adam")
    run(agent, 0, 8)
    assert sum(name.endswith("adam/iteration") for name in agent.get_variables()) == 2
    before = variables(agent)
    for format in ("numpy", "hdf5"):
        path = agent.save(directory=str(tmp_path), format=format)
        run(agent, 8, 12)
        load_variables("test", agent, read_arrays("test", Path(path)))
        assert all(np.array_equal(value, before[name]) for name, value in variables(agent).items())


@pytest.mark.parametrize("make_one", [learner, dqn])
def test_saving_changes_nothing_and_a_loaded_agent_continues_as_the_saved_one(tmp_path: Path, make_one: Any) -> None:
    """Memory, optimizer, schedules, random processes and statistics of preprocessing are in the file."""
    settings = dict(
        exploration=dict(type="ornstein_uhlenbeck", absolute=True, sigma=0.1),
        preprocessing=dict(
            float=["exponential_normalization", "deltafier", dict(type="sequence", length=2)],
            reward=dict(type="clipping", upper=np.float32(1.5)),
        ),
    )
    agent, undisturbed = make_one(**settings), make_one(**settings)
    run(undisturbed, 0, 28)
    run(agent, 0, 14)
    agent.act(S, independent=True)
    agent.save(directory=str(tmp_path), filename="early", format="hdf5")  # within an episode
    run(agent, 14, 16)
    agent.save(directory=str(tmp_path), append="timesteps")
    run(agent, 16, 18)
    agent.save(directory=str(tmp_path), filename="other", format="numpy")
    run(agent, 18, 28)
    assert_same(agent, undisturbed)
    other = load(tmp_path)
    run(other, 16, 28)
    assert agent.updates > 2
    assert_same(agent, other)


def test_arguments_win_over_the_saved_ones(saved: tuple[Any, Path], in_tensorflow: Any) -> None:
    agent, folder = saved
    other = load(folder, exploration=0.25, agent="TensorforceAgent")
    assert other.act(S, query="exploration")[1] == 0.25
    assert np.array_equal(other.get_variable("policy/policy-network/dense0/weights"),
                          agent.get_variable("policy/policy-network/dense0/weights"))  # fmt: skip
    assert refused(load, folder, agent="dqn").argument == "Agent.load: agent"
    assert refused(load, folder, nonsense=1).argument == "nonsense"
    with in_tensorflow():
        assert refused(load, folder, policy=[dict(type="dense", size=9)]).argument == "Agent.load: filename"


@pytest.mark.usefixtures("unconverted")
def test_a_memory_that_does_not_fit_begins_empty(saved: tuple[Any, Path], caplog: pytest.LogCaptureFixture) -> None:
    other = load(saved[1], preprocessing=dict(reward=dict(type="clipping", upper=0.5)))
    refused(other.update)
    assert "memory" in caplog.text


def test_the_environment_says_how_long_episodes_are(tmp_path: Path) -> None:
    Agent.create("random", environment=Count()).save(directory=str(tmp_path))
    short = Environment.create(Count(), max_episode_timesteps=12)
    assert load(tmp_path, environment=short).max_episode_timesteps == 12
    refused(load, tmp_path, environment=short, max_episode_timesteps=5)


def test_a_number_has_its_own_specification_or_that_of_the_name(tmp_path: Path) -> None:
    agent = make(name="lucky")
    agent.save(directory=str(tmp_path), filename="a-3", format="numpy")
    assert load(tmp_path, "a-3").spec["name"] == "lucky"
    (tmp_path / "a-3.json").rename(tmp_path / "a.json")
    assert load(tmp_path, "a-3.npz").spec["name"] == "lucky"
    spec = json.loads((tmp_path / "a.json").read_text())
    (tmp_path / "a.json").unlink()
    refused(load, tmp_path, "a-3")
    del spec["internals"], spec["initial_internals"]
    assert load(tmp_path, "a-3", **spec).spec == agent.spec


@pytest.mark.usefixtures("unconverted")
def test_functions_are_not_in_the_file(tmp_path: Path) -> None:
    def shifted(x: Any) -> Any:
        return x + 1.0

    policy = [dict(type="function", function=shifted), dict(type="dense", size=8)]
    agent = learner(policy=policy)
    with pytest.warns(UserWarning, match="Agent.load"):
        agent.save(directory=str(tmp_path), format="numpy")
    assert json.loads((tmp_path / "agent.json").read_text()).keys() == {"states", "actions", "internals"}
    more = {key: value for key, value in agent.spec.items() if key not in ("states", "actions")}
    assert_same(load(tmp_path, **more), agent)


@pytest.mark.parametrize(
    ("format", "suffix"), [("tensorflow", "agent.safetensors"), ("pb-actonly", "agent.actonly/policy.tflite")]
)
def test_damaged_files_are_refused(saved: tuple[Any, Path], tmp_path: Path, format: str, suffix: str) -> None:
    shutil.copytree(saved[1], tmp_path, dirs_exist_ok=True)
    file = tmp_path / suffix
    file.write_bytes(file.read_bytes()[:-50])
    refused(load, tmp_path, format=format)


def test_acting_without_tensorflow(saved: tuple[Any, Path]) -> None:
    agent, folder = saved
    wanted = [int(agent.act(s, evaluation=True)) for s in VIEWS]
    code = (
        "import sys; from axonrl.compat.tensorforce import Agent;"
        f"a = Agent.load({str(folder)!r}, format='pb-actonly');"
        f"print(*[a.act(s) for s in {VIEWS}], hasattr(a, 'observe'), 'tensorflow' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split() == [*map(str, wanted), "False", "False"], done.stderr
    for given in (dict(environment="CartPole-v1"), dict(exploration=0.0)):
        assert refused(load, folder, format="pb-actonly", **given).argument == f"Agent.load: {next(iter(given))}"


def test_acting_only_takes_batches_masks_and_flags(saved: tuple[Any, Path]) -> None:
    agent, folder = saved
    actor = load(folder, format="pb-actonly")
    wanted = [agent.act(s, evaluation=True) for s in VIEWS]
    batch = actor.act(VIEWS, parallel=range(3), internals=[{}] * 3)
    assert (batch[0].tolist(), batch[1]) == (wanted, [{}] * 3)
    assert actor.act(S, internals={}, evaluation=True) == (wanted[0], {})
    assert isinstance(actor.act(S), np.int32)
    best = int(wanted[0])
    mask = [k != best for k in range(3)]
    assert actor.act(dict(state=S, action_mask=mask)) != best
    assert actor.initial_internals() == {}
    for wrong in (dict(states=[0.0]), dict(states=S, evaluation=False, deterministic=False), dict(states=VIEWS)):
        refused(actor.act, **wrong)
    actor.close()
    actor.close()
    refused(actor.act, S)


def test_acting_only_returns_the_types_that_a_program_sets(
    saved: tuple[Any, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(util.np_dtype_mapping, "int", np.int64)
    assert isinstance(load(saved[1], format="pb-actonly").act(S), np.int64)


@pytest.mark.usefixtures("unconverted")
def test_acting_only_with_internals_preprocessing_and_several_actions(tmp_path: Path) -> None:
    turn, grip = dict(type="float", min_value=-1.0, max_value=2.0), dict(type="bool", shape=(2,))
    agent = learner(
        states=dict(eye=dict(type="float", shape=2)),
        actions=dict(a=turn, b=dict(c=grip)),
        policy=[dict(type="internal_gru", size=2, length=1)],
        max_episode_timesteps=4,
        preprocessing=dict(eye="exponential_normalization"),
    )
    views = [dict(eye=[0.5 * k, -k]) for k in range(4)]
    for view in views[:3]:
        agent.act(view)
        agent.observe(1.0)
    agent.save(directory=str(tmp_path))
    actor = load(tmp_path, format="pb-actonly")
    mine, theirs = agent.initial_internals(), actor.initial_internals()
    for view in views:
        action, mine = agent.act(view, internals=mine, evaluation=True)
        acted, theirs = actor.act(view, internals=theirs)
        assert acted["a"] == pytest.approx(action["a"], abs=1e-6)
        assert np.array_equal(acted["b"]["c"], action["b"]["c"])
        assert all(np.allclose(mine[name], theirs[name], atol=1e-6) for name in mine)
        assert any(value.any() for value in theirs.values())
    refused(actor.act, views[0])


def test_what_cannot_act_alone_says_why(
    saved: tuple[Any, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, folder = saved
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    assert (tmp_path / "agent.actonly").is_dir()
    from axonrl.compat.tensorforce.agents import actonly

    monkeypatch.setattr(actonly, "_acting_program", lambda learning: "LiteRT has no such op")
    agent.save(directory=str(tmp_path))
    assert not (tmp_path / "agent.actonly").exists()
    assert "LiteRT has no such op" in str(refused(load, tmp_path, format="pb-actonly"))


def names(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.safetensors"))


def test_the_saver_continues_from_the_newest_file(tmp_path: Path) -> None:
    saver = dict(directory=str(tmp_path), filename="m")
    with learner(saver=saver) as agent:
        run(agent, 0, 8)
        assert names(tmp_path) == ["m-0"]
        assert agent.save().endswith("m")  # the saver's directory and filename
        (tmp_path / "m.safetensors").unlink()
    assert names(tmp_path) == ["m-0", "m-8"]
    again = learner(saver=saver)
    assert (again.timesteps, again.episodes, again.updates) == (8, 2, 2)
    Saver("Agent", dict(saver, load=False), again).begin(again)
    assert again.timesteps == 8
    Saver("Agent", dict(saver, load="m-0"), again).begin(again)
    assert again.timesteps == 0
    refused(Saver("Agent", dict(saver, load="other"), again).begin, again)
    assert load(tmp_path, "m-0", format="tensorflow").timesteps == 0


def test_the_saver_writes_in_time_and_keeps_the_newest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock: list[float] = [0.0]
    monkeypatch.setattr("axonrl.compat.tensorforce.agents.saver.time.monotonic", lambda: clock[0])
    agent = learner(saver={"directory": str(tmp_path), "frequency": 10, "max-checkpoints": 2})
    for t in range(12):
        clock[0] += 5.0  # 10 s after the last time: every second timestep
        step(agent, t)
        if t == 5:
            assert names(tmp_path) == ["agent-4", "agent-6"]
    assert names(tmp_path) == ["agent-10", "agent-12"]
    assert sorted(path.name for path in tmp_path.glob("*.actonly")) == ["agent-10.actonly", "agent-12.actonly"]


def test_a_recorder_that_cannot_write_costs_no_last_file(tmp_path: Path) -> None:
    agent = learner(saver=dict(directory=str(tmp_path / "a")), recorder=dict(directory=str(tmp_path / "traces")))
    (tmp_path / "traces").rmdir()
    run(agent, 0, 3)
    assert refused(step, agent, 3).argument == "TensorforceAgent: recorder['directory']"
    for _ in range(2):  # it may be tried again
        assert refused(agent.close).argument == "TensorforceAgent: recorder['directory']"
        assert names(tmp_path / "a") == ["agent-0", "agent-4"]
    (tmp_path / "traces").mkdir()
    agent.close()
    assert len(list((tmp_path / "traces").iterdir())) == 1
    assert "closed" in str(refused(agent.act, S))


def test_a_new_run_in_an_old_folder_is_continued(tmp_path: Path) -> None:
    """The last file written counts, not the highest number."""
    saver = {"directory": str(tmp_path), "max-checkpoints": 2}
    with learner(saver=saver) as old:
        run(old, 0, 12)
    with learner(saver={**saver, "load": False}) as new:
        run(new, 0, 8)
        assert names(tmp_path) == ["agent-0", "agent-12"]
    assert names(tmp_path) == ["agent-0", "agent-8"]
    assert learner(saver=saver).timesteps == 8


def test_weights_that_are_no_numbers_are_an_error_and_replace_no_file(tmp_path: Path) -> None:
    agent = dqn(saver={"directory": str(tmp_path), "frequency": 1e-9, "max-checkpoints": 1})
    agent.assign_variable("policy/policy-network/dense0/weights", np.full((3, 8), 3e38))
    run(agent, 0, 5)
    with pytest.raises(NonFiniteError, match="the metric 'update_norm' is nan at update 1, timestep 6"):
        step(agent, 5)
    with pytest.raises(NonFiniteError, match="nothing is saved"):
        agent.save(str(tmp_path), format="numpy")
    agent.close()
    assert names(tmp_path) == ["agent-5"]
    assert np.isfinite(load(tmp_path).get_variable("policy/policy-network/dense0/weights")).all()


def test_restoring(saved: tuple[Any, Path], tmp_path: Path) -> None:
    agent, folder = saved
    agent.save(str(tmp_path), "n", "numpy")
    for place in ((str(folder),), (str(tmp_path), "n")):
        other = learner(seed=7)
        other.act(S)
        other.restore(*place)
        assert_same(agent, other)
    refused(other.restore, str(folder), "nobody")


def test_a_refused_file_costs_no_episode(saved: tuple[Any, Path]) -> None:
    _, folder = saved
    agent = dqn()
    step(agent, 0)
    agent.act(S)
    for name, argument in (("nobody", "Agent.restore: filename"), ("agent", "Agent.restore: agent")):
        assert refused(agent.restore, str(folder), name, "tensorflow").argument == argument
    agent.observe(1.0, terminal=True)
    assert (agent.timesteps, agent.episodes, len(agent.learning.memory)) == (2, 1, 2)
    agent.close()
    assert str(refused(agent.restore, str(folder))) == "Agent.restore: the agent is closed"


def test_restoring_leaves_nothing_of_an_agent_that_has_acted(tmp_path: Path) -> None:
    """Its own memory and statistics do not stand in for those that a file lacks or that do not fit."""
    saved = dqn()
    run(saved, 0, 8)
    saved.save(str(tmp_path), "a", "numpy")
    saved.save(str(tmp_path), "b")
    for name, more in (
        ("a", {}),
        ("b", dict(estimate_terminal=True)),
        ("b", dict(preprocessing=dict(float="exponential_normalization"))),
    ):
        agent = dqn(**more)
        run(agent, 0, 12)
        agent.restore(str(tmp_path), name)
        assert (agent.timesteps, len(agent.learning.memory)) == (8, 0)
        assert not any(agent.preprocessing.state_dict().values())


@pytest.mark.parametrize("wrong", [{"frequenzy": 3}, {"load": 3}])
def test_savers_that_are_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    refused(learner, saver={"directory": str(tmp_path), **wrong})
    assert not list(tmp_path.iterdir())
