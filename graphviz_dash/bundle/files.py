"""Files of users: read without waiting, and replaced atomically."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Final

from graphviz_dash.errors import InputError

NOT_UTF8: Final = "a name that is not UTF-8"

_NONBLOCK: Final[int] = getattr(os, "O_NONBLOCK", 0)
_NOFOLLOW: Final[int] = getattr(os, "O_NOFOLLOW", 0)
_BINARY: Final[int] = getattr(os, "O_BINARY", 0)
_MAX_NAME: Final = 100


def is_utf8(path: Path | str) -> bool:
    """Return True if a path is text. Linux allows any bytes in names."""
    try:
        os.fspath(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def check_utf8(path: Path) -> None:
    """Raise InputError if ``path`` is not text, which no page or manifest could contain."""
    if not is_utf8(path):
        raise InputError(path, NOT_UTF8, "a name in UTF-8", "Rename it.")


def build_folder_error(path: Path, requirement: str) -> InputError:
    """Return the error for a ``path`` that is not a folder."""
    if not path.exists():
        return InputError(path, "no such folder", requirement)
    advice = "Import a profiler's file with: graphviz-dash import FILE -o FOLDER."
    return InputError(path, "a file", requirement, advice)


def can_follow(maker: int, owner: int, account: int) -> bool:
    """Return True if ``account`` may follow a link of ``maker`` to a file of ``owner`` (user
    ids)."""
    return maker in (0, account, owner)


def is_foreign_link(path: Path) -> bool:
    """Test for a link of another account to files of a third one, or of this one.

    It could expose files that only this account may read.
    """
    try:
        link = path.lstat()
        if not stat.S_ISLNK(link.st_mode):
            return False
        return not can_follow(link.st_uid, path.stat().st_uid, get_account())
    except (OSError, RuntimeError):  # a loop of links is a RuntimeError before Python 3.13
        return False


def get_account() -> int:
    """Return the user id of this process. Windows has none; all links and files have 0 there."""
    return os.geteuid() if hasattr(os, "geteuid") else 0


def open_regular_file(path: Path, *, follow_links: bool = True) -> IO[bytes]:
    """Open a file for reading. A pipe may block forever, and a device may never end.

    Raises:
        OSError: The file cannot be opened, or is a pipe, device or folder, or a link unless
            ``follow_links``.
    """
    flags = os.O_RDONLY | _NONBLOCK | _BINARY | (0 if follow_links else _NOFOLLOW)
    with ExitStack() as cleanup:
        handle = os.open(path, flags)
        cleanup.callback(os.close, handle)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        file = os.fdopen(handle, "rb")
        cleanup.pop_all()
        return file


def read_regular_file(path: Path, max_bytes: int, *, follow_links: bool = True) -> bytes:
    """Read up to ``max_bytes`` of a file. Raises as :func:`open_regular_file`."""
    with open_regular_file(path, follow_links=follow_links) as file:
        return file.read(max_bytes)


@contextmanager
def open_replacement(path: Path) -> Iterator[IO[bytes]]:
    """Open a new file that replaces ``path`` if the block succeeds and is removed otherwise.

    Raises:
        OSError: ``path`` is a device, pipe, socket or folder, or writing failed (names ``path``).
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        # Root could replace /dev/null, which all programs need.
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    part = path.with_name(f".{path.name[:_MAX_NAME]}.{secrets.token_hex(4)}.part")
    try:
        try:
            # Neither an existing file nor the target of a link is opened.
            with part.open("xb") as file:
                yield file
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        if error.filename in (None, str(part), part):  # errors from an open file have no name
            error.filename = str(path)
        raise
