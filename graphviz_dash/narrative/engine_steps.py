"""Steps of an inference engine with and without a graph, in sentences."""

from __future__ import annotations

from graphviz_dash.analysis.loop.family_report import FamilyReport, LoopReport
from graphviz_dash.analysis.loop.step_modes import StepMode
from graphviz_dash.model.loop import StepKind
from graphviz_dash.units import format_count, format_percent


def describe_graph_share(report: LoopReport) -> str | None:
    """Describe the share of steps with graphs and the time of the others. None without engine facts
    or step times."""
    modes = [mode for mode in report.modes if mode.kind is not StepKind.CAPTURE]
    total = sum(mode.steps for mode in modes)
    shares = [mode.time_share for mode in modes if mode.time_share is not None]
    if report.engine is None or not total or not shares:
        return None
    eager = [mode for mode in modes if mode.kind is StepKind.FALLBACK]
    graph_steps = total - sum(mode.steps for mode in eager)
    if not eager:
        return f"Graphs ran all {format_count(total)} engine steps."
    share = sum(mode.time_share or 0.0 for mode in eager)
    return (
        f"Graphs ran {format_count(graph_steps)} of {format_count(total)} engine steps; eager "
        f"steps took {format_percent(share)} of the time."
    )


def describe_eager_steps(report: LoopReport) -> tuple[str, ...]:
    """Describe the steps without a graph, most time first, one sentence per phase. Empty without
    engine facts."""
    modes = sorted(
        (mode for mode in report.modes if mode.kind is StepKind.FALLBACK and mode.sizes),
        key=lambda mode: -(mode.time_share or 0.0),
    )
    return tuple(_describe_eager_mode(report, mode) for mode in modes)


def _describe_eager_mode(report: LoopReport, mode: StepMode) -> str:
    phase = f"{mode.phase} " if mode.phase is not None else ""
    total = sum(
        other.steps
        for other in report.modes
        if other.phase is mode.phase and other.kind is not StepKind.CAPTURE
    )
    share = ""
    if mode.time_share is not None:
        share = f" and took {format_percent(mode.time_share)} of the time"
    steps = f"{format_count(mode.steps)} of {format_count(total)} {phase}steps ran eagerly{share}"
    if mode.family is None:
        return f"{steps}: the program has no graphs for them."
    family = next(family for family in report.families if family.index == mode.family)
    largest = max((member.size or 0 for member in family.members), default=0)
    if not mode.steps_above or not largest:
        return f"{steps}, although a graph of their size exists: the engine excluded them."
    sizes = format_amount(family, format_size_range(mode.sizes_above))
    reason = f"{sizes} exceeded the largest graph, {format_count(largest)}"
    if mode.steps_above == mode.steps:
        gain = " They wait for the GPU, so larger graphs save little." if mode.is_gpu_bound else ""
        return f"{steps} because {reason}.{gain}"
    remainder = format_count(mode.steps - mode.steps_above)
    return f"{steps}: {format_count(mode.steps_above)} because {reason}; {remainder} excluded."


def format_size_range(sizes: tuple[int, int] | None) -> str:
    """Format a range; a dash if unknown."""
    if sizes is None:
        return "–"
    smallest, largest = sizes
    if smallest == largest:
        return format_count(smallest)
    return f"{format_count(smallest)} to {format_count(largest)}"


def format_amount(family: FamilyReport, sizes: str) -> str:
    """Format sizes with the noun of their axis: "40 and 48 requests"."""
    axis = family.family.axes[family.family.size_axis or 0]
    if axis in ("tokens", "requests"):
        return f"{sizes} {axis}"
    return f"sizes {sizes}" if " " in sizes else f"size {sizes}"
