"""Bodies and answers of the HTTP API, as its OpenAPI document describes them."""

from __future__ import annotations

import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

Scope = Literal["read", "act", "learn", "manage", "metrics", "admin"]
Observation = list[Any] | dict[str, Any] | float | int
"""Numbers: a list, nested for an image; or a mapping, for a Dict space."""
Action = list[Any] | float | int
"""Numbers: a list, nested if ``action_size`` is a shape; or a number."""


def _text(time: Any) -> Any:
    """A time in UTC, or a day, by ISO 8601."""
    if isinstance(time, datetime.datetime):
        return time.astimezone(datetime.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return time.isoformat() if isinstance(time, datetime.date) else time


Time = Annotated[str, BeforeValidator(_text)]
OptionalTime = Annotated[str | None, BeforeValidator(_text)]


class Answer(BaseModel):
    """The body of an answer, also from a row. Docstrings of fields, here and below, are their descriptions."""

    model_config = ConfigDict(from_attributes=True, use_attribute_docstrings=True)


class Body(BaseModel):
    """A request's body: unknown fields are refused, and types are not converted."""

    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)


class NewAgent(Body):
    """An agent to create."""

    name: str
    """1 to 64 letters, digits, `.`, `_` or `-`; the first is a letter or a digit."""
    model: str
    """A name from `GET /models`, such as `dqn`."""
    description: str | None = ""
    config: dict[str, Any] = Field(default_factory=dict)
    """Sizes and hyperparameters: see `GET /models`."""
    is_active: bool = True
    """Whether the agent acts and learns; an inactive one takes no memory."""


class AgentChange(Body):
    """Changes to an agent."""

    description: str | None = None
    is_active: bool | None = None
    """An inactive agent takes no memory, and refuses acts and steps."""
    learning: bool | None = None
    """Whether steps are accepted."""
    status: Literal["ready"] | None = None
    """Continue after a failure, from the last intact state."""


class NewToken(Body):
    """A token to create."""

    name: str
    """One line of text that identifies the token in lists."""
    scopes: list[Scope]
    """Only scopes that the token in use has."""
    agents: list[str] | None = None
    """Names of the agents that the token is for; null: all."""
    expires_in: Annotated[int, Field(ge=1)] | None = None
    """Lifetime in seconds; null: `tokens.default_days`."""


class LoginForm(Body):
    """A login."""

    username: str
    password: str
    grant_type: str = "password"


class NewPassword(Body):
    """A change of the account's password."""

    current: str
    new: str


class StepData(Body):
    """One timestep. `obs` and `next_obs` are accepted for `state` and `next_state`."""

    state: Observation
    """Observation before the action."""
    action: Action
    """The action, as `act` returned it."""
    reward: float
    next_state: Observation
    """Observation after the action."""
    done: bool
    """The episode terminated: no bootstrapping."""
    truncated: bool = False
    """The episode was truncated: `next_state` is bootstrapped."""
    environment: str | None = None
    """Name of one of the agent's environments; up to 128 characters."""


class Step(Body):
    """One step."""

    step_data: StepData


class Steps(Body):
    """Up to 1,000 steps."""

    steps: list[StepData]


class Act(Body):
    """One observation, or several; a bare array is one observation."""

    observation: Observation | None = None
    observations: list[Observation] | None = None
    """Up to 1,000 observations, in place of `observation`."""
    environment: str | None = None
    """Name of the environment."""
    environments: list[str] | None = None
    """One name for each of `observations`."""
    explore: bool | None = None
    """True: the agent's own behaviour policy; false: the greedy action."""


class Acted(Answer):
    """The action: a list of one integer for discrete actions; nested lists if `action_size` is a shape."""

    action: list[Any]


class ActedBatch(Answer):
    """An action for each observation."""

    actions: list[list[Any]]


class Accepted(Answer):
    """Number of accepted steps, and the number of the last of them."""

    accepted: int
    seq: int
    """Counted from 1 across all environments."""


