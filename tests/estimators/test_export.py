"""Export: what a run has learnt, as a directory; and the frozen programs that evaluations act with."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import wrappers
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from axonrl import Agent, Estimator, EstimatorSpec, RunConfig
from axonrl.environments import make
from axonrl.errors import CheckpointError
from axonrl.estimators import export as exporting
from axonrl.explorations import EpsilonGreedy, Greedy
from axonrl.hooks import EvaluationHook
from axonrl.memories import ReplayMemory
from axonrl.models import dqn, r2d2
from axonrl.run_dir import folders
from axonrl.run_dir.arrays import encode_arrays
from axonrl.runtimes import Policy, frozen
from axonrl.tests.estimators import test_recurrent_agents
from axonrl.tests.estimators.fakes import At, Counting, agent, linear_model, vector
from axonrl.tests.raising import raised

pytestmark = pytest.mark.usefixtures("traced_once")

OBSERVATIONS = np.random.default_rng(0).standard_normal((50, 2)).astype(np.float32)


class Frames(Counting):
    observation_space: Any = Box(0, 255, (8, 8, 1), np.uint8)

    def observation(self) -> Any:
        return self.np_random.integers(0, 256, (8, 8, 1)).astype(np.uint8)

    def reward(self) -> Any:
        return float(self.actions[-1])  # so that what an episode returns tells the actions


def seeing_model(features: Any, labels: Any, mode: str) -> EstimatorSpec:
    """A small convolutional network that learns the reward."""
    network = keras.Sequential(
        [keras.layers.Conv2D(4, 3, activation="relu"), keras.layers.Flatten(), keras.layers.Dense(2)]
    )
    values = network(tf.cast(features, tf.float32) / 255.0)
    if mode == "predict":
        action = tf.argmax(values, axis=1, output_type=tf.int32)
        exploration = EpsilonGreedy(0.5, Discrete(2))
        return EstimatorSpec(mode, {"action": action, "values": values}, exploration=exploration)
    loss = tf.reduce_mean((tf.gather(values, labels["action"], batch_dims=1) - labels["reward"]) ** 2)
    variables = network.trainable_variables
    keras.optimizers.SGD(0.1).apply(tf.gradients(loss, [v.value for v in variables]), variables)
    return EstimatorSpec(mode, loss=loss)


def drawing_model(features: Any, labels: Any, mode: str) -> EstimatorSpec:
    spec = linear_model(features, labels, mode)
    if mode == "predict":
        noise = tf.random.normal(tf.shape(features)[:1])
        return EstimatorSpec(mode, {"action": tf.cast(noise > 0, tf.int32)})
    return spec


class Own(Greedy):
    """A user's behaviour policy."""


def own_model(features: Any, labels: Any, mode: str) -> EstimatorSpec:
    spec = linear_model(features, labels, mode)
    return EstimatorSpec(mode, spec.predictions, exploration=Own()) if mode == "predict" else spec


def trained(model_dir: Path, model: Any = linear_model, env: Any = None, **config: Any) -> Agent:
    made = agent(model_dir, model=model, **config)
    return made.train(Counting() if env is None else env, first_update=4, update_frequency=2, timesteps=20)


def statistics_of(made: Agent) -> Any:
    return made._evaluator.policy("last").statistics


def described(directory: Path) -> Any:
    return json.loads((directory / "policy.json").read_text())


