from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from graphviz_dash.bundle.read import read_bundle
from graphviz_dash.model.graph import CapturedGraph


@pytest.fixture
def all_nodes(roots: Path) -> CapturedGraph:
    """The recorded experiment with every kind of node, and the body of its While."""
    source = Path(__file__).parents[3] / "sample_traces" / "all-nodes"
    shutil.copytree(source, roots / "all-nodes")
    graphs = read_bundle(source / "graph").graphs
    return next(graph for graph in graphs if [node.label for node in graph.nodes][:1] == ["relax"])
