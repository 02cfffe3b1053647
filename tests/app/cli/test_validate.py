from __future__ import annotations

from pathlib import Path

import pytest

from tests.bundle.examples import write_bundle
from tests.cli.fixtures import Invoke


class TestValidate:
    def test_a_damaged_bundle_does_not_stop_the_check_of_others(
        self, folder: Path, invoke: Invoke
    ) -> None:
        trace = folder / "sample_traces/mlp-train/eager/traces/replay.json.gz"
        trace.write_bytes(trace.read_bytes()[:-1] + b"x")
        result = invoke("validate", "sample_traces")
        assert result.code == 2
        assert "FAILED  sample_traces/mlp-train/eager\n" in result.out
        assert "ok      sample_traces/mlp-train/graph: " in result.out
        assert "3 of 4 bundles are complete and readable\n" in result.out
        assert "1 of 1 recordings of launch costs are complete and readable\n" in result.out
        (line,) = result.err.splitlines()
        assert "/sample_traces/mlp-train/eager/traces/replay.json.gz: sha256" in line

    def test_a_complete_bundle_with_an_unreadable_trace_fails(
        self, folder: Path, invoke: Invoke
    ) -> None:
        # The trace has no event, but its hash is right.
        result = invoke("validate", str(write_bundle(folder / "odd" / "graph")))
        assert result.code == 2
        assert "FAILED  odd/graph\n0 of 1 bundles are complete and readable\n" in result.out
        assert "traceEvents without any slice of a CPU or GPU" in result.err

    @pytest.mark.parametrize("path", ["sample_traces/launch-h200", "{}/launch.json"])
    def test_a_recording_of_launch_costs_is_checked(
        self, folder: Path, invoke: Invoke, path: str
    ) -> None:
        given = path.format("sample_traces/launch-h200")
        result = invoke("validate", given)
        assert (result.code, result.err) == (0, "")
        first, last = result.out.splitlines()
        assert first.startswith(f"ok      {given}: launch costs, format version 1, complete, ")
        assert last == "1 of 1 recordings of launch costs are complete and readable"
        recording = folder / "sample_traces/launch-h200/launch.json"
        recording.write_bytes(recording.read_bytes().replace(b'"trials"', b'"trails"'))
        result = invoke("validate", given)
        assert result.code == 2
        assert result.out.splitlines()[0] == f"FAILED  {given}"
        assert "trails" in result.err
