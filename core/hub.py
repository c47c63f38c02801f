"""Repositories of the Hugging Face Hub, by huggingface_hub, which is imported when it is used."""

from __future__ import annotations

import contextlib
import fnmatch
import re
from collections.abc import Iterator, Mapping, Sequence
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
        message = f"an address on the Hub is hf://user/name or hf://user/name@revision, got {address!r}"
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
        files: the files, or their contents, by their paths in the repository.
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
    with _translated(f"{repository} cannot be written", repository):
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
    """huggingface_hub; ``ArgumentError`` where it is not installed."""
    try:
        import huggingface_hub
    except ModuleNotFoundError as error:
        message = f"The Hugging Face Hub needs the package {error.name}, not installed here: pip install 'axonrl[hub]'"
        raise ArgumentError(message, "address") from error
    return huggingface_hub


@contextlib.contextmanager
def _translated(what: str, given: str) -> Iterator[None]:
    """Raise errors of the Hub and of connections to it with what to do about them."""
    from huggingface_hub import constants, errors

    try:
        yield
    except errors.RevisionNotFoundError as error:
        raise ArgumentError(f"{what}: there is no such revision", "address", given) from error
    except errors.RepositoryNotFoundError as error:  # the Hub also says so of what it does not show
        message = f"{what}: there is no such repository, or it is private or gated. For yours, {_LOGIN}"
        raise ArgumentError(message, "address", given) from error
    except errors.HfHubHTTPError as error:
        status = error.response.status_code
        if status in (401, 403):
            raise ConnectionError(f"{what}: {constants.ENDPOINT} asks for a token that may: {_LOGIN}") from error
        raise ConnectionError(f"{what}: {constants.ENDPOINT} answers with error {status}. Try it again") from error
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled, errors.HTTPError) as error:
        if constants.is_offline_mode():
            why = f"HF_HUB_OFFLINE is set, and the Hub's cache in {constants.HF_HUB_CACHE} lacks it. Unset it"
        else:
            why = f"{constants.ENDPOINT} cannot be reached, and the Hub's cache lacks it. Check the connection"
        raise ConnectionError(f"{what}: {why}, or give a local folder") from error
