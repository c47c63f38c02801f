"""Hooks: what watches and acts on a run. Nothing heavy is imported here; what a hook needs, it loads in ``begin``."""

from .checkpoint import CheckpointHook
from .counter import CounterHook
from .evaluation import EvaluationHook
from .final_values import FinalValuesHook
from .hook import Hook, Hooks
from .logs import LoggingHook
from .measures import Rates
from .nan_guard import NaNGuard
from .progress import ProgressHook
from .stopping import StopAfterNoImprovement, StopAtEpisode, StopAtReturn, StopAtStep, StopAtTimestep
from .summary import SummaryHook
from .video import VideoHook

__all__ = [
    "CheckpointHook",
    "CounterHook",
    "EvaluationHook",
    "FinalValuesHook",
    "Hook",
    "Hooks",
    "LoggingHook",
    "NaNGuard",
    "ProgressHook",
    "Rates",
    "StopAfterNoImprovement",
    "StopAtEpisode",
    "StopAtReturn",
    "StopAtStep",
    "StopAtTimestep",
    "SummaryHook",
    "VideoHook",
]
