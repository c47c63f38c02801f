"""Hosted algorithms, with the names and defaults of their hyperparameters."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from ...core.schedules import parameter_checks
from ...models.blocks.params import Parameter, parameters_of
from . import parameters
from .parameters import Form

MAX_BATCH: Final = 4096
MAX_ROLLOUT: Final = 65_536
BATCH_MEMORY: Final = "batch"
REPLAY: Final = "replay"
_NONE: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclasses.dataclass(frozen=True)
class Hosted:
    """Hosting of an algorithm.

    Args:
        memory: the kind of its memory.
        actions: supported actions: ``discrete``, ``continuous``.
        noise: meaning of ``act(noise=)`` for each of these.
        documented: the original's name of a hyperparameter to axonrl's. A configuration uses these names, the first of
            several, and axonrl's for all others.
        defaults: defaults that differ from the algorithm's, by axonrl's names.
    """

    memory: str
    actions: tuple[str, ...]
    noise: tuple[str, ...]
    documented: Mapping[str, str] = dataclasses.field(default_factory=dict)
    defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)


DISCRETE, CONTINUOUS = ("discrete",), ("continuous",)
BOTH = (*DISCRETE, *CONTINUOUS)

_MEMORY: Final = {"gamma": "discount"}
_OFF_POLICY: Final = {
    **_MEMORY,
    **{"tau": "target_update_rate", "update_freq": "update_frequency", "warm_up": "first_update"},
    **{"batch_size": "batch_size", "buffer_size": "size", "n_steps": "n_step"},
}
_ONE_RATE: Final = {"hidden_layers": "hidden", "lr": "learning_rate", "max_grad_norm": "max_gradient_norm"}
_VALUES: Final = {**_ONE_RATE, **_OFF_POLICY, "using_double_q": "double"}
_SQUASHED: Final = {"box_policy": "squashed"}
"""Bounds are mostly 0 .. 1, where a Gaussian of standard deviation 1 would nearly always be clipped."""
_RAINBOW_SAMPLER: Final = {
    **{"kind": "prioritized", "alpha": 0.5, "epsilon": 1e-6},
    "beta": {"kind": "linear", "start": 0.4, "stop": 1.0, "duration": 100_000},
}

SUPPORTED: Final[Mapping[str, Hosted]] = {
    "dqn": Hosted(
        REPLAY,
        DISCRETE,
        ("epsilon",),
        _VALUES,
        {"hidden": [64, 64], "learning_rate": 3e-4, "target_update_rate": 0.002, "max_gradient_norm": 10.0},
    ),
    "ppo": Hosted(
        BATCH_MEMORY,
        BOTH,
        ("drawn", "drawn"),
        {
            **_MEMORY,
            **_ONE_RATE,
            **{"batch_size": "minibatch_size", "rollout_length": "size", "num_epochs": "epochs"},
            **{"ppo_ratio_clip": "clip", "entropy_weight": "entropy_coefficient"},
            **{"value_loss_weight": "value_coefficient", "gae_lambda": "gae_lambda"},
        },
        {
            **{"hidden": [100, 100], "learning_rate": 3e-4, "minibatch_size": 64, "max_gradient_norm": 0.5},
            **{"size": 256, "epochs": 10, "clip": 0.2, "gae_lambda": 0.95, "entropy_coefficient": 0.005},
            **{"value_coefficient": 0.5, **_SQUASHED},
        },
    ),
    "ddpg": Hosted(
        REPLAY,
        CONTINUOUS,
        ("gaussian",),
        {
            **{"hidden_layers": "hidden", "actor_lr": "learning_rate", "critic_lr": "critic_learning_rate"},
            **{"max_grad_norm_actor": "max_gradient_norm", "max_grad_norm_critic": "max_gradient_norm"},
            **_OFF_POLICY,
        },
        {
            **{"hidden": [128, 128], "learning_rate": 3e-4, "critic_learning_rate": 3e-4, "target_update_rate": 0.002},
            **{"max_gradient_norm": 10.0, "exploration": "gaussian"},
        },
    ),
    "rainbow": Hosted(
        REPLAY,
        DISCRETE,
        ("epsilon",),
        {**_VALUES, "v_min": "v_min", "v_max": "v_max", "num_atoms": "atoms"},
        {
            **{"hidden": [100, 100], "learning_rate": 1e-3, "target_update_rate": 0.002, "max_gradient_norm": 10.0},
            **{"batch_size": 80, "n_step": 3, "atoms": 21, "sampler": _RAINBOW_SAMPLER},
        },
    ),
}
"""The original's models, in the order of its documentation."""