def test_an_export_acts_as_the_agent_predicts(tmp_path: Path) -> None:
    made = trained(tmp_path / "run")
    directory = made.export(tmp_path / "deep" / "exported")
    assert directory == tmp_path / "deep" / "exported"
    files = ["README.md", "parity.json", "policy.json", "policy.tflite", "weights.safetensors"]
    assert sorted(path.name for path in directory.iterdir()) == files
    compared = json.loads((directory / "parity.json").read_text())
    ((name, one),) = compared["formats"].items()
    assert (name, one["observations"], one["tolerance"]) == ("litert", {"random": 256}, 1e-4)
    assert one["largest_difference"] <= 1e-6
    assert one["outputs"]["action"] == one["outputs"]["first action"] == {"equal": 256, "ties": 0}
    assert compared["played_note"] == "episodes are played only for ONNX exports"
    assert "- Compared with the agent on 256 observations, on the machine" in (directory / "README.md").read_text()
    assert [path.name for path in directory.parent.iterdir()] == ["exported"]
    policy, expected = Policy.load(directory), made.predict(OBSERVATIONS)
    found = policy.predict(OBSERVATIONS)
    assert all(found[name].tolist() == expected[name].tolist() for name in expected)
    assert policy.act(OBSERVATIONS).tolist() == expected["action"].tolist()
    assert [policy.act(observation) for observation in OBSERVATIONS] == expected["action"].tolist()
    about = described(directory)
    assert about["trained"] == {"global_step": 9, "global_timestep": 20, "global_episode": 6}
    assert about["action"]["space"] == {"type": "Discrete", "n": 2, "start": 0, "dtype": "int64"}
    assert about["weights"]["arrays"] == {"0000.weights": {"shape": [2, 2], "dtype": "float32"}}


def test_a_program_that_acts_otherwise_is_not_kept(tmp_path: Path, monkeypatch: Any) -> None:
    made = trained(tmp_path / "run")
    monkeypatch.setattr(
        exporting, "encode_arrays", lambda arrays: encode_arrays({name: 1.01 * array for name, array in arrays.items()})
    )
    with pytest.raises(ValueError, match=r"cannot be exported: the LiteRT policy differs from the agent: values is "):
        made.export(tmp_path / "exported")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_of_a_recurrent_model_two_steps_are_compared(tmp_path: Path, monkeypatch: Any) -> None:
    case = test_recurrent_agents
    made = Agent(r2d2.model_fn, case.memory(), tmp_path / "run", RunConfig(seed=3, progress=False), case.R2D2)
    made.train(case.Cue(False), first_update=60, update_frequency=40, timesteps=100)
    made.export(tmp_path / "exported")
    outputs = json.loads((tmp_path / "exported" / "parity.json").read_text())["formats"]["litert"]["outputs"]
    assert outputs["first action"]["equal"] == outputs["second action"]["equal"] == 256
    made.set_weights({name: 9 * array for name, array in made.get_weights().items()})  # so that the state counts
    monkeypatch.setattr(Policy, "_with_state", lambda self, features: [*features, *zeros(self, len(features[0]))])
    with pytest.raises(ValueError, match="the LiteRT policy, second step, differs from the agent: action differs in"):
        made.export(tmp_path / "other")


def zeros(policy: Policy, size: int) -> list[Any]:
    return [np.zeros((size, *one["shape"]), one["dtype"]) for one in policy.description["state"].values()]


def test_dqn_and_its_exploration_at_that_time(tmp_path: Path) -> None:
    params = {"epsilon": {"kind": "linear", "start": 1.0, "stop": 0.0, "duration": 100}, "hidden": [8]}
    made = Agent(dqn.model_fn, ReplayMemory(100, 4), tmp_path / "run", RunConfig(seed=0), params)
    made.train("CartPole-v1", first_update=4, timesteps=30)
    policy = Policy.load(made.export(tmp_path / "exported"))
    assert described(tmp_path / "exported")["exploration"] == {"kind": "epsilon_greedy", "epsilon": 0.7}
    observations = np.random.default_rng(0).standard_normal((20, 4)).astype(np.float32)
    assert policy.act(observations).tolist() == made.predict(observations)["action"].tolist()


def test_the_policy_of_a_session_that_is_open(tmp_path: Path) -> None:
    """Its weights and counters are those of the moment, not of the last checkpoint."""
    made = agent(tmp_path / "run")
    seen: list[Any] = []

    def export(session: Any) -> None:
        directory = made.export(tmp_path / "exported")
        seen.append((Policy.load(directory).get_weights(), described(directory)["trained"], session.weights()))

    made.train(Counting(), first_update=4, update_frequency=2, timesteps=20, hooks=[At("after_timestep", 10, export)])
    ((weights, counters, live),) = seen
    assert counters["global_timestep"] == 10
    assert weights["0000.weights"].tolist() == live["0000.weights"].tolist()


