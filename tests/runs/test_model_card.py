"""The model card of an export: numbers of the run's files."""

from pathlib import Path
from typing import Any

from axonrl.runs.history import EPISODES, EVALUATIONS
from axonrl.runs.model_card import model_card
from axonrl.runs.starts import add_start

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
    rows = ["1000,5.0,1.0,9.0,16,,,,20", "2000,10.0,2.0,9.0,16,,,,40", "3000,11.0,1.0,9.0,16,,,,60"]
    (tmp_path / EVALUATIONS).write_text("\n".join(["the columns", *rows]) + "\n")
    header = "episode,global_timestep,episode_return,length,seconds"
    (tmp_path / EPISODES).write_text(f"{header}\n1,900,7.0,9,0.1\n2,1900,7.0,9,0.1\n3,2900,99.0,9,0.1\n")
    add_start(tmp_path, 3, ["axonrl", "run", "my file.yml"])
    card = model_card(DESCRIBED, tmp_path)
    assert "in 16 episodes: 10 on average (95 % interval 9.02002 .. 10.98," in card  # 1.959964 * 2 / sqrt(16)
    assert "The last 2 episodes of its training, which explore, returned 7 on average (95 % interval 7 .. 7," in card
    assert "\naxonrl run 'my file.yml'\n" in card
    assert "| timesteps | 2,000 |" in card
    assert "onnxruntime" not in card


def test_a_policy_without_a_run(tmp_path: Path) -> None:
    onnx = {"opset": 18, "inputs": {"observation/eye": {"shape": [2], "dtype": "uint8"}}}
    card = model_card({**DESCRIBED, "onnx": onnx, "program": None}, None)
    assert card.startswith("# my.module:model on an environment of the user's own\n")
    assert '"observation/eye": ...,  # batch of observations: uint8 [B, 2]' in card
    assert '"state/h": ...,  # zeros where episodes begin, then next_state: float32 [B, 8]' in card
    assert "| observations | Dict of eye: Box [2] uint8 |" in card
    assert "Policy.load" not in card
