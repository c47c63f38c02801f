"""The model card of an export, as Markdown in the Hugging Face Hub's form: training, performance, and usage."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from ..core.checks import counted
from ..core.yaml_text import to_yaml
from . import record
from .final import final_evaluation
from .history import every_evaluation, read_episodes
from .learning_curve import algorithm_of
from .starts import read_starts
from .statistics import interval

EPISODES: Final = 100
"""Number of last training episodes to summarize."""
HERE: Final = "path/of/this/folder"
"""Placeholder in the card for the location of the export."""
_NORMAL: Final = 1.959964
"""97.5 % quantile of the normal distribution, for intervals of means."""
_TITLES: Final = {"litert": "the LiteRT policy", "onnx": "the ONNX model"}
_VERSIONS: Final = ("python", "axonrl", "tensorflow", "keras", "numpy", "gymnasium", "ai-edge-litert")
_Evaluated: TypeAlias = "tuple[str, Mapping[str, Any]]"
"""When a policy was evaluated, and the results."""


def model_card(described: Mapping[str, Any], run: Path | None, parity: Mapping[str, Any] | None = None) -> str:
    """Write the model card as Markdown.

    Args:
        described: contents of ``policy.json``.
        run: the run folder; None if there is none.
        parity: contents of ``parity.json``; None if there is none.

    Raises:
        CheckpointError, ValueError: a file of the run folder is damaged.
    """
    found = None if run is None else record.read(run)
    environment = (found and found.environment) or {}
    task = environment.get("id") or "a user's own environment"
    algorithm = (found and algorithm_of(found.model_fn)) or described["model"]
    trained = described["trained"]
    facts = {
        "environment": f"{task}{_wrappers_text(environment)}",
        "observations": _space(described["observation"]["space"]),
        "actions": _space(described["action"]["space"]),
        "algorithm": algorithm,
        "policy": f"`{described['policy']}`",
        "timesteps": f"{trained['global_timestep']:,}",
        "updates": f"{trained['global_step']:,}",
        "episodes": f"{trained['global_episode']:,}",
        "seed": None if found is None else found.seed,
        "normalisation": _normalisation(described),
        "recurrent": "yes: state goes in and comes out" if described["state"] else "no",
    }
    evaluations = [] if run is None else _evaluations(run, described)
    title = f"{algorithm} on {task}"
    sections = (
        ["---", *_metadata(title, algorithm, environment.get("id"), evaluations).splitlines(), "---"],
        [f"# {title}", "", "A policy trained and exported by axonrl. It acts greedily."],
        _table("", "", facts.items()),
        ["## Returns", "", *([] if run is None else _returns(run, described, evaluations))],
        ["## How it was trained", "", *_provenance(run, found, described)],
        ["## How to use it", *_usage(described)],
        ["## Limits", "", *_limits(described, parity)],
    )
    return "\n\n".join("\n".join(lines) for lines in sections) + "\n"


def _table(left: str, right: str, rows: Iterable[tuple[str, Any]]) -> list[str]:
    cells = ((name, str(value).replace("|", "\\|")) for name, value in rows if value is not None)
    return [f"| {left} | {right} |", "|---|---|", *(f"| {name} | {value} |" for name, value in cells)]


def _wrappers_text(environment: Mapping[str, Any]) -> str:
    kinds = [str(one.get("kind")) for one in environment.get("wrappers", ())]
    return f", with {', '.join(kinds)}" if kinds else ""


def _normalisation(described: Mapping[str, Any]) -> str:
    """Say where observations are normalised, for each exported file."""
    if not described["normalization"]:
        return "none"
    litert = "`policy.tflite` takes normalised observations: `Policy` applies the statistics in `policy.json`"
    onnx = "`policy.onnx` takes the environment's observations, and normalises them itself"
    found = [litert] if described["program"] is not None else []
    return "; ".join([*found, onnx] if described.get("onnx") is not None else found)


def _space(space: Mapping[str, Any]) -> str:
    if space["type"] == "Dict":
        return f"Dict of {', '.join(f'{key}: {_space(part)}' for key, part in space['spaces'])}"
    if space["type"] == "Tuple":
        return f"Tuple of {', '.join(map(_space, space['spaces']))}"
    size = space.get("shape", space.get("n", space.get("nvec")))
    return f"{space['type']} {size} {space.get('dtype', 'int8')}"


def _metadata(title: str, algorithm: str, task: str | None, evaluations: Sequence[_Evaluated]) -> str:
    """Metadata by which the Hub finds and shows a model, as YAML: the first evaluation is its result."""
    values: dict[str, Any] = {
        "library_name": "axonrl",
        "pipeline_tag": "reinforcement-learning",
        "tags": ["axonrl", "reinforcement-learning", algorithm, *([task] if task else [])],
    }
    for _, results in evaluations[:1]:
        value = f"{results['episode_return_mean']:.2f} +/- {results['episode_return_std']:.2f}"
        result = {
            "task": {"type": "reinforcement-learning", "name": "reinforcement-learning"},
            "dataset": {"type": task or "custom", "name": task or "custom"},
            "metrics": [{"type": "mean_reward", "value": value, "name": "mean_reward", "verified": False}],
        }
        values["model-index"] = [{"name": title, "results": [result]}]
    return to_yaml(values)


def _evaluations(run: Path, described: Mapping[str, Any]) -> list[_Evaluated]:
    """The greedy evaluations of this policy: the one at the end of the run, then those during training."""
    trained = described["trained"]
    at = trained["global_timestep"], trained["global_step"]
    every = [row for row in every_evaluation(run) if not row.explore]
    rows = [row for row in every if (row.global_timestep, row.global_step) == at]
    found: list[_Evaluated] = [("during training", row.results) for row in rows]
    final = final_evaluation(run)
    if final is not None and final.is_of(described["policy"], *at):
        found.insert(0, ("at the end of the run", final.results))
    return found


def _returns(run: Path, described: Mapping[str, Any], evaluations: Sequence[_Evaluated]) -> Iterator[str]:
    if not evaluations:
        yield "The run has no recorded evaluation of this policy."
    yield from (_evaluation_text(when, results) for when, results in evaluations)
    at = described["trained"]["global_timestep"]
    last = [one.episode_return for one in read_episodes(run) if one.global_timestep <= at][-EPISODES:]
    if last:
        mean, low, high = interval(last)
        yield (
            f"The last {counted(len(last), 'episode')} of its training, with exploration, returned {mean:,.6g} on"
            f" average (95 % interval {low:,.6g} .. {high:,.6g}, bootstrapped over episodes)."
        )


def _evaluation_text(when: str, results: Mapping[str, Any]) -> str:
    mean, episodes, around = results["episode_return_mean"], int(results["episodes"]), ""
    if episodes > 1:
        half = _NORMAL * results["episode_return_std"] / math.sqrt(episodes - 1)  # the deviation is of these episodes
        around = f" (95 % interval {mean - half:,.6g} .. {mean + half:,.6g}, from the standard error over episodes)"
    return f"Evaluated greedily {when}, in {counted(episodes, 'episode')}: {mean:,.6g} on average{around}.\n"


def _provenance(run: Path | None, found: record.RunRecord | None, described: Mapping[str, Any]) -> Iterator[str]:
    starts = [] if run is None else read_starts(run)
    for start in starts[:1]:
        yield from ("```console", shlex.join(start["command"]), "```", "")
        if start["git_commit"]:
            yield f"Git commit `{start['git_commit']}`, started {start['started']}.\n"
    if len(starts) > 1:
        yield f"It was started {len(starts)} times; later starts resumed it.\n"
    if found is not None and found.params:
        yield from (*_table("parameter", "value", ((k, f"`{v}`") for k, v in found.params.items())), "")
    trained_with = {} if found is None else found.made_with
    versions = ((name, trained_with.get(name, described["made_with"].get(name))) for name in _VERSIONS)
    yield from _table("version", "", versions)


def _usage(described: Mapping[str, Any]) -> Iterator[str]:
    if described["program"] is not None:
        yield from (
            "",
            "LiteRT, with `numpy`, `ai-edge-litert` and `safetensors` in addition to axonrl:",
            "",
            "```python",
        )
        yield from ("from axonrl.policies import Policy", "", f'policy = Policy.load("{HERE}")')
        yield from ("action = policy.act(observation)  # for env.step", "```")
    onnx = described.get("onnx")
    if onnx is None:
        return
    inputs, states = onnx["inputs"], described["state"] or {}
    given = [(name, "batch of observations", spec) for name, spec in inputs.items()]
    given += [(f"state/{name}", "zeros where episodes begin, then next_state", spec) for name, spec in states.items()]
    yield from (
        "",
        f"ONNX (opset {onnx['opset']}), with any ONNX runtime; the first axis of all arrays is the batch:",
        "",
    )
    yield from ("```python", "import onnxruntime", "", 'session = onnxruntime.InferenceSession("policy.onnx")')
    yield from ("outputs = [output.name for output in session.get_outputs()]", "results = session.run(outputs, {")
    for name, what, spec in given:
        yield f'    "{name}": ...,  # {what}: {spec["dtype"]} [B, {", ".join(map(str, spec["shape"]))}]'.replace(
            ", ]", "]"
        )
    yield from (
        "})",
        'action = dict(zip(outputs, results))["action"]  # for a Dict or Tuple space: "action/<part>"',
        "```",
    )


def _limits(described: Mapping[str, Any], parity: Mapping[str, Any] | None) -> Iterator[str]:
    yield "- It is greedy, and was trained only in the environment above; its behaviour elsewhere is unknown."
    yield "- Wrappers other than normalisation of observations belong to the environment: pass their output."
    if described["exploration_note"]:
        yield f"- It does not explore: {described['exploration_note']}."
    if described.get("onnx") is not None:
        yield "- The ONNX model does not check observations for NaN, bounds, or masks without a legal action."
    for name, one in ({} if parity is None else parity["formats"]).items():
        observations = sum(one["observations"].values())
        yield (
            f"- Compared with the agent on {observations:,} observations, on the machine of the export, {_TITLES[name]}"
            f" differs by {one['largest_difference']:.2g} at most: see `parity.json`."
        )
