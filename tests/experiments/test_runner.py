"""From names to objects, and the order in which a run happens. The Agent is a fake here."""

import functools
import json
import re
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from axonrl.errors import ArgumentError, NonFiniteError
from axonrl.experiments.config.schema import load
from axonrl.experiments.errors import ExperimentError, RunFolderError
from axonrl.experiments.running import components, runner
from axonrl.experiments.running.explain import rows
from axonrl.hooks import HistoryHook, Hook, StopAtEpisode
from axonrl.memories import ReplayMemory
from axonrl.run_dir.checkpoints import CheckpointStore
from axonrl.run_dir.history import read_episodes
from axonrl.tests.raising import raised

MODEL = """
import dataclasses
from collections.abc import Mapping
from typing import Any
from axonrl.errors import ArgumentError

@dataclasses.dataclass(frozen=True)
class Params:
    rate: float = 0.1
    width: int = 8
    def __post_init__(self):
        if not 0 < self.rate < 1:
            raise ArgumentError(f"rate must be in 0 .. 1, got {self.rate!r}", "rate", self.rate)

def model_fn(features, labels, mode, params: Mapping[str, Any] | Params | None): ...
def untyped(features, labels, mode, params: "NoSuchName"): ...

class Free:
    def __init__(self, **anything):
        self.anything = anything
    def end(self, session, facts): ...

class Fussy:
    def __init__(self, size: int, colour: str = "red"):
        if colour != "red":
            raise ArgumentError("no such colour", "Fussy(colour)", colour)
    def end(self, session, facts): ...
"""


@pytest.fixture
def file(workplace: Path, monkeypatch: pytest.MonkeyPatch, run_file: Path) -> Path:
    (workplace / "users_model.py").write_text(MODEL)
    monkeypatch.syspath_prepend(workplace)
    return run_file


def run(file: Path, folder: str = "out", sets: dict[str, str] | None = None, **options: Any) -> Any:
    experiment, document = load(file, sets=sets)
    return runner.run(experiment, document, Path(folder), **options)


def test_the_parts_of_an_experiment(file: Path) -> None:
    sets = {"agent.memory.size": "1e4", "hooks": "[{kind: stop_at_episode, episode: 2e0}, 'users_model:Free']"}
    parts = components.build(*load(file, sets=sets))
    assert getattr(parts.model_fn, "__name__", None) == "model_fn"
    assert isinstance(parts.memory, ReplayMemory)
    assert (parts.memory.size, type(parts.memory.size), parts.memory.batch_size) == (10_000, int, 10)
    stop, free = parts.hooks
    assert isinstance(stop, StopAtEpisode)
    assert free.anything == {}


@pytest.mark.parametrize(
    ("name", "value", "key", "message"),
    [
        ("agent.model_fn", "dqm", "agent.model_fn", "unknown model_fn 'dqm'; did you mean 'dqn'?"),
        ("agent.params", "{rate: fast}", "agent.params", "not supported between instances"),
        ("hooks.0", "{kind: 'users_model:Fussy', size: 1, colour: blue}", "hooks.0.colour", "no such colour"),
        ("tracker", "{kind: mlflow, url: x}", "tracker.url", "mlflow has no such argument; did you mean 'uri'?"),
        ("environment.kwargs", "{num_envs: 2}", "environment.kwargs", "num_envs"),
        (
            "environment",
            "{id: Taxi-v4, vectorization: native}",
            "environment.id",
            "Taxi-v4 has no native implementation",
        ),
        ("agent.memory", "null", "agent.memory", "this key is required for training"),
        ("agent.memory.size", "1e30", "agent.memory.size", "at most 9,223,372,036,854,775,807, got 1e+30"),
        ("environment.num_envs", "100000000", "environment.num_envs", "at most 65,536, got 100000000"),
        ("environment.wrappers", "[rescale_action]", "environment.wrappers.0", "got Discrete(2)"),
    ],
)
def test_check_names_the_key(file: Path, name: str, value: str, key: str, message: str) -> None:
    experiment, document = load(file, sets={name: value})
    caught = raised(ExperimentError, runner.check, experiment, document, Path("out"))
    source = f"--set {name}" if name == "tracker" else f"--set {name}={value}"  # which may hold a token
    assert (caught.key, caught.file) == (key, source)
    assert message in str(caught)


