from __future__ import annotations

import functools
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.byte_stream import ByteStream
from graphviz_dash.ingest.kineto import reader, workers
from graphviz_dash.ingest.kineto.reader import read_trace
from graphviz_dash.ingest.processes import PROCESSES_VARIABLE
from tests.builders import TraceBuilder

OLD: list[dict[str, Any]] = [
    # As torch 1.9 wrote them: capitalised categories, integer times, other argument names.
    {
        "ph": "X",
        "cat": "Operator",
        "name": "aten::mm",
        "pid": 100,
        "tid": "101",
        "ts": 1_623_143_089_861_351,
        "dur": 40,
        "args": {
            "Device": 100,
            "External id": 2,
            "Input dims": [[2, 2]],
            "Input type": ["float"],
        },
    },
    {
        "ph": "X",
        "cat": "Runtime",
        "name": "cudaLaunchKernel",
        "pid": 100,
        "tid": "101",
        "ts": 1_623_143_089_861_355,
        "dur": 9,
        "args": {"cbid": 211, "correlation": 335, "external id": 2, "external ts": 5},
    },
    {
        "ph": "X",
        "cat": "Kernel",
        "name": "gemm",
        "pid": 0,
        "tid": 7,
        "ts": 1_623_143_089_861_370,
        "dur": 3,
        "args": {"device": 0, "stream": 7, "correlation": 335, "external id": 2},
    },
    {
        "ph": "X",
        "cat": "Memcpy",
        "name": "Memcpy HtoD",
        "pid": 1,
        "tid": "stream 20",
        "ts": 1_623_143_089_861_380,
        "dur": 1,
    },
    {
        "ph": "X",
        "cat": "Memset",
        "name": "Memset",
        "pid": 1,
        "tid": 21,
        "ts": 1_623_143_089_861_390,
        "dur": 1,
        "args": {},
    },
]


def write(folder: Path, document: Any) -> Path:
    path = folder / "trace.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def test_categories_and_arguments_of_old_torch(tmp_path: Path) -> None:
    loaded = read_trace(write(tmp_path, {"traceEvents": OLD}))
    assert loaded.gpu["kind"].to_list() == ["kernel", "memcpy", "memset"]
    assert loaded.gpu["external_id"].to_list() == [2, None, None]
    assert loaded.gpu["device"].to_list() == [0, 1, 1]
    assert loaded.gpu["stream"].to_list() == [7, None, 21]
    assert loaded.runtime.select("tid", "correlation", "external_id").rows() == [(101, 335, 2)]
    assert loaded.ops.select("tid", "input_dims").rows() == [(101, "[[2, 2]]")]
    assert loaded.info.cupti_version is None
    assert loaded.info.device_names == ()
    assert (loaded.info.with_stack, loaded.info.record_shapes) == (False, False)


def test_a_bare_array_of_events(tmp_path: Path) -> None:
    assert read_trace(write(tmp_path, OLD)).info.events == 5


def test_rocm_writes_text_where_numbers_are_expected(tmp_path: Path) -> None:
    events = [
        {
            "ph": "X",
            "cat": "cuda_runtime",
            "name": "hipMemcpyAsync",
            "pid": 1,
            "tid": 1,
            "ts": 1.5,
            "dur": 2,
            "args": {"cid": 20, "correlation": 5, "bytes": "16", "kind": "H2D", "src": "0x7f"},
        },
        {
            "ph": "X",
            "cat": "gpu_memcpy",
            "name": "CopyHostToDevice",
            "pid": 2,
            "tid": 3,
            "ts": 4.25,
            "dur": 1,
            "args": {"device": 2, "stream": 3, "correlation": "5", "bytes": "16", "kind": "H2D"},
        },
    ]
    loaded = read_trace(write(tmp_path, {"roctracer_version": 4.1, "traceEvents": events}))
    assert loaded.gpu.select("bytes", "correlation", "device").rows() == [(16, 5, 2)]
    assert loaded.info.problems == ()


