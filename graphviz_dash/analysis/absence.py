"""Why a pass, a table or a figure of a run is missing: by what failed, by what the manifest says of
the fact itself, and by the pass that the fact comes from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphviz_dash.model.absence import Fact, Missing, manifest_name
from graphviz_dash.model.run import Pass

if TYPE_CHECKING:
    from graphviz_dash.model.run import Run

PASS_FACTS: Final = {which: Fact(f"{which.value} pass") for which in Pass}
"""The fact that stands for each pass."""

_PASSES: Final = {fact: which for which, fact in PASS_FACTS.items()}

_SOURCES: Final = {
    Fact.OBSERVER: Fact.OBSERVERS_PASS,
    Fact.GRAPHS: Fact.CAPTURE_PASS,
    Fact.GRAPH_COSTS: Fact.CLEAN_PASS,
    Fact.STEP_TIMES: Fact.CLEAN_PASS,
    Fact.MACHINE_STATE: Fact.CLEAN_PASS,
    Fact.MEMORY: Fact.CLEAN_PASS,
}
"""The pass that a fact comes from, in a run that was collected."""

_NEED_A_CAPTURE: Final = (Fact.GRAPHS, Fact.GRAPH_COSTS)
"""What no run has whose mode captures no graph."""

_UNRECORDED: Final = {
    Fact.GRAPHS: "the bundle holds no graph",
    Fact.GRAPH_COSTS: "the clean pass captured no graph",
    Fact.STEP_TIMES: "no iteration was timed",
    Fact.MACHINE_STATE: "the machine was not looked at beside the timings",
    Fact.GPU_CLOCKS: "NVML could not be asked",
    Fact.MEMORY: "the bundle has no memory statistics",
    Fact.OBSERVERS_PASS: "it was collected without --observers",
}
"""What is said where the bundle holds no reason."""


UNMARKED: Final = Missing(Fact.TRACED_STEPS, "the trace marks no steps, as prof.step() does")
NO_GPU_WORK: Final = Missing(Fact.GPU_WORK, "nothing ran on the GPU in the traced steps")


def why_missing(run: Run, fact: Fact, subject: str = "") -> Missing:
    """Why ``run`` lacks ``fact``, for a fact that it does lack.

    ``subject`` is the graph, node or observer that the fact is of, where it has one.
    """
    return Missing(fact, _reason(run, fact, subject))


def recorded_reason(run: Run, fact: Fact, subject: str = "") -> str | None:
    """What the manifest says of the absence of ``fact``; None where it says nothing."""
    name = manifest_name(fact, subject)
    return next((absent.reason for absent in run.manifest.absent if absent.fact == name), None)


def _reason(run: Run, fact: Fact, subject: str) -> str:
    if fact in _NEED_A_CAPTURE and not run.mode.captures_graphs:
        return f"mode {run.mode.value} captures no graph"
    failed = _failure(run, fact)
    if failed is not None:
        return failed
    recorded = recorded_reason(run, fact, subject)
    if recorded is not None:
        return recorded
    source = _source(run, fact)
    if source is not None:
        blamed = _failure(run, source) or recorded_reason(run, source)
        if blamed is not None:
            return blamed
        if source is Fact.CLEAN_PASS and run.clean is None and fact is not Fact.MEMORY:
            return _unrecorded(run, source)
    return _unrecorded(run, fact)


def _failure(run: Run, fact: Fact) -> str | None:
    """The failure of the pass ``fact``; None where it is no pass or did not fail."""
    which = _PASSES.get(fact)
    errors = (failure.error for failure in run.manifest.failures if failure.during is which)
    error = next(errors, None)
    return None if error is None else f"the {fact.value} failed: {error}"


def _source(run: Run, fact: Fact) -> Fact | None:
    if fact is Fact.MEMORY and run.mode.is_recorded:
        return Fact.RECORDED_PASS
    return _SOURCES.get(fact)


def _unrecorded(run: Run, fact: Fact) -> str:
    if fact is Fact.OBSERVERS_PASS:
        if run.manifest.sources:
            return "it was imported, and other programs do not time what they cost"
        if run.recording is not None:
            return "a program that is recorded as it is runs once"
    return _UNRECORDED.get(fact) or f"the bundle has no {fact.value}"
