"""The ONNX model of an export, and its comparison with the agent."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..contracts import RunConfig
from ..policies import description
from ..runs.files import write_json_atomically
from ..runs.folders import written
from ..runs.snapshot import PolicySnapshot
from .model import Model
from .parity import Boundary, Reference, compare


def write_onnx(
    model: Model,
    config: RunConfig,
    policy: PolicySnapshot,
    environment: Mapping[str, Any] | None,
    folder: Path,
    described: Mapping[str, Any],
) -> dict[str, Any]:
    """Write ``policy.onnx`` and ``parity.json``.

    Args:
        model: what acts.
        config: with the spaces.
        policy: what is exported.
        environment: of the run, in which observations are played; None for none.
        folder: to write into.
        described: what ``policy.json`` says of the policy.

    Returns:
        What ``policy.json`` says of the ONNX model.

    Raises:
        ValueError: ONNX lacks an op (names it), or the ONNX model does not act as the agent does.
    """
    from ..runtimes.onnx_conversion import OPSET, input_name, input_specs

    parts = description.parts(described["observation"]["arrays"])
    normalization = description.normalization_from(described["normalization"])
    action_space = description.space_attributes(described["action"]["space"])
    content = model.onnx_model(policy, (parts, normalization), action_space)
    boundary = Boundary(config.observation_space, config.action_space, parts, normalization)
    with model.acting(policy) as act:
        found = compare(content, Reference(act, boundary, model.program.predict.state), environment)
    write_json_atomically(folder / description.PARITY, found)
    inputs = {input_name(name): spec for name, spec in input_specs(parts, normalization).items()}
    return {
        **written(folder / description.ONNX, [content]),
        "opset": OPSET,
        "inputs": description.specs_to_json(inputs),
    }
