"""What the two processes of a recording for predictions are asked, and where their results lie."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

EAGER: Final = "eager.json"
GRAPH: Final = "graph.json"
"""Clean timings of a workload, in its folder."""

DONE: Final = "done: "
"""What a line begins with that tells of a workload's end; workloads may print, too."""


class SuiteRequest(Struct, frozen=True):
    """All workloads of a suite in one process."""

    kind: Literal["clean", "traced"]
    """What is done: timed with nothing attached, or traced eagerly."""
    suite: str
    """The module of the workloads."""
    names: tuple[str, ...]
    """Those of them to run."""
    seed: int
    """torch's seed before each workload is built."""
    warmup: int
    """Iterations before anything is measured or captured."""
    iterations: int
    """Replays in each timed series."""
    eager_iterations: int
    """Eager steps in each timed series."""
    traced_iterations: int
    """Eager steps under the profiler."""
    out: str
    """Has an empty folder for each workload, by its name."""
