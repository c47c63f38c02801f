"""The ONNX model of an export."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..policies import description
from ..run_dir.folders import write_and_record
from ..run_dir.snapshot import PolicySnapshot
from .model import Model


def write_onnx(model: Model, policy: PolicySnapshot, folder: Path, described: Mapping[str, Any]) -> dict[str, Any]:
    """Write ``policy.onnx``.

    Args:
        model: the acting model.
        policy: the exported policy.
        folder: output folder.
        described: contents of ``policy.json``.

    Returns:
        Entry of ``policy.json`` for the ONNX model.

    Raises:
        ValueError: ONNX lacks an op (names it).
    """
    from ..runtimes.onnx_conversion import OPSET, input_name, input_specs

    parts = description.parts(described["observation"]["arrays"])
    normalization = description.normalization_from(described["normalization"])
    action_space = description.space_attributes(described["action"]["space"])
    content = model.onnx_model(policy, (parts, normalization), action_space)
    inputs = {input_name(name): spec for name, spec in input_specs(parts).items()}
    return {
        **write_and_record(folder / description.ONNX, [content]),
        "opset": OPSET,
        "inputs": description.specs_to_json(inputs),
    }
