"""Secrets in experiment files, found by key and by form. Experiment files are recorded, shown and submitted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ...core.yaml_text import Keys, Place, scalar, texts, walk
from ..errors import Findings
from .files import Document

KEY: Final = re.compile(
    "token|passw|passphrase|secret|credential|authorization|(api|access|private).?key", re.IGNORECASE
)
"""Keys of secrets."""
_NAME: Final = re.compile(KEY.pattern.replace("token", "token(?!s|izer)"), re.IGNORECASE)
"""Names of environment variables with a secret; neither ``MAX_TOKENS`` nor ``TOKENIZERS_PARALLELISM``."""
_VARIABLE: Final = re.compile("(_|^)(key|pat|pwd|auth)$", re.IGNORECASE)
"""Further names of environment variables."""
_IN_ADDRESS: Final = re.compile(r"//([^/@\s]*)@|[?&]([^?&=\s]*)=")
"""The user part of an address, ``user`` or ``user:password``; or a key in its query."""
_LOOKS: Final = re.compile(
    r"\b(gh[pousr]_[A-Za-z0-9]{30}|github_pat_\w{30}|glpat-[\w-]{20}|hf_[A-Za-z0-9]{30}|npm_[A-Za-z0-9]{30}"
    r"|sk-(proj-|ant-\w+-)?[A-Za-z0-9]{20}|xox[abp]-[0-9]+-|(AKIA|ASIA)[A-Z0-9]{16}\b|AIza[\w-]{35}"
    r"|eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.)|-----BEGIN [A-Z ]*PRIVATE KEY"
)
"""Tokens of GitHub, GitLab, Hugging Face, npm, OpenAI, Anthropic, Slack, AWS and Google, web tokens and keys."""
_BY_NAME: Final = ("params", "tracker", "submit")
"""Sections in which secrets are also recognised by their keys."""
_FILE: Final = re.compile(r"(/[\w.-]+)+")
_WHY: Final = "secrets do not belong in an experiment file"
_TRACKER: Final = f"{_WHY}: set the environment variable that the tracker reads"
_CONTAINER: Final = (
    f"{_WHY}: make a Kubernetes secret, kubectl create secret generic NAME --from-literal={{}}=..., and name it,"
    " submit: {{secrets: [NAME]}}"
)
_OTHERS: Final = f"{_WHY}, which is recorded and shown: have your code read an environment variable"


def refuse(document: Document, values: Mapping[str, Any], findings: Findings, given: Mapping[str, str]) -> None:
    """Raise the errors about all secrets, and those found before. No error quotes a secret.

    Args:
        document: the source of the values.
        values: the values of the whole file.
        findings: the errors so far.
        given: ``-P``: names of params to texts.
    """
    found = [document.error(at, message) for at, message in _secrets(values)]
    for name, text in given.items():
        option = Document(f"-P {name}", {}, {(): Place(f"-P {name}")})
        found += [option.error((name,), message) for _, message in _secrets({"params": {name: _value(text)}})]
    for error in found:
        findings.add(error)
    if found:
        findings.raise_all()


def is_hidden(path: str, text: str) -> bool:
    """Might ``--set path=text`` contain a secret? Then no error quotes it."""
    return path.partition(".")[0] in ("tracker", "submit") or bool(KEY.search(path + text)) or _looks(text)


def _secrets(values: Mapping[str, Any]) -> Iterator[tuple[Keys, str]]:
    """The keys of secrets, each with advice."""
    for at, value in walk({key: one for key, one in values.items() if key in _BY_NAME}, ()):
        key = str(at[-1]) if at else ""
        if at[:1] == ("tracker",):
            if KEY.search(key) or _looks(value):
                yield at, _TRACKER
        elif at[:2] == ("submit", "environment"):
            if _is_called_so(key, value) or (_VARIABLE.search(key) and _is_text(value)) or _looks(value):
                yield at, _CONTAINER.format(at[2])
        elif _looks(value) or (at[:-1] == ("params",) and _is_called_so(key, _default(value))):
            yield at, _OTHERS
    for at, text in texts({key: one for key, one in values.items() if key not in _BY_NAME}):
        if _looks(text):
            yield at, _OTHERS


def _is_called_so(name: str, value: Any) -> bool:
    """Does the name say that it is a secret? Numbers (except passwords) and file paths are not secrets."""
    return bool(_NAME.search(name)) and (_is_text(value) or ("passw" in name.lower() and type(value) is int))


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != "" and not _FILE.fullmatch(value)


def _looks(value: Any) -> bool:
    """Does the value contain a token, or an address with a password?"""
    if not isinstance(value, str):
        return False
    in_address = (":" in user or KEY.search(key) for user, key in _IN_ADDRESS.findall(value))
    return bool(_LOOKS.search(value)) or any(in_address)


def _default(param: Any) -> Any:
    return param.get("default") if isinstance(param, dict) else param


def _value(text: str) -> Any:
    try:
        return scalar(text)
    except ValueError:  # reported later as another error
        return text
