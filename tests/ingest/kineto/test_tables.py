from __future__ import annotations

import gc
import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.kineto.reader import read_trace
from graphviz_dash.model.trace import (
    ANNOTATION_COLUMNS,
    GPU_COLUMNS,
    OP_COLUMNS,
    PYTHON_COLUMNS,
    RUNTIME_COLUMNS,
    Trace,
)
from tests.builders import GpuWork, TraceBuilder

TYPES = {
    "int64": pl.Int64,
    "int32": pl.Int32,
    "uint64": pl.UInt64,
    "string": pl.String,
    "categorical": pl.Categorical,
}


def read(builder: TraceBuilder, folder: Path, name: str = "trace.json.gz") -> Trace:
    return read_trace(builder.write(folder / name))


@pytest.fixture
def full(tmp_path: Path) -> Trace:
    trace = TraceBuilder(with_stack=True, record_shapes=True)
    trace.annotation("graphviz_dash.step#0", 0, 100_000)
    op = trace.op("aten::mm", 1_000, 50_000, dims=[[4, 8], [8, 2]], types=["float", "float"])
    launch = trace.runtime("cudaLaunchKernel", 2_000, 5_000, external_id=op)
    trace.kernel(
        "gemm<float>(float*)",
        9_001,
        7_002,
        correlation=launch,
        external_id=op,
        grid=(2, 3, 4),
        block=(128, 2, 1),
        shared=4356,
        registers=80,
        stream=17,
    )
    copy = trace.runtime("cudaMemcpyAsync", 20_000, 1_000)
    trace.memcpy("Memcpy DtoH (Device -> Pinned)", 30_000, 900, bytes=64, correlation=copy)
    fill = trace.runtime("cudaMemsetAsync", 40_000, 1_000)
    trace.memset("Memset (Device)", 41_500, 800, bytes=32, correlation=fill)
    trace.frame("train.py(9): step", 500, 60_000)
    trace.frame("model.py(35): forward", 700, 50_000, parent=1)
    return read(trace, tmp_path)


def test_every_table_has_the_declared_columns_and_types(full: Trace) -> None:
    declared = [
        (full.gpu, GPU_COLUMNS),
        (full.runtime, RUNTIME_COLUMNS),
        (full.ops, OP_COLUMNS),
        (full.annotations, ANNOTATION_COLUMNS),
        (full.python, PYTHON_COLUMNS),
    ]
    for frame, columns in declared:
        assert dict(frame.schema) == {name: TYPES[kind] for name, kind in columns.items()}


def test_a_kernel_has_its_launch_shape(full: Trace) -> None:
    row = full.gpu.row(0, named=True)
    assert row == {
        "ts": 9_001,
        "dur": 7_002,
        "kind": "kernel",
        "name": "gemm<float>(float*)",
        "device": 0,
        "stream": 17,
        "correlation": 4,
        "external_id": 2,
        "grid_x": 2,
        "grid_y": 3,
        "grid_z": 4,
        "block_x": 128,
        "block_y": 2,
        "block_z": 1,
        "shared": 4356,
        "registers": 80,
        "bytes": None,
        "graph_id": None,
        "graph_node_id": None,
    }


def test_copies_and_sets_have_bytes_and_no_launch_shape(full: Trace) -> None:
    rows = full.gpu[1:].select("kind", "bytes", "grid_x", "block_x", "shared", "registers")
    assert rows.rows() == [
        ("memcpy", 64, None, None, None, None),
        ("memset", 32, None, None, None, None),
    ]


def test_operators_keep_shapes_as_recorded_text(full: Trace) -> None:
    row = full.ops.row(0, named=True)
    assert row["input_dims"] == "[[4, 8], [8, 2]]"
    assert row["input_types"] == '["float", "float"]'
    assert (row["external_id"], row["sequence"], row["forward_tid"]) == (2, None, None)


def test_python_frames_lead_to_their_parents(full: Trace) -> None:
    rows = full.python.select("name", "python_id", "python_parent_id").rows()
    assert rows == [("train.py(9): step", 1, None), ("model.py(35): forward", 2, 1)]


def test_info_says_what_the_trace_says_of_itself(full: Trace) -> None:
    info = full.info
    assert info.source == "trace.json.gz"
    assert info.events == 16
    assert info.skipped == {"ac2g": 6}
    assert info.end_ns == 100_000
    assert info.origin_ns == 1_790_857_026_000_000_000 + 4_377_359_067_820_009
    assert (info.cupti_version, info.cuda_runtime_version, info.cuda_driver_version) == (
        130001,
        13000,
        13000,
    )
    assert info.device_names == ("NVIDIA H200",)
    assert (info.with_stack, info.record_shapes) == (True, True)
    assert info.problems == ()


def test_times_are_rebased_to_the_first_row_of_any_table(tmp_path: Path) -> None:
    trace = TraceBuilder(offset_ns=1_000_000)
    trace.raw(
        {"ph": "X", "cat": "overhead", "name": "early", "pid": -1, "tid": 0, "ts": 1, "dur": 1}
    )
    trace.op("aten::add", 500, 10)
    trace.annotation("step", 300, 700)
    loaded = read(trace, tmp_path)
    assert loaded.ops["ts"].to_list() == [200]
    assert loaded.annotations["ts"].to_list() == [0]
    assert loaded.info.end_ns == 700
    assert loaded.info.skipped == {"overhead": 1}


