"""``include``: what is merged how, and errors that name the file and the line where a value really stands."""

from pathlib import Path
from typing import Any

import pytest

from axonrl.core.yaml_text import MAX_VALUES
from axonrl.experiments.config.includes import MAX_INCLUDES
from axonrl.experiments.config.modules import folders
from axonrl.experiments.config.schema import load
from axonrl.experiments.errors import ExperimentError
from axonrl.tests.raising import raised

BASE = """\
description: the base
params:
  rate: {type: float, default: 1e-3}
environment: {id: CartPole-v1, num_envs: 4}
agent:
  model_fn: dqn
  params: {learning_rate: "${rate}", hidden: [64, 64]}
  memory: {kind: replay, size: 500, batch_size: 32}
train: {first_update: 100, max_timesteps: 1000}
hooks: [progress, counter]
"""


def write(folder: Path, **texts: str) -> Path:
    """Files of these names; the first one is returned."""
    for name, text in texts.items():
        (folder / f"{name}.yml").write_text(text)
    return folder / f"{next(iter(texts))}.yml"


def error(file: Path, **options: Any) -> str:
    return str(raised(ExperimentError, load, file, **options))


def test_the_including_file_wins(tmp_path: Path) -> None:
    main = "include: base.yml\nenvironment: {num_envs: 8}\nagent:\n  params: {hidden: [32]}\n"
    found = load(write(tmp_path, main=f"{main}hooks: [logging]\nevaluate: null\n", base=BASE))[0]
    assert (found.name, found.description) == ("main", "the base")
    assert (found.environment.id, found.environment.num_envs) == ("CartPole-v1", 8)
    assert found.agent.params == {"learning_rate": 1e-3, "hidden": [32]}
    assert found.agent.memory is not None
    assert found.agent.memory.kwargs == {"size": 500, "batch_size": 32}
    assert ([hook.kind for hook in found.hooks], found.evaluate) == (["logging"], None)
    assert "include" not in found.model_dump()


def test_of_several_the_later_wins_and_each_may_include(tmp_path: Path) -> None:
    more = "include: [most.yml, base.yml]\ntrain: {first_update: 7}\nseed: 2\nagent: {memory: batch}\n"
    most = "include: base.yml\ntrain: {first_update: 8, update_frequency: 9}\nhooks: []\n"
    main = "include: [base.yml, more.yml]\nseed: 3\n"  # there are three ways to the base
    found = load(write(tmp_path, main=main, base=BASE, more=more, most=most))[0]
    assert (found.seed, [hook.kind for hook in found.hooks]) == (3, ["progress", "counter"])
    assert found.train is not None
    assert (found.train.first_update, found.train.update_frequency, found.train.max_timesteps) == (7, 9, 1000)
    assert found.agent.memory is not None
    assert found.agent.memory.model_dump() == {"kind": "batch"}  # a name is no mapping: it takes the place of one


def test_a_shipped_experiment_by_its_name(tmp_path: Path) -> None:
    main = write(tmp_path, main="include: dqn_cartpole\ntrain: {max_timesteps: 1e3}\n")
    found = load(main)[0]
    assert found.train is not None
    assert (found.name, found.environment.id, found.train.max_timesteps) == ("main", "CartPole-v1", 1_000)
    (tmp_path / "dqn_cartpole").write_text(BASE)  # a file of this name comes first
    assert load(main)[0].environment.num_envs == 4
    main.write_text("include: dqn_cartpol\n")
    caught = raised(ExperimentError, load, main)
    assert (caught.line, caught.key, caught.nearest) == (1, "include", "dqn_cartpole")


def test_a_path_is_relative_to_the_file_that_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deep").mkdir()
    write(tmp_path, base=BASE)
    main = write(tmp_path / "deep", main="include: middle.yml\n", middle="include: ../base.yml\n")
    monkeypatch.chdir(tmp_path / "deep")
    assert load(main)[0] == load(Path("main.yml"))[0]
    above = write(tmp_path, above="include: deep/middle.yml\n")  # whose own include is not beside this file
    assert load(above)[0].environment.num_envs == 4


def test_params_and_options_see_the_whole(tmp_path: Path) -> None:
    main = 'include: base.yml\nparams: {game: Pendulum-v1, rate: {default: 0.5}}\nenvironment: {id: "${game}"}\n'
    file = write(tmp_path, main=main, base=BASE)
    found = load(file, {"rate": "0.25"}, {"train.first_update": "9"})[0]
    assert (found.environment.id, found.agent.params["learning_rate"]) == ("Pendulum-v1", 0.25)
    assert found.train is not None
    assert (found.train.first_update, found.train.max_timesteps) == (9, 1000)
    assert load(file)[0].agent.params["learning_rate"] == 0.5


