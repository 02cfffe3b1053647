"""What a run or a result can lack, as data: a fact and the reason why it is missing.

Code decides by the fact; the reason is for a reader, and nothing but a page, a terminal or an
export looks at it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Fact(StrEnum):
    """A fact that may be missing. The value is its name in a bundle's manifest (``absent``)."""

    CLEAN_PASS = "clean pass"
    CAPTURE_PASS = "capture pass"
    TRACED_PASS = "traced pass"
    MEMORY_PASS = "memory pass"
    NODE_IDS_PASS = "node-ids pass"
    OBSERVERS_PASS = "observers pass"
    RECORDED_PASS = "recorded pass"
    GRAPHS = "graphs"
    MEMORY = "memory"
    ENVIRONMENT = "environment"
    LAUNCH_COSTS = "launch costs"


@dataclass(frozen=True)
class Missing:
    """A fact that is missing, and why."""

    fact: Fact
    """What is missing."""
    reason: str
    """Why, as words without a full stop that can follow a colon."""
