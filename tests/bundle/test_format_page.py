"""docs/bundle-format.md names every field, every value and every file of the format."""

from __future__ import annotations

import enum
import inspect
import re
from pathlib import Path

import msgspec
import pytest

from graphviz_dash.bundle.parts import PATHS_BY_ROLE, format_graph_path
from graphviz_dash.bundle.schema import MANIFEST_FILE
from graphviz_dash.model import (
    compilation,
    doctor,
    graph,
    loop,
    marks,
    memory,
    node_ids,
    observers,
    parallel,
    recording,
    run,
    timings,
)

PAGE = (Path(__file__).parents[2] / "docs" / "bundle-format.md").read_text(encoding="utf-8")


CHAPTERS = {
    "## manifest.json": (
        run.Manifest,
        run.RankGroup,
        run.FileEntry,
        run.Source,
        run.Failure,
        run.Absent,
        run.WorkloadInfo,
        run.StepWork,
        run.Environment,
        run.Gpu,
    ),
    "## clean.json": (
        timings.CleanTimings,
        timings.StepTiming,
        timings.GraphLifecycle,
        timings.CleanProcess,
        timings.GpuClocks,
    ),
    "## memory.json": (run.MemoryUse, run.PoolUse),
    "## memory-pass.json": (
        memory.MemoryPass,
        memory.MemoryStage,
        memory.OwnedBytes,
        memory.PoolSegment,
        memory.Extent,
        memory.LiveExtent,
        memory.GraphMemory,
    ),
    "## traces/replay-ids.json": (node_ids.GraphIds,),
    "## node-ids.json.gz": (node_ids.NodeIdPass, node_ids.NodeSignature, node_ids.NodeIdRow),
    "## recording.json": (recording.Recording, recording.RecordedGraph, recording.ProcessOrigin),
    "## loop.json.gz": (
        loop.ProgramLoop,
        loop.GraphFamily,
        loop.FamilyMember,
        loop.GraphCost,
        loop.LoopSteps,
    ),
    "## parallel.json.gz": (
        parallel.ParallelPlan,
        parallel.Operator,
        parallel.Access,
        parallel.Storage,
        parallel.Attempt,
        parallel.ParallelCheck,
    ),
    "## compilation.json.gz": (
        compilation.Compilation,
        compilation.FactSource,
        compilation.UserLine,
        compilation.CompiledFrame,
        compilation.GraphBreak,
        compilation.Recompile,
        compilation.CompiledGraph,
        compilation.Partitioning,
        compilation.GraphPartition,
        compilation.SplitOperator,
        compilation.GraphSkip,
        compilation.TreeFunction,
        compilation.FunctionInput,
        compilation.TreeNode,
        compilation.CopiedInput,
        compilation.Rerecording,
        compilation.MovedInput,
        compilation.CompileWarning,
    ),
    "## doctor.json": (
        doctor.DoctorReport,
        doctor.Finding,
        doctor.CodeLocation,
        doctor.Evidence,
        doctor.RuleCheck,
        doctor.OutputCheck,
    ),
    "## updates.json": (run.GraphUpdates, run.GraphUpdate),
    "## observers.json": (observers.ObserverPass, observers.ObservedSeries),
    "## graphs/": (
        graph.CapturedGraph,
        graph.DriverResult,
        graph.GraphNode,
        graph.Operand,
        graph.GraphEdge,
        *graph.PARAMS_BY_KIND.values(),
    ),
}
NOT_STORED = {run.RunParts, run.Run, run.Experiment}
"""Records of a bundle that was read."""
FIELDS = [
    (chapter, f"{kind.__name__}.{field.encode_name}")
    for chapter, kinds in CHAPTERS.items()
    for kind in kinds
    for field in msgspec.structs.fields(kind)
]


def _code(text: str) -> set[str]:
    """What stands between backticks."""
    return set(re.findall(r"`([^`\n]+)`", text))


def _classes(base: type) -> set[type]:
    """The classes of the format that derive from ``base``."""
    return {
        member
        for module in (
            run,
            timings,
            graph,
            loop,
            memory,
            node_ids,
            observers,
            parallel,
            recording,
            doctor,
            compilation,
        )
        for _, member in inspect.getmembers(module, inspect.isclass)
        if issubclass(member, base) and member.__module__ == module.__name__
    }


def test_every_struct_has_its_chapter() -> None:
    stored = _classes(msgspec.Struct) - NOT_STORED
    assert {kind for kinds in CHAPTERS.values() for kind in kinds} == stored


@pytest.mark.parametrize(("chapter", "field"), FIELDS, ids=[field for _, field in FIELDS])
def test_a_field_is_documented(chapter: str, field: str) -> None:
    text = PAGE.split(f"\n{chapter}")[1].split("\n## ")[0]
    words = {word for code in _code(text) for word in re.findall(r"\w+", code)}
    assert field.partition(".")[2] in words


@pytest.mark.parametrize(
    "kind", sorted(_classes(enum.StrEnum), key=str), ids=lambda kind: kind.__name__
)
def test_the_values_of_an_enumeration_are_documented(kind: type[enum.StrEnum]) -> None:
    assert {member.value for member in kind} <= _code(PAGE)


@pytest.mark.parametrize(
    "tag", sorted({str(kind.__struct_config__.tag) for kind in graph.PARAMS_BY_KIND.values()})
)
def test_the_kinds_of_parameters_are_documented(tag: str) -> None:
    assert f"`params` with `of` = `{tag}`" in PAGE


def test_the_files_are_shown() -> None:
    for path in (MANIFEST_FILE, format_graph_path("graph-0"), *PATHS_BY_ROLE.values()):
        assert path in PAGE


def test_the_ranges_in_traces_are_documented() -> None:
    for mark in (marks.STEP, marks.CAPTURE, marks.MODULE, marks.SOURCE):
        assert f"`{mark}<" in PAGE


def test_the_current_version_is_in_title_and_history() -> None:
    assert PAGE.startswith(f"# The run bundle, format version {run.FORMAT_VERSION}\n")
    assert re.search(rf"^\| {run.FORMAT_VERSION} \|", PAGE.split("## History")[1], re.MULTILINE)
