"""How the layers of a network are named and joined: blocks, tensors that are registered, layers used again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from ...common.layers.flow import Flow
from ...common.layers.internal import Internal
from ...common.layers.layer import Layer
from ...common.layers.merges import joined
from ...common.layers.scopes import scope, scopes
from ...common.value_specs import ValueSpec
from ..spaces.errors import choice, refuse
from .custom_layers import Keras
from .layer_types import LAYERS

LayerSpec: TypeAlias = Mapping[str, Any]
"""A layer in normal form: ``type``, perhaps ``name``, and arguments."""
Node: TypeAlias = "Callable[[Flow], None]"
"""One step of running a network: changes the current tensor of a flow."""

_NOT_ARGUMENTS: Final = ("type", "name", "summary_labels")
CURRENT: Final = "*"
"""The current tensor, among those to retrieve."""


class Assembly:
    """Builds layers one after another, each in a name scope of its own.

    Args:
        where: for messages.
        inputs: of the network, by name.
        internal: what names of internals begin with.
        one_internal: is there one at most, whose name needs no layer's?

    Attributes:
        nodes: what runs the network.
        internals: layers with memory, by the name of their state.
        variables: those that are trained, in the order of creation.
        untrained: all others, likewise.
        l2: regularizations of variables that do not have the agent's, by id.
    """

    def __init__(self, where: str, inputs: Mapping[str, ValueSpec], internal: str, *, one_internal: bool) -> None:
        self.nodes: list[Node] = []
        self.internals: dict[str, Internal] = {}
        self.variables: list[Any] = []
        self.untrained: list[Any] = []
        self.l2: dict[int, float] = {}
        self._where, self._internal, self._one_internal = where, internal, one_internal
        self._inputs = tuple(inputs)
        self._tensors = dict(inputs)  # specs of what can be retrieved
        self._reusable: dict[str, tuple[ValueSpec, ValueSpec, list[Node]]] = {}  # inputs and outputs, by name
        self._names: set[str] = set()
        self._recurrent: list[str] = []  # names of layers with a state
        self._block = ""  # the names of the blocks that are open, and a slash
        self._numbers: Counter[str] = Counter()

    def begin(self) -> ValueSpec | None:
        """Begin with the only input; with none if there are several."""
        if len(self._inputs) > 1:
            return None
        name = self._inputs[0]
        self.nodes.append(lambda flow: setattr(flow, "x", flow.tensors[name]))
        return self._tensors[name]

    def add(self, layer: LayerSpec, spec: ValueSpec | None) -> ValueSpec:
        """Add a layer to be called with tensors of a spec; returns the spec of what it makes."""
        kind = layer["type"]
        name = self._name(layer)
        place = f"{self._where}: layer {name!r}"
        if kind == "retrieve":
            return self._retrieve(place, layer, spec)
        if spec is None:
            states = ", ".join(self._inputs)
            refuse(place, f"needs a layer retrieve before it, which says with which of the states it begins: {states}")
        if kind == "register":
            return self._register(place, layer["tensor"], spec)
        if kind == "reuse":
            return self._reuse(place, layer["layer"], spec)
        first = len(self.nodes)
        output = self._add_block(layer, name, spec) if kind == "block" else self._add_layer(place, layer, name, spec)
        self._reusable[name] = (spec, output, self.nodes[first:])
        return output

    def _add_layer(self, place: str, layer: LayerSpec, name: str, spec: ValueSpec) -> ValueSpec:
        kind = choice(f"{place}: type", layer["type"], LAYERS)
        arguments = {key: value for key, value in layer.items() if key not in _NOT_ARGUMENTS}
        l2 = arguments.pop("l2_regularization", None)
        *outer, last = name.split("/")
        if kind == "keras":  # opens a scope by itself
            with scopes(*outer):
                made: Layer = Keras(place, spec, name=scope(last), **arguments)
        else:
            with scopes(*outer, last):
                made = LAYERS[kind](place, spec, **arguments)
        self.variables += made.variables
        self.untrained += made.untrained
        if l2 is not None:
            self.l2 |= {id(variable): l2 for variable in made.variables}
        if isinstance(made, Internal):
            self._add_internal(made, name)
        else:
            self.nodes.append(lambda flow: setattr(flow, "x", made(flow.x, flow.step)))
        return made.output

    def _add_internal(self, layer: Internal, name: str) -> None:
        middle = "" if self._one_internal else f"-{name.replace('/', '-')}"
        state = f"{self._internal}{middle}-state"
        self._recurrent.append(name)
        self.internals[state] = layer
        self.nodes.append(lambda flow: flow.run_internal(layer, state))

    def _add_block(self, layer: LayerSpec, name: str, spec: ValueSpec) -> ValueSpec:
        outer, numbers = self._block, self._numbers
        self._block, self._numbers = f"{name}/", Counter()
        for part in layer["layers"]:
            spec = self.add(part, spec)
        self._block, self._numbers = outer, numbers
        return spec

    def _register(self, place: str, tensor: str, spec: ValueSpec) -> ValueSpec:
        if tensor in self._tensors or tensor == CURRENT:
            refuse(f"{place}: tensor", f"has the name of another one: {tensor!r}; choose another", tensor)
        self._tensors[tensor] = spec
        self.nodes.append(lambda flow: flow.tensors.update({tensor: flow.x}))
        return spec

    def _reuse(self, place: str, layer: str, spec: ValueSpec) -> ValueSpec:
        argument = f"{place}: layer"
        if layer not in self._reusable and f"{self._block}{layer}" in self._reusable:
            layer = f"{self._block}{layer}"
        inputs, output, nodes = self._reusable[choice(argument, layer, self._reusable)]
        if (inputs.type, inputs.shape, inputs.num_values) != (spec.type, spec.shape, spec.num_values):
            found, wanted = f"{spec.type} {spec.shape}", f"{inputs.type} {inputs.shape}"
            refuse(argument, f"{layer!r} was made for inputs {wanted}, and cannot take {found}", layer)
        if any(name == layer or name.startswith(f"{layer}/") for name in self._recurrent):
            refuse(argument, f"{layer!r} has a state, which can be used once per timestep only", layer)
        self.nodes += nodes
        return output

    def _retrieve(self, place: str, layer: LayerSpec, spec: ValueSpec | None) -> ValueSpec:
        given = layer["tensors"]
        names = [given] if isinstance(given, str) else list(given)
        known = self._tensors if spec is None else {**self._tensors, CURRENT: spec}
        specs = [known[choice(f"{place}: tensors", name, known)] for name in names]
        kind = layer.get("aggregation", "concat")
        aggregate, output = joined(place, specs, kind, layer.get("axis", 0))

        def node(flow: Flow) -> None:
            flow.x = aggregate([flow.x if name == CURRENT else flow.tensors[name] for name in names])

        self.nodes.append(node)
        return output

    def _name(self, layer: LayerSpec) -> str:
        """The layer's own name, or its type and a number; after those of the blocks that it is in."""
        if layer.get("name") is not None:
            name = f"{self._block}{layer['name']}"
            if name in self._names:
                refuse(f"{self._where}: layer {name!r}", "is the name of two layers", name)
        else:
            name = self._numbered(layer["type"])
        self._names.add(name)
        return name

    def _numbered(self, kind: str) -> str:
        while True:
            name = f"{self._block}{kind}{self._numbers[kind]}"
            self._numbers[kind] += 1
            if name not in self._names:
                return name
