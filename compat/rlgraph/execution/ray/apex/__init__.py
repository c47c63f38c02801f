"""``ApexExecutor``. Ray is loaded when a workload is executed."""

from .apex_executor import ApexExecutor

__all__ = ["ApexExecutor"]
