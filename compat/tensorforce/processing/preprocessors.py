"""Preprocessing of states and rewards on the host: once, before they are stored and before the model sees them."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Hashable, Mapping
from typing import Any, Final

import numpy as np

from ....core.protocols import Array, State
from ...common.specs.argument_table import read_arguments
from ...common.specs.files import is_file_name, read_file
from ...common.specs.module_specs import opened
from ...common.specs.tables import Entry
from ...common.value_specs import TYPES, ValueSpec
from ..spaces.errors import known, mapping, refuse, translate_errors
from ..specs.table_checks import IGNORED, SpecTable
from .preprocessing_layers import ALL, LAYERS, Dropout, Layer

REWARD: Final = "reward"
"""The key of what rewards go through."""
_OF_NETWORKS: Final = frozenset(
    {"block", "conv1d", "conv2d", "dense", "embedding", "flatten", "function", "gru", "internal_gru", "internal_lstm"}
    | {"internal_rnn", "keras", "linear", "lstm", "pool1d", "pool2d", "pooling", "register", "reshape", "retrieve"}
    | {"reuse", "rnn"}
)
"""Layers that learn, or work on tensors."""
_TABLE: Final = SpecTable(
    "preprocessing layer",
    {name: Entry(open=True) for name in LAYERS},
    aliases={"nonlinearity": "activation"},
    refused=dict.fromkeys(_OF_NETWORKS, f"it is a layer of networks, and preprocessing takes {', '.join(LAYERS)}"),
)


class Preprocessing:
    """Layers for some of the states and for rewards, with a history per lane. Made by :func:`make_preprocessing`.

    A lane is any stream of timesteps that its key tells from the others. What a lane remembers (``deltafier``,
    ``sequence``) begins anew with each of its episodes. The statistics of ``exponential_normalization`` are one for
    all lanes and stay. ``dropout`` is left to updates.

    Args:
        where: the place of the specification, for messages.
        spec: by key, the layers with all arguments.
        states: by name.
    """

    def __init__(self, where: str, spec: Mapping[str, list[dict[str, Any]]], states: Mapping[str, ValueSpec]) -> None:
        self._where, self._spec = where, spec
        self.chains: dict[str, _Chain] = {}
        self.states: dict[str, ValueSpec] = {}
        """Of what comes out: what is stored and what the model sees."""
        for name, state in states.items():
            self.states[name] = self._build(name if name in spec else state.type, state)
        out = self._build(REWARD, ValueSpec(REWARD, "float", ()))
        if out.shape != ():
            problem = f"must keep a reward a single number, and makes an array of shape {list(out.shape)} of it"
            refuse(f"{where}[{REWARD!r}]", problem, spec[REWARD])

    @property
    def idle(self) -> bool:
        """Is there nothing to do?"""
        return not self.chains

    @property
    def spec(self) -> dict[str, Any]:
        """By key, lists of layers with all their arguments, in JSON's types; :func:`make_preprocessing` takes it."""
        return {key: [dict(layer) for layer in layers] for key, layers in self._spec.items()}

    def independent(self) -> Preprocessing:
        """The same layers with histories of their own; they use the statistics as they are at each timestep."""
        other = copy.copy(self)
        other.chains = {name: _Chain(chain.layers, chain.all) for name, chain in self.chains.items()}
        return other

    def apply(self, lane: Hashable, states: Mapping[str, Array]) -> dict[str, Array]:
        """One timestep of a lane, which is remembered.

        Args:
            lane: its key.
            states: by name, without a batch axis, of the dtypes of the specs. Others, such as masks, stay as they are.

        Returns:
            what the model sees; new arrays where something was done.
        """
        return self._states(lane, states, True)

    def peek(self, lane: Hashable, states: Mapping[str, Array]) -> dict[str, Array]:
        """What :meth:`apply` would return if this were the lane's next timestep. Nothing is remembered."""
        return self._states(lane, states, False)

    def reward(self, value: float, lane: Hashable) -> float:
        """The reward of one timestep of a lane, which is remembered."""
        chain = self.chains.get(REWARD)
        return value if chain is None else float(chain.step(lane, np.asarray(value, np.float32), True))

    def reset(self, lane: Hashable = None) -> None:
        """An episode of this lane has ended, or was dropped; None: those of all lanes."""
        for chain in self.chains.values():
            if lane is None:
                chain.lanes.clear()
            else:
                chain.lanes.pop(lane, None)

    def state_dict(self) -> State:
        """The statistics of all lanes, by name and index of a layer; histories are those of unfinished episodes."""
        return {
            name: {str(index): dict(memory) for index, memory in chain.all.items()}
            for name, chain in self.chains.items()
        }

    def load_state_dict(self, state: State) -> None:
        """Take over what ``state_dict`` returned.

        Raises:
            TensorforceError: it is of other layers or other states; nothing has changed then.
        """
        found: dict[str, dict[int, Mapping[str, Array]]] = {}
        for name, by_index in state.items():
            layers = self.chains[name].layers if name in self.chains else []
            for index, memory in by_index.items():
                arrays = {key: np.array(value) for key, value in memory.items()}
                layer = layers[int(index)] if int(index) < len(layers) else None
                if layer is None or layer.keeps != ALL or not layer.fits(arrays):
                    refuse(f"{self._where}[{name!r}]", "does not fit what was saved: it was of other layers or states")
                found.setdefault(name, {})[int(index)] = arrays
        for name, chain in self.chains.items():
            chain.all.clear()
            chain.all.update(found.get(name, {}))

    def _build(self, key: str, value: ValueSpec) -> ValueSpec:
        layers = []
        for index, given in enumerate(self._spec.get(key, ())):
            arguments = {name: argument for name, argument in given.items() if name != "type"}
            layer = LAYERS[given["type"]](f"{self._where}[{key!r}][{index}]", value, arguments)
            value = layer.out
            if not isinstance(layer, Dropout):
                layers.append(layer)
        if layers:
            self.chains[value.name] = _Chain(layers)
        return value

    def _states(self, lane: Hashable, states: Mapping[str, Array], remember: bool) -> dict[str, Array]:
        chains = self.chains
        return {n: chains[n].step(lane, x, remember) if n in chains else x for n, x in states.items()}


