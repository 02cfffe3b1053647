"""A run (one workload in one execution mode on one machine) and the experiment that compares runs.

Field meanings are documented for users in docs/bundle-format.md; a fact that is missing is None
here and has its reason in ``Manifest.absent``.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

from msgspec import Meta, Struct

from graphviz_dash.model.absence import Fact
from graphviz_dash.model.doctor import DoctorReport
from graphviz_dash.model.graph import CapturedGraph, Count, DriverAnswer
from graphviz_dash.model.memory import MemoryPass
from graphviz_dash.model.timings import CleanTimings, Nanoseconds

if TYPE_CHECKING:
    from graphviz_dash.model.compilation import Compilation
    from graphviz_dash.model.loop import ProgramLoop
    from graphviz_dash.model.node_ids import GraphIds, NodeIdPass
    from graphviz_dash.model.observers import ObserverPass
    from graphviz_dash.model.parallel import ParallelPlan
    from graphviz_dash.model.recording import Recording
    from graphviz_dash.model.trace import Trace, TraceProblem

FORMAT_NAME: Final = "graphviz-dash-run"
FORMAT_VERSION: Final = 6

Sha256: TypeAlias = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class ExecutionMode(StrEnum):
    """How a workload's step is run."""

    EAGER = "eager"
    GRAPH = "graph"
    PARALLEL = "parallel"
    """The whole step as one graph with only the dependencies that its data needs."""
    CALLABLES = "callables"
    PARTIAL = "partial"
    COMPILE_DEFAULT = "compile-default"
    COMPILE_GRAPH = "compile-graph"
    COMPILE = "compile"
    RECORDED = "recorded"
    """A program that is not a workload of ours, as it ran by itself."""

    # What is special about a mode is asked by these, never by its name.

    @property
    def is_baseline(self) -> bool:
        """The step as it was written: no graph is captured, and others are compared with it."""
        return self is BASELINE_MODE

    @property
    def captures_graphs(self) -> bool:
        """The step, or parts of it, are captured as graphs and replayed."""
        return self not in (ExecutionMode.EAGER, ExecutionMode.COMPILE_DEFAULT)

    @property
    def captures_whole_step(self) -> bool:
        """One graph is the whole step: a replay of it is a step, and nothing of it runs eagerly."""
        return self in (
            ExecutionMode.GRAPH,
            ExecutionMode.PARALLEL,
            ExecutionMode.COMPILE_GRAPH,
        )

    @property
    def is_planned(self) -> bool:
        """Operators are issued on several streams by a plan, which a pass of its own makes."""
        return self is ExecutionMode.PARALLEL

    @property
    def captures_parts(self) -> bool:
        """Graphs are parts of the step: they are given their inputs anew, the rest is eager."""
        return self in (ExecutionMode.CALLABLES, ExecutionMode.PARTIAL, ExecutionMode.COMPILE)

    @property
    def captures_layers(self) -> bool:
        """Each layer has graphs of its own, as with megatron-core's ``local``."""
        return self is ExecutionMode.PARTIAL

    @property
    def is_compiled(self) -> bool:
        """torch.compile compiles the step's modules while it is warmed up: the compilation cannot
        be told apart from the warm-up."""
        return self in (
            ExecutionMode.COMPILE,
            ExecutionMode.COMPILE_DEFAULT,
            ExecutionMode.COMPILE_GRAPH,
        )

    @property
    def has_graph_trees(self) -> bool:
        """torch.compile captures the graphs (cudagraph trees): they are in a memory pool of its
        own, in which what lives cannot be told apart, and are valid only in the order of their
        tree."""
        return self is ExecutionMode.COMPILE

    @property
    def is_recorded(self) -> bool:
        """The program ran once, by itself; there are no passes."""
        return self is ExecutionMode.RECORDED


BASELINE_MODE: Final = ExecutionMode.EAGER
"""What other runs are compared with unless another run is named."""


class Pass(StrEnum):
    """The passes of a collection; each runs in a process of its own."""

    PLAN = "plan"
    """Of a mode that is planned, before all others."""
    CLEAN = "clean"
    CAPTURE = "capture"
    TRACED = "traced"
    MEMORY = "memory"
    NODE_IDS = "node-ids"
    OBSERVERS = "observers"
    RECORDED = "recorded"
    """No pass of a collection: a program that ran once, watched by the recorder."""

    @property
    def fact(self) -> Fact:
        """What is missing where a run has nothing of this pass."""
        return Fact(f"{self.value} pass")


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
    LOOP = "loop"
    PARALLEL = "parallel"
    COMPILATION = "compilation"


class FileEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """A file of the bundle."""

    path: str
    """Relative to the bundle's folder (POSIX)."""
    role: FileRole
    """What it holds."""
    bytes: Count
    """Its size."""
    sha256: Sha256
    """The hash of its bytes."""


REFUSED: Final = "GraphvizDashError"
"""The ``error`` of a failure that is no exception of the program: the collector gave up, and its
message says why."""


