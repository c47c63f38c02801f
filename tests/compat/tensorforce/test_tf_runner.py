"""The Runner of Tensorforce's interface: order of calls, exact limits, callbacks, evaluation, lanes, processes."""

import json
import math
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from axonrl.compat.tensorforce import run as command
from axonrl.compat.tensorforce.execution.bar import text
from axonrl.compat.tensorforce.execution.loop import Record
from axonrl.compat.tensorforce.execution.runner import Runner
from axonrl.compat.tensorforce.spaces.errors import TensorforceError

from .agents import Count, refused


class FakeAgent:
    """Records what it is asked, and refuses what an Agent would refuse; updates after each ``every`` observes."""

    def __init__(self, **arguments: Any) -> None:
        self.arguments = arguments
        self.every = 0
        self.calls: list[Any] = []
        self.pending: set[int] = set()
        self.timesteps = self.episodes = self.updates = self.observed = 0
        self.closed = 0
        self.saved: list[Any] = []

    @classmethod
    def create(cls, agent: Any, **arguments: Any) -> "FakeAgent":
        if isinstance(agent, FakeAgent):
            agent.arguments = arguments
            return agent
        return cls(**arguments)

    def reset(self) -> None:
        self.calls.append("reset")
        self.pending.clear()

    def initial_internals(self, parallel: int = 0) -> dict[str, Any]:
        return {"memory": 0}

    def act(self, states: Any, parallel: Any = 0, internals: Any = None, evaluation: bool = False) -> Any:
        if evaluation:
            self.calls.append(("evaluate", states, dict(internals)))
            return 1, {name: value + 1 for name, value in internals.items()}
        self.calls.append(("act", states, parallel))
        lanes = parallel if isinstance(parallel, list) else [parallel]
        assert not self.pending & set(lanes)
        self.pending |= set(lanes)
        self.timesteps += len(lanes)
        return [1] * len(lanes) if isinstance(parallel, list) else 1

    def observe(self, reward: Any, terminal: Any, parallel: Any = 0, next_states: Any = None) -> int:
        self.calls.append(("observe", terminal, parallel) if next_states is None else ("abort", next_states, parallel))
        lanes, terminals = (parallel, terminal) if isinstance(parallel, list) else ([parallel], [terminal])
        following = next_states if isinstance(next_states, list) else [next_states] * len(lanes)
        assert [one is not None for one in following] == [one == 2 for one in terminals]
        assert set(lanes) <= self.pending
        self.pending -= set(lanes)
        self.episodes += sum(one != 0 for one in terminals)
        before = self.observed
        self.observed += len(lanes)
        updates = self.observed // self.every - before // self.every if self.every else 0
        self.updates += updates
        return updates if isinstance(parallel, list) else bool(updates)

    def save(self, **arguments: Any) -> None:
        self.saved.append((self.observed, arguments))

    def close(self) -> None:
        self.closed += 1


@pytest.fixture(autouse=True)
def _only_fake_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("agent")
    module.Agent = FakeAgent  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "axonrl.compat.tensorforce.agents", module)


def made(*lengths: int, **arguments: Any) -> tuple[FakeAgent, Runner]:
    """A runner of environments that count so far, and its agent."""
    agent, environments = FakeAgent(), [Count(length) for length in lengths]
    where: dict[str, Any] = {"environments": environments} if len(lengths) > 1 else {"environment": environments[0]}
    return agent, Runner(agent=agent, **where, **arguments)


def test_one_environment_calls_in_order() -> None:
    agent, runner = made(2, max_episode_timesteps=9)
    assert agent.arguments["parallel_interactions"] == 1
    assert agent.arguments["max_episode_timesteps"] == 9
    assert agent.arguments["environment"] is runner.environments[0]
    runner.run(num_episodes=2)
    episode = [("act", 0, 0), ("observe", 0, 0), ("act", 1, 0), ("observe", 1, 0)]
    assert agent.calls == ["reset", *episode, *episode]
    assert (runner.timesteps, runner.episodes, runner.updates) == (4, 2, 0)
    assert (runner.episode_rewards, runner.episode_timesteps) == ([2.0, 2.0], [2, 2])
    assert (runner.episode_reward, runner.episode_timestep) == ([0.0], [0])
    assert (runner.num_episodes, runner.num_timesteps, runner.evaluation, runner.save_best_agent) == (
        *(2, math.inf, False, None),
    )
    assert runner.evaluation_rewards is runner.episode_rewards
    assert len(runner.episode_seconds) == len(runner.episode_env_seconds) == 2
    assert all(0 <= a < b for a, b in zip(runner.episode_agent_seconds, runner.episode_seconds, strict=True))


