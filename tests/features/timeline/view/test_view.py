from __future__ import annotations

import base64
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import numpy as np
import pytest

from graphviz_dash.analysis.replays.replays import ReplayMatch
from graphviz_dash.analysis.step_comparison.step_parts import StepPart
from graphviz_dash.analysis.trace.kernel_categories import Category
from graphviz_dash.errors import InputError
from graphviz_dash.features.timeline.view.lanes import compute_bin_edges
from graphviz_dash.features.timeline.view.model import Lane, StepMark, TimelineView
from graphviz_dash.features.timeline.view.run import (
    ANNOTATION,
    CATEGORIES,
    FIRST_PART,
    OPERATOR,
    ChosenRun,
    add_nodes,
    build_run_timeline,
    choose_step,
)
from graphviz_dash.features.timeline.view.slice_card import (
    build_slice_card,
    find_node_slice,
    parse_slice_token,
)
from graphviz_dash.features.timeline.view.view import MAX_LANES, MAX_VIEW_BYTES, build_timeline_view
from graphviz_dash.features.torch_compile.timeline_lanes import STEP_PARTS, CompiledStep
from graphviz_dash.model.run import ExecutionMode, Run
from graphviz_dash.model.trace import Trace
from tests.analysis.frames import Frames
from tests.analysis.scenes import Scene
from tests.analysis.scenes import kernel as node
from tests.charts.frames import call, kernel, step, trace


def _run(replay: Trace | None, name: str = "eager") -> Run:
    manifest = SimpleNamespace(mode=ExecutionMode(name), absent=(), failures=())
    return Run(path=Path("x") / name, manifest=cast(Any, manifest), replay_trace=replay)


def _chosen(replay: Trace | None, name: str = "eager", number: int | None = None) -> ChosenRun:
    return choose_step(build_run_timeline(_run(replay, name)), number)


def _dense(count: int, streams: int = 3) -> Trace:
    """Build kernels of 600 ns every 1,000 ns, each with a separate launch call."""
    rows = [kernel(i * 1000, 600, 7 + i % streams, correlation=i + 1) for i in range(count)]
    calls = [call(max(0, i * 1000 - 500), 200, correlation=i + 1) for i in range(count)]
    return trace(rows, calls, [step(0, 0, count * 1000)])


def _decoded(view: TimelineView, lane: Lane) -> list[tuple[int, int, int]]:
    assert lane.gap is not None
    assert lane.dur is not None
    assert lane.row is not None
    found, at, row = [], view.loaded[0], 0
    for gap, dur, delta in zip(lane.gap, lane.dur, lane.row, strict=True):
        start = at + gap
        at, row = start + dur, row + delta
        found.append((start, at, row))
    return found


def test_slices_are_sent_exactly_since_the_step() -> None:
    made = trace(
        [kernel(1500, 200, correlation=5), kernel(1800, 50), kernel(9000, 10)],
        [call(1200, 40, correlation=5)],
        [step(3, 1000, 2000)],
    )
    view = build_timeline_view([_chosen(made)], (0, 2000), 1000)
    cpu, gpu = view.runs[0].lanes
    assert view.level == "slices"
    assert _decoded(view, gpu) == [(500, 700, 0), (800, 850, 1)]
    assert _decoded(view, cpu) == [(200, 240, 0)]
    assert gpu.launch == [0, -1]  # row 0, then none
    assert view.runs[0].step == StepMark(3, 0, 2000)


def test_busy_bytes_are_the_exact_share_of_each_bin() -> None:
    chosen = _chosen(_dense(20_000, streams=1))
    view = build_timeline_view([chosen], None, 800)
    assert view.level == "busy"
    lane = view.runs[0].lanes[-1]
    assert lane.busy is not None
    sent = np.frombuffer(base64.b64decode(lane.busy), dtype=np.uint8)
    edges = compute_bin_edges(view.loaded, view.bins)
    lanes = chosen.timeline.lanes.gpu
    busy = lanes.compute_busy_between(0, edges + chosen.origin)
    assert len(sent) == view.bins == 1200
    assert busy.sum() == 20_000 * 600
    assert np.abs(sent / 255 - busy / np.diff(edges)).max() <= 0.5 / 255 + 1e-9


