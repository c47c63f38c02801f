"""What a call is refused with."""

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

Error = TypeVar("Error", bound=BaseException)


def raised(
    kind: type[Error], call: Callable[..., object], *given: Any, match: str | None = None, **named: Any
) -> Error:
    with pytest.raises(kind, match=match) as error:
        call(*given, **named)
    return error.value
