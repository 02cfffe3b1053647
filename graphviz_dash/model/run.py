"""A run (one workload in one execution mode on one machine) and the experiment that compares runs.

A missing fact is None here, with its reason in ``Manifest.absent``.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, Literal, Self, TypeAlias

from msgspec import Meta, Struct

from graphviz_dash.model.absence import Fact
from graphviz_dash.model.ceilings import Ceilings
from graphviz_dash.model.compilation import Compilation
from graphviz_dash.model.doctor import DoctorReport
from graphviz_dash.model.gpu import Gpu
from graphviz_dash.model.graph import CapturedGraph, Count, DriverResult
from graphviz_dash.model.ledger import Ledger
from graphviz_dash.model.loop import ProgramLoop
from graphviz_dash.model.memory import MemoryPass
from graphviz_dash.model.node_ids import GraphIds, NodeIdPass
from graphviz_dash.model.observers import ObserverPass
from graphviz_dash.model.parallel import ParallelPlan
from graphviz_dash.model.recording import Recording
from graphviz_dash.model.replay_check import ReplayCheck
from graphviz_dash.model.source_code import SourceCode
from graphviz_dash.model.timings import CleanTimings, Nanoseconds
from graphviz_dash.model.trace import Trace, TraceProblem

FORMAT_NAME: Final = "graphviz-dash-run"
FORMAT_VERSION: Final = 8

Sha256: TypeAlias = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class ExecutionMode(StrEnum):
    """Execution mode of a workload's step: its name, then its properties that are true."""

    is_baseline: bool
    """The unmodified step without graphs, the baseline of other runs."""
    captures_graphs: bool
    """The step, or parts of it, are captured as graphs and replayed."""
    captures_entire_step: bool
    """One graph covers the complete step; no part runs eagerly."""
    is_planned: bool
    """Operators are issued on several streams according to a plan from a separate pass."""
    captures_parts: bool
    """Graphs are parts of the step: inputs are copied for each replay, other work is eager."""
    captures_layers: bool
    """Each layer has its own graphs, as with megatron-core's ``local``."""
    is_compiled: bool
    """torch.compile compiles the step's modules during warm-up, so compilation and warm-up times
    are inseparable."""
    has_graph_trees: bool
    """torch.compile captures the graphs (cudagraph trees). Their memory pool does not identify
    live allocations, and they are valid only in the order of their tree."""
    is_recorded: bool
    """The program ran once, without passes."""

    # Test for properties of a mode through these, never by its name.

    def __new__(cls, value: str, *properties: str) -> Self:
        """Make the mode, with the named properties true and all others false."""
        mode = str.__new__(cls, value)
        mode._value_ = value
        mode.__dict__.update({name: name in properties for name in cls.__annotations__})
        return mode

    EAGER = "eager", "is_baseline"
    GRAPH = "graph", "captures_graphs", "captures_entire_step"
    PARALLEL = "parallel", "captures_graphs", "captures_entire_step", "is_planned"
    """The complete step as one graph with its data dependencies only."""
    CALLABLES = "callables", "captures_graphs", "captures_parts"
    PARTIAL = "partial", "captures_graphs", "captures_parts", "captures_layers"
    COMPILE_DEFAULT = "compile-default", "is_compiled"
    COMPILE_GRAPH = "compile-graph", "captures_graphs", "captures_entire_step", "is_compiled"
    COMPILE = "compile", "captures_graphs", "captures_parts", "is_compiled", "has_graph_trees"
    RECORDED = "recorded", "captures_graphs", "is_recorded"
    """An unmodified program that is not one of our workloads."""


BASELINE_MODE: Final = ExecutionMode.EAGER
"""Baseline of other runs unless another run is selected."""


class Pass(StrEnum):
    """Passes of a collection. Each runs in a separate process."""

    PLAN = "plan"
    """Precedes all other passes of a planned mode."""
    CLEAN = "clean"
    CAPTURE = "capture"
    TRACED = "traced"
    MEMORY = "memory"
    NODE_IDS = "node-ids"
    OBSERVERS = "observers"
    RECORDED = "recorded"
    """Not a pass of a collection: a program that ran once under the recorder."""

    @property
    def fact(self) -> Fact:
        """Missing fact of a run without this pass."""
        return Fact(f"{self.value} pass")


