"""IMPALAAgent and SingleIMPALAAgent: unrolls, V-trace and what is refused, by their numbers."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axonrl.compat.rlgraph import Environment, GridWorld, RLGraphWarning
from axonrl.compat.rlgraph.agents import Agent, IMPALAAgent, SingleIMPALAAgent
from axonrl.compat.rlgraph.spaces import FloatBox, IntBox
from axonrl.core.protocols import Array
from axonrl.runtimes import Policy

from .agents import equal, refused, scalars

pytestmark = pytest.mark.usefixtures("traced_once")

TERMINAL, TRUNCATED = "terminal", "truncated"
CARTPOLE = {"type": "openai", "gym_env": "CartPole-v1"}


class Script(Environment):
    """States (steps so far, episodes so far) / 10, rewards 0.5, 1.5, 2.5, ...; actions 5, 6 or 7."""

    def __init__(self, ends: dict[int, str] | None = None) -> None:
        super().__init__(FloatBox(shape=(2,)), IntBox(5, 8))
        self.ends = {2: TERMINAL, 4: TRUNCATED} if ends is None else ends
        self.steps = self.episodes = 0
        self.actions: list[int] = []

    def state(self) -> Array:
        return np.array([self.steps, self.episodes], np.float32) / 10

    def reset(self) -> Array:
        self.episodes += 1
        return self.state()

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any]:
        self.steps += 1
        self.actions.append(int(actions))
        end = self.ends.get(self.steps)
        return self.state(), self.steps - 0.5, end is not None, {"truncated": end == TRUNCATED}


LINEAR: dict[str, Any] = {
    "network_spec": [],
    "discount": 0.9,
    "worker_sample_size": 6,
    "update_spec": {"batch_size": 1},
    "reward_clipping": None,
    "weight_entropy": 0.1,
    "optimizer_spec": {"type": "gradient_descent", "learning_rate": 0.01},
    "execution_spec": {"seed": 3},
}
LSTM: list[dict[str, Any]] = [
    {"type": "dense", "units": 4, "activation": "tanh"},
    {"type": "lstm", "units": 3},
    {"type": "dense", "units": 4},
]
ENTROPY: dict[str, Any] = {
    "network_spec": LSTM,
    "weight_pg": 0,
    "weight_baseline": 0,
    "weight_entropy": 1,
    "optimizer_spec": {"type": "gradient_descent", "learning_rate": 0.0},
}
"""The loss is the negative entropy, and nothing is learnt."""


def make(type: str, environment: Any = Script, **more: Any) -> IMPALAAgent:
    return IMPALAAgent(**{**LINEAR, "type": type, "environment_spec": environment, **more})


def fill(actor: IMPALAAgent) -> dict[str, Any]:
    """The unroll that an actor of one environment makes next."""
    actor.call_api_method("perform_n_steps_and_insert_into_fifo")
    return actor.fifo_queue.unrolls[-1]


@pytest.mark.usefixtures("unconverted")
def test_a_single_agent_acts_and_learns() -> None:
    agent = SingleIMPALAAgent(
        environment_spec=CARTPOLE,
        num_workers=2,
        worker_sample_size=20,
        network_spec=[{"type": "dense", "units": 4}],
        update_spec={"batch_size": 4},
        execution_spec={"seed": 1},
    )
    error = refused(agent.update, {"states": np.zeros((1, 4))})
    assert error.argument == "SingleIMPALAAgent.update: batch"
    assert "learns from unrolls, not from given batches" in str(error)
    assert (agent.timesteps, agent.updates, agent.name) == (0, 0, "impala-single-agent")
    loss = agent.update()
    step, value, per_item, records = loss
    assert (agent.timesteps, agent.updates, len(agent.fifo_queue), step, len(loss)) == (80, 1, 0, 1, 4)
    assert float(loss) == value == pytest.approx(per_item.mean(), rel=1e-5)
    assert per_item.shape == (4,)
    assert records["states"].shape == (4, 21, 4)


def test_an_actor_and_a_learner_share_a_queue() -> None:
    actor = make("actor", fifo_queue_spec={"capacity": 2})
    actor.call_api_method("reset")
    first, _ = fill(actor), fill(actor)
    assert actor.call_api_method("get_queue_size") == len(actor.fifo_queue) == 2
    full = refused(fill, actor)
    assert "2 of at most 2" in str(full)
    assert "fifo_queue" in str(full.argument)
    assert actor.timesteps == 12
    learner = make("learner", fifo_queue_spec=actor.fifo_queue)
    _, _, _, records = learner.update()
    assert np.array_equal(records["states"][0], first["states"])
    assert len(actor.fifo_queue) == 1
    learner.update()
    assert learner.timesteps == 12  # from which it has learnt: its checkpoints and summaries go by them
    assert refused(learner.update).value == 0
    assert (learner.updates, learner.timesteps) == (2, 12)
    assert not equal(actor.get_policy_weights(), learner.get_policy_weights())
    actor.set_policy_weights(learner.get_policy_weights())
    assert equal(actor.get_policy_weights(), learner.get_policy_weights())


def test_unrolls_of_a_script(tmp_path: Path) -> None:
    environment = Script()
    summary = {"directory": str(tmp_path), "save_steps": 1}
    agent = make("actor", environment, fifo_queue_spec={"capacity": 2}, summary_spec=summary)
    first, second = fill(agent), fill(agent)
    assert np.allclose(first["states"] * 10, [[0, 1], [1, 1], [2, 2], [3, 2], [4, 3], [5, 3], [6, 3]])
    assert np.array_equal(second["states"][0], first["states"][-1])
    assert first["terminals"].tolist() == [False, True, False, True, False, False]
    assert first["truncated"].tolist() == [False, False, False, True, False, False]
    assert first["rewards"].tolist() == [0.5, 1.5, 2.5, 3.5, 4.5, 5.5]
    assert (np.concatenate([first["actions"], second["actions"]]) + 5).tolist() == environment.actions
    assert first["initial_internal_states"] == ()
    assert "previous_actions" not in first
    weights = agent.get_weights()
    last = np.array([0.4, 0.2]) @ weights["action-adapter/state-value/kernel"][:, 0]  # before the reset
    assert np.allclose(first["final_values"], np.array([0, 0, 0, last, 0, 0]), atol=1e-6)
    probs = policy(weights, first["states"][:-1])
    assert np.allclose(first["action_probs"], probs, atol=1e-6)
    assert np.allclose(first["log_probs"], np.log(probs[np.arange(6), first["actions"]]), atol=1e-6)
    assert (agent.episode_returns, agent.timesteps) == ([2.0, 6.0], 12)
    agent.terminate()
    found = [(step, values["episode_reward"]) for step, values in scalars(tmp_path) if "episode_reward" in values]
    assert found == [(2, 2.0), (4, 6.0)]


def test_epsilon_is_part_of_the_policy_that_acted() -> None:
    spec = {"epsilon_spec": {"decay_spec": {"type": "constant_decay", "constant_value": 0.3}}}
    agent = make("actor", exploration_spec=spec)
    unroll = fill(agent)
    probs = 0.7 * policy(agent.get_weights(), unroll["states"][:-1]) + 0.1
    assert np.allclose(unroll["action_probs"], probs, atol=1e-6)
    assert np.allclose(unroll["log_probs"], np.log(probs[np.arange(6), unroll["actions"]]), atol=1e-6)
    every = make("actor", exploration_spec={"epsilon_spec": {"decay_spec": {"from": 1.0, "to": 1.0}}})
    drawn, used = every.get_action(np.zeros((64, 2)), extra_returns="used_exploration")
    assert set(drawn.tolist()) == {5, 6, 7}
    assert used.all()


def test_sequences_begin_again_with_episodes() -> None:
    spec = [{"type": "sequence", "sequence_length": 2, "add_rank": False}]
    unroll = fill(make("actor", preprocessing_spec=spec))
    assert np.allclose(unroll["states"][:4, ::2] * 10, [[0, 0], [0, 1], [2, 2], [2, 3]])


def policy(weights: dict[str, Array], states: Array) -> Array:
    """Probabilities of the linear network, [T, A]."""
    logits = states @ weights["action-adapter/output/kernel"] + weights["action-adapter/output/bias"]
    found: Array = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    return found


def by_hand(weights: dict[str, Array], unroll: dict[str, Any], form: dict[str, Any]) -> tuple[float, dict[str, Array]]:
    """The loss of an unroll and its gradient, in float64, with V-trace as a recursion."""
    weights = {name: array.astype(np.float64) for name, array in weights.items()}
    states, actions, rewards = unroll["states"].astype(np.float64), unroll["actions"], unroll["rewards"]
    count, rows = len(actions), np.arange(len(actions))
    value = states @ weights["action-adapter/state-value/kernel"][:, 0] + weights["action-adapter/state-value/bias"]
    probs = policy(weights, states[:-1])
    taken = np.log(probs[rows, actions])
    ratio = np.minimum(np.exp(taken - unroll["log_probs"]), 1.0)
    after = np.where(unroll["truncated"], unroll["final_values"], value[1:])
    discount = np.where(unroll["terminals"] & ~unroll["truncated"], 0.0, 0.9)
    target, advantage, above = np.zeros(count), np.zeros(count), 0.0
    for t in reversed(range(count)):
        goes_on = not unroll["terminals"][t]
        following = after[t] + (above if goes_on else 0.0)
        advantage[t] = ratio[t] * (rewards[t] + discount[t] * following - value[t])
        above = ratio[t] * (rewards[t] + discount[t] * after[t] - value[t]) + (
            discount[t] * ratio[t] * above if goes_on else 0.0
        )
        target[t] = value[t] + above
    entropy = -(probs * np.log(probs)).sum(-1)
    losses = -taken * advantage + 0.5 * 0.5 * (target - value[:-1]) ** 2 - form["weight_entropy"] * entropy
    one_hot = np.eye(probs.shape[-1])[actions]
    by_logits = -advantage[:, None] * (one_hot - probs)
    by_logits += form["weight_entropy"] * probs * (np.log(probs) + entropy[:, None])
    by_value = -0.5 * (target - value[:-1])[:, None]
    gradients = {
        "action-adapter/output/kernel": states[:-1].T @ by_logits,
        "action-adapter/output/bias": by_logits.sum(0),
        "action-adapter/state-value/kernel": states[:-1].T @ by_value,
        "action-adapter/state-value/bias": by_value.sum(0),
    }
    return float(losses.sum()), gradients


def test_an_update_by_hand() -> None:
    actor = make("actor", fifo_queue_spec={"capacity": 2})
    learner = make("learner", fifo_queue_spec=actor.fifo_queue, update_spec={"batch_size": 2})
    rng = np.random.default_rng(0)
    other = {name: rng.normal(size=part.shape).astype(np.float32) for name, part in learner.get_weights().items()}
    learner.set_policy_weights(other)  # ratios on both sides of 1
    found = [by_hand(other, fill(actor), learner.form) for _ in range(2)]
    ratios = [
        policy(other, f["states"][:-1])[range(6), f["actions"]] / np.exp(f["log_probs"])
        for f in actor.fifo_queue.unrolls
    ]
    assert np.min(ratios) < 0.8 < 1.2 < np.max(ratios)
    _, loss, per_item, _ = learner.update()
    assert np.allclose(per_item, [loss for loss, _ in found], rtol=1e-5)
    assert loss == pytest.approx(np.mean([loss for loss, _ in found]), rel=1e-5)
    for name, after in learner.get_weights().items():
        gradient = (found[0][1][name] + found[1][1][name]) / 2  # summed over time, the mean of unrolls
        assert np.allclose(after, other[name] - 0.01 * gradient, rtol=1e-4, atol=1e-5), name


def test_rewards_are_clipped_in_the_loss() -> None:
    import tensorflow as tf

    from axonrl.compat.rlgraph.model.impala import clipped_rewards

    rewards = tf.constant([-10.0, -0.5, 0.0, 0.5, 10.0])
    assert clipped_rewards(rewards, None).numpy().tolist() == [-10.0, -0.5, 0.0, 0.5, 10.0]
    assert clipped_rewards(rewards, "clamp_one").numpy().tolist() == [-1.0, -0.5, 0.0, 0.5, 1.0]
    soft = clipped_rewards(rewards, "soft_asymmetric").numpy()
    assert np.allclose(soft, [-1.446041, -0.149502, 0.0, 0.498340, 4.820138], atol=1e-6)


@pytest.mark.usefixtures("unconverted")
def test_the_learner_unrolls_the_lstm_as_the_actor_stepped_it() -> None:
    agent = make("single", lambda: Script({2: TERMINAL, 4: TRUNCATED, 12: TERMINAL}), **ENTROPY)
    unrolls = [agent.update()[3] for _ in range(3)]
    assert not np.any(unrolls[0]["initial_internal_states"])
    assert np.all(unrolls[1]["initial_internal_states"])
    assert not np.any(unrolls[2]["initial_internal_states"])  # an episode ended before it
    for unroll in unrolls:
        probs = unroll["action_probs"].astype(np.float64)
        agent.fifo_queue.unrolls.append({name: _first(part) for name, part in unroll.items()})
        entropy = -(probs * np.log(probs)).sum()
        assert float(agent.update()) == pytest.approx(-entropy, rel=1e-5)
    assert unrolls[0]["previous_actions"][0].tolist() == _shifted(unrolls[0]["actions"][0].tolist(), -1)
    assert unrolls[0]["previous_rewards"][0].tolist() == _shifted([0.5, 1.5, 2.5, 3.5, 4.5, 5.5], 0)
    assert unrolls[1]["previous_rewards"][0, 0] == 5.5


def _first(part: Any) -> Any:
    return tuple(one[0] for one in part) if isinstance(part, tuple) else part[0]


def _shifted(values: list[Any], none: Any) -> list[Any]:
    """What was before each of 7 states, of which those after 2 and 4 steps begin episodes."""
    return [none, values[0], none, values[2], none, values[4], values[5]]


def test_acting_by_hand_goes_on_as_in_unrolls() -> None:
    actor = make("actor", lambda: Script({}), fifo_queue_spec={"capacity": 2}, **ENTROPY)
    first, second = fill(actor), fill(actor)
    error = refused(actor.export_graph, "x")
    assert error.argument == "IMPALAAgent.export_graph: feed_previous_action_through_nn"
    internals: list[Any] = []
    for t, state in enumerate(first["states"][:-1]):
        actor.impala_core.exploration_rng = Draws(first, t)  # type: ignore[assignment]
        reward = first["rewards"][t - 1] if t else None
        action, after = actor.get_action(state, previous_rewards=reward, extra_returns="internal_states")
        assert action - 5 == first["actions"][t]
        internals.append(after)
    assert np.allclose(second["initial_internal_states"], internals[-1], atol=1e-6)
    zeros = np.zeros(3, np.float32)
    state = first["states"][0]
    _, later = actor.get_action(state, internals=(zeros, zeros), extra_returns=["internal_states"])
    assert not np.allclose(later, internals[0], atol=1e-3)  # after an action
    actor.reset()
    _, fresh = actor.get_action(state, extra_returns="internal_states")
    assert np.allclose(fresh, internals[0], atol=1e-6)


class Draws:
    """Stands for the generator with which the policy chose an unroll's action."""

    def __init__(self, unroll: dict[str, Any], t: int) -> None:
        probs, action = unroll["action_probs"][t], unroll["actions"][t]
        self.value = probs[:action].sum() + probs[action] / 2

    def random(self, shape: Any) -> Array:
        return np.full(shape, self.value)