def test_rows_are_sorted_and_what_encloses_comes_first(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("inner", 100, 10)
    trace.op("outer", 100, 50)
    trace.op("first", 20, 5)
    trace.kernel("late", 900, 10, correlation=8)
    trace.kernel("early", 200, 10, correlation=9)
    loaded = read(trace, tmp_path)
    assert loaded.ops["name"].to_list() == ["first", "outer", "inner"]
    assert loaded.gpu["name"].to_list() == ["early", "late"]


def test_a_graph_launch_shares_its_correlation_with_all_its_work(tmp_path: Path) -> None:
    trace = TraceBuilder()
    work = [GpuWork(f"k{index}", 10_000 + index * 1_000, 900) for index in range(5)]
    correlation = trace.graph_launch(0, 5_000, work)
    loaded = read(trace, tmp_path)
    launch = loaded.runtime.row(0, named=True)
    assert (launch["name"], launch["correlation"]) == ("cudaGraphLaunch", correlation)
    assert loaded.gpu["correlation"].to_list() == [correlation] * 5
    assert loaded.gpu["external_id"].null_count() == 5
    assert loaded.info.problems == ()


@pytest.mark.parametrize(
    ("graph_id", "node_id", "expected"),
    [
        (None, None, (None, None)),
        (0, 0, (None, None)),  # eager kernels of torch 2.12
        (3, 0, (3, 0)),  # the first node of a graph
        (3, 41, (3, 41)),
        (None, (3 << 32) | 41, (3, 41)),  # both halves in one number
        (3, (3 << 32) | 41, (3, 41)),
        (None, 41, (None, 41)),
        ((1 << 64) - 2, 7, ((1 << 64) - 2, 7)),
    ],
)
def test_graph_and_node_ids_in_each_form(
    tmp_path: Path,
    graph_id: int | None,
    node_id: int | None,
    expected: tuple[int | None, int | None],
) -> None:
    trace = TraceBuilder()
    trace.kernel("k", 0, 10, correlation=4, graph_id=graph_id, graph_node_id=node_id)
    row = read(trace, tmp_path).gpu.row(0, named=True)
    assert (row["graph_id"], row["graph_node_id"]) == expected


def test_zero_is_a_value_and_not_a_missing_one(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("forward", 0, 10, sequence=0, forward_thread=0)
    trace.kernel("k", 5, 0, correlation=0, shared=0, registers=0)
    loaded = read(trace, tmp_path)
    assert loaded.ops.select("sequence", "forward_tid").row(0) == (0, 0)
    assert loaded.gpu.select("dur", "correlation", "shared", "registers").row(0) == (0, 0, 0, 0)


def test_a_missing_correlation_is_null(tmp_path: Path) -> None:
    trace = TraceBuilder(flows=False)
    trace.kernel("k", 5, 1, correlation=None)
    assert read(trace, tmp_path).gpu["correlation"].to_list() == [None]


def test_hostile_names_come_through_as_text(tmp_path: Path) -> None:
    names = [
        "<script>alert(1)</script>",
        '"><img src=x onerror=alert(1)>',
        "\x1b[31mred\x1b[0m\x07",
        "\u202egnp.exe",
        "k\u0000ernel",
        "кернел 核 🚀",
        '{"ph": "X"}, {"',
        "}, {",
        "'; DROP TABLE gpu; --",
        '=HYPERLINK("http://x")',
        "\\",
        "",
    ]
    trace = TraceBuilder()
    for index, name in enumerate(names):
        trace.kernel(name, index * 100, 10, correlation=index)
    assert read(trace, tmp_path).gpu["name"].to_list() == names


def test_a_trace_of_one_category_has_the_other_tables_empty(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("aten::add", 0, 10)
    loaded = read(trace, tmp_path)
    assert loaded.gpu.is_empty()
    assert list(loaded.gpu.columns) == list(GPU_COLUMNS)
    assert loaded.gpu.schema["name"] == pl.Categorical


def test_many_unknown_categories_are_counted_together(tmp_path: Path) -> None:
    trace = TraceBuilder(flows=False)
    trace.op("aten::add", 0, 10)
    for index in range(200):
        trace.raw({"ph": "X", "cat": f"cat{index}", "name": "x", "ts": 0, "dur": 1})
    skipped = read(trace, tmp_path).info.skipped
    assert len(skipped) == 65
    assert skipped["other"] == 136
    assert sum(skipped.values()) == 200


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_garbage_collection_is_left_as_it_was(tmp_path: Path, enabled: bool, fails: bool) -> None:
    path = tmp_path / "trace.json"
    trace = TraceBuilder()
    trace.op("aten::add", 0, 10)
    path.write_text("{" if fails else trace.text())
    before = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        if fails:
            with pytest.raises(InputError):
                read_trace(path)
        else:
            read_trace(path)
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()


def test_device_names_leave_out_what_is_no_name(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("aten::add", 0, 10)
    trace.fields["deviceProperties"] = [{"name": ""}, {"name": "MI300X"}, {"id": 3}, 7, {"name": 5}]
    assert read(trace, tmp_path).info.device_names == ("MI300X",)


def test_fields_behind_the_events_are_read_too(tmp_path: Path) -> None:
    trace = TraceBuilder(fields_last=True, with_stack=True)
    trace.op("aten::add", 0, 10)
    document = json.loads(trace.text())
    assert next(iter(document)) == "traceEvents"
    info = read(trace, tmp_path).info
    assert info.cupti_version == 130001
    assert info.with_stack is True
    assert info.origin_ns > 1_790_857_026_000_000_000


def test_polars_has_imported_numpy_before_threads_build_tables() -> None:
    # Its placeholder of the module fails if two threads replace it at the same time.
    code = (
        "import importlib, importlib.util\n"
        "names = ('polars._dependencies', 'polars.dependencies')\n"
        "name = next(name for name in names if importlib.util.find_spec(name))\n"
        "dependencies = importlib.import_module(name)\n"
        "import graphviz_dash.ingest.kineto.tables, numpy\n"
        "assert dependencies.numpy is numpy, dependencies.numpy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
