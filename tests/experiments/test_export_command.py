"""``axonrl export`` where it cannot be."""

from collections.abc import Callable
from pathlib import Path

import pytest

from axonrl.experiments.commands import training
from axonrl.experiments.commands.cli import main
from axonrl.experiments.running import runner
from axonrl.tests.experiments.conftest import RUN


@pytest.mark.parametrize(
    ("output", "damage", "message"),
    [
        (
            "file/sub",
            "",
            "an export cannot be written to {0}/file/sub: {0}/file is not a folder. Choose another directory.",
        ),
        ("run", "", "run holds something else than an export"),
        ("new", "[1]", "run.json is damaged: it holds a list, not a mapping. Restore it from a copy, or train the run"),
    ],
)
def test_an_export_that_cannot_be_is_refused_before_tensorflow_is_loaded(
    output: str,
    damage: str,
    message: str,
    workplace: Path,
    trained_run: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    trained_run(RUN, runner, None)
    if damage:
        (workplace / "run" / "run.json").write_text(damage)
    (workplace / "file").write_text("")
    before = sorted(workplace.rglob("*"))
    monkeypatch.setattr(training, "load_tensorflow", lambda: pytest.fail("it was loaded"))
    assert main(["export", "run", "-o", output]) == 1
    assert message.format(workplace) in capsys.readouterr().err
    assert sorted(workplace.rglob("*")) == before
