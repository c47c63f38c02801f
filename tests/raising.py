"""What a call is refused with, and code of a user's own that fails."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

Error = TypeVar("Error", bound=BaseException)


def raised(
    kind: type[Error], call: Callable[..., object], *given: Any, match: str | None = None, **named: Any
) -> Error:
    with pytest.raises(kind, match=match) as error:
        call(*given, **named)
    return error.value


def users_module(folder: Path, code: str) -> Any:
    """What a user's module ``own.py`` in a folder has, none of which is axonrl's."""
    file = folder / "own.py"
    file.write_text(code, encoding="utf-8")
    names: dict[str, Any] = {}
    exec(compile(code, str(file), "exec"), names)
    return SimpleNamespace(**names)
