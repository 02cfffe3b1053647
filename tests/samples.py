"""The shipped samples as compared, each once in a process: nobody changes what is made of them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from graphviz_dash.analysis.comparison.compare import compare
from graphviz_dash.analysis.comparison.result import Comparison
from graphviz_dash.ingest.load import load_experiment

SAMPLES: Final = Path(__file__).resolve().parents[1] / "sample_traces"


@cache
def compared_sample(name: str) -> Comparison:
    """The comparison of the sample experiment of that name."""
    return compare(load_experiment(SAMPLES / name))
