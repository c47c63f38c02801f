"""Validation of the outputs of a ``model_fn``. Errors name the model and the field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import tensorflow as tf

from ...core.errors import ArgumentError
from ...core.protocols import ArraySpec, EstimatorSpec

Tensor: TypeAlias = Any

_LONGEST_NAME: Final = 100


def tensors(model: str, field: str, values: Any) -> dict[str, Tensor]:
    """Convert a field of a spec to tensors by name; ``ValueError`` if it is invalid."""
    if not isinstance(values, Mapping):
        raise ValueError(f"{model}: {field} must be a mapping of names to tensors, got {values!r:.200}")
    return {name: _tensor(model, f"{field}[{name!r}]", value) for name, value in values.items()}


def predictions(model: str, values: Any) -> dict[str, Tensor]:
    """Convert a spec's predictions to tensors by name. Parts of a composite action are named ``action/<name>``."""
    action = values.get("action") if isinstance(values, Mapping) else None
    if not isinstance(action, Mapping):
        return tensors(model, "predictions", values)
    parts = {f"action/{name}": value for name, value in action.items()}
    others = {name: value for name, value in values.items() if name != "action"}
    if twice := sorted(parts.keys() & others.keys()):
        raise ValueError(f"{model}: predictions has {twice[0]!r}, which is also a part of its 'action'")
    return tensors(model, "predictions", {**parts, **others})


def _tensor(model: str, what: str, value: Any) -> Tensor:
    try:
        return tf.convert_to_tensor(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{model}: {what} must be a tensor, got {value!r:.200}") from error


def row_specs(model: str, field: str, tensors: Mapping[str, Tensor]) -> dict[str, ArraySpec]:
    """Specs of one row of tensors [B, ...]; ``ValueError`` for other shapes."""
    for name, tensor in tensors.items():
        if not tensor.shape.rank or tensor.shape[0] is not None or None in tensor.shape[1:]:
            raise ValueError(
                f"{model}: {field}[{name!r}] must have shape [B, ...], with a row for each observation and other"
                f" axes of known sizes, got {tensor.shape}"
            )
    return {name: ArraySpec(tuple(v.shape[1:]), v.dtype.as_numpy_dtype) for name, v in tensors.items()}


def train_outputs(model: str, spec: EstimatorSpec, axes: tf.TensorShape) -> dict[str, Tensor]:
    """Outputs of TRAIN: ``scalars``, the loss and the metrics, and ``td_error`` if the spec has it.

    ``axes`` are those of the batch: [B], or [T, N] for a rollout, whose rows a model may have flattened.
    """
    outputs = {"scalars": _scalars(model, spec.loss, "metrics", spec.metrics)}
    if spec.td_error is not None:
        td_error = outputs["td_error"] = _tensor(model, "td_error", spec.td_error)
        fits = any(td_error.shape.is_compatible_with(shape) for shape in (axes, [axes.num_elements()]))
        if not (td_error.dtype.is_floating and fits):
            raise ValueError(
                f"{model}: td_error must be floats of shape {axes}, one for each transition of the batch; got"
                f" {td_error.dtype.name} of shape {td_error.shape}"
            )
    return outputs


def eval_outputs(model: str, spec: EstimatorSpec) -> dict[str, Tensor]:
    """Outputs of EVAL: ``scalars``, the loss, then the eval metrics."""
    return {"scalars": _scalars(model, spec.loss, "eval_metric_ops", spec.eval_metric_ops)}


def _scalars(model: str, loss: Any, field: str, values: Any) -> Tensor:
    """The loss and the metrics of a field, float32 [1 + M]."""
    metrics = tensors(model, field, values)
    for name in metrics:
        _check_name(model, field, name)
    if "loss" in metrics:
        raise ValueError(f"{model}: {field} must not contain 'loss', which has a field of its own")
    scalars = {"loss": _tensor(model, "loss", loss), **{f"{field}[{k!r}]": v for k, v in metrics.items()}}
    for what, tensor in scalars.items():
        dtype = tensor.dtype
        if tensor.shape.rank != 0 or not (dtype.is_floating or dtype.is_integer or dtype.is_bool):
            raise ValueError(f"{model}: {what} must be a scalar number, got {dtype.name} of shape {tensor.shape}")
    return tf.stack([tf.cast(tensor, tf.float32) for tensor in scalars.values()])


def _check_name(model: str, field: str, name: Any) -> None:
    """Raise for a metric's name that a summary, a CSV file or a file's path cannot contain."""
    if (
        not isinstance(name, str)
        or not 0 < len(name) <= _LONGEST_NAME
        or not name.isprintable()
        or not {"", ".", ".."}.isdisjoint(name.split("/"))
    ):
        raise ArgumentError(
            f"{model}: {field} has the key {name!r:.200}; a metric's name must be a string of 1 to {_LONGEST_NAME}"
            " printable characters, without empty parts, '.' or '..' between slashes",
            field,
            name,
        )


def check_next_state(model: str, declared: Mapping[str, ArraySpec], state: Mapping[str, Tensor]) -> None:
    """Raise if the next recurrent state differs from the declared names, shapes or dtypes."""
    found = row_specs(model, "state", state)
    if found != dict(declared):
        raise ValueError(
            f"{model}: called with features['state'] it must return the next state, as declared: {dict(declared)};"
            f" it returned {found}"
        )
