"""Repositories of the Hugging Face Hub, accessed with huggingface_hub, which is imported on use."""

from __future__ import annotations

import contextlib
import fnmatch
import re
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, TypeGuard

from .errors import ArgumentError

SCHEME: Final = "hf://"
REPOSITORY: Final = re.compile(r"[A-Za-z0-9_][\w.-]*/[A-Za-z0-9_][\w.-]*", re.ASCII)
"""An owner and a name."""
_LOGIN: Final = "set HF_TOKEN to a token of yours, or run: hf auth login"


def is_address(given: object) -> TypeGuard[str]:
    """Whether this is ``"hf://user/name"`` or ``"hf://user/name@revision"`` rather than a folder."""
    return isinstance(given, str) and given.startswith(SCHEME)


def download(address: str, patterns: Sequence[str]) -> Path:
    """Download files of a repository into the Hub's cache, or find them there without a connection.

    Args:
        address: ``"hf://user/name"``; ``"@revision"`` after it is a branch, a tag or a commit.
        patterns: the files to download; nothing else is.

    Returns:
        A folder of the cache, which must not be changed.

    Raises:
        ArgumentError: the address is malformed, there is no such repository or revision, or huggingface_hub is not
            installed.
        ConnectionError: the Hub cannot be reached, or refuses.
    """
    repository, at, revision = address.removeprefix(SCHEME).partition("@")
    if not REPOSITORY.fullmatch(repository) or (at and not revision):
        message = f"an address on the Hub must be hf://user/name or hf://user/name@revision, got {address!r}"
        raise ArgumentError(message, "address", address)
    hub = package()
    with _translated(f"{address} cannot be loaded", address):
        return Path(hub.snapshot_download(repository, revision=revision or None, allow_patterns=[*patterns]))


def upload(
    repository: str, files: Mapping[str, Path | bytes], patterns: Sequence[str], message: str, *, private: bool = False
) -> str:
    """Upload files in one commit, to a repository that is created if it is missing.

    Args:
        repository: ``"user/name"``.
        files: the files or their contents, by path in the repository.
        patterns: files of earlier uploads, which are removed there if they are not in ``files``.
        message: of the commit.
        private: whether a new repository is private.

    Returns:
        The address of the repository's page.

    Raises:
        ArgumentError: huggingface_hub is not installed.
        ConnectionError: the Hub cannot be reached, or refuses.
    """
    hub = package()
    with _translated(f"{repository} cannot be written", repository, writing=True):
        api = hub.HfApi()
        page = api.create_repo(repository, private=private or None, exist_ok=True)
        left = [name for name in api.list_repo_files(repository) if name not in files]
        stale = [name for name in left if any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]
        operations = [
            *(hub.CommitOperationAdd(path_in_repo=name, path_or_fileobj=source) for name, source in files.items()),
            *(hub.CommitOperationDelete(path_in_repo=name) for name in stale),
        ]
        api.create_commit(repository, operations, commit_message=message)
        return str(page)


def package() -> Any:
    """Import huggingface_hub; ``ArgumentError`` if it is not installed."""
    try:
        import huggingface_hub
    except ModuleNotFoundError as error:
        message = f"The Hugging Face Hub needs the package {error.name}, not installed here: pip install 'axonrl[hub]'"
        raise ArgumentError(message, "address") from error
    return huggingface_hub


@contextlib.contextmanager
def _translated(what: str, given: str, *, writing: bool = False) -> Iterator[None]:
    """Raise errors of the Hub, and of connections to it, with what to do about them."""
    import huggingface_hub.errors

    errors: Any = huggingface_hub.errors
    try:
        yield
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled, errors.HTTPError) as error:
        refusal = error.__cause__ if isinstance(error, errors.LocalEntryNotFoundError) else error
        if not isinstance(refusal, errors.HfHubHTTPError):
            raise ConnectionError(f"{what}: {_why_unreachable(writing)}") from error
        if isinstance(refusal, errors.RevisionNotFoundError):
            raise ArgumentError(f"{what}: there is no such revision", "address", given) from error
        if isinstance(refusal, errors.RepositoryNotFoundError) and not writing:  # or the Hub hides it
            message = f"{what}: there is no such repository, or it is private or gated. For yours, {_LOGIN}"
            raise ArgumentError(message, "address", given) from error
        raise ConnectionError(f"{what}: {_why_refused(refusal)}") from error


def _why_refused(refusal: Any) -> str:
    from huggingface_hub import constants

    status, said = refusal.response.status_code, f": {refusal.server_message}" if refusal.server_message else ""
    if status in (401, 403):
        return f"{constants.ENDPOINT} asks for a token with access{said}. For yours, {_LOGIN}"
    later = ". Try again later" if status == HTTPStatus.TOO_MANY_REQUESTS or status >= 500 else ""
    return f"{constants.ENDPOINT} answers with error {status}{said}{later}"


def _why_unreachable(writing: bool) -> str:
    from huggingface_hub import constants

    cache = "" if writing else f", and {constants.HF_HUB_CACHE} lacks it"
    otherwise = "" if writing else ", or give a local folder"
    if constants.HF_HUB_OFFLINE:
        return f"HF_HUB_OFFLINE is set{cache}. Unset it{otherwise}"
    return f"{constants.ENDPOINT} cannot be reached{cache}. Check the connection{otherwise}"
