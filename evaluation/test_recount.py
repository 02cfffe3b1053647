"""Independent counts of samples, an Nsight report and a snapshot equal those of the importers."""

from __future__ import annotations

import gzip
import json
import pickle
from pathlib import Path

import pytest

from evaluation.recount.compare import compare, count_imported
from evaluation.recount.independent import count
from graphviz_dash.ingest.formats.registry import read_foreign
from tests.ingest.formats.test_memory_snapshot import SNAPSHOT
from tests.ingest.nsight_report import node_level

SAMPLES = Path(__file__).parents[1] / "sample_traces"


def find_differences(path: Path, scratch: Path) -> list[str]:
    return compare(count_imported(read_foreign(path, scratch)), count(path))


@pytest.mark.parametrize("run", ["mlp-train/eager", "mlp-train/graph", "fork-join/graph"])
def test_samples_have_equal_counts(run: str, tmp_path: Path) -> None:
    path = SAMPLES / run / "traces" / "replay.json.gz"
    assert count(path)["kernels"] > 0
    assert find_differences(path, tmp_path) == []


def test_a_report_and_a_snapshot_have_equal_counts(tmp_path: Path) -> None:
    report, snapshot = node_level().write(tmp_path / "report.sqlite"), tmp_path / "memory.pickle"
    snapshot.write_bytes(pickle.dumps(SNAPSHOT))
    for path in (report, snapshot):
        scratch = tmp_path / path.stem
        scratch.mkdir()
        assert find_differences(path, scratch) == []


def test_a_difference_is_described(tmp_path: Path) -> None:
    path = SAMPLES / "mlp-train" / "eager" / "traces" / "replay.json.gz"
    trace = json.loads(gzip.decompress(path.read_bytes()))
    events = trace["traceEvents"]
    kernel = next(event for event in events if event.get("cat") == "kernel")
    events.remove(kernel)
    lossy_file = tmp_path / "lossy_file.json"
    lossy_file.write_text(json.dumps(trace))
    differences = compare(count_imported(read_foreign(lossy_file, tmp_path)), count(path))
    assert [text.split()[0] for text in differences] == ["kernels", "busy_ns"]
