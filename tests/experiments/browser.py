"""A web page, as a browser has it after its scripts have run."""

import subprocess
from pathlib import Path

from axonrl.tests.serving.browser import QUIET, chromium

NO_CALLS = "--disable-component-update --disable-sync --virtual-time-budget=20000 --dump-dom"


def browse(address: str, tmp_path: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    """Open a page in a headless Chromium: its output is the page's elements; skips where there is no Chromium."""
    arguments = [*QUIET.split(), *NO_CALLS.split(), f"--user-data-dir={tmp_path / 'browser'}", *options, address]
    done = subprocess.run([chromium(), *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done
