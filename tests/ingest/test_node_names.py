from __future__ import annotations

from pathlib import Path

import pytest

from graphviz_dash.bundle.read import read_node_names
from graphviz_dash.errors import InputError
from graphviz_dash.ingest import node_names as module
from graphviz_dash.ingest.node_names import compute_graph_bytes, load_node_names
from graphviz_dash.ingest.processes import PROCESSES_VARIABLE
from tests.loops import make_server


@pytest.fixture(autouse=True)
def every_graph_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MIN_PROCESS_BYTES", 1)
    monkeypatch.delenv(PROCESSES_VARIABLE)


def test_a_process_reads_large_graphs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_server(tmp_path, sizes=(1, 2))
    assert compute_graph_bytes(run) == sum(
        file.stat().st_size for file in (run / "graphs").iterdir()
    )
    expected = read_node_names(run, ["graph-1", "graph-0"])

    def unread(*_: object) -> None:
        raise AssertionError("this process read them")

    with monkeypatch.context() as patched:
        patched.setattr(module, "read_node_names", unread)
        assert load_node_names(run, ["graph-1", "graph-0"]) == expected
        patched.setenv(PROCESSES_VARIABLE, "1")
        with pytest.raises(AssertionError, match="this process"):
            load_node_names(run, ["graph-0"])


def test_an_error_in_the_process_is_raised_here(tmp_path: Path) -> None:
    run = make_server(tmp_path, sizes=(1, 2))
    file = run / "graphs" / "graph-1.json"
    file.write_bytes(file.read_bytes().replace(b"gemm", b"mmeg"))
    with pytest.raises(InputError, match="sha256"):
        load_node_names(run, ["graph-0", "graph-1"])