def test_an_argument_of_the_memory_that_is_refused_when_it_is_built_is_named(file: Path) -> None:
    experiment, document = load(file, sets={"agent.memory": "{kind: replay, size: 1e12, batch_size: 3}"})
    with pytest.raises(ExperimentError) as caught, components.opened(experiment, document):
        raise ArgumentError("too large", "size", 10**12)
    assert caught.value.key == "agent.memory.size"
    for other in (ArgumentError("elsewhere", "size", 3), ArgumentError("elsewhere", "policy", 3)):
        with pytest.raises(ArgumentError) as passed, components.opened(experiment, document):
            raise other
        assert passed.value is other


@pytest.mark.parametrize(
    ("distributed", "memory", "key"),
    [
        ("{unroll: 10, envs_per_actor: 2}", "{kind: batch, size: 50}", "agent.memory"),
        ("{unroll: 10, envs_per_actor: 2, max_lag: 1}", "{kind: batch, size: 20}", "distributed.max_lag"),
        ("{replay_shards: 2}", "{kind: replay, size: 201, batch_size: 8}", "agent.memory"),
        ("{max_lag: 9}", "{kind: replay, size: 200, batch_size: 8}", "distributed.max_lag"),
        ("{}", "{kind: sequence, size: 200, batch_size: 4, length: 4}", "agent.memory"),
    ],
)
def test_check_names_what_a_cluster_would_refuse(file: Path, distributed: str, memory: str, key: str) -> None:
    with pytest.raises(ExperimentError) as caught:
        runner.check(*load(file, sets={"distributed": distributed, "agent.memory": memory}), Path("out"))
    assert caught.value.key == key


def test_the_names_and_arguments_of_all_parts_are_checked_at_once(file: Path) -> None:
    """Also in a file with other errors."""
    sets = {
        "agent.params": "{rat: 1, rate: 2.0}",
        "agent.memory": "{kind: replay, size: 9, batch_size: 3, discount: 3, n_step: 0}",
        "hooks": "[{kind: progres}, {kind: evaluation, every_timestep: 1e3}, {kind: video, every_timesteps: 0}]",
        "environment.wrappers": "[normalise, {kind: time_limit, steps: 3}]",
        "environment.id": "CartPol-v1",
    }
    caught = raised(ExperimentError, runner.check, *load(file, sets=sets), Path("out"))
    assert {error.key for error in caught.errors} == {
        *("agent.params.rat", "agent.params.rate", "agent.memory.n_step", "agent.memory.discount"),
        *("hooks.0.kind", "hooks.1.every_timestep", "hooks.2.every_timesteps"),
        *("environment.wrappers.0.kind", "environment.wrappers.1.steps", "environment.id"),
    }
    sets = {
        **{"trian": "{}", "hooks": "[3, {kind: evaluation, every: 5}]", "environment.wrappers": "[normalise]"},
        **{"environment.id": "CartPol-v1", "environment.num_envs": "0", "train.max_steps": "1e999"},
        **{"agent.memory.size": "1e999", "agent.memory.bach_size": "3", "tracker": "{kind: 'users_model:Absent'}"},
    }
    wrong = [
        *("agent.memory.bach_size", "agent.memory.size", "environment.id", "environment.num_envs"),
        *("environment.wrappers.0.kind", "hooks.0", "hooks.1.every", "tracker.kind", "train.max_steps", "trian"),
    ]
    caught = raised(ExperimentError, load, file, sets=sets, check_parts=components.check_parts)
    assert sorted(error.key for error in caught.errors) == wrong
    sets |= {"agent.model_fn": "dqn", "agent.params": "{lr: 1, sigma: 3}", "agent.params.double": "1e999"}
    caught = raised(ExperimentError, load, file, sets=sets, check_parts=components.check_parts)
    params = [f"agent.params.{name}" for name in ("double", "lr", "sigma")]  # known without TensorFlow
    assert sorted(error.key for error in caught.errors) == sorted([*wrong, *params])


def test_no_tracker_is_made_where_the_training_runs(file: Path, agents: list[Any]) -> None:
    down = "class Down:\n    def __init__(self, where): raise ConnectionError('its service is down')\n"
    Path("users_model.py").write_text(MODEL + down)
    sets = {"tracker": "{kind: 'users_model:Down', where: there}"}
    assert runner.check(*load(file, sets=sets), Path("out"))["name"] == "my_run"
    assert run(file, sets=sets).timesteps == 20


