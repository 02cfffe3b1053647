from __future__ import annotations

from pathlib import Path

import pytest

from graphviz_dash.bundle.parts import (
    JSON_PARTS,
    NODE_IDS,
    PATHS_BY_ROLE,
    TRACE_PATHS,
    JsonPart,
    format_graph_path,
    is_valid_path,
)
from graphviz_dash.model.run import FileRole, RunParts
from tests.bundle.examples import NODE_IDS as RECORDS


def test_every_role_has_one_row() -> None:
    roles = [part.role for part in JSON_PARTS] + [*TRACE_PATHS, FileRole.GRAPH]
    assert sorted(roles) == sorted(FileRole)
    assert len({*PATHS_BY_ROLE.values()}) == len(PATHS_BY_ROLE)


@pytest.mark.parametrize("part", JSON_PARTS, ids=lambda part: part.role.value)
def test_every_part_has_a_field(part: JsonPart[object]) -> None:
    assert part.field in RunParts.__struct_fields__
    assert is_valid_path(part.role, part.path)


def test_a_packed_part_is_the_same_bytes_each_time(tmp_path: Path) -> None:
    content = NODE_IDS.encode(RECORDS)
    assert content == NODE_IDS.encode(RECORDS)
    file = tmp_path / NODE_IDS.file_name
    file.write_bytes(content)
    assert NODE_IDS.read(file) == RECORDS


@pytest.mark.parametrize(
    "path", ["graphs/a/b.json", "graphs/.json", "graphs/../x.json", "clean.json", "graphs\\a.json"]
)
def test_a_graph_lies_in_its_folder(path: str) -> None:
    assert is_valid_path(FileRole.GRAPH, format_graph_path("graph-0"))
    assert not is_valid_path(FileRole.GRAPH, path)
