"""Missing parts of an experiment, the reasons, and the commands that collect them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from msgspec import Struct

from graphviz_dash.analysis.loop.family_report import has_many_graphs
from graphviz_dash.analysis.metrics.run_selection import may_be_eager, usual_baseline
from graphviz_dash.analysis.ranks.ranks import is_rank_of_several
from graphviz_dash.analysis.trace.api_calls import CallClass, call_class
from graphviz_dash.guidance.remedies import Lack, Remedy, has_trace, remedies
from graphviz_dash.guidance.rerun import (
    again,
    collected_in,
    examined,
    recorded_anew,
    recorded_with,
)
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.run import BASELINE_MODE, FileRole, Run


class Part(StrEnum):
    """A part of an experiment. The values are the names of the pages that show it."""

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
    """The command that collects it; None if nothing is missing by mistake."""
    condition: str = ""
    """Required change in the program, as an instruction; empty if none."""


class _Rule(NamedTuple):
    """Presence test and texts for one part."""

    is_there: Callable[[Sequence[Run]], bool]
    """Test whether the runs have this part."""
    missing: Missing
    command: Callable[[Sequence[Run]], tuple[str, ...] | None]
    in_program: str = ""
    """Required change in a program that is recorded as it is."""


def gaps(runs: Sequence[Run]) -> dict[Part, Gap]:
    """Find the parts that ``runs`` (at least one) lack.

    Uses only manifests, recordings and loops, so traces and graphs need not be loaded.
    """
    return {
        part: Gap(part, rule.missing, rule.command(runs), _condition(part, rule, runs))
        for part, rule in _RULES.items()
        if not rule.is_there(runs)
    }


def _condition(part: Part, rule: _Rule, runs: Sequence[Run]) -> str:
    if part is Part.GRAPH and any(run.manifest.failures for run in runs):
        return "fix the cause of the failed capture"
    if part is Part.DOCTOR and ranks_together(runs) > 1:
        return "run the step in one process, because the doctor does not examine ranks"
    return rule.in_program if runs[0].mode.is_recorded else ""


def ranks_together(runs: Sequence[Run]) -> int:
    """Count the processes that ran together, at most, in any of ``runs``; 1 if each ran alone."""
    groups = (run.manifest.group for run in runs)
    return max((group.world_size for group in groups if group is not None), default=1)


def baseline_remedy(runs: Sequence[Run]) -> tuple[Run, Remedy] | None:
    """Find the command that adds a run without graphs as a baseline for graph runs.

    Returns it with the first graph run; None if a baseline exists or no run replays a graph.
    """
    graphed = next((run for run in runs if _replays_graphs(run)), None)
    if graphed is None or usual_baseline(runs) is not None:
        return None
    if graphed.manifest.sources:
        return graphed, Remedy(Lack.EAGER_TRACE, None)
    if graphed.mode.is_recorded:
        again = recorded_with(graphed, {"--name": BASELINE_MODE.value})
        return graphed, Remedy(Lack.EAGER_RECORDING, again)
    return graphed, Remedy(Lack.EAGER_RUN, collected_in(graphed, [BASELINE_MODE.value]))


def _replays_graphs(run: Run) -> bool:
    if run.graphs or (run.recording is not None and run.recording.graphs):
        return True
    if not run.mode.is_recorded:
        return run.mode.captures_graphs
    # Only the trace, if loaded, shows whether an imported run replays graphs.
    calls = () if run.replay_trace is None else run.replay_trace.runtime["name"].unique()
    return any(call_class(name) is CallClass.GRAPH_LAUNCH for name in calls)


def _have(runs: Sequence[Run], *roles: FileRole) -> bool:
    """Return whether any bundle has a file with one of ``roles``, loaded or not."""
    return any(file.role in roles for run in runs for file in run.manifest.files)


def _none(_: Sequence[Run]) -> None:
    return None


def _graphed(runs: Sequence[Run]) -> tuple[str, ...]:
    return _again(runs, ("eager", "graph"), "graphed")


def _compiled(runs: Sequence[Run]) -> tuple[str, ...]:
    return _again(runs, ("eager", "compile"), "compiled")


def with_memory_pass(runs: Sequence[Run]) -> tuple[str, ...]:
    """Return the command that measures the memory of ``runs``, for workloads with a memory pass."""
    return _again(runs, tuple(dict.fromkeys(run.mode.value for run in runs)), runs[0].name)


def with_compilation(run: Run, runs: Sequence[Run]) -> tuple[str, ...]:
    """Return the command that records the compilation of ``run``, which is one of ``runs``."""
    return _again([run, *runs], (run.mode.value,), run.name)


def _traced(runs: Sequence[Run]) -> tuple[str, ...]:
    commands = (remedy.command for run in runs for remedy in remedies(run, runs))
    return next((command for command in commands if command), None) or with_memory_pass(runs)


def _again(runs: Sequence[Run], modes: Sequence[str], name: str) -> tuple[str, ...]:
    """Return the command that adds runs in ``modes`` of a workload, or a run ``name`` of a program.

    Collectors never overwrite a run, so the name or the modes must be new.
    """
    run = runs[0]
    if run.mode.is_recorded:
        free = again(name) if any(name == other.name for other in runs) else name
        return recorded_anew(run, {"--name": free})
    return collected_in(run, modes, {other.mode.value for other in runs})


_RULES: Final = {
    Part.FAMILIES: _Rule(
        lambda runs: any(has_many_graphs(run.loop) for run in runs),
        Missing(Fact.FAMILIES, "no program here replays many graphs"),
        _none,
    ),
    Part.GRAPH: _Rule(
        lambda runs: _have(runs, FileRole.GRAPH),
        Missing(Fact.GRAPHS, "no run here holds a captured graph"),
        _graphed,
        "capture the step in the program if it does not do so yet",
    ),
    Part.TIMELINE: _Rule(
        lambda runs: any(map(has_trace, runs)),
        Missing(Fact.TRACED_PASS, "no run here holds a trace of its steps"),
        _traced,
    ),
    Part.COMPILATION: _Rule(
        lambda runs: _have(runs, FileRole.COMPILATION) or any(r.mode.is_compiled for r in runs),
        Missing(Fact.COMPILATION, "nothing here was compiled by torch.compile"),
        _compiled,
        "call torch.compile in the program",
    ),
    Part.MEMORY: _Rule(
        lambda runs: _have(runs, FileRole.MEMORY, FileRole.MEMORY_PASS),
        Missing(Fact.MEMORY, "no run here holds memory statistics"),
        with_memory_pass,
    ),
    Part.RANKS: _Rule(
        lambda runs: any(map(is_rank_of_several, runs)),
        Missing(Fact.OTHER_RANKS, "each run here has only one process"),
        _none,
    ),
    # If all runs are eager, the trace shows capture blockers.
    Part.DOCTOR: _Rule(
        lambda runs: (
            _have(runs, FileRole.DOCTOR, FileRole.COMPILATION) or all(map(may_be_eager, runs))
        ),
        Missing(Fact.CAPTURE_PASS, "no doctor examined these runs"),
        lambda runs: examined(runs[0]),
    ),
}
