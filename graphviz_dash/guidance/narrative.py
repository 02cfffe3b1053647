"""How to get what a run lacks, in words with the command to run."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

from graphviz_dash.analysis.absence import why_missing
from graphviz_dash.errors import printable
from graphviz_dash.guidance.gaps import Gap, baseline_remedy
from graphviz_dash.guidance.remedies import Lack, Remedy, remedies
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
    Lack.EAGER_RUN: "To see what its graphs gain, collect it without graphs too",
    Lack.EAGER_RECORDING: (
        "To see what its graphs gain, switch graphs off in the program and record it again, into "
        "the same experiment"
    ),
    Lack.EAGER_TRACE: (
        "To see what its graphs gain, import a trace of the same step without graphs into the same "
        "experiment"
    ),
}

_OF_A_TRACE: Final = (Lack.WINDOW, Lack.STEPS, Lack.REPLAY_TRACE)
"""What a run lacks that has no trace."""


def remedy_texts(runs: Sequence[Run], *, whole: bool = True) -> tuple[str, ...]:
    """What gets the ``runs`` of an experiment that which they lack, a sentence for each with the
    whole command. Unless the experiment is ``whole``, a baseline may be among its other runs."""
    lines = remedy_lines(runs, whole=whole)
    return tuple(f"{lead} {command}" if command else lead for lead, command in lines)


def remedy_lines(runs: Sequence[Run], *, whole: bool = True) -> tuple[tuple[str, str | None], ...]:
    """The same as pairs: what to do, and the command; None where no command alone helps."""
    lacking = [(run, remedy) for run in runs for remedy in remedies(run, runs)]
    if whole and (baseline := baseline_remedy(runs)) is not None:
        lacking.insert(0, baseline)
    return tuple(_line(run, remedy) for run, remedy in lacking)


def why_no_trace(runs: Sequence[Run]) -> tuple[str, ...]:
    """Why each of ``runs`` has no trace of its steps, and how to get one."""
    reasons = (f"{run.name}: {why_missing(run, Fact.TRACED_PASS).reason}" for run in runs)
    lacking = ((run, remedy) for run in runs for remedy in remedies(run, runs))
    return (
        *reasons,
        *(
            " ".join(filter(None, _line(run, remedy)))
            for run, remedy in lacking
            if remedy.lack in _OF_A_TRACE
        ),
    )


def _line(run: Run, remedy: Remedy) -> tuple[str, str | None]:
    lead = _TO_GET[remedy.lack]
    if remedy.longer_by:
        lead += f", and let it run {counted(remedy.longer_by, 'step')} longer"
    if remedy.command is None:
        return printable(f"{run.name}: {lead}."), None
    return printable(f"{run.name}: {lead}:"), printable(shlex.join(remedy.command))


def gap_reason(gap: Gap) -> str:
    """Why there is nothing of a part, without a full stop."""
    return f"{gap.missing.reason[:1].upper()}{gap.missing.reason[1:]}"


def gap_command(gap: Gap) -> tuple[str, str] | None:
    """What to do for a part that is not there, and the command; None where nothing lacks."""
    if gap.command is None:
        return None
    before = f"{gap.condition[:1].upper()}{gap.condition[1:]}, then run" if gap.condition else "Run"
    return f"{before} on a machine with a CUDA GPU:", printable(shlex.join(gap.command))
