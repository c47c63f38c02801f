"""Compiled once, trained anywhere: to the very weights of the process that compiled."""

import dataclasses
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium.spaces import Box, Discrete

from axonrl import Agent, EstimatorSpec, Modes, RunConfig, inputs, memories, noise
from axonrl.core.initializers import Draw
from axonrl.errors import ArgumentError
from axonrl.estimators.compilation import add_seeds
from axonrl.estimators.limits import UpdateSchedule
from axonrl.estimators.stepper import Stepper
from axonrl.explorations import EpsilonGreedy, GaussianNoise
from axonrl.hooks import EvaluationHook, NaNGuard
from axonrl.memories import Prioritized, ReplayMemory
from axonrl.models import dqn, ppo, sac
from axonrl.models.blocks.networks import dense
from axonrl.policies import Learner, Policy
from axonrl.policies import add_seeds as add_seeds_elsewhere
from axonrl.policies.compiled import read, with_digest
from axonrl.run_dir.folders import only_writer
from axonrl.schedules import Constant, Linear
from axonrl.tests.estimators import compiled_child as child
from axonrl.tests.estimators.fakes import Lazily, agent, linear_model
from axonrl.tests.raising import raised

SEEDS = (2, 5)


def recurrent(features: Any, labels: Any, mode: str, params: Any, config: RunConfig) -> EstimatorSpec:
    """A user's own: an LSTM cell that acts on what it remembers, and learns with noise and RMSprop."""
    known = isinstance(features, dict)
    observation = features["observation"] if known else features
    size = tf.shape(observation)[0]
    names = ("carry", "hidden")
    state = {name: features["state"][name] if known else tf.zeros([size, 4]) for name in names}
    cell, head = keras.layers.LSTMCell(4), keras.layers.Dense(1, kernel_initializer="truncated_normal")
    scale = tf.Variable(tf.random.uniform((1,), 0.5, 1.5), name="scale")  # seeded by the graph, not by Keras
    output, (hidden, carry) = cell(observation, [state["hidden"], state["carry"]])
    action = 2.0 * tf.tanh(head(output) * scale)
    if mode == Modes.PREDICT:
        exploration = GaussianNoise(Linear(0.5, 0.1, 50), config.action_space)
        following = {"carry": carry, "hidden": hidden}
        return EstimatorSpec(mode, {"action": action}, exploration=exploration, state=following if known else state)
    loss = tf.reduce_mean((action - labels["reward"][:, None] - params["shift"] * noise.normal(action.shape)) ** 2)
    variables = [*cell.trainable_variables, *head.trainable_variables]
    gradients = tf.gradients(loss, [v.value for v in variables])
    keras.optimizers.RMSprop(1e-2).apply(gradients, variables)
    return EstimatorSpec(mode, loss=loss, metrics={"mean": tf.reduce_mean(action)})


def mixed(features: Any, labels: Any, mode: str) -> EstimatorSpec:
    """A user's own, with a layer of axonrl's blocks below one of Keras'."""
    layers = keras.Sequential([dense(3, "below", "linear", "he_uniform", 1.0), keras.layers.Dense(2)])
    following = None if labels is None else {**labels, "next_observation": layers(labels["next_observation"])}
    return linear_model(layers(features), following, mode)


@dataclasses.dataclass(frozen=True)
class Case:
    """A run: its model, its environment, and how far it goes, by stages."""

    model_fn: Any
    memory: str
    memory_arguments: dict[str, Any]
    env: tuple[str, int | None]
    stages: tuple[int, int]
    params: dict[str, Any] = dataclasses.field(default_factory=dict)
    schedule: tuple[int, int] = (2, 40)  # update_frequency and first_update

    def opened(self) -> Any:
        return child.opened(self.env)

    def agent(self, folder: Path, seed: int = SEEDS[0]) -> Agent:
        memory = getattr(memories, self.memory)(**self.memory_arguments)
        config = RunConfig(seed=seed, progress=False, save_checkpoints_secs=None)
        return Agent(self.model_fn, memory, folder, config, self.params)


