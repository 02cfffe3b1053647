from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from graphviz_dash.app.cli.serve import (
    ServeOptions,
    build_server_command,
    build_server_environment,
    build_settings,
    check_port_free,
    format_address,
    serve,
)
from graphviz_dash.app.hosting import launch
from graphviz_dash.errors import InputError, MissingRequirementError
from graphviz_dash.process_memory import get_machine_memory
from graphviz_dash.server_settings import (
    MEMORY_VARIABLE,
    ServerSettings,
    get_memory_limit,
    read_settings,
)
from tests.attack.visitor import Visitor
from tests.cli.fixtures import Invoke
from tests.fuzz.readers import DOT
from tests.processes import bind, find_free_port

ROOT = Path(__file__).parents[3]


def test_the_usual_host_is_this_machine() -> None:
    (host,) = [option for option in serve.params if option.name == "host"]
    assert host.default == "127.0.0.1"


def test_the_server_is_told_so(tmp_path: Path) -> None:
    command = build_server_command("127.0.0.1", 8501, (tmp_path,))
    assert command[command.index("--server.address") + 1] == "127.0.0.1"


def test_so_is_one_that_is_started_without_the_command() -> None:
    configuration = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text())
    assert configuration["server"]["address"] == "127.0.0.1"
    assert 0 < configuration["server"]["maxUploadSize"] <= 512
    assert configuration["client"]["allowedOrigins"] == []


@pytest.mark.parametrize(
    ("host", "token", "asked"),
    [
        ("127.0.0.1", None, False),
        ("localhost", None, False),
        ("::1", None, False),
        ("127.0.0.1", True, True),
        ("0.0.0.0", None, True),
        ("::", None, True),
        ("192.0.2.1", None, True),
        ("0.0.0.0", False, False),
    ],
)
def test_a_token_is_asked_for_off_this_machine_or_by_choice(
    host: str, token: bool | None, asked: bool
) -> None:
    settings = build_settings(ServeOptions(host, 8501, token, ()))
    assert (settings.token is not None) is asked
    assert settings.requires_token is asked


def test_each_token_is_another_and_stands_in_the_address() -> None:
    first, second = (build_settings(ServeOptions("0.0.0.0", 8501, None, ())) for _ in range(2))
    assert first.token != second.token
    assert len(first.token or "") >= 32
    address = urlsplit(format_address("0.0.0.0", 8501, first))
    assert parse_qs(address.query) == {"token": [first.token]}
    assert address.hostname == socket.gethostname().lower()
    assert format_address("::1", 8501, ServerSettings()) == "http://[::1]:8501"


@pytest.mark.parametrize(
    "settings",
    [
        ServerSettings(),
        ServerSettings(token="abc", requires_token=True, hosts=("one.example", "two.example")),
        ServerSettings(requires_token=False, supervised=True, memory_bytes=4_000_000_000),
    ],
)
def test_the_environment_hands_settings_over(settings: ServerSettings) -> None:
    assert read_settings(settings.format_variables()) == settings
    assert settings.format_variables().items() <= build_server_environment(settings).items()


def test_the_memory_limit_is_set_or_half_of_the_machine() -> None:
    assert get_memory_limit({MEMORY_VARIABLE: "4000000000"}) == 4_000_000_000
    assert get_memory_limit({}) * 2 == pytest.approx(get_machine_memory() or 16 << 30, abs=1)
    assert build_settings(ServeOptions("::1", 8501, None, (), 1 << 30)).memory_bytes == 1 << 30
    for text in ("2GiB", "-1", "0", "٣"):
        with pytest.raises(InputError, match=f"{MEMORY_VARIABLE}: .* expected a number of bytes"):
            read_settings({MEMORY_VARIABLE: text})


@pytest.fixture
def port() -> int:
    return find_free_port()


