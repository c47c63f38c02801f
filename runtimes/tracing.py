"""Tracing: a plain ``model_fn`` becomes graphs, once, and no executor ever calls it again.

PREDICT is traced first; its variables are handed over to the trace of TRAIN (see ``variables.py``). Noise requested
inside becomes further inputs. What a trace must not do is refused here, before the first timestep.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from .. import noise
from ..contracts import ArraySpec, EstimatorSpec, Exploration, Modes, SpecTree
from .signature import BoundModelFn
from .variables import VariableStore

Tree: TypeAlias = Any
"""A tensor, or a dictionary of tensors."""

COUNTERS = ("global_step", "global_timestep")
_STATEFUL_RANDOM = {"RandomStandardNormal", "RandomUniform", "RandomUniformInt", "TruncatedNormal", "Multinomial"}
_STATEFUL_RANDOM |= {"RandomShuffle", "RandomGamma", "RandomPoissonV2", "ParameterizedTruncatedNormal"}


@dataclasses.dataclass(frozen=True)
class Predict:
    """The traced PREDICT mode.

    ``function(features)`` returns ``{"predictions": {...}}``, and ``"state"`` for a recurrent model; the batch axis of
    ``features`` is free.
    """

    function: Any
    exploration: Exploration | None
    record: tuple[str, ...]
    state: Mapping[str, ArraySpec] | None
    outputs: Mapping[str, ArraySpec]
    not_exact: tuple[str, ...]
    """The stateful random ops it runs."""
    training_hooks: tuple[Any, ...]
    evaluation_hooks: tuple[Any, ...]


@dataclasses.dataclass(frozen=True)
class Train:
    """The traced TRAIN mode.

    ``function(batch, counters, noise)`` returns ``{"scalars": float32 [1 + M]}`` (the loss, then the metrics in the
    order of ``metrics``), and ``"td_error"`` [B] where the spec has one.
    """

    function: Any
    batch: Mapping[str, SpecTree]
    metrics: tuple[str, ...]
    noise: tuple[noise.Request, ...]
    not_exact: tuple[str, ...]
    """The stateful random ops it runs."""
    training_hooks: tuple[Any, ...]
    evaluation_hooks: tuple[Any, ...]


class Program:
    """A ``model_fn`` traced for an observation space: PREDICT at once, TRAIN when the batch is known.

    Args:
        model_fn: the user's function, bound.
        observation: spec of one observation at the environment's boundary.
        seed: seeds the initial values of the variables.

    Raises:
        ValueError: the function breaks the contract.
    """

    def __init__(self, model_fn: BoundModelFn, observation: SpecTree, seed: int) -> None:
        self.name = model_fn.name
        self._model_fn = model_fn
        self._seed = seed
        self.store = VariableStore(model_fn.name)
        self.predict = self._trace_predict(observation)

    def trace_train(self, batch: Mapping[str, SpecTree]) -> Train:
        """Trace TRAIN for batches of these specs (as sampled: with their batch axes).

        Raises:
            ValueError: the function breaks the contract.
        """
        requests: list[noise.Request] = []
        with _seeded(self._seed + 1):
            specs: list[EstimatorSpec] = []
            function = self._train_function(batch, specs, collect=requests)
            if requests:  # known now: trace once more, with an input for each
                function = self._train_function(batch, specs, draw=requests)
        self.store.check_used(Modes.TRAIN, function)
        graph = function.graph.as_graph_def(add_shapes=False)
        if not _assigns(graph):
            raise ValueError(
                f"{self.name} in mode 'train' has no train_op and assigns no variable: it would never learn;"
                " call optimizer.apply(...) inside model_fn"
            )
        spec = specs[-1]
        return Train(
            function=function,
            batch=batch,
            metrics=tuple(spec.metrics),
            noise=tuple(requests),
            not_exact=_stateful_random_ops(function.graph),
            training_hooks=spec.training_hooks,
            evaluation_hooks=spec.evaluation_hooks,
        )

    def _trace_predict(self, observation: SpecTree) -> Predict:
        features = tensor_specs(observation, batch_axes=(None,))
        with _seeded(self._seed):
            state = self._declared_state(features)
            if state is not None:
                features = {"observation": features, "state": tensor_specs(state, batch_axes=(None,))}
            specs: list[EstimatorSpec] = []

            def call(features: Tree) -> dict[str, Any]:
                with self.store.handing_over(Modes.PREDICT):
                    spec = self._model_fn(_as_features(features), None, Modes.PREDICT)
                specs.append(spec)
                predictions = {k: tf.convert_to_tensor(v) for k, v in (spec.predictions or {}).items()}
                if "action" not in predictions:
                    raise ValueError(f"{self.name}: predictions has no 'action', only {sorted(predictions)}")
                outputs: dict[str, Any] = {"predictions": predictions}
                if state is not None:
                    outputs["state"] = {k: tf.convert_to_tensor(v) for k, v in (spec.state or {}).items()}
                    _check_next_state(self.name, state, outputs["state"])
                return outputs

            function = tf.function(call, autograph=False).get_concrete_function(features)
        self.store.num_predict = len(self.store.entries)
        self.store.check_used(Modes.PREDICT, function)
        spec = specs[-1]
        predictions = function.structured_outputs["predictions"]
        return Predict(
            function=function,
            exploration=spec.exploration,
            record=spec.record,
            state=state,
            outputs={k: ArraySpec(tuple(v.shape[1:]), v.dtype.as_numpy_dtype) for k, v in predictions.items()},
            not_exact=_stateful_random_ops(function.graph),
            training_hooks=spec.training_hooks,
            evaluation_hooks=spec.evaluation_hooks,
        )

    def _declared_state(self, features: Tree) -> Mapping[str, ArraySpec] | None:
        """Recurrent state as the spec declares it when it is called without one; variables made here are dropped."""
        declared: list[Mapping[str, Any] | None] = []

        def call(features: Tree) -> None:
            store = VariableStore(self.name)
            with store.handing_over(Modes.PREDICT):
                declared.append(self._model_fn(_as_features(features), None, Modes.PREDICT).state)

        graph = tf.Graph()  # a scratch graph: nothing in it is ever run
        with graph.as_default():
            call(tf.nest.map_structure(lambda s: tf.compat.v1.placeholder(s.dtype, s.shape), features))
        state = declared[-1]
        if state is None:
            return None
        return {k: ArraySpec(tuple(v.shape[1:]), v.dtype.as_numpy_dtype) for k, v in state.items()}

    def _train_function(
        self,
        batch: Mapping[str, SpecTree],
        specs: list[EstimatorSpec],
        collect: list[noise.Request] | None = None,
        draw: Sequence[noise.Request] = (),
    ) -> Any:
        """One trace of TRAIN; appends to ``specs``, and fills ``collect`` with the noise that it asks for."""

        def call(batch: dict[str, Tree], counters: dict[str, Any], draws: list[Any]) -> dict[str, Any]:
            labels = dict(batch)
            observation = _as_features(labels.pop("observation"))
            labels["next_observation"] = _as_features(labels["next_observation"])
            features = {"observation": observation, "state": labels.pop("state")} if "state" in labels else observation
            with self.store.handing_over(Modes.TRAIN), noise.supplying(_noise_supplier(collect, draws)):
                spec = self._model_fn(features, {**labels, **counters}, Modes.TRAIN)
            specs.append(spec)
            outputs = {"scalars": tf.stack([_scalar(self.name, k, v) for k, v in _scalars_of(spec).items()])}
            if spec.td_error is not None:
                outputs["td_error"] = tf.convert_to_tensor(spec.td_error)
            return outputs

        return tf.function(call, autograph=False).get_concrete_function(
            {k: tensor_specs(v) for k, v in batch.items()},
            {name: tf.TensorSpec((), tf.int64) for name in COUNTERS},
            [tf.TensorSpec(r.shape, r.dtype) for r in draw],
        )


def tensor_specs(spec: SpecTree, batch_axes: tuple[int | None, ...] = ()) -> Tree:
    """TensorFlow's form of a spec, with ``batch_axes`` in front."""
    if isinstance(spec, ArraySpec):
        return tf.TensorSpec((*batch_axes, *spec.shape), spec.dtype)
    return {k: tensor_specs(v, batch_axes) for k, v in spec.items()}


