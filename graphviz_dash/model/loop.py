"""The loop of a program with many graphs: which graphs belong together, what each costs, and every
step that the program ran.

Graphs that one place of the program captures and that differ by shape are a *family*; its *members*
differ by their *key* (a batch size, a number of tokens, or several numbers). A member is one graph,
or several that are replayed in a fixed order with eager work between: the *segments* of one step.

Field meanings are documented for users in docs/reference/bundle-format.md.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct

from graphviz_dash.model.graph import Count


class KeyMethod(StrEnum):
    """How a key is known, surest first."""

    LABEL = "label"
    """The program said it: ``collectors.label``."""
    ENGINE = "engine"
    """The public state of an engine that the recorder knows."""
    SHAPES = "shapes"
    """The shapes that operators saw while the graph was captured."""
    GRIDS = "grids"
    """The grids of its kernels, which are multiples of the size and not the size itself."""


class SizeMethod(StrEnum):
    """How the real size of a step is known, surest first."""

    LABEL = "label"
    ENGINE = "engine"
    SHAPES = "shapes"
    """By the shapes of the inputs of a pass that runs eagerly."""


class StepKind(StrEnum):
    """How a step of the loop ran."""

    REPLAY = "replay"
    """As the replay of one graph."""
    SEGMENTS = "segments"
    """As replays of several graphs, with eager work between."""
    FALLBACK = "fallback"
    """Eagerly, for no graph fits it."""
    CAPTURE = "capture"
    """A graph was captured in it, and what it computed ran eagerly."""


class Phase(StrEnum):
    """What a step of a language model computes."""

    PREFILL = "prefill"
    """The tokens of prompts."""
    DECODE = "decode"
    """One further token for each request."""
    MIXED = "mixed"
    """Both at once."""


class FamilyMember(Struct, frozen=True, forbid_unknown_fields=True):
    """What serves one key of a family."""

    key: tuple[Count, ...] | None
    """A number for each of the family's ``axes``; None where it is not known."""
    method: KeyMethod | None
    """How the key is known; None where it is not."""
    graphs: tuple[str, ...]
    """The graph, or the segments of a step in the order of their replays: one that is replayed
    twice in a step stands twice."""


class GraphFamily(Struct, frozen=True, forbid_unknown_fields=True):
    """Graphs that one place of the program captures."""

    name: str
    """What the program or its engine calls it; else the function that captures and its line."""
    captured_at: tuple[str, ...]
    """``file:line`` of the calls that led to the first capture, innermost first."""
    axes: tuple[str, ...]
    """Names of the numbers of a key, such as ``tokens``; empty where no key is known."""
    size_axis: Count | None
    """Which of the axes is padded: ``real`` and ``padded`` of steps are of it. None: not known."""
    module: str | None
    """The class of the module whose forward is captured; None where none was seen."""
    members: tuple[FamilyMember, ...]
    """In the order of their first captures."""


class GraphCost(Struct, frozen=True, forbid_unknown_fields=True):
    """What one graph costs; times in ns of the CPU's clock unless a field says otherwise."""

    graph: str
    """Its id."""
    instantiate_ns: Count | None
    """The call that ends the capture, which instantiates too; where the program keeps the graph and
    instantiates it itself, that call. None: it was not seen."""
    first_launch_ns: Count | None
    """The call of the first replay; None where it was never replayed."""
    launch_ns: tuple[Count, ...]
    """The calls of later replays, at most LAUNCHES_KEPT of them, evenly over those that were
    noted."""
    gpu_ns: tuple[Count, ...]
    """GPU time of replays between two CUDA events, of one replay in SAMPLED_EVERY, and of fewer
    once a graph has been replayed often; the first replay is never among them."""
    pool: tuple[Count, Count] | None
    """The allocator's id of its memory pool; None where it could not be asked."""
    pool_added_bytes: Count | None
    """Bytes by which its pool grew since the capture before it into the same pool ended, so that a
    warm-up in the pool counts; None where it could not be asked."""
    own_bytes: Count | None
    """Bytes allocated in the pool when its capture ended, and not when the one before it did: no
    other graph can use them. None where it could not be asked."""
    outside_bytes: Count | None
    """Device memory outside the allocator that went when it was instantiated, by what the driver
    says is free: in whole chunks, so only their sum over many graphs is near the truth. None where
    memory came back meanwhile, or it could not be asked."""


class LoopSteps(Struct, frozen=True, forbid_unknown_fields=True):
    """The steps of the loop in the order of their begin, a column for each fact. All columns are
    of one length; None stands where the fact of that step is not known."""

    kind: tuple[StepKind, ...]
    """How the step ran."""
    phase: tuple[Phase | None, ...]
    """What it computed."""
    family: tuple[Count | None, ...]
    """The place of its family in ``families``; of a fallback the one whose module ran."""
    member: tuple[Count | None, ...]
    """The place of what was replayed or captured in ``members`` of the family; None for a
    fallback."""
    real: tuple[Count | None, ...]
    """The size that was asked for, on the size axis of the family."""
    padded: tuple[Count | None, ...]
    """The size that was computed; None for a fallback, which computes what was asked for."""
    size_method: tuple[SizeMethod | None, ...]
    """How ``real`` is known."""
    thread: tuple[Count, ...]
    """Which thread ran it, numbered as they come."""
    begin_ns: tuple[Count, ...]
    """When it began, in ns of the CPU's clock since the recording began; by the program's word or
    the engine where these tell, else the call of its first replay."""
    end_ns: tuple[Count, ...]
    """When its last call returned, likewise: the GPU may still be at work."""
    launch_ns: tuple[Count | None, ...]
    """The calls that replay its graphs, together; None where none was replayed."""
    gpu_ns: tuple[Count | None, ...]
    """GPU time of its replays between CUDA events; None for the steps that were not sampled."""


class ProgramLoop(Struct, frozen=True, forbid_unknown_fields=True):
    """loop.json.gz: the families, what their graphs cost, and the steps."""

    families: tuple[GraphFamily, ...]
    """In the order of their first captures; a graph that is replayed in segments of several members
    is named by each."""
    graphs: tuple[GraphCost, ...]
    """A row for each graph of the recording, in the same order."""
    steps: LoopSteps
    """The steps, the first LOOP_STEPS_KEPT of them; where one graph is replayed over and over,
    those that were timed."""
    steps_seen: Count
    """How many there were."""
    clean_steps: Count
    """So many rows, the first ones, ran before a profiler did: times are theirs alone, sizes are of
    all. The samples of ``graphs`` are of clean steps too."""
    window_steps: tuple[Count | None, ...]
    """For each mark of the traced window, in their order, the row of its step; None where nothing
    of the loop ran in it."""
    engine: str | None = None
    """The engine whose state was read, with its version; None where there was none."""


SAMPLED_EVERY: Final = 16
"""One replay of a graph in so many has CUDA events around it, later fewer."""
LAUNCHES_KEPT: Final = 256
"""Samples of a graph's launch times that are kept; of its GPU times as many."""
LOOP_STEPS_KEPT: Final = 200_000
"""Steps of a loop that are kept."""
