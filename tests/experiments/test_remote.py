"""``axonrl submit``, ``status``, ``logs`` and ``stop`` against servers that refuse, fail or do not answer."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from axonrl.experiments.commands.cli import main
from axonrl.experiments.polyaxon import client as polyaxon_client
from axonrl.experiments.polyaxon.settings import project_name, server_address
from axonrl.tests.experiments.sharing import StubServer, free_port
from axonrl.tests.raising import raised

RUN = "default/rl/" + "0" * 32
PROJECT = "must be OWNER/NAME or NAME, of letters, digits, '_' and single '-'"
HTTP = "must be an address that begins with http:// or https://"
ALONE = "must be an address without user, password or query; set POLYAXON_AUTH_TOKEN for a token"


@pytest.fixture
def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[StubServer]:
    given = request.param if isinstance(request.param, tuple) else (request.param,)
    with StubServer(*given).running() as server:
        monkeypatch.setenv("POLYAXON_HOST", server.host)
        monkeypatch.setenv("POLYAXON_AUTH_TOKEN", "a-secret")
        yield server


SUBMIT, STATUS, STOP = ["submit", "file.yml", "--project", "me/rl"], ["status", RUN], ["stop", RUN]


@pytest.mark.parametrize(
    ("server", "command", "exit_code", "message"),
    [
        (401, STATUS, 2, "refuses the token, or requires one: set POLYAXON_AUTH_TOKEN, or use polyaxon login"),
        (403, SUBMIT, 2, "denies access to the project me/rl"),
        (404, STOP, 2, f"has no run {RUN[-32:]} in the project default/rl"),
        (405, STATUS, 1, "failed: Polyaxon servers answer 405 on internal errors"),
        (500, STOP, 1, "answers 500 (Internal Server Error)"),
    ],
    indirect=["server"],
)
def test_what_a_server_answers_is_said_in_one_line(
    command: list[str], server: StubServer, exit_code: int, message: str, run_file: Path, capsys: Any
) -> None:
    assert main(command) == exit_code
    assert capsys.readouterr() == ("", f"axonrl: error: {server.host} {message}\n")
    assert len(server.requests) == 1  # no second try
    assert server.requests[0][2] == "Token a-secret"


@pytest.mark.parametrize(
    ("command", "server"),
    [("submit", (200, b"{}")), ("status", (200, b"null")), ("logs", (200, b"[]"))],
    indirect=["server"],
)
def test_an_answer_that_is_none(
    command: str, server: StubServer, run_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, str(run_file) if command == "submit" else RUN]) == 1
    nonsense = f"axonrl: error: {server.host} is not a Polyaxon server, by its answers\n"
    assert capsys.readouterr() == ("", nonsense)


@pytest.mark.parametrize(
    ("server", "words"),
    [
        (
            (400, b'{"name": ["is\\u001b[31m too long"],\n "no": "a-secret"}'),
            ': {"name": ["is\\u001b[31m too long"], "no": "***"}',
        ),
        ((400, b'["' + b"x" * 1000 + b'"]'), ': ["' + "x" * 298 + "..."),
        ((400, b"[" * 100_000), ""),
    ],
    indirect=["server"],
)
def test_a_server_that_says_what_it_does_not_like(
    server: StubServer, words: str, run_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["submit", str(run_file)]) == 2
    assert capsys.readouterr().err == f"axonrl: error: {server.host} answers 400 (Bad Request){words}\n"


ANSWERS = (
    200,
    json.dumps({"uuid": RUN[-32:], "status": "failed", "inputs": {"note": "[/red]", "[red]": ":warning:"}}).encode(),
    json.dumps({"status_conditions": [{"type": "failed", "status": True, "message": "KeyError: [red]"}]}).encode(),
)


@pytest.mark.parametrize("server", [ANSWERS], indirect=True)
def test_what_looks_like_markup_is_text(
    server: StubServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("POLYAXON_NO_OP", "true")  # a client that is told to do nothing still does what is asked
    assert main(["status", RUN]) == 0
    lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines() if len(line.split()) > 1]
    told = {label: text.strip() for label, text in lines}
    assert told["message"] == "KeyError: [red]"
    assert (told["note"], told["[red]"]) == ("[/red]", ":warning:")
    assert main(["stop", RUN]) == 0
    assert capsys.readouterr().out == "already ended: failed\n"


def test_a_server_that_is_not_there_or_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(polyaxon_client, "ANSWER_SECS", 0.5)
    host = f"http://127.0.0.1:{free_port()}"
    assert main(["logs", f"{host}/ui/default/rl/runs/{RUN[-32:]}"]) == 1
    assert capsys.readouterr().err == f"axonrl: error: {host} cannot be reached: connection refused\n"
    with StubServer(200) as server:  # which takes connections, and does not look at them
        assert main(["logs", f"{server.host}/ui/default/rl/runs/{RUN[-32:]}"]) == 1
    assert capsys.readouterr().err == f"axonrl: error: {server.host} does not answer within 0.5 seconds\n"


@pytest.mark.parametrize("server", [404], indirect=True)
def test_the_file_names_server_and_project(
    server: StubServer, run_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("POLYAXON_HOST", "http://elsewhere.invalid")
    run_file.write_text(f"{run_file.read_text()}tracker: {{host: '{server.host}', project: me/rl}}\n")
    assert main(["submit", str(run_file)]) == 2
    assert capsys.readouterr().err == f"axonrl: error: {server.host} has no project me/rl\n"
    assert main(["submit", str(run_file), "--project", "you/rl"]) == 2
    assert capsys.readouterr().err == f"axonrl: error: {server.host} has no project you/rl\n"
    assert [path for _, path, _ in server.requests] == ["/api/v1/me/rl/runs", "/api/v1/you/rl/runs"]


@pytest.mark.parametrize("text", ["a b/c", "a--b", ""])
def test_what_is_no_project(text: str) -> None:
    raised(ValueError, project_name, text, match=f"{re.escape(PROJECT)}, got {re.escape(repr(text))}")


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("https://me:hunter2@example.com", ALONE),
        ("https://example.com/?token=hunter2", ALONE),
        ("me:hunter2@example.com", HTTP),
        ("http://[hunter2", HTTP),
        ("https://", HTTP),
    ],
)
def test_an_address_that_is_none_or_may_hold_a_password_is_not_quoted(address: str, message: str) -> None:
    assert "hunter2" not in str(raised(ValueError, server_address, address, match=f"^{message}$"))


NOBODY = "No Polyaxon server is known. Set POLYAXON_HOST=https://..., or tracker: {host: ...} in the file."


@pytest.mark.parametrize(
    ("host", "command", "message"),
    [
        ("", STATUS, NOBODY),
        ("http://x", ["status", f"http://me:hunter2@x/ui/default/rl/runs/{RUN[-32:]}"], f"RUN: {ALONE}"),
        ("http://x", ["stop", "7"], "RUN 7: must be OWNER/PROJECT/UUID, or the address that axonrl submit printed"),
        ("http://x", ["submit", "file.yml", "--project", "a--b"], f"--project: {PROJECT}, got 'a--b'"),
    ],
)
def test_what_cannot_be_asked(
    host: str, command: list[str], message: str, run_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setenv("POLYAXON_HOST", host)
    assert main(command) == 2
    assert capsys.readouterr().err == f"axonrl: error: {message}\n"
