"""Tables of the arguments of Tensorforce's interface, from data in ``specs/``.

Each function returns a table's head and rows; ``generate.py`` writes them.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from ..compat.common.specs.tables import (
    ABSENT,
    REQUIRED,
    Argument,
    Entry,
    SpecTable,
)
from ..compat.tensorforce.processing.parameters import DECAYS
from ..compat.tensorforce.processing.preprocessors import LAYERS, MAKERS
from ..compat.tensorforce.specs.agent_tables import TABLES as SPEC_TABLES
from ..compat.tensorforce.specs.arguments import (
    _FROM_06,
    AGENTS,
    IGNORED,
)
from ..compat.tensorforce.specs.table_checks import PARAMETERS
from ..core.errors import ArgumentError
from .tables import (
    Table,
    all_names,
    argument_list,
    by_default,
    code,
    defaults,
    refused_names,
    users,
)

MEANINGS: Final = {
    "states": "specification of the states; default: the `environment`'s",
    "actions": "specification of the actions; default: the `environment`'s",
    "max_episode_timesteps": "most timesteps of an episode; default: the "
    "`environment`'s limit",
    "update": "when updates run, and on how much: [below](#update)",
    "objective": "[below](#objective)",
    "reward_estimation": "[below](#reward-estimation)",
    "policy": "[below](#policy)",
    "memory": "capacity in timesteps; `None`: what an update needs; of the "
    "generic agent a [module](#memory)",
    "optimizer": "[below](#optimizer)",
    "baseline_policy": "a policy that estimates values; `None`: the policy itself",
    "baseline_optimizer": "an optimizer, or the weight of the baseline's loss in "
    "the policy's",
    "baseline_objective": "objective of the baseline: [below](#objective)",
    "batch_size": "batch of an update: episodes for ppo, vpg and trpo, else "
    "timesteps",
    "network": "network of the policy: [below](#network)",
    "use_beta_distribution": "beta instead of Gaussian distributions for float "
    "actions with bounds",
    "update_frequency": "timesteps or episodes between updates, or `'never'`; "
    "`None`: `batch_size`",
    "start_updating": "timesteps before the first update",
    "learning_rate": "learning rate of Adam; for trpo the KL divergence of an "
    "update",
    "subsampling_fraction": "fraction of the timesteps used by each step of an "
    "update",
    "optimization_steps": "optimizer steps per update",
    "likelihood_ratio_clipping": "c: the ratio is clipped to 1 / (1 + c) .. 1 + "
    "c; 0: no clipping",
    "huber_loss": "error above which the loss is linear; 0: never",
    "horizon": "how many timesteps ahead rewards are summed, or `'episode'`: to "
    "its end; then a value is added",
    "discount": "discount factor of rewards",
    "state_action_value": "whether the critic values actions instead of states",
    "estimate_terminal": "whether a value is also added at the end of an episode",
    "critic_network": "network of the critic; `None`: no critic",
    "critic_optimizer": "an optimizer, or the weight of the critic's loss in the "
    "policy's",
    "baseline_network": "network of the baseline; `None`: no baseline",
    "target_sync_frequency": "updates between target network updates",
    "target_update_weight": "the policy's weight in a target network update; 1: a "
    "copy",
    "preprocessing": "layers by name or type of states, or `reward`: "
    "[below](#preprocessing)",
    "exploration": "for all actions, or by action: probability of a uniform "
    "action; for floats the standard deviation of noise",
    "variable_noise": "standard deviation of noise on the weights when acting",
    "l2_regularization": "weight of the sum of squares of trained variables",
    "entropy_regularization": "weight of the entropy bonus in the loss",
    "name": "default name of saved files",
    "parallel_interactions": "number of parallel episodes; above 1 only if "
    "updates count episodes, or the agent does not learn",
    "seed": "seed of all random draws; `None`: a new one each time",
    "saver": "`directory`, `filename`, `frequency=600` (seconds), `load=True`, "
    "`max-checkpoints=5`",
    "summarizer": "`directory`, `labels`, `frequency`, `flush=10`, "
    "`max-summaries=5`, `custom`",
    "recorder": "`directory`, `frequency=1`, `start=0`, `max-traces`",
    "action_values": "by action; `None`: the first legal value, False, 0, or the "
    "middle of the bounds",
}
"""Meanings of the agents' arguments, except those without effect."""

_NO_EFFECT: Final = "no effect, with a warning"
_SCHEDULE: Final = {"type": "decaying", "unit": "timesteps", "decay": "linear"}
_MARK: Final = " †"
"""Marks arguments that take a schedule."""
_SHARED: Final = ("preprocessing", "name")
"""First of the arguments shared by learning agents, and by all agents."""


def agents() -> Table:
    """The agents, their names, and their own arguments in order."""
    rows = []
    for key, kind in AGENTS.items():
        names = ", ".join(map(code, kind.classes))
        own = ", ".join(code(argument.name) for argument in _own_arguments(kind))
        rows.append((code(key), names, own))
    return ("agent", "other names", "its own arguments, in order"), rows


