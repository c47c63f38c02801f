"""What is read off a graph: which ops a run reaches, whether it assigns, how large it is."""

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from axonrl.runtimes.tracing.graphs import assigns, reached_nodes, reached_ops, stateful_random_ops, why_large


def graph_of(function: Callable[..., Any], *shapes: Any) -> Any:
    specs = [tf.TensorSpec(shape) for shape in shapes]
    return tf.function(function, autograph=False).get_concrete_function(*specs).graph


@pytest.fixture
def variable() -> Any:
    return tf.Variable(tf.zeros([3]))


def in_cond(variable: Any) -> Any:
    return tf.cond(variable[0] > 0, lambda: variable.assign_add([1.0, 1.0, 1.0]), variable.read_value)


def in_inner_function(variable: Any) -> Any:
    def inner() -> None:
        variable.assign([1.0, 1.0, 1.0])

    tf.function(inner, autograph=False)()


def in_one_of_several(variable: Any) -> Any:
    return tf.switch_case(tf.cast(variable[0], tf.int32), [lambda: variable + 1.0, lambda: in_cond(variable)])


def in_cond_in_while(variable: Any) -> Any:
    def body(i: Any) -> Any:
        in_cond(variable)
        return i + 1

    return tf.while_loop(lambda i: i < 3, body, [0])


@pytest.mark.parametrize(
    "change",
    [
        lambda v: v.assign_add([1.0, 1.0, 1.0]),
        lambda v: v[1].assign(2.0),
        lambda v: tf.raw_ops.ResourceApplyGradientDescent(var=v.handle, alpha=0.1, delta=[1.0, 1.0, 1.0]),
        in_inner_function,
        in_one_of_several,
        in_cond_in_while,
    ],
)
def test_assigning_is_seen_wherever_it_is(change: Callable[[Any], Any], variable: Any) -> None:
    def function() -> None:  # without an output that depends on it
        change(variable)

    assert assigns(reached_ops(reached_nodes(graph_of(function))))


@pytest.mark.parametrize(
    "use",
    [
        lambda v: tf.cond(v[0] > 0, lambda: v + 1.0, lambda: v - 1.0),
        lambda v: tf.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x + v), [0, tf.zeros([3])]),
    ],
)
def test_reading_is_not_assigning(use: Callable[[Any], Any], variable: Any) -> None:
    assert not assigns(reached_ops(reached_nodes(graph_of(lambda: use(variable)))))


def test_random_ops_are_named_wherever_they_are() -> None:
    def function(x: Any) -> Any:
        loop = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y + tf.random.normal([])), [0, 0.0])
        choice = tf.cond(x[0] > 0, lambda: tf.random.truncated_normal([]), lambda: 0.0)
        with tf.control_dependencies([tf.random.uniform([2])]):
            waiting = tf.identity(x)
        return loop, choice, tf.random.shuffle(x), tf.random.categorical([x], 1), waiting

    assert stateful_random_ops(reached_ops(reached_nodes(graph_of(function, [3])))) == (
        "Multinomial",
        "RandomShuffle",
        "RandomStandardNormal",
        "RandomUniform",
        "TruncatedNormal",
    )


def test_random_ops_that_are_not_run_or_keep_no_hidden_state_are_not_named() -> None:
    generator = tf.random.Generator.from_seed(1)

    def function(x: Any) -> Any:
        tf.random.normal([2])
        return x + tf.random.stateless_normal([3], [1, 2]) + generator.normal([3])

    assert stateful_random_ops(reached_ops(reached_nodes(graph_of(function, [3])))) == ()


def test_small_is_what_computes_little() -> None:
    def product(x: Any, y: Any) -> Any:
        return x @ y

    # 2 * 50 * 1000 * 1000 operations are 100 million
    assert why_large(graph_of(product, [50, 1000], [1000, 1000]), {"MatMul"}) is None
    reason = why_large(graph_of(product, [51, 1000], [1000, 1000]), {"MatMul"})
    assert reason == "matrix products of 102 MFLOP, limit 100"
    assert why_large(graph_of(product, [3, 17, 1000], [3, 1000, 1000]), {"BatchMatMulV2"}) is not None
    assert why_large(graph_of(product, [None, 1000], [1000, 1000]), {"MatMul"}) is None
    assert why_large(graph_of(product, None, [1000, 1000]), {"MatMul"}) == "op BatchMatMulV2 of unknown shape"


def test_products_of_transposed_matrices_count_the_same() -> None:
    def function(x: Any, y: Any) -> Any:
        return tf.matmul(x, y, transpose_a=True)

    assert why_large(graph_of(function, [1000, 50], [1000, 1000]), {"MatMul"}) is None
    assert why_large(graph_of(function, [1000, 51], [1000, 1000]), {"MatMul"}) is not None


@pytest.mark.parametrize("op", ["Conv2D", "DepthwiseConv2dNativeBackpropInput"])
def test_convolutions_are_large(op: str) -> None:
    assert why_large(graph_of(lambda x: x, [1]), {op}) == f"op {op}"


@pytest.mark.parametrize("rounds", [1, 9])
def test_adam_on_many_weights_at_once_is_large(rounds: int) -> None:
    def reason(*shape: int) -> str | None:
        state = [tf.Variable(tf.zeros(shape)) for _ in range(3)]
        settings = dict.fromkeys(("beta1_power", "beta2_power", "lr", "beta1", "beta2", "epsilon"), 0.1)

        def step(i: Any) -> Any:
            var, m, v = (variable.handle for variable in state)
            tf.raw_ops.ResourceApplyAdam(var=var, m=m, v=v, grad=tf.ones(shape), **settings)
            return i + 1

        def function() -> Any:
            return step(0) if rounds == 1 else tf.while_loop(lambda i: i < rounds, step, [0])

        return why_large(graph_of(function), {"ResourceApplyAdam"})

    assert reason(500, 500) is None
    assert reason(512, 512) == "Adam on a variable of 262,144 elements, limit 250,000"


def test_a_loop_is_as_large_as_one_round_of_it() -> None:
    def function(x: Any, y: Any) -> Any:
        def body(i: Any, z: Any) -> tuple[Any, Any]:
            return i + 1, tf.cond(i > 5, lambda: tf.matmul(z, y), lambda: z)

        return tf.while_loop(lambda i, z: i < 1000, body, [0, x])

    assert why_large(graph_of(function, [50, 1000], [1000, 1000]), {"While", "MatMul"}) is None
    reason = why_large(graph_of(function, [51, 1000], [1000, 1000]), {"While", "MatMul"})
    assert reason == "matrix products of 102 MFLOP, limit 100"
