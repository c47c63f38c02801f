"""``ApexExecutor`` of ``rlgraph.execution.ray``. Ray is loaded when a workload is executed."""

from .apex import ApexExecutor

__all__ = ["ApexExecutor"]
