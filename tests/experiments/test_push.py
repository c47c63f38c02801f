"""Runs and policies on the Hugging Face Hub: published there, loaded from there, and refused."""

import csv
import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from axonrl import Agent, RunConfig
from axonrl.core import hub as hub_client
from axonrl.experiments.commands.cli import main
from axonrl.hooks import EvaluationHook
from axonrl.memories import ReplayMemory
from axonrl.models import dqn
from axonrl.policies import Policy
from axonrl.tests.fake_hub import FakeHub
from axonrl.tests.raising import raised

pytestmark = pytest.mark.usefixtures("traced_once")

OBSERVATIONS: Final = np.random.default_rng(0).standard_normal((20, 4)).astype(np.float32)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 60 timesteps with one evaluation at its end, and a video."""
    folder = tmp_path_factory.mktemp("runs") / "pole"
    memory = ReplayMemory(100, batch_size=8)
    agent = Agent(dqn.model_fn, memory, folder, RunConfig(seed=1, progress=False), {"hidden": [8]})
    agent.train("CartPole-v1", 8, 4, hooks=EvaluationHook(60, episodes=2, env="CartPole-v1"), timesteps=60)
    (folder / "videos").mkdir()
    (folder / "videos" / "eval-60.mp4").write_bytes(b"moving")
    return folder


def digests(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_a_run_is_published_and_trains_on_elsewhere_as_it_would_have(
    run: Path, fake_hub: FakeHub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["push", str(run), "me/pole"]) == 0
    assert capsys.readouterr().out.strip() == f"{fake_hub.endpoint}/me/pole"
    (_, files) = fake_hub.repositories["me/pole"]
    newest = max((run / "checkpoints").iterdir()).relative_to(run).as_posix()
    assert {name for name in files if name.startswith("checkpoints/")} == {
        f"{newest}/{name}" for name in ("arrays.safetensors", "manifest.json", "state.json")
    }
    assert {name for name in files if "/" not in name} == {
        *("run.json", "episodes.csv", "evaluations.csv", "best.safetensors", "replay.mp4"),
        *("policy.json", "policy.tflite", "weights.safetensors", "parity.json", "README.md"),
    }
    policy = Policy.load("hf://me/pole", seed=0)
    loaded = Agent.load("hf://me/pole", into=tmp_path / "mine")
    ours = Agent.load(run)
    for name, values in ours.predict(OBSERVATIONS).items():
        np.testing.assert_array_equal(loaded.predict(OBSERVATIONS)[name], values)
    np.testing.assert_array_equal(policy.act(OBSERVATIONS), ours.act(OBSERVATIONS, policy="best"))

    cached = digests(tmp_path / "hf")
    loaded.train("CartPole-v1", timesteps=20)
    assert digests(tmp_path / "hf") == cached
    assert main(["push", str(tmp_path / "mine"), "me/pole"]) == 0
    before = Agent.load(f"hf://me/pole@{fake_hub.sha('me/pole', 1)}", into=tmp_path / "before")
    after = Agent.load("hf://me/pole", into=tmp_path / "after")
    assert [before.global_timestep, after.global_timestep] == [60, 80]
    assert len({name.split("/")[1] for name in fake_hub.repositories["me/pole"][-1] if "/" in name}) == 1
    before.train("CartPole-v1", timesteps=20)
    for name, weights in before.get_weights().items():
        np.testing.assert_array_equal(weights, after.get_weights()[name])


def test_the_card_has_the_evaluation_in_the_form_of_the_hub(run: Path, fake_hub: FakeHub, tmp_path: Path) -> None:
    from huggingface_hub import ModelCard

    exported = Agent.load(run).export(tmp_path / "exported", policy="best")
    assert main(["push", str(exported), "me/policy"]) == 0
    (_, files) = fake_hub.repositories["me/policy"]
    assert "run.json" not in files
    text = files["README.md"].decode()
    assert 'Policy.load("hf://me/policy")' in text
    card: Any = ModelCard(text).data
    (row,) = csv.DictReader((run / "evaluations.csv").read_text().splitlines())
    (result,) = card.eval_results
    assert result.metric_value == f"{float(row['episode_return_mean']):.2f} +/- {float(row['episode_return_std']):.2f}"
    assert (card.model_name, result.dataset_name, result.metric_type) == (
        *("dqn on CartPole-v1", "CartPole-v1", "mean_reward"),
    )
    assert card.tags == ["axonrl", "reinforcement-learning", "dqn", "CartPole-v1"]


def foreign(run: Path, hub: FakeHub, change: Callable[[dict[str, Any]], Any]) -> None:
    """Publish a run with a changed record."""
    record = json.loads((run / "run.json").read_text())
    change(record)
    hub.repositories["me/foreign"] = [{"run.json": json.dumps(record).encode()}]


@pytest.mark.parametrize(
    "change",
    [
        lambda record: record.update(model_fn="evil:run"),
        lambda record: record.update(model_fn="very-evil:run"),
        lambda record: record["memory"].update(kind="evil:run"),
        lambda record: record["memory"].update(sampler={"kind": "evil:run"}),
        lambda record: record["params"].update(deep=[{"er": "evil:run"}]),
        lambda record: record["environment"].update(id="evil:Run-v0"),
        lambda record: record["environment"].update(wrappers=[{"kind": "evil:run.inner"}]),
        lambda record: record["environment"].update(id="evil:"),  # importers split at the colon, whatever follows
        lambda record: record["memory"].update(kind="evil:a b:c"),
    ],
)
def test_code_that_a_run_names_is_not_imported(
    change: Callable[[dict[str, Any]], Any],
    run: Path,
    fake_hub: FakeHub,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "evil.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    foreign(run, fake_hub, change)
    error: Any = raised(ValueError, Agent.load, "hf://me/foreign", into=tmp_path / "mine", match="evil:")
    assert error.argument == "trust_code"
    assert "evil" not in sys.modules
    assert not (tmp_path / "mine").exists()


def test_what_the_caller_passes_or_trusts_is_used(
    run: Path, fake_hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "theirs.py").write_text("from axonrl.models.dqn import model_fn as theirs_fn\n")
    monkeypatch.syspath_prepend(tmp_path)
    files = {path.relative_to(run).as_posix(): path.read_bytes() for path in run.rglob("*") if path.is_file()}
    record = {**json.loads(files["run.json"]), "model_fn": "theirs:theirs_fn"}
    record["memory"]["path"] = str(tmp_path / "outside")
    fake_hub.repositories["me/theirs"] = [{**files, "run.json": json.dumps(record).encode()}]
    raised(ValueError, Agent.load, "hf://me/theirs", match="theirs:theirs_fn")
    named = Agent.load("hf://me/theirs", model_fn="theirs:theirs_fn", into=tmp_path / "named")
    trusted = Agent.load("hf://me/theirs", trust_code=True)
    np.testing.assert_array_equal(named.act(OBSERVATIONS), trusted.act(OBSERVATIONS))
    assert "path" not in json.loads((tmp_path / "named" / "run.json").read_text())["memory"]
    fake_hub.repositories["me/partial"] = [{"run.json": json.dumps(record).encode()}]
    raised(ValueError, Agent.load, "hf://me/partial", trust_code=True, match="not the checkpoint: connect")


def test_what_is_loaded_once_is_found_without_a_connection(
    run: Path, fake_hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_hub.repositories["me/pole"] = [{"run.json": (run / "run.json").read_bytes()}]
    found = hub_client.download("hf://me/pole", ["run.json"])
    fake_hub.be_the_hub(tmp_path / "hf", monkeypatch, HF_HUB_OFFLINE="1")
    assert hub_client.download("hf://me/pole", ["run.json"]) == found
    message = str(raised(ConnectionError, Policy.load, "hf://me/other"))
    assert "HF_HUB_OFFLINE is set" in message


def test_a_folder_in_use_is_no_copy(run: Path, fake_hub: FakeHub) -> None:
    for given, into in (("hf://me/pole", run), (run, run)):
        error: Any = raised(ValueError, Agent.load, given, into=into)
        assert error.argument == "into"


@pytest.mark.parametrize(
    ("address", "settings", "status", "kind", "match"),
    [
        ("hf://pole", {}, 0, ValueError, "hf://user/name or hf://user/name@revision, got 'hf://pole'"),
        ("hf://me/pole@", {}, 0, ValueError, "got 'hf://me/pole@'"),
        ("hf://me/none", {}, 0, ValueError, "no such repository, or it is private.*HF_TOKEN"),
        ("hf://me/pole@v9", {}, 0, ValueError, "no such revision"),
        ("hf://me/pole", {}, 0, ValueError, "holds no run. Publish one with: axonrl push"),
        ("hf://me/pole", {}, 403, ConnectionError, "asks for a token with access.*set HF_TOKEN"),
        ("hf://me/pole", {}, 500, ConnectionError, "answers with error 500"),
        ("hf://me/pole", {"HF_ENDPOINT": "http://127.0.0.1:9"}, 0, ConnectionError, "cannot be reached"),
    ],
)
def test_what_cannot_be_loaded_says_what_to_do(
    address: str,
    settings: dict[str, str],
    status: int,
    kind: type[Exception],
    match: str,
    fake_hub: FakeHub,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake_hub.be_the_hub(tmp_path / "hf", monkeypatch, **settings)
    fake_hub.repositories["me/pole"], fake_hub.status = [{"README.md": b""}], status
    raised(kind, Agent.load, address, match=match)


@pytest.mark.parametrize(
    ("changes", "repository", "code", "match"),
    [
        ({}, "pole", 2, "USER/NAME: must be an owner and a name"),
        (
            {"HF_TOKEN": ""},
            "me/pole",
            1,
            "set HF_TOKEN to a token of yours, or run: hf auth",
        ),
        ({"HF_ENDPOINT": "http://127.0.0.1:9"}, "me/pole", 1, "cannot be reached"),
        ({"HF_HUB_OFFLINE": "1"}, "me/pole", 1, "HF_HUB_OFFLINE is set"),
    ],
)
def test_what_cannot_be_published_says_what_to_do(
    changes: dict[str, str],
    repository: str,
    code: int,
    match: str,
    fake_hub: FakeHub,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fake_hub.be_the_hub(tmp_path / "hf", monkeypatch, **changes)
    (tmp_path / "policy.json").touch()
    (tmp_path / "README.md").touch()
    assert main(["push", str(tmp_path), repository]) == code
    assert match in capsys.readouterr().err
    assert fake_hub.repositories == {}


def test_a_missing_package_is_told_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    raised(ValueError, Policy.load, "hf://me/pole", match=r"pip install 'axonrl\[hub\]'")
