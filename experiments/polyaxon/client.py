"""Polyaxon's client with timeouts, without output, and with readable errors."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from ..errors import TrackerError

ANSWER_SECS: Final = 5.0
"""Timeout for an answer, in seconds."""
PROJECT: Final = "axonrl"
"""The default project."""
OWNER: Final = "default"
"""The default owner, as in Polyaxon's community edition."""
MAX_QUOTED: Final = 300
"""Maximum number of characters of a server's text in a message."""


class PolyaxonError(TrackerError):
    """A Polyaxon server could not be reached, or refused a request; the text is for the user.

    Args:
        text: what is wrong, with the server's address.
        status: the HTTP status, if there was one.
    """

    def __init__(self, text: str, status: int | None = None) -> None:
        super().__init__(text)
        self.status = status


def silence() -> Any:
    """The settings of Polyaxon's client, after silencing it; it would print its token."""
    from polyaxon import settings

    for name in ("polyaxon", "polyaxon.cli", "traceml", "urllib3.connectionpool"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # on errors, the client prints its configuration
    settings.CLIENT_CONFIG.debug = False  # with POLYAXON_DEBUG it would print the headers of all requests
    # Already decided; otherwise these would leave the client's objects incomplete.
    settings.CLIENT_CONFIG.no_op = settings.CLIENT_CONFIG.is_offline = False
    return settings


def connect(host: str | None = None) -> Any:
    """A ``polyaxon.client.PolyaxonClient``.

    Args:
        host: the server's address; None for ``POLYAXON_HOST``, or the one of ``polyaxon config``. The token is always
            taken from ``POLYAXON_AUTH_TOKEN`` or ``polyaxon login``.

    Raises:
        PolyaxonError: the token is invalid.
    """
    settings = silence()
    from polyaxon.client import PolyaxonClient

    settings.LONG_REQUEST_TIMEOUT = ANSWER_SECS  # for each send and receive of an upload, not for all of it
    known, login = settings.CLIENT_CONFIG, settings.AUTH_CONFIG
    token = (os.environ.get("POLYAXON_AUTH_TOKEN") or known.token or (login and login.token) or "").strip()
    if not re.fullmatch("[!-~]*", token):  # errors about the header would quote it
        raise PolyaxonError("The token for Polyaxon is invalid: it contains spaces or non-ASCII characters.")
    config = known.model_copy(  # by field names; the constructor takes names of environment variables
        update={
            "host": host or os.environ.get("POLYAXON_HOST") or known.host,
            "verify_ssl": known.verify_ssl is not False,  # by default the client would trust any server
            "timeout": ANSWER_SECS,
            "retries": 0,
            "token": token,
        }
    )
    return PolyaxonClient(config=config, token=token)


def run_client(client: Any, owner: str, project: str, uuid: str | None = None) -> Any:
    """A ``polyaxon.client.RunClient`` over the result of :func:`connect`: for a run, or for new runs in a project."""
    from polyaxon.client import RunClient

    return RunClient(owner, project, uuid, client, is_offline=False, no_op=False, manual_exceptions_handling=True)


def owner_and_project(project: str | None) -> tuple[str, str]:
    """The two parts of ``OWNER/NAME``, with defaults."""
    owner, _, name = (project or PROJECT).rpartition("/")
    return owner or OWNER, name


@contextmanager
def explained(client: Any, owner: str, project: str) -> Iterator[None]:
    """Turn errors of the client within the context into a :class:`PolyaxonError`, which never quotes a header."""
    import requests
    import urllib3
    from polyaxon.exceptions import ApiException, PolyaxonClientException

    host = client.config.host
    try:
        yield
    except ApiException as error:
        raise _refusal(client, f"{owner}/{project}", error.status, error.reason, error.body) from None
    except (urllib3.exceptions.HTTPError, requests.exceptions.RequestException) as error:
        raise PolyaxonError(f"{host} {_failure(error)}") from None
    except PolyaxonClientException as error:
        raise PolyaxonError(f"{host}: {error}") from None
    except ValueError:  # the client's own, about JSON
        raise nonsense(host) from None
    except (AttributeError, KeyError, TypeError) as error:  # for example if an answer is null
        raise nonsense(host) from error


def nonsense(host: str) -> PolyaxonError:
    """The error for an answer that did not come from a Polyaxon server."""
    return PolyaxonError(f"{host} is not a Polyaxon server, by its answers")


def check_answer(client: Any, owner: str, project: str, answer: Any) -> None:
    """Raise the error of an upload's ``requests.Response``, as the client leaves that to its callers."""
    if not answer.ok:
        raise _refusal(client, f"{owner}/{project}", answer.status_code, answer.reason, answer.content)


def _refusal(
    client: Any, project: str, status: int | None, reason: str | None, body: str | bytes | None
) -> PolyaxonError:
    host = client.config.host
    if status == 401:
        text = "refuses the token, or requires one: set POLYAXON_AUTH_TOKEN, or use polyaxon login"
    elif status == 403:
        text = f"denies access to the project {project}"
    elif status == 404:
        text = f"does not have this in the project {project}"
    elif status == 405:
        # haupt 2.18 hands its errors to a page that only takes GET. SQLite's "database is locked" is one.
        text, status = "failed: Polyaxon servers answer 405 on internal errors", 500
    else:
        words = _words(body, client.config.token) if status is not None and 400 <= status < 500 else ""
        text = f"answers {status or 'nonsense'}{f' ({reason})' if reason else ''}{words and f': {words}'}"
    return PolyaxonError(f"{host} {text}", status)


def _words(body: str | bytes | None, token: str) -> str:
    """A server's JSON about a refused request, in one line; empty for a web page."""
    try:
        said = json.loads(body or "null")
    except (ValueError, RecursionError):
        return ""
    text = json.dumps(said, ensure_ascii=False) if said else ""
    text = text.replace(token, "***") if token else text
    return text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}..."


def _failure(error: Exception) -> str:
    """Why there is no complete answer."""
    kinds = {type(cause).__name__ for cause in _causes(error)}
    if any("Timeout" in kind for kind in kinds):
        return f"does not answer within {ANSWER_SECS:g} seconds"
    found = (text for kind, text in _FAILURES.items() if kind in kinds)
    return next(found, f"cannot be reached: {type(error).__name__}")


_FAILURES: Final = {
    "NameResolutionError": "cannot be reached: unknown host",
    "gaierror": "cannot be reached: unknown host",
    "ConnectionRefusedError": "cannot be reached: connection refused",
    "SSLError": "has an invalid certificate",
    "SSLCertVerificationError": "has an invalid certificate",
    "BadStatusLine": "does not speak HTTP",
    "ProtocolError": "closed the connection",
}
"""Names of exceptions, the most informative first."""


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        reason = getattr(error, "reason", None)
        inner = next((arg for arg in error.args if isinstance(arg, BaseException)), None)
        error = error.__cause__ or error.__context__ or (reason if isinstance(reason, BaseException) else inner)
