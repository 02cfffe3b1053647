"""A run (one workload in one execution mode on one machine) and the experiment that compares runs.

Field meanings are documented for users in docs/bundle-format.md; a fact that is missing is None
here and has its reason in ``Manifest.absent``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

from msgspec import Meta, Struct

from graphviz_dash.model.doctor import DoctorReport
from graphviz_dash.model.graph import CapturedGraph, Count, DriverAnswer
from graphviz_dash.model.memory import MemoryPass
from graphviz_dash.model.timings import CleanTimings, Nanoseconds

if TYPE_CHECKING:
    from graphviz_dash.model.node_ids import GraphIds, NodeIdPass
    from graphviz_dash.model.observers import ObserverPass
    from graphviz_dash.model.recording import Recording
    from graphviz_dash.model.trace import Trace, TraceProblem

FORMAT_NAME: Final = "graphviz-dash-run"
FORMAT_VERSION: Final = 2

Sha256: TypeAlias = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class ExecutionMode(StrEnum):
    """How a workload's step is run."""

    EAGER = "eager"
    GRAPH = "graph"
    CALLABLES = "callables"
    PARTIAL = "partial"
    COMPILE = "compile"
    RECORDED = "recorded"
    """A program that is not a workload of ours, as it ran by itself."""

    # What is special about a mode is asked by these, never by its name.

    @property
    def is_baseline(self) -> bool:
        """The step as it was written: no graph is captured, and others are compared with it."""
        return self is BASELINE_MODE

    @property
    def captures_whole_step(self) -> bool:
        """One graph is the whole step: a replay of it is a step, and nothing of it runs eagerly."""
        return self is ExecutionMode.GRAPH

    @property
    def captures_parts(self) -> bool:
        """Graphs are parts of the step: they are given their inputs anew, the rest is eager."""
        return self in (ExecutionMode.CALLABLES, ExecutionMode.PARTIAL, ExecutionMode.COMPILE)

    @property
    def captures_layers(self) -> bool:
        """Each layer has graphs of its own, as Megatron makes them."""
        return self is ExecutionMode.PARTIAL

    @property
    def is_compiled(self) -> bool:
        """torch.compile makes the graphs (cudagraph trees), in a memory pool of its own, and while
        it compiles: neither the compilation nor what lives in the pool can be told apart."""
        return self is ExecutionMode.COMPILE

    @property
    def is_recorded(self) -> bool:
        """The program ran once, by itself; there are no passes."""
        return self is ExecutionMode.RECORDED


BASELINE_MODE: Final = ExecutionMode.EAGER
"""What other runs are compared with unless another run is named."""


class Pass(StrEnum):
    """The passes of a collection; each runs in a process of its own."""

    CLEAN = "clean"
    CAPTURE = "capture"
    TRACED = "traced"
    MEMORY = "memory"
    NODE_IDS = "node-ids"
    OBSERVERS = "observers"
    RECORDED = "recorded"
    """No pass of a collection: a program that ran once, watched by the recorder."""


class FileRole(StrEnum):
    """What a file of the bundle holds."""

    CLEAN = "clean"
    GRAPH = "graph"
    CAPTURE_TRACE = "capture-trace"
    REPLAY_TRACE = "replay-trace"
    MEMORY = "memory"
    MEMORY_PASS = "memory-pass"
    REPLAY_IDS = "replay-ids"
    NODE_IDS = "node-ids"
    RECORDING = "recording"
    DOCTOR = "doctor"
    UPDATES = "updates"
    OBSERVERS = "observers"


class FileEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """A file of the bundle: path relative to its folder (POSIX), size, and hash of its bytes."""

    path: str
    role: FileRole
    bytes: Count
    sha256: Sha256


class Failure(Struct, frozen=True, forbid_unknown_fields=True):
    """What failed in a pass. ``location`` is ``file:line`` of the user's code, if there is one."""

    during: Pass
    error: str
    message: str
    location: str | None
    traceback: str


class Absent(Struct, frozen=True, forbid_unknown_fields=True):
    """A fact that this run does not have, and why."""

    fact: str
    reason: str


class Gpu(Struct, frozen=True, forbid_unknown_fields=True):
    """A device as torch sees it."""

    name: str
    compute_capability: tuple[Count, Count]
    memory_bytes: Count
    multiprocessors: Count


class Environment(Struct, frozen=True, forbid_unknown_fields=True):
    """The machine and the software; versions as each component prints them, None if unknown: a
    trace that was imported tells little of where it was made.
    ``mps``: whether the Multi-Process Service was in use."""

    gpu: Gpu | None
    gpu_count: Count | None
    driver: str | None
    cuda_driver: str | None
    cuda_runtime: str | None
    cupti: str | None
    torch: str | None
    cuda_bindings: str | None
    python: str | None
    cpu: str | None
    cpu_count: Count | None
    os: str | None
    mps: bool | None = None
    nccl: str | None = None

    @property
    def gpu_name(self) -> str:
        """The name of the device, for a reader."""
        return self.gpu.name if self.gpu else "an unknown GPU"


class Source(Struct, frozen=True, forbid_unknown_fields=True):
    """A foreign file that a bundle was made from: its name, what it was taken for, its size and
    hash, and how it was read (None: it lies in the bundle as it was)."""

    name: str
    kind: str
    bytes: Count
    sha256: Sha256
    method: str | None = None


class StepWork(Struct, frozen=True, forbid_unknown_fields=True):
    """What one step computes, as its workload states it: for throughput and utilisation.

    ``model_flops`` are the operations that the model's mathematics asks for, by ``formula``, not
    those that ran. ``precision`` is the type of the matrix multiplications, such as ``bf16``.
    """

    model_flops: Count
    tokens: Count | None
    precision: str
    formula: str


