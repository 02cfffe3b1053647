"""Long work on threads of its own: how far it is, whether it failed, and how to cancel it.

What a job makes lands in the store, as when a page had asked for it; the job is how the reader
sees that it goes on, and can end it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from enum import StrEnum
from functools import partial
from typing import Final

import msgspec

from graphviz_dash.errors import GraphvizDashError, printable
from graphviz_dash.progress import CancelledError, subtask, watched

Task = tuple[str, Callable[[], object]]
"""What is done, as the reader sees it, and how."""


class State(StrEnum):
    """Where a job stands."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Standing(msgspec.Struct, frozen=True):
    """A job as seen from outside."""

    state: State
    """Where it stands."""
    what: str
    """The task it is at, in words; empty when it is done."""
    share: float
    """How much of all its tasks is done, 0 to 1."""
    problem: str | None = None
    """What ended it; None unless it failed."""


class Job:
    """Tasks one after another on one thread. Cancelling takes effect where the work tells its
    progress, or between two tasks."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = tasks
        self._stop = threading.Event()
        self._ended = threading.Event()
        self._standing = Standing(State.RUNNING, tasks[0][0] if tasks else "", 0.0)
        self._thread = threading.Thread(target=self._run, name="graphviz-dash job", daemon=True)

    def start(self) -> None:
        """Begins the work."""
        self._thread.start()

    @property
    def standing(self) -> Standing:
        """Where the job stands now."""
        return self._standing

    @property
    def ended(self) -> bool:
        """Whether it runs no more, for whatever reason."""
        return self._standing.state is not State.RUNNING

    def cancel(self) -> None:
        """Asks the work to end; it is told where it stands soon after."""
        self._stop.set()

    def wait(self, seconds: float) -> Standing:
        """Where the job stands when it has ended, or after ``seconds``."""
        self._ended.wait(seconds)
        return self._standing

    def _run(self) -> None:
        try:
            for number, (what, act) in enumerate(self._tasks):
                with watched(partial(self._saw, what)), subtask(number, len(self._tasks)):
                    act()
            self._standing = Standing(State.DONE, "", 1.0)
        except CancelledError:
            self._standing = msgspec.structs.replace(self._standing, state=State.CANCELLED)
        except (GraphvizDashError, KeyError) as error:
            problem = printable(str(error))[:600]
            self._standing = msgspec.structs.replace(
                self._standing, state=State.FAILED, problem=problem
            )
        finally:
            if self._standing.state is State.RUNNING:
                self._standing = msgspec.structs.replace(
                    self._standing, state=State.FAILED, problem="it ended unexpectedly"
                )
            # They hold what they work on, which may be closed long before this job is forgotten.
            self._tasks = ()
            self._ended.set()

    def _saw(self, what: str, share: float) -> None:
        if self._stop.is_set():
            raise CancelledError
        self._standing = Standing(State.RUNNING, what, min(max(share, 0.0), 1.0))


class Jobs:
    """Jobs by what they are for; safe to use from threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[Hashable, Job] = {}

    def begin(self, slot: Hashable, tasks: Sequence[Task], *, again: bool = False) -> Job:
        """The job of ``slot``, started if there is none. With ``again`` one that was cancelled or
        failed is started anew."""
        with self._lock:
            job = self._jobs.get(slot)
            ended = job is not None and job.standing.state in (State.CANCELLED, State.FAILED)
            if job is None or (again and ended):
                job = self._jobs[slot] = Job(tasks)
                job.start()
            return job

    def of(self, slot: Hashable) -> Job | None:
        """The job of ``slot``, if one was ever begun."""
        with self._lock:
            return self._jobs.get(slot)

    def clear(self) -> None:
        """Drops all jobs that have ended, so that their work can be begun anew."""
        with self._lock:
            for slot in [k for k, job in self._jobs.items() if job.ended]:
                del self._jobs[slot]


JOBS: Final = Jobs()
