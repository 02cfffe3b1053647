from __future__ import annotations

import subprocess
import sys

import pytest

from graphviz_dash.app.hosting.preload import preload
from graphviz_dash.ui.page.registry import PAGES

HALVES = """
import sys
import threading
import time
from importlib import import_module
from importlib.abc import MetaPathFinder

import plotly.graph_objects as go


class Slow(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "pandas.core.api":  # by which pandas itself comes to have its tables
            begun.set()
            time.sleep(1)


begun = threading.Event()
sys.meta_path.insert(0, Slow())
threading.Thread(target=import_module, args=("pandas",)).start()
begun.wait()
assert not hasattr(sys.modules["pandas"], "Series")
import_module(sys.argv[1])
go.Figure(go.Scatter(x=(1, 2), y=(3, 4)))
"""
AHEAD = """
import sys
from graphviz_dash.app.hosting.preload import preload, preload_all
assert not {"pandas", "pyarrow"} & set(sys.modules)
assert "graphviz_dash.app.report.page" not in sys.modules
thread = preload("export")
thread.join()
assert preload("export") is thread
assert "graphviz_dash.app.report.page" in sys.modules
assert "graphviz_dash.features.launch.page.page" not in sys.modules
assert not {"pandas", "pyarrow"} & set(sys.modules)
thread = preload_all()
thread.join()
assert preload_all() is thread
print(*sys.modules)
"""


def test_a_page_is_imported_while_its_document_is_loaded_and_all_once_the_first_is_sent() -> None:
    done = subprocess.run(
        [sys.executable, "-c", AHEAD], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    found = set(done.stdout.split())
    assert {f"graphviz_dash.{page.module}" for page in PAGES.values()} <= found
    assert {"pandas", "pyarrow", "graphviz_dash.app.hosting.component_routes"} <= found
    # 7 MB for those who ask for such a file.
    assert not any(name.startswith("perfetto.protos") for name in found)


def drawn_by_halves(imported: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", HALVES, imported]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_a_chart_is_drawn_while_another_thread_imports_pandas() -> None:
    # What Plotly does by itself, which shows that the case is the one that is meant.
    assert "no attribute 'Series'" in drawn_by_halves("graphviz_dash.charts.shades").stderr
    done = drawn_by_halves("graphviz_dash.charts.figures.theme")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", ["", "nothing", "static/js/index.js", "..", "graph/graph"])
def test_nothing_else_can_be_asked_for(page: str) -> None:
    assert preload(page) is None