def test_a_bin_is_empty_only_if_idle_and_full_only_if_busy_throughout() -> None:
    rows = [kernel(i * 1_000_000, 1) for i in range(5000)]
    rows += [kernel(i * 1_000_000, 999_999, 8) for i in range(5000)]
    view = build_timeline_view([_chosen(trace(rows))], None, 500)
    sparse, dense = (
        np.frombuffer(base64.b64decode(lane.busy or ""), dtype=np.uint8)
        for lane in view.runs[0].lanes
    )
    within = (compute_bin_edges(view.loaded, view.bins)[:-1] > 0) & (
        compute_bin_edges(view.loaded, view.bins)[1:] < 4_999_000_000
    )
    assert set(sparse[within]) == {1}
    assert set(dense[within]) == {254}


def test_a_bin_has_the_colour_of_its_longest_kernels() -> None:
    # Three of four kernels are short; in the first half the fourth is longer than them together.
    rows = [
        kernel(i * 1000, 600, name="sm90_xmma_gemm_bf16")
        if i < 10_000 and i % 4 == 0
        else kernel(i * 1000, 100, name="reduce_kernel")
        for i in range(20_000)
    ]
    view = build_timeline_view([_chosen(trace(rows))], None, 800)
    assert view.level == "busy"
    sent = np.frombuffer(base64.b64decode(view.runs[0].lanes[-1].category or ""), dtype=np.uint8)
    starts = compute_bin_edges(view.loaded, view.bins)[:-1]
    halves = [sent[starts < 9_900_000], sent[starts > 10_100_000]]
    colours = [{CATEGORIES[code] for code in half} for half in halves]
    assert colours == [{Category.GEMM}, {Category.REDUCTION}]


@cache
def _dense_runs(streams: int) -> list[ChosenRun]:
    made = _dense(30_000, streams)
    return [_chosen(made), _chosen(made, "graph")]


@pytest.mark.parametrize("streams", [1, 3, 60])
@pytest.mark.parametrize("pixels", [1, 300, 1200, 4096, 1 << 19])
def test_no_view_is_larger_than_its_limit(streams: int, pixels: int) -> None:
    runs = _dense_runs(streams)
    for span in (1_000, 30_000, 400_000, 3_000_000, 40_000_000):
        view = build_timeline_view(runs, (7_000_000, 7_000_000 + span), pixels)
        assert len(msgspec.json.encode(view)) <= MAX_VIEW_BYTES
        assert len(view.runs[0].lanes) == min(streams, MAX_LANES) + 1
        assert view.runs[0].hidden_lanes == max(0, streams - MAX_LANES)


def test_eight_runs_of_many_devices_and_steps_stay_within_the_limit() -> None:
    rows = [kernel(i * 9_000, 4_000, 7 + i % 50, i % 8) for i in range(6000)]
    calls = [call(i * 9_000, 3_000, tid=i % 40) for i in range(6000)]
    made = trace(rows, calls, [step(i, i * 54_000, 50_000) for i in range(1000)])
    runs = [_chosen(made) for _ in range(8)]
    for span in (100_000, 3_000_000, 54_000_000):
        view = build_timeline_view(runs, (0, span), 1200)
        assert len(msgspec.json.encode(view)) <= MAX_VIEW_BYTES
        assert all(run.hidden_lanes > 0 and run.lanes for run in view.runs)


def test_a_trace_of_hostile_names_stays_within_the_limit() -> None:
    rows = [kernel(i * 1000, 900, name=chr(0x1F600 + i) * 1_000) for i in range(900)]
    view = build_timeline_view([_chosen(trace(rows))], (0, 900_000), 3000)
    assert len(msgspec.json.encode(view)) <= MAX_VIEW_BYTES


