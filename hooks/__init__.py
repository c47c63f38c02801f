"""Hooks of axonrl."""
