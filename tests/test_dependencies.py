"""What axonrl takes of other packages: private names, which a new version may drop, and what extras install."""

import argparse
import ast
import configparser
import functools
import importlib
import importlib.metadata
import inspect
import itertools
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import gymnasium
import keras
import pytest
import tensorflow as tf
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from axonrl.environments import ids
from axonrl.tests.test_imports import package_files

ROOT: Final = Path(__file__).resolve().parent.parent


@functools.cache
def nodes() -> list[ast.AST]:
    """Of all files of axonrl."""
    kept = (path for path in package_files() if path.name != "setup.py")
    return [node for path in kept for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))]


SETUP: Final = configparser.ConfigParser()
SETUP.read(ROOT / "setup.cfg")


def requirements(text: str) -> list[Requirement]:
    return [Requirement(line) for line in text.splitlines() if line]


REQUIRED: Final = requirements(SETUP["options"]["install_requires"])
EXTRAS: Final = {extra: requirements(text) for extra, text in SETUP["options.extras_require"].items()}
CONSTRAINTS: Final = (ROOT / "constraints.txt").read_text(encoding="utf-8")
NEWEST: Final = dict(re.findall(r"^([\w.-]+)==(.+)$", CONSTRAINTS, re.MULTILINE))
"""The versions with which the tests last passed, of whatever is installed here."""


class Private(NamedTuple):
    """Of which distribution (empty for Python's own library), why it is used, and whether it exists."""

    of: str
    why: str
    exists: Callable[[], bool]


def adam_has(name: str) -> Callable[[], bool]:
    def exists() -> bool:
        adam: Any = keras.optimizers.Adam()
        adam.build([keras.Variable([0.0])])
        return hasattr(adam, name)

    return exists


def marks_custom_gradients() -> bool:
    function = tf.function(tf.custom_gradient(lambda x: (x * 2, lambda gradient: gradient)))
    graph = function.get_concrete_function(tf.TensorSpec([])).graph
    return any("_gradient_op_type" in op.node_def.attr for op in graph.get_operations())


def forgets_gradients() -> bool:
    from tensorflow.python.framework.ops import gradient_registry

    return isinstance(gradient_registry._registry, dict)


def makes_variables_outside() -> bool:
    from tensorflow.python.ops.resource_variable_ops import ResourceVariable

    made, asked = [], []

    def call() -> None:
        with tf.variable_creator_scope(lambda next_creator, **kwargs: asked.append(kwargs)), tf.init_scope():
            made.append(ResourceVariable(initial_value=lambda: tf.zeros([2])))

    tf.function(call, autograph=False).get_concrete_function()
    return not asked and len(made) == 1 and isinstance(tf.Variable(0.0), ResourceVariable)


def names_neighbours() -> bool:
    with tf.Graph().as_default() as graph:
        first = tf.constant(1.0)
        with tf.compat.v1.colocate_with(first):
            second = tf.constant(2.0)
    return "_class" in graph.as_graph_def().node[-1].attr and second.op.name == graph.as_graph_def().node[-1].name


def wraps_a_program() -> bool:
    from ai_edge_litert import interpreter

    wrapper = interpreter._interpreter_wrapper.InterpreterWrapper
    called = (
        "SetTensor",
        "Invoke",
        "GetTensor",
        "ResizeInputTensor",
        "AllocateTensors",
        "GetSubgraphIndexFromSignature",
    )
    kept = "self._interpreter =" in inspect.getsource(interpreter.Interpreter.__init__)
    return kept and all(hasattr(wrapper, name) for name in called)


def has_run_data() -> bool:
    from polyaxon.client import RunClient

    return "return self._run_data" in inspect.getsource(RunClient)


def sums_rewards() -> bool:
    vector = gymnasium.make_vec("CartPole-v1", num_envs=1, vectorization_mode="sync")
    return hasattr(gymnasium.wrappers.vector.NormalizeReward(vector), "_prev_dones")


def has_ids_that_only_raise() -> bool:
    names = [getattr(spec.entry_point, "__name__", "") for spec in gymnasium.registry.values()]
    return any(name.startswith("_raise") for name in names)


def importable(name: str) -> Callable[[], bool]:
    module, _, attribute = name.rpartition(".")
    return lambda: hasattr(importlib.import_module(module), attribute)


