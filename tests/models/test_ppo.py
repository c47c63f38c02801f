"""PPO against numbers worked out by hand, on networks that are one matrix; and through the Agent, as users meet it."""

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from axonrl import Agent, RunConfig
from axonrl.core.protocols import ArraySpec, Modes
from axonrl.environments import make
from axonrl.errors import ArgumentError
from axonrl.memories import BatchMemory
from axonrl.models import ppo
from axonrl.noise import Request
from axonrl.runtimes.tracing.program import Program
from axonrl.runtimes.tracing.signature import BoundModelFn
from axonrl.tests.estimators.fakes import Counting, Notes, differences, snapshot
from axonrl.tests.models.executed import LINEAR, WHOLE, random_rollout, traced

OBSERVATIONS = spaces.Box(-10, 10, (2,))
STEPS = {**LINEAR, "max_gradient_norm": None}


class Learner:
    """PPO on rollouts [T, 1] that the test makes up; of labels what is not given is 0."""

    def __init__(
        self, params: Mapping[str, Any], rollout: Mapping[str, Any], observation_space: Any = OBSERVATIONS
    ) -> None:
        config = RunConfig(observation_space=observation_space, action_space=spaces.Discrete(2))
        self.length = len(rollout["observation"])
        scalars = ("reward", "discount", "terminated", "truncated", "log_prob", "value")
        zeros = {name: np.zeros(self.length, np.float32) for name in scalars}
        self.default = {"next_observation": rollout["observation"], **zeros, **rollout}
        batch = {name: value[:, None] for name, value in self.default.items()}
        self.model = traced(ppo.model_fn, params, config, batch)

    def train(self, step: int = 0, draws: Sequence[Any] | None = None, **changes: Any) -> dict[str, float]:
        """One update; ``draws`` are the permutations, in order where they are not given."""
        orders = [np.arange(self.length)] * len(self.model.train_program.noise) if draws is None else draws
        batch = {name: np.asarray(value)[:, None] for name, value in {**self.default, **changes}.items()}
        result = self.model.train(step, [np.asarray(order, np.int32) for order in orders], **batch)
        return {name: value for name, value in result.items() if name != "td_error"}


START = {"policy/head/kernel": [1, 0, 0, 2], "value/head/kernel": [1, 1]}
POLICY = np.array([[1.0, 0.0], [0.0, 2.0]], np.float32)
OBSERVATION = np.array([[1, 0], [0, 1]], np.float32)  # logits [1, 0] and [0, 2]
TAKEN = np.exp([0, 2]) / (np.exp([1, 0]) + np.exp([0, 2]))  # probabilities of action 1: 0.269 and 0.881
ROLLOUT: dict[str, Any] = {
    "observation": OBSERVATION,
    "action": np.array([1, 1], np.int32),
    "reward": np.array([4, 2], np.float32),
    "terminated": np.ones(2, np.float32),
    "value": np.array([1, 1], np.float32),  # so that the advantages are 3 and 1
    "log_prob": np.log(TAKEN).astype(np.float32),
}
TOWARDS = np.array([[TAKEN[0] - 1, 1 - TAKEN[0]], [TAKEN[1] - 1, 1 - TAKEN[1]]])
"""The gradient of log pi with respect to the logits, of each row: one-hot of action 1 less the probabilities."""


def linear(rollout: Mapping[str, Any] = ROLLOUT, **params: Any) -> Learner:
    """Equal ones share a trace: plain SGD has no memory."""
    learner = Learner({**WHOLE, "max_gradient_norm": None, **params}, rollout)
    learner.model.set(START)
    return learner


