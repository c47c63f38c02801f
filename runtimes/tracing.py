"""Tracing: a plain ``model_fn`` becomes graphs, once, and no executor ever calls it again.

PREDICT is traced first; its variables are handed over to the trace of TRAIN (see ``variables.py``). EVAL is traced only
if somebody asks for it, and is handed the variables of both. Noise requested inside becomes further inputs. What a
trace must not do is refused here, before the first timestep.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from .. import noise
from ..contracts import ArraySpec, EstimatorSpec, Exploration, Modes, SpecTree
from . import graphs
from .signature import BoundModelFn
from .variables import VariableStore, relative_name

Tensor: TypeAlias = Any
Tree: TypeAlias = Any
"""A tensor, or a dictionary of tensors."""

COUNTERS = ("global_step", "global_timestep")
_FLOAT_LABELS = ("reward", "terminated", "truncated", "discount", "weight")


@dataclasses.dataclass(frozen=True)
class Predict:
    """The traced PREDICT mode.

    ``function(features)`` returns ``{"predictions": {...}}``, and ``"state"`` for a recurrent model; the batch axis of
    ``features`` is free. ``large`` says why the arithmetic costs more than the call; None if it does not;
    ``unfit`` why LiteRT would compute something else.
    """

    function: Any
    large: str | None
    unfit: str | None
    exploration: Exploration | None
    record: tuple[str, ...]
    state: Mapping[str, ArraySpec] | None
    outputs: Mapping[str, ArraySpec]
    not_exact: tuple[str, ...]
    """The stateful random ops it runs."""
    evaluation_hooks: tuple[Any, ...]


@dataclasses.dataclass(frozen=True)
class Train:
    """The traced TRAIN mode.

    ``function(batch, counters, noise)`` returns ``{"scalars": float32 [1 + M]}`` (the loss, then the metrics in the
    order of ``metrics``), and ``"td_error"`` [B] where the spec has one. ``large`` and
    ``unfit`` as for :class:`Predict`.
    """

    function: Any
    large: str | None
    unfit: str | None
    metrics: tuple[str, ...]
    noise: tuple[noise.Request, ...]
    not_exact: tuple[str, ...]
    """The stateful random ops it runs."""
    training_hooks: tuple[Any, ...]


@dataclasses.dataclass(frozen=True)
class Eval:
    """The traced EVAL mode, which changes nothing.

    ``function(batch, counters, noise)`` returns ``{"scalars": float32 [1 + M]}``: the loss, then the eval metrics in
    the order of ``metrics``.
    """

    function: Any
    metrics: tuple[str, ...]
    noise: tuple[noise.Request, ...]


class Program:
    """A ``model_fn`` traced for an observation space: PREDICT at once, TRAIN when the batch is known, EVAL on demand.

    TensorFlow's global seed, and Python's and NumPy's generators, are left as they were.

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
        self._batch: Mapping[str, SpecTree] | None = None
        self.store = VariableStore(self.name)
        self.predict = self._trace_predict(tensor_specs(observation, batch_axes=(None,)))
        self.store.end_predict()

    def trace_train(self, batch: Mapping[str, SpecTree]) -> Train:
        """Trace TRAIN for batches of these specs (as sampled: with their batch axes).

        Called again, it begins anew: the target network and the optimizer of the trace before are forgotten.

        Raises:
            ValueError: the function breaks the contract.
        """
        if "observation" not in batch:
            raise ValueError(f"the memory's batches have no 'observation', only {', '.join(sorted(batch))}")
        self.store.forget_training()
        self._batch = None
        function, spec, requests = self._trace_batch(batch, Modes.TRAIN)
        nodes = graphs.reached_nodes(function.graph)
        ops = graphs.reached_ops(nodes)
        if not graphs.assigns(ops):
            raise ValueError(
                f"{self.name} in mode 'train' assigns no variable, with or without a train_op: it would never learn;"
                " call optimizer.apply(gradients, variables) inside model_fn"
            )
        self._batch = batch
        return Train(
            function=function,
            large=graphs.why_large(function.graph, ops),
            unfit=graphs.why_unfit(nodes),
            metrics=tuple(spec.metrics),
            noise=tuple(requests),
            not_exact=graphs.stateful_random_ops(ops),
            training_hooks=spec.training_hooks,
        )

    def trace_eval(self) -> Eval:
        """Trace EVAL for batches like TRAIN's, with the variables that PREDICT and TRAIN created.

        Raises:
            ValueError: the function breaks the contract, assigns a variable, or needs one that TRAIN did not create.
            RuntimeError: TRAIN is not traced.
        """
        if self._batch is None:
            raise RuntimeError(f"EVAL of {self.name} takes over TRAIN's variables and batches: trace TRAIN first")
        function, spec, requests = self._trace_batch(self._batch, Modes.EVAL)
        ops = graphs.reached_ops(graphs.reached_nodes(function.graph))
        if graphs.assigns(ops):
            raise ValueError(
                f"{self.name} in mode 'eval' assigns variables, but an evaluation must not change what is trained:"
                " leave optimizer.apply, target updates and assignments to mode 'train'"
            )
        return Eval(function=function, metrics=tuple(spec.eval_metric_ops), noise=tuple(requests))

    def _call(self, features: Tree, labels: Mapping[str, Tree] | None, mode: str) -> EstimatorSpec:
        """The one place where the user's function is called; always within a trace."""
        handing_over = _lending(self.name, self.store) if mode == Modes.EVAL else self.store.handing_over(mode)
        with handing_over, _seeded(self._seed):
            return self._model_fn(features, labels, mode)

    # -- PREDICT ------------------------------------------------------------------------------------------------------

    def _trace_predict(self, features: Tree) -> Predict:
        function, spec = self._predict_function(features, None)
        state = None
        if "state" in function.structured_outputs:  # recurrent: what was traced is only the state's declaration
            state = _row_specs(self.name, "state", function.structured_outputs["state"])
            self.store = VariableStore(self.name)
            recurrent = {"observation": features, "state": tensor_specs(state, batch_axes=(None,))}
            function, spec = self._predict_function(recurrent, state)
        self.store.check_used(Modes.PREDICT, function)
        outputs = _row_specs(self.name, "predictions", function.structured_outputs["predictions"])
        if "action" not in outputs:
            raise ValueError(f"{self.name}: predictions has no 'action', only {list(outputs)}")
        nodes = graphs.reached_nodes(function.graph)
        ops = graphs.reached_ops(nodes)
        return Predict(
            function=function,
            large=graphs.why_large(function.graph, ops),
            unfit=graphs.why_unfit(nodes),
            exploration=spec.exploration,
            record=spec.record,
            state=state,
            outputs=outputs,
            not_exact=graphs.stateful_random_ops(ops),
            evaluation_hooks=spec.evaluation_hooks,
        )

    def _predict_function(self, features: Tree, state: Mapping[str, ArraySpec] | None) -> tuple[Any, EstimatorSpec]:
        """Trace PREDICT; where the recurrent ``state`` is among the features, the next one must have its specs."""
        specs: list[EstimatorSpec] = []

        def call(features: Tree) -> dict[str, dict[str, Tensor]]:
            spec = self._call(_as_features(features), None, Modes.PREDICT)
            specs.append(spec)
            outputs = {"predictions": _tensors(self.name, "predictions", spec.predictions)}
            if spec.state is not None:
                outputs["state"] = _tensors(self.name, "state", spec.state)
            if state is not None:
                _check_next_state(self.name, state, outputs.get("state", {}))
            return outputs

        return tf.function(call, autograph=False).get_concrete_function(features), specs[-1]

    # -- TRAIN and EVAL -----------------------------------------------------------------------------------------------

    def _trace_batch(
        self, batch: Mapping[str, SpecTree], mode: str
    ) -> tuple[Any, EstimatorSpec, Sequence[noise.Request]]:
        """Trace a mode that works on batches; returns its function, its spec and the noise that it asks for."""
        function, spec, requests = self._batch_function(batch, mode, [])
        if requests:  # known now: trace once more, with an input for each
            function, spec, _ = self._batch_function(batch, mode, requests)
        self.store.check_used(mode, function)
        return function, spec, requests

    def _batch_function(
        self, batch: Mapping[str, SpecTree], mode: str, requests: Sequence[noise.Request]
    ) -> tuple[Any, EstimatorSpec, list[noise.Request]]:
        """Trace a mode with an input for each of the noise ``requests``; returns which noise it asked for, too."""
        specs: list[EstimatorSpec] = []
        asked: list[noise.Request] = []

        def call(batch: Mapping[str, Tree], counters: Mapping[str, Tensor], draws: Sequence[Tensor]) -> dict[str, Any]:
            asked.clear()  # TensorFlow calls a function that creates variables twice

            def supply(request: noise.Request) -> Tensor:
                asked.append(request)
                known = list(requests[: len(asked)]) == asked
                return draws[len(asked) - 1] if known else tf.zeros(request.shape, request.dtype)

            features, labels = _as_labels(batch)
            with noise.supplying(supply):
                spec = self._call(features, {**labels, **counters}, mode)
            specs.append(spec)
            return _eval_outputs(self.name, spec) if mode == Modes.EVAL else _train_outputs(self.name, spec)

        function = tf.function(call, autograph=False).get_concrete_function(
            {key: tensor_specs(value) for key, value in batch.items()},
            {name: tf.TensorSpec((), tf.int64) for name in COUNTERS},
            [tf.TensorSpec(request.shape, request.dtype) for request in requests],
        )
        if requests and asked != list(requests):
            raise ValueError(f"{self.name} must ask for the same noise at every call: first {requests}, then {asked}")
        return function, specs[-1], asked


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


