"""The workers of ``rlgraph.execution``."""

from .single_threaded_worker import SingleThreadedWorker
from .worker import Worker

__all__ = ["SingleThreadedWorker", "Worker"]
