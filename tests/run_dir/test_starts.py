import json
import subprocess
from pathlib import Path

import pytest

from axonrl.errors import CheckpointError
from axonrl.run_dir import starts
from axonrl.run_dir.provenance import provenance
from axonrl.run_dir.starts import STARTS, add_start, began_in, ensure_start, git_commit, read_starts
from axonrl.version import __version__


def test_starts_are_appended(tmp_path: Path) -> None:
    assert read_starts(tmp_path) == []
    for resume in (False, True):
        add_start(tmp_path, 4, ["axonrl", "run", f"{resume}"], tmp_path / "x.yml")
    first, second = json.loads((tmp_path / STARTS).read_text())
    assert (first["command"], second["command"]) == (["axonrl", "run", "False"], ["axonrl", "run", "True"])
    assert (first["seed"], first["file"]) == (4, str(tmp_path / "x.yml"))
    assert (first["made_with"], first["made_with"]["axonrl"]) == (provenance(), __version__)
    assert first["git_commit"] is None


def test_a_process_is_recorded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "train.py"
    program.touch()
    monkeypatch.setattr("sys.argv", [str(program), "--fast"])
    for _ in range(2):
        ensure_start(tmp_path, 3)
    monkeypatch.setattr(starts, "_PROCESS", "another")
    ensure_start(tmp_path, 3)
    found = read_starts(tmp_path)
    assert [entry["command"] for entry in found] == [[str(program), "--fast"]] * 2
    assert [entry["file"] for entry in found] == [str(program)] * 2


def test_the_folder_where_a_run_began(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of its first start, as long as both folders are where they were."""
    for name in ("there", "elsewhere", "run"):
        (tmp_path / name).mkdir()
    run = tmp_path / "run"
    assert began_in(run) is None
    for name in ("there", "elsewhere"):
        monkeypatch.chdir(tmp_path / name)
        add_start(Path("../run"), 3)
        assert began_in(run) == tmp_path / "there"
    run.rename(tmp_path / "moved")
    assert began_in(tmp_path / "moved") is None
    (tmp_path / "moved").rename(run)
    (tmp_path / "there").rmdir()
    assert began_in(run) is None


@pytest.mark.parametrize("content", ["[3]", "[" * 100_000, "\udcff"])
def test_a_damaged_record_is_an_error(tmp_path: Path, content: str) -> None:
    (tmp_path / STARTS).write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(CheckpointError, match=STARTS):
        read_starts(tmp_path)


def test_git_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*words: str) -> str:
        identity = ["-c", "user.name=x", "-c", "user.email=x@x", "-c", "commit.gpgsign=false"]
        done = subprocess.run(["git", *identity, *words], cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    git("init", "-q")
    assert git_commit(tmp_path) is None  # no commit yet
    (tmp_path / "a").write_text("1")
    git("add", "a")
    git("commit", "-q", "-m", "one")
    git("tag", "v1")
    commit = git("rev-parse", "HEAD")
    assert git_commit(tmp_path) == commit
    (tmp_path / "a").write_text("2")
    assert git_commit(tmp_path) == f"{commit}-dirty"
    monkeypatch.setenv("PATH", "")
    assert git_commit(tmp_path) is None  # no git