class _Chain:
    """The layers of one value, and what they remember, by their index.

    Args:
        layers: in order.
        shared: what another chain of these layers remembers of all lanes: it is used and left as it is.
    """

    def __init__(self, layers: list[Layer], shared: dict[int, Mapping[str, Array]] | None = None) -> None:
        self.layers = layers
        self.all = {} if shared is None else shared
        self._counts = shared is None
        self.lanes = defaultdict[Hashable, dict[int, Mapping[str, Array]]](dict)

    def step(self, lane: Hashable, x: Array, remember: bool) -> Array:
        for index, layer in enumerate(self.layers):
            of_all = layer.keeps == ALL
            memories = self.all if of_all else self.lanes[lane]
            y, memory = layer.step(x, memories.get(index))
            if remember and memory is not None and (self._counts or not of_all):
                memories[index] = memory
            x = np.asarray(y)  # NumPy makes scalars of arrays without axes
        return x


@translate_errors()
def make_preprocessing(where: str, spec: Any, states: Mapping[str, ValueSpec]) -> Preprocessing:
    """Preprocessing from what a user wrote.

    Args:
        where: its place, for messages: ``"Agent.create: preprocessing"``.
        spec: None, or a dictionary whose keys are names of states, types of states (for those whose name is no key) or
            ``reward``, and whose values are a layer or a list of layers, in any form that modules have; or the name of
            a JSON file with these.
        states: what goes in, by name.

    Raises:
        TensorforceError: a key or a layer is unknown, or an argument is invalid or does not fit the state; names it.
    """
    with translate_errors():
        given = mapping(where, {} if spec is None else _from_file(where, spec))
        known(where, given, [*states, *TYPES, REWARD], what="state")
        layers = {key: _read_layers(f"{where}[{key!r}]", value) for key, value in given.items() if value is not None}
    return Preprocessing(where, layers, states)


def _from_file(where: str, given: Any) -> Any:
    """What a JSON file holds, if one is named."""
    return read_file(where, given) if isinstance(given, str) and is_file_name(given) else given


def _read_layers(where: str, given: Any) -> list[dict[str, Any]]:
    given = _from_file(where, given)
    layers = given if isinstance(given, list | tuple) else [given]
    return [_read_layer(f"{where}[{index}]", layer) for index, layer in enumerate(layers)]


def _read_layer(where: str, given: Any) -> dict[str, Any]:
    """The type and all arguments; a ``name`` is allowed and not used."""
    kind, arguments = opened(where, given, _TABLE)
    arguments = {key: value for key, value in arguments.items() if key not in ("name", *IGNORED)}
    return {"type": kind, **read_arguments(where, arguments, LAYERS[kind].takes, f"{kind} layer")}
