from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from graphviz_dash.bundle.calibration import write_calibration
from tests.analysis.predictions import CALIBRATION, line_trace
from tests.cli.fixtures import Invoke
from tests.experiments import make_experiment

SAMPLES = Path(__file__).parents[3] / "sample_traces"
TRACE = "sample_traces/mlp-train/eager/traces/replay.json.gz"

pytestmark = pytest.mark.usefixtures("folder")


def test_a_bundle_is_predicted_from_its_clean_eager_step(invoke: Invoke) -> None:
    for place in ("sample_traces/mlp-train", "sample_traces/mlp-train/eager"):
        document = json.loads(invoke("predict", place, "--json").out)
        assert document["eager_step"] == {"value": 400_000, "basis": "clean"}
        low, value, high = (document["graphed_step"][key] for key in ("low", "value", "high"))
        assert low < value < high


def test_of_several_ranks_the_one_that_waits_least_is_predicted(invoke: Invoke) -> None:
    """The collectives of the other hold 5 ms of waiting: no graph would take so long."""
    ranks = str(SAMPLES / "tp-transformer")
    said = invoke("predict", ranks, "--modules", "0", "--all").out
    assert said == invoke("predict", f"{ranks}/eager-rank1", "--modules", "0", "--all").out
    assert said.startswith("Yes: with CUDA graphs the step would be 3.65x faster")


@pytest.mark.parametrize("pack", [lambda data: data, gzip.compress])
def test_a_trace_alone_has_only_the_profiled_step(
    folder: Path, invoke: Invoke, pack: object
) -> None:
    assert callable(pack)
    file = folder / "foreign.json"
    file.write_bytes(pack(gzip.decompress((folder / TRACE).read_bytes())))
    result = invoke("predict", str(file), "--all")
    assert result.code == 0
    assert result.out.startswith("Yes: with CUDA graphs the step would be ")
    assert "(under the profiler)" in result.out.splitlines()[0]
    document = json.loads(invoke("predict", str(file), "--json").out)
    bundle = json.loads(invoke("predict", "sample_traces/mlp-train", "--json").out)
    assert document["eager_step"]["basis"] == "under the profiler"
    assert document["graphed_step"] == bundle["graphed_step"]


def test_a_capture_blocker_is_reported_with_its_fix(folder: Path, invoke: Invoke) -> None:
    from tests.analysis.prediction.test_capture_blockers import item
    from tests.trace_builder import TraceBuilder

    trace = TraceBuilder()
    for step in range(3):
        at = step * 200_000
        for place in range(6):
            correlation = trace.runtime("cudaLaunchKernel", at + 1_000 + place * 20_000, 4_000)
            trace.kernel("gemm", at + 9_000 + place * 20_000, 2_000, correlation=correlation)
        item(trace, at + 65_000)
        trace.annotation(f"ProfilerStep#{step}", at, 190_000)
    trace.write(folder / "read.json")
    out = invoke("predict", "read.json", "--all").out
    assert out.startswith("Yes, but one place blocks capture; after fixing it, ")
    assert "1. illegal: A GPU value is read on the CPU [sync-value]" in out
    assert "op aten::_local_scalar_dense, module net.head, at train.py:7" in out
    assert "fix: Keep the value on the GPU" in out


def test_another_calibration_changes_the_prediction(folder: Path, invoke: Invoke) -> None:
    write_calibration(folder / "mine.json", CALIBRATION)
    line_trace(folder / "line")
    document = json.loads(
        invoke("predict", "line/trace.json", "--calibration", "mine.json", "--json").out
    )
    assert document["graphed_step"]["value"] == 28_000
    assert document["calibration"]["shipped"] is False


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("sample_traces/mlp-train/graph",), "not an eager trace"),
        (("missing.json",), "missing.json"),
        (("sample_traces",), "no run directly in the folder"),
    ],
)
def test_an_input_without_an_eager_trace_is_refused(
    arguments: tuple[str, ...], message: str, invoke: Invoke
) -> None:
    result = invoke("predict", *arguments)
    assert result.code == 2
    assert message in result.err
    assert len(result.err.splitlines()) == 1


def test_calibrate_makes_what_predict_reads(folder: Path, invoke: Invoke) -> None:
    for number in range(12):
        make_experiment(folder / "runs" / f"w{number}")
    result = invoke("calibrate", "runs", "-o", "mine.json")
    assert result.code == 0, result.err
    assert "Of 12 workloads, 90% are within their intervals" in result.out
    assert invoke("predict", "runs/w0", "--calibration", "mine.json").code == 0
    make_experiment(folder / "more" / "w")
    result = invoke("calibrate", "runs", "--checks", "more", "-o", "mine.json")
    assert "Of 1 workload, 90% are" in result.out


def test_calibrate_wants_enough_of_one_gpu(folder: Path, invoke: Invoke) -> None:
    result = invoke("calibrate", "sample_traces", "-o", "mine.json")
    assert result.code == 2
    assert "12 or more" in result.err
    assert not (folder / "mine.json").exists()
