from __future__ import annotations

from pathlib import Path

import pytest

from tests.collectors.program.recorded import CAPTURE, run

CUPTI = """
import torch
from collectors.cupti import modules

class Cupti:
    calls = []

    def __getattr__(self, name):
        return lambda *arguments: self.calls.append(name.removeprefix("cupti"))

modules._load_library = Cupti
start = torch.profiler.profile.__enter__

def enter(profiler):
    Cupti.calls.append("profiler")
    return start(profiler)

torch.profiler.profile.__enter__ = enter
"""
LOOP = "g = captured()\nfor i in range(40):\n    g.replay()\n"


def list_calls(folder: Path, program: str, *options: str) -> list[str]:
    program = f"{CUPTI}{CAPTURE}{program}print(*Cupti.calls)\n{LOOP}"
    done = run(folder, program, *options, "--steps", "0")
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_the_code_of_kernels_is_read_until_the_first_capture(tmp_path: Path) -> None:
    calls = list_calls(tmp_path, "torch.cuda._lazy_init()\ncaptured()\n", "--attribute")
    assert calls == ["Subscribe", "EnableCallback", "Unsubscribe", "profiler"]


def test_a_profiler_of_the_program_ends_it(tmp_path: Path) -> None:
    program = "torch.cuda._lazy_init()\nwith torch.profiler.profile():\n    pass\n"
    calls = list_calls(tmp_path, program, "--attribute")
    # Within the profiler's start, before Kineto's part of it.
    assert calls == ["Subscribe", "EnableCallback", "profiler", "Unsubscribe"]


@pytest.mark.parametrize("options", [(), ("--attribute",)])
def test_nothing_is_read_without_the_option_or_before_cuda_is_used(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    # Without a context, CUPTI would create one, and a forked process could not use CUDA.
    program = "torch.cuda._lazy_init()\n" if not options else ""
    assert list_calls(tmp_path, program, *options) == []
