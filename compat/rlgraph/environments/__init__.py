"""The environments of ``rlgraph.environments``. Gymnasium is loaded when one of its environments is made."""

from . import environment_specs as environment_specs  # Environment.from_spec calls it
from .environment import Environment
from .grid_world import GridWorld
from .openai_gym import OpenAIGymEnv
from .random_env import RandomEnv
from .sequential_vector_env import SequentialVectorEnv
from .vector_env import VectorEnv

__all__ = ["Environment", "GridWorld", "OpenAIGymEnv", "RandomEnv", "SequentialVectorEnv", "VectorEnv"]
