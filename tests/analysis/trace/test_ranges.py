from __future__ import annotations

from graphviz_dash.analysis.trace.ranges import CpuRanges, build_cpu_ranges
from graphviz_dash.model.marks import SOURCE, STEP
from tests.analysis.scenes import Scene


def listed(ranges: CpuRanges) -> list[tuple[int, int, str, bool, int]]:
    """Thread, sub-lane, name, whether it is an operator, and begin of each slice."""
    lanes = ranges.find_outermost(0, 10_000, 0)
    return [
        (
            int(lanes.track[lane]),
            int(lanes.sub[lane]),
            ranges.names[ranges.name[row]],
            row >= ranges.annotations,
            int(start),
        )
        for lane in range(len(lanes))
        for row, start in zip(
            lanes.row[lanes.get_span(lane)].tolist(), lanes.start[lanes.get_span(lane)], strict=True
        )
    ]


def test_regions_of_the_compiler_and_their_operators_are_seen_and_no_deeper() -> None:
    scene = Scene()
    scene.mark(f"{STEP}0", 0, 1_000)
    scene.mark("TorchDynamo Cache Lookup", 10, 60)
    scene.mark("Torch-Compiled Region: 0/0", 100, 400)
    scene.mark(f"{SOURCE}train.py:3", 500, 700)
    scene.op("aten::mm", 150, 200)
    scene.op("aten::inner", 160, 180)
    scene.op("aten::add", 520, 600)
    scene.op("aten::backward", 130, 140, tid=20)
    assert listed(build_cpu_ranges(scene.trace())) == [
        (10, 0, "TorchDynamo Cache Lookup", False, 10),
        (10, 0, "Torch-Compiled Region: 0/0", False, 100),
        (10, 0, "aten::add", True, 520),
        (10, 1, "aten::mm", True, 150),
        (20, 0, "aten::backward", True, 130),
    ]


def test_short_or_distant_ranges_are_omitted_with_their_inner_ranges() -> None:
    scene = Scene()
    scene.op("aten::long", 100, 5_000)
    scene.op("aten::inner", 200, 2_000)
    scene.op("aten::short", 6_000, 6_010)
    ranges = build_cpu_ranges(scene.trace())
    lanes = ranges.find_outermost(3_000, 7_000, 100)
    assert lanes.start.tolist() == [100]
    assert len(ranges.find_outermost(6_020, 7_000, 0)) == 0


def test_equal_thread_numbers_of_two_processes_are_two_lanes() -> None:
    scene = Scene()
    scene.op("aten::mm", 100, 900)
    scene.op("aten::stack", 150, 200)
    scene.ops[-1]["pid"] = 2
    assert [(sub, name) for _, sub, name, *_ in listed(build_cpu_ranges(scene.trace()))] == [
        (0, "aten::mm"),
        (0, "aten::stack"),
    ]


def test_a_trace_without_ranges_has_none() -> None:
    assert listed(build_cpu_ranges(Scene().trace())) == []
