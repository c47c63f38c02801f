"""Chromium without a window, driven by its DevTools protocol over a pipe."""

import base64
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
QUIET = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
NO_CALLS = (
    "--disable-component-update --disable-sync --disable-dev-shm-usage --hide-scrollbars --force-color-profile=srgb"
)
PATIENCE = 30.0


def chromium() -> str:
    """The program; skips, and on CI fails, where there is none."""
    if CHROMIUM is None:
        message = "NO CHROMIUM HERE: the web page was not looked at"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(message)
    return CHROMIUM


class Browser:
    """One page of a browser. ``errors`` has what its console said: exceptions, errors and warnings."""

    def __init__(self, read: int, write: int) -> None:
        self._read, self._write, self._number, self._rest, self._session = read, write, 0, b"", ""
        self.errors: list[str] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **parameters: Any) -> Any:
        """A command of the protocol, and its result."""
        self._number += 1
        asked = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            asked["sessionId"] = self._session
        os.write(self._write, json.dumps(asked).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE
        while True:
            told = self._next(deadline)
            if told.get("id") == self._number:
                assert "error" not in told, (method, told["error"])
                return told["result"]
            self._heard(told)

    def _next(self, deadline: float) -> Any:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "the browser does not answer"
            more = os.read(self._read, 2**20)
            assert more, "the browser is gone"
            self._rest += more
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def _heard(self, told: Any) -> None:
        parameters = told.get("params", {})
        if told.get("method") == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(parameters["exceptionDetails"]))
        elif told.get("method") == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.errors.append(json.dumps(parameters["args"]))
        elif told.get("method") == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.errors.append(f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}")

    def go(self, url: str) -> None:
        self.ask("Page.navigate", url=url)
        self.wait(f"document.readyState === 'complete' && location.href.startsWith({json.dumps(url)})")

    def run(self, script: str) -> Any:
        """The value of an expression, or what a promise comes to."""
        done = self.ask("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until an expression is true; evaluated in the page each time that something may have changed."""
        deadline = time.monotonic() + PATIENCE
        while not self.run(f"Boolean({condition})"):
            assert time.monotonic() < deadline, f"{condition} does not come true: {self.run('document.body.innerText')}"
            self.run("new Promise((done) => setTimeout(done, 20))")

    def text(self, selector: str) -> str:
        """What a reader sees of an element; empty where there is none."""
        return str(self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    def type(self, selector: str, text: str) -> None:
        """Put a text into a field, in place of what it has."""
        field = f"document.querySelector({json.dumps(selector)})"
        self.run(f"{field}.focus(), {field}.select()")
        self.ask("Input.insertText", text=text)

    def press(self, key: str) -> None:
        code = {"Enter": 13, "Tab": 9}[key]
        common = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.ask("Input.dispatchKeyEvent", type="keyDown", **common, **({"text": "\r"} if key == "Enter" else {}))
        self.ask("Input.dispatchKeyEvent", type="keyUp", **common)

    def look(self, width: int, height: int, *, dark: bool = False, scale: float = 1) -> None:
        self.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])

    def picture(self, file: Path, *, whole: bool = False) -> bytes:
        """Write what is seen as a PNG, with ``whole`` also what is below."""
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        shot = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(shot["data"]))
        return file.read_bytes()


@contextlib.contextmanager
def browsing(folder: Path) -> Iterator[Browser]:
    """A browser with an empty profile; skips, and on CI fails, where there is none."""
    program, commands, answers = chromium(), os.pipe(), os.pipe()
    arguments = [*QUIET.split(), *NO_CALLS.split(), f"--user-data-dir={folder}", "--remote-debugging-pipe"]
    as_it_expects = f'exec "$0" "$@" 3<&{commands[0]} 4>&{answers[1]}'
    process = subprocess.Popen(
        ["bash", "-c", as_it_expects, program, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, pass_fds=(commands[0], answers[1]), start_new_session=True,
    )  # fmt: skip
    try:
        for end in (commands[0], answers[1]):
            os.close(end)
        yield Browser(answers[0], commands[1])
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for end in (answers[0], commands[1]):
            os.close(end)
