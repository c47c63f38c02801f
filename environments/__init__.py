"""Environments of axonrl."""