CONSTANTS: Final = "tensorflow.python.framework.convert_to_constants.convert_variables_to_constants_v2"
GRADIENTS: Final = "tensorflow.python.framework.ops.gradient_registry"
FUNCTION: Final = "tensorflow.python.eager.polymorphic_function.concrete_function.ConcreteFunction"
VARIABLE: Final = "tensorflow.python.ops.resource_variable_ops.ResourceVariable"
CONVERTER: Final = "tensorflow.lite.python.convert.convert_saved_model"
SCHEMA: Final = "tensorflow.lite.python.schema_py_generated"
NODE: Final = "ray._private.node.Node"
PARAMS: Final = "ray._private.parameter.RayParams"
CONFIG: Final = "ray._raylet.Config"
ADDRESS: Final = "ray._private.services.get_ray_address_from_environment"
GCS_CLIENT: Final = "ray._raylet.GcsClient"
FQN: Final = "polyaxon._utils.fqn_utils.to_fqn_name"

PRIVATE: Final = {
    "_interpreter": Private("ai-edge-litert", "what its runner calls, without the rest", wraps_a_program),
    "_get_variable_index": Private("keras", "Adam in one op", adam_has("_get_variable_index")),
    "_momentums": Private("keras", "Adam in one op", adam_has("_momentums")),
    "_velocities": Private("keras", "Adam in one op", adam_has("_velocities")),
    CONSTANTS: Private("tensorflow", "frozen programs, as its converter makes them", importable(CONSTANTS)),
    CONVERTER: Private("tensorflow", "its converter without loading and parsing again", importable(CONVERTER)),
    SCHEMA: Private("tensorflow", "programs of LiteRT as objects", importable(SCHEMA)),
    GRADIENTS: Private("tensorflow", "graphs are forgotten", importable(GRADIENTS)),
    "_registry": Private("tensorflow", "graphs are forgotten", forgets_gradients),
    "_gradient_op_type": Private("tensorflow", "graphs are forgotten", marks_custom_gradients),
    FUNCTION: Private("tensorflow", "a trace gets the inputs that it asks for", importable(FUNCTION)),
    VARIABLE: Private("tensorflow", "variables are made outside of traces", makes_variables_outside),
    "_class": Private("tensorflow", "part of a graph is a graph", names_neighbours),
    "_get_function": Private("tensorflow", "graphs in graphs", lambda: hasattr(tf.Graph, "_get_function")),
    "_prev_dones": Private("gymnasium", "what its wrapper knows is saved", sums_rewards),
    "_saved_kwargs": Private(
        "gymnasium",
        "arguments of an environment's class",
        lambda: "_saved_kwargs" in inspect.getsource(gymnasium.utils.RecordConstructorArgs),
    ),
    "_frameskip": Private(
        "gymnasium",
        "its Atari wrapper reads the same of a game",
        lambda: "_frameskip" in inspect.getsource(gymnasium.wrappers.AtariPreprocessing),
    ),
    "_raise": Private("gymnasium", "ids that only say where their environments went", has_ids_that_only_raise),
    FQN: Private("polyaxon", "names that servers take", importable(FQN)),
    "_run_data": Private("polyaxon", "a run is written without a server", has_run_data),
    ADDRESS: Private("ray", "a token for a cluster that wants one alone", importable(ADDRESS)),
    CONFIG: Private("ray", "a token for a local cluster alone", importable(CONFIG)),
    GCS_CLIENT: Private("ray", "whether a cluster wants a token, at once", importable(GCS_CLIENT)),
    NODE: Private("ray", "a local cluster without processes that nobody needs", importable(NODE)),
    PARAMS: Private("ray", "a local cluster without processes that nobody needs", importable(PARAMS)),
    "_actions": Private("", "completion", lambda: hasattr(argparse.ArgumentParser(), "_actions")),
    "_SubParsersAction": Private("", "completion", lambda: hasattr(argparse, "_SubParsersAction")),
    "_get_subactions": Private("", "help", lambda: hasattr(argparse._SubParsersAction, "_get_subactions")),
}
INTERNAL: Final = {"python", "src"}
"""Packages in which TensorFlow and Keras keep what they export elsewhere."""
PUBLIC: Final = {"_replace", "_asdict", "_fields", "_exit", "_timestamp"}
"""Documented, of named tuples, of ``os``, and of the rows of Weights & Biases."""
OURS: Final = {
    *("_settings", "_tree", "_axonrl_fresh_state", "_mask", "_take_", "_gradient_norm", "_optimizer"),
    *("_number_updates", "_total", "_carry_out", "_awaits", "_within", "_max_episode_timesteps"),
}
"""Of our own classes and objects, and parts of longer strings."""


def private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name.isidentifier() and name.islower()


