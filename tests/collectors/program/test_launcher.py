from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from collectors.program.launcher import (
    ProgramExit,
    exit_like,
    explain_unwatched,
    require_hook,
    run_program,
)
from graphviz_dash.errors import InputError, MissingRequirementError
from tests.processes import restore_signals

ROOT = Path(__file__).parents[3]

HOOK = """
from pathlib import Path

from collectors.program.launcher import get_scratch_folder, get_settings

def begin():
    import os, torch
    (get_scratch_folder() / f"{os.getpid()}.hooked").write_text(get_settings() + " " + torch.name)
"""

PARENT = """
import sys
from pathlib import Path

from collectors.program.launcher import exit_like, explain_unwatched, run_program

scratch = Path(sys.argv[1])
ended = run_program(sys.argv[2:], "a_hook:begin", "as asked", scratch)
Path(scratch / "why").write_text(explain_unwatched(ended) or "watched")
sys.exit(exit_like(ended.returncode))
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a torch, a hook, and a parent that runs a program under it."""
    restore_signals()
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("name = 'a torch'\n")
    (tmp_path / "a_hook.py").write_text(HOOK)
    (tmp_path / "parent.py").write_text(PARENT)
    (tmp_path / "scratch").mkdir()
    return tmp_path


def environment(place: Path) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": f"{place}{os.pathsep}{ROOT}"}