@pytest.mark.parametrize("indent", [None, 0, 1, 2, 4])
@pytest.mark.parametrize("last", [False, True])
def test_any_layout_reads_the_same(tmp_path: Path, indent: int | None, last: bool) -> None:
    trace = TraceBuilder(indent=indent, fields_last=last, record_shapes=True)
    for index in range(50):
        trace.op(f"op {index}", index * 1_000, 900, dims=[[index, 2], []], types=["float", ""])
    loaded = read_trace(trace.write(tmp_path / "t.json"))
    assert loaded.ops["ts"].to_list() == [index * 1_000 for index in range(50)]
    dims = [json.loads(text) for text in loaded.ops["input_dims"]]
    assert dims == [[[index, 2], []] for index in range(50)]
    assert not any("\n" in text for text in loaded.ops["input_dims"])
    assert loaded.info.cupti_version == 130001


def test_compact_json_without_any_space(tmp_path: Path) -> None:
    compact = json.dumps({"traceEvents": OLD}, separators=(",", ":"))
    assert read_trace(write(tmp_path, compact)).info.events == 5


def test_gzip_is_known_by_content_and_members_may_be_many(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("aten::add", 0, 10)
    data = trace.text().encode()
    path = tmp_path / "trace.json"  # compressed despite its name
    path.write_bytes(gzip.compress(data[:100]) + gzip.compress(data[100:]))
    assert read_trace(path).info.events == 1


def test_a_byte_order_mark_is_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps({"traceEvents": OLD}).encode())
    assert read_trace(path).info.events == 5


@pytest.mark.parametrize("token", ["NaN", "Infinity", "-Infinity"])
def test_not_a_number_in_an_argument_is_passed_over(tmp_path: Path, token: str) -> None:
    text = json.dumps({"traceEvents": OLD}).replace('"external ts": 5', f'"external ts": {token}')
    assert token in text
    assert read_trace(write(tmp_path, text)).info.events == 5


def test_not_a_number_in_a_kept_argument_counts_as_not_recorded(tmp_path: Path) -> None:
    text = json.dumps({"traceEvents": OLD}).replace('"correlation": 335', '"correlation": NaN')
    loaded = read_trace(write(tmp_path, text))
    assert loaded.gpu["correlation"].to_list() == [None, None, None]
    problem = next(p for p in loaded.info.problems if p.code == "argument-unreadable")
    assert "2 arguments (correlation)" in problem.text


def test_an_argument_of_another_type_counts_as_not_recorded(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.kernel("k", 0, 10, correlation=4)
    text = trace.text().replace('"grid": [1, 1, 1]', '"grid": [1, "x", 1]')
    text = text.replace('"registers per thread": 32', '"registers per thread": {"a": 1}')
    text = text.replace('"shared memory": 0', '"shared memory": 48.0')
    loaded = read_trace(write(tmp_path, text))
    row = loaded.gpu.row(0, named=True)
    assert (row["grid_x"], row["registers"], row["shared"]) == (None, None, 48)
    assert [p.code for p in loaded.info.problems] == ["argument-unreadable"]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (b'"a\xff\xfeb"', "a\ufffd\ufffdb"),  # not UTF-8
        (b'"a\nb\tc"', "a\nb\tc"),  # raw control characters
        (b'"half \\ud83d pair"', "half \ufffd pair"),  # half of a surrogate pair
    ],
)
def test_sloppy_strings_are_read_as_text(tmp_path: Path, text: bytes, name: str) -> None:
    path = tmp_path / "trace.json"
    document = b'{"traceEvents": [{"ph": "X", "cat": "kernel", "ts": 1, "dur": 1, "name": %s}]}'
    path.write_bytes(document % text)
    assert read_trace(path).gpu["name"].to_list() == [name]


def test_the_last_of_duplicate_keys_holds(tmp_path: Path) -> None:
    text = (
        '{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "a", "name": "b", "ts": 1, '
        '"dur": 2, "dur": 3}]}'
    )
    loaded = read_trace(write(tmp_path, text))
    assert loaded.gpu.select("name", "dur").rows() == [("b", 3_000)]


def test_processes_named_by_text_get_numbers_and_strange_threads_are_null(tmp_path: Path) -> None:
    text = (
        '{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "pid": "Spans", "tid": "", '
        '"ts": 1, "dur": 2}, {"ph": "X", "cat": "cpu_op", "name": "b", "pid": "12", "tid": [], '
        '"ts": 2, "dur": 2}]}'
    )
    loaded = read_trace(write(tmp_path, text))
    assert loaded.ops["tid"].to_list() == [None, None]
    assert loaded.ops["pid"][0] < -1
    assert loaded.ops["pid"][1] == 12


