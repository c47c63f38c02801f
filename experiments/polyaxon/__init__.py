"""Polyaxon: a tracker for its servers and offline runs, and submission of experiments."""
