"""Tables of the arguments of RLgraph's interface, from data in ``specs/``.

Each function returns a table's head and rows; ``generate.py`` writes them.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from ..compat.common.specs.argument_checks import Only
from ..compat.common.specs.tables import ABSENT, REQUIRED, Argument, SpecTable
from ..compat.rlgraph.environments import (
    GridWorld,
    OpenAIGymEnv,
    RandomEnv,
    SequentialVectorEnv,
)
from ..compat.rlgraph.execution import SingleThreadedWorker
from ..compat.rlgraph.processing.decays import make_decay
from ..compat.rlgraph.processing.preprocessing_steps import STEPS
from ..compat.rlgraph.specs.agent_tables import TABLES as SPEC_TABLES
from ..compat.rlgraph.specs.agents import AGENTS
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
    "state_space": "a Space, its specification, or one of Gymnasium's",
    "action_space": "a Space, its specification, or one of Gymnasium's",
    "discount": "discount factor of rewards",
    "preprocessing_spec": "a list of [steps](#preprocessing)",
    "network_spec": "a list of [layers](#layers)",
    "internal_states_space": "recurrent state, checked against the network; may "
    "be omitted",
    "action_adapter_spec": "layers between the network and the values or "
    "probabilities of actions: [below](#action-adapters)",
    "policy_spec": "`network_spec` and `action_adapter_spec` in one dictionary; "
    "for a `dueling-policy` also `units_state_value_stream`, and one dense layer "
    "as the adapter's `pre_network_spec`",
    "exploration_spec": "`epsilon_spec` or `noise_spec`: [below](#exploration)",
    "execution_spec": "`seed`; keys for devices and sessions have no effect",
    "optimizer_spec": "[below](#optimizers); `None`: `gradient_descent` with 1e-4",
    "observe_spec": "buffers of `observe`: [below](#settings)",
    "update_spec": "when updates run, and on how much: [below](#settings)",
    "summary_spec": "summaries for TensorBoard: [below](#settings)",
    "saver_spec": "periodic checkpoints: [below](#settings)",
    "auto_build": "`False`: call `build()` yourself",
    "name": "name of the agent",
    "memory_spec": "[below](#memories)",
    "double_q": "the policy selects the next action, the target network values "
    "it; sac: two critics, of which the smaller value counts",
    "dueling_q": "a value and advantages; `action_adapter_spec` needs their units",
    "huber_loss": "Huber loss of TD errors, instead of their square",
    "n_step": "rewards summed per record; same as `observe_spec['n_step']`",
    "store_last_memory_batch": "keep the last batch in `last_memory_batch`",
    "store_last_q_table": "keep the last batch's Q values in `last_q_table`",
    "value_function_spec": "layers of the value network; `None`: sac uses those "
    "of `network_spec`, actor_critic one unit on top of the policy's network",
    "gae_lambda": "lambda of generalised advantage estimation",
    "sample_episodes": "a batch is `batch_size` whole episodes, not records",
    "weight_entropy": "weight of the entropy in the loss; `None`: 0.00025",
    "clip_ratio": "clipping range of the probability ratio (the paper's epsilon)",
    "standardize_advantages": "scale advantages to mean 0 and standard deviation 1",
    "value_function_clipping": "how far an update may move a value; `None`: no "
    "limit",
    "initial_alpha": "initial entropy weight",
    "target_entropy": "in nats; `None`: minus the number of action components",
    "type": "role: `single`, `actor` or `learner`",
    "value_function_optimizer_spec": "optimizer of the value network; `None`: as "
    "`optimizer_spec`",
    "gumbel_softmax_temperature": "no effect, with a warning: actions are floats",
    "batch_apply": "no effect, with a warning: networks take every timestep anyway",
    "batch_apply_action_adapter": "no effect, with a warning: networks take every "
    "timestep anyway",
    "environment_spec": "environments that the agent steps itself",
    "num_workers": "number of environments",
    "worker_sample_size": "timesteps per unroll",
    "fifo_queue_spec": "`capacity` of an actor's queue (default 1) or a learner's "
    "(default one batch), or another agent's queue; type `single`: no effect, "
    "with a warning",
    "architecture": "network for images if `network_spec` is `None`: `small`, "
    "`large`",
    "weight_pg": "weight of the policy loss; `None`: 1.0",
    "weight_baseline": "weight of the value loss; `None`: 0.5",
    "dynamic_batching": "no effect, with a warning: acting is batched anyway",
    "feed_previous_action_through_nn": "feed the previous action to the lstm, if "
    "there is one",
    "feed_previous_reward_through_nn": "feed the previous reward to the lstm, if "
    "there is one",
    "reward_clipping": "of rewards in the loss: `None`, `clamp_one`, "
    "`soft_asymmetric`",
    "value_function_sync_spec": "`sync_tau=0.005`: Polyak averaging of the target "
    "critics",
}
"""Meanings of the agents' arguments."""


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
    """Every argument of any agent, with its defaults and meaning."""
    names = dict.fromkeys(
        name for arguments in reversed(list(AGENTS.values())) for name in arguments
    )
    rows = []
    for name in names:
        uses = {
            key: own[name].default for key, own in AGENTS.items() if name in own
        }
        own_by = users(list(uses), AGENTS)
        rows.append((code(name), own_by, _defaults(uses), MEANINGS[name]))
    return ("argument", "agents", "default", "meaning"), rows


