from __future__ import annotations

import gc
import signal
from types import BuiltinFunctionType
from typing import Any

import pytest

from collectors.ledger import garbage

Span = tuple[str, int, int]


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
