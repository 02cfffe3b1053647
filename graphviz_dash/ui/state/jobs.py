"""Run long work on background threads with progress, errors and cancellation.

Results of a job go to the store, as if a page had requested them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from enum import StrEnum
from functools import partial
from typing import Final

import msgspec

from graphviz_dash.errors import GraphvizDashError, escape_control_characters
from graphviz_dash.progress import CancelledError, report_subtask, watch
from graphviz_dash.ui.state.scratch import SCRATCH

Task = tuple[str, Callable[[], object]]
"""Description for the user, and the function to call."""


class State(StrEnum):
    """State of a job."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class JobStatus(msgspec.Struct, frozen=True):
    """Status of a job."""

    state: State
    """State of the job."""
    task: str
    """Description of the current task; empty when done."""
    progress: float
    """Completed share of all tasks, 0 to 1."""
    problem: str | None = None
    """Error message; None unless failed."""


class Job:
    """Tasks that run in sequence on one thread.

    Cancelling takes effect when a task reports progress, or between tasks.
    """

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = tasks
        self._stop = threading.Event()
        self._ended = threading.Event()
        self._status = JobStatus(State.RUNNING, tasks[0][0] if tasks else "", 0.0)
        self._thread = threading.Thread(target=self._run, name="graphviz-dash job", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def status(self) -> JobStatus:
        """Current status."""
        return self._status

    @property
    def is_ended(self) -> bool:
        """True once the job has stopped for any reason."""
        return self._status.state is not State.RUNNING

    def cancel(self) -> None:
        """Request cancellation; the status changes soon after."""
        self._stop.set()

    def wait(self, seconds: float) -> JobStatus:
        """Wait until the job has ended, at most ``seconds``, and return its status."""
        self._ended.wait(seconds)
        return self._status

    def _run(self) -> None:
        try:
            for number, (task, act) in enumerate(self._tasks):
                with (
                    watch(partial(self._report_progress, task)),
                    report_subtask(number, len(self._tasks)),
                ):
                    act()
            self._status = JobStatus(State.DONE, "", 1.0)
        except CancelledError:
            self._status = msgspec.structs.replace(self._status, state=State.CANCELLED)
        except (GraphvizDashError, KeyError) as error:
            problem = SCRATCH.hide_paths(escape_control_characters(str(error)))[:600]
            self._status = msgspec.structs.replace(
                self._status, state=State.FAILED, problem=problem
            )
        finally:
            if self._status.state is State.RUNNING:
                self._status = msgspec.structs.replace(
                    self._status, state=State.FAILED, problem="ended unexpectedly"
                )
            # Release the tasks' data, which may be closed long before this job is dropped.
            self._tasks = ()
            self._ended.set()

    def _report_progress(self, task: str, share: float) -> None:
        if self._stop.is_set():
            raise CancelledError
        self._status = JobStatus(State.RUNNING, task, min(max(share, 0.0), 1.0))


class Jobs:
    """Jobs by slot. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[Hashable, Job] = {}

    def start(self, slot: Hashable, tasks: Sequence[Task], *, restart: bool = False) -> Job:
        """Return the job of ``slot``, starting it if there is none.

        ``again`` restarts a cancelled or failed job.
        """
        with self._lock:
            job = self._jobs.get(slot)
            ended = job is not None and job.status.state in (State.CANCELLED, State.FAILED)
            if job is None or (restart and ended):
                job = self._jobs[slot] = Job(tasks)
                job.start()
            return job

    def get_job(self, slot: Hashable) -> Job | None:
        """Return the job of ``slot``; None if never started."""
        with self._lock:
            return self._jobs.get(slot)

    def clear(self) -> None:
        """Drop all ended jobs, so that their work can be restarted."""
        with self._lock:
            for slot in [k for k, job in self._jobs.items() if job.is_ended]:
                del self._jobs[slot]


JOBS: Final = Jobs()
