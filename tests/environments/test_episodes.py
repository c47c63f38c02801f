"""Episodes from files: npz files, and datasets that Minari itself has written."""

import importlib
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Tuple

from axonrl.environments import read_episodes, write_episodes
from axonrl.errors import ArgumentError
from axonrl.tests.raising import raised

PLAIN: Any = Box(-10, 10, (2,), np.float32)
ACTIONS: Any = Discrete(3, start=1)


def arrays(**changes: Any) -> dict[str, Any]:
    """Two episodes, of two timesteps and of three, the first terminated and the second cut by the end of the file."""
    observations = np.arange(14, dtype=np.float64).reshape(7, 2) / 2
    found: dict[str, Any] = {
        "observation": observations[[0, 1, 3, 4, 5]],
        "next_observation": observations[[1, 2, 4, 5, 6]],
        "action": np.array([1, 2, 3, 1, 2]),
        "reward": np.arange(5.0),
        "terminated": np.array([False, True, False, False, False]),
        "truncated": np.zeros(5, np.bool_),
        "note": np.array(["ignored"]),
        **changes,
    }
    return {name: value for name, value in found.items() if value is not None}


def saved(path: Path, **changes: Any) -> Path:
    np.savez(path / "run.npz", **arrays(**changes))
    return path / "run.npz"


def read(path: Path, observation: Any = PLAIN, action: Any = ACTIONS) -> list[Any]:
    return list(read_episodes(path, observation, action))


def test_npz(tmp_path: Path) -> None:
    first, second = read(saved(tmp_path))
    np.testing.assert_equal(
        first,
        {
            "observation": np.array([[0, 0.5], [1, 1.5]], np.float32),
            "action": np.array([1, 2], np.int32),
            "next_observation": np.array([[1, 1.5], [2, 2.5]], np.float32),
            "reward": np.array([0, 1], np.float32),
            "terminated": np.array([False, True]),
            "truncated": np.array([False, False]),
        },
    )
    assert second["truncated"].tolist() == [False, False, True]
    assert {key: value.dtype for key, value in second.items()} == {key: value.dtype for key, value in first.items()}
    write_episodes(tmp_path / "again.npz", [first, second])
    np.testing.assert_equal(read(tmp_path / "again.npz"), [first, second])


def test_an_episode_that_is_written_ends_with_its_last_timestep(tmp_path: Path) -> None:
    """Also one that the next episode would seem to continue; keys may be in any order."""
    still = {name: value[:2] for name, value in arrays(note=None, terminated=np.zeros(5, np.bool_)).items()}
    still |= {"observation": np.zeros((2, 2)), "next_observation": np.zeros((2, 2))}
    write_episodes(tmp_path / "data.npz", [still, dict(reversed(still.items()))])
    assert [episode["truncated"].tolist() for episode in read(tmp_path / "data.npz")] == [[False, True]] * 2


NESTED: Any = Dict({"where": Dict({"x": Box(-1, 1, (1,))}), "which": Tuple([Discrete(2), Box(0, 255, (2,), np.uint8)])})
MANY: Any = MultiDiscrete([2, 3])


def nested_episode(length: int) -> dict[str, Any]:
    """Observations as an environment would return them, and their flat names."""
    rng = np.random.default_rng(length)
    x = rng.random((length + 1, 1), np.float32)
    kind, image = rng.integers(0, 2, length + 1), rng.integers(0, 255, (length + 1, 2), np.uint8)
    return {
        "given": {"where": {"x": x}, "which": (kind, image)},
        "flat": {"where/x": x, "which/0": kind.astype(np.int32), "which/1": image},
        "action": rng.integers(0, [2, 3], (length, 2)),
        "reward": rng.random(length).astype(np.float32),
    }


