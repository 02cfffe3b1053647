"""Instructions and commands that collect a run's missing data."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

from graphviz_dash.analysis.absence import explain_missing
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.guidance.engines import find_eager_option
from graphviz_dash.guidance.gaps import Gap, find_baseline_remedy
from graphviz_dash.guidance.remedies import MissingInput, Remedy, find_remedies
from graphviz_dash.model.absence import Fact
from graphviz_dash.model.run import Run
from graphviz_dash.units import pluralize

_INSTRUCTIONS: Final = {
    MissingInput.WINDOW: "To trace its steps, record it again",
    MissingInput.TIMED_STEPS: "To time steps without a profiler, record it again",
    MissingInput.SIZES: "To trace each of its sizes, record it again",
    MissingInput.ATTRIBUTION: "For source lines and shapes of its nodes, record it again",
    MissingInput.STEPS: (
        "To mark steps, call collectors.step() at the end of each, and record it again"
    ),
    MissingInput.REPLAY_TRACE: (
        "To add its steps, import a trace next to it: a torch.profiler trace of a few steps, "
        "with ProfilerActivity.CPU and CUDA"
    ),
    MissingInput.EAGER_RUN: "To see the gain from its graphs, collect it without graphs too",
    MissingInput.EAGER_RECORDING: (
        "To see the gain from its graphs, switch graphs off in the program and record it again, "
        "into the same experiment"
    ),
    MissingInput.EAGER_TRACE: (
        "To see the gain from its graphs, import a trace of the same step without graphs into the "
        "same experiment"
    ),
}

_TRACE_INPUTS: Final = (MissingInput.WINDOW, MissingInput.STEPS, MissingInput.REPLAY_TRACE)


def list_remedies(runs: Sequence[Run], *, with_baseline: bool = True) -> tuple[str, ...]:
    """List instructions for missing data, one sentence each with the command."""
    lines = list_remedy_commands(runs, with_baseline=with_baseline)
    return tuple(f"{lead} {command}" if command else lead for lead, command in lines)


def list_remedy_commands(
    runs: Sequence[Run], *, with_baseline: bool = True
) -> tuple[tuple[str, str | None], ...]:
    """List pairs of instruction and command; the command is None if no single command helps."""
    missing = [(run, remedy) for run in runs for remedy in find_remedies(run, runs)]
    if with_baseline and (baseline := find_baseline_remedy(runs)) is not None:
        missing.insert(0, baseline)
    return tuple(_format_remedy(run, remedy) for run, remedy in missing)


def explain_missing_trace(runs: Sequence[Run]) -> tuple[str, ...]:
    """Explain why ``runs`` have no trace of their steps, and how to get one."""
    reasons = (f"{run.name}: {explain_missing(run, Fact.TRACED_PASS).reason}" for run in runs)
    missing = ((run, remedy) for run in runs for remedy in find_remedies(run, runs))
    return (
        *reasons,
        *(
            " ".join(filter(None, _format_remedy(run, remedy)))
            for run, remedy in missing
            if remedy.missing_input in _TRACE_INPUTS
        ),
    )


def explain_missing_shapes(run: Run, runs: Sequence[Run]) -> tuple[str, str | None] | None:
    """Return instruction and command to record the operators of a recorded run's nodes.

    None if they are recorded.
    """
    return next(
        (
            _format_remedy(run, remedy)
            for remedy in find_remedies(run, runs)
            if remedy.missing_input is MissingInput.ATTRIBUTION
        ),
        None,
    )


def _format_remedy(run: Run, remedy: Remedy) -> tuple[str, str | None]:
    lead = _INSTRUCTIONS[remedy.missing_input]
    option = None if run.loop is None else find_eager_option(run.loop.engine)
    if remedy.missing_input is MissingInput.EAGER_RECORDING and option is not None:
        # The option has two forms: for programs, and for the engine's server.
        forms = " or ".join(filter(None, (option.python, option.command)))
        lead = (
            f"To see the gain from its graphs, set {forms} and record it again, into the same "
            "experiment"
        )
    if remedy.extra_steps:
        lead += f", for {pluralize(remedy.extra_steps, 'step')} more"
    if remedy.command is None:
        return escape_control_characters(f"{run.name}: {lead}."), None
    return escape_control_characters(f"{run.name}: {lead}:"), escape_control_characters(
        shlex.join(remedy.command)
    )


def format_gap_reason(gap: Gap) -> str:
    """Explain why a part is empty, without a full stop."""
    return f"{gap.missing.reason[:1].upper()}{gap.missing.reason[1:]}"


def build_gap_command(gap: Gap) -> tuple[str, str] | None:
    """Return the instruction and the command for a missing part, or None if nothing is missing."""
    if gap.command is None:
        return None
    lead = (
        f"{gap.precondition[:1].upper()}{gap.precondition[1:]}, then run"
        if gap.precondition
        else "Run"
    )
    return f"{lead} on a machine with a CUDA GPU:", escape_control_characters(
        shlex.join(gap.command)
    )
