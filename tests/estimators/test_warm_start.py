"""Warm start: a new run whose initial weights are those of another one, or of a file of Keras."""

import json
import logging
import shutil
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import gymnasium
import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium.spaces import Box

from axonrl import Agent, EstimatorSpec, RunConfig, WarmStart
from axonrl.environments import make
from axonrl.errors import ArgumentError, CheckpointError
from axonrl.estimators.run import Run
from axonrl.hooks import EvaluationHook
from axonrl.memories import ReplayMemory
from axonrl.tests.estimators.fakes import Counting, agent, linear_model, snapshot
from axonrl.tests.raising import raised

pytestmark = pytest.mark.usefixtures("traced_once")

QUIET = RunConfig(seed=1, progress=False)


def two_headed(features: Any, labels: Any, mode: str, params: Any = None) -> EstimatorSpec:
    """Q-learning with a layer and a head; TRAIN has a critic, a frozen copy of the head, and an optimizer."""
    actions = (params or {}).get("actions", 2)
    body, head = keras.layers.Dense(3, name="body"), keras.layers.Dense(actions, name="head")
    values = head(body(features))
    if mode == "predict":
        return EstimatorSpec(mode, {"action": tf.argmax(values, 1, tf.int32), "values": values})
    critic, copied = keras.layers.Dense(1, name="critic"), keras.layers.Dense(actions, name="copied", trainable=False)
    loss = tf.reduce_mean(values**2) + tf.reduce_mean(critic(features) ** 2) + 0 * tf.reduce_sum(copied(body(features)))
    variables = [*body.variables, *head.variables, *critic.variables]
    optimizer = keras.optimizers.SGD((params or {}).get("learning_rate", 0.1), momentum=0.9, name="sgd")
    optimizer.apply(tf.gradients(loss, [v.value for v in variables]), variables)
    return EstimatorSpec(mode, loss=loss)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of ``two_headed`` with ten updates, whose best policy was kept."""
    folder = tmp_path_factory.mktemp("source") / "run"
    hook = EvaluationHook(4, 1, env=Counting())
    agent(folder, model=two_headed).train(Counting(), 8, 2, timesteps=26, hooks=hook)
    return folder


def weights_of(folder: Path) -> dict[str, Any]:
    """All variables in the newest checkpoint, by plain names."""
    return plain(snapshot(folder)["weights"])


def plain(weights: Any) -> dict[str, Any]:
    return {name.partition(".")[2]: value for name, value in weights.items()}


def started(folder: Path, warm_start: Any = None, **params: Any) -> dict[str, Any]:
    one = Agent(two_headed, ReplayMemory(100, 4), folder, QUIET, params, warm_start=warm_start)
    one.check(Counting(), 8)
    return weights_of(folder)


def same(a: dict[str, Any], b: dict[str, Any]) -> set[str]:
    return {name for name in a.keys() & b.keys() if np.array_equal(a[name], b[name])}


KERNELS = {"body/kernel", "head/kernel", "critic/kernel"}


def test_a_run_that_was_killed_before_its_first_checkpoint_needs_its_source_again(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Run, "save", Mock(side_effect=KeyboardInterrupt))  # run.json is written
        raised(KeyboardInterrupt, started, tmp_path / "run", source)
    error = raised(ArgumentError, started, tmp_path / "run", match="has no checkpoint yet, and was started with")
    assert error.argument == "warm_start"
    assert same(started(tmp_path / "run", source), weights_of(source)) >= KERNELS
    assert same(started(tmp_path / "run"), weights_of(source)) >= KERNELS  # by its checkpoint


def test_what_is_trained_is_taken_and_what_optimizes_begins_anew(
    source: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    theirs, cold = weights_of(source), started(tmp_path / "cold", learning_rate=0.01)
    with caplog.at_level(logging.INFO, "axonrl"):
        ours = started(tmp_path / "warm", source, learning_rate=0.01)
    assert same(ours, theirs) >= KERNELS
    assert same(ours, cold) >= {name for name in ours if name.startswith("sgd/")}
    assert not same(ours, cold) & KERNELS
    assert any("took 8 variables (body/kernel, body/bias, head/kernel" in text for text in caplog.messages)
    record = json.loads((tmp_path / "warm" / "run.json").read_text())
    assert record["warm_start"] == {"from": str(source), "variables": ".*", "policy": "last", "new": []}


def test_some_variables_of_the_best_policy(source: Path, tmp_path: Path) -> None:
    cold = started(tmp_path / "cold")
    ours = started(tmp_path / "warm", WarmStart(source, "(body|critic)/.*", policy="best"))
    best = plain(Agent(two_headed, None, source).get_weights(policy="best"))
    assert same(ours, best) & KERNELS == {"body/kernel"}
    assert same(ours, cold) & KERNELS == {"head/kernel", "critic/kernel"}  # the best policy has no critic
    record = json.loads((tmp_path / "warm" / "run.json").read_text())
    assert record["warm_start"]["new"] == ["critic/kernel", "critic/bias"]


def test_from_a_file_and_from_weights(source: Path, tmp_path: Path) -> None:
    one = Agent(two_headed, None, source)
    exported = one.export(tmp_path / "exported") / "weights.safetensors"
    acting = plain(one.get_weights())
    for number, given in enumerate((one.get_weights(), exported)):
        assert same(started(tmp_path / str(number), given), acting) == acting.keys()
    best = plain(one.get_weights(policy="best"))
    assert same(started(tmp_path / "best", source / "best.safetensors"), best) == best.keys()


def test_what_does_not_fit_is_refused_by_name(source: Path, tmp_path: Path) -> None:
    message = r"head/kernel is float32\[3, 2\] in the source, float32\[3, 5\] in the run"
    caught = raised(ArgumentError, started, tmp_path, source, actions=5, match=message)
    assert caught.argument == "warm_start"
    assert str(caught).endswith("WarmStart(..., variables='(?!head/|copied/).*')")
    caught = raised(ArgumentError, started, tmp_path, WarmStart(source, "body/.*|head/.*"), actions=5)
    assert str(caught).endswith("WarmStart(..., variables='(?!head/)(?:body/.*|head/.*)')")
    # Not the advice to select nothing.
    raised(ArgumentError, started, tmp_path, WarmStart(source, "head/.*"), actions=5, match="No layer fits: do both")
    assert not (tmp_path / "run.json").exists()
    ours = started(tmp_path, WarmStart(source, "(?!head/|copied/).*"), actions=5)
    assert same(ours, weights_of(source)) & KERNELS == {"body/kernel", "critic/kernel"}


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (".", "holds no run"),
        (lambda source: WarmStart(source, policy="better"), r"holds no policy 'better', only \['last', 'best'\]"),
        (
            lambda source: WarmStart(source / "best.safetensors", policy="best"),
            "applies only to a run folder; leave it out for /",
        ),
        (
            WarmStart({"w": np.zeros(3)}, policy="best"),
            "applies only to a run folder; leave it out for weights by name",
        ),
        (WarmStart({"w": np.zeros(3)}), r"takes nothing from the given weights; it has w; the new run has body/"),
    ],
)
def test_there_is_nothing_to_take(source: Path, tmp_path: Path, monkeypatch: Any, start: Any, message: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ArgumentError, match=message):
        started(tmp_path / "run", start(source) if callable(start) else start)


@pytest.mark.parametrize(("arguments", "name"), [((3,), "warm_start"), (("x", "("), "WarmStart.variables")])
def test_invalid_arguments(arguments: Any, name: str) -> None:
    assert raised(ArgumentError, WarmStart, *arguments).argument == name


def test_a_run_that_continues_is_not_started_again(source: Path, tmp_path: Path) -> None:
    def one(start: Any, folder: Path = tmp_path) -> Agent:
        config = RunConfig(progress=False)
        return Agent(two_headed, ReplayMemory(1000, 4), folder, config, warm_start=start)

    trained = plain(one(source).train(Counting(), 8, 2, timesteps=20).get_weights())
    again = one(source)
    assert same(plain(again.get_weights()), trained) == trained.keys()
    again.train(Counting(), 8, 2, timesteps=2)
    with pytest.raises(ArgumentError, match=r"another warm_start: policy \('last' -> 'best'\)"):
        one(WarmStart(source, policy="best"))
    raised(ArgumentError, one, tmp_path, source, match="was started without warm_start")


def test_it_is_evaluated_before_it_is_trained(source: Path, tmp_path: Path) -> None:
    one = Agent(two_headed, None, tmp_path, QUIET, warm_start=source)
    one.evaluate(Counting(), 1)
    observations = np.random.default_rng(0).standard_normal((9, 2)).astype(np.float32)
    expected = Agent(two_headed, None, source).predict(observations)["values"]
    np.testing.assert_array_equal(one.predict(observations)["values"], expected)


def test_a_run_that_another_agent_started_meanwhile_is_refused(source: Path, tmp_path: Path) -> None:
    late = Agent(two_headed, ReplayMemory(1000, 4), tmp_path, QUIET, warm_start=source)
    Agent(two_headed, ReplayMemory(1000, 4), tmp_path, QUIET).train(Counting(), 8, 2, timesteps=10)
    raised(ArgumentError, late.train, Counting(), 8, 2, timesteps=10, match="was started without warm_start")


def test_a_run_from_given_weights_is_not_one_from_a_folder(source: Path, tmp_path: Path) -> None:
    weights = Agent(two_headed, None, source).get_weights()
    started(tmp_path, weights)
    with pytest.raises(ArgumentError, match=r"another warm_start: from \('weights' -> "):
        Agent(two_headed, None, tmp_path, QUIET, warm_start=source)
    Agent(two_headed, None, tmp_path, QUIET, warm_start=weights)


class Shifted(Counting):
    observation_space: Any = Box(-np.inf, np.inf, (2,), np.float32)

    def observation(self) -> Any:
        return super().observation() + 100


def test_statistics_of_normalising_wrappers_are_taken(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    gymnasium.register("Shifted-v0", entry_point=cast(Any, Shifted))
    try:
        agent(tmp_path / "source").train(make("Shifted-v0", wrappers=["normalize_observation"]), 8, timesteps=30)
        for wrappers, mean in ((["normalize_observation"], 100), (["normalize_observation", "normalize_reward"], 0)):
            env: Any = make("Shifted-v0", 2, wrappers=wrappers)
            folder = tmp_path / str(mean)
            one = Agent(linear_model, ReplayMemory(100, 4), folder, QUIET, warm_start=tmp_path / "source")
            one.check(env, 8)
            assert np.abs(env.envs[0].normalizers.observation.obs_rms.mean - mean).max() < 5
        bare = Agent(linear_model, ReplayMemory(100, 4), tmp_path / "bare", QUIET, warm_start=one.get_weights())
        caplog.clear()
        bare.check(make("Shifted-v0", wrappers=["normalize_observation"]), 8)
        said = "warm start: the source has no statistics; those of normalize_observation start over"
        assert [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING] == [said]
    finally:
        del gymnasium.registry["Shifted-v0"]


def keras_network(name: str, last: str = "head", units: int = 2) -> Any:
    """Two of its layers have no names of their own."""
    layers = keras.layers
    between = [layers.Dense(3), layers.BatchNormalization(), layers.Dropout(0.1), layers.Dense(3)]
    return keras.Sequential([*between, layers.Dense(units, name=last)], name=name)


def pretrained(features: Any, labels: Any, mode: str, params: Any = None) -> EstimatorSpec:
    """The network of a file, online and as a target."""
    online = keras_network("online", **params or {})
    values = online(features, training=False)
    if mode == "predict":
        return EstimatorSpec(mode, {"action": tf.argmax(values, 1, tf.int32)})
    target = keras_network("target", **params or {})
    loss = tf.reduce_mean((values - target(features, training=False)) ** 2)
    variables = online.trainable_variables
    keras.optimizers.Adam(0.1).apply(tf.gradients(loss, [v.value for v in variables]), variables)
    return EstimatorSpec(mode, loss=loss)


@pytest.fixture(scope="module")
def keras_files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any]]:
    """Files of a trained model in all formats, and its values in the order of its layers."""
    folder = tmp_path_factory.mktemp("keras")
    model = keras_network("elsewhere")
    model.build((None, 2))
    rng = np.random.default_rng(1)
    model.set_weights([rng.random(value.shape) for value in model.get_weights()])
    model.compile("adam", "mse")
    model.fit(np.ones((4, 2)), np.ones((4, 2)), verbose=0)  # there is an optimizer now
    model.save(folder / "model.keras")
    model.save_weights(folder / "model.weights.h5")
    model.save(folder / "whole.h5")
    with h5py.File(folder / "weights.h5", "w") as file:  # as Keras 2 wrote it
        file.attrs["layer_names"] = [layer.name.encode() for layer in model.layers]
        for layer in model.layers:
            weights = [(f"{layer.name}/{variable.name}:0", variable) for variable in layer.weights]
            file.create_group(layer.name).attrs["weight_names"] = [name.encode() for name, _ in weights]
            for name, variable in weights:
                file[f"{layer.name}/{name}"] = variable.numpy()
    return folder, [variable.numpy() for variable in model.weights]


def of_network(folder: Path, name: str) -> list[Any]:
    """The values of a network's variables in a run's checkpoint, in their order."""
    return [value for key, value in snapshot(folder)["weights"].items() if key.partition(".")[2].startswith(f"{name}/")]


def started_from(folder: Path, warm_start: Any, **params: Any) -> Path:
    Agent(pretrained, ReplayMemory(100, 4), folder, QUIET, params, warm_start=warm_start).check(Counting(), 8)
    return folder


@pytest.mark.parametrize("file", ["model.keras", "model.weights.h5", "whole.h5", "weights.h5"])
def test_a_file_of_keras(file: str, keras_files: tuple[Path, list[Any]], tmp_path: Path) -> None:
    folder, values = keras_files
    started_from(tmp_path, folder / file)
    for network in ("online", "target"):
        found = of_network(tmp_path, network)
        assert len(found) == len(values) == 10
        for one, expected in zip(found, values, strict=True):
            np.testing.assert_array_equal(one, expected)
    assert json.loads((tmp_path / "run.json").read_text())["warm_start"]["from"] == str(folder / file)


def test_some_layers_of_a_file_of_keras(keras_files: tuple[Path, list[Any]], tmp_path: Path) -> None:
    """What is named must be there; the rest begins as it would have."""
    folder, values = keras_files
    start = WarmStart(folder / "model.keras", "online/(?!new/).*")
    found = of_network(started_from(tmp_path, start, last="new", units=5), "online")
    for one, expected in zip(found[:-2], values[:-2], strict=True):
        np.testing.assert_array_equal(one, expected)
    assert found[-2].shape == (3, 5)
    assert not np.array_equal(of_network(tmp_path, "target")[0], values[0])


DENSE = "online/dense/kernel, online/dense/bias"


@pytest.mark.parametrize(
    ("file", "variables", "network", "message"),
    [
        (
            "model.keras",
            ".*",
            {"units": 5},
            r"online/head/kernel, .*: float32\[3, 2\] in the file, float32\[3, 5\] in the run",
        ),
        ("weights.h5", ".*", {"last": "q"}, "online/q/kernel, online/q/bias, target/q/kernel, .*: not in the file"),
        ("weights.h5", ".*", {"last": "dense"}, f"{DENSE}, .*: 2 layers of this name in the file, 3 in the run"),
        ("model.weights.h5", ".*/batch.*|.*/dense/.*", {}, None),
        ("model.keras", "(?!.*/new/).*", {"last": "new"}, None),
        ("small.weights.h5", "online/head/.*", {}, "online/head/kernel, .*: 1 variables in the file's layer"),
        ("more.weights.h5", ".*", {}, "has layers that the new run lacks: critic; the new run has .*online/dense/"),
        ("order.weights.h5", "online/dense/.*", {}, "several layers of this name, in unknown order"),
        ("model.keras", "nothing", {}, "'nothing' takes nothing from .*; it has .*dense.*; the new run has .*dense"),
        ("nowhere.keras", ".*", {}, "nowhere.keras does not exist"),
        ("damaged.keras", ".*", {}, "cannot be read as a Keras file: File is not a zip file"),
        ("damaged.h5", ".*", {}, "cannot be read as a Keras file: .*file signature not found"),
    ],
)
def test_what_of_a_file_of_keras_does_not_fit_is_listed(
    file: str, variables: str, network: Any, message: str | None, keras_files: tuple[Path, list[Any]], tmp_path: Path
) -> None:
    folder, _ = keras_files
    for name in ("damaged.keras", "damaged.h5"):
        (folder / name).write_bytes(b"nonsense")
    with h5py.File(folder / "small.weights.h5", "w") as small:
        small["layers/dense/vars/0"] = np.zeros((3, 2), np.float32)
        small["layers/dense/vars"].attrs["name"] = "head"
    shutil.copy(folder / "model.weights.h5", folder / "more.weights.h5")
    shutil.copy(folder / "model.weights.h5", folder / "order.weights.h5")
    with h5py.File(folder / "more.weights.h5", "a") as more:
        more["layers/critic/vars/0"] = np.zeros(1, np.float32)
    with h5py.File(folder / "order.weights.h5", "a") as order:  # as where a model has them in attributes of its own
        names = [order[f"layers/{layer}/vars"].attrs for layer in ("dense", "dense_1")]
        names[0]["name"], names[1]["name"] = names[1]["name"], names[0]["name"]
    start = WarmStart(folder / file, variables)
    if message is None:
        started_from(tmp_path, start, **network)
        return
    kind = CheckpointError if file.startswith("damaged") else ArgumentError
    raised(kind, started_from, tmp_path, start, match=message, **network)
    assert not (tmp_path / "run.json").exists()
