"""The hooks of every training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.protocols import RunConfig
from .checkpoint import CheckpointHook
from .history import HistoryHook
from .logs import LoggingHook
from .nan_guard import NaNGuard
from .progress import ProgressHook
from .summary import SummaryHook


def with_defaults(config: RunConfig, hooks: Sequence[Any]) -> list[Any]:
    """Add the default hooks, NaNGuard and HistoryHook first. A hook of the same class replaces a default one."""
    defaults: list[Any] = [LoggingHook(), SummaryHook(config.save_summary_steps)]
    if config.progress:
        defaults.insert(0, ProgressHook())
    when = (config.save_checkpoints_secs, config.save_checkpoints_steps, config.save_checkpoints_episodes)
    if when != (None, None, None):
        defaults.append(CheckpointHook(*when))
    first = [hook for hook in (NaNGuard(), HistoryHook()) if not _has(hooks, type(hook))]
    return [*first, *hooks, *(hook for hook in defaults if not _has(hooks, type(hook)))]


def _has(hooks: Sequence[Any], kind: type) -> bool:
    return any(isinstance(hook, kind) for hook in hooks)