def test_npz_of_nested_spaces(tmp_path: Path) -> None:
    one = nested_episode(3)
    ends = np.array([0, 0, 1], np.bool_)
    names = {f"observation/{key}": value[:-1] for key, value in one["flat"].items()}
    names |= {f"next_observation/{key}": value[1:] for key, value in one["flat"].items()}
    np.savez(tmp_path / "n.npz", **names, action=one["action"], reward=one["reward"], terminated=ends, truncated=ends)
    (episode,) = read(tmp_path / "n.npz", NESTED, MANY)
    np.testing.assert_equal(episode["observation"], {key: value[:-1] for key, value in one["flat"].items()})
    write_episodes(tmp_path / "again.npz", [episode])
    np.testing.assert_equal(read(tmp_path / "again.npz", NESTED, MANY), [episode])


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"reward": None}, ["reward missing", "observation"]),
        ({"reward": np.zeros((5, 1))}, ["episode 0: reward", "[2]", "[2, 1]"]),
        ({"reward": np.zeros(4)}, ["one length", "reward 4"]),
        ({"reward": np.array([0, 0, 0, np.nan, 0])}, ["episode 1: reward", "NaN", "timestep 1"]),
        ({"observation": np.full((5, 2), np.inf)}, ["episode 0: observation", "infinite"]),
        ({"action": np.array([1, 2, 3, 4, 1])}, ["episode 1: action", "Discrete(3, start=1)", "timestep 1", "4"]),
        ({"action": np.array([1, 2, 1.5, 1, 1])}, ["episode 1: action", "int32", "1.5"]),
        ({"action": np.array([{}] * 5)}, ["damaged", "pickle"]),
        ({"terminated": np.array([0, 2, 0, 0, 0])}, ["episode 0: terminated", "bool"]),
        ({"next_observation": np.zeros((5, 2))}, ["episode 0: next_observation", "timestep 0"]),
        ({name: value[:0] for name, value in arrays().items()}, ["no episode"]),
    ],
)
def test_npz_that_is_refused(tmp_path: Path, changes: Any, told: list[str]) -> None:
    path = saved(tmp_path, **changes)
    caught = raised(ArgumentError, read, path)
    assert caught.argument == "path"
    for part in (*told, str(path)):
        assert part in str(caught)


def test_actions_beyond_their_bounds_are_of_another_space(tmp_path: Path) -> None:
    path = saved(tmp_path, action=np.array([[0.5], [1.0], [-1.0], [1.5], [0]]))
    with pytest.raises(ArgumentError, match=r"episode 1: action is outside .* at timestep 1: .*1\.5"):
        read(path, action=Box(-1, 1, (1,)))


@pytest.mark.parametrize("damage", ["encrypted", "another version", "half a header"])
def test_npz_whose_bytes_are_damaged(tmp_path: Path, damage: str) -> None:
    """Flipped bits, and members that are whole but hold something else."""
    path = saved(tmp_path)
    if damage == "half a header":
        header = io.BytesIO()
        np.save(header, np.zeros(5))
        with zipfile.ZipFile(path, "w") as file:
            for name in arrays():
                file.writestr(f"{name}.npy", header.getvalue().replace(b"}", b" "))
    else:  # in the first entry of the directory at the file's end
        content = path.read_bytes()
        offset = content.index(b"PK\x01\x02") + {"encrypted": 8, "another version": 6}[damage]
        path.write_bytes(content[:offset] + bytes([content[offset] ^ 0x81]) + content[offset + 1 :])
    assert str(path) in str(raised(ArgumentError, read, path, match="damaged"))


def test_files_that_are_none(tmp_path: Path) -> None:
    good = saved(tmp_path).read_bytes()
    contents = {
        "cut.npz": good[:400],
        "changed.npz": good.replace(arrays()["reward"].tobytes(), b"x" * 40),
        "text.npz": b"text",
        "empty.npz": b"",
        "odd.txt": b"",
        "text.hdf5": b"text",
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "folder").mkdir()
    for name in (*contents, "none.npz", "none", "none.hdf5", "folder"):
        caught = raised(ArgumentError, read, tmp_path / name)
        assert name in str(caught)
        assert caught.argument == "path"


