"""The examples of YAML in docs/experiment_files.md are valid; tests/test_docs.py runs its commands."""

import re
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest

from axonrl.experiments.language.files import read
from axonrl.experiments.language.json_schema import experiment_schema
from axonrl.experiments.language.schema import Experiment, load

pytestmark = pytest.mark.docs

TEXT: Final = (Path(__file__).resolve().parents[2] / "docs" / "experiment_files.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    file = tmp_path / "cartpole.yml"
    file.write_text(blocks("yaml")[0])
    return file


@pytest.mark.parametrize("index", range(len(blocks("yaml"))))
def test_files_and_parts_of_files(index: int, whole: Path) -> None:
    text = blocks("yaml")[index]
    if index:  # a part of a file: the first example says the rest
        text = text if "include:" in text else f"include: {whole.name}\n{text}"
    file = whole.with_name("example.yml")
    file.write_text(text)
    jsonschema.Draft202012Validator(experiment_schema()).validate(read(file).values)
    assert load(file)[0].agent.model_fn == "dqn"


def test_every_key_is_in_the_table() -> None:
    keys = re.findall(r"^\| `(\w+)` \|", TEXT, re.MULTILINE)
    assert sorted(keys) == sorted([*Experiment.model_fields, "include"])


def test_the_defaults_are_those_of_the_schema() -> None:
    fields: Any = Experiment.model_fields
    train, evaluate = fields["train"].default, fields["evaluate"].default
    assert f"`first_update` ({train.first_update}) and `update_frequency` ({train.update_frequency})" in TEXT
    assert f"`episodes` ({evaluate.episodes})" in TEXT
