from __future__ import annotations

import functools
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphviz_dash.errors import InputError, WorkerError
from graphviz_dash.ingest.byte_stream import ByteStream
from graphviz_dash.ingest.cache import TraceCache, open_trace
from graphviz_dash.ingest.kineto import reader, workers
from graphviz_dash.ingest.kineto.columns import SCHEMAS
from graphviz_dash.ingest.kineto.reader import read_trace
from graphviz_dash.ingest.limits import Limits
from graphviz_dash.ingest.processes import PROCESSES_VARIABLE
from graphviz_dash.model.trace import Trace
from graphviz_dash.progress import watch
from tests.builders import TraceBuilder
from tests.ingest.kineto.raw_events import read_raw_event

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even small traces are worth several processes, and come in many pieces."""
    monkeypatch.delenv(PROCESSES_VARIABLE)
    monkeypatch.setattr(workers, "MIN_PARALLEL_BYTES", 0)
    monkeypatch.setattr(reader, "ByteStream", functools.partial(ByteStream, chunk_bytes=2_000))


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[subprocess.Popen[bytes]]]:
    """The processes that are started; all must have ended in the end."""
    seen: list[subprocess.Popen[bytes]] = []
    real = subprocess.Popen

    def noting(*args: Any, **options: Any) -> subprocess.Popen[bytes]:
        process: subprocess.Popen[bytes] = real(*args, **options)
        seen.append(process)
        return process

    monkeypatch.setattr(workers.subprocess, "Popen", noting)
    yield seen
    assert all(process.returncode is not None for process in seen)


def mixed(slices: int, **options: Any) -> TraceBuilder:
    """Operators with shapes, Python frames, launches and kernels with repeated names, some
    concurrent."""
    trace = TraceBuilder(record_shapes=True, with_stack=True, **options)
    for index in range(slices):
        at = index // 2 * 2_000
        trace.op(
            f"aten::op{index % 7}", at, 900 + index % 3, dims=[[index % 5, 2]], types=["float"]
        )
        trace.frame(f"model.py({index % 11}): forward", at, 950)
        correlation = trace.runtime("cudaLaunchKernel", at + 10, 5)
        trace.kernel(f"kernel<{index % 13}>", at + 100, 50, correlation=correlation)
        trace.annotation(f"step {index}", at, 1_000)
    return trace


def assert_same(one: Trace, other: Trace) -> None:
    assert one.info == other.info
    assert one.offsets is not None
    assert other.offsets is not None
    for name in SCHEMAS:
        assert getattr(one, name).equals(getattr(other, name)), name
        assert one.offsets.rows[name].equals(other.offsets.rows[name]), name


def taken(path: Path, processes: int, limits: Limits | None = None) -> Trace | str:
    try:
        return read_trace(path, limits or Limits(), processes=processes)
    except InputError as error:
        return str(error)


@settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    slices=st.integers(1, 60),
    chunk=st.integers(50, 20_000),
    processes=st.integers(2, 4),
    indent=st.sampled_from([None, 1]),
    whole=st.booleans(),
    base=st.booleans(),
    unusable=st.booleans(),
)
def test_any_chunks_and_any_number_of_processes_give_the_same_tables(
    slices: int,
    chunk: int,
    processes: int,
    indent: int | None,
    whole: bool,
    base: bool,
    unusable: bool,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.json"
    options = {} if base else {"base_ns": None, "offset_ns": 1_790_857_026_000_000_009}
    trace = mixed(slices, indent=indent, whole_microseconds=whole, **options)
    if unusable:
        kernels = [at for at, text in enumerate(trace.events) if '"cat": "kernel"' in text]
        for at in kernels[1::3]:
            trace.events[at] = re.sub(r'"dur": [^,]+', '"dur": -1', trace.events[at])
    trace.write(path)
    monkeypatch.setattr(reader, "ByteStream", functools.partial(ByteStream, chunk_bytes=1 << 20))
    alone = read_trace(path, processes=1)
    monkeypatch.setattr(reader, "ByteStream", functools.partial(ByteStream, chunk_bytes=chunk))
    assert_same(alone, read_trace(path, processes=1))
    assert_same(alone, read_trace(path, processes=processes))


def test_workers_have_part_of_it_and_each_row_leads_to_its_event(
    tmp_path: Path, started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    handed = []
    real = workers.Workers.send_piece

    def noting(self: workers.Workers, piece: memoryview) -> int | None:
        handed.append(real(self, piece))
        return handed[-1]

    monkeypatch.setattr(workers.Workers, "send_piece", noting)
    loaded = read_trace(mixed(400).write(tmp_path / "t.json.gz"), processes=3)
    assert len(started) == 2
    assert {0, 1} <= set(handed)
    for row in range(0, 400, 37):
        event = read_raw_event(loaded, "ops", row)
        assert event.fields["args"]["External id"] == loaded.ops["external_id"][row]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"shared memory": 0', '"shared memory": NaN'),
        ('"kernel<3>"', r'"}, {\"ph\": \"X\"}, {"'),  # looks like a cut
        ('"kernel<3>"', '"a\x01b"'),
        ('"registers per thread": 32', '"registers per thread": [{"a": 1}, {"b": 2}, {"c": 3}]'),
        ('"kernel<3>"', "7"),  # an event that cannot be one
        ('"kernel<3>"', '"x'),  # no JSON from here on
        ('"dur": 0.050', '"dur": -0.050'),
        ('"dur": 0.050', '"dur": 1790857026000000.050'),  # needs decimals
    ],
)
def test_several_processes_read_odd_text_like_one(tmp_path: Path, old: str, new: str) -> None:
    text = mixed(100).text()
    assert old in text
    path = tmp_path / "t.json"
    for place in (0, text.rindex(old)):  # everywhere, and at the end only
        path.write_text(text[:place] + text[place:].replace(old, new))
        alone, together = taken(path, 1), taken(path, 2)
        if isinstance(alone, str) or isinstance(together, str):
            assert alone == together
        else:
            assert_same(alone, together)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.999])
def test_a_cut_trace_is_read_up_to_the_cut_by_several_too(tmp_path: Path, share: float) -> None:
    whole = mixed(100).write(tmp_path / "t.json.gz").read_bytes()
    path = tmp_path / "cut.json.gz"
    path.write_bytes(whole[: int(len(whole) * share)])
    alone, together = read_trace(path, processes=1), read_trace(path, processes=2)
    assert alone.info.completeness_problems
    assert_same(alone, together)


def test_a_limit_of_events_holds_for_all_processes_together(tmp_path: Path) -> None:
    path = mixed(300).write(tmp_path / "t.json")
    found = taken(path, 3, Limits(events=700))
    assert isinstance(found, str)
    assert "more than 700 events; expected at most 700 (limit events)" in found


def test_a_worker_that_dies_is_one_clear_error(
    tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    path = mixed(2_000).write(tmp_path / "t.json")

    def end_one(share: float) -> None:
        if started:
            started[0].kill()
            started[0].wait()

    expected = r"ended by signal SIGKILL.*GRAPHVIZ_DASH_PROCESSES=1"
    with pytest.raises(WorkerError, match=expected), watch(end_one):
        read_trace(path, processes=3)


def test_an_interrupt_leaves_no_process_and_nothing_in_the_cache(
    tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    path = mixed(2_000).write(tmp_path / "t.json")
    cache = TraceCache(tmp_path / "cache")

    def interrupt(share: float) -> None:
        if started:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), watch(interrupt):
        open_trace(path, cache=cache)
    assert not list((tmp_path / "cache").glob("*"))


def test_progress_ends_when_all_is_read(tmp_path: Path) -> None:
    path = mixed(200).write(tmp_path / "t.json.gz")
    told: list[float] = []
    with watch(told.append):
        read_trace(path, processes=2)
    assert told == sorted(told)
    assert told[-1] == 1.0


SCRIPT = """
import os
print("started", flush=True)
from pathlib import Path
from graphviz_dash.ingest.kineto import workers
from graphviz_dash.ingest.kineto.reader import read_trace
workers.MIN_PARALLEL_BYTES = 0
print(read_trace(Path("t.json"), processes=3).info.events)
"""


def test_a_script_without_a_main_guard_runs_once_and_its_folder_lends_no_module(
    tmp_path: Path,
) -> None:
    """As the app, which multiprocessing's spawn would run again; and a folder of traces may hold
    whatever somebody left there."""
    events = mixed(2_000)
    events.write(tmp_path / "t.json")
    (tmp_path / "struct.py").write_text("raise SystemExit('imported from the current folder')")
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "scripts/script.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert done.stdout.split() == ["started", str(events.count)]


def test_an_interrupt_from_the_terminal_ends_all(tmp_path: Path) -> None:
    """The whole group gets it, as from Ctrl-C; the reader's pipe closes when all have ended."""
    mixed(3_000).write(tmp_path / "t.json")
    slow = "import time; from graphviz_dash.progress import watch\n"
    slow += "with watch(lambda share: time.sleep(0.05)): print"
    script = slow.join(SCRIPT.rsplit("print", 1))
    with subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        process_group=0,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        children = f"/proc/{process.pid}/task/{process.pid}/children"
        if not os.path.exists(children):
            pytest.skip("this system does not tell a process's children")
        seen: list[int] = []
        while len(seen) < 2:
            time.sleep(0.002)
            seen = [int(pid) for pid in Path(children).read_text().split()]
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=300)
    assert errors.rstrip().endswith("KeyboardInterrupt")
    # One that was just being started ends by itself, when its orders do.
    deadline = time.monotonic() + 20
    while any(os.path.exists(f"/proc/{pid}") for pid in seen):
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize(("told", "expected"), [("1", 1), ("3", 3), ("0", None), ("many", None)])
def test_the_environment_says_how_many(
    monkeypatch: pytest.MonkeyPatch, told: str, expected: int | None
) -> None:
    monkeypatch.delenv(PROCESSES_VARIABLE, raising=False)
    default = workers.get_process_count()
    assert default >= 1
    monkeypatch.setenv(PROCESSES_VARIABLE, told)
    assert workers.get_process_count() == (expected or default)
