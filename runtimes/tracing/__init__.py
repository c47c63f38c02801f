"""Tracing: a ``model_fn`` is called once for each mode while TensorFlow traces it, and never again."""
