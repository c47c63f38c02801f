"""The Polyaxon operation of an experiment: a component with typed inputs, whose job is the same ``axonrl run``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ...core.yaml_text import to_yaml
from ...version import __version__
from ..config.declared import declared_params
from ..config.files import Document
from ..config.optuna import OPTUNA
from ..config.schema import ExperimentFile
from ..config.submission import Submit
from ..errors import Findings
from .matrix import check_matrix
from .metrics import AT, on_server

IMAGE: Final = f"axonrl:{__version__}"
"""The image built by the Dockerfile."""
FILE: Final = "experiment.yml"
"""The experiment's file name in the container."""
_NEAREST: Final = {"tpe": "tpe", "gp": "bayes", "cmaes": "bayes", "qmc": "random", "nsgaii": "random"}
"""Optuna's samplers to the kinds in Polyaxon that choose points most similarly."""
_RESERVED: Final = ("globals", "params", "connections")
"""Names with another meaning in Polyaxon's templates."""


def operation(experiment: ExperimentFile, document: Document, params: Mapping[str, str]) -> dict[str, Any]:
    """The operation that runs an experiment on a server.

    It contains the experiment file as it was written, merged with its includes and ``--set``. The file's ``params`` are
    the component's inputs, passed to the command with ``-P``.

    Args:
        experiment: as :func:`axonrl.experiments.config.schema.load` returns it.
        document: as it returns it.
        params: those of ``-P``.

    Returns:
        Plain data, valid as Polyaxon's operation of version 1.1.

    Raises:
        ExperimentError: a param cannot be submitted, or Polyaxon refuses the matrix.
    """
    submit = experiment.submit or Submit()
    defaults = declared_params(document, {}, Findings())
    for name in experiment.params:
        _check_param(name, (defaults[name].default, experiment.params[name].default), document)
    made: dict[str, Any] = {"version": 1.1, "kind": "operation", "name": experiment.name.replace(".", "-")}
    if experiment.description:
        made["description"] = experiment.description
    if params:
        made["params"] = {name: {"value": experiment.params[name].default} for name in params}
    if experiment.matrix is not None:
        _check_kind(experiment.matrix, document)
        check_matrix(experiment.matrix, experiment, params, document)
        made["matrix"] = on_server(experiment.matrix, experiment, document)
    inputs = [
        {"name": name, "type": param.type, "value": param.default, "isOptional": True}
        for name, param in defaults.items()
    ]
    component: dict[str, Any] = {"version": 1.1, "kind": "component", "name": "axonrl"}
    if inputs:
        component["inputs"] = inputs
    return {**made, "component": {**component, "run": _job(submit, experiment, document)}}


def _check_kind(matrix: Mapping[str, Any], document: Document) -> None:
    """Refuse a search with Optuna; names the nearest kind in Polyaxon."""
    if matrix.get("kind") != OPTUNA:
        return
    sampler, pruner = (
        given.get("kind") if isinstance(given, Mapping) else given
        for given in (matrix.get("sampler", "tpe"), matrix.get("pruner"))
    )
    nearest = "hyperband" if pruner in ("hyperband", "successive_halving") else _NEAREST.get(str(sampler), "tpe")
    rule = " with a metric_early_stopping of the policy median" if pruner == "median" else ""
    message = (
        f"a Polyaxon server has no kind optuna; the nearest to {sampler}{f' with {pruner}' if pruner else ''} is"
        f" {nearest}{rule}. Submit that, or search on this machine with axonrl run"
    )
    raise document.error((*AT, "kind"), message)


def _job(submit: Submit, experiment: ExperimentFile, document: Document) -> dict[str, Any]:
    command = ["axonrl", "run", f"{{{{ globals.artifacts_path }}}}/{FILE}"]
    command += ["--model-dir", f"{{{{ globals.run_outputs_path }}}}/{experiment.name}", "--auto-resume"]
    for name in experiment.params:
        command += ["-P", f"{name}={{{{ {name} }}}}"]
    container: dict[str, Any] = {"image": submit.image or IMAGE, "command": command}
    if submit.environment:
        container["env"] = [{"name": name, "value": value} for name, value in submit.environment.items()]
    if submit.secrets:
        container["envFrom"] = [{"secretRef": {"name": name}} for name in submit.secrets]
    wanted = submit.resources
    named = {"cpu": wanted.cpu, "memory": wanted.memory, "nvidia.com/gpu": wanted.gpu}
    if limits := {name: value for name, value in named.items() if value is not None}:
        container["resources"] = {"requests": limits, "limits": limits}
    # In the container the file has another name, which must not become the experiment's name. Each job is one point of
    # the matrix, which the server draws.
    values = {name: value for name, value in document.values.items() if name != "matrix"}
    content = to_yaml({"name": experiment.name, **values})
    # Text that looks like a template would be replaced. In block style such braces occur only in quoted text.
    content = content.replace("{{", r"\x7B\x7B").replace("{%", r"\x7B%")
    return {"kind": "job", "init": [{"file": {"filename": FILE, "content": content}}], "container": container}


def _check_param(name: str, values: tuple[Any, ...], document: Document) -> None:
    if name in _RESERVED:
        message = f"a param of this name cannot be submitted: Polyaxon reserves {', '.join(_RESERVED)}"
        raise document.error(("params", name), message)
    for value in values:
        if isinstance(value, str) and ("{{" in value or "{%" in value):
            message = f"must not contain '{{{{' or '{{%', which Polyaxon would replace, got {value!r}"
            raise document.error(("params", name), message)
