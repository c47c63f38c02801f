"""Built-in algorithms, one module each with its ``model_fn``, over shared blocks.

Importing this room loads no TensorFlow; calling a ``model_fn`` does.

Every ``model_fn`` takes the same arguments:

- ``features``: observations, a tensor [B, ...] or a mapping of such; in TRAIN and EVAL rollouts [T, N, ...] for
  on-policy algorithms, and sequences [T, B, ...] for r2d2.
- ``labels``: the batch of the memory, the counters ``global_step`` and ``global_timestep``, and ``progress``, the run's
progress in 0 .. 1; ``weight`` [B] from a prioritized memory; for rollouts also the recorded keys. ``None`` in
PREDICT.
- ``mode``: one of ``Modes``.
- ``params``: a mapping with the parameters that differ from their defaults, or an instance of the algorithm's
  parameters, a frozen dataclass.
- ``config``: the ``RunConfig``; it has the spaces of the environment.

It returns an ``EstimatorSpec`` whose ``predictions["action"]`` is the greedy action in the environment's units.
"""
