"""Read the marks of a running program from outside: hangs while they last, crashes at the end.

Needs neither torch nor a GPU, and no part of the program has to be alive.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from collectors.replays.marks_file import GraphProgress, MarksFile
from collectors.replays.notes import GraphNote, NoteFolder, ProcessNote
from graphviz_dash.model.replay_check import (
    MemoryFate,
    NodeOwner,
    ReplayCheck,
    StoppedReplay,
    Unchecked,
)

POLL_S: Final = 0.25
"""Time between two readings of the marks."""

_MAX_NODES: Final = 16


@dataclass
class _Watched:
    """Progress of one graph as last seen."""

    progress: GraphProgress
    since: float
    """Time at which it changed last."""


@dataclass
class _Process:
    """One process of the program."""

    folder: NoteFolder
    note: ProcessNote
    file: MarksFile | None = None
    graphs: dict[int, GraphNote] = field(default_factory=dict)
    watched: dict[int, _Watched] = field(default_factory=dict)


class ReplayMonitor:
    """Watches the marks of all processes of a program.

    Args:
        scratch: Folder of the hooks' files.
        hang_seconds: Time without progress after which a replay hangs, or None to watch no hangs.
        report: Receives the hanging replays of all ranks, once per hang, while they hang.
        clock: Seconds.
    """

    def __init__(
        self,
        scratch: Path,
        hang_seconds: float | None,
        report: Callable[[Sequence[StoppedReplay]], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._root = scratch / "replays"
        self._hang_seconds = hang_seconds
        self._report = report
        self._clock = clock
        self._processes: dict[str, _Process] = {}
        self._hangs: dict[tuple[str, int, int], StoppedReplay] = {}
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
            # Files may be incomplete or vanish at any time.
            with suppress(OSError, ValueError, msgspec.MsgspecError):
                self.poll()

    def poll(self) -> None:
        """Read all marks once, and report new hangs."""
        self._find_processes()
        found: list[StoppedReplay] = []
        for name, process in self._processes.items():
            found += self._find_hangs(name, process)
        if found:
            self._report(found)

    def collect(self, returncode: int) -> ReplayCheck:
        """Read everything after the program's end.

        Args:
            returncode: Exit code of the program, negative for a signal.
        """
        self._find_processes()
        crashes: list[StoppedReplay] = []
        memory: list[MemoryFate] = []
        unchecked: dict[tuple[str, str], int] = {}
        graphs = 0
        for process in self._processes.values():
            note = process.folder.read_process() or process.note
            notes = process.folder.read_graphs()
            graphs += len(notes)
            memory += process.folder.read_fates()
            for graph in notes:
                for what, reason in _list_unchecked(graph):
                    unchecked[what, reason] = unchecked.get((what, reason), 0) + 1
            if _has_crashed(note, returncode):
                self._load_graphs(process, notes)
                crashes += _find_crashes(process, note)
        return ReplayCheck(
            subject="program",
            values=(),
            stopped=(*crashes, *self._hangs.values()),
            memory=tuple(memory),
            graphs=graphs,
            unchecked=tuple(
                Unchecked(what, reason, count) for (what, reason), count in unchecked.items()
            ),
        )

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

    def _find_hangs(self, name: str, process: _Process) -> list[StoppedReplay]:
        if process.file is None or self._hang_seconds is None:
            return []
        now = self._clock()
        found = []
        for number in range(process.file.graphs):
            progress = process.file.read(number)
            watched = process.watched.get(number)
            if watched is None or watched.progress != progress:
                process.watched[number] = _Watched(progress, now)
                continue
            waited = now - watched.since
            key = (name, number, progress.started)
            if not progress.is_busy or waited < self._hang_seconds or key in self._hangs:
                continue
            if number not in process.graphs:
                self._load_graphs(process, process.folder.read_graphs())
            if number in process.graphs:
                hang = describe_stop("hang", process.note, process.graphs[number], progress, waited)
                self._hangs[key] = hang
                found.append(hang)
        return found


def describe_stop(
    kind: str,
    process: ProcessNote,
    graph: GraphNote,
    progress: GraphProgress,
    waited_s: float | None,
) -> StoppedReplay:
    """Describe a replay that crashed or hangs, by the marks."""
    has_begun = any(word != progress.started for word in progress.ended)
    passed = progress.passed if has_begun else (False,) * len(progress.ended)
    suspects, last = find_frontier(graph.edges, passed) if has_begun else ([], [])
    collectives = graph.list_collectives()
    return StoppedReplay(
        kind="crash" if kind == "crash" else "hang",
        graph=graph.id,
        captured_at=graph.captured_at,
        rank=process.rank,
        replay=progress.started if has_begun else progress.started + 1,
        started=has_begun,
        suspects=_list_nodes(graph, suspects),
        last=_list_nodes(graph, last),
        passed=sum(passed),
        nodes=len(passed),
        collectives=len(collectives),
        collectives_passed=sum(passed[index] for index in collectives),
        waited_ns=None if waited_s is None else round(waited_s * 1e9),
        error=process.error,
        key=graph.key,
    )


def find_frontier(
    edges: Sequence[tuple[int, int]], passed: Sequence[bool]
) -> tuple[list[int], list[int]]:
    """Return the nodes that were reached but did not end, and the nodes right before them."""
    sources: dict[int, list[int]] = {}
    for source, target in edges:
        sources.setdefault(target, []).append(source)
    suspects = [
        node
        for node, has_passed in enumerate(passed)
        if not has_passed and all(passed[source] for source in sources.get(node, ()))
    ]
    last = dict.fromkeys(source for node in suspects for source in sources.get(node, ()))
    return suspects, list(last)


def _list_nodes(graph: GraphNote, indices: Sequence[int]) -> tuple[NodeOwner, ...]:
    return tuple(graph.get_node(index) for index in indices[:_MAX_NODES])


def _find_crashes(process: _Process, note: ProcessNote) -> list[StoppedReplay]:
    if process.file is None:
        return []
    crashes = []
    for number, graph in sorted(process.graphs.items()):
        progress = process.file.read(number)
        # A replay that the GPU never began did not crash.
        if progress.started and not all(progress.passed):
            crashes.append(describe_stop("crash", note, graph, progress, None))
    return crashes


def _has_crashed(note: ProcessNote, returncode: int) -> bool:
    if note.error is not None:
        return True
    return not note.ended and returncode != 0


def format_hang(hang: StoppedReplay) -> str:
    """Describe a hanging replay in one line, while it hangs."""
    rank = "" if hang.rank is None else f"rank {hang.rank}, "
    seconds = round((hang.waited_ns or 0) / 1e9)
    start = f"Hang: {rank}{hang.graph}, replay {hang.replay}, no progress for {seconds} s"
    if not hang.started:
        return f"{start}: the replay waits for earlier work of its stream"
    nodes = "; ".join(map(_format_node, hang.suspects))
    passed = ""
    if hang.collectives:
        passed = f", {hang.collectives_passed} of {hang.collectives} collectives passed"
    return f"{start}{passed}: {nodes}"


def _format_node(node: NodeOwner) -> str:
    text = f"node {node.index} ({node.name or node.kind}"
    if node.collective is not None:
        text += f", collective {node.collective}"
    if node.op is not None:
        text += f", {node.op}"
    return f"{text})" + (f" at {node.place.text}" if node.place else "")


def _list_unchecked(graph: GraphNote) -> list[tuple[str, str]]:
    reasons = [] if graph.reason is None else [("graphs", graph.reason)]
    return reasons + [("nodes", reason) for reason in graph.partial]
