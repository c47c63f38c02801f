"""Worlds with several agents: lanes that are empty count nowhere, and a run in them is as exact as any other."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib.util
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete

from axonrl import EstimatorSpec, Modes
from axonrl.core.trees import equal
from axonrl.environments import check, from_pettingzoo, make, open_environment
from axonrl.environments.rendering import open_window
from axonrl.errors import ArgumentError
from axonrl.experiments.commands.cli import main
from axonrl.hooks import EvaluationHook
from axonrl.memories import BatchMemory, ReplayMemory
from axonrl.models import dqn, ppo
from axonrl.run_dir.arrays import join_state, split_state
from axonrl.tests.environments.herd import Herd, parallel_env
from axonrl.tests.estimators.fakes import At, ListMemory, Notes, agent, differences, failing, record, rollout_model
from axonrl.tests.estimators.fakes import snapshot as newest

NAME = "axonrl.tests.environments.herd:parallel_env"
BOTH = ["normalize_observation", "normalize_reward"]
PPO = {"hidden": [4], "epochs": 2, "minibatch_size": 12, "learning_rate": 0.01}
T, F = True, False
pytestmark = pytest.mark.usefixtures("traced_once")


def herd(**arguments: Any) -> Any:
    """One world of :data:`LIVES`."""
    return from_pettingzoo(Herd(**arguments))


# -- lanes ------------------------------------------------------------------------------------------------------------


def test_each_agent_is_a_lane_that_is_empty_where_it_is_not_there() -> None:
    """Two worlds: each row is (timestep, place) of its agent; an empty lane keeps what it had, or has another's."""
    env: Any = from_pettingzoo(NAME, 2)
    opened = open_environment(env)
    assert (opened.num_envs, opened.name, opened.not_exact, opened.saves_state) == (8, "herd", None, True)
    first = opened.reset(None, [5, 1, 1, 1, 6, 1, 1, 1])
    assert [world.env.seeds for world in env.worlds] == [[5], [6]]
    assert np.asarray(first).tolist() == [[0, 0], [0, 1], [0, 0], [0, 0]] * 2
    rows = [
        (None, [[1, 0], [1, 1], [1, 2], [0, 0]], [T, T, F, F], [1, 10, 0, 0], [F, F, F, F], [F, F, F, T]),
        (None, [[2, 0], [2, 1], [2, 2], [0, 0]], [T, T, T, F], [1, 10, 100, 0], [F, T, F, F], [F, T, F, T]),
        (None, [[3, 0], [2, 1], [3, 2], [0, 0]], [T, F, T, F], [1, 0, 100, 0], [F, F, F, F], [F, T, F, T]),
        ([T, F, T, F], [[4, 0], [2, 1], [4, 2], [0, 0]], [T, F, T, F], [1, 0, 100, 0], [F, F, F, F], None),
    ]
    for truncated, observation, acted, reward, terminated, waiting in rows:
        step = opened.step(np.array([0, 1, 0, 1] * 2))
        assert np.asarray(step.observation).tolist() == observation * 2
        assert np.asarray(step.acted).tolist() == acted * 2
        assert step.reward.tolist() == reward * 2
        assert step.terminated.tolist() == terminated * 2
        assert step.truncated.tolist() == (truncated or [F] * 4) * 2
        assert (opened.waiting is None) == (waiting is None)
        assert opened.waiting is None or opened.waiting.tolist() == (waiting or []) * 2
    assert env.worlds[0].env.taken == [{"a": 0, "b": 1}, {"a": 0, "b": 1, "c": 0}, *[{"a": 0, "c": 0}] * 2]
    opened.reset(np.array([F] * 4 + [F, T, T, T]), [7, 1, 1, 1, 8, 9, 1, 1])
    assert [world.env.seeds for world in env.worlds] == [[5], [6, 9]]  # the seed of the first lane that begins


