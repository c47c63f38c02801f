"""Modules and agents in every form a user may write become one normal form, and what is wrong is refused by name."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from axonrl.interfaces.tensorforce.arguments import AGENTS, bind, kind_of, to_json_or_none
from axonrl.interfaces.tensorforce.errors import TensorforceError
from axonrl.interfaces.tensorforce.kinds import at, fed, first_update, least_capacity, normal_form
from axonrl.interfaces.tensorforce.modules import resolve
from axonrl.interfaces.tensorforce.specs import read_values

STATES = read_values("test", {"type": "float", "shape": (3,)}, "states")
INT = read_values("test", {"type": "int", "num_values": 3}, "actions")
FLOAT = read_values("test", {"type": "float", "min_value": -1, "max_value": 1}, "actions")
BOTH = read_values("test", {"turn": {"type": "float"}, "grip": {"type": "bool"}}, "actions")

ADAM = {"type": "adam", "learning_rate": 3e-4, "gradient_norm_clipping": 1.0}
DENSE = {"type": "dense", "size": 8, "bias": True, "activation": "tanh", "dropout": 0.0, "is_trainable": True}
AUTO = {"type": "auto", "size": 64, "depth": 2, "final_size": 64, "final_depth": 1, "internal_rnn": False}
GENERIC = {"update": 5, "objective": "policy_gradient", "reward_estimation": {"horizon": 3}}
NEEDED: dict[str, dict[str, Any]] = {
    "tensorforce": GENERIC,
    **dict.fromkeys(("ppo", "vpg", "trpo"), {"batch_size": 10, "max_episode_timesteps": 20}),
    **dict.fromkeys(("a2c", "ac"), {"batch_size": 10}),
    **dict.fromkeys(("dqn", "double_dqn", "dueling_dqn"), {"memory": 100, "batch_size": 4, "exploration": 0.1}),
    "dpg": {"memory": 100, "batch_size": 4},
}


def double(x: Any) -> Any:
    return 2 * x


def form_of(kind: str, actions: Any = None, **kwargs: Any) -> dict[str, Any]:
    actions = actions or (FLOAT if kind == "dpg" else INT)
    bound = bind(kind, (), {"states": STATES, "actions": actions, **NEEDED[kind], **kwargs})
    return normal_form(kind, bound, STATES, actions)


def refused(kind: str, **kwargs: Any) -> str:
    with pytest.raises(TensorforceError) as caught:
        form_of(kind, **kwargs)
    return caught.value.argument.removeprefix("Agent.create: ")


def refused_module(spec: Any, room: str) -> str:
    with pytest.raises(TensorforceError) as caught:
        resolve("m", spec, room)
    return caught.value.argument


# Ways to write a module


@pytest.mark.parametrize(
    "spec",
    [
        "adam",
        {"type": "adam"},
        {"type": "adam", "learning_rate": 3e-4},
        {"optimizer": "adam"},
        {"optimizer": {"type": "adam"}, "multi_step": 1},
        {"type": "tf_optimizer", "optimizer": "adam"},
        {"type": "tensorforce.core.optimizers.OptimizerWrapper", "optimizer": "adam"},
    ],
)
def test_one_optimizer_in_many_forms(spec: Any) -> None:
    assert resolve("m", spec, "optimizer") == ADAM


@pytest.mark.parametrize("spec", [7, {"capacity": 7}, {"type": "tensorforce.core.memories.Replay", "capacity": 7}])
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
    spec = {"type": "multi_step", "num_steps": 5, "optimizer": {"type": "clipping_step", "optimizer": "sgd", "threshold": 2}}
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


def test_parameters_stay_and_keep_to_json() -> None:
    schedule = {"type": "piecewise_constant", "unit": "updates", "boundaries": (5,), "values": [0.1, 0.0]}
    found = resolve("m", {"type": "adam", "learning_rate": schedule}, "optimizer")["learning_rate"]
    assert found == {**schedule, "boundaries": [5]}
    assert resolve("m", {"type": "adam", "learning_rate": "ornstein_uhlenbeck"}, "optimizer")["learning_rate"] == {
        "type": "ornstein_uhlenbeck"
    }
    assert resolve("m", {"type": "adam", "learning_rate": {"type": "constant", "value": 1}}, "optimizer")["learning_rate"] == 1


@pytest.mark.parametrize(
    ("spec", "room", "argument"),
    [
        ({"type": "dense"}, "layer", "m['size']"),
        ({"type": "dense", "size": 8, "activation": "relo"}, "layer", "m['activation']"),
        ({"type": "dense", "size": 8, "sise": 8}, "layer", "sise"),
        ({"type": "dense", "size": {"type": "decaying"}}, "layer", "m['size']"),
        ({"type": "lstm", "size": 5}, "layer", "m['size']"),
        ({"type": "conv2d", "size": 8, "window": [3, 3, 3]}, "layer", "m['window']"),
        ({"type": "block", "name": "b", "layers": [[{"type": "flatten"}]]}, "layer", "m['layers'][0]"),
        ({"type": "desne", "size": 8}, "layer", "m['type']"),
        ("conv2d_transpose", "layer", "m"),
        ("clipping", "layer", "m"),
        (dict, "layer", "m"),
        (dict, "network", "m"),
        (dict, "memory", "m"),
        ("nowhere.Layer", "layer", "m"),
        ("evolutionary", "optimizer", "m"),
        ("synchronization", "optimizer", "m"),
        ({"optimizer": "adam", "multi_stpe": 5}, "optimizer", "multi_stpe"),
        ({"learning_rate": 0.1}, "optimizer", "m['optimizer']"),
        ({"type": "adam", "learning_rate": float("nan")}, "optimizer", "m['learning_rate']"),
        ({"type": "adam", "learning_rate": True}, "optimizer", "m['learning_rate']"),
        ({"type": "adam", "learning_rate": {"type": "linear"}}, "optimizer", "m['learning_rate']['type']"),
        ({"type": "natural_gradient"}, "optimizer", "m['learning_rate']"),
        ({"batch_size": 5}, "update", "m['unit']"),
        ({"unit": "timesteps", "batch_size": 5, "frequency": 1.0}, "update", "m['frequency']"),
        ({"unit": "timesteps", "batch_size": {"type": "decaying"}}, "update", "m['batch_size']"),
        ({"unit": "timesteps", "batch_size": 5, "freqency": 1}, "update", "freqency"),
        ({"discount": 1.0}, "reward_estimation", "m['horizon']"),
        ({"horizon": 0.5}, "reward_estimation", "m['horizon']"),
        ({"type": "auto"}, "policy", "m['type']"),
        ({"infer_state_value": "distribution"}, "policy", "m['infer_state_value']"),
        (None, "memory", "m"),
        ("policy_gradients", "objective", "m"),
        (3, "objective", "m"),
    ],
)
def test_what_is_wrong_with_a_module_is_refused_by_name(spec: Any, room: str, argument: str) -> None:
    assert refused_module(spec, room) == argument


# Agents


@pytest.mark.parametrize(
    ("name", "kind"),
    [("default", "tensorforce"), ("PPOAgent", "ppo"), ("reinforce", "vpg"), ("ddqn", "double_dqn"), ("ddpg", "dpg")]
    + [("tensorforce.agents.DQNAgent", "dqn"), ("AdvantageActorCritic", "a2c"), ("RandomAgent", "random")],
)
def test_names_of_agents(name: str, kind: str) -> None:
    assert kind_of(name) == kind


def test_an_unknown_agent_names_the_nearest() -> None:
    with pytest.raises(TensorforceError, match="'ppo'") as caught:
        kind_of("pppo")
    assert caught.value.argument == "Agent.create: agent"


def test_arguments_by_position_and_name() -> None:
    bound = bind("ppo", (STATES, INT, 20), {"batch_size": 3})
    assert (bound["max_episode_timesteps"], bound["batch_size"], bound["optimization_steps"]) == (20, 3, 10)
    assert list(bind("dqn", (STATES, INT, 9, 2), {}))[4:7] == ["max_episode_timesteps", "network", "update_frequency"]
    for args, kwargs, argument in (
        ((STATES, INT, 20), {"states": STATES, "batch_size": 3}, "Agent.create: states"),
        ((STATES, INT, 20), {}, "Agent.create: batch_size"),
        ((0,) * 40, {}, "Agent.create"),
        ((STATES, INT, 20, 3), {"batchsize": 3}, "batchsize"),
        ((STATES, INT, 20, 3), {"multi_step": 3}, "multi_step"),
        ((STATES, INT, 20, 3), {"baseline": "auto"}, "baseline"),
    ):
        with pytest.raises(TensorforceError) as caught:
            bind("ppo", args, kwargs)
        assert caught.value.argument == argument


@pytest.mark.parametrize(
    ("kind", "name", "wanted"),
    [("ppo", "critic", "critic_network"), ("vpg", "baseline", "baseline_network")]
    + [("tensorforce", "critic", "baseline_policy"), ("dqn", "reward_preprocessing", "preprocessing")]
    + [("dqn", "predict_terminal_values", "estimate_terminal")],
)
def test_names_of_the_next_release_are_refused_with_those_of_this(kind: str, name: str, wanted: str) -> None:
    with pytest.raises(TensorforceError, match=wanted) as caught:
        form_of(kind, **{name: None})
    assert caught.value.argument == name


def test_arguments_without_effect_are_named_in_one_warning() -> None:
    with pytest.warns(UserWarning) as caught:
        form_of("ppo", device="gpu", config={"eager_mode": True})
    assert len(caught) == 1
    assert "device, config" in str(caught[0].message)
    with pytest.warns(UserWarning, match=r"optimizer\['unroll_loop'\]"):
        form_of("tensorforce", optimizer={"type": "multi_step", "optimizer": "adam", "num_steps": 2, "unroll_loop": True})
    form_of("tensorforce", objective={"type": "policy_gradient", "summary_labels": None})


def test_ppo() -> None:
    form = form_of("ppo")
    assert form["memory"] == {"type": "recent", "capacity": None}
    assert form["update"] == {"unit": "episodes", "batch_size": 10, "frequency": 10, "start": 0}
    step = {"type": "subsampling_step", "optimizer": ADAM, "fraction": 0.33}
    assert form["optimizer"] == {"type": "multi_step", "optimizer": step, "num_steps": 10}
    wanted = {"type": "policy_gradient", "ratio_based": True, "clipping_value": 0.2, "early_reduce": True}
    assert form["objective"] == wanted
    assert form["policy"] == {
        "network": AUTO,
        "distributions": {},
        "temperature": 1.0,
        "use_beta_distribution": True,
        "infer_state_value": False,
    }
    assert form["baseline"] is None
    assert form["reward_estimation"] == {
        "horizon": "episode",
        "discount": 0.99,
        "estimate_horizon": False,
        "estimate_actions": False,
        "estimate_terminal": False,
        "estimate_advantage": False,
    }
    assert (form["dueling"], form["double"], form["exploration"]) == (False, False, 0.0)
    assert fed(form) == [
        "entropy_regularization",
        "l2_regularization",
        "objective/clipping_value",
        "optimizer/optimizer/optimizer/gradient_norm_clipping",
        "optimizer/optimizer/optimizer/learning_rate",
    ]
    assert at(form, "optimizer/optimizer/optimizer/learning_rate") == 3e-4
    assert (least_capacity(form, 20), first_update(form)) == (200, 10)


def test_ppo_with_a_critic() -> None:
    form = form_of("ppo", critic_network=[{"type": "dense", "size": 8}], critic_optimizer={"optimizer": "adam"})
    assert form["baseline"]["policy"]["network"]["layers"] == [DENSE]
    assert form["baseline"]["objective"]["value"] == "state"
    assert (form["baseline"]["optimizer"], form["baseline"]["weight"]) == (ADAM, None)
    assert form["reward_estimation"]["estimate_horizon"] == "early"
    assert form["reward_estimation"]["estimate_advantage"] is True
    assert "baseline/optimizer/learning_rate" in fed(form)
    assert "baseline/objective/huber_loss" in fed(form)


def test_vpg_and_trpo() -> None:
    assert form_of("vpg")["optimizer"] == ADAM
    assert form_of("vpg")["objective"]["ratio_based"] is False
    form = form_of("trpo")
    natural = {"type": "natural_gradient", "learning_rate": 1e-3, "cg_max_iterations": 10, "cg_damping": 1e-3}
    search = {"ls_max_iterations": 10, "ls_accept_ratio": 0.9, "ls_mode": "exponential", "ls_parameter": 0.5}
    assert form["optimizer"] == {"type": "optimizing_step", "optimizer": natural, **search}
    assert form["objective"]["ratio_based"] is True


def test_a2c_and_ac() -> None:
    form = form_of("a2c")
    assert form["update"]["unit"] == "timesteps"
    assert (form["baseline"]["objective"]["value"], form["baseline"]["optimizer"]) == ("state", None)
    assert form["baseline"]["weight"] == 1.0
    assert form["reward_estimation"]["estimate_horizon"] == "early"
    assert form["reward_estimation"]["estimate_advantage"] is True
    assert (least_capacity(form, None), first_update(form)) == (11, 11)
    assert "baseline/weight" in fed(form)
    form = form_of("ac", state_action_value=True)
    assert form["baseline"]["objective"]["value"] == "action"
    assert form["reward_estimation"]["estimate_actions"] is True
    assert form["reward_estimation"]["estimate_advantage"] is False


@pytest.mark.parametrize("kind", ["dqn", "double_dqn", "dueling_dqn"])
def test_dqn(kind: str) -> None:
    form = form_of(kind, update_frequency=3, target_sync_frequency=10)
    assert form["memory"] == {"type": "replay", "capacity": 100}
    assert form["update"] == {"unit": "timesteps", "batch_size": 4, "frequency": 3, "start": 0}
    assert (form["policy"]["temperature"], form["policy"]["infer_state_value"]) == (0.0, "action-values")
    assert form["objective"] == {"type": "value", "value": "action", "huber_loss": 0.0, "early_reduce": True}
    assert form["baseline"] == {
        "policy": form["policy"],
        "objective": None,
        "optimizer": {"type": "synchronization", "sync_frequency": 10, "update_weight": 1.0},
        "weight": None,
    }
    assert (form["dueling"], form["double"]) == (kind == "dueling_dqn", kind == "double_dqn")
    assert first_update(form) == 6
    assert first_update(form_of(kind, start_updating=10)) == 10
    assert fed(form)[:2] == ["baseline/optimizer/sync_frequency", "baseline/optimizer/update_weight"]


def test_dqn_warns_of_the_default_exploration() -> None:
    with pytest.warns(UserWarning, match="exploration"):
        form_of("dqn", exploration=0.0)


def test_dpg() -> None:
    form = form_of("dpg")
    assert form["objective"] == {"type": "deterministic_policy_gradient"}
    assert form["baseline"]["objective"]["value"] == "action"
    assert form["baseline"]["policy"]["use_beta_distribution"] is False
    assert (form["policy"]["temperature"], form["policy"]["use_beta_distribution"]) == (0.0, True)
    assert form["reward_estimation"]["estimate_horizon"] == "late"
    assert form["reward_estimation"]["estimate_actions"] is True


def test_the_generic_agent() -> None:
    form = form_of("tensorforce")
    assert form["memory"]["capacity"] is None
    assert (form["baseline"], form["reward_estimation"]["estimate_horizon"]) == (None, False)
    assert (form["reward_estimation"]["discount"], form["policy"]["temperature"]) == (1.0, 1.0)
    assert (least_capacity(form, None), first_update(form)) == (9, 9)
    assert form_of("tensorforce", memory=50)["memory"] == {"type": "replay", "capacity": 50}
    assert form_of("tensorforce", objective="value")["policy"]["temperature"] == 0.0
    assert form_of("tensorforce", policy={"temperature": 0.5})["policy"]["temperature"] == 0.5
    update = {"unit": "timesteps", "batch_size": 64, "start": {"type": "random", "distribution": "uniform"}}
    form = form_of("tensorforce", update=update, reward_estimation={"horizon": 20})
    assert (first_update(form), first_update(form, start=100)) == (85, 100)


def test_baselines_of_the_generic_agent() -> None:
    joint = form_of("tensorforce", baseline_objective="value", baseline_policy="auto")
    assert (joint["baseline"]["optimizer"], joint["baseline"]["weight"]) == (None, 1.0)
    assert joint["reward_estimation"]["estimate_horizon"] == "late"
    assert least_capacity(joint, None) == 10
    assert form_of("tensorforce", baseline_objective="value", baseline_optimizer=0.5)["baseline"]["weight"] == 0.5
    apart = form_of("tensorforce", baseline_objective="value", baseline_optimizer="adam")["baseline"]
    assert (apart["policy"], apart["optimizer"], apart["weight"]) == (None, ADAM, None)
    through = form_of("tensorforce", baseline_policy="auto")["baseline"]
    assert (through["objective"], through["optimizer"], through["weight"]) == (None, None, None)
    target = form_of("tensorforce", baseline_policy="auto", baseline_optimizer="synchronization")["baseline"]
    assert target["optimizer"] == {"type": "synchronization", "sync_frequency": 1, "update_weight": 1.0}
    explicit = {"horizon": 3, "estimate_horizon": False}
    form = form_of("tensorforce", baseline_policy="auto", reward_estimation=explicit)
    assert form["reward_estimation"]["estimate_horizon"] is False


def test_settings_of_single_actions() -> None:
    policy = {"temperature": {"turn": 0.5}, "distributions": {"float": "gaussian"}}
    form = form_of("tensorforce", BOTH, exploration={"turn": 3.0}, policy=policy)
    assert form["exploration"] == {"grip": 0.0, "turn": 3.0}
    assert form["policy"]["temperature"] == {"grip": 1.0, "turn": 0.5}
    assert form["policy"]["distributions"] == {"float": {"type": "gaussian"}}


@pytest.mark.parametrize(
    ("kind", "kwargs", "argument"),
    [
        ("tensorforce", {"baseline_optimizer": "adam"}, "baseline_optimizer"),
        ("tensorforce", {"baseline_optimizer": 0.5, "baseline_policy": "auto"}, "baseline_optimizer"),
        ("tensorforce", {"baseline_optimizer": "synchronization"}, "baseline_optimizer"),
        ("tensorforce", {"reward_estimation": {"horizon": "episode"}}, "max_episode_timesteps"),
        ("tensorforce", {"update": {"unit": "episodes", "batch_size": 2}}, "max_episode_timesteps"),
        ("tensorforce", {"memory": 8}, "memory"),
        ("tensorforce", {"memory": "ring"}, "memory"),
        ("tensorforce", {"optimizer": {"type": "adam", "beta": 1}}, "beta"),
        ("tensorforce", {"policy": {"distributions": {"int": "gaussian"}}}, "policy['distributions']['int']"),
        ("tensorforce", {"policy": {"distributions": {"move": "categorical"}}}, "move"),
        ("tensorforce", {"policy": {"temperature": {"move": 1}}}, "move"),
        ("tensorforce", {"objective": "deterministic_policy_gradient"}, "actions"),
        ("tensorforce", {"buffer_observe": 0}, "buffer_observe"),
        ("tensorforce", {"buffer_observe": 4, "parallel_interactions": 2}, "buffer_observe"),
        ("ppo", {"critic_network": "auto"}, "critic_optimizer"),
        ("ppo", {"critic_optimizer": "adam"}, "critic_optimizer"),
        ("ppo", {"network": "auot"}, "network"),
        ("ppo", {"memory": 199}, "memory"),
        ("ppo", {"memory": {"type": "recent"}}, "memory"),
        ("ppo", {"update_frequency": 0.5}, "update_frequency"),
        ("ppo", {"subsampling_fraction": 0}, "subsampling_fraction"),
        ("ppo", {"discount": 1.5}, "discount"),
        ("ppo", {"exploration": 1.5}, "exploration"),
        ("ppo", {"exploration": {"action": 1.5}}, "exploration['action']"),
        ("ppo", {"exploration": {"move": 0.5}}, "move"),
        ("ppo", {"parallel_interactions": 0}, "parallel_interactions"),
        ("a2c", {"parallel_interactions": 2}, "parallel_interactions"),
        ("a2c", {"critic_network": None}, "critic_network"),
        ("a2c", {"critic_optimizer": None}, "critic_optimizer"),
        ("a2c", {"critic_optimizer": "synchronization"}, "critic_optimizer"),
        ("dqn", {"actions": FLOAT}, "actions"),
        ("dqn", {"memory": 5}, "memory"),
        ("dqn", {"huber_loss": -1}, "huber_loss"),
        ("dpg", {"actions": INT}, "actions"),
        ("dpg", {"actions": read_values("test", {"a": {"type": "float"}, "b": {"type": "float"}}, "actions")}, "actions"),
    ],
)
def test_what_is_wrong_with_an_agent_is_refused_by_name(kind: str, kwargs: dict[str, Any], argument: str) -> None:
    assert refused(kind, **kwargs) == argument


@pytest.mark.parametrize("kind", list(NEEDED))
def test_every_default_normal_form_is_json_and_is_found_by_its_paths(kind: str) -> None:
    form = form_of(kind)
    assert json.loads(json.dumps(form)) == form
    assert all(isinstance(at(form, path), int | float) for path in fed(form))


def test_arguments_as_json() -> None:
    bound = bind("dqn", (), {"states": STATES, "actions": INT, **NEEDED["dqn"], "network": [{"type": "dense", "size": 8}]})
    written = to_json_or_none(bound)
    assert written is not None
    assert written["states"] == {"type": "float", "shape": [3]}
    assert json.loads(json.dumps(written)) == written
    assert to_json_or_none({**bound, "network": [double]}) is None


def test_random_and_constant_take_few_arguments() -> None:
    assert list(AGENTS["constant"].arguments)[3].name == "action_values"
    with pytest.raises(TensorforceError) as caught:
        bind("random", (STATES, INT), {"exploration": 0.1})
    assert caught.value.argument == "exploration"


def test_tensorflow_is_not_loaded() -> None:
    code = "import sys, axonrl.interfaces.tensorforce.kinds; sys.exit('tensorflow' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