OTHERS: Final[Mapping[str, Hosted]] = {
    "a2c": Hosted(BATCH_MEMORY, BOTH, ("drawn", "drawn"), _NONE, {"size": 80, **_SQUASHED}),
    "c51": Hosted(REPLAY, DISCRETE, ("epsilon",)),
    "crossq": Hosted(REPLAY, CONTINUOUS, ("gaussian",), _NONE, {"critic_hidden": [256, 256]}),
    "impala": Hosted(BATCH_MEMORY, BOTH, ("drawn", "drawn"), _NONE, {"size": 80, **_SQUASHED}),
    "iqn": Hosted(REPLAY, DISCRETE, ("epsilon",)),
    "naf": Hosted(REPLAY, CONTINUOUS, ("gaussian",), _NONE, {"exploration": "gaussian"}),
    "pqn": Hosted(BATCH_MEMORY, DISCRETE, ("epsilon",), _NONE, {"size": 1024}),
    "qr_dqn": Hosted(REPLAY, DISCRETE, ("epsilon",)),
    # Twenty gradient steps of 64 transitions in each update.
    "redq": Hosted(REPLAY, BOTH, ("epsilon", "gaussian"), _NONE, {"batch_size": 1280}),
    "sac": Hosted(REPLAY, BOTH, ("epsilon", "gaussian")),
    "td3": Hosted(REPLAY, CONTINUOUS, ("gaussian",)),
    "tqc": Hosted(REPLAY, CONTINUOUS, ("gaussian",)),
    "trpo": Hosted(BATCH_MEMORY, BOTH, ("drawn", "drawn"), _NONE, {"size": 1024, **_SQUASHED}),
    "vpg": Hosted(BATCH_MEMORY, BOTH, ("drawn", "drawn"), _NONE, {"size": 1024, **_SQUASHED}),
}
"""Other hosted algorithms."""

MODELS: Final[Mapping[str, Hosted]] = {**SUPPORTED, **OTHERS}

NOT_HOSTED: Final[Mapping[str, str]] = {
    "bc": "it imitates recorded actions, and learns nothing from what it does itself: use axonrl run",
    "cql": "it learns from recorded data, without acting: use axonrl run, or dqn",
    "cql_sac": "it learns from recorded data, without acting: use axonrl run, or sac",
    "iql": "it learns from recorded data, without acting: use axonrl run, or sac",
    "r2d2": "it is recurrent, and needs a state for each environment, which hosted agents do not keep: use dqn",
    "td3_bc": "it learns from recorded data, without acting: use axonrl run, or td3",
}
"""Refused algorithms of axonrl, with the reasons."""

_PER_ENVIRONMENT: Final = "needs a state for each environment, which hosted agents do not keep"
_DEMONSTRATIONS: Final = "needs a memory of demonstrations, which hosted agents do not have"
LEFT_OUT: Final[Mapping[str, str]] = {
    "lstm": _PER_ENVIRONMENT,
    "sequence_length": "is for an LSTM, which hosted agents do not have",
    "sde_resample_every": _PER_ENVIRONMENT,
    "sde_log_std": _PER_ENVIRONMENT,
    "state_dependent_exploration": _PER_ENVIRONMENT,
    "theta": "is for Ornstein-Uhlenbeck noise, which hosted agents do not have",
    "margin_weight": _DEMONSTRATIONS,
    "margin": _DEMONSTRATIONS,
    "n_step_weight": _DEMONSTRATIONS,
}
"""Refused parameters, or values of parameters, with the reasons."""
LEFT_OUT_VALUES: Final[Mapping[str, Mapping[str, str]]] = {
    "exploration": {"ornstein_uhlenbeck": _PER_ENVIRONMENT, "random_decay": _PER_ENVIRONMENT},
    "box_policy": {"state_dependent": _PER_ENVIRONMENT},
    "network": dict.fromkeys(
        ("nature_cnn", "minatar_cnn"), "has convolutions, which only TensorFlow can train; hosted agents run without it"
    ),
}

