"""Mark the graphs of a program and watch their memory: the hook of ``collect --marks``.

torch keeps each captured graph until the marks are in it; it is then instantiated as always.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

import msgspec
import torch
from cuda.bindings import driver

from collectors.doctor.places import SourceLocation, find_user_location
from collectors.driver.calls import DriverError
from collectors.driver.topology import read_graph
from collectors.guard import HIDDEN_FRAME, Guard, hide_frame
from collectors.program.launcher import get_scratch_folder, get_settings
from collectors.program.session import follow_labels
from collectors.replays.lifetimes import LifetimeWatch, ReplayCount
from collectors.replays.marks import MarkedGraph, Marker, UnmarkedError
from collectors.replays.notes import (
    MARKS_NAME,
    GraphNote,
    MarksSettings,
    NodeNote,
    NoteFolder,
    ProcessNote,
)
from collectors.replays.operators import OperatorRecorder, StepRecord
from collectors.replays.pointers import read_invalid_arguments
from graphviz_dash.model.graph import CapturedGraph, HostParams, KernelParams, NodeKind
from graphviz_dash.model.replay_check import MemoryFate

_STATE = "_graphviz_dash_marks"
_CHILD_GRAPHS: Final = "nodes inside a child graph have no marks"


def install_hook() -> None:
    """Install the marks; called in each process of the program right after ``import torch``."""
    settings = msgspec.json.decode(get_settings(), type=MarksSettings)
    program = MarkedProgram(settings, *_create_folder())
    program.install()
    follow_labels(program.open_label)
    atexit.register(program.finish)


def _create_folder() -> tuple[NoteFolder, str]:
    name = f"{os.getpid()}-{time.time_ns()}"
    return NoteFolder(get_scratch_folder() / "replays" / name), name


class _GraphState(ReplayCount):
    __slots__ = ("id", "is_callable", "keeps_graph", "key", "number", "recorder", "spot")

    def __init__(self, graph_id: str, *, keeps_graph: bool) -> None:
        super().__init__()
        self.id = graph_id
        self.keeps_graph = keeps_graph
        self.key: str | None = None
        self.number: int | None = None
        self.recorder: OperatorRecorder | None = None
        self.spot: SourceLocation | None = None
        self.is_callable = False


class MarkedProgram:
    """Marks the graphs of this process."""

    def __init__(self, settings: MarksSettings, folder: NoteFolder, name: str) -> None:
        self._settings = settings
        self._folder = folder
        self._name = name
        self._pid = os.getpid()
        self._guard = Guard(self._stop_checking)
        self._marker: Marker | None = None
        self._lifetimes = LifetimeWatch(self._write_fate, strict=settings.strict)
        self._label: str | None = None
        self._graphs = 0
        self._written_failures = 0

    def install(self) -> None:
        """Replace the methods of torch's graphs, for the life of the process."""
        graph_class: Any = torch.cuda.CUDAGraph
        program = self
        initialize, begin, end, replay, reset = (
            graph_class.__init__,
            graph_class.capture_begin,
            graph_class.capture_end,
            graph_class.replay,
            graph_class.reset,
        )

        def initialize_kept(graph: Any, keep_graph: bool = False) -> None:
            initialize(graph, True)
            object.__setattr__(graph, _STATE, _GraphState("", keeps_graph=keep_graph))

        def capture_begin(graph: Any, *args: Any, **kwargs: Any) -> None:
            with HIDDEN_FRAME:
                begin(graph, *args, **kwargs)
            with program._guard:
                program.begin_capture(graph)

        def capture_end(graph: Any) -> None:
            record = None
            with program._guard:
                record = program.stop_recording(graph)
            with HIDDEN_FRAME:
                end(graph)
            with program._guard:
                program.mark(graph, record)
            state = getattr(graph, _STATE, None)
            program.write_failures()
            if state is not None and not state.keeps_graph:
                graph.instantiate()

        def replay_marked_graph(graph: Any) -> None:
            # Most replays do only this. Contexts would double the cost.
            state = getattr(graph, _STATE, None)
            if state is not None:
                state.replays = number = state.replays + 1
                if number >= state.next_check:
                    with program._guard:
                        program._lifetimes.check(state.id)
                if state.number is not None:
                    with program._guard:
                        program.count_launch(state.number)
            try:
                replay(graph)
            except RuntimeError as error:
                hide_frame(error)
                raise

        def reset_graph(graph: Any) -> None:
            with program._guard:
                program._lifetimes.record_reset(graph, find_user_location(sys._getframe(1)))
            reset(graph)

        graph_class.__init__ = initialize_kept
        graph_class.capture_begin = capture_begin
        graph_class.capture_end = capture_end
        graph_class.replay = replay_marked_graph
        graph_class.reset = reset_graph
        self._lifetimes.install()
        self._write_process()

    @contextmanager
    def open_label(self, text: str) -> Iterator[None]:
        """Label the graphs that a block captures."""
        outer, self._label = self._label, text
        try:
            yield
        finally:
            self._label = outer

    def _write_fate(self, fate: MemoryFate) -> None:
        self._folder.write_fate(fate)

    def _follow_fork(self) -> None:
        """Write the notes of a forked child, which captures for the first time, separately."""
        self._pid = os.getpid()
        self._folder, self._name = _create_folder()
        self._marker, self._graphs = None, 0
        self._write_process()
        atexit.register(self.finish)
        # multiprocessing ends forked children without Python's exit.
        util = sys.modules.get("multiprocessing.util")
        if util is not None:
            util.Finalize(None, self.finish, exitpriority=-(1 << 30))

    def stop_marking(self) -> None:
        """Leave later graphs without marks."""
        self._settings = msgspec.structs.replace(self._settings, marks=False)

    def begin_capture(self, graph: Any) -> None:
        """Start to record the operators of a capture."""
        state = getattr(graph, _STATE, None)
        if state is None:
            return
        if os.getpid() != self._pid:
            self._follow_fork()
        state.id = f"graph-{self._graphs}"
        state.key = self._label
        self._graphs += 1
        state.spot = find_user_location(sys._getframe(2))
        state.is_callable = _is_callable_capture(sys._getframe(2))
        state.recorder = OperatorRecorder(None, capture=True, guard=self._guard)
        state.recorder.__enter__()

    def stop_recording(self, graph: Any) -> StepRecord | None:
        """Stop to record operators; the capture is still open."""
        state = getattr(graph, _STATE, None)
        if state is None or state.recorder is None:
            return None
        recorder, state.recorder = state.recorder, None
        recorder.__exit__(None, None, None)
        return recorder.record

    def mark(self, graph: Any, record: StepRecord | None) -> None:
        """Mark a captured graph and write its note."""
        state = getattr(graph, _STATE, None)
        if state is None or record is None:
            return
        handle = int(graph.raw_cuda_graph())
        try:
            captures = read_graph(handle, state.id)
        except DriverError as error:
            self._folder.write_graph(
                GraphNote(state.id, None, None, (), (), (), reason=f"not read: {error}")
            )
            return
        read = captures[0]
        if not read.nodes:
            # The cudagraph trees capture an empty graph once, to create their memory pool.
            return
        self._lifetimes.add_graph(
            state.id, graph, handle, record, read, state, is_callable=state.is_callable
        )
        marking: MarkedGraph | None = None
        reason = None
        invalid_arguments = read_invalid_arguments(handle, read) if self._settings.marks else {}
        try:
            if self._settings.marks:
                marking = self._get_marker().mark(handle)
        except (UnmarkedError, DriverError, OSError) as error:
            reason = str(error)
        state.number = marking.number if marking else None
        self._folder.write_captures(captures)
        self._folder.write_graph(_build_note(state, record, read, reason, invalid_arguments))
        record.externals.clear()

    def _get_marker(self) -> Marker:
        if self._marker is None:
            path = Path(self._settings.folder) / f"{MARKS_NAME}-{self._name}"
            self._marker = Marker(path)
            self._write_process()
        return self._marker

    def count_launch(self, number: int) -> None:
        """Count a replay of a marked graph that is about to start."""
        if self._marker is not None:
            self._marker.file.count_launch(number)

    def write_failures(self) -> None:
        """Write new errors of the check, because the program may be killed later."""
        if self._guard.errors != self._written_failures:
            self._written_failures = self._guard.errors
            with self._guard:
                self._write_process()

    def _stop_checking(self) -> None:
        self.stop_marking()
        self._lifetimes.stop()
        self.write_failures()

    def finish(self) -> None:
        """Write the end of the process."""
        if os.getpid() != self._pid:
            return
        with self._guard:
            error = None
            if torch.cuda.is_initialized():
                status, *_ = driver.cuStreamQuery(0)
                if status.name not in ("CUDA_SUCCESS", "CUDA_ERROR_NOT_READY"):
                    error = status.name
            self._write_process(error=error, is_complete=True)

    def _write_process(self, *, error: str | None = None, is_complete: bool = False) -> None:
        rank = os.environ.get("RANK")
        self._folder.write_process(
            ProcessNote(
                pid=self._pid,
                rank=int(rank) if rank and rank.isdigit() else None,
                marks=str(self._marker.file.path) if self._marker else None,
                error=error,
                is_complete=is_complete,
                failures=self._guard.errors,
                first_failure=self._guard.first_error,
            )
        )


