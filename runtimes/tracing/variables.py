"""Variables of a traced ``model_fn``: created once, reused by later traces in order of creation."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import tensorflow as tf
from tensorflow.python.ops.resource_variable_ops import ResourceVariable  # tf.Variable would call creators again

from ...core.checks import physical_memory
from ...core.initializers import Draw, Draws, current_draws
from ...core.protocols import Modes
from ...policies.modes import relative_name
from . import graphs

_PRETRAINED: Final = "To load a saved Keras model, use Agent(..., warm_start='model.keras')"


class VariableIdentity(NamedTuple):
    """Identity of a variable; its name is relative to layers numbered by Keras."""

    name: str
    dtype: tf.DType
    shape: tf.TensorShape

    def __str__(self) -> str:
        return f"{self.name} {self.dtype.name}{self.shape}"


@dataclasses.dataclass(frozen=True)
class Entry:
    """A stored variable and its relative name."""

    variable: tf.Variable
    name: str
    draw: Draw | None = None
    """Draw of the initial value, if NumPy drew it."""

    @property
    def identity(self) -> VariableIdentity:
        """The identity that a later trace must match."""
        return VariableIdentity(self.name, self.variable.dtype, self.variable.shape)

    def __str__(self) -> str:
        return str(self.identity)


class VariableStore:
    """Creates variables in the first trace of a mode, and provides them to all later traces.

    PREDICT is traced first; in each other mode, the first variables created must be PREDICT's, in the same order.

    Args:
        model_name: name of the ``model_fn``, for messages.
    """

    def __init__(self, model_name: str) -> None:
        self._model_name = model_name
        self._entries: list[Entry] = []
        self.num_predict = 0
        """Number of variables created by PREDICT."""

    @contextlib.contextmanager
    def reuse(self, mode: str) -> Iterator[dict[int, tf.Tensor]]:
        """Serve one call of ``model_fn``: requested variables are the stored ones in order, then new ones.

        Yields:
            The initial values of new variables, as symbolic tensors: index to tensor.

        Raises:
            ValueError: a requested variable differs from the stored one at its index; or, at the end, a stored one
                was not requested.
        """
        cursor, values, computed = 0, dict[int, tf.Tensor](), dict[int, tf.Tensor]()
        refuse_too_large = self._size_check(mode)

        def create(kwargs: dict[str, Any], is_new: bool, drawn: Callable[[], Sequence[Draw]]) -> None:
            initial = kwargs.get("initial_value")
            if callable(initial) and tf.executing_eagerly():
                function = _seeded_function(initial)
                if is_new and not drawn():
                    refuse_too_large(kwargs, function.outputs[0])
                kwargs["initial_value"] = function()
                values[cursor] = function.outputs[0]
            if not is_new:
                self._compare(mode, cursor, _requested_variable(kwargs))
            elif tf.executing_eagerly():
                self._entries.append(_make_entry(kwargs, kwargs["initial_value"], drawn()))
            else:
                value = values[cursor] = computed[cursor] = _value_of(kwargs)
                if not drawn():
                    refuse_too_large(kwargs, value)
                self._entries.append(_make_entry(kwargs, functools.partial(_zeros_like, value), drawn()))

        def creator(next_creator: Callable[..., tf.Variable], **kwargs: Any) -> tf.Variable:
            nonlocal cursor
            is_new = cursor >= len(self._entries)

            def wanted(shape: tuple[int, ...]) -> bool:
                if is_new:
                    refuse_too_large(kwargs, tf.TensorSpec(shape, tf.float32))
                return is_new

            with _drawing(wanted) as drawn:
                create(kwargs, is_new, drawn)
            cursor += 1
            return self._entries[cursor - 1].variable

        with tf.variable_creator_scope(creator):
            yield values
        if cursor < len(self._entries):
            raise self._missing(mode, cursor)
        self._initialise(mode, computed)

    def _size_check(self, mode: str) -> Callable[[Mapping[str, Any], Any], None]:
        """A function that raises before allocation if a further variable would exceed the machine's memory."""
        available, nbytes = physical_memory(), sum(_nbytes(entry.variable) for entry in self._entries)

        def refuse_too_large(kwargs: Mapping[str, Any], value: Any) -> None:
            nonlocal nbytes
            nbytes += _nbytes(value)
            if available is not None and nbytes > available:
                what = VariableIdentity(_requested_name(kwargs), value.dtype, value.shape)
                needs = f"its variables would need {nbytes:,} bytes, this machine has {available:,}: use smaller layers"
                raise ValueError(f"{self._model_name} in mode {mode!r} creates {what}; {needs}")

        return refuse_too_large

    @contextlib.contextmanager
    def reuse_in_eval(self) -> Iterator[None]:
        """Serve one call of ``model_fn`` in EVAL: requested variables are PREDICT's in order, then TRAIN's by name.

        By name, as EVAL may omit what only learning needs (such as an optimizer), which leaves gaps in the order.

        Raises:
            ValueError: it requests a variable that does not exist, or an ambiguous one.
        """
        shared, lent = self.num_predict, list[int]()
        stored = [str(entry) for entry in self._entries]

        def creator(next_creator: Callable[..., tf.Variable], **kwargs: Any) -> tf.Variable:
            wanted, number = str(_requested_variable(kwargs)), len(lent)
            places = [number] if number < shared else [i for i in range(shared, len(stored)) if i not in lent]
            place = next((i for i in places if stored[i] == wanted), None)
            if place is None:
                raise self._unknown_in_eval(wanted, number)
            lent.append(place)
            return self._entries[place].variable

        with tf.variable_creator_scope(creator):
            yield
        if len(lent) < shared:
            raise self._unknown_in_eval("nothing more", len(lent))
        there = Counter(stored[shared:])
        for key, number in Counter(stored[i] for i in lent[shared:]).items():
            if number < there[key]:
                raise ValueError(
                    f"{self._model_name} in mode 'eval' creates {number} of the {there[key]} variables {key} of mode"
                    " 'train', and it is unclear which ones: create all of them, in the same order, or give their"
                    " layers different names"
                )

    def end_predict(self) -> None:
        """End PREDICT: the variables so far belong to it."""
        self.num_predict = len(self._entries)

    def forget_training(self) -> None:
        """Drop the variables created by modes other than PREDICT."""
        del self._entries[self.num_predict :]

    def check_used(self, mode: str, function: Any) -> None:
        """Raise if a trace uses a variable that no call of ``model_fn`` created, or loads weights.

        Raises:
            ValueError: names the variable.
        """
        own = {id(entry.variable.handle) for entry in self._entries}
        named = {id(variable.handle): variable.name for variable in function.variables}  # unordered
        for key in map(id, function.captured_inputs):
            if key in named and key not in own:
                raise ValueError(
                    f"{self._model_name} in mode {mode!r} uses the variable {named[key]}, which it did not create:"
                    f" {_advice(named[key])}"
                )
        self._refuse_loading(mode, function)

    def variables(self) -> dict[str, tf.Variable]:
        """The variables in order, by unique names that are the same in every process."""
        return {f"{index:04d}.{entry.name}": entry.variable for index, entry in enumerate(self._entries)}

    def draws(self) -> dict[str, Draw]:
        """Draws of the initial values that NumPy drew, by the names of :meth:`variables`."""
        named = zip(self.variables(), self._entries, strict=True)
        return {name: entry.draw for name, entry in named if entry.draw is not None}

    def predict_variables(self) -> dict[str, tf.Variable]:
        """Variables created by PREDICT, as in :meth:`variables`."""
        return dict(itertools.islice(self.variables().items(), self.num_predict))

    def _initialise(self, mode: str, computed: Mapping[int, tf.Tensor]) -> None:
        """Set new variables to the values computed by the trace."""
        if not computed:
            return
        whole = next(iter(computed.values())).graph.as_graph_def()
        definition = graphs.computing(computed.values(), whole)
        if any(node.op == "Placeholder" for node in definition.node):
            self._refuse_dependent(mode, computed, whole)
        with tf.init_scope():
            wrapped = tf.compat.v1.wrap_function(lambda: tf.import_graph_def(definition, name=""), [])
            found = wrapped.prune([], [wrapped.graph.as_graph_element(value.name) for value in computed.values()])()
            for place, value in zip(computed, found, strict=True):
                self._entries[place].variable.assign(value)

    def _refuse_dependent(self, mode: str, computed: Mapping[int, tf.Tensor], whole: Any) -> None:
        nodes = {place: graphs.computing([value], whole).node for place, value in computed.items()}
        place = next(place for place in nodes if any(node.op == "Placeholder" for node in nodes[place]))
        raise ValueError(
            f"{self._model_name} in mode {mode!r} computes the initial value of {self._entries[place]} from its"
            " features, its labels or another variable: compute it from constants and random numbers; to start with"
            " the values of another variable, give both layers initialisers with the same seed"
        )

    def _compare(self, mode: str, index: int, wanted: VariableIdentity) -> None:
        if wanted != self._entries[index].identity:
            raise self._other_than_predict(mode, str(wanted), index)

    def _other_than_predict(self, mode: str, wanted: str, index: int) -> ValueError:
        return ValueError(
            f"{self._model_name} in mode {mode!r} creates {wanted} as its variable number {index}, where mode 'predict'"
            f" created {self._entries[index]}: every mode must first create PREDICT's variables, in the same order (the"
            " online network before the target network); build layers inside model_fn"
        )

    def _missing(self, mode: str, index: int) -> ValueError:
        return ValueError(
            f"{self._model_name} in mode {mode!r} does not create {self._entries[index]}, which mode 'predict' created"
            f" as its variable number {index}: every mode must first create PREDICT's variables; build layers inside"
            " model_fn"
        )

    def _unknown_in_eval(self, wanted: str, index: int) -> ValueError:
        if index < self.num_predict:
            return self._other_than_predict(Modes.EVAL, wanted, index)
        return ValueError(
            f"{self._model_name} in mode 'eval' creates {wanted}, which mode 'train' did not create: EVAL has the"
            " variables of training and no others, so compute eval metrics from the batch (Keras metrics have"
            " their own variables)"
        )

    def _refuse_loading(self, mode: str, function: Any) -> None:
        """Raise if constants, as from a file, are assigned to weights: each call would assign them again."""
        entries = {id(entry.variable.handle): entry for entry in self._entries if entry.variable.shape.rank}
        for key, op in graphs.constants_assigned(function).items():
            if key in entries and entries[key].variable.trainable:
                place = graphs.place_of_op(op)
                raise ValueError(
                    f"{self._model_name} in mode {mode!r} loads weights into {entries[key]}"
                    f"{'' if place is None else f' ({place})'}: the traced function would load them again at every"
                    f" {'update' if mode == Modes.TRAIN else 'call'}. {_PRETRAINED}"
                )


