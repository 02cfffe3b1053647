from __future__ import annotations

from pathlib import Path

from collectors.process.results import read_result, write_result
from graphviz_dash.bundle import parts
from tests.bundle.examples import CLEAN, NODE_IDS


def test_a_written_result_is_read_and_an_absent_one_is_none(tmp_path: Path) -> None:
    assert read_result(parts.CLEAN, tmp_path) is None
    write_result(parts.CLEAN, CLEAN, tmp_path)
    write_result(parts.NODE_IDS, NODE_IDS, tmp_path)
    assert read_result(parts.CLEAN, tmp_path) == CLEAN
    assert read_result(parts.NODE_IDS, tmp_path) == NODE_IDS
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clean.json", "node-ids.json.gz"]