@pytest.mark.parametrize(("normalize", "advantages", "minibatch_size"), [(False, [3, 1], None), (True, [1, -1], 2)])
def test_the_first_step_follows_the_policy_gradient(
    normalize: bool, advantages: list[int], minibatch_size: int | None
) -> None:
    learner = linear(normalize_advantages=normalize, minibatch_size=minibatch_size)
    result = learner.train()
    ascent = np.array(advantages)[:, None] * TOWARDS / 2  # the mean over two rows, of the logits
    weights = learner.model.weights
    # Row 0 observes the first unit vector, row 1 the second: each moves its own row of the kernel.
    np.testing.assert_allclose(weights["policy/head/kernel"], POLICY + 0.1 * ascent, rtol=1e-5)
    np.testing.assert_allclose(weights["policy/head/bias"], 0.1 * ascent.sum(0), rtol=1e-4, atol=1e-7)
    # Values 1 and 1 of returns 4 and 2; 0.5 (v - R)^2, and the mean: gradients -3 / 2 and -1 / 2.
    np.testing.assert_allclose(weights["value/head/kernel"], [[1.15], [1.05]], rtol=1e-6)
    np.testing.assert_allclose(weights["value/head/bias"], [0.2], rtol=1e-6)
    gradient = [*ascent.flat, *ascent.sum(0), 1.5, 0.5, 2.0]
    p = np.stack([1 - TAKEN, TAKEN])
    expected = {
        "loss": -np.mean(advantages) + 0.5 * 5,
        "policy_loss": -np.mean(advantages),
        "value_loss": (9 + 1) / 2,
        "entropy": -(p * np.log(p)).sum() / 2,
        "kl": 0,
        "clip_fraction": 0,
        "gradient_norm": np.linalg.norm(gradient),
        "optimizer_steps": 1,
        "explained_variance": 0,
        "learning_rate": 0.1,
    }
    assert result == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_gradients_are_clipped_by_their_global_norm() -> None:
    free, clipped = linear(), linear(max_gradient_norm=0.5)
    norm = free.train()["gradient_norm"]
    assert clipped.train()["gradient_norm"] == pytest.approx(norm)  # before clipping
    assert norm > 2
    np.testing.assert_allclose(clipped.model.weights["value/head/bias"], [0.1 * 2 * 0.5 / norm], rtol=1e-5)


def test_a_ratio_beyond_the_clip_is_left_alone() -> None:
    """Both actions are 1.5 times as likely now as when they were taken; only one was good."""
    learner = linear(clip=0.2)
    log_prob = np.log(TAKEN / 1.5).astype(np.float32)
    result = learner.train(log_prob=log_prob, reward=np.array([4, -2], np.float32))  # advantages 3 and -3
    assert result["policy_loss"] == pytest.approx(-(1.2 * 3 - 1.5 * 3) / 2, rel=1e-5)
    assert result["clip_fraction"] == 1
    assert result["kl"] == pytest.approx(0.5 - np.log(1.5), rel=1e-4)
    kernel = learner.model.weights["policy/head/kernel"]
    np.testing.assert_array_equal(kernel[0], POLICY[0])
    np.testing.assert_allclose(kernel[1], POLICY[1] - 0.1 * 1.5 * 3 * TOWARDS[1] / 2, rtol=1e-5)


def test_values_are_clipped_where_that_is_asked_for() -> None:
    rollout = {**ROLLOUT, "value": np.array([0, 1], np.float32)}  # the first has moved from 0 to 1, of a return of 4
    learner = linear(rollout, value_clip=0.5)
    assert learner.train()["value_loss"] == pytest.approx((3.5**2 + 1) / 2)
    np.testing.assert_allclose(learner.model.weights["value/head/kernel"], [[1.0], [1.05]], rtol=1e-6)


@pytest.mark.parametrize(("recompute", "second"), [(False, ([2, 1], [1, 0])), (True, ([2.025, 1.075], [0.925, 0.025]))])
def test_advantages_are_recomputed_before_every_pass(recompute: bool, second: tuple[list[float], list[float]]) -> None:
    """Returns and advantages of the second pass follow from the value that the first has moved, or do not."""
    rollout = {
        **ROLLOUT,
        "next_observation": np.array([[0, 2], [2, 0]], np.float32),
        "reward": np.array([1, 0], np.float32),
        "discount": np.full(2, 0.5, np.float32),
        "terminated": np.zeros(2, np.float32),
        "truncated": np.ones(2, np.float32),
    }
    learner = linear(rollout, normalize_advantages=False, epochs=2, recompute_advantages=recompute)
    result = learner.train()
    # Pass 1: values 1, 1 and 2, 2, returns 2, 1: the first kernel and the bias of the value go up by 0.1 / 2. So the
    # values of pass 2 are 1.1, 1.05 and 2.05, 2.15.
    returns, advantages = map(np.array, second)
    assert result["value_loss"] == pytest.approx((0.5 + np.mean((np.array([1.1, 1.05]) - returns) ** 2)) / 2)
    ascent = np.array([[1.0], [0]]) * TOWARDS / 2
    logits = POLICY + 0.1 * ascent + 0.1 * ascent.sum(0)
    ratio = np.exp(logits)[:, 1] / np.exp(logits).sum(1) / TAKEN
    assert result["policy_loss"] == pytest.approx(-(0.5 + np.mean(ratio * advantages)) / 2, rel=1e-5)


