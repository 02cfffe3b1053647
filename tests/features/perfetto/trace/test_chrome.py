from __future__ import annotations

import gzip
import json
from decimal import Decimal
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from graphviz_dash.features.perfetto.trace.chrome import _encode_column, _format_us, export_chrome
from graphviz_dash.features.perfetto.trace.slices import (
    build_count_arg,
    build_number_arg,
    build_text_arg,
)
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.model.run import Experiment
from tests.builders import make_experiment


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return load_experiment(make_experiment(tmp_path_factory.mktemp("chrome") / "toy"))


def test_it_is_json_of_known_phases(toy: Experiment, tmp_path: Path) -> None:
    summary = export_chrome(toy, tmp_path / "toy.json")
    document = json.loads((tmp_path / "toy.json").read_bytes(), parse_float=Decimal)
    events = document["traceEvents"]
    phases = [event["ph"] for event in events]
    assert set(phases) == {"M", "C", "X", "s", "f"}
    assert phases.count("X") == summary.slices
    assert phases.count("C") == summary.counters
    assert phases.count("s") == phases.count("f") == summary.flows
    assert len({event["pid"] for event in events}) == len(summary.runs)
    slices = [event for event in events if event["ph"] == "X"]
    assert all(-event["ts"].as_tuple().exponent == 3 for event in slices)  # nanoseconds
    lengths = sorted(int(event["dur"] * 1000) for event in slices if event["cat"] == "kernel")
    tables = [run.replay_trace.gpu for run in toy.runs if run.replay_trace]
    kernels = [table.filter(table["kind"] == "kernel")["dur"].to_list() for table in tables]
    assert lengths == sorted(length for own in kernels for length in own)


def test_compressed_it_is_the_same(toy: Experiment, tmp_path: Path) -> None:
    export_chrome(toy, tmp_path / "a.json")
    export_chrome(toy, tmp_path / "a.json.gz")
    assert gzip.decompress((tmp_path / "a.json.gz").read_bytes()) == (
        (tmp_path / "a.json").read_bytes()
    )


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0.000"),
        (999, "0.999"),
        (1_000, "1.000"),
        (1 << 61, f"{(1 << 61) // 1000}.{(1 << 61) % 1000:03d}"),
    ],
)
def test_times_are_decimal_microseconds(ns: int, text: str) -> None:
    assert _format_us(ns) == text


def test_arguments_as_json() -> None:
    rows = np.arange(3)
    counts = build_count_arg("id", pl.Series([None, 5, (1 << 64) - 1], dtype=pl.UInt64))
    # Readers keep numbers as floats: what they would round is text.
    assert _encode_column(counts, [], rows) == ["", '"id":5', f'"id":"{(1 << 64) - 1}"']
    numbers = build_number_arg("confidence", np.array([0.5, np.nan, 1.0]))
    assert _encode_column(numbers, [], rows) == ['"confidence":0.5', "", '"confidence":1.0']
    texts = build_text_arg("op", np.array([-1, 0, 0]), ["a"])
    assert _encode_column(texts, ['"a"'], rows) == ["", '"op":"a"', '"op":"a"']
