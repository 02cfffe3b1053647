"""Method of the equation of two steps, in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphviz_dash.analysis.step_comparison.waterfall import Basis, Waterfall
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.model.absence import Missing
from graphviz_dash.narrative.numbers import format_spread
from graphviz_dash.units import format_ns, format_percent

if TYPE_CHECKING:
    from graphviz_dash.analysis.comparison.result import RunComparison
    from graphviz_dash.analysis.metrics.run_metrics import MetricValue


_RANKS_METHOD: Final = (
    "The time by which a collective exceeds the shortest kernel among the ranks counts as "
    "waiting, not as kernel time. Waits of ranks in a clean step are computed from models of "
    "all ranks that start together."
)

_MAX_DIFFERENCE_RATIO: Final = 2.0
"""Ratio of traced and recorded difference beyond which one does not explain the other."""

_STEP_NAMES: Final = {Basis.CLEAN: "clean step", Basis.TRACED: "step under the profiler"}


def get_step_name(basis: Basis) -> str:
    """Return the name of an equation's step: ``clean step``."""
    return _STEP_NAMES[basis]


def get_step_caveat(basis: Basis) -> str:
    """Return a caveat of an equation's step."""
    if basis is Basis.CLEAN:
        return "split by the trace"
    return "the profiler lengthens it, most with many launches"


def describe_compile_savings(run: RunComparison) -> str:
    """Describe the savings from compilation and from graphs; empty if unknown."""
    if isinstance(run.compile_parts, Missing):
        return ""
    compiling, graphs = run["compile_saving"], run["graph_saving"]
    between = run.compile_parts.run_without_graphs
    return (
        f"Compared with {escape_control_characters(run.baseline or '')}, compilation alone saves "
        f"{_format_saving(compiling)} per step, as in {escape_control_characters(between)}. "
        f"Graphs of {escape_control_characters(run.name)} save another {_format_saving(graphs)}."
    )


def _format_saving(figure: MetricValue) -> str:
    spread = format_spread(figure)
    return f"{figure.text} ({spread})" if spread else figure.text


def describe_waterfall_method(run: RunComparison, waterfall: Waterfall) -> str:
    """Describe the method of a waterfall of ``run`` and its remainder."""
    before, after = waterfall.pairs.before, waterfall.pairs.after
    counts = (
        f"{before.matching_steps} of {before.traced_steps} traced steps of {waterfall.baseline} "
        f"and {after.matching_steps} of {after.traced_steps} of {waterfall.run}"
    )
    if waterfall.basis is Basis.CLEAN:
        scale_before, scale_after = waterfall.scales
        lead = (
            "Totals are unprofiled medians; the parts add up to the difference exactly. "
            f" {counts} provide the split: GPU work as traced, CPU times "
            f"scaled by {scale_before:.2f} and {scale_after:.2f} (clean over traced launch CPU "
            "time)."
        )
    else:
        lead = (
            "From the traces alone: an unmodified recorded program has no clean pass. "
            f"Totals are medians of {counts}. The profiler slows every launch and lengthens "
            "them: launch gaps are smaller without it, especially for the program with "
            "more launches. The parts add up to the difference exactly."
        )
    remainder = (
        f"The remainder, {format_percent(waterfall.remainder_share)} of the step of "
        f"{waterfall.baseline}, is unexplained."
    )
    loop = _describe_loop_mismatch(run, waterfall)
    return " ".join(filter(None, (loop, lead, remainder, describe_rank_wait_method(waterfall))))


def _describe_loop_mismatch(run: RunComparison, waterfall: Waterfall) -> str:
    """Warn if profiled steps do not reproduce the saving in the loop; empty otherwise."""
    saved = run["recorded_saving"].value
    if waterfall.basis is Basis.CLEAN or not saved:
        return ""
    traced = waterfall.before_ns - waterfall.after_ns
    if 1 / _MAX_DIFFERENCE_RATIO < traced / saved < _MAX_DIFFERENCE_RATIO:
        return ""
    return (
        f"In the program's loop, a step of {escape_control_characters(waterfall.run)} takes "
        f"{_format_signed_saving(saved)} than one of "
        f"{escape_control_characters(waterfall.baseline)}, under the profiler "
        f"{_format_signed_saving(traced)}: the trace does not explain this difference."
    )


def _format_signed_saving(saved: float) -> str:
    return f"{format_ns(abs(saved))} {'less' if saved >= 0 else 'more'}"


def describe_rank_wait_method(waterfall: Waterfall) -> str:
    """Describe how waits for ranks were determined; empty if there were none."""
    return _RANKS_METHOD if waterfall.waits_for_ranks else ""
