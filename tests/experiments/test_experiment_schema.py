"""The experiment file's schema, declared params, and the command line's -P and --set."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from axonrl.core import registry
from axonrl.experiments.config.schema import ExperimentFile, load
from axonrl.experiments.config.shipped import shipped
from axonrl.experiments.errors import ExperimentError
from axonrl.tests.raising import raised

MINIMAL = "environment: {id: CartPole-v1}\nagent:\n  model_fn: dqn\n"
FULL = """\
name: full
description: everything
seed: 3
params:
  rate: {type: float, default: 1e-3}
  size: 64
  game: {type: str, default: Cart}
environment: {id: "${game}Pole-v1", num_envs: 4, kwargs: {level: 2}}
agent:
  model_fn: my_module:model_fn
  params:
    learning_rate: ${rate}
    hidden: ["${size}", 32]
    note: "rate ${rate}, size ${ size }"
  memory: {kind: replay, size: 5000, batch_size: 64}
config: {save_checkpoints_secs: null, keep_checkpoint_max: 2}
train: {first_update: 100, update_frequency: 4, max_timesteps: 2000}
evaluate: {episodes: 5, policy: last}
hooks:
  - progress
  - {kind: evaluation, every_timesteps: 500}
tracker: {project: me/cart}
submit: {resources: {cpu: 2}}
"""


def experiment(
    folder: Path, text: str, params: dict[str, str] | None = None, sets: dict[str, str] | None = None
) -> ExperimentFile:
    file = folder / "my_run.yml"
    file.write_text(text)
    return load(file, params, sets)[0]


def error(folder: Path, text: str, **options: Any) -> ExperimentError:
    return raised(ExperimentError, experiment, folder, text, **options)


def test_everything(tmp_path: Path) -> None:
    """Written out, it says what the file says, and every default."""
    given = yaml.safe_load(FULL)
    assert experiment(tmp_path, FULL).model_dump() == given | {
        "seeds": None,
        "evaluate": {"episodes": 5, "explore": False, "policy": "last"},
        "params": {
            "rate": {"type": "float", "default": 1e-3},
            "size": {"type": "int", "default": 64},
            "game": {"type": "str", "default": "Cart"},
        },
        "environment": {
            **{"id": "CartPole-v1", "num_envs": 4, "vectorization": "sync"},
            **{"kwargs": {"level": 2}, "wrappers": []},
        },
        "agent": given["agent"]
        | {"params": {"learning_rate": 1e-3, "hidden": [64, 32], "note": "rate 0.001, size 64"}, "warm_start": None},
        "learn": None,
        "train": given["train"] | {"max_steps": None, "max_episodes": None},
        "distributed": None,
        "hooks": [{"kind": "progress"}, {"kind": "evaluation", "every_timesteps": 500}],
        "tracker": [{"kind": "polyaxon", "project": "me/cart"}],
        "submit": {
            **{"image": None, "environment": {}, "secrets": []},
            "resources": {"cpu": "2", "memory": None, "gpu": None},
        },
        "matrix": None,
    }


def test_the_best_policy_is_evaluated_where_a_hook_keeps_it(tmp_path: Path) -> None:
    found = experiment(tmp_path, MINIMAL + "hooks: [{kind: evaluation, every_timesteps: 10}]\n")
    assert found.evaluate is not None
    assert found.evaluate.policy == "best"
    assert experiment(tmp_path, MINIMAL + "evaluate: null\n").evaluate is None
    for other in ("keep_best: false", "name: other"):
        hooks = f"hooks: [{{kind: evaluation, every_timesteps: 10, {other}}}]\n"
        found = experiment(tmp_path, MINIMAL + hooks)
        assert found.evaluate is not None
        assert found.evaluate.policy == "last"
        message = str(error(tmp_path, MINIMAL + hooks + "evaluate: {policy: best}\n"))
        assert "5: evaluate.policy: 'best' needs an evaluation hook" in message
    assert experiment(tmp_path, MINIMAL + "hooks: ['mine:Hook']\nevaluate: {policy: best}\n").evaluate is not None


def test_learning_from_data_alone_trains_nothing_in_the_environment(tmp_path: Path) -> None:
    learn = "learn: {data: '${file}', max_steps: 1e3}\nparams: {file: a.npz}\n"
    found = experiment(tmp_path, MINIMAL + learn)
    assert found.learn is not None
    assert (found.learn.data, found.learn.max_steps, found.train) == ("a.npz", 1000, None)
    found = experiment(tmp_path, MINIMAL + learn, sets={"train.max_timesteps": "50"})
    assert found.train is not None
    assert (found.train.first_update, found.train.max_timesteps) == (None, 50)


def test_wrappers_by_name_alone_or_with_arguments(tmp_path: Path) -> None:
    text = "environment:\n  id: CartPole-v1\n  wrappers: {}\nparams: {{limit: 200}}\nagent: {{model_fn: dqn}}\n"
    named = text.format("[normalize_observation, {kind: time_limit, max_episode_steps: '${limit}'}]")
    found = experiment(tmp_path, named, sets={"environment.wrappers.0": "rescale_action"}).environment.wrappers
    assert [(one.kind, one.kwargs) for one in found] == [
        *(("rescale_action", {}), ("time_limit", {"max_episode_steps": 200}))
    ]
    message = "3: environment.wrappers: must be a list, got 'normalize_reward'"
    assert str(error(tmp_path, text.format("normalize_reward"))) == f"{tmp_path / 'my_run.yml'}:{message}"
    wrong = error(tmp_path, text.format("[{max_episode_steps: 3}, 3]")).errors
    assert sorted(one.key for one in wrong) == ["environment.wrappers.0.kind", "environment.wrappers.1"]


def test_trackers(tmp_path: Path) -> None:
    def trackers(text: str) -> list[tuple[str, dict[str, Any]]]:
        found = experiment(tmp_path, f"{MINIMAL}params: {{where: 'https://a.example:8000/x'}}\ntracker: {text}\n")
        return [(one.kind, one.kwargs) for one in found.tracker]

    assert experiment(tmp_path, MINIMAL).tracker == []
    assert trackers("mlflow") == [("mlflow", {})]
    there = {"host": "https://a.example:8000/x", "project": "me/cart"}
    assert trackers("{host: '${where}', project: me/cart}") == [("polyaxon", there)]
    several = trackers("[polyaxon, {kind: 'mine:Tracker', colour: red}]")
    assert several == [("polyaxon", {}), ("mine:Tracker", {"colour": "red"})]


def test_wrong_trackers(tmp_path: Path) -> None:
    trackers = "[3, {project: x}, {host: 'ftp://example.com'}, polyaxon]"
    found = error(tmp_path, f"{MINIMAL}tracker: {trackers}\n").errors
    assert [str(one).removeprefix(f"{tmp_path / 'my_run.yml'}:4: ") for one in found] == [
        "tracker.0: must be a mapping, got 3",
        "tracker.2: duplicate tracker 'polyaxon': a run has one of this kind",
        "tracker.3: duplicate tracker 'polyaxon': a run has one of this kind",
    ]
    assert error(tmp_path, f"{MINIMAL}tracker: {{host: 'ftp://example.com'}}\n").key == "tracker.host"


SECRETS = """\
- mlflow
- {kind: mlflow, Auth_TOKEN: sesame, password: "${pass}"}
- {kind: "mine:T", client_secret: sesame, headers: {Authorization: Bearer sesame}}
- {kind: "mine:T", to: [{api_key: sesame}], auth: {credentials: [me, sesame]}}
"""
ADDRESSES = """\
- {host: "https://example.com/?token=sesame"}
- {kind: mlflow, uri: "postgresql://me:${pass}@example.com/runs"}
- {kind: "mine:T", to: ["https://example.com/?a=b&auth_token=sesame"]}
"""


@pytest.mark.parametrize(
    ("trackers", "keys"),
    [
        (SECRETS, "1.Auth_TOKEN 1.password 2.client_secret 2.headers.Authorization 3.to.0.api_key 3.auth.credentials"),
        (ADDRESSES, "0.host 1.uri 2.to.0"),
    ],
    ids=["keys", "addresses"],
)
def test_secrets_are_refused_and_never_quoted(tmp_path: Path, trackers: str, keys: str) -> None:
    params = "params: {pass: sesame}\n"
    found = error(tmp_path, f"{MINIMAL}{params}tracker:\n{trackers}")
    assert [one.key for one in found.errors] == [f"tracker.{key}" for key in keys.split()]
    assert [one.line for one in found.errors] == sorted(one.line or 0 for one in found.errors)
    assert "sesame" not in str(found)
    value = f"[{', '.join(line.removeprefix('- ') for line in trackers.splitlines())}]"
    found = error(tmp_path, MINIMAL + params, sets={"tracker": value})
    assert {one.key for one in found.errors} == {f"tracker.{key}" for key in keys.split()}
    assert all(str(one).startswith("--set tracker: ") and one.line is None for one in found.errors)
    assert "sesame" not in str(found)


def test_what_looks_like_a_secret_and_is_none(tmp_path: Path) -> None:
    tracker = "{kind: 'mine:T', uri: 'postgresql://me@example.com:5432/runs?mode=a', at: '8:00@home'}"
    (found,) = experiment(tmp_path, f"{MINIMAL}tracker: {tracker}\n").tracker
    assert found.kwargs == {"uri": "postgresql://me@example.com:5432/runs?mode=a", "at": "8:00@home"}


def test_a_secret_in_an_option_is_not_quoted(tmp_path: Path) -> None:
    found = error(tmp_path, MINIMAL, sets={"tracker.token": "sesame"})
    assert str(found).startswith("--set tracker.token: tracker.token: secrets do not belong in an experiment file: set")
    found = error(tmp_path, MINIMAL, sets={"tracker.token": "[sesame"})
    assert str(found).startswith("--set tracker.token: tracker.token.0: not valid YAML")
    assert "sesame" not in str(found)


@pytest.mark.parametrize("where", ["submit: {{environment: {{{}}}}}\n", "params: {{{}}}\n"])
@pytest.mark.parametrize(
    ("item", "refused"),
    [
        ("HF_TOKEN: sesame", "both"),
        ("Wandb_API_key: sesame", "both"),
        ("AWS_SECRET_ACCESS_KEY: sesame", "both"),
        ("DB_PASSWORD: 98237461", "both"),
        ("DATABASE: 'postgres://me:sesame@example.com/runs'", "both"),
        ("NAME: ghp_sesamesesamesesamesesamesesamesesame", "both"),
        ("SSH_KEY: sesame", "environment"),
        ("image_key: rgb", "environment"),  # names of keys are usual params
        ("HF_TOKEN: ''", ""),
        ("MAX_TOKENS: some", ""),
        ("TOKEN_SIZE: 16", ""),
        ("TOKENIZERS_PARALLELISM: 'false'", ""),
        ("USE_TOKEN: true", ""),
        ("GOOGLE_APPLICATION_CREDENTIALS: /run/secrets/google.json", ""),
    ],
)
def test_secrets_of_containers_and_params(where: str, item: str, refused: str, tmp_path: Path) -> None:
    text = MINIMAL + where.format(item)
    if not refused or (refused == "environment" and "params" in where):
        assert experiment(tmp_path, text)
        return
    name, _, value = item.partition(": ")
    at = "params" if "params" in where else "submit.environment"
    sets, params = ({f"{at}.{name}": value}, {}) if at != "params" else ({}, {name: value.strip("'")})
    for found in (error(tmp_path, text), error(tmp_path, MINIMAL, sets=sets, params=params)):
        assert found.key.endswith(name)
        assert "secrets do not belong in an experiment file" in found.message
        assert ("submit: {secrets: [NAME]}" in found.message) == (at != "params")
        assert value.strip("'") not in str(found)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed: 9223372036854775808\n", "4: seed: must be less than 9223372036854775808, got 9223372036854775808"),
        ("train: null\n", "4: train: must be a mapping, got null"),
        (f"name: {'n' * 129}\n", "4: name: must have at most 128 characters, got 'nnn"),
        ("description: 'a ${rate'\n", "4: description: '${' without '}' in 'a ${rate'"),
    ],
)
def test_errors_name_file_line_and_key(tmp_path: Path, text: str, message: str) -> None:
    assert str(error(tmp_path, MINIMAL + text)).startswith(f"{tmp_path / 'my_run.yml'}:{message}")
    assert experiment(tmp_path, f"{MINIMAL}name: {'n' * 128}\n").name == "n" * 128
    twice = error(tmp_path, MINIMAL, sets={"environment.pettingzoo": "worlds:parallel_env"})
    assert "environment: pettingzoo stands for id and vectorization; omit id" in str(twice)


def test_params_from_the_command_line(tmp_path: Path) -> None:
    found = experiment(tmp_path, FULL, params={"rate": "1", "size": "128", "game": "5"}, sets={"environment.id": "X"})
    rate = found.agent.params["learning_rate"]
    assert (rate, type(rate)) == (1.0, float)
    assert (found.agent.params["hidden"], found.params["game"].default) == ([128, 32], "5")


def test_wrong_params_from_the_command_line(tmp_path: Path) -> None:
    found = error(tmp_path, FULL, params={"rat": "1", "size": "1e-2", "rate": "true", "game": "${size}"}).errors
    assert [str(one) for one in found] == [
        "-P rat=1: params.rat: the file declares no param of this name; it declares rate (float, 0.001), size (int,"
        " 64), game (str, 'Cart'); did you mean 'rate'?",
        "-P size=1e-2: size: must be of type int, got 0.01",
        "-P rate=true: rate: must be of type float, got true",
        "-P game=${size}: game: must not contain '${', got '${size}'",
    ]


def test_sets(tmp_path: Path) -> None:
    sets = {
        "train.max_steps": "7",
        "hooks.1.every_timesteps": "50",
        "hooks.0": "logging",
        "agent.params.hidden.1": "${size}",
        "config": "{}",
        "environment.kwargs.a.b": "[1, x]",
        "description": "now",
    }
    found = experiment(tmp_path, FULL, params={"size": "16"}, sets=sets)
    assert found.train is not None
    assert found.train.max_steps == 7
    assert found.model_dump()["hooks"] == [{"kind": "logging"}, {"kind": "evaluation", "every_timesteps": 50}]
    assert (found.agent.params["hidden"], found.config) == ([16, 16], {})
    assert found.environment.kwargs == {"level": 2, "a": {"b": [1, "x"]}}
    assert found.description == "now"


def test_wrong_sets(tmp_path: Path) -> None:
    sets = {"hooks.2": "x", "hooks.0.every_secs": "1", "a..b": "1", "seed": "[", ".".join("a" * 2000): "1"}
    found = [str(one) for one in error(tmp_path, FULL, sets=sets).errors]
    wanted = [
        "--set hooks.2=x: hooks.2: must be an index below 2, got '2'",
        "--set hooks.0.every_secs=1: hooks.0: is 'progress', which has no keys to set",
        "--set a..b=1: a: an empty key cannot be set",
        "--set seed=[: seed: not valid YAML",
    ]
    assert [one[: len(two)] for one, two in zip(found, wanted, strict=False)] == wanted
    assert len(found) == 5
    assert found[4].endswith("nested more than 32 levels deep")
    found = [str(one) for one in error(tmp_path, FULL, sets={"trani.max_steps": "7"}).errors]
    assert found == ["--set trani.max_steps=7: trani: unknown key; did you mean 'train'?"]


def test_every_algorithm_has_an_experiment() -> None:
    used = {load(path)[0].agent.model_fn for path in shipped().values()}
    assert used == set(registry.BUILT_IN["model_fn"])


WRONG = (
    MINIMAL
    + """\
