"""What reaches the terminal while TensorFlow is imported."""

import io
import os
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from axonrl.experiments.commands.failures import carry_out
from axonrl.experiments.console import tell


class Gone(io.StringIO):
    """Has nobody who reads."""

    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_nobody_need_read_what_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Gone())
    tell("a line")


def test_what_standard_output_cannot_show_is_a_question_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii", write_through=True))

    def command(arguments: Namespace) -> int:
        print("262.40 ± 21.00")
        return 0

    assert carry_out(command, Namespace(debug=False)) == 0
    assert written.getvalue() == b"262.40 ? 21.00\n"


@pytest.mark.parametrize(
    ("source", "err"),
    [
        ("", "axonrl: Loading TensorFlow ...\nafter\n"),
        (
            "raise ImportError('a library is missing')",
            "axonrl: Loading TensorFlow ...\na greeting\nImportError: a library is missing\nafter\n",
        ),
    ],
)
def test_only_a_failing_import_is_heard(tmp_path: Path, source: str, err: str) -> None:
    (tmp_path / "tensorflow.py").write_text(f"import os\nos.write(2, b'a greeting\\n')\n{source}\n")
    code = """
import os, sys
from axonrl.experiments.commands.terminal import load_tensorflow
for _ in range(2):
    try:
        load_tensorflow()
    except ImportError as error:
        print(f"ImportError: {error}", file=sys.stderr)
        break
print("after", file=sys.stderr)
print("tensorflow" in sys.modules, os.environ["TF_CPP_MIN_LOG_LEVEL"])
"""
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    environment.pop("TF_CPP_MIN_LOG_LEVEL", None)
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert run.stderr == err
    assert run.stdout == f"{not source} 3\n"
