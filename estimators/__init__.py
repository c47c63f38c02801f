"""Estimators of axonrl."""
