"""Names stand for "module:attribute" strings, which are imported when they are used."""

import functools
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from axonrl.core import registry
from axonrl.errors import ArgumentError
from axonrl.hooks import EvaluationHook, Hook
from axonrl.memories import BatchMemory, ReplayMemory
from axonrl.tests.raising import raised


@pytest.fixture
def user_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of the user's, in a folder on the path."""
    source = "class Mine:\n    def method(self): ...\n    def plain(): ...\ndef make(): ...\nNUMBER = 3\n"
    (tmp_path / "users_registry_module.py").write_text(source)
    (tmp_path / "users_broken_module.py").write_text("raise RuntimeError('no luck')")
    (tmp_path / "users_incomplete_module.py").write_text("import not_installed_anywhere")
    monkeypatch.syspath_prepend(tmp_path)
    return "users_registry_module"


def plugins(monkeypatch: pytest.MonkeyPatch, *entries: EntryPoint) -> None:
    def entry_points(*, group: str) -> list[EntryPoint]:
        return [entry for entry in entries if entry.group == group]

    monkeypatch.setattr(registry, "entry_points", entry_points)


def test_short_names_are_sorted() -> None:
    assert registry.find("memory", "replay") is ReplayMemory
    assert registry.find("memory", "batch") is BatchMemory
    assert registry.find("hook", "evaluation") is EvaluationHook
    for kind in ("memory", "model_fn"):
        assert list(registry.names(kind)) == sorted(registry.BUILT_IN[kind])


def test_a_name_that_means_two_things(monkeypatch: pytest.MonkeyPatch, user_module: str) -> None:
    mine = EntryPoint("progress", f"{user_module}:Mine", "axonrl.hooks")
    twice = [EntryPoint("maker", f"{user_module}:{name}", "axonrl.model_fn") for name in ("make", "Mine", "make")]
    plugins(monkeypatch, mine, *twice)
    message = f"hook 'progress' is ambiguous: axonrl.hooks:ProgressHook or {user_module}:Mine. Use one of these instead"
    caught = raised(ArgumentError, registry.find, "hook", "progress", match=f"^{message}$")
    assert (caught.argument, caught.value) == ("hook", "progress")
    with pytest.raises(ArgumentError, match=f"ambiguous: {user_module}:make or {user_module}:Mine"):
        registry.find("model_fn", "maker")
    plugins(monkeypatch, twice[0], twice[2])  # one package, seen twice
    assert registry.find("model_fn", "maker").__name__ == "make"


def test_every_built_in_hook_is_one_and_has_a_summary() -> None:
    for name in registry.names("hook"):
        found = registry.find("hook", name)
        assert issubclass(found, Hook), name
        assert registry.summary("hook", name) == found.__doc__.split("\n")[0]


def test_a_module_and_attribute(user_module: str) -> None:
    import users_registry_module as module  # type: ignore[import-not-found]  # made by the fixture

    assert registry.find("model_fn", f"{user_module}:make") is module.make
    assert registry.find("hook", f"{user_module}:Mine.plain") is module.Mine.plain


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("memori", "replay", r"unknown kind 'memori'; did you mean 'memory'\?"),
        ("memory", "reply", r"unknown memory 'reply'; did you mean 'replay'\?"),
        (
            "model_fn",
            "quantum",
            r"unknown model_fn 'quantum'; there are a2c, .*, dqn, .*, sac.*; write 'package\.module:name",
        ),
        ("model_fn", "users_registry_module.sub:f", "there is no module 'users_registry_module.sub' on the"),
        ("model_fn", "users_registry_module:mak", r"has no 'mak'; did you mean 'make'\?"),
        ("model_fn", "users_registry_module:NUMBER", "must be a function or a class, got int"),
        ("model_fn", "users_broken_module:f", "importing 'users_broken_module' failed with RuntimeError: no luck"),
        ("model_fn", "users_incomplete_module:f", "failed with ModuleNotFoundError: No module named 'not_installed"),
        ("model_fn", "module:", "must be 'package.module:name'"),
        ("model_fn", "users_broken_module:a:b", "must be 'package.module:name'"),  # and imports nothing
    ],
)
@pytest.mark.usefixtures("user_module")
def test_errors(kind: str, name: str, message: str) -> None:
    caught = raised(ArgumentError, registry.find, kind, name, match=message)
    assert (caught.argument, caught.value) == (("kind", kind) if kind == "memori" else (kind, name))


def test_a_plugin_is_loaded_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch, user_module: str) -> None:
    plugins(
        monkeypatch,
        EntryPoint("mine", f"{user_module}:Mine", "axonrl.memory"),
        EntryPoint("hidden", "nowhere:Hidden", "axonrl.memory"),
        EntryPoint("other", "nowhere:Never", "axonrl.hook"),
    )
    assert registry.find("memory", "mine").__name__ == "Mine"
    assert registry.find("memory", "replay") is ReplayMemory
    assert registry.names("memory") == sorted([*registry.BUILT_IN["memory"], "hidden", "mine"])


def test_name_of_what_can_be_imported(user_module: str) -> None:
    assert registry.name_of(ReplayMemory) == "replay"
    assert registry.name_of(Hook) == "axonrl.hooks.hook:Hook"
    make = registry.find("model_fn", f"{user_module}:make")
    assert registry.name_of(make) == f"{user_module}:make"


def test_name_of_what_cannot(user_module: str) -> None:
    def nested() -> None: ...

    mine = registry.find("model_fn", f"{user_module}:Mine")
    replaced = functools.wraps(mine.plain)(lambda: None)
    others: list[Any] = [nested, lambda: None, functools.partial(nested), mine(), mine().method, replaced, 3]
    assert [registry.name_of(other) for other in others] == [None] * 7
    code = "from axonrl.core.registry import name_of\ndef f(): ...\nprint(name_of(f))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "None\n"


def test_looking_around_loads_nothing() -> None:
    code = """
import sys
from axonrl.core import registry
print([(kind, name) for kind in registry.BUILT_IN for name in registry.names(kind) if not registry.summary(kind, name)])
print(sorted({"tensorflow", "keras", "gymnasium"} & set(sys.modules)))
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n[]\n"
