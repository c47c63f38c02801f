"""Tracing: a ``model_fn`` is called while TensorFlow traces it, once for each mode, and never after that."""
