"""The examples of YAML in the documentation are valid; tests/test_docs.py runs its commands."""

import re
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest

from axonrl.estimators.limits import FIRST_UPDATE, UPDATE_FREQUENCY
from axonrl.experiments.config.files import read
from axonrl.experiments.config.json_schema import experiment_schema
from axonrl.experiments.config.schema import ExperimentFile, load
from axonrl.experiments.searches import preflight
from axonrl.experiments.searches.runs import as_text
from axonrl.experiments.searches.space import Space

pytestmark = pytest.mark.docs

DOCS: Final = Path(__file__).resolve().parents[2] / "docs"
NAMES: Final = ("experiment_files", "searches", "laptop_to_cluster")
PAGES: Final = {name: (DOCS / f"{name}.md").read_text(encoding="utf-8") for name in NAMES}
BLOCKS: Final = {name: re.findall(r"^```yaml\n(.*?)^```$", PAGES[name], re.DOTALL | re.MULTILINE) for name in NAMES}
TEXT: Final = PAGES["experiment_files"]


@pytest.mark.parametrize(("page", "index"), [(page, index) for page in NAMES for index in range(len(BLOCKS[page]))])
def test_files_and_parts_of_files(page: str, index: int, tmp_path: Path) -> None:
    """A part of a file is one of the first file of its page, which may have another matrix."""
    first, text = BLOCKS[page][0], BLOCKS[page][index]
    for block in BLOCKS[page]:
        if found := re.match(r"# (\w+\.yml)\n", block):
            (tmp_path / found[1]).write_text(block)
    for name in ("cartpole", "base"):
        (tmp_path / f"{name}.yml").write_text(first.partition("matrix:\n")[0])
    path = tmp_path / "shown.yml"
    path.write_text(text if index == 0 or "include:" in text else f"include: base.yml\n{text}")
    if page == NAMES[0]:
        jsonschema.Draft202012Validator(experiment_schema()).validate(read(path).values)
    experiment, document = load(path)
    if experiment.matrix is not None:
        space = Space(experiment, document, {})
        tried: list[Any] = []
        preflight.check_points(space, document, lambda point: tried.append(load(path, as_text(point))))
        assert tried
    assert (experiment.matrix is not None) == ("matrix:" in text or "include: poles.yml" in text)


def test_every_key_is_in_the_table() -> None:
    keys = re.findall(r"^\| `(\w+)` \|", TEXT, re.MULTILINE)
    assert sorted(keys) == sorted([*ExperimentFile.model_fields, "include"])


def test_the_defaults_are_those_of_the_schema() -> None:
    fields: Any = ExperimentFile.model_fields
    train, evaluate = fields["train"].default, fields["evaluate"].default
    assert (train.first_update, train.update_frequency) == (None, None)  # then they are those of Agent.train
    assert f"`first_update` ({FIRST_UPDATE}, or later, when the memory can first fill a batch)" in TEXT
    assert f"`update_frequency` ({UPDATE_FREQUENCY}), in timesteps" in TEXT
    assert f"`episodes` ({evaluate.episodes})" in TEXT
