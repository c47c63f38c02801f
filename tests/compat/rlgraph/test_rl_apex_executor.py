"""ApexExecutor: its arguments, its roles in one process, and one training on Ray."""

import contextlib
import copy
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axonrl.compat.rlgraph import Environment, FloatBox, GridWorld, IntBox, RLGraphWarning
from axonrl.compat.rlgraph.execution.ray.apex import ApexExecutor, apex_executor
from axonrl.compat.rlgraph.execution.ray.apex.results import Report
from axonrl.hooks import Hook

from .agents import refused

GRID: dict[str, Any] = {"type": "grid_world", "world": "2x2"}
CARTPOLE: dict[str, Any] = {"type": "openai", "gym_env": "CartPole-v1"}
REPLAY: dict[str, Any] = {"memory_spec": {"capacity": 1000, "alpha": 0.6, "beta": 0.4}, "min_sample_memory_size": 100}


def config(
    executor: dict[str, Any] | None = None,
    worker: dict[str, Any] | None = None,
    replay: dict[str, Any] | None = None,
    **arguments: Any,
) -> dict[str, Any]:
    ray_spec = {"executor_spec": executor or {}, "worker_spec": worker or {}, "apex_replay_spec": replay or REPLAY}
    return {
        "type": "apex",
        "discount": 0.99,
        "dueling_q": False,
        "network_spec": [{"type": "dense", "units": 4}],
        "optimizer_spec": {"type": "adam", "learning_rate": 0.01},
        "update_spec": {"batch_size": 8, "sync_interval": 64},
        "execution_spec": {"seed": 1, "ray_spec": ray_spec},
        **arguments,
    }


def made(**arguments: Any) -> Any:
    return ApexExecutor(GRID, config(**arguments), backend="inline")


def memory(**keys: Any) -> dict[str, Any]:
    return {"replay": {**REPLAY, "memory_spec": {**REPLAY["memory_spec"], **keys}}}


pytestmark = pytest.mark.usefixtures("traced_once")
_RAY = "ApexExecutor: execution_spec['ray_spec']"


@pytest.mark.parametrize(
    ("given", "argument"),
    [
        ({"executor": {"num_sample_worker": 2}}, "num_sample_worker"),
        ({"executor": {"num_replay_workers": 2}}, f"{_RAY}['executor_spec']['num_replay_workers']"),
        ({"worker": {"ray_constant_exploration": False}}, "ApexExecutor: exploration_spec"),
        ({"replay": {"memory_spec": {"type": "replay"}}}, f"{_RAY}['apex_replay_spec']['memory_spec']['type']"),
        ({**memory(capacity=9), "n_step": 4}, f"{_RAY}['apex_replay_spec']['memory_spec']['capacity']"),
        (
            {"replay": {**REPLAY, "min_sample_memory_size": 1001}},
            f"{_RAY}['apex_replay_spec']['min_sample_memory_size']",
        ),
        ({"update_spec": {"do_updates": False}}, "ApexExecutor: update_spec['do_updates']"),
        ({"update_spec": {"update_mode": "episodes"}}, "ApexExecutor: update_spec['update_mode']"),
    ],
)
def test_mistakes_are_told_at_once(given: dict[str, Any], argument: str) -> None:
    assert refused(made, **given).argument == argument


def test_unknown_names_of_all_parts_are_told_at_once() -> None:
    given: Any = {"executor": {"num_worker": 1}, "update_spec": {"batch": 2}, "discout": 0.9}
    text = str(refused(made, **given))
    assert all(name in text for name in ("'num_worker'", "'batch'", "'discout'"))


def test_environments_must_be_described() -> None:
    for spec in (GridWorld("2x2"), lambda: GridWorld("2x2")):
        assert refused(ApexExecutor, spec, config()).argument == "ApexExecutor: environment_spec"
    assert ApexExecutor(GridWorld, config()).action_space == GridWorld().action_space


def test_one_warning_names_all_that_has_no_effect() -> None:
    epsilon = {"epsilon_spec": {"decay_spec": {"type": "constant_decay", "constant_value": 0.1}}}
    executor = {"weight_sync_steps": 100, "num_cpus": 4, "num_gpus": 0}
    before = copy.deepcopy(executor)
    with pytest.warns(RLGraphWarning) as warned:
        made(
            executor=executor,
            worker={"worker_computes_weights": False, "num_background_envs": 1, "execution_spec": {"gpu_spec": {}}},
            exploration_spec=epsilon,
            memory_spec={"type": "prioritized_replay", "capacity": 10},
            observe_spec={"n_step": 2, "buffer_size": 9},
        )
    assert executor == before  # what was given stays as it is
    [text] = [str(one.message) for one in warned]
    names = (
        "executor_spec']['num_cpus']",
        "executor_spec']['weight_sync_steps']",
        "worker_spec']['worker_computes_weights']",
        "worker_spec']['num_background_envs']",
        "worker_spec']['execution_spec']",
        "observe_spec['buffer_size']",
    )
    assert all(name in text for name in (*names, "exploration_spec", " memory_spec "))
    assert not any(name in text for name in ("num_gpus", "n_step"))


