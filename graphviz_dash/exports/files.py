"""Files written whole or not at all, and what was written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

from isal import igzip
from msgspec import Struct

from graphviz_dash.errors import InputError

# isal has no types.
_gzip: Any = igzip.GzipFile

_GZIP_LEVEL: Final = 2
"""isal's default; higher ones take longer and save few per cent."""


class ExportSummary(Struct, frozen=True):
    """What an exported trace holds."""

    path: Path
    """The file."""
    format: str
    """``proto`` or ``json``."""
    bytes: int
    """Size of the file."""
    runs: tuple[str, ...]
    """Names of the runs that are in it."""
    tracks: int
    """Threads, streams with their overflow lanes, counters and groups."""
    slices: int
    """All slices."""
    overflowed: int
    """Those of the slices that overlap others and so have a lane of their own."""
    flows: int
    """Arrows from launches to what they launched."""
    counters: int
    """Values of counters."""
    skipped: tuple[tuple[str, str], ...]
    """Runs without a trace, each with the reason."""


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file to write, which takes the place of ``path`` when the block ends without an error, and
    is removed otherwise. Compressed when the name ends in ``.gz``.

    Raises:
        InputError: no file can be written there.
        OSError: the disk refuses what is written; it names ``path``.
    """
    if path.is_dir():
        raise InputError(path, "a folder", "a file to write")
    beside = path.with_name(f".{path.name[:100]}.{os.getpid()}.part")
    try:
        raw: IO[bytes] = beside.open("xb")
    except OSError as error:
        reason = (error.strerror or "it cannot be written").lower()
        raise InputError(path, reason, "a file in a folder that can be written") from error
    try:
        with raw:
            if path.suffix == ".gz":
                with _gzip(
                    "", fileobj=raw, mode="wb", compresslevel=_GZIP_LEVEL, mtime=0
                ) as packed:
                    yield packed
            else:
                yield raw
        beside.replace(path)
    except OSError as error:
        if error.filename is None:  # writing to an open file names none
            error.filename = str(path)
        raise
    finally:
        beside.unlink(missing_ok=True)