@pytest.mark.usefixtures("traced_anew")
def test_a_model_that_litert_cannot_run_is_refused_with_its_op(tmp_path: Path) -> None:
    made = trained(tmp_path / "run", drawing_model)
    why = r"LiteRT cannot run the actor of .*\.drawing_model: .* on op RandomStandardNormal"
    with pytest.raises(ValueError, match=rf"drawing_model cannot be exported: {why}$"):  # whatever the run's runtime is
        made.export(tmp_path / "exported")
    assert not (tmp_path / "exported").exists()


def test_a_behaviour_policy_of_one_s_own_is_left_out_and_that_is_said(tmp_path: Path, caplog: Any) -> None:
    directory = trained(tmp_path / "run", own_model).export(tmp_path / "exported")
    assert "exporting without the behaviour policy (explore=True): Own is not one of axonrl's" in caplog.text
    policy = Policy.load(directory)
    assert policy.act(OBSERVATIONS[0]) in (0, 1)
    with pytest.raises(ValueError, match="was exported without its behaviour policy: Own is not one of axonrl's"):
        policy.act(OBSERVATIONS[0], explore=True)


def test_an_export_is_replaced_and_anything_else_is_refused(tmp_path: Path) -> None:
    made = trained(tmp_path / "run")
    target = tmp_path / "exported"
    target.mkdir()
    made.export(target)  # an empty directory
    made.train(Counting(), first_update=4, timesteps=10)
    made.export(target)  # an export
    assert described(target)["trained"]["global_timestep"] == 30
    (target / "notes.txt").write_text("mine")
    for directory, found in ((target, "notes.txt"), (tmp_path / "run", "checkpoints, .*")):
        with pytest.raises(ValueError, match=rf"holds something other than an export \({found}\): choose another"):
            made.export(directory)
    with pytest.raises(ValueError, match="directory must be a path, got None"):
        made.export(cast(Any, None))
    with pytest.raises(ValueError, match=r"export needs a directory: .*notes.txt is a file or a link"):
        made.export(target / "notes.txt")
    with pytest.raises(ValueError, match=r"notes\.txt is not a folder\. Choose another"):
        exporting.check_target(target / "notes.txt" / "sub")  # before the training of a file


@pytest.mark.parametrize(("module", "at"), [(exporting, "write_json_atomically"), (Path, "rename")])
def test_a_crash_leaves_the_old_export_or_none(tmp_path: Path, monkeypatch: Any, module: Any, at: str) -> None:
    made = trained(tmp_path / "run")
    target = tmp_path / "exported"

    def killed(*arguments: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, at, killed)
        raised(KeyboardInterrupt, made.export, target)
    assert not target.exists()
    made.export(target)
    made.train(Counting(), first_update=4, timesteps=10)
    with monkeypatch.context() as patch:
        patch.setattr(module, at, killed)
        raised(KeyboardInterrupt, made.export, target)
    assert Policy.load(target).description["trained"]["global_timestep"] == 20
    made.export(target)
    assert Policy.load(target).description["trained"]["global_timestep"] == 30
    assert sorted(path.name for path in tmp_path.iterdir()) == ["exported", "run"]


