"""``graphviz-dash serve``: starts the dashboard."""

from __future__ import annotations

import importlib.util
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

import click

from graphviz_dash.errors import InputError, MissingRequirementError

P = ParamSpec("P")
T = TypeVar("T")


def server_options(command: Callable[P, T]) -> Callable[P, T]:
    """Adds --port and --host, where the dashboard listens."""
    port = click.option(
        "--port",
        default=8501,
        show_default=True,
        type=click.IntRange(1, 65535),
        metavar="PORT",
        help="Port to listen on.",
    )
    host = click.option(
        "--host",
        default="127.0.0.1",
        show_default=True,
        metavar="ADDRESS",
        help="Address to listen on; 0.0.0.0 lets other machines in.",
    )
    return port(host(command))


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@server_options
def serve(paths: tuple[Path, ...], port: int, host: str) -> None:
    """Serve the dashboard on the experiments under PATHS (default: this folder).

    Prints the address on stdout when the port is free, and serves until it is interrupted.
    """
    folders = paths or (Path(),)
    for folder in folders:
        if not folder.is_dir():
            actual = "a file" if folder.exists() else "no such folder"
            raise InputError(folder, actual, "a folder that holds experiments")
    serve_folders(folders, host, port)


def serve_folders(folders: tuple[Path, ...], host: str, port: int) -> None:
    """Serves the dashboard on ``folders`` until it is interrupted.

    Raises:
        MissingRequirementError: the port is taken, or the server cannot run here.
        InputError: ``host`` is no address of this machine.
    """
    require_free(host, port)
    shown = f"[{host}]" if ":" in host else host
    click.echo(f"http://{shown}:{port}")
    click.echo("Ctrl-C ends it", err=True)
    sys.stdout.flush()
    code = _run(server_command(host, port, folders))
    if code not in (0, -signal.SIGINT, -signal.SIGTERM):
        raise MissingRequirementError(f"The dashboard's server ended with exit code {code}")


def require_free(host: str, port: int) -> None:
    """Sees whether the dashboard can listen on ``host`` and ``port``.

    Raises:
        MissingRequirementError: the port is taken, or not to be had.
        InputError: ``host`` is no address of this machine.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (socket.gaierror, UnicodeError) as error:
        raise InputError(f"--host {host}", "no known address", "one of this machine") from error
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # As the server does: a port whose last connections still linger is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
            probe.listen()
        except OSError as error:
            raise MissingRequirementError(
                f"Cannot serve on {host}:{port}: {error.strerror}. Choose another port: "
                f"graphviz-dash serve --port {port % 65535 + 1}"
            ) from error


def server_command(host: str, port: int, folders: tuple[Path, ...]) -> list[str]:
    """The command that serves ``folders``."""
    if importlib.util.find_spec("streamlit") is None:
        raise MissingRequirementError(
            "The dashboard needs streamlit, not installed here: pip install graphviz-dash"
        )
    script = Path(__file__).parents[2] / "ui" / "main.py"
    return [
        sys.executable,
        *("-m", "streamlit", "run", str(script)),
        *("--server.address", host, "--server.port", str(port), "--server.headless", "true"),
        *("--browser.gatherUsageStats", "false"),
        "--",
        *(str(folder.resolve()) for folder in folders),
    ]


def _run(command: list[str]) -> int:
    # Its own banner would repeat the address; what goes wrong is on stderr.
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        signal.signal(signal.SIGTERM, lambda *_: process.terminate())
        try:
            return process.wait()
        except KeyboardInterrupt:
            # A terminal interrupts the server as well; whoever interrupts only us means both.
            process.terminate()
            process.wait()
            return 0
