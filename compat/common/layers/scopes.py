"""Variable names, prefixed with the names of the enclosing layers."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import keras


@contextlib.contextmanager
def scopes(*names: str) -> Iterator[None]:
    """Context that prefixes variable names with these names."""
    with contextlib.ExitStack() as stack:
        for name in names:
            stack.enter_context(keras.name_scope(scope(name)))
        yield


def scope(name: str) -> str:
    """A name as a name scope, in characters that TensorFlow accepts.

    Traces drop the numbers that Keras appends to names (``dense_3``). To keep a number that the user wrote, a dot is
    appended, which names cannot contain: ``conv_1`` becomes ``conv_1.``.
    """
    return re.sub(r"(_\d+)(?=_|$)", r"\1.", re.sub(r"[^A-Za-z0-9_-]", "_", name))