def test_greedy_actions_draw_nothing_and_are_those_of_an_export(tmp_path: Path) -> None:
    agents = [make("single"), make("single")]
    states = np.array([[0.5, -2.0], [1.0, 3.0], [-1.0, 0.5]])
    best = policy(agents[0].get_weights(), states).argmax(-1) + 5
    for _ in range(3):
        assert agents[0].get_action(states, None, False).tolist() == best.tolist()
    assert Policy.load(agents[0].export_graph(tmp_path / "policy")).act(states).tolist() == best.tolist()
    one = agents[0].get_action(states[0], use_exploration=False)
    assert (one.shape, one.dtype, agents[0].timesteps) == ((), np.int32, 10)
    explored = [[agent.get_action(states).tolist() for _ in range(5)] for agent in agents]
    assert explored[0] == explored[1] != [explored[0][0]] * 5
    assert float(agents[0].update()) == float(agents[1].update())


def test_equal_seeds_and_files_go_on_alike(tmp_path: Path) -> None:
    first, second = (make("single", GridWorld, num_workers=3, update_spec={"batch_size": 2}) for _ in range(2))
    assert [float(first.update()) for _ in range(3)] == [float(second.update()) for _ in range(3)]
    assert (len(first.fifo_queue), first.timesteps) == (0, 36)
    first.update()
    assert len(first.fifo_queue) == 1
    path = first.store_model(tmp_path)
    assert path.endswith("-54")
    others = [make("single", GridWorld, num_workers=3, update_spec={"batch_size": 2}) for _ in range(2)]
    for other in others:
        other.load_model(path)
    assert equal(others[0].get_weights(), first.get_weights())
    assert (others[0].timesteps, others[0].updates, len(others[0].fifo_queue)) == (54, 4, 1)
    saved, restored = first.fifo_queue.unrolls[0], others[0].fifo_queue.unrolls[0]
    assert saved.keys() == restored.keys()
    assert np.array_equal(saved["states"], restored["states"])
    losses = [[float(other.update()) for _ in range(3)] for other in others]
    assert losses[0] == losses[1]
    assert equal(others[0].get_weights(), others[1].get_weights())
    assert others[0].episode_returns == others[1].episode_returns
    assert others[0].episode_returns[: len(first.episode_returns)] == first.episode_returns != []
    assert "type is 'single'" in str(refused(make("actor", GridWorld).load_model, path))


