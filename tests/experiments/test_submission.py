"""The operation that a submission is: what Polyaxon itself makes of it, and what it refuses."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from axonrl.core.yaml_text import to_yaml
from axonrl.experiments.commands.cli import main
from axonrl.experiments.config.schema import load
from axonrl.experiments.errors import ExperimentError
from axonrl.experiments.polyaxon.operation import operation
from axonrl.version import __version__

FILE = """\
name: my.run
description: "{{ not }} a {% template"
params:
  steps: {type: int, default: 20}
  rate: 1e-3
  greedy: false
  note: "yes"
environment: {id: CartPole-v1}
agent:
  model_fn: users_model:model_fn
  params: {rate: "${rate}", note: "${note}"}
train: {max_timesteps: "${steps}"}
"""
SUBMIT = """\
submit:
  image: registry.example.com/rl:1
  environment: {OMP_NUM_THREADS: 2, DEBUG: true, NAME: text}
  secrets: [hugging-face, data.base-1]
  resources: {cpu: 0.5, memory: 4Gi, gpu: 1}
"""
MATRIX = """\
matrix:
  kind: grid
  params:
    rate: {kind: choice, value: [0.1, 0.2]}
"""


def made(file: Path, params: dict[str, str] | None = None, sets: dict[str, str] | None = None) -> dict[str, Any]:
    return operation(*load(file, params or {}, sets or {}), params or {})


def rendered(made: dict[str, Any], params: dict[str, Any]) -> Any:
    """The operation as Polyaxon compiles it."""
    from polyaxon.polyaxonfile import CompiledOperationSpecification, OperationSpecification

    operation = OperationSpecification.read(made)
    operation.params = {**(operation.params or {}), **{name: {"value": value} for name, value in params.items()}}
    read = OperationSpecification.read(operation.to_dict())
    compiled = OperationSpecification.compile_operation(read)
    compiled = CompiledOperationSpecification.apply_params(compiled, params=read.params)
    compiled = CompiledOperationSpecification.apply_operation_contexts(compiled)
    places = {"artifacts_path": "/in", "run_outputs_path": "/out"}
    return CompiledOperationSpecification.apply_runtime_contexts(compiled, contexts={"globals": places})


@pytest.fixture
def file(workplace: Path) -> Path:
    path = workplace / "experiment.yml"
    path.write_text(FILE)
    return path


def test_declared_params_are_typed_inputs_and_given_ones_those_of_the_operation(file: Path) -> None:
    operation = made(file, {"rate": "0.5"})
    assert operation["component"]["inputs"] == [
        {"name": "steps", "type": "int", "value": 20, "isOptional": True},
        {"name": "rate", "type": "float", "value": 0.001, "isOptional": True},
        {"name": "greedy", "type": "bool", "value": False, "isOptional": True},
        {"name": "note", "type": "str", "value": "yes", "isOptional": True},
    ]
    assert operation["params"] == {"rate": {"value": 0.5}}
    assert "params" not in made(file)


def test_the_command_is_the_one_of_a_laptop(file: Path) -> None:
    container = rendered(made(file), {"rate": 0.25, "greedy": True, "note": "two words"}).run.container
    assert container.image == f"axonrl:{__version__}"
    assert container.command == [
        *("axonrl", "run", "/in/experiment.yml", "--model-dir", "/out/my.run", "--auto-resume"),
        *("-P", "steps=20", "-P", "rate=0.25", "-P", "greedy=True", "-P", "note=two words"),
    ]


def test_the_file_arrives_as_it_was_written(file: Path, tmp_path: Path) -> None:
    compiled = rendered(made(file, sets={"train.first_update": "7"}), {"rate": 0.25})
    arrived = tmp_path / compiled.run.init[0].file.filename
    arrived.write_text(compiled.run.init[0].file.content)
    here, there = (
        load(path, {"rate": "0.25"}, {"train.first_update": "7"} if path == file else {})[0] for path in (file, arrived)
    )
    assert (there, there.description) == (here, "{{ not }} a {% template")
    assert there.train is not None
    assert there.train.first_update == 7


def test_the_name_of_the_file_and_what_is_included_travel_too(file: Path) -> None:
    file.write_text(FILE.replace("name: my.run\n", ""))
    (file.parent / "more.yml").write_text("include: experiment.yml\nseed: 3\n")
    values = yaml.safe_load(made(file.parent / "more.yml")["component"]["run"]["init"][0]["file"]["content"])
    assert (values["name"], values["seed"], values["environment"]) == ("more", 3, {"id": "CartPole-v1"})
    assert "include" not in values


def test_image_environment_secrets_and_resources(file: Path, tmp_path: Path) -> None:
    file.write_text(FILE + SUBMIT)
    container = made(file)["component"]["run"]["container"]
    assert container["image"] == "registry.example.com/rl:1"
    assert [(one["name"], one["value"]) for one in container["env"]] == [
        *(("OMP_NUM_THREADS", "2"), ("DEBUG", "true"), ("NAME", "text"))
    ]
    sources = rendered(made(file), {}).run.container.env_from  # as Polyaxon hands them to Kubernetes
    assert sources == [{"secretRef": {"name": name}} for name in ("hugging-face", "data.base-1")]
    limits = {"cpu": "0.5", "memory": "4Gi", "nvidia.com/gpu": 1}
    assert container["resources"] == {"requests": limits, "limits": limits}
    experiment = load(file)[0]
    again = tmp_path / "again.yml"
    again.write_text(to_yaml(experiment.model_dump()))
    assert load(again)[0].submit == experiment.submit


def test_polyaxon_checks_the_operation(file: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file.write_text(FILE + SUBMIT + MATRIX)
    assert main(["submit", str(file), "--dry-run"]) == 0
    printed = tmp_path / "operation.yml"
    printed.write_text(capsys.readouterr().out)
    command = [str(Path(sys.executable).with_name("polyaxon")), "check", "-f", str(printed)]
    environment = {"PATH": "", "HOME": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Polyaxonfile valid" in done.stdout


def test_mistakes_name_file_line_and_key(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(FILE + MATRIX.replace("rate:", "rat:"))
    assert main(["submit", str(file), "--dry-run"]) == 2
    message = "matrix.params.rat: no param 'rat' is declared under 'params'; did you mean 'rate'?\n"
    line = len(FILE.splitlines()) + 4
    assert capsys.readouterr().err == f"axonrl: error: {file}:{line}: {message}"


def test_all_mistakes_of_the_section_are_told(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    section = "  image: ''\n  environment: {A: [1]}\n  secrets: [A]\n"
    section += "  resources:\n    cpu: two\n    memory: 4 GB\n    gpu: 0\n"
    file.write_text(f"{FILE}submit:\n{section}")
    assert main(["submit", str(file), "--dry-run"]) == 2
    line = len(FILE.splitlines()) + 2
    assert capsys.readouterr().err.splitlines() == [
        f"axonrl: error: {file}:{line + index}: submit.{message}"
        for index, message in (
            (0, "image: must have at least 1 character, got ''"),
            (1, "environment.A: must be text or a number, got a list"),
            (2, "secrets.0: must be the name of a Kubernetes secret, of a-z, 0-9, '-' and '.', got 'A'"),
            (4, "resources.cpu: must be a number of cores, as in 2 or 500m, got 'two'"),
            (5, "resources.memory: must be an amount of memory, as in 4Gi, got '4 GB'"),
            (6, "resources.gpu: must be at least 1, got 0"),
        )
    ]


def test_units_of_memory_are_kubernetes(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for amount, code in {"512k": 0, "512Ki": 0, "1.5G": 0, "4Gi": 0, "512K": 2, "4ki": 2}.items():
        file.write_text(f"{FILE}submit: {{resources: {{memory: {amount}}}}}\n")
        assert main(["submit", str(file), "--dry-run"]) == code, amount
    assert "resources.memory: must be an amount of memory, as in 4Gi, got '4ki'" in capsys.readouterr().err


def test_seeds_and_a_matrix(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each point is a job, which runs all of the seeds."""
    file.write_text(f"{FILE}seeds: 3\n{MATRIX}")
    assert main(["submit", str(file), "--dry-run", "-P", "steps=30"]) == 0
    out, err = capsys.readouterr()
    operation = yaml.safe_load(out)
    assert (operation["params"], err) == ({"steps": {"value": 30}}, "")
    assert operation["matrix"]["params"]["rate"]["value"] == [0.1, 0.2]
    (init,) = operation["component"]["run"]["init"]
    content = yaml.safe_load(init["file"]["content"])
    assert (content["seeds"], "matrix" in content) == (3, False)
    command = operation["component"]["run"]["container"]["command"]
    assert command[command.index("-P") :][:2] == ["-P", "steps={{ steps }}"]
    assert "rate={{ rate }}" in command


