from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from graphviz_dash.ingest.kineto.reader import read_trace

SCRIPT = Path(__file__).resolve().parents[3] / "benchmarks" / "ingest_vs_hta.py"


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("ingest_vs_hta", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


def test_the_made_trace_is_deterministic_and_sound(tmp_path: Path, benchmark: ModuleType) -> None:
    source = read_trace(benchmark.SAMPLE)
    (tmp_path / "again").mkdir()
    size = benchmark.json_bytes(benchmark.SAMPLE) * 3 // 2  # one copy is too little, two are enough
    first = benchmark.made_trace(tmp_path, size)
    second = benchmark.made_trace(tmp_path / "again", size)
    assert first.read_bytes() == second.read_bytes()
    assert benchmark.json_bytes(first) >= size
    made = read_trace(first)
    for table in ("gpu", "runtime", "ops", "annotations"):
        assert getattr(made, table).height == 2 * getattr(source, table).height
    assert made.gpu["correlation"].n_unique() == 2 * source.gpu["correlation"].n_unique()
    assert made.info.problems == source.info.problems == ()
