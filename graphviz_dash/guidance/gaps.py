"""Missing parts of an experiment, the reasons, and the commands that collect them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from msgspec import Struct

from graphviz_dash.analysis.loop.family_report import (
    has_many_graphs,
    has_only_recorded_graphs,
)
from graphviz_dash.analysis.metrics.run_selection import may_be_eager, select_baseline
from graphviz_dash.analysis.ranks.ranks import is_rank_of_several
from graphviz_dash.analysis.trace.api_calls import CallClass, get_call_class
from graphviz_dash.analysis.trace.compiled_code import has_compiled_code
from graphviz_dash.guidance.remedies import MissingInput, Remedy, find_remedies, has_trace
from graphviz_dash.guidance.rerun import (
    build_any_recording_command,
    build_collect_command,
    build_doctor_command,
    build_recording_command,
    make_rerun_name,
)
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.run import BASELINE_MODE, FileRole, Run


class Part(StrEnum):
    """A part of an experiment; values are names of the pages that show it."""

    FAMILIES = "graphs"
    """Programs that replay many graphs."""
    GRAPH = "graph"
    TIMELINE = "timeline"
    """Traces of steps."""
    COMPILATION = "compile"
    """Results of torch.compile."""
    MEMORY = "memory"
    RANKS = "ranks"
    """Processes that ran together."""
    DOCTOR = "doctor"
    """Reasons why a capture fails."""


class Gap(Struct, frozen=True):
    """A part that an experiment lacks."""

    part: Part
    missing: Missing
    command: tuple[str, ...] | None
    """None if nothing is missing by mistake."""
    precondition: str = ""
    """Required change in the program, as an instruction; empty if none."""


class _Rule(NamedTuple):
    """Presence test and texts for one part."""

    is_present: Callable[[Sequence[Run]], bool]
    """Test whether the runs have this part."""
    missing: Missing
    command: Callable[[Sequence[Run]], tuple[str, ...] | None]
    precondition: str = ""
    """Required change in a recorded program."""


def find_gaps(runs: Sequence[Run]) -> dict[Part, Gap]:
    """Find the parts that ``runs`` (at least one) lack.

    Uses traces only if they are loaded.
    """
    return {
        part: Gap(part, rule.missing, rule.command(runs), _get_precondition(part, rule, runs))
        for part, rule in _RULES.items()
        if not rule.is_present(runs)
    }


def _get_precondition(part: Part, rule: _Rule, runs: Sequence[Run]) -> str:
    if part is Part.GRAPH and any(run.manifest.failures for run in runs):
        return "fix the cause of the failed capture"
    if part is Part.DOCTOR and count_concurrent_ranks(runs) > 1:
        return "run the step in one process, because the doctor does not examine ranks"
    return rule.precondition if runs[0].mode.is_recorded else ""


def count_concurrent_ranks(runs: Sequence[Run]) -> int:
    """Count the most processes that ran together; 1 if each ran alone."""
    groups = (run.manifest.group for run in runs)
    return max((group.world_size for group in groups if group is not None), default=1)


def find_baseline_remedy(runs: Sequence[Run]) -> tuple[Run, Remedy] | None:
    """Find the command that adds a baseline for graph runs.

    Returns it with the first graph run; None if a baseline exists or no run replays a graph.
    """
    graphed = next((run for run in runs if _has_graph_replays(run)), None)
    if graphed is None or select_baseline(runs) is not None:
        return None
    if graphed.manifest.sources:
        return graphed, Remedy(MissingInput.EAGER_TRACE, None)
    if graphed.mode.is_recorded:
        command = build_recording_command(graphed, {"--name": BASELINE_MODE.value})
        return graphed, Remedy(MissingInput.EAGER_RECORDING, command)
    return graphed, Remedy(
        MissingInput.EAGER_RUN, build_collect_command(graphed, [BASELINE_MODE.value])
    )


def _has_graph_replays(run: Run) -> bool:
    recording = run.recording
    if recording is not None:
        # Compiled programs capture an empty graph for their memory pool, even if none is replayed.
        return bool(recording.earlier_replays) or any(graph.replays for graph in recording.graphs)
    if run.graphs:
        return True
    if not run.mode.is_recorded:
        return run.mode.captures_graphs
    # Only the trace, if loaded, shows whether an imported run replays graphs.
    calls = () if run.replay_trace is None else run.replay_trace.runtime["name"].unique()
    return any(get_call_class(name) is CallClass.GRAPH_LAUNCH for name in calls)


def _has_file(runs: Sequence[Run], *roles: FileRole) -> bool:
    """Test for a file with one of ``roles``, loaded or not."""
    return any(file.role in roles for run in runs for file in run.manifest.files)


def _has_compiled_code(run: Run) -> bool:
    """Test if the trace shows compiled code, or may show it if not loaded."""
    if run.replay_trace is not None:
        return has_compiled_code(run.replay_trace)
    return run.mode.is_compiled and (has_trace(run) or bool(run.manifest.failures))


def _has_prediction(runs: Sequence[Run]) -> bool:
    """Return whether an eager trace predicts the gain: no run with graphs has a trace."""
    runs_with_trace = [run for run in runs if has_trace(run)]
    return bool(runs_with_trace) and all(map(may_be_eager, runs_with_trace))


def _has_stopped_replay(run: Run) -> bool:
    return run.replay_check is not None and bool(run.replay_check.stops)


def _get_no_command(_: Sequence[Run]) -> None:
    return None


def _build_graph_command(runs: Sequence[Run]) -> tuple[str, ...]:
    return _build_rerun_command(runs, ("eager", "graph"), "graphed")


def _build_compile_command(runs: Sequence[Run]) -> tuple[str, ...]:
    return _build_rerun_command(runs, ("eager", "compile"), "compiled")


def build_memory_command(runs: Sequence[Run]) -> tuple[str, ...]:
    """Return the command that measures the memory of ``runs``, for workloads with a memory pass."""
    return _build_rerun_command(
        runs, tuple(dict.fromkeys(run.mode.value for run in runs)), runs[0].name
    )


def build_compilation_command(run: Run, runs: Sequence[Run]) -> tuple[str, ...]:
    """Return the command that records the compilation of ``run``, one of ``runs``."""
    return _build_rerun_command([run, *runs], (run.mode.value,), run.name)


def _build_trace_command(runs: Sequence[Run]) -> tuple[str, ...]:
    commands = (remedy.command for run in runs for remedy in find_remedies(run, runs))
    return next((command for command in commands if command), None) or build_memory_command(runs)


def _build_rerun_command(runs: Sequence[Run], modes: Sequence[str], name: str) -> tuple[str, ...]:
    """Return the command that adds runs of a workload, or a run ``name`` of a program.

    Collectors never overwrite a run, so the name or the modes must be new.
    """
    run = runs[0]
    if run.mode.is_recorded:
        free = make_rerun_name(name) if any(name == other.name for other in runs) else name
        return build_any_recording_command(run, {"--name": free})
    return build_collect_command(run, modes, {other.mode.value for other in runs})


_RULES: Final = {
    Part.FAMILIES: _Rule(
        lambda runs: any(
            has_many_graphs(run.loop) or has_only_recorded_graphs(run) for run in runs
        ),
        Missing(Fact.FAMILIES, "no program here replays many graphs"),
        _get_no_command,
    ),
    Part.GRAPH: _Rule(
        lambda runs: _has_file(runs, FileRole.GRAPH),
        Missing(Fact.GRAPHS, "no run here holds a captured graph"),
        _build_graph_command,
        "capture the step in the program if it does not do so yet",
    ),
    Part.TIMELINE: _Rule(
        lambda runs: any(has_trace(run) or _has_stopped_replay(run) for run in runs),
        Missing(Fact.TRACED_PASS, "no run here holds a trace of its steps"),
        _build_trace_command,
    ),
    Part.COMPILATION: _Rule(
        lambda runs: _has_file(runs, FileRole.COMPILATION) or any(map(_has_compiled_code, runs)),
        Missing(Fact.COMPILATION, "no run used torch.compile"),
        _build_compile_command,
        "call torch.compile in the program",
    ),
    Part.MEMORY: _Rule(
        lambda runs: _has_file(runs, FileRole.MEMORY, FileRole.MEMORY_PASS, FileRole.LEDGER),
        Missing(Fact.MEMORY, "no run here holds memory statistics"),
        build_memory_command,
    ),
    Part.RANKS: _Rule(
        lambda runs: any(map(is_rank_of_several, runs)),
        Missing(Fact.OTHER_RANKS, "each run here has only one process"),
        _get_no_command,
    ),
    Part.DOCTOR: _Rule(
        lambda runs: (
            _has_file(runs, FileRole.DOCTOR, FileRole.COMPILATION, FileRole.REPLAY_CHECK)
            or _has_prediction(runs)
        ),
        Missing(Fact.CAPTURE_PASS, "no doctor examined these runs"),
        lambda runs: build_doctor_command(runs[0]),
    ),
}
