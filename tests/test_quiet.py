"""Standard error where something slow begins, and while TensorFlow is loaded."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from axonrl.core.tensorflow_import import announce


class Terminal:
    """A standard error that keeps what is written."""

    def __init__(self, is_terminal: bool) -> None:
        self.written = ""
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal

    def write(self, text: str) -> int:
        self.written += text
        return len(text)

    def flush(self) -> None:
        pass


@pytest.mark.parametrize(("is_terminal", "written"), [(True, "axonrl: Converting ...\n"), (False, "")])
def test_it_is_announced_on_a_terminal(monkeypatch: pytest.MonkeyPatch, is_terminal: bool, written: str) -> None:
    stderr = Terminal(is_terminal)
    monkeypatch.setattr(sys, "stderr", stderr)
    announce("Converting ...")
    assert stderr.written == written


def test_it_is_announced_in_the_log_where_that_is_read(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stderr = Terminal(True)
    monkeypatch.setattr(sys, "stderr", stderr)
    with caplog.at_level(logging.INFO, "axonrl"):
        announce("Converting ...")
    assert caplog.messages == ["Converting ..."]
    assert stderr.written == ""


@pytest.mark.parametrize(
    ("source", "err"),
    [
        ("", "after\n"),
        ("raise ImportError('a library is missing')", "a greeting\nImportError: a library is missing\nafter\n"),
    ],
)
@pytest.mark.parametrize(
    "loading",
    [
        "from axonrl.core.tensorflow_import import tf; tf.os",
        "from axonrl.core.tensorflow_import import load_tensorflow as f; f()",
    ],
)
def test_only_a_failing_import_is_heard(tmp_path: Path, loading: str, source: str, err: str) -> None:
    (tmp_path / "tensorflow.py").write_text(f"import os\nos.write(2, b'a greeting\\n')\n{source}\n")
    code = f"""
import os, sys
try:
    {loading}
except ImportError as error:
    print(f"ImportError: {{error}}", file=sys.stderr)
print("after", file=sys.stderr)
print("tensorflow" in sys.modules, os.environ["TF_CPP_MIN_LOG_LEVEL"])
"""
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    environment.pop("TF_CPP_MIN_LOG_LEVEL", None)
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert (run.stderr, run.stdout) == (err, f"{not source} 3\n")
