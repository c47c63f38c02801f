"""What a call is refused with."""

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

Error = TypeVar("Error", bound=Exception)


def raised(kind: type[Error], call: Callable[..., object], *given: Any, **named: Any) -> Error:
    with pytest.raises(kind) as error:
        call(*given, **named)
    return error.value
