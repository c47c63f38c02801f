"""The core of IMPALAAgent: sampling actions, and learning from whole unrolls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from ....core.protocols import Array, ArraySpec, State
from ....core.tensorflow_import import load_tensorflow
from ...common.processing.steps import ACTIVATIONS
from ..spaces import Space
from ..specs.impala import PREVIOUS_ACTION, PREVIOUS_REWARD, lstm_units
from ..utils.rlgraph_errors import refuse
from .core import ONLY, Acted, Asked, Core
from .fifo_queue import INTERNALS, STATES, FIFOQueue
from .results import Loss
from .rollout_core import policy_of
from .traced import TracedModel, arrays_of, lows_of, specs_of

FEEDS: Final = {
    PREVIOUS_ACTION: ("feed_previous_action_through_nn", "previous_actions"),
    PREVIOUS_REWARD: ("feed_previous_reward_through_nn", "previous_rewards"),
}
"""Inputs that may be fed besides states: the argument that turns one on, and its name in unrolls."""
_MODEL: Final = (
    *("network_spec", "architecture", "action_adapter_spec", "optimizer_spec", "reward_clipping", "weight_pg"),
    *("weight_baseline", "weight_entropy"),
)
"""Keys of the normal form that the model takes."""
_LABELS: Final = ("reward", "discount", "terminal", "truncated", "final_value", "log_prob")
_STATE: Final = ("hidden", "cell")
"""The parts of the recurrent state, in callers' order."""


