"""Runtimes of axonrl."""