class WorkloadInfo(Struct, frozen=True, forbid_unknown_fields=True):
    """The workload and how often it was run. ``factory`` is ``module:function``.

    ``parameters`` are all that its factory takes, those that were not given with their defaults.

    In mode recorded ``name`` and ``factory`` are the program's and ``seed`` is None; ``warmup``
    steps were to pass before the traced window, ``iterations`` of them were timed.
    """

    name: str
    factory: str
    seed: int | None
    warmup: Count
    iterations: Count
    traced_iterations: Count
    parameters: dict[str, int | float | bool | str] = {}
    work: StepWork | None = None


class RankGroup(Struct, frozen=True, forbid_unknown_fields=True):
    """The ranks that ran together. ``device`` is the index of this rank's GPU on its machine;
    ``settings`` are the variables that change how collectives run, as the passes had them."""

    world_size: Count
    device: Count
    settings: dict[str, str]


class Manifest(Struct, frozen=True, forbid_unknown_fields=True):
    """manifest.json of a run bundle. ``created`` is ISO 8601 in UTC. ``sources`` are the foreign
    files of an imported run; empty for one that was collected."""

    format: Literal["graphviz-dash-run"]
    version: Literal[1, 2]
    tool_version: str
    created: str
    command: tuple[str, ...]
    workload: WorkloadInfo
    mode: ExecutionMode
    rank: Count | None
    status: Literal["complete", "failed"]
    failures: tuple[Failure, ...]
    absent: tuple[Absent, ...]
    environment: Environment
    files: tuple[FileEntry, ...]
    group: RankGroup | None = None
    sources: tuple[Source, ...] = ()


class GraphUpdate(Struct, frozen=True, forbid_unknown_fields=True):
    """cuGraphExecUpdate, tried on an executable of the graph ``of`` with the graph ``by`` (ids).

    ``update_ns``: what one call takes, refused ones too. ``instantiate_ns``: what instantiating
    ``by`` anew takes instead.
    """

    of: str
    by: str
    answer: DriverAnswer
    update_ns: tuple[Nanoseconds, ...]
    instantiate_ns: tuple[Nanoseconds, ...]


class GraphUpdates(Struct, frozen=True, forbid_unknown_fields=True):
    """updates.json: the pairs of graphs that were tried in the clean pass."""

    pairs: tuple[GraphUpdate, ...]


class PoolUse(Struct, frozen=True, forbid_unknown_fields=True):
    """One private memory pool of the caching allocator: reserved in segments, and in use."""

    id: tuple[Count, Count]
    segments: Count
    reserved_bytes: Count
    allocated_bytes: Count


class MemoryUse(Struct, frozen=True, forbid_unknown_fields=True):
    """memory.json: the caching allocator's statistics after the clean pass, in bytes.

    ``peak_*`` over the whole pass; None where an imported snapshot has no history. ``pools`` are
    the private pools of graphs; the default pool is
    ``reserved_bytes`` less theirs.
    """

    peak_allocated_bytes: Count | None
    peak_reserved_bytes: Count | None
    allocated_bytes: Count
    reserved_bytes: Count
    pools: tuple[PoolUse, ...]


@dataclass(frozen=True, kw_only=True)
class RunParts:
    """What the bundle of a run holds besides its traces. A part that it lacks is None (graphs and
    ids: empty), with the reason in the manifest."""

    path: Path
    """The bundle's folder."""
    manifest: Manifest
    """What the run is, what failed, and which files there are."""
    graphs: tuple[CapturedGraph, ...] = ()
    """The graphs that the driver was asked for, in the order of their captures, each followed by
    the bodies in it."""
    clean: CleanTimings | None = None
    """The timings of the clean pass."""
    memory: MemoryUse | None = None
    """The allocator's statistics after the clean pass."""
    memory_pass: MemoryPass | None = None
    """Who owns device memory, and which graph uses which part of its pool."""
    replay_ids: tuple[GraphIds, ...] = ()
    """The ids that the driver gave to the graphs of the traced pass."""
    node_ids: NodeIdPass | None = None
    """CUPTI's records of replays, each with its node."""
    recording: Recording | None = None
    """What was seen of a program that ran as it is."""
    doctor: DoctorReport | None = None
    """What the doctor says of the step."""
    updates: GraphUpdates | None = None
    """What the driver answered to updates of graphs to each other."""
    observers: ObserverPass | None = None
    """The step as timed under each observer."""


@dataclass(frozen=True, kw_only=True)
class Run(RunParts):
    """One loaded run: the parts of its bundle, and its traces as tables."""

    capture_trace: Trace | None = None
    """The trace of its captures; None where there is none, or traces were not read."""
    replay_trace: Trace | None = None
    """The trace of its steps; None where there is none, or traces were not read."""

    @property
    def mode(self) -> ExecutionMode:
        """The execution mode."""
        return self.manifest.mode

    @property
    def name(self) -> str:
        """The run's name within its experiment: the folder it was read from."""
        return self.path.name

    @property
    def problems(self) -> tuple[TraceProblem, ...]:
        """The defects of its traces; one trace may be both, and each defect is told once."""
        traces = (self.replay_trace, self.capture_trace)
        return tuple(
            dict.fromkeys(problem for trace in traces if trace for problem in trace.info.problems)
        )

    @property
    def incomplete(self) -> tuple[TraceProblem, ...]:
        """Those of its problems that say that events are missing from a trace, or may be."""
        traces = (self.replay_trace, self.capture_trace)
        return tuple(
            dict.fromkeys(problem for trace in traces if trace for problem in trace.info.incomplete)
        )


@dataclass(frozen=True)
class Experiment:
    """The runs that are compared, in the order of ExecutionMode, then rank, and their folder."""

    path: Path
    runs: tuple[Run, ...]

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.path.name
