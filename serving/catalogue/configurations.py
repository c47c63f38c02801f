"""Convert a user's model and configuration to a recipe; describe the possible configurations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ...core import checks, registry
from ...core.errors import ArgumentError
from ...environments import spaces
from ...memories import description
from ...memories.replay import ReplayMemory
from ...models.blocks.params import parameters_of
from ...run_dir.generators import draw_seed
from . import hosted, memory_use, parameters, sizes
from .recipes import Recipe

_SIZES: Final = (
    *("state_size", "obs_size", "observation_space", "action_size", "discrete", "is_discrete"),
    *("action_low", "action_min", "action_high", "action_max"),
)
_OTHERS: Final = ("seed", "freshness")
FRESHNESS: Final = ("strict", "relaxed")
_MAX_KEYS: Final = 100
_MAX_DEPTH_OF_SPACES: Final = 3 * sizes.MAX_DEPTH
"""Nesting in JSON: each space is an object, in a list, in a list of these."""
_MAX_SEED: Final = 2**63 - 1

Given = dict[str, tuple[str, Any]]
"""Axonrl's name of a hyperparameter to the name used, and the value."""


def recipe(model: str, config: Mapping[str, Any]) -> Recipe:
    """Make a complete recipe of an agent.

    Args:
        model: a name of :data:`.hosted.MODELS`, in any case.
        config: sizes and hyperparameters, in JSON values. Missing ones have defaults; a missing seed is drawn.

    Raises:
        ArgumentError: the entry ``argument`` is invalid.
    """
    name = checked_model(model)
    _check_config(config)
    values = {key: value for key, value in config.items() if key not in (*_SIZES, *_OTHERS)}
    observation, observed = sizes.observation(config)
    action, acting = sizes.action(hosted.MODELS[name], name, config)
    given = _resolve_names(name, values)
    if acting["discrete"] and "box_policy" in hosted.hyperparameters(name):
        given.setdefault("box_policy", ("box_policy", "gaussian"))  # it has no meaning there
    found = _values(name, given)
    documented = hosted.documented_names(name)
    _check_together(found, documented)
    complete: dict[str, Any] = {
        **observed,
        **acting,
        **{documented[own]: value for own, value in found.items()},
        "seed": _seed(config.get("seed")),
        "freshness": checks.choice("freshness", config.get("freshness", FRESHNESS[0]), FRESHNESS),
    }
    memory, params = _split(name, found)
    memory_use.check(name, memory, params, observation, action, documented)
    kinds = hosted.MODELS[name]
    least = memory.get("batch_size", 1) + memory.get("n_step", 1) - 1
    return Recipe(
        model=name,
        config=complete,
        model_fn=name,
        params=params,
        memory=memory,
        first_update=max(found.get("first_update", 1), least),
        update_frequency=found.get("update_frequency", 1),
        observation=spaces.to_json(observation),
        action=spaces.to_json(action),
        noise=kinds.noise[kinds.actions.index("discrete" if acting["discrete"] else "continuous")],
        gathers=memory["kind"] == hosted.BATCH_MEMORY or memory["n_step"] > 1,
    )


def model_descriptions() -> list[dict[str, Any]]:
    """The hosted models with their hyperparameters, in JSON values."""
    freshness = "strict: an act waits for due updates; relaxed: it uses the last finished weights"
    seed = f"an integer in 0 .. {_MAX_SEED}, or null"
    others = [
        _row("seed", [], None, seed, "seed of weights and generators; null: a random one"),
        _row("freshness", [], FRESHNESS[0], ", ".join(FRESHNESS), freshness),
    ]
    return [
        {
            "model": name,
            "summary": registry.summary("model_fn", name),
            "actions": list(kinds.actions),
            "noise": dict(zip(kinds.actions, kinds.noise, strict=True)),
            "hyperparameters": [*_hyperparameter_rows(name), *others],
        }
        for name, kinds in hosted.MODELS.items()
    ]