def test_timesteps_and_updates_are_exact_and_the_last_episode_counts() -> None:
    agent, runner = made(10)
    runner.run(num_timesteps=37)
    assert runner.timesteps == agent.timesteps == agent.observed == 37
    assert runner.episode_timesteps == [10, 10, 10, 7]
    assert runner.episodes == agent.episodes == 4
    assert agent.calls[-1] == ("abort", 7, 0)
    assert agent.calls.count("reset") == 1  # nothing is left to be dropped
    runner.run(num_timesteps=10)
    assert agent.calls[-1] == ("observe", 1, 0)
    agent.every = 4
    runner.run(num_updates=3)  # 47 timesteps were before: updates come at 48, 52 and 56
    assert (runner.updates, runner.timesteps, runner.episodes) == (3, 9, 0)
    assert agent.calls[-2:] == [("observe", 0, 0), "reset"]  # the episode is dropped


def test_callbacks_come_every_few_episodes_and_only_false_ends_the_run() -> None:
    seen: list[Any] = []

    def note(runner: Runner, parallel: int) -> None:
        seen.append((runner.episodes, parallel))

    runner = Runner(agent=FakeAgent(), environment=Count(2))
    runner.run(num_episodes=5, callback=[note, lambda _r, _p: None], callback_episode_frequency=2)
    assert seen == [(2, 0), (4, 0)]
    runner.run(callback=[lambda r, _: r.episodes < 3, note])
    assert runner.episodes == 3
    assert seen[2:] == [(1, 0), (2, 0), (3, 0)]


def test_timestep_callbacks_count_within_episodes_also_in_evaluation() -> None:
    for evaluation in (False, True):
        seen: list[Any] = []
        runner = Runner(agent=FakeAgent(), environment=Count(5), evaluation=evaluation)

        def note(runner: Runner, parallel: int, seen: list[Any] = seen) -> None:
            seen.append((runner.episode_timestep[parallel], runner.episode_reward[parallel], runner.episodes))

        runner.run(num_episodes=2, callback=note, callback_timestep_frequency=2)
        assert seen == [(2, 2.0, 0), (4, 4.0, 0), (2, 2.0, 1), (4, 4.0, 1)]
        runner.run(callback=lambda _r, _p: False, callback_timestep_frequency=3)
        assert (runner.timesteps, runner.episodes) == (3, 0)


def test_evaluation_leaves_the_agent_alone_and_carries_internals() -> None:
    agent, runner = made(2)
    runner.run(num_episodes=2, evaluation=True)
    episode = [("evaluate", 0, {"memory": 0}), ("evaluate", 1, {"memory": 1})]
    assert agent.calls == ["reset", *episode, *episode]
    assert (agent.timesteps, agent.episodes) == (0, 0)
    assert (runner.timesteps, runner.episodes) == (4, 2)
    assert runner.evaluation_rewards == [2.0, 2.0]
    seen: list[Any] = []
    runner.run(num_timesteps=3, evaluation=True, evaluation_callback=lambda r: seen.append(list(r.evaluation_rewards)))
    assert runner.evaluation_timesteps == [2, 1]
    assert seen == [[2.0], [2.0, 1.0]]


def test_several_environments_have_a_parallel_index_each() -> None:
    agent, runner = made(2, 3)
    assert agent.arguments["parallel_interactions"] == 2
    runner.run(num_episodes=2)
    assert agent.calls[:5] == ["reset", ("act", 0, 0), ("act", 0, 1), ("observe", 0, 0), ("act", 1, 0)]
    assert runner.episode_timesteps == [2, 3]
    assert agent.calls[-1] == "reset"  # the second episode of the first lane had begun
    assert runner.timesteps == agent.timesteps


def test_batched_calls_take_all_lanes_at_once() -> None:
    agent, runner = made(2, 3, max_episode_timesteps=2)
    runner.run(num_episodes=2, batch_agent_calls=True)
    assert agent.calls == [
        "reset",
        ("act", [0, 0], [0, 1]),
        ("observe", [0, 0], [0, 1]),
        ("act", [1, 1], [0, 1]),
        ("abort", [None, 2], [0, 1]),
    ]
    runner.run(num_episodes=1, batch_agent_calls=True)
    assert agent.calls[-2:] == [("observe", 1, 0), "reset"]  # the second lane's end is not observed any more
    assert runner.episodes == 1


