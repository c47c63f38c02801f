"""Running an experiment with many seeds: compiled once, then a process for each seed."""
