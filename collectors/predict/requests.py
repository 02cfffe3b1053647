"""Request and result files of the two recording processes."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

EAGER: Final = "eager.json"
GRAPH: Final = "graph.json"

RESULT_PREFIX: Final = "done: "


class SuiteRequest(Struct, frozen=True):
    """Request to run the workloads of a suite in one process."""

    kind: Literal["clean", "traced"]
    """Time without a profiler, or trace eagerly."""
    suite: str
    names: tuple[str, ...]
    seed: int
    warmup: int
    iterations: int
    """Replays per timed series."""
    eager_iterations: int
    """Eager steps per timed series."""
    traced_iterations: int
    folder: str
    """Folder with an empty subfolder per workload."""