class FileRole(StrEnum):
    """Content of a file of the bundle."""

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
    REPLAY_CHECK = "replay-check"
    UPDATES = "updates"
    OBSERVERS = "observers"
    LOOP = "loop"
    PARALLEL = "parallel"
    COMPILATION = "compilation"
    CEILINGS = "ceilings"
    LEDGER = "ledger"
    SOURCE_CODE = "source-code"


class FileEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """A file of the bundle."""

    path: str
    """Path relative to the bundle's folder (POSIX)."""
    role: FileRole
    """Content of the file."""
    bytes: Count
    """Size in bytes."""
    sha256: Sha256
    """SHA-256 hash of the content."""


COLLECTOR_ERROR: Final = "GraphvizDashError"
"""``Failure.error`` of a failure reported by the collector instead of an exception of the program.
"""

PROCESS_DIED: Final = "ProcessDied"
"""``Failure.error`` of a process that ended without an exception."""


class Failure(Struct, frozen=True, forbid_unknown_fields=True):
    """A failure in a pass."""

    stage: Pass
    """The pass."""
    error: str
    """Name of the exception's class, `ProcessDied`, or `GraphvizDashError`."""
    message: str
    location: str | None
    """``file:line`` of the user's code. None if raised elsewhere."""
    traceback: str
    """Python's traceback, or the end of a crashed process's output. May be empty."""


class Absent(Struct, frozen=True, forbid_unknown_fields=True):
    """A missing fact of a run."""

    fact: str
    reason: str


class Environment(Struct, frozen=True, forbid_unknown_fields=True):
    """Hardware and software; versions as printed by each component. None if unknown: imported
    traces contain little about their machine.
    """

    gpu: Gpu | None
    """The device used."""
    gpu_count: Count | None
    """Devices visible to torch."""
    driver: str | None
    """Version of NVIDIA's driver."""
    cuda_driver: str | None
    """Newest CUDA version that the driver supports."""
    cuda_runtime: str | None
    """CUDA version that torch was built with."""
    cupti: str | None
    """Version of CUPTI."""
    torch: str | None
    cuda_bindings: str | None
    """Version of cuda-python."""
    python: str | None
    cpu: str | None
    cpu_count: Count | None
    """Processors available to the process."""
    os: str | None
    mps: bool | None = None
    """True if the Multi-Process Service was in use."""
    nccl: str | None = None

    @property
    def gpu_name(self) -> str:
        """Display name of the device."""
        return self.gpu.name if self.gpu else "an unknown GPU"


class Source(Struct, frozen=True, forbid_unknown_fields=True):
    """A foreign file from which a bundle was imported."""

    name: str
    """File name without folder."""
    kind: str
    """Detected kind of file."""
    bytes: Count
    """Size in bytes."""
    sha256: Sha256
    """SHA-256 hash of the content."""
    method: str | None = None
    """Import method. None if the bundle contains the file unchanged."""


class StepWork(Struct, frozen=True, forbid_unknown_fields=True):
    """Work of one step as declared by its workload, for throughput and utilisation."""

    model_flops: Count
    """Operations of the model's mathematics by `formula`, not of the kernels."""
    tokens: Count | None
    """Tokens per step. None if not applicable."""
    precision: str
    """Data type of the matrix multiplications, such as ``bf16``."""
    formula: str
    """Formula of ``model_flops``."""


class WorkloadInfo(Struct, frozen=True, forbid_unknown_fields=True):
    """The workload and its iteration counts."""

    name: str
    """Workload, or program in mode recorded."""
    factory: str
    """``module:function``, or the name of the program in mode recorded."""
    seed: int | None
    """Random seed of torch. None in mode recorded."""
    warmup: Count
    """Iterations before measurements; in mode recorded, steps before the traced window."""
    iterations: Count
    """Iterations of all processes; in mode recorded, timed steps."""
    traced_iterations: Count
    """Iterations under the profiler."""
    parameters: dict[str, int | float | bool | str] = {}
    """Arguments of the factory, including defaults."""
    work: StepWork | None = None
    """Work of one step. None if the workload does not declare it."""


