"""Polyaxon: the tracker of its servers and offline runs, and submission of experiments."""