SMALL = {"hidden": [4]}
RATES = {"learning_rate": 1e-3, "clip": 0.1, "entropy_coefficient": 0.03, "gae_lambda": 0.9}
"""Of PPO: three that may follow a schedule, and one that may not."""
CASES = {
    "dqn": Case(dqn.model_fn, "ReplayMemory", {"size": 500, "batch_size": 8}, ("CartPole-v1", None), (60, 100), SMALL),
    "ppo": Case(
        ppo.model_fn,
        "BatchMemory",
        {"size": 32, "batch_size": 32},
        ("CartPole-v1", 4),
        (70, 160),
        {**SMALL, "shared": True, "optimizer": "sgd", "minibatch_size": 16, "epochs": 1, **RATES},
    ),
    "sac": Case(
        sac.model_fn,
        "ReplayMemory",
        {"size": 500, "batch_size": 8},
        ("Pendulum-v1", None),
        (50, 80),
        {**SMALL, "optimizer": "sgd"},
    ),
    "recurrent": Case(
        recurrent, "ReplayMemory", {"size": 500, "batch_size": 8}, ("Pendulum-v1", 2), (50, 80), {"shift": 0.1}
    ),
}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Each case, compiled for the seeds."""
    folder = tmp_path_factory.mktemp("compiled")

    def make(name: str) -> Path:
        env = CASES[name].opened()
        made = CASES[name].agent(folder / f"{name}-run").compile(folder / name, env, seeds=SEEDS)
        env.close()
        assert not list((folder / f"{name}-run").glob("checkpoints"))  # no run begins
        return made

    return Lazily(make)


@pytest.fixture(scope="module")
def trained(compiled: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The run of each case in a process without TensorFlow, and what that says."""
    folder = tmp_path_factory.mktemp("runs")

    def make(name: str) -> tuple[Path, Any]:
        job = {**dataclasses.asdict(CASES[name]), "model_fn": None, "seed": SEEDS[1]}
        job |= {"compiled": str(compiled[name]), "model_dir": str(folder / name)}
        command = [sys.executable, child.__file__]
        ran = subprocess.run(command, input=json.dumps(job), capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        result = json.loads(ran.stdout)
        assert result["loaded"] == []
        assert result["compiling_again"] == f"{compiled[name]} is compiled already: copy that directory"
        return folder / name, result

    return Lazily(make)


@pytest.mark.parametrize("name", CASES)
def test_the_weights_are_those_of_a_process_with_tensorflow(name: str, trained: dict[str, Any], tmp_path: Path) -> None:
    """Also of a run that went on in another Agent; seed 5 has no trace in the directory, only initial weights."""
    case, (_, result) = CASES[name], trained[name]
    traced = case.agent(tmp_path, SEEDS[1])  # one for both stages: traced once
    expected = [child.train(traced, case.env, timesteps, case.schedule) for timesteps in case.stages]
    assert result["digests"] == expected
    assert expected[0] != expected[1]


def test_runs_go_on_with_the_function_or_compiled(
    trained: dict[str, Any], compiled: dict[str, Path], tmp_path: Path
) -> None:
    """The run of a compiled program is an ordinary one: the record names the function, and TensorFlow continues it."""
    case, (folder, _) = CASES["dqn"], trained["dqn"]
    shutil.copytree(folder, tmp_path / "run")
    loaded = Agent.load(tmp_path / "run", config=RunConfig(progress=False, save_checkpoints_secs=None))
    assert loaded.params == SMALL
    after = child.train(loaded, case.env, 200, case.schedule)
    whole = Agent(None, ReplayMemory(500, 8), tmp_path / "whole", _config(5), compiled=compiled["dqn"])
    assert child.train(whole, case.env, 200, case.schedule) == after
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["not_exact"] == []
    assert record["model_fn"] == "dqn"


def test_acting_evaluating_and_exporting_are_those_of_the_function(
    trained: dict[str, Any], compiled: dict[str, Path]
) -> None:
    folder, result = trained["dqn"]
    ours = Agent(None, ReplayMemory(500, 8), folder, _config(5), compiled=compiled["dqn"])
    theirs = Agent(dqn.model_fn, ReplayMemory(500, 8), folder, _config(5), SMALL)
    assert ours.evaluate("CartPole-v1", episodes=3) == theirs.evaluate("CartPole-v1", episodes=3)
    assert "adam/online_mlp_dense1_kernel_momentum" in ours.summary()
    observations = np.linspace(-1, 1, 20, dtype=np.float32).reshape(5, 4)
    for name, array in theirs.predict(observations).items():
        np.testing.assert_array_equal(ours.predict(observations)[name], array)
    assert result["exported"] == ["README.md", "parity.json", "policy.json", "policy.tflite", "weights.safetensors"]
    with pytest.raises(ValueError, match="is compiled for LiteRT, but ONNX needs the function"):
        ours.export(folder / "onnx", formats="onnx")
    policy, again = Policy.load(folder / "exported"), theirs.export(folder / "again")
    np.testing.assert_array_equal(policy.act(observations), theirs.act(observations))
    assert (folder / "exported" / "policy.tflite").read_bytes() == (again / "policy.tflite").read_bytes()


def test_a_learner_and_a_stepper_of_their_own(compiled: dict[str, Path], tmp_path: Path) -> None:
    learner = Learner.load(compiled["dqn"], seed=5)
    before = learner.get_weights()
    again = Learner.load(compiled["dqn"])
    assert [name for name in before if not np.array_equal(before[name], again.get_weights()[name])] != []
    own = Stepper.load(compiled["dqn"], ReplayMemory(500, 8), seed=5, schedule=UpdateSchedule(40, 2))
    agent = Agent(dqn.model_fn, ReplayMemory(500, 8), tmp_path, _config(5), SMALL)
    spaces = Box(-np.inf, np.inf, (4,), np.float32), Discrete(2)
    with agent.interact(*spaces, first_update=40, update_frequency=2):
        steppers = [own, agent._trainer.state().stepper]
    for stepper in steppers:
        rng = np.random.default_rng(0)
        for _ in range(50):
            observation, following = rng.random((2, 1, 4), np.float32)
            transition = {"observation": observation, "action": stepper.act(observation)[0]}
            ends = dict.fromkeys(("terminated", "truncated"), np.zeros(1, bool))
            stepper.store({**transition, **ends, "reward": np.ones(1, np.float32), "next_observation": following})
            while stepper.pending_updates:
                stepper.learn()
                stepper.pending_updates -= 1
    ours, theirs = (stepper.weights() for stepper in steppers)
    assert steppers[0].counters.global_step == 6
    assert all(np.array_equal(ours[name], theirs[name]) for name in theirs)


def test_a_learner_takes_what_its_program_takes_and_nothing_else(compiled: dict[str, Path]) -> None:
    """What is missing would be what was there before: of a first update, anything. A wrong shape would stay."""
    learner = Learner.load(compiled["sac"])
    train = learner.program.train
    batch: Any = {name: np.zeros(spec.shape, spec.dtype) for name, spec in train.batch.items()}  # type: ignore[union-attr]
    counters = {"global_step": 0, "global_timestep": 8, "progress": 0.0}
    draws = [request.draw(np.random.default_rng(0)) for request in train.noise]
    with pytest.raises(ValueError, match="takes 2 draws of noise, got 1"):
        learner.train(batch, counters, draws[:1])
    with pytest.raises(ValueError, match="'global_step' is missing"):
        learner.train(batch, {}, draws)
    before = learner.act(np.ones((5, 3), np.float32))[0]["action"]
    for wrong in (np.ones((6, 4), np.float32), np.ones(3, np.float32), np.ones((0, 3), np.float32)):
        with pytest.raises(ValueError, match=r"takes arrays \[N, 3\], with one N of at least 1; got \["):
            learner.act(wrong)
    with pytest.raises(ValueError, match=r"must be an array \[N, \.\.\.\]"):
        learner.act([[1.0, 1.0, 1.0]])  # type: ignore[arg-type]
    np.testing.assert_array_equal(learner.act(np.ones((5, 3), np.float32))[0]["action"], before)
    assert np.isfinite(learner.train(batch, counters, draws).scalars).all()


def test_an_agent_compiles_although_its_memory_is_in_use(
    trained: dict[str, Any], compiled: dict[str, Path], tmp_path: Path
) -> None:
    """The same program as before it trained; and its run is as if it had not compiled."""
    case, (_, result) = CASES["dqn"], trained["dqn"]
    one = case.agent(tmp_path / "run", SEEDS[1])
    before = child.train(one, case.env, case.stages[0], case.schedule)
    again = read(one.compile(tmp_path / "again", "CartPole-v1", seeds=SEEDS[:1]))
    assert again.everything == read(compiled["dqn"]).everything
    with pytest.raises(ArgumentError, match="lanes applies only to spaces"):
        one.compile(tmp_path / "again", "CartPole-v1", lanes=4)
    assert result["digests"] == [before, child.train(one, case.env, case.stages[1], case.schedule)]


# -- initial weights --------------------------------------------------------------------------------------------------


def test_a_run_of_another_seed_goes_on_in_a_program_without_its_initial_weights(
    compiled: dict[str, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Those of its checkpoint suffice, and the missing ones have not changed."""
    case = CASES["recurrent"]
    for folder in ("traced", "resumed"):
        child.train(case.agent(tmp_path / folder, 7), case.env, 50, case.schedule)
    resumed = Agent(None, ReplayMemory(500, 8), tmp_path / "resumed", _config(7), compiled=compiled["recurrent"])
    found = child.train(resumed, case.env, 80, case.schedule)
    assert found == child.train(case.agent(tmp_path / "traced", 7), case.env, 80, case.schedule)
    assert "initial values changed" not in caplog.text


def test_seeds_that_come_later(compiled: dict[str, Path], tmp_path: Path) -> None:
    """In this process. docs/compiled.md adds others in another process, as users do, and loads one of them."""
    shutil.copytree(compiled["recurrent"], tmp_path / "compiled")
    case = CASES["recurrent"]
    later = Agent(None, ReplayMemory(500, 8), tmp_path / "run", _config(7), compiled=tmp_path / "compiled")
    with pytest.raises(ArgumentError, match=r"no initial weights for seed 7, only for 2, 5\. .*add_seeds\(") as caught:
        child.train(later, case.env, 50, case.schedule)
    assert caught.value.argument == "seed"
    assert not (tmp_path / "run" / "run.json").exists()
    add_seeds(tmp_path / "compiled", [2, 7])
    traced = case.agent(tmp_path / "traced", 7)
    assert child.train(later, case.env, 50, case.schedule) == child.train(traced, case.env, 50, case.schedule)
    with pytest.raises(ArgumentError, match="seeds"):
        add_seeds(tmp_path / "compiled", [-1])
    for wrong in ("34", 5, [], [2.5], [2**63]):
        with pytest.raises(ArgumentError, match="seeds must"):
            add_seeds_elsewhere(tmp_path / "compiled", wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["dqn", "ppo", "sac"])
def test_a_built_in_model_has_the_weights_of_every_seed(name: str, compiled: dict[str, Path], tmp_path: Path) -> None:
    case = CASES[name]
    memory = getattr(memories, case.memory)(**case.memory_arguments)
    later = Agent(None, memory, tmp_path / "run", _config(7), compiled=compiled[name])
    traced = case.agent(tmp_path / "traced", 7)
    assert child.train(later, case.env, 50, case.schedule) == child.train(traced, case.env, 50, case.schedule)
    assert read(compiled[name]).seeds() == [*SEEDS]


def test_draws_that_differ_from_those_of_the_compilation_are_refused(
    compiled: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As from another version of NumPy, or another processor's linear algebra."""
    original = Draw.__call__
    monkeypatch.setattr(Draw, "__call__", lambda self, seed: np.nextafter(original(self, seed), np.float32(9)))
    with pytest.raises(ValueError, match=r"NumPy draws other initial weights here \(0000\.online"):
        read(compiled["dqn"]).weights(7)


def test_two_that_add_seeds_wait_for_one_another(compiled: dict[str, Path], tmp_path: Path) -> None:
    """The first one's set may be the only one that is left: it need not be that of the compilation."""
    folder = Path(shutil.copytree(compiled["dqn"], tmp_path / "compiled"))
    read(folder).weights_path(SEEDS[0]).unlink()
    other = threading.Thread(target=add_seeds, args=(folder, [SEEDS[0], 7]))
    with only_writer(folder / "weights" / ".lock", wait=True):
        other.start()
        other.join(0.5)
        assert read(folder).seeds() == [SEEDS[1]]
    other.join()
    assert read(folder).seeds() == [*SEEDS, 7]
    assert not (folder / "weights" / ".lock").exists()
    first, again = (read(one).weights(SEEDS[0]) for one in (compiled["dqn"], folder))
    assert all(np.array_equal(first[name], again[name]) for name in first)


def test_a_program_that_depends_on_the_seed_is_compiled_for_one(tmp_path: Path) -> None:
    def scaled(features: Any, labels: Any, mode: str, config: RunConfig) -> EstimatorSpec:
        return linear_model(features * (1.0 + (config.seed or 0)), labels, mode)

    one = agent(tmp_path / "run", model=scaled)
    with pytest.raises(ValueError, match=r"for several seeds: its program for seed 1 differs from the one for seed 0"):
        one.compile(tmp_path / "compiled", "CartPole-v1", seeds=[0, 4])
    one.compile(tmp_path / "compiled", "CartPole-v1")
    with pytest.raises(ValueError, match=r"the program is valid only for its own seed, as model_fn depends on it"):
        add_seeds(tmp_path / "compiled", [4], scaled)


def test_a_function_that_has_changed_makes_no_more_seeds(compiled: dict[str, Path]) -> None:
    def changed(features: Any, labels: Any, mode: str, params: Any, config: RunConfig) -> EstimatorSpec:
        with tf.init_scope():
            tf.random.normal(())
        tf.random.uniform(())  # the second random op is now the third
        return recurrent(features, labels, mode, params, config)

    with pytest.raises(ValueError, match=r"no longer gives the initial weights of .*scale differs for"):
        add_seeds(compiled["recurrent"], [9], changed)


def test_the_initialisers_are_a_program_where_they_can_be(compiled: dict[str, Path], tmp_path: Path) -> None:
    """Keras' can, and NumPy draws ours; for what the graph's seed gives, the function must be called, by its name."""
    made = agent(tmp_path / "run", model=mixed).compile(tmp_path / "mixed", "CartPole-v1", seeds=SEEDS)
    described = [json.loads((one / "program.json").read_text()) for one in (made, compiled["recurrent"])]
    assert [(one["initial"] is None, len(one["drawn"]["variables"])) for one in described] == [(False, 1), (True, 0)]
    _edit(made, _edited(model_fn=None))
    before = read(made).weights(SEEDS[1])
    read(made).weights_path(SEEDS[1]).unlink()
    add_seeds(made, SEEDS)
    after = read(made).weights(SEEDS[1])
    assert all(np.array_equal(before[name], after[name]) for name in before)
    shutil.copytree(compiled["recurrent"], tmp_path / "nameless")
    _edit(tmp_path / "nameless", _edited(model_fn=None))
    with pytest.raises(ValueError, match=r"the model_fn of .* has no importable name"):
        add_seeds(tmp_path / "nameless", [9])


# -- what cannot be compiled ------------------------------------------------------------------------------------------


class Own:
    """Of a user: adds what its schedule says; ``bias`` is told as it was given, unless it is negative."""

    def __init__(self, schedule: Any, bias: Any) -> None:
        self.schedule = schedule
        self.bias = max(bias, 0)

    def __call__(self, predictions: Any, timestep: int, rng: Any) -> Any:
        greedy = predictions["action"]
        bias = self.bias + self.schedule(timestep) + len(greedy)
        return (greedy + int(bias)) % 2, {"bias": np.full(len(greedy), bias, np.float32)}


class Halving(Own):
    """Of a user: what it tells is not what it was given."""

    def __init__(self, bias: float) -> None:
        super().__init__(Constant(0.0), bias / 2)


class Undescribed:
    """Of a user: tells nothing of its argument."""

    def __init__(self, secret: float) -> None:
        self._secret = secret

    def __call__(self, predictions: Any, timestep: int, rng: Any) -> Any:
        return predictions["action"], {}


def _with(change: Callable[[EstimatorSpec], EstimatorSpec]) -> Any:
    def model(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        return change(linear_model(features, labels, mode))

    return model


def _exploring(policy: Any) -> Callable[[EstimatorSpec], EstimatorSpec]:
    return lambda spec: dataclasses.replace(spec, exploration=policy) if spec.mode == Modes.PREDICT else spec


def _hooked(spec: EstimatorSpec) -> EstimatorSpec:
    return dataclasses.replace(spec, training_hooks=(NaNGuard(),)) if spec.mode == Modes.TRAIN else spec


def _own_op(spec: EstimatorSpec) -> EstimatorSpec:
    if spec.mode != Modes.TRAIN:
        return spec
    return dataclasses.replace(spec, metrics={"drawn": tf.random.uniform(())})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_exploring(Undescribed(1.0)), r"exploration Undescribed cannot be described: it has no attribute 'secret'"),
        (_exploring(Halving(3.0)), r"its exploration Halving, rebuilt from its arguments, differs"),
        (
            _exploring(EpsilonGreedy(lambda t, ops=None: 0.5, Discrete(2))),
            r"the exploration EpsilonGreedy cannot be described: its epsilon: .* not one of axonrl's",
        ),
        (_hooked, r"its spec of mode 'train' carries training_hooks \(NaNGuard\)"),
        (_own_op, r"TensorFlow runs its learner: .* agree with TensorFlow on .*RandomUniform"),
    ],
)
def test_what_cannot_be_compiled_is_named(change: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=rf"cannot be compiled: .*{message}|cannot be compiled: {message}"):
        agent(tmp_path / "run", model=_with(change)).compile(tmp_path / "compiled", "CartPole-v1")
    assert not (tmp_path / "compiled").exists()


def test_an_op_that_litert_lacks_is_refused_as_in_training_where_litert_was_asked_for(tmp_path: Path) -> None:
    one = agent(tmp_path / "run", model=_with(_own_op), runtime="litert")
    with pytest.raises(ValueError, match=r"^runtime='litert', but LiteRT cannot run the learner of .*RandomUniform"):
        one.compile(tmp_path / "compiled", "CartPole-v1")


def test_an_exploration_of_one_s_own_is_made_again(tmp_path: Path) -> None:
    exploring = _with(_exploring(Own(Constant(0.5), 1)))
    one = agent(tmp_path / "run", ReplayMemory(1000, 4, path=tmp_path / "memory"), model=exploring)
    made: Any = read(one.compile(tmp_path / "compiled", "CartPole-v1"))
    action, extras = made.predict.exploration({"action": np.zeros(3, np.int32)}, 7, None)
    assert (action.tolist(), extras["bias"].tolist()) == ([0, 0, 0], [4.5, 4.5, 4.5])
    described = json.loads((tmp_path / "compiled" / "program.json").read_text())["memory"]
    assert described.keys() >= {"size", "sampler"}
    assert "path" not in described  # that is a run's
    assert not (tmp_path / "memory").exists()


def test_a_program_serves_other_values_of_what_may_follow_a_schedule(compiled: dict[str, Path], tmp_path: Path) -> None:
    case, program = CASES["ppo"], compiled["ppo"]
    assert sorted(read(program).free["inputs"]) == ["clip", "entropy_coefficient", "learning_rate"]

    def given(name: str, **changed: float) -> Agent:
        params = {**case.params, **changed}
        return Agent(None, memories.BatchMemory(32, 32), tmp_path / name, _config(5), params, compiled=program)

    other = {"learning_rate": 7e-3, "clip": 0.3, "entropy_coefficient": 0.007}
    traced = dataclasses.replace(case, params={**case.params, **other}).agent(tmp_path / "traced", 5)
    expected = child.train(traced, case.env, 160, case.schedule)
    assert child.train(given("other", **other), case.env, 160, case.schedule) == expected
    assert child.train(given("same"), case.env, 160, case.schedule) != expected
    for refused in ({"entropy_coefficient": 0.0}, {"gae_lambda": 0.8}):
        with pytest.raises(ArgumentError, match="clip, entropy_coefficient, learning_rate may have other values"):
            given("refused", **refused)
    again = Agent(None, memories.BatchMemory(32, 32), tmp_path / "other", _config(5), compiled=program)
    assert again.params is not None
    assert again.params["learning_rate"] == 7e-3


def bounded(features: Any, labels: Any, mode: str, params: Any) -> EstimatorSpec:
    """A user's own: one of its params is an input of TRAIN, and a bound of its noise, which no graph shows."""
    spec, bound = linear_model(features, labels, mode), params["bound"]
    if mode != Modes.TRAIN:
        return spec
    metrics = {"drawn": noise.uniform([1], 0.0, bound)[0], "bound": inputs.number("bound", bound)}
    return dataclasses.replace(spec, metrics=metrics)


def test_a_program_has_the_bounds_of_its_noise(tmp_path: Path) -> None:
    one = agent(tmp_path / "run", model=bounded, params={"bound": 4.0})
    program = read(one.compile(tmp_path / "compiled", "CartPole-v1"))
    assert [request.high for request in program.train.noise] == [4.0]
    assert program.free == {"inputs": [], "exploration": {}}
    raised(ArgumentError, program.with_params, {"bound": 100.0}, match="was compiled with params")


def test_the_wrong_memory_spaces_params_and_runtime_are_refused(compiled: dict[str, Path], tmp_path: Path) -> None:
    def given(memory: Any = None, params: Any = None, **config: Any) -> Agent:
        memory = ReplayMemory(500, 8) if memory is None else memory
        return Agent(None, memory, tmp_path / "run", _config(5, **config), params, compiled=compiled["dqn"])

    with pytest.raises(ValueError, match=r"whose 'action' is int32\[8\], but .* give int32\[16\]"):
        given(ReplayMemory(500, 16)).train("CartPole-v1", 40, max_timesteps=50)
    with pytest.raises(ValueError, match=r"whose 'weight' is missing, but .* give float32\[8\]"):
        given(ReplayMemory(500, 8, sampler=Prioritized())).train("CartPole-v1", 40, max_timesteps=50)
    with pytest.raises(ValueError, match="observation space is"):
        given().train("Acrobot-v1", 40, max_timesteps=50)
    with pytest.raises(ArgumentError, match="was compiled with params"):
        given(params={"hidden": [5]})
    with pytest.raises(ValueError, match="compiled for LiteRT, but runtime='tensorflow' was given"):
        given(runtime="tensorflow").train("CartPole-v1", 40, max_timesteps=50)
    CASES["dqn"].agent(tmp_path / "other").check("Acrobot-v1", 40)
    with pytest.raises(ArgumentError, match=r"compiled for other spaces than those of the run in .*other"):
        Agent(None, model_dir=tmp_path / "other", compiled=compiled["dqn"])
    with pytest.raises(ArgumentError, match="either model_fn or compiled"):
        Agent(dqn.model_fn, compiled=compiled["dqn"])
    with pytest.raises(ValueError, match="mode 'eval' runs in TensorFlow"):
        given().train("CartPole-v1", 40, max_timesteps=50, hooks=EvaluationHook(10, episodes=1, eval_batches=1))
    assert not (tmp_path / "run" / "run.json").exists()


# -- damage -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def copied(compiled: dict[str, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(compiled["dqn"], tmp_path / "copied"))


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("program.json", "missing"),
        ("program.tflite", "cut"),
        ("program.tflite", "changed"),
        ("weights/seed-5.safetensors", "changed"),
    ],
)
def test_damage_is_named(name: str, damage: str, copied: Path) -> None:
    path = copied / name
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(content[:-9] if damage == "cut" else content)
    with pytest.raises(ValueError, match=name):
        Learner.load(copied, seed=5)


