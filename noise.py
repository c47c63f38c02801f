"""Randomness inside a ``model_fn``: one more input of the compiled program, drawn from the run's saved generators.

``normal``, ``uniform`` and ``permutation`` return a tensor with new values at every update. With them SAC samples and
PPO shuffles in a program that is pure, runs under any executor and resumes exactly; TensorFlow's stateful random ops
allow none of that.

In PREDICT (noisy networks) the values are new at every action in training, and zero in ``evaluate``, ``predict`` and
exports. ``predictions["action"]``, the greedy action, must not depend on them: return the noisy one as another
prediction, and let the spec's exploration choose it. The shape is static, so all rows of the batch share the values.

Each request is one input: inside the body of a ``tf.while_loop`` or ``tf.scan`` every iteration sees the same value.
Request noise for all iterations before the loop, ``normal([iterations, ...])``, and index it inside.
"""

from .core.trace_inputs import Request, normal, permutation, uniform
from .core.trace_inputs import supply_noise as supplying

__all__ = ["Request", "normal", "permutation", "supplying", "uniform"]
