"""The JSON schema takes what axonrl takes, and refuses what an editor should underline."""

from collections.abc import Iterable
from typing import Any

import jsonschema
import pytest
import yaml

from axonrl import registry
from axonrl.experiments.language.json_schema import experiment_schema
from axonrl.experiments.language.shipped import SHIPPED, shipped

MINIMAL: dict[str, Any] = {"environment": {"id": "CartPole-v1"}, "agent": {"model_fn": "dqn"}}


@pytest.fixture(scope="module")
def validator() -> Any:
    jsonschema.Draft202012Validator.check_schema(experiment_schema())
    return jsonschema.Draft202012Validator(experiment_schema())


def test_what_it_is() -> None:
    assert experiment_schema()["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize("name", shipped())
def test_shipped_experiments(name: str, validator: Any) -> None:
    from axonrl.experiments.language.files import read

    validator.validate(read(SHIPPED / f"{name}.yml").values)


@pytest.mark.parametrize(
    "more",
    [
        "hooks: [progress, 'mine:Hook', '${hook}', {kind: evaluation, episodes: 3}]",
        "agent: {model_fn: 'mine:model_fn', params: {anything: [1]}, memory: replay}",
        "agent: {model_fn: '${model}', memory: {kind: batch, size: '${size}'}}",
        "agent: {model_fn: dqn, memory: null}",
        "params: {a: 1, b: 0.5, c: true, d: text, e: {type: int, default: 3}}",
        "environment: {id: '${game}', num_envs: '${n}', wrappers: [atari, {kind: time_limit, max_episode_steps: 3}]}",
        "train: {first_update: 5, max_steps: null, max_timesteps: '${limit}'}",
        "learn: {data: '${file}', max_steps: '${limit}'}",
        "learn: null",
        "config: {runtime: litert, save_checkpoints_secs: null, keep_checkpoint_max: '${keep}'}",
        "evaluate: null",
        "evaluate: {policy: '${policy}'}",
        "tracker: mlflow",
        "tracker: {host: 'https://example.com', project: me/cart}",
        "tracker: [polyaxon, 'mine:Tracker', {kind: mlflow, tracking_uri: sqlite}]",
        "tracker: {kind: 'mine:Tracker', host: 5}",
        "tracker: []",
        "submit: {image: x, resources: {cpu: 2, memory: 4Gi, gpu: '${gpus}'}, environment: {A: 1}}",
        "include: base.yml",
        "include: [a.yml, b.yml]",
        "seed: ${seed}",
    ],
)
def test_what_a_file_may_say(more: str, validator: Any) -> None:
    validator.validate(MINIMAL | yaml.safe_load(more))


@pytest.mark.parametrize(
    ("more", "path"),
    [
        ("seeed: 1", "$"),
        ("seed: -1", "$.seed"),
        ("seed: one", "$.seed"),
        ("name: a/b", "$.name"),
        ("train: {max_step: 1}", "$.train"),
        ("train: {max_steps: 0}", "$.train.max_steps"),
        ("train: {max_steps: many}", "$.train.max_steps"),
        ("train: null", "$.train"),
        ("learn: {data: a.npz, max_steps: 5, steps: 3}", "$.learn"),
        ("config: {seed: 1}", "$.config"),
        ("config: {runtime: tpu}", "$.config.runtime"),
        ("config: {save_summary_steps: null}", "$.config.save_summary_steps"),
        ("evaluate: {policy: first}", "$.evaluate"),
        ("hooks: progress", "$.hooks"),
        ("hooks: [progres]", "$.hooks[0]"),
        ("hooks: [{episodes: 3}]", "$.hooks[0]"),
        ("agent: {model_fn: dqm}", "$.agent.model_fn"),
        ("agent: {}", "$.agent"),
        ("agent: {model_fn: dqn, memory: reply}", "$.agent.memory"),
        ("agent: {model_fn: dqn, memory: {size: 3}}", "$.agent.memory"),
        ("environment: {}", "$.environment"),
        ("environment: {id: X, wrappers: ['mine:wrapper']}", "$.environment.wrappers[0]"),
        ("params: {a: null}", "$.params.a"),
        ("params: {a: {type: integer, default: 1}}", "$.params.a"),
        ("params: {a: {type: int}}", "$.params.a"),
        ("params: {a-b: 1}", "$.params"),
        ("tracker: wandb", "$.tracker"),
        ("tracker: {Token: abc}", "$.tracker"),
        ("tracker: {host: 5}", "$.tracker"),
        ("tracker: {kind: polyaxon, project: [x]}", "$.tracker"),
        ("submit: {imagine: x}", "$.submit"),
        ("include: []\nseed: x", "$.seed"),
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
