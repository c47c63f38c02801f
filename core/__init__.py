"""What every room imports: errors, checks, protocols, schedules, and the inputs of a trace. Loads no TensorFlow."""
