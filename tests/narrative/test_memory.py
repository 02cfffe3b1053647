"""What is said of the parts of memory."""

from __future__ import annotations

from graphviz_dash.analysis.memory.report import MemoryPart
from graphviz_dash.narrative.memory import PART_MEANINGS


def test_every_part_is_explained() -> None:
    assert set(PART_MEANINGS) == set(MemoryPart)