@contextmanager
def serving(folder: Path, port: int, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start ``graphviz-dash serve`` in ``folder`` with its own temporary folder; yield process and
    address."""
    temporary = folder.parent / "tmp"
    temporary.mkdir(exist_ok=True)
    # The command is found as an installed one is, not through the folder.
    script = Path(sys.executable).with_name("graphviz-dash")
    with subprocess.Popen(
        bind([script, "serve", "--port", str(port), *options]),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1", "TMPDIR": str(temporary)},
    ) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            wait_until(lambda: answers(port))
            yield process, address
        finally:
            process.kill()


def answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=5):
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False


def wait_until(done: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end
        time.sleep(0.05)


def status(address: str, body: bytes | None = None, **headers: str) -> int:
    try:
        request = urllib.request.Request(address, body, headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        return refused.code


def left_behind(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder.parent / "tmp").glob(".graphviz-dash-*"))


def planted(folder: Path) -> Path:
    """A folder that wants to run code in the server, and to change its settings."""
    folder.mkdir()
    mark = folder / "ran"
    for name in ("secrets.py", "streamlit.py", "numpy.py", "polars.py", "sitecustomize.py"):
        (folder / name).write_text(f"open({str(mark)!r}, 'a').write({name!r})", encoding="utf-8")
    settings = folder / ".streamlit"
    settings.mkdir()
    text = "[server]\nenableCORS = false\nenableXsrfProtection = false\nenableAgentApi = true\n"
    (settings / "config.toml").write_text(text, encoding="utf-8")
    (settings / "secrets.toml").write_text('[auth]\ncookie_secret = "x"\n', encoding="utf-8")
    return mark


@pytest.fixture
def hung_up() -> Iterator[None]:
    """Make children receive SIGHUP, even if nohup runs the tests."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@contextmanager
def uploaded(address: str, folder: Path, cookies: dict[str, str] | None = None) -> Iterator[None]:
    """A server with an upload in the temporary folder and its open page."""
    with Visitor(address, cookies) as visitor:
        visitor.open().upload([("graph.dot", DOT.encode())])
        assert "uploaded by you" in visitor.text
        assert left_behind(folder)
        yield


def ends_and_leaves_nothing(
    process: subprocess.Popen[str], number: signal.Signals, port: int, folder: Path
) -> None:
    process.send_signal(number)
    process.wait(timeout=60)
    assert process.returncode == 0
    assert not answers(port)
    assert left_behind(folder) == []


# A server costs seconds: each of the three that follow has a property, and one of the signals that
# end it while somebody has a page with an upload open.


def test_nothing_of_the_working_folder_runs_or_counts(tmp_path: Path, port: int) -> None:
    folder = tmp_path / "visited"
    mark = planted(folder)
    with serving(folder, port) as (process, address):
        assert address == f"http://127.0.0.1:{port}"
        assert status(f"{address}/", Accept="text/html") == 200
        assert status(f"{address}/_stcore/agent/interact", b"{}") in (403, 404, 405)
        with uploaded(address, folder):
            ends_and_leaves_nothing(process, signal.SIGINT, port, folder)
    assert not mark.exists()


def test_the_server_ends_when_the_command_is_killed(tmp_path: Path, port: int) -> None:
    folder = tmp_path / "experiments"
    folder.mkdir()
    with serving(folder, port) as (process, address), uploaded(address, folder):
        process.kill()
        process.wait(timeout=60)
        wait_until(lambda: not answers(port) and not left_behind(folder))


def ignored(process: int) -> int:
    """The signals that a process ignores, as bits."""
    lines = Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith("SigIgn")).split()[1], 16)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what a process ignores")
