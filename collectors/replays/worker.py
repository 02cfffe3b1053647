"""Check a workload's replays in this process: ``python -m collectors.replays.worker FILE``.

The check begins with the first line on stdin; its imports last seconds and need no GPU. A marked
capture is replayed first, so that a crash or hang is known by its node. Exit codes: 0 the check is
written or not requested; 1 the step failed; 2 the request is invalid, see stderr.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import msgspec
import torch

from collectors.doctor.requests import DoctorRequest
from collectors.passes.parameters import build_arguments
from collectors.process.lifeline import exit_with_parent
from collectors.replays.ask import CHECK_FILE
from collectors.replays.check import check_step, is_capture_error
from collectors.replays.notes import MarksSettings, NoteFolder
from collectors.replays.program import MarkedProgram
from collectors.workloads import Step, load_factory
from graphviz_dash.errors import GraphvizDashError


def main(arguments: list[str]) -> int:
    """Check the step named in the request file."""
    exit_with_parent()
    if not sys.stdin.readline():
        return 0
    request = msgspec.json.decode(Path(arguments[0]).read_bytes(), type=DoctorRequest)
    folder = Path(request.out)
    name = f"{os.getpid()}-{time.time_ns()}"
    settings = MarksSettings(folder=request.marks or request.out)
    program = MarkedProgram(settings, NoteFolder(folder / "replays" / name), name)
    program.install()
    try:
        torch.manual_seed(request.seed)
        factory = load_factory(request.factory)
        step = factory(*build_arguments(factory, request.factory, request.settings))
        _replay_marked(step, request.warmup)
        program.stop_marking()
        check = check_step(step, replays=request.steps, warmup=1)
    except GraphvizDashError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    (folder / CHECK_FILE).write_bytes(msgspec.json.encode(check))
    _exit_now(program, 0)
    return 0


def _replay_marked(step: Step, warmup: int) -> None:
    """Replay a marked capture. The check itself reports a capture that fails."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(warmup):
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph, stream=stream):
            step()
    except RuntimeError as error:
        if not is_capture_error(error):
            raise
        return
    for _ in range(2):
        with torch.cuda.stream(stream):
            graph.replay()
        torch.cuda.synchronize()


def _exit_now(program: MarkedProgram, code: int) -> None:
    """Exit immediately: destroying a broken graph can abort the process."""
    program.finish()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
