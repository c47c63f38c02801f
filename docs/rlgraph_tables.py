"""Tables of what RLgraph's interface takes, from the data in its ``forms/``.

Each function returns the head and the rows of one; ``generate.py`` writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ..compat.common.specs.tables import ABSENT, REQUIRED, Argument
from ..compat.rlgraph.processing.preprocessors import TAKES
from ..compat.rlgraph.specs.agent_tables import TABLES as SPEC_TABLES
from ..compat.rlgraph.specs.agents import AGENTS
from .tables import Table, by_default, code, defaults, listed, named, refused, users

MEANINGS: Final = {
    "state_space": "a Space, its specification, or one of Gymnasium's",
    "action_space": "likewise",
    "discount": "of rewards",
    "preprocessing_spec": "a list of [steps](#preprocessing)",
    "network_spec": "a list of [layers](#layers)",
    "internal_states_space": "of recurrent networks; it follows from the network",
    "action_adapter_spec": "from the network's output to values: "
    "[below](#action-adapters)",
    "exploration_spec": "`epsilon_spec` or `noise_spec`: [below](#exploration)",
    "execution_spec": "`seed`; keys for devices and sessions have no effect",
    "optimizer_spec": "[below](#optimizers); `None`: `gradient_descent` with 1e-4",
    "observe_spec": "[below](#settings)",
    "update_spec": "likewise",
    "summary_spec": "likewise",
    "saver_spec": "likewise",
    "auto_build": "`False`: `build()` is to follow",
    "name": "of the agent",
    "memory_spec": "[below](#memories)",
    "double_q": "the policy selects the next action, the target values it; of sac "
    "two critics",
    "dueling_q": "a value and advantages; `action_adapter_spec` needs their units",
    "huber_loss": "of TD errors, instead of their square",
    "n_step": "timesteps of a record, in the place of `observe_spec['n_step']`",
    "store_last_memory_batch": "keep it in `last_memory_batch`",
    "store_last_q_table": "keep it in `last_q_table`",
    "value_function_spec": "layers of the values; of sac `None`: those of "
    "`network_spec`",
    "gae_lambda": "of generalised advantage estimation",
    "sample_episodes": "updates draw whole episodes, `batch_size` of them",
    "weight_entropy": "of the policy's entropy",
    "clip_ratio": "epsilon of the paper",
    "standardize_advantages": "to mean 0 and deviation 1",
    "value_function_clipping": "how far a value may go in an update; `None`: any",
    "initial_alpha": "the first weight of the entropy",
    "target_entropy": "in nats; `None`: minus the action's components",
    "type": "`single`, `actor` or `learner`",
    "environment_spec": "of environments that the agent steps itself",
    "num_workers": "environments",
    "worker_sample_size": "timesteps of an unroll",
    "fifo_queue_spec": "`capacity` of an actor's queue (1) or a learner's "
    "(one batch), or the queue of another agent; of type `single` no effect, "
    "with a warning",
    "architecture": "of image networks without `network_spec`: `small`, `large`",
    "weight_pg": "of the policy's loss; `None`: 1.0",
    "weight_baseline": "of the values' loss; `None`: 0.5",
    "dynamic_batching": "no effect, with a warning: acting is batched anyway",
    "feed_previous_action_through_nn": "of architectures: the last action joins",
    "feed_previous_reward_through_nn": "likewise the last reward",
    "reward_clipping": "in the loss: `None`, `clamp_one`, `soft_asymmetric`",
    "value_function_sync_spec": "`sync_tau=0.005`, of the target critics",
}
"""Of the agents' arguments."""


def agents() -> Table:
    """The agents, and their own arguments."""
    common = [set(arguments) for arguments in AGENTS.values()]
    shared = set.intersection(*common)
    rows = []
    for key, arguments in AGENTS.items():
        own = ", ".join(code(name) for name in arguments if name not in shared)
        rows.append((code(key), own or "none"))
    return ("type", "its own arguments"), rows


def arguments() -> Table:
    """Every argument of any agent: defaults, and what it means."""
    names = dict.fromkeys(
        name for arguments in reversed(list(AGENTS.values())) for name in arguments
    )
    rows = []
    for name in names:
        uses = {key: own[name] for key, own in AGENTS.items() if name in own}
        own_by = users(list(uses), AGENTS)
        rows.append((code(name), own_by, _defaults(uses), MEANINGS[name]))
    return ("argument", "agents", "default", "meaning"), rows


def modules(kind: str) -> Table:
    """What may stand in one place of a specification."""
    table = SPEC_TABLES[kind]
    rows = [
        (
            named(table, name),
            ", ".join(_written(one) for one in entry.arguments if _shown(one)),
        )
        for name, entry in table.entries.items()
    ]
    rows += refused(table)
    if not table.typed:
        return ("arguments",), [row[1:] for row in rows]
    return ("type", "arguments"), rows


def preprocessing() -> Table:
    """The steps of preprocessing."""
    rows = [(code(name), listed(takes)) for name, takes in TAKES.items()]
    return ("type", "arguments"), rows


TABLES: Final[Mapping[str, Callable[..., Table]]] = {
    f.__name__: f for f in (agents, arguments, modules, preprocessing)
}


def _defaults(uses: Mapping[str, Any]) -> str:
    found = by_default(uses.items())
    return "by agent" if len(found) == len(uses) > 2 else defaults(found)


def _shown(argument: Argument) -> bool:
    """Not the name that each layer may have, nor what is only refused."""
    return argument.name != "scope" and argument.default is not ABSENT


def _written(argument: Argument) -> str:
    names = "|".join((argument.name, *argument.aliases))
    if argument.default is REQUIRED:
        return f"**`{names}`**"
    return f"`{names}={argument.default!r}`"
