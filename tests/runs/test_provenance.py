"""What a run says that it was made with, and what follows when that changes."""

import json
import os
import platform
from pathlib import Path

import numpy as np
import pytest

from axonrl import __version__
from axonrl.runs import provenance
from axonrl.tests.estimators.fakes import Counting, agent

pytestmark = pytest.mark.usefixtures("unconverted")


def test_versions_machine_and_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "PACKAGES", ("numpy", "surely-not-installed"))
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    monkeypatch.delenv("TF_NUM_INTRAOP_THREADS", raising=False)
    found = provenance.provenance()
    assert found.pop("processor")
    assert found == {
        "python": platform.python_version(),
        "axonrl": __version__,
        "numpy": np.__version__,
        "surely-not-installed": None,
        "machine": platform.machine(),
        "threads": len(os.sched_getaffinity(0)),
        "TF_ENABLE_ONEDNN_OPTS": "0",
        "TF_NUM_INTRAOP_THREADS": None,
    }


def test_a_run_that_goes_on_with_other_versions_is_not_exact_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    agent(tmp_path).train(Counting(), timesteps=4)
    path = tmp_path / "run.json"
    written = json.loads(path.read_text())
    threads = written["made_with"]["threads"]
    assert written["not_exact"] == []
    written["made_with"].update(tensorflow="2.0.0", threads=threads + 1)
    path.write_text(json.dumps(written))
    caplog.clear()
    agent(tmp_path).train(Counting(), timesteps=4)
    now = provenance.provenance()
    why = f"resumed with tensorflow 2.0.0 -> {now['tensorflow']}, threads {threads + 1} -> {threads}"
    assert f"this run will not resume exactly: {why}" in caplog.messages
    again = json.loads(path.read_text())
    assert (again["not_exact"], again["made_with"]) == ([why], now)
    caplog.clear()
    agent(tmp_path).train(Counting(), timesteps=4)
    assert not any("exactly" in message for message in caplog.messages)


def test_a_run_whose_checkpoints_are_gone_begins_at_zero_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    agent(tmp_path).train(Counting(), timesteps=4)
    (tmp_path / "checkpoints").rename(tmp_path / "elsewhere")
    caplog.clear()
    assert agent(tmp_path).train(Counting(), timesteps=4).global_timestep == 4
    assert f"{tmp_path} has a record of a run but no checkpoint: starting at zero" in caplog.messages