@pytest.mark.parametrize(
    ("name", "more", "submitted"),
    [
        ("return", "", "final_episode_return_mean"),
        ("return", "evaluate: null\n", "rollout_return_mean"),
        ("final_episode_length_mean", "", "final_episode_length_mean"),
        ("eval/return_mean", "hooks: [{kind: evaluation, every_timesteps: 9}]\n", "eval_return_mean"),
        ("train/td.error__max", "", "train_td_error_max"),
    ],
)
def test_metrics_are_submitted_by_their_names_in_the_server_s_queries(
    name: str, more: str, submitted: str, file: Path
) -> None:
    rule = f"{{kind: metric_early_stopping, metric: {name}, value: 9, optimization: maximize}}"
    rules = "" if name == "return" else f"  earlyStopping: [{{kind: failure_early_stopping, percent: 9}}, {rule}]\n"
    tpe = f"  numRuns: 2\n  maxIterations: 2\n  metric: {{name: {name}, optimization: maximize}}\n{rules}"
    file.write_text(FILE + more + MATRIX.replace("grid", "tpe") + tpe)
    matrix = made(file)["matrix"]
    assert matrix["metric"] == {"name": submitted, "optimization": "maximize"}
    assert [rule.get("metric") for rule in matrix.get("earlyStopping", [])] == ([None, submitted] if rules else [])
    file.write_text(f"{file.read_text()}seeds: 2\n")
    with pytest.raises(ExperimentError, match=r"matrix\.metric\.name: a server cannot look up "):
        made(file)