def modules(kind: str) -> Table:
    """Modules accepted in one place of a specification."""
    table = SPEC_TABLES[kind]
    rows = [
        (
            all_names(table, name),
            ", ".join(
                _argument_cell(one) for one in entry.arguments if _is_listed(one)
            ),
        )
        for name, entry in table.entries.items()
    ]
    rows += refused_names(table)
    if not table.typed:
        return ("arguments",), [row[1:] for row in rows]
    return ("type", "arguments"), rows


def preprocessing() -> Table:
    """The steps of preprocessing."""
    rows = []
    for name, entry in STEPS.entries.items():
        takes = (one for one in entry.arguments if not isinstance(one.check, Only))
        rows.append((code(name), argument_list(takes)))
    return ("type", "arguments"), rows


def differences() -> Table:
    """Every argument that differs from 0.1.3, or that only one of the two has."""
    rows = []
    for group, classes in json.loads(THEIRS.read_text("utf-8")).items():
        for name, arguments in classes.items():
            own = _ours(group, name)
            for argument in dict.fromkeys((*arguments, *own)):
                theirs = _shown_default(arguments, argument)
                ours = own.get(argument, _NOT_TAKEN)
                if ours != theirs:
                    rows.append((code(name), code(argument), theirs, ours))
    return ("class", "argument", "0.1.3", "here"), rows


def _shown_default(arguments: Mapping[str, Any], name: str) -> str:
    if name not in arguments:
        return _NOT_TAKEN
    default = arguments[name]
    return default if default == "required" else code(repr(default))


def _ours(group: str, name: str) -> dict[str, str]:
    """The arguments that a class has here, with their defaults as shown."""
    if group == "agent":
        return _readable({key: one.default for key, one in AGENTS[name].items()})
    if group == "preprocessor":
        return _of_table(STEPS, name)
    if group == "decay":
        required = {"constant_value": REQUIRED} if name == "constant_decay" else {}
        made = make_decay(name, {"type": name, **dict.fromkeys(required, 0.0)})
        values = {key: one for key, one in made.spec.items() if key != "type"}
        return _readable({**values, **required})
    if group in ("environment", "worker"):
        found = inspect.signature(_CLASSES[name]).parameters.values()
        return _readable(
            {
                one.name: REQUIRED if one.default is one.empty else one.default
                for one in found
                if one.kind != one.VAR_KEYWORD
            }
        )
    return _of_table(SPEC_TABLES[group], name)


def _of_table(table: SpecTable, name: str) -> dict[str, str]:
    entry, found = table.entries[name], dict[str, str]()
    for one in entry.arguments:
        if one.name in ("scope", "next_states"):
            continue
        default = [] if one.name == "activation_params" else one.default
        shown = _readable({one.name: default})
        if isinstance(one.check, Only):
            shown = _just({one.name: one.check.accepted})
        found[_THEIR_NAMES.get((name, one.name), one.name)] = shown[one.name]
    ignored = {**entry.ignored, **table.ignored}
    components = ("scope", "backend")
    without = {key: one for key, one in ignored.items() if key not in components}
    return found | {
        key: f"{code(repr(one))}, no effect" for key, one in without.items()
    }


def _readable(defaults_of: Mapping[str, Any]) -> dict[str, str]:
    return {
        name: "required" if default is REQUIRED else code(repr(default))
        for name, default in defaults_of.items()
    }


def _just(values: Mapping[str, Any]) -> dict[str, str]:
    return {name: f"only {code(repr(value))}" for name, value in values.items()}


THEIRS: Final = Path(__file__).parent / "rlgraph_013.json"
"""Arguments of RLgraph 0.1.3 by group and class, with their defaults."""
_NOT_TAKEN: Final = "-"
_THEIR_NAMES: Final = {
    ("conv2d", "weights_spec"): "kernel_spec",
    ("rmsprop", "rho"): "decay",
}
_CLASSES: Final[Mapping[str, Any]] = {
    "openai": OpenAIGymEnv,
    "grid_world": GridWorld,
    "random_env": RandomEnv,
    "sequential_vector_env": SequentialVectorEnv,
    "SingleThreadedWorker": SingleThreadedWorker,
}

TABLES: Final[Mapping[str, Callable[..., Table]]] = {
    f.__name__: f for f in (agents, arguments, modules, preprocessing, differences)
}


def _defaults(uses: Mapping[str, Any]) -> str:
    found = by_default(uses.items())
    return "by agent" if len(found) == len(uses) > 2 else defaults(found)


def _is_listed(argument: Argument) -> bool:
    """Is it listed? Not a layer's name, nor what is only refused."""
    return argument.name != "scope" and argument.default is not ABSENT


def _argument_cell(argument: Argument) -> str:
    names = "|".join((argument.name, *argument.aliases))
    if argument.default is REQUIRED:
        return f"**`{names}`**"
    return f"`{names}={argument.default!r}`"
