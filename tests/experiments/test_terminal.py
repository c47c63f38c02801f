"""What reaches the terminal while TensorFlow is imported."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("source", "err"),
    [
        ("", "after\n"),
        ("raise ImportError('a library is missing')", "a greeting\nImportError: a library is missing\nafter\n"),
    ],
)
def test_only_a_failing_import_is_heard(tmp_path: Path, source: str, err: str) -> None:
    (tmp_path / "tensorflow.py").write_text(f"import os\nos.write(2, b'a greeting\\n')\n{source}\n")
    code = """
import os, sys
from axonrl.experiments.terminal import load_tensorflow
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