def test_a_disk_that_is_full_is_an_error_of_ours(tmp_path: Path, monkeypatch: Any) -> None:
    made = trained(tmp_path / "run")

    def full(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(folders, "write_file", full)
    with pytest.raises(CheckpointError, match=r"exported cannot be written: .*No space left"):
        made.export(tmp_path / "exported")


def normalizing(env: Any, *outer: Callable[[Any], Any]) -> Any:
    env = wrappers.NormalizeObservation(env)
    for wrap in outer:
        env = wrap(env)
    return env


def plain_clip(env: Any) -> Any:
    return wrappers.TransformObservation(env, lambda o: np.clip(o, -1, 1), env.observation_space)


def test_the_policy_normalises_as_the_training_did(tmp_path: Path) -> None:
    """Bit for bit: given what the bare environment returns, it acts as the agent in the wrapped one."""
    outer: tuple[Any, ...] = (lambda env: wrappers.TimeLimit(env, 50), wrappers.RecordEpisodeStatistics)
    outer = (*outer, wrappers.NormalizeReward)
    made = trained(tmp_path / "run", env=normalizing(Counting(), *outer))
    policy = Policy.load(made.export(tmp_path / "exported"))
    inside = normalizing(Counting())
    saved = next(s for s in statistics_of(made).values() if s["kind"] == "NormalizeObservation")
    inside.obs_rms.mean, inside.obs_rms.var = saved["obs_rms"]["mean"], saved["obs_rms"]["var"]
    inside.update_running_mean = False
    expected = made.predict(np.stack([inside.observation(raw) for raw in OBSERVATIONS]))["values"]
    assert policy.predict(OBSERVATIONS)["values"].tolist() == expected.tolist()
    assert np.unique(expected).size > 10


def copies(count: int) -> Any:
    envs = [lambda: normalizing(Counting())] * count
    return SyncVectorEnv(envs, autoreset_mode=AutoresetMode.DISABLED)


def around(count: int) -> Any:
    return wrappers.vector.NormalizeObservation(
        vector(*(Counting() for _ in range(count)), mode=AutoresetMode.NEXT_STEP)
    )


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "env", [lambda: around(2), lambda: make("CartPole-v1", wrappers=["gymnasium.wrappers:NormalizeObservation"])]
)
def test_environments_with_the_same_statistics_for_all(env: Any, tmp_path: Path) -> None:
    made = trained(tmp_path / "run", env=env())
    about = described(made.export(tmp_path / "exported"))
    assert about["normalization"]["mean"]["values"] == statistics_of(made)["0"]["obs_rms"]["mean"].tolist()


@pytest.mark.parametrize(
    ("env", "why"),
    [
        (lambda: copies(2), "each environment has its own statistics"),
        (lambda: normalizing(Counting(), plain_clip), "other wrappers may follow it"),
    ],
)
def test_what_an_actor_cannot_normalise_is_refused(tmp_path: Path, env: Any, why: str) -> None:
    made = trained(tmp_path / "run", env=env())
    raised(ValueError, made.export, tmp_path / "exported", match=rf"cannot be exported: .*\({why}\)")
    assert not (tmp_path / "exported").exists()
    raised(ValueError, made.act, OBSERVATIONS[0], match=rf"\({why}\)")
    made.predict(OBSERVATIONS)  # which are given as the model sees them


FROZEN = "Evaluation uses a frozen LiteRT program."


@pytest.mark.usefixtures("traced_anew")
def test_convolutions_are_exported_frozen_and_take_new_weights(tmp_path: Path) -> None:
    made = trained(tmp_path / "run", seeing_model, Frames(length=5))
    policies = [Policy.load(made.export(tmp_path / "exported"), num_threads=n) for n in (1, 2)]
    assert described(tmp_path / "exported")["program"]["weights"] == "constants"
    frames = np.random.default_rng(0).integers(0, 256, (40, 8, 8, 1)).astype(np.uint8)
    expected = made.predict(frames)
    for policy in policies:
        np.testing.assert_allclose(policy.predict(frames)["values"], expected["values"], rtol=1e-4, atol=1e-6)
        assert policy.predict(frames)["values"].tolist() == policies[0].predict(frames)["values"].tolist()
    made.train(Frames(length=5), first_update=4, update_frequency=2, timesteps=20)
    again = Policy.load(made.export(tmp_path / "exported"))
    policies[0].set_weights(again.get_weights())
    assert policies[0].predict(frames)["values"].tolist() == again.predict(frames)["values"].tolist()
    assert policies[0].predict(frames)["values"].tolist() != policies[1].predict(frames)["values"].tolist()


