from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from collectors.process.fork_server import ForkServer
from collectors.process.lifeline import PARENT
from collectors.process.subprocesses import WorkerLimit
from tests.processes import get_state

WORKER = """
import os, signal, sys
from collectors.process.fork_server import serve_forks
from collectors.process.lifeline import exit_with_parent
exit_with_parent()
made_once = object()
arguments = serve_forks(int(sys.argv[2]))
if arguments is None:
    sys.exit(0)
exit_with_parent()
what, *rest = arguments
if what == "ids":
    print(os.getpid(), os.getppid(), id(made_once), file=sys.stderr)
if what == "argv":
    print(*sys.argv[1:], file=sys.stderr)
if what == "raise":
    raise ValueError(rest[0])
if what == "signal":
    os.kill(os.getpid(), signal.SIGSEGV)
if what == "print":
    sys.stderr.write("x" * int(rest[0]))
if what == "hang":
    open(rest[0], "w").write(str(os.getpid()))
    while True:
        signal.pause()
sys.exit(int(rest[0]) if what == "exit" else 0)
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks are served on Linux only")


class InterruptedByUserError(Exception):
    """Ctrl-C while a pass runs."""


@pytest.fixture
def server() -> Iterator[ForkServer]:
    made = ForkServer((sys.executable, "-c", WORKER), os.environ | {PARENT: str(os.getpid())})
    yield made
    made.close()


def run(server: ForkServer, *arguments: str, limit: WorkerLimit | None = None) -> tuple[int, str]:
    done = server.run(arguments, limit or WorkerLimit(None))
    assert done is not None
    return done.returncode, done.stderr


def test_each_pass_is_a_process_of_its_own_of_one_parent(server: ForkServer) -> None:
    lines = [run(server, "ids")[1].split() for _ in range(3)]
    processes, parents, objects = ({line[column] for line in lines} for column in range(3))
    assert len(processes) == 3
    assert len(parents) == len(objects) == 1
    assert parents.isdisjoint(processes)


def test_code_in_a_fork_sees_the_arguments_of_its_own_process(server: ForkServer) -> None:
    assert run(server, "argv", "request.json") == (0, "argv request.json\n")


def test_it_ends_as_it_would_by_itself(server: ForkServer) -> None:
    assert run(server, "exit", "3") == (3, "")
    code, text = run(server, "raise", "no such thing")
    assert (code, text.splitlines()[-1]) == (1, "ValueError: no such thing")
    assert run(server, "signal")[0] == -signal.SIGSEGV
    # More than a pipe holds.
    assert run(server, "print", "300000") == (0, "x" * 300_000)


def test_a_pass_is_killed_at_its_limit_and_the_next_runs(
    server: ForkServer, tmp_path: Path
) -> None:
    limit = WorkerLimit(None, lambda: "a rank failed" if (tmp_path / "pid").exists() else None, 0.0)
    assert run(server, "hang", str(tmp_path / "pid"), limit=limit)[0] == -signal.SIGKILL
    assert limit.reason is not None
    assert run(server, "exit", "0") == (0, "")


def test_a_pass_that_ended_just_before_its_limit_is_not_killed_again(
    server: ForkServer, tmp_path: Path
) -> None:
    file = tmp_path / "pid"

    def ended() -> str | None:
        if not file.exists() or not (text := file.read_text()):
            return None
        with suppress(ProcessLookupError):
            os.kill(int(text), signal.SIGKILL)
        # It keeps its number, which another process could have got.
        while get_state(int(text)) != "Z":
            os.sched_yield()
        return "a rank failed"

    assert (
        run(server, "hang", str(file), limit=WorkerLimit(None, ended, -1.0))[0] == -signal.SIGKILL
    )


def test_a_server_that_is_gone_is_reported(server: ForkServer) -> None:
    parent = int(run(server, "ids")[1].split()[1])
    os.kill(parent, signal.SIGKILL)
    assert server.run(("exit", "0"), WorkerLimit(None)) is None


def test_a_server_that_cannot_start_is_reported() -> None:
    server = ForkServer((sys.executable, "-c", "raise SystemExit(1)"), os.environ)
    assert server.run(("exit", "0"), WorkerLimit(None)) is None
    server.close()


def test_nothing_outlives_the_server(server: ForkServer, tmp_path: Path) -> None:
    file = tmp_path / "pid"

    def interrupt() -> None:
        if file.exists() and file.read_text():
            raise InterruptedByUserError

    with pytest.raises(InterruptedByUserError):
        run(server, "hang", str(file), limit=WorkerLimit(None, interrupt))
    server.close()
    pid = int(file.read_text())
    deadline = time.monotonic() + 30
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
