"""Which executor runs a model: chosen once, said, kept by the run; and that it makes no difference but in time."""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium.spaces import Discrete

from axonrl import Agent, EstimatorSpec, Modes
from axonrl.errors import CheckpointError, NonFiniteError
from axonrl.explorations import EpsilonGreedy
from axonrl.memories import ReplayMemory
from axonrl.models import dqn
from axonrl.policies.lite_executor import LiteRTExecutor
from axonrl.run_dir.arrays import load_arrays
from axonrl.runtimes import executor_choice
from axonrl.runtimes.tensorflow import TensorFlowExecutor
from axonrl.tests.estimators.fakes import At, Counting, Notes, agent, differences, linear_model, record, saved, snapshot

SMALL = "the model is small and converts"
SMALL_RECORD = {"code": "small", "detail": ""}
BEGUN = "as recorded when this run started"
LITERT = {"actor": "litert", "learner": "litert"}
TENSORFLOW = {"actor": "tensorflow", "learner": "tensorflow"}
APART = {"actor": "litert", "learner": "tensorflow"}


def edit_record(model_dir: Path, runtime: Any, *without: str) -> None:
    value = {**record(model_dir), "runtime": runtime}
    (model_dir / "run.json").write_text(json.dumps({k: v for k, v in value.items() if k not in without}))


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def choices(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was said of executors, and forgotten with it."""
    found = [message for message in caplog.messages if message.startswith("Using ")]
    caplog.clear()
    return found


@pytest.fixture(autouse=True)
def _listening(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "axonrl")


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, str]]:
    """What has acted and trained, as ``("litert", "act")``."""
    found: set[tuple[str, str]] = set()

    def noting(name: str, method: str, call: Any) -> Any:
        def wrapper(*args: Any) -> Any:
            found.add((name, method))
            return call(*args)

        return wrapper

    executors: dict[str, type[Any]] = {"litert": LiteRTExecutor, "tensorflow": TensorFlowExecutor}
    for name, kind in executors.items():
        for method in ("act", "train"):
            monkeypatch.setattr(kind, method, noting(name, method, getattr(kind, method)))
    return found


def train(one: Agent, ran: set[tuple[str, str]] | None = None, timesteps: int = 12) -> Agent:
    """A few updates; ``ran`` then holds what the run itself used, without what was tried before."""
    hooks = [] if ran is None else [At("begin", 0, lambda session: ran.clear())]
    return one.train(Counting(), 8, 2, timesteps=timesteps, hooks=hooks)


def refuse_conversion(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def convert(functions: Any, variables: Any) -> bytes:
        raise error

    monkeypatch.setenv("AXONRL_CACHE", "")
    monkeypatch.setattr(executor_choice, "convert", convert)


def test_the_choice_is_said_once_and_recorded_with_its_reason(
    ran: set[tuple[str, str]], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one = train(agent(tmp_path), ran)
    assert ran == {("litert", "act"), ("litert", "train")}
    train(one)
    one.evaluate(Counting(), 1)
    one.predict(np.zeros((1, 2), np.float32))
    assert choices(caplog) == [f"Using LiteRT for actor and learner: {SMALL}."]
    assert record(tmp_path)["runtime"] == LITERT
    assert record(tmp_path)["runtime_why"] == {"actor": SMALL_RECORD, "learner": SMALL_RECORD}
    train(agent(tmp_path), ran)
    assert ran == {("litert", "act"), ("litert", "train")}
    assert choices(caplog) == [f"Using LiteRT for actor and learner, {BEGUN}."]
    agent(tmp_path).evaluate(Counting(), 1)
    assert choices(caplog) == [f"Using LiteRT for the actor, {BEGUN}."]
    assert record(tmp_path)["runtime_why"] == {"actor": SMALL_RECORD, "learner": SMALL_RECORD}  # why it was begun so


def test_a_run_in_tensorflow_stays_there_whatever_the_rule_says_now(
    ran: set[tuple[str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    refuse_conversion(monkeypatch, AssertionError("nobody asked for this"))
    train(agent(tmp_path, runtime="tensorflow"), ran)
    assert ran == {("tensorflow", "act"), ("tensorflow", "train")}
    assert choices(caplog) == ["Using TensorFlow for actor and learner, as requested."]
    assert record(tmp_path)["runtime"] == TENSORFLOW
    one = train(agent(tmp_path), ran)
    assert ran == {("tensorflow", "act"), ("tensorflow", "train")}
    assert one.global_timestep == 24
    assert choices(caplog) == [f"Using TensorFlow for actor and learner, {BEGUN}."]
    ran.clear()
    agent(tmp_path).evaluate(Counting(), 1)
    assert ran == {("tensorflow", "act")}
    assert choices(caplog) == [f"Using TensorFlow for the actor, {BEGUN}."]


def test_another_executor_may_evaluate_a_run_but_not_train_it(ran: set[tuple[str, str]], tmp_path: Path) -> None:
    begun, other = "tensorflow", "litert"
    trained = train(agent(tmp_path, runtime=begun))
    observations = np.random.default_rng(0).normal(size=(16, 2)).astype(np.float32)
    expected = trained.predict(observations)
    before = files(tmp_path)
    message = rf"{tmp_path} was started with the actor in {begun}, the learner in {begun}; got runtime='{other}'"
    with pytest.raises(ValueError, match=message):
        train(agent(tmp_path, runtime=other))
    assert files(tmp_path) == before
    one = agent(tmp_path, runtime=other)
    ran.clear()
    assert one.evaluate(Counting(), 2) == trained.evaluate(Counting(), 2)
    ran.discard((begun, "act"))  # of ``trained``
    found = one.predict(observations)
    np.testing.assert_allclose(found["values"], expected["values"], rtol=1e-5, atol=1e-6)
    assert np.array_equal(found["action"], expected["action"])
    assert (other, "act") in ran
    assert (begun, "train") not in ran
    assert record(tmp_path)["runtime"] == {"actor": begun, "learner": begun}
    assert train(agent(tmp_path)).global_timestep == 24  # the run has lost nothing


@pytest.mark.parametrize("runtime", ["tensorflow", "litert"])
def test_acting_before_training_does_not_pass_for_an_edit(
    runtime: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The model's initial values are those of its trace, whatever policy has acted since."""
    train(agent(tmp_path / "run", runtime=runtime))
    one = agent(tmp_path / "run", runtime=runtime)
    one.act(np.zeros(2, np.float32))
    one.train(Counting(), timesteps=1)
    new = Agent(linear_model, ReplayMemory(1000, 4), tmp_path / "new", one.config, warm_start=tmp_path / "run")
    new.evaluate(Counting(), 1)
    train(new)
    assert record(tmp_path / "new")["initial"] == record(tmp_path / "run")["initial"]
    assert "initial values changed" not in caplog.text


def test_a_record_with_other_executors_is_no_record(tmp_path: Path) -> None:
    train(agent(tmp_path, runtime="tensorflow"))
    edit_record(tmp_path, {"actor": "litert", "learner": "abacus"})
    with pytest.raises(
        CheckpointError, match=rf"{tmp_path}/run\.json is damaged: it is not the record of a run \(.*\)"
    ):
        agent(tmp_path)


def test_a_conversion_leaves_logging_as_it_was_and_says_nothing_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """TensorFlow would give the root logger a handler, and every line of the user's would come twice."""
    monkeypatch.setenv("AXONRL_CACHE", "")
    monkeypatch.setattr(logging.root, "handlers", [])
    train(agent(tmp_path / "a"))
    assert logging.root.handlers == []
    heard: list[logging.LogRecord] = []

    class Hears(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            heard.append(record)

    monkeypatch.setattr(logging.root, "handlers", [Hears()])
    train(agent(tmp_path / "b"))
    assert [type(handler) for handler in logging.root.handlers] == [Hears]
    assert {one.name.partition(".")[0] for one in heard} == {"axonrl"}
    assert "absl" not in capfd.readouterr().err


def own_model(between: Callable[[Any, Any, str], Any]) -> Any:
    """A network that nobody here has seen, with something of the test's choosing between its layers."""

    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        first, last = keras.layers.Dense(4, "relu"), keras.layers.Dense(2)
        values = last(between(first(features), labels, mode))
        if mode == Modes.PREDICT:
            action = tf.argmax(values, axis=1, output_type=tf.int32)
            return EstimatorSpec(mode, {"action": action}, exploration=EpsilonGreedy(0.5, Discrete(2)))
        chosen = tf.reduce_sum(values * tf.one_hot(labels["action"], 2), axis=1)
        loss = tf.reduce_mean((labels["reward"] - chosen) ** 2)
        variables = [*first.trainable_variables, *last.trainable_variables]
        gradients = tf.gradients(loss, [variable.value for variable in variables])
        keras.optimizers.SGD(1e-2).apply(gradients, variables)
        return EstimatorSpec(mode, loss=loss)

    return model_fn


def _dropout(hidden: Any, labels: Any, mode: str) -> Any:
    return keras.layers.Dropout(0.5)(hidden, training=mode == Modes.TRAIN)


def _some_rows(hidden: Any, labels: Any, mode: str) -> Any:
    """As many rows as there are rewards above 1.5 in the batch."""
    if mode == Modes.PREDICT:
        return hidden
    return hidden + tf.reduce_sum(tf.boolean_mask(hidden, labels["reward"] > 1.5), axis=0)


_UNPROVEN = "LiteRT is not proven to agree with TensorFlow on op"
_APART = f"Using LiteRT for the actor: {SMALL}; TensorFlow for the learner: {_UNPROVEN}"
_TOGETHER = f"Using LiteRT for actor and learner: {SMALL}."
OWN = {
    "dropout": (_dropout, APART, f"{_APART} StatelessRandom"),
    "data-dependent shape": (_some_rows, LITERT, _TOGETHER),
}


@pytest.mark.parametrize("name", OWN)
def test_a_model_of_ones_own_trains_in_what_can_run_it(
    name: str, ran: set[tuple[str, str]], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    between, runtimes, message = OWN[name]
    one = train(agent(tmp_path / "auto", model=own_model(between)), ran, timesteps=30)
    assert ran == {(runtimes["actor"], "act"), (runtimes["learner"], "train")}
    (said,) = choices(caplog)
    assert said.startswith(message)
    assert record(tmp_path / "auto")["runtime"] == runtimes
    assert one.global_step == 12
    train(agent(tmp_path / "tensorflow", model=own_model(between), runtime="tensorflow"), timesteps=30)
    weights, theirs = (snapshot(tmp_path / run)["weights"] for run in ("auto", "tensorflow"))
    for where in differences(weights, theirs):  # they may differ, but by rounding only
        np.testing.assert_allclose(weights[where[1:]], theirs[where[1:]], rtol=1e-4, atol=1e-5, err_msg=where)
    first, last = (load_arrays(path)[0] for path in sorted(tmp_path.glob("auto/checkpoints/*/arrays.safetensors")))
    kernels = [name for name in first if name.startswith("weights/") and name.endswith("dense%2Fkernel")]
    assert len(kernels) == 2
    assert all((first[name] != last[name]).any() for name in kernels)


@pytest.mark.parametrize(("runtime", "what", "value"), [("litert", "loss", "nan"), ("tensorflow", "metric", "inf")])
def test_a_number_that_becomes_infinite_or_nan_while_it_runs(
    runtime: str, what: str, value: str, tmp_path: Path
) -> None:
    """At the third update: there a divisor is 0, or a root's argument -1."""

    def model(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        spec = linear_model(features, labels, mode)
        if labels is None:
            return spec
        left = tf.cast(2 - labels["global_step"], tf.float32)  # 2, 1, 0
        bad = 1.0 / left if value == "inf" else tf.sqrt(2.0 * left - 1.0)
        loss = spec.loss + bad if what == "loss" else spec.loss
        return EstimatorSpec(mode, loss=loss, train_op=spec.train_op, metrics={"entropy": bad})

    notes = Notes()
    name = "the loss" if what == "loss" else "the metric 'entropy'"
    one = agent(tmp_path, model=model, runtime=runtime, save_checkpoints_steps=1)
    with pytest.raises(NonFiniteError, match=rf"{name} is {value}.* at global_step 3, global_timestep 10"):
        one.train(Counting(), 8, 1, timesteps=20, hooks=[notes])
    assert record(tmp_path)["runtime"] == {"actor": runtime, "learner": runtime}
    assert saved(tmp_path) == [(0, 0, 0), (8, 1, 2), (9, 2, 3)]
    assert notes.events[-1] == ("end", 10, 3, 3)


@pytest.mark.parametrize("runtime", ["litert", "tensorflow"])
def test_a_weight_that_becomes_nan_is_never_saved(runtime: str, tmp_path: Path) -> None:
    """A loss can be finite and its gradient not."""

    def model(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        spec = linear_model(features, labels, mode)
        if labels is None:
            return spec
        extra = tf.Variable(1.0, name="extra")
        step = tf.sqrt(tf.cast(1 - labels["global_step"], tf.float32))  # 1, 0, NaN
        return EstimatorSpec(mode, loss=spec.loss, train_op=tf.group(spec.train_op, extra.assign_sub(step)))

    one = agent(tmp_path, model=model, runtime=runtime, save_checkpoints_steps=1)
    with pytest.raises(NonFiniteError, match=r"the weight .*extra.* is NaN or infinite at global_step 3"):
        one.train(Counting(), 8, 1, timesteps=20)
    assert record(tmp_path)["runtime"] == {"actor": runtime, "learner": runtime}
    assert saved(tmp_path) == [(0, 0, 0), (8, 1, 2), (9, 2, 3)]


@pytest.mark.parametrize("start", [1, -4])
def test_discrete_observations_that_lack_zero_run_in_litert(start: int, tmp_path: Path) -> None:
    """The trial of a conversion makes up observations of the space: others are no valid index."""

    class Rooms(Counting):
        observation_space = Discrete(4, start=start)

        def observation(self) -> Any:
            return start + self.timestep

    learner = agent(tmp_path, model=dqn.model_fn, params={"hidden": [4]})
    assert learner.check(Rooms()).runtimes == {"actor": "litert", "learner": "litert"}
