"""Read the marks of a running program from outside: hangs while they last, crashes at the end.

Needs neither torch nor a GPU, and no part of the program has to be alive.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from collectors.replays.marks_file import GraphProgress, MarksFile
from collectors.replays.notes import GraphNote, NoteFolder, ProcessNote
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.replay_check import (
    CheckGap,
    MemoryFate,
    NodeOwner,
    RankProgress,
    ReplayCheck,
    ReplayStop,
)

POLL_S: Final = 0.25
"""Time between two readings of the marks."""

_MAX_NODES: Final = 16
_OTHER_LAUNCHES: Final = (
    "replays",
    "not started by CUDAGraph.replay, such as launches from the device: their memory is not "
    "checked before, and one that never starts is not reported",
)
"""Subject and reason of a gap."""


@dataclass
class _LastProgress:
    progress: GraphProgress
    last_change: float


@dataclass
class _Process:
    folder: NoteFolder
    note: ProcessNote
    file: MarksFile | None = None
    graphs: dict[int, GraphNote] = field(default_factory=dict)
    progress_by_graph: dict[int, _LastProgress] = field(default_factory=dict)


class ReplayMonitor:
    """Watches the marks of all processes of a program.

    Args:
        hang_seconds: Time without progress after which a replay hangs, or None to watch no hangs.
        report: Receives the hanging replays of all ranks, once per hang, while they hang.
    """

    def __init__(
        self,
        scratch: Path,
        hang_seconds: float | None,
        report: Callable[[Sequence[ReplayStop]], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._root = scratch / "replays"
        self._hang_seconds = hang_seconds
        self._report = report
        self._clock = clock
        self._processes: dict[str, _Process] = {}
        self._hangs: dict[tuple[str, int, int], ReplayStop] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start to watch in a thread."""
        self._thread = threading.Thread(target=self._run, name="replay-monitor", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop watching."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(POLL_S):
            self.poll()

    def poll(self) -> None:
        """Read all marks once, and report new hangs."""
        # Files may be incomplete or vanish at any time.
        with suppress(OSError, ValueError, MemoryError, msgspec.MsgspecError):
            self._poll()

    def _poll(self) -> None:
        self._find_processes()
        hangs: list[ReplayStop] = []
        for name, process in self._processes.items():
            hangs += self._find_hangs(name, process)
        if hangs:
            hangs = [msgspec.structs.replace(hang, ranks=self._read_ranks(hang)) for hang in hangs]
            for key, hang in self._hangs.items():
                match = next((item for item in hangs if _match_stops(item, hang)), hang)
                self._hangs[key] = match
            self._report(hangs)

    def _read_ranks(self, hang: ReplayStop) -> tuple[RankProgress, ...]:
        graphs: dict[int, tuple[GraphNote, GraphProgress]] = {}
        for process in self._processes.values():
            if process.file is None or process.note.rank is None:
                continue
            self._load_graphs(process, process.folder.read_graphs())
            for number, graph in process.graphs.items():
                if graph.id == hang.graph:
                    graphs[process.note.rank] = (graph, process.file.read(number))
        hanging = graphs.get(hang.rank) if hang.rank is not None else None
        ranks = []
        for rank, (graph, progress) in sorted(graphs.items()):
            collectives = graph.list_collectives()
            completions = progress.completions
            ranks.append(
                RankProgress(
                    rank,
                    progress.current,
                    progress.is_busy,
                    len(collectives),
                    sum(completions[index] for index in collectives),
                    find_missing_collectives(hanging[0], graph) if hanging else (),
                )
            )
        return tuple(ranks)

    def collect(self, returncode: int) -> ReplayCheck:
        """Read everything after the program's end; a negative ``returncode`` is a signal."""
        self._find_processes()
        crashes: list[ReplayStop] = []
        memory: list[MemoryFate] = []
        gaps: dict[tuple[str, str], int] = {}
        graphs = 0
        for process in self._processes.values():
            note = process.folder.read_process() or process.note
            notes = process.folder.read_graphs()
            graphs += len(notes)
            memory += process.folder.read_fates()
            if note.failures:
                key = ("checks", f"error in graphviz-dash: {note.first_failure}")
                gaps[key] = gaps.get(key, 0) + note.failures
            for graph in notes:
                for subject, reason in _list_gaps(graph):
                    gaps[subject, reason] = gaps.get((subject, reason), 0) + 1
                if process.file is not None and graph.number is not None:
                    other_launches = process.file.read(graph.number).other_launches
                    if other_launches:
                        gaps[_OTHER_LAUNCHES] = gaps.get(_OTHER_LAUNCHES, 0) + other_launches
            if _is_crash(note, returncode):
                self._load_graphs(process, notes)
                crashes += _find_crashes(process, note)
        return ReplayCheck(
            subject="program",
            values=(),
            stops=(
                *crashes,
                *(hang for hang in self._hangs.values() if not _is_crash_of(hang, crashes)),
            ),
            memory=tuple(memory),
            graphs=graphs,
            gaps=tuple(
                CheckGap(subject, reason, count) for (subject, reason), count in gaps.items()
            ),
        )

    def read_faulty_graphs(self, check: ReplayCheck) -> list[CapturedGraph]:
        """Read the graphs with faults, each followed by its bodies, with each id once.

        The graph of a rank whose replay stopped comes first.
        """
        ids = dict.fromkeys(
            (*(stop.graph for stop in check.stops), *(fate.graph for fate in check.memory))
        )
        return self._read_captures(ids, {stop.rank for stop in check.stops})

    def read_first_graph(self) -> list[CapturedGraph]:
        """Read the graph that was captured first, followed by its bodies. Empty without one."""
        notes = [
            note for process in self._processes.values() for note in process.folder.read_graphs()
        ]
        return self._read_captures([note.id for note in notes[:1]], set())

    def _read_captures(
        self, ids: Iterable[str], first_ranks: Collection[int | None]
    ) -> list[CapturedGraph]:
        processes = sorted(
            self._processes.values(), key=lambda process: process.note.rank not in first_ranks
        )
        graphs: dict[str, CapturedGraph] = {}
        for graph_id in ids:
            for process in processes:
                captures = process.folder.read_captures(graph_id)
                if captures:
                    graphs |= {graph.id: graph for graph in captures}
                    break
        return list(graphs.values())

    def _find_processes(self) -> None:
        if not self._root.is_dir():
            return
        for path in sorted(self._root.iterdir()):
            process = self._processes.get(path.name)
            if process is None:
                folder = NoteFolder(path)
                note = folder.read_process()
                if note is None:
                    continue
                process = self._processes[path.name] = _Process(folder, note)
            if process.file is None:
                process.note = process.folder.read_process() or process.note
                if process.note.marks is not None and Path(process.note.marks).exists():
                    file = MarksFile(Path(process.note.marks))
                    process.file = file if file.is_valid else None

    def _load_graphs(self, process: _Process, notes: Sequence[GraphNote]) -> None:
        process.graphs = {note.number: note for note in notes if note.number is not None}

    def _find_hangs(self, name: str, process: _Process) -> list[ReplayStop]:
        if process.file is None or self._hang_seconds is None:
            return []
        now = self._clock()
        hangs = []
        for number in range(process.file.graphs):
            progress = process.file.read(number)
            progress_by_graph = process.progress_by_graph.get(number)
            if progress_by_graph is None or progress_by_graph.progress != progress:
                process.progress_by_graph[number] = _LastProgress(progress, now)
                continue
            wait = now - progress_by_graph.last_change
            key = (name, number, progress.current)
            if not progress.is_busy or wait < self._hang_seconds or key in self._hangs:
                continue
            if number not in process.graphs:
                self._load_graphs(process, process.folder.read_graphs())
            if number in process.graphs:
                hang = describe_stop("hang", process.note, process.graphs[number], progress, wait)
                self._hangs[key] = hang
                hangs.append(hang)
        return hangs


def _is_crash_of(hang: ReplayStop, crashes: Sequence[ReplayStop]) -> bool:
    """Check if a hang ended in a crash of the same replay: a slow error is no second fault."""
    return any(_match_stops(hang, crash) for crash in crashes)


def _match_stops(first: ReplayStop, second: ReplayStop) -> bool:
    return (first.rank, first.graph, first.replay) == (second.rank, second.graph, second.replay)


def describe_stop(
    kind: str,
    process: ProcessNote,
    graph: GraphNote,
    progress: GraphProgress,
    waited_s: float | None,
) -> ReplayStop:
    """Describe a replay that crashed or hangs, by the marks."""
    is_running = any(word != progress.current for word in progress.node_replays)
    completions = progress.completions if is_running else (False,) * len(progress.node_replays)
    suspects, last = find_frontier(graph.edges, completions) if is_running else ([], [])
    collectives = graph.list_collectives()
    return ReplayStop(
        kind="crash" if kind == "crash" else "hang",
        graph=graph.id,
        capture_location=graph.capture_place,
        rank=process.rank,
        replay=progress.current if is_running else progress.current + 1,
        is_running=is_running,
        suspects=_list_nodes(graph, suspects),
        last=_list_nodes(graph, last),
        completions=sum(completions),
        nodes=len(completions),
        collectives=len(collectives),
        collectives_passed=sum(completions[index] for index in collectives),
        waited_ns=None if waited_s is None else round(waited_s * 1e9),
        error=process.error,
        key=graph.key,
        invalid_arguments=graph.list_invalid_arguments(suspects[:_MAX_NODES])
        if kind == "crash"
        else (),
    )


def find_frontier(
    edges: Sequence[tuple[int, int]], completions: Sequence[bool]
) -> tuple[list[int], list[int]]:
    """Return the nodes that were reached but did not end, and the nodes right before them."""
    sources: dict[int, list[int]] = {}
    for source, target in edges:
        sources.setdefault(target, []).append(source)
    suspects = [
        node
        for node, is_complete in enumerate(completions)
        if not is_complete and all(completions[source] for source in sources.get(node, ()))
    ]
    last = dict.fromkeys(source for node in suspects for source in sources.get(node, ()))
    return suspects, list(last)


def find_missing_collectives(first: GraphNote, second: GraphNote) -> tuple[int, ...]:
    """Return the collectives, from 1, without which kernels of ``first`` are those of ``second``.

    Empty if the graphs differ in other kernels.
    """
    numbers = {index: number for number, index in enumerate(first.list_collectives(), 1)}
    # A collective also adds events, which have no names.
    names = [node.name for node in second.nodes if node.name is not None]
    missing = []
    position = 0
    for index, node in enumerate(first.nodes):
        if node.name is None:
            continue
        if position < len(names) and node.name == names[position]:
            position += 1
        elif index in numbers:
            missing.append(numbers[index])
        else:
            return ()
    return tuple(missing) if position == len(names) else ()


def _list_nodes(graph: GraphNote, indices: Sequence[int]) -> tuple[NodeOwner, ...]:
    return tuple(graph.get_node(index) for index in indices[:_MAX_NODES])


def _find_crashes(process: _Process, note: ProcessNote) -> list[ReplayStop]:
    if process.file is None:
        return []
    crashes = []
    for number, graph in sorted(process.graphs.items()):
        progress = process.file.read(number)
        # A replay that the GPU never began did not crash.
        if progress.current and not all(progress.completions):
            crashes.append(describe_stop("crash", note, graph, progress, None))
    return crashes


def _is_crash(note: ProcessNote, returncode: int) -> bool:
    if note.error is not None:
        return True
    return not note.is_complete and returncode != 0


def format_hang(hang: ReplayStop) -> str:
    """Describe a hanging replay in one line."""
    rank = "" if hang.rank is None else f"rank {hang.rank}, "
    seconds = round((hang.waited_ns or 0) / 1e9)
    key = "" if hang.key is None else f" ({hang.key})"
    start = f"Hang: {rank}{hang.graph}{key}, replay {hang.replay}, no progress for {seconds} s"
    if not hang.is_running:
        return f"{start}: the replay waits for earlier work of its stream"
    nodes = "; ".join(map(_format_node, hang.suspects))
    completions = ""
    if hang.collectives:
        completions = f", {hang.collectives_passed} of {hang.collectives} collectives passed"
    return f"{start}{completions}: {nodes}"


def _format_node(node: NodeOwner) -> str:
    text = f"node {node.index} ({node.name or node.kind}"
    if node.collective is not None:
        text += f", collective {node.collective}"
    if node.op is not None:
        text += f", {node.op}"
    return f"{text})" + (f" at {node.location.text}" if node.location else "")


def _list_gaps(graph: GraphNote) -> list[tuple[str, str]]:
    reasons = [] if graph.reason is None else [("graphs", graph.reason)]
    return reasons + [("nodes", reason) for reason in graph.partial]