def test_nohup_keeps_the_server_alive_after_a_hangup(tmp_path: Path, port: int) -> None:
    folder = tmp_path / "experiments"
    folder.mkdir()
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with serving(folder, port, str(folder)) as (process, address):
            tasks = Path(f"/proc/{process.pid}/task/{process.pid}/children")
            for each in (process.pid, *map(int, tasks.read_text(encoding="ascii").split())):
                assert ignored(each) & 1 << signal.SIGHUP - 1
            with uploaded(address, folder):
                ends_and_leaves_nothing(process, signal.SIGTERM, port, folder)
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hung_up")
def test_a_token_lets_in_who_has_the_printed_address(tmp_path: Path, port: int) -> None:
    folder = tmp_path / "experiments"
    folder.mkdir()
    with serving(folder, port, "--token") as (process, address):
        plain = f"http://127.0.0.1:{port}/"
        assert address.startswith(f"{plain}?token=")
        assert status(plain) == 403
        assert status(f"{plain}?token=wrong") == 403
        cookies = CookieJar()
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(cookies))
        with opener.open(address, timeout=60) as answer:
            assert answer.status == 200
            assert answer.url == plain
        with opener.open(f"{plain}_stcore/health", timeout=60) as answer:
            assert answer.read() == b"ok"
        let_in = {cookie.name: cookie.value or "" for cookie in cookies}
        with uploaded(plain.rstrip("/"), folder, let_in):
            ends_and_leaves_nothing(process, signal.SIGHUP, port, folder)


def test_a_traceback_reaches_the_log_that_the_page_names(
    tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (
        "import sys\n"
        "class Broken:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'graphviz_dash.features.timeline.page.page':\n"
        "            raise ZeroDivisionError('planted')\n"
        "sys.meta_path.insert(0, Broken())\n"
    )
    modules, folder = tmp_path / "modules", tmp_path / "experiments"
    modules.mkdir()
    folder.mkdir()
    (modules / "sitecustomize.py").write_text(code, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(modules))
    with serving(folder, port) as (process, address):
        with Visitor(address).open("timeline") as visitor:
            assert visitor.problems
        process.terminate()
        assert process.stderr is not None
        log = process.stderr.read()
    assert "Uncaught app execution" in log
    assert "ZeroDivisionError: planted" in log


def test_an_open_server_warns_and_contacts_nobody(
    tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "experiments"
    folder.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        proxy.setblocking(False)
        for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.getsockname()[1]}")
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.setenv(name, "127.0.0.1")
        with serving(folder, port, "--host", "0.0.0.0", "--no-token") as (process, _):
            with Visitor(f"http://127.0.0.1:{port}").open() as visitor:
                assert not visitor.problems
            process.terminate()
            assert process.stderr is not None
            assert "Warning: without a token, everybody" in process.stderr.read()
        with pytest.raises(BlockingIOError):
            proxy.accept()


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


class TestServe:
    @pytest.mark.usefixtures("folder")
    def test_a_taken_port_is_one_line_with_another(self, taken_port: int, invoke: Invoke) -> None:
        result = invoke("serve", "sample_traces", "--port", str(taken_port))
        assert (result.code, result.out) == (1, "")
        assert result.err == (
            f"Error: Cannot serve on 127.0.0.1:{taken_port}: Address already in use. Choose "
            f"another port: graphviz-dash serve --port {taken_port % 65535 + 1}\n"
        )

    def test_an_unknown_host_is_an_error(self) -> None:
        with pytest.raises(InputError, match=r"--host no\.such\.host\.invalid"):
            check_port_free("no.such.host.invalid", 8501)
        with pytest.raises(MissingRequirementError, match="Cannot serve on 192"):
            check_port_free("192.0.2.1", 8501)

    def test_the_command_starts_the_server_with_its_folders(self, tmp_path: Path) -> None:
        command = build_server_command("0.0.0.0", 9000, (tmp_path,))
        assert command[:5] == [sys.executable, "-P", "-m", launch.__name__, "run"]
        assert Path(command[5]).parts[-3:] == ("graphviz_dash", "app", "main.py")
        assert command[-2:] == ["--", str(tmp_path)]
        assert "9000" in command