def test_what_cannot_be_written_leaves_the_file_that_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path)
    first, second = read(path)
    fewer = {key: value for key, value in second.items() if key != "reward"}
    for where, episodes, told in (
        (path, [], "got none"),
        (path, [first, fewer], "episodes[1] has arrays"),
        (path, [first, {**second, "observation": second["observation"][:, :1]}], "observation [1]"),
        (path, [first, {**second, "reward": second["reward"][1:]}], "episodes[1]"),
        (path, [{**first, "reward": first["reward"] * np.nan}], "reward of episodes[0] is NaN"),
        (path, [{**first, "observation": [{"x": 1}] * 2}], "observation has Python objects"),
        (path, first, "list of episodes"),
        (tmp_path / "run", [first], "must end in .npz"),
        (tmp_path / "missing" / "run.npz", [first], "cannot be written"),
    ):
        assert told in str(raised(ArgumentError, write_episodes, where, episodes))

    def full(file: Any, **arrays: Any) -> None:
        file.write(b"begun")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", full)
    raised(ArgumentError, write_episodes, path, [first], match="No space left")
    np.testing.assert_equal(read(path), [first, second])
    assert list(tmp_path.iterdir()) == [path]


@pytest.fixture(name="dataset")
def made_by_minari(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Writes a dataset with Minari, in a folder of its own: ``dataset(observation, action, episodes) -> folder``."""
    why = "Minari is not installed, so no file of its own is read: axonrl[minari]"
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    minari: Any = pytest.importorskip("minari", reason=why)
    buffers: Any = importlib.import_module("minari.data_collector")

    def write(observation: Any, action: Any, episodes: list[dict[str, Any]], **options: Any) -> Path:
        made = [
            buffers.EpisodeBuffer(
                observations=one["given"],
                actions=one["action"],
                rewards=one["reward"].tolist(),
                terminations=[False] * (len(one["reward"]) - 1) + [one.get("terminated", True)],
                truncations=[False] * len(one["reward"]),
            )
            for one in episodes
        ]
        minari.create_dataset_from_buffers(
            "axonrl/test-v0", made, observation_space=observation, action_space=action, description="a test", **options
        )
        return tmp_path / "axonrl" / "test-v0"

    return write


@pytest.mark.filterwarnings("ignore")
def test_minari(dataset: Any) -> None:
    episodes = [nested_episode(length) for length in range(1, 13)]  # episode_10 comes after episode_9
    episodes[2]["terminated"] = False
    folder = dataset(NESTED, MANY, episodes)
    for path in (folder, folder / "data", folder / "data" / "main_data.hdf5"):
        found = read(path, NESTED, MANY)
        assert [len(one["reward"]) for one in found] == list(range(1, 13))
    for one, wanted in zip(found, episodes, strict=True):
        np.testing.assert_equal(one["observation"], {key: value[:-1] for key, value in wanted["flat"].items()})
        np.testing.assert_equal(one["next_observation"], {key: value[1:] for key, value in wanted["flat"].items()})
        np.testing.assert_equal(one["action"], wanted["action"].astype(np.int32))
        np.testing.assert_equal(one["reward"], wanted["reward"])
    assert (found[1]["terminated"].tolist(), found[1]["truncated"].tolist()) == ([False, True], [False, False])
    assert found[2]["truncated"].tolist() == [False, False, True]
    others: Any = Dict({"where": Dict({"x": Box(-1, 1, (1,))})})
    for spaces, told in (((others, MANY), "observation space"), ((NESTED, MultiDiscrete([2, 4])), "action space")):
        raised(ArgumentError, read, folder, *spaces, match=told)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("jpeg", [True, False])
def test_minari_with_images(dataset: Any, jpeg: bool) -> None:
    """Minari stores images as JPEG, which loses a little; these have one shade each."""
    space: Any = Box(0, 255, (40, 32, 3), np.uint8)
    frames = np.full((4, 40, 32, 3), 0, np.uint8) + np.array([50, 100, 150, 200], np.uint8)[:, None, None, None]
    one = {"given": frames, "action": np.array([1, 2, 3]), "reward": np.zeros(3)}
    (episode,) = read(dataset(space, ACTIONS, [one], jpeg_encoding=jpeg), space)
    np.testing.assert_allclose(episode["next_observation"], frames[1:], atol=3 if jpeg else 0)
    assert episode["observation"].dtype == np.uint8


@pytest.mark.filterwarnings("ignore")
def test_minari_that_is_damaged(dataset: Any) -> None:
    one = {"given": np.zeros((3, 2), np.float32), "action": np.array([1, 2]), "reward": np.zeros(2)}
    folder = dataset(PLAIN, ACTIONS, [one, one])
    h5py: Any = pytest.importorskip("h5py", reason="h5py is not installed: axonrl[minari]")
    with h5py.File(folder / "data" / "main_data.hdf5", "a") as file:
        del file["episode_1"]["rewards"]
    raised(ArgumentError, read, folder, match="episode_1")
    (folder / "data" / "metadata.json").write_text('{"data_format": "arrow"}')
    raised(ArgumentError, read, folder, match="'arrow'")
    (folder / "data" / "metadata.json").write_text("{")
    raised(ArgumentError, read, folder, match=r"metadata\.json")


def written_by_hand(folder: Path, **changes: Any) -> None:
    """The layout of Minari's files; None stands for a group in the place of an array."""
    h5py: Any = pytest.importorskip("h5py", reason="h5py is not installed: axonrl[minari]")
    arrays = {
        "observations": np.zeros((3, 2), np.float32),
        "actions": np.array([1, 2]),
        "rewards": np.zeros(2),
        "terminations": np.array([True, False]),
        "truncations": np.array([True, False]),
    }
    with h5py.File(folder / "main_data.hdf5", "w") as file:
        group = file.create_group("episode_0")
        for name, array in (arrays | changes).items():
            if array is None:
                group.create_group(name)
            else:
                group[name] = array


@pytest.mark.parametrize("name", ["observations", "truncations"])
def test_minari_with_something_else_than_an_array(tmp_path: Path, name: str) -> None:
    for other in (None, np.float32(1), "text"):
        written_by_hand(tmp_path, **{name: other})
        raised(ArgumentError, read, tmp_path, match=f"damaged.*{name} is not an array")


def test_hdf5_of_another_library(tmp_path: Path) -> None:
    h5py: Any = pytest.importorskip("h5py", reason="h5py is not installed: axonrl[minari]")
    for names, told in ((("observations", "timeouts"), "there is observations, timeouts"), ((), "there is nothing")):
        with h5py.File(tmp_path / "d4rl.hdf5", "w") as file:
            for name in names:
                file[name] = np.zeros(3)
        raised(ArgumentError, read, tmp_path / "d4rl.hdf5", match=rf"d4rl\.hdf5: no episode of Minari, .*{told}")


@pytest.mark.parametrize("kept", [{}, {"subspaces": {"where": {"type": "Dict"}}}])
def test_minari_whose_metadata_lack_a_space(tmp_path: Path, kept: Any) -> None:
    written_by_hand(tmp_path)
    (tmp_path / "metadata.json").write_text(json.dumps({"observation_space": json.dumps({"type": "Dict", **kept})}))
    with pytest.raises(ArgumentError, match="its observation space is"):
        read(tmp_path, Dict({"where": Tuple([Discrete(2)])}))


def test_minari_without_minari(tmp_path: Path) -> None:
    written_by_hand(tmp_path)
    raised(
        ArgumentError,
        read,
        tmp_path,
        match="episode 0: it has 2 timesteps, but is terminated or truncated at timestep 0 already",
    )
