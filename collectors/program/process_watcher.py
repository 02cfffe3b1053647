"""Connect a program and the recorders of its processes.

A forked child inherits the watched methods of torch and its parent's recorder, whose files belong
to the parent. It gets its own recorder when it first captures or labels a step, because most
children of a training program load data only. Only its ledger starts right after the fork.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from collectors.guard import Guard
from collectors.program.files import ProcessFolder, Settings
from collectors.program.loop.gpu_times import ReplayTimer
from collectors.program.loop.labels import LabelScope, Said
from collectors.program.recorder import ProgramRecorder
from collectors.program.startup import StartupLedger
from collectors.program.watch import ReplayCounter, watch_graphs


class ProcessWatcher:
    """Watches this process, and its forked children if they are followed.

    Args:
        follow: Creates the folder of a forked child that captures, and ensures the call of
            :meth:`finish` at its end. None to ignore forked children.
        mind_end: Called at the first capture of each process, after the setup by multiprocessing,
            to ensure the call of :meth:`finish` at its end.
    """

    def __init__(
        self,
        settings: Settings,
        folder: ProcessFolder,
        follow: Callable[[], ProcessFolder] | None = None,
        mind_end: Callable[[], None] = lambda: None,
    ) -> None:
        self._settings = settings
        self._follow = follow
        self._mind_end = mind_end
        self._end_minded = False
        self._guard = Guard(self._stop_failing_recorder)
        self._earlier = ReplayCounter("earlier", None)
        self._ledger = StartupLedger(self._guard)
        self._parents: ProgramRecorder | None = None
        self._set_recorder(self._create_recorder(folder))
        self._stopped: ProgramRecorder | None = None

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Watch inside the block, then write everything and restore torch."""
        with ExitStack() as end:
            end.callback(self.start())
            end.callback(partial(self.finish, goes_on=True))
            end.push(self._handle_block_end)
            yield

    def _handle_block_end(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self.keep_error(error)

    def start(self) -> Callable[[], None]:
        """Start to watch. Returns a function that restores torch."""
        stop = watch_graphs(self, self._earlier)
        with self._guard:
            if self._recorder is not None:
                self._recorder.start()
        return stop

    def finish(self, goes_on: bool = False) -> None:
        """Write everything and stop recording; may be called again.

        ``goes_on``: the process continues.
        """
        recorder = self._recorder
        if recorder is not None:
            recorder.end_traces(detach=goes_on)
        recorder = self._recorder or self._stopped
        self._set_recorder(None)
        self._stopped = None
        if recorder is not None:
            recorder.finish()

    def _stop_failing_recorder(self) -> None:
        """Stop a recorder that keeps failing; :meth:`finish` writes what it has."""
        recorder = self._recorder
        self._set_recorder(None)
        if recorder is not None:
            self._stopped = recorder
            recorder.stop_early()

    def keep_error(self, error: BaseException | None) -> None:
        """Keep the error that ends the program, if any."""
        with self._guard:
            if self._recorder is not None:
                self._recorder.write_failure(error)

    def reset_after_fork(self) -> None:
        """Reset in a child, right after the fork."""
        self._guard = Guard(self._stop_failing_recorder)
        self._end_minded = False
        self._stopped = None
        with self._guard:
            self._ledger.stop()
            if self._recorder is not None:
                self._recorder.disable()
                self._parents = self._recorder
            self._set_recorder(None)
            self._earlier.replays = 0
            if self._parents is not None and self._follow is not None:
                self._ledger = StartupLedger(self._guard)
                self._ledger.start()

    def record_step(self) -> None:
        """Record the end of a step, reported by the program."""
        with self._guard:
            if self._recorder is not None:
                self._recorder.record_step()

    # Calls from torch's methods.

    def _open_label(self, labels: Said) -> LabelScope | None:
        """Create the block of a label, perhaps the first in a forked child."""
        with self._guard:
            self._create_fork_recorder()
            if self._recorder is not None:
                return self._recorder.loop.label(labels)
        return None

    def begin_capture(self, graph: object, pool: Any) -> ReplayCounter | None:
        """Handle the start of a capture, perhaps the first in a forked child."""
        with self._guard:
            self._create_fork_recorder()
            if self._recorder is not None:
                if not self._end_minded:
                    self._end_minded = True
                    self._mind_end()
                return self._recorder.begin_capture(graph, pool)
        return None

    def end_capture(self, counter: ReplayCounter) -> None:
        """Handle the call that ends a capture."""
        with self._guard:
            if self._recorder is not None:
                self._recorder.end_capture(counter)

    def record_capture(self, counter: ReplayCounter, graph: object, duration_ns: int) -> None:
        """Handle a finished capture; ``duration_ns`` is of the call that ends it."""
        with self._guard:
            if self._recorder is not None:
                self._recorder.record_capture(counter, graph, duration_ns)

    def record_instantiation(self, counter: ReplayCounter, start_ns: int, duration_ns: int) -> None:
        """Handle the instantiation of a graph that the program keeps."""
        with self._guard:
            if self._recorder is not None:
                self._recorder.record_instantiation(counter, start_ns, duration_ns)

    def record_first_launch(self, counter: ReplayCounter, start_ns: int, end: int) -> None:
        """Handle the first launch of a graph."""
        with self._guard:
            if self._recorder is not None:
                self._recorder.record_first_launch(counter, start_ns, end)

    def create_timer(self, counter: ReplayCounter) -> ReplayTimer | None:
        """Create a timer for the next replay on the GPU, or None."""
        with self._guard:
            if self._recorder is not None:
                return self._recorder.loop.create_timer(counter.number)
        return None

    def record_failure(self, counter: ReplayCounter, error: BaseException) -> None:
        """Handle a capture that could not start or end."""
        with self._guard:
            if self._recorder is not None:
                self._recorder.record_failure(counter, error)

    def _create_fork_recorder(self) -> None:
        if self._parents is not None and self._follow is not None:
            parents, self._parents = self._parents, None
            parents.restore_torch()
            recorder = self._create_recorder(self._follow())
            recorder.start(forked=True)
            self._set_recorder(recorder)

    def _set_recorder(self, recorder: ProgramRecorder | None) -> None:
        self._recorder: ProgramRecorder | None = recorder
        # The most frequent entries: the recorder's own methods have a guard.
        self.label: Callable[[Said], LabelScope | None] = (
            self._open_label if recorder is None else recorder.loop.label
        )
        """Creates the block of a label. None without a recorder."""
        self.record_replay: Callable[[ReplayCounter], None] = (
            _ignore_replays if recorder is None else recorder.record_replay
        )
        """Handles the replay of an awake graph."""

    def _create_recorder(self, folder: ProcessFolder) -> ProgramRecorder:
        return ProgramRecorder(self._settings, folder, self._earlier, self._guard, self._ledger)


def _ignore_replays(counter: ReplayCounter) -> None:
    counter.awake = False
