"""The programs of docs/serving.md and docs/http_api.md, run against a server; shortened by their own constants."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from axonrl.serving import EncodedAgentState

from .for_accounts import PASSWORD
from .hosted import Built
from .service import Service, serving

pytestmark = [pytest.mark.docs, pytest.mark.server]

DOCS = Path(__file__).parents[2] / "docs"


def programs_of(page: str, language: str) -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


ELSEWHERE, HEATER, PLAYERS = programs_of("serving.md", "python")


@pytest.fixture(scope="module")
def service(built: Built, programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    built("dqn", {"lr": 1e-3, "warm_up": 500, "state_size": 4, "action_size": 2})
    built("dqn", {"seed": 1, "state_size": 2, "action_size": 2})
    built("ddpg", {"state_size": 2, "action_size": 1})
    with serving(tmp_path_factory.mktemp("service") / "data", programs) as started:
        yield started


PYTHON = (sys.executable, "-W", "error", "-c")


def run(service: Service, program: str, folder: Path, command: Sequence[str] = PYTHON, **changes: str) -> str:
    """What a program prints, with some of its constants changed."""
    for constant, value in changes.items():
        assert program.count(constant) == 1
        program = program.replace(constant, value)
    login = {"AXONRL_URL": service.url, "AGENTS_BAR_USER": "alice", "AGENTS_BAR_PASS": PASSWORD}
    done = subprocess.run(
        [*command, program], cwd=folder, env={**os.environ, **login},
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_usual_loop_somewhere_else(service: Service, tmp_path: Path) -> None:
    mean = run(service, ELSEWHERE, tmp_path, **{"range(300)": "range(20)"})
    assert 8 < float(mean) < 100
    assert service.agent("cart").info()["counters"]["global_episode"] == 20


def test_a_heater(service: Service, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{service.token}\n")
    run(service, HEATER, tmp_path, **{"10_000": "300", "https://agents.example.org": service.url})
    state = EncodedAgentState.load(tmp_path / "heater.json")
    assert (state.model, state.state_size, state.action_size) == ("ddpg", 2, 1)
    assert service.agent("heater").info()["counters"]["global_timestep"] == 300


def test_many_players(service: Service, tmp_path: Path) -> None:
    assert run(service, PLAYERS, tmp_path) == "[0, 1]\n"
    assert service.agent("market").info()["counters"]["global_timestep"] == 2000


def test_curl_and_javascript_learn_without_our_client(service: Service, tmp_path: Path) -> None:
    """From login to logout: the pages of other languages, without a package."""
    shell, program = programs_of("http_api.md", "sh")[1], programs_of("http_api.md", "js")[0]
    told = run(service, shell, tmp_path, ["sh", "-c"])
    assert re.search(r'\{"action":\[[01]\]\}\{"accepted":1,"seq":1\}\{"accepted":99,"seq":100\}', told)
    node = shutil.which("node")
    if node is None:
        pytest.skip("NO NODE HERE: the program in JavaScript was not run")
    told += run(service, program, tmp_path, [node, "-e"])
    assert "global_timestep: 100" in told
    for name in ("valve", "pump"):
        counters = service.agent(name).info()["counters"]
        assert counters["global_timestep"] == 100
        assert counters["global_step"] > 0
    assert service.agent("pump").info()["counters"]["global_episode"] == 1
