"""Memories of axonrl."""
