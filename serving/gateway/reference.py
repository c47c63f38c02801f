"""Human-readable reference from the OpenAPI document: a part for each call and each object.

Texts are Markdown with code and links only. They make docs/http_api.md, and the page that ``http.docs`` serves.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from .gateway import API
from .openapi import LIMITS, WHOLE_ACCOUNT

_STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse}td,th{border:1px solid #999;padding:.2rem .5rem;text-align:left;vertical-align:top}"
    "h2{border-top:1px solid #999;padding-top:1rem}"
)
POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()}'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Policy of the page: no script, and nothing from elsewhere."""
_TAGS: Final = ("account", "agents", "acting", "states", "service", "administration")
"""Tags in the order of the page."""
_MARKS: Final = re.compile(r"`([^`]+)`|\[([^\]]+)\]\(#([^)]+)\)")
_ANCHOR: Final = re.compile(r"[^\w -]")


class Part(NamedTuple):
    """A heading with its content.

    Args:
        title: the heading.
        text: paragraphs.
        rows: a table whose first row is the head; empty without content.
    """

    title: str
    text: list[str]
    rows: list[tuple[str, ...]]


def overview(document: Mapping[str, Any]) -> Part:
    """Every call in one line."""
    rows = [
        (_link(_title(method, path)), _scope(call), _summary(call).partition(". ")[0].rstrip("."))
        for path, method, call in _calls(document)
    ]
    return Part("Calls", [], [("call", "scope", "what"), *rows])


def calls(document: Mapping[str, Any]) -> Iterator[Part]:
    """A part for each call."""
    for path, method, call in _calls(document):
        scope = "Requires no token." if _scope(call) == "none" else f"Requires the scope {_scope(call)}."
        if call.get(WHOLE_ACCOUNT):
            scope += " A token for some agents only is refused."
        told = [scope, *_request_lines(call), *_response_lines(call)]
        if call[LIMITS]:
            told.append(f"Limits: {', '.join(f'`{name}`' for name in call[LIMITS])}.")
        rows = [
            (f"`{one['name']}`", one["in"], _type(one["schema"]), _default(one["schema"]), one.get("description", ""))
            for one in call.get("parameters", ())
        ]
        head = [("parameter", "in", "type", "default", "meaning")] if rows else []
        yield Part(_title(method, path), [_summary(call), " ".join(told)], [*head, *rows])


def objects(document: Mapping[str, Any]) -> Iterator[Part]:
    """A part for each object in requests and answers."""
    for name, schema in sorted(document["components"]["schemas"].items()):
        required = schema.get("required", ())
        rows = [
            (
                f"`{field}`",
                _type(one),
                "required" if field in required else _default(one),
                " ".join(one.get("description", "").split()),
            )
            for field, one in schema.get("properties", {}).items()
        ]
        yield Part(
            name, [" ".join(schema.get("description", "").split())], [("field", "type", "default", "meaning"), *rows]
        )


def page(document: Mapping[str, Any]) -> str:
    """The whole reference as HTML that loads nothing."""
    parts = [overview(document), *calls(document), *objects(document)]
    body = "".join(map(_html, parts))
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>axonrl</title>'
    head += f"<style>{_STYLE}</style>"
    return f'<!doctype html><html lang="en"><head>{head}</head><body><h1>axonrl, {API}</h1>{body}</body></html>'


def _html(part: Part) -> str:
    text = "".join(f"<p>{_to_html(one)}</p>" for one in part.text if one)
    rows = [
        "".join(f"<{kind}>{_to_html(cell)}</{kind}>" for cell in row)
        for kind, some in (("th", part.rows[:1]), ("td", part.rows[1:]))
        for row in some
    ]
    table = f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>" if rows else ""
    return f'<h2 id="{_anchor(part.title)}">{_to_html(part.title)}</h2>{text}{table}'


def _to_html(text: str) -> str:
    """Markdown's code and links as HTML."""

    def mark(found: re.Match[str]) -> str:
        if found[1] is not None:
            return f"<code>{html.escape(found[1])}</code>"
        return f'<a href="#{html.escape(found[3])}">{_to_html(found[2])}</a>'

    parts, end = [], 0
    for found in _MARKS.finditer(text):
        parts += [html.escape(text[end : found.start()]), mark(found)]
        end = found.end()
    return "".join([*parts, html.escape(text[end:])])


def _calls(document: Mapping[str, Any]) -> list[tuple[str, str, Mapping[str, Any]]]:
    found = [(path, method, call) for path, methods in document["paths"].items() for method, call in methods.items()]
    return sorted(found, key=lambda one: _TAGS.index(one[2]["tags"][0]))


def _title(method: str, path: str) -> str:
    return f"`{method.upper()} {path.removeprefix(API)}`"


def _link(title: str) -> str:
    return f"[{title}](#{_anchor(title)})"


def _anchor(title: str) -> str:
    """The anchor that the documentation makes from a heading."""
    return re.sub(r"[ -]+", "-", _ANCHOR.sub("", title.strip("`")).lower()).strip("-")


def _summary(call: Mapping[str, Any]) -> str:
    return str(call["summary"])


def _scope(call: Mapping[str, Any]) -> str:
    """The scope as code, or ``none``."""
    return f"`{call['security'][0]['token'][0]}`" if call["security"] else "none"


def _request_lines(call: Mapping[str, Any]) -> Iterator[str]:
    body = call.get("requestBody")
    if body is not None:
        for kind, content in body["content"].items():
            yield f"Body: {_type(content['schema'])}, as `{kind}`{'' if body.get('required') else ', or none'}."


def _response_lines(call: Mapping[str, Any]) -> Iterator[str]:
    for status, answer in call["responses"].items():
        if status != "default":
            content = answer.get("content", {})
            what = " or ".join(
                _type(one.get("schema", {"type": "string", "format": "binary"})) for one in content.values()
            )
            yield f"Answer: {status}, {what or 'no body'}."


def _type(schema: Mapping[str, Any]) -> str:
    """Values that a schema allows."""
    match schema:
        case {"$ref": name}:
            text = _link(name.rpartition("/")[2])
        case {"anyOf": several}:
            names = list(dict.fromkeys(map(_type, several)))
            text = " or ".join(name for name in names if name != "integer" or "number" not in names)
        case {"const": value}:
            text = f"`{json.dumps(value)}`"
        case {"enum": values}:
            text = " or ".join(f"`{json.dumps(value)}`" for value in values)
        case {"type": "array", "items": dict(inner)} if inner:
            text = f"list of {_type(inner)}"
        case {"type": "object", "properties": fields}:
            text = " and ".join(f"`{name}`" for name in fields)
        case {"type": "object", "additionalProperties": dict(inner)} if inner:
            text = f"object of {_type(inner)}"
        case {"type": "string", "format": "binary"}:
            text = "bytes"
        case {"type": kind}:
            text = f"{'list' if kind == 'array' else kind}{_bounds(schema)}"
        case _:
            text = "any value"
    return text


def _bounds(schema: Mapping[str, Any]) -> str:
    low, high = schema.get("minimum"), schema.get("maximum", schema.get("exclusiveMaximum"))
    if low is None:
        return ""
    return f" of at least {low}" if high is None or high >= 2**53 else f" from {low} to {high:,}"


def _default(schema: Mapping[str, Any]) -> str:
    default = schema.get("default")
    return "" if default is None else f"`{json.dumps(default)}`"