def test_a_truncated_episode_bootstraps_from_its_own_last_observation() -> None:
    rollout = {
        **ROLLOUT,
        "next_observation": np.array([[0, 3], [5, 5]], np.float32),
        "reward": np.array([1, -1], np.float32),
        "discount": np.array([0.5, 0], np.float32),
        "terminated": np.array([0, 1], np.float32),
        "truncated": np.array([1, 0], np.float32),
    }
    # Values 1 and 1. V([0, 3]) is 3, so the returns are 1 + 0.5 * 3 and -1; the second row is another episode.
    assert linear(rollout).train()["value_loss"] == pytest.approx((1.5**2 + 2**2) / 2)


def test_advantages_go_back_in_time_within_an_episode() -> None:
    rollout = {
        **ROLLOUT,
        "next_observation": np.array([[0, 1], [0, 6]], np.float32),
        "reward": np.array([1, -1], np.float32),
        "discount": np.full(2, 0.5, np.float32),
        "terminated": np.zeros(2, np.float32),
    }
    # Values 1 and 1; TD errors 1 + 0.5 - 1 and -1 + 0.5 * 6 - 1 (the rollout's open end), lambda 0.4.
    advantages = np.array([0.5 + 0.5 * 0.4 * 1, 1])
    result = linear(rollout, gae_lambda=0.4).train()
    assert result["policy_loss"] == pytest.approx(-advantages.mean())
    assert result["value_loss"] == pytest.approx((advantages**2).mean())


def visits(learner: Learner, draws: Any = None, **changes: Any) -> tuple[list[int], float]:
    """How often each of six rows was learned from, and the number of steps.

    Every row observes something of its own, so the value's kernel tells: a row's weight begins at 0, and each visit
    moves it towards the return 1 by nearly the same small amount.
    """
    learner.model.set({})
    steps = learner.train(draws=draws, **changes)["optimizer_steps"]
    moved = learner.model.weights["value/head/kernel"][:, 0] / (1e-3 * 2 * 0.5 / 2)
    counted = np.rint(moved)
    np.testing.assert_allclose(moved, counted, atol=0.1)
    return counted.astype(int).tolist(), steps


def six_rows(**params: Any) -> Learner:
    rollout = {"observation": np.eye(6, dtype=np.float32), "action": np.zeros(6, np.int32)}
    rollout |= {"reward": np.ones(6, np.float32), "log_prob": np.full(6, np.log(0.5), np.float32)}
    settings = {**STEPS, "minibatch_size": 2, "learning_rate": 1e-3, "initializer": "zeros", **params}
    return Learner(settings, rollout, observation_space=spaces.Box(0, 1, (6,)))


def test_every_epoch_learns_once_from_every_row() -> None:
    learner = six_rows(epochs=3)
    assert learner.model.train_program.noise == (Request("permutation", (6,)),) * 3
    rng = np.random.default_rng(0)
    draws = [rng.permutation(6) for _ in range(3)]
    assert visits(learner, draws) == ([3] * 6, 9)


@pytest.mark.parametrize(("max_kl", "steps"), [(0.0012, 2), (0.0013, 3)])
def test_the_step_that_finds_the_policy_moved_is_the_last(max_kl: float, steps: int) -> None:
    """The first step finds the policy where it acted, and moves its logits apart by 2 * 0.1 * 0.5: a KL of 0.00125."""
    learner = six_rows(epochs=2, max_kl=max_kl, learning_rate=0.1)
    action = np.array([0, 1, 0, 1, 0, 1], np.int32)
    reward = np.array([1, -1, 1, -1, 1, -1], np.float32)
    result = learner.train(action=action, reward=reward)
    assert result["optimizer_steps"] == steps
    if steps == 2:  # metrics are means over the steps that were made
        assert result["kl"] == pytest.approx(0.00125 / 2, rel=0.01)