def run(place: Path, program: str, *how: str) -> subprocess.CompletedProcess[str]:
    """The parent with ``program`` as train.py, or with the command ``how``."""
    (place / "train.py").write_text(textwrap.dedent(program))
    return subprocess.run(
        [sys.executable, "parent.py", "scratch", *(how or (sys.executable, "train.py", "-x"))],
        cwd=place,
        env=environment(place),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def hooked(place: Path) -> list[str]:
    return [file.read_text() for file in (place / "scratch").glob("*.hooked")]


def test_the_hook_runs_after_torch_and_the_program_sees_nothing_of_it(place: Path) -> None:
    program = """
        import sys, importlib.util
        found = importlib.util.find_spec("torch")
        import torch
        import torch as again
        print(sys.argv, __name__, __file__, sys.path[0], type(torch.__loader__).__name__)
        print([e for e in sys.path if "inject" in e], sys.meta_path)
        print([e for e in sys.path_importer_cache if "inject" in e], "sitecustomize" in sys.modules)
        print("to stderr", file=sys.stderr)
        sys.exit(7)
    """
    (place / "train.py").write_text(textwrap.dedent(program))
    plain = subprocess.run(
        [sys.executable, "train.py", "-x"],
        cwd=place,
        env=environment(place) | {"PYTHONSAFEPATH": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    watched = run(place, program)
    assert hooked(place) == ["as asked a torch"]
    assert (watched.returncode, watched.stderr) == (7, plain.stderr)
    assert plain.stdout.splitlines()[0] == watched.stdout.splitlines()[0]
    assert plain.stdout.splitlines()[2] == watched.stdout.splitlines()[2]
    assert "inject" not in watched.stdout
    assert "_AfterTorch" not in watched.stdout
    assert (place / "scratch" / "why").read_text() == "watched"


def test_modules_and_children_are_hooked_but_only_those_with_torch(place: Path) -> None:
    program = """
        import subprocess, sys
        subprocess.run([sys.executable, "-c", "import torch"], check=True)
        subprocess.run([sys.executable, "-c", "import json"], check=True)
    """
    done = run(place, program, sys.executable, "-m", "train")
    assert done.returncode == 0, done.stderr
    assert len(hooked(place)) == 1
    assert len(list((place / "scratch" / "processes").glob("*.json"))) == 3


def test_a_sitecustomize_of_the_users_runs_too(place: Path) -> None:
    (place / "sitecustomize.py").write_text("theirs = 1\nprint('theirs')\n")
    done = run(place, "import sitecustomize, torch; print(sitecustomize.theirs)")
    # The parent is a Python of the user's as well.
    assert done.stdout.splitlines() == ["theirs", "theirs", "1"]
    assert hooked(place) == ["as asked a torch"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_a_signal_that_kills_the_program_is_seen_by_the_caller(place: Path, number: int) -> None:
    done = run(place, f"import os, torch; os.kill(os.getpid(), {int(number)})")
    assert done.returncode == -number


def test_a_signal_to_us_reaches_the_program(place: Path) -> None:
    program = """
        import signal, sys, os, torch
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
        os.kill(os.getppid(), signal.SIGTERM)
        signal.pause()
    """
    assert run(place, program).returncode == 5


WAITS = """
import pathlib, signal, sys, time
import torch
got = []
signal.signal(signal.SIGINT, lambda *_: got.append(1))
pathlib.Path("waits").touch()
while not got:
    time.sleep(0.01)
time.sleep(0.5)
sys.exit(40 + len(got))
"""


@pytest.mark.parametrize("whole_group", [False, True], ids=["alone", "group"])
def test_the_program_gets_an_interrupt_exactly_once(place: Path, whole_group: bool) -> None:
    (place / "train.py").write_text(WAITS)
    with subprocess.Popen(
        [sys.executable, "parent.py", "scratch", sys.executable, "train.py"],
        cwd=place,
        env=environment(place),
        start_new_session=True,
    ) as parent:
        wait_for(place / "waits")
        if whole_group:
            os.killpg(parent.pid, signal.SIGINT)
        else:
            os.kill(parent.pid, signal.SIGINT)
        assert parent.wait(60) == 41


def test_ignored_signals_stay_ignored(place: Path) -> None:
    program = """
import os, signal, time
os.killpg(0, signal.SIGHUP)
time.sleep(0.3)
print("well")
"""
    (place / "train.py").write_text(program)
    ignore = (
        "import os, signal, sys\nos.setsid()\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    )
    done = subprocess.run(
        [sys.executable, "-c", ignore, "parent.py", "scratch", sys.executable, "train.py"],
        cwd=place,
        env=environment(place),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "well"


def wait_for(file: Path) -> None:
    for _ in range(600):
        if file.exists():
            return
        time.sleep(0.05)
    pytest.fail(f"{file.name} did not appear")


def test_an_exception_ends_as_it_would_without_us(place: Path) -> None:
    done = run(place, "import torch\nraise KeyError('lost')")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "KeyError: 'lost'"
    assert "collectors" not in done.stderr


def test_a_hook_that_cannot_be_loaded_leaves_the_program_alone_and_says_why(place: Path) -> None:
    (place / "a_hook.py").write_text("import no_such_module\n")
    done = run(place, "import torch; print(torch.name)")
    assert (done.returncode, done.stdout, done.stderr) == (0, "a torch\n", "")
    why = (place / "scratch" / "why").read_text()
    assert "cannot load the hook: No module named 'no_such_module'" in why


@pytest.mark.parametrize(
    ("how", "why"),
    [
        (("-c", "import json"), "did not import torch"),
        (("-I", "-c", "import json"), "no Python that reads PYTHONPATH"),
    ],
)
def test_an_unwatched_program_has_a_reason(place: Path, how: tuple[str, ...], why: str) -> None:
    run(place, "", sys.executable, *how)
    assert why in (place / "scratch" / "why").read_text()


def test_a_script_without_its_python_is_reported(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("")
    with pytest.raises(InputError, match="Put python before it"):
        run_program([str(script)], "m:f", "", tmp_path)
    with pytest.raises(InputError, match="no such program"):
        run_program(["no-such-program"], "m:f", "", tmp_path)
    with pytest.raises(InputError, match="nothing after --"):
        run_program([], "m:f", "", tmp_path)


def test_the_programs_python_is_asked_for_what_the_hook_needs() -> None:
    require_hook([sys.executable], ["json"])
    require_hook(["torchrun"], ["no_such_module"])
    with pytest.raises(MissingRequirementError, match="no_such_module"):
        require_hook([sys.executable, "train.py"], ["json", "no_such_module"])


def test_exit_codes_pass_through() -> None:
    assert exit_like(3) == 3
    assert explain_unwatched(ProgramExit(0, ())) is not None