def _nbytes(value: Any) -> int:
    sizes = value.shape.as_list() if value.shape.rank is not None else [0]
    return math.prod(size or 0 for size in sizes) * int(value.dtype.size)


def _requested_name(kwargs: Mapping[str, Any]) -> str:
    return relative_name(tf.compat.v1.get_default_graph().get_name_scope(), kwargs.get("name"))


def _requested_variable(kwargs: Mapping[str, Any]) -> VariableIdentity:
    """The variable that a creator's arguments describe."""
    value = _value_of(kwargs)  # dead code in the trace; only for shape and dtype
    shape = value.shape if kwargs.get("shape") is None else tf.TensorShape(kwargs["shape"])
    return VariableIdentity(_requested_name(kwargs), value.dtype, shape)


def _value_of(kwargs: Mapping[str, Any]) -> tf.Tensor:
    initial = kwargs.get("initial_value")
    return tf.convert_to_tensor(initial() if callable(initial) else initial, dtype=kwargs.get("dtype"))


def _make_entry(kwargs: Mapping[str, Any], initial: Any, drawn: Sequence[Draw]) -> Entry:
    """Create a variable outside the trace, so that ``tf.function`` traces once instead of twice."""
    with tf.init_scope():
        variable = ResourceVariable(**{**kwargs, "initial_value": initial})
        return Entry(variable, _requested_name(kwargs), drawn[0] if len(drawn) == 1 else None)


