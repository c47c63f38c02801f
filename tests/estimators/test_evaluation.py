"""Evaluation and prediction: greedy, repeatable, every episode to its end, and with nothing but ``model_dir``."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from gymnasium.spaces import Discrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from axonrl import Agent, Estimator, EstimatorSpec, RunConfig
from axonrl.core.protocols import ArraySpec
from axonrl.environments import BatchedEnvironment, open_environment
from axonrl.errors import ArgumentError, BrokenEnvironmentError, NonFiniteError
from axonrl.estimators.evaluation import Watchers, run_episodes, summarize
from axonrl.hooks import EvaluationHook, FinalValuesHook, HistoryHook, LoggingHook, StopAtReturn, SummaryHook
from axonrl.hooks.events import BeginFacts
from axonrl.models import dqn
from axonrl.policies.behaviour import Behaviour
from axonrl.policies.modes import PredictMode
from axonrl.tests.estimators.fakes import (
    At,
    Counting,
    Faulty,
    Named,
    Notes,
    agent,
    differences,
    linear_model,
    snapshot,
    vector,
)
from axonrl.tests.raising import raised

pytestmark = pytest.mark.usefixtures("traced_once")

OBSERVATIONS = np.array([[0.0, 0.5], [3.0, 0.1]], np.float32)


class Drawn(Counting):
    """Its episodes are as long as their seed says: 1 to 6 timesteps."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        result = super().reset(seed=seed)
        self.length = 1 + int(self.mark * 6)
        return result


class PaysForResets(SyncVectorEnv):
    """Pays 100 whenever an environment stands at the beginning of an episode."""

    def step(self, actions: Any) -> Any:
        observations, rewards, *rest = super().step(actions)
        return observations, rewards + 100 * (observations[:, 0] == 0), *rest


def zeros(seen: Any, draws: Any) -> Any:
    return {"action": np.zeros(len(seen), np.int32)}, None


def played(env: Any, seeds: list[int], watch: Watchers | None = None, act: Any = zeros, **mode: Any) -> Any:
    """Episodes of one who always takes action 0, or of ``act``."""
    opened = env if isinstance(env, BatchedEnvironment) else open_environment(env)
    executor: Any = SimpleNamespace(act=act)
    behaviour = Behaviour(PredictMode(outputs={}, **mode), executor, opened.num_envs, np.random.default_rng(0))
    return run_episodes(behaviour, opened, seeds, 0, watch or Watchers())


@pytest.mark.parametrize("num_envs", [1, 7])
def test_every_episode_is_played_to_its_end_in_its_own_seed(num_envs: int) -> None:
    """Whatever the number of environments, seed k gives the same episode k; keeping the fastest would not."""
    seeds = list(range(100, 106))
    alone = []
    for seed in seeds:
        env = Drawn()
        env.reset(seed=seed)
        alone.append(env.length)
    assert len(set(alone)) > 2
    envs = [Drawn() for _ in range(num_envs)]
    opened = open_environment(vector(*envs) if num_envs > 1 else envs[0])
    stats = played(opened, seeds)
    assert [s.length for s in stats] == alone
    assert [s.episode for s in stats] == [0, 1, 2, 3, 4, 5]
    assert [s.episode_return for s in stats] == [n * (n + 1) / 2 for n in alone]
    assert all(math.isnan(s.loss) and math.isnan(s.exploration) and s.seconds >= 0 for s in stats)


def test_who_is_told_of_episodes_and_in_which_order() -> None:
    told: list[Any] = []
    watch = Watchers(
        lambda facts: told.append(("begins", facts.environment, facts.episode, facts.seed)),
        lambda stats: told.append(("ended", stats.environment, stats.episode)),
    )
    played(vector(Counting(2), Counting(3)), [7, 8, 9], watch)
    assert told == [
        ("begins", 0, 0, 7),
        ("begins", 1, 1, 8),
        ("ended", 0, 0),
        ("begins", 0, 2, 9),
        ("ended", 1, 1),  # environment 1 plays on, and does not count
        ("ended", 0, 2),
    ]


