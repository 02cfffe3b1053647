from __future__ import annotations

from pathlib import Path

import pytest

from graphviz_dash.importers.group import (
    SourcePart,
    build_run_name,
    get_common_name,
    group_parts,
    has_duplicates,
    strip_extensions,
)
from graphviz_dash.ingest.formats.registry import ForeignContent, SourceKind
from graphviz_dash.model.run import FileRole, MemoryUse

CAPTURE, REPLAY = FileRole.CAPTURE_TRACE, FileRole.REPLAY_TRACE


def part(
    path: str, role: FileRole | None = None, label: str = "", *, captures: bool = False
) -> SourcePart:
    content = ForeignContent(SourceKind.KINETO, label=label)
    return SourcePart(Path(path), content, role, captures or role is CAPTURE)


@pytest.mark.parametrize(
    ("path", "shorter", "common"),
    [
        ("m-capture.json.gz", "m-capture", "m"),
        ("m_replay.pt.trace.json", "m_replay", "m"),
        ("rank0.12345.pt.trace.json.gz", "rank0.12345", "rank0.12345"),
        ("memory-snapshot.pickle", "memory-snapshot", ""),
        ("graph-data.json", "graph-data", ""),
        ("m-graph-data.json", "m-graph-data", "m"),
        ("llama.graph.dot", "llama.graph", "llama"),
        (".json", ".json", "json"),
    ],
)
def test_names_without_endings_and_words_of_parts(path: str, shorter: str, common: str) -> None:
    assert strip_extensions(Path(path)) == shorter
    assert get_common_name(Path(path)) == common


def test_long_names_keep_apart() -> None:
    names = {build_run_name("x" * 200 + end) for end in "ab"}
    assert len(names) == 2
    assert max(map(len, names)) == 80
    assert build_run_name("../..") == "run"


def groups_of(*parts: SourcePart, join: bool = False) -> dict[str, int]:
    return {group.name: len(group.parts) for group in group_parts(parts, join=join)}


def test_files_whose_names_differ_in_words_of_parts_are_one_run() -> None:
    parts = (part("a/m-capture.json", CAPTURE), part("a/m-replay.json", REPLAY), part("a/m.dot"))
    assert groups_of(*parts) == {"m": 3}
    assert groups_of(*parts, part("a/n-replay.json", REPLAY)) == {"m": 3, "n": 1}
    assert groups_of(*parts, part("b/m-replay.json", REPLAY)) == {"m": 1}  # of two folders


def test_captures_in_a_folder_beside_their_replays() -> None:
    parts = (
        part("a/profile_rank_0.json", REPLAY),
        part("a/profile_rank_1.json", REPLAY),
        part("a/capture_traces/bs_16_rank0.json", CAPTURE),
        part("a/capture_traces/bs_32_rank0.json", REPLAY, captures=True),
        part("a/capture_traces/bs_32_rank1.json", CAPTURE),
    )
    groups = {
        group.name: [part.source.name for part in group.parts] for group in group_parts(parts)
    }
    assert groups == {
        "rank_0": ["profile_rank_0.json", "bs_16_rank0.json", "bs_32_rank0.json"],
        "rank_1": ["profile_rank_1.json", "bs_32_rank1.json"],
    }
    assert groups_of(*parts[2:]) == {"bs_16_rank0": 1, "bs_32_rank0": 1, "bs_32_rank1": 1}


def test_a_trace_that_captures_and_replays_is_the_capture_of_one_that_replays() -> None:
    both = part("a/m-capture.json", REPLAY, captures=True)
    (group,) = group_parts([both, part("a/m-replay.json", REPLAY)])
    assert [member.role for member in group.parts] == [CAPTURE, REPLAY]
    assert not has_duplicates(group.parts)
    (alone,) = group_parts([both])
    assert alone.parts == (both,)


def test_several_captures_are_of_one_run_where_replays_tell_which_is_theirs() -> None:
    captures = [part("a.json", CAPTURE), part("b.json", CAPTURE)]
    assert has_duplicates(captures)
    assert not has_duplicates([*captures, part("c.json", REPLAY)])


def test_two_of_a_kind_are_runs_of_their_own() -> None:
    parts = (part("m-trace.json", REPLAY), part("m-replay.json", REPLAY))
    assert has_duplicates(parts)
    assert groups_of(*parts) == {"m-trace": 1, "m-replay": 1}
    assert groups_of(*parts, join=True) == {"m": 2}


def test_processes_of_one_report_are_runs_of_their_own() -> None:
    parts = (part("r.sqlite", REPLAY, "-pid1"), part("r.sqlite", REPLAY, "-pid2"))
    assert groups_of(*parts) == {"r-pid1": 1, "r-pid2": 1}


def test_two_snapshots_are_of_two_runs() -> None:
    use = MemoryUse(None, None, 1, 2, ())
    snapshots = [
        SourcePart(Path(name), ForeignContent(SourceKind.MEMORY_SNAPSHOT, memory=use))
        for name in ("a.pickle", "b.pickle")
    ]
    assert has_duplicates(snapshots)
    assert not has_duplicates(snapshots[:1])
