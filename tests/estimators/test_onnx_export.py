"""ONNX models of agents: raw observations in, actions of the environment out, compared before they are kept."""

import importlib.util
import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from gymnasium.spaces import Box, Dict, Discrete

from axonrl import Agent, EstimatorSpec, RunConfig
from axonrl.core.protocols import ACTION_MASK, Array
from axonrl.environments import make
from axonrl.errors import ArgumentError
from axonrl.estimators import export as exporting
from axonrl.memories import BatchMemory, ReplayMemory
from axonrl.models import a2c, dqn, r2d2
from axonrl.policies import Policy
from axonrl.runtimes import frozen, onnx_conversion
from axonrl.tests.environments.test_wrapping import Reach
from axonrl.tests.environments.untyped import registered
from axonrl.tests.estimators import test_composite, test_recurrent_agents
from axonrl.tests.estimators.fakes import Counting, agent, aiming_model, linear_model
from axonrl.tests.estimators.test_export import Frames, seeing_model, trained

MISSING = [name for name in exporting.PACKAGES if importlib.util.find_spec(name) is None]
if MISSING and os.environ.get("CI") != "true":
    pytest.skip(f"NOT INSTALLED HERE: {', '.join(MISSING)}; no ONNX model was looked at", allow_module_level=True)

TENSORFLOW = RunConfig(seed=3, progress=False, runtime="tensorflow")


def session(directory: Path) -> Callable[..., dict[str, Array]]:
    """Runs the model of an export on inputs by name."""
    import onnxruntime

    loaded = onnxruntime.InferenceSession(str(directory / "policy.onnx"), providers=["CPUExecutionProvider"])
    names = [output.name for output in loaded.get_outputs()]
    return lambda **inputs: dict(zip(names, loaded.run(names, inputs), strict=True))


def parity(directory: Path) -> Any:
    return json.loads((directory / "parity.json").read_text())


def test_it_computes_with_the_weights_of_the_policy(tmp_path: Path) -> None:
    made = trained(tmp_path / "run")
    directory = made.export(tmp_path / "exported", formats=["onnx", "litert"])
    files = ["README.md", "parity.json", "policy.json", "policy.onnx", "policy.tflite", "weights.safetensors"]
    assert sorted(path.name for path in directory.iterdir()) == files
    run, weights = session(directory), made.get_weights()["0000.weights"]
    for size in (1, 7):
        observations = np.random.default_rng(size).standard_normal((size, 2)).astype(np.float32)
        found, values = run(observation=observations), observations @ weights
        np.testing.assert_allclose(found["values"], values, rtol=1e-5, atol=1e-6)
        assert found["action"].tolist() == values.argmax(1).tolist()
        assert found["action"].dtype == np.int64  # that of Discrete
    about = json.loads((directory / "policy.json").read_text())["onnx"]
    assert about["inputs"] == {"observation": {"shape": [2], "dtype": "float32"}}
    assert about["opset"] == 18
    compared = parity(directory)
    assert compared["played_note"] == "the run's environment is an object, which run.json cannot fully describe"
    assert list(compared["formats"]) == ["litert", "onnx"]
    for one in compared["formats"].values():
        assert (one["observations"], one["tolerance"]) == ({"random": 256}, 1e-4)
        assert one["outputs"]["action"] == {"equal": 256, "ties": 0}
        assert one["largest_difference"] == one["outputs"]["values"]["largest_difference"] < 1e-5
    assert {"onnx", "onnxruntime", "tf2onnx", "tensorflow"} <= compared["made_with"].keys()


