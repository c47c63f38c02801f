"""The variables of a traced ``model_fn``: created once, handed over to every later trace, in the order of creation."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from ..contracts import Modes


@dataclasses.dataclass(frozen=True)
class Entry:
    """A variable and what identifies it: its name relative to layers that Keras has numbered."""

    variable: tf.Variable
    name: str

    def __str__(self) -> str:
        return f"{self.name} {self.variable.dtype.name}{list(self.variable.shape)}"


class VariableStore:
    """Creates variables in the first trace of a mode and hands them over in all others.

    PREDICT is traced first; in each other mode the first variables created must be PREDICT's, in the same order.
    """

    def __init__(self, model_name: str) -> None:
        self._model_name = model_name
        self.entries: list[Entry] = []
        self.num_predict = 0
        """How many of them PREDICT created."""

    @contextlib.contextmanager
    def handing_over(self, mode: str) -> Iterator[None]:
        """One trace of ``mode``: variables asked for are handed over while there are stored ones, then created.

        Raises:
            ValueError: a variable asked for is not the one that its place in the order says; or, at the end, a
                stored one was not asked for.
        """
        cursor = 0

        def creator(next_creator: Callable[..., tf.Variable], **kwargs: Any) -> tf.Variable:
            nonlocal cursor
            name = relative_name(tf.compat.v1.get_default_graph().get_name_scope(), kwargs.get("name"))
            if cursor == len(self.entries):
                self.entries.append(Entry(next_creator(**kwargs), name))
            else:
                self._compare(mode, cursor, name, kwargs)
            cursor += 1
            return self.entries[cursor - 1].variable

        with tf.variable_creator_scope(creator):
            yield
        if cursor < len(self.entries):
            self._refuse_missing(mode, cursor)

    def check_used(self, mode: str, function: Any) -> None:
        """Refuse a trace that reads a variable which no call of ``model_fn`` created.

        Raises:
            ValueError: names the variable.
        """
        own = {id(entry.variable) for entry in self.entries}
        for variable in function.variables:
            if id(variable) not in own:
                raise ValueError(
                    f"{self._model_name} in mode {mode!r} uses the variable {variable.name} that it did not create:"
                    " build layers inside model_fn"
                )

    def variables(self) -> dict[str, tf.Variable]:
        """The variables in order, each under a unique name."""
        return {f"{index:04d}.{entry.name}": entry.variable for index, entry in enumerate(self.entries)}

    def _compare(self, mode: str, index: int, name: str, kwargs: dict[str, Any]) -> None:
        entry = self.entries[index]
        initial = kwargs.get("initial_value")
        # The value is dead code in the trace; it only tells shape and dtype.
        value = tf.convert_to_tensor(initial() if callable(initial) else initial, dtype=kwargs.get("dtype"))
        if (name, value.shape, value.dtype) == (entry.name, entry.variable.shape, entry.variable.dtype):
            return
        owner = Modes.PREDICT if index < self.num_predict else mode
        raise ValueError(
            f"{self._model_name} in mode {mode!r} creates {name} {value.dtype.name}{list(value.shape)} as its variable"
            f" number {index}, where mode {owner!r} created {entry}: every mode must first create PREDICT's variables,"
            " in the same order (the online network before the target network), and the same ones at every call"
        )

    def _refuse_missing(self, mode: str, cursor: int) -> None:
        missing = self.entries[cursor]
        if cursor < self.num_predict and mode != Modes.PREDICT:
            raise ValueError(
                f"{self._model_name} in mode {mode!r} creates {cursor} variables, and {missing}, which mode 'predict'"
                " created, is not among them: build layers inside model_fn, the same in every mode"
            )
        raise ValueError(
            f"{self._model_name} in mode {mode!r} uses the stored variable {missing} that it was not handed: the layer"
            " was made by an earlier call; build layers inside model_fn"
        )


def relative_name(scope: str, name: str | None) -> str:
    """The variable's path without the numbers that Keras and TensorFlow append: ``dense_3/kernel`` is ``dense/kernel``.

    A second call of the same ``model_fn`` builds the same layers with higher numbers, so numbers say nothing. An
    optimizer's slots carry their variable's path inside their name (``dense_3_kernel_momentum``).
    """
    path = f"{scope}/{name or 'Variable'}".strip("/")
    return re.sub(r"_\d+(?=_|/|$)", "", path)
