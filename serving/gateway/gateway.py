"""Shared state of all routes: accounts, workers, tokens, limits, metrics."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import datetime as dt
import ipaddress
import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from ..accounts import Accounts, AgentRows, Audit, By, Grant, Idempotency
from ..accounts.agents import CREATING
from ..accounts.audit import SERVICE
from ..accounts.tables import Agent
from ..hosting.requests import most_values
from ..limits import Buckets, Held, PerMinute, beyond, network
from ..logs import LOGGER
from ..refusals import RefusedError
from ..workers.pool import Pool, WorkerResponse
from .leases import LeasedPool
from .problems import being_created, not_found, of_failure
from .prometheus import Gauges, Meters
from .settings import Settings
from .threads import Threads
from .tokens import Tokens

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

API: Final = "/api/v1"
ANONYMOUS: Final = Grant("", "", "", "unknown", "", frozenset(), frozenset(), dt.datetime.max, None, {})
"""The grant of a request without a token."""
FEW: Final = 10_000
"""JSON values that any body may have: they are read in less than a millisecond."""
_REFUSALS_PER_MINUTE: Final = 10
"""Refusals per address that the audit log records; the rest are only counted."""
_CREATION: Final = dt.timedelta(minutes=10)
"""Longer than any creation takes."""
_OF_STEPS: Final = 2
"""Quotas of bytes above which an account's steps are refused: agents that exist may grow somewhat beyond one."""


class Known(NamedTuple):
    """An agent that acts and steps, with the maximum number of JSON values of a step's and of a batch's body."""

    id: str
    step_values: int
    batch_values: int


