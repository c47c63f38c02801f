"""Training by unrolls, with every role in this process."""

import functools
import itertools
import json
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest

from axonrl import Agent, RunConfig, prepare
from axonrl.distributed import Cluster, driver
from axonrl.distributed.actor import Collector
from axonrl.distributed.environment_recipes import EnvironmentRecipe
from axonrl.distributed.events import Collected, Emptied
from axonrl.distributed.inline import Inline
from axonrl.distributed.measurements import Measures
from axonrl.distributed.planner import FAILED, READY
from axonrl.environments import make
from axonrl.environments.statistics import learnt, merge
from axonrl.errors import ArgumentError, BrokenEnvironmentError, ClusterError
from axonrl.estimators.traced import TracedModel
from axonrl.experiments.config.schema import load
from axonrl.experiments.running.runner import run
from axonrl.hooks import Hook
from axonrl.hooks.events import EpisodeStats
from axonrl.memories import BatchMemory, ReplayMemory, SequenceMemory
from axonrl.models import ddpg, dqn, ppo
from axonrl.run_dir import programs
from axonrl.run_dir.checkpoints import CheckpointStore
from axonrl.tests.estimators.fakes import At, saved
from axonrl.tests.raising import raised

from . import agents
from .agents import SMALL, rollouts
from .for_actors import broken

pytestmark = pytest.mark.usefixtures("traced_once")

INLINE: dict[str, Any] = {"backend": "inline", "actors": 2, "envs_per_actor": 2, "unroll": 10}
replay = functools.partial(agents.replay, size=200)


class Heard(Hook):
    def __init__(self) -> None:
        self.episodes: list[EpisodeStats] = []
        self.timesteps = 0
        self.levels: set[Any] = set()

    def after_timestep(self, session: Any, facts: Any) -> None:
        self.levels.add(session.exploration)
        self.timesteps += facts.reward.size

    def after_episode(self, session: Any, facts: EpisodeStats) -> None:
        self.episodes.append(facts)


def test_a_compiled_program_learns_from_actors_without_tensorflow_alike(tmp_path: Path) -> None:
    cluster = Cluster(**INLINE, lockstep=True)
    traced = rollouts(tmp_path / "traced").train("CartPole-v1", cluster=cluster, max_timesteps=200)
    rollouts(tmp_path / "compiling").compile(tmp_path / "program", make("CartPole-v1", 4))
    config = RunConfig(seed=1, progress=False)
    compiled = Agent(None, BatchMemory(40), tmp_path / "compiled", config, compiled=tmp_path / "program")
    compiled.train("CartPole-v1", cluster=cluster, max_timesteps=200)
    assert compiled.global_step == traced.global_step == 5
    observation = np.zeros((1, 4), np.float32)
    expected, found = traced.predict(observation), compiled.predict(observation)
    assert all(np.array_equal(expected[name], found[name]) for name in expected)


