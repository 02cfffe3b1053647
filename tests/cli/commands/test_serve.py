"""The dashboard listens on this machine only, unless it is told otherwise."""

from __future__ import annotations

import tomllib
from pathlib import Path

from graphviz_dash.cli.commands.serve import serve, server_command

ROOT = Path(__file__).parents[3]


def test_the_usual_host_is_this_machine() -> None:
    (host,) = [option for option in serve.params if option.name == "host"]
    assert host.default == "127.0.0.1"


def test_the_server_is_told_so(tmp_path: Path) -> None:
    command = server_command("127.0.0.1", 8501, (tmp_path,))
    assert command[command.index("--server.address") + 1] == "127.0.0.1"


def test_so_is_one_that_is_started_without_the_command() -> None:
    configuration = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text())
    assert configuration["server"]["address"] == "127.0.0.1"
    assert 0 < configuration["server"]["maxUploadSize"] <= 512
