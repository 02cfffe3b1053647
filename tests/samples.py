"""The shipped samples as compared, cached in each process and never changed."""

from __future__ import annotations

from functools import cache

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.analysis.comparison.result import Comparison
from graphviz_dash.ingest.load import load_experiment
from tests.samples_once import SAMPLES


@cache
def compared_sample(name: str) -> Comparison:
    return compare_runs(load_experiment(SAMPLES / name))