def _as_features(tree: Tree) -> Tree:
    """What a model sees: bits (bool, MultiBinary's int8) as float32; everything else as it is stored."""
    if isinstance(tree, Mapping):
        return {k: _as_features(v) for k, v in tree.items()}
    return tf.cast(tree, tf.float32) if tree.dtype in (tf.bool, tf.int8) else tree


def _scalars_of(spec: EstimatorSpec) -> dict[str, Any]:
    if "loss" in spec.metrics:
        raise ValueError("EstimatorSpec.metrics must not contain 'loss': the loss has a field of its own")
    return {"loss": spec.loss, **spec.metrics}


def _scalar(model: str, name: str, value: Any) -> Any:
    tensor = tf.cast(tf.convert_to_tensor(value), tf.float32)
    if tensor.shape.rank != 0:
        raise ValueError(f"{model}: {name} must be a scalar, got a tensor of shape {tensor.shape}")
    return tensor


def _check_next_state(model: str, declared: Mapping[str, ArraySpec], state: Mapping[str, Any]) -> None:
    found = {k: ArraySpec(tuple(v.shape[1:]), v.dtype.as_numpy_dtype) for k, v in state.items()}
    if found != dict(declared):
        raise ValueError(f"{model} declared the recurrent state {dict(declared)} and returned {found}")