seeed: 1
seed: -1
name: a/b
train:
  max_timestep: 5
  max_steps: 0
  first_update: true
hooks:
- progress
- {every: 1}
- 3
config:
  seed: 1
  keep_checkpoints_max: 1
  runtime: tpu
description: ${rate}
params:
  a: null
  a-b: 1
  b: {type: flaot, default: 1}
  c: {type: int}
  d: {type: int, default: true}
  e: {type: str, default: '${d}'}
tracker: {projct: a}
"""
)


def test_all_errors_are_found_at_once_each_with_its_line_and_key(tmp_path: Path) -> None:
    text = WRONG.replace("model_fn: dqn", 'model_fn: dqn\n  params: {x: "${c}"}')  # what uses an invalid param is right
    wanted = [
        "5: seeed: unknown key; did you mean 'seed'?",
        "6: seed: must be at least 0, got -1",
        "7: name: must be letters, digits, '.', '_' and '-', got 'a/b'",
        "9: train.max_timestep: unknown key; did you mean 'max_timesteps'?",
        "10: train.max_steps: must be an integer of at least 1, got 0",
        "11: train.first_update: must be an integer of at least 1, got True",
        "14: hooks.1.kind: this key is required",
        "15: hooks.2: must be a mapping, got 3",
        "17: config.seed: unknown key; here it is seed",
        "18: config.keep_checkpoints_max: unknown key; did you mean 'keep_checkpoint_max'?",
        "19: config.runtime: RunConfig.runtime must be one of auto, tensorflow, litert; got 'tpu'",
        "20: description: no param 'rate' is declared under 'params'",
        "22: params.a: must be a number, true, false, text, or a type and a default; got null",
        "23: params.a-b: a param's name must consist of letters, digits and _",
        "24: params.b.type: must be 'int', 'float', 'bool' or 'str'",
        "25: params.c.default: this key is required",
        "26: params.d.default: must be of type int, got true",
        "27: params.e.default: must not contain '${'",
        "28: tracker.projct: unknown key; did you mean 'project'?",
    ]
    found = [str(one).removeprefix(f"{tmp_path / 'my_run.yml'}:") for one in error(tmp_path, text).errors]
    assert [one[: len(two)] for one, two in zip(found, wanted, strict=True)] == wanted
    of_yaml = error(tmp_path, MINIMAL + "seed: 1e999\ntrain: &x {max_steps: 0}\nconfig: [!t 3, *x]\nenv: X\n").errors
    wrong = [(4, "seed"), (5, "train"), (6, "config.0"), (6, "config.1"), (6, "config"), (7, "env")]
    assert [(one.line, one.key) for one in of_yaml] == wrong


def test_a_count_may_be_written_with_an_exponent(tmp_path: Path) -> None:
    text = MINIMAL + "params: {limit: 5}\ntrain: {first_update: 1e2, max_timesteps: '${limit}'}\n"
    train = experiment(tmp_path, text, {"limit": "1e4"}, {"train.max_steps": "1e5"}).train
    assert train is not None
    counts = [train.first_update, train.max_timesteps, train.max_steps]
    assert counts == [100, 10_000, 100_000]
    assert {type(count) for count in counts} == {int}


CLUSTER = """
environment: {id: CartPole-v1}
agent: {model_fn: impala, memory: {kind: batch, size: 320}}
distributed: {actors: 4, min_actors: 3, ladder: [0.4, 7], backend: inline}
"""


@pytest.mark.parametrize(
    ("key", "value", "wrong"),
    [
        ("distributed.actors", "8", ""),
        ("distributed.actor", "8", "distributed.actor"),
        ("distributed.min_actors", "5", "distributed.min_actors"),
        ("environment.num_envs", "4", "environment.num_envs"),
    ],
)
def test_the_arguments_of_a_cluster(key: str, value: str, wrong: str, tmp_path: Path) -> None:
    if wrong:
        assert error(tmp_path, CLUSTER, sets={key: value}).key == wrong
    else:
        found = experiment(tmp_path, CLUSTER, sets={key: value}).distributed
        assert found == {"actors": 8, "min_actors": 3, "ladder": [0.4, 7], "backend": "inline"}