@pytest.mark.parametrize(("batch", "lengths", "timesteps"), [(False, (3, 4, 9), 7), (True, (3, 4, 9), 37)])
def test_timesteps_are_exact_with_several_lanes(batch: bool, lengths: tuple[int, ...], timesteps: int) -> None:
    agent, runner = made(*lengths)
    runner.run(num_timesteps=timesteps, batch_agent_calls=batch)
    assert runner.timesteps == agent.timesteps == agent.observed == timesteps
    assert sum(runner.episode_timesteps) == timesteps
    assert runner.episodes == agent.episodes
    assert agent.pending == set()
    assert agent.calls.count("reset") == 1


def test_synchronised_episodes_begin_together() -> None:
    _, runner = made(1, 3)
    runner.run(num_episodes=4, sync_episodes=True)
    assert runner.episode_timesteps == [1, 3, 1, 3]
    runner.run(num_episodes=4)
    assert runner.episode_timesteps == [1, 1, 1, 3]


def test_the_last_environment_evaluates_beside_the_others() -> None:
    agent, runner = made(3, 2, evaluation=True)
    assert agent.arguments["parallel_interactions"] == 1
    seen: list[int] = []
    runner.run(num_episodes=2, callback=lambda _, parallel: seen.append(parallel))
    assert agent.calls[:4] == ["reset", ("act", 0, 0), ("evaluate", 0, {"memory": 0}), ("observe", 0, 0)]
    assert (runner.episode_rewards, runner.evaluation_rewards[:2]) == ([3.0, 3.0], [2.0, 2.0])
    assert (runner.timesteps, agent.timesteps, seen) == (6, 6, [0, 0])
    for batch in (False, True):  # an evaluation that runs at the end of the run comes to its own end
        _, slow = made(1, 4, evaluation=True)
        slow.run(num_episodes=2, batch_agent_calls=batch)
        assert (slow.episodes, slow.evaluation_rewards) == (2, [4.0])
    runner.run(num_episodes=2, sync_episodes=True, batch_agent_calls=True)
    assert (runner.episode_rewards, runner.evaluation_rewards) == ([3.0, 3.0], [2.0, 2.0])


def test_the_best_agent_is_saved_the_first_included(tmp_path: Path) -> None:
    agent = FakeAgent()
    lengths = [2, 1, 3, 3]
    inside = Count(2)
    runner = Runner(agent=agent, environment=inside)

    def next_length(runner: Runner, parallel: int) -> None:
        inside.length = lengths[runner.episodes % 4]

    runner.run(num_episodes=4, callback=next_length, save_best_agent=str(tmp_path))
    arguments = {"directory": str(tmp_path), "filename": "best-model", "append": None}
    assert agent.saved == [(2, arguments), (6, arguments)]
    agent.saved.clear()
    lengths[:] = [2, 1, 2, 3]
    runner.run(num_episodes=4, callback=next_length, save_best_agent=str(tmp_path), mean_horizon=2)
    assert [observed - 9 for observed, _ in agent.saved] == [2, 8]  # means are 2, 1.5, 1.5, 2.5
    agent.saved.clear()
    scores = iter([1.0, 5.0, 3.0])
    runner.run(num_episodes=3, save_best_agent=str(tmp_path), evaluation_callback=lambda _: next(scores))
    assert len(agent.saved) == 2
    refused(runner.run, num_episodes=1, save_best_agent=str(tmp_path), evaluation_callback=lambda _: "good")
    agent.saved.clear()
    lengths[:] = [2, 1, 3, 1]
    given: dict[str, Any] = dict(save_best_agent=str(tmp_path), callback=next_length)
    runner.run(num_episodes=4, evaluation_callback=lambda r: None, **given)
    assert len(agent.saved) == 2  # None, as a callback that only prints returns: the mean decides


def test_without_a_limit_of_the_environments_the_agents_own_holds() -> None:
    with Runner(agent="fake", environment=Count) as runner:
        assert set(runner.agent.arguments) == {"environment", "parallel_interactions"}