def test_check_names_the_line_of_a_wrapper(file: Path) -> None:
    wrappers = "environment:\n  id: CartPole-v1\n  wrappers:\n  - normalize_reward\n  - channels_last\nagent:"
    file.write_text(file.read_text().replace("environment: {id: CartPole-v1}\nagent:", wrappers))
    with pytest.raises(ExperimentError, match="channels_last must come before normalize_reward") as caught:
        runner.check(*load(file), Path("out"))
    assert (caught.value.file, caught.value.line, caught.value.key) == (str(file), 7, "environment.wrappers.1")


def test_wrappers_go_around_training_and_evaluation(file: Path, agents: list[Any]) -> None:
    wrappers = "[normalize_observation, {kind: time_limit, max_episode_steps: 7}]"
    run(file, sets={"environment.num_envs": "2", "environment.wrappers": wrappers})
    for env, copies in zip(agents[0].envs, (2, 4), strict=True):
        assert [str(one).count("TimeLimit") for one in env.envs] == [2] * copies
        assert len({id(one.normalizers) for one in env.envs}) == 1
        assert env.envs[0].normalizers.observation is not None


def test_check_passes_and_leaves_nothing(file: Path, agents: list[Any]) -> None:
    before = sorted(file.parent.iterdir())
    runner.check(*load(file), Path("out"))
    sets = {"agent.model_fn": "users_model:untyped", "agent.params": "{anything: 1}"}
    runner.check(*load(file, sets=sets), Path("out"))
    assert [path for path in sorted(file.parent.iterdir()) if path.name != "__pycache__"] == before
    assert [agent.checked[1:3] for agent in agents] == [(10, 5), (10, 5)]
    assert not any(agent.given[2].exists() for agent in agents)


def test_a_run(file: Path, agents: list[Any]) -> None:
    sets = {"environment.num_envs": "2", "seed": "5", "config.keep_checkpoint_max": "3"}
    result = run(file, sets=sets, command=["axonrl", "run"])
    (agent,) = agents
    model_fn, memory, model_dir, config, params = agent.given
    assert (model_fn.__name__, memory.size, model_dir, params) == ("model_fn", 100, Path("out"), {"rate": 0.5})
    assert (config.seed, config.keep_checkpoint_max) == (5, 3)
    assert agent.train_arguments == {"first_update": 10, "update_frequency": 5, "timesteps": 20}
    training, evaluation = agent.envs
    assert isinstance(training, gymnasium.vector.SyncVectorEnv)
    assert (training.num_envs, evaluation.num_envs) == (2, 4)
    assert agent.evaluations == [{"episodes": 4, "policy": "last"}]
    assert (result.episodes, result.timesteps, result.updates) == (10, 20, 7)
    assert result.evaluation["episode_return_mean"] == 9.0
    assert result.timesteps_per_second == pytest.approx(20 / result.seconds)
    assert sorted(path.name for path in Path("out").iterdir()) == [
        *("episodes.csv", "evaluations.csv", "experiment.yml"),
        *("learning_curve.png", "learning_curve.svg", "starts.json"),
    ]
    assert len(read_episodes(Path("out"))) == 10
    assert json.loads(Path("out/starts.json").read_text())[0]["command"] == ["axonrl", "run"]


LEARN = {"learn": "{data: a.npz, max_steps: 50}"}


@pytest.fixture
def data(workplace: Path) -> None:
    """A file to learn from, which the false agents do not read."""
    (workplace / "a.npz").touch()


@pytest.mark.usefixtures("data")
def test_learning_from_data_comes_before_training_and_without_a_section_train_is_all(
    file: Path, agents: list[Any]
) -> None:
    result = run(file, "stopped", sets=LEARN, stopped=lambda: "it is late")
    assert (result.stopped, result.evaluation) == ("it is late", None)
    assert (agents[0].learn_arguments != {}, agents[0].train_arguments, agents[0].evaluations) == (True, {}, [])
    assert not Path("stopped/learning_curve.png").exists()
    result = run(file, "alone", sets={**LEARN, "train": "null"})
    assert agents[1].train_arguments == {}
    assert (result.timesteps, result.seconds, result.timesteps_per_second) == (0, 2.0, 0.0)
    assert result.evaluation["episode_return_mean"] == 9.0
    result = run(file, sets=LEARN)
    agent = agents[2]
    assert agent.learn_arguments == {"data": "a.npz", "max_steps": 50}
    assert agent.train_arguments["timesteps"] == 20
    learning, training, _ = agent.envs
    assert learning is training
    assert (result.seconds, result.timesteps_per_second) == (3.0, pytest.approx(20.0))