def of_images(type: str, architecture: str) -> tuple[IMPALAAgent, list[Any]]:
    """An agent that sees a grid, and the shapes of its convolutions."""
    world = {"type": "grid_world", "world": "2x2", "state_representation": "cam"}
    agent = make(type, world, network_spec=None, architecture=architecture, worker_sample_size=2)
    weights = agent.get_weights()
    assert weights["lstm-0/kernel"].shape == (256 + 4 + 1, 4 * 256)
    assert [box.shape for box in agent.default_internal_states_space.flat().values()] == [(256,), (256,)]
    return agent, [part.shape for name, part in weights.items() if "conv2d" in name and name.endswith("kernel")]


def test_the_architectures_of_images_learn_with_all_their_parts(unconverted: None) -> None:
    assert of_images("actor", "small")[1] == [(8, 8, 3, 16), (4, 4, 16, 32)]
    agent, convolutions = of_images("single", "large")
    assert convolutions == [(3, 3, 3, 16), (3, 3, 16, 32), (3, 3, 32, 32)]
    before = agent.get_weights()
    assert np.isfinite(float(agent.update()))
    assert [name for name, after in agent.get_weights().items() if np.array_equal(before[name], after)] == []


def test_images_are_divided_by_255_unless_they_are_at_most_1() -> None:
    from axonrl.compat.rlgraph.agents.impala_core import image_scale

    spaces = IntBox(256, shape=(4, 4, 1), dtype="uint8"), IntBox(2, shape=(4, 4, 1))
    assert [image_scale(space.flat()) for space in spaces] == [255.0, 1.0]