def slice_of(category: str, name: str, ts: float, **args: Any) -> dict[str, Any]:
    """A slice of 1 µs on GPU 2, queue 1, or on CPU thread 9, as its category needs."""
    on_gpu = category in ("kernel", "gpu_memcpy", "gpu_memset")
    where = {"pid": 2, "tid": 1} if on_gpu else {"pid": 9, "tid": 9}
    return {"ph": "X", "cat": category, "name": name, **where, "ts": ts, "dur": 1.0, "args": args}


def rocm_graph(correlations: list[int]) -> list[dict[str, Any]]:
    """A launch of a HIP graph with three kernels that have these correlation ids. ROCm names no
    grid of a graph's kernels, and tells its device by queue."""
    launch = slice_of("cuda_runtime", "hipGraphLaunch", 1.0, cid=360, correlation=11, bytes="0")
    return [
        launch,
        *(
            slice_of(
                "kernel",
                f"Cijk_{place}",
                4.0 + 2 * place,
                device=2,
                stream=1,
                correlation=correlation,
                kind="Dispatch Kernel",
                grid=[],
            )
            for place, correlation in enumerate(correlations)
        ),
    ]


def test_kernels_of_a_hip_graph_share_the_correlation_of_its_launch(tmp_path: Path) -> None:
    loaded = read_trace(write(tmp_path, {"traceEvents": rocm_graph([11, 11, 11])}))
    assert loaded.runtime["name"].cast(str).to_list() == ["hipGraphLaunch"]
    assert loaded.gpu.join(loaded.runtime, on="correlation").height == 3
    assert loaded.gpu["grid_x"].to_list() == [None] * 3
    codes = {problem.code for problem in loaded.info.problems}
    assert "launch-without-work" not in codes
    assert "several-kernels-per-launch" not in codes


def test_a_hip_graph_without_its_kernels_is_reported(tmp_path: Path) -> None:
    loaded = read_trace(write(tmp_path, {"traceEvents": rocm_graph([12, 13])}))
    problem = next(p for p in loaded.info.problems if p.code == "launch-without-work")
    assert problem.text.startswith("1 of 1 kernel and graph launch")


@pytest.mark.parametrize(
    "category", ["xpu_runtime", "xpu_driver", "privateuse1_runtime", "privateuse1_driver"]
)
def test_calls_of_other_devices_are_runtime_calls(tmp_path: Path, category: str) -> None:
    events = [
        slice_of(category, "urEnqueueKernelLaunch", 1.0, correlation=5),
        slice_of("kernel", "gemm", 3.0, device=0, stream=0, correlation=5),
    ]
    loaded = read_trace(write(tmp_path, {"traceEvents": events}))
    assert loaded.gpu.join(loaded.runtime, on="correlation").height == 1
    assert loaded.info.skipped == {}


def test_a_trace_without_any_event_of_a_gpu(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 100)
    trace.runtime("cudaLaunchKernel", 10, 5)
    trace.runtime("cudaGraphLaunch", 20, 5)
    loaded = read_trace(trace.write(tmp_path / "t.json"))
    assert loaded.gpu.is_empty()
    assert (len(loaded.ops), len(loaded.runtime)) == (1, 2)
    (problem,) = loaded.info.problems
    assert problem.code == "launch-without-work"
    assert problem.text.startswith("2 of 2 kernel and graph launches have no GPU work")


def test_two_sessions_with_the_same_correlation_ids(tmp_path: Path) -> None:
    """Concatenated or restarted profilers start their ids again."""
    events = []
    for session in (0.0, 1_000.0):
        events.append(slice_of("cuda_runtime", "cudaLaunchKernel", session, correlation=7))
        events.append(slice_of("kernel", "gemm", session + 2, device=0, stream=7, correlation=7))
    loaded = read_trace(write(tmp_path, {"traceEvents": events}))
    codes = [problem.code for problem in loaded.info.problems]
    assert "duplicate-correlation" in codes
    assert "several-kernels-per-launch" in codes