def test_schedules_follow_global_step() -> None:
    line = {"kind": "linear", "duration": 10}
    params = {
        "learning_rate": {**line, "start": 0.1, "stop": 0.02},
        "clip": {**line, "start": 0.6, "stop": 0.2},
        "entropy_coefficient": {**line, "start": 1.0, "stop": 0.0},
    }
    learner = linear({**ROLLOUT, "log_prob": np.log(TAKEN / 1.5).astype(np.float32)}, **params)
    for step, rate, outside, entropy in [(0, 0.1, 0, 1), (5, 0.06, 1, 0.5), (20, 0.02, 1, 0)]:
        learner.model.set(START)
        result = learner.train(step)
        assert result["learning_rate"] == pytest.approx(rate)
        assert result["clip_fraction"] == outside  # the ratio is 1.5
        assert result["loss"] == pytest.approx(result["policy_loss"] + 2.5 - entropy * result["entropy"], rel=1e-5)
        np.testing.assert_allclose(learner.model.weights["value/head/bias"], [2 * rate], rtol=1e-5)


def small(**params: Any) -> dict[str, Any]:
    """The initial weights of networks for two numbers and an action of three, by name."""
    config = RunConfig(observation_space=OBSERVATIONS, action_space=spaces.Box(-1, 1, (3,)))
    bound = BoundModelFn(ppo.model_fn, {"hidden": [2, 8], **params}, config, None)
    variables = Program(bound, ArraySpec((2,), np.float32), 0).store.predict_variables()
    return {name.partition(".")[2]: variable.numpy() for name, variable in variables.items()}


def test_two_networks_or_one_with_two_heads() -> None:
    heads = ["policy/head/kernel", "policy/head/bias", "policy/log_std", "value/head/kernel", "value/head/bias"]
    body = [f"mlp/dense{i}/{part}" for i in (1, 2) for part in ("kernel", "bias")]
    apart, shared = small(), small(shared=True)
    assert set(apart) == {*heads, *(f"{name}/{part}" for name in ("policy", "value") for part in body)}
    assert set(shared) == {*heads, *(f"policy/{part}" for part in body)}
    assert not np.array_equal(apart["policy/mlp/dense1/kernel"], apart["value/mlp/dense1/kernel"])


def test_kernels_begin_orthogonal_with_the_usual_gains() -> None:
    weights = small(log_std=-0.5)
    for body in ("policy", "value"):
        kernels = [weights[f"{body}/mlp/dense{i}/kernel"] for i in (1, 2)]
        for kernel in kernels:  # [2, 2] and [2, 8]
            np.testing.assert_allclose(kernel @ kernel.T, 2 * np.eye(2), atol=1e-5)
    head = weights["policy/head/kernel"]
    np.testing.assert_allclose(head.T @ head, 1e-4 * np.eye(3), atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(weights["value/head/kernel"]), 1, rtol=1e-5)
    assert weights["policy/log_std"].tolist() == [-0.5] * 3
    assert not any(value.any() for name, value in weights.items() if name.endswith("bias"))


def test_other_initializers_are_not_scaled_but_in_the_policys_head() -> None:
    weights = small(hidden=[64], initializer="glorot_uniform")
    limit = np.sqrt(6 / (2 + 64))
    assert 0.9 * limit < np.abs(weights["policy/mlp/dense1/kernel"]).max() <= limit
    limit = 0.01 * np.sqrt(6 / (64 + 3))
    assert 0.9 * limit < np.abs(weights["policy/head/kernel"]).max() <= limit


class Choosing(Counting):
    """Random observations; episodes of four timesteps, which terminate and truncate in turn. Takes only its actions."""

    def __init__(self, action_space: Any, observation_space: Any = OBSERVATIONS) -> None:
        super().__init__(4, True, action_space)
        self.observation_space = observation_space

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.observation_space.seed(seed)
        self.truncates = not self.truncates
        return super().reset(seed=seed)

    def observation(self) -> Any:
        return self.observation_space.sample()

    def reward(self) -> float:
        assert self.action_space.contains(self.actions[-1]), self.actions[-1]
        return float(self.np_random.normal())


def agent(model_dir: Path, memory: Any = None, runtime: str = "tensorflow", seed: int = 0, **params: Any) -> Agent:
    settings = {"hidden": [8], "epochs": 2, "minibatch_size": 8, **params}
    config = RunConfig(seed=seed, save_checkpoints_secs=None, runtime=runtime)
    return Agent(ppo.model_fn, BatchMemory(16) if memory is None else memory, model_dir, config, settings)