def test_a_queue_is_as_large_as_its_role_needs() -> None:
    update = {"update_spec": {"batch_size": 3}, "fifo_queue_spec": {"type": "fifo"}, "auto_build": False}
    for role, capacity in (("actor", 1), ("learner", 3)):
        agent = IMPALAAgent(**{**LINEAR, "type": role, "environment_spec": Script, **update})
        assert agent.form["memory_spec"]["capacity"] == capacity


@pytest.mark.parametrize(
    ("more", "argument", "words"),
    [
        ({"environment_spec": None}, "environment_spec", "CartPole"),
        ({"type": "learner", "environment_spec": None}, "state_space", "environment_spec"),
        ({"num_actors": 2, "num_workers": 2}, "num_actors", "two names"),
        ({"network_spec": [{"type": "lstm", "units": 3}] * 2}, "network_spec", "dense"),
        ({"network_spec": LSTM, "internal_states_space": [FloatBox((4,))] * 2}, "internal_states_space", "(3,)"),
        (
            {"type": "learner", "fifo_queue_spec": {"capacity": 1}, "update_spec": {"batch_size": 2}},
            "fifo_queue_spec['capacity']",
            "2; got 1",
        ),
    ],
)
def test_what_cannot_be_made(more: dict[str, Any], argument: str, words: str) -> None:
    error = refused(IMPALAAgent, **{**LINEAR, "environment_spec": Script, "auto_build": False, **more})
    assert error.argument.removeprefix("IMPALAAgent: ") == argument
    assert words in str(error)


