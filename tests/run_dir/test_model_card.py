"""The model card of an export: numbers of the run's files."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from axonrl.run_dir.final import JOURNAL
from axonrl.run_dir.history import EPISODES, EVALUATIONS
from axonrl.run_dir.model_card import model_card
from axonrl.run_dir.starts import add_start

DESCRIBED: dict[str, Any] = {
    "model": "my.module:model",
    "policy": "best",
    "trained": {"global_step": 40, "global_timestep": 2000, "global_episode": 3},
    "made_with": {"python": "3.11.7", "axonrl": "0.1.0"},
    "observation": {"space": {"type": "Dict", "spaces": [["eye", {"type": "Box", "shape": [2], "dtype": "uint8"}]]}},
    "action": {"space": {"type": "Discrete", "n": 2, "start": 0, "dtype": "int64"}},
    "normalization": None,
    "state": {"h": {"shape": [8], "dtype": "float32"}},
    "exploration_note": None,
    "program": {"file": "policy.tflite"},
}


def test_returns_are_those_of_this_policy(tmp_path: Path) -> None:
    rows = ["1000,5.0,1.0,9.0,16,,,,20,,,,", "2000,10.0,2.0,9.0,16,,,,40,,,0,", "3000,11.0,1.0,9.0,16,,,,60,,,,"]
    (tmp_path / EVALUATIONS).write_text("\n".join(["the columns", *rows]) + "\n")
    header = "episode,global_timestep,episode_return,length,seconds"
    (tmp_path / EPISODES).write_text(f"{header}\n1,900,7.0,9,0.1\n2,1900,7.0,9,0.1\n3,2900,99.0,9,0.1\n")
    add_start(tmp_path, 3, ["axonrl", "run", "my file.yml"])
    card = model_card(DESCRIBED, tmp_path)
    assert "in 16 episodes: 10 on average (95 % interval 8.98788 .. 11.0121," in card  # 1.959964 * 2 / sqrt(15)
    assert "The last 2 episodes of its training, with exploration, returned 7 on average (95 % interval 7 .. 7," in card
    assert "\naxonrl run 'my file.yml'\n" in card
    assert "| timesteps | 2,000 |" in card
    assert "onnxruntime" not in card


def test_evaluations_that_explored_are_not_those_of_the_exported_policy(tmp_path: Path) -> None:
    explored = "2000,10.0,2.0,9.0,16,,,,40,3,4,1,\n"
    (tmp_path / EVALUATIONS).write_text(f"the columns\n{explored}")
    assert "The run has no recorded evaluation of this policy." in model_card(DESCRIBED, tmp_path)
    (tmp_path / EVALUATIONS).write_text(f"the columns\n2000,9.0,2.0,9.0,16,,,,40,3,4,0,\n{explored}")
    assert "Evaluated greedily during training, in 16 episodes: 9 on average" in model_card(DESCRIBED, tmp_path)


@pytest.mark.parametrize(
    ("evaluated", "policy", "outputs", "status", "is_told"),
    [
        ("last", "9", (2000, 40), "succeeded", True),
        ("last", "last", (2000, 41), "succeeded", False),
        ("best", "best", (3000, 60), "succeeded", True),
        ("best", "last", (2000, 40), "succeeded", False),
        ("last", "last", (2000, 40), "resuming", False),
        ("last, explore: true", "last", (2000, 40), "succeeded", False),
    ],
)
def test_the_evaluation_at_the_end_of_the_run_is_told_first(
    evaluated: str, policy: str, outputs: tuple[int, int], status: str, is_told: bool, tmp_path: Path
) -> None:
    (tmp_path / "experiment.yml").write_text(f"evaluate: {{episodes: 100, policy: {evaluated}}}\n")
    results = {"final_episode_return_mean": 8.0, "final_episode_return_std": 1.0, "final_episodes": 100}
    ended = {"outputs": {"timesteps": outputs[0], "updates": outputs[1], **results}}
    entries = [{"status": "running"}, ended, {"log": "drawn"}, {"status": status}]
    (tmp_path / JOURNAL).write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
    (tmp_path / EVALUATIONS).write_text("the columns\n2000,10.0,2.0,9.0,16,,,,40,,,,\n")
    card = model_card({**DESCRIBED, "policy": policy}, tmp_path)
    told = [line for line in card.splitlines() if line.startswith("Evaluated greedily")]
    assert told[-1].startswith("Evaluated greedily during training, in 16 episodes: 10 on average")
    at_the_end = (
        "Evaluated greedily at the end of the run, in 100 episodes: 8 on average (95 % interval 7.80302 .. 8.19698,"
    )
    assert [line.startswith(at_the_end) for line in told] == [True, False][not is_told :]
    (tmp_path / EVALUATIONS).unlink()
    alone = model_card({**DESCRIBED, "policy": policy}, tmp_path)
    assert ("The run has no recorded evaluation of this policy." in alone) == (not is_told)


def test_where_observations_are_normalised_is_told_of_each_file() -> None:
    onnx = {"opset": 18, "inputs": {"observation": {"shape": [2], "dtype": "float32"}}}
    litert = "`policy.tflite` takes normalised observations: `Policy` applies the statistics in `policy.json`"
    inside = "`policy.onnx` takes the environment's observations, and normalises them itself"
    normalises = {**DESCRIBED, "normalization": {"kind": "NormalizeObservation"}}
    for described, told in (
        ({**DESCRIBED, "onnx": onnx}, "none"),
        (normalises, litert),
        ({**normalises, "onnx": onnx}, f"{litert}; {inside}"),
        ({**normalises, "onnx": onnx, "program": None}, inside),
    ):
        assert f"| normalisation | {told} |" in model_card(described, None)


def test_how_closely_each_file_acts_like_the_agent_is_told() -> None:
    formats = {
        "litert": {"observations": {"random": 256}, "largest_difference": 0.0},
        "onnx": {"observations": {"random": 256, "played": 256}, "largest_difference": 6.3e-5},
    }
    card = model_card(DESCRIBED, None, {"formats": formats})
    assert "on 256 observations, on the machine of the export, the LiteRT policy differs by 0 at most" in card
    assert "on 512 observations, on the machine of the export, the ONNX model differs by 6.3e-05 at most" in card
    assert "parity.json" not in model_card(DESCRIBED, None)


def test_a_policy_without_a_run(tmp_path: Path) -> None:
    onnx = {"opset": 18, "inputs": {"observation/eye": {"shape": [2], "dtype": "uint8"}}}
    card = model_card({**DESCRIBED, "onnx": onnx, "program": None}, None)
    metadata, text = card.removeprefix("---\n").split("\n---\n")
    assert text.startswith("\n# my.module:model on a user's own environment\n")
    tags = ["axonrl", "reinforcement-learning", "my.module:model"]
    known = {"library_name": "axonrl", "pipeline_tag": "reinforcement-learning", "tags": tags}
    assert yaml.safe_load(metadata) == known  # without an evaluation, no result
    assert '"observation/eye": ...,  # batch of observations: uint8 [B, 2]' in card
    assert '"state/h": ...,  # zeros where episodes begin, then next_state: float32 [B, 8]' in card
    assert "| observations | Dict of eye: Box [2] uint8 |" in card
    assert "Policy.load" not in card
