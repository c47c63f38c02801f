"""What a Polyaxon agent does with a queued run: here its containers are processes of this machine."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from axonrl.experiments.polyaxon.client import connect

CONTEXT = "/plx-context"
"""Where containers find what they share."""


def carry_out(host: str, project: str, uuid: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a run's containers, which share ``folder``; tell the server what agents tell it; how the main one ended."""
    runs, run = connect(host).runs_v1, ("default", project, uuid)

    def tell(status: str) -> None:
        runs.create_run_status(*run, body={"condition": {"type": status, "status": "True", "reason": "Agent"}})

    job = json.loads(runs.get_run(*run).content.replace(CONTEXT, str(folder)))["run"]
    tell("scheduled")
    tell("starting")
    (folder / "home").mkdir(exist_ok=True)
    environment = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.defpath}",
        "HOME": str(folder / "home"),
        "POLYAXON_CONTEXT_ROOT": str(folder),
        "POLYAXON_HOST": host,
        "POLYAXON_IS_MANAGED": "True",
        "POLYAXON_API_VERSION": "v1",
        "POLYAXON_RUN_INSTANCE": f"default.{project}.runs.{uuid}",
        "POLYAXON_COLLECT_ARTIFACTS": "True",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "CUDA_VISIBLE_DEVICES": "-1",
    }
    artifacts = folder / "artifacts"
    for init in job["init"]:
        outputs = artifacts / uuid / "outputs"
        command = ["polyaxon", "initializer", "file", "--file-context", json.dumps(init["file"])]
        command += ["--filepath", str(artifacts), "--copy-path", str(outputs), "--track"]
        ended = _process(command, environment | {"POLYAXON_SERVICE": "init"})
        if ended.returncode:
            raise RuntimeError(ended.stdout + ended.stderr)
    container = job["container"]
    variables = {variable["name"]: str(variable["value"]) for variable in container.get("env", ())}
    ended = _process(container["command"], environment | variables)
    tell("failed" if ended.returncode else "succeeded")
    return ended


def _process(command: list[str], environment: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200, check=False)
