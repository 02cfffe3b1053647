"""The monitor names nodes by the marks alone: the GPU's part is written by the test."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from msgspec.structs import astuple, replace

from collectors.replays.marks_file import MarksFile, MarksFullError
from collectors.replays.monitor import (
    ReplayMonitor,
    find_frontier,
    find_missing_collectives,
    format_hang,
)
from collectors.replays.notes import GraphNote, NodeNote, NoteFolder, ProcessNote
from graphviz_dash.analysis.replay_check import diagnose_replays
from graphviz_dash.model.doctor import CodeLocation
from graphviz_dash.model.replay_check import InvalidArgument, MemoryFate, ReplayStop
from graphviz_dash.narrative.replay_check import format_replay_verdict
from tests.builders import captured_graph, chain

PLACE = CodeLocation("train.py", 12, "step", 11, ("a = 1", "b = a @ a"))
NAMES = ("gemm", "ncclDevKernel_AllReduce", "tanh", "ncclDevKernel_AllReduce", "tail")


class Program:
    """A marked process that replays on no GPU."""

    def __init__(self, scratch: Path, name: str = "1-1", rank: int | None = None) -> None:
        self.folder = NoteFolder(scratch / "replays" / name)
        self.marks = MarksFile(scratch / f"marks-{name}", create=True)
        self.rank = rank
        self.end(None, is_complete=False)

    def end(self, error: str | None, *, is_complete: bool = True) -> None:
        path = str(self.marks.path)
        self.folder.write_process(ProcessNote(7, self.rank, path, error, is_complete))

    def capture(
        self,
        edges: tuple[tuple[int, int], ...] | None = None,
        invalid_arguments: dict[int, tuple[tuple[int, int], ...]] | None = None,
    ) -> int:
        number = self.marks.add_graph(len(NAMES))
        nodes = tuple(
            NodeNote(
                "kernel", name, "aten::mm", 0, "net.1", (invalid_arguments or {}).get(index, ())
            )
            for index, name in enumerate(NAMES)
        )
        chain = tuple((node, node + 1) for node in range(len(NAMES) - 1))
        self.folder.write_graph(
            GraphNote(
                f"graph-{number}", number, PLACE, nodes, chain if edges is None else edges, (PLACE,)
            )
        )
        return number

    def begin(self, number: int, replay: int) -> None:
        self.marks.count_launch(number)
        self.write_started(number, replay)

    def write_started(self, number: int, replay: int) -> None:
        self._write(self.marks.get_started_offset(number), replay)

    def mark(self, number: int, node: int, replay: int) -> None:
        self._write(self.marks.get_node_offset(number, node), replay)

    def replay(self, number: int, replay: int, nodes: int = len(NAMES)) -> None:
        self.begin(number, replay)
        for node in range(nodes):
            self.mark(number, node, replay)

    def _write(self, offset: int, value: int) -> None:
        self.marks.map[offset : offset + 4] = struct.pack("=I", value)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def watch(scratch: Path) -> tuple[ReplayMonitor, list[ReplayStop], Clock]:
    clock, hangs = Clock(), list[ReplayStop]()
    return ReplayMonitor(scratch, 5.0, hangs.extend, clock), hangs, clock


def test_a_crash_is_named_by_the_first_node_without_a_mark(tmp_path: Path) -> None:
    program = Program(tmp_path)
    number = program.capture()
    program.replay(number, 1)
    program.replay(number, 2, nodes=2)
    program.end("CUDA_ERROR_ILLEGAL_ADDRESS")
    (crash,) = watch(tmp_path)[0].collect(1).stops
    assert (crash.kind, crash.replay, crash.completions, crash.nodes) == ("crash", 2, 2, 5)
    (suspect,) = crash.suspects
    assert (suspect.index, suspect.name, suspect.op) == (2, "tanh", "aten::mm")
    assert suspect.location == PLACE
    assert [node.index for node in crash.last] == [1]
    assert crash.error == "CUDA_ERROR_ILLEGAL_ADDRESS"


def test_replays_of_other_calls_are_reported_and_do_not_hang(tmp_path: Path) -> None:
    program = Program(tmp_path)
    number = program.capture()
    program.replay(number, 1)
    program.write_started(number, 3)
    for node in range(len(NAMES)):
        program.mark(number, node, 3)
    monitor, hangs, clock = watch(tmp_path)
    monitor.poll()
    clock.now = 60.0
    monitor.poll()
    assert hangs == []
    program.end(None)
    (gap,) = monitor.collect(0).gaps
    assert (gap.subject, gap.count) == ("replays", 2)
    assert "launches from the device" in gap.reason


def test_a_launch_from_the_device_may_hang(tmp_path: Path) -> None:
    program = Program(tmp_path)
    number = program.capture()
    program.write_started(number, 1)
    program.mark(number, 0, 1)
    monitor, hangs, clock = watch(tmp_path)
    monitor.poll()
    clock.now = 6.0
    monitor.poll()
    (hang,) = hangs
    assert [node.index for node in hang.suspects] == [1]


def test_arguments_in_no_allocation_belong_to_the_node_that_crashed(tmp_path: Path) -> None:
    program = Program(tmp_path)
    number = program.capture(invalid_arguments={2: ((0, 16),), 3: ((1, 32),)})
    program.replay(number, 1, nodes=2)
    program.end("CUDA_ERROR_ILLEGAL_ADDRESS")
    check = watch(tmp_path)[0].collect(1)
    assert check.stops[0].invalid_arguments == (InvalidArgument(2, 0, "0x10"),)
    verdict = format_replay_verdict(diagnose_replays(check))
    assert "argument 0 is 0x10, which is in no allocation" in verdict


def test_the_first_replay_may_crash_in_its_first_node(tmp_path: Path) -> None:
    program = Program(tmp_path)
    program.replay(program.capture(), 1, nodes=0)
    program.end("CUDA_ERROR_ASSERT")
    (crash,) = watch(tmp_path)[0].collect(1).stops
    assert [node.index for node in crash.suspects] == [0]
    assert crash.last == ()


def test_a_replay_that_the_gpu_never_began_did_not_crash(tmp_path: Path) -> None:
    program = Program(tmp_path)
    first, second = program.capture(), program.capture()
    program.replay(first, 1, nodes=3)
    program.marks.count_launch(second)
    program.end("CUDA_ERROR_ILLEGAL_ADDRESS")
    assert [crash.graph for crash in watch(tmp_path)[0].collect(1).stops] == ["graph-0"]


def test_a_program_that_ends_with_a_replay_under_way_did_not_crash(tmp_path: Path) -> None:
    program = Program(tmp_path)
    program.replay(program.capture(), 1, nodes=3)
    program.end(None)
    assert watch(tmp_path)[0].collect(0).stops == ()


def test_a_killed_process_leaves_its_marks(tmp_path: Path) -> None:
    program = Program(tmp_path)
    program.replay(program.capture(), 1, nodes=3)
    (crash,) = watch(tmp_path)[0].collect(-6).stops
    assert [node.index for node in crash.suspects] == [3]


def test_each_branch_has_a_suspect(tmp_path: Path) -> None:
    # 0 -> 1 -> 3 -> 4, 0 -> 2 -> 3
    edges = ((0, 1), (0, 2), (1, 3), (2, 3), (3, 4))
    assert find_frontier(edges, (True, False, False, False, False)) == ([1, 2], [0])
    assert find_frontier(edges, (True, True, False, False, False)) == ([2], [0])
    assert find_frontier(edges, (True, True, True, False, False)) == ([3], [1, 2])


def test_a_hang_is_reported_once_while_it_lasts(tmp_path: Path) -> None:
    program = Program(tmp_path, rank=1)
    number = program.capture()
    monitor, hangs, clock = watch(tmp_path)
    program.replay(number, 1)
    program.replay(number, 2, nodes=3)
    for clock.now in (0.0, 4.0, 4.9):
        monitor.poll()
    assert hangs == []
    for clock.now in (5.1, 6.0, 20.0):
        monitor.poll()
    (hang,) = hangs
    assert (hang.rank, hang.replay, hang.collectives_passed, hang.collectives) == (1, 2, 1, 2)
    assert hang.suspects[0].collective == 2
    assert hang.waited_ns == pytest.approx(5.1e9)
    assert "rank 1, graph-0, replay 2" in format_hang(hang)
    assert "collective 2" in format_hang(hang)
    assert monitor.collect(0).stops == (hang,)


def test_a_graph_that_makes_progress_does_not_hang(tmp_path: Path) -> None:
    program = Program(tmp_path)
    number = program.capture()
    monitor, hangs, clock = watch(tmp_path)
    program.begin(number, 1)
    for node in range(len(NAMES)):
        clock.now += 4.0
        program.mark(number, node, 1)
        monitor.poll()
    clock.now += 60.0
    monitor.poll()
    assert hangs == []


def test_a_replay_that_waits_for_its_stream_is_said_to_wait(tmp_path: Path) -> None:
    program = Program(tmp_path)
    number = program.capture()
    program.replay(number, 1)
    program.marks.count_launch(number)
    monitor, hangs, clock = watch(tmp_path)
    for clock.now in (0.0, 6.0):
        monitor.poll()
    (hang,) = hangs
    assert (hang.is_running, hang.replay, hang.suspects) == (False, 2, ())
    assert "waits for earlier work" in format_hang(hang)


def test_ranks_share_a_folder(tmp_path: Path) -> None:
    ranks = [Program(tmp_path, f"{rank}-1", rank) for rank in range(2)]
    monitor, hangs, clock = watch(tmp_path)
    for rank, nodes in zip(ranks, (1, 3), strict=True):
        rank.replay(rank.capture(), 1, nodes=nodes)
    for clock.now in (0.0, 6.0):
        monitor.poll()
    assert [(hang.rank, hang.collectives_passed) for hang in hangs] == [(0, 0), (1, 1)]
    expected = [(0, 1, True, 2, 0, ()), (1, 1, True, 2, 1, ())]
    for hang in hangs:
        assert [astuple(item) for item in hang.ranks] == expected
    assert list(monitor.collect(0).stops) == hangs


def test_reports_on_memory_and_reasons_are_collected(tmp_path: Path) -> None:
    program = Program(tmp_path)
    fate = MemoryFate("graph-0", None, "tensor", "float32 [4]", "freed", PLACE, 20, 21)
    program.folder.write_fate(fate)
    program.folder.write_graph(
        GraphNote("graph-0", None, PLACE, (), (), (), reason="the graph allocates memory")
    )
    check = watch(tmp_path)[0].collect(0)
    assert check.memory == (fate,)
    assert [(item.subject, item.reason) for item in check.gaps] == [
        ("graphs", "the graph allocates memory")
    ]


def test_the_file_of_marks_is_limited(tmp_path: Path) -> None:
    marks = MarksFile(tmp_path / "marks", create=True)
    assert marks.add_graph(1_000_000) == 0
    with pytest.raises(MarksFullError, match="1,500,000"):
        marks.add_graph(1_500_000)
    assert MarksFile(tmp_path / "marks").graphs == 1


def test_graphs_with_faults_are_kept_with_their_bodies(tmp_path: Path) -> None:
    """A rank whose replay stopped comes first; the graphs of right replays are omitted."""
    programs = [Program(tmp_path, f"1-{rank}", rank) for rank in range(2)]
    for program in programs:
        for number in range(2):
            assert program.capture() == number
            outer = captured_graph(chain(2 + (program.rank or 0)), f"graph-{number}")
            body = replace(captured_graph(chain(1), f"graph-{number}.0"), parent=(outer.id, 0))
            program.folder.write_captures((outer, body))
        program.replay(0, 1)
    programs[0].end(None)
    programs[1].replay(1, 1, nodes=2)
    programs[1].end("CUDA_ERROR_ILLEGAL_ADDRESS")
    monitor = watch(tmp_path)[0]
    graphs = monitor.read_faulty_graphs(monitor.collect(1))
    assert [(graph.id, len(graph.nodes)) for graph in graphs] == [("graph-1", 3), ("graph-1.0", 1)]
    assert [graph.id for graph in monitor.read_first_graph()] == ["graph-0", "graph-0.0"]


def test_errors_of_the_check_are_reported(tmp_path: Path) -> None:
    program = Program(tmp_path)
    program.replay(program.capture(), 1)
    note = program.folder.read_process()
    assert note is not None
    failed = replace(note, failures=3, first_failure="KeyError at lifetimes.py:12")
    program.folder.write_process(failed)
    (gap,) = watch(tmp_path)[0].collect(0).gaps
    assert (gap.subject, gap.count) == ("checks", 3)
    assert "KeyError at lifetimes.py:12" in gap.reason


def make_note(*names: str) -> GraphNote:
    """A graph in which each collective has an event behind it."""
    event = NodeNote("EventRecord", None, None, None, None)
    nodes: tuple[NodeNote, ...] = ()
    for name in names:
        nodes += (NodeNote("Kernel", name, None, None, None), *([event] if name == "nccl" else []))
    return GraphNote("graph-0", 0, None, nodes, (), ())


@pytest.mark.parametrize(
    ("second", "missing"),
    [
        (("gemm", "nccl", "gemm", "nccl"), ()),
        (("gemm", "gemm", "nccl"), (1,)),
        (("gemm", "nccl", "gemm"), (2,)),
        (("gemm", "gemm"), (1, 2)),
        (("gemm", "gemm", "nccl", "tail"), ()),
        (("nccl", "gemm", "nccl"), ()),
    ],
)
def test_collectives_that_a_graph_lacks(second: tuple[str, ...], missing: tuple[int, ...]) -> None:
    first = make_note("gemm", "nccl", "gemm", "nccl")
    assert find_missing_collectives(first, make_note(*second)) == missing


def test_a_label_names_the_graph_of_a_hang(tmp_path: Path) -> None:
    program = Program(tmp_path, rank=1)
    number = program.capture()
    (note,) = program.folder.read_graphs()
    program.folder.write_graph(replace(note, key="decode batch=16"))
    program.replay(number, 1, nodes=1)
    monitor, hangs, clock = watch(tmp_path)
    for clock.now in (0.0, 6.0):
        monitor.poll()
    (hang,) = hangs
    assert "rank 1, graph-0 (decode batch=16), replay 1" in format_hang(hang)
    sentence = format_replay_verdict(diagnose_replays(monitor.collect(0)))
    assert sentence.startswith("Replay 1 of graph-0 (decode batch=16) of rank 1 hangs")


def test_a_crash_that_looked_like_a_hang_is_one_fault(tmp_path: Path) -> None:
    program = Program(tmp_path)
    program.replay(program.capture(), 1, nodes=2)
    monitor, hangs, clock = watch(tmp_path)
    for clock.now in (0.0, 6.0):
        monitor.poll()
    assert len(hangs) == 1
    program.end("CUDA_ERROR_ILLEGAL_ADDRESS")
    assert [stop.kind for stop in monitor.collect(1).stops] == ["crash"]
