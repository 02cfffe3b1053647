"""Stands between a program and the recorder of each of its processes: keeps errors from the one,
and gives the other to children that are forked.

A forked child inherits the watched methods of torch, and the recorder of its parent, whose files
are not its own. It gets a recorder of its own when it first captures, and none before: most
children of a training program load data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from collectors.guard import Guard
from collectors.program.files import ProcessFolder, Settings
from collectors.program.recorder import ProgramRecorder
from collectors.program.watch import ReplayCounter, watch_graphs


class ProcessWatcher:
    """Watches this process, and those that are forked from it if they are followed.

    Args:
        settings: what to record.
        folder: the folder of this process.
        follow: makes the folder of a forked child that captures, and sees to it that :meth:`finish`
            is called at its end; None: forked children are not recorded.
    """

    def __init__(
        self,
        settings: Settings,
        folder: ProcessFolder,
        follow: Callable[[], ProcessFolder] | None = None,
    ) -> None:
        self._settings = settings
        self._follow = follow
        self._guard = Guard()
        self._earlier = ReplayCounter("earlier", None)
        self._recorder: ProgramRecorder | None = self._recorder_in(folder)
        self._parents: ProgramRecorder | None = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watches until it ends; then everything is written and torch is as it was."""
        stop = self.start()
        try:
            yield
        except BaseException as error:
            self.ended_by(error)
            raise
        finally:
            self.finish()
            stop()

    def start(self) -> Callable[[], None]:
        """Begins to watch; the function that is returned leaves torch as it was."""
        stop = watch_graphs(self, self._earlier)
        with self._guard:
            if self._recorder is not None:
                self._recorder.start()
        return stop

    def finish(self) -> None:
        """Writes everything; nothing is recorded from here on. May be called again."""
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            recorder.finish()

    def ended_by(self, error: BaseException | None) -> None:
        """Keeps the error that ends the program, if one does."""
        with self._guard:
            if self._recorder is not None:
                self._recorder.write_failure(error)

    def forked(self) -> None:
        """In a child, right after the fork."""
        self._guard = Guard()
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

    def begins(self, graph: object) -> ReplayCounter | None:
        """A capture is about to begin, perhaps the first in a forked child."""
        with self._guard:
            if self._parents is not None and self._follow is not None:
                parents, self._parents = self._parents, None
                parents.unhook()
                recorder = self._recorder_in(self._follow())
                recorder.start(forked=True)
                self._recorder = recorder
            if self._recorder is not None:
                return self._recorder.begins(graph)
        return None

    def ends(self, counter: ReplayCounter) -> None:
        """A capture is about to end."""
        with self._guard:
            if self._recorder is not None:
                self._recorder.ends(counter)

    def captured(self, counter: ReplayCounter) -> None:
        """A capture ended well."""
        with self._guard:
            if self._recorder is not None:
                self._recorder.captured(counter)

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

    def _recorder_in(self, folder: ProcessFolder) -> ProgramRecorder:
        return ProgramRecorder(self._settings, folder, self._earlier, self._guard)