def arguments() -> Table:
    """Every argument of any agent, with its defaults and meaning."""
    found: dict[str, list[tuple[str, Argument]]] = {}
    # Shared arguments come last.
    for of_kind in (_own_arguments, lambda kind: kind.arguments):
        for key, kind in AGENTS.items():
            for argument in of_kind(kind):
                uses = found.setdefault(argument.name, [])
                if (key, argument) not in uses:
                    uses.append((key, argument))
    rows = []
    for name, uses in found.items():
        mark = _MARK if any(_may_change(argument) for _, argument in uses) else ""
        meaning = _NO_EFFECT if name in IGNORED else MEANINGS[name]
        values = by_default((key, argument.default) for key, argument in uses)
        rows.append((code(name) + mark, _agents(uses), defaults(values), meaning))
    return ("argument", "agents", "default", "meaning"), rows


def names_of_06() -> Table:
    """Names of Tensorforce 0.6 that are refused."""
    critics = "`critic_network`, `baseline_network` or `baseline_policy`, by agent"
    known = {one.name for kind in AGENTS.values() for one in kind.arguments}
    rows = []
    for name, ours in _FROM_06.items():
        written = (
            f"`{ours}`" if ours in known else f"`{ours}` of `reward_estimation`"
        )
        if not ours:
            written = critics if name in ("baseline", "critic") else "no equivalent"
        rows.append((f"`{name}`", written))
    return ("Tensorforce 0.6", "here"), rows


def modules(kind: str) -> Table:
    """Modules accepted in one place of a specification."""
    table = PARAMETERS if kind == "parameter" else SPEC_TABLES[kind]
    rows = [_module(table, name, entry) for name, entry in table.entries.items()]
    if table.ignored:
        rows.append(
            ("of any", f"{', '.join(map(code, table.ignored))}: {_NO_EFFECT}")
        )
    rows += refused_names(table)
    if not table.typed:
        return ("arguments",), [row[1:] for row in rows]
    return ("type", "arguments"), rows


def baseline_optimizers() -> Table:
    """Optimizers that only baselines may have."""
    own = SPEC_TABLES["baseline_optimizer"]
    names = own.entries.keys() - SPEC_TABLES["optimizer"].entries.keys()
    rows = [_module(own, name, own.entries[name]) for name in sorted(names)]
    return ("type", "arguments"), rows


def preprocessing() -> Table:
    """The layers of preprocessing."""
    rows = [
        (code(name), argument_list(LAYERS.entries[name].arguments), _line(maker))
        for name, maker in MAKERS.items()
    ]
    return ("type", "arguments", "what it returns"), rows


def decays() -> Table:
    """The decays of parameters."""
    rows = []
    for name, decay in DECAYS.items():
        line = "A straight line to `final_value`."
        meaning = line if name == "linear" else _line(decay.value)
        rows.append((code(name), argument_list(decay.takes), meaning))
    return ("decay", "arguments", "value"), rows


TABLES: Final[Mapping[str, Callable[..., Table]]] = {
    f.__name__: f
    for f in (
        *(agents, arguments, names_of_06, modules),
        *(baseline_optimizers, preprocessing, decays),
    )
}


def _own_arguments(kind: Entry) -> Iterator[Argument]:
    """The arguments of an agent before the shared ones."""
    return itertools.takewhile(lambda one: one.name not in _SHARED, kind.arguments)


def _line(documented: Any) -> str:
    """The first line of a docstring, as Markdown."""
    return (inspect.getdoc(documented) or "").partition("\n")[0].replace("``", "`")


def _agents(uses: Sequence[tuple[str, Argument]]) -> str:
    keys = [key for key, _ in uses]
    if AGENTS.keys() - keys == {"constant", "random"}:
        return "all that learn"
    return users(keys, AGENTS)


def _module(table: SpecTable, name: str, entry: Entry) -> tuple[str, str]:
    written = all_names(table, name)
    if table.typed and table.default == name:
        written += " (default)"
    own = ", ".join(
        _argument_cell(one) for one in entry.arguments if not _is_name(one)
    )
    rest = "those of its own" if entry.open else ""
    return written, ", ".join(filter(None, (own, rest)))


def _is_name(argument: Argument) -> bool:
    """The name that every layer may have."""
    return argument.name == "name" and argument.default is ABSENT


def _argument_cell(argument: Argument) -> str:
    """An argument: bold if required; without a value if its default is Keras'."""
    mark = _MARK if argument.fed or _may_change(argument) else ""
    if argument.default is REQUIRED:
        return f"**`{argument.name}`**{mark}"
    default = "" if argument.default is ABSENT else f"={argument.default!r}"
    return f"`{argument.name}{default}`{mark}"


def _may_change(argument: Argument) -> bool:
    """Does it take a schedule instead of a number?"""
    if argument.check is None:
        return False
    try:
        taken = argument.check(argument.name, dict(_SCHEDULE))
    except ArgumentError:
        return False
    return isinstance(taken, Mapping)
