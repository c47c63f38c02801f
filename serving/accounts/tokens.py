"""Tokens as text: creation, recognition and digest."""

from __future__ import annotations

import hashlib
import re
import secrets
import string
import zlib
from typing import Final

LOGIN: Final = "axl_"
MADE: Final = "axp_"
COOKIE: Final = "axw_"
_ALPHABET: Final = string.digits + string.ascii_uppercase + string.ascii_lowercase
_RANDOM: Final = 40
_CHECKSUM: Final = 6
_FORM: Final = re.compile(rf"ax[lpw]_[0-9A-Za-z]{{{_RANDOM + _CHECKSUM}}}")


def make(prefix: str) -> str:
    """A new token: its prefix, 40 random characters (238 bits), and 6 of checksum, for scanners of secrets."""
    text = prefix + "".join(secrets.choice(_ALPHABET) for _ in range(_RANDOM))
    return text + checksum(text)


def checksum(text: str) -> str:
    """The CRC-32 of a token's beginning, in base 62."""
    number, digits = zlib.crc32(text.encode()), ""
    for _ in range(_CHECKSUM):
        number, digit = divmod(number, len(_ALPHABET))
        digits = _ALPHABET[digit] + digits
    return digits


def is_token(text: str) -> bool:
    """Whether this can be a token. A text with another form or a wrong checksum never was one."""
    return _FORM.fullmatch(text) is not None and checksum(text[:-_CHECKSUM]) == text[-_CHECKSUM:]


def digest(text: str) -> str:
    """SHA-256 of a token in hexadecimal, for storage. A token has so many bits that a slow hash would add nothing."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