@pytest.mark.parametrize("base", [None, 1_700_000_000_000_000_000])
def test_times_with_and_without_a_base(tmp_path: Path, base: int | None) -> None:
    """torch 2.4 and later writes times since a base, earlier ones since 1970."""
    text = json.dumps(
        {"traceEvents": [slice_of("kernel", "a", 1.5), slice_of("kernel", "b", 3.25)]}
        | ({"baseTimeNanoseconds": base} if base else {})
    )
    if base is None:
        text = text.replace('"ts": 1.5', '"ts": 1700000000000001.500')
        text = text.replace('"ts": 3.25', '"ts": 1700000000000003.250')
    loaded = read_trace(write(tmp_path, text))
    assert loaded.gpu["ts"].to_list() == [0, 1_750]
    assert loaded.info.origin_ns == 1_700_000_000_000_001_500


def test_arguments_of_calls_and_operators_that_kernels_have_too(tmp_path: Path) -> None:
    """torch.compile tells a Triton kernel's grid as text, older ROCm a call's stream as address:
    neither is an argument of GPU work that could not be read."""
    events = [
        slice_of("cpu_op", "triton_poi_fused_add_0", 1.0, grid="grid(100,)", stream=0),
        slice_of("cuda_runtime", "hipLaunchKernel", 1.5, stream="0x0", cid=107, correlation=5),
        slice_of("kernel", "triton_poi_fused_add_0", 4.0, stream=3, grid=[1, 1, 1], correlation=5),
    ]
    loaded = read_trace(write(tmp_path, {"traceEvents": events}))
    assert loaded.info.problems == ()
    assert loaded.gpu.select("stream", "grid_x").rows() == [(3, 1)]


@pytest.mark.parametrize("broken", ["", ', "cat": null'])  # decoded the fast and the patient way
def test_text_where_a_kernel_should_have_numbers(tmp_path: Path, broken: str) -> None:
    text = json.dumps(
        {"traceEvents": [slice_of("kernel", "k", 1.0, stream="0x7", grid="grid(1)", bytes="many")]}
    ).replace('{"traceEvents": [', f'{{"traceEvents": [{{"ph": "M", "name": "x"{broken}}}, ')
    row = read_trace(write(tmp_path, text)).gpu.row(0, named=True)
    assert (row["stream"], row["grid_x"], row["bytes"]) == (1, None, None)  # drawn in thread 1


def test_hardware_counters_are_passed_over(tmp_path: Path) -> None:
    """Kineto writes them since 2026-08: a separate track, and values without a name."""
    counter = {
        "ph": "C",
        "cat": "hardware_counters",
        "name": "sm__cycles_active.avg",
        "pid": "GPU 0 Counters",
        "tid": 0,
        "ts": 1.0,
        "args": {"": 0.5},
    }
    events = [counter, slice_of("kernel", "k", 1.0, device=0, stream=7, correlation=1)]
    loaded = read_trace(write(tmp_path, {"displayTimeUnit": "ns", "traceEvents": events}))
    assert loaded.gpu["dur"].to_list() == [1_000]  # still microseconds: the unit is for display
    assert loaded.info.skipped == {"hardware_counters": 1}
    assert loaded.info.problems == ()


def test_calls_of_programs_with_a_default_stream_for_each_thread(tmp_path: Path) -> None:
    events = [
        slice_of("cuda_runtime", "cudaGraphLaunch_ptsz", 1.0, correlation=11),
        slice_of("kernel", "a", 3.0, device=0, stream=7, correlation=11),
        slice_of("kernel", "b", 5.0, device=0, stream=7, correlation=11),
        slice_of("cuda_driver", "cuLaunchKernelEx_ptsz", 7.0, correlation=12),
    ]
    loaded = read_trace(write(tmp_path, {"traceEvents": events}))
    (problem,) = loaded.info.problems
    assert problem.text.startswith("1 of 2 kernel and graph launches have no GPU work")


def timed_slice(category: str, name: str, ts: object, dur: object, **args: Any) -> dict[str, Any]:
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "pid": 1,
        "tid": 1,
        "ts": ts,
        "dur": dur,
        "args": args,
    }