@pytest.mark.parametrize("make_agent", [rollouts, replay])
def test_a_program_of_the_cache_does_so_too(make_agent: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that is learned from in shards; the run records their memory, so that it is found for evaluations."""
    monkeypatch.setenv(programs.VARIABLE, str(tmp_path / "cache"))
    cluster, weights = Cluster(**INLINE, lockstep=True), []
    for folder in ("traced", "cached"):
        agent = make_agent(tmp_path / folder)
        agent.train("CartPole-v1", 60, 8, cluster=cluster, max_timesteps=200)
        assert agent.global_step > 4
        weights.append(agent.get_weights())
        monkeypatch.setattr(TracedModel, "__init__", None)
    assert all(np.array_equal(value, weights[1][name]) for name, value in weights[0].items())
    assert Agent.load(tmp_path / "cached").evaluate("CartPole-v1", 1)["episodes"] == 1


@pytest.mark.parametrize(
    ("model", "memory", "train"),
    [
        ("impala", "{kind: batch, size: 40}", "{max_timesteps: 80}"),
        (
            "dqn",
            "{kind: replay, size: 80, batch_size: 8}",
            "{first_update: 40, update_frequency: 8, max_timesteps: 80}",
        ),
    ],
)
def test_the_program_of_an_experiment_fits_its_cluster(
    model: str, memory: str, train: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compiled for the lanes of the learner, not for the one environment of the file."""
    monkeypatch.setenv(programs.VARIABLE, str(tmp_path / "cache"))
    file = tmp_path / "experiment.yml"
    cluster = "{backend: inline, actors: 2, envs_per_actor: 2, unroll: 10}"
    agent = f"{{model_fn: {model}, params: {{hidden: [8]}}, memory: {memory}}}"
    file.write_text(
        f"name: pole\nenvironment: {{id: CartPole-v1}}\nagent: {agent}\ndistributed: {cluster}\ntrain: {train}\n"
    )
    prepare(file)
    monkeypatch.setattr(TracedModel, "__init__", None)
    result = run(*load(file), tmp_path / "run")
    assert (result.timesteps, result.updates > 0) == (80, True)


def test_impala_counts_and_tells_what_actors_did(tmp_path: Path) -> None:
    heard = Heard()
    agent = rollouts(tmp_path)
    agent.train("CartPole-v1", cluster=Cluster(**INLINE), max_timesteps=400, hooks=heard)
    assert (agent.global_timestep, agent.global_step) == (400, 10)  # one update for each 40
    assert agent.global_episode == len(heard.episodes) > 5
    assert heard.timesteps == 400
    assert {one.environment for one in heard.episodes} == {0, 1, 2, 3}
    assert all(one.episode_return == one.length and one.terminated for one in heard.episodes)
    assert all(np.isfinite(one.loss) for one in heard.episodes[-3:])
    assert agent.evaluate("CartPole-v1", 2)["episodes"] == 2
    agent.train(make("CartPole-v1", 4), timesteps=40)  # an ordinary agent, in as many environments
    assert agent.global_step == 11


def test_ape_x_updates_as_often_as_in_one_process(tmp_path: Path) -> None:
    heard, agent = Heard(), replay(tmp_path)
    cluster = Cluster(**INLINE, replay_shards=2)
    agent.train("CartPole-v1", 60, 8, cluster=cluster, max_timesteps=400, hooks=heard)
    assert (agent.global_timestep, agent.global_step) == (400, 1 + (400 - 60) // 8)
    [level] = heard.levels
    assert level == pytest.approx((0.4 + 0.04716 + 0.005559 + 0.0006554) / 4, rel=1e-3)


@pytest.mark.parametrize("anew", [False, True])  # an Agent of its own for each, as after a crash
@pytest.mark.parametrize(("make_agent", "lanes"), [(agents.replay, (1, 4, 6, 2)), (rollouts, (1, 4, 4, 2))])
def test_a_run_goes_from_one_process_to_clusters_and_back(
    make_agent: Any, lanes: tuple[int, ...], anew: bool, tmp_path: Path
) -> None:
    """In 1 environment, by 2 actors with 2 shards, by 3 with one, in 2 environments; nothing that is stored is lost."""
    replays, agent = make_agent is agents.replay, make_agent(tmp_path)
    two, three = (Cluster(**{**INLINE, "actors": actors}, replay_shards=4 - actors) for actors in (2, 3))
    seen = []
    for env, where, end in (
        (make("CartPole-v1"), {}, 50),  # 10 timesteps of a partial rollout are dropped
        ("CartPole-v1", {"cluster": two}, 90),
        ("CartPole-v1", {"cluster": three}, 170),
        (make("CartPole-v1", 2), {}, 190),
    ):
        agent = make_agent(tmp_path) if anew else agent
        agent.train(env, 50, 8, **where, max_timesteps=end)
        seen.append(json.loads((tmp_path / "run.json").read_text()))
    assert tuple(one["num_envs"] for one in seen) == lanes
    assert agent.global_timestep == 190
    assert agent.global_step == (1 + (190 - 50) // 8 if replays else 1 + 1 + 2)
    told = [one["not_exact"][len(before["not_exact"]) :] for before, one in itertools.pairwise(seen)]
    assert "had 1 environments until timestep 50, and continues in 4" in told[0][0]
    assert ("; 10 timesteps of a partial rollout are dropped" in told[0][0]) != replays
    assert "actors (2 -> 3)" in told[1][-1]
    assert f"had {lanes[2]} environments until timestep 170, and continues in 2" in told[2][0]
    assert len(agent.memory) == (190 if replays else 20)


def test_what_does_not_fill_a_rollout_is_not_waited_for(tmp_path: Path) -> None:
    agent = rollouts(tmp_path)
    agent.train("CartPole-v1", cluster=Cluster(**INLINE, stall_timeout_s=2), max_timesteps=50)
    assert (agent.global_timestep, agent.global_step) == (80, 2)


def check_same_weights(one: Any, other: Any) -> None:
    for name, value in one.get_weights().items():
        np.testing.assert_array_equal(value, other.get_weights()[name])


@pytest.mark.parametrize("make_agent", [rollouts, replay])
def test_updates_that_a_killed_run_owed_come_first(make_agent: Any, tmp_path: Path) -> None:
    """It is killed at the checkpoint of an evaluation, where a rollout is full, or updates are due."""
    cluster = Cluster(**INLINE, lockstep=True)

    def evaluates() -> Any:
        return At("after_timestep", 120, lambda session: session.evaluate(episodes=1))

    class Killed(Hook):
        def after_update(self, session: Any, facts: Any) -> None:
            if session.global_timestep == 120:
                raise KeyError("killed")

    whole, parts = make_agent(tmp_path / "whole"), make_agent(tmp_path / "parts")
    whole.train("CartPole-v1", 60, 8, cluster=cluster, max_timesteps=200, hooks=evaluates())
    with pytest.raises(KeyError):
        parts.train("CartPole-v1", 60, 8, cluster=cluster, max_timesteps=200, hooks=[evaluates(), Killed()])
    assert saved(tmp_path / "parts")[-1][:2] == (120, 2 if make_agent is rollouts else 6)
    parts = make_agent(tmp_path / "parts").train("CartPole-v1", 60, 8, cluster=cluster, max_timesteps=200)
    assert parts.global_step == whole.global_step
    check_same_weights(parts, whole)


def test_a_checkpoint_among_updates_that_were_owed_renews_no_actor(tmp_path: Path) -> None:
    """Of the updates for 20 timesteps, two are evaluated; the run is killed in between."""
    cluster = Cluster(**INLINE, lockstep=True)

    class Evaluates(Hook):
        def after_update(self, session: Any, facts: Any) -> None:
            if session.global_step in (65, 68):
                session.evaluate(episodes=1)

    class Killed(Hook):
        def after_update(self, session: Any, facts: Any) -> None:
            if session.global_step == 67:
                raise KeyError("killed")

    whole, parts = replay(tmp_path / "whole"), replay(tmp_path / "parts")
    whole.train("CartPole-v1", 60, 1, cluster=cluster, max_timesteps=160, hooks=Evaluates())
    with pytest.raises(KeyError):
        parts.train("CartPole-v1", 60, 1, cluster=cluster, max_timesteps=160, hooks=[Evaluates(), Killed()])
    parts = replay(tmp_path / "parts")
    parts.train("CartPole-v1", 60, 1, cluster=cluster, max_timesteps=160, hooks=Evaluates())
    assert parts.global_step == whole.global_step == 101
    check_same_weights(parts, whole)


@pytest.mark.parametrize("wrappers", [(), ("normalize_observation",)])
@pytest.mark.parametrize(("make_agent", "every"), [(rollouts, 8), (replay, 8), (replay, 70)])
def test_in_lockstep_a_run_that_is_resumed_ends_the_same(
    make_agent: Any, every: int, wrappers: tuple[str, ...], tmp_path: Path
) -> None:
    """Also from a round without an update, since which the actors' statistics have grown."""
    cluster, env = Cluster(**INLINE, lockstep=True), EnvironmentRecipe("CartPole-v1", wrappers=wrappers)
    saves = At("after_timestep", 120, lambda session: session.save_checkpoint())
    whole = make_agent(tmp_path / "whole")
    whole.train(env, 60, every, cluster=cluster, max_timesteps=280, hooks=saves)
    make_agent(tmp_path / "parts").train(env, 60, every, cluster=cluster, max_timesteps=120)
    parts = make_agent(tmp_path / "parts").train(env, 60, every, cluster=cluster, max_timesteps=280)
    assert parts.global_step == whole.global_step > 3
    check_same_weights(parts, whole)


def test_in_lockstep_an_actor_may_come_back_as_all_are_renewed(
    tmp_path: Path, seen: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Actor 1 raises in the fourth round; actor 0's unroll is learned from, and a checkpoint ends the round."""
    collect = Collector.collect

    def failing(self: Collector, request: Any) -> Any:
        if request.id == (1, 0, 3):
            raise BrokenEnvironmentError("broken once", 0)
        return collect(self, request)

    monkeypatch.setattr(Collector, "collect", failing)
    cluster = Cluster(**INLINE, lockstep=True, restart_delay_s=1e-9, stall_timeout_s=2)
    saves = At("after_timestep", 140, lambda session: session.save_checkpoint())
    agent = rollouts(tmp_path, size=20)
    agent.train("CartPole-v1", cluster=cluster, max_timesteps=200, hooks=saves)
    assert agent.global_timestep == 200
    assert [actor.incarnation for actor in seen[0].actors] == [1, 2]


def test_in_lockstep_a_shard_that_is_lost_in_a_round_is_known_to_be_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of actor 0, after it has stored the tenth unroll and before that of actor 1 has come."""
    wait = Inline.wait

    def losing(self: Any, timeout: float) -> Any:
        events = wait(self, timeout)
        if [one.head.id for one in events if isinstance(one, Collected)] == [(0, 0, 9)]:
            self._shards[0]._memory.clear()
            return [*events, Emptied(0, "killed")]
        return events

    monkeypatch.setattr(Inline, "wait", losing)
    agent = replay(tmp_path)
    cluster = Cluster(**INLINE, replay_shards=2, lockstep=True)
    agent.train("CartPole-v1", 60, 8, cluster=cluster, max_timesteps=600)
    assert (agent.global_timestep, agent.global_step) == (600, 1 + (600 - 60) // 8)


def test_a_schedule_over_the_run_is_followed_by_every_actor(tmp_path: Path) -> None:
    """Sigma falls from 1 to 0 within 5 rounds of 40 timesteps, in each of which 4 episodes of 10 end."""
    levels: list[float] = []
    env: Any = EnvironmentRecipe("Pendulum-v1", {"max_episode_steps": 10})
    params = {"hidden": (4,), "sigma": {"kind": "linear", "start": 1, "stop": 0, "over": "run"}}

    def note(session: Any, episode: EpisodeStats) -> None:
        levels.append(episode.exploration)

    agent = Agent(ddpg.model_fn, ReplayMemory(200, 8), tmp_path, agents.CONFIG, params)
    agent.train(env, 200, 1, cluster=Cluster(**INLINE, lockstep=True), max_timesteps=200, hooks=note)
    np.testing.assert_allclose(levels, np.repeat([1.0, 0.8, 0.6, 0.4, 0.2], 4), rtol=1e-6)


def test_the_state_of_an_exploration_belongs_to_its_actor(tmp_path: Path) -> None:
    """Each of four actors draws the final epsilon of its own environment."""
    heard = Heard()
    params = {**SMALL, "exploration": "random_decay", "epsilon": 0.0}
    agent = Agent(dqn.model_fn, ReplayMemory(200, 8), tmp_path, agents.CONFIG, params)
    cluster = Cluster(**{**INLINE, "actors": 4, "envs_per_actor": 1}, lockstep=True)
    agent.train("CartPole-v1", 400, 1, cluster=cluster, max_timesteps=400, hooks=heard)
    drawn = {one.environment: one.exploration for one in heard.episodes}
    assert sorted(drawn) == [0, 1, 2, 3]
    assert len(set(drawn.values())) > 1


def test_contents_of_shards_that_could_not_be_fetched_are_not_saved_as_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second Ctrl-C ends the shards at once; a first one waits until they have answered."""
    close, store = Inline.close, CheckpointStore(tmp_path)

    def twice(self: Any, *, saves: bool) -> None:
        assert saves
        self.shards._shards = []
        raise KeyboardInterrupt

    def once(self: Any, *, saves: bool) -> None:
        signal.raise_signal(signal.SIGINT)
        close(self, saves=saves)

    cluster = Cluster(**INLINE, lockstep=True)
    for ends, newest in ((twice, 1), (once, 2)):
        monkeypatch.setattr(Inline, "close", ends)
        with pytest.raises(KeyboardInterrupt):
            replay(tmp_path).train("CartPole-v1", 60, 8, cluster=cluster, max_timesteps=200)
        assert store.newest() == newest
    memory: Any = replay(tmp_path).train("CartPole-v1", 60, 8, max_timesteps=200).memory
    assert len(memory) == 200


def test_unrolls_with_a_recurrent_state(tmp_path: Path) -> None:
    agent = rollouts(tmp_path, lstm=4, shared=True)
    agent.train("CartPole-v1", cluster=Cluster(**INLINE), max_timesteps=80)
    assert agent.global_step == 2


def test_an_environment_that_always_raises_ends_the_run_with_its_error(tmp_path: Path) -> None:
    always_raises: Any = broken
    with pytest.raises(ClusterError, match="the simulator is gone"):
        rollouts(tmp_path).train(always_raises, cluster=Cluster(**INLINE, restart_delay_s=0.01), max_timesteps=80)


def test_actors_of_this_process_are_not_replaced_however_long_the_others_take(
    tmp_path: Path, seen: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look at the clock is a minute after the previous one."""
    ticks = itertools.count(0.0, 60.0)
    clock = SimpleNamespace(monotonic=lambda: next(ticks), perf_counter=time.perf_counter)
    monkeypatch.setattr(driver, "time", clock)
    cluster = Cluster(**INLINE, lockstep=True, stall_timeout_s=1e9)
    agent = rollouts(tmp_path).train("CartPole-v1", cluster=cluster, max_timesteps=200)
    assert agent.global_step == 5
    assert (seen[0].counts["restarts"], seen[0].incarnations()) == (0, [0, 0])


def test_an_evaluation_is_no_stall(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes 400 s, before the first update, where 300 s without progress end a run."""
    now = [0.0]
    clock = SimpleNamespace(monotonic=lambda: now[0], perf_counter=lambda: now[0])
    monkeypatch.setattr(driver, "time", clock)
    slow = At("after_timestep", 60, lambda session: now.append(now.pop() + 400.0))
    agent = replay(tmp_path)
    agent.train("CartPole-v1", 200, 8, cluster=Cluster(**INLINE), max_timesteps=100, hooks=slow)
    assert (agent.global_timestep, now) == (100, [400.0])


def test_what_is_too_old_is_dropped_and_others_are_learned_from(
    tmp_path: Path, seen: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Actor 1 keeps the weights it began with; a lag of 2 is not too much."""
    renew, used, lags = Collector.set_weights, Measures.used, []

    def noted(self: Measures, head: Any, lag: int) -> None:
        lags.append(lag)
        used(self, head, lag)

    def lazy(self: Collector, *args: Any) -> None:
        if self._made.actor == 0:
            renew(self, *args)

    monkeypatch.setattr(Collector, "set_weights", lazy)
    monkeypatch.setattr(Measures, "used", noted)
    agent = rollouts(tmp_path)
    agent.train("CartPole-v1", cluster=Cluster(**INLINE, max_lag=2), max_timesteps=800)
    assert (agent.global_timestep, agent.global_step) == (800, 20)
    counts = seen[0].counts
    assert counts["stale"] >= 10
    assert max(lags) == 2
    assert 0 <= counts["accepted"] - counts["stale"] - 40 <= 2


class Fragile(gymnasium.Wrapper[Any, Any, Any, Any]):
    steps = 0

    def step(self, action: Any) -> Any:
        Fragile.steps += 1
        if Fragile.steps % 97 == 0:
            raise OSError("the simulator is gone")
        return super().step(action)


def fragile() -> Any:
    return Fragile(gymnasium.make("CartPole-v1"))


def test_an_environment_that_raises_now_and_then_is_made_anew(tmp_path: Path, seen: list[Any]) -> None:
    fragile_factory: Any = fragile
    agent = rollouts(tmp_path)
    agent.train(fragile_factory, cluster=Cluster(**INLINE, restart_delay_s=0.001), max_timesteps=2000)
    assert (agent.global_timestep, agent.global_step) == (2000, 50)
    assert seen[0].counts["restarts"] >= 15


class Resize(Hook):
    """At the updates that are named, the cluster gets another number of actors."""

    def __init__(self, cluster: Cluster, sizes: dict[int, int]) -> None:
        self._cluster, self._sizes = cluster, sizes
        self.environments: dict[int, set[int]] = {}
        self._now = 0

    def after_update(self, session: Any, facts: Any) -> None:
        if (size := self._sizes.get(session.global_step)) is not None:
            self._now = session.global_step
            self._cluster.resize(size)

    def after_episode(self, session: Any, facts: EpisodeStats) -> None:
        self.environments.setdefault(self._now, set()).add(facts.environment // 2)


def test_a_cluster_grows_and_shrinks_while_it_trains(tmp_path: Path) -> None:
    cluster = Cluster(**INLINE)
    resize = Resize(cluster, {20: 4, 60: 1, 90: 3})
    agent = rollouts(tmp_path)
    agent.train("CartPole-v1", cluster=cluster, max_timesteps=5200, hooks=resize)
    assert agent.global_timestep == 5200
    assert resize.environments[0] == {0, 1}
    assert resize.environments[20] == {0, 1, 2, 3}
    assert resize.environments[90] >= {0, 1, 2}
    state: Any = agent._trainer.run.load()
    assert state[1]["cluster"]["incarnations"].tolist() == [0, 1, 1, 0]
    with pytest.raises(ClusterError, match="not training"):
        cluster.resize(2)


@pytest.mark.parametrize(
    ("settings", "size", "argument"),
    [({"max_lag": 2}, 9, "Cluster.max_lag"), ({"min_actors": 2}, 1, "actors")],
)
def test_sizes_that_cannot_be(settings: Any, size: int, argument: str, tmp_path: Path) -> None:
    cluster = Cluster(**INLINE, **settings)
    with pytest.raises(ArgumentError) as caught:
        rollouts(tmp_path).train("CartPole-v1", cluster=cluster, max_timesteps=200, hooks=Resize(cluster, {1: size}))
    assert caught.value.argument == argument


def test_shards_have_places_for_the_actors_they_were_made_for(tmp_path: Path) -> None:
    cluster = Cluster(**INLINE, replay_shards=2)
    agent = replay(tmp_path)
    agent.train("CartPole-v1", 60, 8, cluster=cluster, max_timesteps=600, hooks=Resize(cluster, {5: 1, 20: 2}))
    assert agent.global_timestep == 600
    with pytest.raises(ArgumentError, match="shards"):
        agent.train("CartPole-v1", 60, 8, cluster=cluster, timesteps=200, hooks=Resize(cluster, {80: 3}))
    still, other = Cluster(**INLINE, lockstep=True), rollouts(tmp_path / "lockstep")
    with pytest.raises(ClusterError, match="lockstep"):
        other.train("CartPole-v1", cluster=still, timesteps=80, hooks=Resize(still, {1: 3}))


def test_what_is_measured_of_shards_adds_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_MEASURE_S", 0.0)
    seen: list[Any] = []

    class Watch(Heard):
        def after_update(self, session: Any, facts: Any) -> None:
            seen.append(session.timings.distributed)

    heard = Watch()
    agent = replay(tmp_path)
    agent.train("CartPole-v1", 60, 8, cluster=Cluster(**INLINE, replay_shards=2), max_timesteps=600, hooks=heard)
    last = seen[-1]  # of what was before the last unroll's updates
    assert last["replay_size"] == 200
    drawn = 8 * (1 + (580 - 60) // 8)
    assert last["samples_per_insert"] == pytest.approx(drawn / 580)
    assert last["samples_per_second"] / last["inserts_per_second"] == pytest.approx(8 * 2.5 / 20, rel=0.3)
    assert 0 <= last["weights_version"] <= agent.global_step
    assert (last["timesteps_lost"], last["unrolls_damaged"]) == (0, 0)
    least = [one.episode_return for one in heard.episodes if one.environment in (2, 3)]  # of rungs 0 .. 3
    assert any(
        last["return_mean_least_exploring"] == pytest.approx(np.mean(least[:n])) for n in range(1, len(least) + 1)
    )


@pytest.mark.parametrize("make_agent", [rollouts, replay])
def test_an_actor_that_sends_what_is_damaged_is_given_up(
    make_agent: Any, tmp_path: Path, seen: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Actor 1 sends NaN from its second unroll on: its first is learned from, and three incarnations end."""
    collect = Collector.collect

    def spoiled(self: Collector, request: Any) -> Any:
        unroll = collect(self, request)
        if request.id.actor == 1 and request.id[1:] != (0, 0):
            np.asarray(unroll.columns["reward"])[3, 0] = np.nan
        return unroll

    monkeypatch.setattr(Collector, "collect", spoiled)
    agent = make_agent(tmp_path)
    cluster = Cluster(**INLINE, restart_delay_s=0.001)
    agent.train("CartPole-v1", 60, 8, cluster=cluster, max_timesteps=2000)
    counts = seen[0].counts
    assert [actor.status for actor in seen[0].actors] == [READY, FAILED]
    assert (counts["damaged"], counts["restarts"]) == (3, 2)
    assert agent.global_timestep == 2000
    assert all(np.isfinite(value).all() for value in agent.get_weights().values())


@pytest.mark.parametrize(
    ("env", "memory", "settings", "argument"),
    [
        (lambda: make("CartPole-v1"), BatchMemory(40), {}, "env"),
        ("CartPole-v1", BatchMemory(50), {}, "memory"),
        ("CartPole-v1", ReplayMemory(201, 8), {"replay_shards": 2}, "memory"),
        ("CartPole-v1", ReplayMemory(80, 41), {"replay_shards": 2}, "memory"),
        ("CartPole-v1", ReplayMemory(80, 27, n_step=8), {"replay_shards": 2}, "memory"),
        ("CartPole-v1", SequenceMemory(200, 4, length=4), {}, "memory"),
        ("CartPole-v1", ReplayMemory(200, 8, path="memory"), {}, "path"),
        ("CartPole-v1", ReplayMemory(200, 8), {"max_lag": 9}, "Cluster.max_lag"),
    ],
)
def test_what_a_cluster_cannot_use_is_refused(
    env: Any, memory: Any, settings: dict[str, Any], argument: str, tmp_path: Path
) -> None:
    agent = Agent(ppo.model_fn, memory, tmp_path, RunConfig(seed=1), SMALL)
    with pytest.raises(ArgumentError) as caught:
        agent.train(env, cluster=Cluster(**{**INLINE, **settings}), max_timesteps=80)
    assert caught.value.argument == argument
    assert not (tmp_path / "run.json").exists()


@pytest.mark.parametrize(
    ("settings", "argument"),
    [
        ({"min_actors": 3}, "min_actors"),
        ({"replay_shards": 3}, "replay_shards"),
        ({"address": "ray://head:10001"}, "address"),
        ({"backend": "inline", "address": "auto"}, "address"),
        ({"ladder": (0.4,)}, "ladder"),
        ({"lockstep": 1}, "lockstep"),
        ({"unroll_timeout_s": 0}, "unroll_timeout_s"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, Any], argument: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        Cluster(**settings)
    assert caught.value.argument == f"Cluster.{argument}"


@pytest.mark.parametrize("given", [{"wrappers": ["normalize_observation"]}, {"kwargs": {"size": 3}}])
def test_a_function_takes_no_wrappers_and_arguments_of_which_nothing_would_come(given: dict[str, Any]) -> None:
    raised(ArgumentError, EnvironmentRecipe, broken, match="apply to an id.*got the function", **given)


def test_what_actors_learn_of_observations_is_put_together(tmp_path: Path) -> None:
    """The mean and the variance of all observations, whoever saw them; every actor normalises by them."""
    wrappers = ["normalize_observation", "normalize_reward"]
    agent = rollouts(tmp_path)
    cluster = Cluster(**INLINE)
    seen: list[Any] = []

    class Watch(Hook):
        def after_timestep(self, session: Any, facts: Any) -> None:
            seen.append(facts.observation)

    agent.train(EnvironmentRecipe("CartPole-v1", wrappers=wrappers), cluster=cluster, max_timesteps=400, hooks=Watch())  # type: ignore[arg-type]
    state: Any = agent._trainer.state().statistics
    assert [one["kind"] for one in state.values()] == ["NormalizeObservation", "NormalizeReward"]
    moments = state["0"]["obs_rms"]
    assert 400 <= moments["count"] <= 480  # each timestep, and the beginning of each episode
    assert np.abs(np.concatenate(seen[-3:])).max() <= 10
    np.testing.assert_allclose(np.concatenate(seen[5:]).reshape(-1, 4).std(0), 1, atol=0.5)
    with pytest.raises(ArgumentError, match="normalize_observation"):
        agent.train("CartPole-v1", cluster=cluster, timesteps=40)


def test_moments_told_in_parts_are_those_of_all_rows() -> None:
    rng = np.random.default_rng(0)
    parts = [rng.normal(3, 2, (n, 2)) for n in (7, 1, 20)]

    def state(rows: Any) -> dict[str, Any]:
        return {"0": {"kind": "x", "obs_rms": {"mean": rows.mean(0), "var": rows.var(0), "count": len(rows)}}}

    first, both = state(parts[0]), state(np.concatenate(parts[:2]))
    total = merge(merge(state(parts[2]), learnt(first, both)), {"0": {"obs_rms": first["0"]["obs_rms"]}})
    every = state(np.concatenate(parts))
    for moment in ("mean", "var", "count"):
        np.testing.assert_allclose(total["0"]["obs_rms"][moment], every["0"]["obs_rms"][moment], rtol=1e-12)