def _as_labels(batch: Mapping[str, Tree]) -> tuple[Tree, dict[str, Tree]]:
    """A batch as the contract's features and labels: in their types, and with recurrent state among the features."""
    labels = dict(batch)
    features = _as_features(labels.pop("observation"))
    if isinstance(labels.get("state"), Mapping):  # what a spec records under this name is one tensor
        features = {"observation": features, "state": labels.pop("state")}
    for key, value in labels.items():
        if key == "next_observation":
            labels[key] = _as_features(value)
        elif key in _FLOAT_LABELS or getattr(value, "dtype", None) == tf.bool:
            labels[key] = tf.cast(value, tf.float32)
    return features, labels


def _tensors(model: str, field: str, values: Any) -> dict[str, Tensor]:
    if not isinstance(values, Mapping):
        raise ValueError(f"{model}: {field} must be a mapping of names to tensors, got {values!r:.200}")
    return {name: _tensor(model, f"{field}[{name!r}]", value) for name, value in values.items()}


def _tensor(model: str, what: str, value: Any) -> Tensor:
    try:
        return tf.convert_to_tensor(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{model}: {what} must be a tensor, got {value!r:.200}") from error


def _row_specs(model: str, field: str, tensors: Mapping[str, Tensor]) -> dict[str, ArraySpec]:
    """The specs of one row of tensors [B, ...]."""
    for name, tensor in tensors.items():
        if not tensor.shape.rank or tensor.shape[0] is not None or None in tensor.shape[1:]:
            raise ValueError(
                f"{model}: {field}[{name!r}] must have the shape [B, ...], with a row for each observation and other"
                f" axes of known sizes, got {tensor.shape}"
            )
    return {name: ArraySpec(tuple(v.shape[1:]), v.dtype.as_numpy_dtype) for name, v in tensors.items()}


def _train_outputs(model: str, spec: EstimatorSpec) -> dict[str, Tensor]:
    outputs = {"scalars": _scalars(model, spec.loss, "metrics", spec.metrics)}
    if spec.td_error is not None:
        outputs["td_error"] = _tensor(model, "td_error", spec.td_error)
    return outputs


def _eval_outputs(model: str, spec: EstimatorSpec) -> dict[str, Tensor]:
    return {"scalars": _scalars(model, spec.loss, "eval_metric_ops", spec.eval_metric_ops)}


def _scalars(model: str, loss: Any, field: str, values: Any) -> Tensor:
    """The loss and the metrics of a field, float32 [1 + M]."""
    metrics = _tensors(model, field, values)
    if "loss" in metrics:
        raise ValueError(f"{model}: {field} must not contain 'loss', which has a field of its own")
    scalars = {"loss": _tensor(model, "loss", loss), **{f"{field}[{k!r}]": v for k, v in metrics.items()}}
    for what, tensor in scalars.items():
        dtype = tensor.dtype
        if tensor.shape.rank != 0 or not (dtype.is_floating or dtype.is_integer or dtype.is_bool):
            raise ValueError(f"{model}: {what} must be a scalar number, got {dtype.name} of shape {tensor.shape}")
    return tf.stack([tf.cast(tensor, tf.float32) for tensor in scalars.values()])


def _check_next_state(model: str, declared: Mapping[str, ArraySpec], state: Mapping[str, Tensor]) -> None:
    found = _row_specs(model, "state", state)
    if found != dict(declared):
        raise ValueError(
            f"{model}: called with features['state'] it must return the next state, {dict(declared)} as it declared;"
            f" it returned {found}"
        )


@contextlib.contextmanager
def _lending(model: str, store: VariableStore) -> Iterator[None]:
    """One call of ``model_fn`` in EVAL: variables asked for are PREDICT's, in their order, then TRAIN's, by their path.

    By path, because EVAL may leave out what only learning needs (an optimizer, say), and so has gaps in the order.

    Raises:
        ValueError: it asks for a variable that is not there, or leaves open which one it means.
    """
    stored = [(f"{key.partition('.')[2]} {v.dtype.name}{v.shape}", v) for key, v in store.variables().items()]
    shared, lent = store.num_predict, list[int]()

    def creator(next_creator: Callable[..., tf.Variable], **kwargs: Any) -> tf.Variable:
        wanted, number = _described(kwargs), len(lent)
        places = [number] if number < shared else [i for i in range(shared, len(stored)) if i not in lent]
        place = next((i for i in places if stored[i][0] == wanted), None)
        if place is None:
            raise _not_lent(model, wanted, number, stored[number][0] if number < shared else None)
        lent.append(place)
        return stored[place][1]

    with tf.variable_creator_scope(creator):
        yield
    if len(lent) < shared:
        raise _not_lent(model, "nothing more", len(lent), stored[len(lent)][0])
    there = Counter(key for key, _ in stored[shared:])
    for key, number in Counter(stored[i][0] for i in lent[shared:]).items():
        if number < there[key]:
            raise ValueError(
                f"{model} in mode 'eval' creates {number} of the {there[key]} variables {key} of mode 'train': which"
                " ones cannot be told; create all of them, in the same order, or give their layers different names"
            )


def _described(kwargs: Mapping[str, Any]) -> str:
    """A variable that is asked for: relative name, dtype and shape."""
    name = relative_name(tf.compat.v1.get_default_graph().get_name_scope(), kwargs.get("name"))
    initial = kwargs.get("initial_value")
    value = tf.convert_to_tensor(initial() if callable(initial) else initial, dtype=kwargs.get("dtype"))
    shape = value.shape if kwargs.get("shape") is None else tf.TensorShape(kwargs["shape"])
    return f"{name} {value.dtype.name}{shape}"


def _not_lent(model: str, wanted: str, number: int, expected: str | None) -> ValueError:
    creates = f"{model} in mode 'eval' creates {wanted}"
    if expected is None:
        return ValueError(
            f"{creates}, which mode 'train' did not create: EVAL has the variables that are trained and no others, so"
            " compute eval metrics from the batch (Keras' metrics keep variables of their own)"
        )
    return ValueError(
        f"{creates} as its variable number {number}, where mode 'predict' created {expected}: every mode must first"
        " create PREDICT's variables, in the same order (the online network before the target network)"
    )


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Within a trace, initial values follow ``seed``; the caller's random generators are left as they were.

    Keras draws initialisers' seeds from Python's generator. TensorFlow's ops follow the seed of the graph that is
    being traced, which is all that ``tf.random.set_seed`` sets here.
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
