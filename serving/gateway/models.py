"""Bodies and answers of the HTTP API, as they are described in its OpenAPI document."""

from __future__ import annotations

import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Scope = Literal["read", "act", "learn", "manage", "metrics", "admin"]
Observation = list[Any] | dict[str, Any] | float | int
"""Numbers: a list, nested for an image; or a mapping, for a Dict space."""
Action = list[float | int] | float | int


class Answer(BaseModel):
    """What is answered. Docstrings of fields, here and below, are their descriptions."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class Body(BaseModel):
    """A request's body: unknown fields are refused, and types are not converted."""

    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)


class NewAgent(Body):
    """An agent to create."""

    name: str
    """1 to 64 letters, digits, `.`, `_` or `-`; the first is a letter or a digit."""
    model: str
    """As in `GET /models`: `dqn`, ..."""
    description: str | None = ""
    config: dict[str, Any] = Field(default_factory=dict)
    """Sizes and hyperparameters: see `GET /models`."""
    is_active: bool = True
    """May it act and learn? If not, it takes no memory."""


class AgentChange(Body):
    """What of an agent is to change."""

    description: str | None = None
    is_active: bool | None = None
    """One that is not active takes no memory, and refuses acts and steps."""
    learning: bool | None = None
    """Are steps taken?"""
    status: Literal["ready"] | None = None
    """Go on after a failure, from what is intact."""


class NewToken(Body):
    """A token to create."""

    name: str
    """A line of text, by which it is known in lists."""
    scopes: list[Scope]
    """None that the token that is used does not have itself."""
    agents: list[str] | None = None
    """Names of the agents that it is for; null: all."""
    expires_in: Annotated[int, Field(ge=1)] | None = None
    """Seconds; null: `tokens.default_days`."""


class NewPassword(Body):
    """A change of one's own password."""

    current: str
    new: str


class NewUser(Body):
    """A user to create."""

    name: str
    password: str
    role: Literal["user", "admin"] = "user"


class UserChange(Body):
    """What of a user is to change."""

    password: str | None = None
    disabled: bool | None = None
    quotas: dict[str, int | None] | None = None
    """Null takes one back to the service's; 0 is no limit."""


class StepData(Body):
    """What happened in one timestep. `obs` and `next_obs` are taken for `state` and `next_state`."""

    state: Observation
    """What was observed before."""
    action: Action
    """As it was answered."""
    reward: float
    next_state: Observation
    """What was observed after it."""
    done: bool
    """The episode has ended for good: nothing is bootstrapped."""
    truncated: bool = False
    """It was cut: what follows is bootstrapped."""
    environment: str | None = None
    """Which of the agent's environments; up to 128 characters."""


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
    """Up to 1,000, in place of `observation`."""
    environment: str | None = None
    """The one that acts."""
    environments: list[str] | None = None
    """One for each of `observations`."""
    explore: bool | None = None
    """True: the agent's own behaviour policy; false: the greedy action."""


class Acted(Answer):
    """The action: a list of one integer for discrete actions."""

    action: list[float | int]


class ActedBatch(Answer):
    """An action for each observation."""

    actions: list[list[float | int]]


class Accepted(Answer):
    """How many steps were accepted, and the number of the last of them."""

    accepted: int
    seq: int
    """Counted from 1, of all environments."""


class EndEpisode(Body):
    """The environment that was reset."""

    environment: str | None = None


class Snapshot(Answer):
    """An agent's state. The last three are base64, of JSON and of safetensors."""

    model: str
    state_size: int | list[int]
    action_size: int
    encoded_config: str
    encoded_network: str
    encoded_buffer: str


class Counters(Answer):
    """How far an agent is."""

    global_timestep: int = 0
    """Steps that were accepted."""
    global_step: int = 0
    """Updates."""
    global_episode: int = 0
    """Episodes that have ended."""


class AgentObject(Answer):
    """An agent."""

    id: str
    name: str
    model: str
    description: str
    config: dict[str, Any]
    """Sizes and every hyperparameter, also those that were not given."""
    is_active: bool
    status: Literal["creating", "ready", "failed"]
    status_detail: str
    """Why it has failed."""
    learning: bool
    discrete: bool
    counters: Counters
    episode_return_mean: float | None
    """Of the last 100 episodes."""
    created_at: str
    """UTC, ISO 8601, as all times."""
    last_active: str | None
    bytes: int
    """On the disk, without its compiled program."""
    executor: str | None
    """`litert`; null while it is not in memory."""


class ChangedAgent(AgentObject):
    """An agent after a change."""

    lost: int
    """Records that were set aside so that it could go on after a failure."""


class Removed(Answer):
    """What is gone."""

    removed: str


class Uploaded(Answer):
    """Which agent has a new state."""

    uploaded: str


class Loss(Answer):
    """Loss and metrics of the last update, by name; empty before the first."""

    model_config = ConfigDict(extra="allow")

    loss: float | None = None
    """Null where it is not finite, as any other metric."""


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
    """What may be given in an agent's `config`."""

    name: str
    synonyms: list[str]
    """Other names under which it is taken."""
    default: Any
    allowed: str
    meaning: str


class ModelObject(Answer):
    """A model that is hosted."""

    model: str
    summary: str
    actions: list[str]
    """`discrete`, `continuous`."""
    noise: dict[str, str]
    """What `noise` of an act means, for each kind of actions."""
    hyperparameters: list[Hyperparameter]


class ServiceObject(Answer):
    """The interface, and the limits of the account."""

    version: str
    limits: dict[str, int]
    """By name; 0 is no limit."""


class LoggedIn(Answer):
    """A login token."""

    access_token: str
    token_type: Literal["bearer"] = "bearer"
    expires_in: int
    """Seconds, from its last use on."""


class Me(Answer):
    """The account that the token is of."""

    name: str
    role: str
    quotas: dict[str, int]
    """`agents`, `bytes`, `requests_per_minute`, ...; 0 is no limit."""
    usage: dict[str, int]
    """`agents`, and `bytes` on the disk with the compiled programs."""


class TokenObject(Answer):
    """A token, without the token itself."""

    id: str
    name: str
    scopes: list[str]
    agents: list[str] | None
    last_four: str
    created_at: str
    expires_at: str | None
    last_used: str | None
    revoked_at: str | None


class CreatedToken(TokenObject):
    """A new token. It is shown this once."""

    token: str


class UserObject(Answer):
    """A user."""

    name: str
    role: str
    disabled: bool
    created_at: str
    quotas: dict[str, int]


class AuditObject(Answer):
    """An entry of the audit log."""

    id: int
    time: str
    who: str
    address: str
    what: str
    target: str
    outcome: str
    request_id: str
    detail: dict[str, Any]


class Fault(Answer):
    """A place that is wrong."""

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


def time_text(time: datetime.datetime | None) -> str | None:
    """A time in UTC, by ISO 8601."""
    if time is None:
        return None
    return time.astimezone(datetime.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