class Failure(Struct, frozen=True, forbid_unknown_fields=True):
    """What failed in a pass."""

    during: Pass
    """The pass."""
    error: str
    """The name of the exception's class, ``ProcessDied``, or REFUSED."""
    message: str
    """What the exception said."""
    location: str | None
    """``file:line`` of the user's code; None where it was not in it."""
    traceback: str
    """As Python prints it, or the end of what a crashed process printed; may be empty."""


class Absent(Struct, frozen=True, forbid_unknown_fields=True):
    """A fact that this run does not have, and why."""

    fact: str
    reason: str


class Gpu(Struct, frozen=True, forbid_unknown_fields=True):
    """A device as torch sees it."""

    name: str
    """As the driver calls it."""
    compute_capability: tuple[Count, Count]
    """Major and minor number."""
    memory_bytes: Count
    """All memory of the device."""
    multiprocessors: Count
    """How many it has."""


class Environment(Struct, frozen=True, forbid_unknown_fields=True):
    """The machine and the software; versions as each component prints them. What is None is
    unknown: a trace that was imported tells little of where it was made."""

    gpu: Gpu | None
    """The device that was used."""
    gpu_count: Count | None
    """Devices that torch sees."""
    driver: str | None
    """NVIDIA's driver."""
    cuda_driver: str | None
    """The newest CUDA that the driver serves."""
    cuda_runtime: str | None
    """The CUDA that torch was built with."""
    cupti: str | None
    """CUPTI's version."""
    torch: str | None
    """torch's version."""
    cuda_bindings: str | None
    """cuda-python's version."""
    python: str | None
    """Python's version."""
    cpu: str | None
    """The processor's name."""
    cpu_count: Count | None
    """Processors that the process may use."""
    os: str | None
    """The operating system."""
    mps: bool | None = None
    """Whether the Multi-Process Service was in use."""
    nccl: str | None = None
    """NCCL's version."""

    @property
    def gpu_name(self) -> str:
        """The name of the device, for a reader."""
        return self.gpu.name if self.gpu else "an unknown GPU"


class Source(Struct, frozen=True, forbid_unknown_fields=True):
    """A foreign file that a bundle was made from."""

    name: str
    """The file's name, without its folder."""
    kind: str
    """What it was taken for."""
    bytes: Count
    """Its size."""
    sha256: Sha256
    """The hash of its bytes."""
    method: str | None = None
    """How it was read; None: it lies in the bundle as it was."""


class StepWork(Struct, frozen=True, forbid_unknown_fields=True):
    """What one step computes, as its workload states it: for throughput and utilisation."""

    model_flops: Count
    """The operations that the model's mathematics asks for, by ``formula``, not those that ran."""
    tokens: Count | None
    """Tokens of a step; None where it has none."""
    precision: str
    """The type of the matrix multiplications, such as ``bf16``."""
    formula: str
    """How ``model_flops`` was counted."""


class WorkloadInfo(Struct, frozen=True, forbid_unknown_fields=True):
    """The workload and how often it was run."""

    name: str
    """The workload's, or in mode recorded the program's."""
    factory: str
    """``module:function``; in mode recorded the program's name."""
    seed: int | None
    """torch's seed; None in mode recorded."""
    warmup: Count
    """Iterations before anything was measured; in mode recorded, steps that were to pass before the
    traced window."""
    iterations: Count
    """Iterations of each timed series, in all processes together; in mode recorded, steps that were
    timed."""
    traced_iterations: Count
    """Iterations under the profiler."""
    parameters: dict[str, int | float | bool | str] = {}
    """All that its factory takes, those that were not given with their defaults."""
    work: StepWork | None = None
    """What one step computes; None where the workload does not state it."""


class RankGroup(Struct, frozen=True, forbid_unknown_fields=True):
    """The ranks that ran together. ``device`` is the index of this rank's GPU on its machine;
    ``settings`` are the variables that change how collectives run, as the passes had them."""

    world_size: Count
    device: Count
    settings: dict[str, str]
    job: str | None = None
    """What the ranks of an imported job have in common, for a reader; None for collected ones."""


class Manifest(Struct, frozen=True, forbid_unknown_fields=True):
    """manifest.json of a run bundle."""

    format: Literal["graphviz-dash-run"]
    """The name of the format."""
    version: Literal[1, 2, 3, 4, 5, 6]
    """The version of the format."""
    tool_version: str
    """The graphviz-dash that wrote it."""
    created: str
    """ISO 8601 in UTC."""
    command: tuple[str, ...]
    """What the user typed."""
    workload: WorkloadInfo
    """The workload and how often it ran."""
    mode: ExecutionMode
    """The execution mode."""
    rank: Count | None
    """Of several ranks; None where there was one process."""
    status: Literal["complete", "failed", "killed"]
    """``complete`` if all passes ended well; ``killed`` if a recorded process left no end."""
    failures: tuple[Failure, ...]
    """How passes failed."""
    absent: tuple[Absent, ...]
    """The facts that this run does not have, and why."""
    environment: Environment
    """The machine and the software."""
    files: tuple[FileEntry, ...]
    """The files of the bundle besides this one."""
    group: RankGroup | None = None
    """The ranks that ran together; None where there was one process."""
    sources: tuple[Source, ...] = ()
    """The foreign files of an imported run; empty for one that was collected."""
    recorded: str | None = None
    """When an imported trace was recorded, ISO 8601 in UTC; None where it does not tell, and for
    what was collected."""

    @property
    def measured(self) -> str:
        """When it was recorded; where that is not told, when the bundle was written."""
        return self.recorded or self.created

    @property
    def rank_of_several(self) -> int | None:
        """Its rank; None where it was the only process, as one that torchrun starts alone, which is
        rank 0 of 1, is too."""
        is_alone = self.group is not None and self.group.world_size == 1
        return None if is_alone else self.rank