def _zeros_like(value: tf.Tensor) -> tf.Tensor:
    """Zeros outside the trace; a shape unknown there depends on features, and :meth:`_refuse_dependent` raises."""
    sizes = value.shape.as_list() if value.shape.rank else []
    return tf.zeros([size or 0 for size in sizes], value.dtype)


@contextlib.contextmanager
def _drawing(wanted: Callable[[tuple[int, ...]], bool]) -> Iterator[Callable[[], Sequence[Draw]]]:
    """Yield a function that returns NumPy's draws in this context so far; ``wanted`` as for ``Draws``."""
    draws = current_draws() or Draws(0)
    before, draws.wanted = len(draws.made), wanted
    yield lambda: draws.made[before:]


def _seeded_function(initial: Callable[[], Any]) -> Any:
    """Seed an initial value that Keras computes outside the traced graph, where TensorFlow's ops have no seed.

    Python's generator is the trace's own.
    """
    seed = random.getrandbits(31)

    def compute() -> Any:
        tf.random.set_seed(seed)  # seed of this function's graph
        return initial()

    return tf.function(compute, autograph=False).get_concrete_function()


def _advice(variable_name: str) -> str:
    if "seed_generator" in variable_name:  # Keras shares one among all unseeded uses of keras.random
        return "use axonrl.noise, or pass keras.random a SeedGenerator made inside model_fn"
    return f"build layers inside model_fn. {_PRETRAINED}"
