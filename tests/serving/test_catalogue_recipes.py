"""What becomes of a model's name, a configuration and its spaces."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary

from axonrl.environments import spaces
from axonrl.errors import ArgumentError
from axonrl.serving.catalogue import Recipe, model_descriptions, recipe
from axonrl.tests.raising import raised

SIZES = {"state_size": 4, "action_size": 2}


def made(model: str, **config: Any) -> Recipe:
    return recipe(model, {**SIZES, "seed": 0, **config})


@pytest.mark.parametrize(
    ("model", "params", "memory", "first_update", "noise"),
    [
        (
            "dqn",
            {"hidden": [64, 64], "learning_rate": 3e-4, "target_update_rate": 0.002, "max_gradient_norm": 10},
            {"kind": "replay", "size": 100_000, "batch_size": 64, "discount": 0.99, "n_step": 1},
            *(64, "epsilon"),
        ),
        (
            "rainbow",
            {"hidden": [100, 100], "learning_rate": 1e-3, "v_min": -10, "v_max": 10, "atoms": 21, "double": True},
            {"kind": "replay", "size": 100_000, "batch_size": 80, "discount": 0.99, "n_step": 3},
            *(82, "epsilon"),
        ),
        (
            "ddpg",
            {"hidden": [128, 128], "learning_rate": 3e-4, "critic_learning_rate": 3e-4, "max_gradient_norm": 10},
            {"kind": "replay", "size": 100_000, "batch_size": 64, "discount": 0.99, "n_step": 1},
            *(64, "gaussian"),
        ),
        (
            "ppo",
            {"hidden": [100, 100], "minibatch_size": 64, "epochs": 10, "clip": 0.2, "entropy_coefficient": 0.005},
            {"kind": "batch", "size": 256, "discount": 0.99},
            *(1, "drawn"),
        ),
    ],
)
def test_defaults(
    model: str, params: Mapping[str, Any], memory: Mapping[str, Any], first_update: int, noise: str
) -> None:
    found = made(model)
    assert {name: found.params[name] for name in params} == params
    assert {name: found.memory[name] for name in memory} == memory
    assert (found.first_update, found.update_frequency, found.noise) == (first_update, 1, noise)
    assert found.gathers is (model in ("rainbow", "ppo"))
    assert recipe(found.model, found.config) == Recipe.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_an_algorithm_with_actions_of_both_kinds_has_noise_of_each() -> None:
    assert [made("sac", discrete=discrete).noise for discrete in (True, False)] == ["epsilon", "gaussian"]
    found = made("ppo", discrete=True)
    assert recipe("ppo", found.config) == found


def test_the_originals_names_and_axonrls_mean_the_same() -> None:
    original = made("dqn", hidden_layers=[8], lr=0.1, gamma=0.9, tau=0.5, update_freq=4, warm_up=500, n_steps=2)
    ours = made(
        "dqn",
        **{"hidden": [8], "learning_rate": 0.1, "discount": 0.9, "target_update_rate": 0.5},
        **{"update_frequency": 4, "first_update": 500, "n_step": 2},
    )
    assert original == ours
    assert ours.config["lr"] == 0.1
    assert "learning_rate" not in ours.config
    assert ours.config["hidden_layers"] == ours.params["hidden"] == [8]
    assert (ours.first_update, ours.update_frequency, ours.gathers) == (500, 4, True)
    assert made("DQN", hidden_layers="(8,)", number_updates=1, agent_model="DQN") == made("dqn", hidden=[8])


def test_what_one_hyperparameter_says_of_another() -> None:
    found = made("ddpg", max_grad_norm_actor=3)
    assert found.params["max_gradient_norm"] == found.config["max_grad_norm_actor"] == 3
    assert made("ddpg", max_gradient_norm=3) == made("ddpg", max_grad_norm_actor=3, max_grad_norm_critic=3) == found
    found = made("dqn", target_update_period=50)
    assert (found.params["target_update_period"], found.params["target_update_rate"]) == (50, None)
    found = made("dqn", warm_up=10, batch_size=32, n_steps=5)  # a first update finds a batch
    assert (found.config["warm_up"], found.first_update) == (10, 36)


def test_a_seed_is_drawn_where_none_is_given() -> None:
    assert recipe("dqn", SIZES).seed != recipe("dqn", SIZES).seed
    assert made("dqn", seed=7).seed == 7


def test_the_digest_is_of_the_program_alone() -> None:
    digest = made("dqn").digest
    same = ({"seed": 1}, {"buffer_size": 1000}, {"gamma": 0.5}, {"warm_up": 9}, {"freshness": "relaxed"})
    assert {made("dqn", **one).digest for one in same} == {digest}
    other = ({"lr": 0.1}, {"batch_size": 32}, {"state_size": 5}, {"sampler": "prioritized"}, {"hidden_layers": [8]})
    assert len({digest, *(made("dqn", **one).digest for one in other)}) == 6
    assert made("ppo").digest != made("ppo", rollout_length=512).digest


def test_a_programs_digest_has_the_versions_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from axonrl.serving.catalogue import recipes

    before = made("dqn").digest
    monkeypatch.setattr(recipes, "_versions", lambda: {"tensorflow": "0"})
    assert made("dqn").digest != before


@pytest.mark.parametrize(
    ("model", "config", "argument", "told"),
    [
        ("dqn", {"buffer_size": 2e9}, "buffer_size", "512 MiB"),
        ("dqn", {"buffer_size": 63}, "buffer_size", "64"),
        ("dqn", {"batch_size": 4097}, "batch_size", "4,096"),
        ("dqn", {"hidden_layers": [1025]}, "hidden_layers", "1024"),
        ("dqn", {"hidden_layers": [8] * 5}, "hidden_layers", "4"),
        ("dqn", {"hidden_layers": [1024] * 4, "state_size": 100_000}, "hidden_layers", "512 MiB"),
        ("dqn", {"hiden_layers": [8]}, "hiden_layers", "hidden_layers"),
        ("dqn", {"num_atoms": 5}, "num_atoms", "rainbow"),
        ("dqn", {"lr": 0.1, "learning_rate": 0.1}, "learning_rate", "lr"),
        ("dqn", {"tau": 0.1, "target_update_period": 5}, "tau", "target_update_period"),
        ("dqn", {"lr": [[[[[[[[[1]]]]]]]]]}, "lr", "nested"),
        ("dqn", {"number_updates": 2}, "number_updates", "1"),
        ("dqn", {"agent_model": "ppo"}, "agent_model", "dqn"),
        ("dqn", {"lr": {"kind": "linear", "start": 1, "stop": 0, "over": "run"}}, "lr", "run"),
        ("dqn", {"lr": 10**400}, "lr", "2**64"),
        ("dqn", {"margin_weight": 1}, "margin_weight", "demonstrations"),
        ("dqn", {"network": "nature_cnn"}, "network", "TensorFlow"),
        ("dqn", {"network": "minatar_cnn"}, "network", "TensorFlow"),
        ("dqn", {"sampler": {"kind": "prioritised"}}, "sampler", "prioritized"),
        ("dqn", {"seed": 2**63}, "seed", f"{2**63 - 1:,}"),
        ("rainbow", {"v_min": 10}, "v_min", "v_max"),
        ("ddpg", {"max_grad_norm_actor": 1, "max_grad_norm_critic": 2}, "max_grad_norm_critic", "max_grad_norm_actor"),
        ("ppo", {"rollout_length": 100}, "rollout_length", "batch_size=64"),
        ("ppo", {"actor_betas": [0.9, 0.99]}, "actor_betas", "optimizer"),
        ("sac", {"updates": 3}, "batch_size", "updates=3"),
        ("redq", {"critics": 1}, "subset", "critics=1"),
        # Two critics with (20,003 + 3 * 1,025) * 1,024 numbers of 4 bytes, four times.
        ("crossq", {"hidden": [1], "critic_hidden": [1024] * 4, "state_size": 20_000}, "critic_hidden", "722 MiB"),
        ("r2d2", {}, "model", "recurrent"),
        ("dqnn", {}, "model", "did you mean 'dqn'"),
        ("dqn", {f"k{i}": 1 for i in range(101)}, "config", "100"),
    ],
)
def test_what_is_wrong_is_named(model: str, config: Mapping[str, Any], argument: str, told: str) -> None:
    error = raised(ArgumentError, made, model, **config)
    assert error.argument == argument
    assert told in str(error)


def test_what_is_described_is_taken() -> None:
    for one in model_descriptions():
        for row in one["hyperparameters"]:
            assert row["allowed"]
            assert row["meaning"]
        config = {row["name"]: row["default"] for row in one["hyperparameters"]}
        if config.get("target_update_period", 1) is None:
            del config["target_update_period"]
        discrete = one["actions"] == ["discrete"]
        assert recipe(one["model"], {**SIZES, **config, "seed": 0}) == made(one["model"], discrete=discrete)


UNBOUNDED = {"type": "Box", "dtype": "float32", "shape": [2], "low": "-inf", "high": "inf"}


def of(model: str, **config: Any) -> Recipe:
    return recipe(model, {"seed": 0, **config})


def test_sizes() -> None:
    found = of("dqn", state_size=4, action_size=2)
    assert spaces.from_json(found.observation) == Box(-np.inf, np.inf, (4,), np.float32)
    assert spaces.from_json(found.action) == Discrete(2)
    assert found.config["discrete"] is True
    assert "action_low" not in found.config
    assert of("dqn", state_size=4, action_size=2, action_low=0.0, action_high=1.0) == found  # a client's defaults
    called = of("dqn", obs_size=4, action_size=2)
    assert (called.config["obs_size"], called.observation) == (4, found.observation)
    assert "state_size" not in called.config


def test_shapes_and_bounds() -> None:
    found = of("ddpg", state_size=(2, 3), action_size=2, action_low=[-1, -2], action_max=3)
    assert spaces.from_json(found.observation) == Box(-np.inf, np.inf, (2, 3), np.float32)
    assert spaces.from_json(found.action) == Box(np.array([-1, -2], np.float32), np.array([3, 3], np.float32))
    assert found.config["state_size"] == [2, 3]
    assert (found.config["action_low"], found.config["action_high"]) == ([-1.0, -2.0], 3.0)
    assert spaces.from_json(of("ppo", state_size=1, action_size=3).action) == Box(0, 1, (3,), np.float32)
    assert of("ppo", state_size=1, action_size=3, is_discrete=True).action["type"] == "Discrete"


def test_a_described_space() -> None:
    space = Dict({"picture": Box(0, 255, (8, 8), np.uint8), "bits": MultiBinary(3), "choice": Discrete(4, start=1)})
    found = of("dqn", observation_space=spaces.to_json(space), action_size=2)
    assert spaces.from_json(found.observation) == space
    assert found.config["observation_space"] == found.observation
    assert recipe("dqn", found.config) == found
    assert of("dqn", observation_space=nested(7), action_size=2).observation == nested(7)


@pytest.mark.parametrize(
    ("config", "argument"),
    [
        *(({"state_size": size}, "state_size") for size in (None, 0, True, [10**5, 2])),
        ({"state_size": 4, "observation_space": UNBOUNDED}, "observation_space"),
        *(({"action_size": size}, "action_size") for size in (1025, [2, 2])),
        ({"discrete": False}, "discrete"),
        ({"discrete": 1}, "discrete"),
        ({"discrete": True, "is_discrete": True}, "is_discrete"),
        ({"action_low": -1}, "action_low"),
        *(({"model": "ddpg", "action_low": low}, "action_low") for low in (1, [0], [[0, 0]])),
    ],
)
def test_wrong_sizes_and_bounds(config: dict[str, Any], argument: str) -> None:
    given = {"model": "dqn", "state_size": 4, "action_size": 2, **config}
    assert raised(ArgumentError, of, **given).argument == argument


def nested(times: int) -> dict[str, Any]:
    return UNBOUNDED if not times else {"type": "Tuple", "spaces": [nested(times - 1)]}


@pytest.mark.parametrize(
    "space",
    [
        *(5, {"type": ["Box"]}),
        {**UNBOUNDED, "shape": [10**5, 2]},
        {**UNBOUNDED, "dtype": "O"},
        {**UNBOUNDED, "low": "nan"},
        {**UNBOUNDED, "__class__": 1},
        {"type": "Discrete", "n": 10**9, "start": 0, "dtype": "int64"},
        {"type": "Discrete", "n": 3, "start": 2**62, "dtype": "int64"},
        {"type": "MultiBinary", "n": [10**6, 10**6]},
        {"type": "MultiDiscrete", "nvec": [0], "start": [0], "dtype": "int64"},
        {"type": "Dict", "spaces": [["a", UNBOUNDED], ["a", UNBOUNDED]]},
        {"type": "Dict", "spaces": [["a/b", UNBOUNDED], ["a", {"type": "Dict", "spaces": [["b", UNBOUNDED]]}]]},
        {"type": "Tuple", "spaces": []},
        {"type": "Tuple", "spaces": [UNBOUNDED] * 65},
        nested(8),
    ],
    ids=lambda space: str(space)[:60],
)
def test_wrong_described_spaces(space: Any) -> None:
    wrong = raised(ArgumentError, of, "dqn", observation_space=space, action_size=2)
    assert wrong.argument == "observation_space"