def test_what_a_reset_step_pays_is_nobody_s(tmp_path: Path) -> None:
    env = PaysForResets([lambda: Counting(2), lambda: Counting(3)], autoreset_mode=AutoresetMode.NEXT_STEP)
    stats = played(env, [7, 8, 9, 10])
    assert sorted(s.episode_return for s in stats) == [3, 3, 6, 6]
    notes = Notes()
    agent(tmp_path).train(env, episodes=4, hooks=[notes])
    assert sorted(s.episode_return for s in notes.facts["after_episode"]) == [3, 3, 6, 6]


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_recurrent_state_is_zero_at_the_first_observation_of_an_episode(mode: AutoresetMode) -> None:
    """Timestep t of an episode is seen with the state t, for the state counts."""
    seen: list[tuple[float, float]] = []

    def counts(features: Any, draws: Any) -> Any:
        count = features["state"]["count"]
        seen.extend(zip(features["observation"][:, 0].tolist(), count.tolist(), strict=True))
        return {"action": np.zeros(2, np.int32)}, {"count": count + 1}

    env = vector(Counting(2), Counting(3), mode=mode)
    stats = played(env, [7, 8, 9, 10], act=counts, state={"count": ArraySpec((), np.dtype(np.float64))})
    assert sorted((s.environment, s.length, s.episode_return) for s in stats) == [(0, 2, 3.0)] * 2 + [(1, 3, 6.0)] * 2
    # The step that resets an environment sees the last observation of the episode before; it decides nothing.
    lasts = {2.0, 3.0} if mode is AutoresetMode.NEXT_STEP else set()
    assert {(t, count) for t, count in seen if t not in lasts} == {(0.0, 0.0), (1.0, 1.0), (2.0, 2.0)} - {
        (t, t) for t in lasts
    }


def test_the_summary_in_numbers() -> None:
    stats = played(vector(Counting(1), Counting(3)), [7, 8])
    assert summarize(stats) == {  # returns 1 and 6
        "episode_return_mean": 3.5,
        "episode_return_std": 2.5,
        "episode_return_min": 1.0,
        "episode_return_max": 6.0,
        "episode_length_mean": 2.0,
        "episodes": 2,
    }


def test_an_error_says_in_which_episode() -> None:
    env = Faulty(RuntimeError("out of coal"), at=6, length=4)
    match = r"Faulty\.step raised RuntimeError: out of coal \(environment 0: seed 8, episode 1, timestep 1; 1 ep"
    with pytest.raises(BrokenEnvironmentError, match=match):
        played(env, [7, 8])
    # In a vector environment, too.
    env = Faulty(lambda o, r, *rest: (o, np.nan, *rest), at=6, length=4)
    with pytest.raises(NonFiniteError, match=r"the reward nan in environment 1 \(environment 1: seed 9, episode 2, "):
        played(vector(Counting(9), env), [7, 8, 9])


def test_evaluate_is_greedy_and_repeatable(tmp_path: Path) -> None:
    """The model prefers one action in this corner; with an exploration of 1 it would take both."""
    one = agent(tmp_path, params={"epsilon": 1.0}).train(Counting(), 8, timesteps=20)
    env = Counting(20)
    results = [one.evaluate(env, episodes=3, seed=seed) for seed in (5, 5, None, None)]
    assert results[0] == results[1]
    assert env.seeds[:3] == env.seeds[3:6]
    assert env.seeds[6:9] == env.seeds[9:12] != env.seeds[:3]
    assert len(set(env.seeds[:3])) == 3
    values = one.predict(np.array([[t, env.mark] for t in range(20)], np.float32))
    assert env.actions[-20:] == values["action"].tolist() == values["values"].argmax(axis=1).tolist()
    assert results[0]["episode_return_mean"] == 210.0


def test_evaluations_may_explore_without_a_trace_in_the_training(tmp_path: Path) -> None:
    """With an exploration of 1 both actions are taken, by draws that follow from the seed."""

    def trained(name: str, *hooks: Any) -> Agent:
        made = agent(tmp_path / name, params={"epsilon": 1.0})
        return made.train(Counting(), 8, timesteps=20, hooks=hooks)

    one = trained("explored", EvaluationHook(10, episodes=3, env=Counting(20), explore=True))
    plain = trained("greedy").get_weights()
    assert {name: value.tobytes() for name, value in one.get_weights().items()} == {
        name: value.tobytes() for name, value in plain.items()
    }
    env = Counting(20)
    for seed in (5, 5, 6):
        one.evaluate(env, episodes=3, seed=seed, explore=True)
    taken = [env.actions[60 * k : 60 * (k + 1)] for k in range(3)]
    assert taken[0] == taken[1] != taken[2]
    assert set(taken[0]) == {0, 1}
    recorded = one.recorded_evaluation("best")
    assert recorded is not None
    assert recorded.explore == 1
    env = Counting(20)
    assert one.evaluate(env, "repeat", policy="best") == recorded.results
    assert set(env.actions) == {0, 1}


