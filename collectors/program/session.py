"""Recording a program from inside it: :func:`record` and :func:`step`, and the hook that
``graphviz-dash collect -- python train.py`` puts into each process.

Imports torch only when asked to record.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from graphviz_dash.bundle.staging import Staging
from graphviz_dash.errors import GraphvizDashError, MissingRequirementError

if TYPE_CHECKING:
    from collectors.program.process_watcher import ProcessWatcher

StrPath: TypeAlias = str | os.PathLike[str]

HOOK: Final = "collectors.program.session:begin"
SKIP: Final = 30
"""Steps before the traced window, unless asked otherwise: each gives a time."""
STEPS: Final = 10
"""Steps in the traced window, unless asked otherwise."""

_active: ProcessWatcher | None = None
_NOTHING: Final = nullcontext()


def step() -> None:
    """Says that a step of the program has ended; nothing happens where nothing records.

    Where a program calls it, its steps are these, whatever else looks like one.
    """
    if _active is not None:
        _active.step()


def label(
    name: str, *, real: int | None = None, phase: str | None = None, **key: int
) -> AbstractContextManager[None]:
    """Says that a block of the program is one step, and what of; costs nearly nothing where nothing
    records. Put it around the eager pass that warms up, the capture, the replay and the fallback of
    a step alike::

        with collectors.label("decode", real=len(requests), batch=padded):
            graphs[padded].replay()

    Args:
        name: the family: graphs under one name differ by their key alone.
        real: the size that was asked for, before padding.
        phase: ``prefill``, ``decode`` or ``mixed``.
        key: the numbers by which the family's graphs differ; the first is the padded size.
    """
    scope = _active.label((name, real, phase, *key.items())) if _active is not None else None
    return scope if scope is not None else _NOTHING


@contextmanager
def record(
    output: StrPath, name: str = "recorded", skip: int = SKIP, steps: int = STEPS
) -> Iterator[None]:
    """Records what is done with CUDA graphs within it, and writes the run bundle ``output/name``.

    A forked child that leaves the block writes nothing.

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
    global _active  # noqa: PLW0603  # one watcher in a process: torch has one CUDAGraph
    import torch

    from collectors.guard import Guard
    from collectors.program.bundle import Program, check_free, write_run
    from collectors.program.files import ProcessFolder, Settings
    from collectors.program.process_watcher import ProcessWatcher

    if _active is not None:
        raise GraphvizDashError("This process is recorded already.")
    if not torch.cuda.is_available():
        raise MissingRequirementError("Recording needs a CUDA GPU, and torch sees none.")
    target = check_free(Path(output), name)
    target.parent.mkdir(parents=True, exist_ok=True)
    pid = os.getpid()
    with Staging(target.parent, "record") as staging:
        folder = ProcessFolder(staging.path)
        watcher = ProcessWatcher(Settings(skip=skip, window=steps), folder)
        _mind_forks()

        def write() -> None:
            if os.getpid() == pid:
                program = Program(tuple(sys.argv), Path(sys.argv[0]).name, None)
                write_run(folder.path, target, program)

        def forget() -> None:
            global _active  # noqa: PLW0603  # as above
            _active = None

        def write_guarded() -> None:
            with Guard():
                write()

        with ExitStack() as failed:
            # The program's own error goes before any of ours.
            failed.callback(write_guarded)
            with ExitStack() as end:
                end.callback(forget)
                end.enter_context(watcher.watching())
                _active = watcher
                yield
            failed.pop_all()
        write()


def begin() -> None:
    """The hook: records this process until it ends, into a folder of its own, and those that are
    forked from it and capture."""
    global _active  # noqa: PLW0603  # as above
    from collectors.program.files import ProcessFolder, Settings
    from collectors.program.launcher import scratch_folder, settings
    from collectors.program.process_watcher import ProcessWatcher

    if _active is not None:
        return
    import torch

    if torch.version.cuda is None:
        raise MissingRequirementError("this torch was not built for CUDA")
    scratch = scratch_folder()

    def follow() -> ProcessFolder:
        return ProcessFolder.new(scratch)

    def mind_end() -> None:
        _finish_at_exit(watcher)

    asked = msgspec.json.decode(settings(), type=Settings)
    watcher = ProcessWatcher(asked, ProcessFolder.new(scratch), follow, mind_end)
    # To the end of the process: threads may capture and replay while it comes.
    watcher.start()
    _active = watcher
    _mind_forks()
    _finish_at_exit(watcher)


def _finish_at_exit(watcher: ProcessWatcher) -> None:
    """Lets ``watcher`` finish when this process ends, and not when one does that it forks. Called
    again in a process that multiprocessing has started: its own end is known only then, and what
    was registered for it before is forgotten."""
    pid = os.getpid()

    def finish() -> None:
        if os.getpid() == pid:
            # Python leaves here what ended the program, after it has printed it.
            watcher.ended_by(getattr(sys, "last_value", None))
            watcher.finish()

    atexit.register(finish)
    processes = sys.modules.get("multiprocessing.process")
    util = sys.modules.get("multiprocessing.util")
    if processes is not None and util is not None and processes.parent_process() is not None:
        # multiprocessing ends its children without Python's own end; the last of its finalizers.
        util.Finalize(None, finish, exitpriority=-(1 << 30))


_forks_minded = False


def _mind_forks() -> None:
    """Tells the watcher that is active when this process is forked."""
    global _forks_minded  # noqa: PLW0603  # a registration cannot be taken back
    if not _forks_minded:
        _forks_minded = True
        os.register_at_fork(after_in_child=_forked)


def _forked() -> None:
    if _active is not None:
        _active.forked()