def test_an_environment_that_changes_its_actions_repeats_its_episode() -> None:
    class Doubling(Herd):
        def step(self, actions: dict[str, Any]) -> tuple[dict[str, Any], ...]:
            for action in actions.values():
                np.multiply(action, 2, out=action)
            self.mark += sum(float(action[0]) for action in actions.values())
            return super().step(actions)

    opened, again = (open_environment(from_pettingzoo(Doubling(space=Box(-1, 1, (1,))))) for _ in range(2))
    opened.reset(None, [5] * 4)
    for _ in range(2):
        seen = opened.step(np.full((4, 1), 0.25, np.float32)).observation
    state: Any = opened.state_dict()
    assert state["environment"]["0"]["actions"].tolist() == [[0.25]] * 8
    again.load_state_dict(state)
    step = np.zeros((4, 1), np.float32)
    np.testing.assert_array_equal(opened.step(step).observation, again.step(step).observation)
    assert np.asarray(seen)[0].tolist() == [2.0, 2.5]  # two agents, then three: 2 * 0.5 + 3 * 0.5


def test_a_time_limit_truncates_all_agents_of_a_world() -> None:
    opened = open_environment(from_pettingzoo(parallel_env, max_episode_steps=3))
    opened.reset(None, [0] * 4)
    flags = [(step.terminated.tolist(), step.truncated.tolist()) for step in map(opened.step, [np.zeros(4, int)] * 3)]
    assert flags == [([F] * 4, [F] * 4), ([F, T, F, F], [F] * 4), ([F] * 4, [T, F, T, F])]
    assert opened.waiting is None  # the world is over


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda: from_pettingzoo("axonrl.tests.environments.herd"), "must be 'package.module:function'"),
        (lambda: from_pettingzoo("axonrl.tests.environments.herd:nothing"), "cannot import .*no attribute 'nothing'"),
        (lambda: from_pettingzoo(NAME, size=3), r"could not be made with \{'size': 3\}: TypeError"),
        (lambda: from_pettingzoo(3), "must be a ParallelEnv, a function that makes one, or the function.s name, got 3"),
        (lambda: from_pettingzoo(dict), "must make a pettingzoo.ParallelEnv"),
        (lambda: from_pettingzoo(Herd(), 2), "several worlds, or arguments, need a function"),
        (lambda: from_pettingzoo(functools.partial(lambda env: env, Herd()), 2), "returns the same environment twice"),
        (lambda: from_pettingzoo(AEC()), "is an AECEnv, whose agents act in turns"),
        (lambda: from_pettingzoo(Unlike()), "'a' and 'b' of .* different action spaces.* pad_action_space_v0"),
        (
            lambda: from_pettingzoo(NAME, wrappers=[{"kind": "time_limit", "max_episode_steps": 3}]),
            "pass max_episode_steps",
        ),
        (lambda: from_pettingzoo(NAME, wrappers=[{"kind": "frame_stack", "stack_size": 2}]), "wrap the ParallelEnv"),
        (lambda: open_window(herd(), None), "no window: .* a function that makes a ParallelEnv"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_lanes_is_refused(given: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        given()


class Unlike(Herd):
    """Its agents have different actions."""

    def action_space(self, agent: str) -> Any:
        return Discrete(2 if agent == "a" else 3)


class AEC(Herd):
    """Its agents act in turns."""

    def agent_iter(self) -> None:
        pass


class Broken(Herd):
    """Breaks the contract of ParallelEnv at its third timestep."""

    def step(self, actions: dict[str, Any]) -> Any:
        result = super().step(actions)
        if self.timestep == 3:
            self.fault(*result)  # type: ignore[attr-defined]
        return result


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (lambda env, *result: result[0].pop("a"), "step returned no observations of 'a', which acted"),
        (lambda env, *result: result[1].pop("c"), "step returned no rewards of 'c'"),
        (lambda env, *result: env.agents.remove("a"), "'a' is neither terminated nor truncated, but no longer in"),
        (lambda env, *result: result[2].update(a=True), "'a' ended, but is still in env.agents"),
        (lambda env, *result: env.agents.append("new"), "'new', which is not in env.possible_agents"),
        (lambda env, *result: env.agents.append("b"), "no observation of 'b', which is in env.agents"),
        (lambda env, *result: result[0].update(a=np.zeros(3)), "'a': .*shape"),
    ],
)
def test_a_world_that_breaks_its_contract_is_named(fault: Any, message: str, tmp_path: Path) -> None:
    broken = type("Broken", (Broken,), {"fault": fault})()
    with pytest.raises(
        RuntimeError, match=rf"herd.step raised ValueError: .*{message}.*\(environment 0: seed .*global_timestep 5"
    ):
        agent(tmp_path, ListMemory(9, is_rollout=True), rollout_model).train(from_pettingzoo(broken), timesteps=20)