class Steady(gymnasium.ObservationWrapper[Any, Any, Any]):
    """CartPole whose first number is 1e6, but for rounding."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(make("CartPole-v1", **arguments))
        self.observation_space = Box(-np.inf, np.inf, (4,))

    def observation(self, observation: Any) -> Any:
        return np.append(np.float32(1e6 + np.sign(observation[3]) / 16), observation[1:])


def test_observations_are_normalised_inside(tmp_path: Path) -> None:
    with registered("Steady-v0", partial(Steady)):  # Gymnasium 1.3 refuses a wrapper's class
        env = make("Steady-v0", wrappers=["normalize_observation"])
        made = agent(tmp_path / "run").train(env, 40, 4, timesteps=100)
        directory = made.export(tmp_path / "exported", formats="onnx")
    assert parity(directory)["formats"]["onnx"]["observations"] == {"random": 256, "played": 256}
    about = json.loads((directory / "policy.json").read_text())["normalization"]
    mean, var = (np.array(about[name]["values"]) for name in ("mean", "var"))
    assert 1e-3 < var[0] < 1e-2  # that of rounding
    raw = (mean + np.sqrt(var) * [[1, -2, 3, 50]]).astype(np.float32)
    seen = np.clip((raw - mean) / np.sqrt(var + about["epsilon"]), -10, 10).astype(np.float32)
    assert seen[0, 3] == 10
    assert seen[0, 0] > 0.5
    seen[:, 0] = 0
    expected = seen @ made.get_weights()["0000.weights"]
    np.testing.assert_allclose(session(directory)(observation=raw)["values"], expected, rtol=1e-5)
    with pytest.raises(ValueError, match=r"has no LiteRT program, only policy\.onnx"):
        Policy.load(directory)


def test_parts_of_a_dict_are_normalised_inside(tmp_path: Path) -> None:
    with registered("Reach-v0", Reach):
        env = make("Reach-v0", wrappers=["normalize_observation"])
        made = agent(tmp_path / "run", ReplayMemory(64, 8), dqn.model_fn, {"hidden": [8]}).train(
            env, 40, 4, timesteps=100
        )
        compared = parity(made.export(tmp_path / "exported", formats=["litert", "onnx"]))["formats"]
    assert {name: one["observations"] for name, one in compared.items()} == {
        name: {"random": 256, "played": 256} for name in ("litert", "onnx")
    }
    inputs = json.loads((tmp_path / "exported" / "policy.json").read_text())["onnx"]["inputs"]
    assert {inputs[f"observation/{name}"]["dtype"] for name in ("observation", "time/0", "desired_goal")} == {"float32"}


def test_actions_are_within_the_bounds(tmp_path: Path) -> None:
    made = trained(tmp_path / "run", aiming_model, Counting(action_space=Box(-1, 1, (2,), np.float32)))
    found = session(made.export(tmp_path / "exported", formats="onnx"))(observation=np.zeros((3, 2), np.float32))
    assert made.predict(np.zeros((1, 2), np.float32))["action"].min() > 1
    assert found["action"].tolist() == [[1, 1]] * 3


def test_images_are_taken_as_bytes(tmp_path: Path) -> None:
    made = trained(tmp_path / "run", seeing_model, Frames())
    frames = np.random.default_rng(0).integers(0, 256, (5, 8, 8, 1), np.uint8)
    found = session(made.export(tmp_path / "exported", formats="onnx"))(observation=frames)
    np.testing.assert_allclose(found["values"], made.predict(frames)["values"], atol=1e-5)


def test_state_and_masks_go_in_and_state_comes_out(tmp_path: Path) -> None:
    """The model is given back what it returned; so it acts like the Agent, which keeps its state itself."""
    case = test_recurrent_agents
    made = Agent(r2d2.model_fn, case.memory(), tmp_path / "run", TENSORFLOW, case.R2D2)
    made.train(case.Cue(True), first_update=60, update_frequency=40, timesteps=100)
    directory = made.export(tmp_path / "exported", formats="onnx")
    run, env = session(directory), case.Cue(True)
    names = sorted(json.loads((directory / "policy.json").read_text())["state"])
    state: dict[str, Any] = {f"state/{name}": np.zeros((1, 16), np.float32) for name in names}
    for time, shown in enumerate((1, 0, 0)):
        seen = env.observation(shown)
        found = run(**{f"observation/{name}": value[None] for name, value in seen.items()}, **state)
        state = {f"state/{name}": found[f"next_state/{name}"] for name in names}
        assert found["action"].tolist() == [made.act(seen, first=time == 0)]
    assert all(np.abs(array).max() > 0 for array in state.values())
    seen[ACTION_MASK] = np.array([0, 0, 1], np.int8)
    found = run(**{f"observation/{name}": value[None] for name, value in seen.items()}, **state)
    assert found["action"].tolist() == [2]


def test_composite_actions_have_a_name_for_each_part(tmp_path: Path) -> None:
    case = test_composite
    made = Agent(a2c.model_fn, BatchMemory(16), tmp_path / "run", TENSORFLOW, case.PARAMS)
    made.train(case.Echo(), timesteps=16)
    found = session(made.export(tmp_path / "exported", formats="onnx"))(observation=np.ones((2, 2), np.float32))
    taken = made.act(np.ones((2, 2), np.float32))
    assert found["action/arm/0"].dtype == np.float64
    np.testing.assert_allclose(found["action/arm/0"], taken["arm"][0], atol=1e-5)
    assert found["action/arm/1"].tolist() == taken["arm"][1].tolist()
    assert found["action/gear"].tolist() == taken["gear"].tolist()
    assert set(found["action/gear"].tolist()) <= {5, 6, 7}
    assert found["action/keys"].tolist() == taken["keys"].tolist()


def test_keys_of_spaces_may_be_integers_and_contain_slashes(tmp_path: Path) -> None:
    """Actions have the space's own keys; only names of arrays are text."""
    inner = Dict({"left/arm": Box(-1, 1, (1,)), "gear": Discrete(3)})
    acted: Any = {0: Discrete(2), 1: inner}
    seen_of: Any = {4: Counting.observation_space, 7: Discrete(9)}
    counting = Counting(action_space=Dict(acted))
    env = gymnasium.wrappers.TransformObservation(counting, lambda seen: {4: seen, 7: np.int64(3)}, Dict(seen_of))
    made = Agent(a2c.model_fn, BatchMemory(4), tmp_path / "run", TENSORFLOW, {})
    made.train(env, timesteps=4)
    folder = made.export(tmp_path / "exported", formats=["litert", "onnx"])
    seen = {4: np.ones(2, np.float32), 7: 3}
    for action in (made.act(seen), Policy.load(folder).act(seen)):
        assert env.action_space.contains(action)
    found = session(folder)(**{"observation/4": np.ones((1, 2), np.float32), "observation/7": np.array([3], np.int32)})
    assert found["action/1/left/arm"].shape == (1, 1)


