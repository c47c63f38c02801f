"""The JSON schema takes what axonrl takes, and refuses what an editor should underline."""

from collections.abc import Iterable
from typing import Any

import jsonschema
import pytest
import yaml

from axonrl.core import registry
from axonrl.experiments.config.files import read
from axonrl.experiments.config.json_schema import experiment_schema
from axonrl.experiments.config.schema import load
from axonrl.experiments.config.shipped import shipped

MINIMAL: dict[str, Any] = {"environment": {"id": "CartPole-v1"}, "agent": {"model_fn": "dqn"}}


@pytest.fixture(scope="module")
def validator() -> Any:
    """A validator of the draft that the schema itself names."""
    jsonschema.Draft202012Validator.check_schema(experiment_schema())
    assert experiment_schema()["$schema"] == jsonschema.Draft202012Validator.META_SCHEMA["$id"]
    return jsonschema.Draft202012Validator(experiment_schema())


def test_shipped_experiments_are_valid_and_described(validator: Any) -> None:
    for name, path in shipped().items():
        assert [*validator.iter_errors(read(path).values)] == [], name
        found, _ = load(path)
        assert found.name == name
        assert found.description, name
        if found.learn is None:
            assert found.train is not None, name
            assert found.train.max_timesteps is not None, name


@pytest.mark.parametrize(
    "more",
    [
        """
hooks: [progress, 'mine:Hook', '${hook}', {kind: evaluation, episodes: 3}]
agent: {model_fn: 'mine:model_fn', params: {anything: [1]}, memory: replay}
params: {a: 1, b: 0.5, c: true, d: text, e: {type: int, default: 3}}
environment: {id: X, wrappers: [atari, {kind: time_limit, max_episode_steps: 3}, 'mine:Wrapper']}
train: {first_update: 5, max_steps: null}
config: {runtime: litert, save_checkpoints_secs: null}
tracker: {host: 'https://example.com', project: me/cart}
include: [a.yml, b.yml]
""",
        """
seed: ${seed}
agent: {model_fn: '${model}', memory: {kind: batch, size: '${size}'}}
environment: {id: '${game}', num_envs: '${n}'}
train: {max_timesteps: '${thousands}e3'}
learn: {data: '${file}', max_steps: '${limit}'}
config: {keep_checkpoint_max: '${keep}'}
evaluate: {policy: '${policy}'}
submit: {image: x, resources: {cpu: 2, memory: 4Gi, gpu: '${gpus}'}, environment: {A: 1}}
tracker: [polyaxon, 'mine:Tracker', {kind: mlflow, tracking_uri: sqlite}]
""",
        "{learn: null, train: null, distributed: null, evaluate: null, agent: {model_fn: dqn, memory: null},"
        " tracker: {kind: 'mine:T', host: 5}}",
    ],
    ids=["values", "params", "nothing"],
)
def test_what_a_file_may_say(more: str, validator: Any) -> None:
    assert [*validator.iter_errors(MINIMAL | yaml.safe_load(more))] == []


VALUES = """
seed: one
name: a/b
train: {max_steps: 0}
config: {runtime: tpu}
evaluate: {policy: first}
hooks: [progres, {episodes: 3}]
agent: {model_fn: dqm, memory: reply}
environment: {id: X, wrappers: ['mine']}
params: {a: null, b: {type: integer, default: 1}}
tracker: {host: 5}
"""
KEYS = """
seeed: 1
include: 3
train: {max_step: 1}
config: {runtim: litert}
params: {a-b: 1}
tracker: {Token: abc}
"""


@pytest.mark.parametrize(
    ("wrong", "paths"),
    [
        (
            VALUES,
            "agent.memory agent.model_fn config.runtime environment.wrappers[0] evaluate hooks[0] hooks[1] name"
            " params.a params.b seed tracker train.max_steps",
        ),
        (KEYS, " config include params tracker train"),
        ("{agent: {}, environment: {}}", "agent environment"),
    ],
    ids=["values", "keys", "missing keys"],
)
def test_what_is_refused(wrong: str, paths: str, validator: Any) -> None:
    found = [error.json_path for error in validator.iter_errors(MINIMAL | yaml.safe_load(wrong))]
    assert sorted(found) == [f"$.{path}".rstrip(".") for path in paths.split(" ")]


def test_what_is_required_may_stand_in_a_file_that_is_included(validator: Any) -> None:
    assert {error.json_path for error in validator.iter_errors({"seed": 1})} == {"$"}
    part = {"include": "base.yml", "environment": {"num_envs": 2}, "agent": {"memory": {"size": 3}}}
    validator.validate(part | {"params": {"rate": {"default": 3}}})
    assert not validator.is_valid(part | {"hooks": [{"episodes": 3}]})  # lists are not merged


def test_a_plugin_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    names = registry.names
    monkeypatch.setattr(registry, "names", lambda kind: [*names(kind), "plugged"] if kind == "hook" else names(kind))
    assert jsonschema.Draft202012Validator(experiment_schema()).is_valid(MINIMAL | {"hooks": ["plugged"]})


def test_everything_is_described() -> None:
    made = experiment_schema()
    missing = [
        f"{where}.{name}"
        for where, section in [("", made), *made["$defs"].items()]
        for name, one in section.get("properties", {}).items()
        if "$ref" not in one and "description" not in one and not _referred(one)
    ]
    assert missing == []
    assert all("description" in section for section in made["$defs"].values())


def _referred(one: dict[str, Any]) -> bool:
    parts: Iterable[Any] = one.get("anyOf", [])
    return any("$ref" in part for part in parts)