def _build_note(
    state: _GraphState,
    record: StepRecord,
    read: CapturedGraph,
    reason: str | None,
    invalid_arguments: dict[int, tuple[tuple[int, int], ...]],
) -> GraphNote:
    locations: dict[SourceLocation, int] = {}
    owners: dict[int, int] = {}
    for number, operator in enumerate(record.operators):
        if operator.first_node is not None:
            last = operator.first_node + operator.node_count
            owners.update(dict.fromkeys(range(operator.first_node, last), number))
    nodes = []
    for index, node in enumerate(read.nodes):
        owner = record.operators[owners[index]] if index in owners else None
        location = None
        if owner is not None and owner.spot is not None:
            location = locations.setdefault(owner.spot, len(locations))
        nodes.append(
            NodeNote(
                node.kind.value,
                _get_name(node.params),
                owner.name if owner else None,
                location,
                owner.module if owner else None,
                invalid_arguments.get(index, ()),
            )
        )
    kinds = {node.kind for node in read.nodes}
    return GraphNote(
        id=state.id,
        number=state.number,
        key=state.key,
        capture_place=state.spot.to_code_place() if state.spot else None,
        nodes=tuple(nodes),
        edges=tuple((edge.source, edge.target) for edge in read.edges),
        places=tuple(spot.to_code_place() for spot in locations),
        reason=reason,
        partial=(_CHILD_GRAPHS,) if reason is None and NodeKind.CHILD_GRAPH in kinds else (),
    )


def _is_callable_capture(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_name == "make_graphed_callables":
            return True
        frame = frame.f_back
    return False


def _get_name(params: object) -> str | None:
    if isinstance(params, KernelParams):
        return params.demangled
    if isinstance(params, HostParams):
        return params.function
    return None
