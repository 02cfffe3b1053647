"""What pages need is imported before it is needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from graphviz_dash.ui.navigation import NAMES
from graphviz_dash.ui.warm import ahead

AHEAD = """
import sys
from graphviz_dash.ui.warm import ahead
assert "graphviz_dash.ui.views.graph" not in sys.modules
thread = ahead("graph")
thread.join()
assert ahead("graph") is thread
assert "graphviz_dash.ui.views.graph" in sys.modules
assert "graphviz_dash.ui.views.launch" not in sys.modules
assert "pandas" not in sys.modules
"""
ALL = """
import sys
from graphviz_dash.ui.warm import warm_up
assert not {"pandas", "pyarrow"} & set(sys.modules)
thread = warm_up()
thread.join()
assert warm_up() is thread
print(*sys.modules)
"""


def _imported(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    return set(done.stdout.split())


def test_what_pages_need_is_imported_once_the_first_is_sent() -> None:
    found = _imported(ALL)
    assert {f"graphviz_dash.ui.views.{page}" for page in NAMES} <= found
    assert {"pandas", "pyarrow", "graphviz_dash.ui.components.routes"} <= found


def test_what_a_page_needs_is_imported_while_its_document_is_loaded() -> None:
    _imported(AHEAD)


@pytest.mark.parametrize("page", ["", "nothing", "static/js/index.js", "..", "graph/graph"])
def test_nothing_else_can_be_asked_for(page: str) -> None:
    assert ahead(page) is None
