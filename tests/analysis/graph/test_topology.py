from __future__ import annotations

import numpy as np

from graphviz_dash.analysis.graph.topology import find_visible_edges
from tests.analysis.forks import FORK


def test_edges_are_drawn_through_what_is_not_seen() -> None:
    seen = np.array([True, True, True, False, True])
    assert find_visible_edges(FORK, seen).tolist() == [[0, 1], [0, 2], [1, 4], [2, 4]]
