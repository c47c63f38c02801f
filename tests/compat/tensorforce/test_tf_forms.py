"""Modules and agents in every form a user may write become one normal form; what is wrong is refused by name."""

import json
from pathlib import Path
from typing import Any

import pytest

from axonrl.compat.tensorforce.agents import Agent
from axonrl.compat.tensorforce.agents.creation import resolved
from axonrl.compat.tensorforce.core.memories import Replay  # type: ignore[import-not-found]
from axonrl.compat.tensorforce.spaces.specs import read_values
from axonrl.compat.tensorforce.specs.arguments import bind
from axonrl.compat.tensorforce.specs.modules import resolve
from axonrl.compat.tensorforce.specs.normal_form import first_update, least_capacity, normal_form

from .agents import refused

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
    **{kind: {"batch_size": 10, "max_episode_timesteps": 20} for kind in ("ppo", "vpg", "trpo")},
    **{kind: {"batch_size": 10} for kind in ("a2c", "ac")},
    **{kind: {"memory": 100, "batch_size": 4, "exploration": 0.1} for kind in ("dqn", "double_dqn", "dueling_dqn")},
    "dpg": {"memory": 100, "batch_size": 4},
}


def form_of(kind: str, actions: Any = None, **kwargs: Any) -> dict[str, Any]:
    actions = actions or (FLOAT if kind == "dpg" else INT)
    bound = bind(kind, (), {"states": STATES, "actions": actions, **NEEDED[kind], **kwargs})
    return normal_form(kind, bound, actions)


def double(x: Any) -> Any:
    return 2 * x


def test_json_files_stand_for_modules_and_types(tmp_path: Path) -> None:
    file = tmp_path / "net.json"
    file.write_text(json.dumps({"type": "auto", "size": 8}))
    assert resolve("m", str(file), "network") == {**AUTO, "size": 8, "final_size": 8}
    assert resolve("m", {"type": str(file), "depth": 1, "size": 8}, "network")["depth"] == 1
    assert refused(resolve, "m", {"type": str(file), "size": 9}, "network").argument == "m['size']"
    layers = tmp_path / "layers.json"
    layers.write_text('[{"type": "dense", "size": 8}]')
    assert resolve("m", str(layers), "policy")["network"] == {"type": "layered", "layers": [DENSE]}


def test_the_argument_of_the_default_module_stands_alone() -> None:
    assert resolve("m", [{"type": "dense", "size": 8}], "network") == {"type": "layered", "layers": [DENSE]}
    for replay in ("tensorforce.core.memories.Replay", Replay):
        assert resolve("m", {"type": replay, "capacity": 7}, "memory")["type"] == "replay"
    wrapper = {"type": "tensorforce.core.optimizers.OptimizerWrapper", "optimizer": "adam"}
    for spec in ({"optimizer": "adam"}, {"optimizer": {"type": "adam"}, "multi_step": 1}, wrapper):
        assert resolve("m", spec, "optimizer") == ADAM
    assert resolve("m", 16, "update") == {"batch_size": 16, "unit": "timesteps", "frequency": 16, "start": 0}
    assert resolve("m", "auto", "policy")["network"] == AUTO
    assert resolve("m", "default", "policy")["network"] == AUTO
    assert resolve("m", double, "layer") == {"type": "function", "function": double, "output_spec": None}
    assert resolve("m", "operator.neg", "layer")["function"](3) == -3
    assert resolve("m", {"type": double, "name": "twice"}, "layer")["name"] == "twice"


def test_layers_with_any_cell_end_as_others_and_those_of_one_kind_do_not() -> None:
    for kind, bias, activation in (("internal_rnn", True, "tanh"), ("internal_gru", False, None)):
        cell = {"cell": "gru"} if kind == "internal_rnn" else {}
        found = resolve("m", {"type": kind, "size": 3, "length": 2, "l2_regularization": 0.1, **cell}, "layer")
        assert (found["bias"], found["activation"], found["l2_regularization"]) == (bias, activation, 0.1)


