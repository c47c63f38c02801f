"""The HTTP side of a service."""
