"""Code of the source lines of a capture, as read when the run was recorded."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

MAX_CODE_LENGTH: Final = 200
"""Maximum number of characters of one line."""

MAX_LINES: Final = 5_000
"""Maximum number of lines of one run."""


class SourceCode(Struct, frozen=True, forbid_unknown_fields=True):
    """Content of source-code.json.gz."""

    origin: str
    """Time and place of reading the files."""
    lines: dict[str, str]
    """Code without indentation by ``file:line``, at most 200 characters each."""
    missing: dict[str, str] = {}
    """Reason for missing code by file."""