def test_the_level_is_one_for_all_lanes() -> None:
    rows = [kernel(i * 100, 60, 7) for i in range(3000)] + [kernel(0, 300_000, 8)]
    view = build_timeline_view([_chosen(trace(rows))], None, 1000)
    assert view.level == "busy"
    assert all(lane.busy is not None and lane.gap is None for lane in view.runs[0].lanes)


def test_zooming_in_shows_slices() -> None:
    chosen = _chosen(_dense(100_000))
    assert build_timeline_view([chosen], None, 1000).level == "busy"
    near = build_timeline_view([chosen], (50_000_000, 50_020_000), 1000)
    assert near.level == "slices"
    assert sum(len(lane.dur or []) for lane in near.runs[0].lanes if lane.kind == "gpu") == 31


def test_windows_are_kept_within_reason() -> None:
    chosen = _chosen(_dense(100))
    far = build_timeline_view([chosen], (1 << 52, (1 << 52) + 10), 100)
    assert far.window[1] - far.window[0] == 200
    assert far.window[1] <= far.limits[1] + (far.limits[1] - far.limits[0])
    wide = build_timeline_view([chosen], (-(1 << 53), 1 << 53), 100)
    assert wide.window[1] - wide.window[0] == 2 * (wide.limits[1] - wide.limits[0])


def test_each_run_starts_at_its_own_step() -> None:
    late = trace([kernel(5_000_100, 50)], [], [step(0, 5_000_000, 400)])
    early = trace([kernel(100, 50)], [], [step(0, 0, 800)])
    view = build_timeline_view([_chosen(early), _chosen(late, "graph")], None, 800)
    starts = [_decoded(view, run.lanes[0])[0][0] for run in view.runs]
    assert starts == [100, 100]
    assert view.runs[0].delta == ""
    assert view.runs[1].delta == "400 ns shorter as traced (2.00x)"
    assert view.fit[1] > 800


def test_a_step_lasts_as_long_as_everywhere_where_the_cpu_runs_ahead() -> None:
    frames = Frames()
    for at in range(3):
        frames.range(f"ProfilerStep#{at}", 10 * at, 10 * at + 10)
        frames.kernel(f"k{at}", launched=10 * at + 1, ts=5 + 100 * at, dur=90)
    (run,) = build_timeline_view([_chosen(frames.trace(), number=1)], None, 800).runs
    assert (run.length, run.step) == ("100 ns", StepMark(1, 0, 100))


def test_the_typical_step_is_the_one_of_median_length() -> None:
    made = trace([kernel(0, 1)], [], [step(0, 0, 90), step(1, 100, 10), step(2, 200, 20)])
    timeline = build_run_timeline(_run(made))
    assert [choose_step(timeline, number).step for number in (None, 1, 77)] == [
        timeline.steps[2],
        timeline.steps[1],
        timeline.steps[2],
    ]


def test_long_idle_time_of_the_device_is_told_and_short_is_not() -> None:
    made = trace([kernel(0, 10_000), kernel(10_500, 9_500, 8), kernel(90_000, 10_000)])
    view = build_timeline_view([_chosen(made)], (0, 100_000), 1000)
    assert view.runs[0].idle == {0: [20_000, 90_000]}
    assert "busy 29.5 µs (29.5%)" in view.runs[0].summary


def test_gaps_too_short_to_be_told_one_by_one_are_told_as_shares() -> None:
    """Two streams in turn: each is idle most of the time, the device for two fifths of it."""
    chosen = _chosen(_dense(20_000, streams=2))
    view = build_timeline_view([chosen], None, 800)
    assert view.level == "busy"
    shares = np.frombuffer(base64.b64decode(view.runs[0].device_busy[0]), dtype=np.uint8) / 255
    edges = compute_bin_edges(view.loaded, view.bins)
    inside = (edges[:-1] >= 0) & (edges[1:] <= 20_000_000)
    assert shares[inside].mean() == pytest.approx(0.6, abs=0.01)
    near = build_timeline_view([chosen], (0, 20_000), 800)
    assert near.level == "slices"
    assert near.runs[0].device_busy == {}


