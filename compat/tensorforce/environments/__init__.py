"""``Environment`` and the adapter to Gymnasium of ``tensorforce.environments``."""

from typing import TYPE_CHECKING, Any

from . import environment_specs as environment_specs  # Environment.create calls it
from .environment import Environment
from .limited import LimitedEnvironment as EnvironmentWrapper
from .remote import RemoteEnvironment

if TYPE_CHECKING:
    from .gymnasium_environment import GymnasiumEnvironment as OpenAIGym

__all__ = ["Environment", "EnvironmentWrapper", "OpenAIGym", "RemoteEnvironment"]


def __getattr__(name: str) -> Any:
    if name == "OpenAIGym":
        from .gymnasium_environment import GymnasiumEnvironment

        return GymnasiumEnvironment
    if (instead := environment_specs.instead_of_class(name)) is not None:
        raise ImportError(f"{name} is not supported: {instead}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
