"""Every agent becomes one normal form, and what is wrong with its arguments is refused by name."""

import json
from typing import Any

import pytest

from axonrl.interfaces.tensorforce.forms.arguments import bind, kind_of
from axonrl.interfaces.tensorforce.forms.kinds import at, fed, first_update, least_capacity, normal_form
from axonrl.interfaces.tensorforce.values.errors import TensorforceError
from axonrl.interfaces.tensorforce.values.specs import read_values

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


@pytest.mark.parametrize(("name", "kind"), [("PPOAgent", "ppo"), ("ddqn", "double_dqn")])
def test_names_of_agents(name: str, kind: str) -> None:
    assert kind_of(name) == kind


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


@pytest.mark.parametrize(("kind", "name", "wanted"), [("ppo", "critic", "critic_network")])
def test_names_of_the_next_release_are_refused_with_those_of_this(kind: str, name: str, wanted: str) -> None:
    with pytest.raises(TensorforceError, match=wanted) as caught:
        form_of(kind, **{name: None})
    assert caught.value.argument == name


def test_arguments_without_effect_are_named_in_one_warning() -> None:
    with pytest.warns(UserWarning, match="device, config") as caught:
        form_of("ppo", device="gpu", config={"eager_mode": True})
    assert len(caught) == 1
    with pytest.warns(UserWarning, match=r"optimizer\['unroll_loop'\]"):
        form_of(
            "tensorforce", optimizer={"type": "multi_step", "optimizer": "adam", "num_steps": 2, "unroll_loop": True}
        )
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


ESTIMATE_HORIZON = "reward_estimation['estimate_horizon']"
STILL = {"horizon": 1, "estimate_advantage": False}
INFERRING = {"infer_state_value": "action-values"}


@pytest.mark.parametrize(
    ("kind", "kwargs", "argument"),
    [
        ("tensorforce", {"baseline_optimizer": "synchronization"}, "baseline_optimizer"),
        ("tensorforce", {"memory": 8}, "memory"),
        ("tensorforce", {"policy": {"distributions": {"int": "gaussian"}}}, "policy['distributions']['int']"),
        ("tensorforce", {"reward_estimation": {"horizon": 1, "estimate_horizon": "late"}}, ESTIMATE_HORIZON),
        ("tensorforce", {"baseline_objective": "policy_gradient"}, "baseline_objective"),
        ("tensorforce", {"buffer_observe": 4, "parallel_interactions": 2}, "buffer_observe"),
        ("ppo", {"critic_network": "auto"}, "critic_optimizer"),
        ("ppo", {"memory": 199}, "memory"),
        ("a2c", {"critic_network": None}, "critic_network"),
        ("dqn", {"actions": FLOAT}, "actions"),
    ],
)
def test_what_is_wrong_with_an_agent_is_refused_by_name(kind: str, kwargs: dict[str, Any], argument: str) -> None:
    assert refused(kind, **kwargs) == argument


@pytest.mark.parametrize("kind", ["trpo", "dpg"])
def test_every_default_normal_form_is_json_and_is_found_by_its_paths(kind: str) -> None:
    form = form_of(kind)
    assert json.loads(json.dumps(form)) == form
    assert all(isinstance(at(form, path), int | float) for path in fed(form))
