from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from graphviz_dash.errors import InputError
from graphviz_dash.importers import confined_process
from graphviz_dash.importers.confined import SandboxLimits, import_sandboxed, unpack_sandboxed
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.progress import CancelledError, watch
from tests.builders import chain, make_experiment
from tests.importers.test_bundles import capture, replay
from tests.processes import get_state
from tests.ui.state.test_uploads import files, packed

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "made" / "experiment"


@pytest.fixture(autouse=True)
def _made(folder: Path) -> None:
    folder.parent.mkdir()


def misbehaving(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, act: str) -> None:
    """Make readers run ``act`` instead, like an unexpected file.

    The readers' module is not loaded, because this dominates the process's time.
    """
    package = tmp_path / "hooks"
    package.mkdir()
    hook = (
        "import os, signal, sys, time, types\n"
        f"def act(*_, **__):\n    {act}\n"
        "readers = types.SimpleNamespace(import_files=act)\n"
        "sys.modules['graphviz_dash.importers.bundles'] = readers\n"
    )
    (package / "misbehaving_reader.py").write_text(hook)
    module = (
        "import misbehaving_reader\n"
        "from graphviz_dash.importers.confined_process import main\n"
        "main()\n"
    )
    (package / "misbehaving_process.py").write_text(module)
    monkeypatch.setattr(confined_process, "__name__", "misbehaving_process")
    monkeypatch.syspath_prepend(str(package))


def test_a_capture_and_its_replays(tmp_path: Path, folder: Path) -> None:
    traces = [capture(tmp_path / "m-capture.json.gz"), replay(tmp_path / "m-replay.json.gz")]
    shares: list[float] = []
    with watch(shares.append):
        assert import_sandboxed(traces, folder) == "m"
    (run,) = load_experiment(folder).runs
    assert len(run.graphs) == 1
    assert max(shares) == 1.0
    assert list(folder.parent.iterdir()) == [folder]


def test_an_archive(tmp_path: Path, folder: Path) -> None:
    experiment = make_experiment(tmp_path / "toy")
    archive = tmp_path / "toy.zip"
    archive.write_bytes(packed(experiment).getvalue())
    assert unpack_sandboxed(archive, folder, "toy.zip") == "toy"
    assert files(folder) == files(experiment)


