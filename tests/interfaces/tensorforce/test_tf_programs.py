# mypy: ignore-errors
# Programs of users have no types.
"""Programs as their users wrote them but for the import line."""


def test_a_runner_trains_and_evaluates_an_agent_from_a_file() -> None:
    import json, pathlib, tempfile
    from axonrl.interfaces.tensorforce.execution import Runner

    spec = pathlib.Path(tempfile.mkdtemp()) / "learner.json"
    network = {"type": "auto", "size": 8, "depth": 1}
    ppo = {"agent": "ppo", "batch_size": 2, "learning_rate": 0.002, "optimization_steps": 2, "network": network}
    critic = {"critic_network": network, "critic_optimizer": {"optimizer": "adam", "multi_step": 2}}
    spec.write_text(json.dumps({**ppo, **critic}))
    seen = []
    runner = Runner(agent=str(spec), environment=dict(environment="gym", level="CartPole-v1"), max_episode_timesteps=20)
    runner.run(
        num_episodes=11, callback=lambda r, p: seen.append(r.episodes), callback_episode_frequency=5, use_tqdm=False
    )
    assert seen == [5, 10] and runner.updates == 5 and sum(runner.episode_timesteps) == runner.timesteps
    steps = runner.agent.timesteps
    assert (steps, runner.agent.episodes) == (runner.timesteps, 11)
    runner.run(num_episodes=3, evaluation=True, use_tqdm=False)
    assert len(runner.evaluation_rewards) == 3 and runner.agent.timesteps == steps
    assert type(runner.agent.executor).__name__ == "LiteRTExecutor"  # beside the program
    runner.close()
