"""Explorations of axonrl."""
