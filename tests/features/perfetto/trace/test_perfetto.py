from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.analysis.nodes.node_table import build_table
from graphviz_dash.analysis.trace.steps import find_steps
from graphviz_dash.errors import InputError
from graphviz_dash.exports.files import ExportSummary
from graphviz_dash.features.perfetto.trace import perfetto, scene
from graphviz_dash.features.perfetto.trace.chrome import export_chrome
from graphviz_dash.features.perfetto.trace.perfetto import export_perfetto
from graphviz_dash.features.perfetto.trace.perfetto_check import check_trace
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.model.run import Experiment, Failure, Pass
from tests.builders import STEP, GpuWork, TraceBuilder, fork_join, make_experiment, make_run
from tests.exports.reading import ReadTrace, packets, read_chrome, read_perfetto
from tests.gold import assert_gold
from tests.ranks import make_ranks

Export = Callable[[Experiment, Path], tuple[ExportSummary, ReadTrace]]
GPU = ("kernel", "memcpy", "memset")


def _native(experiment: Experiment, folder: Path) -> tuple[ExportSummary, ReadTrace]:
    summary = export_perfetto(experiment, folder / "t.pftrace")
    return summary, read_perfetto(summary.path)


def _chrome(experiment: Experiment, folder: Path) -> tuple[ExportSummary, ReadTrace]:
    summary = export_chrome(experiment, folder / "t.json")
    return summary, read_chrome(summary.path)


@pytest.fixture(params=[_native, _chrome], ids=["native", "chrome"])
def export(request: pytest.FixtureRequest) -> Export:
    chosen: Export = request.param
    return chosen


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return load_experiment(make_experiment(tmp_path_factory.mktemp("export") / "toy"))


def test_every_row_of_every_table_is_a_slice(
    toy: Experiment, tmp_path: Path, export: Export
) -> None:
    summary, read = export(toy, tmp_path)
    for run in toy.runs:
        trace = run.replay_trace
        assert trace is not None
        origin = find_steps(trace)[0].start
        wanted = Counter(
            (row["name"], row["ts"] - origin, row["dur"])
            for table in (trace.gpu, trace.runtime, trace.ops, trace.annotations)
            for row in table.iter_rows(named=True)
        )
        first = read.of(run.name, "step")[0].start
        found = Counter(
            (one.name, one.start - first, one.end - one.start)
            for one in read.slices
            if one.process == run.name
        )
        assert found == wanted
    assert summary.slices == len(read.slices)
    assert summary.counters == sum(len(values) for values in read.counters.values())
    assert summary.bytes == summary.path.stat().st_size


def test_the_baseline_comes_first_and_first_steps_start_together(
    toy: Experiment, tmp_path: Path, export: Export
) -> None:
    _, read = export(toy, tmp_path)
    assert read.processes == ["eager", "graph"]
    starts = {read.of(run, "step")[0].start for run in read.processes}
    assert len(starts) == 1
    assert f"starts at {starts.pop()} ns" in " ".join(read.facts.values())


def test_steps_keep_the_time_of_their_own_trace(
    toy: Experiment, tmp_path: Path, export: Export
) -> None:
    _, read = export(toy, tmp_path)
    for run in toy.runs:
        trace = run.replay_trace
        assert trace is not None
        wanted = [step.start + trace.info.origin_ns for step in find_steps(trace)]
        assert [int(one.args["source_ts_ns"]) for one in read.of(run.name, "step")] == wanted