NOT_YET: Final[Mapping[str, str]] = {
    "kl_div": "the policy is not stopped by a divergence of this kind; max_kl is axonrl's",
    "using_gae": "advantages are always generalized advantage estimates; gae_lambda=1 is without",
    "betas": "the optimizer's moments have the usual rates",
    "_number_updates": "actor and critic learn equally often",
}
"""Suffixes of the original's hyperparameters that no model has here, with the reasons."""

_MOST: Final[Mapping[str, int]] = {
    **{"minibatch_size": MAX_BATCH, "epochs": 100, "updates": 64, "critics": 32, "subset": 32, "samples": 64},
    **dict.fromkeys(("atoms", "quantiles", "target_quantiles", "policy_quantiles", "cosines"), 1024),
    "rnd_units": 512,
    **{"cg_iterations": 100, "line_search_steps": 100, "policy_delay": 1_000_000},
}
"""Maximum of integers that enlarge a program or lengthen an update."""


def _memory_settings(hosted: Hosted) -> list[Parameter]:
    def integer(at_least: int, at_most: int = parameters.MOST) -> Form:
        return parameter_checks.integer(at_least=at_least, at_most=at_most).form

    unit = parameter_checks.real(at_least=0, at_most=1).form
    discount = Parameter("discount", 0.99, "discount factor gamma", unit)
    if hosted.memory == BATCH_MEMORY:
        meaning = "timesteps per rollout; the agent learns after each rollout"
        return [Parameter("size", 256, meaning, integer(1, MAX_ROLLOUT)), discount]
    return [
        Parameter("size", 100_000, "capacity of the memory, in transitions", integer(1)),
        Parameter("batch_size", 64, "transitions per update", integer(1, MAX_BATCH)),
        discount,
        Parameter("n_step", 1, "timesteps summed in a return", integer(1, 1000)),
        Parameter("sampler", {"kind": "uniform"}, "how transitions are sampled", {"kind": "sampler"}),
        Parameter("update_frequency", 1, "timesteps between updates", integer(1)),
        Parameter("first_update", 0, "timesteps before the first update; at least a batch", integer(0)),
    ]


@functools.cache
def hyperparameters(model: str) -> Mapping[str, Parameter]:
    """All hyperparameters of a hosted model, by axonrl's names, with a hosted agent's defaults."""
    hosted = MODELS[model]
    own = {name: one for name, one in parameters_of(model).items() if name not in LEFT_OUT}
    found = {**own, **{one.name: one for one in _memory_settings(hosted)}}
    return {name: _hosted_parameter(one, hosted.defaults) for name, one in found.items()}


def _hosted_parameter(one: Parameter, defaults: Mapping[str, Any]) -> Parameter:
    form: dict[str, Any] = dict(one.form)
    if one.name in _MOST:
        inner = form["check"] if form["kind"] == "or_word" else form
        inner = {**inner, "at_most": _MOST[one.name]}
        form = {**form, "check": inner} if form["kind"] == "or_word" else inner
    if one.name in LEFT_OUT_VALUES:
        form["names"] = [name for name in form["names"] if name not in LEFT_OUT_VALUES[one.name]]
    return dataclasses.replace(one, form=form, default=defaults.get(one.name, one.default))


def documented_names(model: str) -> Mapping[str, str]:
    """Axonrl's name of each hyperparameter to its name in a configuration."""
    names = {own: name for name, own in reversed([*MODELS[model].documented.items()])}
    return {name: names.get(name, name) for name in hyperparameters(model)}


def spoken(model: str) -> Mapping[str, str]:
    """Every accepted name of a model's hyperparameters to axonrl's."""
    found, hosted = hyperparameters(model), MODELS[model]
    if hosted.documented:
        return {**{name: name for name in found if name not in hosted.documented}, **hosted.documented}
    # Other models accept the original's names, too, where they mean the same.
    common = {**_VALUES, "rollout_length": "size"} if hosted.memory == BATCH_MEMORY else _VALUES
    also = {name: own for name, own in common.items() if own in found}
    if hosted.memory == BATCH_MEMORY:
        also.pop("buffer_size", None)
    return {**also, **{name: name for name in found}}
