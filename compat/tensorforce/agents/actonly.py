"""Act-only agents, as returned by ``Agent.load(format="pb-actonly")``; they run without TensorFlow.

``Agent.save`` writes one as a folder, atomically: a LiteRT program, its weights, statistics of preprocessing, and a
JSON file that describes states, actions and their processing.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_safetensors

from ....core.errors import ArgumentError, CheckpointError
from ....core.protocols import Array, ArraySpec
from ....policies.description import read_json, read_part, specs_to_json
from ....policies.interpreter import ActSignature, LiteProgram
from ....policies.weight_patches import FrozenProgram
from ....run_dir.arrays import encode_arrays, join_state, split_state
from ....run_dir.files import remove, write_json_atomically
from ....run_dir.folders import staged, target_of, write_and_record
from ....run_dir.provenance import provenance
from ...common.exclusion import exclusive
from ..processing.preprocessors import Preprocessing, make_preprocessing
from ..spaces import readers
from ..spaces.errors import TensorforceError, refuse
from ..spaces.specs import Values, read_values
from . import interaction
from .acting import Acted, Chooser

if TYPE_CHECKING:
    from .companions import AgentCore
    from .learner import Learner

WHY: Final = "act_only_why_not"
"""Key in a saved state: why there is no act-only folder; None if there is one."""
_FILE, _PROGRAM, _STATE = "actonly.json", "policy.tflite", "state.safetensors"
_FORMAT, _VERSION = "axonrl act-only agent", 1
_MADE: weakref.WeakKeyDictionary[Any, FrozenProgram | bytes | str] = weakref.WeakKeyDictionary()
"""LiteRT program of mode PREDICT by traced program; a string says why there is none."""


# -- writing ----------------------------------------------------------------------------------------------------------


def write(agent: AgentCore, directory: Path) -> str | None:
    """Write the folder, replacing an existing one, which is removed if no new one can be made.

    Returns:
        None, or why it cannot be made.

    Raises:
        CheckpointError: it cannot be written.
        TensorforceError: something else is there.
    """
    learning = agent.learning
    try:
        target = target_of(directory, "an act-only agent", (_FILE, _PROGRAM, _STATE))
    except ArgumentError as error:
        raise TensorforceError(f"Agent.save: {error}", "filename", str(directory)) from None
    made = f"a {agent.kind} agent has no model" if learning is None else _acting_program(learning)
    if learning is None or isinstance(made, str):
        if target.exists():
            remove(target)
        return str(made)
    found = learning.stepper.executor.get_predict_weights()
    weights = {name: found[name] for name in learning.program.predict_variables()}  # in the program's form
    frozen = isinstance(made, FrozenProgram)
    content = made.with_weights(weights) if isinstance(made, FrozenProgram) else made
    statistics = agent.preprocessing.state_dict()
    arrays, tree = split_state({"weights": {} if frozen else weights, "preprocessing": statistics})
    described = _to_json(agent, learning)
    with staged(target) as folder:
        described["program"] = write_and_record(folder / _PROGRAM, [content])
        described["state"] = {**write_and_record(folder / _STATE, encode_arrays(arrays)), "tree": tree}
        write_json_atomically(folder / _FILE, described)
    return None


def _to_json(agent: AgentCore, learning: Learner) -> dict[str, Any]:
    """The JSON contents, without the other files' names and hashes."""
    predict = learning.program.predict
    return {
        "format": _FORMAT,
        "format_version": _VERSION,
        "agent": agent.kind,
        "made_with": provenance(),
        "states": agent.states_values.to_json(),
        "actions": agent.actions_values.to_json(),
        "distributions": agent.acting.chooser.distributions,
        "preprocessing": agent.preprocessing.spec,
        "predictions": sorted(predict.outputs),
        "internals": specs_to_json(predict.state or {}),
    }


def _acting_program(learning: Learner) -> FrozenProgram | bytes | str:
    """Mode PREDICT as a LiteRT program, converted once; or why it cannot be converted."""
    from ....run_dir.programs import shared_content
    from ....runtimes.frozen import acting_program

    program = learning.program
    if program not in _MADE:
        try:
            _MADE[program] = acting_program(program, shared_content)
        except ValueError as error:
            _MADE[program] = str(error)
    return _MADE[program]


# -- acting -----------------------------------------------------------------------------------------------------------