def test_a_graphed_kernel_tells_its_node_and_where_it_comes_from(
    toy: Experiment, tmp_path: Path, export: Export
) -> None:
    _, read = export(toy, tmp_path)
    slices = read.of("graph", *GPU)
    assert len(slices) == 3 * len(STEP)
    rows = build_table(toy.runs[1], "graph-0").rows
    for place, one in enumerate(slices):
        work = STEP[place % len(STEP)]
        assert one.name == work.name
        assert one.end - one.start == work.duration
        assert one.args["graph"] == "graph-0"
        assert one.args["node"] == place % len(STEP)
        assert one.args["matched_by"] == "alignment: order"
        assert one.args["match_confidence"] == 1.0
        assert one.args["op"] == work.op
        assert one.args.get("source") == work.source
        assert one.args.get("module") == work.module
        origin = rows[place % len(STEP)].origin
        assert one.args["phase"] == origin.phase
        assert one.args["attributed_by"] == origin.method
        assert one.args["attribution_confidence"] == origin.confidence > 0
        if one.category == "kernel":
            assert one.args["grid"] == str(work.grid)
            assert one.args["block"] == str(work.block)
            assert one.args["shared_bytes"] == work.static_shared + work.dynamic_shared
            assert one.args["registers"] == work.registers
            assert "bytes" not in one.args
        else:
            assert one.args["bytes"] == work.bytes
            assert not {"grid", "block", "shared_bytes", "registers"} & set(one.args)


def test_an_eager_kernel_tells_its_operator(
    toy: Experiment, tmp_path: Path, export: Export
) -> None:
    _, read = export(toy, tmp_path)
    for place, one in enumerate(read.of("eager", *GPU)):
        work = STEP[place % len(STEP)]
        assert one.args["op"] == work.op
        assert one.args["attributed_by"] == "external id"
        assert json.loads(one.args["input_dims"]) == [list(dims) for dims in work.dims]
        assert not {"node", "graph", "matched_by"} & set(one.args)


def test_arrows_lead_from_each_launch_to_all_it_launched(
    toy: Experiment, tmp_path: Path, export: Export
) -> None:
    summary, read = export(toy, tmp_path)
    launches = [s for s in read.of("graph", "runtime") if s.name == "cudaGraphLaunch"]
    assert len(launches) == 3
    for launch, step in zip(launches, read.of("graph", "step"), strict=True):
        reached = read.linked(launch)
        assert [s.name for s in sorted(reached, key=lambda s: s.start)] == [w.name for w in STEP]
        assert all(step.start <= s.start <= s.end <= step.end for s in reached)
    for one in read.of("eager", *GPU):
        (launch,) = read.linked(one)
        assert launch.category == "runtime"
        assert launch.args["correlation"] == one.args["correlation"]
    assert summary.flows == 2 * 3 * len(STEP)


def test_the_busy_counter_adds_up_to_the_busy_time(
    toy: Experiment, tmp_path: Path, export: Export
) -> None:
    _, read = export(toy, tmp_path)
    told = next(text for name, text in read.facts.items() if name.endswith("gpu_busy"))
    bin_ns = int(re.findall(r"bin of (\d+) ns", told)[0])
    for run in toy.runs:
        trace = run.replay_trace
        assert trace is not None
        values = read.counters[run.name]
        assert all(0 <= value <= 100 + 1e-9 for _, value in values)
        assert values[-1][1] == 0
        shown = sum(value / 100 * (after - ts) for (ts, value), (after, _) in pairwise(values))
        assert shown == pytest.approx(sum(step.busy_ns for step in find_steps(trace)), rel=1e-9)
        first = read.of(run.name, "step")[0].start
        assert all((ts - first) % bin_ns == 0 for ts, _ in values)


def test_calls_lie_inside_operators_on_their_thread(
    toy: Experiment, tmp_path: Path, export: Export
) -> None:
    _, read = export(toy, tmp_path)
    assert {s.track for s in read.of("eager", "op")} == {"CPU thread 700", "CPU thread 722"}
    ops = read.of("eager", "op")
    for call in read.of("eager", "runtime"):
        if call.name != "cudaDeviceSynchronize":
            assert any(
                op.track == call.track and op.start <= call.start and call.end <= op.end
                for op in ops
            )


def test_streams_of_a_fork_are_tracks_of_their_own(tmp_path: Path, export: Export) -> None:
    made = make_experiment(tmp_path / "fork", ["graph"], work=fork_join(3, 4))
    _, read = export(load_experiment(made), tmp_path)
    kernels = read.of("graph", "kernel")
    assert {s.track.split("stream ")[1] for s in kernels} == {"7", "141", "142"}
    assert Counter(s.args["node"] for s in kernels) == dict.fromkeys(range(14), 3)


