"""Acting without TensorFlow: runs a policy of ``Agent.export`` in LiteRT."""

from __future__ import annotations

import copy
import functools
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_safetensors

from ..core import hub
from ..core.checks import all_finite, count, counted, integer
from ..core.protocols import Array, ArraySpec, Exploration
from ..explorations.description import from_description
from . import description as descriptions
from .boundary import ObservationsIn, actions_out
from .description import Description
from .executors import arrays_of, check_weights, with_parts
from .interpreter import LiteProgram
from .preprocessing import make_preprocessing
from .weight_patches import FrozenProgram


class Policy:
    """An exported policy. Thread-safe: calls are independent, and wait for each other.

    :meth:`copy` makes an independent one for a thread, with its own recurrent state.

    Example::

        policy = Policy.load("exported")
        env = gymnasium.make("CartPole-v1")
        observation, _ = env.reset()
        observation, reward, *_ = env.step(policy.act(observation))

    Made by :meth:`load`. ``description`` is the content of ``policy.json``.
    """

    def __init__(
        self,
        description: Description,
        program: bytes,
        weights: Mapping[str, Array],
        *,
        seed: int | None = None,
        num_threads: int = 1,
    ) -> None:
        self.description = description.everything
        self._described = description
        self._program = program
        self._num_threads = num_threads
        self._lock = threading.RLock()
        self._rng = np.random.default_rng(None if seed is None else integer("seed", seed, at_least=0))
        self._explore: Exploration | None = None
        if description.exploration is not None:
            with descriptions.naming_field(description.path, "exploration"):
                self._explore = from_description(description.exploration, description.action_space)
        self._names = sorted(description.predictions)
        self._state_names = None if description.state is None else sorted(description.state)
        self._state: list[Array] | None = None
        with descriptions.naming_field(description.path, "preprocessing"):
            self._preprocess = make_preprocessing(description.everything.get("preprocessing"))
        self._observations = ObservationsIn(description.observation, description.is_dict, description.normalization)
        with descriptions.naming_field(description.path, "predictions"):
            self._actions = actions_out(description.action_space, description.predictions)
        self._composite = "action" not in self._names
        self._greedy = 0 if self._composite else self._names.index("action")
        placements = description.placements
        self._frozen = None if placements is None else FrozenProgram(program, placements)
        self._weights: dict[str, Array] = {}
        if self._frozen is None:
            self._use(LiteProgram(program, num_threads))
        elif self._frozen.with_weights(weights) != program:
            raise ValueError("its weights do not match their placements in the description")
        self.set_weights(weights)

    @classmethod
    def load(cls, directory: str | Path, *, seed: int | None = None, num_threads: int = 1) -> Policy:
        """Load a policy written by ``Agent.export``.

        Args:
            directory: the directory; or one on the Hugging Face Hub, ``"hf://user/name"`` or
                ``"hf://user/name@revision"``. A policy is only data: nothing that it names is imported.
            seed: for the random numbers of exploration; None draws one.
            num_threads: number of LiteRT's threads; does not change results. Two make convolutions faster if two
                processors are free, and everything else slower.

        Raises:
            ValueError: a file is missing, damaged, or of another format version; names it, and the problem.
            ConnectionError: the Hub cannot be reached, or refuses.
        """
        num_threads = count("num_threads", num_threads)
        found = hub.download(directory, descriptions.LOADED) if hub.is_address(directory) else Path(directory)
        described = descriptions.read(found)
        program = descriptions.read_part(described, "program")
        try:
            weights = load_safetensors(descriptions.read_part(described, "weights"))
            return cls(described, program, weights, seed=seed, num_threads=num_threads)
        except (SafetensorError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise ValueError(f"cannot use the policy in {directory}: {error}") from error

    # -- acting -------------------------------------------------------------------------------------------------------

    def act(self, observation: Any, explore: bool = False, rng: np.random.Generator | None = None) -> Any:
        """Choose an action, or the actions for a batch; a recurrent model continues from its last state.

        Args:
            observation: one observation as returned by the environment, or a batch of them [B, ...].
            explore: use the behaviour policy, with its level of exploration at the time of the export, rather than the
                greedy action.
            rng: generator for exploration; None for the policy's own.

        Returns:
            Actions for ``env.step``: an integer scalar for a Discrete space, a dictionary or tuple for a Dict or Tuple,
            else an array; for a batch, arrays [B, ...]. Actions of a Box are clipped to its bounds.

        Raises:
            ValueError: the observation has a wrong shape or dtype, or contains NaN or infinity; the behaviour policy
                was not exported; the model's action is not in the space.
        """
        with self._lock:
            behaviour = self._behaviour() if explore else None  # refused before the recurrent state advances
            if self._preprocess is not None:
                observation = self._preprocess(observation)
            features, single = self._observations(observation)
            if self._state_names is not None:
                features = self._with_state(features)
            self._invoke(features)
            if self._state_names is not None:
                first = len(self._names)
                self._state = [self._output(first + i) for i in range(len(self._state_names))]
            if behaviour is not None:
                actions, _ = behaviour(self._predictions(), 0, self._rng if rng is None else rng)
                return self._actions(actions, single)
            greedy = self._predictions()["action"] if self._composite else self._output(self._greedy)
            return self._actions(greedy, single)

    def predict(self, observations: Any) -> dict[str, Any]:
        """The model's predictions for a batch of observations; a recurrent model treats each as an episode's first.

        Args:
            observations: a batch [B, ...], or one, which is a batch of one.

        Returns:
            Name to array [B, ...]; ``"action"`` is the greedy action, not clipped: for a Dict or Tuple space, a
            dictionary of arrays.

        Raises:
            ValueError: as for :meth:`act`.
        """
        with self._lock:
            if self._preprocess is not None:
                observations = self._preprocess(observations)
            features, _ = self._observations(observations)
            if self._described.state is not None:
                features = [*features, *_zeros(self._described.state, len(features[0]))]
            self._invoke(features)
            return self._predictions()

    def copy(self, *, seed: int | None = None) -> Policy:
        """Copy the policy, with separate program, recurrent state and random numbers, for another thread.

        Args:
            seed: for the random numbers of exploration; None draws one.
        """
        with self._lock:
            return Policy(*self._parts(), seed=seed, num_threads=self._num_threads)

    def __reduce__(self) -> tuple[Any, ...]:
        """For pickle and deepcopy: the copy has the same random numbers and state, and continues as this policy."""
        with self._lock:
            state = {name: getattr(self, name) for name in ("_rng", "_explore", "_state")}
            return functools.partial(Policy, num_threads=self._num_threads), self._parts(), copy.deepcopy(state)

    def _parts(self) -> tuple[Description, bytes, dict[str, Array]]:
        """The description, the program with the present weights, and these."""
        weights, frozen = self.get_weights(), self._frozen
        return self._described, self._program if frozen is None else frozen.with_weights(weights), weights

    def reset(self, mask: Any = None) -> None:
        """Begin episodes: reset the recurrent state, if there is one, and the exploration.

        Args:
            mask: bool [B], the rows of the batch to reset; None for all, also if the next batch has a different size.

        Raises:
            ValueError: the mask has a wrong shape or dtype.
        """
        with self._lock:
            self._reset(mask)

    def _reset(self, mask: Any) -> None:
        begin_exploring = getattr(self._explore, "reset", None)
        if mask is None:
            self._state = None
            if begin_exploring is not None:
                begin_exploring(np.ones(0, np.bool_))  # for no episodes: the next ones are new
            return
        if self._state is None and begin_exploring is None:
            return
        chosen, size = np.asarray(mask), "B" if self._state is None else len(self._state[0])
        if chosen.dtype != np.bool_ or chosen.ndim != 1 or size not in ("B", len(chosen)):
            raise ValueError(f"mask must be bool [{size}], got {chosen.dtype} {list(chosen.shape)}")
        for values in self._state or ():
            values[chosen] = 0
        if begin_exploring is not None:
            begin_exploring(chosen)

    # -- weights ------------------------------------------------------------------------------------------------------

    def get_weights(self) -> dict[str, Array]:
        """The weights by name, copied."""
        with self._lock:
            return {name: array.copy() for name, array in self._weights.items()}

    def set_weights(self, weights: Mapping[str, Array]) -> None:
        """Set the weights for acting; sets none if any does not fit.

        Args:
            weights: all weights by name, as returned by ``get_weights`` of a policy or of the Agent.

        Raises:
            ValueError: a name is missing or unknown, a shape or dtype is wrong, or there is NaN or infinity; names it.
        """
        given, expected = arrays_of(weights), self._described.weights
        check_weights(self._described.model, given, expected, expected)
        for name, array in given.items():
            if array.dtype.kind == "f" and not all_finite(array):
                raise ValueError(f"the weight {name} of {self._described.model} has NaN or infinity")
        ordered = {name: given[name] for name in expected}
        with self._lock:
            if self._frozen is not None:
                self._use(LiteProgram(self._frozen.with_weights(ordered), self._num_threads))
            elif ordered:
                self._set(list(ordered.values()))
            self._weights = ordered

    # -- inside -------------------------------------------------------------------------------------------------------

    def _use(self, lite: LiteProgram) -> None:
        """Use this program from now on; ``ValueError`` if it does not match the description."""
        signatures = lite.signatures
        if "act" not in signatures or (self._described.weights and self._frozen is None and "set" not in signatures):
            raise ValueError(f"its program has only the signatures {', '.join(signatures)}")
        act = signatures["act"]
        state = self._described.state or {}
        inputs = [*self._observations.specs, *(state[name] for name in sorted(state))]
        outputs = [*(self._described.predictions[name] for name in self._names), *inputs[len(inputs) - len(state) :]]
        _compare("takes", act.inputs, "observation.arrays and state", inputs)
        if len(act.outputs) != len(outputs):
            what = f"its program has {len(act.outputs)} outputs"
            raise ValueError(f"{what}, but {descriptions.FILE} has {len(outputs)} predictions and state arrays")
        self._run: Callable[[list[Array]], None] = act.run
        self._output: Callable[[int], Array] = act.output
        self._resize = act.resize
        self._size = 1
        if self._frozen is None and "set" in signatures:
            weights = list(self._described.weights.values())
            _compare("keeps", signatures["set"].inputs, "weights.arrays", weights, batched=False)
            self._set = signatures["set"]

    def _invoke(self, features: list[Array]) -> None:
        try:
            if len(features[0]) != self._size:
                self._size = -1  # invalid until the run is done
                self._resize([np.array(array.shape, np.int32) for array in features])
                self._size = len(features[0])
            self._run(features)
        except RuntimeError as error:
            raise ValueError(f"LiteRT could not run {self._described.model}: {error}") from error

    def _predictions(self) -> dict[str, Any]:
        return with_parts({name: self._output(i) for i, name in enumerate(self._names)})

    def _with_state(self, features: list[Array]) -> list[Array]:
        size = len(features[0])
        if self._state is None:
            self._state = _zeros(self._described.state or {}, size)
        elif len(self._state[0]) != size:
            raise ValueError(
                f"the recurrent state is for {counted(len(self._state[0]), 'episode')}, got"
                f" {counted(size, 'observation')}: call reset() first"
            )
        return [*features, *self._state]

    def _behaviour(self) -> Exploration:
        if self._explore is None:
            why = self.description.get("exploration_note")
            raise ValueError(f"explore=True, but this policy was exported without its behaviour policy: {why}")
        return self._explore


def _zeros(state: Mapping[str, ArraySpec], size: int) -> list[Array]:
    return [np.zeros((size, *state[name].shape), state[name].dtype) for name in sorted(state)]


def _compare(
    verb: str,
    found: list[tuple[tuple[int, ...], np.dtype[Any]]],
    field: str,
    specs: list[ArraySpec],
    batched: bool = True,
) -> None:
    expected = [((-1, *spec.shape) if batched else spec.shape, spec.dtype) for spec in specs]
    if found != expected:
        listed = [", ".join(f"{dtype}{list(shape)}" for shape, dtype in one) for one in (found, expected)]
        raise ValueError(f"its program {verb} {listed[0]}, but {field} of {descriptions.FILE} say {listed[1]}")
