import io
import json
import logging

import pytest

from axonrl.serving import logs


def test_logs_are_json_lines_without_secrets() -> None:
    stream = io.StringIO()
    handler = logs.configure("info", stream)
    try:
        log = logging.getLogger("axonrl.serving")
        secret = "axl_" + "x" * 46
        log.info("token %s came", secret, extra={"request_id": "r", "status": 200})
        log.debug("not at this level")
        log.warning('headers: {"Authorization": "Bearer zzz", "cookie": "zzz"} form: username=al&password=zzz&a=b')
        try:
            raise ValueError(f"password=zzz in {secret}")
        except ValueError:
            log.exception("failed")
    finally:
        logs.unconfigure(handler)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["level"] for line in lines] == ["info", "warning", "error"]
    assert (lines[0]["message"], lines[0]["request_id"], lines[0]["status"]) == ("token [redacted] came", "r", 200)
    assert "username=al&password=[redacted]&a=b" in lines[1]["message"]
    assert "zzz" not in stream.getvalue()
    assert secret not in stream.getvalue()
    assert "ValueError" in lines[2]["traceback"]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Cookie: a=b; axonrl-8000=axw_Zz09; c=d\nnext", "Cookie: [redacted]\nnext"),
        ('a=b&password=correct horse, it\'s "battery"&c=d', "a=b&password=[redacted]&c=d"),
        (r'{"password": "correct \"horse\\", "a": 1}', '{"password": "[redacted]", "a": 1}'),
        ("NewPassword(current='correct horse' new='a, b')", "NewPassword(current='[redacted]' new='[redacted]')"),
        (r'"{\"password\": \"correct horse\", \"a\": 1}"', r'"{\"password\": \"[redacted]\", \"a\": 1}"'),
        ('password: "correct horse', 'password: "[redacted]"'),
        ("url=postgresql+psycopg://u:p@w/x@h:5432/db", "url=postgresql+psycopg://u:[redacted]@h:5432/db"),
        ("Authorization: Basic dTpwdw==", "Authorization: Basic [redacted]"),
        ("token=abc, worker=3", "token=[redacted], worker=3"),
        ("http://127.0.0.1:8000/a at 10:30, user@host", "http://127.0.0.1:8000/a at 10:30, user@host"),
    ],
)
def test_secrets_are_redacted_whole_and_nothing_else(text: str, left: str) -> None:
    assert logs.redact(text) == left
