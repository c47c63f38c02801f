"""Mutated experiment files: each is an experiment or errors with their places, in less than a second.

``python -m axonrl.benchmarks.experiment_fuzz [--files N]`` makes so many of each kind; the tests make some. 10,000 find
rare ones.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import yaml

from ..core.yaml_text import to_yaml
from ..experiments.config.schema import load
from ..experiments.config.shipped import shipped
from ..experiments.errors import MAX_SHOWN, ExperimentError

SECONDS: Final = 1.0
"""CPU time that one file may take."""

TOKENS: Final = [
    *("&a", "*a", "!!python/object/apply:os.system [ls]", "!x", "<<", "<<: *a", "---", "...", "%YAML 9.9", "%TAG ! x"),
    *("{", "}", "[", "]", ",", ":", ": ", "- ", "? ", "|", ">-", "'", '"', "#", "\\", "`", "@", "\t", "\r", "\x00"),
    *("${", "}", "${}", "${x}", "${learning_rate}", "${ learning_rate }", "${learning_rate", "$${a}", "${${a}}"),
    *("\n", "\n  ", "\n     "),
    *("1e999", "-1e999", ".nan", "-.inf", "1e-400", "0x", "0o9", "0b1", "9" * 400, "1_000", "-", "+", ".", "01", "1e3"),
    *("null", "~", "true", "True", "yes", "NaN", "inf", "{}", "[]", "''", "2024-01-01", "12:30:00", "=", "!"),
    *("\u202e", "\ufeff", "\U0001f680", "\u00e9", "e\u0301", "\u2028", "\x85", "\x7f", "\x1b[31m", "\ud7ff", "名前"),
    *("include", "include: x.yml", "params", "tracker", "token", "submit", "kind", "type", "default", "name", "seed"),
]
VALUES: Final[list[Any]] = [
    *(None, True, False, 0, -1, 1, 2**63 - 1, 2**63, 2**64, -(2**63), 10**300, 0.5, -0.0, 1e308, 5e-324),
    *("", " ", "a", "x" * 5_000, "${learning_rate}", "${nothing}", "${", "dqn", "a:b", ":", "..", "a/b", "1e-4", "\0"),
    *("https://example.com", "http://u:p@h", "http://[", "http://:80", "//", "\ud800", "\U0001f680", "no", "é"),
    *([], [[]], {}, [None], ["${learning_rate}"], {"kind": None}, {"kind": "replay"}, {"": {}}, {"a.b": 1}, [1] * 200),
    *({"type": "int", "default": "x"}, {"type": "str", "default": "${a}"}, {"token": "secret"}, {"include": "x.yml"}),
]
KEYS: Final = [
    *("", "kind", "type", "default", "params", "token", "host", "project", "include", ".", "a.b", "seed", "matrix"),
    *("x" * 300, "\U0001f680", "true", "1", "null", "<<", "=", "a b", "${learning_rate}", "__class__", "model_config"),
]
SETS: Final = [
    "train.max_steps",
    "hooks.0",
    "hooks.99",
    "agent",
    "agent.params.a.b",
    "",
    ".",
    "seed.x",
    "tracker",
    "params.x",
]

Text = Callable[[random.Random, str], "str | bytes"]


def mutated_bytes(rng: random.Random, text: str) -> bytes:
    data = bytearray(text.encode())
    for _ in range(rng.randint(1, 6)):
        at, length = rng.randrange(len(data) + 1), rng.randint(1, 8)
        kind = rng.randrange(5)
        if kind == 0:
            data[at : at + length] = rng.randbytes(length)
        elif kind == 1:
            data[at:at] = rng.randbytes(length)
        elif kind == 2:
            del data[at : at + length]
        elif kind == 3:
            data[at:at] = data[: rng.randint(0, 200)]
        else:
            del data[at:]
    return bytes(data)


def mutated_tokens(rng: random.Random, text: str) -> str:
    tokens = re.split(r"(\W)", text)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(tokens))
        tokens[at : at + rng.randint(0, 2)] = [rng.choice(TOKENS)] * (rng.choice([1, 1, 1, 1, 2, 300]))
    return "".join(tokens)


def mutated_structure(rng: random.Random, text: str) -> str:
    values = yaml.safe_load(text)
    for _ in range(rng.randint(1, 3)):
        _change(rng, values)
    if rng.random() < 0.05:
        for _ in range(rng.choice([5, 31, 100])):
            values = {"agent": values} if rng.random() < 0.5 else {"hooks": [values]}
    written = json.dumps(values) if rng.random() < 0.5 else yaml.dump(values, Dumper=_Dumper, allow_unicode=True)
    return str(written)


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _change(rng: random.Random, values: Any) -> None:
    """Anything may become anything, at any depth; now and then something of the optional sections is added."""
    node = values
    while isinstance(node, dict | list) and node:
        key: Any = rng.choice(list(node) if isinstance(node, dict) else range(len(node)))
        inner = node[key]
        if not isinstance(inner, dict | list) or not inner or rng.random() < 0.3:
            break
        node = inner
    else:
        return
    kind = rng.randrange(6)
    if kind == 0 or not isinstance(node, dict):
        node[key] = rng.choice(VALUES)
    elif kind == 1:
        node[rng.choice(KEYS)] = node.pop(key)
    elif kind == 2:
        node[rng.choice(KEYS)] = rng.choice(VALUES)
    elif kind == 3:
        node[key] = rng.choice([[node[key]], {"kind": node[key]}, str(node[key]), [node[key]] * 3])
    elif kind == 4:
        del node[key]
    else:
        values[rng.choice(["tracker", "submit", "include", "params", "config", "evaluate", "train"])] = {
            rng.choice(KEYS): rng.choice(VALUES) for _ in range(rng.randint(1, 3))
        }


def outcome(file: Path, params: dict[str, str], sets: dict[str, str]) -> ExperimentError | None:
    began = time.thread_time()
    try:
        experiment, _ = load(file, params, sets)
    except ExperimentError as error:
        found: ExperimentError | None = error
    else:
        found = None
        again = file.with_name("again.yml")
        again.write_text(to_yaml(experiment.model_dump()), encoding="utf-8")
        assert load(again)[0] == experiment
    assert time.thread_time() - began < SECONDS
    return found


def options(rng: random.Random) -> tuple[dict[str, str], dict[str, str]]:
    if rng.random() < 0.9:
        return {}, {}
    params = {rng.choice(["learning_rate", "max_timesteps", "x", ""]): rng.choice(TOKENS) for _ in range(1)}
    return params, {rng.choice(SETS): rng.choice(TOKENS)}


def check(found: ExperimentError | None, folder: Path) -> None:
    if found is not None:
        assert len(found.errors) <= MAX_SHOWN
        for error in found.errors:
            check_one(error, folder)


def check_one(error: ExperimentError, folder: Path) -> None:
    assert error.message
    assert len(str(error)) < 3_000
    if error.line is None:
        assert error.file.startswith(("--set ", "-P "))
        return
    file = Path(error.file)
    assert file.parent == folder
    assert 1 <= error.line <= 1 + len(re.split(rb"\r\n|\r|\n|\xc2\x85|\xe2\x80[\xa8\xa9]", file.read_bytes()))
    assert str(error).startswith(f"{error.file}:{error.line}: ")
    assert str(error).isprintable()
    assert error.key or re.match(
        "not valid YAML|must be|is empty|a key must|more than|nested|anchors|tags|with", error.message
    )


def mutate(mutated: Text, folder: Path, files: int) -> None:
    """Read so many files of a kind; some of them are experiments, and some are not."""
    rng = random.Random(f"axonrl {mutated.__name__}")
    texts = [path.read_text() for path in shipped().values()]
    outcomes: list[ExperimentError | None] = []
    for _ in range(files):
        content = mutated(rng, rng.choice(texts))
        file = folder / "file.yml"
        file.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
        outcomes.append(outcome(file, *options(rng)))
        check(outcomes[-1], folder)
    assert 0 < sum(found is None for found in outcomes) < len(outcomes)


def mutate_includes(folder: Path, files: int) -> None:
    """Read so many files that include one another."""
    rng = random.Random("axonrl include")
    texts = [path.read_text() for path in shipped().values()]
    names = ["file.yml", "a.yml", "b.yml", "none.yml", ".", "", "x/../a.yml", "\0", "n" * 300, "../a.yml"]
    outcomes = []
    for _ in range(files):
        for name in names[:3]:
            chosen = [
                rng.choice(names) if rng.random() < 0.3 else rng.choice(names[1:3]) for _ in range(rng.randint(1, 3))
            ]
            included = json.dumps(rng.choice([chosen, chosen[0], chosen[0], rng.choice(VALUES)]))
            text = rng.choice(texts) if rng.random() < 0.6 else mutated_tokens(rng, rng.choice(texts))
            line = f"include: {included}\n" if name == "file.yml" or rng.random() < 0.3 else ""
            (folder / name).write_bytes((line + text).encode("utf-8", "surrogatepass"))
        outcomes.append(outcome(folder / "file.yml", *options(rng)))
        check(outcomes[-1], folder)
    assert 0 < sum(found is None for found in outcomes) < len(outcomes)
    assert {Path(found.file).name for found in outcomes if found is not None and found.line} == set(names[:3])


MUTATIONS: Final[tuple[Text, ...]] = (mutated_bytes, mutated_tokens, mutated_structure)


def main() -> None:
    parser = argparse.ArgumentParser(description="Reads mutated experiment files.")
    parser.add_argument("--files", type=int, default=10_000, help="of each kind")
    files = parser.parse_args().files
    with tempfile.TemporaryDirectory() as folder:
        for mutated in MUTATIONS:
            mutate(mutated, Path(folder), files)
        mutate_includes(Path(folder), files)
    print(f"{files:,} files of each of {len(MUTATIONS) + 1} kinds: nothing is wrong.")


if __name__ == "__main__":
    main()
