from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from collectors.program.flusher import Flusher


def test_it_writes_until_it_is_stopped() -> None:
    written = threading.Event()
    flusher = Flusher(written.set, 0.001)
    flusher.start()
    assert written.wait(60)
    flusher.stop()
    written.clear()
    assert not written.wait(0.01)


def test_one_that_never_began_can_be_stopped() -> None:
    Flusher(lambda: None, 0.001).stop()


def test_it_is_none_of_threadings_and_takes_no_signals() -> None:
    seen: list[tuple[int, set[int]]] = []
    written = threading.Event()

    def write() -> None:
        seen.append((threading.get_ident(), set(signal.pthread_sigmask(signal.SIG_BLOCK, []))))
        written.set()

    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    flusher = Flusher(write, 0.001)
    flusher.start()
    assert written.wait(60)
    flusher.stop()
    ident, blocked = seen[0]
    assert ident not in [thread.ident for thread in threading.enumerate()]
    assert {signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD} <= blocked
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before


def test_a_fork_leaves_it_behind() -> None:
    flusher = Flusher(lambda: None, 60)
    flusher.start()
    if not (child := os.fork()):
        os._exit(len(os.listdir("/proc/self/task")))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    flusher.stop()


FORK = """
import os, sys, threading
from collectors.program.flusher import Flusher, pause_before_fork, resume_after_fork

def count():
    return len(os.listdir("/proc/self/task"))

at_fork = []
# Called after the recorder's.
os.register_at_fork(before=lambda: at_fork.append(count()))
os.register_at_fork(before=pause_before_fork, after_in_parent=resume_after_fork)
writes = threading.Event()
busy = threading.Event()

def write():
    writes.set()
    if sys.argv[1] == "busy":
        busy.wait(60)

flushers = [Flusher(write, 0.001), Flusher(lambda: None, 60)]
for flusher in flushers:
    flusher.start()
writes.wait(60)
end = threading.Event()
if sys.argv[1] == "threads":
    threading.Thread(target=end.wait, daemon=True).start()
if not (child := os.fork()):
    os._exit(0)
os.waitpid(child, 0)
busy.set()
for _ in range(3):
    writes.clear()
    assert writes.wait(60)
print(at_fork, count())
for flusher in flushers:
    flusher.stop()
"""


@pytest.mark.parametrize(
    ("program", "output"), [("alone", "[1] 3"), ("threads", "[4] 4"), ("busy", "[2] 3")]
)
def test_threads_stop_for_a_fork_unless_the_program_has_others(program: str, output: str) -> None:
    """A thread that is busy for long delays no fork."""
    command = [sys.executable, "-c", FORK, program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.strip() == output, done.stderr
    # Python 3.12 and newer warn about the other programs.
    assert program != "alone" or not done.stderr


def test_a_wait_runs_no_function_of_python() -> None:
    """Each one would delay the program when its caches are cold."""
    calls: list[str] = []
    written = threading.Event()
    count = 0

    def write() -> None:
        nonlocal count
        count += 1
        if count == 1:
            sys.setprofile(lambda frame, event, _: calls.append(frame.f_code.co_name))
        elif count == 5:
            sys.setprofile(None)
            written.set()

    flusher = Flusher(write, 0.001)
    flusher.start()
    assert written.wait(60)
    flusher.stop()
    assert set(calls) <= {"write", "_run"}


def test_a_thread_that_resumes_during_a_write_continues() -> None:
    writing, busy, written = threading.Event(), threading.Event(), threading.Event()

    def write() -> None:
        writing.set()
        busy.wait(60)
        written.set()

    flusher = Flusher(write, 0.001)
    flusher.start()
    assert writing.wait(60)
    flusher.pause()
    flusher.resume()
    busy.set()
    for _ in range(3):
        written.clear()
        assert written.wait(60)
    flusher.stop()
    assert not flusher.is_running
