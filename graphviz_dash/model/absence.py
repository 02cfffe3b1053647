"""Missing facts of a run or a result, and the reasons.

Code branches on the fact. Reasons are for readers: pages, terminals and exports.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Fact(StrEnum):
    """A fact that may be missing. Values are stored in a bundle's manifest (``absent``), see
    :func:`format_manifest_name`."""

    PLAN_PASS = "plan pass"
    CLEAN_PASS = "clean pass"
    CAPTURE_PASS = "capture pass"
    TRACED_PASS = "traced pass"
    TRACED_STEPS = "traced steps"
    GRAPH_STEPS = "traced steps with graphs"
    MEMORY_PASS = "memory pass"
    NODE_IDS_PASS = "node-ids pass"
    OBSERVERS_PASS = "observers pass"
    RECORDED_PASS = "recorded pass"

    OBSERVER = "observer"
    """One observer of the observers pass. Subject: the observer."""

    GRAPHS = "graphs"
    GRAPH_BODIES = "bodies and parameters"
    """Subject: a graph."""
    NODE_BODIES = "bodies"
    """Subject: a node of a graph."""
    EDGE_TYPES = "types of edges"
    NODE_DEPENDENCIES = "dependencies between nodes"
    SEMAPHORE_NODES = "nodes of external semaphores"
    KERNELS_IN_GRAPHS = "kernels within graphs"

    GRAPH_COSTS = "one-time costs"
    """Capture, instantiation and first launch times, from the clean pass."""
    UPLOAD = "upload_ns"
    """Subject: a graph."""
    FIRST_LAUNCH_ON_GPU = "first launch on the GPU"
    """Subject: a graph."""
    REPEAT_LAUNCHES = "repeat launches"
    """Subject: a graph."""

    STEP_TIMES = "step times"
    """Timed iterations of the clean pass."""
    MACHINE_STATE = "state of the machine"
    """Host load and GPU clocks during the clean timings."""
    GPU_CLOCKS = "clocks of the GPU"
    MEMORY = "memory"
    """Statistics of the caching allocator."""
    ENVIRONMENT = "environment"
    LAUNCH_COSTS = "launch costs"
    CEILINGS = "limits of the GPU"
    """Measured bandwidth and arithmetic rates."""
    OPERATOR_WORK = "work of operators"
    """Bytes and operations from the shapes of a step's operators."""
    COMPLETE_RECORDING = "complete recording"
    """Parts of a program missing because of recorder errors."""

    BASELINE = "baseline"
    TYPICAL_STEP = "typical step"
    """Work common to the traced steps of a run."""
    EQUATION = "equation"
    """Attribution of the step time difference of two runs."""
    SOURCE_CODE = "code of source lines"
    """Text of the lines that launched the nodes of a graph."""
    NODE_TIMES = "node times"
    """A graph measured over its replays."""
    ACTIVATION_OVERHEAD = "activation overhead"

    COMPLETE_TRACE = "complete trace"
    """A trace of one process without lost records."""
    EAGER_STEP = "eager step"
    """A traced step whose work was not launched by graphs."""
    STEP_MODULES = "modules of the step"
    PREDICTION = "prediction"
    SAME_WORK = "same work"
    """An eager run of the work of a graph, on the same GPU."""
    PREDICTED_BREAK_EVEN = "predicted break-even"
    CALIBRATION_SAMPLE = "calibration sample"
    """Contribution of an experiment to a calibration."""
    COMPILED_STEP = "compiled step"
    """The step of a run that was compiled in the same way, without graphs."""
    COMPILATION = "compilation"
    COMPILE_TIME = "compile time"
    GPU_WORK = "GPU work"
    PROCESS_MEMORY = "process memory"
    PEAK_MEMORY = "peak of the allocator"
    WORKLOAD_FLOPS = "operations of a step"
    """Floating-point operations per step, declared by the workload."""
    PEAK_FLOPS = "peak of the GPU"
    SAVING = "saving"
    """Time saved by a replay, compared with a step of the baseline."""
    OTHER_RANKS = "other ranks"
    RECORDED_STEP = "recorded step"

    FAMILIES = "families of graphs"
    LADDER = "ladder"
    """Recommended capture sizes."""


def format_manifest_name(fact: Fact, subject: str = "") -> str:
    """Format the manifest name of a fact: ``observer cupti-graph``, ``upload_ns of graph-0``."""
    if not subject:
        return fact.value
    return f"{fact.value} {'' if fact is Fact.OBSERVER else 'of '}{subject}"


class Missing(Struct, frozen=True):
    """A missing fact and its reason."""

    fact: Fact
    reason: str
    """Reason, without a full stop so that it can follow a colon."""

    def add_owner(self, owner_name: str) -> Missing:
        """Prefix the reason with another run: ``the baseline eager: the clean pass failed``."""
        return Missing(self.fact, f"{owner_name}: {self.reason}")
