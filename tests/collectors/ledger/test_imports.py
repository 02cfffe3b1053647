from __future__ import annotations

import importlib
import sys
import traceback
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from collectors.ledger import imports

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
    assert files == ["test_imports.py", "broken_module.py"]


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


def test_modules_of_no_interest_stay_as_they_are(package: Path) -> None:
    (package / "plain_module.py").write_text("def function(): return 1\n")
    stop = imports.time_imports(lambda *_: None)
    module: ModuleType = importlib.import_module("plain_module")
    stop()
    assert module.function() == 1
    assert module.__spec__ is not None
    assert module.__spec__.loader is not None
