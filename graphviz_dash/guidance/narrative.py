"""Instructions and commands that collect a run's missing data."""

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
    Lack.WINDOW: "To trace its steps, record it again",
    Lack.TIMED_STEPS: "To time steps without a profiler, record it again",
    Lack.SIZES: "To trace each of its sizes, record it again",
    Lack.ATTRIBUTION: "For source lines of its nodes, record it again",
    Lack.STEPS: "To mark steps, call collectors.step() at the end of each, and record it again",
    Lack.REPLAY_TRACE: (
        "To add its steps, import a trace next to it: a torch.profiler trace of a few steps, "
        "with ProfilerActivity.CPU and CUDA"
    ),
    Lack.EAGER_RUN: "To see the gain from its graphs, collect it without graphs too",
    Lack.EAGER_RECORDING: (
        "To see the gain from its graphs, switch graphs off in the program and record it again, "
        "into the same experiment"
    ),
    Lack.EAGER_TRACE: (
        "To see the gain from its graphs, import a trace of the same step without graphs into the "
        "same experiment"
    ),
}

_OF_A_TRACE: Final = (Lack.WINDOW, Lack.STEPS, Lack.REPLAY_TRACE)
"""Missing inputs of a run without a trace."""


def remedy_texts(runs: Sequence[Run], *, whole: bool = True) -> tuple[str, ...]:
    """List instructions for missing data, one sentence each with the command. If ``whole``,
    consider a missing baseline too."""
    lines = remedy_lines(runs, whole=whole)
    return tuple(f"{lead} {command}" if command else lead for lead, command in lines)


def remedy_lines(runs: Sequence[Run], *, whole: bool = True) -> tuple[tuple[str, str | None], ...]:
    """List pairs of instruction and command; the command is None if no single command helps."""
    missing = [(run, remedy) for run in runs for remedy in remedies(run, runs)]
    if whole and (baseline := baseline_remedy(runs)) is not None:
        missing.insert(0, baseline)
    return tuple(_line(run, remedy) for run, remedy in missing)


def why_no_trace(runs: Sequence[Run]) -> tuple[str, ...]:
    """Explain why ``runs`` have no trace of their steps, and how to get one."""
    reasons = (f"{run.name}: {why_missing(run, Fact.TRACED_PASS).reason}" for run in runs)
    missing = ((run, remedy) for run in runs for remedy in remedies(run, runs))
    return (
        *reasons,
        *(
            " ".join(filter(None, _line(run, remedy)))
            for run, remedy in missing
            if remedy.lack in _OF_A_TRACE
        ),
    )


def _line(run: Run, remedy: Remedy) -> tuple[str, str | None]:
    lead = _TO_GET[remedy.lack]
    if remedy.longer_by:
        lead += f", for {counted(remedy.longer_by, 'step')} more"
    if remedy.command is None:
        return printable(f"{run.name}: {lead}."), None
    return printable(f"{run.name}: {lead}:"), printable(shlex.join(remedy.command))


def gap_reason(gap: Gap) -> str:
    """Explain why a part is empty, without a full stop."""
    return f"{gap.missing.reason[:1].upper()}{gap.missing.reason[1:]}"


def gap_command(gap: Gap) -> tuple[str, str] | None:
    """Return the instruction and the command for a missing part, or None if nothing is missing."""
    if gap.command is None:
        return None
    lead = f"{gap.condition[:1].upper()}{gap.condition[1:]}, then run" if gap.condition else "Run"
    return f"{lead} on a machine with a CUDA GPU:", printable(shlex.join(gap.command))
