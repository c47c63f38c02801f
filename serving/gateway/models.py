"""Bodies and answers of the HTTP API, as they are described in its OpenAPI document."""

from __future__ import annotations

import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Scope = Literal["read", "act", "learn", "manage", "metrics", "admin"]
Observation = list[Any] | dict[str, Any] | float | int
"""Numbers: a list, nested for an image; or a mapping, for a Dict space."""
Action = list[float | int] | float | int


class Body(BaseModel):
    """A request's body: unknown fields are refused, and types are not converted."""

    model_config = ConfigDict(extra="forbid", strict=True)


class NewAgent(Body):
    """An agent to create."""

    name: str
    model: str
    description: str | None = ""
    config: dict[str, Any] = Field(default_factory=dict)
    """Sizes and hyperparameters: see `GET /models`."""
    is_active: bool = True


class AgentChange(Body):
    """What of an agent is to change."""

    description: str | None = None
    is_active: bool | None = None
    learning: bool | None = None
    status: Literal["ready"] | None = None
    """Go on after a failure, from what is intact."""


class NewToken(Body):
    """A token to create."""

    name: str
    scopes: list[Scope]
    agents: list[str] | None = None
    """Names of the agents that it is for; null: all."""
    expires_in: Annotated[int, Field(ge=1)] | None = None
    """Seconds."""


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
    action: Action
    reward: float
    next_state: Observation
    done: bool
    truncated: bool = False
    environment: str | None = None


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
    environment: str | None = None
    environments: list[str] | None = None
    explore: bool | None = None


class Acted(BaseModel):
    """The action: a list of one integer for discrete actions."""

    action: list[float | int]


class ActedBatch(BaseModel):
    """An action for each observation."""

    actions: list[list[float | int]]


class Accepted(BaseModel):
    """How many steps were accepted, and the number of the last of them."""

    accepted: int
    seq: int


class EndEpisode(Body):
    """The environment that was reset."""

    environment: str | None = None


class Snapshot(BaseModel):
    """An agent's state. The last three are base64, of JSON and of safetensors."""

    model: str
    state_size: int | list[int]
    action_size: int
    encoded_config: str
    encoded_network: str
    encoded_buffer: str


class Counters(BaseModel):
    """How far an agent is."""

    global_timestep: int = 0
    global_step: int = 0
    global_episode: int = 0


class AgentObject(BaseModel):
    """An agent."""

    id: str
    name: str
    model: str
    description: str
    config: dict[str, Any]
    is_active: bool
    status: Literal["creating", "ready", "failed"]
    status_detail: str
    learning: bool
    discrete: bool
    counters: Counters
    episode_return_mean: float | None
    created_at: str
    last_active: str | None
    bytes: int
    executor: str | None


class ChangedAgent(AgentObject):
    """An agent after a change."""

    lost: int
    """Records that were set aside so that it could go on after a failure."""


class Removed(BaseModel):
    """What is gone."""

    removed: str


class LoggedIn(BaseModel):
    """A login token."""

    access_token: str
    token_type: Literal["bearer"] = "bearer"
    expires_in: int


class Me(BaseModel):
    """The account that the token is of."""

    name: str
    role: str
    quotas: dict[str, int]
    usage: dict[str, int]


class TokenObject(BaseModel):
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


class UserObject(BaseModel):
    """A user."""

    name: str
    role: str
    disabled: bool
    created_at: str
    quotas: dict[str, int]


class AuditObject(BaseModel):
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


class Fault(BaseModel):
    """A place that is wrong."""

    where: str
    what: str


class ProblemDocument(BaseModel):
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
