import math
from typing import Any

import pytest

from axonrl.errors import NonFiniteError
from axonrl.facts import UpdateFacts
from axonrl.hooks import NaNGuard
from axonrl.tests.raising import raised


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        (UpdateFacts(math.nan, {}), "the loss is nan at global_step 12, global_timestep 345"),
        (
            UpdateFacts(math.inf, {"v": 1.0, "q": -math.inf}),
            "the loss is inf, the metric 'q' is -inf at global_step 12, global_timestep 345",
        ),
        (
            UpdateFacts(1.0, {"q": 1.0, "entropy": math.inf}),
            "the metric 'entropy' is inf at global_step 12, global_timestep 345",
        ),
    ],
)
def test_it_names_what_is_not_finite_and_when(session: Any, facts: UpdateFacts, message: str) -> None:
    session.global_step, session.global_timestep = 12, 345
    assert str(raised(NonFiniteError, NaNGuard().after_update, session, facts)) == message


def test_finite_numbers_pass(session: Any) -> None:
    NaNGuard().after_update(session, UpdateFacts(1e300, {"q": -0.0}))
    NaNGuard().after_update(session, UpdateFacts(1e308, {"q": 1e308}))  # whatever their sum is
    assert session.stop_reason is None