@pytest.mark.usefixtures("traced_anew")
def test_weights_that_are_elsewhere_than_described_are_refused(tmp_path: Path) -> None:
    directory = trained(tmp_path / "run", seeing_model, Frames(length=5)).export(tmp_path / "exported")
    about = described(directory)
    about["program"]["placements"][0][1] += 4
    (directory / "policy.json").write_text(json.dumps(about))
    raised(ValueError, Policy.load, directory, match="its weights do not match their placements")


@pytest.mark.usefixtures("traced_anew")
def test_evaluations_of_a_model_with_convolutions_are_frozen_and_follow_the_weights(
    tmp_path: Path, caplog: Any
) -> None:
    caplog.set_level("INFO")
    made = trained(tmp_path / "run", seeing_model, Frames(length=5))
    hook = EvaluationHook(10, episodes=3, env=Frames(length=5), keep_best=False)
    made.train(Frames(length=5), first_update=4, update_frequency=2, timesteps=20, hooks=[hook])
    results = made.evaluate(Frames(length=5), episodes=6)
    assert made.evaluate(Frames(length=5), episodes=6) == results
    assert caplog.messages.count(FROZEN) == 1
    policy = Policy.load(made.export(tmp_path / "exported"))
    frames = np.random.default_rng(0).integers(0, 256, (5, 8, 8, 1)).astype(np.uint8)
    with made._model.acting(made._evaluator.policy("last"), resting=True) as act:
        found = act(frames)[0]["values"]
    assert found.tolist() == policy.predict(frames)["values"].tolist()

    def unneeded(*arguments: Any) -> Any:
        raise AssertionError("it was kept")

    with pytest.MonkeyPatch.context() as patch:  # another Estimator finds the frozen program in the run's folder
        patch.setattr(frozen, "_freeze", unneeded)
        assert Estimator(seeing_model, tmp_path / "run").evaluate(Frames(length=5), episodes=6) == results


@pytest.mark.usefixtures("traced_anew")
def test_a_run_that_was_begun_in_tensorflow_is_evaluated_in_tensorflow(tmp_path: Path, caplog: Any) -> None:
    caplog.set_level("INFO")
    trained(tmp_path / "run", seeing_model, Frames(length=5), runtime="tensorflow").evaluate(Frames(length=5), 2)
    again = agent(tmp_path / "run", model=seeing_model)
    again.train(Frames(length=5), first_update=4, timesteps=10)
    again.evaluate(Frames(length=5), 2)
    Estimator(seeing_model, tmp_path / "run").evaluate(Frames(length=5), 2)
    assert FROZEN not in caplog.messages
    # Nor does whoever asks for TensorFlow get anything else.
    trained(tmp_path / "auto", seeing_model, Frames(length=5))
    Estimator(seeing_model, tmp_path / "auto", RunConfig(runtime="tensorflow")).evaluate(Frames(length=5), 2)
    assert FROZEN not in caplog.messages
    Estimator(seeing_model, tmp_path / "auto").evaluate(Frames(length=5), 2)
    assert caplog.messages.count(FROZEN) == 1


@pytest.mark.usefixtures("traced_anew")
def test_what_cannot_be_frozen_is_evaluated_in_tensorflow_and_that_is_said(
    tmp_path: Path, caplog: Any, monkeypatch: Any
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setenv("AXONRL_CACHE", "")
    monkeypatch.setattr(frozen, "_places", lambda *arguments: iter(()))
    made = trained(tmp_path / "run", seeing_model, Frames(length=5))
    made.evaluate(Frames(length=5), 2)
    made.evaluate(Frames(length=5), 2)
    said = [message for message in caplog.messages if message.startswith("Evaluation uses TensorFlow: ")]
    assert len(said) == 1
    assert "the converter computed with the weights" in said[0]
