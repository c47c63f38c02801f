"""Built-in algorithms, one module each with its ``model_fn``, over shared blocks.

Importing this package does not load TensorFlow; calling a ``model_fn`` does.

Every ``model_fn`` takes the same arguments:

- ``features``: observations, a tensor [B, ...] or a mapping of tensors; in TRAIN and EVAL rollouts [T, N, ...] for
  algorithms with a BatchMemory, and sequences [T, B, ...] for those with a SequenceMemory.
- ``labels``: the batch of the memory, the counters ``global_step`` and ``global_timestep``, and ``progress``, the run's
  progress in 0 .. 1; ``weight`` [B] from a prioritized memory; for rollouts also what ``record`` names. ``None`` in
  PREDICT.
- ``mode``: one of ``Modes``.
- ``params``: a mapping with the parameters that differ from their defaults, or an instance of the algorithm's
  parameters, a frozen dataclass.
- ``config``: the ``RunConfig``, which has the spaces of the environment.

It returns an ``EstimatorSpec`` whose ``predictions["action"]`` is the greedy action in the environment's units.
"""