class GraphUpdate(Struct, frozen=True, forbid_unknown_fields=True):
    """cuGraphExecUpdate, tried on an executable of one graph with another graph."""

    of: str
    """The id of the graph whose executable was updated."""
    by: str
    """The id of the graph that it was updated to."""
    answer: DriverAnswer
    """What the driver said."""
    update_ns: tuple[Nanoseconds, ...]
    """What one call takes, refused ones too, in ns."""
    instantiate_ns: tuple[Nanoseconds, ...]
    """What instantiating ``by`` anew takes instead, in ns."""


class GraphUpdates(Struct, frozen=True, forbid_unknown_fields=True):
    """updates.json: the pairs of graphs that were tried in the clean pass."""

    pairs: tuple[GraphUpdate, ...]


class PoolUse(Struct, frozen=True, forbid_unknown_fields=True):
    """One private memory pool of the caching allocator."""

    id: tuple[Count, Count]
    """The allocator's id of the pool."""
    segments: Count
    """Pieces that it holds from the device."""
    reserved_bytes: Count
    """Their bytes."""
    allocated_bytes: Count
    """Bytes of them that are in use."""


class MemoryUse(Struct, frozen=True, forbid_unknown_fields=True):
    """memory.json: the caching allocator's statistics after the clean pass, in bytes."""

    peak_allocated_bytes: Count | None
    """Over the whole pass; None where an imported snapshot has no history."""
    peak_reserved_bytes: Count | None
    """Over the whole pass; None where an imported snapshot has no history."""
    allocated_bytes: Count
    """Bytes of live allocations at the end."""
    reserved_bytes: Count
    """Bytes that the allocator held from the device at the end."""
    pools: tuple[PoolUse, ...]
    """The private pools of graphs; the default pool is ``reserved_bytes`` less theirs."""


class RunParts(Struct, frozen=True, kw_only=True):
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
    loop: ProgramLoop | None = None
    """Its families of graphs and the steps of its loop."""
    parallel: ParallelPlan | None = None
    """How the step was planned on several streams."""
    doctor: DoctorReport | None = None
    """What the doctor says of the step."""
    updates: GraphUpdates | None = None
    """What the driver answered to updates of graphs to each other."""
    observers: ObserverPass | None = None
    """The step as timed under each observer."""
    compilation: Compilation | None = None
    """What torch.compile made of the step, or of the program."""


class Run(RunParts, frozen=True, kw_only=True):
    """One loaded run: the parts of its bundle, and its traces as tables."""

    capture_trace: Trace | None = None
    """The trace of its captures, or the first of several; None where there is none, or traces were
    not read."""
    further_captures: tuple[Trace, ...] = ()
    """Where each capture has a trace of its own the others, in the order of
    ``CapturedGraph.captured_in``."""
    replay_trace: Trace | None = None
    """The trace of its steps; None where there is none, or traces were not read."""
    label: str | None = None
    """What it is called beside a run of another experiment; None in its own."""

    @property
    def mode(self) -> ExecutionMode:
        """The execution mode."""
        return self.manifest.mode

    @property
    def name(self) -> str:
        """The run's name within its experiment: the folder it was read from."""
        return self.label or self.path.name

    @property
    def captures(self) -> tuple[Trace, ...]:
        """All traces of its captures; none where there is none, or traces were not read."""
        first = () if self.capture_trace is None else (self.capture_trace,)
        return (*first, *self.further_captures)

    @property
    def problems(self) -> tuple[TraceProblem, ...]:
        """The defects of its traces; one trace may be both, and each defect is told once."""
        traces = (self.replay_trace, *self.captures)
        return tuple(
            dict.fromkeys(problem for trace in traces if trace for problem in trace.info.problems)
        )

    @property
    def incomplete(self) -> tuple[TraceProblem, ...]:
        """Those of its problems that say that events are missing from a trace, or may be."""
        traces = (self.replay_trace, *self.captures)
        return tuple(
            dict.fromkeys(problem for trace in traces if trace for problem in trace.info.incomplete)
        )


class Experiment(Struct, frozen=True):
    """The runs that are compared, in the order of ExecutionMode, then rank, and their folder."""

    path: Path
    """Where they lie."""
    runs: tuple[Run, ...]
    """The runs."""
    about: str | None = None
    """What it is, as whoever made it says on a line of ``about.txt``; None where he does not."""
    baseline: str | None = None
    """Name of the run that others are compared with unless another is named; None: the usual."""

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.path.name
