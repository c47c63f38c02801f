"""Preprocessing of an exported policy: what ``policy.json`` says of it, and what it does. Loads no TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ..spaces import Space
from ..spaces.readers import StatesReader
from ..spaces.space_specs import rebuilt
from .preprocessors import Preprocessor

KIND: Final = "rlgraph"


def described(space: Space, preprocessor: Preprocessor) -> dict[str, Any] | None:
    """Entry of ``policy.json``; None if nothing is done to states of this space."""
    steps = preprocessor.to_json()
    return {"kind": KIND, "state_space": space.to_spec(), "steps": steps} if steps else None


def make(spec: Mapping[str, Any]) -> Callable[[Any], Any]:
    """From what :func:`described` returned to a function of one state or a batch of them."""
    space = Space.from_spec(spec["state_space"])
    preprocessor = Preprocessor("preprocessing", spec["steps"], space.flat())
    seen, read = rebuilt(space, preprocessor.outputs), StatesReader("Policy", space)

    def preprocess(observation: Any) -> Any:
        arrays, single = read("act", observation, "observation")
        found = preprocessor(arrays)
        return seen.unflatten({name: array[0] if single else array for name, array in found.items()})

    return preprocess