def _with_trace(folder: Path, trace: TraceBuilder) -> Experiment:
    from msgspec.structs import replace

    from graphviz_dash.ingest.kineto.reader import read_trace

    loaded = load_experiment(make_experiment(folder / "made", ["eager"]))
    read = read_trace(trace.write(folder / "trace.json.gz"))
    return replace(loaded, runs=(replace(loaded.runs[0], replay_trace=read),))


def test_slices_that_overlap_are_on_lanes_of_their_own(tmp_path: Path, export: Export) -> None:
    trace = TraceBuilder()
    work = [GpuWork(f"k{i}", 10_000 + 1_000 * i, 1_500) for i in range(4)]
    trace.graph_launch(0, 5_000, work)
    trace.op("aten::a", 20_000, 1_000)
    trace.op("aten::b", 20_500, 1_000)
    summary, read = export(_with_trace(tmp_path, trace), tmp_path)
    assert summary.overflowed == 3
    assert {s.name: (s.end - s.start) for s in read.of("eager", "kernel")} == {
        f"k{i}": 1_500 for i in range(4)
    }
    tracks = [s.track for s in read.of("eager", "op")]
    assert tracks[0] == "CPU thread 700"
    assert "overlapping" in tracks[1]


def test_hostile_names_are_text(tmp_path: Path, export: Export) -> None:
    names = [
        "<img src=x onerror=alert(1)>",
        "\x1b[2Jgone\x07",
        "a\u202eb",
        '"},{"ph":"X',
        "",
        "ü 核 🙂",
        "x" * 5_000,
    ]
    trace = TraceBuilder()
    for place, name in enumerate(names):
        call = trace.runtime("cudaLaunchKernel", place * 10_000, 3_000)
        trace.kernel(name, place * 10_000 + 5_000, 900, correlation=call)
        trace.annotation(name, place * 10_000, 9_000)
    _, read = export(_with_trace(tmp_path, trace), tmp_path)
    assert [s.name for s in read.of("eager", "kernel")] == [
        "<img src=x onerror=alert(1)>",
        r"\x1b[2Jgone\x07",
        r"a\u202eb",
        '"},{"ph":"X',
        "(no name)",
        "ü 核 🙂",
        "x" * 5_000,
    ]


def test_absurd_threads_and_empty_traces(tmp_path: Path, export: Export) -> None:
    trace = TraceBuilder()
    for tid in (-5, 0, 1 << 40):
        trace.op("aten::a", 1_000, 500, tid=tid)
    _, read = export(_with_trace(tmp_path, trace), tmp_path)
    assert len({s.track for s in read.of("eager", "op")}) == 3


def test_a_run_without_a_trace_is_left_out_and_named(tmp_path: Path, export: Export) -> None:
    make_run(tmp_path / "mixed", "eager")
    failure = Failure(Pass.CAPTURE, "CudaError", "not permitted\nwhen capturing", None, "")
    make_run(tmp_path / "mixed", "graph", failure=failure)
    summary, read = export(load_experiment(tmp_path / "mixed"), tmp_path)
    assert summary.skipped == (("graph", "the capture pass failed"),)
    assert read.processes == ["eager"]
    assert "the capture pass failed" in read.facts.values()


def test_nothing_to_export_is_one_line_and_leaves_no_file(tmp_path: Path, export: Export) -> None:
    failure = Failure(Pass.CAPTURE, "CudaError", "not permitted", None, "")
    make_run(tmp_path / "bad", "graph", failure=failure)
    folder = tmp_path / "out"
    folder.mkdir()
    with pytest.raises(InputError, match="the capture pass failed"):
        export(load_experiment(tmp_path / "bad"), folder)
    assert list(folder.iterdir()) == []


def test_both_formats_hold_the_same(toy: Experiment, tmp_path: Path) -> None:
    native, chrome = _native(toy, tmp_path)[1], _chrome(toy, tmp_path)[1]

    def content(read: ReadTrace) -> list[object]:
        return sorted(
            (
                s.process,
                s.start,
                -s.end,
                s.name,
                s.category,
                s.flows,
                sorted(s.args.items(), key=str),
            )
            for s in read.slices
            if s.category != "step"  # whose argument is text in JSON, too large for its numbers
        )

    assert content(native) == content(chrome)
    assert native.counters == chrome.counters


