"""Limits for reading foreign files, so that none can exhaust the memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from graphviz_dash.errors import InputError
from graphviz_dash.process_memory import get_machine_memory

_MAX_MEMORY: Final = 8 << 30


class Limits(Struct, frozen=True):
    """Limits for one file. An :class:`InputError` names the exceeded one."""

    decompressed_bytes: int = 8 << 30
    expansion: int = 250
    """Ratio of decompressed to compressed bytes, checked above 64 MiB, or above 4 MiB for files
    held in memory."""
    events: int = 50_000_000
    """Entries of traceEvents, rows of a database, or operations of a pickle."""
    event_bytes: int = 64 << 20
    """Bytes of one event, and of all fields other than traceEvents."""
    string_length: int = 1 << 20
    """Characters of a name or of recorded shapes."""
    nesting: int = 64
    """Depth of fields other than traceEvents, of recorded shapes, and of tuples in a pickle.
    Arguments that no table keeps are limited by the interpreter's recursion limit."""
    memory_bytes: int = min((get_machine_memory() or _MAX_MEMORY) // 4, _MAX_MEMORY)
    """Estimate for a file held in memory. Default: a quarter of this machine's memory, at most 8
    GiB."""
    nodes: int = 2_000_000
    """Number of graph nodes of a file; bodies count for each parent."""

    def build_error(self, source: Path | str, limit: str, found: str) -> InputError:
        """Build the error for exceeding ``limit``."""
        bound = getattr(self, limit)
        advice = (
            f"If you trust the file, raise the limit: set {LIMITS_VARIABLE}={limit}=NUMBER in the "
            "environment."
        )
        return InputError(source, found, f"at most {bound:,} (limit {limit})", advice)


LIMITS_VARIABLE: Final = "GRAPHVIZ_DASH_LIMITS"
"""Environment variable with changed limits, such as ``events=100000000,nesting=128``."""


def parse_limits(text: str) -> Limits:
    """Parse changes of the default limits: comma-separated ``name=number``.

    Raises:
        InputError: Unknown name, or not a positive integer.
    """
    names = Limits.__struct_fields__
    changed: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = part.partition("=")
        if name.strip() not in names:
            expected = f"one of {', '.join(names)}, each as name=number"
            raise InputError(LIMITS_VARIABLE, f"the limit {name.strip()!r}", expected)
        try:
            number = int(value)
        except ValueError:
            number = 0
        if number <= 0:
            raise InputError(LIMITS_VARIABLE, f"{part!r}", "a positive whole number")
        changed[name.strip()] = number
    return replace(Limits(), **changed)


DEFAULT_LIMITS: Final = parse_limits(os.environ.get(LIMITS_VARIABLE, ""))
"""Default limits for a machine with 16 GB of memory, with changes from :data:`LIMITS_VARIABLE`.
Real traces of a few steps have 10 to 500 MB."""

EXPANSION_MIN_BYTES: Final = 64 << 20
"""Decompressed size from which ``Limits.expansion`` applies."""
