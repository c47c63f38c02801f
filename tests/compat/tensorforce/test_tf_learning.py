"""What agents learn from, and the numbers that their updates are fed with."""

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axonrl.compat.tensorforce import Agent
from axonrl.compat.tensorforce.execution import Runner

STATES = {"type": "float", "shape": (1,)}
ACTIONS = {"type": "int", "num_values": 2}


def make(**given: Any) -> Any:
    """REINFORCE with one layer and updates after every episode."""
    plain = {"agent": "vpg", "max_episode_timesteps": 5, "batch_size": 1, "network": [{"type": "linear", "size": 1}]}
    return Agent.create(**{**plain, "states": STATES, "actions": ACTIONS, "seed": 0, **given})


@pytest.mark.usefixtures("unconverted")
def test_a_longer_horizon_for_one_call_skips_an_update_that_has_too_little() -> None:
    agent = make(agent="a2c", max_episode_timesteps=None, batch_size=2, critic_network=[{"type": "linear", "size": 1}])
    updates = []
    for given in ({}, {}, {"horizon": 5}, {}, {}):
        agent.act([1.0])
        updates.append(agent.observe(1.0, **given))
    assert updates == [False, False, False, False, True]


@pytest.mark.usefixtures("unconverted")
def test_statistics_are_of_the_rows_that_count() -> None:
    network = [{"type": "exponential_normalization", "name": "scale"}, {"type": "linear", "size": 2}]
    made = make(network=network)
    for state in (1.0, 2.0, 6.0):
        made.act([state])
        made.observe(1.0, state == 6)  # of 5 timesteps 2 are padded
    assert made.get_variable("policy/policy-network/scale/mean").tolist() == [[3]]
    np.testing.assert_allclose(made.get_variable("policy/policy-network/scale/variance"), [[14 / 3]], rtol=1e-6)


@pytest.mark.usefixtures("unconverted")
def test_noise_is_on_what_is_trained() -> None:
    agent = make(network=[{"type": "exponential_normalization"}])
    for name in [name for name in agent.get_variables() if "logits" in name and "optimizer" not in name]:
        agent.assign_variable(name, np.zeros_like(agent.get_variable(name)))
    query: dict[str, Any] = {"independent": True, "query": "action-distribution-values", "variable-noise": 1.0}
    found = [agent.act([0.0], **query)[1] for _ in range(20)]
    assert 0 < np.abs(found).max() < 5  # the noise of the bias alone: the mean is still 0, and the variance 1
    assert agent.act([0.0], **{**query, "variable-noise": 0.0})[1].tolist() == [0, 0]


def test_constants_of_some_actions() -> None:
    actions = {"lamp": {"type": "bool", "shape": (2,)}, "move": ACTIONS, "turn": {"type": "float"}}
    agent = Agent.create(agent="constant", states=STATES, actions=actions, action_values={"lamp": True, "move": 1})
    found = agent.act([0.0])
    assert (found["lamp"].tolist(), found["move"], found["turn"]) == ([True, True], 1, 0.0)


@pytest.mark.usefixtures("unconverted")
def test_estimated_ends() -> None:
    agent = Agent.create(
        states=STATES,
        actions=ACTIONS,
        update={"unit": "timesteps", "batch_size": 1, "frequency": "never"},
        optimizer={"type": "sgd", "learning_rate": 0.0},
        memory={"type": "recent", "capacity": 9},
        objective="value",
        policy=[{"type": "linear", "size": 1, "bias": False}],
        reward_estimation={"horizon": 0, "discount": 0.5, "estimate_horizon": "late", "estimate_terminal": True},
    )
    for name in ("policy-network/linear0", "states-value"):
        agent.assign_variable(f"policy/{name}/weights", np.ones((1, 1), np.float32))
    for end, given, target in (
        (1, {}, 1 + 0.5 * 4),  # the value of the state that it acted in
        (2, {}, 1 + 0.5 * 4),
        (1, {"next_states": [3.0]}, 1 + 0.5 * 3),
        (2, {"next_states": [3.0]}, 1 + 0.5 * 3),
    ):
        agent.act([4.0])
        assert not agent.observe(1.0, end, **given)  # its frequency is "never"
        assert agent.update(query="loss") == pytest.approx(0.5 * (target - 4) ** 2)


def test_a_runner_trains_and_evaluates_an_agent_from_a_file(tmp_path: Path) -> None:
    network = {"type": "auto", "size": 8, "depth": 1}
    ppo = {"agent": "ppo", "batch_size": 2, "learning_rate": 0.002, "optimization_steps": 2, "network": network}
    critic = {"critic_network": network, "critic_optimizer": {"optimizer": "adam", "multi_step": 2}}
    (tmp_path / "learner.json").write_text(json.dumps({**ppo, **critic}))
    seen: list[int] = []
    cartpole = {"environment": "gym", "level": "CartPole-v1"}
    runner: Any = Runner(agent=str(tmp_path / "learner.json"), environment=cartpole, max_episode_timesteps=20)
    each: dict[str, Any] = {"callback": lambda runner, _: seen.append(runner.episodes), "use_tqdm": False}
    runner.run(num_episodes=11, callback_episode_frequency=5, **each)
    assert (seen, runner.updates, sum(runner.episode_timesteps)) == ([5, 10], 5, runner.timesteps)
    steps = runner.agent.timesteps
    assert (steps, runner.agent.episodes) == (runner.timesteps, 11)
    runner.run(num_episodes=3, evaluation=True, use_tqdm=False)
    assert (len(runner.evaluation_rewards), runner.agent.timesteps) == (3, steps)
    assert type(runner.agent.executor).__name__ == "LiteRTExecutor"  # beside the program
    runner.close()


@pytest.mark.usefixtures("unconverted")
def test_updates_are_as_large_as_episodes_and_the_weights_go_along() -> None:
    """With a limit of 2,000 batches have 125, 500 or 2,000 rows, with one of 400 they have 400."""
    agents = [make(max_episode_timesteps=limit) for limit in (2000, 400)]
    sizes: list[int] = []
    for length in (3, 200, 5):
        for agent in agents:
            for t in range(length):
                agent.act([0.1 * t])
                agent.observe(1.0, t == length - 1)
        sizes.append(agents[0].learning.memory.rows)
    assert sizes == [125, 500, 125]
    for name in agents[0].get_variables():
        np.testing.assert_allclose(agents[0].get_variable(name), agents[1].get_variable(name), atol=1e-6)


def test_threads_share_an_agent(tmp_path: Path) -> None:
    """Each of eight has a parallel index, and asks what only acts, too; nothing is learnt, so means are known."""
    agent = make(actions={"type": "float"}, learning_rate=0.0, parallel_interactions=8, batch_size=8, exploration=0.5)
    agent.save(directory=str(tmp_path))
    actor = Agent.load(str(tmp_path), format="pb-actonly")
    wanted = [float(agent.act([k / 8], evaluation=True)) for k in range(8)]
    wrong: list[Any] = []

    def work(k: int) -> None:
        try:
            for t in range(100):
                _, mean = agent.act([k / 8], parallel=k, query="action-distribution-mean")
                agent.observe(1.0, terminal=t % 5 == 4, parallel=k)
                found = [mean, agent.act([k / 8], evaluation=True), actor.act([k / 8])]
                if not np.allclose(found, wanted[k], atol=1e-5):
                    wrong.append((k, found))
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert (agent.timesteps, agent.episodes, agent.updates) == (800, 160, 20)