class Drifting:
    """Chooses by a random walk of each lane; an array of another number of lanes does not fit it."""

    def __init__(self) -> None:
        self.walk = np.zeros(0)

    def __call__(self, predictions: Any, timestep: int, rng: np.random.Generator) -> Any:
        lanes = len(predictions["action"])
        self.walk = (self.walk if len(self.walk) else np.zeros(lanes)) + rng.normal(size=lanes)
        return (self.walk > 0).astype(np.int32), {}

    def reset(self, mask: Any) -> None:
        if len(self.walk):
            self.walk[mask] = 0

    def state_dict(self) -> dict[str, Any]:
        return {"walk": self.walk.copy()}

    def load_state_dict(self, state: Any) -> None:
        self.walk = np.array(state["walk"])


def drifting(features: Any, labels: Any, mode: str, params: Any = None) -> EstimatorSpec:
    spec = linear_model(features, labels, mode)
    return spec if mode != "predict" else EstimatorSpec(mode, spec.predictions, exploration=Drifting())


@pytest.mark.parametrize(
    ("model", "params"),
    [(dqn.model_fn, {"hidden": [4], "exploration": "random_decay", "epsilon": 0.5}), (drifting, None)],
)
def test_exploring_outside_the_training_depends_on_nothing_of_its_lanes(
    model: Any, params: Any, tmp_path: Path
) -> None:
    """In as many lanes as the training, where another process repeats it, and in another number of them."""
    seen, env = Counting(20), Counting(20)
    one = agent(tmp_path, model=model, params=params)
    one.train(Counting(7), 8, timesteps=20, hooks=[EvaluationHook(10, episodes=2, env=seen, explore=True)])
    Agent.load(tmp_path, model_fn=model).evaluate(env, "repeat", policy="best")
    assert env.actions == seen.actions[:40]
    assert one.evaluate(vector(Counting(), Counting(), Counting()), episodes=3, explore=True)["episodes"] == 3
    for rows in (2, 3):
        assert one.act(np.zeros((rows, 2), np.float32), explore=True, first=True).shape == (rows,)
        assert one.act(np.zeros((rows, 2), np.float32)).shape == (rows,)


@pytest.mark.parametrize("model", ["by name", "none"])
def test_a_fresh_agent_gives_the_same_numbers(model: str, tmp_path: Path) -> None:
    params = {"hidden": [4], "epsilon": 0.3}
    one = Agent(dqn.model_fn, agent(tmp_path).memory, tmp_path, RunConfig(seed=1), params)
    one.train(Counting(), 8, timesteps=20)
    expected = one.evaluate(Counting(), episodes=2), one.predict(OBSERVATIONS)
    given: Any = {"by name": "dqn", "none": None}[model]
    for fresh in (Agent(given, model_dir=tmp_path), Estimator(given, tmp_path)):
        assert (fresh.params, fresh.config.seed) == (params, 1)
        predictions = fresh.predict(OBSERVATIONS)
        assert {name: value.tobytes() for name, value in predictions.items()} == {
            name: value.tobytes() for name, value in expected[1].items()
        }
        assert fresh.evaluate(Counting(), episodes=2) == expected[0]


def test_an_evaluation_before_training_goes_on_changes_nothing(tmp_path: Path) -> None:
    """A fresh Agent that has taken weights from a checkpoint has not taken the rest of it."""
    agent(tmp_path / "a").train(Counting(), 8, timesteps=20).train(Counting(), 8, timesteps=20)
    agent(tmp_path / "b").train(Counting(), 8, timesteps=20)
    one = agent(tmp_path / "b")
    one.evaluate(Counting(), episodes=1)
    one.predict(OBSERVATIONS)
    assert one.global_timestep == 20
    one.train(Counting(), 8, timesteps=20)
    assert one.global_timestep == 40
    assert differences(snapshot(tmp_path / "a"), snapshot(tmp_path / "b")) == []


def test_policy_best(tmp_path: Path) -> None:
    env = Counting()
    hook = At("after_update", 8, lambda session: session.save_policy("best", {}))
    one = agent(tmp_path)
    one.train(env, 8, timesteps=8, hooks=[hook])
    then = one.predict(OBSERVATIONS)["values"]
    one.train(env, 8, timesteps=40)
    last = one.predict(OBSERVATIONS)["values"]
    assert not np.array_equal(then, last)
    for reader in (one, agent(tmp_path)):
        np.testing.assert_array_equal(reader.predict(OBSERVATIONS, policy="best")["values"], then)
        np.testing.assert_array_equal(reader.predict(OBSERVATIONS)["values"], last)
        reader.evaluate(Counting(), 1, policy="best")
        np.testing.assert_array_equal(reader.predict(OBSERVATIONS)["values"], last)
        with pytest.raises(ValueError, match=r"holds no policy 'worst', only \['last', 'best'\]"):
            reader.evaluate(Counting(), 1, policy="worst")


