from __future__ import annotations

import threading

import pytest

from graphviz_dash.errors import InputError
from graphviz_dash.progress import CancelledError, report_progress, report_subtask, watch
from graphviz_dash.ui.state.jobs import Job, Jobs, State


def _wait(job: Job) -> State:
    return job.wait(10).state


def test_progress_of_parts_is_that_of_the_whole() -> None:
    seen: list[float] = []
    with watch(seen.append):
        for place in range(2):
            with report_subtask(place, 2):
                report_progress(0.5)
                with report_subtask(1, 4):
                    report_progress(1.0)
    assert seen == [0.0, 0.25, 0.125, 0.25, 0.5, 0.75, 0.625, 0.75]
    report_progress(0.5)  # nobody watches any more
    assert len(seen) == 8


def test_a_job_does_its_tasks_in_turn_and_is_done() -> None:
    done: list[str] = []
    job = Job([("one", lambda: done.append("one")), ("two", lambda: done.append("two"))])
    job.start()
    assert _wait(job) is State.DONE
    assert done == ["one", "two"]
    assert job.status.progress == 1.0


def test_a_running_job_tells_what_it_does_and_how_far_it_is() -> None:
    begun, go = threading.Event(), threading.Event()

    def work() -> None:
        report_progress(0.5)
        begun.set()
        go.wait(10)

    job = Job([("first", lambda: None), ("second", work)])
    job.start()
    assert begun.wait(10)
    assert (job.status.task, job.status.progress) == ("second", 0.75)
    assert job.status.state is State.RUNNING
    go.set()
    assert _wait(job) is State.DONE


def test_a_cancelled_job_ends_where_its_work_tells_progress_and_can_be_begun_again() -> None:
    begun, cancelled, rounds = threading.Event(), threading.Event(), []

    def work() -> None:
        rounds.append(1)
        begun.set()
        if len(rounds) == 1:
            cancelled.wait(10)
            report_progress(0.9)

    jobs = Jobs()
    job = jobs.start("slot", [("work", work)])
    assert begun.wait(10)
    job.cancel()
    cancelled.set()
    assert _wait(job) is State.CANCELLED
    assert jobs.start("slot", [("work", work)]) is job
    again = jobs.start("slot", [("work", work)], restart=True)
    assert _wait(again) is State.DONE
    assert jobs.get_job("slot") is again
    jobs.clear()
    assert jobs.get_job("slot") is None


def test_a_failed_job_says_why() -> None:
    def fail() -> None:
        raise InputError("x.json", "no trace", "a trace")

    job = Job([("work", fail)])
    job.start()
    assert _wait(job) is State.FAILED
    assert job.status.problem == "x.json: no trace; expected a trace"


def test_the_watcher_ends_the_work() -> None:
    def stop(_: float) -> None:
        raise CancelledError

    with watch(stop), pytest.raises(CancelledError):
        report_progress(0.1)
