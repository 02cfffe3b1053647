from __future__ import annotations

from pathlib import Path

from graphviz_dash.analysis.ranks.ranks import ModeRanks, compare_ranks
from graphviz_dash.ingest.load import load_experiment
from tests.ranks import Truth, make_ranks


def measured(folder: Path, truth: Truth, mode: str = "graph") -> ModeRanks:
    make_ranks(folder, mode, truth)
    (found,) = compare_ranks(load_experiment(folder))
    return found
