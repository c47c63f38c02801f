"""Workers, as programs import them from ``rlgraph.execution``."""

from .single_threaded_worker import SingleThreadedWorker
from .worker import Worker

__all__ = ["SingleThreadedWorker", "Worker"]