def test_nested_modules_are_resolved_and_the_specification_is_unchanged() -> None:
    spec = {
        "type": "multi_step",
        "num_steps": 5,
        "optimizer": {"type": "clipping_step", "optimizer": "sgd", "threshold": 2},
    }
    before = json.dumps(spec)
    wrapped = {"optimizer": "adam", "learning_rate": 0.1, "multi_step": 5, "subsampling_fraction": 0.5}
    assert resolve("m", wrapped, "optimizer") == {
        "type": "multi_step",
        "optimizer": {"type": "subsampling_step", "optimizer": {**ADAM, "learning_rate": 0.1}, "fraction": 0.5},
        "num_steps": 5,
    }
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


@pytest.mark.parametrize(
    ("spec", "kind", "argument"),
    [
        ({"type": "dense", "size": 8, "sise": 8}, "layer", "sise"),
        ({"type": "block", "name": "b", "layers": [[{"type": "flatten"}]]}, "layer", "m['layers'][0]"),
        ("conv2d_transpose", "layer", "m"),
        ({"unit": "timesteps", "batch_size": {"type": "decaying"}}, "update", "m['batch_size']"),
        ({"type": "function", "function": double, "output_spec": (3,)}, "layer", "m['output_spec']"),
        (
            {"type": "function", "function": double, "output_spec": {"shape": None}},
            "layer",
            "m['output_spec']['shape']",
        ),
        ({"type": "function", "function": double, "output_spec": {"typ": "int"}}, "layer", "typ"),
        ({"type": "optimizing_step", "optimizer": "adam", "ls_parameter": 2.0}, "optimizer", "m['ls_parameter']"),
        ({"type": "optimizing_step", "optimizer": "adam", "ls_accept_ratio": 5}, "optimizer", "m['ls_accept_ratio']"),
        (json.dumps({"layers": [{"type": "dense", "size": 8}] * 20}), "network", "m"),
    ],
)
def test_what_is_wrong_with_a_module_is_refused_by_name(spec: Any, kind: str, argument: str) -> None:
    assert refused(resolve, "m", spec, kind).argument == argument


def test_arguments_by_position_and_name() -> None:
    names = ("PPOAgent", "ddqn", "tensorforce.agents.DQN", "dueling_dqn")
    assert [resolved(name, {}, Agent)[0].kind for name in names] == ["ppo", "double_dqn", "dqn", "dueling_dqn"]
    bound = bind("ppo", (STATES, INT, 20), {"batch_size": 3})
    assert (bound["max_episode_timesteps"], bound["batch_size"], bound["optimization_steps"]) == (20, 3, 10)
    assert list(bind("dqn", (STATES, INT, 9, 2), {}))[4:7] == ["max_episode_timesteps", "network", "update_frequency"]
    for args, kwargs, argument in (
        ((STATES, INT, 20), {"states": STATES, "batch_size": 3}, "Agent.create: states"),
        ((STATES, INT, 20), {}, "Agent.create: batch_size"),
        ((0,) * 40, {}, "Agent.create"),
        ((STATES, INT, 20, 3), {"batchsize": 3}, "batchsize"),
    ):
        assert refused(bind, "ppo", args, kwargs).argument == argument
    error = refused(form_of, "ppo", critic=None)  # a name of the next release
    assert error.argument == "critic"
    assert "critic_network" in str(error)


def test_arguments_without_effect_are_named_in_one_warning() -> None:
    with pytest.warns(UserWarning, match="device, config") as caught:
        form_of("ppo", device="gpu", config={"eager_mode": True})
    assert len(caught) == 1
    with pytest.warns(UserWarning, match="exploration"):  # 0 is the default, with which DQN does not explore
        form_of("dqn", exploration=0.0)
    with pytest.warns(UserWarning, match=r"optimizer\['unroll_loop'\]"):
        form_of(
            "tensorforce", optimizer={"type": "multi_step", "optimizer": "adam", "num_steps": 2, "unroll_loop": True}
        )
    with pytest.warns(UserWarning, match=r"optimizer\['ls_unroll_loop'\]"):
        form_of("tensorforce", optimizer={"type": "optimizing_step", "optimizer": "adam", "ls_unroll_loop": True})
    form_of("tensorforce", objective={"type": "policy_gradient", "summary_labels": None})


