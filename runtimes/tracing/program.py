"""Tracing turns a ``model_fn`` into graphs once; no executor calls it again.

PREDICT is traced first; the trace of TRAIN uses its variables (see ``variables.py``). EVAL is traced on request and
uses those of both. Requested noise becomes further inputs. Invalid outputs (see ``outputs.py``) raise before the
first timestep.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ...core.protocols import ArraySpec, EstimatorSpec, Modes, SpecTree
from ...core.tensorflow_import import use_tensorflow
from ...core.trace_inputs import Request
from ...core.trees import leaves
from ...policies.executors import action_names
from ...policies.modes import COUNTERS, PredictMode, TrainMode, VariableSpec
from . import graphs
from .asked_inputs import AskedInputs
from .features import Tree, as_features, as_labels, tensor_specs
from .generators import make_generator_of_keras, seeded
from .outputs import Tensor, check_next_state, eval_outputs, predictions, row_specs, tensors, train_outputs
from .signature import BoundModelFn
from .variables import VariableStore


@dataclasses.dataclass(frozen=True, kw_only=True)
class Predict(PredictMode):
    """The traced PREDICT mode.

    ``function(features)`` returns ``{"predictions": {...}}``, and ``"state"`` for a recurrent model; the batch axis of
    ``features`` is free. If the model requests noise, it is ``function(features, draws)``. ``large`` says why the
    arithmetic costs more than the call; None if it does not.
    """

    function: Any
    large: str | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Train(TrainMode):
    """The traced TRAIN mode.

    ``function(batch, counters, noise)`` returns ``{"scalars": float32 [1 + M]}`` (the loss, then the metrics in the
    order of ``metrics``), and ``"td_error"`` [B] if the spec has it. If there are ``params``, they are a fourth
    argument. ``large`` as for :class:`Predict`.
    """

    function: Any
    large: str | None


@dataclasses.dataclass(frozen=True)
class Eval:
    """The traced EVAL mode, which has no side effects.

    ``function(batch, counters, noise)`` returns ``{"scalars": float32 [1 + M]}``: the loss, then the eval metrics in
    the order of ``metrics``.
    """

    function: Any
    batch: Mapping[str, SpecTree]
    metrics: tuple[str, ...]
    noise: tuple[Request, ...]


class Program:
    """A ``model_fn`` traced for an observation space: PREDICT at once, TRAIN when the batch is known, EVAL on demand.

    TensorFlow's global seed, and Python's and NumPy's generators, are left unchanged.

    Args:
        model_fn: the user's function, bound.
        observation: spec of one observation at the environment's boundary.
        seed: seeds the initial values of the variables.

    Raises:
        ValueError: the function is invalid.
    """

    def __init__(self, model_fn: BoundModelFn, observation: SpecTree, seed: int) -> None:
        use_tensorflow()
        self.name = model_fn.name
        self._model_fn = model_fn
        self._seed = seed
        self._batch: Mapping[str, SpecTree] | None = None
        self.store = VariableStore(self.name)
        self.predict = self._trace_predict(tensor_specs(observation, batch_axes=(None,)))
        self.store.end_predict()

    def trace_train(self, batch: Mapping[str, SpecTree]) -> Train:
        """Trace TRAIN for batches of these specs (as sampled, with batch axes).

        Calling it again starts over: the target network and the optimizer of the first trace are dropped.

        Raises:
            ValueError: the function is invalid.
        """
        if "observation" not in batch:
            raise ValueError(f"the memory's batches have no 'observation', only {', '.join(sorted(batch))}")
        use_tensorflow()
        self.store.forget_training()
        self._batch = None
        function, spec, asked = self._trace_batch(batch, Modes.TRAIN)
        ops = graphs.reached_ops(graphs.reached_nodes(function.graph))
        if not graphs.assigns(ops):
            raise ValueError(
                f"{self.name} in mode 'train' assigns no variable, with or without a train_op: it would never learn;"
                " call optimizer.apply(gradients, variables) inside model_fn"
            )
        self._batch = batch
        count = len(function.inputs) - len(function.captured_inputs)
        reads = frozenset(i for i in graphs.read_inputs(function.graph) if i < count)
        return Train(
            function=function,
            batch=batch,
            large=graphs.why_large(function.graph, ops),
            metrics=tuple(spec.metrics),
            noise=tuple(asked.noise),
            not_exact=graphs.stateful_random_ops(ops),
            training_hooks=spec.training_hooks,
            has_td_error=spec.td_error is not None,
            reads=reads,
            params=asked.numbers,
            reads_progress=len(leaves(batch)) + list(COUNTERS).index("progress") in reads,
        )

    def trace_eval(self) -> Eval:
        """Trace EVAL for the same batches as TRAIN, with the variables of PREDICT and TRAIN.

        Raises:
            ValueError: the function is invalid, assigns a variable, or needs one that TRAIN did not create.
            RuntimeError: TRAIN is not traced.
        """
        if self._batch is None:
            raise RuntimeError(f"EVAL of {self.name} uses TRAIN's variables and batches: trace TRAIN first")
        function, spec, asked = self._trace_batch(self._batch, Modes.EVAL)
        ops = graphs.reached_ops(graphs.reached_nodes(function.graph))
        if graphs.assigns(ops):
            raise ValueError(
                f"{self.name} in mode 'eval' assigns variables, but an evaluation must not change what is trained:"
                " leave optimizer.apply, target updates and assignments to mode 'train'"
            )
        return Eval(function=function, batch=self._batch, metrics=tuple(spec.eval_metric_ops), noise=tuple(asked.noise))

    def variables(self) -> dict[str, VariableSpec]:
        """The variables in order, by unique names that are the same in every process."""
        return {
            name: VariableSpec(tuple(v.shape), np.dtype(v.dtype.as_numpy_dtype), bool(v.trainable))
            for name, v in self.store.variables().items()
        }

    @property
    def spaces(self) -> tuple[Any, Any]:
        """Observation and action space of one environment; None if unknown."""
        return self._model_fn.spaces

    def predict_variables(self) -> dict[str, VariableSpec]:
        """Variables created by PREDICT, which come first."""
        return dict(itertools.islice(self.variables().items(), self.store.num_predict))

    def without_noise(self) -> Program:
        """The same program with zero noise in PREDICT."""
        function, requests = self.predict.function, self.predict.noise
        if not requests:
            return self

        def call(features: Tree) -> Any:
            return function(features, [tf.zeros(request.shape, request.dtype) for request in requests])

        (features, _), _ = function.structured_input_signature
        quiet = tf.function(call, autograph=False).get_concrete_function(features)
        program = copy.copy(self)
        program.predict = dataclasses.replace(self.predict, function=quiet, noise=())
        return program

    def _call(self, features: Tree, labels: Mapping[str, Tree] | None, mode: str) -> EstimatorSpec:
        """Call the user's function, within a trace. Nothing else calls it."""
        variables = self.store.reuse_in_eval() if mode == Modes.EVAL else self.store.reuse(mode)
        with variables, seeded(self._seed):
            spec = self._model_fn(features, labels, mode)
        graphs.forget_custom_gradients(tf.compat.v1.get_default_graph())
        return spec

    # -- PREDICT ------------------------------------------------------------------------------------------------------

    def _trace_predict(self, features: Tree) -> Predict:
        make_generator_of_keras()
        function, spec, requests = self._predict_function(features, None)
        state = None
        if "state" in function.structured_outputs:
            # Recurrent: a second trace, as features include the state only once it is declared.
            state = row_specs(self.name, "state", function.structured_outputs["state"])
            self.store = VariableStore(self.name)
            features = {"observation": features, "state": tensor_specs(state, batch_axes=(None,))}
            function, spec, requests = self._predict_function(features, state)
        self.store.check_used(Modes.PREDICT, function)
        outputs = row_specs(self.name, "predictions", function.structured_outputs["predictions"])
        if not action_names(outputs):
            raise ValueError(f"{self.name}: predictions has no 'action', only {list(outputs)}")
        if requests:
            self._refuse_noisy_action(function, len(requests))
        ops = graphs.reached_ops(graphs.reached_nodes(function.graph))
        if graphs.assigns(ops):
            raise ValueError(
                f"{self.name} in mode 'predict' assigns variables, but acting must not change what is trained: give"
                " layers that learn statistics training=False there"
            )
        return Predict(
            function=function,
            large=graphs.why_large(function.graph, ops),
            exploration=spec.exploration,
            record=spec.record,
            state=state,
            outputs=outputs,
            not_exact=graphs.stateful_random_ops(ops),
            evaluation_hooks=spec.evaluation_hooks,
            noise=tuple(requests),
        )

    def _predict_function(
        self, features: Tree, state: Mapping[str, ArraySpec] | None
    ) -> tuple[Any, EstimatorSpec, Sequence[Request]]:
        """Trace PREDICT; with a recurrent ``state`` among the features, the next one must match its specs."""
        specs, asked = list[EstimatorSpec](), AskedInputs({})

        def call(features: Tree) -> dict[str, dict[str, Tensor]]:
            with asked.supplied():
                spec = self._call(as_features(features), None, Modes.PREDICT)
            specs.append(spec)
            outputs = {"predictions": predictions(self.name, spec.predictions)}
            if spec.state is not None:
                outputs["state"] = tensors(self.name, "state", spec.state)
            if state is not None:
                check_next_state(self.name, state, outputs.get("state", {}))
            return outputs

        function = tf.function(call, autograph=False).get_concrete_function(features)
        return asked.append_draws(function) if asked.noise else function, specs[-1], asked.noise

    def _refuse_noisy_action(self, function: Any, number: int) -> None:
        """Raise if the greedy action depends on noise, as evaluations and exports have none."""
        graph = function.graph
        last = len(graph.inputs) - len(function.captured_inputs)
        draws = set(range(last - number, last))
        names = sorted(function.structured_outputs["predictions"])
        places = [names.index(name) for name in action_names(names)]
        if any(draws & graphs.inputs_of(graph, graph.outputs[place]) for place in places):
            raise ValueError(
                f"{self.name}: predictions['action'] depends on axonrl.noise. The greedy action must not:"
                " evaluations and exports have no noise. Return the noisy action as another prediction, such as"
                " predictions['noisy_action'], and let the spec's exploration choose it."
            )

    # -- TRAIN and EVAL -----------------------------------------------------------------------------------------------

    def _trace_batch(self, batch: Mapping[str, SpecTree], mode: str) -> tuple[Any, EstimatorSpec, AskedInputs]:
        """Trace a mode that takes batches; returns its function, its spec and the inputs it asked for."""
        make_generator_of_keras()
        specs, asked = list[EstimatorSpec](), AskedInputs(self._model_fn.numbers if mode == Modes.TRAIN else {})

        def call(batch: Mapping[str, Tree], counters: Mapping[str, Tensor]) -> dict[str, Any]:
            features, labels = as_labels(batch)
            with asked.supplied():
                spec = self._call(features, {**labels, **counters}, mode)
            specs.append(spec)
            if mode == Modes.EVAL:
                return eval_outputs(self.name, spec)
            return train_outputs(self.name, spec, labels["reward"].shape)

        function = tf.function(call, autograph=False).get_concrete_function(
            {key: tensor_specs(value) for key, value in batch.items()},
            {name: tf.TensorSpec((), dtype) for name, dtype in COUNTERS.items()},
        )
        function = asked.append_draws(function)
        self.store.check_used(mode, function)
        return function, specs[-1], asked
