"""Recording a program from inside it: :func:`record` and :func:`step`, and the hook that
``graphviz-dash collect -- python train.py`` puts into each process.

Imports torch only when asked to record.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from graphviz_dash.bundle.staging import Staging
from graphviz_dash.errors import GraphvizDashError, MissingRequirementError

if TYPE_CHECKING:
    from collectors.program.recorder import ProgramRecorder

StrPath: TypeAlias = str | os.PathLike[str]

HOOK: Final = "collectors.program.session:begin"
SKIP: Final = 30
"""Steps before the traced window, unless asked otherwise: each gives a time."""
STEPS: Final = 10
"""Steps in the traced window, unless asked otherwise."""

_active: ProgramRecorder | None = None


def step() -> None:
    """Says that a step of the program has ended; nothing happens where nothing records.

    Where a program calls it, its steps are these, whatever else looks like one.
    """
    if _active is not None:
        _active.step()


@contextmanager
def record(
    output: StrPath, name: str = "recorded", skip: int = SKIP, steps: int = STEPS
) -> Iterator[None]:
    """Records what is done with CUDA graphs within it, and writes the run bundle ``output/name``.

    Args:
        output: the folder of the experiment; made if needed.
        name: the run's name in it.
        skip: steps that pass before the traced window, counted anew after each capture.
        steps: steps in the traced window, each synchronised; 0 for none.

    Raises:
        InputError: a run of that name is there already.
        GraphvizDashError: this process is recorded already, or the bundle cannot be written.
        MissingRequirementError: torch sees no CUDA device.
    """
    global _active  # noqa: PLW0603  # one recorder in a process: torch has one CUDAGraph
    import torch

    from collectors.program.bundle import Program, check_free, write_run
    from collectors.program.files import Settings
    from collectors.program.recorder import ProgramRecorder, write_failure

    if _active is not None:
        raise GraphvizDashError("This process is recorded already.")
    if not torch.cuda.is_available():
        raise MissingRequirementError("Recording needs a CUDA GPU, and torch sees none.")
    target = check_free(Path(output), name)
    target.parent.mkdir(parents=True, exist_ok=True)
    with Staging(target.parent, "record") as staging:
        folder = staging.path
        recorder = ProgramRecorder(Settings(skip=skip, window=steps), folder)
        try:
            with recorder.recording(), ExitStack() as ending:
                _active = recorder
                ending.push(lambda _kind, error, _trace: write_failure(folder, error))
                yield
        finally:
            _active = None
            arguments = tuple(sys.argv)
            write_run(folder, target, Program(arguments, Path(sys.argv[0]).name, None))


def begin() -> None:
    """The hook: records this process until it ends, into a folder of its own."""
    global _active  # noqa: PLW0603  # as above
    from collectors.program.files import Settings
    from collectors.program.launcher import scratch_folder, settings
    from collectors.program.recorder import ProgramRecorder

    if _active is not None:
        return
    folder = scratch_folder() / str(os.getpid())
    folder.mkdir()
    _active = ProgramRecorder(msgspec.json.decode(settings(), type=Settings), folder)
    context = _active.recording()
    context.__enter__()
    atexit.register(_end, context, folder, os.getpid())
    os.register_at_fork(after_in_child=_active.forked)


def _end(context: AbstractContextManager[None], folder: Path, pid: int) -> None:
    from collectors.program.recorder import write_failure

    # A forked child inherits the registration, not the recording.
    if os.getpid() != pid:
        return
    # Python leaves here what ended the program, after it has printed it.
    write_failure(folder, getattr(sys, "last_value", None))
    context.__exit__(None, None, None)
