"""The hooks of every training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.protocols import RunConfig
from .checkpoint import CheckpointHook
from .history import HistoryHook
from .hook import Hooks
from .logs import LoggingHook
from .nan_guard import NaNGuard
from .progress import ProgressHook
from .summary import SummaryHook


def with_defaults(config: RunConfig, hooks: Hooks, of_model: Sequence[Any]) -> Hooks:
    """Add the model's hooks and the default ones, NaNGuard and HistoryHook first.

    A hook of the same class replaces a default one.
    """
    defaults: list[Any] = [LoggingHook(), SummaryHook(config.save_summary_steps)]
    if config.progress:
        defaults.insert(0, ProgressHook())
    when = (config.save_checkpoints_secs, config.save_checkpoints_steps, config.save_checkpoints_episodes)
    if when != (None, None, None):
        defaults.append(CheckpointHook(*when))
    given = (*hooks, *of_model)

    def missing(chosen: Sequence[Any]) -> list[Any]:
        return [hook for hook in chosen if not any(isinstance(one, type(hook)) for one in given)]

    return Hooks(hooks, missing([NaNGuard(), HistoryHook()]), [*of_model, *missing(defaults)])