class RankGroup(Struct, frozen=True, forbid_unknown_fields=True):
    """Ranks that ran together."""

    world_size: Count
    device: Count
    """Index of this rank's GPU on its machine."""
    settings: dict[str, str]
    """Environment variables that affect collectives, as set during the passes."""
    job: str | None = None
    """Display name of the ranks of an imported job. None for collected ranks."""


class Manifest(Struct, frozen=True, forbid_unknown_fields=True):
    """Content of manifest.json of a run bundle."""

    format: Literal["graphviz-dash-run"]
    version: Literal[1, 2, 3, 4, 5, 6, 7, 8]
    tool_version: str
    """Version of graphviz-dash that wrote the bundle."""
    created: str
    """Time of writing, ISO 8601 in UTC."""
    command: tuple[str, ...]
    """Command line of the user."""
    workload: WorkloadInfo
    """The workload and its iteration counts."""
    mode: ExecutionMode
    """Execution mode."""
    rank: Count | None
    """Rank of the process. None if there is none."""
    status: Literal["complete", "failed", "killed"]
    """`killed` if a recorded process left no end."""
    failures: tuple[Failure, ...]
    """Failures of passes."""
    absent: tuple[Absent, ...]
    """Missing facts of the run with their reasons."""
    environment: Environment
    """Hardware and software."""
    files: tuple[FileEntry, ...]
    """Files of the bundle except the manifest."""
    group: RankGroup | None = None
    """Ranks that ran together. None if there is none."""
    sources: tuple[Source, ...] = ()
    """Foreign files of an imported run."""
    recorded_at: str | None = None
    """Recording time of an imported trace, ISO 8601 in UTC. None if not applicable."""

    @property
    def recorded_or_created_at(self) -> str:
        """Time of recording, or time of writing if unknown."""
        return self.recorded_at or self.created

    @property
    def recording_time(self) -> str | None:
        """Time of recording, ISO 8601 in UTC. None if an imported file does not state it."""
        return self.recorded_at or (None if self.sources else self.created)

    @property
    def recording_day(self) -> str | None:
        """Day of recording in UTC. None if an imported file does not state it."""
        return self.recording_time and self.recording_time[:10]

    @property
    def job_rank(self) -> int | None:
        """Rank of the process. None for a single process, including rank 0 of 1 of torchrun."""
        is_single_rank = self.group is not None and self.group.world_size == 1
        return None if is_single_rank else self.rank


class GraphUpdate(Struct, frozen=True, forbid_unknown_fields=True):
    """One attempt of cuGraphExecUpdate on an executable graph with another graph."""

    source_graph: str
    """Id of the graph whose executable was updated."""
    target_graph: str
    """Id of the graph that it was updated to."""
    result: DriverResult
    update_ns: tuple[Nanoseconds, ...]
    """Update calls in ns, including failed ones."""
    instantiate_ns: tuple[Nanoseconds, ...]
    """Instantiations of ``target_graph`` instead, in ns."""


class GraphUpdates(Struct, frozen=True, forbid_unknown_fields=True):
    """Content of updates.json."""

    pairs: tuple[GraphUpdate, ...]
    """Pairs of graphs tried in the clean pass."""


class PoolUse(Struct, frozen=True, forbid_unknown_fields=True):
    """One private memory pool of the caching allocator."""

    id: tuple[Count, Count]
    """Allocator id of the pool."""
    segments: Count
    reserved_bytes: Count
    """Size of the segments, in bytes."""
    allocated_bytes: Count
    """Allocated part of the segments, in bytes."""


class MemoryShare(Struct, frozen=True, forbid_unknown_fields=True):
    """Live memory of one stream, pool, range of block sizes or line of the program."""

    label: str
    """Name of the stream, pool, range or line."""
    blocks: Count
    """Live blocks."""
    live_bytes: Count
    """Size of the live blocks, in bytes."""
    reserved_bytes: Count | None = None
    """Size of the segments, in bytes. None for sizes and lines, which share segments."""


class LiveMemory(Struct, frozen=True, forbid_unknown_fields=True):
    """Live blocks of a snapshot, including those that wait for a stream before they are freed. Each
    group adds up to all, largest first.
    """

    streams: tuple[MemoryShare, ...]
    """By stream."""
    pools: tuple[MemoryShare, ...]
    """By pool."""
    sizes: tuple[MemoryShare, ...]
    """By block size, in powers of two."""
    lines: tuple[MemoryShare, ...]
    """By line of the program that allocated. Lines beyond the 500 largest are one row."""


