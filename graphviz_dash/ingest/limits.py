"""How much of a foreign file is read before it is refused, so that none can fill the memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from graphviz_dash.errors import InputError
from graphviz_dash.process_memory import machine_memory

_MOST_MEMORY: Final = 8 << 30


def _default_memory() -> int:
    return min((machine_memory() or _MOST_MEMORY) // 4, _MOST_MEMORY)


class Limits(Struct, frozen=True):
    """Bounds for one file. Each is named by the :class:`InputError` that it raises."""

    decompressed_bytes: int = 8 << 30
    """Bytes of JSON."""
    expansion: int = 250
    """Decompressed over compressed bytes; looked at above 64 MiB only, of files that are held in
    memory as a whole above 4 MiB."""
    events: int = 50_000_000
    """Entries of traceEvents, rows of a database, operations of a pickle."""
    event_bytes: int = 64 << 20
    """Bytes of one event, and of all fields beside traceEvents."""
    string_length: int = 1 << 20
    """Characters of a name or of recorded shapes."""
    nesting: int = 64
    """Levels of arrays and objects in the fields beside traceEvents and in recorded shapes, and of
    tuples in a pickle; in arguments that no table keeps, the interpreter's recursion limit holds.
    """
    memory_bytes: int = _default_memory()
    """What the values of a file that is held in memory as a whole may take, as estimated before
    they are made; a quarter of this machine's memory, at most 8 GiB."""
    nodes: int = 2_000_000
    """Nodes of the graphs of a file, those in other nodes counted where they are held."""

    def refuse(self, where: Path | str, limit: str, actual: str) -> InputError:
        """The error that says that ``limit``, a field of this class, was passed."""
        bound = getattr(self, limit)
        advice = f"If you trust the file, raise it: {VARIABLE}={limit}=NUMBER in the environment."
        return InputError(where, actual, f"at most {bound:,} (limit {limit})", advice)


VARIABLE: Final = "GRAPHVIZ_DASH_LIMITS"
"""Environment variable: other bounds, such as ``events=100000000,nesting=128``."""


def limits_from(text: str) -> Limits:
    """The usual limits with those changed that ``text`` names, ``name=number`` between commas.

    Raises:
        InputError: a name that is no limit, or no positive whole number.
    """
    names = Limits.__struct_fields__
    changed: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = part.partition("=")
        if name.strip() not in names:
            expected = f"one of {', '.join(names)}, each as name=number"
            raise InputError(VARIABLE, f"the limit {name.strip()!r}", expected)
        try:
            number = int(value)
        except ValueError:
            number = 0
        if number <= 0:
            raise InputError(VARIABLE, f"{part!r}", "a positive whole number")
        changed[name.strip()] = number
    return replace(Limits(), **changed)


DEFAULT_LIMITS: Final = limits_from(os.environ.get(VARIABLE, ""))
"""What fits a machine with 16 GB of memory, as VARIABLE changes it; real traces of a few steps have
10 to 500 MB."""

EXPANSION_FROM_BYTES: Final = 64 << 20
"""Decompressed size from which ``Limits.expansion`` is looked at."""
