"""Token buckets, by hand; and the configuration."""

from pathlib import Path

import pytest

from axonrl.experiments.commands.cli import command_line
from axonrl.serving.commands.serve import _settings
from axonrl.serving.gateway.settings import Settings, SettingsError, load
from axonrl.serving.limits import Buckets
from axonrl.serving.refusals import RefusedError
from axonrl.tests.raising import raised


def test_buckets() -> None:
    buckets = Buckets("too many things", 4.0, 4.0)

    def wait(now: float) -> int | None:
        """Half a token a second, two at most."""
        try:
            buckets.take("half", 2, now)
        except RefusedError as refused:
            return refused.retry_after
        return 0

    assert [wait(10.0), wait(10.0), wait(10.5), wait(11.5), wait(12.5)] == [0, 0, 2, 1, 0]
    assert [wait(1000.0), wait(1000.0), wait(1000.5)] == [0, 0, 2]
    buckets.owe("half", 3.0)
    assert wait(1001.0) == 8  # (1 - (0.5 - 3)) / 0.5, which is 7, and one
    buckets = Buckets("too many things", 10.0, 10.0)
    for key in ("a", "b"):
        buckets.take(key, 1, now=0.0)
    refused = raised(RefusedError, buckets.take, "a", 1, now=2.0)
    assert (refused.code, refused.detail, refused.retry_after) == ("rate_limited", "too many things", 9)
    for _ in range(100):
        buckets.take("a", 0, now=2.0)  # 0 is no limit


def test_a_file_and_options(tmp_path: Path) -> None:
    file = tmp_path / "service.yml"
    file.write_text("http:\n  docs: true\nlimits:\n  requests_per_minute: 1e4\n  agents: 5\n")
    settings = load(file, {"limits.agents": "7", "http.idle_seconds": "90"})
    assert (settings.http.docs, settings.http.idle_seconds) == (True, 90.0)
    assert (settings.limits.requests_per_minute, settings.limits.agents) == (10_000, 7)
    assert settings.quotas()["agents"] == 7
    assert load() == Settings()


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("limits:\n  agentss: 5\n", "service.yml:2: limits.agentss: unknown key; did you mean 'agents'?"),
        ("limits:\n  agents: -1\n", "service.yml:2: limits.agents: must be at least 0, got -1"),
        ("limits: 5\n", "service.yml:1: limits: must be a mapping with keys such as url_bytes, got 5"),
        ("listen:\n  port: 70000\n", "service.yml:2: listen.port: must be at most 65535, got 70000"),
        ("http:\n  docs: true\n  docs: false\n", "service.yml:3: http.docs: duplicate key"),
        ("http: [\n", "service.yml:2: http: not valid YAML"),
        ("http:\n  allowed_origins: [example.org]\n", "service.yml:2: http.allowed_origins.0: must be an origin"),
        ("listen:\n  behind_proxy: [nowhere]\n", "service.yml:2: listen.behind_proxy.0: "),
        ("listen:\n  host: 0.0.0.0\n", "service.yml:2: listen.host: '0.0.0.0': passwords would be sent unencrypted"),
    ],
)
def test_faults_name_file_line_and_key(tmp_path: Path, text: str, where: str) -> None:
    file = tmp_path / "service.yml"
    file.write_text(text)
    assert str(raised(SettingsError, load, file)).startswith(f"{tmp_path}/{where}")


def test_faults_of_options_name_the_option_and_all_are_told(tmp_path: Path) -> None:
    refused = raised(SettingsError, load, None, {"limits.agents": "many", "tokens.default_days": "400"})
    lines = str(refused).splitlines()
    assert lines[0] == "--set limits.agents=many: limits.agents: must be an integer, got 'many'"
    assert lines[1].startswith("--set tokens.default_days=400: tokens.default_days: must be ")
    assert "absent.yml" in str(raised(SettingsError, load, tmp_path / "absent.yml"))


def test_addresses_but_loopback_need_a_certificate_or_a_proxy() -> None:
    load(None, {"listen.host": "127.0.0.2"})
    load(None, {"listen.host": "'::1'"})
    load(None, {"listen.host": "0.0.0.0", "listen.behind_proxy": "[10.0.0.0/8]"})
    load(None, {"listen.host": "0.0.0.0", "listen.tls_cert": "c", "listen.tls_key": "k"})
    raised(SettingsError, load, None, {"listen.tls_cert": "c"})


def test_an_origin_is_as_browsers_send_it() -> None:
    """Any other would never be theirs."""
    sent = ["https://game.example.org", "http://127.0.0.1:8000", "http://[::1]:8080", "app://localhost", "http://a:443"]
    assert load(None, {"http.allowed_origins": str(sent)}).http.allowed_origins == sent
    others = ("https://a.org/", "https://a.org/play", "https://A.org", "https://a.org:443", "http://a.org:80", "a.org")
    for other in (*others, "*", "https://*.a.org", "https://ä.org", "https://"):
        refused = raised(SettingsError, load, None, {"http.allowed_origins": f"['{other}']"})
        assert str(refused).endswith(
            "must be an origin like 'https://game.example.org': in lower case, without path, wildcard or default port, "
            f"got {other!r}"
        )


def test_options_are_taken_as_they_are() -> None:
    """They are no YAML, where ``::`` is a mapping, and a comment begins behind a blank."""
    given = ["--host", "::", "--tls-cert", "a #1: b.pem", "--tls-key", "1", "--behind-proxy", "::1", "--grace", "5"]
    listen = _settings(command_line()[0].parse_args(["serve", *given])).listen
    assert (listen.host, listen.tls_cert, listen.tls_key) == ("::", "a #1: b.pem", "1")
    assert (listen.behind_proxy, listen.grace, listen.port) == (["::1"], 5.0, 8000)
