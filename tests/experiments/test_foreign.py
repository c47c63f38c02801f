"""Keys of other libraries, and ours at the wrong place, are told where what they mean stands."""

import dataclasses
import inspect
from pathlib import Path

import pytest

from axonrl.core import registry
from axonrl.distributed.settings import Settings
from axonrl.experiments.config.foreign import ELSEWHERE
from axonrl.experiments.config.schema import CONFIG_FIELDS, ExperimentFile, load
from axonrl.experiments.config.sections import keys_of
from axonrl.experiments.errors import ExperimentError
from axonrl.experiments.running.components import check_parts
from axonrl.models.blocks.params import parameters_of
from axonrl.tests.raising import raised

FILE = "environment: {id: CartPole-v1}\nagent: {model_fn: ppo, memory: {kind: batch, size: 64}}\n"


@pytest.mark.parametrize(
    ("key", "nearest", "here"),
    [
        ("gamma", None, ["agent.memory.discount"]),
        ("agent.memory.gamma", "discount", []),
        ("agent.params.lr", "learning_rate", []),
        ("train.lr", None, ["agent.params.learning_rate"]),
        ("agent.learning_rate", None, ["agent.params.learning_rate"]),  # of a model, which need not be named here
        (
            "n_steps",
            None,
            ["agent.memory.size of a batch memory (of all environments together)", "agent.memory.n_step"],
        ),
        ("Total-Timesteps", None, ["train.max_timesteps"]),  # as an option of CleanRL
        ("train.total_timesteps", "max_timesteps", []),
        ("policy", None, ["agent.params.network", "agent.params.hidden"]),
        ("agent.params.batch_size", "minibatch_size", []),
        ("agent.params.buffer_size", None, ["agent.memory.size"]),
        ("agent.params.sigmoid", None, []),
        ("config.done", None, ["labels['terminated'] of a model_fn"]),
        ("runtime", None, ["config.runtime"]),
        ("train.actors", None, ["distributed.actors"]),
        ("train.seed", None, ["seed"]),
        ("trian", "train", []),
    ],
)
def test_where_a_key_belongs(key: str, nearest: str | None, here: list[str], tmp_path: Path) -> None:
    (tmp_path / "file.yml").write_text(FILE)
    error = raised(ExperimentError, load, tmp_path / "file.yml", sets={key: "1", "seed": "-1"}, check_parts=check_parts)
    (found,) = (one for one in error.errors if one.key == key)
    assert (found.nearest, found.message.partition("; here it is ")[2].split(", or ")) == (nearest, here or [""])


def test_what_the_table_names_is_there() -> None:
    params = {name for model in registry.BUILT_IN["model_fn"] for name in parameters_of(model)}
    arguments = {
        name
        for kind in registry.BUILT_IN["memory"]
        for name in inspect.signature(registry.find("memory", kind)).parameters
    }
    known = {
        *keys_of(ExperimentFile),
        *(f"agent.params.{name}" for name in params),
        *(f"agent.memory.{name}" for name in arguments),
        *(f"config.{name}" for name in CONFIG_FIELDS),
        *(f"distributed.{field.name}" for field in dataclasses.fields(Settings)),
        *("agent.memory", "agent.warm_start", "train", "environment.kwargs.max_episode_steps"),
        *("labels['terminated']", "--model-dir", "--resume", "--jobs"),
    }
    keys = {ours.split()[0].rstrip(":") for ours in ELSEWHERE}
    assert keys - known == set()
