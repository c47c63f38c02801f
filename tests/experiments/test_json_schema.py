"""The JSON schema takes what axonrl takes, and refuses what an editor should underline."""

from collections.abc import Iterable
from typing import Any

import jsonschema
import pytest
import yaml

from axonrl import registry
from axonrl.experiments.language.files import read
from axonrl.experiments.language.json_schema import experiment_schema
from axonrl.experiments.language.schema import load
from axonrl.experiments.language.shipped import SHIPPED, shipped

MINIMAL: dict[str, Any] = {"environment": {"id": "CartPole-v1"}, "agent": {"model_fn": "dqn"}}


@pytest.fixture(scope="module")
def validator() -> Any:
    """As the schema itself says which draft it is."""
    jsonschema.Draft202012Validator.check_schema(experiment_schema())
    assert experiment_schema()["$schema"] == jsonschema.Draft202012Validator.META_SCHEMA["$id"]
    return jsonschema.Draft202012Validator(experiment_schema())


@pytest.mark.parametrize("name", shipped())
def test_shipped_experiments_are_valid_and_described(name: str, validator: Any) -> None:
    validator.validate(read(SHIPPED / f"{name}.yml").values)
    found, _ = load(shipped()[name])
    assert found.name == name
    assert found.description
    if found.learn is None:
        assert found.train is not None
        assert found.train.max_timesteps is not None


@pytest.mark.parametrize(
    "more",
    [
        "hooks: [progress, 'mine:Hook', '${hook}', {kind: evaluation, episodes: 3}]",
        "agent: {model_fn: 'mine:model_fn', params: {anything: [1]}, memory: replay}",
        "params: {a: 1, b: 0.5, c: true, d: text, e: {type: int, default: 3}}",
        "environment: {id: '${game}', num_envs: '${n}', wrappers: [atari, {kind: time_limit, max_episode_steps: 3}]}",
        "train: {first_update: 5, max_steps: null, max_timesteps: '${limit}'}",
        "learn: {data: '${file}', max_steps: '${limit}'}",
        "config: {runtime: litert, save_checkpoints_secs: null, keep_checkpoint_max: '${keep}'}",
        "evaluate: {policy: '${policy}'}",
        "tracker: {host: 'https://example.com', project: me/cart}",
        "tracker: [polyaxon, 'mine:Tracker', {kind: mlflow, tracking_uri: sqlite}]",
        "tracker: {kind: 'mine:Tracker', host: 5}",
        "submit: {image: x, resources: {cpu: 2, memory: 4Gi, gpu: '${gpus}'}, environment: {A: 1}}",
        "include: [a.yml, b.yml]",
        "{learn: null, evaluate: null, agent: {model_fn: dqn, memory: null}}",
        "{seed: '${seed}', agent: {model_fn: '${model}', memory: {kind: batch, size: '${size}'}}}",
    ],
)
def test_what_a_file_may_say(more: str, validator: Any) -> None:
    validator.validate(MINIMAL | yaml.safe_load(more))


@pytest.mark.parametrize(
    ("more", "path"),
    [
        ("seeed: 1", "$"),
        ("seed: one", "$.seed"),
        ("train: {max_steps: 0}", "$.train.max_steps"),
        ("environment: {}", "$.environment"),
        ("name: a/b", "$.name"),
        ("train: {max_step: 1}", "$.train"),
        ("train: null", "$.train"),
        ("config: {runtime: tpu}", "$.config.runtime"),
        ("evaluate: {policy: first}", "$.evaluate"),
        ("hooks: [progres]", "$.hooks[0]"),
        ("hooks: [{episodes: 3}]", "$.hooks[0]"),
        ("agent: {model_fn: dqm}", "$.agent.model_fn"),
        ("agent: {model_fn: dqn, memory: reply}", "$.agent.memory"),
        ("environment: {id: X, wrappers: ['mine:wrapper']}", "$.environment.wrappers[0]"),
        ("params: {a: null}", "$.params.a"),
        ("params: {a: {type: integer, default: 1}}", "$.params.a"),
        ("params: {a-b: 1}", "$.params"),
        ("tracker: {Token: abc}", "$.tracker"),
        ("tracker: {host: 5}", "$.tracker"),
        ("include: 3", "$.include"),
    ],
)
def test_what_is_refused(more: str, path: str, validator: Any) -> None:
    assert path in [error.json_path for error in validator.iter_errors(MINIMAL | yaml.safe_load(more))]


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
