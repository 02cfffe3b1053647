"""Worker processes that decode pieces of one trace in parallel.

Started as ``python -m``, because a fork can deadlock with the threads of Polars, and
multiprocessing's spawn runs the app again. They share an unnamed file, so nothing remains.
"""

from __future__ import annotations

import mmap
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import IO, Final

import msgspec
import numpy as np

from graphviz_dash.errors import WorkerError, escape_control_characters
from graphviz_dash.ingest.kineto import worker
from graphviz_dash.ingest.kineto.column_blocks import Block
from graphviz_dash.ingest.kineto.columns import EventColumns
from graphviz_dash.ingest.kineto.table_columns import TableColumns
from graphviz_dash.ingest.kineto.worker import (
    LENGTH,
    ORDER,
    REPLY,
    BlockResult,
    Result,
    TableResult,
)
from graphviz_dash.ingest.processes import PROCESSES_VARIABLE, get_module_path

MIN_PARALLEL_BYTES: Final = 24 << 20
"""Minimum JSON that justifies workers, which start in 0.2 s."""

_MAX_PROCESSES: Final = 6  # one process splits as fast as about five decode
_SLOTS: Final = 8  # keeps a worker busy while this process decodes a piece
_SLOT_BYTES: Final = 1 << 20
_ENVIRONMENT: Final = {"OPENBLAS_NUM_THREADS": "1"}
"""Disables numpy's threads, which busy-wait and are not needed."""

_POSIX: Final = os.name == "posix"


class DeclinedError(Exception):
    """A worker declined a piece, so one process must read the file, or any number with exact times
    if ``inexact``."""

    def __init__(self, *, inexact: bool) -> None:
        super().__init__()
        self.inexact = inexact


def get_process_count() -> int:
    """Return the number of processes for reading a large trace, including this one."""
    setting = os.environ.get(PROCESSES_VARIABLE, "")
    if setting.isdecimal() and int(setting):
        return int(setting)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(cores or 1, _MAX_PROCESSES)


class Workers:
    """``count`` worker processes, or none if they cannot be started. Must be closed."""

    def __init__(self, path: Path, count: int, *, exact: bool) -> None:
        self.path = path
        self.events = 0  # of completed pieces
        self._workers: list[_Worker] = []
        if not _POSIX:  # file descriptors cannot be inherited
            return
        try:
            for _ in range(count):
                self._workers.append(_Worker(path, exact))
        except OSError:
            self.close()

    def __len__(self) -> int:
        return len(self._workers)

    def send_piece(self, piece: memoryview) -> int | None:
        """Pass ``piece``, elements with separators, to a worker.

        Returns the number of the worker, or None if all are busy.

        Raises:
            DeclinedError: An earlier piece was declined.
            WorkerError: A worker has ended.
        """
        if len(piece) + 2 > _SLOT_BYTES:
            return None
        self._receive_answers(0)
        for number, member in enumerate(self._workers):
            if member.free:
                member.send_piece(piece)
                return number
        return None

    def wait_for_pieces(self) -> None:
        """Wait until all pieces are processed. Raises as :meth:`send_piece`."""
        while any(member.busy for member in self._workers):
            self._receive_answers(None)

    def finish(self) -> list[tuple[EventColumns, dict[str, int]]]:
        """Return the columns of each worker and its invalid arguments by name. Raises as
        :meth:`send_piece`."""
        self.wait_for_pieces()
        for member in self._workers:
            member.send_order(-1, 0)
        return [member.receive_result() for member in self._workers]

    def close(self) -> None:
        """Kill the workers."""
        for member in self._workers:
            member.close()
        self._workers.clear()

    def _receive_answers(self, seconds: float | None) -> None:
        busy = [member for member in self._workers if member.busy]
        ready, _, _ = select.select([member.answers for member in busy], [], [], seconds)
        for member in busy:
            if member.answers in ready:
                self.events += member.receive_answer()


