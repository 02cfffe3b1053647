from __future__ import annotations

from pathlib import Path

import pytest

from graphviz_dash.ingest.cache import TraceCache
from graphviz_dash.ingest.kineto.reader import read_trace
from tests.builders import TraceBuilder
from tests.cli.fixtures import Invoke


class TestCache:
    def test_the_cache_is_listed_and_cleared(
        self, tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = tmp_path / "kept"
        monkeypatch.setenv("GRAPHVIZ_DASH_CACHE", str(folder))
        assert f"0 B of at most 4.00 GiB in {folder}" in invoke("cache").out
        trace = TraceBuilder()
        trace.op("aten::add", 0, 10)
        path = trace.write(tmp_path / "mine.json")
        TraceCache(folder).store("a" * 40, read_trace(path))
        assert "mine.json" in invoke("cache").out
        assert f"removed from {folder}" in invoke("cache", "--clear").out
        assert "mine.json" not in invoke("cache").out

    def test_a_cache_that_is_off_is_reported(
        self, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GRAPHVIZ_DASH_CACHE", "off")
        assert invoke("cache").out == "The cache is off\n"
