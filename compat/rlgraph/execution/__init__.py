"""What runs agents in environments, as programs import it from ``rlgraph.execution``."""

from .single_threaded_worker import SingleThreadedWorker

__all__ = ["SingleThreadedWorker"]