def _noise_supplier(collect: list[noise.Request] | None, draws: list[Any]) -> noise.Supplier:
    """Hands out the program's noise inputs; or, to learn which are needed, remembers requests and gives constants."""
    if collect is None:
        remaining = iter(draws)
        return lambda request: next(remaining)
    collect.clear()  # TensorFlow calls a function that creates variables twice

    def remember(request: noise.Request) -> Any:
        collect.append(request)
        return tf.zeros(request.shape, request.dtype)

    return remember


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Initial values follow ``seed``; the caller's Python and NumPy generators are left as they were.

    Keras draws initialisers' seeds from Python's generator, TensorFlow's ops from its global seed (which cannot be
    read back publicly and stays set).
    """
    python, legacy_numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 (saved for the caller)
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 (a user's model_fn may draw from it)
    tf.random.set_seed(seed)
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(legacy_numpy)  # noqa: NPY002


def _nodes(graph: Any) -> Iterator[Any]:
    yield from graph.node
    for function in graph.library.function:
        yield from function.node_def


def _assigns(graph: Any) -> bool:
    """Does this GraphDef change a variable anywhere, also inside loops and branches?"""
    marks = ("Assign", "ResourceApply", "ResourceSparseApply", "ResourceScatter")
    return any(node.op.startswith(marks) or "StridedSliceAssign" in node.op for node in _nodes(graph))


def _stateful_random_ops(graph: Any) -> tuple[str, ...]:
    """Stateful random ops that a run of the function reaches (a variable's unused initial value is not reached)."""
    reached: set[Any] = set()
    todo = [tensor.op for tensor in graph.outputs] + list(graph.control_outputs)
    while todo:
        op = todo.pop()
        if op not in reached:
            reached.add(op)
            todo += [tensor.op for tensor in op.inputs] + list(op.control_inputs)
    found = {op.type for op in reached} & _STATEFUL_RANDOM
    library = graph.as_graph_def().library.function
    found |= {node.op for function in library for node in function.node_def} & _STATEFUL_RANDOM
    return tuple(sorted(found))
