"""From what was traced and converted to its executor."""

from __future__ import annotations

from ...core.tensorflow_import import use_tensorflow
from ...policies.lite_executor import LiteRTExecutor
from ..tracing.program import Program, Train


def lite_executor(program: Program, train: Train | None, content: bytes) -> LiteRTExecutor:
    """Runs a converted program; the weights begin as TensorFlow's variables are.

    Args:
        program: the traced ``model_fn``.
        train: its TRAIN, or None to act only.
        content: of the LiteRT file that was converted from PREDICT, from TRAIN, or from both.

    Raises:
        ValueError: LiteRT does not take the program.
    """
    use_tensorflow()
    weights = {name: variable.numpy() for name, variable in program.store.variables().items()}
    return LiteRTExecutor(program, train, content, weights)
