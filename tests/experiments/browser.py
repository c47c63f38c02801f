"""A web page, as a browser has it after its scripts have run."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
QUIET = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
NO_CALLS = "--disable-component-update --disable-sync --virtual-time-budget=20000 --dump-dom"


def browse(address: str, tmp_path: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    """Open a page in a headless Chromium: its output is the page's elements; skips where there is no Chromium."""
    if CHROMIUM is None:
        message = "NO CHROMIUM HERE: the web page was not looked at"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    arguments = [*QUIET.split(), *NO_CALLS.split(), f"--user-data-dir={tmp_path / 'browser'}", *options, address]
    done = subprocess.run([CHROMIUM, *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done