class ActOnly:
    """A saved agent that acts as with ``evaluation=True``. Made by ``Agent.load(format="pb-actonly")``.

    Thread-safe: calls wait for each other.

    Args:
        states: the agent's states.
        actions: the agent's actions.
        distributions: distribution of each action.
        internals: initial internals of one row; empty without internal layers.
        preprocessing: preprocessing, with its statistics.
        program: program of mode PREDICT.
    """

    def __init__(
        self,
        states: Values,
        actions: Values,
        distributions: Mapping[str, str],
        internals: Mapping[str, ArraySpec],
        preprocessing: Preprocessing,
        program: Callable[[Any], tuple[dict[str, Any], dict[str, Array] | None]],
    ) -> None:
        self.states_values, self.actions_values, self.internals = states, actions, internals
        self.independent_preprocessing, self.sees_states = preprocessing.independent(), preprocessing.idle
        self.read_states = readers.StateReader(states, actions)
        self.actions_out = interaction.actions_out(actions)
        self.counts = None
        choose, nothing = Chooser(actions, distributions), np.random.default_rng(0)  # no random draws

        def acting(features: Any, held: Any, *_: Any) -> tuple[dict[str, Array], dict[str, Array] | None]:
            predictions, following = program({"observation": features, "state": held} if held else features)
            return choose(Acted(predictions, features, choose.greedy), nothing), following

        self.acting = acting
        self._closed = False
        self.lock = threading.RLock()

    @exclusive
    def act(
        self,
        states: Any,
        internals: Any = None,
        parallel: Any = 0,
        independent: bool = True,
        deterministic: bool = True,
        evaluation: bool = True,
    ) -> Any:
        """The greedy actions for states, as ``Agent.act`` with ``evaluation=True``.

        Args:
            states: the value of a single state, or a dictionary; masks of int actions under ``<action>_mask``. A list
                of these for several parallel indices.
            internals: as returned by the last act.
            parallel: any index, or several different ones. Each is an episode with its own preprocessing history.
            independent: must be True, unless ``evaluation`` is.
            deterministic: must be True, unless ``evaluation`` is.
            evaluation: independent and deterministic.

        Returns:
            Actions, nested as declared; with ``internals`` also the next internals.

        Raises:
            TensorforceError: an argument is invalid.
            NonFiniteError: a prediction is NaN or infinite.
        """
        self._check("act")
        if not (evaluation or (independent and deterministic)):
            problem = "must be True: this agent only acts, and neither samples nor explores"
            refuse("Agent.act: evaluation", problem, False)
        acts: Any = self
        return interaction.act(acts, states, internals, parallel, True, True, None, {})

    @exclusive
    def initial_internals(self, parallel: Any = None) -> dict[str, Array]:
        """Begin an episode of one index, several or all (None), as ``Agent.initial_internals``."""
        self._check("initial_internals")
        acts: Any = self
        return interaction.initial_internals(acts, parallel)

    def close(self) -> None:
        """Close the agent for good. A second call does nothing."""
        self._closed = True

    def _check(self, method: str) -> None:
        if self._closed:
            raise TensorforceError(f"Agent.{method}: the agent is closed", method)


def read(where: str, directory: Path) -> ActOnly:
    """Load an act-only agent.

    Raises:
        TensorforceError: a file is missing or damaged.
    """
    try:
        path = directory / _FILE
        described = read_json(path, _FORMAT, _VERSION, "save the agent again")
        files: Any = SimpleNamespace(path=path, everything=described)
        program = LiteProgram(read_part(files, "program"))
        state = join_state(load_safetensors(read_part(files, "state")), described["state"]["tree"])
        if state["weights"]:
            program.signatures["set"](list(state["weights"].values()))
        states, actions = (read_values("Agent.load", described[kind], kind) for kind in ("states", "actions"))
        internals = {name: ArraySpec(tuple(one["shape"]), one["dtype"]) for name, one in described["internals"].items()}
        preprocessing = make_preprocessing("Agent.load: preprocessing", described["preprocessing"], states.flat)
        preprocessing.load_state_dict(state["preprocessing"])
        act = ActSignature(program.signatures["act"], described["predictions"], sorted(internals) or None)
        return ActOnly(states, actions, described["distributions"], internals, preprocessing, act)
    except TensorforceError:
        raise
    except (CheckpointError, SafetensorError, AttributeError, KeyError, TypeError, ValueError) as error:
        problem = f"{where}: {directory} cannot be used: {error}"
        raise TensorforceError(problem, "filename", str(directory)) from error
