"""The functions of environments, from whose results tests read arrays or dictionaries of arrays."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium

from axonrl import environments

make: Callable[..., Any] = environments.make
open_environment: Callable[..., Any] = environments.open_environment
similar: Callable[..., Any] = environments.similar


def opened(env: Any, seeds: Any) -> Any:
    """Behind the batched interface, after its first reset."""
    batched = open_environment(env)
    batched.reset(None, seeds)
    return batched


@contextlib.contextmanager
def registered(env_id: str, entry_point: Any, **details: Any) -> Iterator[None]:
    """Gymnasium knows it meanwhile."""
    gymnasium.register(env_id, entry_point, **details)
    try:
        yield
    finally:
        del gymnasium.registry[env_id]
