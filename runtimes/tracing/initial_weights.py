"""Initial weights of a ``model_fn``'s variables as a function of the run's seed.

There are two ways, both bit-identical with tracing. :func:`initial_weights` calls the function once in each mode,
creates its variables, and skips everything else. :func:`initial_program` turns these computations into a graph: Keras's
initialisers draw with stateless ops whose seeds are constants, drawn from Python's generator, so the constants become
inputs. Each further seed then costs milliseconds, without the function.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import tensorflow as tf

from ...core.protocols import Array, ArraySpec, Modes, SpecTree
from ...core.trace_inputs import supply_noise
from ...policies.modes import COUNTERS
from . import graphs
from .features import Tree, as_features, as_labels, tensor_specs
from .generators import seeded
from .signature import BoundModelFn
from .variables import VariableStore

SEEDS: Final = "seeds"
"""Input of the graph."""


@dataclasses.dataclass(frozen=True)
class Draw:
    """A number drawn from Python's generator: the method of ``random.Random``, and its arguments."""

    method: str
    arguments: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class InitialProgram:
    """The initial values of the variables that depend on the seed.

    Args:
        graph: a serialised GraphDef. Its input ``SEEDS``, uint32, has all draws of PREDICT, then all of TRAIN.
        draws: the draws of the two modes, each from a new generator with the seed.
        outputs: name of each variable, and its tensor in the graph.
    """

    graph: bytes
    draws: tuple[tuple[Draw, ...], tuple[Draw, ...]]
    outputs: Mapping[str, str]

    def function(self) -> Callable[[int], dict[str, Array]]:
        """Make a function from a seed, as for :func:`initial_weights`, to these variables' values by name."""
        definition = tf.compat.v1.GraphDef.FromString(self.graph)
        wrapped = tf.compat.v1.wrap_function(lambda: tf.import_graph_def(definition, name=""), [])
        tensors = [wrapped.graph.as_graph_element(output) for output in self.outputs.values()]
        run = wrapped.prune(wrapped.graph.as_graph_element(f"{SEEDS}:0"), tensors)

        def values(seed: int) -> dict[str, Array]:
            drawn: list[int] = []
            for draws in self.draws:
                generator = random.Random(seed)
                drawn += [getattr(generator, draw.method)(*draw.arguments) for draw in draws]
            found = run(tf.constant(drawn, tf.uint32))
            return {name: value.numpy() for name, value in zip(self.outputs, found, strict=True)}

        return values


class InitialValues:
    """Variables that a ``model_fn`` creates in each mode, by name, and how their values are computed."""

    def __init__(self) -> None:
        self.weights: dict[str, Array] = {}
        self.draws: list[tuple[Draw, ...]] = []
        self.drawn: list[list[int]] = []
        """The numbers drawn by ``draws``."""
        self.tensors: dict[str, tuple[int, tf.Tensor]] = {}
        """The values as symbolic tensors, with the index of their mode."""


def initial_weights(
    model_fn: BoundModelFn,
    observation: SpecTree,
    state: Mapping[str, ArraySpec] | None,
    batch: Mapping[str, SpecTree],
    seed: int,
) -> InitialValues:
    """Compute the initial values of a :class:`.program.Program` with this seed.

    Args:
        model_fn: the user's function, bound.
        observation: spec of one observation at the environment's boundary.
        state: the recurrent state of one row; None if the model has none.
        batch: the batch for tracing TRAIN.
        seed: seed of the program.

    Returns:
        All variables of PREDICT and TRAIN in order, by the names of ``Program.variables``.

    Raises:
        ValueError: the function is invalid.
    """
    store, found = VariableStore(model_fn.name), InitialValues()
    features = tensor_specs(observation, batch_axes=(None,))
    if state is not None:
        features = {"observation": features, "state": tensor_specs(state, batch_axes=(None,))}
    computed: dict[int, tuple[int, tf.Tensor]] = {}

    def create(mode: str, *specs: Tree) -> None:
        def call(*inputs: Tree) -> Any:
            with store.reuse(mode) as tensors, seeded(seed), _recorded() as draws:
                _call(model_fn, mode, *inputs)
            found.draws.append(tuple(draw for draw, _ in draws))
            found.drawn.append([number for _, number in draws])
            computed.update({place: (len(found.draws) - 1, tensor) for place, tensor in tensors.items()})
            graphs.forget_custom_gradients(tf.compat.v1.get_default_graph())
            return tf.zeros(())

        tf.function(call, autograph=False).get_concrete_function(*specs)

    create(Modes.PREDICT, features)
    store.end_predict()
    counters = {name: tf.TensorSpec((), dtype) for name, dtype in COUNTERS.items()}
    create(Modes.TRAIN, {key: tensor_specs(value) for key, value in batch.items()}, counters)
    variables = store.variables()
    found.weights = {name: variable.numpy() for name, variable in variables.items()}
    found.tensors = {name: computed[place] for place, name in enumerate(variables) if place in computed}
    return found


