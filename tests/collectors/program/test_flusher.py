from __future__ import annotations

import os
import signal
import threading

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
