"""Labels of the summaries that agents can record."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ....core.checks import shortened
from ..spaces.errors import refuse
from .companions import AgentCore

GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "distributions": ("bernoulli", "beta", "categorical", "gaussian"),
    "entropies": ("entropy",),
    "kl-divergences": ("kl-divergence",),
    "losses": ("baseline-loss", "loss", "objective-loss", "regularization-loss"),
    "rewards": ("empirical-reward", "episode-reward", "estimated-reward", "raw-reward", "timestep-reward"),
}
"""Labels that stand for several labels."""
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
"""Metrics of an update, by label."""
OF_WEIGHTS: Final = ("updates", "updates-histogram", "variables", "variables-histogram")
_EVERY: Final = {"parameters", "update-norm", *OF_WEIGHTS, *(label for labels in GROUPS.values() for label in labels)}
_NOT_WRITTEN: Final = "graph"
"""Tensorforce's default; there is no graph here."""
_KINDS: Final = {"probabilities": "categorical", "probability": "bernoulli", "stddev": "gaussian", "alpha": "beta"}
"""The label of a distribution, by one of its parameters."""


def tag(label: str) -> str:
    """A label's tag in TensorBoard, prefixed with its group."""
    return next((f"{group}/{label}" for group, labels in GROUPS.items() if label in labels), label)


def available(agent: AgentCore) -> list[str]:
    """Labels that an agent can record, including those that stand for several, sorted."""
    found = {"episode-reward", "raw-reward", "timestep-reward"}
    found |= {kind for name in agent.acting.chooser.names() if (kind := kind_of(name)) is not None}
    learning = agent.learning
    if learning is not None:
        found |= {"loss", "parameters", *OF_WEIGHTS}
        found |= {label for label, metric in METRICS.items() if metric in learning.metrics}
        if ((learning.form["baseline"] or {}).get("objective")) is None:
            found.discard("baseline-loss")
    return sorted(found | {group for group, labels in GROUPS.items() if found & set(labels)})


def kind_of(query: str) -> str | None:
    """The kind of distribution that an act's query belongs to; None for other queries."""
    return _KINDS.get(query.rpartition("-distribution-")[2])


def read_labels(place: str, labels: Any) -> frozenset[str]:
    """The labels to record, with those that stand for several expanded; all but histograms for ``'all'``.

    Warns:
        UserWarning: some labels are never recorded.

    Raises:
        TensorforceError: the labels are neither ``'all'`` nor a list of strings.
    """
    if labels is None:
        return frozenset()
    if isinstance(labels, str) and labels == "all":
        return frozenset(label for label in _EVERY if not label.endswith("-histogram"))
    is_list = isinstance(labels, Iterable) and not isinstance(labels, str | Mapping)
    given: list[Any] = list(labels) if is_list else [None]
    if not all(isinstance(label, str) for label in given):
        refuse(place, f"must be 'all' or a list of labels, got {shortened(labels)}", labels)
    unknown = [label for label in given if label not in {*_EVERY, *GROUPS, _NOT_WRITTEN}]
    if unknown:
        warnings.warn(f"{place}: {', '.join(unknown)}: axonrl does not record this", UserWarning, stacklevel=2)
    return frozenset(leaf for label in given for leaf in GROUPS.get(label, (label,)) if leaf in _EVERY)
