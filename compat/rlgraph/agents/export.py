"""``export_graph``: a policy as a folder that acts without TensorFlow."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....core.errors import ArgumentError
from ....core.protocols import RunConfig
from ....run_dir.programs import shared
from ....run_dir.snapshot import Counters, PolicySnapshot
from ..environments.gymnasium_adapter import gymnasium_space
from ..processing.exported import described
from ..processing.preprocessors import Preprocessor
from ..spaces import Space
from ..utils.rlgraph_errors import RLGraphError, refuse
from .traced import TracedModel

if TYPE_CHECKING:
    from ....policies.weight_patches import FrozenProgram


class _Acting:
    """As ``export`` takes it."""

    def __init__(self, program: Any) -> None:
        self.program = program

    def acting_program(self) -> FrozenProgram | bytes:
        """PREDICT alone in LiteRT."""
        from ....runtimes.frozen import acting_program

        return acting_program(self.program, shared)


def export(
    where: str,
    model: TracedModel,
    spaces: tuple[Space, Space, Space],
    preprocessor: Preprocessor,
    counters: tuple[int, int],
    directory: str | Path,
) -> str:
    """Write a policy.

    Args:
        where: for messages.
        model: what acts.
        spaces: of states, of preprocessed states, and of actions.
        preprocessor: inside of the policy.
        counters: updates and timesteps so far.
        directory: where to.

    Returns:
        The directory.

    Raises:
        RLGraphError: LiteRT cannot run the model, the preprocessing remembers states, or there is something else.
    """
    states, seen, actions = spaces
    if preprocessor.is_stateful:
        problem = "cannot be exported: its step sequence remembers states. Keep sequences in your loop"
        refuse(f"{where}: preprocessing_spec", problem, preprocessor.to_json())
    from ....estimators.export import export as write

    config = RunConfig(
        observation_space=gymnasium_space(seen),
        action_space=gymnasium_space(actions),
    )
    program, weights = model.acting()
    policy = PolicySnapshot("last", weights, None, Counters(*counters))
    try:
        return str(write(_Acting(program), config, policy, directory, described(states, preprocessor)))
    except (ArgumentError, ValueError) as error:
        raise RLGraphError(f"{where}: {error}", "filename", str(directory)) from error