def test_what_the_cluster_is_made_of() -> None:
    worker, executor = {"num_worker_environments": 4}, {"num_sample_workers": 3, "num_replay_workers": 2}
    more = {"learn_queue_size": 6, "env_interaction_task_depth": 3, "num_cpus_per_replay_actor": 0.25}
    plan = made(executor={**executor, **more}, worker=worker, n_step=3, **memory(n_step_adjustment=3))._plan
    cluster = plan.cluster("ray", None)
    assert (cluster["actors"], cluster["envs_per_actor"], cluster["replay_shards"]) == (3, 4, 2)
    assert cluster["unroll"] == 13  # 50 samples of 4 environments
    assert (cluster["prefetch"], cluster["in_flight"], cluster["shard_cpus"]) == (6, 3, 0.25)
    assert cluster["ladder"] == (0.4, 7.0)
    assert plan.lanes() == [8, 4]
    assert plan.size == 1008  # 2 shards, each a multiple of 8 and of 4
    assert (plan.first_update, plan.update_frequency) == (100, 4)
    assert plan.params()["sync_period"] == 8  # 64 items in batches of 8
    plain = made(replay={"memory_spec": {"capacity": 20}}, n_step=3, update_spec={"batch_size": 16})._plan
    assert plain.first_update == 20  # 16 transitions of 3 timesteps are in 18, but the memory holds 20
    small = made(replay={**REPLAY, "min_sample_memory_size": 3, "n_step_adjustment": 0}, worker={"num_cpus": 0.5})._plan
    assert (small.first_update, small.cluster("ray", None)["actor_cpus"]) == (8, 0.5)  # a batch is 8
    explored = {"epsilon_spec": {"decay_spec": {"from": 0.5, "to": 0.1, "num_timesteps": 7}}}
    own = made(worker={"worker_executes_exploration": False}, exploration_spec=explored)._plan
    assert own.cluster("inline", "auto")["ladder"] is None
    assert own.params()["epsilon"]["num_timesteps"] == 7


def test_a_memory_that_this_machine_cannot_hold_is_kept_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    from axonrl.compat.rlgraph.execution.ray.apex import plan

    monkeypatch.setattr(plan, "physical_memory", lambda: 2400)  # half of it holds 300 states of 4 bytes
    with pytest.warns(RLGraphWarning, match=r"capacity'\] is reduced from 1,000 to 300 records"):
        small = made()._plan
    assert (small.size, small.first_update) == (300, 100)
    with pytest.warns(RLGraphWarning):
        assert "min_sample_memory_size" in refused(made, replay={**REPLAY, "min_sample_memory_size": 301}).argument


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    executor = ApexExecutor(GRID, config())
    for call in (executor.init_ray, lambda: executor.execute_workload({"num_timesteps": 10})):
        error = refused(call)
        assert (error.argument, "axonrl[ray]" in str(error)) == ("backend", True)
    made().init_ray()


@pytest.mark.parametrize(("answers", "joined"), [(True, "127.0.0.1:6379"), (False, None)])
def test_an_address_of_redis_is_joined_or_not(monkeypatch: pytest.MonkeyPatch, answers: bool, joined: Any) -> None:
    monkeypatch.setattr(apex_executor, "_answers", lambda address: answers)
    executor = ApexExecutor(GRID, config(executor={"redis_address": "127.0.0.1:6379"}))
    with contextlib.nullcontext() if answers else pytest.warns(RLGraphWarning, match="redis_address"):
        executor.init_ray()
    assert executor._address == joined


@pytest.mark.parametrize(
    ("workload", "argument"),
    [
        ({"num_timesteps": 0}, "ApexExecutor.execute_workload: workload['num_timesteps']"),
        ({"num_timesteps": 10, "report_intervall": 3}, "report_intervall"),
    ],
)
def test_workloads_are_checked(workload: Any, argument: str) -> None:
    assert refused(made().execute_workload, workload).argument == argument


class Lever(Environment):
    """One step, whose reward is 1 for action 3 and -1 for action 4."""

    def __init__(self) -> None:
        super().__init__(state_space=FloatBox(shape=(1,)), action_space=IntBox(3, 5))

    def reset(self) -> Any:
        return np.ones(1, np.float32)

    def step(self, actions: Any) -> Any:
        return self.reset(), {3: 1.0, 4: -1.0}[int(actions)], True, {}


class Weights(Hook):
    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []

    def after_update(self, session: Any, facts: Any) -> None:
        self.seen.append({name.partition(".")[2]: array.copy() for name, array in session.weights().items()})


