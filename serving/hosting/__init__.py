"""One hosted agent, without HTTP: its stepper, its journal, its files. Loads no TensorFlow."""
