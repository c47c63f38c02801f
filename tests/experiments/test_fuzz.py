"""Mutated experiment files, and some that could take long: each is an experiment or errors with their places."""

from pathlib import Path

import pytest

from axonrl.benchmarks import experiment_fuzz as fuzz

FILES = 200
"""Of each kind of mutation; ``python -m axonrl.benchmarks.experiment_fuzz`` makes many more."""


@pytest.mark.parametrize("mutated", fuzz.MUTATIONS)
def test_a_mutated_file_is_an_experiment_or_errors(mutated: fuzz.Text, tmp_path: Path) -> None:
    fuzz.mutate(mutated, tmp_path, FILES)


def test_mutated_files_that_include_one_another(tmp_path: Path) -> None:
    fuzz.mutate_includes(tmp_path, FILES)


MINIMAL = "environment: {id: CartPole-v1}\nagent: {model_fn: dqn}\n"
MANY = range(4_900)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("train:\n" + "".join(f"  {'k' * 300}{i}: 1\n" for i in MANY), "unknown key"),
        ("hooks:\n" + "- 3\n" * 9_000, "must be a mapping"),
        ("params:\n" + "".join(f"  {'ab' * 90}{i}: 1\n" for i in MANY) + f"name: ${{{'ba' * 90}}}\n", "no param"),
        (f"params: {{a: {'x' * 10**6}}}\nname: {'${a}' * 500_000}\n", "more than 10000 characters with the values"),
        (f"params: {{a: 1}}\nname: {'${' * 10**6}\n", "'${' without '}'"),
        (f"seed: {'9' * 3 * 10**6}\n", "must fit into 64 bits"),
        (f"hooks: {'[' * 10**6}\n", "nested more than 32 levels deep"),
    ],
    ids=["keys", "items", "params", "bomb", "references", "digits", "nesting"],
)
def test_what_could_take_long(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "file.yml"
    file.write_text(MINIMAL + text)
    error = fuzz.outcome(file, {}, {})
    assert error is not None
    assert error.message.startswith(message)
    fuzz.check(error, tmp_path)
