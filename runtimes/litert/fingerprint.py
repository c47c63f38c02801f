"""Digest of what traced functions compute; equal in all processes and independent of names."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..tracing import graphs
from .conversion import ConversionError

_NAMES = ("container", "debug_name", "shared_name")
"""Attributes that only carry names; those that begin with an underscore are hints."""


def fingerprint(functions: Mapping[str, Any], variables: Sequence[Any], *more: str) -> str:
    """Digest functions: equal if they compute the same with variables in the same places, and different otherwise.

    Names are ignored, as a second model in the same process has layers and functions with higher numbers.

    Args:
        functions: concrete functions by name.
        variables: all variables in use.
        more: further content to digest.

    Returns:
        64 hexadecimal digits.

    Raises:
        ConversionError: they use outside objects other than variables and constants.
    """
    places = {id(variable.handle): f"variable {index}" for index, variable in enumerate(variables)}
    digest = hashlib.sha256(repr([*more, *((v.shape.as_list(), v.dtype.name) for v in variables)]).encode())
    for name, function in functions.items():
        graph = function.graph
        captures = zip(graph.internal_captures, function.captured_inputs, strict=True)
        captured = {inside.op.name: places.get(id(outside)) or _constant(outside) for inside, outside in captures}
        labels = {
            tensor.op.name: captured.get(tensor.op.name, f"input {i} {tensor.dtype.name}{tensor.shape}")
            for i, tensor in enumerate(function.inputs)
        }
        definition = graph.as_graph_def()
        outputs = [tensor.name for tensor in graph.outputs]
        effects = [op.name for op in graph.control_outputs]
        digest.update(name.encode() + _Digests(definition.library).of(definition.node, labels, outputs, effects))
    return digest.hexdigest()


def _constant(outside: Any) -> str:
    """Label a captured tensor from outside the function by its contents.

    Raises:
        ConversionError: it has no contents, for example a lookup table.
    """
    if not hasattr(outside, "numpy") or outside.dtype.name in ("resource", "variant"):
        raise ConversionError(f"it uses a {outside.dtype.name} (such as a lookup table) made outside model_fn")
    array = outside.numpy()
    content = repr(array.tolist()).encode() if array.dtype == object else array.tobytes()
    return f"constant {outside.dtype.name}{array.shape} {hashlib.sha256(content).hexdigest()}"


class _Digests:
    """Digests of function bodies, which may call functions of a FunctionDefLibrary."""

    def __init__(self, library: Any) -> None:
        self._functions = {function.signature.name: function for function in library.function}
        self._made: dict[str, bytes] = {}

    def of(
        self, nodes: Iterable[Any], inputs: Mapping[str, str], outputs: Sequence[str], effects: Iterable[str]
    ) -> bytes:
        """Digest a body.

        Args:
            nodes: its NodeDefs.
            inputs: labels of its inputs in the digest.
            outputs: tensors it returns.
            effects: nodes that run although no output depends on them.
        """
        by_name = {node.name: node for node in nodes}
        found: list[Any] = []
        graphs.walk(by_name.values(), [*outputs, *effects], found)
        reached = {node.name for node in found}
        labels, digest = dict(inputs), hashlib.sha256()
        for name in by_name:
            if name in reached and name not in inputs:
                labels[name] = f"node {len(labels)}"
        for name, node in by_name.items():
            if name not in reached or name in inputs:
                continue
            sources = [_label_tensor(source, labels) for source in node.input]
            # TensorFlow sorts control inputs by name.
            sources.sort(key=lambda source: source if source.startswith("^") else "")
            digest.update(repr((labels[name], node.op, sources)).encode())
            for key in sorted(node.attr):
                if key not in _NAMES and not key.startswith("_"):
                    digest.update(key.encode() + self._attribute(node.attr[key]))
        digest.update(repr([_label_tensor(output, labels) for output in outputs]).encode())
        return digest.digest()

    def _attribute(self, value: Any) -> bytes:
        called = [value.func.name] if value.HasField("func") else [function.name for function in value.list.func]
        if called:
            return b"".join(self._function(name) for name in called)
        encoded: bytes = value.SerializeToString(deterministic=True)
        return encoded

    def _function(self, name: str) -> bytes:
        if name not in self._made:
            if name not in self._functions:
                return name.encode()
            function = self._functions[name]
            inputs = {argument.name: f"input {i}" for i, argument in enumerate(function.signature.input_arg)}
            outputs = [function.ret[argument.name] for argument in function.signature.output_arg]
            self._made[name] = self.of(function.node_def, inputs, outputs, function.control_ret.values())
        return self._made[name]


def _node_of(tensor: str) -> str:
    return tensor.lstrip("^").split(":")[0]


def _label_tensor(tensor: str, labels: Mapping[str, str]) -> str:
    name = _node_of(tensor)
    return tensor.replace(name, labels[name], 1)
