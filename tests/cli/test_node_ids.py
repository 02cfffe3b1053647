from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bundle.examples import NODE_IDS, write_bundle
from tests.cli.fixtures import Invoke


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(write_bundle(tmp_path / "run", traces=(), node_ids=NODE_IDS))


def test_show_says_what_was_recorded_and_how_alignment_agrees(path: str, invoke: Invoke) -> None:
    result = invoke("show", path, "--all")
    assert result.code == 0
    lines = result.out.splitlines()
    begin = lines.index("Node-id pass: 4 records of 2 steps from cupti-python 13.0.1, 0 lost")
    assert lines[begin + 1 : begin + 3] == [
        "  alignment without the ids matches them in 4 of 4 rows (100.00%)",
        "  confidence 1.00: 4 of 4 match",
    ]
    # Without a trace of replays the times are those of this pass, and say so.
    assert "4 of 4 GPU records matched to a node in 2 replays of the node-id pass" in result.out


def test_the_same_as_json(path: str, invoke: Invoke) -> None:
    document = json.loads(invoke("show", path, "--json").out)
    assert document["node_ids"] == {
        "source": "cupti-python 13.0.1",
        "steps": 2,
        "records": 4,
        "dropped": 0,
        "outside": 4,
        "compared": 4,
        "agreeing": 4,
        "unnamed": 0,
        "by_confidence": [{"confidence": 1.0, "rows": 4, "agreeing": 4}],
        "misses": {},
    }
    assert document["graphs"][0]["matching"]["pass"] == "node-id pass"


def test_validate_reads_it(path: str, invoke: Invoke) -> None:
    result = invoke("validate", path)
    assert result.code == 0
    assert "node-ids.json.gz: " in result.out