def learned(one: Agent, env: Any, timesteps: int) -> list[Mapping[str, float]]:
    """The metrics of all updates, which have changed every weight."""
    notes = Notes()
    one.check(env)
    first = one.get_weights()
    one.train(env, timesteps=timesteps, hooks=[notes])
    last = one.get_weights()
    assert [name for name, value in first.items() if np.array_equal(value, last[name])] == []
    return [facts.metrics for facts in notes.facts["after_update"]]


DISCRETE = spaces.Discrete(3, start=-1)
ENVIRONMENTS = {
    "Discrete and MultiDiscrete": Choosing(
        spaces.MultiDiscrete(np.array([[2, 3], [4, 2]]), start=np.array([[1, -2], [0, 5]])), spaces.Discrete(4, start=2)
    ),
    "Box and Tuple": Choosing(spaces.Tuple([spaces.Box(-1, 1, (2,)), spaces.MultiBinary((2, 1)), DISCRETE])),
    "Box and Box": Choosing(spaces.Box(np.array([[-1.0, 0.0], [1.0, 2.0]]), np.inf, (2, 2), np.float64)),
}


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_spaces(name: str, tmp_path: Path) -> None:
    """Sampling and learning agree on the probabilities: the ratio is 1 until the policy moves."""
    env: Any = ENVIRONMENTS[name]
    one = agent(tmp_path, epochs=1, minibatch_size=None, log_std=0.3, initializer="he_normal")
    found = learned(one, env, 32)
    assert [metrics["kl"] for metrics in found] == pytest.approx([0] * 2, abs=1e-6)
    assert [metrics["clip_fraction"] for metrics in found] == [0] * 2
    assert np.isfinite([list(metrics.values()) for metrics in found]).all()
    predicted = one.predict(np.stack([env.observation_space.sample() for _ in range(5)]))
    assert predicted["value"].shape == (5,)
    if isinstance(env.action_space, spaces.Tuple):
        assert {"mean/0", "log_std/0", "logits/1", "logits/2"} < set(predicted)
        return
    assert predicted["action"].shape == (5, *env.action_space.shape)
    if isinstance(env.action_space, spaces.Box):
        assert {"mean", "log_std"} < set(predicted)
        assert predicted["log_std"].shape == predicted["mean"].shape == (5, *env.action_space.shape)
        np.testing.assert_array_equal(predicted["action"], predicted["mean"])
    else:
        assert all(env.action_space.contains(np.asarray(a, env.action_space.dtype)) for a in predicted["action"])
        assert predicted["logits"].shape == (5, env.action_space.nvec.sum())


def test_minibatches_of_dict_observations(tmp_path: Path) -> None:
    observed: Any = {"b": spaces.Discrete(2), "a": spaces.Box(-1, 1, (2, 2)), "c": spaces.MultiBinary(2)}
    env, one = Choosing(DISCRETE, spaces.Dict(observed)), agent(tmp_path, entropy_coefficient=0.01)
    assert [metrics["optimizer_steps"] for metrics in learned(one, env, 50)] == [4] * 3
    seen = [env.observation_space.sample() for _ in range(5)]
    predicted = one.predict({key: np.stack([each[key] for each in seen]) for key in observed})
    assert predicted["logits"].shape == (5, 3)
    assert set(predicted["action"].tolist()) <= {-1, 0, 1}


def test_what_does_not_fit_is_refused_before_the_first_timestep(tmp_path: Path) -> None:
    one = agent(tmp_path, minibatch_size=5)
    with pytest.raises(ValueError, match="must divide the rollout of 16 timesteps, got 5"):
        one.train(Choosing(DISCRETE), timesteps=100)
    assert one.global_timestep == 0


FOUR: dict[str, Any] = {"hidden": [4], "minibatch_size": 32, "learning_rate": 1e-3, "entropy_coefficient": 0.01}


def cartpole(model_dir: Path, *timesteps: int) -> list[float]:
    """The losses of PPO on four CartPoles, each number of timesteps with an Agent of its own."""
    notes = Notes()
    for number in timesteps:
        one = agent(model_dir, BatchMemory(64), "litert", 3, **FOUR)
        with contextlib.closing(make("CartPole-v1", num_envs=4)) as env:
            one.train(env, timesteps=number, hooks=[notes])
    return [facts.loss for facts in notes.facts["after_update"]]


