"""Runs: training, evaluation, interaction and export of models."""