@pytest.mark.parametrize(
    ("param", "option", "message"),
    [
        (
            "globals: 1",
            "steps=1",
            "{}:6: params.globals: a param of this name cannot be submitted: Polyaxon reserves globals, params,"
            " connections",
        ),
        (
            "mark: '{{ x }}'",
            "steps=1",
            "{}:6: params.mark: must not contain '{{' or '{%', which Polyaxon would replace, got '{{ x }}'",
        ),
        ("more: 1", "rate=1", "-P rate=1: rate: the matrix in the file already varies this param"),
    ],
)
def test_params_that_mean_something_to_polyaxon(
    param: str, option: str, message: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(FILE.replace("  rate: 1e-3\n", f"  rate: 1e-3\n  {param}\n") + MATRIX)
    assert main(["submit", str(file), "--dry-run", "-P", option]) == 2
    assert capsys.readouterr().err == f"axonrl: error: {message.replace('{}', str(file))}\n"


@pytest.mark.docs
def test_the_documented_section_is_valid(file: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "submission.md").read_text(encoding="utf-8")
    section = page.split("```yaml\n")[1].split("```")[0]
    file.write_text(FILE.replace("  rate: 1e-3\n", "  rate: 1e-3\n  learning_rate: 1e-3\n") + section)
    operation = made(file)
    assert operation["matrix"]["params"]["learning_rate"]["value"] == [0.001, 0.0003]
    assert operation["component"]["run"]["container"]["image"] == f"axonrl:{__version__}"