@pytest.mark.parametrize("more", [{}, {"recompute_advantages": True, "max_kl": 1e-4}])
def test_both_executors_compute_the_same_in_minibatches(more: Mapping[str, Any]) -> None:
    rng = np.random.default_rng(0)
    config = RunConfig(observation_space=OBSERVATIONS, action_space=DISCRETE)

    def rollout() -> dict[str, Any]:
        return {**random_rollout(rng, (8, 2)), "action": rng.integers(-1, 2, (8, 2), np.int32)}

    params = {"hidden": (4,), "epochs": 2, "minibatch_size": 8, "entropy_coefficient": 0.01, "max_gradient_norm": 0.5}
    params |= more
    models = [traced(ppo.model_fn, params, config, rollout(), runtime) for runtime in ("litert", "tensorflow")]
    for step in range(4):
        batch, draws = rollout(), [rng.permutation(16).astype(np.int32) for _ in range(2)]
        found, expected = (model.train(step, draws, **batch) for model in models)
        assert found.pop("td_error") is expected.pop("td_error") is None
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-6)
    models[0].check(models[1].weights, 1e-4, 1e-5)


@pytest.mark.usefixtures("traced_once")
def test_a_run_resumes_exactly_in_the_middle_of_a_rollout(tmp_path: Path) -> None:
    whole = cartpole(tmp_path / "whole", 256)
    parts = cartpole(tmp_path / "parts", 160, 96)  # 160 are two rollouts and a half
    assert (whole, len(whole)) == (parts, 4)
    assert differences(snapshot(tmp_path / "whole"), snapshot(tmp_path / "parts")) == []


class Bandit(Choosing):
    """Every timestep is an episode; the nearer to 0.7 the better."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, _, _, info = super().step(action)
        return observation, reward, True, False, info

    def reward(self) -> float:
        return -float((self.actions[-1][0] - 0.7) ** 2)


BANDIT: dict[str, Any] = {"learning_rate": 0.02, "minibatch_size": 32, "epochs": 4}


@pytest.mark.learning
@pytest.mark.parametrize("box_policy", ["squashed", "state_dependent"])
def test_it_learns_where_in_a_box_it_pays_most(box_policy: str, tmp_path: Path) -> None:
    one = agent(tmp_path, BatchMemory(64), "litert", box_policy=box_policy, **BANDIT)
    found = learned(one, Bandit(spaces.Box(-5, 5, (1,))), 64 * 30)
    predicted = one.predict(np.random.default_rng(0).normal(size=(20, 2)).astype(np.float32))
    np.testing.assert_allclose(predicted["action"], 0.7, atol=0.25)
    if box_policy != "state_dependent":
        assert (predicted["log_std"] < -0.5).all()  # from 0: there is no use in missing it
    assert found[-1]["entropy"] < found[0]["entropy"] - 0.4


def test_state_dependent_noise_has_the_distribution_that_is_learned(tmp_path: Path) -> None:
    params: dict[str, Any] = {"hidden": [3], "box_policy": "state_dependent", "sde_resample_every": 2, "epochs": 1}
    one = agent(tmp_path, BatchMemory(16), minibatch_size=None, **params)
    first, second = learned(one, Choosing(spaces.Box(-9, 9, (2,))), 32)
    for metrics in (first, second):  # each update evaluates the very policy that acted, at its first step
        assert metrics["kl"] == pytest.approx(0, abs=1e-6)
        assert metrics["clip_fraction"] == 0
    names = {name.partition(".")[2]: value for name, value in one.get_weights().items()}
    assert names["policy/log_std"].shape == (3, 2)  # of each feature and component
    predicted = one.predict(np.array([[1.0, 2.0], [0.0, -1.0]], np.float32))
    scaled = predicted["scaled_features"]
    assert scaled.shape == (2, 3, 2)
    # One feature scales all components alike but for the learned deviations.
    ratio = scaled[:, :, 0] / scaled[:, :, 1]
    np.testing.assert_allclose(
        ratio[0], np.exp(names["policy/log_std"][:, 0] - names["policy/log_std"][:, 1]), rtol=1e-4
    )
    np.testing.assert_allclose(ratio[0], ratio[1], rtol=1e-4)


def test_a_squashed_policy_needs_a_bounded_box() -> None:
    space = spaces.Box(-np.inf, 1, (1,))
    config = RunConfig(observation_space=OBSERVATIONS, action_space=space)
    with pytest.raises(ArgumentError, match="'squashed'") as error:
        ppo.model_fn(np.zeros((1, 2), np.float32), None, Modes.PREDICT, {"box_policy": "squashed"}, config)
    assert (error.value.argument, error.value.value) == ("action_space", space)
