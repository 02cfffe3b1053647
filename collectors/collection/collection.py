"""Request and result of a collection."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from graphviz_dash.model.run import ExecutionMode, Failure, Pass

SUPPORTED: Final = tuple(mode for mode in ExecutionMode if not mode.is_recorded)


@dataclass(frozen=True)
class Collection:
    """Settings for collecting a workload."""

    workload: str
    """Name of a built-in workload, or ``module:function`` of a factory."""
    modes: tuple[ExecutionMode, ...]
    """Modes in collection order; each becomes a run."""
    output: Path
    """Folder of the experiment; created if needed."""
    iterations: int
    """Timed iterations per clean series, across all processes."""
    traced_iterations: int
    warmup: int
    seed: int
    """torch's seed, set before the workload is built."""
    command: tuple[str, ...]
    """Command line typed by the user, for the manifest."""
    timeout_s: int | None = None
    """Time limit of a pass, or None."""
    settings: tuple[str, ...] = ()
    """Workload parameters as ``name=value``."""
    name: str | None = None
    """Name of a single run, or None to use its mode."""
    node_ids: bool = False
    observers: bool = False
    processes: int = 1
    """Processes of each mode's clean pass, interleaved with other modes."""
    measures_limits: bool = True
    """Measure the limits of the GPU unless an earlier recording kept them."""

    def get_passes(self, mode: ExecutionMode) -> tuple[Pass, ...]:
        """Return the passes of a mode in order."""
        observers = (Pass.OBSERVERS,) if self.observers else ()
        if not mode.captures_graphs:
            return (Pass.CLEAN, Pass.TRACED, Pass.MEMORY, *observers)
        node_ids = (Pass.NODE_IDS,) if self.node_ids else ()
        plan = (Pass.PLAN,) if mode.is_planned else ()
        return (*plan, Pass.CLEAN, Pass.CAPTURE, Pass.TRACED, Pass.MEMORY, *node_ids, *observers)

    def get_iterations(self, turn: int) -> int:
        """Return the timed iterations of one clean process: its share, at least one."""
        share, remainder = divmod(self.iterations, self.processes)
        return max(1, share + (turn < remainder))

    def get_target(self, mode: ExecutionMode, rank: int | None) -> Path:
        """Return the run folder of a mode, and of ``rank`` if given."""
        name = self.name or mode.value
        return self.output / (name if rank is None else f"{name}-rank{rank}")


@dataclass(frozen=True)
class CollectedRun:
    """A written bundle and its failures."""

    path: Path
    failures: tuple[Failure, ...]
