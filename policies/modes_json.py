"""Modes and variables of compiled programs as JSON values."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from ..core.protocols import ArraySpec, SpecTree
from ..core.trace_inputs import Request
from .modes import PredictMode, TrainMode, VariableSpec


def modes_to_json(predict: PredictMode, train: TrainMode, exploration: Mapping[str, Any]) -> dict[str, Any]:
    """Encode the modes for ``program.json``; ``exploration`` describes PREDICT's."""
    return {
        "predict": {
            "outputs": _tree_to_json(predict.outputs),
            "exploration": exploration,
            "record": list(predict.record),
            "state": None if predict.state is None else _tree_to_json(predict.state),
            "noise": [dataclasses.asdict(request) for request in predict.noise],
        },
        "train": {
            "batch": _tree_to_json(train.batch),
            "metrics": list(train.metrics),
            "noise": [dataclasses.asdict(request) for request in train.noise],
            "reads": sorted(train.reads),
            "has_td_error": train.has_td_error,
            "reads_progress": train.reads_progress,
            "params": dict(train.params),
        },
    }


def variables_to_json(variables: Mapping[str, VariableSpec]) -> list[dict[str, Any]]:
    """Encode variables for ``program.json``, in order."""
    return [
        {"name": name, "shape": list(spec.shape), "dtype": spec.dtype.name, "trainable": spec.trainable}
        for name, spec in variables.items()
    ]


def requests(value: Sequence[Mapping[str, Any]]) -> tuple[Request, ...]:
    """Decode requests of noise."""
    return tuple(Request(one["kind"], tuple(one["shape"]), one["low"], one["high"]) for one in value)


def _tree_to_json(tree: Mapping[str, SpecTree]) -> dict[str, Any]:
    return {
        name: {"shape": list(spec.shape), "dtype": spec.dtype.name}
        if isinstance(spec, ArraySpec)
        else {"parts": _tree_to_json(spec)}
        for name, spec in tree.items()
    }


def tree(value: Mapping[str, Any]) -> dict[str, Any]:
    """Decode specs by name."""
    return {
        name: tree(spec["parts"]) if "parts" in spec else ArraySpec(tuple(spec["shape"]), spec["dtype"])
        for name, spec in value.items()
    }
