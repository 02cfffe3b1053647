"""What a run or a result can lack, as data: a fact and the reason why it is missing.

Code decides by the fact; the reason is for a reader, and nothing but a page, a terminal or an
export looks at it.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Fact(StrEnum):
    """A fact that may be missing. The value is its name in a bundle's manifest (``absent``), for
    some of them with a subject: see :func:`manifest_name`."""

    PLAN_PASS = "plan pass"
    CLEAN_PASS = "clean pass"
    CAPTURE_PASS = "capture pass"
    TRACED_PASS = "traced pass"
    TRACED_STEPS = "traced steps"
    MEMORY_PASS = "memory pass"
    NODE_IDS_PASS = "node-ids pass"
    OBSERVERS_PASS = "observers pass"
    RECORDED_PASS = "recorded pass"

    OBSERVER = "observer"
    """One of the observers of the observers pass; its subject is the observer."""

    GRAPHS = "graphs"
    GRAPH_BODIES = "bodies and parameters"
    """Subject: a graph."""
    NODE_BODIES = "bodies"
    """Subject: a node of a graph."""
    EDGE_TYPES = "types of edges"
    NODE_DEPENDENCIES = "dependencies between nodes"
    SEMAPHORE_NODES = "nodes of external semaphores"
    KERNELS_IN_GRAPHS = "kernels within graphs"

    GRAPH_COSTS = "one-off costs"
    """What capture, instantiation and first launch of graphs took, from the clean pass."""
    UPLOAD = "upload_ns"
    """Subject: a graph."""
    FIRST_LAUNCH_ON_GPU = "first launch on the GPU"
    """Subject: a graph."""
    REPEAT_LAUNCHES = "repeat launches"
    """Subject: a graph."""

    STEP_TIMES = "step times"
    """Series of timed iterations, from the clean pass."""
    MACHINE_STATE = "state of the machine"
    """How busy the host was, and the GPU's clocks, beside the clean timings."""
    GPU_CLOCKS = "clocks of the GPU"
    MEMORY = "memory"
    """Statistics of the caching allocator."""
    ENVIRONMENT = "environment"
    LAUNCH_COSTS = "launch costs"
    WHOLE_RECORDING = "whole recording"
    """Of a program: what errors of the recorder, kept from the program, left out."""

    BASELINE = "baseline"
    """Another run to compare a run with."""
    TYPICAL_STEP = "typical step"
    """Work that the traced steps of a run have in common."""
    EQUATION = "equation"
    """Where the difference between the step times of two runs went."""
    NODE_TIMES = "node times"
    """A graph measured over its replays."""
    ACTIVATION_OVERHEAD = "activation overhead"

    EAGER_STEP = "eager step"
    """A step of a trace whose work was not launched by graphs."""
    STEP_MODULES = "modules of the step"
    PREDICTION = "prediction"
    SAME_WORK = "same work"
    """An eager run of the work that a graph replays, on the same GPU."""
    PREDICTED_BREAK_EVEN = "predicted break-even"
    CALIBRATION_SAMPLE = "calibration sample"
    """What an experiment gives to a calibration."""
    COMPILED_STEP = "compiled step"
    """The step of a run that was compiled as another was, without graphs."""
    COMPILATION = "compilation"
    """What torch.compile made of the step, and why."""
    COMPILE_TIME = "compile time"
    """What a compilation costs once."""
    GPU_WORK = "GPU work"
    """Of the traced steps."""
    EXCLUSIVE_MEMORY = "memory of the process alone"
    PEAK_MEMORY = "peak of the allocator"
    WORKLOAD_FLOPS = "operations of a step"
    """As the workload states them, like its tokens."""
    PEAK_FLOPS = "peak of the GPU"
    SAVING = "saving"
    """Time that a replay saves over a step of the baseline."""
    OTHER_RANKS = "other ranks"
    RECORDED_STEP = "recorded step"
    """Of a program that ran as it is."""

    FAMILIES = "families of graphs"
    """Of a recorded program: graphs that belong together, and its steps."""
    LADDER = "ladder"
    """Sizes that would be better to capture."""


def manifest_name(fact: Fact, subject: str = "") -> str:
    """The name of a fact in a manifest: ``observer cupti-graph``, ``upload_ns of graph-0``."""
    if not subject:
        return fact.value
    return f"{fact.value} {'' if fact is Fact.OBSERVER else 'of '}{subject}"


class Missing(Struct, frozen=True):
    """A fact that is missing, and why."""

    fact: Fact
    """What is missing."""
    reason: str
    """Why, as words without a full stop that can follow a colon."""

    def of(self, owner: str) -> Missing:
        """The same, said of another run: ``the baseline eager: the clean pass failed``."""
        return Missing(self.fact, f"{owner}: {self.reason}")
