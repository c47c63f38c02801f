"""Requests made up from a service's own OpenAPI document: valid ones, and ones that are wrong somewhere."""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import threading
import urllib.parse
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from ..tests.serving.service import Service

AGENTS: Final = ("fuzz-dqn", "fuzz-ddpg", "fuzz-new")
USERS: Final = ("fuzz-user", "fuzz-other")
"""Users that may be removed, disabled and changed; those whose tokens are sent may not, or nothing would be reached."""
_ODD: Final = ("nobody", "..", "%00", "a" * 300, "\U0001f9e0", "' OR 1=1 --", "0")
_OF_USER: Final = "/api/v1/users/{name}"
HOSTILE: Final[tuple[Any, ...]] = (
    None, True, False, 0, -1, 0.5, 1e39, -0.0, 2**63, 10**30, "", "a", "\0", "../..", "' OR 1=1 --", "\U0001f9e0",
    "x" * 2000, [], [[]], [1], [[1.0] * 4], [None], {}, {"": 1}, {"name": {"name": {}}}, "2026-01-01", "ready", "act",
)  # fmt: skip
BYTES: Final = (
    b"", b"{", b"[" * 5000, b"null", b'{"a":NaN}', b"[1e999]", b'"\xed\xa0\x80"', b"\xff\xfe", b"\x1f\x8b\x08\x00",
    b"a=b", b"gASVCgAAAAAAAAB9lC4=", b"\x00" * 100, b"\xff" * 9, (2**62).to_bytes(8, "little") + b"{}",
)  # fmt: skip
NUMBERS: Final = (0, 1, -1, 2, 4, 0.1, 0.9, 100, 1000)
_DEEPEST: Final = 8


