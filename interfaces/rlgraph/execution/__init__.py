"""Workers, as programs import them from ``rlgraph.execution``."""

from .single_threaded_worker import SingleThreadedWorker

__all__ = ["SingleThreadedWorker"]