def test_an_untrained_model_can_be_evaluated_and_then_trained(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    one = agent(tmp_path / "a")
    assert one.evaluate(Counting(4), episodes=2)["episode_return_mean"] == 10.0
    assert caplog.messages[-1] == f"no training in {tmp_path / 'a'}: evaluating its initial weights"
    raised(ValueError, one.export, tmp_path / "exported", match="export needs a trained run")
    assert not (tmp_path / "a").exists()
    one.predict(OBSERVATIONS)
    one.train(Counting(), 8, timesteps=20)
    agent(tmp_path / "b").train(Counting(), 8, timesteps=20)
    a, b = (agent(tmp_path / folder).predict(OBSERVATIONS)["values"] for folder in ("a", "b"))
    np.testing.assert_array_equal(a, b)


def test_hooks_watch_an_evaluation(tmp_path: Path) -> None:
    notes, from_spec = Notes(), Notes()

    def model(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        spec = linear_model(features, labels, mode)
        return EstimatorSpec(mode, spec.predictions, evaluation_hooks=(from_spec,))

    agent(tmp_path, model=model).evaluate(Counting(2), episodes=2, hooks=[notes])
    assert notes.events == [
        ("begin", 0, 0, 0),
        ("before_episode", 0, 0, 0, 0),
        ("after_episode", 0, 2, 0, 1),
        ("before_episode", 0, 2, 0, 1),
        ("after_episode", 0, 4, 0, 2),
        ("end", 4, 0, 2),
    ]
    assert notes.facts["begin"] == [BeginFacts(1, False, {"episodes": 2})]
    assert notes.facts["end"][0].reason == "2 episodes evaluated"
    assert from_spec.events == notes.events


@pytest.mark.parametrize("exploring", [False, True])
def test_another_policy_that_acts_in_between_leaves_an_evaluation_alone(exploring: bool, tmp_path: Path) -> None:
    """The policies take one action each, the column of their larger weights."""
    one = agent(tmp_path, params={"epsilon": 0.0}).train(Counting(), timesteps=4)
    (name,) = one.get_weights()
    for action in (0, 1):
        one.set_weights({name: np.eye(2, dtype=np.float32)[[action, action]]})
    fresh, env = agent(tmp_path), Counting(3)
    peeks = SimpleNamespace(after_episode=lambda session, stats: fresh.predict(OBSERVATIONS))
    fresh.evaluate(env, 2, policy=one._run.store.indices()[-2], hooks=[peeks], explore=exploring)
    assert env.actions == [0] * 6
    assert fresh.predict(OBSERVATIONS)["action"].tolist() == [1, 1]


def test_a_hook_stops_an_evaluation(tmp_path: Path) -> None:
    notes = Notes()
    hooks = [At("after_episode", 4, lambda session: session.request_stop("enough")), notes]
    assert agent(tmp_path).evaluate(Counting(2), episodes=5, hooks=hooks)["episodes"] == 2
    assert notes.facts["end"][0].reason == "enough"
    hooks = [At("begin", 0, lambda session: session.request_stop("enough"))]
    with pytest.raises(ValueError, match="a hook stopped the evaluation before the first episode finished"):
        agent(tmp_path).evaluate(Counting(2), episodes=5, hooks=hooks)


def test_the_log_of_an_evaluation_is_not_that_of_a_training(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "axonrl.hooks.logs"):
        agent(tmp_path).evaluate(Counting(2), episodes=2, hooks=LoggingHook(clock=lambda: 0.0))
    counters = "timestep {} | update 0 | episode {}/2"
    assert caplog.messages[-2].startswith(f"evaluation starts: {counters.format(0, 0)} | in ")
    assert caplog.messages[-1].startswith("evaluation ends after ")
    assert f": 2 episodes evaluated | {counters.format(4, 2)} | return(100) 3.00" in caplog.messages[-1]


def test_hooks_are_fresh_for_every_evaluation_and_for_a_training_afterwards(tmp_path: Path) -> None:
    stop = StopAtReturn(5.0, episodes=3)  # an episode returns 1 + 2 = 3 and 1 + 2 + 3 + 4 = 10
    for _ in range(2):
        assert agent(tmp_path).evaluate(Counting(4), episodes=5, hooks=stop)["episodes"] == 3
    one = agent(tmp_path / "run").train(Counting(2), timesteps=8, hooks=stop)
    assert (one.global_timestep, one.global_episode) == (8, 4)


@pytest.mark.parametrize("hook", [HistoryHook(), SummaryHook(), FinalValuesHook(["global_timestep"])])
def test_an_evaluation_leaves_the_files_of_the_training_alone(hook: Any, tmp_path: Path) -> None:
    one = agent(tmp_path).train(Counting(2), timesteps=6, hooks=FinalValuesHook(["global_timestep"]))
    written = ("episodes.csv", "evaluations.csv", "final_values.json", "events")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path.parts[-1] != "lock"}
    assert {path.relative_to(tmp_path).parts[0] for path in before} >= {*written}
    message = rf"^{type(hook).__name__} writes the files of a training, and evaluate would replace them: leave it out"
    assert raised(ArgumentError, one.evaluate, Counting(2), 2, hooks=[hook], match=message).value is hook
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path in before}
    assert len([*(tmp_path / "events").iterdir()]) == 1


