"""Tables of the modules allowed in each place of an agent's specification, except layers."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, Final

from ....core.checks import shortened
from ...common.refusals import refuse, refuse_unknown
from ...common.specs.argument_checks import Only, flag, integer, one_of, or_none, real, text
from ...common.specs.files import JSON, YAML, is_file_name, read_file
from ...common.specs.modules import resolve
from ...common.specs.tables import ABSENT, Argument, Entry, SpecTable, without_case
from ..processing.decays import make_decay
from .layer_tables import INITIALIZERS, LAYERS, activation, biases, weights

SUFFIXES: Final = (*JSON, *YAML)
"""Suffixes of files with an agent's or a network's specification."""


def _learning_rate(where: str, value: Any) -> Any:
    """A number, or a decay as a dictionary in normal form."""
    decay = make_decay(where, value, at_least=0)
    return dict(decay.spec) if decay.constant is None else decay.constant


_RATE: Final = Argument("learning_rate", check=_learning_rate)
_CLIP: Final = (
    Argument("clip_grad_norm", None, or_none(real(above=0))),
    Argument("clip_grad_norm_global", None, or_none(real(above=0))),
)


def _optimizer(*arguments: Argument) -> Entry:
    return Entry((_RATE, *arguments, *_CLIP))


def _share(name: str, default: float, *aliases: str) -> Argument:
    return Argument(name, default, real(at_least=0, at_most=1), aliases=aliases)


_ADAM: Final = (
    _share("beta_1", 0.9, "beta1"),
    _share("beta_2", 0.999, "beta2"),
    Argument("epsilon", 1e-8, real(above=0)),
)

OPTIMIZERS: Final = SpecTable(
    "optimizer",
    {
        "adam": _optimizer(*_ADAM),
        "nadam": _optimizer(*_ADAM, Argument("schedule_decay", ABSENT, Only(0.004, "the schedule is Keras's"))),
        "adagrad": _optimizer(Argument("initial_accumulator_value", 0.1, real(at_least=0))),
        "adadelta": _optimizer(_share("rho", 0.95), Argument("epsilon", 1e-8, real(above=0))),
        "sgd": _optimizer(
            _share("momentum", 0.0), Argument("decay", 0.0, real(at_least=0)), Argument("nesterov", False, flag)
        ),
        "gradient_descent": _optimizer(),
        "rmsprop": _optimizer(
            _share("rho", 0.99, "decay"), _share("momentum", 0.0), Argument("epsilon", 0.1, real(above=0))
        ),
    },
    aliases={
        **{f"{name}_optimizer": name for name in ("adam", "nadam", "adagrad", "adadelta", "sgd", "rmsprop")},
        **{"gradient_descent_optimizer": "gradient_descent", "rms_prop": "rmsprop"},
    },
    refused={"horovod": "there is one learner: use the optimizer inside of it"},
    normalized=without_case,
    dotted=False,
    ignored={"scope": None},
)

_CAPACITY: Final = Argument("capacity", 1000, integer(1))
_NEXT_STATES: Final = "are always stored: omit it"


def _no_options(where: str, values: dict[str, Any]) -> dict[str, Any]:
    if values.pop("next_states", True) is not True:
        refuse(f"{where}['next_states']", _NEXT_STATES, False)
    return values


_OLD: Final = Argument("next_states", ABSENT, flag)
MEMORIES: Final = SpecTable(
    "memory",
    {
        "replay": Entry((_CAPACITY, _OLD), finish=_no_options),
        "prioritized_replay": Entry(
            (
                _CAPACITY,
                Argument("alpha", 1.0, real(at_least=0, at_most=1)),
                Argument("beta", 0.0, real(at_least=0, at_most=1)),
                _OLD,
            ),
            finish=_no_options,
        ),
        "ring_buffer": Entry((_CAPACITY, Argument("episode_semantics", False, flag), _OLD), finish=_no_options),
        "fifo": Entry((_CAPACITY,)),
    },
    aliases={
        **{"replay_memory": "replay", "replay_buffer": "replay", "fifo_queue": "fifo"},
        **dict.fromkeys(
            ("prioritized", "prioritized_replay_buffer", "mem_prioritized_replay", "mem_prioritized_replay_buffer"),
            "prioritized_replay",
        ),
    },
    normalized=without_case,
    dotted=False,
    ignored={"scope": None},
)


def subtable(table: SpecTable, *names: str) -> SpecTable:
    """The table reduced to some of its entries, of which the first is the default."""
    aliases = {alias: name for alias, name in table.aliases.items() if name in names}
    entries = {name: table.entries[name] for name in names}
    return dataclasses.replace(table, entries=entries, aliases=aliases, default=names[0])


_OUTPUT: Final = (
    Argument("pre_network_spec", [], module="layer", collected=list),
    Argument("weights_spec", None, weights),
    Argument("biases_spec", None, biases),
    Argument("activation", None, activation),
    Argument("units", ABSENT, Only(None, "units depend on the action_space")),
    Argument("add_units", ABSENT, Only(0, "units depend on the action_space")),
)


def _stream(name: str) -> tuple[Argument, ...]:
    return (
        Argument(f"units_{name}_stream", None, or_none(integer(1))),
        Argument(f"activation_{name}_stream", "relu", activation),
        Argument(f"weights_spec_{name}_stream", None, weights),
        Argument(f"biases_spec_{name}_stream", None, biases),
    )


ADAPTERS: Final = SpecTable(
    "action adapter",
    {
        "action_adapter": Entry(_OUTPUT),
        "dueling_action_adapter": Entry((*_OUTPUT, *_stream("state_value"), *_stream("advantage"))),
        "baseline_action_adapter": Entry(_OUTPUT),
    },
    default="action_adapter",
    ignored={"scope": None, "batch_apply": False},
    normalized=without_case,
    dotted=False,
)


def settings(name: str, *arguments: Argument, ignored: Mapping[str, Any] | None = None) -> SpecTable:
    """A part without ``type``."""
    return SpecTable(name, {name: Entry(arguments)}, default=name, typed=False, dotted=False, ignored=ignored or {})


OBSERVE: Final = settings(
    "observe_spec",
    Argument("buffer_enabled", True, flag),
    Argument("buffer_size", 100, integer(1)),
    Argument("n_step", 1, integer(1)),
)
_UPDATE: Final = (
    Argument("do_updates", True, flag),
    Argument("steps_before_update", 0, integer(0)),
    Argument("update_interval", 4, integer(1)),
    Argument("update_steps", 1, integer(1)),
    Argument("batch_size", 64, integer(1)),
    Argument("sync_interval", None, or_none(integer(1))),
    Argument("update_mode", "time_steps", one_of("time_steps", "episodes")),
)
UPDATE: Final = settings("update_spec", *_UPDATE)
"""``sync_interval`` None: not given."""
PPO_UPDATE: Final = settings(
    "update_spec", *_UPDATE, Argument("num_iterations", 10, integer(1)), Argument("sample_size", 64, integer(1))
)
SOFT_UPDATE: Final = settings(
    "update_spec",
    *_UPDATE,
    Argument("sync_tau", None, or_none(real(above=0, at_most=1))),
    Argument("num_iterations", 1, Only(1, "each update is one step: use update_steps for several")),
)
IMPALA_UPDATE: Final = settings(
    "update_spec",
    *(Argument("batch_size", 16, integer(1)) if one.name == "batch_size" else one for one in _UPDATE),
)
"""``batch_size`` counts unrolls."""


def _regexp(where: str, value: Any) -> str:
    pattern: str = text(where, value)
    try:
        re.compile(pattern)
    except re.error as error:
        refuse(where, f"is not a regular expression: {error}", value)
    return pattern


SUMMARY: Final = settings(
    "summary_spec",
    Argument("directory", None, or_none(text)),
    Argument("summary_regexp", None, or_none(_regexp)),
    Argument("save_secs", 120, or_none(real(above=0))),
    Argument("save_steps", None, or_none(integer(1))),
)
SAVER: Final = settings(
    "saver_spec",
    Argument("directory", None, or_none(text)),
    Argument("checkpoint_basename", "model.ckpt", text),
    Argument("max_checkpoints", 5, or_none(integer(1))),
    Argument("save_secs", 600, or_none(real(above=0))),
    Argument("save_steps", None, or_none(integer(1))),
)
SYNC: Final = settings("value_function_sync_spec", Argument("sync_tau", 0.005, real(above=0, at_most=1)))

TABLES: Final[Mapping[str, SpecTable]] = {
    "initializer": INITIALIZERS,
    "layer": LAYERS,
    "optimizer": OPTIMIZERS,
    "memory": MEMORIES,
    "replay_memory": subtable(MEMORIES, "replay", "prioritized_replay"),
    "apex_memory": subtable(MEMORIES, "prioritized_replay"),
    "rollout_memory": subtable(MEMORIES, "ring_buffer"),
    "queue": subtable(MEMORIES, "fifo"),
    "adapter": ADAPTERS,
    "q_adapter": subtable(ADAPTERS, "action_adapter", "dueling_action_adapter"),
    "policy_adapter": subtable(ADAPTERS, "baseline_action_adapter", "action_adapter"),
    "observe": OBSERVE,
    "update": UPDATE,
    "ppo_update": PPO_UPDATE,
    "impala_update": IMPALA_UPDATE,
    "sac_update": SOFT_UPDATE,
    "summary": SUMMARY,
    "saver": SAVER,
    "sync": SYNC,
}
"""Tables by name."""


def layers_of(where: str, spec: Any, ignored: list[str]) -> list[Any]:
    """The resolved layers of a network's specification, or of its file.

    Args:
        where: its place, for messages.
        spec: the layers, or a dictionary with them under ``layers``.
        ignored: collects names of given arguments without effect.

    Raises:
        ArgumentError: it is not a list of layers.
    """
    given = read_file(where, spec, SUFFIXES) if isinstance(spec, str) and is_file_name(spec, SUFFIXES) else spec
    if isinstance(given, Mapping):
        refuse_unknown(where, given, ("layers", "scope", "type"), what="key")
        if "layers" not in given:
            refuse(
                where, f"must be a list of layers, or a dictionary with one under 'layers'; got {shortened(spec)}", spec
            )
        given = given["layers"]
    if callable(given):
        refuse(where, "cannot be a function or class: use a list of layers", spec)
    if not isinstance(given, list | tuple):
        refuse(where, f"must be a list of layers, got {shortened(spec)}", spec)
    return [resolve(f"{where}[{index}]", layer, "layer", TABLES, ignored) for index, layer in enumerate(given)]
