"""The loop of a program with many graphs: graph families, their costs, and all recorded steps.

Graphs captured by the same code for different shapes form a *family*. Its *members* differ by
*key*: a batch size, a number of tokens, or several numbers. A member is one graph, or several
*segments* replayed in a fixed order with eager work in between.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct

from graphviz_dash.model.graph import Count


class KeyMethod(StrEnum):
    """Source of a key, most reliable first."""

    LABEL = "label"
    """Label set by the program with ``collectors.label``."""
    ENGINE = "engine"
    """Public state of an engine that the recorder supports."""
    SHAPES = "shapes"
    """Shapes of operator inputs during capture."""
    VARIABLES = "variables"
    """Integer variable of the capturing function."""
    GRIDS = "grids"
    """Grids of the kernels, which are multiples of the size."""


class SizeMethod(StrEnum):
    """Source of a step's real size, most reliable first."""

    LABEL = "label"
    ENGINE = "engine"
    SHAPES = "shapes"
    """Input shapes of an eager pass."""


class StepKind(StrEnum):
    """Execution of a step of the loop."""

    REPLAY = "replay"
    """Replay of one graph."""
    SEGMENTS = "segments"
    """Replays of several graphs, with eager work in between."""
    FALLBACK = "fallback"
    """Eager execution, because no graph fits."""
    CAPTURE = "capture"
    """Capture of a graph; the computation itself ran eagerly."""


class Phase(StrEnum):
    """Phase of a language model's step."""

    PREFILL = "prefill"
    """Tokens of prompts."""
    DECODE = "decode"
    """One further token per request."""
    MIXED = "mixed"
    """Prefill and decode in one step."""


class FamilyMember(Struct, frozen=True, forbid_unknown_fields=True):
    """A member of a graph family: the graphs for one key."""

    key: tuple[Count, ...] | None
    """Numbers for the family's ``axes``. None if unknown."""
    method: KeyMethod | None
    """Source of the key. None if the key is unknown."""
    graphs: tuple[str, ...]
    """Ids of the graph, or of a step's segments in replay order. A graph replayed twice occurs
    twice.
    """


class GraphFamily(Struct, frozen=True, forbid_unknown_fields=True):
    """Graphs captured by the same code."""

    name: str
    """Name from the program or engine; otherwise the capturing function and line."""
    captured_at: tuple[str, ...]
    """`file:line` of the calls that led to the first capture, innermost first."""
    axes: tuple[str, ...]
    """Names of the key's components, such as `tokens`."""
    size_axis: Count | None
    """Index of the padded axis. None if unknown."""
    module: str | None
    """Class of the captured module. None if none was recorded."""
    members: tuple[FamilyMember, ...]
    """Members in the order of their first captures."""


class GraphCost(Struct, frozen=True, forbid_unknown_fields=True):
    """Costs of one graph. Times are CPU times in ns unless a field defines them otherwise."""

    graph: str
    instantiate_ns: Count | None
    """Time of the call that instantiates and may end the capture, in ns. None if not recorded."""
    first_launch_ns: Count | None
    """Time of the first replay's call. None if never replayed."""
    launch_ns: tuple[Count, ...]
    """Times of later replay calls in ns: at most 256 samples, evenly spread."""
    gpu_ns: tuple[Count, ...]
    """GPU times of replays between two CUDA events, for one replay in 16, later fewer, in ns.
    Excludes the first.
    """
    pool: tuple[Count, Count] | None
    """Allocator id of its memory pool. None if unavailable."""
    pool_growth_bytes: Count | None
    """Growth of its pool since the end of the previous capture, in bytes. None if unavailable."""
    exclusive_bytes: Count | None
    """Bytes in the pool at the end of its capture but not of the previous one; no other graph can
    use them. None if unavailable.
    """
    driver_bytes: Count | None
    """Device memory that instantiation used outside the allocator, in bytes. Allocated in large
    chunks, so only sums over many graphs are accurate. None if unavailable, or if memory was freed
    meanwhile.
    """


class LoopSteps(Struct, frozen=True, forbid_unknown_fields=True):
    """Steps by start time, one column per fact. All columns have equal length; None marks unknown
    values.
    """

    kind: tuple[StepKind, ...]
    """Execution of the step."""
    phase: tuple[Phase | None, ...]
    """Computed phase."""
    family: tuple[Count | None, ...]
    """Index in `families`; of a fallback, the family whose module ran. None if no size of a graph
    could have run it, such as a prefill before decode graphs."""
    member: tuple[Count | None, ...]
    """Index of the replayed or captured member of the family. None for a fallback."""
    real_size: tuple[Count | None, ...]
    """Requested size on the family's size axis."""
    padded_size: tuple[Count | None, ...]
    """Computed size. None for a fallback."""
    size_method: tuple[SizeMethod | None, ...]
    """Source of `real_size`."""
    thread: tuple[Count, ...]
    """Number of the thread, in order of appearance."""
    start_ns: tuple[Count, ...]
    """Start in ns since the start of the recording: from the program or engine, otherwise the first
    replay call.
    """
    end_ns: tuple[Count, ...]
    """Return of the step's last call, in ns like `start_ns`."""
    launch_ns: tuple[Count | None, ...]
    """Total time of the calls that replay its graphs, in ns. None without a replay."""
    gpu_ns: tuple[Count | None, ...]
    """GPU time of its replays between CUDA events, in ns. None if not sampled."""
    requests: tuple[Count | None, ...] = ()
    """Number of requests of an engine's step. Empty in older bundles."""


class ProgramLoop(Struct, frozen=True, forbid_unknown_fields=True):
    """Content of loop.json.gz: families, graph costs and steps."""

    families: tuple[GraphFamily, ...]
    """Families in the order of their first captures."""
    graphs: tuple[GraphCost, ...]
    """Costs per graph, in the order of the recording's graphs."""
    steps: LoopSteps
    """The first 200,000 steps. For a single graph, the timed steps."""
    step_count: Count
    """Total number of steps."""
    clean_steps: Count
    """Leading rows before a profiler started. Only these have valid times and samples in `graphs`;
    sizes are always valid.
    """
    window_rows: tuple[Count | None, ...]
    """Step's row for each mark of the traced window. None if the loop was not active."""
    engine: str | None = None
    """Engine with version, if its state was read."""
    engine_capture_bytes: Count | None = None
    """Memory that the engine measured for captures: of all graphs by vLLM, of decode graphs by
    SGLang. None if unknown.
    """
    later_clean_steps: tuple[Count, Count] | None = None
    """First row, and row after the last, of steps after the profiler was detached; their times are
    valid. None if there are none.
    """


SAMPLING_INTERVAL: Final = 16
"""One replay of a graph in this many is timed with CUDA events; later fewer."""
MAX_LAUNCH_SAMPLES: Final = 256
"""Maximum launch time samples per graph, and maximum GPU time samples."""
MAX_LOOP_STEPS: Final = 200_000
"""Maximum number of stored steps."""
