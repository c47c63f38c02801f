"""ActorCriticAgent and PPOAgent: learning from the newest records, with what was known when the agent acted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from ....core.protocols import Array, ArraySpec, State
from ....core.spread import varies
from ....core.tensorflow_import import load_tensorflow
from ..spaces.readers import counted_from_zero
from ..utils.rlgraph_errors import refuse
from .core import Acted
from .model_core import ModelCore
from .policies import PolicyActions
from .results import Loss
from .rollouts import Rollouts, gae
from .traced import Learned, TracedModel, specs_of

_DRAW: Final = "draw/"
"""Before the names of continuous actions, in what is noted of an act."""
_NUMBER: Final = ArraySpec((), np.float32)
_TINY: Final = 1e-8


class OnPolicyCore(ModelCore):
    """Actor-critic: one step on all that was drawn, or PPO's several ones on random parts of it.

    Args:
        name: of the agent, for messages.
        form: the normal form.
        states: specs of one preprocessed state by flat name.
        actions: the boxes of the action by flat name.
        seed: of all that is drawn.
    """

    def __init__(
        self, name: str, form: Mapping[str, Any], states: Mapping[str, Any], actions: Mapping[str, Any], seed: int
    ) -> None:
        boxes = counted_from_zero(actions)
        super().__init__(name, form, boxes, seed)
        self._is_ppo = form["kind"] == "ppo"
        self.by_episodes: bool = form["sample_episodes"]
        """Is a batch of whole episodes, rather than of records?"""
        self._clip: float | None = form.get("value_function_clipping")
        self._policy = PolicyActions(boxes)
        specs = self._policy.specs
        load_tensorflow()
        from ..model.actor_critic import model_fn

        bounds = {
            key: tuple(np.broadcast_to(limit, spec.shape).astype(spec.dtype) for limit in (box.low, box.high))
            for (key, box), spec in zip(actions.items(), specs.values(), strict=True)
        }
        params = {"form": form, "states": specs_of(states), "actions": specs, "bounds": bounds}
        names = ["reward", "advantage", "return", "weight"]  # without rewards there is no batch
        names += ["log_prob"] if self._is_ppo else []
        names += ["value"] if self._clip is not None else []
        row: dict[str, Any] = {"action": {key: spec.array for key, spec in specs.items()}}
        row |= dict.fromkeys(names, _NUMBER)
        self._names = ("observation", *row)
        observation = {key: ArraySpec(spec.shape, spec.dtype) for key, spec in states.items()}
        rows = form["update_spec"]["sample_size"] if self._is_ppo else self._count
        numbers = ("learning_rate", "value_learning_rate")
        self._model = TracedModel(model_fn, params, observation, row, numbers, rows, seed)
        self.rollouts = Rollouts(form["memory_spec"]["capacity"])

    # -- acting -------------------------------------------------------------------------------------------------------

    def act(
        self,
        features: Mapping[str, Array],
        internals: Mapping[str, Array] | None,
        explore: bool,
        timestep: int,
        lanes: Sequence[int],
    ) -> Acted:
        """As :meth:`Core.act`; acts without ``explore`` are not noted, so that those before them stay noted."""
        predictions, _ = self._model.act(features)
        explored: Array = np.zeros(len(lanes), np.bool_)
        if not explore:
            return Acted(self._policy.within(self._policy.modes(predictions)), explored)
        draws = self._policy.draws(predictions, self.exploration_rng)
        actions = self._policy.within(draws)
        if self._exploration is not None:
            actions, explored = self._exploration(actions, timestep, self.exploration_rng, lanes)
            draws = actions
        extras = {"log_prob": self._policy.log_prob(predictions, draws), "value": predictions["value"]}
        extras |= {_DRAW + name: draws[name] for name in self._policy.floats}
        return Acted(actions, explored, extras=extras)

    # -- storing ------------------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Records in the memory."""
        return len(self.rollouts)

    @property
    def can_update(self) -> bool:
        """Is there a batch in the memory?"""
        return self.has_batch()

    @property
    def _count(self) -> int:
        """Records or episodes of a batch."""
        return int(self.form["update_spec"]["batch_size"])

    def has_batch(self, more: int = 0) -> bool:
        """Is there a batch, or a memory that is full, ``more`` records beside it included?"""
        rollouts = self.rollouts
        if self.by_episodes:
            return rollouts.whole_episodes >= (1 if len(rollouts) == rollouts.capacity else self._count)
        return len(rollouts) + more >= min(self._count, rollouts.capacity)

    def store(self, columns: Mapping[str, Any], noted: Sequence[dict[str, Array] | None]) -> None:
        """As :meth:`Core.store`; the last record is the last of an episode."""
        self.store_of(None, columns, noted)

    def store_of(
        self, env_id: str | None, columns: Mapping[str, Any], noted: Sequence[dict[str, Array] | None]
    ) -> None:
        """Put consecutive records of an environment [T, ...] into the memory; None: their last episode ends there."""
        self.rollouts.insert(env_id, self._valued(columns, noted))

    def require_batch(self, more: int = 0) -> None:
        """Refuse an update for which too little is there, ``more`` records beside the memory included."""
        rollouts = self.rollouts
        if self.has_batch(more):
            return
        if not self.by_episodes:
            self.require(len(rollouts) + more, min(self._count, rollouts.capacity))
        if len(rollouts) == rollouts.capacity:
            problem = "needs a whole episode; the memory is full, and has only parts of some"
            refuse(f"{self.name}: update", f"{problem}: give memory_spec a larger capacity", 0)
        self.require(rollouts.whole_episodes, self._count, "whole episodes")

    def _valued(self, columns: Mapping[str, Any], noted: Sequence[dict[str, Array] | None]) -> dict[str, Any]:
        """What the memory keeps of records.

        Log-probabilities and values are those of acting time, where they were noted; else the present ones.
        """
        observation, count = columns["observation"], len(noted)
        action = {key: np.array(columns["action"][key], spec.dtype) for key, spec in self._policy.specs.items()}
        missing = np.array([k for k, extras in enumerate(noted) if extras is None], np.intp)
        asked = {
            key: np.concatenate([part[missing], columns["next_observation"][key][-1:]])
            for key, part in observation.items()
        }
        predictions, _ = self._model.act(asked)
        value, log_prob = np.zeros(count, np.float32), np.zeros(count, np.float32)
        value[missing] = predictions["value"][:-1]
        given = {key: part[[*missing, -1]] for key, part in action.items()}
        log_prob[missing] = self._policy.log_prob(predictions, given)[:-1]
        for k, extras in enumerate(noted):
            if extras is not None:
                value[k], log_prob[k] = extras["value"], extras["log_prob"]
                for key in self._policy.floats:
                    action[key][k] = extras[_DRAW + key]
        return {
            "observation": observation,
            "action": action,
            "reward": columns["reward"],
            "terminal": columns["terminal"],
            "log_prob": log_prob,
            "value": value,
            "next_value": np.append(value[1:], predictions["value"][-1:]),
        }

    # -- learning -----------------------------------------------------------------------------------------------------

    def update(self, updates: int) -> Loss:
        """As :meth:`Core.update`."""
        self.require_batch()
        rollouts = self.rollouts
        newest = (rollouts.newest_episodes if self.by_episodes else rollouts.newest)(self._count)
        batch = rollouts.read(newest)
        loss = self._learn(batch, np.ones(len(batch["reward"]), np.float32), updates)
        if not self._is_ppo:
            rollouts.drop(newest)
        return loss

    def learn(self, batch: Mapping[str, Any], updates: int) -> Loss:
        """As :meth:`Core.learn`. A record goes on with the next one if its next state is that one's state."""
        count = len(batch["reward"])
        valued = self._valued(batch, [None] * count)
        valued["next_value"] = self._model.act(batch["next_observation"])[0]["value"]
        goes_on = ~batch["terminal"][:-1]
        for key, part in batch["observation"].items():
            goes_on &= (batch["next_observation"][key][:-1] == part[1:]).all(tuple(range(1, part.ndim)))
        valued["episode"] = np.append(0, np.cumsum(~goes_on))
        return self._learn(valued, batch["weight"], updates)

    def _learn(self, batch: Mapping[str, Any], weight: Array, updates: int) -> Loss:
        form = self.form
        advantage = gae(batch, form["discount"], form["gae_lambda"])
        rows = {**batch, "return": advantage + batch["value"], "weight": weight}
        if self._is_ppo and form["standardize_advantages"]:
            advantage = standardized(advantage)
        rows["advantage"] = advantage
        if not self._is_ppo:
            return self._last_step(rows, updates)
        update = form["update_spec"]
        for left in range(update["num_iterations"], 0, -1):
            sample = _taken(rows, self.memory_rng.integers(len(weight), size=update["sample_size"]))
            if left > 1:
                self._step(sample, updates)
        return self._last_step(sample, updates)

    def _step(self, rows: Mapping[str, Any], updates: int) -> Learned:
        """One step of both networks."""
        given = {name: rows[name] for name in self._names}
        return self._model.train(given, self.learning_rates(updates), updates)

    def _last_step(self, rows: Mapping[str, Any], updates: int) -> Loss:
        """The step whose losses, before it, are those of the update."""
        value = self._model.act(rows["observation"])[0]["value"]
        learned = self._step(rows, updates)
        value_errors = rows["weight"] * _value_errors(value, rows["value"], rows["return"], self._clip)
        losses = [(float(each.mean(dtype=np.float64)), each) for each in (learned.errors, value_errors)]
        return Loss(losses[0][0], (*losses[0], *losses[1]))

    # -- state --------------------------------------------------------------------------------------------------------

    def state_dict(self) -> State:
        """Everything that acting and learning follow from."""
        return {**super().state_dict(), "rollouts": self.rollouts.state_dict()}

    def load_state_dict(self, state: State) -> None:
        """Take over what :meth:`state_dict` returned."""
        super().load_state_dict(state)
        self.rollouts.load_state_dict(state["rollouts"])


def standardized(advantage: Array) -> Array:
    """Advantages [B] of mean 0 and standard deviation 1, float32; equal ones, but for rounding, become 0."""
    centred, deviation = advantage - advantage.mean(), advantage.std()
    differ = varies(deviation * deviation, np.square(advantage).mean())
    return np.asarray(centred / (deviation + _TINY) * differ, np.float32)


def _value_errors(value: Array, recorded: Array, returns: Array, clip: float | None) -> Array:
    """``models.blocks.losses.clipped_squared`` in NumPy, float32 [B]."""
    error = np.square(value - returns)
    if clip is not None:
        near = recorded + np.clip(value - recorded, -clip, clip)
        error = np.maximum(error, np.square(near - returns))
    return np.asarray(error, np.float32)


def _taken(columns: Mapping[str, Any], index: Array) -> dict[str, Any]:
    return {name: _taken(part, index) if isinstance(part, Mapping) else part[index] for name, part in columns.items()}