def test_ppo_without_and_with_a_critic() -> None:
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
    assert (least_capacity(form, 20), first_update(form)) == (200, 10)
    form = form_of("ppo", critic_network=[{"type": "dense", "size": 8}], critic_optimizer={"optimizer": "adam"})
    assert form["baseline"]["policy"]["network"]["layers"] == [DENSE]
    assert form["baseline"]["objective"]["value"] == "state"
    assert (form["baseline"]["optimizer"], form["baseline"]["weight"]) == (ADAM, None)
    assert form["reward_estimation"]["estimate_horizon"] == "early"
    assert form["reward_estimation"]["estimate_advantage"] is True


def test_vpg_and_trpo() -> None:
    assert form_of("vpg")["optimizer"] == ADAM
    assert form_of("vpg")["objective"]["ratio_based"] is False
    assert form_of("vpg", update_frequency=1)["update"]["frequency"] == 1
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
    form = form_of("ac", state_action_value=True)
    assert form["baseline"]["objective"]["value"] == "action"
    assert form["reward_estimation"]["estimate_actions"] is True
    assert form["reward_estimation"]["estimate_advantage"] is False


def test_the_memory_holds_the_longest_of_changing_horizons() -> None:
    horizon: dict[str, Any] = dict(type="piecewise_constant", unit="updates", boundaries=[10])
    form = form_of("a2c", horizon={**horizon, "values": [1.8, 0.0]})  # a horizon is rounded: 2 for a batch of 10
    assert (least_capacity(form, None), first_update(form)) == (13, 13)
    error = refused(form_of, "a2c", horizon={**horizon, "values": ["a", 3]})
    assert str(error) == "Agent.create: horizon['values'] must be a finite number of at least 0, got 'a'"


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
    assert form["update"]["frequency"] == 64  # after 85 at 149


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
    assert form_of("tensorforce", baseline_policy="auto")["reward_estimation"]["estimate_advantage"] is True
    shared = form_of("tensorforce", objective="value", baseline_policy="auto", baseline_optimizer="adam")
    assert shared["baseline"]["objective"] == shared["objective"]
    assert shared["reward_estimation"]["estimate_advantage"] is False
    copied = {"objective": {"type": "value", "value": "action"}, "baseline_policy": "auto"}
    target = form_of("tensorforce", **copied, baseline_optimizer="synchronization")["baseline"]
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
    "kwargs",
    [{"reward_estimation": {"horizon": 1, "estimate_horizon": "late"}}, {"baseline_objective": "policy_gradient"}],
)
def test_estimates_that_nothing_learns_are_warned_about(kwargs: dict[str, Any]) -> None:
    with pytest.warns(UserWarning, match=r"reward_estimation\['estimate_horizon'\] is 'late', and nothing learns"):
        form_of("tensorforce", **kwargs)


def test_a_deterministic_policy_gradient_without_a_critic_says_that_it_changes_nothing() -> None:
    with pytest.warns(UserWarning, match="deterministic_policy_gradient changes nothing without a critic"):
        form_of("tensorforce", FLOAT, objective="deterministic_policy_gradient")


@pytest.mark.parametrize(
    ("kind", "kwargs", "argument"),
    [
        (
            "tensorforce",
            {"actions": FLOAT, "objective": "deterministic_policy_gradient", "baseline_objective": "value"},
            "objective",
        ),
        ("tensorforce", {"baseline_optimizer": "synchronization"}, "baseline_optimizer"),
        ("tensorforce", {"memory": 8}, "memory"),
        ("tensorforce", {"policy": {"distributions": {"int": "gaussian"}}}, "policy['distributions']['int']"),
        ("tensorforce", {"buffer_observe": 4, "parallel_interactions": 2}, "buffer_observe"),
        ("ppo", {"critic_network": "auto"}, "critic_optimizer"),
        ("ppo", {"memory": 199}, "memory"),
        ("a2c", {"critic_network": None}, "critic_network"),
        ("dqn", {"actions": FLOAT}, "actions"),
    ],
)
def test_what_is_wrong_with_an_agent_is_refused_by_name(kind: str, kwargs: dict[str, Any], argument: str) -> None:
    assert refused(form_of, kind, **kwargs).argument.removeprefix("Agent.create: ") == argument
