"""How to get what a run lacks, in words with the command to run."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

from graphviz_dash.analysis.absence import why_missing
from graphviz_dash.analysis.remedies import Lack, Remedy, remedies
from graphviz_dash.errors import printable
from graphviz_dash.model.absence import Fact
from graphviz_dash.model.run import Run
from graphviz_dash.units import counted

_TO_GET: Final = {
    Lack.WINDOW: "For a trace of its steps record it again",
    Lack.TIMED_STEPS: "For steps timed without a profiler record it again",
    Lack.SIZES: "For each of its sizes in the trace record it again",
    Lack.ATTRIBUTION: "For the lines that its nodes come from record it again",
    Lack.STEPS: "For its steps call collectors.step() at the end of each, and record it again",
    Lack.REPLAY_TRACE: (
        "For a trace of its steps import one beside it: a trace of torch.profiler of a few steps, "
        "with ProfilerActivity.CPU and CUDA"
    ),
}


def remedy_texts(runs: Sequence[Run]) -> tuple[str, ...]:
    """What gets the ``runs`` of an experiment that which they lack, a sentence for each with the
    whole command."""
    return tuple(_text(run, remedy) for run in runs for remedy in remedies(run, runs))


def why_no_trace(runs: Sequence[Run]) -> tuple[str, ...]:
    """Why each of ``runs`` has no trace of its steps, and how to get one."""
    reasons = (f"{run.name}: {why_missing(run, Fact.TRACED_PASS).reason}" for run in runs)
    return (*reasons, *remedy_texts(runs))


def _text(run: Run, remedy: Remedy) -> str:
    lead = _TO_GET[remedy.lack]
    if remedy.longer_by:
        lead += f", and let it run {counted(remedy.longer_by, 'step')} longer"
    if remedy.command is None:
        return printable(f"{run.name}: {lead}.")
    return printable(f"{run.name}: {lead}: {shlex.join(remedy.command)}")
