"""The GPU of a run."""

from __future__ import annotations

from msgspec import Struct

from graphviz_dash.model.graph import Count


class Gpu(Struct, frozen=True, forbid_unknown_fields=True):
    """A device as seen by torch."""

    name: str
    compute_capability: tuple[Count, Count]
    """Major and minor version."""
    memory_bytes: Count
    """Total memory of the device, in bytes."""
    multiprocessors: Count
