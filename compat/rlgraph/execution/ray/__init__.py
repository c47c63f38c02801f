"""``ApexExecutor``, as programs import it from ``rlgraph.execution.ray``. Ray is loaded when a workload is executed."""

from .apex import ApexExecutor

__all__ = ["ApexExecutor"]
