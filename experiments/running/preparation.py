"""Preparation of an experiment: its training program is cached before its first run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..config import schema
from ..config.shipped import experiment_file
from . import components, runner


def prepare(experiment: str | Path, params: Mapping[str, Any] | None = None) -> Path:
    """Store an experiment's training program in the cache, so that its runs load no TensorFlow.

    This is useful for a Docker image or CI, for instance. It takes a few seconds, or no time if the program is already
    cached.

    Example::

        axonrl.prepare("ppo_cartpole")

    Args:
        experiment: an experiment file, or the name of a shipped experiment.
        params: values of params that the file declares.

    Returns:
        The program's directory.

    Raises:
        ExperimentError: the file is invalid; with the line.
        ValueError, CheckpointError: the program cannot be compiled or cached; says why.
    """
    texts = {name: str(value) for name, value in (params or {}).items()}
    loaded, document = schema.load(experiment_file(str(experiment)), texts, {}, components.check_parts)
    return runner.compile_experiment(loaded, document, None, [loaded.seed or 0])
