"""Each read, file-system change and allocation after the program's end fails in turn: the exit code
remains, and no partial bundle does."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from collectors.program import command as recording
from collectors.program.launcher import ProgramExit, PythonProcess
from collectors.replays import command as marking
from collectors.replays import marks_file
from collectors.replays.marks_file import BYTES, MarksFile
from collectors.replays.monitor import ReplayMonitor
from graphviz_dash.bundle.read import read_bundle
from graphviz_dash.errors import InputError
from graphviz_dash.ingest.load import load_run
from tests.analysis.frames import ENVIRONMENT
from tests.collectors.program.recorded import CAPTURE, PATH
from tests.collectors.replays.test_monitor import Program
from tests.faults import (
    Countdown,
    each_in_turn,
    failing_allocation,
    failing_change,
    failing_read,
    files_of_at_most,
)

Failing = Callable[[int], AbstractContextManager[Countdown]]
PROGRAM = (sys.executable, "train.py")
EXIT_CODE = 5
FAULTS = pytest.mark.parametrize(
    ("failing", "every"),
    [(failing_read, 1), (failing_change, 1), (failing_allocation, 3)],
    ids=["read", "change", "memory"],
)


@dataclass
class Ended:
    """A program that has ended; faults begin then."""

    leave: Callable[[Path], ProgramExit]
    """Write the files of the program into the scratch folder."""
    stack: ExitStack
    failing: AbstractContextManager[Countdown] | None = None
    fails: Countdown | None = None

    def __call__(self, _: object, hook: str, settings: str, scratch: Path) -> ProgramExit:
        ended = self.leave(scratch)
        if self.failing is not None:
            self.fails = self.stack.enter_context(self.failing)
        return ended


def fail_each(
    ended: Ended, failing: Failing, act: Callable[[], object], every: int
) -> Iterator[object]:
    """Run ``act`` with each fault after the program's end."""
    for number in itertools.count(1, every):
        ended.failing = failing(number)
        outcome = act()
        ended.stack.close()
        assert ended.fails is not None
        if not ended.fails.over:
            return
        yield outcome


def check_outcomes(
    folder: Path,
    ended: Ended,
    failing: Failing,
    every: int,
    act: Callable[[Path], tuple[object, int]],
) -> None:
    numbers = itertools.count()

    def act_in_new_folder() -> tuple[Path, object, int]:
        output = folder / f"out-{next(numbers)}"
        written, code = act(output)
        ended.stack.close()
        return output, written, code

    output, written, code = act_in_new_folder()
    assert (bool(written), code) == (True, EXIT_CODE)
    failures = 0
    for outcome in fail_each(ended, failing, act_in_new_folder, every):
        output, written, code = outcome  # type: ignore[misc]
        assert code == EXIT_CODE
        visible = [path for path in output.iterdir() if not path.name.startswith(".")]
        assert len(visible) >= bool(written)
        for path in visible:
            read_bundle(path)
        failures += not written
    assert failures > 3


def leave_marks(scratch: Path) -> ProgramExit:
    program = Program(scratch)
    number = program.capture()
    program.replay(number, 1)
    program.replay(number, 2, nodes=2)
    program.end("CUDA_ERROR_ILLEGAL_ADDRESS")
    program.marks.close()
    return ProgramExit(EXIT_CODE, (PythonProcess(7, "python", True, None),), 7)


@FAULTS
def test_the_exit_code_of_a_marked_program_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: Failing, every: int
) -> None:
    ended = Ended(leave_marks, ExitStack())
    monkeypatch.setattr(marking, "run_program", ended)
    monkeypatch.setattr(marking, "require_hook", lambda *_: None)
    monkeypatch.setattr(marking, "read_machine_environment", lambda _: ENVIRONMENT)
    monkeypatch.setattr(ReplayMonitor, "start", lambda _: None)

    def mark(output: Path) -> tuple[object, int]:
        request = marking.MarksRequest(PROGRAM, output, "marked", 30.0, False, True, PROGRAM)
        return marking.mark_program(request, lambda _: None, str)

    check_outcomes(tmp_path, ended, failing, every, mark)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ProgramExit]:
    """Files of a recorded program, and its end."""
    folder = tmp_path_factory.mktemp("recorded")
    loop = f"g = captured()\nfor i in range(40):\n    g.replay()\nraise SystemExit({EXIT_CODE})\n"
    (folder / "train.py").write_text(CAPTURE + loop)
    real = recording.run_program
    ends: list[ProgramExit] = []

    def keep(command: object, hook: str, settings: str, scratch: Path) -> ProgramExit:
        ends.append(real(command, hook, settings, scratch))  # type: ignore[arg-type]
        shutil.copytree(scratch, folder / "scratch")
        return ends[0]

    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        for name, value in PATH.items():
            patched.setenv(name, value)
        patched.setattr(recording, "run_program", keep)
        written, code = record(folder / "out")
    assert (len(written), code) == (1, EXIT_CODE)
    return folder / "scratch", ends[0]


