"""Core of ActorCriticAgent and PPOAgent: learning from the newest records, with values known when the agent acted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from ....core.protocols import Array, ArraySpec, State
from ....core.spread import varies
from ....core.tensorflow_import import load_tensorflow
from ....core.trees import equal, map_tree
from ....explorations import Categorical, Composite, Gaussian, MultiCategorical
from ...common.value_specs import ValueSpec
from ..environments.gymnasium_adapter import gymnasium_actions
from ..spaces import BoolBox, BoxSpace, FloatBox, IntBox, Space
from ..utils.rlgraph_errors import refuse
from .core import ONLY, Asked, Core
from .results import Loss
from .rollouts import Rollouts, gae
from .rows import Row, rows_of, stack_rows
from .traced import TracedModel, arrays_of, specs_of

_NUMBER: Final = ArraySpec((), np.float32)
_NOTED: Final = ("drawn", "log_prob", "value")
"""A record's values from the time of acting: the action before clipping, its log-probability, ... NaN: unknown."""
_TINY: Final = 1e-8


class RolloutCore(Core):
    """Actor-critic: one step on the whole batch, or PPO's several steps on random parts of it.

    Its arguments are those of :class:`Core`.
    """

    memory: Rollouts
    model: TracedModel

    def __init__(self, name: str, form: Mapping[str, Any], states: Space, actions: Space, seed: int) -> None:
        super().__init__(name, form, states, actions, seed)
        self._is_ppo = form["kind"] == "ppo"
        self.takes_buffered = not form["sample_episodes"]
        self._clip: float | None = form.get("value_function_clipping")
        self.policy = policy_of(self.boxes)
        self._specs = {key: _spec(key, box) for key, box in self.boxes.items()}
        self._acts: dict[str, Row] = {}
        """Values from the last act of each environment, until its record is observed."""
        load_tensorflow()
        from ..model.actor_critic import model_fn

        params = {
            "form": form,
            "states": specs_of(states.flat()),
            "actions": self._specs,
            "bounds": {key: _bounds(box, self._specs[key].dtype) for key, box in self.boxes.items()},
        }
        names = ["reward", "advantage", "return", "weight"]  # a batch needs rewards
        names += ["log_prob"] if self._is_ppo else []
        names += ["value"] if self._clip is not None else []
        row: dict[str, Any] = {"action": {key: spec.array for key, spec in self._specs.items()}}
        row |= dict.fromkeys(names, _NUMBER)
        self._learnt = ("observation", *row)
        rows = form["update_spec"]["sample_size"] if self._is_ppo else self._count
        self.model = TracedModel(model_fn, params, arrays_of(states.flat()), row, rows, seed)
        self.memory = Rollouts(form["memory_spec"]["capacity"])

    def note(
        self, asked: Asked, predictions: Mapping[str, Any], drawn: Mapping[str, Array], actions: Mapping[str, Array]
    ) -> None:
        """See ``Core.note``."""
        found = {"log_prob": self._log_prob(predictions, drawn), "value": predictions["value"], "drawn": drawn}
        rows = rows_of({**found, "observation": asked.features, "action": actions})
        self._acts.update(zip(asked.ids, rows, strict=True))

    def observed(self, env_id: str | None, row: Row) -> Row:
        """See ``Core.observed``."""
        act = None if env_id is None else self._acts.pop(env_id, None)
        if act is None or not all(equal(act[part], row[part]) for part in ("observation", "action")):
            act = {"drawn": row["action"], "log_prob": np.float32(np.nan), "value": np.float32(np.nan)}
        return {**row, **{name: act[name] for name in _NOTED}}

    def drop(self, env_id: str) -> None:
        """See ``Core.drop``."""
        self._acts.pop(env_id, None)

    def _log_prob(self, predictions: Mapping[str, Any], drawn: Mapping[str, Array]) -> Array:
        found: Array = self.policy.log_prob_of(predictions, drawn[ONLY] if list(drawn) == [ONLY] else drawn)
        return found

    # -- storing ------------------------------------------------------------------------------------------------------

    @property
    def _count(self) -> int:
        """Records or episodes per batch."""
        return int(self.form["update_spec"]["batch_size"])

    def can_update(self, more: int = 0) -> bool:
        """Is there a batch, or a full memory, counting ``more`` records still in buffers?"""
        memory = self.memory
        if not self.takes_buffered:
            return len(memory.whole_episodes()) >= (1 if len(memory) == memory.capacity else self._count)
        return len(memory) + more >= min(self._count, memory.capacity)

    def require_batch(self, more: int = 0) -> None:
        """See ``Core.require_batch``."""
        memory = self.memory
        if self.can_update(more):
            return
        if self.takes_buffered:
            self.require(len(memory) + more, min(self._count, memory.capacity))
        if len(memory) == memory.capacity:
            problem = "needs a whole episode, but the memory is full of partial ones"
            refuse(f"{self.name}: update", f"{problem}: give memory_spec a larger capacity", 0)
        self.require(len(memory.whole_episodes()), self._count, "whole episodes")

    def store(self, env_id: str | None, rows: Sequence[Row]) -> None:
        """See ``Core.store``; without an environment the episode ends at the last record."""
        self.memory.insert(env_id, rows_of(self._complete_records(stack_rows(rows))))

    def end(self, env_id: str | None) -> None:
        """See ``Core.end``."""
        self.memory.end(env_id)

    def _complete_records(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """Records as the memory stores them; missing log-probabilities and values are those of the current networks."""
        observation, after = columns["observation"], columns["next_observation"]
        action = {key: columns["drawn"][key].astype(spec.dtype) for key, spec in self._specs.items()}
        missing = np.flatnonzero(np.isnan(columns["log_prob"]))
        asked = map_tree(lambda now, later: np.concatenate([now[missing], later[-1:]]), observation, after)
        predictions, _ = self.model.act(asked)
        value, log_prob = columns["value"].copy(), columns["log_prob"].copy()
        value[missing] = predictions["value"][:-1]
        given = {key: part[[*missing, -1]] for key, part in action.items()}
        log_prob[missing] = self._log_prob(predictions, given)[:-1]
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
        """See ``Core.update``."""
        newest = (self.memory.newest if self.takes_buffered else self.memory.newest_episodes)(self._count)
        batch = self.memory.read(newest)
        loss = self._learn(batch, np.ones(len(batch["reward"]), np.float32), updates)
        if not self._is_ppo:
            self.memory.forget(newest)
        return loss

    def learn(self, batch: Mapping[str, Any], updates: int) -> Loss:
        """See ``Core.learn``. A record is continued by the next one if its next state equals that one's state."""
        unknown = np.full(len(batch["reward"]), np.nan, np.float32)
        valued = self._complete_records({**batch, "drawn": batch["action"], "log_prob": unknown, "value": unknown})
        valued["next_value"] = self.model.act(batch["next_observation"])[0]["value"]
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
            advantage = standardize(advantage)
        rows["advantage"] = advantage
        spec, sample = form["update_spec"], rows
        for left in range(spec["num_iterations"] if self._is_ppo else 1, 0, -1):
            if self._is_ppo:
                index = self.memory_rng.integers(len(weight), size=spec["sample_size"])
                sample = map_tree(lambda part, index=index: part[index], rows)
            value = self.model.act(sample["observation"])[0]["value"] if left == 1 else sample["value"]
            errors = self.model.train({name: sample[name] for name in self._learnt}, updates)
        value_errors = sample["weight"] * _value_errors(value, sample["value"], sample["return"], self._clip)
        losses = [(float(each.mean(dtype=np.float64)), each) for each in (errors, value_errors)]
        return Loss(losses[0][0], (*losses[0], *losses[1]))  # losses before the last step

    def state_dict(self) -> State:
        """The complete state of acting and learning."""
        return {**super().state_dict(), "acts": dict(self._acts)}

    def load_state_dict(self, state: State) -> None:
        """Restore what :meth:`state_dict` returned."""
        super().load_state_dict(state)
        self._acts = dict(state["acts"])


def _spec(key: str, box: BoxSpace) -> ValueSpec:
    """Specs of the model's actions; a BoolBox has two categories."""
    if isinstance(box, FloatBox):
        return ValueSpec(key, "float", box.shape)
    return ValueSpec(key, "int", box.shape, box.num_categories if isinstance(box, IntBox) else 2)


def _bounds(box: BoxSpace, dtype: Any) -> tuple[Array, ...]:
    return tuple(np.broadcast_to(bound, box.shape).astype(dtype) for bound in box.bounds)


def policy_of(boxes: Mapping[str, Any]) -> Any:
    """Core's exploration for such actions; bools are categories."""
    spaces = {key: IntBox(2, shape=box.shape) if isinstance(box, BoolBox) else box for key, box in boxes.items()}
    if list(spaces) != [ONLY]:
        from gymnasium import spaces as gym

        return Composite(gym.Dict([(key, gymnasium_actions(box)) for key, box in spaces.items()]))
    (box,) = spaces.values()
    kind: Any = Gaussian if isinstance(box, FloatBox) else MultiCategorical if box.shape else Categorical
    return kind(gymnasium_actions(box))


def standardize(advantage: Array) -> Array:
    """Advantages [B] scaled to mean 0 and standard deviation 1, float32; if equal up to rounding, 0."""
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
