"""The documentation is true: what it shows runs, what it lists is complete, what it quotes is in the code."""

import ast
import contextlib
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import tensorflow as tf
import yaml

import axonrl
from axonrl import (
    Agent,
    EstimatorSpec,
    RunConfig,
    distributed,
    environments,
    experiments,
    explorations,
    hooks,
    memories,
    policies,
    schedules,
    serving,
)
from axonrl.compat import tensorforce
from axonrl.compat.tensorforce import agents as agents_of_tensorforce
from axonrl.compat.tensorforce import run as run_of_tensorforce
from axonrl.core import registry
from axonrl.docs import build, generate
from axonrl.environments import make
from axonrl.experiments.commands.cli import command_line, main
from axonrl.experiments.config.shipped import shipped
from axonrl.explorations import Categorical
from axonrl.memories import BatchMemory, Memory, ReplayMemory
from axonrl.models.blocks.params import params_of
from axonrl.tests.capped import cap
from axonrl.tests.conftest import InTensorFlow
from axonrl.tests.test_imports import package_files

ROOT: Final = Path(__file__).resolve().parent.parent
DOCS: Final = ROOT / "docs"
PAGES: Final = {page.relative_to(DOCS).as_posix(): page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md")}


PARSED: Final = ("logs", "reproduce", "serve", "service", "status", "stop", "submit", "sync")
"""Commands that need a server, or are one, or train for long: they are parsed, not run."""
ELSEWHERE: Final = ("serving.md",)
"""Pages whose programs need a server: tests/serving/test_service_programs.py runs them."""
INSTALLATION: Final = (
    *("cd", "docker", "export", "git", "haupt", "pip", "source"),
    *("optuna-dashboard", "polyaxon", "tensorboard", "wandb"),
)
"""Programs that install something, or that start or ask another program: they are not run."""


def blocks(text: str) -> Iterator[tuple[str, int, str]]:
    """The blocks of code, each with its language and the number of its first line."""
    for found in re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        yield found[1], text.count("\n", 0, found.start(2)) + 1, found[2]


def languages(page: str) -> list[str]:
    return [language for language, _, _ in blocks(PAGES[page])]


# -- what it shows runs -----------------------------------------------------------------------------------------------


@pytest.mark.docs
@pytest.mark.parametrize("page", [name for name in sorted(PAGES) if {"python", "console"} & set(languages(name))])
def test_what_a_page_shows_runs(
    page: str,
    in_tensorflow: InTensorFlow,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """In turn, as a reader types it: Python with the names of the blocks before, commands, files of YAML.

    Only what a page that speaks of LiteRT trains in this process is converted to it: it takes most of the time.
    """
    monkeypatch.chdir(tmp_path)
    if page == "hub.md":
        request.getfixturevalue("fake_hub")
    cap(monkeypatch)
    with contextlib.nullcontext() if "LiteRT" in PAGES[page] else in_tensorflow():
        run_blocks(page)


def run_blocks(page: str) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    for language, line, code in blocks(PAGES[page]):
        if language == "python" and page not in ELSEWHERE:
            exec(compile("\n" * (line - 1) + code, str(DOCS / page), "exec"), names)
        elif language == "yaml" and (file := re.match(r"# (\w+\.yml)\n", code)):
            Path(file[1]).write_text(code, encoding="utf-8")
        elif language == "console":
            for command in code.splitlines():
                run_command(shlex.split(command, comments=True))


def run_command(words: list[str]) -> None:
    """Run a command of ``axonrl``, short where it trains; of other programs, check that what they name exists."""
    while "=" in words[0]:
        del words[0]  # a variable of the environment
    program, *words = words
    if program == "axonrl" and words[0] in PARSED:
        command_line()[0].parse_args(words)
        assert words[0] != "reproduce" or words[1] in shipped(), words
    elif program == "axonrl":
        if "--seeds" in words:
            at = words.index("--seeds") + 1
            first = int(re.split("[-,]", words[at])[0])
            words[at] = f"{first},{first + 1}"
        assert main([*words, *shortened(words)]) == 0, words
    elif program == "make":
        assert re.search(rf"^{words[0]}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE), words
    elif program == "python" and words[0].startswith("examples/"):
        assert (ROOT / words[0]).is_file(), words  # run by tests/test_examples.py
    elif [program, *words[:2]] == ["python", "-m", "axonrl.compat.tensorforce.run"]:
        assert run_of_tensorforce.main([*words[2:], "--episodes", "2"]) == 0, words
    elif words[:1] == ["-m"] and words[1] in ("axonrl.benchmarks.tensorforce", "axonrl.benchmarks.rlgraph"):
        assert words[2] in ("learning", "speed"), words
        assert (ROOT / words[words.index("--page") + 1]).exists(), words
    else:
        assert program in INSTALLATION, program


def shortened(words: list[str]) -> Iterator[str]:
    """What keeps a command short, where it does not say so itself."""
    if words[0] == "run":
        hooks = "hooks=[{kind: evaluation, every_timesteps: 300, episodes: 1}]"
        yield from ("--set", "evaluate.episodes=1", "--set", "train.first_update=280", "--set", hooks)
    limits = {"run": ("--timesteps", "300"), "evaluate": ("--episodes", "1")}.get(words[0])
    if limits and limits[0] not in words:
        yield from limits


# -- what it says follows from the code -------------------------------------------------------------------------------


def test_generated_parts_are_as_the_code_has_them() -> None:
    """If this fails: ``python -m axonrl.docs.generate``."""
    pages = {**PAGES, "README.md": (ROOT / "README.md").read_text(encoding="utf-8")}
    assert [page for page, text in pages.items() if generate.regenerate(text) != text] == []
    written = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "examples").glob("*.ipynb")}
    assert {name: generate.notebook(page) for name, page in generate.NOTEBOOKS.items()} == written


def messages(text: str) -> list[str]:
    """What a page quotes of messages, in the first column of tables with that heading; ``…`` is what differs."""
    tables = re.findall(r"^\| message \|.*\n\|[-| ]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    return [cell for table in tables for cell in re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)]


def written() -> Iterator[str]:
    """Every text in the package's code, with ``…`` for what is filled in."""
    for path in package_files():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts_of_it = (str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
                yield re.sub("…+", "…", "".join(parts_of_it))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield re.sub(r"%[sdr]", "…", node.value)


def test_messages_are_those_of_the_code() -> None:
    texts, quoted = list(written()), [message for page in PAGES.values() for message in messages(page)]
    assert len(quoted) > 50
    assert [message for message in quoted if not any(message in text for text in texts)] == []


def test_labels_are_those_that_a_model_gets() -> None:
    """Of both memories: each key with its dtype, and the axes of the batch."""
    row = r"^\| (?:recorded names, such as )?`(\w+)` \| ([^|]+) \| (\[.*?\]) \| (\[.*?\]|-) \| "
    rows = re.findall(row, PAGES["model_fn.md"], re.MULTILINE)
    replay = labels_of(ReplayMemory(64, batch_size=8, sampler="prioritized"), {8: "B"})
    rollout = labels_of(BatchMemory(64), {32: "T", 2: "N"})
    assert sorted(key for key, *_ in rows) == sorted(replay)
    assert sorted(key for key, _, _, axes in rows if axes != "-") == sorted(rollout)
    for key, dtype, *shown in rows:
        for axes, labels in zip(shown, (replay, rollout), strict=True):
            if axes != "-":
                found_dtype, found_axes = labels[key]
                assert found_axes.startswith(axes.replace(", ...]", "")), key
                assert "..." in axes or found_axes == axes, key
                assert dtype.split()[0] in (found_dtype, "as", "their"), key


def labels_of(memory: Memory, axes: Mapping[int, str]) -> dict[str, tuple[str, str]]:
    """Each label of a batch: its dtype and its shape, with letters for the axes of the batch."""
    found: dict[str, tuple[str, str]] = {}

    def model_fn(features: Any, labels: Any, mode: str, config: RunConfig) -> EstimatorSpec:
        weight = tf.Variable(1.0, name="weight")
        if mode == "predict":
            logits = features[:, :2] * weight
            exploration = Categorical(config.action_space)
            return EstimatorSpec(
                mode, {"action": logits[:, 0], "logits": logits}, exploration=exploration, record=("log_prob",)
            )
        for key, value in labels.items():
            found[key] = (value.dtype.name, f"[{', '.join(axes.get(size, str(size)) for size in value.shape)}]")
        return EstimatorSpec(mode, loss=weight, train_op=weight.assign_add(1.0), td_error=labels["reward"])

    Agent(model_fn, memory).check(make("CartPole-v1", num_envs=2), first_update=32)
    return found


def test_tests_that_a_page_names_are_there() -> None:
    named = set(re.findall(r"`(tests/[\w/]+\.py)(?:::(test_\w+))?`", "".join(PAGES.values())))
    assert len(named) > 50
    missing = [
        f"{path}::{name}"
        for path, name in sorted(named)
        if not (ROOT / path).is_file() or f"def {name}" not in (ROOT / path).read_text(encoding="utf-8")
    ]
    assert missing == []


def test_files_that_are_named_are_there() -> None:
    """In what contributors read: a path is from the root, or from the folder that the text speaks of."""
    paths = [*package_files(), *(path for room in ("docs", "tests") for path in (ROOT / room).rglob("*.py"))]
    files = [f"/{path.relative_to(ROOT).as_posix()}" for path in paths]
    texts = [(ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")]
    texts += [text for page, text in PAGES.items() if page.startswith("decisions/")]
    named = set(re.findall(r"`([\w/]+/\w+\.py)`", "".join(texts))) - {"models/name.py", "tests/models/test_name.py"}
    assert len(named) > 50
    assert [name for name in sorted(named) if not any(file.endswith(f"/{name}") for file in files)] == []


def test_architecture_and_decisions_are_short() -> None:
    decisions = {page: text for page, text in PAGES.items() if re.fullmatch(r"decisions/\d{4}-[\w-]+\.md", page)}
    assert len((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").split()) <= 1_500
    assert len(decisions) <= 25
    for page, text in decisions.items():
        assert len(text.split()) <= 300, page
        assert re.findall(r"^## (\w+)$", text, re.MULTILINE) == ["Context", "Decision", "Consequence"], page
        assert f"({page.partition('/')[2]})" in PAGES["decisions/index.md"], page


def test_the_citation_is_of_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == axonrl.__version__


# -- what it lists is complete ----------------------------------------------------------------------------------------


def test_the_reference_has_every_public_name() -> None:
    shown = {name for text in PAGES.values() for name in re.findall(r"^::: ([\w.]+)$", text, re.MULTILINE)}
    rooms = (
        *(axonrl, distributed, environments, experiments, explorations, hooks, memories, policies, serving),
        tensorforce,
    )
    public = {f"{room.__name__}.{name}" for room in rooms for name in room.__all__}
    public |= {f"axonrl.schedules.{kind.__name__}" for kind in schedules.KINDS.values()} | {
        "axonrl.schedules.make_schedule"
    }
    public |= {f"axonrl.models.{name}.model_fn" for name in registry.names("model_fn")}
    public |= {f"axonrl.models.{name}.{params_of(name).__name__}" for name in registry.names("model_fn")}
    also = {f"axonrl.explorations.{name.rpartition('.')[2]}" for name in shown if name.startswith("axonrl.schedules.")}
    modules = {"axonrl.noise", "axonrl.environments.spaces", "axonrl.explorations.schedules", "axonrl.__version__"}
    assert sorted(public - shown - (also - {"axonrl.explorations.Constant"}) - modules) == []


def test_the_classes_of_tensorforce_are_listed() -> None:
    listed = set(re.findall(r"`(\w+)`", generate.interface("tensorforce", "agents")))
    assert {*agents_of_tensorforce.__all__} - {"Agent"} <= listed


def test_every_page_has_a_place_in_the_navigation() -> None:
    config = (DOCS / "zensical.toml").read_text(encoding="utf-8")
    named = re.findall(r'= "([\w/-]+\.md)"', config)
    assert sorted(named) == sorted({*PAGES, *(page for page in build.FROM_ROOT.values() if page.endswith(".md"))})


@pytest.mark.docs
@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[a page](nowhere.md)", "nowhere.md leads to nothing"),
        ("[a heading](faq.md#nowhere)", "anchor does not exist"),
        ("[a name][axonrl.Nothing]", "unresolved autoref"),
        ("::: axonrl.hooks.Nothing", "axonrl.hooks.Nothing could not be found"),
    ],
)
def test_what_leads_nowhere_ends_the_build(text: str, complaint: str, tmp_path: Path) -> None:
    root = tmp_path / "repository"
    for name in ("setup.cfg", "__init__.py", "hooks", "docs/zensical.toml", "docs/style.css"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, root / name)
    (root / "docs" / "index.md").write_text(f"# Home\n\n{text}\n", encoding="utf-8")
    (root / "docs" / "faq.md").write_text("# Questions\n", encoding="utf-8")
    try:
        complaints = build.build(root, tmp_path)
    except ValueError as error:
        complaints = str(error)
    assert complaint in complaints