class Fuzz:
    """Makes requests.

    Args:
        document: OpenAPI's.
        seed: of the generator.
    """

    def __init__(self, document: Mapping[str, Any], seed: int) -> None:
        self._schemas = document.get("components", {}).get("schemas", {})
        self._calls = [
            (method, path, call)
            for path, calls in document["paths"].items()
            for method, call in calls.items()
            if path not in ("/api/v1/logout", "/api/v1/users/me/password")  # which end the tokens of the rest
        ]
        self._dice = random.Random(seed)

    def request(self) -> tuple[str, str, bytes | None, dict[str, str]]:
        """Method, path with query, body, headers."""
        dice = self._dice
        method, call_path, call = dice.choice(self._calls)
        path = call_path
        query, headers = dict[str, str](), dict[str, str]()
        for one in call.get("parameters", ()):
            if one["in"] == "path":
                name = one["name"]
                drawn = self._name(name, call_path, changes=method != "get")
                path = path.replace(f"{{{name}}}", urllib.parse.quote(drawn, safe=""))
            elif dice.random() < 0.4:
                value = self._text(self._of(one["schema"]))
                (query if one["in"] == "query" else headers)[one["name"]] = value
        if dice.random() < 0.02:
            query["nosuch"] = "1"
        body = None
        content = call.get("requestBody", {}).get("content", {})
        if content and dice.random() < 0.98:
            kind, about = next(iter(content.items()))
            headers["Content-Type"] = (
                kind if dice.random() < 0.97 else dice.choice(["text/xml", "", "application/json; x"])
            )
            body = self._body(kind, about["schema"])
        if query:
            path += "?" + urllib.parse.urlencode(query)
        return method.upper(), path, body, {name: self._header(value) for name, value in headers.items()}

    def _name(self, parameter: str, path: str, *, changes: bool) -> str:
        """A name within a path."""
        dice = self._dice
        if parameter == "name" and path.startswith(_OF_USER):
            known = USERS if changes and path == _OF_USER else (*USERS, "alice")
            return dice.choice(known if dice.random() < 0.9 else _ODD)
        if parameter in ("name", "agent") and dice.random() < 0.9:
            return dice.choice(AGENTS)
        return dice.choice(("alice", *_ODD))

    def _text(self, value: Any) -> str:
        return value if isinstance(value, str) else json.dumps(value)

    def _header(self, value: str) -> str:
        return "".join(one for one in value if " " <= one <= "~")[:200]

    def _body(self, kind: str, schema: Mapping[str, Any]) -> bytes:
        dice = self._dice
        if dice.random() < 0.05 or "octet" in kind:
            return dice.choice(BYTES)
        value = self._of(schema)
        if "form" in kind and isinstance(value, dict):
            return urllib.parse.urlencode(
                {name: self._text(one) for name, one in value.items()}, errors="replace"
            ).encode()
        encoded = json.dumps(value).encode()
        return encoded if dice.random() < 0.97 else encoded[: dice.randrange(len(encoded) + 1)]

    def _of(self, schema: Mapping[str, Any], depth: int = 0) -> Any:
        """A value of a schema, or sometimes not."""
        dice = self._dice
        if dice.random() < 0.06 or depth > _DEEPEST:
            return dice.choice(HOSTILE)
        if "$ref" in schema:
            return self._of(self._schemas[schema["$ref"].rpartition("/")[2]], depth + 1)
        for several in ("anyOf", "oneOf"):
            if several in schema:
                return self._of(dice.choice(schema[several]), depth + 1)
        if "enum" in schema:
            return dice.choice(schema["enum"])
        match schema.get("type"):
            case "object":
                return self._object(schema, depth)
            case "array":
                count = dice.choice((0, 1, 1, 2, 3, 4, 4, 4, 9))
                return [self._of(schema.get("items", {}), depth + 1) for _ in range(count)]
            case "integer":
                return dice.choice((0, 1, 2, 4, 100, -1))
            case "number":
                return dice.choice(NUMBERS)
            case "boolean":
                return dice.random() < 0.5
            case "string":
                return dice.choice([*AGENTS, *USERS, "dqn", "ready", "a", "correct horse battery", "e", "read"])
        return dice.choice(NUMBERS)

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        dice, required = self._dice, schema.get("required", ())
        found = {}
        for name, one in schema.get("properties", {}).items():
            if name in required or dice.random() < 0.4:
                found[name] = self._well_known(name, one, depth)
        if dice.random() < 0.03:
            found[dice.choice(["nosuch", "role", "__class__", ""])] = 1
        return found

    def _well_known(self, name: str, schema: Mapping[str, Any], depth: int) -> Any:
        """A value that agents here take, most of the time: else nothing would be accepted."""
        dice = self._dice
        if dice.random() < 0.1:
            return self._of(schema, depth + 1)
        match name:
            case "state" | "next_state" | "observation":
                return [dice.choice(NUMBERS) for _ in range(4)]
            case "observations":
                return [[dice.choice(NUMBERS) for _ in range(4)] for _ in range(dice.randrange(4))]
            case "action":
                return [dice.randrange(2)]
            case "model":
                return dice.choice(("dqn", "ddpg", "ppo"))
            case "config":
                small = {"state_size": 4, "action_size": 2, "hidden_layers": [8], "batch_size": 8, "buffer_size": 500}
                return {**small, "seed": 0, **({"lr": dice.choice(HOSTILE)} if dice.random() < 0.5 else {})}
            case "is_active":
                return dice.random() < 0.9
        return self._of(schema, depth + 1)


def bombard(service: Service, tokens: list[str], count: int, stop: threading.Event, seed: int) -> Counter[int]:
    """Send so many made-up requests over one connection; how often each status came, 0 where no answer did."""
    status, _, document = service.ask("GET", "/api/v1/openapi.json")
    assert status == 200
    fuzz, dice, seen = Fuzz(document, seed), random.Random(seed), Counter[int]()
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=150)
    for _ in range(count):
        if stop.is_set():
            break
        method, path, body, headers = fuzz.request()
        if dice.random() < 0.98:
            headers["Authorization"] = f"Bearer {dice.choice(tokens)}"
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            content = answer.read()
            seen[answer.status] += 1
            if answer.status == 500:
                print("500:", method, path, headers.get("Content-Type"), (body or b"")[:400], content[:200], flush=True)
        except (OSError, http.client.HTTPException) as error:
            seen[0] += 1
            print("no answer:", method, path[:400], (body or b"")[:400], repr(error), flush=True)
            connection.close()
    with contextlib.suppress(OSError):
        connection.close()
    return seen
