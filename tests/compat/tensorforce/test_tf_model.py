"""The model of all agents: losses, targets and steps against numbers worked out by hand, on weights that are set."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from axonrl.compat.common.value_specs import ValueSpec
from axonrl.compat.tensorforce.model.function import model_fn
from axonrl.compat.tensorforce.model.heads import GaussianHead
from axonrl.compat.tensorforce.model.objectives import clipped_ratio
from axonrl.compat.tensorforce.model.optimizers import clip_change, subsample, valid_first
from axonrl.core.protocols import ArraySpec, RunConfig
from axonrl.policies.executors import Executor
from axonrl.runtimes.tensorflow import TensorFlowExecutor
from axonrl.runtimes.tracing.program import Program
from axonrl.runtimes.tracing.signature import BoundModelFn

from .agents import refused

F32 = np.float32
STATES = {"state": ValueSpec("state", "float", (2,))}
INT = {"action": ValueSpec("action", "int", (), 3)}
FLOAT = {"action": ValueSpec("action", "float", ())}
IDENTITY = {"type": "layered", "layers": [{"type": "flatten"}]}
LIKELIHOOD = {"type": "policy_gradient", "ratio_based": False, "clipping_value": 0.0, "early_reduce": True}
RATIO = {**LIKELIHOOD, "ratio_based": True, "clipping_value": 0.25}
NATURAL = {"type": "natural_gradient", "learning_rate": 1e-3, "cg_max_iterations": 10, "cg_damping": 1e-4}


def policy(network: Any = IDENTITY, **changes: Any) -> dict[str, Any]:
    plain = {"distributions": {}, "temperature": 1.0, "use_beta_distribution": True, "infer_state_value": False}
    return {"network": network, **plain, **changes}


def sgd(rate: float) -> dict[str, Any]:
    return {"type": "sgd", "learning_rate": rate, "gradient_norm_clipping": 1000.0}


def value(kind: str, huber_loss: float = 0.0, **changes: Any) -> dict[str, Any]:
    return {"type": "value", "value": kind, "huber_loss": huber_loss, "early_reduce": True, **changes}


def baseline(**given: Any) -> dict[str, Any]:
    return {"policy": None, "objective": None, "optimizer": None, "weight": None, **given}


def synchronization(frequency: int, weight: float = 1.0) -> dict[str, Any]:
    return {"type": "synchronization", "sync_frequency": frequency, "update_weight": weight}


def form(*, late: bool = False, advantage: bool = False, **given: Any) -> dict[str, Any]:
    estimation = {"estimate_horizon": "late" if late else False, "estimate_advantage": advantage}
    plain = {"policy": policy(), "objective": LIKELIHOOD, "optimizer": sgd(1.0), "baseline": None}
    numbers = {"l2_regularization": 0.0, "entropy_regularization": 0.0, "dueling": False, "double": False}
    return {**plain, **numbers, "reward_estimation": estimation, **given}


class Agent:
    """A traced model with weights that are set by the ends of their names; all others are zero."""

    def __init__(
        self,
        normal: dict[str, Any],
        batch: dict[str, Any],
        actions: Any = INT,
        weights: Mapping[str, Any] | None = None,
    ) -> None:
        params = {"form": normal, "states": STATES, "actions": actions}
        masks = {f"{name}_mask": spec.mask for name, spec in actions.items() if spec.type == "int"}
        observation = {name: spec.array for name, spec in STATES.items()} | masks
        self.batch = completed(batch, masks)
        self.program = Program(BoundModelFn(model_fn, params, RunConfig(), None), observation, 0)
        self.train = self.program.trace_train(specs_of(self.batch))
        self.executor: Executor = TensorFlowExecutor(self.program, self.train)
        if weights is not None:
            self.set(weights)

    def set(self, weights: Mapping[str, Any]) -> None:
        """Set weights by the ends of their names, and all others to zero."""
        zeros = {name: np.zeros_like(array) for name, array in self.executor.get_weights().items()}
        for end, array in weights.items():
            (name,) = [name for name in zeros if name.endswith(end) and "optimizer" not in name]
            zeros[name] = np.broadcast_to(np.array(array, F32), zeros[name].shape).copy()
        self.executor.set_weights(zeros)

    def update(self, step: int = 0, **changes: Any) -> dict[str, float]:
        rng = np.random.default_rng(step)
        counters = {"global_step": step, "global_timestep": 0, "progress": 0.0}
        draws = [request.draw(rng) for request in self.train.noise]
        found = self.executor.train({**self.batch, **changes}, counters, draws)
        return dict(zip(("loss", *self.train.metrics), found.scalars.tolist(), strict=True))

    def __getitem__(self, end: str) -> Any:
        weights = self.executor.get_weights()
        (name,) = [name for name in weights if name.endswith(end) and "optimizer" not in name]
        return weights[name]

    def act(self, **observation: Any) -> dict[str, Any]:
        predictions, _ = self.executor.act(arrays(observation))
        return dict(predictions)


def completed(batch: dict[str, Any], masks: Mapping[str, ArraySpec]) -> dict[str, Any]:
    """A batch with states of zeros and masks that allow all, where it has none."""
    batch = {"valid": np.ones(len(batch["reward"])), "hyper": {}, **batch}
    places = ["observation"] + ["next_observation"] * ("discount" in batch)
    rows = len(batch["reward"])
    plain = {name: np.ones((rows, *spec.shape), np.bool_) for name, spec in masks.items()}
    for place in places:
        batch[place] = {"state": np.zeros((rows, 2)), **plain, **batch.get(place, {})}
    return arrays(batch)  # type: ignore[no-any-return]


def arrays(tree: Any) -> Any:
    """Arrays of float32, int32 or bool."""
    if isinstance(tree, dict):
        return {name: arrays(part) for name, part in tree.items()}
    array = np.asarray(tree)
    return array.astype({"f": F32, "i": np.int32, "b": np.bool_}[array.dtype.kind])


def specs_of(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {name: specs_of(part) for name, part in tree.items()}
    return ArraySpec(tree.shape, tree.dtype)


def test_ratios_are_clipped_to_the_quotient_and_the_sum() -> None:
    ratio, gain = tf.constant([[0.5], [0.5], [1.5], [1.5], [1.1]]), tf.constant([[1.0], [-1.0], [1.0], [-1.0], [1.0]])
    found = clipped_ratio(ratio, gain, tf.constant(0.25))
    np.testing.assert_allclose(found[:, 0], [-0.5, 0.8, -1.25, 1.5, -1.1])  # 0.8 = 1 / 1.25
    np.testing.assert_allclose(clipped_ratio(ratio, gain, tf.constant(0.0)), -ratio * gain)


@pytest.mark.parametrize(("fraction", "weight"), [(0.1, [1, 0, 0, 0]), (0.5, [1, 0, 0, 0]), (2 / 3, [1, 1, 0, 0])])
def test_subsampling_draws_from_valid_rows_and_weighs_the_surplus_with_zero(fraction: float, weight: Any) -> None:
    valid = tf.constant([1.0, 0.0, 1.0, 1.0])
    order = valid_first(valid, 4)
    assert order.numpy().tolist() == [0, 2, 3, 1]
    places, weights = subsample(tf.constant([0.0, 0.34, 0.9999999, 0.5]), valid, order, fraction)
    assert places.numpy().tolist() == [0, 2, 3, 2]
    assert weights.numpy().tolist() == weight  # floor(fraction * 3), at least 1


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("value", [1, -1, 0.5]), ("norm", [0.6, -0.8, 0.5]), ("global_norm", np.array([3, -4, 0.5]) / np.sqrt(25.25))],
)
def test_clipped_changes(mode: str, expected: Any) -> None:
    change = tf.constant([3.0, -4.0, 0.5])
    np.testing.assert_allclose(clip_change(change, [2, 1], mode, tf.constant(1.0)), expected, rtol=1e-6)
    np.testing.assert_array_equal(clip_change(change, [2, 1], mode, tf.constant(9.0)), change)


NUMBERS = {"optimizer/learning_rate": 1.0, "l2_regularization": 0.0, "entropy_regularization": 0.0}
ONE: dict[str, Any] = {"action": np.array([0]), "reward": [1.0]}
UNIFORM = {"action": np.array([0, 2, 1]), "reward": [1.0, -2.0, 7.0], "valid": [1.0, 1.0, 0.0]}


@pytest.fixture(scope="module")
def gradient() -> Agent:
    return Agent(form(), {**UNIFORM, "hyper": arrays(NUMBERS)})


def test_policy_gradient(gradient: Agent) -> None:
    agent = gradient
    agent.set({})
    found = agent.update()
    assert found["loss"] == found["policy_loss"] == pytest.approx(-np.log(3) / 2, rel=1e-5)
    assert (found["empirical_reward"], found["estimated_reward"]) == (-0.5, -0.5)
    assert found["entropy"] == pytest.approx(np.log(3), rel=1e-5)
    # half the sum of rewards times (one-hot less 1/3)
    np.testing.assert_allclose(agent["policy/action-distribution/logits/bias"], [2 / 3, 1 / 6, -5 / 6], rtol=1e-5)
    assert found["update_norm"] == pytest.approx(np.sqrt(4 / 9 + 1 / 36 + 25 / 36), rel=1e-5)
    p = np.exp([2 / 3, 1 / 6, -5 / 6])
    assert found["kl"] == pytest.approx(-np.log(3) - np.log(p / p.sum()).mean(), rel=1e-4)


def test_masked_values_have_no_likelihood(gradient: Agent) -> None:
    mask = np.array([[True, False, True], [True, True, True], [True, True, True]])
    gradient.set({})
    found = gradient.update(observation={**gradient.batch["observation"], "action_mask": mask})
    assert found["loss"] == pytest.approx(-(np.log(1 / 2) - 2 * np.log(1 / 3)) / 2, rel=1e-5)


def test_regularisation_and_fed_numbers(gradient: Agent) -> None:
    agent = gradient
    agent.set({"logits/bias": 2.0})
    hyper = {"optimizer/learning_rate": 0.0, "l2_regularization": 0.01, "entropy_regularization": 0.5}
    found = agent.update(hyper=arrays(hyper))
    assert found["regularization_loss"] == pytest.approx(0.01 * 12 - 0.5 * np.log(3), rel=1e-5)
    assert found["loss"] == pytest.approx(found["policy_loss"] + found["regularization_loss"], rel=1e-5)
    assert agent["logits/bias"].tolist() == [2, 2, 2]  # a learning rate of 0 is legal
    assert (found["update_norm"], found["kl"]) == (0, 0)


def test_a_layer_may_have_its_own_regularisation() -> None:
    layers = [{"type": "linear", "size": 2, "bias": False}, {"type": "linear", "size": 2, "l2_regularization": 0.5}]
    network = {"type": "layered", "layers": layers}
    batch = {"action": [0], "reward": [0.0], "hyper": arrays({**NUMBERS, "l2_regularization": 0.01})}
    weights = {"linear0/kernel": 1.0, "linear1/kernel": 2.0, "linear1/bias": 1.0, "logits/bias": 3.0}
    found = Agent(form(policy=policy(network)), batch, weights=weights).update()
    assert found["regularization_loss"] == pytest.approx(0.01 * (4 + 27) + 0.5 * (16 + 2), rel=1e-5)


def test_log_probabilities_of_several_actions_are_summed_and_values_averaged() -> None:
    actions = {"arm": ValueSpec("arm", "int", (2,), 3), "lamp": ValueSpec("lamp", "bool", ())}
    batch = {"action": {"arm": np.array([[0, 2]]), "lamp": [1.0]}, "reward": [1.0]}
    found = Agent(form(), batch, actions, {}).update()
    assert found["loss"] == pytest.approx(2 * np.log(3) + np.log(2), rel=1e-5)
    weights = {"arm-distribution/logits/bias": [1, 0, 0, 0, 0, 3], "lamp-distribution/logit/bias": 1.0}
    both = {"type": "plus", "objective1": value("action"), "objective2": value("action", early_reduce=False)}
    agent = Agent(form(objective=both), batch, actions, weights | {"states-value/bias": 4.5})
    early, late = 0.5 * (1 - (1 + 3 + 5) / 3) ** 2, 0.5 * (0 + 4 + 16) / 3  # 5 = 4.5 + 1 / 2
    predicted = agent.act(state=[[0.0, 0.0]], arm_mask=np.ones((1, 2, 3), np.bool_))
    assert agent.update()["loss"] == pytest.approx(early + late, rel=1e-5)
    action = predicted.pop("action")
    assert {name: array.shape for name, array in predicted.items()} == {"logits/arm": (1, 2, 3), "logit/lamp": (1,)}
    assert (action["arm"].tolist(), action["lamp"].tolist()) == ([[0, 2]], [True])


def test_ratios_refer_to_the_policy_at_the_start_of_the_update() -> None:
    steps = {"type": "multi_step", "num_steps": 2, "optimizer": sgd(1.0)}
    agent = Agent(form(objective=RATIO, optimizer=steps), ONE, weights={})
    loss = agent.update()["loss"]
    p = np.exp([2 / 3, -1 / 3, -1 / 3])  # after one step
    assert 3 * p[0] / p.sum() > 1.25
    assert loss == pytest.approx(-(1 + 1.25) / 2, rel=1e-5)
    np.testing.assert_allclose(agent["logits/bias"], [2 / 3, -1 / 3, -1 / 3], rtol=1e-5)  # clipped: no gradient


Q: dict[str, Any] = {
    "objective": value("action"),
    "policy": policy(infer_state_value="action-values"),
    "optimizer": sgd(0.5),
}
COPIED = {"policy": policy(infer_state_value="action-values"), "optimizer": synchronization(2)}
LEGAL = np.array([[True, True, False]])
Q_WEIGHTS = {"policy/action-distribution/logits/bias": [1, 5, 3], "baseline/action-distribution/logits/bias": [4, 1, 9]}
NEXT = {"discount": [0.5], "next_observation": {"action_mask": LEGAL}}


def q_agent(*, double: bool = False, optimizer: Any = None) -> Agent:
    batch = {"action": np.array([2]), "reward": [1.0], **NEXT}
    copied = baseline(**COPIED) if optimizer is None else baseline(**{**COPIED, "optimizer": optimizer})
    return Agent(form(**Q, late=True, double=double, baseline=copied), batch, weights=Q_WEIGHTS)


def test_targets_are_legal_values_of_the_copy() -> None:
    agent = q_agent()
    found = agent.update(step=1)
    assert found["loss"] == pytest.approx(0.5 * (1 + 0.5 * 4 - 3) ** 2, abs=1e-6)
    assert (found["empirical_reward"], found["estimated_reward"]) == (1, 3)
    assert agent.update(step=1, reward=np.array([3], F32))["loss"] == pytest.approx(0.5 * (3 + 0.5 * 4 - 3) ** 2)
    np.testing.assert_allclose(agent["policy/action-distribution/logits/bias"], [1, 5, 4])
    np.testing.assert_allclose(agent["baseline/action-distribution/logits/bias"], [4, 1, 9])
    assert q_agent(double=True).update(step=1)["loss"] == pytest.approx(0.5 * (1 + 0.5 * 1 - 3) ** 2)


def test_synchronization() -> None:
    bias = "baseline/action-distribution/logits/bias"
    agent = q_agent(optimizer=synchronization(2, 0.25))
    assert agent.update(step=3, reward=np.array([1], F32)) is not None
    assert agent[bias].tolist() == [4, 1, 9]
    agent.update(step=4)
    np.testing.assert_allclose(agent[bias], [3.25, 2, 7.5])
    agent.set(Q_WEIGHTS)
    agent.update(step=0)
    np.testing.assert_allclose(agent[bias], [1, 5, 3])  # the first one makes it equal


def test_dueling() -> None:
    weights = {"logits/bias": [1, 2, 6], "states-value/bias": 10.0}
    agent = Agent(form(objective=value("action"), dueling=True), UNIFORM, weights=weights)
    predicted = agent.act(state=[[0.0, 0.0]], action_mask=[[True, True, False]])
    np.testing.assert_allclose(predicted["logits/action"], [[8, 9, 13]])
    assert predicted["action"].tolist() == [1]


def test_huber_loss() -> None:
    found = Agent(form(objective=value("state", 0.5)), UNIFORM, weights={}).update()
    assert found["loss"] == pytest.approx((0.5 * 0.75 + 0.5 * 1.75) / 2)


@pytest.mark.parametrize(("mode", "parameter", "expected"), [("exponential", 0.5, 1.5), ("linear", 0.4, 0.6)])
def test_optimizing_step(mode: str, parameter: float, expected: float) -> None:
    """Half the square of 1 - v falls by at least 0.2 of what the gradient, 1, promises: of the steps 3, ... for v."""
    search = {"type": "optimizing_step", "ls_max_iterations": 5, "ls_accept_ratio": 0.2, "ls_mode": mode}
    normal = form(objective=value("state"), optimizer={**search, "ls_parameter": parameter, "optimizer": sgd(3.0)})
    agent = Agent(normal, ONE, weights={})
    agent.update()
    assert agent["states-value/bias"] == pytest.approx([expected], rel=1e-5)


def test_multi_step_and_clipping_step() -> None:
    clipping = {"type": "clipping_step", "threshold": 0.25, "mode": "value", "optimizer": sgd(0.5)}
    normal = form(objective=value("state"), optimizer={"type": "multi_step", "num_steps": 3, "optimizer": clipping})
    agent = Agent(normal, ONE, weights={})
    assert agent.update()["loss"] == pytest.approx((1 + 0.75**2 + 0.5**2) / 6)
    assert agent["states-value/bias"] == pytest.approx([0.75])


def test_plus_and_evolutionary() -> None:
    both = {"type": "plus", "optimizer1": sgd(0.5), "optimizer2": sgd(0.25)}
    agent = Agent(form(objective=value("state"), optimizer=both), ONE, weights={})
    agent.update()
    assert agent["states-value/bias"] == pytest.approx([0.5 + 0.25 * 0.5])  # the error is 1, then 0.5
    agent = Agent(
        form(objective=value("state"), optimizer={"type": "evolutionary", "learning_rate": 0.1, "num_samples": 2}),
        *(ONE, INT, {}),
    )
    (request,) = agent.train.noise
    agent.update(step=3)
    change = 0.1 * request.draw(np.random.default_rng(3))[0]  # [2, P]; only the bias of the value changes the loss
    means = np.abs(change).mean(0)  # the value is too small: a draw counts upwards
    assert np.abs(means - agent["states-value/bias"]).min() < 1e-6


def test_a_baseline_with_an_optimizer_is_trained_before_the_policy() -> None:
    own = baseline(policy=policy(), objective=value("state"), optimizer=sgd(1.0))
    agent = Agent(form(advantage=True, baseline=own), ONE, weights={})
    found = agent.update()
    assert agent["baseline/states-value/bias"] == pytest.approx([1])
    assert found["baseline_loss"] == pytest.approx(0.5)
    assert (found["loss"], found["update_norm"]) == (0, 0)  # the advantage is 0 then
    assert (found["empirical_reward"], found["estimated_reward"]) == (1, 0)


def test_a_baseline_with_a_weight_is_trained_with_the_policy() -> None:
    own = baseline(policy=policy(), objective=value("state"), weight=0.5)
    agent = Agent(form(advantage=True, baseline=own), ONE, weights={})
    found = agent.update()
    assert found["loss"] == pytest.approx(np.log(3) + 0.5 * 0.5, rel=1e-5)
    assert agent["baseline/states-value/bias"] == pytest.approx([0.5])


def test_values_beside_likelihoods_learn_returns_and_not_advantages() -> None:
    both = {"type": "plus", "objective1": LIKELIHOOD, "objective2": value("state")}
    agent = Agent(form(advantage=True, objective=both), ONE, weights={"states-value/bias": 0.5})
    assert agent.update()["loss"] == pytest.approx(0.5 * np.log(3) + 0.5 * 0.5**2, rel=1e-5)
    assert agent["states-value/bias"] == pytest.approx([1.0])


def test_a_baseline_alone_is_trained_through_the_advantage() -> None:
    agent = Agent(
        form(advantage=True, baseline=baseline(policy=policy())), ONE, weights={"baseline/states-value/bias": 0.25}
    )
    assert agent.update()["estimated_reward"] == 0.75
    change = agent["baseline/states-value/bias"] - 0.25
    assert change == pytest.approx([np.log(3)], rel=1e-5)  # -log p (R - V) falls with V


def test_a_policy_gradient_continues_with_the_expected_value_of_actions() -> None:
    own = baseline(policy=policy(), objective=value("action"), weight=1.0)
    weights = {"baseline/action-distribution/logits/bias": [3, 1, 8]}
    agent = Agent(form(late=True, baseline=own), {"action": np.array([1]), "reward": [1.0], **NEXT}, weights=weights)
    assert agent.update()["baseline_loss"] == pytest.approx(0.5 * (1 + 0.5 * (3 + 1) / 2 - 1) ** 2)


def test_deterministic_policy_gradient_moves_actions_only() -> None:
    own = baseline(policy=policy(), objective=value("action"), weight=0.0)
    kernel = np.array([[0, 0], [0, 0], [1, 0]])  # of two state numbers and the action
    weights = {"action-dense/kernel": kernel, "action-value/kernel": [[2], [0]]}
    batch = {"action": [0.3], "reward": [0.0], "discount": [1.0]}
    agent = Agent(
        form(late=True, objective={"type": "deterministic_policy_gradient"}, baseline=own), batch, FLOAT, weights
    )
    found = agent.update()
    assert found["policy_loss"] == 0  # -2 tanh(0)
    assert found["baseline_loss"] == pytest.approx(0.5 * (2 * np.tanh(0.3)) ** 2, rel=1e-5)
    assert agent["mean/bias"] == pytest.approx([2.0])  # the slope of 2 tanh at 0
    np.testing.assert_array_equal(agent["action-dense/kernel"], kernel)
    assert agent.act(state=[[0.0, 0.0]])["action"] == pytest.approx([2.0])


def test_a_natural_gradient_of_policy_and_baseline_together_moves_both() -> None:
    own = baseline(policy=policy(), objective=value("state"), weight=1.0)
    agent = Agent(form(optimizer=NATURAL, baseline=own), ONE, weights={})
    assert agent.update(reward=np.zeros(1, F32))["update_norm"] == 0  # and no division by it
    kl = agent.update()["kl"]
    # Along the gradients (2, -1, -1) / 3 and 1, whose Fisher information is 1 / 3 and 1: the policy goes 3 times as far
    # as its gradient, so that 3 * 2 / 3 = 2 parts of 3 of the radius are its own.
    assert kl == pytest.approx(1e-3 * 2 / 3, rel=0.05)
    assert agent["baseline/states-value/bias"] == pytest.approx([np.sqrt(2e-3 / 3)], rel=0.01)


def test_a_gaussian_values_actions_by_their_likelihood_and_a_beta_does_not() -> None:
    """-(a - mean)^2 / 2 - 2 log(stddev) - log(2 pi), with a stddev of e; what follows has that of its mean."""
    batch = {"action": [2.0], "reward": [1.0], "discount": [0.5]}
    estimation = {"estimate_horizon": "late", "estimate_advantage": False, "estimate_actions": True}
    weights = {"mean/bias": 1.0, "stddev/bias": 1.0}
    agent = Agent(form(objective=value("action"), reward_estimation=estimation), batch, FLOAT, weights)
    best = -2 - np.log(2 * np.pi)
    target = 1 + 0.5 * best
    assert agent.update()["loss"] == pytest.approx(0.5 * (target - (best - 0.5 * np.exp(-2))) ** 2, rel=1e-4)
    bounded = {"action": ValueSpec("action", "float", (), None, -1.0, 1.0)}
    error = refused(Agent, form(objective=value("action")), {"action": [0.0], "reward": [0.0]}, bounded)
    assert error.argument.startswith("Agent.create: ")


def test_a_network_with_axes_describes_each_component_at_its_place() -> None:
    head = GaussianHead(ValueSpec("action", "float", (2,)), 3, (2,), valued=False, dueling=False)
    kernel, *_ = head.variables
    kernel.assign([[1.0], [10.0], [100.0]])
    found = head(tf.constant([[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]]))
    np.testing.assert_array_equal(found["mean"], [[321.0, 654.0]])
    states = {"state": ValueSpec("state", "float", (2, 3))}
    network = policy({"type": "layered", "layers": [{"type": "reshape", "shape": [2, 3]}]})
    bound = BoundModelFn(
        model_fn, {"form": form(policy=network), "states": states, "actions": INT}, RunConfig(seed=0), None
    )
    error = refused(Program, bound, {"state": states["state"].array, "action_mask": INT["action"].mask}, 0)
    assert error.argument == "Agent.create: policy['network']"
