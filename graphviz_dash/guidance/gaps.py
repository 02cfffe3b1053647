"""What there is nothing to show of in an experiment, why, and what to run to get it."""

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
    """What an experiment is looked at for; the values are the names of the pages that show it."""

    FAMILIES = "graphs"
    """Programs that replay many graphs."""
    GRAPH = "graph"
    """Captured graphs."""
    TIMELINE = "timeline"
    """Traces of steps."""
    COMPILATION = "compile"
    """What torch.compile made of the step."""
    MEMORY = "memory"
    """Statistics of memory."""
    RANKS = "ranks"
    """Processes that ran together."""
    DOCTOR = "doctor"
    """Why a capture fails."""


class Gap(Struct, frozen=True):
    """What an experiment has nothing of."""

    part: Part
    """What it is."""
    missing: Missing
    """Why there is none."""
    command: tuple[str, ...] | None
    """What to run to get it; None where nothing lacks: the program is so."""
    condition: str = ""
    """What must be done in the program first, as an order; empty for nothing."""


class _Rule(NamedTuple):
    """When one part is there, and what is said where it is not."""

    is_there: Callable[[Sequence[Run]], bool]
    """Whether the runs have something of it."""
    missing: Missing
    """Why not."""
    command: Callable[[Sequence[Run]], tuple[str, ...] | None]
    """What gets it."""
    in_program: str = ""
    """What must be done first in a program that is run as it is."""


def gaps(runs: Sequence[Run]) -> dict[Part, Gap]:
    """What there is nothing to show of in an experiment of ``runs``, at least one; told by
    manifests, recordings and loops, so that neither traces nor graphs need be read."""
    return {
        part: Gap(part, rule.missing, rule.command(runs), _condition(part, rule, runs))
        for part, rule in _RULES.items()
        if not rule.is_there(runs)
    }


def _condition(part: Part, rule: _Rule, runs: Sequence[Run]) -> str:
    """What must be done before the command gets ``part``."""
    if part is Part.GRAPH and any(run.manifest.failures for run in runs):
        return "mend what the capture failed by"
    if part is Part.DOCTOR and ranks_together(runs) > 1:
        return "have the step run in one process, for the doctor examines no ranks"
    return rule.in_program if runs[0].mode.is_recorded else ""


def ranks_together(runs: Sequence[Run]) -> int:
    """How many processes ran together, at most, in any of ``runs``; 1 where each ran alone."""
    groups = (run.manifest.group for run in runs)
    return max((group.world_size for group in groups if group is not None), default=1)


def baseline_remedy(runs: Sequence[Run]) -> tuple[Run, Remedy] | None:
    """What gets ``runs`` that replay graphs a run without them to be compared with, beside the
    first of them; None where there is one, or where none replays any."""
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
    # Of an imported run only its trace can tell, where that is read.
    calls = () if run.replay_trace is None else run.replay_trace.runtime["name"].unique()
    return any(call_class(name) is CallClass.GRAPH_LAUNCH for name in calls)


def _have(runs: Sequence[Run], *roles: FileRole) -> bool:
    """Whether the bundle of any of ``runs`` has a file of ``roles``, be it read or not."""
    return any(file.role in roles for run in runs for file in run.manifest.files)


def _none(_: Sequence[Run]) -> None:
    return None


def _graphed(runs: Sequence[Run]) -> tuple[str, ...]:
    return _again(runs, ("eager", "graph"), "graphed")


def _compiled(runs: Sequence[Run]) -> tuple[str, ...]:
    return _again(runs, ("eager", "compile"), "compiled")


def with_memory_pass(runs: Sequence[Run]) -> tuple[str, ...]:
    """The command that measures the memory of ``runs``; of workloads by a memory pass too."""
    return _again(runs, tuple(dict.fromkeys(run.mode.value for run in runs)), runs[0].name)


def with_compilation(run: Run, runs: Sequence[Run]) -> tuple[str, ...]:
    """The command that records what the compiler does in ``run``, beside ``runs``, which it is one
    of."""
    return _again([run, *runs], (run.mode.value,), run.name)


def _traced(runs: Sequence[Run]) -> tuple[str, ...]:
    commands = (remedy.command for run in runs for remedy in remedies(run, runs))
    return next((command for command in commands if command), None) or with_memory_pass(runs)


def _again(runs: Sequence[Run], modes: Sequence[str], name: str) -> tuple[str, ...]:
    """The command that makes runs in ``modes`` of a workload, or one called ``name`` of a program,
    beside ``runs``: no collector writes over a run."""
    run = runs[0]
    if run.mode.is_recorded:
        free = again(name) if any(name == each.name for each in runs) else name
        return recorded_anew(run, {"--name": free})
    return collected_in(run, modes, {each.mode.value for each in runs})


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
        "have the program capture its step, where it does not yet",
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
        Missing(Fact.OTHER_RANKS, "the runs here are of one process each"),
        _none,
    ),
    # Where all ran eagerly the trace says what would stop a capture.
    Part.DOCTOR: _Rule(
        lambda runs: (
            _have(runs, FileRole.DOCTOR, FileRole.COMPILATION) or all(map(may_be_eager, runs))
        ),
        Missing(Fact.CAPTURE_PASS, "no doctor examined these runs"),
        lambda runs: examined(runs[0]),
    ),
}
