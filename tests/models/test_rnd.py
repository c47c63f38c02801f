"""Random network distillation in PPO and A2C against numbers worked out by hand, and through the Agent."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from axonrl import Agent, RunConfig
from axonrl.errors import ArgumentError
from axonrl.memories import BatchMemory
from axonrl.models import a2c, ppo
from axonrl.tests.models.executed import WHOLE, random_rollout, traced

F32 = np.float32
CONFIG = RunConfig(observation_space=spaces.Box(-10, 10, (1,)), action_space=spaces.Discrete(2))
RND = {"intrinsic_coefficient": 0.25, "intrinsic_discount": 0.5, "rnd_units": 1, "rnd_share": 0.5}
PARAMS = {**WHOLE, **RND, "max_gradient_norm": None, "gae_lambda": 0.8}
UNIT = {"rnd_target/dense1/kernel": 1, "rnd_target/head/kernel": 1}
UNIT |= {f"rnd_predictor/dense{i}/kernel": 1 for i in (1, 2, 3)}
ZEROS = np.zeros((2, 2), F32)
BATCH = {
    **dict.fromkeys(("reward", "truncated", "discount", "value"), ZEROS),
    "terminated": np.array([[1, 0], [0, 0]], F32),  # which intrinsic returns do not see
    "observation": np.zeros((2, 2, 1), F32),
    "next_observation": np.array([[[1], [3]], [[5], [7]]], F32),
    "intrinsic_value": np.array([[1, 2], [3, 4]], F32),
    "action": np.ones((2, 2), np.int32),
    "log_prob": np.full((2, 2), np.log(0.5), F32),
}
SEEN = np.array([[0, 0], [1, 3]]) / np.sqrt(
    5
)  # next observations less 4, over their deviation, where they are positive
ERROR = SEEN**2  # the target is the positive part, the predictor 0


def advantages(reward: Any) -> Any:
    """Advantages with discount 0.5 and lambda 0.8, from the values above and 10 after the rollout."""
    last = reward[1] + 0.5 * 10 - np.array([3, 4])
    return np.array([reward[0] + 0.5 * np.array([3, 4]) - np.array([1, 2]) + 0.5 * 0.8 * last, last])


@pytest.mark.parametrize("runtime", ["litert", "tensorflow"])
def test_two_updates_by_hand(runtime: str) -> None:
    model = traced(ppo.model_fn, PARAMS, CONFIG, BATCH, runtime)
    model.set({**UNIT, "value/head/bias": [0, 10]})
    draws = [np.array([[0.2, 0.9], [0.4, 0.6]], F32)]  # the predictor learns of environment 0 alone
    found = model.train(0, draws)
    # Sums of past errors are 0 and 0, then 1/5 and 9/5: their mean is 0.5, their variance 2.28 / 4.
    reward = ERROR / np.sqrt(0.57)
    advantage = advantages(reward)
    assert found["intrinsic_reward"] == pytest.approx(reward.mean(), rel=1e-5)
    assert found["predictor_loss"] == pytest.approx(0.1, rel=1e-5)
    expected = np.mean((10 - advantage - BATCH["intrinsic_value"]) ** 2)
    assert found["intrinsic_value_loss"] == pytest.approx(expected, rel=1e-5)
    assert (found["value_loss"], found["policy_loss"]) == pytest.approx((0, -0.25 * advantage.mean()), rel=1e-5)
    loss = -0.25 * advantage.mean() + 0.5 * expected + 0.1
    assert found["loss"] == pytest.approx(loss, rel=1e-5)
    step = 0.1 * 0.25 * advantage.mean() / 2  # of probability 0.5
    kernel, bias = 0.2 * ERROR[:, 0].mean(), 0.2 * SEEN[:, 0].mean()
    towards = 10 - 0.1 * np.mean(10 - advantage - BATCH["intrinsic_value"])
    model.check({"policy/head/bias": [-step, step], "value/head/bias": [0, towards]})
    model.check({"rnd_predictor/head/kernel": kernel, "rnd_predictor/head/bias": bias, **UNIT})
    kept = {"rnd/observation_mean": 4, "rnd/observation_variance": 5, "rnd/observation_count": 4}
    model.check({**kept, "rnd/return_mean": 0.5, "rnd/return_variance": 0.57, "rnd/sums": [0.2, 1.8]})

    # Of the same observations less 4: means 4 and 0 of four each, so that the mean is 2 and the variance 5 + 4.
    found = model.train(1, draws, next_observation=BATCH["next_observation"] - 4)
    seen = np.maximum((np.array([[1, 3], [5, 7]]) - 6) / 3, 0)
    error = (seen * (1 - kernel) - bias) ** 2
    sums = error[0] + 0.5 * np.array([0.2, 1.8])
    sums = np.array([sums, error[1] + 0.5 * sums])
    both = np.concatenate([[0, 0, 0.2, 1.8], sums.ravel()])
    assert found["intrinsic_reward"] == pytest.approx(np.mean(error / both.std()), rel=1e-4)
    model.check({"rnd/observation_mean": 2, "rnd/observation_variance": 9, "rnd/observation_count": 8})
    model.check({"rnd/return_mean": both.mean(), "rnd/return_variance": both.var(), "rnd/sums": sums[1]}, rtol=1e-4)


def test_normalised_observations_are_clipped() -> None:
    """One of 36 is 6 of its deviations above the mean, which is 5 for the networks."""
    shape = (36, 1)
    batch = {name: np.zeros((*shape, *value.shape[2:]), value.dtype) for name, value in BATCH.items()}
    batch["next_observation"][0] = 1
    model = traced(ppo.model_fn, {**PARAMS, "rnd_share": 1.0}, CONFIG, batch)
    model.set(UNIT)
    deviation = np.sqrt(35) / 36
    assert (1 - 1 / 36) / deviation > 5
    assert model.train(0)["predictor_loss"] == pytest.approx(25 / 36, rel=1e-5)


def test_an_evaluation_leaves_the_statistics_alone() -> None:
    model = traced(ppo.model_fn, PARAMS, CONFIG, BATCH)
    model.set({**UNIT, "rnd/observation_variance": 1, "rnd/return_variance": 4})
    before = model.weights
    traced_eval = model.program.trace_eval()
    counters = {name: np.asarray(0, kind) for name, kind in (("global_step", np.int64), ("global_timestep", np.int64))}
    scalars = traced_eval.function(BATCH, {**counters, "progress": F32(0)}, [])["scalars"]
    found = dict(zip(("loss", *traced_eval.metrics), np.asarray(scalars).tolist(), strict=True))
    assert found["predictor_loss"] == np.mean([1, 9, 25, 25])  # clipped at 5, and of all timesteps
    model.check(before, rtol=0)


def test_both_executors_compute_the_same_in_minibatches() -> None:
    rng = np.random.default_rng(0)
    config = RunConfig(observation_space=spaces.Box(-10, 10, (2,)), action_space=spaces.Discrete(2))
    params = {"hidden": (4,), "shared": True, "epochs": 2, "minibatch_size": 8, "recompute_advantages": True}
    params |= {"intrinsic_coefficient": 1.0, "rnd_units": 4, "rnd_share": 0.5}

    def rollout() -> dict[str, Any]:
        return {**random_rollout(rng, (8, 2)), "intrinsic_value": rng.normal(size=(8, 2)).astype(F32)}

    models = [traced(ppo.model_fn, params, config, rollout(), runtime) for runtime in ("litert", "tensorflow")]
    for step in range(3):
        batch, draws = rollout(), [request.draw(rng) for request in models[0].train_program.noise]
        found, expected = (model.train(step, draws, **batch) for model in models)
        assert found.pop("td_error") is expected.pop("td_error") is None
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-6)
    models[0].check(models[1].weights, 1e-4, 1e-5)


def test_a_memory_without_rollouts_is_refused() -> None:
    batch = {name: value[0] for name, value in BATCH.items()}
    with pytest.raises(ArgumentError, match=r"rollouts \[T, N, ...\] are needed, from a BatchMemory"):
        traced(ppo.model_fn, PARAMS, CONFIG, batch)


def check_resume(folder: Path, runtime: str, **more: Any) -> None:
    def trained(name: str, updates: int) -> dict[str, Any]:
        config = RunConfig(seed=1, runtime=runtime, progress=False)
        params = {"hidden": (8,), "intrinsic_coefficient": 0.5, "rnd_units": 8, "rnd_share": 0.5, **more}
        agent = Agent(a2c.model_fn, BatchMemory(8), folder / name, config, params)
        return agent.train("CartPole-v1", max_steps=updates).get_weights()

    whole = trained("whole", 9)
    trained("parts", 4)
    parts = trained("parts", 9)
    for name, value in whole.items():
        assert np.array_equal(value, parts[name]), name


def test_a_run_in_tensorflow_resumes_exactly(tmp_path: Path) -> None:
    check_resume(tmp_path, "tensorflow")


@pytest.mark.usefixtures("traced_once")  # not those above, which TensorFlow runs
def test_a_run_with_memory_resumes_exactly(tmp_path: Path) -> None:
    check_resume(tmp_path, "litert", lstm=4, sequence_length=4)