def test_a_hook_cannot_train_in_an_evaluation(tmp_path: Path) -> None:
    notes = Notes()
    saves = At("after_episode", 2, lambda session: session.save_checkpoint())
    with pytest.raises(ValueError, match=r"a hook asked for session\.save_checkpoint during evaluate"):
        agent(tmp_path).evaluate(Counting(2), 2, hooks=[saves, notes])
    assert notes.events[-1][0] == "end"
    assert notes.facts["end"][0].reason.startswith("ValueError: a hook asked")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"episodes": 0}, "episodes must be an integer of at least 1, got 0"),
        ({"seed": -1}, "seed must be an integer of at least 0, got -1"),
    ],
)
def test_wrong_arguments_of_evaluate(arguments: dict[str, Any], message: str, tmp_path: Path) -> None:
    raised(ValueError, agent(tmp_path).evaluate, Counting(), **arguments, match=message)


def test_the_environment_of_an_evaluation_must_be_like_that_of_the_training(tmp_path: Path) -> None:
    one = agent(tmp_path).train(Counting(), timesteps=4)
    for fresh in (one, agent(tmp_path)):
        with pytest.raises(ValueError, match=r"this run's observation space is Box\(.*, the environment's is Box\("):
            fresh.evaluate("CartPole-v1")
        with pytest.raises(ValueError, match=r"action space is Discrete\(2\), the environment's is Discrete\(3"):
            fresh.evaluate(Counting(action_space=Discrete(3)))


@pytest.mark.parametrize(
    ("observations", "message"),
    [
        (np.zeros(3), r"observation must have the shape \[2\] or \[B, 2\], got \[3\]"),
        ([["a", "b"]], "observation must be float32, got <U1"),
        ([[1.0, np.nan]], "observation has NaN or infinity"),
    ],
)
def test_wrong_observations_are_refused(observations: Any, message: str, tmp_path: Path) -> None:
    one = agent(tmp_path)
    one.evaluate(Counting(), 1)
    with pytest.raises(ValueError, match=message):
        one.predict(observations)


def test_predict_from_a_dict_space(tmp_path: Path) -> None:
    def model(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        kinds = tf.one_hot(features["kind"] - 1, 3)
        return EstimatorSpec(mode, {"action": features["kind"] % 2, "both": tf.concat([features["t"], kinds], axis=1)})

    one = agent(tmp_path, model=model)
    assert one.evaluate(Named(4), 1)["episode_length_mean"] == 4
    predictions = one.predict({"t": [[5.0]], "kind": [2]})
    assert predictions["both"].tolist() == [[5, 0, 1, 0]]
    for wrong, message in (
        ({"t": [[5.0]]}, "must have the entries kind, t, got t"),
        ({"t": [[5.0]], "kind": [2, 1]}, "the entries of observation differ in batch size"),
    ):
        raised(ValueError, one.predict, wrong, match=message)


def test_another_model_does_not_fit(tmp_path: Path) -> None:
    agent(tmp_path).train(Counting(), timesteps=4)

    def other(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        predictions = linear_model(features, labels, mode).predictions or {}
        bias = tf.Variable(tf.zeros(2), name="bias")
        return EstimatorSpec(mode, {**predictions, "biased": predictions["values"] + bias})

    with pytest.raises(ValueError, match=r"does not fit .*other: it lacks 0001\.bias and has 0000\.weights"):
        agent(tmp_path, model=other).predict(OBSERVATIONS)