def test_specifications_are_closed_and_objects_are_left_open() -> None:
    agent, inside = FakeAgent(), Count()
    with Runner(agent=agent, environment=inside):
        pass
    assert (agent.closed, inside.closed) == (0, 0)
    runner = Runner(agent="fake", environment=Count, num_parallel=2, max_episode_timesteps=4)
    assert len(runner.environments) == 2
    runner.close()
    runner.close()
    assert runner.agent.closed == 1
    assert [env.closed for env in runner.environments] == [1, 1]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        ({"environment": Count(), "num_parallel": 2}, "Runner: num_parallel"),
        ({"environment": Count, "environments": [Count]}, "Runner: environments"),
        ({"environments": [Count, "CartPole-v1"]}, "Runner: environments[1]"),
    ],
)
def test_invalid_runners_are_refused(arguments: dict[str, Any], argument: str) -> None:
    assert refused(Runner, agent=FakeAgent(), **arguments).argument == argument


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        ({"num_episodes": 0}, "num_episodes"),
        ({"num_updates": 3, "evaluation": True}, "num_updates"),
        ({"callback_episode_frequency": 1, "callback_timestep_frequency": 1}, "callback_timestep_frequency"),
    ],
)
def test_invalid_runs_are_refused_before_anything_happens(arguments: dict[str, Any], argument: str) -> None:
    agent, runner = made(3)
    assert refused(runner.run, **arguments).argument == f"Runner.run: {argument}"
    assert agent.calls == []


def test_failed_creation_closes_what_was_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Count] = []

    class Noted(Count):
        def __init__(self) -> None:
            super().__init__()
            opened.append(self)

    def fail(agent: Any, **arguments: Any) -> Any:
        raise TensorforceError("no", "agent", agent)

    monkeypatch.setattr(FakeAgent, "create", fail)
    refused(Runner, agent="fake", environment=Noted)
    assert [env.closed for env in opened] == [1]


@pytest.mark.parametrize("blocking", [False, True])
def test_environments_in_processes(blocking: bool) -> None:
    agent = FakeAgent()
    with Runner(
        agent=agent,
        environment="CartPole-v1",
        num_parallel=2,
        max_episode_timesteps=5,
        remote="multiprocessing",
        blocking=blocking,
    ) as runner:
        runner.run(num_timesteps=23)
        assert runner.timesteps == agent.timesteps == sum(runner.episode_timesteps) == 23
        runner.run(num_episodes=1)  # leaves the other one busy
        runner.run(num_episodes=2, batch_agent_calls=True)
        assert runner.episode_timesteps == [5, 5]
        runner.run(num_episodes=2, sync_timesteps=True, sync_episodes=True, evaluation=True)
        assert runner.episode_timesteps == [5, 5]


def test_the_bar_shows_means_over_the_last_episodes() -> None:
    record = Record()
    record.episodes, record.timesteps = 2, 1500
    record.episode_rewards, record.episode_timesteps = [1.0, 4.0, 5.0], [10, 20, 30]
    record.episode_seconds, record.episode_agent_seconds = [1.0, 2.0, 2.0], [1.0, 0.5, 0.5]
    shown = text(record, "timesteps", {"timesteps": 3000}, 2)
    assert shown == "1,500/3,000 timesteps | return 4.5 | 25 timesteps an episode | agent 25%"
    assert text(Record(), "episodes", {"episodes": math.inf}, 1) == "0 episodes"


def test_the_command_runs_and_writes_what_happened(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "deep" / "results"
    given = ["-a", "fake", "-n", "auto", "-l", "CartPole-v1", "-m", "4", "-p", "3", "-r", "2", "--path", str(path)]
    assert command.main(given) == 0
    results = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    assert results["timesteps"] == [[4, 4, 4]] * 2
    assert command.main([*given[:6], "-m", "2", "-p", "1", "--remote", "multiprocessing", "--blocking"]) == 0
    for wrong, message in (
        (["--remote", "socket-client"], "use 'multiprocessing'"),
        (["-e", f"{Count.__module__}.Count", "--visualize"], "unexpected keyword argument 'visualize'"),
        (["-e", f"{Count.__module__}.Count", "--visualize-directory", "x"], "argument 'visualize_directory'"),
    ):
        assert command.main(["-a", "fake", *wrong]) == 2
        assert message in capsys.readouterr().err
    assert command.main(["-a", "fake", "-l", "CartPool-v1"]) == 2
    assert command.main([*given, "-r", "0"]) == 2
    (tmp_path / "file").touch()
    assert command.main([*given, "--path", str(tmp_path / "file" / "results")]) == 2
    assert "CartPole-v1" in capsys.readouterr().err
