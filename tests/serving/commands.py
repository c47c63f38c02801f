import io
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from axonrl.experiments.commands.cli import main


class Result(NamedTuple):
    code: int
    out: str
    err: str

    def json(self, code: int = 0) -> Any:
        assert self.code == code, self.err
        return json.loads(self.out)


class Commands:
    """Runs commands on a data folder, with text on standard input."""

    def __init__(self, data: Path, told: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch) -> None:
        self.data, self._told, self._patch = data, told, patch
        patch.delenv("AXONRL_DATABASE", raising=False)

    def on(self, data: Path) -> "Commands":
        return Commands(data, self._told, self._patch)

    def __call__(self, *words: str, stdin: str = "") -> Result:
        self._patch.setenv("AXONRL_DATA", str(self.data))
        self._patch.setattr(sys, "stdin", io.StringIO(stdin))
        try:
            code = main(["service", *words])
        except SystemExit as end:
            code = int(end.code or 0)
        return Result(code, *self._told.readouterr())

    def json(self, *words: str, code: int = 0) -> Any:
        return self(*words, "--json").json(code)
