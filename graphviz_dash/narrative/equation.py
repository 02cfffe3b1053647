"""How the equation of two steps was made, in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphviz_dash.analysis.step_comparison.waterfall import Basis, Waterfall
from graphviz_dash.errors import printable
from graphviz_dash.model.absence import Missing
from graphviz_dash.narrative.numbers import spread_text
from graphviz_dash.units import format_ns, format_percent

if TYPE_CHECKING:
    from graphviz_dash.analysis.comparison.result import RunComparison
    from graphviz_dash.analysis.metrics.run_metrics import Figure

_RANKS_METHOD: Final = (
    "What a collective takes longer than the shortest kernel among the ranks for the same one is "
    "waiting, not kernel time; how long ranks wait in a clean step is computed from the models of "
    "all ranks, which begin it together."
)

_UNLIKE: Final = 2.0
"""A traced difference over that in the program's own loop, or the other way round, from which one
does not explain the other."""

_OF_THE_STEP: Final = {Basis.CLEAN: "clean step", Basis.TRACED: "step under the profiler"}


def step_words(basis: Basis) -> str:
    """What the step of an equation is called: ``clean step``."""
    return _OF_THE_STEP[basis]


def whole_text(basis: Basis) -> str:
    """What is to be known of the step of an equation."""
    if basis is Basis.CLEAN:
        return "the traced passes divide it"
    return "the profiler lengthens it, most where launches are many"


def compile_parts_text(run: RunComparison) -> str:
    """What compiling and what graphs saved, in a sentence; empty where that is not known."""
    if isinstance(run.compile_parts, Missing):
        return ""
    compiling, graphs = run["compile_saving"], run["graph_saving"]
    between = run.compile_parts.without_graphs
    return (
        f"{printable(run.name)}, saved of a step of {printable(run.baseline or '')}: "
        f"{_saved(compiling)} by compiling alone, as {printable(between)} does, and "
        f"{_saved(graphs)} by graphs on top of it."
    )


def _saved(figure: Figure) -> str:
    spread = spread_text(figure)
    return f"{figure.text} ({spread})" if spread else figure.text


def waterfall_method(run: RunComparison, waterfall: Waterfall) -> str:
    """How the parts of a difference of ``run`` were determined, and what they leave unexplained."""
    before, after = waterfall.pairs.before, waterfall.pairs.after
    counts = (
        f"{before.matching_steps} of {before.traced_steps} traced steps of {waterfall.baseline} "
        f"and {after.matching_steps} of {after.traced_steps} of {waterfall.run}"
    )
    if waterfall.basis is Basis.CLEAN:
        scale_before, scale_after = waterfall.scales
        lead = (
            "Clean medians are the whole, in integer nanoseconds; the parts add up to the "
            f"difference exactly. {counts} divide it: GPU work as traced, instants of the CPU "
            f"scaled by {scale_before:.2f} and {scale_after:.2f} (clean over traced launch CPU "
            "time)."
        )
    else:
        lead = (
            "From the traces alone: a program that is recorded as it is has no clean pass. "
            f"Medians of {counts} are the whole, and the profiler, which slows every launch, "
            "lengthens them: launch gaps are smaller without it, and more so for the program with "
            "more launches. The parts add up to the difference exactly."
        )
    remainder = (
        f"The remainder, {format_percent(waterfall.remainder_share)} of the step of "
        f"{waterfall.baseline}, is what that does not explain."
    )
    loop = _unlike_loop(run, waterfall)
    return " ".join(filter(None, (loop, lead, remainder, ranks_method(waterfall))))


def _unlike_loop(run: RunComparison, waterfall: Waterfall) -> str:
    """That steps under the profiler do not show what the program's own loop saved; empty where they
    do, or where it was timed without one."""
    saved = run["recorded_saving"].value
    if waterfall.basis is Basis.CLEAN or not saved:
        return ""
    traced = waterfall.before_ns - waterfall.after_ns
    if 1 / _UNLIKE < traced / saved < _UNLIKE:
        return ""
    return (
        f"In the program's own loop a step of {printable(waterfall.run)} takes "
        f"{_more_or_less(saved)} than one of {printable(waterfall.baseline)}, under the profiler "
        f"{_more_or_less(traced)}: this does not show where that went."
    )


def _more_or_less(saved: float) -> str:
    return f"{format_ns(abs(saved))} {'less' if saved >= 0 else 'more'}"


def ranks_method(waterfall: Waterfall) -> str:
    """How waiting for ranks was determined; empty where there was none."""
    return _RANKS_METHOD if waterfall.waits_for_ranks else ""