def test_idle_has_its_cause_above_it_at_either_level() -> None:
    """CPU activity during GPU idle time is named and placed for each kind of slices."""
    scene = Scene()
    scene.mark("graphviz_dash.step#0", 0, 20_000_000)
    scene.mark("Torch-Compiled Region: 0/0", 2_000_000, 9_000_000)
    scene.op("aten::mm", 12_000_000, 15_000_000)
    scene.op("aten::tiny", 16_000_000, 16_000_100)
    for at in range(20_000):
        scene.work(node(0), at * 1_000, scene.launch(at * 1_000), dur=600)
    chosen = _chosen(scene.trace())
    for window, level in ((None, "busy"), ((2_000_000, 2_020_000), "slices")):
        view = build_timeline_view([chosen], window, 800)
        assert view.level == level
        lane = view.runs[0].lanes[0]
        assert lane.kind == "range"
        assert lane.name is not None
        words = [view.names[name] for name in lane.name]
        assert ("Torch-Compiled Region: 0/0", ANNOTATION) in words
        assert (("aten::mm", OPERATOR) in words) == (level == "busy")
        assert "aten::tiny" not in {text for text, _ in words}
        assert _decoded(view, lane)[0][:2] == (2_000_000, 9_000_000)


@pytest.mark.parametrize("number", [300, 30_000])
def test_the_stretches_of_a_compiled_step_lie_above_its_lanes(number: int) -> None:
    parts = STEP_PARTS.index(StepPart.REPLAY), STEP_PARTS.index(StepPart.EAGER)
    texts = (("graph replay, 0/0", parts[0]), ("eager work: model.py:8", parts[1]))
    edges = np.array([0, 100_000, 100_001, 300_000])
    divided = CompiledStep(edges[:-1], edges[1:], np.array([0, 1, 0]), texts)
    chosen = _chosen(_dense(number))
    view = build_timeline_view(
        [chosen], (0, 300_000), 1000, compiled={chosen.timeline.run: divided}
    )
    lane = view.runs[0].lanes[0]
    assert (lane.kind, lane.label) == ("range", "compiled step")
    # One nanosecond is no pixel.
    assert _decoded(view, lane) == [(0, 100_000, 0), (100_001, 300_000, 2)]
    assert [view.names[name] for name in lane.name or ()] == [
        ("graph replay, 0/0", FIRST_PART + parts[0])
    ] * 2


def test_a_run_without_a_trace_says_why() -> None:
    view = build_timeline_view([_chosen(None), _chosen(_dense(4), "graph")], None, 500)
    assert view.runs[0].problem == "the bundle has no traced pass"
    assert view.runs[0].lanes == []
    assert view.runs[1].problem is None
    assert view.runs[1].delta == ""


def test_a_trace_with_nothing_to_show_says_so() -> None:
    view = build_timeline_view([_chosen(trace())], None, 500)
    assert view.runs[0].problem == "the trace has no GPU work and no launches"


def test_a_kernels_card() -> None:
    made = trace(
        [
            kernel(1000, 100, correlation=4),
            kernel(
                1350,
                2000,
                name="void f<int>(int)\x1b[31m",
                correlation=5,
                external_id=9,
                grid_x=4,
                grid_y=2,
                grid_z=1,
                block_x=256,
                block_y=1,
                block_z=1,
                shared=2048,
                registers=40,
            ),
        ],
        [call(900, 20, correlation=4), call(1100, 30, correlation=5)],
        [step(0, 500, 5000)],
        [{"ts": 1090, "dur": 60, "name": "aten::mm", "external_id": 9, "input_dims": "[[2,2]]"}],
    )
    chosen = _chosen(made)
    card = build_slice_card(chosen, made, parse_slice_token(chosen.timeline, "g1"))
    fields = dict(card.fields)
    assert (card.begin, card.dur, card.measured) == (850, 2000, "traced")
    assert card.name == "void f<int>(int)\\x1b[31m"
    assert fields["Gap before"] == "250 ns"
    assert fields["Grid"] == "4 x 2 x 1"
    assert fields["Block"] == "256 x 1 x 1"
    assert fields["Shared memory"] == "2.00 KiB"
    assert fields["Registers per thread"] == "40"
    assert fields["Launched by"] == "cudaLaunchKernel"
    assert fields["Launch delay"] == "250 ns from the call to its start"
    assert fields["Op"] == "aten::mm"
    assert fields["Input shapes"] == "[[2,2]]"
    assert card.link is not None
    assert (card.link.token, card.link.begin, card.link.end) == ("c1", 600, 630)


