"""Nsight Systems' SQLite exports become Kineto traces.

The databases follow the schema in its user guide; versions differ in columns and tables.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.formats.nsight import convert_nsight
from graphviz_dash.ingest.kineto.reader import read_trace
from graphviz_dash.ingest.limits import Limits
from graphviz_dash.model.trace import Trace
from tests.ingest.nsight_report import GLOBAL_PID, GLOBAL_TID, PID, TID, Report, node_level


def converted(report: Report, folder: Path) -> Trace:
    (one,) = convert_nsight(report.write(folder / "report.sqlite"), folder)
    return read_trace(one.path)


class TestNodeLevel:
    def test_work_on_the_gpu(self, tmp_path: Path) -> None:
        trace = converted(node_level(), tmp_path)
        gpu = trace.gpu
        assert gpu["kind"].cast(str).to_list() == ["kernel", "kernel", "memcpy"] * 2
        assert gpu["name"].cast(str).to_list()[:3] == [
            "fill<float>",
            "gemm<float>",
            "Memcpy DtoH (Device -> Pinned)",
        ]
        assert gpu["dur"].to_list()[:3] == [7_001, 7_001, 2_000]
        assert gpu["ts"].to_list()[0] == 20_003  # the first range begins at 0
        assert gpu["graph_id"].to_list() == [6] * 6
        assert gpu["graph_node_id"].to_list() == [0, 1, 2] * 2
        assert gpu.row(0, named=True) | {"name": "", "kind": ""} == {
            **{"ts": 20_003, "dur": 7_001, "kind": "", "name": "", "device": 0, "stream": 7},
            **{"correlation": 100, "external_id": None, "grid_x": 8, "grid_y": 2, "grid_z": 1},
            **{"block_x": 128, "block_y": 1, "block_z": 1, "shared": 1536, "registers": 32},
            **{"bytes": None, "graph_id": 6, "graph_node_id": 0},
        }
        assert gpu["bytes"].to_list()[2] == 4096

    def test_calls_and_ranges(self, tmp_path: Path) -> None:
        trace = converted(node_level(), tmp_path)
        call = trace.runtime.row(0, named=True)
        assert (call["name"], call["ts"], call["correlation"]) == ("cudaGraphLaunch", 1_000, 100)
        assert (call["pid"], call["tid"]) == (PID, TID)
        assert trace.annotations["name"].to_list() == ["step 0", "step 1"]
        assert trace.annotations["dur"].to_list() == [900_000, 900_000]

    def test_the_machine(self, tmp_path: Path) -> None:
        trace = converted(node_level(), tmp_path)
        assert trace.info.device_names == ("NVIDIA H200",)
        assert trace.info.origin_ns == 1_790_857_026_000_000_000


def graph_level() -> Report:
    report = Report()
    report.call("cudaGraphLaunch_v10000", 1_000, 5)
    report.add(
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
        start=10_000,
        end=90_000,
        deviceId=0,
        contextId=1,
        streamId=7,
        correlationId=5,
        globalPid=GLOBAL_PID,
        graphId=3,
        graphExecId=4,
    )
    return report


def test_a_launch_traced_as_a_whole_is_one_row(tmp_path: Path) -> None:
    (one,) = convert_nsight(graph_level().write(tmp_path / "report.sqlite"), tmp_path)
    assert one.graph_launches == 1
    gpu = read_trace(one.path).gpu
    assert gpu["name"].cast(str).to_list() == ["CUDA graph 4, as a whole"]
    assert (gpu["dur"].to_list(), gpu["correlation"].to_list()) == ([80_000], [5])


class TestVersions:
    def test_without_the_columns_of_graphs_and_processes(self, tmp_path: Path) -> None:
        old = Report(without=("graphNodeId", "graphId", "globalPid", "mangledName", "launchType"))
        old.call("cudaLaunchKernel_v7000", 1_000, 1)
        old.kernel("gemm<float>", 9_000, 500, 1)
        (one,) = convert_nsight(old.write(tmp_path / "old.sqlite"), tmp_path)
        trace = read_trace(one.path)
        assert one.pid is None
        assert trace.gpu["graph_node_id"].to_list() == [None]
        assert trace.runtime.height == 1

    def test_only_kernels(self, tmp_path: Path) -> None:
        report = Report()
        report.kernel("gemm<float>", 9_000, 500, 1)
        trace = converted(report, tmp_path)
        assert (trace.gpu.height, trace.runtime.height, trace.annotations.height) == (1, 0, 0)

    def test_a_name_that_is_only_short(self, tmp_path: Path) -> None:
        report = Report(without=("demangledName",))
        report.kernel("gemm<float>", 9_000, 500, 1)
        assert converted(report, tmp_path).gpu["name"].cast(str).to_list() == ["gemm"]

    def test_marks_and_ranges_that_need_not_nest_are_left_out(self, tmp_path: Path) -> None:
        report = node_level()
        report.add("NVTX_EVENTS", start=1, eventType=34, text="mark", globalTid=GLOBAL_TID)
        report.add("NVTX_EVENTS", start=1, end=9, eventType=60, text="x", globalTid=GLOBAL_TID)
        report.add("NVTX_EVENTS", start=1, end=9, eventType=59, text="own", globalTid=GLOBAL_TID)
        names = converted(report, tmp_path).annotations["name"].to_list()
        assert sorted(names) == ["own", "step 0", "step 1"]


def test_ranges_of_operators_are_operators(tmp_path: Path) -> None:
    report = node_level()
    for name in (
        "aten::mm, seq = 5, op_id = 9, sizes = [[2, 3], [3, 4]]",
        "aten::pow, op_id = 316459",
        "aten::relu",
        "aten::addmm, seq = 8, sizes = [[4], [2, 3], [3, 4]]",
        "aten::cat, seq = 6, op_id = 10, sizes = [[[2, 3], []], []], input_op_ids = [[9, 0]]",
        "autograd::engine::evaluate_function: MmBackward0, op_id = 12",
        "step, with a comma",
    ):
        report.add("NVTX_EVENTS", start=5, end=9, eventType=59, text=name, globalTid=GLOBAL_TID)
    trace = converted(report, tmp_path)
    assert sorted(trace.ops["name"].cast(str).to_list()) == [
        "aten::addmm",
        "aten::cat",
        "aten::mm",
        "aten::pow",
        "aten::relu",
        "autograd::engine::evaluate_function: MmBackward0",
    ]
    mm = trace.ops.filter(trace.ops["name"].cast(str) == "aten::mm").row(0, named=True)
    assert (mm["sequence"], mm["input_dims"]) == (5, "[[2, 3], [3, 4]]")
    assert "step, with a comma" in trace.annotations["name"].to_list()


def test_each_process_is_a_trace(tmp_path: Path) -> None:
    report = node_level()
    second = Report(pid=77)
    second.strings = report.strings
    second.call("cudaLaunchKernel_v7000", 1_000, 1)
    second.kernel("gemm<float>", 9_000, 500, 1)
    report.merge(second)
    found = convert_nsight(report.write(tmp_path / "report.sqlite"), tmp_path)
    assert [(one.pid, one.kernels) for one in found] == [(77, 1), (PID, 4)]


class TestHostile:
    def _database(self, path: Path, *statements: str) -> Path:
        with closing(sqlite3.connect(path)) as database:
            for statement in statements:
                database.execute(statement)
            database.commit()
        return path

    def test_no_table_of_nsight(self, tmp_path: Path) -> None:
        file = self._database(tmp_path / "a.sqlite", "CREATE TABLE people (name)")
        with pytest.raises(InputError, match=r"no table of CUDA activities .tables: people"):
            convert_nsight(file, tmp_path)

    def test_a_database_of_rocprofv3_is_named(self, tmp_path: Path) -> None:
        file = self._database(tmp_path / "28_results.db", "CREATE TABLE rocpd_event_37ca (id)")
        with pytest.raises(InputError, match=r"a database of rocprofv3 \(rocpd\)"):
            convert_nsight(file, tmp_path)

    @pytest.mark.parametrize("work", [(), ("CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start)",)])
    def test_a_report_without_cuda(self, tmp_path: Path, work: tuple[str, ...]) -> None:
        """The program ran on the CPU, or was recorded without --trace=cuda."""
        file = self._database(tmp_path / "a.sqlite", "CREATE TABLE META_DATA_EXPORT (name)", *work)
        with pytest.raises(InputError, match=r"without any CUDA activity; .* --trace=cuda"):
            convert_nsight(file, tmp_path)

    def test_a_report_of_calls_that_only_set_up_a_gpu(self, tmp_path: Path) -> None:
        report = Report()
        report.call("cuInit", 0, 1)
        report.call("cuStreamCreate", 10_000, 2)
        file = report.write(tmp_path / "a.sqlite")
        with pytest.raises(InputError, match="2 CUDA calls that only set up a GPU"):
            convert_nsight(file, tmp_path)

    def test_no_database(self, tmp_path: Path) -> None:
        file = tmp_path / "a.sqlite"
        file.write_bytes(b"SQLite format 3\0" + b"\xff" * 4096)
        with pytest.raises(InputError, match="invalid SQLite"):
            convert_nsight(file, tmp_path)

    def test_names_of_columns_that_are_not_text(self, tmp_path: Path) -> None:
        """Found by the fuzzer: the module decodes text of a damaged schema."""
        file = self._database(tmp_path / "a.sqlite", "CREATE TABLE StringIds (id, value)")
        file.write_bytes(
            file.read_bytes().replace(b"StringIds (id, value)", b"StringIds \xb7\xb7\xb7, value)")
        )
        with pytest.raises(InputError, match="SQLite"):
            convert_nsight(file, tmp_path)

    def test_a_view_that_never_ends_is_no_table(self, tmp_path: Path) -> None:
        file = self._database(
            tmp_path / "a.sqlite",
            "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE n(start) AS "
            "(SELECT 1 UNION ALL SELECT start + 1 FROM n) SELECT start, start AS end FROM n",
        )
        with pytest.raises(InputError, match="no table of CUDA activities"):
            convert_nsight(file, tmp_path)

    @pytest.mark.parametrize("value", ["'text'", "NULL", "1.5", "x'00'"])
    def test_times_of_another_type(self, tmp_path: Path, value: str) -> None:
        file = self._database(
            tmp_path / "a.sqlite",
            "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end)",
            f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, {value})",
        )
        with pytest.raises(InputError, match="times in nanoseconds"):
            convert_nsight(file, tmp_path)

    def test_more_rows_than_the_limit(self, tmp_path: Path) -> None:
        file = node_level().write(tmp_path / "report.sqlite")
        with pytest.raises(InputError, match="limit events"):
            convert_nsight(file, tmp_path, Limits(events=5))

    def test_names_are_text(self, tmp_path: Path) -> None:
        report = Report()
        hostile = 'x"}]}, {"ph": "X", "cat": "kernel", \x1b[31m<script>'
        report.kernel(hostile, 9_000, 500, 1)
        trace = converted(report, tmp_path)
        assert trace.gpu["name"].cast(str).to_list() == [hostile]