class TestNative:
    def test_it_holds_together(self, toy: Experiment, tmp_path: Path) -> None:
        summary = export_perfetto(toy, tmp_path / "t.pftrace.gz")
        found = check_trace(summary.path)
        assert found.problems == []
        assert (found.slices, found.flows, found.counters, found.tracks) == (
            summary.slices,
            summary.flows,
            summary.counters,
            summary.tracks,
        )

    def test_its_text_is_the_gold_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(scene, "__version__", "0")
        made = make_experiment(tmp_path / "toy", work=STEP[:3], traced=1)
        summary = export_perfetto(load_experiment(made), tmp_path / "t.pftrace")
        text = "".join(
            f"packet {{\n{text_format.MessageToString(packet, indent=2)}}}\n"
            for packet in packets(summary.path)
        )
        assert_gold(text, Path(__file__).parents[1] / "gold" / "toy.pftrace.txt")

    def test_the_same_experiment_gives_the_same_bytes(
        self, toy: Experiment, tmp_path: Path
    ) -> None:
        first = export_perfetto(toy, tmp_path / "a.pftrace.gz").path.read_bytes()
        assert export_perfetto(toy, tmp_path / "b.pftrace.gz").path.read_bytes() == first

    def test_chunks_make_no_difference(
        self, toy: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        whole = export_perfetto(toy, tmp_path / "a.pftrace").path.read_bytes()
        monkeypatch.setattr("graphviz_dash.features.perfetto.trace.perfetto._CHUNK_EVENTS", 7)
        assert export_perfetto(toy, tmp_path / "b.pftrace").path.read_bytes() == whole

    def test_slices_of_one_instant_are_written_together(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A lane each, and no call for each: a million of them must end."""
        trace = TraceBuilder()
        for number in range(3_000):
            trace.kernel(f"k{number % 7}", 1_000, 500 + number % 3, correlation=None)
        encoded: list[int] = []
        encode = perfetto._encode_packets

        def counting(ts: Ints, *columns: Any) -> Any:
            encoded.append(len(ts))
            return encode(ts, *columns)

        monkeypatch.setattr(perfetto, "_encode_packets", counting)
        summary, read = _native(_with_trace(tmp_path, trace), tmp_path)
        assert (summary.slices, summary.overflowed) == (3_000, 2_999)
        assert check_trace(summary.path).problems == []
        assert len(read.of("eager", "kernel")) == 3_000
        assert sum(encoded) == 6_000 + summary.counters
        assert len(encoded) < 10

    def test_lanes_of_one_stream_are_merged_into_one_track(self, tmp_path: Path) -> None:
        trace = TraceBuilder()
        trace.graph_launch(0, 5_000, [GpuWork(f"k{i}", 10_000 + i, 1_500) for i in range(3)])
        summary = export_perfetto(_with_trace(tmp_path, trace), tmp_path / "t.pftrace")
        keys = [
            packet.track_descriptor.sibling_merge_key
            for packet in packets(summary.path)
            if packet.track_descriptor.name == "stream 7"
        ]
        assert keys == ["stream 7"] * 3


def test_ranks_of_a_mode_keep_their_distances(tmp_path: Path, export: Export) -> None:
    for mode in ("eager", "graph"):
        make_ranks(tmp_path / "tp", mode)
    _, read = export(load_experiment(tmp_path / "tp"), tmp_path)
    assert any("Ranks of one mode share the clock" in text for text in read.facts.values())
    names = [f"{mode}-rank{rank}" for mode in ("eager", "graph") for rank in range(2)]
    assert [name for name in read.processes if name in names] == names
    for mode in ("eager", "graph"):
        ends = []
        for rank in range(2):
            kernels = read.of(f"{mode}-rank{rank}", "kernel")
            ends.append([one.end for one in kernels if "AllReduce" in one.name])
        # The second rank's own clock was 150 µs ahead; here all-reduces end together.
        assert ends[0] == ends[1]
    assert read.of("graph-rank0", "step")[0].start == read.of("eager-rank0", "step")[0].start
