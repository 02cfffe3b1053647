"""Cached torch.compile reports of opened runs."""

from __future__ import annotations

from graphviz_dash.analysis.trace.steps import Step
from graphviz_dash.features.torch_compile.analysis.report import (
    CompileReport,
    build_compile_report,
    has_compile_report,
)
from graphviz_dash.features.torch_compile.analysis.step_regions import divide_into_regions
from graphviz_dash.features.torch_compile.analysis.step_time import StepDivider
from graphviz_dash.features.torch_compile.timeline_lanes import CompiledStep, build_compiled_step
from graphviz_dash.model.absence import Missing
from graphviz_dash.ui.state.results import get_traced_steps
from graphviz_dash.ui.state.store import STORE, cache_result


@cache_result("compiled")
def get_compile_report(key: str, run_name: str) -> CompileReport | Missing:
    """Return the report of a run."""
    return build_compile_report(STORE.get_run(key, run_name), get_traced_steps(key, run_name))


def get_step_lane(key: str, run_name: str, step: Step) -> CompiledStep | None:
    """Return the use of each span of a traced step; None without compiled code."""
    report, divider = get_compile_report(key, run_name), get_step_divider(key, run_name)
    if isinstance(report, Missing) or divider is None:
        return None
    return STORE.derive(
        key,
        ("compiled step", run_name, step.index),
        lambda _: build_compiled_step(divide_into_regions(divider, step, report.causes)),
    )


@cache_result("step divider")
def get_step_divider(key: str, run_name: str) -> StepDivider | None:
    """Return the divider of a run's steps; None without compiled code."""
    run = STORE.get_run(key, run_name)
    if run.replay_trace is None or not has_compiled_trace(key, run_name):
        return None
    return StepDivider(run.replay_trace, run.compilation)


def has_step_lane(key: str, run_name: str) -> bool:
    """Return True if the result of :func:`get_step_lane` is cached."""
    if not has_compiled_trace(key, run_name):
        return True
    return STORE.has(key, ("compiled", run_name)) and STORE.has(key, ("step divider", run_name))


@cache_result("has compiled")
def has_compiled_trace(key: str, run_name: str) -> bool:
    """Check whether the trace shows torch.compile output."""
    return has_compile_report(STORE.get_run(key, run_name))
