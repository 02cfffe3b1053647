"""Kind of change between two graphs."""

from __future__ import annotations

from enum import StrEnum


class Change(StrEnum):
    """What became of a node or edge from the first graph to the second."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"
    MOVED = "moved"
    SAME = "same"
