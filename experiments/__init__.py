"""Experiments: the YAML file that describes a run, the command line that runs it, and what a run folder records."""
