from __future__ import annotations

import gc
import importlib
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from types import BuiltinFunctionType, ModuleType, SimpleNamespace
from typing import Any

import pytest

from collectors.ledger import clock, garbage, imports

Span = tuple[str, int, int]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_slow_imports_are_timed_inner_ones_first(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ns = [1_000]
    monkeypatch.setattr(imports, "perf_counter_ns", lambda: now_ns[0])
    monkeypatch.setitem(sys.modules, "hands", SimpleNamespace(now_ns=now_ns))
    slow = f"import hands; hands.now_ns[0] += {imports.MIN_IMPORT_NS}\n"
    quick = f"import hands; hands.now_ns[0] += {imports.MIN_IMPORT_NS - 1}\n"
    (package / "slow_outer.py").write_text("import slow_inner, quick_inner\n")
    (package / "slow_inner.py").write_text(slow)
    (package / "quick_inner.py").write_text(quick)
    spans: list[Span] = []
    stop = imports.time_imports(lambda *span: spans.append(span))
    importlib.import_module("slow_outer")
    stop()
    (package / "slow_later.py").write_text(slow)
    importlib.import_module("slow_later")
    slow_ns = imports.MIN_IMPORT_NS
    assert spans == [
        ("slow_inner", 1_000, 1_000 + slow_ns),
        ("slow_outer", 1_000, 1_000 + 2 * slow_ns - 1),
    ]


def test_a_failing_import_shows_no_frame_of_the_recorder(package: Path) -> None:
    (package / "broken_module.py").write_text("1 / 0\n")
    stop = imports.time_imports(lambda *_: None)
    try:
        with pytest.raises(ZeroDivisionError) as raised:
            import broken_module  # type: ignore[import-not-found]  # noqa: F401
    finally:
        stop()
    files = [Path(frame.filename).name for frame in traceback.extract_tb(raised.tb)]
    assert files == ["test_spans.py", "broken_module.py"]


def test_only_our_own_replacement_is_taken_back() -> None:
    bootstrap: Any = importlib._bootstrap  # type: ignore[attr-defined]
    original = bootstrap._load_unlocked
    stop = imports.time_imports(lambda *_: None)
    ours = bootstrap._load_unlocked

    def another(spec: Any) -> Any:
        return ours(spec)

    bootstrap._load_unlocked = another
    stop()
    assert bootstrap._load_unlocked is another
    bootstrap._load_unlocked = original


def test_collections_are_timed_until_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage, "has_signal_handler", lambda: False)  # as of pytest-timeout
    monkeypatch.setattr(garbage, "MIN_COLLECTION_NS", 0)
    spans: list[Span] = []
    before = list(gc.callbacks)
    stop = garbage.time_collections(lambda *span: spans.append(span))
    gc.collect(1)
    stop()
    stop()
    gc.collect()
    assert [name for name, _, _ in spans] == ["generation 1"]
    assert all(begin < end for _, begin, end in spans)
    assert gc.callbacks == before


def test_a_program_that_handles_a_signal_ends_the_timing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler that runs within the callback cannot raise."""
    monkeypatch.setattr(garbage, "MIN_COLLECTION_NS", 0)
    usual = signal.getsignal(signal.SIGALRM)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    spans: list[Span] = []
    calls: list[str] = []
    before = list(gc.callbacks)
    try:
        stop = garbage.time_collections(lambda *span: spans.append(span))
        assert len(gc.callbacks) == len(before) + 1
        gc.callbacks.append(lambda phase, _: calls.append(phase))
        signal.signal(signal.SIGALRM, lambda *_: None)
        gc.collect()
        gc.collect()
        assert calls == ["start", "stop"] * 2
        assert spans == []
        gc.callbacks.pop()
        assert isinstance(gc.callbacks[-1], BuiltinFunctionType)
        stop()
        garbage.time_collections(lambda *span: spans.append(span))
        assert gc.callbacks == before
    finally:
        signal.signal(signal.SIGALRM, usual)


def test_a_collection_before_a_capture_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage, "MIN_COLLECTION_NS", 0)
    monkeypatch.setattr(garbage, "has_signal_handler", lambda: False)
    spans: list[Span] = []
    enter: dict[str, Any] = {}
    code = "import gc\ndef __enter__(): gc.collect()\n"
    exec(compile(code, "/lib/torch/cuda/graphs.py", "exec"), enter)
    stop = garbage.time_collections(lambda *span: spans.append(span))
    enter["__enter__"]()
    stop()
    assert [name for name, _, _ in spans] == [garbage.BEFORE_CAPTURE]


def test_a_process_knows_its_start() -> None:
    now = time.perf_counter_ns()
    start = clock.read_process_start()
    assert now - start > 0
    # Linux counts in ticks of 10 ms since the boot; pytest takes longer than a tick to come here.
    with Path("/proc/uptime").open() as file:
        assert now - start < float(file.read().split()[0]) * 1e9


def test_times_of_another_process_are_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    assert clock.read_birth() is None
    monkeypatch.setattr(sys, clock.BIRTH, (os.getpid(), 1, 2, 3), raising=False)
    assert clock.read_birth() == clock.Birth(os.getpid(), 1, 2, 3)
    monkeypatch.setattr(sys, clock.BIRTH, (os.getpid() + 1, 1, 2, 3), raising=False)
    assert clock.read_birth() is None


def test_modules_of_no_interest_stay_as_they_are(package: Path) -> None:
    (package / "plain_module.py").write_text("def function(): return 1\n")
    stop = imports.time_imports(lambda *_: None)
    module: ModuleType = importlib.import_module("plain_module")
    stop()
    assert module.function() == 1
    assert module.__spec__ is not None
    assert module.__spec__.loader is not None
