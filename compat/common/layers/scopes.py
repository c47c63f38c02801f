"""Names of variables: those of the layers that they are in, before their own."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import keras


@contextlib.contextmanager
def scopes(*names: str) -> Iterator[None]:
    """Context in which names of variables begin with these names."""
    with contextlib.ExitStack() as stack:
        for name in names:
            stack.enter_context(keras.name_scope(scope(name)))
        yield


def scope(name: str) -> str:
    """A name as a name scope: with the characters that TensorFlow takes.

    Traces drop the numbers that Keras appends to names (``dense_3``). A user's own is followed by a dot, which names
    cannot have, so that it stays: ``conv_1`` is ``conv_1.``.
    """
    return re.sub(r"(_\d+)(?=_|$)", r"\1.", re.sub(r"[^A-Za-z0-9_-]", "_", name))
