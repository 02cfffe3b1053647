from __future__ import annotations

import http.server
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tests.attack import __main__ as command
from tests.attack import doors
from tests.attack.attacks import Attack, FellError, must
from tests.attack.server import Dashboard
from tests.attack.table import ATTACKS

ROOT = Path(__file__).parents[1]


def test_the_quick_attacks_fail() -> None:
    assert command.fallen([attack for attack in ATTACKS if attack.is_quick]) == []


class Open(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"root:x:0:0")

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def open_server() -> Iterator[Dashboard]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Open)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    yield Dashboard(address, address, cast(Any, None), Path(), Path())
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("attempt", "reached"),
    [
        (doors.foreign_host, "/ answered 200"),
        (doors.framing, "/ may be framed"),
        (doors.paths, "gave a file"),
    ],
)
def test_a_server_that_lets_all_in_falls(
    open_server: Dashboard, attempt: Callable[[Dashboard], str], reached: str
) -> None:
    with pytest.raises(FellError, match=reached):
        attempt(open_server)


def test_successful_attacks_and_crashes_are_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "dashboard", lambda _: open("/dev/null"))  # noqa: SIM115

    def gone(_: Dashboard) -> str:
        raise ConnectionError("the server is gone")

    def reached(_: Dashboard) -> str:
        must(False, "everything")
        return "held"

    listed = [Attack("one", "fell", reached), Attack("two", "held", gone)]
    assert command.fallen(listed) == ["one: everything", "two: the server is gone"]
    assert "| one | fell | FELL: everything |" in capsys.readouterr().out


def test_the_page_on_security_lists_every_attack() -> None:
    page = (ROOT / "evaluation/reports/2026-11-22-attacks.md").read_text(encoding="utf-8")
    missing = [each.what for each in ATTACKS if f"| {each.what} | {each.before} |" not in page]
    assert missing == []