def _hyperparameter_rows(model: str) -> Iterator[dict[str, Any]]:
    documented, spoken = hosted.documented_names(model), hosted.spoken(model)
    for own, one in hosted.hyperparameters(model).items():
        synonyms = [name for name, meant in spoken.items() if meant == own and name != documented[own]]
        yield _row(documented[own], synonyms, one.default, parameters.allowed_values(one.form), one.meaning)


def _row(name: str, synonyms: list[str], default: Any, allowed: str, meaning: str) -> dict[str, Any]:
    return {"name": name, "synonyms": synonyms, "default": default, "allowed": allowed, "meaning": meaning}


def checked_model(model: Any) -> str:
    """Check the name of a hosted model; ``ArgumentError`` for others, with the reason for an algorithm of axonrl."""
    name = model.lower() if isinstance(model, str) else model
    if isinstance(name, str) and name in hosted.MODELS:
        return name
    if isinstance(name, str) and name in hosted.NOT_HOSTED:
        raise ArgumentError(f"model {name} is not hosted: {hosted.NOT_HOSTED[name]}", "model", model)
    listed = f"{', '.join(hosted.SUPPORTED)}; or of {', '.join(hosted.OTHERS)}"
    near = checks.did_you_mean(name, hosted.MODELS)
    raise ArgumentError(f"model must be one of {listed}; got {checks.shortened(model)}{near}", "model", model)


def _check_config(config: Any) -> None:
    if not isinstance(config, Mapping) or not all(isinstance(key, str) for key in config):
        raise ArgumentError(f"config must be an object, got {checks.shortened(config)}", "config", config)
    if len(config) > _MAX_KEYS:
        raise ArgumentError(f"config may have at most {_MAX_KEYS} entries, got {len(config):,}", "config")
    for key, value in config.items():
        depth = _MAX_DEPTH_OF_SPACES if key == "observation_space" else sizes.MAX_DEPTH
        if sizes.depth_of(value, depth) > depth:
            raise ArgumentError(f"{key[:40]} is nested too deep", key[:40])
        if sizes.is_unfit(value):
            raise ArgumentError(f"{key[:40]} has a number that is not finite, or beyond 2**64", key[:40])


def _resolve_names(model: str, values: Mapping[str, Any]) -> Given:
    """The hyperparameters given, with the names used; ``ArgumentError`` for unknown ones, and for two names of one."""
    spoken, given = hosted.spoken(model), Given()
    for key, value in values.items():
        if key not in spoken:
            _refuse_name(model, key, value)
            continue
        own = spoken[key]
        before, previous = given.get(own, (key, value))
        is_other = before != key and not {before, key} <= {*hosted.MODELS[model].documented}
        if is_other or previous != value:  # the original has norms of actor and critic, which are one here
            raise ArgumentError(f"{before} and {key} are the same for {model}: give one of them", key, value)
        given[own] = key, value
    return given


def _refuse_name(model: str, key: str, value: Any) -> None:
    """Refuse a name that the model does not take, except one update at a time, and the model itself."""
    if key == "agent_model":
        if not isinstance(value, str) or value.lower() != model:
            raise ArgumentError(f"agent_model must be {model}, as model is, got {checks.shortened(value)}", key, value)
        return
    if key == "number_updates":
        if isinstance(value, bool) or value != 1:
            raise ArgumentError(f"number_updates must be 1; higher values are not supported, got {value!r}", key, value)
        return
    for ending, reason in hosted.NOT_YET.items():
        if key.endswith(ending):
            raise ArgumentError(f"{key[:40]} is not supported: {reason}", key[:40], value)
    if key in parameters_of(model) and key in hosted.LEFT_OUT:
        raise ArgumentError(f"{key} is not supported: it {hosted.LEFT_OUT[key]}", key, value)
    shown = key if len(key) <= 40 else f"{key[:37]}..."
    spoken = hosted.spoken(model)
    documented = hosted.documented_names(model)
    if others := [other for other in hosted.MODELS if key in hosted.spoken(other)]:
        meant = {hosted.spoken(other)[key] for other in others} & set(documented)
        hint = f"; {model} has {' and '.join(documented[own] for own in sorted(meant))}" if meant else ""
        raise ArgumentError(f"{model} has no {key}, only {', '.join(others)} do{hint}", key, value)
    listed = ", ".join(documented.values())
    near_one = checks.did_you_mean(key, [*spoken, *_SIZES, *_OTHERS])
    raise ArgumentError(f"{model} has no hyperparameter {shown!r}{near_one}; it has {listed}", shown, value)