@pytest.mark.parametrize(
    ("main", "base", "message"),
    [
        (
            "include: base.yml\nseed: 1\n",
            BASE + "evaluate:\n  episods: 3\n",
            "base.yml:12: evaluate.episods: unknown key; did you mean 'episodes'?",
        ),
        ("include: base.yml\nagent: {memory: 3}\n", BASE, "main.yml:2: agent.memory: must be a mapping, got 3"),
        (
            "include: base.yml\n",
            BASE.replace("  rate:", "  rat:"),
            "base.yml:7: agent.params.learning_rate: no param 'rate'",
        ),
        ("include: base.yml\n", "seed: 1\n", "main.yml:1: environment: this key is required"),
    ],
)
def test_errors_name_the_file_and_the_line(tmp_path: Path, main: str, base: str, message: str) -> None:
    assert error(write(tmp_path, main=main, base=base)).startswith(f"{tmp_path}/{message}")


def test_a_value_that_took_the_place_of_others_hides_their_lines(tmp_path: Path) -> None:
    """The base says ``agent.memory.kind``; the error is about the one that main.yml says in short."""
    _, document = load(write(tmp_path, main="include: base.yml\nagent: {memory: reply}\n", base=BASE))
    found = document.error(("agent", "memory", "kind"), "unknown")
    assert (found.file, found.line) == (str(tmp_path / "main.yml"), 2)
    found = document.error(("agent", "params", "hidden", 1), "unknown")
    assert (found.file, found.line) == (str(tmp_path / "base.yml"), 7)


@pytest.mark.parametrize(
    ("include", "message"),
    [
        ("none.yml", "no file or shipped experiment is called 'none.yml'"),
        (".", ": the file is a folder"),
        ("round.yml", "the file includes itself: main.yml -> round.yml -> main.yml"),
        ('"a\\0b"', "must be the path of a file, the name of a shipped experiment, or a list of these, got 'a\\x00b'"),
        ("[base.yml, base.yml]", "duplicate 'base.yml'"),
    ],
)
def test_what_cannot_be_included(tmp_path: Path, include: str, message: str) -> None:
    file = write(tmp_path, main=f"seed: 1\ninclude: {include}\n", base=BASE, round="include: main.yml\n")
    found = error(file)
    where = "round.yml:1" if "round" in include else "main.yml:2"
    assert found.startswith(f"{tmp_path}/{where}: include")
    assert message in found


def test_a_chain_has_an_end(tmp_path: Path) -> None:
    texts = {f"f{i}": f"include: f{i + 1}.yml\n" for i in range(MAX_INCLUDES)} | {f"f{MAX_INCLUDES}": BASE}
    assert load(write(tmp_path, **texts))[0].environment.num_envs == 4
    write(tmp_path, **{f"f{MAX_INCLUDES}": "include: last.yml\n", "last": BASE})
    found = error(tmp_path / "f0.yml")
    assert found.startswith(f"{tmp_path}/f{MAX_INCLUDES}.yml:1: include: more than {MAX_INCLUDES} files, each included")
    assert found.endswith("f7.yml -> f8.yml -> last.yml")


def test_files_that_include_one_another_cost_no_more_than_their_size(tmp_path: Path) -> None:
    part = "config:\n" + "".join(f"  k{i}: 1\n" for i in range(MAX_VALUES // 3))
    texts = {"main": "include: [a.yml, b.yml, c.yml]\n", "a": part, "b": part, "c": part}
    assert f"more than {MAX_VALUES} values with the included files" in error(write(tmp_path, **texts))


def test_an_option_includes_nothing(tmp_path: Path) -> None:
    found = error(write(tmp_path, main=BASE), sets={"include": "base.yml"})
    assert found.startswith("--set include=base.yml: include: cannot be set on the command line")


@pytest.mark.parametrize(
    ("module", "keys"),
    [
        ("theirs.py", ["agent.model_fn"]),
        ("helped.py", ["agent.model_fn", "hooks.0"]),  # which theirs.py imports: Python would find one of the two
        ("unused.py", []),
        ("theirs/__init__.py", ["agent.model_fn"]),
    ],
)
def test_a_module_that_is_in_two_folders(tmp_path: Path, module: str, keys: list[str]) -> None:
    (tmp_path / "base").mkdir()
    base = BASE.replace("model_fn: dqn", "model_fn: theirs:model_fn")
    main = write(tmp_path, main="include: base/base.yml\nhooks: ['mine:Hook']\n")
    write(tmp_path / "base", base=base)
    (tmp_path / "base" / "theirs.py").write_text("import helped\n")
    for name in ("mine.py", "base/helped.py", "base/unused.py"):
        (tmp_path / name).touch()
    _, document = load(main)
    assert folders(document) == [tmp_path, tmp_path / "base"]
    (tmp_path / module).parent.mkdir(exist_ok=True)
    (tmp_path / module).touch()
    if not keys:
        folders(document)
        return
    found = raised(ExperimentError, folders, document).errors
    assert [one.key for one in found] == keys
    assert all(f"{tmp_path} and in {tmp_path / 'base'}" in one.message for one in found)
