"""Whether a run is worth it, in words for somebody who decides: what is gained, why, and what it
costs. Each figure names the evidence that it rests on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from graphviz_dash.analysis.comparison.result import Evidence, Piece
from graphviz_dash.analysis.failures import when
from graphviz_dash.analysis.metrics.run_metrics import Figure
from graphviz_dash.errors import printable
from graphviz_dash.units import (
    counted,
    format_bytes,
    format_ns,
    format_percent,
    format_ratio,
)

if TYPE_CHECKING:
    from graphviz_dash.analysis.comparison.result import RunComparison
    from graphviz_dash.model.run import Failure, Run


_WORTH: Final = 1.02
"""A speedup below this is called hardly any."""

_CLEAN: Final = ("step_time", "speedup", "step_saving")
_RECORDED: Final = ("recorded_step", "recorded_speedup", "recorded_saving")
_IN_ITS_LOOP: Final = (
    " These are steps of the program's own loop as it ran once, not clean timings."
)

# What a saved part is called: metric, and words for time that went and time that was added.
_CAUSES: Final = (
    ("gaps_removed", "waiting for launches"),
    ("kernel_change", "kernel time"),
    ("copy_change", "copies and sets"),
    ("synchronisation_removed", "synchronisation"),
    ("rank_wait_removed", "waiting for other ranks"),
)


def answer_text(pieces: tuple[Piece, ...]) -> str:
    """The sentence as plain text."""
    return "".join(piece.text for piece in pieces)


def answer(
    run: Run, against: Run | None, figures: Mapping[str, Figure], *, sound: bool = True
) -> tuple[Piece, ...]:
    """The answer for ``run`` against its baseline; empty where nothing was compared. ``sound`` is
    False where a doctor found that replays do other work than the step."""
    names = _RECORDED if run.recording else _CLEAN
    step, speedup, saving = (figures[name] for name in names)
    if against is None or speedup.value is None or saving.value is None or step.value is None:
        return ()
    pieces = _pieces(
        printable(run.name),
        printable(against.name),
        figures,
        speedup,
        step.value,
        saving.value,
        sound=sound,
    )
    return (*pieces, Piece(_IN_ITS_LOOP)) if run.recording else tuple(pieces)


def uncompared(runs: Sequence[RunComparison]) -> tuple[Piece, ...]:
    """The answer where no run was compared and none failed: why, and what a step takes in each.

    Times under a profiler are told only where a run has no others, and called so.
    """
    if not runs:
        return ()
    timed = [run for run in runs if run.step.value is not None]
    traced = [run for run in runs if run["traced_step_time"].value is not None]
    if len(runs) == 1:
        why = (
            f"{printable(runs[0].name)} is the only run here, and none is there to compare it with"
        )
    elif not timed:
        why = "no run has clean timings"
    else:
        reasons = (run.speedup.reason for run in runs if not run.is_baseline)
        why = printable(next((reason for reason in reasons if reason is not None), ""))
    pieces = [Piece(f"Not told: {why}.")]
    lead = " A step takes " if timed else " Under the profiler a step takes "
    for run in timed or traced:
        figure = run.step if timed else run["traced_step_time"]
        place = Evidence.ITERATIONS if timed else Evidence.FIGURES
        pieces += [Piece(lead), Piece(figure.text, place, None if timed else figure.metric.id)]
        if len(runs) > 1:
            pieces.append(Piece(f" in {printable(run.name)}"))
        lead = ", "
    return (*pieces, Piece(".")) if timed or traced else tuple(pieces)


def unanswered(
    name: str, failure: Failure, baseline: str, step_ns: float, idle_ns: float | None
) -> tuple[Piece, ...]:
    """The answer where the run ``name`` failed and nothing was compared: what stands in the way,
    and what there is to gain: idle time of the GPU in a step of ``baseline`` (both in ns)."""
    where = f" at {failure.location}" if failure.location else ""
    pieces = [
        Piece("Not as it stands: "),
        Piece(printable(f"{name} failed {when(failure)}{where}"), Evidence.FAILURES),
        Piece(f". A step of {printable(baseline)} takes "),
        Piece(format_ns(step_ns), Evidence.ITERATIONS),
    ]
    if idle_ns:
        idle = f"{format_ns(idle_ns)} ({format_percent(idle_ns / step_ns)})"
        pieces += [
            Piece(", in which the GPU is idle for "),
            Piece(idle, Evidence.WHERE),
            Piece(", which is what graphs could save"),
        ]
    return (*pieces, Piece("."))


def _pieces(
    name: str,
    baseline: str,
    figures: Mapping[str, Figure],
    speedup: Figure,
    own: float,
    saving: float,
    *,
    sound: bool,
) -> Iterator[Piece]:
    ratio, spread = speedup.value or 0.0, speedup.spread
    even = spread is not None and spread.high is not None and spread.low <= 1 <= spread.high
    times = Piece(f"{format_ns(own)} instead of {format_ns(own + saving)}", Evidence.ITERATIONS)
    if even:
        yield Piece(f"No: {name} and {baseline} cannot be told apart, a step takes ")
        yield times
        yield Piece(" (")
        low, high = (format_ratio(end) for end in (spread.low, spread.high)) if spread else ("", "")
        interval = f"95% interval of the speedup {low} to {high}"
        yield Piece(interval, Evidence.FIGURES, speedup.metric.id)
        yield Piece(")")
    elif ratio < 1:
        yield Piece(f"No: {name} makes a step ")
        yield Piece(f"{format_ratio(1 / ratio)} slower", Evidence.FIGURES, speedup.metric.id)
        yield Piece(" than " + baseline + ", ")
        yield times
    else:
        if sound:
            yield Piece(f"{'Yes' if ratio >= _WORTH else 'Hardly'}: {name} makes a step ")
        else:
            yield Piece("Not as it stands: ")
            yield Piece("replays do other work than the step", Evidence.FAILURES)
            yield Piece(f". As it was timed, {name} makes a step ")
        yield Piece(f"{speedup.text} faster", Evidence.FIGURES, speedup.metric.id)
        yield Piece(f" than {baseline}, ")
        yield times
    yield from _why(figures, saving)
    yield from _cost(figures, even)
    yield Piece(".")


def _why(figures: Mapping[str, Figure], saving: float) -> Iterator[Piece]:
    """The largest part that goes with the direction of the whole."""
    parts = [(figures[metric].value, words) for metric, words in _CAUSES]
    sign = 1 if saving >= 0 else -1
    known = [(sign * value, words) for value, words in parts if value is not None]
    largest, words = max(known, default=(0.0, ""))
    if largest <= 0 or not saving:
        return
    share = format_percent(min(1.0, largest / abs(saving)))
    verb = "less" if sign > 0 else "more"
    yield Piece("; ")
    of = f" ({share} of the difference)" if largest <= abs(saving) else ""
    yield Piece(f"{format_ns(largest)} {verb} {words}{of}", Evidence.WATERFALL)


def _cost(figures: Mapping[str, Figure], even: bool) -> Iterator[Piece]:
    cost, replays = figures["one_off_cost"], figures["break_even"].value
    memory = figures["peak_reserved_change"].value
    if cost.value is not None:
        yield Piece(". It costs ")
        yield Piece(f"{cost.text} once", Evidence.BREAK_EVEN)
        if replays is not None and not even:
            yield Piece(", paid back after ")
            yield Piece(counted(round(replays), "step"), Evidence.BREAK_EVEN)
        elif replays is None:
            yield Piece(", never paid back")
    elif cost.reason is not None and "compil" in cost.reason:
        yield Piece(". What the compilation costs once was not timed")
    if memory is not None:
        yield Piece(", and " if cost.value is not None else "; ")
        yield Piece(_memory(memory), Evidence.FIGURES, "peak_reserved_change")


def _memory(change: float) -> str:
    if not change:
        return "no more memory"
    return f"{format_bytes(abs(change))} {'more' if change > 0 else 'less'} memory at its peak"
