"""How much of a foreign file is read before it is refused, so that none can fill the memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from graphviz_dash.errors import InputError


@dataclass(frozen=True)
class Limits:
    """Bounds for one file. Each is named by the :class:`InputError` that it raises.

    ``decompressed_bytes``: bytes of JSON. ``expansion``: decompressed over compressed bytes, looked
    at above 64 MiB only. ``events``: entries of traceEvents. ``event_bytes``: bytes of one event,
    and of all fields beside traceEvents. ``string_length``: characters of a name or of recorded
    shapes. ``nesting``: levels of arrays and objects in the fields beside traceEvents and in
    recorded shapes; in arguments that no table keeps, the interpreter's recursion limit holds.
    ``nodes``: nodes of the graphs of a file, those in other nodes counted where they are held.
    """

    decompressed_bytes: int = 8 << 30
    expansion: int = 250
    events: int = 50_000_000
    event_bytes: int = 64 << 20
    string_length: int = 1 << 20
    nesting: int = 64
    nodes: int = 2_000_000

    def refuse(self, where: Path | str, limit: str, found: str) -> InputError:
        """The error that says that ``limit``, a field of this class, was passed."""
        bound = getattr(self, limit)
        return InputError(where, found, f"at most {bound:,} (limit {limit})")


DEFAULT_LIMITS: Final = Limits()
"""What fits a machine with 16 GB of memory; real traces of a few steps have 10 to 500 MB."""

EXPANSION_FROM_BYTES: Final = 64 << 20
"""Decompressed size from which ``Limits.expansion`` is looked at."""
