# mypy: ignore-errors
# Programs of users have no types.
"""Programs as their users wrote them but for the import line."""

import pytest


def test_a_runner_trains_and_evaluates_an_agent_from_a_file() -> None:
    import json, pathlib, tempfile
    from axonrl.interfaces.tensorforce.execution import Runner

    spec = pathlib.Path(tempfile.mkdtemp()) / "learner.json"
    spec.write_text(
        json.dumps(
            {
                "agent": "ppo",
                "batch_size": 2,
                "learning_rate": 0.002,
                "optimization_steps": 2,
                "network": {"type": "auto", "size": 8, "depth": 1},
                "critic_network": {"type": "auto", "size": 8, "depth": 1},
                "critic_optimizer": {"optimizer": "adam", "multi_step": 2},
            }
        )
    )
    seen = []
    runner = Runner(agent=str(spec), environment=dict(environment="gym", level="CartPole-v1"), max_episode_timesteps=20)
    runner.run(
        num_episodes=11, callback=lambda r, p: seen.append(r.episodes), callback_episode_frequency=5, use_tqdm=False
    )
    assert seen == [5, 10] and runner.updates == 5 and sum(runner.episode_timesteps) == runner.timesteps
    steps = runner.agent.timesteps
    runner.run(num_episodes=3, evaluation=True, use_tqdm=False)
    assert len(runner.evaluation_rewards) == 3 and runner.agent.timesteps == steps
    assert type(runner.agent.executor).__name__ == "LiteRTExecutor"  # beside the program
    runner.close()


@pytest.mark.usefixtures("unconverted")
def test_a_world_of_ones_own_masks_moves_and_agents_are_loaded_to_act() -> None:
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
        agent="dqn",
        environment=world,
        network=dict(type="auto", size=8, depth=1),
        memory=500,
        batch_size=8,
        update_frequency=2,
        exploration=0.5,
        seed=1,
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
    other = Agent.load(directory=folder, filename="weights", environment=world)
    assert (other.timesteps, other.episodes, other.updates) == (agent.timesteps, 15, agent.updates)
    names = [name for name in agent.get_variables() if name.startswith("policy/")]
    assert all(np.array_equal(other.get_variable(name), agent.get_variable(name)) for name in names)
    assert [other.act(states=s, evaluation=True) for s in states] == wanted
    actor = Agent.load(directory=folder, format="pb-actonly")
    assert [actor.act(states=s) for s in states] == wanted