# -- what counts ------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("traced_anew")
@pytest.mark.parametrize("runtime", ["litert", "tensorflow"])
def test_an_agent_that_is_not_there_has_no_weight_in_a_loss(tmp_path: Path, runtime: str) -> None:
    """A world of 9 actions pays 4 * 1 + 2 * 10 + 3 * 100 = 324, 36 for each; with 4 * 4 lanes it would be 20.25."""
    notes = Notes()
    memory = BatchMemory(72)  # eight worlds
    learner = agent(tmp_path, memory, rollout_model, runtime=runtime)
    learner.train(from_pettingzoo(NAME, 2), timesteps=144, hooks=notes)
    losses = [facts.loss for facts in notes.facts["after_update"]]
    assert losses == [36.0, -35 * 36.0]  # of a weight of 1, then of 1 - 36
    assert notes.update_timesteps == [72, 144]
    assert record(tmp_path)["runtime"]["learner"] == runtime


def test_counters_count_actions_and_episodes_of_agents(tmp_path: Path) -> None:
    memory, notes = ListMemory(2), Notes()
    agent(tmp_path, memory).train(herd(), 5, 3, timesteps=18, hooks=notes)
    assert notes.update_timesteps == [5, 9, 11, 14, 18]  # due at 5, 8, 11, 14, 17; a world takes 2, 3, 2, 2 actions
    assert len(memory.rows) == memory.ever == 18
    ended = [
        (stats.environment, stats.length, stats.episode_return, stats.terminated)
        for stats in notes.facts["after_episode"]
    ]
    assert ended == [(1, 2, 20.0, True), (0, 4, 4.0, False), (2, 3, 300.0, False)] * 2
    began = [(event[1], event[2]) for event in notes.events if event[0] == "before_episode"]
    assert began == [(0, 0), (1, 0), (2, 2), (0, 9), (1, 9), (2, 11)]  # lane and timestep: not before the agent comes
    acted = [None if facts.acted is None else facts.acted.tolist() for facts in notes.facts["after_timestep"][:2]]
    assert acted == [[T, T, F, F], [T, T, T, F]]
    assert {tuple(row["observation"].tolist()) for row in memory.rows} == {
        *((t, 0) for t in range(4)),
        *((t, 1) for t in range(2)),
        *((t, 2) for t in range(1, 4)),
    }


def test_normalisation_learns_from_the_agents_that_are_there(tmp_path: Path) -> None:
    """Observations of a world: a at 0 .. 4, b at 0 .. 2, c at 1 .. 4, with places 0, 1 and 2."""
    env = from_pettingzoo(NAME, wrappers=BOTH)
    agent(tmp_path, ListMemory(4)).train(env, 100, timesteps=9)
    statistics = newest(tmp_path)["statistics"].values()
    seen, paid = (next(one[kind] for one in statistics if kind in one) for kind in ("obs_rms", "return_rms"))
    assert seen["count"] == 12
    np.testing.assert_allclose(seen["mean"], [23 / 12, 11 / 12])
    assert paid["count"] == 9


def test_evaluations_count_whole_lives_of_agents(tmp_path: Path) -> None:
    """The lane of the agent that never comes has no episode, so nothing waits for it."""
    learner, hook = agent(tmp_path), EvaluationHook(every_timesteps=9, episodes=6)
    learner.train(from_pettingzoo(NAME), 100, timesteps=9, hooks=hook)
    notes = Notes()
    results = learner.evaluate(from_pettingzoo(NAME, 2), episodes=6, hooks=notes)
    assert results["episode_return_mean"] == pytest.approx((4 + 20 + 300) / 3)
    assert (results["episodes"], results["episode_length_mean"]) == (6, 3)
    assert len(notes.facts["before_episode"]) == 6
    opened = open_window(from_pettingzoo(NAME), contextlib.ExitStack())
    assert opened.worlds[0].env.render_mode == "human"  # type: ignore[union-attr]
    with pytest.raises(ArgumentError, match="episodes are recorded in one environment, got 4"):
        learner.record(tmp_path / "episodes.npz", herd(), 3)