def other_weights(change: Callable[[Array], Array]) -> Callable[..., Any]:
    def with_weights(function: Any, variables: Any, weights: Any) -> Any:
        return WITH_WEIGHTS(function, variables, {name: change(array) for name, array in weights.items()})

    return with_weights


WITH_WEIGHTS = frozen.with_weights


def test_a_model_that_predicts_something_else_is_not_kept(tmp_path: Path, monkeypatch: Any) -> None:
    made, target = trained(tmp_path / "run"), tmp_path / "exported"
    made.export(target)
    monkeypatch.setattr(onnx_conversion, "with_weights", other_weights(lambda array: array * 1.01))
    with pytest.raises(
        ValueError, match=r"linear_model cannot be exported: the ONNX model.* differs from the agent: values is "
    ):
        made.export(target, formats=["litert", "onnx"])
    kept = ["README.md", "parity.json", "policy.json", "policy.tflite", "weights.safetensors"]
    assert sorted(path.name for path in target.glob("*")) == kept
    assert sorted(path.name for path in tmp_path.iterdir()) == ["exported", "run"]


def test_the_best_of_two_equal_actions_may_be_either(tmp_path: Path, monkeypatch: Any) -> None:
    made = trained(tmp_path / "run")
    made.set_weights({"0000.weights": np.array([[1, 1], [0, 0]], np.float32)})
    nearly = np.array([[0, 1e-6], [0, 0]], np.float32)
    monkeypatch.setattr(onnx_conversion, "with_weights", other_weights(lambda array: array + nearly))
    outputs = parity(made.export(tmp_path / "exported", formats="onnx"))["formats"]["onnx"]["outputs"]
    assert outputs["action"]["ties"] > 50  # the second action where the first number is positive
    assert outputs["action"]["equal"] + outputs["action"]["ties"] == 256


def test_a_model_that_acts_otherwise_is_not_kept(tmp_path: Path, monkeypatch: Any) -> None:
    made = trained(tmp_path / "run")
    made.set_weights({"0000.weights": np.array([[1, -1], [1, -1]], np.float32)})
    opposite = {"action": lambda tensor: 1 - tf.cast(tensor, tf.int64), "values": tf.identity}
    monkeypatch.setattr(onnx_conversion, "_finishing", lambda name, space: opposite[name])
    with pytest.raises(ValueError, match=r"action differs in 256 of 256 observations: [01] instead of [01] in"):
        made.export(tmp_path / "exported", formats="onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def gamma_model(features: Any, labels: Any, mode: str) -> EstimatorSpec:
    spec = linear_model(features, labels, mode)
    if mode == "predict":
        predictions: Any = spec.predictions
        values = predictions["values"]
        return EstimatorSpec(mode, {**predictions, "gamma": tf.math.igamma(values**2 + 1, values**2 + 1)})
    return spec


def test_an_op_that_onnx_lacks_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"gamma_model cannot be exported to ONNX: ONNX lacks the ops: Igamma$"):
        trained(tmp_path / "run", gamma_model).export(tmp_path / "exported", formats="onnx")
    assert not (tmp_path / "exported").exists()


def test_formats_that_cannot_be_written_are_refused(tmp_path: Path, monkeypatch: Any) -> None:
    made = trained(tmp_path / "run")
    wrong: list[Any] = ["coreml", [], None, ["onnx", 1]]
    for formats in wrong:
        with pytest.raises(ArgumentError, match="formats must be some of 'litert', 'onnx', got") as caught:
            made.export(tmp_path / "exported", formats=formats)
        assert caught.value.argument == "formats"
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "tf2onnx" else name)
    with pytest.raises(ArgumentError, match=r"'onnx' needs tf2onnx, not installed here: pip install 'axonrl\[onnx\]'"):
        made.export(tmp_path / "exported", formats="onnx")
    assert not (tmp_path / "exported").exists()
