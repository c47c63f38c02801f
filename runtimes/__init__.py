"""Runtimes: a ``model_fn`` is traced (``tracing``), and an executor runs what was traced (``executors``)."""
