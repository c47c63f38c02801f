"""Tables of the modules allowed in each place of an agent's specification."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ...common.specs.argument_checks import by_name, flag, one_of, or_false, or_none
from ...common.specs.tables import Argument, Entry
from ..spaces.errors import refuse
from .layer_tables import LAYERS
from .optimizer_tables import BASELINE_OPTIMIZERS, OPTIMIZERS
from .table_checks import EPISODE, IGNORED, SpecTable, fed_argument, frequency, integer, parameter


def _of_user_network(where: str, spec: Any) -> tuple[str, dict[str, Any]]:
    problem = "cannot be a class of your own: use a list of layers, among them dict(type='function', function=...)"
    refuse(where, f"{problem} or dict(type='keras', layer=...)", spec)


def _final_size(_: str, values: dict[str, Any]) -> dict[str, Any]:
    return {**values, "final_size": values["size"] if values["final_size"] is None else values["final_size"]}


NETWORKS: Final = SpecTable(
    "network",
    {
        "auto": Entry(
            (
                Argument("size", 64, integer(1)),
                Argument("depth", 2, integer(0)),
                Argument("final_size", None, or_none(integer(1))),
                Argument("final_depth", 1, integer(0)),
                Argument("internal_rnn", False, or_false(integer(1))),
            ),
            finish=_final_size,
            classes=("AutoNetwork",),
        ),
        "layered": Entry((Argument("layers", module="layer", collected=list),), classes=("LayeredNetwork",)),
    },
    default="layered",
    alone="a list of layers",
    aliases={"custom": "layered"},
    ignored=IGNORED,
    from_callable=_of_user_network,
)

DISTRIBUTIONS: Final = SpecTable(
    "distribution",
    {
        "bernoulli": Entry(),
        "categorical": Entry((Argument("advantage_based", False, flag),)),
        "gaussian": Entry(),
        "beta": Entry(),
    },
    ignored=IGNORED,
)

_CAPACITY: Final = Entry((Argument("capacity", None, or_none(integer(1))),))
MEMORIES: Final = SpecTable(
    "memory", {"recent": _CAPACITY, "replay": _CAPACITY}, default="replay", alone="a capacity", ignored=IGNORED
)

UPDATES: Final = SpecTable(
    "update",
    {
        "update": Entry(
            (
                Argument("batch_size", check=integer(1)),
                Argument("unit", check=one_of("timesteps", "episodes")),
                Argument("frequency", None, frequency),
                Argument("start", 0, parameter(at_least=0, is_whole=True)),
            ),
            finish=lambda _, values: {
                **values,
                "frequency": values["batch_size"] if values["frequency"] is None else values["frequency"],
            },
        )
    },
    default="update",
    alone="a batch size",
    bare={"unit": "timesteps"},
    typed=False,
)
"""A bare number is a batch of timesteps."""

_EARLY_REDUCE: Final = Argument("early_reduce", True, flag)

OBJECTIVES: Final = SpecTable(
    "objective",
    {
        "policy_gradient": Entry(
            (
                Argument("ratio_based", False, flag),
                fed_argument("clipping_value", 0.0, parameter(at_least=0)),
                _EARLY_REDUCE,
            )
        ),
        "value": Entry(
            (
                Argument("value", "state", one_of("state", "action")),
                fed_argument("huber_loss", 0.0, parameter(at_least=0)),
                _EARLY_REDUCE,
            )
        ),
        "deterministic_policy_gradient": Entry(),
        "plus": Entry((Argument("objective1", module="objective"), Argument("objective2", module="objective"))),
    },
    refused={
        "state_value": "use dict(type='value', value='state')",
        "action_value": "use dict(type='value', value='action')",
    },
    ignored=IGNORED,
)

_HORIZON: Final = parameter(at_least=0, is_whole=True, words=(EPISODE,))
_ESTIMATE: Final = or_none(or_false(one_of("early", "late")))
REWARD_ESTIMATIONS: Final = SpecTable(
    "reward estimation",
    {
        "reward_estimation": Entry(
            (
                Argument("horizon", check=_HORIZON),
                Argument("discount", 1.0, parameter(at_least=0, at_most=1)),
                Argument("estimate_horizon", None, _ESTIMATE),
                Argument("estimate_actions", False, flag),
                Argument("estimate_terminal", False, flag),
                Argument("estimate_advantage", None, or_none(flag)),
            )
        )
    },
    default="reward_estimation",
    typed=False,
)
"""``estimate_horizon`` and ``estimate_advantage`` None: not given, depend on the baseline."""


def _infer_state_value(where: str, value: Any) -> Any:
    if value == "distribution":
        refuse(where, "cannot be 'distribution': use 'action-values', or False for a state value of its own", value)
    return or_false(one_of("action-values"))(where, value)


POLICIES: Final = SpecTable(
    "policy",
    {
        "parametrized_distributions": Entry(
            (
                Argument("network", "auto", module="network"),
                Argument("distributions", None, module="distribution", collected=dict),
                Argument("temperature", None, or_none(by_name(parameter(at_least=0)))),
                Argument("use_beta_distribution", True, flag),
                Argument("infer_state_value", False, _infer_state_value),
            )
        )
    },
    default="parametrized_distributions",
    alone="a list of layers",
    aliases={"default": "parametrized_distributions"},
    refused=dict.fromkeys(("auto", "layered", "custom"), "it is a network: use policy=dict(network=dict(type=...))"),
    ignored=IGNORED,
    bare_names=lambda name: name in {"auto", "layered", "custom"},
    from_callable=_of_user_network,
)
"""``temperature`` None: not given, depends on the objective."""

TABLES: Final[Mapping[str, SpecTable]] = {
    "layer": LAYERS,
    "network": NETWORKS,
    "distribution": DISTRIBUTIONS,
    "memory": MEMORIES,
    "update": UPDATES,
    "optimizer": OPTIMIZERS,
    "baseline_optimizer": BASELINE_OPTIMIZERS,
    "objective": OBJECTIVES,
    "reward_estimation": REWARD_ESTIMATIONS,
    "policy": POLICIES,
}
"""Tables by name."""
