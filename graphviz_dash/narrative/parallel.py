"""What a graph would take on several streams, in sentences and rows."""

from __future__ import annotations

from typing import Final

from graphviz_dash.analysis.parallel.needs import NodeNeed
from graphviz_dash.analysis.parallel.prediction import (
    LineBasis,
    OnStreams,
    Outlook,
    ParallelPrediction,
)
from graphviz_dash.analysis.parallel.work import NeedSource
from graphviz_dash.planning.operators import Need
from graphviz_dash.units import counted, format_bytes, format_ns, format_percent, format_ratio

STREAM_HEADINGS: Final = ("streams", "predicted", "90% from", "to", "speedup")

_BASIS: Final = {
    LineBasis.CLEAN: "the clean step",
    LineBasis.TRACED: "a replay in the trace, which the profiler lengthens",
}
_SOURCE: Final = {
    NeedSource.OPERATORS: (
        "What needs what is what the operators of the step were seen to read and write."
    ),
    NeedSource.MEMORY: (
        "What needs what is told from the memory that nodes can reach, so that some of it may be "
        "needless: a capture that reuses no memory between streams can be faster than this, which "
        "the interval allows for. Collected with the mode parallel the step shows its data flow."
    ),
    NeedSource.MEANING: (
        "The bundle does not say what memory nodes reach: all edges count as needed but for those "
        "that the meaning of operators shows to be needless, and the interval reaches down to what "
        "the GPU must do."
    ),
}
_AS_KNOWN: Final = {
    NeedSource.OPERATORS: "",
    NeedSource.MEMORY: ", as far as its memory tells",
    NeedSource.MEANING: ", as far as its edges tell",
}
_REASON: Final = {
    Outlook.CHAIN: "nearly all of it must be done one after another",
    Outlook.FULL: "what could run together fills the GPU by itself",
    Outlook.CROSSINGS: (
        "what could run together is shorter than the way from one stream to another"
    ),
}


def parallel_verdict(prediction: ParallelPrediction) -> str:
    """Whether several streams would gain, in a sentence."""
    best = prediction.best
    if prediction.outlook is not Outlook.FASTER:
        caveat = _AS_KNOWN[prediction.work.source]
        return (
            f"On several streams it would gain nothing worth having{caveat}: "
            f"{_REASON[prediction.outlook]}."
        )
    low = prediction.line_ns / (best.step.high or best.step.value)
    high = prediction.line_ns / (best.step.low or best.step.value)
    return (
        f"Captured on {counted(best.streams, 'stream')}, with only the dependencies that it needs, "
        f"it would take {format_ns(round(best.step.value))} instead of "
        f"{format_ns(round(prediction.line_ns))}: {format_ratio(best.speedup)} as fast "
        f"({format_ratio(low)} to {format_ratio(high)})."
    )


def parallel_notes(prediction: ParallelPrediction) -> tuple[str, ...]:
    """What the prediction rests on, what bounds it and what contention costs."""
    least, schedule = prediction.least, prediction.plan.schedule
    path, capacity = format_ns(round(least.path_ns)), format_ns(round(least.capacity_ns))
    observed = prediction.work.source is NeedSource.OPERATORS
    bound = (
        f"{path} are the longest chain of what {'needs' if observed else 'may need'} each other, "
        f"{capacity} all of its work at full use of the GPU, and no number of streams can undercut "
        f"{'either' if observed else 'that'}."
    )
    notes = [
        f"As captured it takes {format_ns(round(prediction.line_ns))}: "
        f"{_BASIS[prediction.basis]}. {bound}",
        _SOURCE[prediction.work.source],
    ]
    if prediction.plan.streams > 1:
        share = schedule.slowed_ns / schedule.total_ns if schedule.total_ns else 0.0
        notes.append(
            f"Along its longest way kernels are slowed by {format_ns(round(schedule.slowed_ns))} "
            f"({format_percent(share)}) because those beside them take their part of the GPU."
        )
    return tuple(notes)


def stream_row(row: OnStreams) -> tuple[str, str, str, str, str]:
    """A row by streams, under STREAM_HEADINGS."""
    step = row.step
    bounds = [
        "" if value is None or step.low == step.high else format_ns(round(value))
        for value in (step.low, step.high)
    ]
    return (
        str(row.streams),
        format_ns(round(step.value)),
        bounds[0],
        bounds[1],
        format_ratio(row.speedup),
    )


_NEED: Final = {
    Need.READ_AFTER_WRITE: "reads what it wrote",
    Need.WRITE_AFTER_READ: "writes over what it read",
    Need.WRITE_AFTER_WRITE: "writes over what it wrote",
    Need.OPAQUE: "keeps its order: one of them may do what its arguments do not show",
}


def need_text(need: NodeNeed) -> str:
    """What a node needs another for."""
    if need.need is not None:
        tensor = need.storage
        if tensor is None:
            return _NEED[need.need]
        shape = ", ".join(map(str, tensor.shape))
        return f"{_NEED[need.need]}: {tensor.dtype} [{shape}], {format_bytes(tensor.bytes)}"
    if need.shared_bytes is not None:
        return f"both can reach {format_bytes(need.shared_bytes)}"
    return "of one operator, or as captured"