def test_an_archive_leaves_nothing_in_the_cache(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAPHVIZ_DASH_CACHE", str(tmp_path / "cache"))
    experiment = make_experiment(tmp_path / "toy", work=chain(400), traced=20)
    archive = tmp_path / "toy.zip"
    archive.write_bytes(packed(experiment).getvalue())
    assert unpack_sandboxed(archive, folder, "toy.zip") == "toy"
    assert not (tmp_path / "cache").exists()


def test_a_bad_file_is_the_same_error_without_its_folder(tmp_path: Path, folder: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("hello")
    with pytest.raises(InputError, match=r"^notes.txt: a file of unknown kind; expected"):
        import_sandboxed([file], folder)
    assert list(folder.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("act", "said"),
    [
        ("[0] * (1 << 40)", "needs more memory"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "needs more memory"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", r"crashed the import process \(SIGSEGV\)"),
        ("os.abort()", r"crashed the import process \(SIGABRT\)"),
        ("os._exit(0)", "stopped the import process"),
        ("raise ValueError('unforeseen')", "stopped the import process"),
        ("any(iter(int, 1))", "needs more than 1 s"),
        ("time.sleep(1000)", "needs more than 1 s"),
    ],
)
def test_whatever_it_does_is_one_line(
    tmp_path: Path,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    act: str,
    said: str,
) -> None:
    misbehaving(monkeypatch, tmp_path, act)
    file = replay(tmp_path / "trace.json.gz")
    with pytest.raises(InputError, match=said) as caught:
        import_sandboxed([file], folder, SandboxLimits(seconds=1 if "1 s" in said else 60))
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("trace.json.gz: a file that")
    assert list(folder.parent.iterdir()) == []
    if "ValueError" in act:
        assert "unforeseen" in caplog.text


@pytest.mark.skipif(sys.platform != "linux", reason="reads the state of a process")
@pytest.mark.parametrize("act", ["os._exit(0)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_no_other_group_has_the_number_of_the_killed_one(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    misbehaving(monkeypatch, tmp_path, act)
    killpg = os.killpg
    states: list[str] = []

    def kill(group: int, number: int) -> None:
        states.append(get_state(group))
        killpg(group, number)

    monkeypatch.setattr(os, "killpg", kill)
    with pytest.raises(InputError):
        import_sandboxed([replay(tmp_path / "trace.json.gz")], folder)
    # It has ended, and its number is not free before the group is killed.
    assert states == ["Z"]


def test_it_steps_back_behind_who_looks_at_pages(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    misbehaving(monkeypatch, tmp_path, "os._exit(40 + os.nice(0))")
    with pytest.raises(InputError):
        import_sandboxed([replay(tmp_path / "trace.json.gz")], folder)
    assert f"exit code {40 + min(os.nice(0) + 10, 19)}" in caplog.text


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_file_that_needs_too_much_server_memory_is_refused(tmp_path: Path, folder: Path) -> None:
    archive = tmp_path / "toy.zip"
    archive.write_bytes(packed(make_experiment(tmp_path / "toy")).getvalue())
    with pytest.raises(InputError) as caught:
        unpack_sandboxed(archive, folder, "toy.zip", SandboxLimits(opened_bytes=1 << 20))
    assert str(caught.value) == (
        "toy.zip: a file whose pages need more server memory than the upload limit; expected a "
        "file that can be opened within 0.0 GiB. Open it with a separate server: graphviz-dash "
        "serve FOLDER."
    )


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_system_ends_it_before_the_server(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    misbehaving(monkeypatch, tmp_path, "sys.exit(open('/proc/self/oom_score_adj').read())")
    with pytest.raises(InputError):
        import_sandboxed([replay(tmp_path / "trace.json.gz")], folder)
    assert caplog.text.rstrip().endswith("exit code 1: 1000")


def _sleepers(marker: str) -> list[int]:
    """The processes that stand still under this name."""
    return [
        int(path.parent.name)
        for path in Path("/proc").glob("[0-9]*/environ")
        if _reads(path, marker)
    ]


def _reads(path: Path, marker: str) -> bool:
    try:
        return f"MARKER={marker}\0".encode() in path.read_bytes()
    except OSError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_it_ends_when_nobody_waits_any_more(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    misbehaving(monkeypatch, tmp_path, "time.sleep(1000)")
    monkeypatch.setenv("MARKER", str(tmp_path))

    def gives_up(_: float) -> None:
        raise CancelledError

    with watch(gives_up), pytest.raises(CancelledError):
        import_sandboxed([replay(tmp_path / "trace.json.gz")], folder)
    assert _sleepers(str(tmp_path)) == []


SERVER = """
import sys
from pathlib import Path
from graphviz_dash.importers import confined_process
from graphviz_dash.importers.confined import import_sandboxed
from graphviz_dash.progress import watch
sys.path.insert(0, sys.argv[3])
confined_process.__name__ = "misbehaving_process"
with watch(lambda _: print("waiting", flush=True)):
    import_sandboxed([Path(sys.argv[1])], Path(sys.argv[2]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_it_ends_with_the_process_that_waits(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, how: signal.Signals
) -> None:
    misbehaving(monkeypatch, tmp_path, "time.sleep(1000)")
    file = replay(tmp_path / "trace.json.gz")
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, file, folder, tmp_path / "hooks"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"MARKER": str(tmp_path)},
        cwd=ROOT,
    )
    assert server.stdout is not None
    assert server.stdout.readline() == b"waiting\n"
    assert len(_sleepers(str(tmp_path))) == 2
    server.send_signal(how)
    server.wait()
    server.stdout.close()
    deadline = time.monotonic() + 60
    while _sleepers(str(tmp_path)) and time.monotonic() < deadline:
        os.sched_yield()
    assert _sleepers(str(tmp_path)) == []
