"""What a collection is asked for, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from graphviz_dash.model.run import ExecutionMode, Failure, Pass

SUPPORTED: Final = tuple(mode for mode in ExecutionMode if not mode.is_recorded)
"""The modes that a workload can be collected in."""


@dataclass(frozen=True)
class Collection:
    """What to collect of a workload."""

    workload: str
    """The name of a built-in workload, or ``module:function`` of another's factory."""
    modes: tuple[ExecutionMode, ...]
    """The modes to collect, in this order; each becomes a run."""
    output: Path
    """The folder of the experiment; made if needed."""
    iterations: int
    """Timed iterations of the clean pass, in each of its two series, over all its processes."""
    traced_iterations: int
    """Iterations under the profiler."""
    warmup: int
    """Iterations before anything is measured or captured."""
    seed: int
    """torch's seed before the workload is built."""
    command: tuple[str, ...]
    """What the user typed, for the manifest."""
    timeout_s: int | None = None
    """A pass that takes longer is ended; None: it may take as long as it likes."""
    settings: tuple[str, ...] = ()
    """``name=value`` of the workload's parameters."""
    name: str | None = None
    """What a single run is called instead of by its mode."""
    node_ids: bool = False
    """Whether the node-id pass is wanted."""
    observers: bool = False
    """Whether the observers pass is wanted."""
    processes: int = 1
    """Processes of the clean pass of each mode, in turns with those of the other modes."""

    def passes(self, mode: ExecutionMode) -> tuple[Pass, ...]:
        """The passes of a mode, in their order."""
        observers = (Pass.OBSERVERS,) if self.observers else ()
        if not mode.captures_graphs:
            return (Pass.CLEAN, Pass.TRACED, Pass.MEMORY, *observers)
        node_ids = (Pass.NODE_IDS,) if self.node_ids else ()
        plan = (Pass.PLAN,) if mode.is_planned else ()
        return (*plan, Pass.CLEAN, Pass.CAPTURE, Pass.TRACED, Pass.MEMORY, *node_ids, *observers)

    def iterations_of(self, turn: int) -> int:
        """The timed iterations of one process of a clean pass: its part of all, at least one."""
        each, rest = divmod(self.iterations, self.processes)
        return max(1, each + (turn < rest))

    def target(self, mode: ExecutionMode, rank: int | None) -> Path:
        """Where the run of a mode is written, that of one ``rank`` of several."""
        name = self.name or mode.value
        return self.output / (name if rank is None else f"{name}-rank{rank}")


@dataclass(frozen=True)
class CollectedRun:
    """A bundle that was written, and how the run failed, if it did."""

    path: Path
    failures: tuple[Failure, ...]
