"""Makes the executor of a converted program."""

from __future__ import annotations

from ...core.tensorflow_import import use_tensorflow
from ...policies.lite_executor import LiteRTExecutor
from ..tracing.program import Program, Train


def lite_executor(program: Program, train: Train | None, content: bytes) -> LiteRTExecutor:
    """Make the executor; weights start with the values of TensorFlow's variables.

    Args:
        program: the traced ``model_fn``.
        train: its TRAIN, or None to act only.
        content: the LiteRT file converted from PREDICT, from TRAIN, or from both.

    Raises:
        ValueError: LiteRT cannot load the program.
    """
    use_tensorflow()
    weights = {name: variable.numpy() for name, variable in program.store.variables().items()}
    return LiteRTExecutor(program, train, content, weights)