class MemoryUse(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Content of memory.json: statistics of the caching allocator after the clean pass."""

    peak_allocated_bytes: Count | None
    """Peak of live allocations, in bytes. None for an imported snapshot without history."""
    peak_reserved_bytes: Count | None
    """Peak of reserved memory, in bytes. None for an imported snapshot without history."""
    allocated_bytes: Count
    """Live allocations at the end, in bytes."""
    reserved_bytes: Count
    """Memory reserved by the allocator at the end, in bytes."""
    pools: tuple[PoolUse, ...]
    """Private pools of graphs. The default pool is ``reserved_bytes`` minus theirs."""
    live: LiveMemory | None = None
    """Live blocks by stream, pool, size and line. None without an imported snapshot."""


class RunParts(Struct, frozen=True, kw_only=True):
    """Content of a run's bundle except its traces. A missing part is None (graphs and ids: empty),
    with the reason in the manifest."""

    path: Path
    """Folder of the bundle."""
    manifest: Manifest
    graphs: tuple[CapturedGraph, ...] = ()
    """Graphs in capture order, each followed by its bodies."""
    clean: CleanTimings | None = None
    memory: MemoryUse | None = None
    """Statistics of the allocator after the clean pass."""
    memory_pass: MemoryPass | None = None
    """Owners of device memory, and pool memory per graph."""
    replay_ids: tuple[GraphIds, ...] = ()
    """Driver ids of the graphs of the traced pass."""
    node_ids: NodeIdPass | None = None
    recording: Recording | None = None
    loop: ProgramLoop | None = None
    parallel: ParallelPlan | None = None
    doctor: DoctorReport | None = None
    replay_check: ReplayCheck | None = None
    updates: GraphUpdates | None = None
    observers: ObserverPass | None = None
    compilation: Compilation | None = None
    ceilings: Ceilings | None = None
    ledger: Ledger | None = None
    """Device memory and wall time until the first useful replay."""
    source_code: SourceCode | None = None


class Run(RunParts, frozen=True, kw_only=True):
    """One loaded run: the parts of its bundle, and its traces as tables."""

    capture_trace: Trace | None = None
    """First trace of its captures. None without one, or if traces were not loaded."""
    additional_capture_traces: tuple[Trace, ...] = ()
    """Further capture traces, indexed by ``CapturedGraph.captured_in`` minus 1."""
    replay_trace: Trace | None = None
    """Trace of its steps. None without one, or if traces were not loaded."""
    label: str | None = None
    """Display name of a run of another experiment. None otherwise."""

    @property
    def mode(self) -> ExecutionMode:
        """Execution mode."""
        return self.manifest.mode

    @property
    def name(self) -> str:
        """Name in the experiment: its label, or its folder."""
        return self.label or self.path.name

    @property
    def capture_traces(self) -> tuple[Trace, ...]:
        """All traces of captures. Empty without any, or if traces were not loaded."""
        captures = () if self.capture_trace is None else (self.capture_trace,)
        return (*captures, *self.additional_capture_traces)

    @property
    def problems(self) -> tuple[TraceProblem, ...]:
        """Distinct problems of its traces."""
        traces = (self.replay_trace, *self.capture_traces)
        return tuple(
            dict.fromkeys(problem for trace in traces if trace for problem in trace.info.problems)
        )

    @property
    def completeness_problems(self) -> tuple[TraceProblem, ...]:
        """Problems that indicate missing events in a trace."""
        traces = (self.replay_trace, *self.capture_traces)
        return tuple(
            dict.fromkeys(
                problem for trace in traces if trace for problem in trace.info.completeness_problems
            )
        )


class Experiment(Struct, frozen=True):
    """Runs to compare, in the order of ExecutionMode, then rank."""

    path: Path
    runs: tuple[Run, ...]
    description: str | None = None
    """Description from ``about.txt``, one line. None if missing."""
    baseline: str | None = None
    """Name of the run to compare others with. None for the default."""

    @property
    def name(self) -> str:
        """Name of the folder."""
        return self.path.name
