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
    """All workloads of ``suite``, a module, in one process: timed clean, or traced eagerly.

    ``out`` has an empty folder for each workload, by its name; ``names`` are those to run.
    """

    kind: Literal["clean", "traced"]
    suite: str
    names: tuple[str, ...]
    seed: int
    warmup: int
    iterations: int
    eager_iterations: int
    traced_iterations: int
    out: str
