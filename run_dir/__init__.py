"""Runs: the run folder. Files that survive a crash, checkpoints, the run's record, converted programs, seeds."""
