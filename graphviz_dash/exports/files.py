"""Write files atomically, and summarize exported traces."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, Final

from isal import igzip
from msgspec import Struct

from graphviz_dash.bundle.files import open_replacement
from graphviz_dash.errors import InputError

# isal has no types.
_gzip: Any = igzip.GzipFile

_GZIP_LEVEL: Final = 2
"""isal's default; higher levels are slower and save only a few per cent."""


class ExportSummary(Struct, frozen=True):
    """Content of an exported trace."""

    path: Path
    format: str
    """``proto`` or ``json``."""
    bytes: int
    runs: tuple[str, ...]
    tracks: int
    """Number of threads, streams with overflow lanes, counters and groups."""
    slices: int
    overflowed: int
    """Slices that overlap others and use an overflow lane."""
    flows: int
    """Arrows from launches to GPU work."""
    counters: int
    skipped: tuple[tuple[str, str], ...]
    """Runs without a trace, with reasons."""


@contextmanager
def replace_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that replaces ``path`` if the block succeeds and is removed otherwise.

    A name ending in ``.gz`` is compressed.

    Raises:
        InputError: no file can be written there.
        OSError: the file system rejects the write; the error names ``path``.
    """
    if path.is_dir():
        raise InputError(path, "a folder", "a file to write")
    with ExitStack() as stack:
        try:
            raw = stack.enter_context(open_replacement(path))
        except OSError as error:
            reason = (error.strerror or "it cannot be written").lower()
            raise InputError(path, reason, "a file in a folder that can be written") from error
        if path.suffix != ".gz":
            yield raw
            return
        with _gzip("", fileobj=raw, mode="wb", compresslevel=_GZIP_LEVEL, mtime=0) as packed:
            yield packed
