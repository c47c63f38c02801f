"""Experiments of axonrl."""
