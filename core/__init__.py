"""Shared by every room: errors, checks, protocols, schedules, and the inputs of a trace. Loads no TensorFlow."""