def test_masks_of_agents_that_have_ended_may_be_empty(tmp_path: Path) -> None:
    memory = ListMemory(4)
    agent(tmp_path, memory, dqn.model_fn, {"hidden": [4]}).train(herd(masks=True), 100, timesteps=27)
    assert {int(row["action"]) for row in memory.rows} == {1}


def test_composite_actions_reach_each_agent_and_are_repeated() -> None:
    """A checkpoint in the middle of an episode, whose state went through a file's form."""
    space = Dict({"turn": Discrete(3), "push": Box(-1, 1, (2,), np.float32)})
    one, other = (open_environment(herd(space=space, noise=1.0)) for _ in range(2))
    one.reset(None, [3, 0, 0, 0])
    push = np.linspace(-1, 1, 8, dtype=np.float32).reshape(4, 2)
    for turn in (0, 1):
        one.step({"turn": np.full(4, turn, np.int32), "push": push})
    taken = one.env.worlds[0].env.taken[1]["b"]  # type: ignore[union-attr]
    assert (taken["turn"], taken["push"].tolist()) == (1, push[1].tolist())
    arrays, tree = split_state({"environment": one.state_dict()})
    other.load_state_dict(join_state(arrays, tree)["environment"])
    assert np.asarray(other.waiting).tolist() == np.asarray(one.waiting).tolist() == [F, T, F, T]
    steps = [each.step({"turn": np.full(4, 2, np.int32), "push": push}) for each in (one, other)]
    assert equal(steps[0].observation, steps[1].observation)


# -- rollouts ---------------------------------------------------------------------------------------------------------


def remembering_model(features: Any, labels: Any, mode: str) -> EstimatorSpec:
    """``rollout_model`` with a state."""
    known = isinstance(features, dict)
    spec = rollout_model(features["observation"] if known else features, labels, mode)
    state = features["state"]["count"] + 1.0 if known else features[:, :1]
    return dataclasses.replace(spec, state={"count": state}) if mode == Modes.PREDICT else spec


def test_recurrent_models_take_agents_that_stay_together(tmp_path: Path) -> None:
    together = {"a": (0, 4), "b": (0, 4)}
    agent(tmp_path / "a", BatchMemory(12), remembering_model).train(herd(lives=together), timesteps=24)
    with pytest.raises(ArgumentError, match="a recurrent model cannot learn from rollouts in which agents come and go"):
        agent(tmp_path / "b", BatchMemory(12), remembering_model).train(herd(), timesteps=24)


# -- exact ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrappers", [(), BOTH])
def test_a_run_killed_in_the_middle_of_a_world_resumes_exactly(tmp_path: Path, wrappers: Any) -> None:
    """Two worlds take 4, 6, 4 and 4 actions: the agent b has died at 10 and 46, and a and c go on."""

    def train(folder: Path, crash: int | None = None) -> None:
        env = from_pettingzoo(NAME, 2, wrappers=wrappers, noise=1.0)
        learner = agent(folder, BatchMemory(24), ppo.model_fn, PPO)
        if crash is None:
            learner.train(env, max_timesteps=60)
            return
        hooks = [At("after_timestep", crash, lambda session: session.save_checkpoint())]
        hooks.append(At("after_timestep", crash + 1, failing("crash")))
        with pytest.raises(RuntimeError, match="crash"):
            learner.train(env, max_timesteps=60, hooks=hooks)

    train(tmp_path / "whole")
    for crash in (10, 32, 46):
        train(tmp_path / "resumed", crash)
        assert newest(tmp_path / "resumed")["episodes"]["running"].any()
        assert not newest(tmp_path / "resumed")["episodes"]["running"].all()
    train(tmp_path / "resumed")
    assert differences(newest(tmp_path / "whole"), newest(tmp_path / "resumed")) == []
    assert record(tmp_path / "resumed")["not_exact"] == []


