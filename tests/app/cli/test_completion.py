from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.fixtures import Invoke


@pytest.mark.parametrize(
    ("shell", "word"),
    [("bash", "complete -o"), ("zsh", "#compdef"), ("fish", "complete --no-files")],
)
def test_each_shell_has_its_script(shell: str, word: str, invoke: Invoke) -> None:
    if shell == "bash" and shutil.which("bash") is None:
        pytest.skip("click asks bash for its version, and there is none here")
    result = invoke("completion", shell)
    assert result.code == 0
    assert word in result.out
    assert "_GRAPHVIZ_DASH_COMPLETE" in result.out


def test_another_shell_is_a_mistake(invoke: Invoke) -> None:
    assert invoke("completion", "powershell").code == 2


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("graphviz-dash com", {"compare", "compile", "completion"}),
        ("graphviz-dash ls --j", {"--json"}),
    ],
)
def test_bash_completes(typed: str, offered: set[str], invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "script").write_text(invoke("completion", "bash").out)
    program = tmp_path / "graphviz-dash"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m graphviz_dash.app.cli.main "$@"\n')
    program.chmod(0o755)
    words = typed.split()
    done = subprocess.run(
        [
            "bash",
            "-c",
            f". {tmp_path}/script; COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; "
            '_graphviz_dash_completion graphviz-dash; printf "%s\\n" "${COMPREPLY[@]}"',
        ],
        env={**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(done.stdout.split()) == offered
