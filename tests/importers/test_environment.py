from __future__ import annotations

from pathlib import Path

from graphviz_dash.importers.environment import build_environment, find_main_device, format_job_name
from graphviz_dash.ingest.kineto.reader import read_trace
from graphviz_dash.ingest.kineto.trace_head import Device, Rank, TraceHead
from graphviz_dash.model.gpu import Gpu
from tests.builders import TraceBuilder

H200 = Device("NVIDIA H200", (9, 0), 150, 132)
OTHER = Device("NVIDIA A100", (8, 0), 80, 108)


def test_without_a_trace_nothing_is_known() -> None:
    environment = build_environment(None, None)
    assert (environment.gpu, environment.gpu_count, environment.cuda_runtime) == (None, None, None)
    assert find_main_device(None) == 0


def test_the_device_that_most_work_ran_on(tmp_path: Path) -> None:
    trace = TraceBuilder(device=1)
    trace.kernel("a", 10, 5, correlation=1)
    trace.kernel("b", 20, 5, correlation=2)
    read = read_trace(trace.write(tmp_path / "trace.json"))
    head = TraceHead((OTHER, H200), Rank(1, 2, "2.28.9"))
    environment = build_environment(read, head)
    assert find_main_device(read) == 1
    assert environment.gpu == Gpu("NVIDIA H200", (9, 0), 150, 132)
    assert environment.gpu_count == 2
    assert environment.nccl == "2.28.9"
    assert environment.cuda_runtime == environment.cuda_driver == "13.0"


def test_a_device_that_is_not_wholly_told_is_none(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.kernel("a", 10, 5, correlation=1)
    read = read_trace(trace.write(tmp_path / "trace.json"))
    for device in (Device(None, (9, 0), 150, 132), Device("NVIDIA H200", None, 150, 132)):
        assert build_environment(read, TraceHead((device,), None)).gpu is None


def test_more_devices_in_use_than_are_told(tmp_path: Path) -> None:
    trace = TraceBuilder(device=7)
    trace.kernel("a", 10, 5, correlation=1)
    read = read_trace(trace.write(tmp_path / "trace.json"))
    environment = build_environment(read, TraceHead((H200,), None))
    assert environment.gpu == Gpu("NVIDIA H200", (9, 0), 150, 132)


def test_a_job_of_one_rank_is_of_one() -> None:
    assert format_job_name(1, "NVIDIA H200", None) == "1 rank on NVIDIA H200"
    assert format_job_name(8, None, "2026-11-21T09:00:00+00:00") == (
        "8 ranks on an unknown GPU, 2026-11-21"
    )