def _edited(**change: Any) -> Callable[[bytes], bytes]:
    """The description with other values, sealed as if it had been compiled so."""
    return lambda text: json.dumps(with_digest({**json.loads(text), **change})).encode()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_edited(format_version=2), "program.json has format version 2, but this version of axonrl reads 1"),
        (_edited(made_with={"ai-edge-litert": "0.1"}), "program.json was compiled with ai-edge-litert 0.1; this is"),
        (_edited(variables=[]), "seed-5.safetensors does not contain the variables"),
        (lambda text: text.replace(b'"seed": 2', b'"seed": 3'), "program.json is damaged or was edited"),
        (lambda text: b"[" * 100_000, "program.json is not JSON"),
    ],
)
def test_a_description_of_another_version_or_that_was_edited_is_refused(
    change: Callable[[bytes], bytes], message: str, copied: Path
) -> None:
    """What is computed must follow from what was compiled."""
    _edit(copied, change)
    with pytest.raises(ValueError, match=message):
        Learner.load(copied, seed=5)


def test_weights_of_another_seed_are_refused(copied: Path) -> None:
    weights = copied / "weights"
    shutil.copy(weights / "seed-2.safetensors", weights / "seed-9.safetensors")
    shutil.copy(weights / "seed-2.safetensors", weights / "seed-007.safetensors")
    (weights / "seed-8.safetensors").symlink_to("nowhere")
    assert read(copied).seeds() == [2, 5, 9]
    with pytest.raises(ValueError, match=r"seed-9.safetensors belongs to .* another seed. Delete it, and .*add"):
        Learner.load(copied, seed=9)
    content = (weights / "seed-5.safetensors").read_bytes()
    (weights / "seed-5.safetensors").write_bytes(content.replace(b'"F32"', b'"I32"', 1))
    with pytest.raises(ValueError, match=r"seed-5.safetensors does not contain the variables"):
        Learner.load(copied, seed=5)


def test_nothing_but_a_compiled_program_is_written_over(copied: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    one = agent(tmp_path / "run")
    with pytest.raises(ValueError, match=r"holds something other than a compiled program \(notes.txt\)"):
        one.compile(tmp_path / "mine", "CartPole-v1")
    spaces = Box(-np.inf, np.inf, (4,), np.float32), Discrete(2)
    assert one.compile(copied, spaces, ReplayMemory(100, 4)) == copied
    learner = Learner.load(copied)
    assert (learner.program.model_fn, learner.program.seeds()) == (f"{linear_model.__module__}:linear_model", [0])


def _config(seed: int, **config: Any) -> RunConfig:
    return RunConfig(seed=seed, progress=False, save_checkpoints_secs=None, **config)


def _edit(folder: Path, change: Callable[[bytes], bytes]) -> None:
    path = folder / "program.json"
    path.write_bytes(change(path.read_bytes()))