def test_the_target_is_copied_when_so_many_items_were_learned_from_before_learning() -> None:
    given = config(update_spec={"batch_size": 8, "update_interval": 4, "sync_interval": 16})
    executor = ApexExecutor(Lever, given, backend="inline")
    hook, env = Weights(), executor._plan.factory()
    executor.agent.train(env, 16, 4, steps=5, hooks=hook)
    policy, target = ([one[f"{name}/dense-0/kernel"] for one in hook.seen] for name in ("policy", "target-policy"))
    assert not np.array_equal(target[0], target[1])
    np.testing.assert_array_equal(target[1], policy[0])  # as it was before the second update
    np.testing.assert_array_equal(target[2], policy[0])
    np.testing.assert_array_equal(target[3], policy[2])
    np.testing.assert_array_equal(target[4], policy[2])
    executor.agent.train(env, 16, 4, steps=100)
    found = executor.agent.predict(np.ones((1, 1), np.float32))
    assert found["action"].tolist() == [3]  # in the environment's numbers
    np.testing.assert_allclose(found["q_values"], [[1, -1]], atol=0.3)
    executor.terminate()


def test_workloads_go_on_and_results_are_those_of_workers() -> None:
    arguments: Any = {"executor": {"num_sample_workers": 2, "num_worker_samples": 20}, "n_step": 2}
    worker = {"num_worker_environments": 2, "frame_skip": 2}
    runs = []
    for _ in range(2):
        with made(**arguments, worker=worker) as executor:
            first = executor.execute_workload({"num_timesteps": 200, "report_interval": 50})
            second = executor.execute_workload({"num_timesteps": 30})
            names, every = executor.get_sample_worker_ids(), executor.get_all_worker_results()
            assert (first["timesteps_executed"], second["timesteps_executed"]) == (200, 40)  # two unrolls of 20
            assert (first["env_frames"], first["num_updates"]) == (400, 26)  # at 100, 104, .. 200
            assert second["num_updates"] == 10
            assert names == ["worker_0", "worker_1"]
            assert executor.result_by_worker(1) == executor.result_by_worker("worker_1") == every[1]
            assert executor.result_by_worker() == every[0] != every[1]
            weights = executor.agent.get_weights()
        runs.append((every[0]["episode_rewards"], weights))
    rewards = [[reward for lane in one["episode_rewards"] for reward in lane] for one in every]
    assert sum(map(len, rewards)) == first["num_episodes"] + second["num_episodes"]
    assert min(map(min, rewards)) == min(first["min_worker_reward"], second["min_worker_reward"]) < -4
    assert all(len(lanes) == 2 for one in every for lanes in one.values())
    assert runs[0][0] == runs[1][0]
    for name, value in runs[0][1].items():
        np.testing.assert_array_equal(value, runs[1][1][name])
    assert refused(executor.execute_workload, {"num_timesteps": 10}).argument == "execute_workload"
    executor.terminate()


def test_the_numbers_of_a_workload() -> None:
    class Counted:
        global_timestep, global_step = 1000, 50

    clock, session = iter([0.0, 10.0, 11.0, 14.0, 20.0, 20.0]), Counted()
    report = Report(3, 4, 900, 300, 2.0, clock.__next__)
    report.begin(session)
    report.rewards[0] += [1.0, 3.0]
    report.rewards[2] += [5.0]
    session.global_timestep, session.global_step = 1400, 60
    report.look(session)  # one second later: too early
    report.look(session)
    session.global_timestep, session.global_step = 1900, 80
    result = report.result(session)
    assert result["runtime"] == 10.0
    assert (result["timesteps_executed"], result["ops_per_second"], result["num_updates"]) == (900, 90.0, 30)
    assert (result["env_frames"], result["env_frames_per_second"]) == (3600, 360.0)
    assert (result["min_iteration_sample_throughput"], result["max_iteration_sample_throughput"]) == pytest.approx(
        (500 / 6, 400 / 4)
    )
    assert result["num_episodes"] == 3
    assert (result["mean_worker_reward"], result["mean_final_reward"]) == ((2.0 + 5.0) / 2, (3.0 + 5.0) / 2)
    assert (result["min_worker_reward"], result["max_worker_reward"]) == (1.0, 5.0)


@pytest.fixture
def no_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The environment of a user who has said nothing to Ray."""
    for name in [name for name in os.environ if name.startswith("RAY_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    yield
    assert not (tmp_path / ".ray").exists()


@pytest.mark.ray
def test_workers_and_replay_on_ray(no_token: None) -> None:
    pytest.importorskip("ray")
    executor_spec = {"num_sample_workers": 2, "num_replay_workers": 2, "num_cpus_per_replay_actor": 0.25}
    given = config(executor=executor_spec, worker={"num_worker_environments": 4}, n_step=3)
    with ApexExecutor(environment_spec=CARTPOLE, agent_config=given) as executor:
        result = executor.execute_workload(workload={"num_timesteps": 1040, "report_interval": 500})
        assert result["timesteps_executed"] == 1040
        assert result["num_updates"] == 1 + (1040 - 100) // 4
        told = [one["episode_rewards"] for one in executor.get_all_worker_results()]
        assert [len(lanes) for lanes in told] == [4, 4]
        # How many of them a worker has ended depends on how early its process began.
        assert len([reward for lanes in told for lane in lanes for reward in lane]) == result["num_episodes"] > 0
        assert 8 <= result["min_worker_reward"] <= result["mean_worker_reward"] <= result["max_worker_reward"] <= 500
