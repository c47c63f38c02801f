"""Labels of summaries: those that agents can record, and those that users define."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

from ....core.checks import shortened
from ....core.protocols import Array
from ...common.events import scalar
from ..spaces.errors import choice, integer, known, mapping, refuse
from .companions import AgentCore
from .summary_values import CHANNELS, histogram, images, sounds

GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "distributions": ("bernoulli", "beta", "categorical", "gaussian"),
    "entropies": ("entropy",),
    "kl-divergences": ("kl-divergence",),
    "losses": ("baseline-loss", "loss", "objective-loss", "regularization-loss"),
    "rewards": ("empirical-reward", "episode-reward", "estimated-reward", "raw-reward", "timestep-reward"),
}
"""Labels that stand for several others."""
METRICS: Final[Mapping[str, str]] = {
    "objective-loss": "policy_loss",
    "baseline-loss": "baseline_loss",
    "regularization-loss": "regularization_loss",
    "entropy": "entropy",
    "kl-divergence": "kl",
    "update-norm": "update_norm",
    "empirical-reward": "empirical_reward",
    "estimated-reward": "estimated_reward",
}
"""What an update measures, by label."""
OF_WEIGHTS: Final = ("updates", "updates-histogram", "variables", "variables-histogram")
_OF_ACTING: Final = ("episode-reward", "raw-reward", "timestep-reward")
_ALONE: Final = ("parameters", "update-norm", *OF_WEIGHTS)
_HISTOGRAM: Final = "-histogram"
_NOT_WRITTEN: Final = "graph"
"""Tensorforce's default: there is no such graph here."""
_GROUP_OF: Final = {label: group for group, labels in GROUPS.items() for label in labels}
_KINDS: Final = {"probabilities": "categorical", "probability": "bernoulli", "stddev": "gaussian", "alpha": "beta"}
"""A distribution by one of its parameters."""


def tag(label: str) -> str:
    """Under what TensorBoard shows a label: with its group in front."""
    return f"{_GROUP_OF[label]}/{label}" if label in _GROUP_OF else label


def available(agent: AgentCore) -> list[str]:
    """The labels that an agent can record, sorted; with those that stand for several."""
    found = set(_OF_ACTING)
    found |= {kind for name in agent.acting.chooser.names() if (kind := kind_of(name)) is not None}
    learning = agent.learning
    if learning is not None:
        found |= {"loss", "parameters", *OF_WEIGHTS}
        found |= {label for label, metric in METRICS.items() if metric in learning.metrics}
        if ((learning.form["baseline"] or {}).get("objective")) is None:
            found.discard("baseline-loss")
    return sorted(found | {group for group, labels in GROUPS.items() if found & set(labels)})


def kind_of(query: str) -> str | None:
    """The kind of distribution, which one of the queries of an act shows: that of each has one."""
    return _KINDS.get(query.rpartition("-distribution-")[2])


def read_labels(place: str, labels: Any) -> frozenset[str]:
    """The labels to record, without those that stand for several; all but histograms for ``'all'``.

    Warns:
        UserWarning: some are never recorded.

    Raises:
        TensorforceError: they are neither ``'all'`` nor a list of strings.
    """
    every = {label for labels in GROUPS.values() for label in labels} | set(_ALONE)
    if labels is None:
        return frozenset()
    if isinstance(labels, str) and labels == "all":
        return frozenset(label for label in every if not label.endswith(_HISTOGRAM))
    if isinstance(labels, str | Mapping) or not isinstance(labels, Iterable):
        refuse(place, f"must be 'all' or a list of labels, got {shortened(labels)}", labels)
    given = list(labels)
    if not all(isinstance(label, str) for label in given):
        refuse(place, f"must be 'all' or a list of labels, got {shortened(given)}", labels)
    wanted = {leaf for label in given for leaf in GROUPS.get(label, (label,))}
    unknown = [label for label in given if label not in {*every, *GROUPS, _NOT_WRITTEN}]
    if unknown:
        warnings.warn(f"{place}: {', '.join(unknown)}: axonrl does not record this", UserWarning, stacklevel=2)
    return frozenset(wanted & every)


@dataclasses.dataclass(frozen=True)
class Custom:
    """A summary that users write.

    Args:
        type: ``scalar``, ``histogram``, ``image`` or ``audio``.
        buckets: of a histogram.
        max_outputs: how many images or sounds are written, of those that are given.
        sample_rate: of a sound, in frames per second.
    """

    type: str
    buckets: int | None = None
    max_outputs: int = 3
    sample_rate: int = 0

    def summary(self, place: str, name: str, value: Any) -> Any:
        """TensorBoard's form of a value.

        Raises:
            TensorforceError: it is not numbers, or has another rank or number of channels.
        """
        try:
            array = np.asarray(value)
        except (TypeError, ValueError):  # lists of different lengths
            refuse(place, f"must be numbers, got {shortened(value)}", value)
        if array.dtype.kind not in "biuf":
            refuse(place, f"must be numbers, got {shortened(value)}", value)
        rank = _RANKS[self.type]
        if rank is not None and array.ndim != rank:
            refuse(place, f"must be {_SHAPES[self.type]}, got the shape {array.shape}", value)
        if self.type == "scalar":
            return scalar(name, float(array))
        if self.type == "histogram":
            return histogram(name, array, self.buckets)
        _check_media(place, self.type, array)
        array = array[: self.max_outputs]
        return images(name, array) if self.type == "image" else sounds(name, array, self.sample_rate)


_ARGUMENTS: Final = {
    "scalar": (),
    "histogram": ("buckets",),
    "image": ("max_outputs",),
    "audio": ("sample_rate", "max_outputs"),
}
_RANKS: Final = {"scalar": 0, "histogram": None, "image": 4, "audio": 3}
_SHAPES: Final = {
    "scalar": "a number",
    "image": "images [number, height, width, channels]",
    "audio": "sounds [number, frames, channels]",
}


def read_custom(place: str, custom: Any) -> dict[str, Custom]:
    """The summaries that a summarizer's ``custom`` defines.

    Raises:
        TensorforceError: one has no known ``type``, or other arguments than that takes.
    """
    found = {}
    for name, spec in mapping(place, {} if custom is None else custom).items():
        where = f"{place}[{name!r}]"
        given = dict(mapping(where, spec))
        kind = choice(f"{where}['type']", given.pop("type", None), _ARGUMENTS)
        known(where, given, _ARGUMENTS[kind], what="key")
        if kind == "audio" and "sample_rate" not in given:
            refuse(f"{where}['sample_rate']", "is missing: a sound has so many frames per second", None)
        numbers = {key: integer(f"{where}[{key!r}]", value, at_least=1) for key, value in given.items()}
        found[name] = Custom(kind, **numbers)
    return found


def _check_media(place: str, kind: str, array: Array) -> None:
    """Images and sounds that a file can hold."""
    if not array.size:
        refuse(place, f"must be {_SHAPES[kind]} with something in it, got the shape {array.shape}", array)
    if not np.isfinite(array).all():
        refuse(place, f"must be finite, got {shortened(array)}", array)
    if kind == "image":
        if array.shape[-1] not in CHANNELS:
            refuse(place, f"must have 1 to 4 channels, got the shape {array.shape}", array)
        if array.dtype.kind != "f" and array.dtype != np.uint8:
            refuse(place, f"must be uint8 or floats in 0 .. 1, got {array.dtype}", array)
    elif array.dtype.kind != "f":
        refuse(place, f"must be floats in -1 .. 1, got {array.dtype}", array)
