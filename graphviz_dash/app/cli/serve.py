"""``graphviz-dash serve``: starts the dashboard."""

from __future__ import annotations

import functools
import importlib.util
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import click
from msgspec import Struct

from graphviz_dash.bundle.files import build_folder_error, check_utf8
from graphviz_dash.bundle.staging import remove_abandoned_folders
from graphviz_dash.errors import InputError, MissingRequirementError
from graphviz_dash.server_settings import (
    SCRATCH_NAME,
    STARTED_IN_VARIABLE,
    ServerSettings,
    is_loopback,
)

T = TypeVar("T")

_MAIN_PAGE: Final = Path(__file__).parents[1] / "main.py"
_LAUNCHER: Final = "graphviz_dash.app.hosting.launch"
_PACKAGE_ROOT: Final = Path(__file__).parents[3]
"""Parent folder of the package, which need not be installed."""
_NO_TOKEN_WARNING: Final = (
    "Warning: without a token, everybody who can reach this address sees the experiments and can "
    "upload files"
)
_SHUTDOWN_TIMEOUT_S: Final = 8.0
"""Shutdown timeout of the server in seconds; longer than its request timeout."""
_WILDCARD_HOSTS: Final = ("0.0.0.0", "::")
_OPTIONS: Final = {
    "server.headless": "true",
    "server.enableCORS": "true",
    "server.enableXsrfProtection": "true",
    "server.enableStaticServing": "false",
    "server.enableAgentApi": "false",
    "server.fileWatcherType": "none",
    "global.developmentMode": "false",
    # Otherwise tracebacks go to stdout, which is discarded, instead of the log.
    "logger.enableRich": "false",
    # Streamlit's banner would ask a server of Amazon for the address of this machine.
    "logger.hideWelcomeMessage": "true",
    "browser.gatherUsageStats": "false",
}
"""Streamlit settings that no folder's or user's file may change."""
_STOP_SIGNALS: Final = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)


class ServeOptions(Struct, frozen=True):
    """Address, access and memory settings of a server."""

    host: str
    """Listening address."""
    port: int
    token: bool | None
    """Whether visitors need a token; None depends on the address."""
    hosts: tuple[str, ...]
    """Additional host names of the server."""
    memory_bytes: int | None = None
    """Memory limit in bytes; None depends on the machine."""


def add_server_options(command: Callable[..., T]) -> Callable[..., T]:
    """Add the server options; the command receives them as ``serving``."""

    @functools.wraps(command)
    def run_with_serving(
        *arguments: object,
        host: str,
        port: int,
        token: bool | None,
        hosts: tuple[str, ...],
        memory: int | None,
        **options: object,
    ) -> T:
        serving = ServeOptions(host, port, token, hosts, memory)
        return command(*arguments, serving=serving, **options)

    for option in reversed(_SERVING_OPTIONS):
        option(run_with_serving)
    return run_with_serving


_SERVING_OPTIONS: Final = (
    click.option(
        "--port",
        default=8501,
        show_default=True,
        type=click.IntRange(1, 65535),
        metavar="PORT",
        help="Port to listen on.",
    ),
    click.option(
        "--host",
        default="127.0.0.1",
        show_default=True,
        metavar="ADDRESS",
        help="Address to listen on; 0.0.0.0 allows other machines.",
    ),
    click.option(
        "--token/--no-token",
        default=None,
        help="Require the token in the printed URL.  [default: unless only "
        "this machine has access]",
    ),
    click.option(
        "--allow-host",
        "hosts",
        multiple=True,
        metavar="NAME",
        help="Additional host name, such as a reverse proxy's; may be repeated.",
    ),
    click.option(
        "--memory",
        type=click.IntRange(1 << 28),
        metavar="BYTES",
        help="Memory limit; above it, the server evicts least recently used "
        "experiments.  [default: half of the machine's memory]",
    ),
)


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@add_server_options
def serve(paths: tuple[Path, ...], serving: ServeOptions) -> None:
    """Serve the dashboard on the experiments under PATHS (default: this folder).

    Prints the address on stdout if the port is free, and serves until interrupted.
    """
    folders = paths or (Path(),)
    for folder in folders:
        if not folder.is_dir():
            raise build_folder_error(folder, "a folder with experiments")
        check_utf8(folder.resolve())
    serve_folders(folders, serving)