@pytest.mark.usefixtures("data")
def test_check_hands_over_the_data(file: Path, agents: list[Any]) -> None:
    experiment, document = load(file, sets={**LEARN, "train": "null"})
    found = runner.check(experiment, document, Path("out"))
    assert agents[0].checked[4] == {"data": "a.npz"}
    assert (found["learn"], found["train"]) == ({"data": "a.npz", "max_steps": 50}, None)
    assert rows(found)["learns from"] == "a.npz, 50 updates"
    assert "updates" not in rows(found)


@pytest.mark.parametrize("act", [runner.check, functools.partial(runner.compile_experiment, seeds=[4])])
def test_data_that_do_not_exist_are_refused_with_their_line(act: Any, file: Path, agents: list[Any]) -> None:
    """Also before the runs of many seeds, which are compiled first."""
    with pytest.raises(
        ExperimentError, match=re.escape(f"learn.data: a.npz does not exist in {Path.cwd()};")
    ) as caught:
        act(*load(file, sets={**LEARN, "train": "null"}), Path("out"))
    assert caught.value.key == "learn.data"
    assert agents == []


@pytest.mark.usefixtures("agents")
def test_the_order_of_hooks(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    class Other(Hook):
        def begin(self, session: Any, facts: Any) -> None:
            order.append("other")

    monkeypatch.setattr(HistoryHook, "begin", lambda *_: order.append("history"))
    monkeypatch.setattr(StopAtEpisode, "begin", lambda *_: order.append("file"))
    run(file, hooks=[Other()])
    assert order == ["history", "other", "file"]


def test_a_stopped_run_is_not_evaluated_and_one_that_does_not_want_it(file: Path, agents: list[Any]) -> None:
    assert run(file, "stopped", stopped=lambda: "it is late").evaluation is None
    assert run(file, sets={"evaluate": "null"}).evaluation is None
    assert [agent.evaluations for agent in agents] == [[], []]
    curves = [Path(folder, "learning_curve.png").exists() for folder in ("stopped", "out")]
    assert curves == [False, True]


@pytest.mark.usefixtures("agents")
def test_a_run_that_fails_before_its_first_timestep_leaves_no_folder(file: Path, failures: list[Exception]) -> None:
    """And in one that is a link, nothing."""
    Path("elsewhere").mkdir()
    Path("link").symlink_to("elsewhere")
    for folder in ("out", "link"):
        failures.append(ValueError("the params do not fit"))
        raised(ValueError, run, file, folder, match="the params do not fit")
    assert not Path("out").exists()
    assert list(Path("link").iterdir()) == []


@pytest.mark.usefixtures("agents")
def test_a_run_that_fails_later_keeps_its_folder(file: Path, failures: list[Exception]) -> None:
    class Failing(Hook):
        def after_episode(self, session: Any, facts: Any) -> None:
            if session.global_episode == 3:
                raise NonFiniteError("the loss is NaN")

    with pytest.raises(NonFiniteError):
        run(file, hooks=[Failing()])
    failures.append(ValueError("no"))  # before the first timestep of a run that is resumed
    raised(ValueError, run, file, resume=True, match="no")
    assert [row.episode for row in read_episodes(Path("out"))] == [1, 2, 3]
    assert Path("out/experiment.yml").exists()


@pytest.mark.usefixtures("agents")
def test_what_a_checkpoint_holds_is_kept_whatever_the_hooks_say(
    file: Path, failures: list[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CheckpointStore, "newest", lambda store: 2)  # the first is of timestep zero
    failures.append(IndexError("tuple index out of range"))
    raised(IndexError, run, file)
    assert Path("out/experiment.yml").exists()


@pytest.mark.usefixtures("agents")
def test_a_run_that_another_process_is_at_is_not_resumed_and_not_written_to(file: Path) -> None:
    run(file)
    before = {path: path.read_bytes() for path in Path("out").rglob("*") if path.is_file()}
    with CheckpointStore(Path("out")).lock():
        with pytest.raises(RunFolderError, match=r"^Run folder out cannot be resumed now: out is in use by"):
            run(file, resume=True, sets={"train.max_timesteps": "40"})
        after = {path: path.read_bytes() for path in Path("out").rglob("*") if path.is_file()}
    assert {path: after.get(path) for path in before} == before
    run(file, resume=True)


def test_the_environment_is_closed(file: Path, agents: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[Any] = []

    def close(env: Any) -> None:
        closed.append(env)

    monkeypatch.setattr(gymnasium.Wrapper, "close", close)
    run(file, sets={"evaluate": "null"})
    assert closed[0] is agents[0].envs[0]