@dataclasses.dataclass(eq=False)
class Gateway:
    """Parts of the service that all routes use, and the gateway's own state in memory.

    Args:
        settings: the configuration.
        accounts: users and tokens.
        rows: the agents' table.
        pool: the workers.
        catalogue: the hosted models: :mod:`axonrl.serving.catalogue`.
        audit: the audit log.
        idempotency: answers to requests with a key.
        checks: more checks of ``/readyz``, by name: each returns what is wrong.
        gauges: more metrics.
        program_bytes: bytes of the compiled programs used by the agents of these ids, each counted once.
        shared: whether other servers create and remove agents in the same database.
    """

    settings: Settings
    accounts: Accounts
    rows: AgentRows
    pool: Pool | LeasedPool
    catalogue: Any
    audit: Audit
    idempotency: Idempotency
    checks: Mapping[str, Callable[[], str]] = dataclasses.field(default_factory=dict)
    gauges: Gauges | None = None
    program_bytes: Callable[[Iterable[str]], int] = lambda agents: 0
    shared: bool = False

    def __post_init__(self) -> None:
        self.limits = limits = self.settings.limits
        largest = max(limits.batch_bytes, limits.body_bytes) if limits.batch_bytes and limits.body_bytes else 0
        self.bodies = Held(largest, "limits.batch_bytes")
        """Bodies in memory, until their requests are answered; and in files, with large answers until they are sent."""
        self.files = Held(limits.state_bytes, "limits.state_bytes")
        self.meters = Meters(self.gauges)
        self.threads = Threads(self.meters)
        self.tokens = Tokens(self.accounts, self.threads)
        self.proxies: list[Network] = [ipaddress.ip_network(one) for one in self.settings.listen.behind_proxy]
        self.known: dict[tuple[str, str], Known] = {}
        """Ready and active agents, by owner's id and name."""
        self._forgotten = 0
        """Number of times that agents were forgotten: a row that was read before may say that one is active."""
        self.creating: set[str] = set()
        """Agents in creation here; the creator of one that is removed meanwhile completes its removal."""
        self.building = collections.defaultdict[str, asyncio.Lock](asyncio.Lock)
        """Locks by owner's id, held while a program may be built: others wait for one of an account, not for all."""
        self.sizes: dict[str, int] = {}
        """Bytes of each account's agents, by owner's id, within the last minute."""
        self.used: dict[str, float] = {}
        """Times at which agents acted or stepped, since they were last stored in the database."""
        self.under_way: set[tuple[str, str]] = set()
        """Requests with an ``Idempotency-Key`` in progress: user's id and key."""
        self.stopping = False
        self._steps = Buckets(beyond("steps_per_second", "steps of this agent"), 1.0, 1.0)
        self._rates: dict[str, Buckets | PerMinute] = {
            "requests_per_minute": Buckets(beyond("requests_per_minute", "requests"), 60.0, 10.0),
            "steps_per_second": self._steps,
            "changes_per_minute": PerMinute(beyond("changes_per_minute", "changes")),
            "creations_per_minute": PerMinute(beyond("creations_per_minute", "creations")),
            "transfers_per_minute": PerMinute(beyond("transfers_per_minute", "transfers of this agent's state")),
        }
        self._refusals, self._unrecorded = PerMinute("refusals"), collections.Counter[str]()

    # -- limits -------------------------------------------------------------------------------------------------------

    def limit(self, grant: Grant, name: str) -> int:
        """A limit: the user's own, or the configuration's."""
        own = grant.quotas.get(name)
        return int(getattr(self.limits, name)) if own is None else own

    def charge(self, rate: str, grant: Grant, key: str) -> None:
        """Count an event under a limit; ``rate_limited``.

        Args:
            rate: the limit: ``requests_per_minute``, ``steps_per_second``, ``changes_per_minute``,
                ``creations_per_minute``, ``transfers_per_minute``.
            grant: whose limit.
            key: id of the account or the agent that it is counted for.
        """
        self._rates[rate].take(key, self.limit(grant, rate), time.monotonic())

    def owe_steps(self, agent: str, count: int) -> None:
        """Count steps that were already done."""
        self._steps.owe(agent, count)

    async def usage(self, owner: str) -> dict[str, int]:
        """Number of an account's agents, and the bytes of these and of the compiled programs that they use."""

        def read_usage() -> dict[str, int]:
            usage = self.rows.usage(owner)
            return {**usage, "bytes": usage["bytes"] + self.program_bytes(self.rows.ids(owner))}

        return await self.threads.call(read_usage)

    async def check_bytes(self, grant: Grant) -> None:
        """Refuse to add to an account that has used up its quota of bytes; ``quota_exceeded``."""
        most = self.limit(grant, "bytes")
        used = (await self.usage(grant.user_id))["bytes"] if most else 0
        if most and used >= most:
            what = f"the account's agents and their compiled programs have {used:,} bytes, and its quota is {most:,}"
            raise RefusedError("quota_exceeded", what)

    def check_growth(self, grant: Grant) -> None:
        """Refuse steps to an account that has far more bytes than its quota; ``quota_exceeded``."""
        used, most = self.sizes.get(grant.user_id, 0), self.limit(grant, "bytes")
        if most and used > _OF_STEPS * most:
            what = f"the account's agents have {used:,} bytes, over {_OF_STEPS} times its quota, {most:,}: remove some"
            raise RefusedError(
                "quota_exceeded", f"{what}, or have an administrator raise it; it is counted each minute"
            )

    # -- agents -------------------------------------------------------------------------------------------------------

    async def row(self, owner: str, name: str) -> Agent:
        """An agent's row, from the database; ``not_found``."""
        found = await self.threads.call(self.rows.by_name, owner, name)
        if found is None:
            raise not_found("the agent")
        return found

    async def known_agent(self, grant: Grant, name: str) -> Known:
        """An agent that acts and steps; queries the database only the first time.

        Raises:
            RefusedError: there is no such agent, it is still being created, or it is not active.
        """
        self.check_agent(grant, name)
        found = self.known.get((grant.user_id, name))
        if found is not None:
            return found
        forgotten = self._forgotten
        row = await self.row(grant.user_id, name)
        if row.status == CREATING:
            raise being_created()
        if not row.is_active:
            raise RefusedError("agent_inactive", 'the agent is not active: PATCH {"is_active": true} activates it')
        values = await asyncio.to_thread(most_values, row.config)
        known = Known(row.id, *(max(one, FEW) for one in values))
        if forgotten == self._forgotten:
            self.known[grant.user_id, name] = known
        return known

    def check_agent(self, grant: Grant, name: str) -> None:
        """Hide agents that a token does not cover; ``not_found``."""
        if grant.agents is not None and name not in grant.agents:
            raise not_found("the agent")

    def forget(self, agent: str) -> None:
        """Forget an agent's name."""
        self._forgotten += 1
        self.known = {key: one for key, one in self.known.items() if one.id != agent}

    async def ask(self, agent: str, do: str, body: bytes = b"", **head: Any) -> WorkerResponse:
        """Send a request to an agent's worker.

        Raises:
            RefusedError: the worker answered with a failure.
        """
        answer = await self.pool.ask(agent, do, body, **head)
        if answer.status >= 400:
            raise of_failure(answer)
        return answer

    async def ask_once(self, row: Agent, do: str, body: bytes = b"", **head: Any) -> WorkerResponse:
        """:meth:`ask`, and unload an inactive agent afterwards, so that it takes no memory."""
        try:
            return await self.ask(row.id, do, body, **head)
        finally:
            if not row.is_active:
                await self.pool.ask(row.id, "close")

    async def remove(self, row: Agent, by: By) -> None:
        """Remove an agent. The first step hides it; the rest is repeated if it is interrupted or fails.

        Raises:
            RefusedError: the database failed.
        """
        await self.threads.call(self.rows.mark_removed, row.id, by=by)
        await self.finish_removal(row.id)

    async def finish_removal(self, agent: str) -> None:
        """Remove the folder and the row of a marked agent, unless its creation here will do that.

        A failure is logged: :meth:`finish_removals` repeats it, as does another server that has the agent.
        """
        if agent in self.creating:
            return
        self.forget(agent)
        try:
            answer = await self.pool.ask(agent, "remove")
            if answer.status >= 400 and answer.status != 404:
                raise of_failure(answer)
            await self.threads.call(self.rows.remove, agent)
        except RefusedError as problem:
            LOGGER.log(logging.INFO if self.shared else logging.WARNING, "removing %s again: %s", agent, problem.detail)
        else:
            self.used.pop(agent, None)

    # -- the audit log ------------------------------------------------------------------------------------------------

    async def record(self, what: str, by: By, target: str = "", outcome: str = "ok", **detail: Any) -> None:
        """Append to the audit log. A failure is logged and counted, and does not fail the completed request."""
        try:
            await self.threads.call(self.audit.write, what, by, target, outcome, **detail)
        except Exception as error:
            self.meters.count("audit_failures")
            LOGGER.error("the audit log failed: %s", error, extra={"request_id": by.request_id})

    async def record_refusal(self, code: str, by: By, target: str, what: str = "request") -> None:
        """Append a refusal, a few per address, so that the log cannot be used to fill the disk."""
        address = network(by.address)
        try:
            self._refusals.take(address, _REFUSALS_PER_MINUTE, time.monotonic())
        except RefusedError:
            self._unrecorded[address] += 1
            return
        await self.record(what, by, target, code)

    async def record_unrecorded(self) -> None:
        """Append the number of unrecorded refusals, and of their addresses."""
        counts, self._unrecorded = self._unrecorded, collections.Counter()
        if counts:
            await self.record("requests", SERVICE, "", "refused", refused=counts.total(), addresses=len(counts))

    # -- background ------------------------------------------------------------------------------------------

    def health(self) -> dict[str, str]:
        """Checks of ``/readyz``: name to ``ok``, or to what is wrong."""
        checks = {
            "server": "stopping" if self.stopping else "ok",
            "database": "ok" if self.tokens.fresh else "not reached",
        }
        checks.update((name, check() or "ok") for name, check in self.checks.items())
        return checks

    async def start(self) -> None:
        """Load the tokens, and clean up interrupted creations and removals: none is in progress yet."""
        await self.tokens.refresh()
        await self.finish_removals(starting=True)
        self.sizes = await self.threads.call(self.rows.sizes)

    async def finish_removals(self, *, starting: bool = False) -> None:
        """Remove agents marked by the command line, and abandoned creations; see what other servers have changed."""
        unfinished = await self.threads.call(self.rows.all_unfinished)
        if self.shared:
            self.known = {}
        for row in unfinished:
            if row.status == CREATING:
                if not (self._is_abandoned(row) or (starting and not self.shared)):
                    continue
                await self.threads.call(self.rows.mark_removed, row.id)
            await self.finish_removal(row.id)

    def _is_abandoned(self, row: Agent) -> bool:
        """Whether a creation is so old that no server can still be working on it, as where its row came too late."""
        now = dt.datetime.now(dt.timezone.utc)
        if row.id in self.creating:
            return False
        return row.created_at < now - _CREATION and (row.lease_until is None or row.lease_until < now)

    async def note_used(self) -> None:
        """Store in the database when agents were last used, and their bytes; and count those of each account.

        What cannot be stored now, as a worker or the database does not answer, is stored the next time.
        """
        used, self.used = self.used, {}
        try:
            answers = await asyncio.gather(*(self.pool.ask(agent, "info", wake=False) for agent in used))
            seen: dict[str, tuple[dt.datetime | None, int | None]] = {}
            for (agent, at), answer in zip(used.items(), answers, strict=True):
                if answer.status == 200:  # without bytes if it is not in memory
                    seen[agent] = dt.datetime.fromtimestamp(at, dt.timezone.utc), info_of(answer).get("bytes")
            await self.threads.call(self.rows.note, seen)
            used = {agent: at for agent, at in used.items() if agent not in seen}
        finally:
            self.used = {**used, **self.used}
        self.sizes = await self.threads.call(self.rows.sizes)


def info_of(answer: WorkerResponse) -> dict[str, Any]:
    """Parsed answer of ``info``."""
    found: dict[str, Any] = json.loads(answer.body)
    return found