class _Worker:
    def __init__(self, path: Path, exact: bool) -> None:
        self.path = path
        self.free = list(range(_SLOTS))
        self.busy: list[int] = []
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # closed by close
        self._fd = _create_shared_file(_SLOTS * _SLOT_BYTES)
        self._memory = mmap.mmap(self._fd, _SLOTS * _SLOT_BYTES)
        numbers = (self._fd, _SLOT_BYTES, _SLOTS, int(exact))
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", worker.__name__, *map(str, numbers)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            bufsize=0,  # select does not see buffered data
            pass_fds=(self._fd,),
            env=os.environ | _ENVIRONMENT | {"PYTHONPATH": os.pathsep.join(get_module_path())},
            process_group=0,  # this process handles interrupts from the terminal
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._orders = self._process.stdin
        self.answers = self._process.stdout

    def send_piece(self, piece: memoryview) -> None:
        slot = self.free.pop()
        start = slot * _SLOT_BYTES
        end = start + len(piece) + 1
        self._memory[start : start + 1] = b"["
        self._memory[start + 1 : end] = piece
        self._memory[end : end + 1] = b"]"
        self.busy.append(slot)
        self.send_order(slot, len(piece) + 2)

    def send_order(self, slot: int, length: int) -> None:
        try:
            self._orders.write(ORDER.pack(slot, length))
        except BrokenPipeError as error:
            raise self._build_exit_error() from error

    def receive_answer(self) -> int:
        """Receive the number of events of the oldest pending piece."""
        status, events = REPLY.unpack(self._read(REPLY.size))
        self.free.append(self.busy.pop(0))
        if status != worker.ADDED:
            raise DeclinedError(inexact=status == worker.INEXACT)
        return int(events)

    def receive_result(self) -> tuple[EventColumns, dict[str, int]]:
        (length,) = LENGTH.unpack(self._read(LENGTH.size))
        result = msgspec.msgpack.decode(self._read(length), type=Result)
        columns = EventColumns(self.path, exact=False)
        columns.events = result.events
        columns.skipped = Counter(result.skipped)
        columns.unusable = Counter(result.unusable)
        size = os.fstat(self._fd).st_size
        memory = mmap.mmap(self._fd, size, access=mmap.ACCESS_READ)
        for name, table in columns.tables.items():
            _fill_table(table, result.tables[name], memory)
        return columns, result.unreadable

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._orders.close()
        self.answers.close()
        self._errors.close()
        self._memory.close()
        os.close(self._fd)

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            chunk = self.answers.read(size - len(data))
            if not chunk:
                raise self._build_exit_error()
            data += chunk
        return bytes(data)

    def _build_exit_error(self) -> WorkerError:
        code = self._process.wait()
        self._errors.seek(0)
        last_line = self._errors.read().decode("utf-8", "replace").strip().rpartition("\n")[2]
        cause = f"by signal {_format_signal(-code)}" if code < 0 else f"with exit code {code}"
        message = f" ({escape_control_characters(last_line[:200])})" if last_line else ""
        return WorkerError(
            f"{self.path}: a process reading it ended {cause}{message}. If memory ran out, set "
            f"{PROCESSES_VARIABLE}=1 in the environment to read with one process, which needs "
            "less."
        )


def _create_shared_file(size: int) -> int:
    """Create an unnamed file in memory, or else a temporary file."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("graphviz-dash")
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    os.ftruncate(fd, size)
    return fd


def _format_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def _fill_table(table: TableColumns, result: TableResult, memory: mmap.mmap) -> None:
    table.rows = result.rows
    table.whole_microseconds = result.whole_microseconds
    table.names.encode(result.names)
    table.texts.encode(result.texts)
    for column, blocks in result.columns.items():
        table.blocks[column] = [_load_block(block, memory) for block in blocks]


def _load_block(result: BlockResult, memory: mmap.mmap) -> Block:
    if not result.width:
        return Block(result.rows, result.base, None, result.gaps)
    # Blocks of 8 bytes per row contain the numbers themselves, which may be negative.
    kind = np.dtype(np.int64 if result.width == 8 else f"u{result.width}")
    position = _SLOTS * _SLOT_BYTES + result.offset
    return Block(
        result.rows, result.base, np.frombuffer(memory, kind, result.rows, position), result.gaps
    )
