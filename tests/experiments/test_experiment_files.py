"""Strict YAML: the values of the 1.2 core schema with their lines, or one error that says where."""

from pathlib import Path

import pytest

from axonrl.core.yaml_text import MAX_BYTES, MAX_DEPTH, MAX_VALUES, Place, scalar
from axonrl.experiments.config.files import Document, parse_value, read
from axonrl.experiments.errors import ExperimentError
from axonrl.tests.raising import raised


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "x.yml"


def fail(file: Path, content: bytes | str) -> ExperimentError:
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    caught = raised(ExperimentError, read, file)
    assert len(str(caught)) < 600
    return caught


def test_scalars() -> None:
    """Scalars of YAML 1.2: 1.1 says 8 for 010, 1000 for 1_000 and 750 for 12:30."""
    values = {
        **{"1e-4": 1e-4, ".5": 0.5, "+7": 7, "010": 10, "0o17": 15, "1_000": "1_000", "12:30": "12:30", "yes": "yes"},
        **{"true": True, "tRue": "tRue", "null": None, "": None, "-": "-", "2024-01-01": "2024-01-01"},
        **{"18446744073709551615": 2**64 - 1, "-9223372036854775808": -(2**63)},
    }
    found = {text: scalar(text) for text in values}
    assert [(text, type(value), value) for text, value in found.items()] == [
        (text, type(value), value) for text, value in values.items()
    ]


@pytest.mark.parametrize("text", [".nan", "1e999", "18446744073709551616", "9" * 5000])
def test_numbers_that_are_none(text: str) -> None:
    raised(ValueError, scalar, text, match=r"must be a finite number|must fit into 64 bits")


def test_values_and_their_lines(file: Path) -> None:
    file.write_text(
        "# comment\na: 1\nb:\n  c: '2'\n  d:\n    - x\n    - {e: 3.0, f: [true, ~]}\ng: |\n  two\n  lines\n",
        encoding="utf-8-sig",
    )
    document = read(file)
    assert document.values == {"a": 1, "b": {"c": "2", "d": ["x", {"e": 3.0, "f": [True, None]}]}, "g": "two\nlines\n"}
    lines = {path: place.line for path, place in document.places.items()}
    assert {place.source for place in document.places.values()} == {str(file)}
    assert lines == {
        **{(): 2, ("a",): 2, ("b",): 3, ("b", "c"): 4, ("b", "d"): 5, ("b", "d", 0): 6, ("b", "d", 1): 7, ("g",): 8},
        **{("b", "d", 1, "e"): 7, ("b", "d", 1, "f"): 7, ("b", "d", 1, "f", 0): 7, ("b", "d", 1, "f", 1): 7},
    }


@pytest.mark.parametrize(
    ("content", "line", "key", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, "a", "duplicate key, first on line 1"),
        ("a: !!float 1\n", 1, "a", "tags are not allowed, got 'tag:yaml.org,2002:float'"),
        ("1: 2\n", 1, "", "a key must be text, got 1"),
        ("- 1\n", 1, "", "must be a mapping of keys to values, got a list"),
        ("a: 1\n---\nb: 1\n", 2, "", "must be one document, got several"),
        ("", 1, "", "is empty"),
        ("a: 1\nb: [1, 2\n", 3, "b.1", "not valid YAML: while parsing a flow sequence"),
        ("a: {b: ${c}}\n", 1, "a.b", 'write "${name}" with its quotes'),
        ("a:\n\tb: 1\n", 2, "a", "a tab in the indentation, in column 1"),
        ("a:\n  b: 1\n  \tc: 2\n", 3, "a.b", "a tab in the indentation, in column 3"),
        ("a: 1\nb: \0\n", 2, "", "not valid YAML: control characters are not allowed"),
        (b"a: 1\nb: \xff\n", 2, "", "must be UTF-8 text, got byte 0xff at offset 8"),
    ],
)
def test_one_error_with_line_and_key(file: Path, content: bytes | str, line: int, key: str, message: str) -> None:
    error = fail(file, content)
    assert (error.file, error.line, error.key) == (str(file), line, key)
    assert message in error.message
    assert str(error).startswith(f"{file}:{line}: {key}")


def test_the_depth_that_is_allowed(file: Path) -> None:
    file.write_text("a: " + "[" * (MAX_DEPTH - 1) + "1" + "]" * (MAX_DEPTH - 1))
    assert len(read(file).places) == MAX_DEPTH + 1
    error = fail(file, "a: " + "[" * MAX_DEPTH + "1" + "]" * MAX_DEPTH)
    assert (error.line, error.message) == (1, f"nested more than {MAX_DEPTH} levels deep")


@pytest.mark.parametrize("text", ["  " + "[" * 2**20, "  " + "- " * 2**19, "? " + "k" * 2**20 + "\n: &x 1"])
def test_a_megabyte_of_nesting_or_of_one_key(file: Path, text: str) -> None:
    error = fail(file, f"a: 1\nb:\n{text}")
    assert error.line is not None
    assert error.line >= 2


def test_too_many_values_and_too_many_bytes(file: Path) -> None:
    error = fail(file, "".join(f"k{i}: 1\n" for i in range(MAX_VALUES)))
    assert error.line == MAX_VALUES // 2
    assert error.message == f"more than {MAX_VALUES} values, the most an experiment may have"
    assert f"larger than {MAX_BYTES} bytes" in fail(file, "#" * (MAX_BYTES + 1)).message


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for path, reason in ((tmp_path, "is a folder"), (tmp_path / "none.yml", "does not exist")):
        caught = raised(ExperimentError, read, path, match=f"the file {reason}")
        assert (caught.file, caught.line) == (str(path), None)


def test_values_from_the_command_line() -> None:
    assert parse_value("1e-3", "--set a=1e-3", ("a",)) == 1e-3
    assert parse_value("[1, {b: x}]", "--set", ("a",)) == [1, {"b": "x"}]
    assert parse_value("", "--set", ("a",)) is None
    caught = raised(ExperimentError, parse_value, "{b: .nan}", "--set a={b: .nan}", ("a",))
    assert str(caught) == "--set a={b: .nan}: a.b: must be a finite number, got .nan"


def test_a_document_finds_the_nearest_line_and_name() -> None:
    document = Document("x.yml", {}, {(): Place("x.yml", 1), ("a",): Place("y.yml", 4), ("b",): Place("--set b=1")})
    error = document.error(("a", "optimiser"), "unknown key", name="optimiser", choices=["optimizer", "loss"])
    assert str(error) == "y.yml:4: a.optimiser: unknown key; did you mean 'optimizer'?"
    assert error.nearest == "optimizer"
    assert str(document.error(("b", "c"), "is wrong")) == "--set b=1: b.c: is wrong"
    assert str(document.error(("z",), "is wrong", name="z", choices=["a"])) == "x.yml:1: z: is wrong"
    document = Document("x.yml", {"a": {"b": 1}, "c": [{"d": 2}]}, {("a", "b"): Place("x.yml", 4)})
    assert str(document.error(("a", 0, "b"), "is wrong")) == "x.yml:4: a.b: is wrong"  # an item without its list
    assert document.error(("c", 0, "d"), "is wrong").key == "c.0.d"
    assert document.error(("z", 0, "d"), "is wrong").key == "z.d"