def _values(model: str, given: Given) -> dict[str, Any]:
    """All hyperparameters of a model by axonrl's names, with values."""
    found: dict[str, Any] = {}
    for own, one in hosted.hyperparameters(model).items():
        name, value = given.get(own, (own, one.default))
        reason = hosted.LEFT_OUT_VALUES.get(own, {}).get(value) if isinstance(value, str) else None
        if reason is not None:
            raise ArgumentError(f"{name} {value!r} is not supported: it {reason}", name, value)
        found[own] = _sampler(name, value) if own == "sampler" else parameters.convert(one.form, name, value)
    if found.get("target_update_period") is not None and found["target_update_rate"] is not None:
        if "target_update_rate" in given:
            names = given["target_update_period"][0], given["target_update_rate"][0]
            raise ArgumentError(f"{names[0]} and {names[1]} are alternatives: give one of them", names[1])
        found["target_update_rate"] = None
    return found


def _sampler(name: str, value: Any) -> dict[str, Any]:
    """Complete settings of a sampler."""
    try:
        made = description.arguments_of(ReplayMemory(1, 1, sampler=value))
    except ArgumentError as error:
        raise ArgumentError(f"{name}: {error}", name, value) from None
    if made is None:
        raise ArgumentError(f"{name} must be uniform, prioritized or a mapping, got {value!r}", name, value)
    found: dict[str, Any] = made["sampler"]
    return found


def _check_together(found: Mapping[str, Any], documented: Mapping[str, str]) -> None:
    """Refuse inconsistent values; checks that only a model can make happen when it is built."""

    def refuse(own: str, must: str) -> None:
        name = documented[own]
        raise ArgumentError(f"{name} must {must}, got {found[own]}", name, found[own])

    if "minibatch_size" in found and found["minibatch_size"] is not None and found["size"] % found["minibatch_size"]:
        refuse("size", f"be a multiple of {documented['minibatch_size']}={found['minibatch_size']}")
    if "updates" in found and found["batch_size"] % found["updates"]:
        refuse("batch_size", f"be a multiple of updates={found['updates']}")
    if "v_min" in found and found["v_min"] >= found["v_max"]:
        refuse("v_min", f"be below v_max={found['v_max']}")
    if "subset" in found and found["subset"] > found["critics"]:
        refuse("subset", f"be at most critics={found['critics']}")
    if "batch_size" in found and found["size"] < (least := found["batch_size"] + found["n_step"] - 1):
        refuse("size", f"be at least {least} for a batch")


def _seed(value: Any) -> int:
    if value is None:
        return draw_seed()
    return checks.integer("seed", value, at_least=0, at_most=_MAX_SEED)


def _split(model: str, found: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split hyperparameters into memory and params of the algorithm."""
    own = parameters_of(model)
    kind = hosted.MODELS[model].memory
    settings = ("size", "discount", *(("batch_size", "n_step", "sampler") if kind == hosted.REPLAY else ()))
    memory = {"kind": kind, **{name: found[name] for name in settings}}
    taken = {"n_step"} if kind == hosted.REPLAY else set()  # SAC's own n_step is for sequences
    return memory, {name: value for name, value in found.items() if name in own and name not in taken}
