"""Stands between a program and the recorder of each of its processes: keeps errors from the one,
and gives the other to children that are forked.

A forked child inherits the watched methods of torch, and the recorder of its parent, whose files
are not its own. It gets a recorder of its own when it first captures or labels a step, and none
before: most children of a training program load data.
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
from collectors.program.watch import ReplayCounter, watch_graphs


class ProcessWatcher:
    """Watches this process, and those that are forked from it if they are followed.

    Args:
        settings: what to record.
        folder: the folder of this process.
        follow: makes the folder of a forked child that captures, and sees to it that :meth:`finish`
            is called at its end; None: forked children are not recorded.
        mind_end: is called at the first capture of each process, when multiprocessing has made the
            process what it is, to see to it that :meth:`finish` is called at its end.
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
        self._guard = Guard(self._give_up)
        self._earlier = ReplayCounter("earlier", None)
        self._recorder: ProgramRecorder | None = self._recorder_in(folder)
        self._parents: ProgramRecorder | None = None
        self._stopped: ProgramRecorder | None = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watches until it ends; then everything is written and torch is as it was."""
        with ExitStack() as end:
            end.callback(self.start())
            end.callback(partial(self.finish, goes_on=True))
            end.push(self._block_ended)
            yield

    def _block_ended(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self.ended_by(error)

    def start(self) -> Callable[[], None]:
        """Begins to watch; the function that is returned leaves torch as it was."""
        stop = watch_graphs(self, self._earlier)
        with self._guard:
            if self._recorder is not None:
                self._recorder.start()
        return stop

    def finish(self, goes_on: bool = False) -> None:
        """Writes everything; nothing is recorded from here on. May be called again.

        Args:
            goes_on: the process does not end now.
        """
        recorder = self._recorder
        if recorder is not None:
            recorder.end_traces(detach=goes_on)
        recorder, self._recorder = self._recorder or self._stopped, None
        self._stopped = None
        if recorder is not None:
            recorder.finish()

    def _give_up(self) -> None:
        """Stop a recorder that keeps failing; :meth:`finish` writes what it has."""
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            self._stopped = recorder
            recorder.give_up()

    def ended_by(self, error: BaseException | None) -> None:
        """Keeps the error that ends the program, if one does."""
        with self._guard:
            if self._recorder is not None:
                self._recorder.write_failure(error)

    def forked(self) -> None:
        """In a child, right after the fork."""
        self._guard = Guard(self._give_up)
        self._end_minded = False
        self._stopped = None
        with self._guard:
            if self._recorder is not None:
                self._recorder.disown()
                self._parents, self._recorder = self._recorder, None
            self._earlier.replays = 0

    def step(self) -> None:
        """The program says that a step has ended."""
        with self._guard:
            if self._recorder is not None:
                self._recorder.step()

    # What torch's methods call.

    def label(self, said: Said) -> LabelScope | None:
        """The block of a label; None where nothing records."""
        with self._guard:
            if self._parents is not None:
                self._follow_fork()
            if self._recorder is not None:
                return self._recorder.loop.label(said)
        return None

    def begins(self, graph: object, pool: Any) -> ReplayCounter | None:
        """A capture is about to begin, perhaps the first in a forked child."""
        with self._guard:
            self._follow_fork()
            if self._recorder is not None:
                if not self._end_minded:
                    self._end_minded = True
                    self._mind_end()
                return self._recorder.begins(graph, pool)
        return None

    def ends(self, counter: ReplayCounter) -> None:
        """A capture is about to end."""
        with self._guard:
            if self._recorder is not None:
                self._recorder.ends(counter)

    def captured(self, counter: ReplayCounter, graph: object, took: int) -> None:
        """A capture ended well; the call that ends it took so many ns."""
        with self._guard:
            if self._recorder is not None:
                self._recorder.captured(counter, graph, took)

    def instantiated(self, counter: ReplayCounter, took: int) -> None:
        """The program instantiated a graph that it keeps."""
        with self._guard:
            if self._recorder is not None:
                self._recorder.loop.instantiated(counter.number, took)

    def timer(self, counter: ReplayCounter) -> ReplayTimer | None:
        """What times the replay that comes next on the GPU; None where nothing does."""
        with self._guard:
            if self._recorder is not None:
                return self._recorder.loop.timer(counter.number)
        return None

    def failed(self, counter: ReplayCounter, error: BaseException) -> None:
        """A capture could not be begun or ended."""
        with self._guard:
            if self._recorder is not None:
                self._recorder.failed(counter, error)

    def replays(self, counter: ReplayCounter) -> None:
        """A graph that is awake is about to be replayed."""
        with self._guard:
            if self._recorder is not None:
                self._recorder.replays(counter)
            else:
                counter.awake = False

    def _follow_fork(self) -> None:
        """Gives a forked child a recorder of its own, if it has none yet."""
        if self._parents is not None and self._follow is not None:
            parents, self._parents = self._parents, None
            parents.unhook()
            recorder = self._recorder_in(self._follow())
            recorder.start(forked=True)
            self._recorder = recorder

    def _recorder_in(self, folder: ProcessFolder) -> ProgramRecorder:
        return ProgramRecorder(self._settings, folder, self._earlier, self._guard)
