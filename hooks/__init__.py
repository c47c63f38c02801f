"""Hooks observe and control a run. Heavy dependencies are imported in ``begin``, not here."""

from .checkpoint import CheckpointHook
from .counter import CounterHook
from .curriculum import CurriculumHook
from .evaluation import EvaluationHook
from .final_values import FinalValuesHook
from .history import HistoryHook
from .hook import Hook, Hooks
from .logs import LoggingHook
from .measures import Rates
from .nan_guard import NaNGuard
from .progress import ProgressHook
from .stop_conditions import StopAfterNoImprovement, StopAtEpisode, StopAtReturn, StopAtStep, StopAtTimestep
from .summary import SummaryHook
from .video import VideoHook

__all__ = [
    "CheckpointHook",
    "CounterHook",
    "CurriculumHook",
    "EvaluationHook",
    "FinalValuesHook",
    "HistoryHook",
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
