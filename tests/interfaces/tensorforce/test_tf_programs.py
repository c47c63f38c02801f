# mypy: ignore-errors
# Programs of users have no types.
"""The five acceptance programs, as their users wrote them but for the import line."""

import pytest


@pytest.mark.usefixtures("unconverted")
def test_program_1_quickstart() -> None:
    """The loop is yours: quickstart."""
    from axonrl.interfaces.tensorforce import Agent, Environment

    env = Environment.create(environment="gym", level="CartPole", max_episode_timesteps=60)
    agent = Agent.create(
        agent="tensorforce",
        environment=env,
        memory=2000,
        update=dict(unit="timesteps", batch_size=16),
        optimizer=dict(type="adam", learning_rate=1e-3),
        policy=dict(network="auto"),
        objective="policy_gradient",
        reward_estimation=dict(horizon=8, discount=0.99),
        seed=3,
    )
    updated_at = []
    for _ in range(12):
        observation, done = env.reset(), False
        while not done:
            choice = agent.act(states=observation)
            observation, done, reward = env.execute(actions=choice)
            if agent.observe(terminal=done, reward=reward):
                updated_at.append(agent.timesteps)
    assert agent.episodes == 12 and updated_at == list(range(25, agent.timesteps + 1, 16)), updated_at
    agent.close(), env.close()


def test_program_2_runner_and_json() -> None:
    """Train and evaluate with a Runner, agent from a JSON file."""
    import json, pathlib, tempfile
    from axonrl.interfaces.tensorforce.execution import Runner

    spec = pathlib.Path(tempfile.mkdtemp()) / "learner.json"
    spec.write_text(
        json.dumps(
            {
                "agent": "ppo",
                "batch_size": 4,
                "learning_rate": 0.002,
                "optimization_steps": 5,
                "critic_network": {"type": "auto", "size": 32, "depth": 1},
                "critic_optimizer": {"optimizer": "adam", "multi_step": 5},
            }
        )
    )
    seen = []
    runner = Runner(
        agent=str(spec), environment=dict(environment="gym", level="CartPole-v1"), max_episode_timesteps=100
    )
    runner.run(
        num_episodes=12, callback=lambda r, p: seen.append(r.episodes), callback_episode_frequency=5, use_tqdm=False
    )
    assert seen == [5, 10] and runner.updates == 3 and sum(runner.episode_timesteps) == runner.timesteps
    steps = runner.agent.timesteps
    runner.run(num_episodes=3, evaluation=True, use_tqdm=False)
    assert len(runner.evaluation_rewards) == 3 and runner.agent.timesteps == steps
    assert type(runner.agent.executor).__name__ == "LiteRTExecutor"  # beside the program
    runner.close()


@pytest.mark.usefixtures("unconverted")
def test_program_3_own_world() -> None:
    """A world of one's own with an illegal move; save, load, act only."""
    import os, tempfile
    import numpy as np
    from axonrl.interfaces.tensorforce import Agent, Environment

    class Corridor(Environment):
        """Seven cells; left is illegal in the first. The goal is the last."""

        def states(self):
            return dict(type="int", shape=(), num_values=7)

        def actions(self):
            return dict(type="int", num_values=2)

        def _look(self):
            return dict(state=self.cell, action_mask=[self.cell > 0, True])

        def reset(self):
            self.cell = 0
            return self._look()

        def execute(self, actions):
            assert actions == 1 or self.cell > 0
            self.cell += 1 if actions == 1 else -1
            return self._look(), self.cell == 6, float(self.cell == 6)

    world = Environment.create(environment=Corridor, max_episode_timesteps=30)
    agent = Agent.create(
        agent="dqn", environment=world, memory=500, batch_size=8, update_frequency=2, exploration=0.5, seed=1
    )
    for _ in range(15):
        states, terminal = world.reset(), 0
        while terminal == 0:
            states, terminal, reward = world.execute(actions=agent.act(states=states))
            agent.observe(reward=reward, terminal=terminal)
    folder = tempfile.mkdtemp()
    assert agent.save(directory=folder) == os.path.join(folder, "agent")
    path = agent.save(directory=folder, filename="weights", format="numpy", append="episodes")
    assert os.path.basename(path) == "weights-15.npz"
    states = [dict(state=cell, action_mask=[cell > 0, True]) for cell in range(6)]
    wanted = [agent.act(states=s, evaluation=True) for s in states]
    for other in (
        Agent.load(directory=folder, environment=world),
        Agent.load(directory=folder, filename="weights", environment=world),
    ):
        assert (other.timesteps, other.episodes, other.updates) == (agent.timesteps, 15, agent.updates)
        assert all(
            np.array_equal(other.get_variable(v), agent.get_variable(v))
            for v in agent.get_variables()
            if v.startswith("policy/")
        )
        assert [other.act(states=s, evaluation=True) for s in states] == wanted
    actor = Agent.load(directory=folder, format="pb-actonly")
    assert [actor.act(states=s) for s in states] == wanted