class ImpalaCore(Core):
    """An actor-critic that learns from unrolls.

    Its arguments are those of :class:`Core`.

    Attributes:
        memory: queue of waiting unrolls.
        layout: description of its unrolls.
        fed: names of the inputs that are fed besides states.
        previous_rewards: previous rewards for the next call of :meth:`act`, float32 [B]; None: zeros.
    """

    memory: FIFOQueue
    model: TracedModel

    def __init__(self, name: str, form: Mapping[str, Any], states: Space, actions: Space, seed: int) -> None:
        super().__init__(name, form, states, actions, seed)
        box: Any = self.boxes[ONLY]
        self._low, self._categories = lows_of(box), int(box.num_categories)
        self.policy = policy_of(self.boxes)
        self.length: int = form["worker_sample_size"]
        self.batch_size: int = form["update_spec"]["batch_size"]
        self.fed = tuple(name for name, (argument, _) in FEEDS.items() if form[argument])
        self._units = lstm_units(form)
        self.model = self._trace_model(states.flat(), seed)
        self._last_actions: dict[str, Array] = {}
        """Last actions by environment, from 0."""
        self.previous_rewards: Array | None = None
        self.layout: dict[str, Any] = {
            "worker_sample_size": self.length,
            "state_space": states.to_spec(),
            "action_space": actions.to_spec(),
            "lstm": self._units,
            **{argument: form[argument] for argument, _ in FEEDS.values()},
        }
        self.memory = FIFOQueue(form["memory_spec"]["capacity"], states, self.layout)

    def _trace_model(self, boxes: Mapping[str, Any], seed: int) -> TracedModel:
        load_tensorflow()
        from ..model.impala import model_fn

        shape, length = self._low.shape, self.length
        previous = {PREVIOUS_ACTION: ArraySpec(shape, np.int32), PREVIOUS_REWARD: ArraySpec((), np.float32)}
        observation = arrays_of(boxes) | {name: previous[name] for name in self.fed}
        row: dict[str, Any] = {
            "observation": {n: ArraySpec((length + 1, *s.shape), s.dtype) for n, s in observation.items()},
            "action": ArraySpec((length, *shape), np.int32),
            **dict.fromkeys(_LABELS, ArraySpec((length,), np.float32)),
        }
        if self._units is not None:
            row["state"] = dict.fromkeys(_STATE, ArraySpec((self._units,), np.float32))
        params = {
            "form": {name: self.form[name] for name in _MODEL},
            "states": specs_of(boxes),
            "scale": image_scale(boxes) if self.form["architecture"] else 1.0,
            "fed": self.fed,
            "shape": shape,
            "categories": self._categories,
            "low": self._low,
        }
        rows = 0 if self.form["type"] == "actor" else self.batch_size
        return TracedModel(model_fn, params, observation, row, rows, seed)

    # -- acting -------------------------------------------------------------------------------------------------------

    def act(self, asked: Asked) -> Acted:
        """See :meth:`Core.act`. Networks that take previous actions get those of the same environment."""
        none = np.full(self._low.shape, -1, np.int32)
        actions = np.stack([self._last_actions.get(env_id, none) for env_id in asked.ids])
        rewards = np.zeros(len(actions), np.float32) if self.previous_rewards is None else self.previous_rewards
        acted = self.choose(asked._replace(features={**asked.features, **self.previous(actions, rewards)}))
        if PREVIOUS_ACTION in self.fed and acted.extras is not None:
            self._last_actions.update(zip(asked.ids, acted.extras["actions"], strict=True))
        return acted

    def forget_actions(self, env_id: str | None) -> None:
        """Forget the last action of an environment, or of all: another episode begins."""
        for name in list(self._last_actions) if env_id is None else [env_id]:
            self._last_actions.pop(name, None)

    def previous(self, actions: Array, rewards: Array) -> dict[str, Array]:
        """Select previous actions [N, ...], from 0, and rewards [N] that the network takes, as features."""
        given = {PREVIOUS_ACTION: actions, PREVIOUS_REWARD: rewards}
        return {name: given[name] for name in self.fed}

    def choose(self, asked: Asked) -> Acted:
        """Draw actions from the policy, or uniformly where ``exploration_spec`` explores.

        Args:
            asked: the request; its features include the inputs fed besides states.

        Returns:
            Actions, with the extras ``actions`` int32 [N, ...], from 0, ``action_probs`` float32 [N, ..., A] of each
            value of an action, and ``log_probs`` float32 [N] of the actions, including random ones.
        """
        predictions, following = self.model.act(asked.features, asked.internals)
        rows, epsilon, actions = len(asked.ids), 0.0, {ONLY: predictions["action"]}
        explored: Array = np.zeros(rows, np.bool_)
        if asked.explore:
            logits = predictions["logits"].reshape(rows, -1)
            drawn, _ = self.policy({"logits": logits}, asked.timestep, self.exploration_rng)
            actions, explored = self.explore({ONLY: drawn}, asked)
            epsilon = 0.0 if self.exploration is None else self.exploration.level(asked.timestep)
        index = actions[ONLY].astype(np.int32) - self._low
        probs = ACTIVATIONS["softmax"](predictions["logits"].astype(np.float64))  # [N, ..., A]
        taken = np.take_along_axis(probs, index[..., None], axis=-1).reshape(rows, -1).prod(axis=-1)
        number = float(self._categories**self._low.size)
        extras = {
            "actions": index,
            "action_probs": ((1.0 - epsilon) * probs + epsilon / self._categories).astype(np.float32),
            "log_probs": np.log((1.0 - epsilon) * taken + epsilon / number).astype(np.float32),
        }
        state = None if following is None else {name: following[name] for name in _STATE}
        return Acted(actions, explored, state, extras)

    def values(self, features: Mapping[str, Array], internals: Mapping[str, Array] | None) -> Array:
        """Values of states, float32 [N], from features [N, ...]."""
        found: Array = self.model.act(features, internals)[0]["value"]
        return found

    def zero_internals(self, rows: int) -> dict[str, Array] | None:
        """See ``Core.zero_internals``."""
        if self._units is None:
            return None
        return {name: np.zeros((rows, self._units), np.float32) for name in _STATE}

    # -- learning -----------------------------------------------------------------------------------------------------

    def can_update(self, more: int = 0) -> bool:
        """Does the queue hold a batch?"""
        return len(self.memory) >= self.batch_size

    def require_batch(self, more: int = 0) -> None:
        """See ``Core.require_batch``."""
        if not self.can_update():
            problem = f"needs a batch of {self.batch_size} unrolls; the queue has {len(self.memory)}"
            refuse(f"{self.name}.update: fifo_queue", f"{problem}: let an actor fill it first", len(self.memory))

    def update(self, updates: int) -> Loss:
        """See :meth:`Core.update`; removes the oldest unrolls from the queue."""
        records = self.memory.take(self.batch_size)
        errors = self.model.train(self._batch(records), updates)
        each = errors.sum(axis=1, dtype=np.float64)  # over time
        loss = float(each.mean())
        return Loss(loss, (updates + 1, loss, each.astype(np.float32), records))

    def _batch(self, records: Mapping[str, Any]) -> dict[str, Any]:
        """Unrolls as inputs of the model."""
        terminated = records["terminals"] & ~records["truncated"]
        fed = {name: records[FEEDS[name][1]] for name in self.fed}
        batch = {
            "observation": {**self.memory.states.flatten(records[STATES]), **fed},
            "action": records["actions"],
            "reward": records["rewards"],
            "discount": np.where(terminated, 0.0, self.form["discount"]).astype(np.float32),
            "terminal": records["terminals"].astype(np.float32),
            "truncated": records["truncated"].astype(np.float32),
            "final_value": records["final_values"],
            "log_prob": records["log_probs"],
        }
        if self._units is not None:
            batch["state"] = dict(zip(_STATE, records[INTERNALS], strict=True))
        return batch

    # -- state --------------------------------------------------------------------------------------------------------

    def state_dict(self) -> State:
        """The complete state of acting and learning, without the environments."""
        return {**super().state_dict(), "last_actions": dict(self._last_actions)}

    def load_state_dict(self, state: State) -> None:
        """Restore what :meth:`state_dict` returned."""
        super().load_state_dict(state)
        self._last_actions = dict(state["last_actions"])


def image_scale(boxes: Mapping[str, Any]) -> float:
    """The divisor of images: 255, or 1 if their space's upper bound is at most 1."""
    box = boxes[ONLY]
    excluded = 1.0 if box.dtype.kind in "iu" else 0.0
    return 1.0 if float(box.high.max()) - excluded <= 1.0 else 255.0