def test_times_as_text_are_exact(tmp_path: Path) -> None:
    events = [
        timed_slice("cpu_op", "a", "1700000000000000.123", "5"),
        timed_slice("kernel", "k", "1700000000000004.500", "2.250", device=0, stream=7),
        timed_slice("kernel", "lost", "soon", "1", device=0, stream=7),
    ]
    loaded = read_trace(write(tmp_path, {"traceEvents": events}))
    assert loaded.ops.select("ts", "dur").rows() == [(0, 5_000)]
    assert loaded.gpu.select("ts", "dur").rows() == [(4_377, 2_250)]
    assert "a ts as text (1)" in loaded.info.problems[-1].text


@pytest.mark.parametrize("duration", [0, 3])
def test_work_without_a_time_is_lost_and_counted(tmp_path: Path, duration: int) -> None:
    trace = TraceBuilder(base_ns=None, offset_ns=1_700_000_000_000_000_000)
    for number in range(4):
        launch = trace.runtime("cudaLaunchKernel", number * 1_000, 500)
        trace.kernel(f"k{number}", number * 1_000 + 600, 300, correlation=launch)
    launch = trace.runtime("cudaLaunchKernel", 9_000, 500)
    trace.raw(timed_slice("kernel", "untimed", 0, duration, device=0, stream=7, correlation=launch))
    loaded = read_trace(trace.write(tmp_path / "trace.json"))
    assert loaded.gpu["name"].cast(str).to_list() == ["k0", "k1", "k2", "k3"]
    assert loaded.info.end_ns == 9_500
    texts = {problem.code: problem.text for problem in loaded.info.problems}
    assert "GPU work without a start time (0) (1)" in texts["event-unusable"]
    assert texts["launch-without-work"].startswith("1 of 5 kernel and graph launches")


def test_work_at_zero_is_work_if_the_trace_starts_there(tmp_path: Path) -> None:
    trace = TraceBuilder(offset_ns=0)
    trace.kernel("first", 0, 300, correlation=None)
    trace.kernel("second", 400, 300, correlation=None)
    assert read_trace(trace.write(tmp_path / "trace.json")).gpu.height == 2


@pytest.mark.parametrize("processes", [1, 3])
def test_begin_and_end_events_are_slices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: int
) -> None:
    monkeypatch.delenv(PROCESSES_VARIABLE)
    monkeypatch.setattr(workers, "MIN_PARALLEL_BYTES", 0)
    monkeypatch.setattr(reader, "ByteStream", functools.partial(ByteStream, chunk_bytes=2_000))
    trace = TraceBuilder()
    for number in range(30):
        launch = trace.runtime("cudaLaunchKernel", number * 10_000, 2_000)
        lane = {"pid": 0, "tid": 7}
        start = (number * 10_000 + 4_377_359_067_820_009) / 1000
        args = {"device": 0, "stream": 7, "correlation": launch}
        names = {"cat": "kernel", "name": f"k{number}"}
        trace.raw({"ph": "B", **names, **lane, "ts": start + 3, "args": args})
        trace.raw({"ph": "B", "cat": "other", "name": "inner", **lane, "ts": start + 3.5})
        trace.raw({"ph": "E", **lane, "ts": start + 4})
        trace.raw({"ph": "E", **lane, "ts": start + 5})
    trace.raw({"ph": "B", "cat": "kernel", "name": "open", "pid": 0, "tid": 7, "ts": start + 9})
    loaded = read_trace(trace.write(tmp_path / "trace.json"), processes=processes)
    assert loaded.gpu["name"].cast(str).to_list() == [f"k{number}" for number in range(30)]
    assert set(loaded.gpu["dur"]) == {2_000}
    assert loaded.gpu["correlation"].to_list() == loaded.runtime["correlation"].to_list()
    (problem,) = loaded.info.problems
    assert "a begin without an end (1)" in problem.text


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ([{"count": 100}, {"name": "conv0", "timeMs": 1.0}], "an array of objects without a phase"),
        ({"traceEvents": [{"a": 1}]}, "traceEvents of objects without a phase"),
        ([{"ph": "M", "name": "x"}], "an array without any slice"),
        ([{"ph": "X", "name": "x", "ts": 1, "dur": 1}], "an array whose slices have no category"),
    ],
)
def test_arrays_of_other_programs_are_named(tmp_path: Path, document: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_trace(write(tmp_path, document))
