"""A hook of an installed package is found by its name, through the entry-point group ``axonrl.hooks``."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from axonrl.core import registry
from axonrl.experiments.config.schema import load
from axonrl.experiments.errors import ExperimentError
from axonrl.experiments.running.components import build
from axonrl.tests.raising import raised

MODULE = """
from axonrl.errors import ArgumentError
from axonrl.hooks import Hook

class MyHook(Hook):
    '''Counts updates.'''

    def __init__(self, every: int, verbose: bool = False) -> None:
        if every < 1:
            raise ArgumentError(f"every must be at least 1, got {every}", "every", every)
        self.every, self.verbose = every, verbose

    def after_update(self, session, facts):
        pass
"""
EXPERIMENT = """
environment: {id: CartPole-v1}
agent: {model_fn: dqn, memory: {kind: replay, size: 100, batch_size: 8}}
evaluate: {policy: best}
hooks:
  - stop_at_step
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An installed distribution: a module, and beside it what an installer writes."""
    (tmp_path / "fake_axonrl_plugin.py").write_text(MODULE)
    info = tmp_path / "fake_axonrl_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fake-axonrl-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[axonrl.hooks]\n"
        "my_hook = fake_axonrl_plugin:MyHook\n"
        "evaluation = fake_axonrl_plugin:Hidden\n"
        "broken = fake_axonrl_plugin:MyHok\n"
        "[axonrl.memory]\n"
        "no_hook = fake_axonrl_plugin:MyHook\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    monkeypatch.delitem(__import__("sys").modules, "fake_axonrl_plugin", raising=False)


def built(folder: Path, hooks: str) -> Any:
    path = folder / "experiment.yml"
    path.write_text(EXPERIMENT.replace("  - stop_at_step", hooks))
    return build(*load(path)).hooks


def test_a_file_names_it_with_its_arguments(plugin: Path) -> None:
    [hook] = built(plugin, "  - {kind: my_hook, every: 3}")
    assert (type(hook).__module__, type(hook).__name__) == ("fake_axonrl_plugin", "MyHook")
    assert (hook.every, hook.verbose) == (3, False)


@pytest.mark.usefixtures("plugin")
def test_it_is_listed_and_built_in_names_cannot_be_taken() -> None:
    names = registry.names("hook")
    assert {"my_hook", "broken", "evaluation"} < set(names)
    assert "no_hook" not in names
    message = "hook 'evaluation' is ambiguous: axonrl.hooks:EvaluationHook or fake_axonrl_plugin:Hidden"
    raised(ValueError, registry.find, "hook", "evaluation", match=message)
    assert registry.find("hook", "axonrl.hooks:EvaluationHook").__module__ == "axonrl.hooks.evaluation"


@pytest.mark.parametrize(
    ("hooks", "message"),
    [
        ("  - {kind: my_hok, every: 3}", r"experiment.yml:6: hooks\.0.kind: .*'my_hok'; did you mean 'my_hook'\?"),
        ("  - {kind: my_hook}", r"experiment.yml:6: hooks\.0: my_hook requires the argument 'every'"),
        ("  - {kind: my_hook, every: 0}", r"hooks\.0.every: must be at least 1, got 0"),
        ("  - {kind: broken}", r"hooks\.0.kind: .*module 'fake_axonrl_plugin' has no 'MyHok'; did you mean 'MyHook'\?"),
    ],
)
def test_mistakes_name_their_line(hooks: str, message: str, plugin: Path) -> None:
    raised(ExperimentError, built, plugin, hooks, match=message)


def test_only_a_hook_that_is_not_axonrl_s_own_may_keep_the_best_policy_instead(plugin: Path) -> None:
    with pytest.raises(ExperimentError, match="'best' needs an evaluation hook"):
        built(plugin, "  - {kind: stop_at_step, step: 3}")
