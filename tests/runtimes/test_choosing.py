"""Which executor runs what, why, and how that is kept."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from axonrl.core.protocols import ArraySpec, EstimatorSpec, Modes
from axonrl.policies.executors import ActorAndLearner, Executor
from axonrl.policies.lite_executor import LiteRTExecutor
from axonrl.policies.reasons import Choice, Reason
from axonrl.run_dir.programs import shared_content
from axonrl.runtimes import executor_choice
from axonrl.runtimes.executor_choice import choose
from axonrl.runtimes.litert.conversion import convert
from axonrl.runtimes.tensorflow import TensorFlowExecutor
from axonrl.runtimes.tracing.program import Program, Train
from axonrl.tests.raising import raised
from axonrl.tests.runtimes.networks import COUNTERS, Make

VECTOR = ArraySpec((4,), np.float32)
FRAMES = ArraySpec((8, 8, 1), np.float32)
BOTH_LITERT = {"actor": "litert", "learner": "litert"}
BOTH_TENSORFLOW = {"actor": "tensorflow", "learner": "tensorflow"}
SPLIT = {"actor": "litert", "learner": "tensorflow"}
SMALL, REQUESTED, RECORDED = (Reason(code) for code in ("small", "requested", "recorded"))


def model(features: Any, labels: Any, mode: str, params: Mapping[str, Any]) -> EstimatorSpec:
    """One layer, or two; ``params`` say what is changed about it."""
    layers = params.get(
        "layers", lambda: [keras.layers.Dense(params.get("units", 8), params.get("activation", "relu"))]
    )
    x = keras.ops.cast(features, "float32")
    hidden = [*layers(), keras.layers.Flatten()]
    for layer in hidden:
        x = layer(x)
    head = keras.layers.Dense(1)
    out = head(x)[:, 0]
    variables = [v for layer in (*hidden, head) for v in layer.trainable_variables]
    if mode == Modes.PREDICT:
        return EstimatorSpec(mode, {"action": params.get("acting", lambda y: y)(out)})
    loss = tf.reduce_mean(
        tf.square(params.get("training", lambda y: y)(out) - labels["reward"] * params.get("scale", 1.0))
    )
    gradients = tf.gradients(loss, [v.value for v in variables])
    keras.optimizers.SGD(params.get("rate", 0.1)).apply(gradients, variables)
    return EstimatorSpec(mode, loss=loss)


def convolution() -> list[Any]:
    return [keras.layers.Conv2D(2, 3, activation="relu")]


def two_wide() -> list[Any]:
    return [keras.layers.Dense(256, "relu"), keras.layers.Dense(256, "relu")]


def dropped(y: Any) -> Any:
    return tf.nn.experimental.stateless_dropout(y, 0.5, seed=[1, 2])


def never(name: str, key: str, make: Callable[[], bytes]) -> bytes:
    raise AssertionError("nothing was to be converted")


class Keeping:
    """A cache that keeps what it finds in the shared one, or makes; ``asked`` are the names."""

    def __init__(self) -> None:
        self.contents: dict[tuple[str, str], bytes] = {}
        self.asked: list[str] = []

    def __call__(self, name: str, key: str, make: Callable[[], bytes]) -> bytes:
        self.asked.append(name)
        if (name, key) not in self.contents:
            self.contents[name, key] = shared_content(name, key, make)
        return self.contents[name, key]


@pytest.fixture(scope="module")
def traced(trace: Make, batch_specs: Make) -> Callable[..., tuple[Program, Train]]:
    """``traced(batch=4, observation=float32 [4], **params)``; the same model is traced once."""
    kept: dict[str, tuple[Program, Train]] = {}

    def make(batch: int = 4, observation: Any = VECTOR, **params: Any) -> tuple[Program, Train]:
        key = repr((batch, observation, params))
        if key not in kept:
            program = trace(model, observation=observation, params=params)
            kept[key] = program, program.trace_train(batch_specs(batch, observation=observation))
        return kept[key]

    return make


def chosen(
    traced: tuple[Program, Train], runtime: str = "auto", cache: Any = shared_content
) -> tuple[Executor, Choice]:
    return choose(*traced, runtime, None, cache)


def test_what_is_small_and_converts_runs_in_litert(traced: Make) -> None:
    program, train = traced()
    executor, choice = chosen((program, train))
    assert isinstance(executor, LiteRTExecutor)
    assert choice == Choice(BOTH_LITERT, {"actor": SMALL, "learner": SMALL})
    assert str(choice) == "Using LiteRT for actor and learner: the model is small and converts."
    executor, choice = choose(program, None, "auto", None, shared_content)
    assert isinstance(executor, LiteRTExecutor)
    assert choice == Choice({"actor": "litert"}, {"actor": SMALL})
    assert str(choice) == "Using LiteRT for the actor: the model is small and converts."
    assert choose(program, None, "auto", SPLIT, shared_content)[1].runtimes == {
        "actor": "litert"
    }  # the learner's is no matter


def test_a_large_update_runs_in_tensorflow_and_its_actor_in_litert(
    traced: Make, batch_specs: Make, batch_of: Make
) -> None:
    program, train = traced(batch=512, layers=two_wide)
    # Multiplications and additions of the products forward and back, a batch of 512: 4 by 256, 256 by 256 and 256 by 1
    # three times (the gradient of the observation is in the graph, though nothing reaches it).
    mflop = 2 * 512 * 3 * (4 * 256 + 256 * 256 + 256) / 1e6
    executor, choice = choose(program, train, "auto", None, shared_content)
    assert choice.runtimes == SPLIT
    assert choice.why == {
        "actor": SMALL,
        "learner": Reason("large", f"matrix products of {mflop:.0f} MFLOP, limit 100"),
    }
    assert str(choice) == (
        "Using LiteRT for the actor: the model is small and converts; TensorFlow for the learner: the model is large"
        " (matrix products of 205 MFLOP, limit 100)."
    )
    assert isinstance(executor, ActorAndLearner)
    specs = batch_specs(512)
    observations = np.ones((3, 4), np.float32)
    acted = []
    for seed in range(3):  # the actor always has the learner's newest weights
        acted.append(executor.act(observations)[0]["action"])
        expected = program.predict.function(tf.constant(observations))["predictions"]["action"]
        np.testing.assert_allclose(acted[-1], expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(acted[-1], executor.act(observations)[0]["action"])
        executor.train(batch_of(specs, seed=seed), COUNTERS, [])
    assert len({array.tobytes() for array in acted}) == 3
    executor.set_weights({name: np.zeros_like(value) for name, value in executor.get_predict_weights().items()})
    assert executor.act(observations)[0]["action"].tolist() == [0, 0, 0]


def test_convolutions_run_in_tensorflow(traced: Make) -> None:
    executor, choice = chosen(traced(observation=FRAMES, layers=convolution), cache=never)
    assert isinstance(executor, TensorFlowExecutor)
    assert choice.runtimes == BOTH_TENSORFLOW
    assert choice.why["actor"] == Reason("large", "op Conv2D")
    assert choice.why["learner"].code == "large"


def test_dropout_in_training_leaves_the_actor_in_litert(traced: Make, batch_specs: Make, batch_of: Make) -> None:
    executor, choice = chosen(traced(training=dropped))
    assert (choice.runtimes, choice.why["learner"].code) == (SPLIT, "not_listed")
    assert choice.why["learner"].detail.startswith("op StatelessRandom")
    assert np.isfinite(executor.train(batch_of(batch_specs(4)), COUNTERS, []).scalars).all()


def test_an_actor_that_cannot_be_converted_leaves_the_learner_in_litert(traced: Make) -> None:
    executor, choice = chosen(traced(acting=dropped))
    assert choice.runtimes == {"actor": "tensorflow", "learner": "litert"}
    assert isinstance(executor, ActorAndLearner)
    assert executor.act(np.ones((2, 4), np.float32))[0]["action"].shape == (2,)


def repeated(y: Any) -> Any:
    """LiteRT cannot prepare the gradient."""
    return tf.reduce_mean(tf.repeat(y[:, None, None], 2, 1), [1, 2])


def test_what_is_not_listed_is_not_tried(traced: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[set[str]] = []

    def tried_with(functions: Mapping[str, Any], variables: Any) -> bytes:
        tried.append(set(functions))
        return convert(functions, variables)

    monkeypatch.setenv("AXONRL_CACHE", "")
    monkeypatch.setattr(executor_choice, "convert", tried_with)
    choice = chosen(traced(training=lambda y: y + tf.stop_gradient(tf.math.lgamma(y))))[1]
    assert (choice.runtimes, choice.why["learner"]) == (SPLIT, Reason("not_listed", "op Lgamma"))
    assert str(choice).endswith(
        "TensorFlow for the learner: LiteRT is not proven to agree with TensorFlow on op Lgamma."
    )
    assert tried == [{"act"}]


def test_tensorflow_by_name(traced: Make) -> None:
    executor, choice = chosen(traced(), "tensorflow", never)
    assert isinstance(executor, TensorFlowExecutor)
    assert str(choice) == "Using TensorFlow for actor and learner, as requested."


def test_litert_by_name_of_what_it_cannot_run_is_an_error(traced: Make) -> None:
    message = (
        r"^runtime='litert', but LiteRT cannot run the learner of .*\.model: LiteRT is not proven to agree with"
        r" TensorFlow on op StatelessRandom\w+\. With runtime='auto', TensorFlow runs it\.$"
    )
    with pytest.raises(ValueError, match=message):
        chosen(traced(training=dropped), "litert")
    with pytest.raises(ValueError, match=r"cannot run the actor and learner of .* on op StatelessRandom\w+\. With"):
        chosen(traced(training=dropped, acting=dropped), "litert")


def test_executors_of_a_run_are_kept_whatever_the_rule_says(traced: Make) -> None:
    small, large = traced(), traced(batch=512, layers=two_wide)
    for (program, train), runtime, kept, kind in (
        (small, "litert", BOTH_TENSORFLOW, TensorFlowExecutor),
        (small, "tensorflow", SPLIT, ActorAndLearner),
        (large, "auto", BOTH_LITERT, LiteRTExecutor),
    ):
        executor, choice = choose(program, train, runtime, kept, shared_content)
        assert isinstance(executor, kind)
        assert choice == Choice(kept, dict.fromkeys(kept, RECORDED))
    executor, choice = chosen(large, "litert")  # by name, nobody asks how large it is
    assert isinstance(executor, LiteRTExecutor)
    assert choice.runtimes == BOTH_LITERT


def test_the_cache_is_asked_for_one_program_or_for_each_alone(traced: Make) -> None:
    cache = Keeping()
    chosen(traced(), cache=cache)
    assert cache.asked == ["actor-and-learner"]
    cache = Keeping()
    chosen(traced(training=dropped), cache=cache)
    assert cache.asked == ["actor"]
    cache = Keeping()
    choice = chosen(traced(training=repeated), cache=cache)[1]
    assert (choice.runtimes, choice.why["learner"].code) == (SPLIT, "not_converted")
    assert "failed to" in choice.why["learner"].detail
    assert cache.asked == ["actor-and-learner", "actor", "learner"]
    assert [name for name, _ in cache.contents] == ["actor"]


def test_a_conversion_that_went_wrong_is_not_used(traced: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    other, other_train = traced(scale=3.0)
    functions = {"act": other.predict.function, "train": other_train.function}
    content = convert(functions, list(other.store.variables().values()))
    monkeypatch.setenv("AXONRL_CACHE", "")
    monkeypatch.setattr(
        executor_choice, "convert", lambda now, variables: content if "train" in now else convert(now, variables)
    )
    cache = Keeping()
    choice = chosen(traced(), cache=cache)[1]
    assert (choice.runtimes, choice.why["learner"].code) == (SPLIT, "differs")
    assert re.fullmatch(r"loss is \S+ instead of \S+", choice.why["learner"].detail)
    assert [name for name, _ in cache.contents] == ["actor"]


class Asked(Exception):  # noqa: N818 (it carries the key out)
    """The key that the cache was asked with."""


def key_of(what: tuple[Program, Train]) -> str:
    def cache(name: str, key: str, make: Callable[[], bytes]) -> bytes:
        raise Asked(key)

    return str(raised(Asked, chosen, what, cache=cache))


CHANGES: dict[str, dict[str, Any]] = {
    "another layer size": {"units": 10},
    "another learning rate": {"rate": lambda: tf.constant(0.2)},
    "another batch size": {"batch": 5},
    "another dtype": {"observation": ArraySpec((4,), np.uint8)},
}


def test_the_key_is_another_with_any_change(traced: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {name: key_of(traced(**change)) for name, change in CHANGES.items()}
    keys["none"] = key_of(traced())
    assert key_of(traced(rate=0.2)) == keys["none"]  # Keras keeps it in a variable, and variables are set apart
    assert len(set(keys.values())) == len(keys), keys
    before = key_of(traced())
    monkeypatch.setattr(executor_choice, "version", lambda package: "9.9")
    after = key_of(traced())
    monkeypatch.setattr(executor_choice, "_FORMAT", "other")
    assert len({before, after, key_of(traced())}) == 3
