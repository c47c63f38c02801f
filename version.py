"""The version, in a file of its own that setup.cfg reads without importing anything."""

__version__ = "0.1.0"
