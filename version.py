"""The version, alone in a file that setup.cfg can read without importing anything."""

__version__ = "0.1.0"