def test_calls_that_are_for_other_types() -> None:
    single, actor, learner = make("single"), make("actor"), make("learner")
    calls: list[tuple[Any, tuple[Any, ...], str]] = [
        (single.observe, ([0, 0], 5, [], 1.0, [0, 0]), ".observe"),
        (actor.update, (), ".update"),
        (actor.update, ({},), ".update: batch"),
        (lambda: single.get_action([0, 0], previous_rewards=1.0), (), ".get_action: previous_rewards"),
        (learner.call_api_method, ("perform_n_steps_and_insert_into_fifo",), ".call_api_method"),
    ]
    for call, given, argument in calls:
        assert refused(call, *given).argument == f"IMPALAAgent{argument}"
    error = refused(make, "learner", worker_sample_size=7, fifo_queue_spec=actor.fifo_queue)
    assert error.argument == "IMPALAAgent: fifo_queue_spec"
    assert "worker_sample_size is 6" in str(error)


def test_one_warning_names_all_that_has_no_effect() -> None:
    more: Any = {"observe_spec": {"buffer_size": 9}, "fifo_queue_spec": {"capacity": 2}}
    given = {**LINEAR, **more, "update_spec": {"update_mode": "episodes"}}
    with pytest.warns(RLGraphWarning) as warned:
        IMPALAAgent(**given, environment_spec=Script, dynamic_batching=True, auto_build=False)
    [one] = warned
    assert one.filename == __file__
    assert all(
        name in str(one.message) for name in ("dynamic_batching", "observe_spec", "fifo_queue_spec", "update_mode")
    )