def test_program_4_several_episodes() -> None:
    """Several episodes at once, one agent."""
    import numpy as np
    from axonrl.interfaces.tensorforce.agents import Agent

    agent = Agent.create(
        agent="vpg",
        states=dict(eye=dict(type="float", shape=(2,)), lamp=dict(type="bool", shape=(1,))),
        actions=dict(
            turn=dict(type="float", shape=(), min_value=-1.0, max_value=1.0), grip=dict(type="bool", shape=(2,))
        ),
        max_episode_timesteps=6,
        batch_size=3,
        parallel_interactions=3,
        seed=5,
    )
    rng, updates = np.random.default_rng(0), 0
    for _ in range(2):
        for t in range(6):
            views = [dict(eye=rng.normal(size=2), lamp=[t % 2 == 0]) for _ in range(3)]
            moves = agent.act(states=views, parallel=[0, 1, 2])
            assert len(moves) == 3 and all(-1 <= m["turn"] <= 1 and m["grip"].shape == (2,) for m in moves)
            updates += agent.observe(
                reward=[float(m["turn"]) for m in moves], terminal=[t == 5] * 3, parallel=[0, 1, 2]
            )
    assert updates == agent.updates == 2 and agent.episodes == 6 and agent.timesteps == 36


@pytest.mark.usefixtures("unconverted")
def test_program_5_record_and_pretrain() -> None:
    """Record a stranger, pretrain from it, then evaluate with internal states."""
    import os, tempfile
    from axonrl.interfaces.tensorforce import Agent, Environment, Runner

    folder = os.path.join(tempfile.mkdtemp(), "traces")
    env = Environment.create(environment="gym", level="CartPole-v1", max_episode_timesteps=40)
    guide = Runner(agent=dict(agent="random", recorder=dict(directory=folder, frequency=2)), environment=env)
    guide.run(num_episodes=6, use_tqdm=False)
    guide.close()
    assert len(os.listdir(folder)) == 3 and all(f.startswith("trace-") for f in os.listdir(folder))
    agent = Agent.create(
        agent="ppo", environment=env, batch_size=2, network=[dict(type="dense", size=16, activation="relu")]
    )
    agent.pretrain(directory=folder, num_iterations=3, num_traces=2, num_updates=2)
    assert (agent.updates, agent.timesteps, agent.episodes) == (6, 0, 0)
    agent.close()
    agent = Agent.create(
        agent="ppo", environment=env, batch_size=2, network=dict(type="auto", size=8, depth=1, internal_rnn=3)
    )
    states, internals, terminal = env.reset(), agent.initial_internals(), False
    while not terminal:
        actions, internals = agent.act(states=states, internals=internals, evaluation=True)
        states, terminal, _ = env.execute(actions=actions)
    assert len(internals) == 1 and agent.timesteps == 0