def _call(model_fn: BoundModelFn, mode: str, batch: Tree, counters: Mapping[str, Any] | None = None) -> None:
    """Call the function with zeros for noise: with features alone, or with a batch and the counters."""
    labels: dict[str, Tree] | None = None
    if counters is None:
        features = as_features(batch)
    else:
        features, labels = as_labels(batch)
        labels.update(counters)
    with supply_noise(lambda request: tf.zeros(request.shape, request.dtype)):
        model_fn(features, labels, mode)


def initial_program(
    found: InitialValues, other: Mapping[str, Array], other_seed: int, drawn: Collection[str] = ()
) -> InitialProgram | None:
    """Make a program of the seed.

    Args:
        found: the values of one seed.
        other: the values of another seed. Variables with equal values are assumed to be the same for all seeds.
        other_seed: the other seed; the program must reproduce its values, too.
        drawn: variables to leave out, as NumPy draws their values.

    Returns:
        None if the values depend on the seed in any way other than constants drawn as integers.
    """
    every = found.weights.items()
    differing = [name for name, array in every if name not in drawn and array.tobytes() != other[name].tobytes()]
    if any(name not in found.tensors for name in differing):
        return None
    first, wholes = [0, len(found.drawn[0])], dict[int, Any]()

    def build(seeds: Any) -> list[Any]:
        seeds = tf.identity(seeds, name=SEEDS)
        outputs = []
        for number, name in enumerate(differing):
            mode, tensor = found.tensors[name]
            if mode not in wholes:
                wholes[mode] = tensor.graph.as_graph_def()
            definition = graphs.computing([tensor], wholes[mode])
            replaced = {
                f"{node}:0": tf.cast(tf.stack([seeds[first[mode] + place], tf.constant(0, tf.uint32)]), dtype)
                for node, (place, dtype) in _seeds_in(definition, found.drawn[mode]).items()
            }
            outputs += tf.import_graph_def(
                definition, input_map=replaced, return_elements=[tensor.name], name=f"value{number}"
            )
        return outputs

    graph = tf.Graph()
    with graph.as_default():
        tensors = build(tf.compat.v1.placeholder(tf.uint32, [sum(map(len, found.drawn))]))
    program = InitialProgram(
        graph.as_graph_def().SerializeToString(deterministic=True),
        (found.draws[0], found.draws[1]),
        {name: tensor.name for name, tensor in zip(differing, tensors, strict=True)},
    )
    values = program.function()(other_seed)
    if any(values[name].tobytes() != other[name].tobytes() for name in differing):
        return None
    return program


def _seeds_in(definition: Any, drawn: Sequence[int]) -> dict[str, tuple[int, tf.DType]]:
    """Constants [seed, 0] with a drawn seed: node to the index of the draw, and its dtype."""
    found: dict[str, tuple[int, tf.DType]] = {}
    for node in definition.node:
        if node.op != "Const":
            continue
        value = tf.make_ndarray(node.attr["value"].tensor)
        if value.shape == (2,) and value.dtype.kind in "iu" and value[1] == 0 and int(value[0]) in drawn:
            found[node.name] = drawn.index(int(value[0])), tf.as_dtype(node.attr["dtype"].type)
    return found


@contextlib.contextmanager
def _recorded() -> Iterator[list[tuple[Draw, int]]]:
    """Record draws from these functions of the module ``random`` within the context."""
    names, draws = ("randint", "getrandbits"), list[tuple[Draw, int]]()
    originals = {name: getattr(random, name) for name in names}

    def recording(name: str) -> Callable[..., int]:
        def draw(*arguments: int, **named: int) -> int:
            number: int = originals[name](*arguments, **named)
            given = inspect.signature(originals[name]).bind(*arguments, **named).args
            draws.append((Draw(name, tuple(map(int, given))), number))
            return number

        return draw

    for name in names:
        setattr(random, name, recording(name))
    try:
        yield draws
    finally:
        for name, original in originals.items():
            setattr(random, name, original)