def test_names_of_agents_and_types() -> None:
    spec = {**LINEAR, "environment_spec": Script, "auto_build": False}
    for one in (Agent.from_spec({**spec, "type": "IMPALA-agent"}), IMPALAAgent.from_spec({**spec, "type": "Single"})):
        assert (type(one), one.form["type"], one.form["num_workers"]) == (IMPALAAgent, "single", 1)
    actor = Agent.from_spec("impala", type="actor", num_actors=3, **spec)
    assert (actor.name, actor.form["num_workers"], actor.graph_built) == ("impala-actor-agent", 3, False)
    assert type(Agent.from_spec("single-impala", **spec)) is SingleIMPALAAgent
    assert SingleIMPALAAgent(3, 7, environment_spec=Script, network_spec=[], auto_build=False).form["num_workers"] == 3


def test_environments_end_with_the_agent_whatever_fails(tmp_path: Path) -> None:
    ended = []

    class Ends(Script):
        def terminate(self) -> None:
            ended.append(self)

    folder = tmp_path / "checkpoints"
    agent = make("single", Ends, num_workers=2, saver_spec={"directory": str(folder)})
    agent.update()
    folder.write_text("in the way")
    refused(agent.terminate)
    assert len(ended) == 2


def test_an_environment_that_fails_is_begun_again(tmp_path: Path) -> None:
    fails = itertools.cycle([False] * 8 + [True])

    class Fails(Script):
        def step(self, actions: Any) -> tuple[Any, Any, Any, Any]:
            if next(fails):
                raise RuntimeError("broken")
            return super().step(actions)

    summary = {"directory": str(tmp_path), "save_steps": 1}
    actor = make("actor", Fails({10: TERMINAL}), fifo_queue_spec={"capacity": 3}, summary_spec=summary)
    fill(actor)
    with pytest.raises(RuntimeError, match="broken"):
        fill(actor)
    assert len(actor.fifo_queue) == 1
    assert np.allclose(fill(actor)["states"][0] * 10, [8, 2])
    assert actor.timesteps == 15
    actor.terminate()
    found = [values["episode_reward"] for _, values in scalars(tmp_path) if "episode_reward" in values]
    assert found == actor.episode_returns == [8.5 + 9.5]  # without the episode that broke