def serve_folders(folders: tuple[Path, ...], serving: ServeOptions) -> None:
    """Serve the dashboard on ``folders`` until interrupted.

    Raises:
        MissingRequirementError: the port is taken, or the server cannot run here.
        InputError: the host is not an address of this machine.
    """
    check_port_free(serving.host, serving.port)
    settings = build_settings(serving)
    command = build_server_command(serving.host, serving.port, folders)
    click.echo(format_address(serving.host, serving.port, settings))
    if not settings.requires_token and not is_loopback(serving.host):
        click.echo(_NO_TOKEN_WARNING, err=True)
    click.echo("Press Ctrl-C to stop", err=True)
    sys.stdout.flush()
    code = _run_server(command, build_server_environment(settings))
    # Left by a server that had to be killed.
    remove_abandoned_folders(Path(tempfile.gettempdir()), SCRATCH_NAME)
    if code not in (0, *(ending for end in _STOP_SIGNALS for ending in (-end, 128 + end))):
        raise MissingRequirementError(f"The dashboard server stopped with exit code {code}")


def check_port_free(host: str, port: int) -> None:
    """Check that the dashboard can listen on ``host`` and ``port``.

    Raises:
        MissingRequirementError: the port is taken or not available.
        InputError: ``host`` is not an address of this machine.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (socket.gaierror, UnicodeError) as error:
        raise InputError(
            f"--host {host}", "unknown address", "an address of this machine"
        ) from error
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # Like the server: a port whose last connections still linger is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
            probe.listen()
        except OSError as error:
            raise MissingRequirementError(
                f"Cannot serve on {host}:{port}: {error.strerror}. Choose another port: "
                f"graphviz-dash serve --port {port % 65535 + 1}"
            ) from error


def build_settings(serving: ServeOptions) -> ServerSettings:
    """Build the server settings. A token is generated if required, or by default if other machines
    can reach the server."""
    requires_token = not is_loopback(serving.host) if serving.token is None else serving.token
    return ServerSettings(
        token=secrets.token_urlsafe(24) if requires_token else None,
        requires_token=requires_token,
        hosts=serving.hosts,
        supervised=True,
        memory_bytes=serving.memory_bytes,
    )


def format_address(host: str, port: int, settings: ServerSettings) -> str:
    """Format the address to open, with the token if one is required."""
    name = socket.gethostname() if host in _WILDCARD_HOSTS else host
    displayed_host = f"[{name}]" if ":" in name else name
    token = f"/?token={settings.token}" if settings.token else ""
    return f"http://{displayed_host}:{port}{token}"


def build_server_command(host: str, port: int, folders: tuple[Path, ...]) -> list[str]:
    """Build the command that serves ``folders``."""
    if importlib.util.find_spec("streamlit") is None:
        raise MissingRequirementError(
            "The dashboard needs streamlit, not installed here: pip install graphviz-dash"
        )
    options = {"server.address": host, "server.port": str(port), **_OPTIONS}
    return [
        # Nothing is imported from the working folder, whose content is untrusted.
        *(sys.executable, "-P", "-m", _LAUNCHER, "run", str(_MAIN_PAGE)),
        *(word for name, value in options.items() for word in (f"--{name}", value)),
        "--",
        *(str(folder.resolve()) for folder in folders),
    ]


def build_server_environment(settings: ServerSettings) -> dict[str, str]:
    """Build the server's environment; its subprocesses import nothing from its folder."""
    paths = [str(_PACKAGE_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        **os.environ,
        **settings.format_variables(),
        STARTED_IN_VARIABLE: str(Path.cwd()),
        "PYTHONSAFEPATH": "1",
        "PYTHONPATH": os.pathsep.join(paths),
    }


def _run_server(command: list[str], environment: dict[str, str]) -> int:
    """Run the server until it exits or this process is interrupted; return its exit code.

    The unused pipe to it makes the server exit when this process ends for any reason.
    """
    with subprocess.Popen(
        command,
        env=environment,
        # Streamlit reads settings and secrets from its working folder: use ours.
        cwd=_MAIN_PAGE.parent,
        stdin=subprocess.PIPE,
        # Errors go to stderr.
        stdout=subprocess.DEVNULL,
    ) as process:
        for number in _STOP_SIGNALS[1:]:
            # nohup ignores SIGHUP.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, lambda *_: _raise_interrupt())
        try:
            return process.wait()
        except KeyboardInterrupt:
            # A terminal interrupts the server as well; an interrupt of this process alone means
            # both.
            process.terminate()
            return _stop_server(process)


def _raise_interrupt() -> None:
    raise KeyboardInterrupt


def _stop_server(process: subprocess.Popen[bytes]) -> int:
    """Wait for a stopped server, kill it after a timeout, and return its exit code."""
    try:
        process.wait(_SHUTDOWN_TIMEOUT_S)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        process.kill()
        process.wait()
    return 0