def record(output: Path) -> tuple[tuple[Path, ...], int]:
    request = recording.RecordingRequest(
        PROGRAM, output, "recorded", 5, 4, 100, None, 0.3, False, PROGRAM
    )
    return recording.record_program(request, lambda _: None)


@FAULTS
def test_the_exit_code_of_a_recorded_program_is_kept(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    recorded: tuple[Path, ProgramExit],
    failing: Failing,
    every: int,
) -> None:
    source, end = recorded

    def leave(scratch: Path) -> ProgramExit:
        shutil.copytree(source, scratch, dirs_exist_ok=True)
        return end

    ended = Ended(leave, ExitStack())
    monkeypatch.setattr(recording, "run_program", ended)
    monkeypatch.setattr(recording, "require_hook", lambda *_: None)
    check_outcomes(tmp_path, ended, failing, every, record)


def test_marks_without_room_are_refused_and_leave_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without room in shared memory, the first write would end the program by SIGBUS."""
    with files_of_at_most(BYTES // 2), pytest.raises(OSError, match="large"):
        MarksFile(tmp_path / "marks", create=True)
    assert list(tmp_path.iterdir()) == []

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    with monkeypatch.context() as patched:
        patched.setattr(marks_file.mmap, "mmap", refuse)
        with pytest.raises(OSError, match="allocate"):
            MarksFile(tmp_path / "marks", create=True)
    assert list(tmp_path.iterdir()) == []
    file = MarksFile(tmp_path / "marks", create=True)
    assert os.stat(file.path).st_blocks * 512 >= BYTES
    file.close()


@pytest.mark.parametrize("failing", [failing_read, failing_allocation])
def test_a_poll_survives_each_fault(tmp_path: Path, failing: Failing) -> None:
    leave_marks(tmp_path)
    hangs: list[object] = []

    def poll() -> list[object]:
        now = 0.0
        hangs.clear()
        monitor = ReplayMonitor(tmp_path, 5.0, hangs.extend, lambda: now)
        monitor.poll()
        now = 9.0
        monitor.poll()
        monitor.poll()
        return list(hangs)

    (hang,) = poll()
    for outcome in each_in_turn(failing, poll):
        assert outcome in ([hang], [])


@pytest.mark.parametrize(
    ("failing", "every"), [(failing_read, 1), (failing_allocation, 5)], ids=["read", "memory"]
)
def test_each_fault_while_a_replay_check_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: Failing, every: int
) -> None:
    """The check is loaded completely, with its checksum compared, or refused in one line."""
    monkeypatch.setattr(marking, "run_program", Ended(leave_marks, ExitStack()))
    monkeypatch.setattr(marking, "require_hook", lambda *_: None)
    monkeypatch.setattr(marking, "read_machine_environment", lambda _: ENVIRONMENT)
    request = marking.MarksRequest(PROGRAM, tmp_path / "out", "marked", 30.0, False, True, PROGRAM)
    path, _ = marking.mark_program(request, lambda _: None, str)
    assert path is not None

    def read() -> str:
        run = load_run(path)
        assert run.replay_check is not None
        return repr(run.replay_check)

    complete = read()
    outcomes = list(each_in_turn(failing, read, every=every))
    assert len(outcomes) > 3
    for outcome in outcomes:
        assert outcome == complete or isinstance(outcome, InputError | MemoryError)
        assert outcome == complete or "\n" not in str(outcome)
