"""Changes between two graphs."""

from __future__ import annotations

from enum import StrEnum


class Change(StrEnum):
    """Change of a node or edge from the first graph to the second."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"
    MOVED = "moved"
    SAME = "same"