class EndEpisode(Body):
    """The environment that was reset."""

    environment: str | None = None


class Snapshot(Answer):
    """An agent's state. The last three fields are base64: of JSON, and of two safetensors files."""

    model: str
    state_size: int | list[int] | None = None
    """That of the `config`: absent if it has `obs_size`, which is here, too; null if it has `observation_space`."""
    action_size: int | list[int]
    encoded_config: str
    encoded_network: str
    encoded_buffer: str


class Counters(Answer):
    """Progress of an agent."""

    global_timestep: int = 0
    """Accepted steps."""
    global_step: int = 0
    """Updates."""
    global_episode: int = 0
    """Finished episodes."""


class AgentObject(Answer):
    """An agent."""

    id: str
    name: str
    model: str
    description: str
    config: dict[str, Any]
    """Sizes and all hyperparameters, including defaults."""
    is_active: bool
    status: Literal["creating", "ready", "failed"]
    status_detail: str
    """Reason for the failure."""
    learning: bool
    discrete: bool
    counters: Counters
    episode_return_mean: float | None
    """Mean of the last 100 episodes."""
    created_at: Time
    """UTC in ISO 8601, like all times."""
    last_active: OptionalTime
    bytes: int
    """Size on disk, without the compiled program."""
    executor: str | None
    """`litert`; null while the agent is not loaded."""


class ChangedAgent(AgentObject):
    """An agent after a change."""

    lost: int
    """Number of records set aside, and never applied, to continue after a failure."""


class Removed(Answer):
    """Name of the agent or user that was removed."""

    removed: str


class Uploaded(Answer):
    """Name of the agent that has a new state."""

    uploaded: str


class Loss(Answer):
    """Loss and metrics of the last update, by name; empty before the first update."""

    model_config = ConfigDict(extra="allow")

    loss: float | None = None
    """Null if not finite, like every other metric."""


class EpisodeObject(Answer):
    """An episode that has ended."""

    episode: int
    """Counted from 1."""
    episode_return: float
    length: int
    terminated: bool
    truncated: bool
    environment: str
    time: float
    """Seconds since 1970."""


class Hyperparameter(Answer):
    """A hyperparameter that `config` of a new agent accepts."""

    name: str
    synonyms: list[str]
    """Other accepted names."""
    default: Any
    allowed: str
    meaning: str


class ModelObject(Answer):
    """A hosted model."""

    model: str
    summary: str
    actions: list[str]
    """`discrete` or `continuous`, or both."""
    noise: dict[str, str]
    """Meaning of the parameter `noise` of `act`, for each kind of action."""
    hyperparameters: list[Hyperparameter]


class ServiceObject(Answer):
    """The interface, and the limits of the account."""

    version: str
    limits: dict[str, int]
    """Limits by name; 0: no limit."""


class LoggedIn(Answer):
    """A login token."""

    access_token: str
    token_type: Literal["bearer"] = "bearer"
    expires_in: int
    """Seconds after which it ends in any case; unused, it ends after `tokens.login_idle_hours`."""


class Me(Answer):
    """The account that the token belongs to."""

    name: str
    role: str
    quotas: dict[str, int]
    """`agents`, `bytes`, `requests_per_minute`, ...; 0: no limit."""
    usage: dict[str, int]
    """`agents`, and their `bytes` on disk, including compiled programs."""


class TokenObject(Answer):
    """A token, without the token itself."""

    id: str
    name: str
    scopes: Annotated[list[str], BeforeValidator(sorted)]
    agents: list[str] | None
    last_four: str
    created_at: Time
    expires_at: OptionalTime
    last_used: OptionalTime
    revoked_at: OptionalTime


class CreatedToken(TokenObject):
    """A new token; shown only once."""

    token: str


class Fault(Answer):
    """An invalid value."""

    where: str
    what: str


class ProblemDocument(Answer):
    """An error (RFC 9457)."""

    type: str = "about:blank"
    title: str
    status: int
    code: str
    request_id: str
    detail: str | None = None
    errors: list[Fault] | None = None
