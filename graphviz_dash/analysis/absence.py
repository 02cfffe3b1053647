"""Reasons why a pass, a table or a metric of a run is missing.

They come from the failed pass, the manifest's entry for the fact, or the pass that provides it.
"""

from __future__ import annotations

from typing import Final

from graphviz_dash.model.absence import Fact, Missing, format_manifest_name
from graphviz_dash.model.run import Pass, Run

PASS_FACTS: Final = {which: Fact(f"{which.value} pass") for which in Pass}

_FACT_PASSES: Final = {fact: which for which, fact in PASS_FACTS.items()}

_SOURCE_PASSES: Final = {
    Fact.OBSERVER: Fact.OBSERVERS_PASS,
    Fact.GRAPHS: Fact.CAPTURE_PASS,
    Fact.GRAPH_COSTS: Fact.CLEAN_PASS,
    Fact.STEP_TIMES: Fact.CLEAN_PASS,
    Fact.MACHINE_STATE: Fact.CLEAN_PASS,
    Fact.MEMORY: Fact.CLEAN_PASS,
}
"""The pass that provides each fact in a collected run."""

_CAPTURE_FACTS: Final = (Fact.GRAPHS, Fact.GRAPH_COSTS)
"""Facts that require a mode that captures graphs."""

_DEFAULT_REASONS: Final = {
    Fact.GRAPHS: "the bundle holds no graph",
    Fact.GRAPH_COSTS: "the clean pass captured no graph",
    Fact.STEP_TIMES: "no iteration was timed",
    Fact.MACHINE_STATE: "the machine state was not recorded with the timings",
    Fact.GPU_CLOCKS: "NVML was not available",
    Fact.MEMORY: "the bundle has no memory statistics",
    Fact.SOURCE_CODE: "the run was recorded by a version that did not store code",
    Fact.OBSERVERS_PASS: "it was collected without --observers",
}
"""Reasons used when the bundle records none."""


NO_STEP_MARKS: Final = Missing(Fact.TRACED_STEPS, "the trace marks no steps, as prof.step() does")
NO_GPU_WORK: Final = Missing(Fact.GPU_WORK, "nothing ran on the GPU in the traced steps")


def explain_missing(run: Run, fact: Fact) -> Missing:
    """Explain why ``run`` lacks ``fact``, which must be missing."""
    return Missing(fact, _find_reason(run, fact))


def find_recorded_reason(run: Run, fact: Fact, subject: str = "") -> str | None:
    """Return the manifest's reason for the missing ``fact``, if recorded."""
    name = format_manifest_name(fact, subject)
    return next((absent.reason for absent in run.manifest.absent if absent.fact == name), None)


def explain_other_program(baseline: Run) -> Missing:
    """Explain why costs are not compared with ``baseline``, which executes another program."""
    return Missing(Fact.BASELINE, f"the baseline {baseline.name} has a different workload")


def _find_reason(run: Run, fact: Fact) -> str:
    if fact in _CAPTURE_FACTS and not run.mode.captures_graphs:
        return f"mode {run.mode.value} captures no graph"
    failure_reason = _describe_failure(run, fact)
    if failure_reason is not None:
        return failure_reason
    recorded_reason = find_recorded_reason(run, fact)
    if recorded_reason is not None:
        return recorded_reason
    source = _get_source_pass(run, fact)
    if source is not None:
        source_reason = _describe_failure(run, source) or find_recorded_reason(run, source)
        if source_reason is not None:
            return source_reason
        if source is Fact.CLEAN_PASS and run.clean is None and fact is not Fact.MEMORY:
            return _explain_unrecorded(run, source)
    return _explain_unrecorded(run, fact)


def _describe_failure(run: Run, fact: Fact) -> str | None:
    required_pass = _FACT_PASSES.get(fact)
    errors = (failure.error for failure in run.manifest.failures if failure.stage is required_pass)
    error = next(errors, None)
    return None if error is None else f"the {fact.value} failed: {error}"


def _get_source_pass(run: Run, fact: Fact) -> Fact | None:
    if fact is Fact.MEMORY and run.mode.is_recorded:
        return Fact.RECORDED_PASS
    return _SOURCE_PASSES.get(fact)


def _explain_unrecorded(run: Run, fact: Fact) -> str:
    if fact is Fact.OBSERVERS_PASS:
        if run.manifest.sources:
            return "it was imported, and other programs do not measure their own overhead"
        if run.recording is not None:
            return "a recorded program runs only once"
    if fact is Fact.SOURCE_CODE and run.manifest.sources:
        return "it was imported, and traces contain no code"
    return _DEFAULT_REASONS.get(fact) or f"the bundle has no {fact.value}"
