"""What IMPALAAgent does behind its methods: acting by a policy, and learning from whole unrolls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from ....core.protocols import Array, ArraySpec, State
from ....core.tensorflow_import import load_tensorflow
from ..spaces import IntBox, Space
from ..specs.impala import lstm_units
from ..utils.rlgraph_errors import refuse
from .core import ONLY, Acted
from .fifo_queue import FIFOQueue
from .model_core import ModelCore
from .results import Loss
from .traced import TracedModel, specs_of
from .unrolls import joined, state_of, unrolls_of

_MODEL: Final = (
    *("network_spec", "architecture", "action_adapter_spec", "optimizer_spec", "reward_clipping", "weight_pg"),
    *("weight_baseline", "weight_entropy", "feed_previous_action_through_nn", "feed_previous_reward_through_nn"),
)
"""What the model takes of the normal form."""
STATE: Final = ("hidden", "cell")
"""The parts of the recurrent state, in the order in which callers have them."""


class Choice(NamedTuple):
    """What a policy chose for N states, and how."""

    actions: Array
    """int32 [N, ...], from 0."""
    explored: Array
    """bool [N]: was the action a random one of ``exploration_spec``?"""
    probs: Array
    """float32 [N, ..., A]: of each value of an action, random ones included."""
    log_probs: Array
    """float32 [N]: of the actions."""
    values: Array
    """float32 [N]: of the states."""
    internals: dict[str, Array] | None
    """After this timestep, [N, units] by name."""


def layout_of(form: Mapping[str, Any], states: Space, action: IntBox) -> dict[str, Any]:
    """What the unrolls are like that an agent makes and learns from."""
    feeds = ("feed_previous_action_through_nn", "feed_previous_reward_through_nn")
    return {
        "worker_sample_size": form["worker_sample_size"],
        "state_space": states.to_spec(),
        "action_space": action.to_spec(),
        "lstm": lstm_units(form),
        **{name: form[name] for name in feeds},
    }


class ImpalaCore(ModelCore):
    """An actor-critic that learns from unrolls.

    Args:
        name: of the agent, for messages.
        form: the normal form.
        states: the space of preprocessed states.
        action: that of the action, an IntBox.
        seed: of all that is drawn.
    """

    def __init__(self, name: str, form: Mapping[str, Any], states: Space, action: IntBox, seed: int) -> None:
        self._categories = int(action.num_categories or 0)
        numbered = IntBox(self._categories, shape=action.shape)  # actions count from 0 inside
        super().__init__(name, form, {ONLY: numbered}, seed)
        self._states, self._shape = states, action.shape
        self._low = np.broadcast_to(action.low, action.shape).astype(np.int32)
        self.length: int = form["worker_sample_size"]
        self.batch_size: int = form["update_spec"]["batch_size"]
        self.feeds_action: bool = form["feed_previous_action_through_nn"]
        self.feeds_reward: bool = form["feed_previous_reward_through_nn"]
        self._units = lstm_units(form)
        self._model = self._traced(states.flat(), seed)
        self._last_actions: dict[int, Array] = {}
        self.previous_rewards: Array | None = None
        """float32 [B], of the next call of :meth:`act`; None: zeros."""
        self.queue = FIFOQueue(form["memory_spec"]["capacity"])
        """Where unrolls wait."""

    def _traced(self, boxes: Mapping[str, Any], seed: int) -> TracedModel:
        load_tensorflow()
        from ..model.impala import model_fn
        from ..model.impala_networks import PREVIOUS_ACTION, PREVIOUS_REWARD

        self._previous = PREVIOUS_ACTION, PREVIOUS_REWARD
        observation = {name: ArraySpec(box.shape, box.dtype) for name, box in boxes.items()}
        if self.feeds_action:
            observation[PREVIOUS_ACTION] = ArraySpec(self._shape, np.int32)
        if self.feeds_reward:
            observation[PREVIOUS_REWARD] = ArraySpec((), np.float32)
        length, number = self.length, ArraySpec((self.length,), np.float32)
        names = ("reward", "discount", "terminal", "truncated", "final_value", "log_prob")
        row: dict[str, Any] = {
            "observation": {n: ArraySpec((length + 1, *s.shape), s.dtype) for n, s in observation.items()},
            "action": ArraySpec((length, *self._shape), np.int32),
            **dict.fromkeys(names, number),
        }
        if self._units is not None:
            row["state"] = dict.fromkeys(STATE, ArraySpec((self._units,), np.float32))
        params = {
            "form": {name: self.form[name] for name in _MODEL},
            "states": specs_of(boxes),
            "scale": _image_scale(boxes) if self.form["architecture"] else 1.0,
            "shape": self._shape,
            "categories": self._categories,
            "low": self._low,
        }
        rows = 0 if self.form["type"] == "actor" else self.batch_size
        return TracedModel(model_fn, params, observation, row, ("learning_rate",), rows, seed)

    # -- acting -------------------------------------------------------------------------------------------------------

    def act(
        self,
        features: Mapping[str, Array],
        internals: Mapping[str, Array] | None,
        explore: bool,
        timestep: int,
        lanes: Sequence[int],
    ) -> Acted:
        """As :meth:`Core.act`. Networks to which previous actions are fed get those of the same lanes."""
        actions, rewards = self.no_previous(len(lanes))
        rewards = rewards if self.previous_rewards is None else self.previous_rewards
        for row, lane in enumerate(lanes):
            actions[row] = self._last_actions.get(lane, -1)
        choice = self.choose(features, actions, rewards, internals, explore, timestep, lanes)
        if self.feeds_action:
            self._last_actions.update(zip(lanes, choice.actions.copy(), strict=True))
        return Acted({ONLY: choice.actions}, choice.explored, choice.internals)

    def forget_actions(self, lane: int | None) -> None:
        """An episode begins in a lane, or in all."""
        self._last_actions = {} if lane is None else {k: one for k, one in self._last_actions.items() if k != lane}

    def no_previous(self, rows: int) -> tuple[Array, Array]:
        """Actions [N, ...] and rewards [N] before the first timestep of episodes: -1 stands for none."""
        return np.full((rows, *self._shape), -1, np.int32), np.zeros(rows, np.float32)

    def choose(
        self,
        features: Mapping[str, Array],
        previous_actions: Array,
        previous_rewards: Array,
        internals: Mapping[str, Array] | None,
        explore: bool,
        timestep: int,
        lanes: Sequence[int],
    ) -> Choice:
        """Actions for states [N, ...], drawn from the policy, and perhaps from all actions by ``exploration_spec``.

        Without ``explore`` the likeliest ones, and nothing is drawn.
        """
        predictions, following = self._predict(features, previous_actions, previous_rewards, internals)
        probs = _softmax(predictions["logits"])  # [N, ..., A]
        actions, epsilon = predictions["action"] - self._low, 0.0
        explored: Array = np.zeros(len(lanes), np.bool_)
        if explore:
            summed = np.cumsum(probs, axis=-1)
            drawn = self.exploration_rng.random((*probs.shape[:-1], 1)) * summed[..., -1:]
            below = (summed <= drawn).sum(axis=-1)
            actions = np.minimum(below, self._categories - 1).astype(np.int32)
            if self._exploration is not None:
                found, explored = self._exploration({ONLY: actions}, timestep, self.exploration_rng, lanes)
                actions, epsilon = found[ONLY].astype(np.int32), self._exploration.level(timestep)
        taken = np.take_along_axis(probs, actions[..., None], axis=-1).reshape(len(lanes), -1).prod(axis=-1)
        number = float(self._categories ** int(np.prod(self._shape)))
        mixed = ((1.0 - epsilon) * probs + epsilon / self._categories).astype(np.float32)
        log_probs = np.log((1.0 - epsilon) * taken + epsilon / number).astype(np.float32)
        return Choice(actions, explored, mixed, log_probs, predictions["value"], following)

    def values(
        self, features: Mapping[str, Array], actions: Array, rewards: Array, internals: Mapping[str, Array] | None
    ) -> Array:
        """Of states [N, ...] that follow these actions and rewards, float32 [N]."""
        found: Array = self._predict(features, actions, rewards, internals)[0]["value"]
        return found

    def _predict(
        self, features: Mapping[str, Array], actions: Array, rewards: Array, internals: Mapping[str, Array] | None
    ) -> tuple[dict[str, Any], dict[str, Array] | None]:
        predictions, following = self._model.act({**features, **self._fed(actions, rewards)}, internals)
        return predictions, None if following is None else {name: following[name] for name in STATE}

    def _fed(self, actions: Array, rewards: Array) -> dict[str, Array]:
        """Of previous actions and rewards those that the network takes."""
        fed = zip(self._previous, (actions, rewards), (self.feeds_action, self.feeds_reward), strict=True)
        return {name: array for name, array, is_fed in fed if is_fed}

    def zero_internals(self, rows: int) -> dict[str, Array] | None:
        """As :meth:`Core.zero_internals`."""
        if self._units is None:
            return None
        return {name: np.zeros((rows, self._units), np.float32) for name in STATE}

    # -- learning -----------------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Unrolls in the queue."""
        return len(self.queue)

    @property
    def can_update(self) -> bool:
        """Is there a batch in the queue?"""
        return len(self.queue) >= self.batch_size

    def update(self, updates: int) -> Loss:
        """As :meth:`Core.update`: from the first unrolls of the queue, which leave it."""
        if not self.can_update:
            problem = f"needs {self.batch_size} unrolls, one batch; the queue has {len(self.queue)}"
            refuse(f"{self.name}.update: fifo_queue", f"{problem}: let an actor fill it before", len(self.queue))
        records = joined(self.queue.take(self.batch_size), self._states)
        numbers = self.learning_rates(updates)
        learned = self._model.train(self._batch(records), numbers, updates)
        each = learned.errors.sum(axis=1, dtype=np.float64)  # over time
        loss = float(each.mean())
        return Loss(loss, (updates + 1, loss, each.astype(np.float32), records))

    def _batch(self, records: Mapping[str, Any]) -> dict[str, Any]:
        """Such a dictionary as the model takes it."""
        terminated = records["terminals"] & ~records["truncated"]
        batch = {
            "observation": dict(self._states.flatten(records["states"])),
            "action": records["actions"],
            "reward": records["rewards"],
            "discount": np.where(terminated, 0.0, self.form["discount"]).astype(np.float32),
            "terminal": records["terminals"].astype(np.float32),
            "truncated": records["truncated"].astype(np.float32),
            "final_value": records["final_values"],
            "log_prob": records["log_probs"],
        }
        if self.feeds_action:
            batch["observation"][self._previous[0]] = records["previous_actions"]
        if self.feeds_reward:
            batch["observation"][self._previous[1]] = records["previous_rewards"]
        if self._units is not None:
            batch["state"] = dict(zip(STATE, records["initial_internal_states"], strict=True))
        return batch

    # -- state --------------------------------------------------------------------------------------------------------

    def state_dict(self) -> State:
        """Everything that acting and learning follow from, but the environments."""
        return {
            **super().state_dict(),
            "queue": state_of(self.queue.unrolls, self._states),
            "last_actions": {str(lane): action for lane, action in self._last_actions.items()},
        }

    def load_state_dict(self, state: State) -> None:
        """Take over what :meth:`state_dict` returned."""
        super().load_state_dict(state)
        self.queue.unrolls = unrolls_of(state["queue"], self._states)
        self._last_actions = {int(lane): action for lane, action in state["last_actions"].items()}


def _softmax(logits: Array) -> Array:
    """float64, over the last axis."""
    shifted = np.exp(logits.astype(np.float64) - logits.max(axis=-1, keepdims=True))
    found: Array = shifted / shifted.sum(axis=-1, keepdims=True)
    return found


def _image_scale(boxes: Mapping[str, Any]) -> float:
    """What images are divided by: 255, unless their space says that they are at most 1."""
    box = boxes[ONLY]
    excluded = 1.0 if box.dtype.kind in "iu" else 0.0
    return 1.0 if float(box.high.max()) - excluded <= 1.0 else 255.0