def defined() -> set[str]:
    named = {node.name for node in nodes() if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    stored = {node.id for node in nodes() if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    kept = {node.attr for node in nodes() if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}
    return named | stored | kept


def private_names(code: Iterable[ast.AST], own: set[str]) -> Iterator[str]:
    """What ``code`` takes that is private and of others: imports, attributes, and names in strings."""
    for node in code:
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [f"{node.module}.{name.name}" for name in node.names]
            yield from (name for name in names if any(one in INTERNAL or private(one) for one in name.split(".")))
        elif isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            mine = ast.unparse(node.value) in ("self", "cls", "super()")
            if node.attr not in (own if mine else PUBLIC | OURS):
                yield node.attr
        elif isinstance(node, ast.Constant) and private(name := str(node.value)) and name not in own | OURS | PUBLIC:
            yield name


def test_private_names_are_found() -> None:
    code = """
from tensorflow.python.x import y
from keras import layers
def f(self, other):
    self._mine, self._theirs, other._mine, getattr(other, "_named"), other._replace, other.__dict__, "_Type"
"""
    found = set(private_names(ast.walk(ast.parse(code)), {"_mine"}))
    assert found == {"tensorflow.python.x.y", "_theirs", "_mine", "_named"}


def test_every_private_name_is_listed_and_exists() -> None:
    assert set(private_names(nodes(), defined())) == set(PRIVATE)
    assert [name for name, one in PRIVATE.items() if not one.exists()] == []


@pytest.mark.parametrize("of", sorted({one.of for one in PRIVATE.values()} - {""}))
def test_where_private_names_are_used_the_next_version_is_left_out(of: str) -> None:
    (required,) = (one for one in [*REQUIRED, *EXTRAS["ray"]] if one.name == of)
    major, minor = map(int, NEWEST[of].split(".")[:2])
    assert required.specifier.contains(f"{major}.{minor}.99")
    assert not required.specifier.contains(f"{major}.{minor + 1}.0")
    assert not required.specifier.contains(f"{major + 1}.0.0")


OPTIONAL: Final = {
    "ale_py": "atari",
    "argon2": "serving",
    "envpool": "envpool",
    "huggingface_hub": "hub",
    "minatar": "minatar",
    "mlflow": "mlflow",
    "moviepy": "video",
    "onnx": "onnx",
    "onnxruntime": "onnx",
    "optuna": "optuna",
    "pettingzoo": "pettingzoo",
    "prometheus_client": "serving",
    "psycopg": "postgresql",
    "ray": "ray",
    "sqlalchemy": "serving",
    "tf2onnx": "onnx",
    "uvicorn": "serving",
    "uvloop": "serving",
    "wandb": "wandb",
}
"""Modules that axonrl imports and does not require, and the extra that brings each."""


def with_dependencies(names: set[str]) -> set[str]:
    """Distributions and all that they require."""
    found, todo = set[str](), {canonicalize_name(name) for name in names}
    while todo := todo - found:
        found |= todo
        needed = [Requirement(line) for name in todo for line in importlib.metadata.requires(name) or []]
        todo = {canonicalize_name(one.name) for one in needed if one.marker is None or one.marker.evaluate()}
    return found


def imported() -> set[str]:
    """The packages that axonrl imports by statement, and those of the optional ones that a string names."""
    names = {alias.name for node in nodes() if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in nodes() if isinstance(node, ast.ImportFrom) and not node.level}
    strings = {node.value for node in nodes() if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return {name.partition(".")[0] for name in names} | strings & OPTIONAL.keys()


def test_what_is_not_required_is_in_an_extra() -> None:
    required = with_dependencies({one.name for one in REQUIRED})
    brought = importlib.metadata.packages_distributions()
    known = {name for name, of in brought.items() if {canonicalize_name(one) for one in of} & required}
    assert imported() - known - sys.stdlib_module_names - {"axonrl", "setuptools"} == OPTIONAL.keys()
    for module, extra in OPTIONAL.items():
        assert [one.name for one in EXTRAS[extra] if one.name.startswith(module.replace("_", "-"))], module


def test_messages_name_extras_that_exist() -> None:
    strings = [node.value for node in nodes() if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    named = {extra for string in strings for extra in re.findall(r"'axonrl\[(\w[\w-]*)\]'|\"axonrl\[(\w+)\]\"", string)}
    assert {*filter(None, itertools.chain(*named)), *ids._EXTRAS.values()} == {
        *OPTIONAL.values(),
        "box2d",
        "minari",
        "mujoco",
        "search",
    }


def test_all_is_what_users_may_choose() -> None:
    (everything,) = EXTRAS["all"]
    assert everything.extras == EXTRAS.keys() - {"all", "docs", "test"}