def test_a_copys_card_has_its_rate() -> None:
    made = trace([kernel(0, 1000, kind="memcpy", name="Memcpy DtoH", bytes=4096)])
    chosen = _chosen(made)
    fields = dict(build_slice_card(chosen, made, parse_slice_token(chosen.timeline, "g0")).fields)
    assert fields["Bytes"] == "4.00 KiB, 4.1 GB/s"
    assert fields["Launched by"] == "not in the trace"
    assert "Grid" not in fields


def test_a_graph_launchs_card_tells_its_kernels() -> None:
    made = trace(
        [kernel(100, 10, correlation=1), kernel(200, 50, correlation=1)],
        [call(20, 30, "cudaGraphLaunch", correlation=1)],
    )
    chosen = _chosen(made, "graph")
    card = build_slice_card(chosen, made, parse_slice_token(chosen.timeline, "c0"))
    fields = dict(card.fields)
    assert fields["Launched"] == "2 GPU slices"
    assert fields["First starts"] == "80 ns after the call began"
    assert fields["Total duration"] == "150 ns from first to last"
    assert card.link is not None
    assert card.link.token == "g0"


def test_slices_of_a_replay_know_their_node() -> None:
    made = trace(
        [kernel(i * 100, 50, correlation=1 + i // 2) for i in range(4)],
        [],
        [step(0, 0, 190), step(1, 195, 300)],
    )
    none = np.zeros(4, dtype=np.int64)
    replays = ReplayMatch(
        graphs=("graph-0",),
        roots=("graph-0",),
        replay=np.array([0, 0, 1, 1]),
        graph=none,
        gpu_row=np.arange(4),
        node=np.array([4, -1, 4, 6]),
        method=np.array([2, 0, 2, 3]),
        confidence=np.array([1.0, 0.0, 1.0, 0.5]),
        start=none,
        duration=none,
        stream=none,
    )
    timeline = add_nodes(build_run_timeline(_run(made, "graph")), replays)
    chosen = choose_step(timeline, 1)
    view = build_timeline_view([chosen], (-300, 500), 1000)
    assert view.runs[0].lanes[0].node == [4, -5, 5, 2]  # 4, none (-1), 4, 6
    second = find_node_slice(chosen, "graph-0#4")
    assert second is not None
    assert second.token == "g2"
    card = build_slice_card(chosen, made, second)
    assert (card.graph, card.node) == ("graph-0", 4)
    assert dict(card.fields)["Graph node"] == "#4 of graph-0"
    assert dict(card.fields)["Node matched by"] == "alignment: order, 100% confidence"
    unknown = build_slice_card(chosen, made, parse_slice_token(timeline, "g1"))
    assert (unknown.graph, unknown.node) == (None, None)
    assert find_node_slice(chosen, "graph-0#5") is None
    assert find_node_slice(chosen, "graph-1#4") is None


@pytest.mark.parametrize(
    "text", ["", "g", "x1", "g-1", "g1.0", "g99", "c0", "g" + "9" * 40, "g\u0661"]
)
def test_an_invalid_slice_token_is_refused(text: str) -> None:
    timeline = build_run_timeline(_run(trace([kernel(0, 1)])))
    with pytest.raises(InputError):
        parse_slice_token(timeline, text)
