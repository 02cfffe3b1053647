from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from streamlit.runtime.app_session import AppSession

import graphviz_dash
from graphviz_dash.app.hosting.browser_address import patch_sessions
from graphviz_dash.app.hosting.switch import apply_patch
from tests.attack.visitor import Visitor
from tests.processes import bind, find_free_port, stop
from tests.serving import ROOT, wait_for_server

RENAMING = Path(__file__).with_name("renaming")
PACKAGE = Path(graphviz_dash.__file__).parent
NAMES = (
    "SafeSessionState",
    "SessionState",
    "_lock",
    "_yield_callback",
    "AppSession",
    "request_rerun",
    "_enqueue_forward_msg",
    "query_string",
    "is_history_navigation",
    "page_info_changed",
    "get_script_run_ctx",
    "page_script_hash",
    "pages_manager",
    "intended_page_script_hash",
)
MESSAGES = ("ClientState", "ForwardMsg")
"""Names of messages, which serialized descriptors repeat in many forms."""
PUBLIC = ("Runtime",)
"""Names that Streamlit exports in streamlit.runtime."""
UNREPORTED = {"get_script_run_ctx", "pages_manager", "intended_page_script_hash"}
"""Names without which a run does not know its page. Nothing is reported."""


def test_every_imported_name_is_among_them() -> None:
    imported = {
        alias.name
        for path in PACKAGE.rglob("*.py")
        if "streamlit." in (source := path.read_text(encoding="utf-8"))
        for node in _list_runtime_nodes(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("streamlit.")
        for alias in node.names
    }
    assert imported <= {*NAMES, *MESSAGES, *PUBLIC}
    assert imported


def _list_runtime_nodes(tree: ast.AST) -> list[ast.AST]:
    """All nodes but those that only a type checker sees."""
    nodes = [tree]
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            nodes += _list_runtime_nodes(node)
    return nodes


Start = Callable[[str, int, Path], int]


@pytest.fixture(scope="module")
def start() -> Iterator[Start]:
    """Starts a server with a renamed name, at a port and with a log; returns its process id."""
    with subprocess.Popen(
        bind([sys.executable, RENAMING / "forking.py"]),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": f"{RENAMING}:{ROOT}"},
    ) as forking:

        def fork(name: str, port: int, log: Path) -> int:
            assert forking.stdin is not None
            assert forking.stdout is not None
            print(name, port, log, file=forking.stdin, flush=True)
            return int(forking.stdout.readline())

        try:
            yield fork
        finally:
            stop(forking)


@pytest.mark.parametrize("name", NAMES)
def test_a_renamed_name_stops_neither_server_nor_pages(
    name: str, start: Start, tmp_path: Path
) -> None:
    port, log = find_free_port(), tmp_path / "log"
    address = f"http://127.0.0.1:{port}"
    server = start(name, port, log)
    try:
        wait_for_server(address, lambda: psutil.pid_exists(server))
        with Visitor(address) as visitor:
            visitor.open("export", "experiment=all-nodes")
            assert visitor.problems == []
            assert "to-page" in visitor.text
            # Another run of the same session.
            visitor.rerun()
            assert visitor.problems == []
    finally:
        with suppress(ProcessLookupError):
            os.kill(server, signal.SIGKILL)
    printed = log.read_text(encoding="utf-8")
    assert "Traceback" not in printed
    assert ("has changed" in printed) is (name not in UNREPORTED)


@pytest.mark.parametrize("name", MESSAGES)
def test_a_renamed_message_switches_off_only_the_patch(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delattr(f"streamlit.proto.{name}_pb2.{name}")
    rerun = AppSession.request_rerun
    assert not apply_patch(patch_sessions, "track the address of each browser")
    assert AppSession.request_rerun is rerun
    assert name in capsys.readouterr().err
