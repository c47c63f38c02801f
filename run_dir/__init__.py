"""The run folder: crash-safe files, checkpoints, the run's record, converted programs, seeds."""
