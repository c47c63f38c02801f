"""A module in every form a user may write becomes one dictionary, and what is wrong is refused by name."""

import json
from pathlib import Path
from typing import Any

import pytest

from axonrl.interfaces.tensorforce.forms.modules import resolve
from axonrl.interfaces.tensorforce.values.errors import TensorforceError

ADAM = {"type": "adam", "learning_rate": 3e-4, "gradient_norm_clipping": 1.0}
DENSE = {"type": "dense", "size": 8, "bias": True, "activation": "tanh", "dropout": 0.0, "is_trainable": True}
AUTO = {"type": "auto", "size": 64, "depth": 2, "final_size": 64, "final_depth": 1, "internal_rnn": False}


def double(x: Any) -> Any:
    return 2 * x


def refused_module(spec: Any, room: str) -> str:
    with pytest.raises(TensorforceError) as caught:
        resolve("m", spec, room)
    return caught.value.argument


@pytest.mark.parametrize(
    "spec",
    [
        {"optimizer": "adam"},
        {"optimizer": {"type": "adam"}, "multi_step": 1},
        {"type": "tensorforce.core.optimizers.OptimizerWrapper", "optimizer": "adam"},
    ],
)
def test_one_optimizer_in_many_forms(spec: Any) -> None:
    assert resolve("m", spec, "optimizer") == ADAM


@pytest.mark.parametrize("spec", [{"type": "tensorforce.core.memories.Replay", "capacity": 7}])
def test_a_memory_by_capacity_default_type_and_class(spec: Any) -> None:
    assert resolve("m", spec, "memory") == {"type": "replay", "capacity": 7}


def test_json_files_stand_for_modules_and_types(tmp_path: Path) -> None:
    file = tmp_path / "net.json"
    file.write_text(json.dumps({"type": "auto", "size": 8}))
    assert resolve("m", str(file), "network") == {**AUTO, "size": 8, "final_size": 8}
    assert resolve("m", {"type": str(file), "depth": 1, "size": 8}, "network")["depth"] == 1
    with pytest.raises(TensorforceError) as caught:
        resolve("m", {"type": str(file), "size": 9}, "network")
    assert (caught.value.argument, caught.value.value) == ("m['size']", 9)
    layers = tmp_path / "layers.json"
    layers.write_text('[{"type": "dense", "size": 8}]')
    assert resolve("m", str(layers), "policy")["network"] == {"type": "layered", "layers": [DENSE]}


def test_json_files_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    loop, bad = tmp_path / "loop.json", tmp_path / "bad.json"
    loop.write_text(json.dumps(str(loop)))
    bad.write_text("{")
    for file in (loop, bad, tmp_path / "none.json"):
        assert refused_module(str(file), "network") == "m"


def test_the_argument_of_the_default_module_stands_alone() -> None:
    assert resolve("m", [{"type": "dense", "size": 8}], "network") == {"type": "layered", "layers": [DENSE]}
    assert resolve("m", 16, "update") == {"batch_size": 16, "unit": "timesteps", "frequency": 16, "start": 0}
    assert resolve("m", "auto", "policy")["network"] == AUTO
    assert resolve("m", "default", "policy")["network"] == AUTO
    assert resolve("m", double, "layer") == {"type": "function", "function": double, "output_spec": None}
    assert resolve("m", "operator.neg", "layer")["function"](3) == -3
    assert resolve("m", {"type": double, "name": "twice"}, "layer")["name"] == "twice"


def test_nested_modules_are_resolved_and_the_specification_is_unchanged() -> None:
    spec = {
        "type": "multi_step",
        "num_steps": 5,
        "optimizer": {"type": "clipping_step", "optimizer": "sgd", "threshold": 2},
    }
    before = json.dumps(spec)
    inner = {"type": "sgd", "learning_rate": 3e-4, "gradient_norm_clipping": 1.0}
    clipping = {"type": "clipping_step", "optimizer": inner, "threshold": 2, "mode": "global_norm"}
    assert resolve("m", spec, "optimizer") == {"type": "multi_step", "optimizer": clipping, "num_steps": 5}
    assert json.dumps(spec) == before
    block = {"type": "block", "name": "b", "layers": [{"type": "dense", "size": 8, "name": "d"}]}
    assert resolve("m", [[block], [{"type": "retrieve", "tensors": "*"}]], "network")["layers"] == [
        [{"type": "block", "name": "b", "layers": [{**DENSE, "name": "d"}]}],
        [{"type": "retrieve", "tensors": ["*"], "aggregation": "concat", "axis": 0}],
    ]
    plus = resolve("m", {"type": "plus", "objective1": "policy_gradient", "objective2": "value"}, "objective")
    assert plus["objective2"] == {"type": "value", "value": "state", "huber_loss": 0.0, "early_reduce": True}


def test_the_wrapper_becomes_steps_around_its_optimizer() -> None:
    spec = {"optimizer": "adam", "learning_rate": 0.1, "multi_step": 5, "subsampling_fraction": 0.5}
    assert resolve("m", spec, "optimizer") == {
        "type": "multi_step",
        "optimizer": {"type": "subsampling_step", "optimizer": {**ADAM, "learning_rate": 0.1}, "fraction": 0.5},
        "num_steps": 5,
    }


@pytest.mark.parametrize(
    ("spec", "room", "argument"),
    [
        ({"type": "dense", "size": 8, "sise": 8}, "layer", "sise"),
        ({"type": "block", "name": "b", "layers": [[{"type": "flatten"}]]}, "layer", "m['layers'][0]"),
        ("conv2d_transpose", "layer", "m"),
        ({"optimizer": "adam", "multi_stpe": 5}, "optimizer", "multi_stpe"),
        ({"unit": "timesteps", "batch_size": {"type": "decaying"}}, "update", "m['batch_size']"),
        ({"infer_state_value": "distribution"}, "policy", "m['infer_state_value']"),
    ],
)
def test_what_is_wrong_with_a_module_is_refused_by_name(spec: Any, room: str, argument: str) -> None:
    assert refused_module(spec, room) == argument