def test_a_world_without_a_seed_of_its_own_is_cut_and_said_to_be_not_exact(tmp_path: Path) -> None:
    for timesteps in (14, 14):
        agent(tmp_path, ListMemory(4)).train(from_pettingzoo(NAME, noise=-1.0), 100, timesteps=timesteps)
    assert "herd does not repeat an episode from its seed and actions" in record(tmp_path)["not_exact"][0]


# -- files and checks -------------------------------------------------------------------------------------------------


def test_a_run_makes_its_worlds_again_from_its_record(tmp_path: Path) -> None:
    agent(tmp_path, ReplayMemory(96, 4)).train(from_pettingzoo(NAME, 2, noise=1.0, max_episode_steps=3), timesteps=9)
    recorded = record(tmp_path)
    assert (recorded["num_envs"], recorded["environment"]) == (
        8,
        {
            "id": NAME,
            "kwargs": {"noise": 1.0, "max_episode_steps": 3},
            "wrappers": [],
            "vectorization": "pettingzoo",
            "num_envs": 2,
        },
    )
    agent(tmp_path, ReplayMemory(96, 4)).train(NAME, timesteps=9)
    assert record(tmp_path)["not_exact"] == []


FILE = """\
environment:
  pettingzoo: axonrl.tests.environments.herd:parallel_env
  num_envs: 2
  kwargs: {noise: 1.0}
  wrappers: [normalize_reward]
agent:
  model_fn: dqn
  params: {hidden: [4]}
  memory: {kind: replay, size: 96, batch_size: 4}
train: {max_timesteps: 40, first_update: 10}
evaluate: {episodes: 6}
"""


def test_a_file_names_the_function_that_makes_a_world(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Six evaluated lives: two worlds of a, b and c."""
    file = tmp_path / "herd.yml"
    file.write_text(FILE)
    assert main(["run", str(file), "--model-dir", str(tmp_path / "run")]) == 0
    assert "evaluation return, 6 episodes" in capsys.readouterr().out
    assert record(tmp_path / "run")["environment"]["num_envs"] == 2
    for change, message in {
        "environment.pettingzoo=axonrl.tests.environments.herd:nothing": "environment.pettingzoo: cannot import",
        "environment.kwargs.tempo=3": "environment.kwargs: .* could not be made with",
        "environment.id=CartPole-v1": "environment: pettingzoo stands for id and vectorization; omit id",
        "environment.wrappers=[{kind: frame_stack, stack_size: 2}]": r"environment.wrappers\.0.*wrap the ParallelEnv",
        "distributed={actors: 2}": "environment.pettingzoo: several agents train in one process",
    }.items():
        code = main(["check", str(file), "--set", change])
        told = capsys.readouterr().err
        assert (code, bool(re.search(message, told))) == (2, True), told


def test_check_env_judges_a_world() -> None:
    found = {one.point: (one.verdict, one.text) for one in check(NAME, episodes=2).findings}
    assert found["values"] == ("ok", "8 timesteps within the spaces")
    assert {verdict for verdict, _ in found.values()} == {"ok"}
    alone = {one.point: one.verdict for one in check(Herd(noise=-1.0)).findings}  # type: ignore[arg-type]
    assert alone["a seed determines an episode"] == "not checked"
    drawn = {one.point: one.text for one in check(from_pettingzoo(NAME, noise=-1.0)).findings}  # type: ignore[arg-type]
    assert "runs cannot resume exactly" in drawn["a seed determines an episode"]


@pytest.mark.skipif(importlib.util.find_spec("pettingzoo") is None, reason="pip install 'axonrl[pettingzoo]'")
def test_pursuit_of_pettingzoo() -> None:
    env: Any = make("sisl/pursuit-v5", 1, vectorization="pettingzoo", max_cycles=5)
    opened = open_environment(env)
    assert (opened.num_envs, opened.name) == (8, "pursuit_v5")
    for _ in range(2):
        opened.reset(None, list(range(8)))
        steps = [opened.step(np.zeros(8, np.int64)) for _ in range(5)]
    assert [step.acted for step in steps] == [None] * 5
    assert [bool(step.truncated.all()) for step in steps] == [F, F, F, F, T]
