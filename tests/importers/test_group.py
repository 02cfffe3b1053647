"""Which files belong to one run, by their names and by what they hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphviz_dash.importers.group import (
    SourcePart,
    common_name,
    grouped,
    has_duplicates,
    run_name,
    stem,
)
from graphviz_dash.ingest.formats.registry import ForeignContent, SourceKind
from graphviz_dash.model.run import FileRole, MemoryUse

CAPTURE, REPLAY = FileRole.CAPTURE_TRACE, FileRole.REPLAY_TRACE


def part(path: str, role: FileRole | None = None, label: str = "") -> SourcePart:
    return SourcePart(Path(path), ForeignContent(SourceKind.KINETO, label=label), role)


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
    assert stem(Path(path)) == shorter
    assert common_name(Path(path)) == common


def test_long_names_keep_apart() -> None:
    names = {run_name("x" * 200 + end) for end in "ab"}
    assert len(names) == 2
    assert max(map(len, names)) == 80
    assert run_name("../..") == "run"


def groups_of(*parts: SourcePart, join: bool = False) -> dict[str, int]:
    return {group.name: len(group.parts) for group in grouped(parts, join=join)}


def test_files_whose_names_differ_in_words_of_parts_are_one_run() -> None:
    parts = (part("a/m-capture.json", CAPTURE), part("a/m-replay.json", REPLAY), part("a/m.dot"))
    assert groups_of(*parts) == {"m": 3}
    assert groups_of(*parts, part("a/n-replay.json", REPLAY)) == {"m": 3, "n": 1}
    assert groups_of(*parts, part("b/m-replay.json", REPLAY)) == {"m": 1}  # of two folders


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
